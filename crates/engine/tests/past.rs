//! Who may look at a table at other times than now.

mod fixture;

use engine::{
    AccessError, BatchRead, Caller, Engine, EngineError, GrantsAsOf, ListRows, OptionsChange,
    ReadError, RowInput, TableChange, View, WantedRows,
};
use fixture::{
    NEW_YEAR_US, PLACE, TickingClock, config, furnish, guest, key, list_rows_of, open, open_past,
    open_past_as, row,
};
use futures_executor::block_on;
use model::{Json, Mark, Past, RowId, TableOptions};

fn query(method: &str, values: &str) -> String {
    format!(r#"{{"method":"{method}","values":[{values}]}}"#)
}

fn as_of(mark: Mark) -> String {
    query("asOf", &mark.0.to_string())
}

fn valid_at(mark: Mark) -> String {
    query("validAt", &mark.0.to_string())
}

/// Rows as text, and the total.
fn list(engine: &Engine, caller: &Caller, texts: &[String]) -> Result<(String, u64), EngineError> {
    let asked = list_rows_of(texts);
    let answer = block_on(engine.list_rows(caller, &asked, View::Committed(GrantsAsOf::Today)))?;
    Ok((
        String::from_utf8_lossy(&answer.rows).into_owned(),
        answer.total,
    ))
}

fn total(engine: &Engine, caller: &Caller, text: String) -> Result<u64, EngineError> {
    list(engine, caller, &[text]).map(|(_, total)| total)
}

fn id() -> RowId {
    RowId::new("a").unwrap()
}

fn granting(n: i64, grants: &[&str]) -> RowInput {
    RowInput {
        permissions: Some(grants.iter().map(ToString::to_string).collect()),
        ..row("a", &[("n", n), ("m", 7)])
    }
}

fn put(engine: &Engine, row: RowInput) -> Mark {
    block_on(engine.upsert_row(&key(), PLACE, row, None))
        .unwrap()
        .mark
}

const ANY: &[&str] = &["read(\"any\")"];

fn with_engine(test: impl FnOnce(&Engine)) {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    let secure = TableChange {
        row_security: Some(true),
        ..TableChange::default()
    };
    block_on(engine.update_table(&key(), PLACE, secure)).unwrap();
    test(&engine);
    engine.close().unwrap();
}

/// Every way to name another time, and what the caller gets.
fn ways(engine: &Engine, caller: &Caller, mark: Mark) -> Vec<Result<(), EngineError>> {
    let texts = [
        as_of(mark),
        valid_at(mark),
        query("validAt", "\"2999-01-01\""),
        query("validBetween", "\"min\",null"),
        query("versions", ""),
    ];
    let mut got: Vec<_> = texts
        .iter()
        .map(|text| total(engine, caller, text.clone()).map(drop))
        .collect();
    let asked = |texts| ListRows {
        total: false,
        ..list_rows_of(texts)
    };
    for judged in [GrantsAsOf::Today, GrantsAsOf::Mark] {
        let texts = &texts[..1];
        let (list, id) = (asked(texts), id());
        let read = engine.get_row(caller, &list, &id, View::Committed(judged));
        got.push(block_on(read).map(drop));
    }
    let part = BatchRead {
        table: "t".to_owned(),
        rows: WantedRows::Ids(vec![id()]),
        texts: Vec::new(),
        as_of: Some(mark),
        valid_at: None,
    };
    let read = block_on(engine.read_batch(caller, "d", vec![part])).unwrap();
    got.extend(read.answer.into_iter().map(|part| part.map(drop)));
    got.push(block_on(engine.list_rows_pinned(caller, PLACE, &[], Some(mark))).map(drop));
    let mut backdated = granting(1, ANY);
    let from = ("$validFrom".to_owned(), Json::Int(mark.0));
    backdated.members.push(from);
    got.push(block_on(engine.upsert_row(caller, PLACE, backdated, None)).map(drop));
    got
}

#[test]
fn only_keys_look_at_the_past_unless_the_owner_opens_it() {
    with_engine(|engine| {
        let grant = TableChange {
            permissions: Some(vec!["read(\"any\")".into(), "write(\"any\")".into()]),
            ..TableChange::default()
        };
        block_on(engine.update_table(&key(), PLACE, grant)).unwrap();
        let mark = put(engine, granting(1, ANY));
        put(engine, granting(2, ANY));
        for got in ways(engine, &guest(), mark) {
            assert_eq!(
                got,
                Err(EngineError::Access(AccessError::PastClosed(Past::Keys)))
            );
        }
        for got in ways(engine, &key(), mark) {
            assert_eq!(got, Ok(()));
        }
        open_past(engine);
        for got in ways(engine, &guest(), mark) {
            assert_eq!(got, Ok(()));
        }
        open_past_as(engine, "keys");
        for got in ways(engine, &guest(), mark) {
            assert_eq!(
                got,
                Err(EngineError::Access(AccessError::PastClosed(Past::Keys))),
                "at once"
            );
        }
        assert_eq!(total(engine, &guest(), query("limit", "5")), Ok(1), "now");
    });
}

/// A draft is written, published, changed, and taken back.
#[test]
fn both_shows_what_the_caller_may_see_now_and_might_see_then() {
    with_engine(|engine| {
        open_past_as(engine, "both");
        let drafted = put(engine, granting(1, &[]));
        let published = put(engine, granting(2, ANY));
        let changed = put(engine, granting(3, ANY));
        let see = |text: String| total(engine, &guest(), text);
        assert_eq!(see(as_of(drafted)), Ok(0));
        assert_eq!(
            see(valid_at(drafted)),
            Ok(0),
            "what was true then is the draft"
        );
        for when in [published, changed] {
            assert_eq!(see(as_of(when)), Ok(1));
            assert_eq!(see(valid_at(when)), Ok(1));
        }
        for text in [query("versions", ""), query("validBetween", "\"min\",null")] {
            assert_eq!(
                see(text),
                Err(EngineError::Access(AccessError::PastClosed(Past::Both)))
            );
        }
        let earlier = [as_of(changed), valid_at(published)];
        let mixed = list(engine, &guest(), &earlier);
        assert_eq!(
            mixed,
            Err(EngineError::Access(AccessError::PastClosed(Past::Both)))
        );
        assert_eq!(
            total(engine, &key(), as_of(drafted)),
            Ok(1),
            "a key sees it"
        );
        // Who may not see the row now sees nothing of it; neither once it is there again.
        put(engine, granting(4, &[]));
        assert_eq!(see(as_of(published)), Ok(0));
        put(engine, granting(5, ANY));
        assert_eq!(see(as_of(published)), Ok(1));
        block_on(engine.delete_row(&key(), PLACE, id(), None)).unwrap();
        assert_eq!(see(as_of(published)), Ok(0), "it is deleted");
        assert_eq!(see(valid_at(published)), Ok(0));
        block_on(engine.create_row(&key(), PLACE, granting(6, ANY))).unwrap();
        assert_eq!(see(as_of(published)), Ok(0), "another row has its id");
    });
}

#[test]
fn both_judges_by_the_tables_grants_of_then_as_well() {
    with_engine(|engine| {
        open_past_as(engine, "both");
        let closed = put(engine, granting(1, &[]));
        let grant = TableChange {
            permissions: Some(vec!["read(\"any\")".into()]),
            ..TableChange::default()
        };
        block_on(engine.update_table(&key(), PLACE, grant)).unwrap();
        let opened = put(engine, granting(2, &[]));
        let see = |text: String| total(engine, &guest(), text);
        for text in [as_of(closed), valid_at(closed)] {
            assert_eq!(see(text), Ok(0));
        }
        for text in [as_of(opened), valid_at(opened)] {
            assert_eq!(see(text), Ok(1));
        }
        block_on(engine.delete_row(&key(), PLACE, id(), None)).unwrap();
        assert_eq!(
            see(as_of(opened)),
            Ok(0),
            "the table's grant brings no deleted row back"
        );
    });
}

#[test]
fn both_leaves_out_columns_that_are_gone() {
    with_engine(|engine| {
        let then = put(engine, granting(1, ANY));
        block_on(engine.delete_column(&key(), PLACE, "m")).unwrap();
        let show = || list(engine, &guest(), &[as_of(then)]).unwrap();
        open_past(engine);
        assert!(show().0.contains("Int(7)"), "{}", show().0);
        open_past_as(engine, "both");
        assert!(
            !show().0.contains("Int(7)") && show().1 == 1,
            "{}",
            show().0
        );
        let filtered = [
            as_of(then),
            r#"{"method":"equal","attribute":"m","values":[7]}"#.into(),
        ];
        assert!(matches!(
            list(engine, &guest(), &filtered),
            Err(EngineError::Read(ReadError::Query(_)))
        ));
    });
}

#[test]
fn a_new_table_starts_as_the_server_says() {
    let directory = tempfile::tempdir().unwrap();
    let new_tables = TableOptions {
        history: model::Retention::Days(3),
        past: Past::Both,
        ..TableOptions::default()
    };
    let config = engine::Config {
        new_tables,
        ..config(directory.path())
    };
    let engine = fixture::start(config, TickingClock::at(NEW_YEAR_US)).unwrap();
    furnish(&engine);
    let options = engine.table_options(&key(), PLACE).unwrap();
    assert_eq!(
        (options.history, options.past),
        (new_tables.history, Past::Both)
    );
    let wrong = OptionsChange {
        past: Some("as-of".to_owned()),
        ..OptionsChange::default()
    };
    let refused = block_on(engine.set_table_options(&key(), PLACE, &wrong));
    assert!(matches!(
        refused,
        Err(EngineError::Argument { name: "past", .. })
    ));
    engine.close().unwrap();
}
