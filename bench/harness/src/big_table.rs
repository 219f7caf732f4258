//! The table of a million rows: how much is measured on it, and the list that is read of it.

use std::time::Duration;

use measure::connection::Access;
use scenarios::answer;

/// No answer of these takes longer.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How much is measured, and on what.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Rows of the large table.
    pub rows: u32,
    /// Rounds of each contrast.
    pub rounds: u32,
    /// A slice of reads, in milliseconds.
    pub slice_ms: u64,
    /// The least slice beside a change of the schema, in milliseconds.
    pub change_ms: u64,
    /// Longest wait for what goes on in the background after a change.
    pub settle: Duration,
}

/// The published list without its total, read without the cache.
pub fn list(access: &Access) -> Vec<u8> {
    access.uncached(&format!("{}&total=false", answer::route(None)))
}
