//! A database that is gone for a while, or comes back as another one.

use std::thread;

use futures_executor::block_on;
use store::{DatabaseReads, DatabaseUrl, LongReads, Options, StoreError, StoreFunctions};

use crate::copied::{data_of, options, turn};
use crate::db;
use crate::relayed::Relayed;

impl Relayed {
    /// Ends the sessions of all reads.
    fn end_sessions(&self, database: &str) {
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        self.copied.cluster.run_sql(database, &[end]).unwrap();
    }

    /// Reads are refused by this sentence; whether they may be tried again.
    #[track_caller]
    fn need_refused(&self, said: &str, is_retryable: bool) {
        for found in self.read_all() {
            let refused = found.unwrap_err();
            let is_meant = match refused {
                StoreError::Unreachable { .. } => is_retryable,
                StoreError::DatabaseUnfit(_) => !is_retryable,
                _ => false,
            };
            assert!(is_meant, "{refused:?}");
            assert_eq!(refused.is_retryable(), is_retryable, "{refused:?}");
            assert!(refused.to_string().contains(said), "{refused}");
        }
        let (_, error) = self.reads.outage().unwrap();
        assert!(error.to_string().contains(said), "{error}");
    }

    /// Sooner or later: it is tried again after a pause.
    fn wait_for_answers(&self) {
        while self.read_all().iter().any(Result::is_err) {}
        assert_eq!(self.reads.outage(), None);
    }
}

#[test]
fn reads_go_on_by_themselves_when_the_database_is_back() {
    let _turn = turn();
    let relayed = Relayed::new("back");
    relayed.need_answers();
    for _ in 0..3 {
        relayed.relay.cut();
        relayed.need_refused("No host takes writes", true);
        relayed.relay.go_on();
        relayed.wait_for_answers();
    }
    // What ended while it was idle is no caller's concern.
    for _ in 0..5 {
        relayed.end_sessions("back");
        relayed.need_answers();
        relayed.need_long_answer();
    }
    assert_eq!(relayed.reads.promotions(), 0);
}

#[test]
fn a_database_that_went_back_or_holds_another_store_is_refused() {
    let _turn = turn();
    let relayed = Relayed::new("went_back");
    relayed.need_answers();
    let set = |what: &str| {
        let sql = format!("UPDATE tidemark.meta SET {what}");
        relayed
            .copied
            .cluster
            .run_sql("went_back", &[&sql])
            .unwrap();
        relayed.end_sessions("went_back");
    };
    for (away, back, said) in [
        ("mark = mark - 1", "mark = mark + 1", "and was seen at"),
        (
            "lineage = lineage || 'x'",
            "lineage = rtrim(lineage, 'x')",
            "in place of",
        ),
    ] {
        set(away);
        relayed.need_refused(said, false);
        set(back);
        relayed.wait_for_answers();
    }
}

#[test]
fn a_connection_is_admitted_however_long_its_primary_takes_to_say_how_it_stands() {
    let _turn = turn();
    let relayed = Relayed::new("admitted");
    // Longer than a short read may take.
    let slow = [
        "ALTER TABLE tidemark.meta RENAME TO standing",
        "CREATE VIEW tidemark.meta AS SELECT * FROM tidemark.standing \
         WHERE pg_sleep(0.1) IS NOT NULL",
    ];
    relayed.copied.cluster.run_sql("admitted", &slow).unwrap();
    let url = DatabaseUrl::parse(&relayed.copied.cluster.url("admitted")).unwrap();
    let hurried = Options {
        long_reads: LongReads {
            after_us: 1,
            ..db::LONG_READS
        },
        ..options(&url)
    };
    let keys = data_of(&relayed.copied.directory);
    let reads = DatabaseReads::open(&hurried, None, &keys).unwrap();
    assert_eq!(block_on(reads.deployments(1)), Ok(Vec::new()));
    assert_eq!(reads.outage(), None);
}

#[test]
fn reads_need_no_right_but_to_read() {
    let _turn = turn();
    let relayed = Relayed::new("rights");
    let given = [
        "CREATE ROLE reader LOGIN",
        "GRANT USAGE ON SCHEMA tidemark TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA tidemark TO reader",
    ];
    relayed.copied.cluster.run_sql("rights", &given).unwrap();
    let url = relayed.copied.cluster.url("rights");
    let url = url.replacen("//tidemark@", "//reader@", 1);
    let url = DatabaseUrl::parse(&url).unwrap();
    let keys = data_of(&relayed.copied.directory);
    let reads = DatabaseReads::open(&options(&url), None, &keys).unwrap();
    assert_eq!(block_on(reads.deployments(1)), Ok(Vec::new()));
}

#[test]
fn reads_share_the_connections_that_a_server_has_room_for() {
    let _turn = turn();
    let relayed = Relayed::new("crowded");
    let prepared = [
        "CREATE ROLE crowd LOGIN CONNECTION LIMIT 2",
        "ALTER TABLE tidemark.deployment RENAME TO slowly",
        "CREATE VIEW tidemark.deployment AS SELECT * FROM tidemark.slowly \
         WHERE (SELECT pg_sleep(0.05)) IS NOT NULL",
        "GRANT USAGE ON SCHEMA tidemark TO crowd",
        "GRANT SELECT ON ALL TABLES IN SCHEMA tidemark TO crowd",
    ];
    relayed
        .copied
        .cluster
        .run_sql("crowded", &prepared)
        .unwrap();
    let url = relayed.copied.cluster.url("crowded");
    let url = url.replacen("//tidemark@", "//crowd@", 1);
    let url = DatabaseUrl::parse(&url).unwrap();
    let keys = data_of(&relayed.copied.directory);
    let reads = DatabaseReads::open(&options(&url), None, &keys).unwrap();
    thread::scope(|scope| {
        let read = || block_on(reads.deployments(1));
        let all: Vec<_> = (0..8).map(|_| scope.spawn(read)).collect();
        for one in all {
            assert_eq!(one.join().unwrap(), Ok(Vec::new()));
        }
    });
    assert_eq!(reads.outage(), None);
}
