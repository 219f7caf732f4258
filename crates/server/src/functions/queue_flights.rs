//! What runs of the queue at this moment, and how much of it may.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Executions of all functions at once: each may hold a body and a response in memory.
const IN_FLIGHT_MAX: usize = 256;
/// Of one function, so that others have their turn.
const OF_ONE_MAX: usize = 64;
/// Bytes of what their handlers are given: beyond, none is started until others have ended.
const IN_FLIGHT_BYTES_MAX: usize = 64 << 20;
/// Started by one commit.
const STARTED_AT_ONCE: usize = 8;
/// A function whose execution was not taken rests so long.
const REST: Duration = Duration::from_secs(1);

/// What runs of the queue.
#[derive(Default)]
pub struct QueuedRuns {
    pub expected: Notify,
    /// By [`engine::QueuedExecution::seq`].
    flights: Mutex<HashMap<i64, QueuedFlight>>,
    /// Until when functions rest, by [`model::Function::seq`].
    resting: Mutex<HashMap<i64, Instant>>,
    pub tasks: tokio::sync::Mutex<JoinSet<()>>,
}

/// An execution that was started and has not ended.
pub struct QueuedFlight {
    /// [`model::Function::seq`].
    pub function: i64,
    /// Of what its handler is given.
    pub bytes: usize,
}

impl QueuedRuns {
    /// Lets what was queued be started soon.
    pub fn expect(&self) {
        self.expected.notify_one();
    }

    pub fn lock(&self) -> MutexGuard<'_, HashMap<i64, QueuedFlight>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn rest(&self, function: i64) {
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        resting.insert(function, Instant::now() + REST);
    }

    /// How many more may be started now.
    pub fn room(&self) -> usize {
        let flights = self.lock();
        let bytes: usize = flights.values().map(|flight| flight.bytes).sum();
        if bytes >= IN_FLIGHT_BYTES_MAX {
            return 0;
        }
        STARTED_AT_ONCE.min(IN_FLIGHT_MAX.saturating_sub(flights.len()))
    }

    /// Functions of which no more is started now.
    pub fn passed_over(&self) -> Vec<i64> {
        let mut counts = HashMap::new();
        for flight in self.lock().values() {
            *counts.entry(flight.function).or_insert(0) += 1;
        }
        counts.retain(|_, count| *count >= OF_ONE_MAX);
        let mut resting = self.resting.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        resting.retain(|_, until| *until > now);
        counts.into_keys().chain(resting.keys().copied()).collect()
    }

    /// Waits for the executions that are in flight to be returned or ended.
    pub async fn finish(&self) {
        let mut tasks = self.tasks.lock().await;
        while tasks.join_next().await.is_some() {}
    }
}
