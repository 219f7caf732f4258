use std::sync::atomic::AtomicUsize;

use futures_executor::block_on;
use testing_postgres::Cluster;

use super::*;
use crate::postgres::address::DatabaseUrl;
use crate::{DatabaseStore, Durability, LongReads, StoreFunctions};

fn reads_of(url: &DatabaseUrl, read_limit_ms: u64) -> DatabaseReads {
    let options = Options {
        place: StorePlace::from(url.clone()),
        durability: Durability::Normal,
        encode_row: |_, _, _| {},
        reader_cache_bytes: 0,
        read_limit_ms,
        long_reads: LongReads {
            after_us: read_limit_ms * 1_000,
            threads: 1,
            waiting_max: 1,
        },
        vfs: None,
    };
    DatabaseReads::open(&options, None, Path::new("unused")).unwrap()
}

/// Of a database that no connection goes to.
fn reads(read_limit_ms: u64) -> DatabaseReads {
    let nowhere = DatabaseUrl::parse("postgres://nobody@127.0.0.1:1/nowhere").unwrap();
    reads_of(&nowhere, read_limit_ms)
}

/// In so many tries a failed statement is noticed by the next one alone.
struct UnreadFailures(AtomicUsize);

impl DatabaseRead for UnreadFailures {
    type Answer = ();

    fn may_be_short(&self) -> bool {
        true
    }

    fn read<'a>(
        &'a self,
        _: &'a SharedReads,
        lent: &'a mut LentConnection,
        _: ReadPace,
    ) -> ReadFuture<'a, ()> {
        Box::pin(async move {
            lent.begin();
            let client = lent.client();
            client.batch_execute("BEGIN").await?;
            let tries = self.0.load(Ordering::Relaxed);
            if tries > 0 {
                self.0.store(tries - 1, Ordering::Relaxed);
                drop(client.batch_execute("SELECT * FROM absent").await);
            }
            client.batch_execute("SELECT 1; COMMIT").await?;
            lent.end();
            Ok(())
        })
    }
}

#[test]
fn a_read_that_missed_the_error_of_its_transaction_begins_again() {
    let cluster = Cluster::shared().unwrap();
    let make = "CREATE DATABASE unread";
    cluster.run_sql("postgres", &[make]).unwrap();
    let url = DatabaseUrl::parse(&cluster.url("unread")).unwrap();
    DatabaseStore::open(&url, None).unwrap().close();
    let limit_ms = 3_600_000;
    let reads = reads_of(&url, limit_ms);
    let read = |tries| block_on(reads.run(UnreadFailures(AtomicUsize::new(tries)), false));
    // A short one and a long one.
    assert_eq!(read(2), Ok(()));
    assert_eq!(read(3), Err(StoreError::Timeout { limit_ms }));
    assert_eq!(read(0), Ok(()));
}

/// How long a transaction of a read may wait for its next statement, and a statement for a lock.
struct Limits;

impl DatabaseRead for Limits {
    type Answer = String;

    fn may_be_short(&self) -> bool {
        true
    }

    fn read<'a>(
        &'a self,
        _: &'a SharedReads,
        lent: &'a mut LentConnection,
        _: ReadPace,
    ) -> ReadFuture<'a, String> {
        Box::pin(async move {
            let show = "SELECT current_setting('idle_in_transaction_session_timeout') || ' '
                        || current_setting('lock_timeout')";
            Ok(lent.client().query_one(show, &[]).await?.try_get(0)?)
        })
    }
}

#[test]
fn a_read_that_is_slow_here_ends_by_its_own_limit() {
    let cluster = Cluster::shared().unwrap();
    let make = "CREATE DATABASE slow_here";
    cluster.run_sql("postgres", &[make]).unwrap();
    let url = DatabaseUrl::parse(&cluster.url("slow_here")).unwrap();
    DatabaseStore::open(&url, None).unwrap().close();
    let reads = reads_of(&url, 59_000);
    assert_eq!(block_on(reads.run(Limits, false)).unwrap(), "1min 0");
    let long = block_on(reads.apart(Limits, false).unwrap()).unwrap();
    assert_eq!(long, "1min 0");
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
