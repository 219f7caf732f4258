//! How a store is opened that no server serves.

use std::path::PathBuf;

use engine::{Durability, LongReads};
use model::TableOptions;

use crate::http::wire::{encode_page, encode_row};

/// Rows of a page when a query names no limit (wire protocol 1.5).
pub const PAGE_ROWS_DEFAULT: u32 = 25;
/// Most page cache of each reading thread; it grows as pages are read. The benchmark's table with
/// its index takes 18 MB: with 16 MiB a scan of it found nothing in the cache and took twice as
/// long.
const READER_CACHE_BYTES: u64 = 32 << 20;
/// How reads of the command line are run: it asks one thing at a time.
const LONG_READS: LongReads = LongReads {
    after_us: LONG_READ_US,
    threads: 1,
    waiting_max: LONG_READS_WAITING_MAX,
};
/// After how many microseconds a read is long (design page, HTTP): some 250 point reads, or 30
/// lists by an index, could have been answered meanwhile.
pub const LONG_READ_US: u64 = 1_000;
/// Long reads that may wait for a thread. Each holds a request; at 10 ms each, which a capped
/// total takes, four threads work this off in under a second.
pub const LONG_READS_WAITING_MAX: usize = 256;
/// How long a server may have been down, in hours: ninety days. A wrong clock is most often years
/// ahead, and a server that rested over a holiday shall start.
pub const DOWNTIME_MAX_H: u32 = 90 * 24;
/// Writes that may wait for a commit; each holds a row or a batch of at most 100.
const WRITES_WAITING_MAX: usize = 4_096;

/// How the command line opens a store that no server holds: for administration only.
pub fn offline_engine(directory: PathBuf) -> engine::Config {
    engine::Config {
        directory,
        durability: Durability::Full,
        reader_cache_bytes: READER_CACHE_BYTES,
        read_limit_ms: 10_000,
        long_reads: LONG_READS,
        page_rows_default: PAGE_ROWS_DEFAULT,
        page_rows_max: PAGE_ROWS_DEFAULT,
        answer_bytes_max: usize::MAX,
        total_cap: 0,
        list_cache_bytes: 0,
        writes_waiting_max: WRITES_WAITING_MAX,
        accept_clock: false,
        downtime_max_us: hours_us(DOWNTIME_MAX_H),
        quotas: engine::Quotas::NONE,
        new_tables: TableOptions::default(),
        encode_row,
        encode_page,
    }
}

/// Hours in microseconds.
pub fn hours_us(hours: u32) -> i64 {
    i64::from(hours) * 3_600 * 1_000_000
}
