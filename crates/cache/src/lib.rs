//! A bounded in-memory cache and the single flight in front of it.
//!
//! Pure: no clock, no thread, no I/O. It never compares a key by itself beyond `Eq`, never says
//! what is still true, and knows nothing of lists, rows or wires. Waiting is the caller's
//! business: a flight is a state machine that threads may wait on and tasks may poll.

mod fingerprint;
mod flight;
mod map;

pub use fingerprint::fingerprint;
pub use flight::Flight;
pub use map::{Bounds, WeightedMap};
