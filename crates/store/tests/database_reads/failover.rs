//! A standby takes the place of its primary.

use std::path::Path;

use futures_executor::block_on;
use store::{DatabaseReads, DatabaseStore, DatabaseUrl, StoreFunctions};
use testing_postgres::{Cluster, ClusterEnd, ClusterSettings};

use crate::copied::{options, turn};

#[test]
fn reads_go_on_in_a_standby_that_is_promoted_and_may_be_tried_again_until_then() {
    let _turn = turn();
    let settings = ClusterSettings::default();
    let mut primary = Cluster::start(&settings).unwrap();
    let made = "CREATE DATABASE followed";
    primary.run_sql("postgres", &[made]).unwrap();
    let standby = primary.standby(&settings).unwrap();
    let url = Cluster::url_of(&[&primary, &standby], "followed");
    let url = DatabaseUrl::parse(&url).unwrap();
    DatabaseStore::open(&url, None).unwrap().close();
    let written = primary.run_sql("postgres", &["SELECT pg_current_wal_lsn()"]);
    let behind = format!(
        "SELECT pg_last_wal_replay_lsn() < '{}'::pg_lsn",
        written.unwrap().trim()
    );
    while standby.run_sql("postgres", &[&behind]).unwrap() == "t\n" {}
    let reads = DatabaseReads::open(&options(&url), None, Path::new("unused")).unwrap();
    let read = || block_on(reads.deployments(1));
    assert_eq!(read(), Ok(Vec::new()));
    primary.end(ClusterEnd::Killed);
    for _ in 0..3 {
        let refused = read().unwrap_err();
        assert!(refused.is_retryable(), "{refused:?}");
    }
    standby.promote().unwrap();
    let found = loop {
        match read() {
            Ok(found) => break found,
            Err(refused) => assert!(refused.is_retryable(), "{refused:?}"),
        }
    };
    assert_eq!(found, []);
    assert_eq!(reads.promotions(), 1);
    assert_eq!(reads.outage(), None);
}
