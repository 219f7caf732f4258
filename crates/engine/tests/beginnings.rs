//! Indexes over texts that are too long to be held whole.

mod fixture;

use std::sync::Arc;

use engine::{
    ColumnChange, ColumnFault, Engine, EngineError, ListRows, NewColumn, NewIndex, SchemaError,
    View,
};
use fixture::{NEW_YEAR_US, PLACE, TickingClock, config, furnish, key, list_rows_of, open};
use futures_executor::block_on;
use model::{Direction, Field, Index, IndexColumn, IndexKind, IndexStatus, Mark, Timestamp};
use model::{Json, RowId};
use store::{CatalogueOp, Op, SchemaChange, WriteBatch};
use testing::OwnTurn;

/// Texts that begin alike, and some that do not; none twice.
fn texts() -> Vec<String> {
    let long = "é".repeat(250);
    let mut texts: Vec<String> = ["", "a", "a\u{1}", "b", "é", "\u{10ffff}", "\u{d7ff}"]
        .map(str::to_owned)
        .into();
    for end in ["", "a", "b", "ba", "\u{10ffff}", "\u{10ffff}b"] {
        texts.push(format!("{long}{end}"));
        texts.push(format!("{}{end}", "é".repeat(239)));
    }
    texts
}

fn with_texts(directory: &std::path::Path) -> Arc<Engine> {
    let engine = open(directory, TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    for (name, kind, size) in [("s", "longtext", None), ("v", "varchar", Some(500))] {
        let column = NewColumn {
            key: name.into(),
            kind: kind.into(),
            size,
            ..NewColumn::default()
        };
        block_on(engine.create_column(&key(), PLACE, &column)).unwrap();
    }
    engine
}

/// Gives each row the text that stands `turn` places further.
fn write(engine: &Engine, texts: &[String], turn: usize) {
    for number in 0..=texts.len() {
        // The last row has none.
        let text = texts
            .get(number)
            .map(|_| &texts[(number + turn) % texts.len()]);
        let row = engine::RowInput {
            id: RowId::new(&format!("r{number}")).unwrap(),
            members: vec![
                ("n".into(), Json::Int(number as i64 % 5)),
                (
                    "s".into(),
                    text.map_or(Json::Null, |text| Json::Text(text.clone())),
                ),
            ],
            permissions: None,
        };
        block_on(engine.upsert_row(&key(), PLACE, row, None)).unwrap();
    }
}

fn ask(engine: &Engine, texts: &[String]) -> (Vec<u8>, u64) {
    let asked = ListRows {
        bypass: true,
        ..list_rows_of(texts)
    };
    let answer = block_on(engine.list_rows(&key(), &asked, View::CURRENT)).unwrap();
    (answer.rows.to_vec(), answer.total)
}

/// A query over `attribute`; texts have neither quotes nor backslashes.
fn query(method: &str, attribute: &str, values: &[&String]) -> String {
    let quoted = |text: &&String| {
        let escaped = text.chars().map(|c| match c {
            '\0'..='\u{1f}' => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        });
        format!("\"{}\"", escaped.collect::<String>())
    };
    let values: Vec<String> = values.iter().map(quoted).collect();
    let values = values.join(",");
    format!(r#"{{"method":"{method}","attribute":"{attribute}","values":[{values}]}}"#)
}

/// Every kind of test, of each text and its neighbour.
fn filters(texts: &[String]) -> Vec<String> {
    let mut filters = vec![query("isNull", "s", &[]), query("isNotNull", "s", &[])];
    for (at, text) in texts.iter().enumerate() {
        let next = &texts[(at + 1) % texts.len()];
        filters.push(query("equal", "s", &[text, next]));
        filters.push(query("between", "s", &[text.min(next), text.max(next)]));
        let bounds = [
            "lessThan",
            "lessThanEqual",
            "greaterThan",
            "greaterThanEqual",
        ];
        let others = [
            "equal",
            "notEqual",
            "startsWith",
            "notStartsWith",
            "endsWith",
        ];
        for method in bounds.into_iter().chain(others) {
            filters.push(query(method, "s", &[text]));
        }
    }
    filters
}

/// The filters alone, and beside others and under orders; now, and at a mark of the past.
fn questions(texts: &[String], then: i64) -> Vec<Vec<String>> {
    let past = format!(r#"{{"method":"asOf","values":[{then}]}}"#);
    let other = r#"{"method":"equal","attribute":"n","values":[3]}"#.to_owned();
    let mut questions = Vec::new();
    for filter in filters(texts) {
        let any = format!(r#"{{"method":"or","values":[{filter},{other}]}}"#);
        for beside in [query("orderDesc", "n", &[]), query("orderAsc", "s", &[])] {
            questions.push(vec![filter.clone(), beside]);
        }
        questions.push(vec![filter.clone()]);
        questions.push(vec![filter.clone(), other.clone()]);
        questions.push(vec![filter, past.clone()]);
        questions.push(vec![any]);
    }
    questions.push(vec![query("orderDesc", "s", &[])]);
    questions
}

#[test]
fn an_index_of_beginnings_changes_no_answer() {
    let directory = tempfile::tempdir().unwrap();
    let engine = with_texts(directory.path());
    let texts = texts();
    write(&engine, &texts, 0);
    let then = engine.status().mark.0;
    write(&engine, &texts, 1);
    let questions = questions(&texts, then);
    let answers = || -> Vec<_> {
        let answers = questions.iter().map(|texts| ask(&engine, texts));
        answers.collect()
    };
    for lengths in [Some(255), Some(3)] {
        let index = NewIndex {
            key: "i".into(),
            kind: "key".into(),
            columns: vec!["s".into(), "n".into()],
            orders: vec![Some("ASC".into()), Some("DESC".into())],
            lengths: vec![lengths, None],
        };
        let made = block_on(engine.create_index(&key(), PLACE, &index)).unwrap();
        let column = &made.1.columns[0];
        assert_eq!(
            column.length.map(i64::from),
            lengths,
            "is shown as it was given"
        );
        assert_eq!(
            column.held.map(i64::from),
            lengths.map(|chars| chars.min(240))
        );
        let built = answers();
        // Writes meet it, too.
        write(&engine, &texts, 2);
        write(&engine, &texts, 1);
        let written = answers();
        block_on(engine.delete_index(&key(), PLACE, "i")).unwrap();
        let without = answers();
        for (at, texts) in questions.iter().enumerate() {
            assert_eq!(built[at].1, without[at].1, "{texts:?}, {lengths:?}");
            assert_eq!(written[at], without[at], "{texts:?}, {lengths:?}");
        }
    }
    engine.close().unwrap();
}

#[test]
fn no_column_outgrows_an_index_that_holds_it_whole() {
    let directory = tempfile::tempdir().unwrap();
    let engine = with_texts(directory.path());
    let index = NewIndex {
        key: "i".into(),
        kind: "key".into(),
        columns: vec!["v".into()],
        lengths: vec![Some(255)],
        ..NewIndex::default()
    };
    let made = block_on(engine.create_index(&key(), PLACE, &index)).unwrap();
    assert_eq!(
        made.1.columns[0].held, None,
        "500 characters are held whole"
    );
    let resize = |size| ColumnChange {
        kind: "varchar",
        size: Some(size),
        ..ColumnChange::default()
    };
    let change = |size| block_on(engine.update_column(&key(), PLACE, "v", &resize(size)));
    change(768).unwrap();
    match change(769).unwrap_err() {
        EngineError::Schema(SchemaError::Column(ColumnFault::IndexDependency(why))) => {
            assert!(
                why.contains("`i`") && why.contains("`v`") && why.contains("768"),
                "{why}"
            );
        }
        other => panic!("{other:?}"),
    }
    block_on(engine.delete_index(&key(), PLACE, "i")).unwrap();
    change(2_000).unwrap();
    // One of beginnings is as large as it is, whatever the column.
    block_on(engine.create_index(&key(), PLACE, &index)).unwrap();
    change(3_000).unwrap();
    engine.close().unwrap();
}

/// Adds an index of whole texts of any length, as earlier versions did.
fn add_whole_index(directory: &std::path::Path) {
    let store = fixture::open_store(&config(directory));
    let loaded = block_on(store.load()).unwrap();
    let database = &loaded.catalogue.project("p").unwrap().databases["d"];
    let table = &database.tables["t"];
    let index = Index {
        number: 0,
        key: model::IndexKey::new("whole").unwrap(),
        kind: IndexKind::Key,
        columns: vec![IndexColumn {
            field: Field::Column(table.position("s").unwrap()),
            direction: Direction::Asc,
            length: Some(255),
            held: None,
        }],
        status: IndexStatus::Processing,
        created: Timestamp(0),
        updated: Timestamp(0),
    };
    let add = CatalogueOp::ChangeSchema {
        table: table.clone(),
        change: SchemaChange::AddIndex(index),
    };
    let batch = WriteBatch {
        catalogue_epoch: loaded.catalogue.epoch,
        ops: vec![Op::Catalogue(add)],
        author: None,
        unchanged_since: None,
        meta: None,
        noted_in: None,
        space: store::SpaceLimit::Any,
    };
    let mark = loaded.horizon.next();
    let pending = block_on(store.apply(&[batch], mark)).unwrap();
    assert!(testing::done(block_on(pending.commit())).unwrap()[0].is_ok());
    block_on(store.close(Mark(mark.0))).unwrap();
}

#[test]
fn an_index_of_whole_texts_by_an_earlier_version_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let engine = with_texts(directory.path());
    let texts = texts();
    write(&engine, &texts, 0);
    let then = engine.status().mark.0;
    write(&engine, &texts, 1);
    let questions = questions(&texts, then);
    let without: Vec<_> = questions.iter().map(|texts| ask(&engine, texts)).collect();
    engine.close().unwrap();
    drop(engine);
    add_whole_index(directory.path());
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US + 60_000_000));
    let known = engine.get_index(&key(), PLACE, "whole").unwrap().1;
    let column = &known.columns[0];
    assert_eq!((column.length, column.held), (Some(255), None));
    assert!(known.is_available());
    for (texts, without) in questions.iter().zip(&without) {
        assert_eq!(&ask(&engine, texts), without, "{texts:?}");
    }
    write(&engine, &texts, 2);
    engine.close().unwrap();
}
