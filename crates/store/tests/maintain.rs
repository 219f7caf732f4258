//! The bytes of an erased row leave the files of a database once its tables are rewritten.

#[path = "suite/db.rs"]
#[allow(dead_code, reason = "written for the conformance suite, too")]
mod db;

use std::sync::Arc;

use db::{Db, Place, TITLE, note, options, row_id};
use model::Value;
use model::history::Range;
use store::{
    DatabaseStore, DatabaseUrl, Op, Options, RowAct, RowOp, Store, StoreError, StorePlace,
    maintain_database,
};
use tempfile::TempDir;
use testing::traces;
use testing_postgres::{Cluster, ClusterSettings};

const SECRET: &str = "quicksilver";

/// A server of its own: its files hold nothing of other tests.
struct Served(Cluster, TempDir);

impl Served {
    fn url(&self) -> DatabaseUrl {
        DatabaseUrl::parse(&self.0.url("postgres")).unwrap()
    }

    /// The files of tables in which the words are.
    fn traces(&self) -> Vec<String> {
        self.0.run_sql("postgres", &["CHECKPOINT"]).unwrap();
        traces(&self.0.socket_folder().join("data/base"), SECRET)
    }
}

impl Place for Served {
    fn open(&self) -> Arc<dyn Store> {
        let url = self.url();
        let options = Options {
            place: StorePlace::from(url.clone()),
            ..options(self.1.path())
        };
        let store = DatabaseStore::open(&url, None).unwrap();
        store.serve(&options, None, self.1.path()).unwrap()
    }
}

#[test]
fn erased_bytes_leave_the_files_next_to_a_server_that_runs() {
    let cluster = Cluster::start(&ClusterSettings::default()).unwrap();
    let place = Served(cluster, tempfile::tempdir().unwrap());
    let refused = maintain_database(&place.url(), None, &mut |_| {}).unwrap_err();
    assert!(
        matches!(refused, StoreError::DatabaseUnfit(_)),
        "no store is there yet: {refused:?}"
    );
    let mut db = Db::with_notes(&place);
    for id in ["erased", "stays"] {
        let mut values = note(id);
        values[TITLE] = Value::Text(format!("{SECRET} of {id}"));
        db.ok(vec![db.insert(id, values)]);
    }
    let erase = |id: &str| {
        let everything = Range::default();
        let erase = RowOp::over(db.table(), row_id(id), everything, RowAct::Erase);
        Op::Row(erase.literal())
    };
    let [erased, stays] = ["erased", "stays"].map(erase);
    db.ok(vec![erased]);
    let files = place.traces();
    let maintained = maintain_database(&place.url(), None, &mut |_| {}).unwrap();
    assert!(maintained.left.is_empty(), "{maintained:?}");
    assert!(!files.is_empty() && !place.traces().is_empty(), "one stays");
    assert!(db.get("stays").is_some());
    db.ok(vec![stays]);
    assert!(!place.traces().is_empty(), "nothing is rewritten by itself");
    maintain_database(&place.url(), None, &mut |_| {}).unwrap();
    assert_eq!(place.traces(), Vec::<String>::new());
    db.ok(vec![db.insert("again", note("again"))]);
    db.close();
}
