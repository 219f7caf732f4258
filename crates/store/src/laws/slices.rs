//! How much is done at once of what no request waits for.

/// Most rows removed or rewritten in one slice (contract of [`crate::StoreUpkeep::run_upkeep`]).
pub(crate) const SLICE_ROWS_MAX: usize = 1_000;
/// So many rows are removed before it is looked how large they were.
pub(crate) const STEP_ROWS: usize = 16;
/// A slice ends with the step in which it has written so many bytes. What is removed is written
/// over, so it counts as well.
pub(crate) const SLICE_BYTES_MAX: usize = 8 << 20;
