//! How many processes were started, how they ended and what they hold, for whatever watches.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The counts of an executor, which any thread may read.
#[derive(Debug, Default)]
pub struct ExecutorCounts {
    by_runtime: Mutex<BTreeMap<String, RuntimeCounts>>,
}

/// The processes of one runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeCounts {
    /// That were started.
    pub starts: u64,
    /// That have ended, by the word for why.
    pub ends: BTreeMap<&'static str, u64>,
    /// How often another start had to wait because of how processes had ended.
    pub start_pauses: u64,
    /// Connections to addresses that functions may not reach.
    pub refused_connections: u64,
    /// As last looked at.
    pub level: RuntimeLevel,
}

/// What the deployments of one runtime have at one instant, looked at ten times a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeLevel {
    /// Processes, those that start and end included.
    pub processes: usize,
    /// Resident bytes of all of them.
    pub memory_bytes: u64,
    /// Runs that wait for a process.
    pub waiting: usize,
}

impl ExecutorCounts {
    /// By the id of the runtime, as its deployments name it.
    pub fn read(&self) -> BTreeMap<String, RuntimeCounts> {
        self.lock().clone()
    }

    pub(crate) fn started(&self, runtime: &str) {
        let mut all = self.lock();
        all.entry(runtime.to_owned()).or_default().starts += 1;
    }

    pub(crate) fn ended(&self, runtime: &str, why: &'static str) {
        let mut all = self.lock();
        let counts = all.entry(runtime.to_owned()).or_default();
        *counts.ends.entry(why).or_default() += 1;
    }

    pub(crate) fn paused(&self, runtime: &str) {
        let mut all = self.lock();
        all.entry(runtime.to_owned()).or_default().start_pauses += 1;
    }

    pub(crate) fn refused(&self, runtime: &str) {
        let mut all = self.lock();
        all.entry(runtime.to_owned())
            .or_default()
            .refused_connections += 1;
    }

    /// Replaces all levels; a runtime that is not named has nothing.
    pub(crate) fn set_levels(&self, levels: &BTreeMap<&str, RuntimeLevel>) {
        let mut all = self.lock();
        for (runtime, counts) in &mut *all {
            counts.level = levels.get(runtime.as_str()).copied().unwrap_or_default();
        }
        for (runtime, level) in levels {
            if !all.contains_key(*runtime) {
                all.entry((*runtime).to_owned()).or_default().level = *level;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, RuntimeCounts>> {
        // Each step on it leaves it whole.
        self.by_runtime
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executor_counts_add_up_and_levels_are_replaced() {
        let counts = ExecutorCounts::default();
        counts.started("node-20.0");
        counts.started("node-20.0");
        counts.ended("node-20.0", "retired");
        let level = RuntimeLevel {
            processes: 1,
            memory_bytes: 50,
            waiting: 2,
        };
        counts.set_levels(&BTreeMap::from([
            ("node-20.0", level),
            ("python-3.11", level),
        ]));
        let read = counts.read();
        let node = &read["node-20.0"];
        assert_eq!(
            (node.starts, node.ends["retired"], node.level),
            (2, 1, level)
        );
        assert_eq!(read["python-3.11"].level, level);
        counts.set_levels(&BTreeMap::new());
        let read = counts.read();
        assert_eq!(read["node-20.0"].level, RuntimeLevel::default());
        assert_eq!(read["node-20.0"].starts, 2);
    }
}
