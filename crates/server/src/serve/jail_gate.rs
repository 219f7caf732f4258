//! How many connections functions may hold to the API. They are counted apart from those of
//! clients: neither takes places from the other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Of all functions together.
pub const JAILED_MAX: usize = 1_024;
/// Of one deployment. A process has room for about as many files.
pub const JAILED_OF_ONE_MAX: usize = 256;

/// By deployment.
type Open = Arc<Mutex<HashMap<i64, usize>>>;

/// Counts the connections from jails.
#[derive(Debug, Default)]
pub struct JailGate {
    open: Open,
}

/// The place of one connection, free again when this is dropped.
#[derive(Debug)]
pub struct JailPlace {
    /// [`engine::Deployment::seq`].
    pub deployment: i64,
    open: Open,
}

impl JailGate {
    /// A place for a connection of this deployment; else the bound that is reached.
    pub fn admit(&self, deployment: i64) -> Result<JailPlace, usize> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.values().sum::<usize>() >= JAILED_MAX {
            return Err(JAILED_MAX);
        }
        let of_one = open.entry(deployment).or_default();
        if *of_one >= JAILED_OF_ONE_MAX {
            return Err(JAILED_OF_ONE_MAX);
        }
        *of_one += 1;
        Ok(JailPlace {
            deployment,
            open: self.open.clone(),
        })
    }

    /// All that are open.
    pub fn open(&self) -> usize {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().sum()
    }
}

impl Drop for JailPlace {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let of_one = open.entry(self.deployment).or_default();
        *of_one = of_one.saturating_sub(1);
        if *of_one == 0 {
            open.remove(&self.deployment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_from_jails_are_bounded_each_and_together() {
        let gate = JailGate::default();
        let mut held = Vec::new();
        for deployment in 0..4 {
            let places = (0..JAILED_OF_ONE_MAX).map(|_| gate.admit(deployment).unwrap());
            held.push(places.collect::<Vec<_>>());
            if deployment < 3 {
                assert_eq!(gate.admit(deployment).unwrap_err(), JAILED_OF_ONE_MAX);
            }
        }
        assert_eq!(gate.open(), JAILED_MAX);
        assert_eq!(gate.admit(9).unwrap_err(), JAILED_MAX);
        held.pop();
        assert_eq!(gate.admit(9).map(|place| place.deployment).unwrap(), 9);
        held.clear();
        assert_eq!(gate.open(), 0);
    }
}
