//! Indexes of words that an older rule of splitting texts has made.

mod suite;

use std::sync::Arc;

use rusqlite::Connection;
use store::{Durability, Options, Store};
use suite::db::{Db, Place};
use suite::search;

struct Directory(tempfile::TempDir);

impl Place for Directory {
    fn open(&self) -> Arc<dyn Store> {
        let options = Options {
            directory: self.0.path().join("data"),
            durability: Durability::Normal,
            encode_row: suite::db::encode_row,
            reader_cache_bytes: 8 << 20,
            read_limit_ms: 60_000,
            long_reads: suite::db::LONG_READS,
            vfs: None,
        };
        store::open(options).unwrap()
    }
}

#[test]
fn they_are_made_anew_when_the_rule_is_another() {
    let directory = Directory(tempfile::tempdir().unwrap());
    let mut db = search::with_words(&directory);
    db.ok(vec![db.insert("a", search::titled("some words", "1"))]);
    let number = db.table().number;
    db.close();
    let file = directory.0.path().join("data/tidemark.db");
    let connection = Connection::open(file).unwrap();
    let index = query::names::fulltext(number, 3);
    let other = format!(
        "UPDATE meta SET words = 'another rule';
         INSERT INTO {index} ({index}, rowid, words) VALUES ('delete', 1, 'some words');"
    );
    connection.execute_batch(&other).unwrap();
    drop(connection);
    let db = Db::open(&directory);
    assert_eq!(search::found(&db, search::finds("words"), None), ["a"]);
    db.close();
}
