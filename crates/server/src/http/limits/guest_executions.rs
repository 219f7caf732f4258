//! How many executions of functions callers without an API key have that have not ended.
//!
//! An execution goes on when its caller goes away, so the bounds of connections and bodies do not
//! hold it. Without a bound of its own one address could fill the queue of every function that
//! guests may execute.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::rate::group;

/// The executions of all addresses.
#[derive(Debug)]
pub struct GuestExecutions {
    executions_max: usize,
    bytes_max: usize,
    /// By network; those that have none are not in it, so it is no larger than what runs and waits.
    held: Mutex<HashMap<u128, HeldExecutions>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct HeldExecutions {
    count: usize,
    bytes: usize,
}

/// An execution among those that its address may have, until it is dropped.
#[derive(Debug)]
pub struct GuestExecution {
    executions: Arc<GuestExecutions>,
    network: u128,
    bytes: usize,
}

impl GuestExecution {
    /// Whose it is, as [`group`] says.
    pub fn network(&self) -> u128 {
        self.network
    }
}

impl GuestExecutions {
    /// None has begun. One address may have so many, with so many bytes of bodies together.
    pub fn new(executions_max: usize, bytes_max: usize) -> Arc<GuestExecutions> {
        Arc::new(GuestExecutions {
            executions_max,
            bytes_max,
            held: Mutex::default(),
        })
    }

    /// Counts an execution with a body of so many bytes.
    ///
    /// # Errors
    /// The sentence that says which bound it is beyond.
    pub fn take(
        self: &Arc<GuestExecutions>,
        address: IpAddr,
        bytes: usize,
    ) -> Result<GuestExecution, String> {
        let network = group(address);
        // Whole after a panic: nothing between the steps on it can fail.
        let mut all = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.get(&network).copied().unwrap_or_default();
        let whose = "executions without an API key that have not ended";
        if before.count >= self.executions_max {
            let most = self.executions_max;
            return Err(format!("This address may have {most} {whose}."));
        }
        if before.bytes.saturating_add(bytes) > self.bytes_max {
            let most = self.bytes_max;
            return Err(format!(
                "This address may have {most} bytes of bodies of {whose}."
            ));
        }
        let now = HeldExecutions {
            count: before.count + 1,
            bytes: before.bytes + bytes,
        };
        all.insert(network, now);
        Ok(GuestExecution {
            executions: self.clone(),
            network,
            bytes,
        })
    }
}

impl Drop for GuestExecution {
    fn drop(&mut self) {
        let held = &self.executions.held;
        let mut all = held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(held) = all.get_mut(&self.network) else {
            return;
        };
        held.count -= 1;
        held.bytes -= self.bytes;
        if held.count == 0 {
            all.remove(&self.network);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn executions_of_an_address_are_bounded_and_those_of_others_are_not() {
        let executions = GuestExecutions::new(3, 100);
        let take = |from: &str, bytes| executions.take(ip(from), bytes);
        let held: Vec<_> = (0..3).map(|_| take("192.0.2.1", 10).unwrap()).collect();
        for same in ["192.0.2.1", "::ffff:192.0.2.1"] {
            let refused = take(same, 0).unwrap_err();
            assert!(refused.contains("may have 3 executions"), "{refused}");
        }
        assert!(take("192.0.2.2", 100).is_ok());
        drop(held);
        assert!(take("192.0.2.1", 100).is_ok());
        assert!(executions.held.lock().unwrap().is_empty());
    }

    #[test]
    fn executions_of_an_address_are_bounded_by_the_bytes_of_their_bodies() {
        let executions = GuestExecutions::new(100, 100);
        let take = |from: &str, bytes| executions.take(ip(from), bytes);
        let held = take("2001:db8:1:2::1", 60).unwrap();
        // The network of 64 bits is one address.
        for bytes in [41, usize::MAX] {
            let refused = take("2001:db8:1:2::9", bytes).unwrap_err();
            assert!(refused.contains("100 bytes of bodies"), "{refused}");
        }
        assert!(take("2001:db8:1:2::9", 40).is_ok());
        assert!(take("2001:db8:1:3::9", 100).is_ok());
        drop(held);
        assert!(take("2001:db8:1:2::9", 100).is_ok());
    }

    #[test]
    fn no_execution_of_guests_is_a_bound_as_well() {
        let executions = GuestExecutions::new(0, 100);
        assert!(executions.take(ip("192.0.2.1"), 0).is_err());
    }
}
