//! Cached lists: what names one, when it is still true, who may fill it, and how an answer is put
//! together.
//!
//! Pure: time comes in as milliseconds, chance not at all. It knows nothing of SQL, of HTTP, or
//! of how a page is encoded; a body is bytes to it.
//!
//! An exact list is watched: each commit is asked, before it is visible, which lists it may
//! alter, and takes those away. A list within a `ttl` stays, and learns that it may be stale,
//! unless it shows a row that a caller loses the right to.

mod batch;
mod boundaries;
mod buckets;
mod entry;
mod fetch;
mod fill;
mod group;
mod invalidated;
mod key;
mod lists;
mod names;
mod past_epochs;
mod pinned;
mod purges;
mod rank;
mod registry;
mod request;
mod rules;
mod run;
mod shown;
mod table;
mod watch;
mod weight;

pub use batch::Batch;
pub use boundaries::Next;
pub use cache::fingerprint;
pub use entry::{Freshness, Pinned, Rows};
pub use fetch::{ListFetch, Step};
pub use fill::Fill;
pub use key::{Contract, Family};
pub use lists::{Bounds, ListCache, Withheld};
pub use names::Names;
pub use pinned::PinnedName;
pub use registry::Counts;
pub use request::{Answer, ListRequest, Read, ReadRows};
pub use rules::{Rule, Rules};
pub use run::{Failure, FillOutcome, Waiter};
