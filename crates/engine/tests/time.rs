//! Rows over valid periods through the ordinary calls: scheduled rows in exact lists, and reads
//! at other times than now.

mod fixture;

use engine::{
    Caller, Engine, EngineError, ListAnswer, ReadError, RowInput, TableChange, View, WriteError,
};
use fixture::{
    NEW_YEAR_US, PLACE, TickingClock, config, furnish, guest, key, list_rows_of, open, row,
};
use futures_executor::block_on;
use model::{Json, RowId};

const SECOND_US: i64 = 1_000_000;

fn at(us: i64) -> Json {
    Json::Int(NEW_YEAR_US + us)
}

fn valid(id: &str, n: i64, from: Json, to: Json) -> RowInput {
    let mut row = row(id, &[("n", n)]);
    row.members.push(("$validFrom".to_owned(), from));
    row.members.push(("$validTo".to_owned(), to));
    row
}

fn list(engine: &Engine, queries: &[&str]) -> Result<ListAnswer, EngineError> {
    let texts: Vec<String> = queries.iter().map(|text| (*text).to_owned()).collect();
    block_on(engine.list_rows(&key(), &list_rows_of(&texts), View::CURRENT))
}

/// The ids of a list, and whether it was a hit; `None` where the cache was not looked up.
fn ids(engine: &Engine, queries: &[&str]) -> (Vec<String>, Option<bool>) {
    let answer = list(engine, queries).unwrap();
    let text = String::from_utf8(answer.rows.to_vec()).unwrap();
    let (_, rows) = text.split_once(' ').unwrap();
    let id = |line: &str| line.split(' ').nth(1).unwrap().to_owned();
    let ids: Vec<String> = rows.lines().map(id).collect();
    assert_eq!(answer.total, ids.len() as u64);
    (ids, answer.cached.map(|cached| cached.is_hit))
}

#[test]
fn scheduled_rows_come_and_go_in_exact_lists_at_their_instants() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = open(directory.path(), clock.clone());
    furnish(&engine);
    let create = |row| block_on(engine.create_row(&key(), PLACE, row)).unwrap();
    create(row("always", &[("n", 1)]));
    let made = create(valid("soon", 2, at(SECOND_US), at(3 * SECOND_US)));
    let span = made.answer.rows[0].span.as_ref().unwrap();
    assert_eq!(span.valid.from().0, NEW_YEAR_US + SECOND_US);
    let now = |engine: &Engine| ids(engine, &[]).0;
    let get = |id: &str| {
        let id = RowId::new(id).unwrap();
        block_on(fixture::get_row(
            &engine,
            &key(),
            PLACE,
            &id,
            &[],
            View::CURRENT,
        ))
        .map(|read| read.answer.rows.len())
    };
    assert_eq!(ids(&engine, &[]), (vec!["always".to_owned()], Some(false)));
    assert_eq!(ids(&engine, &[]), (vec!["always".to_owned()], Some(true)));
    assert!(matches!(
        get("soon"),
        Err(EngineError::Read(ReadError::RowNotFound(_)))
    ));
    // Not before its instant …
    clock.step_us(SECOND_US - 100_000);
    assert_eq!(now(&engine), ["always"]);
    // … and from it on, whether or not the writer has come to activate it.
    clock.step_us(100_000);
    assert_eq!(now(&engine), ["always", "soon"]);
    assert_eq!(get("soon"), Ok(1));
    let equal = r#"{"method":"equal","attribute":"n","values":[2]}"#;
    assert_eq!(ids(&engine, &[equal]).0, ["soon"]);
    // A write activates what is due before it looks.
    let moved = valid("soon", 5, Json::Null, Json::Text("next".to_owned()));
    block_on(engine.update_row(&key(), PLACE, moved, None)).unwrap();
    assert_eq!(ids(&engine, &[equal]).0, Vec::<String>::new());
    assert_eq!(now(&engine), ["always", "soon"]);
    assert_eq!(ids(&engine, &[]).1, Some(true));
    clock.step_us(2 * SECOND_US);
    assert_eq!(now(&engine), ["always"]);
    assert!(matches!(
        get("soon"),
        Err(EngineError::Read(ReadError::RowNotFound(_)))
    ));
    engine.close().unwrap();
}

#[test]
fn scheduled_rows_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = open(directory.path(), clock.clone());
    furnish(&engine);
    let soon = valid("soon", 2, at(60 * SECOND_US), Json::Null);
    block_on(engine.create_row(&key(), PLACE, soon)).unwrap();
    engine.close().unwrap();
    let engine = open(directory.path(), clock.clone());
    assert_eq!(ids(&engine, &[]).0, Vec::<String>::new());
    clock.step_us(60 * SECOND_US);
    assert_eq!(ids(&engine, &[]).0, ["soon"]);
    engine.close().unwrap();
}

#[test]
fn the_writer_brings_in_what_is_due_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = open(directory.path(), clock.clone());
    furnish(&engine);
    let soon = valid("soon", 2, at(SECOND_US), Json::Null);
    block_on(engine.create_row(&key(), PLACE, soon)).unwrap();
    clock.step_us(SECOND_US);
    // Each read that meets something due wakes the writer; once it has come, lists are kept.
    loop {
        let (ids, is_hit) = ids(&engine, &[]);
        assert_eq!(ids, ["soon"]);
        if is_hit == Some(true) {
            break;
        }
        std::thread::yield_now();
    }
    engine.close().unwrap();
}

#[test]
fn ordinary_requests_meet_what_is_scheduled() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = open(directory.path(), clock.clone());
    furnish(&engine);
    let soon = || valid("a", 2, at(SECOND_US), Json::Null);
    block_on(engine.create_row(&key(), PLACE, soon())).unwrap();
    // It is there from an instant on that an open-ended creation would cover.
    let again = block_on(engine.create_row(&key(), PLACE, row("a", &[("n", 1)])));
    assert!(matches!(
        again,
        Err(EngineError::Write(WriteError::RowExists(_)))
    ));
    let change = block_on(engine.update_row(&key(), PLACE, row("a", &[("m", 1)]), None));
    assert!(matches!(
        change,
        Err(EngineError::Read(ReadError::RowNotFound(_)))
    ));
    // An upsert makes the row now, and merges into what is scheduled.
    block_on(engine.upsert_row(&key(), PLACE, row("a", &[("m", 7)]), None)).unwrap();
    assert_eq!(ids(&engine, &[]).0, ["a"]);
    let both = r#"{"method":"equal","attribute":"n","values":[2]}"#;
    let seven = r#"{"method":"equal","attribute":"m","values":[7]}"#;
    assert_eq!(ids(&engine, &[both]).0, Vec::<String>::new());
    clock.step_us(SECOND_US);
    assert_eq!(ids(&engine, &[both, seven]).0, ["a"]);
    // A deletion ends all of it.
    let id = RowId::new("a").unwrap();
    block_on(engine.delete_row(&key(), PLACE, id, None)).unwrap();
    clock.step_us(SECOND_US);
    assert_eq!(ids(&engine, &[]).0, Vec::<String>::new());
    engine.close().unwrap();
}

#[test]
fn lists_are_read_at_the_times_that_a_query_names() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = open(directory.path(), clock.clone());
    furnish(&engine);
    let made = block_on(engine.create_row(&key(), PLACE, row("a", &[("n", 1)]))).unwrap();
    clock.step_us(SECOND_US);
    let changed = block_on(engine.update_row(&key(), PLACE, row("a", &[("n", 2)]), None)).unwrap();
    clock.step_us(SECOND_US);
    let as_of = |mark: i64| format!(r#"{{"method":"asOf","values":[{mark}]}}"#);
    let n = |n: i64| format!(r#"{{"method":"equal","attribute":"n","values":[{n}]}}"#);
    let found = |queries: &[&str]| ids(&engine, queries).0.len();
    let (first, second) = (made.mark.0, changed.mark.0);
    assert_eq!(found(&[&as_of(first), &n(1)]), 1);
    assert_eq!(found(&[&as_of(first - 1)]), 0);
    assert_eq!(found(&[&as_of(second), &n(1)]), 0);
    assert_eq!(found(&[&as_of(second), &n(2)]), 1);
    let versions = r#"{"method":"versions"}"#;
    assert_eq!(found(&[versions]), 3);
    assert_eq!(found(&[versions, &as_of(first)]), 1);
    let valid_at = format!(r#"{{"method":"validAt","values":[{first}]}}"#);
    assert_eq!(found(&[&valid_at, &n(1)]), 1);
    let whole = format!(r#"{{"method":"validBetween","values":[{first},null]}}"#);
    assert_eq!(found(&[&whole]), 2);
    let future = list(&engine, &[&as_of(NEW_YEAR_US + 3_600 * SECOND_US)]);
    assert!(
        matches!(future, Err(EngineError::Read(ReadError::FutureMark { .. }))),
        "{future:?}"
    );
    engine.close().unwrap();
}

#[test]
fn unique_values_are_unique_at_every_instant() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = fixture::start(config(directory.path()), clock.clone()).unwrap();
    furnish(&engine);
    let index = engine::NewIndex {
        key: "once".into(),
        kind: "unique".into(),
        columns: vec!["m".into()],
        ..engine::NewIndex::default()
    };
    block_on(engine.create_index(&key(), PLACE, &index)).unwrap();
    let create = |row| block_on(engine.create_row(&key(), PLACE, row));
    let m = |id: &str, from: Json, to: Json| {
        let mut row = valid(id, 0, from, to);
        row.members.push(("m".to_owned(), Json::Int(1)));
        row
    };
    create(m("a", at(10 * SECOND_US), at(20 * SECOND_US))).unwrap();
    let clash = create(m("b", at(19 * SECOND_US), Json::Null));
    assert!(
        matches!(
            clash,
            Err(EngineError::Write(WriteError::UniqueViolation { .. }))
        ),
        "{clash:?}"
    );
    // An everyday row would clash when the scheduled one begins.
    let clash = create(row("c", &[("m", 1)]));
    assert!(
        matches!(
            clash,
            Err(EngineError::Write(WriteError::UniqueViolation { .. }))
        ),
        "{clash:?}"
    );
    // An index that comes later looks ahead, too.
    let later = engine::NewIndex {
        key: "later".into(),
        kind: "unique".into(),
        columns: vec!["n".into()],
        ..engine::NewIndex::default()
    };
    create(row("d", &[("n", 9)])).unwrap();
    create(valid("e", 9, at(10 * SECOND_US), Json::Null)).unwrap();
    let made = block_on(engine.create_index(&key(), PLACE, &later)).unwrap();
    assert_ne!(made.1.status, model::IndexStatus::Available);
    for id in ["d", "e"] {
        let id = RowId::new(id).unwrap();
        block_on(engine.delete_row(&key(), PLACE, id, None)).unwrap();
    }
    // Handed over at the instant.
    create(m("b", at(20 * SECOND_US), Json::Null)).unwrap();
    clock.step_us(15 * SECOND_US);
    assert_eq!(ids(&engine, &[]).0, ["a"]);
    clock.step_us(5 * SECOND_US);
    assert_eq!(ids(&engine, &[]).0, ["b"]);
    engine.close().unwrap();
}

#[test]
fn a_write_over_a_period_that_changes_grants_alone_changes_them() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = open(directory.path(), clock.clone());
    furnish(&engine);
    let secure = TableChange {
        row_security: Some(true),
        ..TableChange::default()
    };
    block_on(engine.update_table(&key(), PLACE, secure)).unwrap();
    let granting = |mut row: RowInput, grants: &[&str]| {
        row.permissions = Some(grants.iter().map(ToString::to_string).collect());
        row
    };
    block_on(engine.create_row(&key(), PLACE, granting(row("a", &[("n", 1)]), &[]))).unwrap();
    let id = RowId::new("a").unwrap();
    let get = |caller: &Caller| {
        block_on(fixture::get_row(
            &engine,
            caller,
            PLACE,
            &id,
            &[],
            View::CURRENT,
        ))
    };
    assert!(get(&guest()).is_err());
    // From a second on the row says what it says already.
    let mut same = row("a", &[("n", 1)]);
    same.members.push(("$validFrom".to_owned(), at(SECOND_US)));
    for (grants, is_seen) in [(&["read(\"any\")"][..], true), (&[], false)] {
        let same = granting(same.clone(), grants);
        block_on(engine.upsert_row(&key(), PLACE, same, None)).unwrap();
        let shown = get(&key()).unwrap().answer.rows[0].permissions.to_string();
        assert_eq!(shown.contains("any"), is_seen);
        assert_eq!(get(&guest()).is_ok(), is_seen);
    }
    engine.close().unwrap();
}
