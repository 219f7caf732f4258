//! Bounded in-memory caches and the single flight in front of them.
//!
//! Pure: no clock, no thread, no I/O. It never says what is still true, and knows nothing of
//! lists, rows or wires. Waiting is the caller's business: a flight is a state machine that
//! threads may wait on and tasks may poll. A [`ClaimList`] has runs for which, mostly, no caller
//! ever waits.
//!
//! [`WeightedMap`] is for values of Rust, shared by threads. [`ObjectTable`] is for the objects of
//! an interpreter, which run foreign code when they are compared or dropped: it does neither, and
//! belongs to the thread that holds the interpreter's lock or one around it.

mod claims;
mod eviction;
mod fingerprint;
mod flight;
mod ghost;
#[cfg(all(loom, test))]
mod interleavings;
mod map;
mod object_table;
mod short_hash;
mod slots;
mod tag;

pub use claims::{ClaimList, ClaimNumber, ClaimedRun};
pub use fingerprint::fingerprint;
pub use flight::Flight;
pub use map::{Bounds, WeightedMap};
pub use object_table::{
    CANDIDATES_MAX, EntryPlace, NEVER_US, NewEntry, NewestEntry, ObjectTable, ProbedEntries,
    ProbedEntry, Removal, Removed, TableCounters, TableLimits,
};
pub use tag::{TagTokens, Tags};
