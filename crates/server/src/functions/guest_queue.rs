//! Whose the executions of guests are that wait in the queue: one address cannot fill what all
//! guests share, such as by starts that it names for years ahead.
//!
//! Only this process knows. What waits over a restart counts for no address; the guests' part of
//! the queue bounds it then.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::Engine;

use crate::http::limits::guest_executions::GuestExecution;
use crate::http::limits::rate::group;

/// For one address it is looked no more often for executions that are gone: each look reads all
/// that it has.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// An execution: [`model::Function::seq`] and its id.
type QueuedName = (i64, String);

/// The executions of guests that wait or run without a caller.
#[derive(Default)]
pub struct GuestQueue {
    held: Mutex<HashMap<QueuedName, GuestExecution>>,
    /// By network; those of the last [`LOOK_EVERY`].
    looks: Mutex<HashMap<u128, Instant>>,
}

impl GuestQueue {
    /// Counts an execution for its address until it is released.
    pub fn hold(&self, function: i64, id: &str, execution: GuestExecution) {
        self.lock().insert((function, id.to_owned()), execution);
    }

    /// It has ended, or was not queued.
    pub fn release(&self, function: i64, id: &str) {
        self.lock().remove(&(function, id.to_owned()));
    }

    /// Releases those of an address that are gone without an end: deleted by a key, or with their
    /// function. True if there may be room now.
    pub async fn release_gone(&self, engine: &Engine, address: IpAddr) -> bool {
        let network = group(address);
        if !self.may_look(network) {
            return false;
        }
        let of_address: Vec<QueuedName> = {
            let held = self.lock();
            let of_address = held.iter().filter(|(_, held)| held.network() == network);
            of_address.map(|(name, _)| name.clone()).collect()
        };
        let mut has_room = false;
        for (function, id) in of_address {
            // Where the store fails it goes on counting.
            if let Ok(false) = engine.has_queued(function, &id).await {
                self.release(function, &id);
                has_room = true;
            }
        }
        has_room
    }

    fn may_look(&self, network: u128) -> bool {
        let now = Instant::now();
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.retain(|_, last| now.saturating_duration_since(*last) < LOOK_EVERY);
        if looks.contains_key(&network) {
            return false;
        }
        looks.insert(network, now);
        true
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<QueuedName, GuestExecution>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
