//! Erased means gone: while the engine runs, no byte of a row is left in the data directory, wherever
//! it had stood.

mod fixture;

use std::sync::Arc;

use engine::{
    Act, BatchWrite, Caller, Engine, EngineError, ListRows, NewColumn, NewIndex, NewTable,
    Operation, Place, Request, RowInput, TimedTransaction, TransactionAct, TransactionError,
    TransactionOp, View,
};
use fixture::{NEW_YEAR_US, TickingClock, furnish, key, list_rows_of, new_table, open};
use futures_executor::block_on;
use model::history::Range;
use model::{Json, RowId};
use testing::traces;

const SECRET: &str = "quicksilver";
/// How often the files are looked at before the log counts as kept for ever.
const LOOKS_MAX: usize = 20_000;
const NOTES: Place<'static> = Place {
    database: "d",
    table: "notes",
};

fn note(id: &str, body: &str) -> RowInput {
    RowInput {
        id: RowId::new(id).unwrap(),
        members: vec![("body".to_owned(), Json::Text(body.to_owned()))],
        permissions: None,
    }
}

fn operation(act: Act) -> Operation {
    Operation {
        database: "d".to_owned(),
        table: "notes".to_owned(),
        act,
        unchanged_since: None,
    }
}

fn with_notes(engine: &Engine) {
    furnish(engine);
    let body = NewColumn {
        key: "body".to_owned(),
        kind: "varchar".to_owned(),
        size: Some(500),
        ..NewColumn::default()
    };
    let words = NewIndex {
        key: "words".to_owned(),
        kind: "fulltext".to_owned(),
        columns: vec!["body".to_owned()],
        ..NewIndex::default()
    };
    let plain = NewIndex {
        key: "plain".to_owned(),
        kind: "key".to_owned(),
        columns: vec!["body".to_owned()],
        ..NewIndex::default()
    };
    let table = NewTable {
        columns: vec![body],
        indexes: vec![words, plain],
        ..new_table("notes")
    };
    block_on(engine.create_table(&key(), "d", table)).unwrap();
}

fn list(engine: &Engine, texts: &[String]) -> String {
    let list = ListRows {
        place: NOTES,
        ttl_s: 60,
        ..list_rows_of(texts)
    };
    let answer = block_on(engine.list_rows(&key(), &list, View::CURRENT)).unwrap();
    String::from_utf8(answer.rows.to_vec()).unwrap()
}

/// Writes the secret wherever a row can be: now and past, as scheduled, in bulk, under a key of a
/// request, as staged.
fn fill(engine: &Engine) {
    let id = RowId::new("doomed").unwrap();
    block_on(async {
        let secret = note("doomed", &format!("{SECRET} one"));
        engine.create_row(&key(), NOTES, secret).await.unwrap();
        let two = note("doomed", &format!("two {SECRET}"));
        engine.update_row(&key(), NOTES, two, None).await.unwrap();
        let mut soon = note("doomed", &format!("soon {SECRET}"));
        let later = Json::Int(NEW_YEAR_US + 3_600_000_000);
        soon.members.push(("$validFrom".to_owned(), later));
        engine.update_row(&key(), NOTES, soon, None).await.unwrap();
        let batch = BatchWrite {
            operations: vec![operation(Act::Upsert(note(
                "doomed",
                &format!("{SECRET} 3"),
            )))],
            is_atomic: true,
        };
        let sender = Caller {
            request: Some(Arc::new(Request {
                key: "request-1".to_owned(),
                print: 1,
                answer: Some(Box::new(|_, _| SECRET.as_bytes().to_vec())),
            })),
            ..key()
        };
        engine.write_batch(&sender, &batch).await.unwrap();
        for (transaction, act) in [
            (
                "one",
                Act::Update(note("doomed", &format!("staged {SECRET}"))),
            ),
            (
                "many",
                Act::UpsertMany(vec![note("doomed", SECRET), note("other", "x")]),
            ),
            ("spared", Act::Update(note("kept", "staged"))),
        ] {
            engine
                .create_transaction(&key(), transaction, 600)
                .await
                .unwrap();
            let operations = vec![operation(act)];
            engine.stage(&key(), transaction, operations).await.unwrap();
        }
        let ended = Act::Update(note("doomed", &format!("never {SECRET}")));
        engine
            .create_transaction(&key(), "ended", 600)
            .await
            .unwrap();
        engine
            .stage(&key(), "ended", vec![operation(ended)])
            .await
            .unwrap();
        engine.roll_back_transaction(&key(), "ended").await.unwrap();
        fixture::get_row(engine, &key(), NOTES, &id, &[], View::CURRENT)
            .await
            .unwrap();
    });
}

#[test]
fn no_byte_of_an_erased_row_is_left_while_the_engine_runs() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    with_notes(&engine);
    for number in 0..50 {
        let row = note(&format!("r{number}"), &format!("plain {number}"));
        block_on(engine.create_row(&key(), NOTES, row)).unwrap();
    }
    block_on(engine.create_row(&key(), NOTES, note("kept", "kept"))).unwrap();
    fill(&engine);
    let then = engine.status().mark.0;
    let past = vec![format!(r#"{{"method":"asOf","values":[{then}]}}"#)];
    let search = format!(r#"{{"method":"search","attribute":"body","values":["{SECRET}"]}}"#);
    let search = vec![search];
    let lists = [Vec::new(), past, search];
    for texts in &lists {
        for _ in 0..2 {
            list(&engine, texts);
        }
    }
    assert!(list(&engine, &lists[2]).contains(SECRET));
    assert!(
        !traces(directory.path(), SECRET).is_empty(),
        "it was stored"
    );
    let op = TransactionOp {
        table: "notes".to_owned(),
        id: RowId::new("doomed").unwrap(),
        range: Range::default(),
        act: TransactionAct::Erase,
    };
    let erase = TimedTransaction {
        ops: vec![op],
        meta: None,
    };
    assert!(
        block_on(engine.transact(&key(), "d", &erase))
            .unwrap()
            .affected[0]
    );
    // The log is cut to nothing by another thread, as soon as no reader is in it.
    let mut looks = 0;
    while !traces(directory.path(), SECRET).is_empty() {
        looks += 1;
        assert!(looks < LOOKS_MAX, "{:?}", traces(directory.path(), SECRET));
        std::thread::yield_now();
    }
    // No reader is shown it, from whatever cache.
    for texts in &lists {
        assert!(!list(&engine, texts).contains(SECRET), "{texts:?}");
    }
    // What was staged on it comes to nothing; what was staged elsewhere does not.
    for id in ["one", "many"] {
        let committed = block_on(engine.commit_transaction(&key(), id));
        assert!(
            matches!(
                committed,
                Err(EngineError::Transaction(TransactionError::Ended(_)))
            ),
            "{committed:?}"
        );
    }
    block_on(engine.commit_transaction(&key(), "spared")).unwrap();
    assert_eq!(traces(directory.path(), SECRET), Vec::<String>::new());
    engine.close().unwrap();
    assert_eq!(traces(directory.path(), SECRET), Vec::<String>::new());
}
