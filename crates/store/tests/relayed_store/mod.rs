//! A store in PostgreSQL by way of a relay, and how its commits end.

// Each test file uses the part it needs.
#![allow(dead_code)]

use std::path::Path;
use std::sync::Arc;

use futures_executor::block_on;
use model::{ProjectId, Timestamp};
use store::staged::Bound;
use store::{
    DatabaseStore, DatabaseUrl, InDoubt, Op, Options, Share, Store, StoreError, StorePlace,
    TransactionOp, WriteBatch,
};
use testing_postgres::{Cluster, Relay};

use crate::db::{Db, PROJECT, Place, options};

/// A database of a test's own, by way of a relay.
pub struct Relayed {
    pub cluster: Arc<Cluster>,
    pub relay: Relay,
    pub database: &'static str,
    pub keys: tempfile::TempDir,
}

impl Relayed {
    pub fn new(database: &'static str) -> Relayed {
        let cluster = Cluster::shared().unwrap();
        let made = format!("CREATE DATABASE {database}");
        cluster.run_sql("postgres", &[&made]).unwrap();
        Relayed {
            relay: Relay::start(&cluster).unwrap(),
            cluster,
            database,
            keys: tempfile::tempdir().unwrap(),
        }
    }

    /// By another session, which is not relayed.
    pub fn sql(&self, sql: &str) -> String {
        let path = "SET search_path = tidemark";
        let found = self.cluster.run_sql(self.database, &[path, sql]).unwrap();
        found.trim_end().to_owned()
    }

    /// Whenever a row of this table is committed, this happens at the end of the transaction.
    pub fn at_commit(&self, table: &str, act: &str) {
        self.sql(&act_at_commit(table, act));
    }

    pub fn nothing_at_commit(&self) {
        self.sql("DROP FUNCTION act() CASCADE");
    }
}

pub fn act_at_commit(table: &str, act: &str) -> String {
    format!(
        "CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN {act}; RETURN NULL; END $$; \
         CREATE CONSTRAINT TRIGGER late AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED \
         FOR EACH ROW EXECUTE FUNCTION act()"
    )
}

pub fn open_at(url: &DatabaseUrl, keys: &Path) -> Arc<dyn Store> {
    let options = Options {
        place: StorePlace::from(url.clone()),
        ..options(keys)
    };
    let store = DatabaseStore::open(url, None).unwrap();
    store.serve(&options, None, keys).unwrap()
}

impl Place for Relayed {
    fn open(&self) -> Arc<dyn Store> {
        let url = DatabaseUrl::parse(&self.relay.url(self.database)).unwrap();
        open_at(&url, self.keys.path())
    }
}

pub fn answer(mut doubt: Box<dyn InDoubt>) -> bool {
    loop {
        match block_on(doubt.ask()) {
            Ok(is_done) => {
                assert_eq!(block_on(doubt.ask()), Ok(is_done), "it says so again");
                return is_done;
            }
            Err(StoreError::Unreachable { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// A batch that takes no mark.
pub fn opens_transaction(db: &Db, id: &str) -> WriteBatch {
    let now = Timestamp(1_767_225_600_000_000);
    db.batch(vec![Op::Transaction(TransactionOp::Create {
        project: ProjectId::new(PROJECT).unwrap(),
        id: id.to_owned(),
        owner: "key:a@1".to_owned(),
        now,
        expires: Timestamp(now.0 + 60_000_000),
        share: Share {
            own: Bound::WHOLE,
            class: Bound::WHOLE,
        },
    })])
}
