//! Indexes of words that an older rule of splitting texts has made, or that are filled in slices.

mod suite;

use model::{Direction, IndexKind, IndexStatus, Table, Value};
use rusqlite::Connection;
use store::{Applied, CatalogueOp, Op, SchemaChange};
use suite::db::{CODE, Db, Directory, TITLE, index};
use suite::search;

#[test]
fn words_are_built_again_when_their_rule_changes() {
    let directory = Directory::new();
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

fn change(db: &mut Db, change: SchemaChange) -> Applied {
    let table = db.table();
    db.ok(vec![Op::Catalogue(CatalogueOp::ChangeSchema {
        table,
        change,
    })])
}

/// Adds an index of the words of titles; its number.
fn index_titles(db: &mut Db) -> u32 {
    let title = &[(TITLE, Direction::Asc)];
    let words = index(0, "words", IndexKind::Fulltext, title);
    change(db, SchemaChange::AddIndex(words));
    db.table().indexes.last().unwrap().number
}

fn is_available(table: &Table) -> bool {
    table.indexes.last().unwrap().status == IndexStatus::Available
}

fn insert(db: &mut Db, ids: std::ops::Range<usize>, title: &str) {
    let mut ops = Vec::new();
    for id in ids {
        let mut values = search::titled(title, "");
        values[CODE] = Value::Null;
        ops.push(db.insert(&format!("r{id}"), values));
    }
    db.ok(ops);
}

/// What the index holds, by the words alone.
fn held(directory: &Directory, db: &Db, word: &str) -> Vec<i64> {
    let file = directory.0.path().join("data/tidemark.db");
    let connection = Connection::open(file).unwrap();
    let number = db.table().indexes.last().unwrap().number;
    let name = query::names::fulltext(db.table().number, number);
    let sql = format!("SELECT rowid FROM {name} WHERE {name} MATCH ?1 ORDER BY rowid");
    let mut statement = connection.prepare(&sql).unwrap();
    let found = statement.query_map([word], |row| row.get(0)).unwrap();
    found.collect::<Result<_, _>>().unwrap()
}

#[test]
fn one_over_many_rows_is_filled_by_slices_between_which_rows_change() {
    let directory = Directory::new();
    let mut db = Db::with_notes(&directory);
    insert(&mut db, 0..2_500, "first");
    let number = index_titles(&mut db);
    assert!(!is_available(&db.table()));
    assert_eq!(held(&directory, &db, "first").len(), 1_000);
    // Rows that are in it, that are not yet, and new ones.
    let second = |db: &Db, id| db.update(id, vec![(TITLE, Value::Text("second".into()))]);
    db.ok(vec![second(&db, "r10"), db.delete("r11")]);
    db.ok(vec![second(&db, "r2400"), db.delete("r2401")]);
    insert(&mut db, 2_500..2_501, "second");
    assert_eq!(held(&directory, &db, "second"), [11]);
    // The process ends here, and another goes on.
    drop(db);
    let mut db = Db::open(&directory);
    let slice = change(&mut db, SchemaChange::BuildIndex(number));
    assert_eq!((slice.mark, slice.catalogue.len()), (None, 0));
    assert!(slice.keeps, "it is to stay");
    assert_eq!(held(&directory, &db, "first").len(), 1_998);
    db.ok(vec![second(&db, "r1500"), db.delete("r1501")]);
    assert_eq!(held(&directory, &db, "second"), [11, 1_501]);
    let last = change(&mut db, SchemaChange::BuildIndex(number));
    assert!(last.mark.is_some() && is_available(&db.table()));
    db.ok(vec![second(&db, "r20"), db.delete("r2402")]);
    let by_index = search::found(&db, search::finds("second"), None);
    assert_eq!(by_index, ["r10", "r20", "r1500", "r2400", "r2500"]);
    let first = search::found(&db, search::finds("first"), None).len();
    assert_eq!(first, 2_500 - 4 - 4);
    assert_eq!(held(&directory, &db, "first").len(), first);
    db.close();
}

#[test]
fn a_slice_ends_with_the_row_that_fills_its_bytes_and_may_be_the_last() {
    let directory = Directory::new();
    let mut db = Db::with_notes(&directory);
    insert(&mut db, 0..5, &"word ".repeat(120_000));
    let number = index_titles(&mut db);
    let mut rows = vec![held(&directory, &db, "word").len()];
    while !is_available(&db.table()) {
        change(&mut db, SchemaChange::BuildIndex(number));
        rows.push(held(&directory, &db, "word").len());
    }
    assert_eq!(rows, [2, 4, 5]);
    // One that is being filled goes without a trace.
    change(&mut db, SchemaChange::DropIndex(number));
    index_titles(&mut db);
    let number = db.table().indexes.last().unwrap().number;
    change(&mut db, SchemaChange::DropIndex(number));
    db.ok(vec![db.delete("r0"), db.delete("r4")]);
    db.close();
    let file = directory.0.path().join("data/tidemark.db");
    let connection = Connection::open(file).unwrap();
    let left = "SELECT (SELECT count(*) FROM upkeep) \
                + (SELECT count(*) FROM sqlite_schema WHERE sql LIKE '%fts5%')";
    let left: i64 = connection.query_row(left, (), |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}
