//! Tables that keep a part of their past: what lies below the line is refused, never answered
//! wrongly.

mod fixture;

use engine::{Engine, EngineError, OptionsChange, ReadError, RowInput, View};
use fixture::{NEW_YEAR_US, PLACE, TickingClock, furnish, key, list_rows_of, open, row};
use futures_executor::block_on;
use model::{Json, Mark, RowId, TableOptions, Timestamp};

const HOUR_US: i64 = 3_600_000_000;
/// Less than an hour: so far ahead a clock is believed whatever else has passed.
const STEP_US: i64 = 59 * 60_000_000;
const DAY_US: i64 = 24 * HOUR_US;

fn keep(engine: &Engine, history: &str) -> TableOptions {
    let change = OptionsChange {
        history: Some(history.to_owned()),
        ..OptionsChange::default()
    };
    block_on(engine.set_table_options(&key(), PLACE, &change)).unwrap()
}

fn line(engine: &Engine) -> Timestamp {
    engine.table_options(&key(), PLACE).unwrap().kept_from
}

fn create(engine: &Engine, row: RowInput) -> Mark {
    block_on(engine.create_row(&key(), PLACE, row))
        .unwrap()
        .mark
}

fn update(engine: &Engine, n: i64) -> Mark {
    let row = row("a", &[("n", n)]);
    block_on(engine.update_row(&key(), PLACE, row, None))
        .unwrap()
        .mark
}

/// The rows, without their family.
fn list(engine: &Engine, texts: &[&str]) -> Result<String, EngineError> {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let list = list_rows_of(&texts);
    let answer = block_on(engine.list_rows(&key(), &list, View::CURRENT))?;
    Ok(String::from_utf8(answer.rows.to_vec()).unwrap())
}

fn at(method: &str, us: i64) -> String {
    format!(r#"{{"method":"{method}","values":[{us}]}}"#)
}

#[track_caller]
fn is_gone(engine: &Engine, texts: &[&str]) {
    let kept_from = line(engine);
    match list(engine, texts) {
        Err(EngineError::Read(ReadError::HistoryGone(named))) => {
            assert!(named.kept_from >= kept_from, "{texts:?}");
        }
        other => panic!("{texts:?}: {other:?}"),
    }
}

/// Lets days pass step by step, with a write in each, so that the clock stays plausible.
fn pass(engine: &Engine, clock: &TickingClock, steps: i64) {
    for step in 0..steps {
        clock.step_us(STEP_US);
        clock.pass_ms(STEP_US / 1_000);
        update(engine, step);
    }
    // Before this is answered, the line has risen as far as it should.
    update(engine, steps - 1);
}

#[test]
fn reads_before_the_line_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = open(directory.path(), clock.clone());
    furnish(&engine);
    let first = create(&engine, row("a", &[("n", -1)]));
    assert_eq!(
        keep(&engine, "days(2)").kept_from.0 / DAY_US,
        NEW_YEAR_US / DAY_US - 2
    );
    let then = at("asOf", first.0);
    let before = list(&engine, &[&then]).unwrap();
    assert_eq!(list(&engine, &[&then]).unwrap(), before, "cached");
    pass(&engine, &clock, 60);
    // The line rises by itself, with the next write at the latest.
    let two_days = clock.look().0 - 2 * DAY_US;
    let risen = line(&engine).0;
    assert!(
        risen <= two_days && risen > two_days - 3 * HOUR_US,
        "{risen} {two_days}"
    );
    is_gone(&engine, &[&then]);
    is_gone(&engine, &[&at("asOf", risen - 1)]);
    is_gone(&engine, &[&at("validAt", risen - 1)]);
    let wide = format!(
        r#"{{"method":"validBetween","values":["min",{}]}}"#,
        risen + 5
    );
    is_gone(&engine, &[&wide]);
    is_gone(&engine, &[r#"{"method":"versions"}"#]);
    is_gone(&engine, &[&at("asOf", risen), &at("validAt", risen - 1)]);
    // From the line on everything is there.
    let kept = list(&engine, &[&at("asOf", risen)]).unwrap();
    assert!(kept.contains("Int("), "{kept}");
    list(&engine, &[&at("validAt", risen)]).unwrap();
    let since = format!(r#"{{"method":"validBetween","values":[{risen},null]}}"#);
    let changes = |from: i64| format!(r#"{{"method":"systemBetween","values":[{from},null]}}"#);
    is_gone(&engine, &[&changes(risen)]);
    is_gone(&engine, &[&since, &changes(risen - 1)]);
    list(&engine, &[&since, &changes(risen)]).unwrap();
    let versions = list(
        &engine,
        &[
            &since,
            r#"{"method":"versions"}"#,
            r#"{"method":"limit","values":[500]}"#,
        ],
    );
    let versions = versions.unwrap().lines().count();
    assert!((48..=2 * 55).contains(&versions), "{versions}");
    assert!(list(&engine, &[]).unwrap().contains("Int(59)"));
    // Keeping everything again brings nothing back, and loses nothing more.
    assert_eq!(keep(&engine, "keep").kept_from.0, risen);
    pass(&engine, &clock, 60);
    assert_eq!(line(&engine).0, risen);
    assert_eq!(list(&engine, &[&at("asOf", risen)]).unwrap(), kept);
    is_gone(&engine, &[&then]);
    engine.close().unwrap();
    let engine = open(directory.path(), clock);
    assert_eq!(line(&engine).0, risen);
    is_gone(&engine, &[&then]);
    assert_eq!(list(&engine, &[&at("asOf", risen)]).unwrap(), kept);
    engine.close().unwrap();
}

#[test]
fn without_history_there_is_only_the_last_commit() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = open(directory.path(), clock.clone());
    furnish(&engine);
    let first = create(&engine, row("a", &[("n", 1)]));
    keep(&engine, "none");
    is_gone(&engine, &[&at("asOf", first.0)]);
    let second = update(&engine, 2);
    let then = at("asOf", second.0);
    for _ in 0..2 {
        assert!(list(&engine, &[&then]).unwrap().contains("Int(2)"));
    }
    let third = update(&engine, 3);
    is_gone(&engine, &[&then]);
    assert!(
        list(&engine, &[&at("asOf", third.0)])
            .unwrap()
            .contains("Int(3)")
    );
    assert!(
        list(&engine, &[&at("validAt", NEW_YEAR_US + DAY_US)])
            .unwrap()
            .contains("Int(3)")
    );
    // What is scheduled is kept, and shown at its instant.
    let mut soon = row("a", &[("n", 4)]);
    let from = clock.look().0 + STEP_US;
    soon.members
        .push(("$validFrom".to_owned(), Json::Int(from)));
    block_on(engine.update_row(&key(), PLACE, soon, None)).unwrap();
    assert!(list(&engine, &[]).unwrap().contains("Int(3)"));
    assert!(
        list(&engine, &[&at("validAt", from)])
            .unwrap()
            .contains("Int(4)")
    );
    clock.step_us(STEP_US);
    clock.pass_ms(STEP_US / 1_000);
    assert!(list(&engine, &[]).unwrap().contains("Int(4)"));
    // A row's number and grants are no other row's, even where nothing of the row is left.
    let shown = RowInput {
        permissions: Some(vec!["read(\"any\")".to_owned()]),
        ..row("shown", &[("n", 5)])
    };
    create(&engine, shown);
    let id = RowId::new("shown").unwrap();
    block_on(engine.delete_row(&key(), PLACE, id, None)).unwrap();
    create(&engine, row("other", &[("n", 6)]));
    let now = list(&engine, &[&at("asOf", engine.status().mark.0)]).unwrap();
    assert!(now.contains("other") && !now.contains("read("), "{now}");
    engine.close().unwrap();
}
