//! Searches for words, which an index answers for the rows of now and nothing for older ones.

use model::{Coordinates, Direction, IndexKind, Mark, Value};
use query::{Filter, Pattern, Search, Test};
use store::{CatalogueOp, Op, SchemaChange};

use super::db::{DATABASE, Db, PROJECT, Place, TITLE, delete_table, index, note, notes};
use super::db::{create_database, create_project};
use super::schema::change;
use testing::OwnTurn;

/// A database whose table of notes has an index of the words in their titles.
pub fn with_words(place: &dyn Place) -> Db {
    let mut db = Db::open(place);
    db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
    db.ok(vec![Op::Catalogue(create_database(DATABASE))]);
    let mut table = notes();
    let title = &[(TITLE, Direction::Asc)];
    table
        .indexes
        .push(index(3, "words", IndexKind::Fulltext, title));
    db.ok(vec![Op::Catalogue(CatalogueOp::CreateTable(Box::new(
        table,
    )))]);
    db
}

pub fn found(db: &Db, test: Test, at: Option<Mark>) -> Vec<String> {
    let mut query = db.all();
    query.filter = Filter::Field(model::Field::Column(TITLE), test);
    query.at = at.map(|mark| Coordinates {
        valid: mark.timestamp(),
        system: mark,
    });
    let listed = db.list(&query);
    let ids: Vec<String> = listed.rows.iter().map(|row| row.id.to_string()).collect();
    assert_eq!(listed.total, ids.len() as u64);
    ids
}

pub fn finds(text: &str) -> Test {
    Test::Finds(Search::parse(text).unwrap())
}

pub fn titled(title: &str, code: &str) -> Vec<Value> {
    let mut values = note(title);
    *values.last_mut().unwrap() = Value::Text(code.into());
    values
}

pub fn an_index_of_words_comes_and_goes(place: &dyn Place) {
    let mut db = Db::with_notes(place);
    db.ok(vec![db.insert("a", titled("Captain AMERICA", "1"))]);
    let title = &[(TITLE, Direction::Asc)];
    let words = index(0, "words", IndexKind::Fulltext, title);
    let table = change(&mut db, SchemaChange::AddIndex(words.clone()));
    let added = table.indexes.last().unwrap();
    assert!(added.is_fulltext_of(model::Field::Column(TITLE)));
    assert_eq!(found(&db, finds("captain"), None), ["a"]);
    change(&mut db, SchemaChange::DropIndex(added.number));
    db.ok(vec![
        db.update("a", vec![(TITLE, Value::Text("Escape".into()))]),
        db.insert("b", titled("Captain", "2")),
    ]);
    change(&mut db, SchemaChange::AddIndex(words));
    assert_eq!(found(&db, finds("captain"), None), ["b"]);
    assert_eq!(found(&db, finds("escape"), None), ["a"]);
}

pub fn words_are_found_as_long_as_they_stand(place: &dyn Place) {
    let mut db = with_words(place);
    db.ok(vec![
        db.insert("a", titled("Captain AMERICA", "1")),
        db.insert("b", titled("Ein Kapitän, ein Schiff", "2")),
        db.insert("c", titled("Escape", "3")),
    ]);
    let mut untitled = titled("", "4");
    untitled[TITLE] = Value::Null;
    db.ok(vec![db.insert("d", untitled)]);
    assert_eq!(found(&db, finds("amer"), None), ["a"]);
    assert_eq!(found(&db, finds("kapitän cap"), None), ["a", "b"]);
    assert_eq!(found(&db, finds("\"ein schiff\""), None), ["b"]);
    assert_eq!(found(&db, finds("\"schiff ein\""), None), [""; 0]);
    assert_eq!(found(&db, finds("-"), None), [""; 0]);
    let without = Test::FindsNot(Search::parse("cap").unwrap());
    assert_eq!(found(&db, without, None), ["b", "c"], "null has no title");
    db.ok(vec![db.grant("a", &["read(\"any\")"])]);
    db.ok(vec![
        db.update("b", vec![(TITLE, Value::Text("America".into()))]),
        db.update("d", vec![(TITLE, Value::Text("america".into()))]),
        db.update("c", vec![(TITLE, Value::Null)]),
    ]);
    assert_eq!(found(&db, finds("amer"), None), ["a", "b", "d"]);
    assert_eq!(found(&db, finds("schiff"), None), [""; 0]);
    db.ok(vec![db.delete("a")]);
    db.close();
    let mut db = Db::open(place);
    assert_eq!(found(&db, finds("america"), None), ["b", "d"]);
    db.ok(vec![db.insert("a", titled("America again", "1"))]);
    assert_eq!(found(&db, finds("america"), None), ["a", "b", "d"]);
}

pub fn words_are_found_at_their_time(place: &dyn Place) {
    let mut db = with_words(place);
    let first = db.mark_of(db.insert("a", titled("old words", "1")));
    let second = db.mark_of(db.insert("b", titled("old and new", "2")));
    let third = db.mark_of(db.update("a", vec![(TITLE, Value::Text("new".into()))]));
    let fourth = db.mark_of(db.delete("b"));
    let at = |test, mark| found(&db, test, Some(mark));
    assert_eq!(at(finds("old"), first), ["a"]);
    assert_eq!(at(finds("old"), second), ["a", "b"]);
    assert_eq!(at(finds("old"), third), ["b"]);
    assert_eq!(at(finds("new"), third), ["a", "b"]);
    assert_eq!(at(finds("new"), fourth), ["a"]);
    let without = Test::FindsNot(Search::parse("new").unwrap());
    assert_eq!(at(without, second), ["a"]);
}

pub fn an_index_of_words_goes_with_its_table(place: &dyn Place) {
    let mut db = with_words(place);
    db.ok(vec![db.insert("a", titled("some words", "1"))]);
    let number = db.table().number;
    db.ok(vec![Op::Catalogue(delete_table(db.table().id.as_str()))]);
    while futures_executor::block_on(db.store.run_upkeep()).unwrap() {}
    let mut table = notes();
    let title = &[(TITLE, Direction::Asc)];
    table
        .indexes
        .push(index(3, "words", IndexKind::Fulltext, title));
    db.ok(vec![Op::Catalogue(CatalogueOp::CreateTable(Box::new(
        table,
    )))]);
    assert_ne!(db.table().number, number);
    assert_eq!(found(&db, finds("words"), None), [""; 0]);
}

pub fn patterns_match_parts_of_texts(place: &dyn Place) {
    let mut db = with_words(place);
    db.ok(vec![
        db.insert("a", titled("Captain America", "1")),
        db.insert("b", titled("captain", "2")),
    ]);
    let mut untitled = titled("", "3");
    untitled[TITLE] = Value::Null;
    let third = db.mark_of(db.insert("c", untitled));
    let matches = |text| Test::Matches(Pattern::parse(text).unwrap());
    assert_eq!(found(&db, matches("tain"), None), ["a", "b"]);
    assert_eq!(found(&db, matches("^C.*a$"), None), ["a"]);
    assert_eq!(
        found(&db, matches(".*"), None),
        ["a", "b"],
        "null has no text"
    );
    db.ok(vec![db.delete("b")]);
    assert_eq!(found(&db, matches("tain"), Some(third)), ["a", "b"]);
}

/// The index removes the words a text had before it adds those it has: the other way around it
/// would lose the words that both have.
pub fn words_that_stay_are_not_lost(place: &dyn Place) {
    const ROWS: usize = 50;
    let mut db = with_words(place);
    let title = |n: usize| format!("alpha {n}");
    let insert = |n: usize| db.insert(&format!("r{n}"), titled(&title(n), &n.to_string()));
    let inserts = (0..ROWS).map(insert).collect();
    db.ok(inserts);
    for n in 0..400 {
        let patch = [(TITLE, Value::Text(title(n)))];
        db.ok(vec![db.update(&format!("r{}", n % ROWS), patch.to_vec())]);
    }
    assert_eq!(found(&db, finds("alpha"), None).len(), ROWS);
    let turned = |text: &str| vec![(TITLE, Value::Text(text.into()))];
    db.ok(vec![db.update("r1", turned("beta gamma"))]);
    db.ok(vec![db.update("r1", turned("gamma beta"))]);
    assert_eq!(found(&db, finds("\"gamma beta\""), None), ["r1"]);
    assert_eq!(found(&db, finds("\"beta gamma\""), None), [""; 0]);
}
