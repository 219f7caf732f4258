//! A network that goes silent holds no read for ever.

use futures_executor::block_on;
use model::Selection;
use query::Visibility;
use store::{DatabaseReads, DatabaseUrl, Options, Point, StoreError, StoreFunctions, StoreReads};
use testing_postgres::Relay;

use crate::copied::{Copied, data_of, options, turn};
use crate::db::{self, Db, Directory, note};

/// How long a read may take, in milliseconds.
const LIMIT_MS: u64 = 500;

struct Relayed {
    copied: Copied,
    relay: Relay,
    reads: DatabaseReads,
}

impl Relayed {
    fn new(database: &str) -> Relayed {
        let directory = Directory::new();
        let mut db = Db::with_notes(&directory);
        db.ok(vec![db.insert("n1", note("first"))]);
        db.close();
        let copied = Copied::new(directory, database);
        let relay = Relay::start(&copied.cluster).unwrap();
        let url = DatabaseUrl::parse(&relay.url(database)).unwrap();
        let hurried = Options {
            read_limit_ms: LIMIT_MS,
            ..options(&url)
        };
        let reads = DatabaseReads::open(&hurried, None, &data_of(&copied.directory)).unwrap();
        Relayed {
            copied,
            relay,
            reads,
        }
    }

    /// A point, a list and what stands beside rows.
    fn read_all(&self) -> [Result<usize, StoreError>; 3] {
        let db = &self.copied.db;
        let (table, epoch) = (db.table(), db.catalogue.epoch);
        let point = Point {
            table: &table,
            id: &db::row_id("n1"),
            selection: &Selection::All,
            visibility: &Visibility::Everything,
            at: None,
            shows_span: false,
            catalogue_epoch: epoch,
        };
        let point = block_on(self.reads.get(point));
        let all = db.all();
        let listed = block_on(self.reads.list(db::listing(&all, epoch)));
        let deployments = block_on(self.reads.deployments(1));
        [
            point.map(|found| usize::from(found.answer.is_some())),
            listed.map(|found| found.answer.rows.len()),
            deployments.map(|found| found.len()),
        ]
    }

    /// A busy machine may hold up a short read, too.
    #[track_caller]
    fn need_answers(&self) {
        let stopped = StoreError::Timeout { limit_ms: LIMIT_MS };
        loop {
            let found = self.read_all();
            if found.iter().all(|one| one.as_ref() != Err(&stopped)) {
                return assert_eq!(found, [Ok(1), Ok(1), Ok(0)]);
            }
        }
    }
}

#[test]
fn reads_over_a_silent_network_end_at_their_limit_and_go_on_after_it() {
    let _turn = turn();
    let relayed = Relayed::new("silent");
    let stopped = || Err(StoreError::Timeout { limit_ms: LIMIT_MS });
    relayed.need_answers();
    for _ in 0..2 {
        relayed.relay.go_silent();
        // On a connection that was there, and on those that are made meanwhile.
        assert_eq!(relayed.read_all(), [stopped(), stopped(), stopped()]);
        relayed.relay.go_on();
        relayed.need_answers();
    }
}

#[test]
fn connections_that_went_silent_are_replaced_and_others_are_kept() {
    let _turn = turn();
    let relayed = Relayed::new("replaced");
    relayed.need_answers();
    relayed.need_answers();
    let before = relayed.relay.connections();
    relayed.relay.go_silent();
    assert!(relayed.read_all()[0].is_err());
    relayed.relay.go_on();
    relayed.need_answers();
    let after = relayed.relay.connections();
    assert!(after > before, "{before} {after}");
}
