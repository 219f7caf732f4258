//! Columns and indexes that change under readers and writers, and the lists of containers.

mod fixture;

use std::sync::Arc;

use engine::{
    ColumnChange, ColumnFault, Engine, EngineError, IndexFault, ListContainers, ListRows,
    NewColumn, NewIndex, ReadError, SchemaError, View,
};
use fixture::{
    NEW_YEAR_US, PLACE, TickingClock, config, furnish, integer, key, list_rows_of, open, row,
};
use futures_executor::block_on;
use model::{IndexStatus, Json, Mark, RowId, Value};
use store::{Op, RowAct, RowOp, Stamps, WriteBatch};
use testing::OwnTurn;

fn text(key: &str, size: i64) -> NewColumn {
    NewColumn {
        key: key.into(),
        kind: "varchar".into(),
        size: Some(size),
        ..NewColumn::default()
    }
}

fn index(key: &str, kind: &str, columns: &[&str]) -> NewIndex {
    NewIndex {
        key: key.into(),
        kind: kind.into(),
        columns: columns.iter().map(|key| (*key).to_owned()).collect(),
        ..NewIndex::default()
    }
}

fn of_integer(new_key: Option<&str>) -> ColumnChange {
    ColumnChange {
        kind: "integer",
        new_key: new_key.map(str::to_owned),
        ..ColumnChange::default()
    }
}

fn open_furnished(directory: &std::path::Path) -> Arc<Engine> {
    let engine = open(directory, TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    engine
}

fn keys(engine: &Engine) -> Vec<String> {
    let table = engine.get_table(&key(), PLACE).unwrap();
    let columns = table.columns.iter();
    columns.map(|column| column.key.to_string()).collect()
}

#[test]
fn columns_come_change_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open_furnished(directory.path());
    block_on(async {
        let made = engine.create_column(&key(), PLACE, &text("s", 9)).await;
        assert_eq!(made.unwrap().key.as_str(), "s");
        assert_eq!(keys(&engine), ["n", "m", "s"]);
        let change = of_integer(Some("count"));
        let changed = engine.update_column(&key(), PLACE, "n", &change).await;
        let changed = changed.unwrap();
        assert_eq!(changed.key.as_str(), "count");
        let found = engine.get_column(&key(), PLACE, "count").unwrap();
        assert_eq!(found, changed);
        engine.delete_column(&key(), PLACE, "m").await.unwrap();
        assert_eq!(keys(&engine), ["count", "s"]);
        let index = engine.get_index(&key(), PLACE, "by_n").unwrap().1;
        assert!(index.is_available());
    });
    engine.close().unwrap();
}

#[test]
fn limits_that_are_not_given_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open_furnished(directory.path());
    block_on(async {
        let bounded = NewColumn {
            min: Some(Json::Int(1)),
            max: Some(Json::Int(9)),
            ..integer("b")
        };
        engine.create_column(&key(), PLACE, &bounded).await.unwrap();
        let change = ColumnChange {
            max: Some(Json::Int(20)),
            default: Some(Json::Int(15)),
            ..of_integer(None)
        };
        let changed = engine.update_column(&key(), PLACE, "b", &change).await;
        let changed = changed.unwrap();
        assert_eq!(changed.kind, model::ColumnKind::Integer { min: 1, max: 20 });
        assert_eq!(changed.default, Some(Value::Int(15)));
        engine
            .create_column(&key(), PLACE, &text("s", 9))
            .await
            .unwrap();
        let change = ColumnChange {
            kind: "varchar",
            ..ColumnChange::default()
        };
        let changed = engine.update_column(&key(), PLACE, "s", &change).await;
        let kind = model::ColumnKind::Varchar { chars_max: 9 };
        assert_eq!(changed.unwrap().kind, kind);
    });
    engine.close().unwrap();
}

fn fault<T: std::fmt::Debug>(outcome: Result<T, EngineError>) -> ColumnFault {
    match outcome.unwrap_err() {
        EngineError::Schema(SchemaError::Column(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn broken_rules_of_columns_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open_furnished(directory.path());
    let update = |of: &str, change: &ColumnChange| {
        fault(block_on(engine.update_column(&key(), PLACE, of, change)))
    };
    let taken = fault(block_on(engine.create_column(&key(), PLACE, &integer("N"))));
    assert!(matches!(taken, ColumnFault::Exists(_)));
    assert!(matches!(
        update("n", &of_integer(Some("M"))),
        ColumnFault::Exists(_)
    ));
    assert!(matches!(
        update("none", &of_integer(None)),
        ColumnFault::NotFound(_)
    ));
    let other_kind = ColumnChange {
        kind: "float",
        ..ColumnChange::default()
    };
    assert!(matches!(
        update("n", &other_kind),
        ColumnFault::TypeInvalid(_)
    ));
    let required_default = ColumnChange {
        required: true,
        default: Some(Json::Int(1)),
        ..of_integer(None)
    };
    assert!(matches!(
        update("n", &required_default),
        ColumnFault::DefaultUnsupported(_)
    ));
    let upside_down = ColumnChange {
        min: Some(Json::Int(5)),
        max: Some(Json::Int(4)),
        ..of_integer(None)
    };
    assert!(matches!(
        update("n", &upside_down),
        ColumnFault::ValueInvalid(_)
    ));
    let indexed = fault(block_on(engine.delete_column(&key(), PLACE, "n")));
    assert!(matches!(indexed, ColumnFault::IndexDependency(_)));
    let absent = fault(block_on(engine.delete_column(&key(), PLACE, "none")));
    assert!(matches!(absent, ColumnFault::NotFound(_)));
    // A key may change its case.
    let recased = block_on(engine.update_column(&key(), PLACE, "n", &of_integer(Some("N"))));
    assert_eq!(recased.unwrap().key.as_str(), "N");
    engine.close().unwrap();
}

#[test]
fn a_hundred_columns_at_once_all_come() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open_furnished(directory.path());
    std::thread::scope(|scope| {
        for part in 0..10 {
            let engine = &engine;
            scope.spawn(move || {
                for n in 0..10 {
                    let column = integer(&format!("k{part}-{n}"));
                    block_on(engine.create_column(&key(), PLACE, &column)).unwrap();
                    let id = format!("r{part}-{n}");
                    block_on(engine.create_row(&key(), PLACE, row(&id, &[("n", 1)]))).unwrap();
                }
            });
        }
    });
    assert_eq!(keys(&engine).len(), 102);
    engine.close().unwrap();
}

#[test]
fn a_cached_list_does_not_outlive_its_schema() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open_furnished(directory.path());
    block_on(engine.create_row(&key(), PLACE, row("a", &[("n", 1)]))).unwrap();
    let ask = || {
        let asked = ListRows {
            ttl_s: 60,
            ..list_rows_of(&[])
        };
        let cached = block_on(engine.list_rows(&key(), &asked, View::CURRENT))
            .unwrap()
            .cached;
        cached.map(|cached| cached.is_hit)
    };
    let check = |changes: &str, expected| assert_eq!(ask(), Some(expected), "{changes}");
    let (hit, miss) = (true, false);
    check("the first read", miss);
    check("the second", hit);
    block_on(engine.create_column(&key(), PLACE, &integer("k"))).unwrap();
    check("a new column", miss);
    block_on(engine.update_column(&key(), PLACE, "k", &of_integer(Some("l")))).unwrap();
    check("a rename", miss);
    check("nothing", hit);
    block_on(engine.create_index(&key(), PLACE, &index("i", "key", &["l"]))).unwrap();
    check("an index", hit);
    block_on(engine.delete_index(&key(), PLACE, "i")).unwrap();
    block_on(engine.delete_column(&key(), PLACE, "l")).unwrap();
    check("a dropped column", miss);
    engine.close().unwrap();
}

#[test]
fn broken_rules_of_indexes_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open_furnished(directory.path());
    let create = |new: &NewIndex| block_on(engine.create_index(&key(), PLACE, new));
    let fault = |outcome: Result<engine::IndexOf, EngineError>| match outcome.unwrap_err() {
        EngineError::Schema(SchemaError::Index(fault)) => fault,
        other => panic!("{other:?}"),
    };
    assert!(matches!(
        fault(create(&index("by_n", "key", &["m"]))),
        IndexFault::Exists(_)
    ));
    assert!(matches!(
        fault(create(&index("i", "key", &["z"]))),
        IndexFault::ColumnUnknown(_)
    ));
    assert!(matches!(
        fault(create(&index("i", "key", &[]))),
        IndexFault::ColumnInvalid(_)
    ));
    let refused = create(&index("i", "hash", &["n"])).unwrap_err();
    assert!(matches!(
        refused,
        EngineError::Argument { name: "type", .. }
    ));
    let refused = create(&index("a b", "key", &["n"])).unwrap_err();
    assert!(matches!(refused, EngineError::Argument { name: "key", .. }));
    let absent = block_on(engine.delete_index(&key(), PLACE, "none")).unwrap_err();
    assert_eq!(
        absent,
        EngineError::Schema(SchemaError::Index(IndexFault::NotFound("none".into())))
    );
    for n in 1..61 {
        create(&index(&format!("i{n}"), "key", &["m"])).unwrap();
    }
    assert!(matches!(
        fault(create(&index("i61", "key", &["m"]))),
        IndexFault::LimitExceeded(_)
    ));
    engine.close().unwrap();
}

/// Writes more rows than an index is built over at once, past the engine.
fn write_many_rows(directory: &std::path::Path) {
    let store = fixture::open_store(&config(directory));
    let loaded = block_on(store.load()).unwrap();
    let database = &loaded.catalogue.project("p").unwrap().databases["d"];
    let table = &database.tables["t"];
    let insert = |n: i64| {
        Op::Row(RowOp::now(
            table.clone(),
            RowId::new(&format!("r{n}")).unwrap(),
            RowAct::Insert {
                values: vec![Value::Null, Value::Int(n / 2)],
                permissions: vec![],
                stamps: Stamps::default(),
                guard: store::Guard::Open,
            },
        ))
    };
    let mut mark = loaded.horizon.next();
    for slice in 0..=10 {
        let batch = WriteBatch {
            catalogue_epoch: loaded.catalogue.epoch,
            ops: (slice * 10_000..(slice + 1) * 10_000).map(insert).collect(),
            author: None,
            unchanged_since: None,
            meta: None,
            noted_in: None,
            space: store::SpaceLimit::Any,
        };
        let pending = block_on(store.apply(&[batch], mark)).unwrap();
        assert!(testing::done(block_on(pending.commit())).unwrap()[0].is_ok());
        mark = mark.next();
    }
    block_on(store.close(Mark(mark.0 - 1))).unwrap();
}

/// Waits for the writer, which builds when no one else writes.
fn status_once_built(engine: &Engine, index: &str) -> IndexStatus {
    loop {
        let status = engine.get_index(&key(), PLACE, index).unwrap().1.status;
        if status != IndexStatus::Processing {
            return status;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_large_index_is_built_after_the_answer_also_over_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    open_furnished(directory.path()).close().unwrap();
    write_many_rows(directory.path());
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US + 60_000_000));
    let create = |engine: &Engine, new: NewIndex| {
        let made = block_on(engine.create_index(&key(), PLACE, &new));
        assert_eq!(made.unwrap().1.status, IndexStatus::Processing);
    };
    create(&engine, index("by_m", "key", &["m"]));
    assert_eq!(status_once_built(&engine, "by_m"), IndexStatus::Available);
    create(&engine, index("one_m", "unique", &["m"]));
    engine.close().unwrap();
    let engine = open(
        directory.path(),
        TickingClock::at(NEW_YEAR_US + 120_000_000),
    );
    let failed = status_once_built(&engine, "one_m");
    assert!(matches!(failed, IndexStatus::Failed(_)), "{failed:?}");
    engine.close().unwrap();
}

/// The ids, or the error, of a list of columns.
fn listed(
    engine: &Engine,
    texts: &[&str],
    search: &str,
) -> Result<(u64, Vec<String>), EngineError> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let asked = ListContainers {
        texts: &texts,
        search,
        total: true,
    };
    let listed = engine.list_columns(&key(), PLACE, asked)?;
    let keys = listed.items.iter().map(|column| column.key.to_string());
    Ok((listed.total, keys.collect()))
}

/// Queries, the total, and the keys of the page, of the columns `n`, `m`, `long` and `short`.
#[rustfmt::skip]
const COLUMN_LISTS: &[(&[&str], u64, &[&str])] = &[
        (&[], 4, &["n", "m", "long", "short"]),
        (
            &[r#"{"method":"equal","attribute":"type","values":["varchar","text"]}"#],
            2,
            &["long", "short"],
        ),
        (
            &[r#"{"method":"greaterThan","attribute":"size","values":[9]}"#],
            1,
            &["long"],
        ),
        (
            &[r#"{"method":"isNull","attribute":"size"}"#],
            2,
            &["n", "m"],
        ),
        (
            &[r#"{"method":"equal","attribute":"required","values":[true]}"#],
            0,
            &[],
        ),
        (
            &[r#"{"method":"startsWith","attribute":"key","values":["s"]}"#],
            1,
            &["short"],
        ),
        (
            &[r#"{"method":"contains","attribute":"$id","values":["o"]}"#],
            2,
            &["long", "short"],
        ),
        (
            &[
                r#"{"method":"orderDesc","attribute":"key"}"#,
                r#"{"method":"limit","values":[2]}"#,
            ],
            4,
            &["short", "n"],
        ),
        (
            &[r#"{"method":"orderAsc","attribute":"size"}"#],
            4,
            &["n", "m", "short", "long"],
        ),
        (
            &[r#"{"method":"cursorAfter","values":["m"]}"#],
            4,
            &["long", "short"],
        ),
        (
            &[
                r#"{"method":"cursorBefore","values":["long"]}"#,
                r#"{"method":"limit","values":[1]}"#,
            ],
            4,
            &["m"],
        ),
        (&[r#"{"method":"offset","values":[3]}"#], 4, &["short"]),
        (
            &[r#"{"method":"select","values":["$id"]}"#],
            4,
            &["n", "m", "long", "short"],
        ),
        (
            &[
                r#"{"method":"or","values":[{"method":"equal","attribute":"key","values":["n"]},{"method":"equal","attribute":"size","values":[9]}]}"#,
            ],
            2,
            &["n", "short"],
        ),
    ];

fn with_four_columns(directory: &std::path::Path) -> Arc<Engine> {
    let engine = open_furnished(directory);
    for (name, size) in [("long", 90), ("short", 9)] {
        block_on(engine.create_column(&key(), PLACE, &text(name, size))).unwrap();
    }
    engine
}

#[test]
fn columns_are_filtered_ordered_and_paged() {
    let directory = tempfile::tempdir().unwrap();
    let engine = with_four_columns(directory.path());
    for (texts, total, expected) in COLUMN_LISTS {
        let expected: Vec<String> = expected.iter().map(|key| (*key).to_owned()).collect();
        assert_eq!(
            listed(&engine, texts, "").unwrap(),
            (*total, expected),
            "{texts:?}"
        );
    }
    assert_eq!(
        listed(&engine, &[], "ON").unwrap(),
        (1, vec!["long".to_owned()])
    );
    engine.close().unwrap();
}

#[test]
fn a_list_that_cannot_be_answered_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let engine = with_four_columns(directory.path());
    for text in [
        r#"{"method":"equal","attribute":"colour","values":["red"]}"#,
        r#"{"method":"equal","attribute":"size","values":["9"]}"#,
        r#"{"method":"orderRandom"}"#,
        r#"{"method":"limit","values":[0]}"#,
    ] {
        let refused = listed(&engine, &[text], "").unwrap_err();
        assert!(
            matches!(refused, EngineError::Read(ReadError::Query(_))),
            "{text}: {refused}"
        );
    }
    let absent = listed(&engine, &[r#"{"method":"cursorAfter","values":["z"]}"#], "");
    assert!(matches!(
        absent,
        Err(EngineError::Read(ReadError::CursorNotFound(_)))
    ));
    let by_size = r#"{"method":"orderAsc","attribute":"size"}"#;
    let null = listed(
        &engine,
        &[by_size, r#"{"method":"cursorAfter","values":["n"]}"#],
        "",
    );
    assert!(matches!(
        null,
        Err(EngineError::Read(ReadError::CursorNull(_)))
    ));
    engine.close().unwrap();
}
