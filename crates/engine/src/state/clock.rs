//! Time, as an argument.

use model::Timestamp;

/// The clocks of the machine, given at start. Tests give ones they can set.
pub trait Clock: Send + Sync {
    /// Now, as this machine believes. May step backwards; marks do not.
    fn now(&self) -> Timestamp;

    /// Milliseconds since some fixed instant: never steps, and counts while the machine sleeps.
    fn elapsed_ms(&self) -> u64;

    /// Whether it is the machine's own, so that what the store measured by that one holds.
    fn is_machines(&self) -> bool {
        false
    }

    /// Whether it is moved on purpose: then no step of it is held against it.
    fn is_set(&self) -> bool {
        false
    }
}
