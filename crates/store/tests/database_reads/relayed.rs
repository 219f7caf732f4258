//! Reads of a store with one row, by way of a relay.

use futures_executor::block_on;
use model::{Field, Selection};
use query::{Filter, Pattern, Query, Test, Visibility};
use store::{DatabaseReads, DatabaseUrl, Options, Point, StoreError, StoreFunctions, StoreReads};
use testing_postgres::Relay;

use crate::copied::{Copied, data_of, options};
use crate::db::{self, Db, Directory, TITLE, note};

/// How long a read may take, in milliseconds.
pub const LIMIT_MS: u64 = 500;

pub struct Relayed {
    pub copied: Copied,
    pub relay: Relay,
    pub reads: DatabaseReads,
}

impl Relayed {
    pub fn new(database: &str) -> Relayed {
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
    pub fn read_all(&self) -> [Result<usize, StoreError>; 3] {
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

    /// A list that has a thread for long reads to itself.
    fn read_long(&self) -> Result<usize, StoreError> {
        let pattern = Test::Matches(Pattern::parse("^fir").unwrap());
        let query = Query {
            filter: Filter::Field(Field::Column(TITLE), pattern),
            ..self.copied.db.all()
        };
        let listing = db::listing(&query, self.copied.db.catalogue.epoch);
        block_on(self.reads.list(listing)).map(|found| found.answer.rows.len())
    }

    /// A busy machine may hold it up.
    #[track_caller]
    pub fn need_long_answer(&self) {
        let stopped = Err(StoreError::Timeout { limit_ms: LIMIT_MS });
        let mut found = self.read_long();
        while found == stopped {
            found = self.read_long();
        }
        assert_eq!(found, Ok(1));
    }

    /// A busy machine may hold up a short read, too.
    #[track_caller]
    pub fn need_answers(&self) {
        let stopped = StoreError::Timeout { limit_ms: LIMIT_MS };
        loop {
            let found = self.read_all();
            if found.iter().all(|one| one.as_ref() != Err(&stopped)) {
                return assert_eq!(found, [Ok(1), Ok(1), Ok(0)]);
            }
        }
    }
}
