//! Answers at fixed coordinates: kept without expiry, and never longer than they may be seen.

mod fixture;

use engine::{
    AccessError, Caller, ColumnChange, Engine, EngineError, GrantsAsOf, ListAnswer, ListRows,
    NewColumn, OptionsChange, ReadError, RowInput, TableChange, TimedTransaction, TransactionAct,
    TransactionOp, View,
};
use fixture::{
    NEW_YEAR_US, PLACE, TickingClock, config, furnish, guest, integer, key, list_rows_of, open,
    open_past, row,
};
use futures_executor::block_on;
use model::{Mark, RowId};

const SECOND_US: i64 = 1_000_000;

fn id(text: &str) -> RowId {
    RowId::new(text).unwrap()
}

fn as_of(mark: Mark) -> String {
    format!(r#"{{"method":"asOf","values":[{}]}}"#, mark.0)
}

struct Ask<'a> {
    caller: Caller,
    texts: &'a [&'a str],
    bypass: bool,
    judged: GrantsAsOf,
}

fn asked(engine: &Engine, ask: &Ask<'_>, only: Option<&str>) -> Result<ListAnswer, EngineError> {
    let texts: Vec<String> = ask.texts.iter().map(|text| (*text).to_owned()).collect();
    let list = ListRows {
        total: only.is_none(),
        bypass: ask.bypass,
        ..list_rows_of(&texts)
    };
    match only {
        None => block_on(engine.list_rows(&ask.caller, &list, View::Committed(ask.judged))),
        Some(only) => {
            let only = id(only);
            let read = engine.get_row(&ask.caller, &list, &only, View::Committed(ask.judged));
            block_on(read).map(fixture::at_times)
        }
    }
}

fn by(caller: Caller, texts: &'static [&'static str]) -> Ask<'static> {
    Ask {
        caller,
        texts,
        bypass: false,
        judged: GrantsAsOf::Today,
    }
}

fn list(engine: &Engine, texts: &[&str]) -> ListAnswer {
    let ask = Ask {
        texts,
        ..by(key(), &[])
    };
    asked(engine, &ask, None).unwrap()
}

/// Whether it was a hit; and the answer is the one that is read around the cache.
#[track_caller]
fn is_hit(engine: &Engine, texts: &[&str]) -> Option<bool> {
    let answer = list(engine, texts);
    let around = Ask {
        texts,
        bypass: true,
        ..by(key(), &[])
    };
    let read = asked(engine, &around, None).unwrap();
    assert_eq!(read.cached, None);
    assert_eq!((&answer.rows, answer.total), (&read.rows, read.total));
    assert_eq!(answer.fixed, read.fixed);
    answer.cached.map(|cached| cached.is_hit)
}

fn create(engine: &Engine, row: RowInput) -> Mark {
    block_on(engine.create_row(&key(), PLACE, row))
        .unwrap()
        .mark
}

fn granting(id: &str, n: i64, permissions: &[&str]) -> RowInput {
    RowInput {
        permissions: Some(permissions.iter().map(ToString::to_string).collect()),
        ..row(id, &[("n", n)])
    }
}

fn erase(engine: &Engine, row: &str) {
    let op = TransactionOp {
        table: "t".to_owned(),
        id: id(row),
        range: model::history::Range::default(),
        act: TransactionAct::Erase,
    };
    let transaction = TimedTransaction {
        ops: vec![op],
        meta: None,
    };
    block_on(engine.transact(&key(), "d", &transaction)).unwrap();
}

fn change_table(engine: &Engine, permissions: &[&str], row_security: bool) {
    let change = TableChange {
        permissions: Some(permissions.iter().map(ToString::to_string).collect()),
        row_security: Some(row_security),
        ..TableChange::default()
    };
    block_on(engine.update_table(&key(), PLACE, change)).unwrap();
}

fn with_engine(test: impl FnOnce(&Engine, &TickingClock)) {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = open(directory.path(), clock.clone());
    furnish(&engine);
    open_past(&engine);
    test(&engine, &clock);
    engine.close().unwrap();
}

#[test]
fn fixed_coordinates_are_read_once_and_stay_what_they_were() {
    with_engine(|engine, clock| {
        let mark = create(engine, row("a", &[("n", 1)]));
        let (then, before) = (as_of(mark), as_of(Mark(mark.0 - 1)));
        let equal = r#"{"method":"equal","attribute":"n","values":[1]}"#;
        for texts in [&[then.as_str()][..], &[&before], &[&then, equal]] {
            assert_eq!(is_hit(engine, texts), Some(false));
            assert_eq!(is_hit(engine, texts), Some(true));
        }
        let first = list(engine, &[&then]);
        assert_eq!((first.total, first.mark), (1, mark));
        assert!(first.fixed.is_some());
        clock.step_us(SECOND_US);
        clock.pass_ms(7_000);
        let two = row("a", &[("n", 2)]);
        block_on(engine.update_row(&key(), PLACE, two, None)).unwrap();
        block_on(engine.delete_row(&key(), PLACE, id("a"), None)).unwrap();
        let again = list(engine, &[&then]);
        assert_eq!((&again.rows, again.total), (&first.rows, 1));
        let cached = again.cached.unwrap();
        assert!(cached.is_hit && cached.is_stale.is_none());
        assert_eq!(cached.age_s, 7);
        assert_eq!(list(engine, &[&before]).total, 0);
        // One row by its id.
        let one = |bypass| {
            let ask = Ask {
                texts: &[&then],
                bypass,
                ..by(key(), &[])
            };
            asked(engine, &ask, Some("a")).unwrap()
        };
        assert!(!one(false).cached.unwrap().is_hit);
        let (cached, read) = (one(false), one(true));
        assert!(cached.cached.unwrap().is_hit);
        assert_eq!((cached.rows, cached.tag), (read.rows, read.tag));
        let absent = Ask {
            texts: &[&then],
            ..by(key(), &[])
        };
        let absent = asked(engine, &absent, Some("b"));
        assert!(matches!(
            absent,
            Err(EngineError::Read(ReadError::RowNotFound(_)))
        ));
    });
}

#[test]
fn future_times_are_not_cached() {
    with_engine(|engine, clock| {
        let mark = create(engine, row("a", &[("n", 1)]));
        let then = as_of(mark);
        let soon = NEW_YEAR_US + 60 * SECOND_US;
        let valid_soon = format!(r#"{{"method":"validAt","values":[{soon}]}}"#);
        let to_soon = format!(
            r#"{{"method":"validBetween","values":[{},{soon}]}}"#,
            mark.0
        );
        let open = format!(r#"{{"method":"validBetween","values":[{},null]}}"#, mark.0);
        let versions = r#"{"method":"versions"}"#;
        for texts in [
            &[then.as_str(), &valid_soon][..],
            &[&then, &to_soon],
            &[&then, &open],
            &[&then, versions],
            &[&valid_soon],
            &[versions],
        ] {
            for _ in 0..2 {
                assert_eq!(is_hit(engine, texts), None, "{texts:?}");
                assert_eq!(list(engine, texts).fixed, None, "{texts:?}");
            }
        }
        clock.step_us(61 * SECOND_US);
        for texts in [&[then.as_str(), &valid_soon][..], &[&then, &to_soon]] {
            assert_eq!(is_hit(engine, texts), Some(false), "{texts:?}");
            assert_eq!(is_hit(engine, texts), Some(true), "{texts:?}");
        }
    });
}

#[test]
fn an_erased_row_is_in_no_answer_any_more() {
    with_engine(|engine, _| {
        create(engine, row("a", &[("n", 1)]));
        let mark = create(engine, row("b", &[("n", 2)]));
        let then = as_of(mark);
        let texts = [then.as_str()];
        assert_eq!(list(engine, &texts).total, 2);
        assert_eq!(is_hit(engine, &texts), Some(true));
        let before = list(engine, &texts).fixed.unwrap();
        erase(engine, "a");
        assert_eq!(is_hit(engine, &texts), Some(false));
        assert_eq!(list(engine, &texts).total, 1);
        assert_ne!(list(engine, &texts).fixed.unwrap().epochs, before.epochs);
    });
}

#[test]
fn access_to_the_past_is_judged_by_grants_of_today() {
    with_engine(|engine, _| {
        change_table(engine, &[], true);
        let mark = create(engine, granting("a", 1, &["read(\"any\")"]));
        let then = as_of(mark);
        let see = |caller: Caller| {
            let ask = Ask {
                texts: &[&then],
                ..by(caller, &[])
            };
            asked(engine, &ask, None).map(|answer| (answer.total, answer.cached.unwrap().is_hit))
        };
        assert_eq!(see(guest()), Ok((1, false)));
        assert_eq!(see(guest()), Ok((1, true)));
        assert_eq!(see(key()), Ok((1, false)), "a key sees by another name");
        // The row's own grant goes …
        let closed = granting("a", 1, &[]);
        block_on(engine.update_row(&key(), PLACE, closed, None)).unwrap();
        assert_eq!(see(guest()), Ok((0, false)));
        assert_eq!(see(guest()), Ok((0, true)));
        assert_eq!(see(key()), Ok((1, false)), "its grants are shown, too");
        // … and another life of the row does not bring it back: the caller of it does not
        // say who sees what it was before.
        block_on(engine.delete_row(&key(), PLACE, id("a"), None)).unwrap();
        assert_eq!(see(guest()), Ok((0, true)));
        create(engine, granting("a", 3, &["read(\"any\")"]));
        assert_eq!(see(guest()), Ok((0, false)));
        // The table's.
        change_table(engine, &["read(\"any\")"], false);
        assert_eq!(see(guest()), Ok((1, false)));
        change_table(engine, &[], false);
        assert_eq!(
            see(guest()),
            Err(EngineError::Access(AccessError::Unauthorized))
        );
    });
}

#[test]
fn rows_of_before_a_deletion_keep_their_grants_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let mut engine = open(directory.path(), clock.clone());
    furnish(&engine);
    open_past(&engine);
    change_table(&engine, &[], true);
    // One was shown and the other hidden; in their next life it is the other way round.
    let shown = ["read(\"any\")"];
    create(&engine, granting("a", 1, &shown));
    let then = as_of(create(&engine, granting("b", 1, &[])));
    for (row, permissions) in [("a", &[][..]), ("b", &shown)] {
        block_on(engine.delete_row(&key(), PLACE, id(row), None)).unwrap();
        create(&engine, granting(row, 2, permissions));
    }
    for is_reopened in [false, true] {
        if is_reopened {
            engine.close().unwrap();
            engine = open(directory.path(), clock.clone());
        }
        for is_hit in [false, true] {
            let ask = Ask {
                texts: &[&then],
                ..by(guest(), &[])
            };
            let answer = asked(&engine, &ask, None).unwrap();
            let rows = String::from_utf8(answer.rows.to_vec()).unwrap();
            assert!(rows.contains(" a ") && !rows.contains(" b "), "{rows}");
            assert_eq!(answer.cached.map(|cached| cached.is_hit), Some(is_hit));
        }
    }
    engine.close().unwrap();
}

#[test]
fn grants_of_then_take_away_and_never_give() {
    with_engine(|engine, _| {
        change_table(engine, &[], true);
        let shown = create(engine, granting("a", 1, &["read(\"any\")"]));
        let hidden = create(engine, granting("b", 1, &[]));
        let set = |id: &str, permissions: &[&str]| {
            let row = granting(id, 1, permissions);
            block_on(engine.update_row(&key(), PLACE, row, None))
                .unwrap()
                .mark
        };
        let see = |caller: &Caller, mark: Mark, judged: GrantsAsOf| {
            let texts = as_of(mark);
            let ask = Ask {
                texts: &[&texts],
                judged,
                ..by(caller.clone(), &[])
            };
            asked(engine, &ask, None).map(|answer| answer.total)
        };
        let (today, then) = (GrantsAsOf::Today, GrantsAsOf::Mark);
        // Granted since: what was hidden then stays hidden then.
        set("b", &["read(\"any\")"]);
        assert_eq!(see(&guest(), hidden, today), Ok(2));
        assert_eq!(see(&guest(), hidden, then), Ok(1));
        // Revoked since: what was shown then is not shown any more.
        let revoked = set("a", &[]);
        assert_eq!(see(&guest(), shown, today), Ok(0));
        assert_eq!(see(&guest(), shown, then), Ok(0));
        assert_eq!(see(&guest(), revoked, then), Ok(1));
        // A key sees all of it, with the grants of then.
        assert_eq!(see(&key(), hidden, then), Ok(2));
        let texts = as_of(shown);
        let ask = Ask {
            texts: &[&texts],
            judged: then,
            ..by(key(), &[])
        };
        let rows = asked(engine, &ask, None).unwrap().rows;
        let rows = String::from_utf8(rows.to_vec()).unwrap();
        assert!(rows.contains(r#"["read(\"any\")"]"#), "{rows}");
        // The same of the table as a whole.
        let open = create(engine, row("c", &[("n", 1)]));
        change_table(engine, &["read(\"any\")"], true);
        assert_eq!(see(&guest(), open, today), Ok(3));
        assert_eq!(see(&guest(), open, then), Ok(1));
        change_table(engine, &[], false);
        assert_eq!(
            see(&guest(), open, then),
            Err(EngineError::Access(AccessError::Unauthorized))
        );
        // It is nothing without a time that it could be as of.
        let nothing = Ask {
            judged: then,
            ..by(key(), &[])
        };
        let refused = asked(engine, &nothing, None).map(|answer| answer.total);
        let name = "permissions";
        assert!(matches!(refused, Err(EngineError::Argument { name: n, .. }) if n == name));
    });
}

#[test]
fn the_past_is_asked_by_the_names_it_had() {
    let column = |key: &str| ColumnChange {
        kind: "integer",
        new_key: Some(key.to_owned()),
        ..ColumnChange::default()
    };
    let equal = |key: &str| format!(r#"{{"method":"equal","attribute":"{key}","values":[1]}}"#);
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = open(directory.path(), clock.clone());
    furnish(&engine);
    open_past(&engine);
    let first = create(&engine, row("a", &[("n", 1), ("m", 5)]));
    let told = |engine: &Engine, mark: Mark, key: &str| {
        let (then, equal) = (as_of(mark), equal(key));
        let ask = Ask {
            texts: &[&then, &equal],
            ..by(self::key(), &[])
        };
        asked(engine, &ask, None).map(|answer| String::from_utf8(answer.rows.to_vec()).unwrap())
    };
    let before = told(&engine, first, "n").unwrap();
    assert!(before.contains("[Int(1), Int(5)]"), "{before}");
    clock.step_us(SECOND_US);
    // Renamed, one added, one dropped.
    block_on(engine.update_column(&key(), PLACE, "n", &column("number"))).unwrap();
    let renamed = create(&engine, row("b", &[("number", 1), ("m", 6)]));
    clock.step_us(SECOND_US);
    block_on(engine.create_column(&key(), PLACE, &integer("late"))).unwrap();
    block_on(engine.delete_column(&key(), PLACE, "m")).unwrap();
    clock.step_us(SECOND_US);
    let last = create(&engine, row("c", &[("number", 2), ("late", 7)]));
    let check = |engine: &Engine| {
        assert_eq!(told(engine, first, "n").as_deref(), Ok(&*before));
        assert!(told(engine, first, "number").is_err(), "not called so yet");
        let then = told(engine, renamed, "number").unwrap();
        assert!(then.contains("[Int(1), Int(6)]"), "{then}");
        assert!(
            told(engine, renamed, "n").is_err(),
            "not called so any more"
        );
        assert!(told(engine, last, "m").is_err(), "dropped");
        let now = told(engine, last, "number").unwrap();
        assert!(now.contains("[Int(1), Null]"), "{now}");
    };
    check(&engine);
    // Before there was a table its rows are none, by the names it was made with.
    let none = told(&engine, Mark(NEW_YEAR_US - 1), "n").unwrap();
    assert!(!none.contains("Int"), "{none}");
    engine.close().unwrap();
    let engine = open(directory.path(), clock);
    check(&engine);
    engine.close().unwrap();
}

#[test]
fn another_schema_makes_older_answers_unreachable() {
    with_engine(|engine, _| {
        let mark = create(engine, row("a", &[("n", 1)]));
        let then = as_of(mark);
        let texts = [then.as_str()];
        assert_eq!(is_hit(engine, &texts), Some(false));
        let late = NewColumn {
            key: "late".to_owned(),
            ..integer("late")
        };
        block_on(engine.create_column(&key(), PLACE, &late)).unwrap();
        assert_eq!(is_hit(engine, &texts), Some(false));
        assert_eq!(is_hit(engine, &texts), Some(true));
    });
}

#[test]
fn the_owner_says_for_how_long_clients_need_not_ask() {
    with_engine(|engine, _| {
        let mark = create(engine, row("a", &[("n", 1)]));
        let set = |pinned_max_age_s| {
            let change = OptionsChange {
                pinned_max_age_s: Some(pinned_max_age_s),
                ..OptionsChange::default()
            };
            block_on(engine.set_table_options(&key(), PLACE, &change))
        };
        let age = || list(engine, &[&as_of(mark)]).fixed.unwrap().max_age_s;
        assert_eq!(age(), 0);
        for age_s in [1, 31_536_000, 0] {
            assert_eq!(set(age_s).unwrap().pinned_max_age_s, age_s as u32);
            assert_eq!(age(), age_s as u32);
        }
        for wrong in [-1, 31_536_001, i64::MAX] {
            assert!(matches!(set(wrong), Err(EngineError::Argument { .. })));
        }
        let refused = engine.table_options(&guest(), PLACE);
        assert!(matches!(
            refused,
            Err(EngineError::Access(AccessError::ScopeMissing(_)))
        ));
    });
}

#[test]
fn without_a_cache_nothing_is_kept_and_the_answers_are_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let config = engine::Config {
        list_cache_bytes: 0,
        ..config(directory.path())
    };
    let engine = fixture::start(config, clock).unwrap();
    furnish(&engine);
    open_past(&engine);
    let then = as_of(create(&engine, row("a", &[("n", 1)])));
    for _ in 0..2 {
        assert_eq!(is_hit(&engine, &[&then]), None);
    }
    assert!(list(&engine, &[&then]).fixed.is_some());
    engine.close().unwrap();
}

#[test]
fn a_row_of_the_past_has_the_columns_of_then_whatever_was_read_before() {
    with_engine(|engine, clock| {
        let early = create(engine, row("a", &[("n", 1)]));
        let read = |mark: Mark| {
            let text = as_of(mark);
            let ask = Ask {
                texts: &[&text],
                bypass: true,
                ..by(key(), &[])
            };
            let answer = asked(engine, &ask, Some("a")).unwrap();
            String::from_utf8(answer.rows.to_vec()).unwrap()
        };
        let before = read(early);
        clock.step_us(SECOND_US);
        block_on(engine.create_column(&key(), PLACE, &integer("k"))).unwrap();
        clock.step_us(SECOND_US);
        let changed = row("a", &[("k", 2)]);
        let late = block_on(engine.update_row(&key(), PLACE, changed, None)).unwrap();
        let after = read(late.mark);
        assert!(after.contains("[Int(1), Null, Int(2)]"), "{after}");
        for _ in 0..2 {
            assert_eq!(read(early), before);
            assert_eq!(read(late.mark), after);
        }
    });
}
