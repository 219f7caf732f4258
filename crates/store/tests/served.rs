//! How writes to a store in PostgreSQL go on when the database was gone, and how commits end of
//! which it did not say so.

#[path = "suite/db.rs"]
#[allow(dead_code, reason = "written for the conformance suite, too")]
mod db;

use std::path::Path;
use std::sync::Arc;

use db::{COUNT, Db, PROJECT, Place, note, options};
use futures_executor::block_on;
use model::{Mark, ProjectId, Timestamp, Value};
use store::staged::Bound;
use store::{
    Committed, DatabaseStore, DatabaseUrl, InDoubt, Op, Options, Share, Store, StoreError,
    StorePlace, TransactionOp, WriteBatch,
};
use testing::OwnTurn;
use testing_postgres::{Cluster, Relay};

/// A database of a test's own, by way of a relay.
struct Relayed {
    cluster: Arc<Cluster>,
    relay: Relay,
    database: &'static str,
    keys: tempfile::TempDir,
}

impl Relayed {
    fn new(database: &'static str) -> Relayed {
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
    fn sql(&self, sql: &str) -> String {
        let path = "SET search_path = tidemark";
        let found = self.cluster.run_sql(self.database, &[path, sql]).unwrap();
        found.trim_end().to_owned()
    }

    /// Whenever a row of this table is committed, this happens at the end of the transaction.
    fn at_commit(&self, table: &str, act: &str) {
        self.sql(&format!(
            "CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN {act}; RETURN NULL; END $$; \
             CREATE CONSTRAINT TRIGGER late AFTER INSERT ON {table} DEFERRABLE INITIALLY DEFERRED \
             FOR EACH ROW EXECUTE FUNCTION act()"
        ));
    }

    fn nothing_at_commit(&self) {
        self.sql("DROP FUNCTION act() CASCADE");
    }
}

impl Place for Relayed {
    fn open(&self) -> Arc<dyn Store> {
        let url = DatabaseUrl::parse(&self.relay.url(self.database)).unwrap();
        let keys: &Path = self.keys.path();
        let options = Options {
            place: StorePlace::from(url.clone()),
            ..options(keys)
        };
        let store = DatabaseStore::open(&url, None).unwrap();
        store.serve(&options, None, keys).unwrap()
    }
}

/// Writes until the database takes it.
fn write_once_back(db: &mut Db, batch: &WriteBatch) {
    loop {
        match db.try_commit(std::slice::from_ref(batch)) {
            Ok(outcomes) => return assert!(outcomes[0].is_ok(), "{outcomes:?}"),
            Err(error) => assert!(!matches!(error, StoreError::Corrupt { .. }), "{error:?}"),
        }
    }
}

#[test]
fn writes_go_on_by_themselves_when_the_database_is_back() {
    let place = Relayed::new("served_back");
    let mut db = Db::with_notes(&place);
    for round in 0..3 {
        let id = format!("n{round}");
        let batch = db.batch(vec![db.insert(&id, note(&id))]);
        place.relay.cut();
        let refused = db.try_commit(std::slice::from_ref(&batch));
        assert!(refused.is_err(), "{refused:?}");
        assert!(db.try_commit(std::slice::from_ref(&batch)).is_err());
        place.relay.go_on();
        write_once_back(&mut db, &batch);
    }
    // What ended while it was idle is no caller's concern.
    let end = "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity \
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    place.sql(end);
    db.ok(vec![db.insert("last", note("last"))]);
    assert_eq!(place.sql("SELECT count(*) FROM t1"), "4");
    assert_eq!(db.load().mark, Mark(db.next.0 - 1_007));
}

#[test]
fn a_store_that_went_back_is_not_written_to() {
    let place = Relayed::new("served_went_back");
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("a", note("one"))]);
    place.relay.cut();
    place.sql("UPDATE meta SET mark = mark - 1");
    place.relay.go_on();
    let batch = db.batch(vec![db.insert("b", note("two"))]);
    let refused = loop {
        match db.try_commit(std::slice::from_ref(&batch)).unwrap_err() {
            StoreError::Locked { .. } => {}
            error => break error.to_string(),
        }
    };
    assert!(refused.contains("and was seen at"), "{refused}");
    assert_eq!(place.sql("SELECT count(*) FROM t1"), "1");
}

/// Commits a batch of which the database does not say how that ended.
#[track_caller]
fn in_doubt(db: &Db, batch: WriteBatch) -> Box<dyn InDoubt> {
    let pending = block_on(db.store.apply(&[batch], db.next)).unwrap();
    match block_on(pending.commit()) {
        Ok(Committed::Unknown(doubt)) => doubt,
        Ok(Committed::Done(outcomes)) => panic!("{outcomes:?}"),
        Err(error) => panic!("{error:?}"),
    }
}

fn answer(mut doubt: Box<dyn InDoubt>) -> bool {
    loop {
        match block_on(doubt.ask()) {
            Ok(is_done) => {
                assert_eq!(block_on(doubt.ask()), Ok(is_done), "it says so again");
                return is_done;
            }
            Err(StoreError::Locked { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

/// A batch that takes no mark.
fn opens_transaction(db: &Db, id: &str) -> WriteBatch {
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

#[test]
fn a_commit_in_doubt_is_found_done_or_not() {
    let place = Relayed::new("served_in_doubt");
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("a", note("one"))]);
    let count = |db: &Db, number| db.batch(vec![db.update("a", vec![(COUNT, Value::Int(number))])]);
    for (act, is_done) in [
        ("RAISE WARNING 'not replicated'", true),
        ("PERFORM pg_terminate_backend(pg_backend_pid())", false),
    ] {
        place.at_commit("tx", act);
        let doubt = in_doubt(&db, count(&db, 100));
        assert_eq!(doubt.outcomes().len(), 1);
        assert_eq!(answer(doubt), is_done, "{act}");
        place.nothing_at_commit();
        let found = place.sql("SELECT c2 FROM t1");
        assert_eq!(found, if is_done { "100" } else { "1" }, "{act}");
        db.next = Mark(db.next.0 + 1_000);
        db.commit(&[count(&db, 1)]);
        // Without a mark.
        place.at_commit("staged", act);
        let doubt = in_doubt(&db, opens_transaction(&db, "t"));
        assert_eq!(answer(doubt), is_done, "{act}");
        place.nothing_at_commit();
        let found = place.sql("SELECT count(*) FROM staged");
        assert_eq!(found, if is_done { "1" } else { "0" }, "{act}");
        place.sql("DELETE FROM staged");
    }
    assert_eq!(place.sql("SELECT c2 FROM t1"), "1");
}

#[test]
fn a_commit_in_doubt_that_is_left_is_the_last_one() {
    let place = Relayed::new("served_left");
    let mut db = Db::with_notes(&place);
    place.at_commit("tx", "RAISE WARNING 'not replicated'");
    let batch = db.batch(vec![db.insert("a", note("one"))]);
    drop(in_doubt(&db, batch));
    place.nothing_at_commit();
    let batch = db.batch(vec![db.insert("b", note("two"))]);
    assert_eq!(db.try_commit(&[batch]).unwrap_err(), StoreError::Stopped);
    db.close();
}

#[test]
fn an_index_is_built_outside_of_commits() {
    let place = Relayed::new("served_builds");
    let db = Db::with_notes(&place);
    let table = db.table();
    let number = table.indexes[0].number;
    place.sql(&format!("DROP INDEX t1_i{number}"));
    let built = "SELECT count(*) FROM pg_index WHERE indisvalid AND indexrelid = ";
    let built = format!("{built} to_regclass('t1_i{number}')");
    assert_eq!(place.sql(&built), "0");
    block_on(db.store.build(&table, number)).unwrap();
    assert_eq!(place.sql(&built), "1");
    db.close();
}
