//! How a store is opened that no server serves.

use engine::{Durability, LongReads, StorePlace};
use model::TableOptions;

use crate::defaults::{
    DOWNTIME_MAX_H, LONG_READ_US, LONG_READS_WAITING_MAX, PAGE_ROWS_DEFAULT, hours_us,
};
use crate::http::wire::{encode_page, encode_row};

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
/// Writes that may wait for a commit; each holds a row or a batch of at most 100.
const WRITES_WAITING_MAX: usize = 4_096;

/// How the command line opens a store that no server holds: for administration only.
pub fn offline_engine(place: StorePlace) -> engine::Config {
    engine::Config {
        place,
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
