use futures_executor::block_on;

use super::*;
use crate::postgres::address::DatabaseUrl;
use crate::{Durability, LongReads, StoreFunctions};

/// Of a database that no connection goes to.
fn reads(read_limit_ms: u64) -> DatabaseReads {
    let nowhere = DatabaseUrl::parse("postgres://nobody@127.0.0.1:1/nowhere").unwrap();
    let options = Options {
        place: StorePlace::from(nowhere),
        durability: Durability::Normal,
        encode_row: |_, _, _| {},
        reader_cache_bytes: 0,
        read_limit_ms,
        long_reads: LongReads {
            after_us: 1,
            threads: 1,
            waiting_max: 1,
        },
        vfs: None,
    };
    DatabaseReads::open(&options, None, Path::new("unused")).unwrap()
}

#[test]
fn a_read_that_waits_for_others_says_nothing_of_the_database() {
    let reads = reads(1);
    let turn = || block_on(reads.shared.short_ones.turn()).unwrap();
    let others: Vec<_> = (0..SHORT_CONNECTIONS_MAX).map(|_| turn()).collect();
    let stopped = StoreError::Timeout { limit_ms: 1 };
    assert_eq!(block_on(reads.deployments(1)), Err(stopped));
    assert_eq!(reads.outage(), None);
    drop(others);
}
