//! What runs of the queue at this moment, and how much of it may.
//!
//! No project has more in flight than is left free for others: one whose executions take long never
//! stops those of the rest, and where many are like that, each has an equal part.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::ProjectId;
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
    pub project: ProjectId,
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

    /// Projects of which no more is started now.
    pub fn crowded_projects(&self) -> Vec<ProjectId> {
        let flights = self.lock();
        let mut counts: HashMap<&ProjectId, usize> = HashMap::new();
        for flight in flights.values() {
            *counts.entry(&flight.project).or_default() += 1;
        }
        let free = IN_FLIGHT_MAX.saturating_sub(flights.len());
        counts.retain(|_, count| *count >= free);
        counts.into_keys().cloned().collect()
    }

    /// Counts an execution that was started as one in flight; false where its project has no room
    /// for what its handler is given.
    pub fn admit(&self, seq: i64, flight: QueuedFlight) -> bool {
        let mut flights = self.lock();
        let (mut all, mut own) = (0, 0);
        for other in flights.values() {
            all += other.bytes;
            if other.project == flight.project {
                own += other.bytes;
            }
        }
        // The first one always has, or what is largest would never run.
        let free = IN_FLIGHT_BYTES_MAX.saturating_sub(all + flight.bytes);
        let fits = own == 0 || own + flight.bytes <= free;
        if fits {
            flights.insert(seq, flight);
        }
        fits
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

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(project: usize, bytes: usize) -> QueuedFlight {
        QueuedFlight {
            function: project as i64,
            project: ProjectId::new(&format!("p{project}")).unwrap(),
            bytes,
        }
    }

    /// Lets each project start all that it may, in turn; how many of each are in flight.
    fn filled(projects: usize, bytes: usize) -> Vec<usize> {
        let runs = QueuedRuns::default();
        let mut counts = vec![0; projects];
        for seq in 0..10_000 {
            let project = seq % projects;
            let one = flight(project, bytes);
            let is_passed = runs.crowded_projects().contains(&one.project);
            if runs.room() > 0 && !is_passed && runs.admit(seq as i64, one) {
                counts[project] += 1;
            }
        }
        counts
    }

    #[test]
    fn flights_of_a_project_leave_as_many_free() {
        assert_eq!(filled(1, 0), [128]);
        assert_eq!(filled(2, 0), [86, 85]);
        assert!(filled(8, 0).iter().all(|count| (28..=29).contains(count)));
    }

    #[test]
    fn flights_of_a_project_leave_as_many_bytes_free() {
        const MIB: usize = 1 << 20;
        assert_eq!(filled(1, 10 * MIB), [3]);
        assert_eq!(filled(1, MIB), [32]);
        assert_eq!(filled(2, MIB), [21, 21]);
        // What is larger than the bound runs alone.
        assert_eq!(filled(1, 100 * MIB), [1]);
    }
}
