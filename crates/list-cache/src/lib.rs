//! Cached lists: what names one, how long it may be served, and who may fill it.
//!
//! Pure: time comes in as milliseconds, chance not at all. It knows nothing of SQL, of HTTP, or
//! of how a page is encoded; a body is bytes to it.

mod fill;
mod key;
mod ttl;

pub use cache::fingerprint;
pub use fill::{Joined, Lookup, Ticket};
pub use key::{Family, Key, Part};
pub use ttl::{ListCache, Rows, Total};
