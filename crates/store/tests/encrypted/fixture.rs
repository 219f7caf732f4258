//! A database whose notes have encrypted titles and tags, and what damages it behind the store.

use std::path::PathBuf;
use std::sync::Arc;

use model::history::{Range, Until};
use model::{Table, Timestamp, Value};
use query::Visibility;
use rusqlite::Connection;
use store::{CatalogueOp, Durability, Op, Options, RowAct, RowOp, Store, StoreError};

use crate::suite::db::{
    DATABASE, Db, PROJECT, Place, TAGS, TITLE, create_database, create_project, encode_row, notes,
    row_id,
};

pub const SECRET: &str = "quicksilver";

pub const KEY: &str = "tidemark.key";

/// A data directory.
pub struct Embedded(pub PathBuf);

impl Embedded {
    pub fn try_open(&self) -> Result<Arc<dyn Store>, StoreError> {
        store::open(Options {
            place: self.0.clone().into(),
            durability: Durability::Full,
            encode_row,
            reader_cache_bytes: 1 << 20,
            read_limit_ms: 60_000,
            long_reads: crate::suite::db::LONG_READS,
            vfs: None,
        })
    }

    pub fn key(&self) -> PathBuf {
        self.0.join(KEY)
    }

    /// The database, while no store has it open.
    pub fn database(&self) -> Connection {
        Connection::open(self.0.join("tidemark.db")).unwrap()
    }
}

impl Place for Embedded {
    fn open(&self) -> Arc<dyn Store> {
        self.try_open().unwrap()
    }
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

pub fn open(folder: &tempfile::TempDir) -> (Embedded, Db) {
    let place = Embedded(folder.path().join("data"));
    let mut db = Db::open(&place);
    db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
    db.ok(vec![Op::Catalogue(create_database(DATABASE))]);
    assert!(!place.key().exists(), "nothing is encrypted yet");
    let table = CatalogueOp::CreateTable(Box::new(sealed_notes()));
    db.ok(vec![Op::Catalogue(table)]);
    (place, db)
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

/// Changes the database behind the store's back.
pub fn meddle(place: &Embedded, sql: &str) {
    assert!(place.database().execute(sql, ()).unwrap() > 0, "{sql}");
}

/// Overwrites the encrypted titles of these rows in the table.
pub fn damage(place: &Embedded, (physical, title): (&str, &str), ids: &str) {
    let sql = format!("UPDATE {physical} SET {title} = x'00' WHERE id IN ({ids})");
    meddle(place, &sql);
}

pub fn is_refused(db: &Db, id: &str) -> bool {
    let read = db.try_get(id, None, &Visibility::Everything);
    matches!(read, Err(StoreError::SealBroken { .. }))
}
