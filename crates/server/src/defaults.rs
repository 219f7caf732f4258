//! Defaults of settings that a server and a store without a server share.

/// Rows of a page when a query names no limit (wire protocol 1.5).
pub const PAGE_ROWS_DEFAULT: u32 = 25;
/// After how many microseconds a read is long (design page, HTTP): some 250 point reads, or 30
/// lists by an index, could have been answered meanwhile.
pub const LONG_READ_US: u64 = 1_000;
/// Long reads that may wait for a thread. Each holds a request; at 10 ms each, which a capped
/// total takes, four threads work this off in under a second.
pub const LONG_READS_WAITING_MAX: usize = 256;
/// How long a server may have been down, in hours: ninety days. A wrong clock is most often years
/// ahead, and a server that rested over a holiday shall start.
pub const DOWNTIME_MAX_H: u32 = 90 * 24;

/// Hours in microseconds.
pub fn hours_us(hours: u32) -> i64 {
    i64::from(hours) * 3_600 * 1_000_000
}
