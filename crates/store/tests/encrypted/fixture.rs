//! A database whose notes have encrypted titles and tags, and what damages it behind the store.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use model::history::{Range, Until};
use model::{Table, Timestamp, Value};
use query::Visibility;
use rusqlite::Connection;
use rusqlite::types::Value as Stored;
use store::{
    CatalogueOp, DatabaseStore, DatabaseUrl, Durability, Op, Options, RowAct, RowOp, Store,
    StoreError, StorePlace,
};
use tempfile::TempDir;
use testing::traces;
use testing_postgres::Cluster;

use crate::suite::db::{
    DATABASE, Db, PROJECT, Place, TAGS, TITLE, create_database, create_project, notes, options,
    row_id,
};

pub const SECRET: &str = "quicksilver";

pub const KEY: &str = "tidemark.key";

/// A program that one test starts has the open files of the others until it runs, and with them
/// the locks of their directories.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Where the store is.
pub enum SealedPlace {
    /// In a data directory.
    Directory(TempDir),
    /// In a database of this name, with its key in a directory.
    Database(Arc<Cluster>, &'static str, TempDir),
}

impl SealedPlace {
    fn folder(&self) -> &TempDir {
        match self {
            SealedPlace::Directory(folder) | SealedPlace::Database(_, _, folder) => folder,
        }
    }

    fn database(cluster: Arc<Cluster>, name: &'static str) -> SealedPlace {
        let make = format!("CREATE DATABASE {name}");
        cluster.run_sql("postgres", &[&make]).unwrap();
        let place = SealedPlace::Database(cluster, name, tempfile::tempdir().unwrap());
        std::fs::create_dir(place.data()).unwrap();
        place
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.folder().path().join("data")
    }

    pub fn key(&self) -> PathBuf {
        self.data().join(KEY)
    }

    pub fn try_open(&self) -> Result<Arc<dyn Store>, StoreError> {
        let options = Options {
            durability: Durability::Full,
            reader_cache_bytes: 1 << 20,
            ..options(&self.data())
        };
        let SealedPlace::Database(cluster, name, _) = self else {
            return store::open(options);
        };
        let url = DatabaseUrl::parse(&cluster.url(name)).unwrap();
        let options = Options {
            place: StorePlace::from(url.clone()),
            ..options
        };
        DatabaseStore::open(&url, None)?.serve(&options, None, &self.data())
    }

    /// A project, a database and encrypted notes.
    pub fn begin(&self) -> Db {
        let mut db = Db::open(self);
        db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
        db.ok(vec![Op::Catalogue(create_database(DATABASE))]);
        assert!(!self.key().exists(), "nothing is encrypted yet");
        let table = CatalogueOp::CreateTable(Box::new(sealed_notes()));
        db.ok(vec![Op::Catalogue(table)]);
        db
    }

    /// Bytes, as SQL.
    pub fn bytes(&self, hex: &str) -> String {
        match self {
            SealedPlace::Directory(_) => format!("x'{hex}'"),
            SealedPlace::Database(..) => format!("'\\x{hex}'::bytea"),
        }
    }

    /// What stands sealed in a column of texts, as SQL.
    pub fn sealed_text(&self, hex: &str) -> String {
        match self {
            SealedPlace::Directory(_) => self.bytes(hex),
            SealedPlace::Database(..) => format!("chr(1) || '{hex}'"),
        }
    }

    /// Bytes as hexadecimal digits, as SQL.
    pub fn hex(&self, bytes: &str) -> String {
        match self {
            SealedPlace::Directory(_) => format!("hex({bytes})"),
            SealedPlace::Database(..) => format!("encode({bytes}, 'hex')"),
        }
    }

    /// What a statement gives that gives one thing.
    pub fn text(&self, sql: &str) -> String {
        match self {
            SealedPlace::Directory(_) => {
                let connection = Connection::open(self.data().join("tidemark.db")).unwrap();
                let found = connection.query_row(sql, (), |row| row.get::<_, Stored>(0));
                match found.unwrap() {
                    Stored::Integer(number) => number.to_string(),
                    Stored::Text(text) => text,
                    other => panic!("{sql}: {other:?}"),
                }
            }
            SealedPlace::Database(cluster, name, _) => {
                let path = "SET search_path = tidemark";
                let found = cluster.run_sql(name, &[path, sql]).unwrap();
                found.trim_end().to_owned()
            }
        }
    }

    /// Changes the database behind the store's back, while no store has it open.
    pub fn meddle(&self, sql: &str) {
        let changed = match self {
            SealedPlace::Directory(_) => {
                let connection = Connection::open(self.data().join("tidemark.db")).unwrap();
                connection.execute(sql, ()).unwrap().to_string()
            }
            SealedPlace::Database(..) => {
                let counted = format!("WITH u AS ({sql} RETURNING 1) SELECT count(*) FROM u");
                self.text(&counted)
            }
        };
        assert_ne!(changed, "0", "{sql}");
    }

    /// Overwrites the encrypted titles of these rows in the table.
    pub fn damage(&self, (physical, title): (&str, &str), ids: &str) {
        let zero = self.bytes("00");
        self.meddle(&format!(
            "UPDATE {physical} SET {title} = {zero} WHERE id IN ({ids})"
        ));
    }

    /// The files in which the words rest readable: those of the store.
    pub fn traces(&self, words: &str) -> Vec<String> {
        let mut found = traces(&self.data(), words);
        if let SealedPlace::Database(cluster, name, _) = self {
            cluster.run_sql(name, &["CHECKPOINT"]).unwrap();
            found.extend(traces(cluster.socket_folder(), words));
        }
        found
    }
}

impl Place for SealedPlace {
    fn open(&self) -> Arc<dyn Store> {
        self.try_open().unwrap()
    }
}

/// Runs a test in a data directory, and in a database of this name.
pub fn on_both(name: &'static str, test: impl Fn(&SealedPlace)) {
    // A test that waits for its turn keeps the server for the next one.
    let cluster = Cluster::shared().unwrap();
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    test(&SealedPlace::Directory(tempfile::tempdir().unwrap()));
    test(&SealedPlace::database(cluster, name));
}

/// The table `notes` whose title and tags are encrypted.
pub fn sealed_notes() -> Table {
    let mut table = notes();
    for position in [TITLE, TAGS] {
        table.columns[position].encrypt = true;
    }
    table
        .indexes
        .retain(|index| index.key.as_str() != "by_count");
    table
}

pub fn values(title: &str, code: &str) -> Vec<Value> {
    let mut values = crate::suite::db::note(code);
    values[TITLE] = Value::Text(title.to_owned());
    values[TAGS] = Value::List(vec![Value::Text(title.to_owned()), Value::Text("ü".into())]);
    values
}

pub fn timed(db: &Db, id: &str, from: Timestamp, act: RowAct) -> Op {
    Op::Row(
        RowOp::over(
            db.table(),
            row_id(id),
            Range {
                from: Some(from),
                ..Range::default()
            },
            act,
        )
        .literal(),
    )
}

pub fn over(mut op: Op, from: Timestamp, until: Until) -> Op {
    if let Op::Row(op) = &mut op {
        op.range = Some(Range {
            from: Some(from),
            until,
        });
    }
    op
}

pub fn is_refused(db: &Db, id: &str) -> bool {
    let read = db.try_get(id, None, &Visibility::Everything);
    matches!(read, Err(StoreError::SealBroken { .. }))
}
