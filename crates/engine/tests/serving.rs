//! Lists, their cache, and what survives a restart.

mod fixture;

use std::sync::{Arc, Mutex};

use engine::{
    BatchRead, Cached, Clock, Config, Engine, EngineError, Family, ListAnswer, ListRows, NewColumn,
    NewRelationship, NewTable, Place, ReadError, RowInput, TableChange, Unavailable, View,
    WantedRows,
};
use fixture::{
    NEW_YEAR_US, PLACE, TickingClock, config, furnish, guest, key, list_rows_of, new_table, open,
    row,
};
use futures_executor::block_on;
use model::{Json, Mark, Page, RowId, Timestamp};

fn ask(engine: &Engine, place: Place<'_>, ttl_s: u32, total: bool) -> ListAnswer {
    let asked = ListRows {
        place,
        total,
        ttl_s,
        ..list_rows_of(&[])
    };
    block_on(engine.list_rows(&key(), &asked, View::CURRENT)).unwrap()
}

fn cached(engine: &Engine, ttl_s: u32) -> Option<Cached> {
    ask(engine, PLACE, ttl_s, true).cached
}

const HOUR_US: i64 = 3_600_000_000;
const FRESH: Option<Cached> = Some(within_ttl(false, 0, false));
const KEPT: Option<Cached> = Some(within_ttl(true, 0, false));

const fn within_ttl(is_hit: bool, age_s: u64, is_stale: bool) -> Cached {
    Cached {
        is_hit,
        age_s,
        is_stale: Some(is_stale),
    }
}

fn add(engine: &Engine, id: &str) {
    block_on(engine.create_row(&key(), PLACE, row(id, &[("n", 1)]))).unwrap();
}

#[test]
fn the_ttl_cache_keeps_its_contract() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = open(directory.path(), clock.clone());
    furnish(&engine);
    add(&engine, "a");

    assert_eq!(cached(&engine, 30), FRESH);
    assert_eq!(cached(&engine, 30), KEPT);
    let rows_only = ask(&engine, PLACE, 30, false);
    assert_eq!((rows_only.cached, rows_only.total), (KEPT, 0));

    add(&engine, "b");
    let older = ask(&engine, PLACE, 30, true);
    assert_eq!(older.total, 1, "writes leave the entry alone");
    assert_eq!(
        older.cached,
        Some(within_ttl(true, 0, true)),
        "and it says what they did"
    );
    assert_eq!(
        ask(&engine, PLACE, 0, true).total,
        2,
        "and fresh reads see them"
    );

    clock.pass_ms(10_000);
    assert_eq!(cached(&engine, 86_400), Some(within_ttl(true, 10, true)));
    assert_eq!(cached(&engine, 10), FRESH, "the reader's ttl decides");
    assert_eq!(
        ask(&engine, PLACE, 30, true).total,
        2,
        "a miss overwrites the entry"
    );
    engine.close().unwrap();
}

#[test]
fn a_purge_clears_one_table_and_changes_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    block_on(engine.create_table(&key(), "d", new_table("u"))).unwrap();
    let other = Place {
        database: "d",
        table: "u",
    };
    let locked = TableChange {
        enabled: Some(false),
        row_security: Some(true),
        ..TableChange::default()
    };
    block_on(engine.update_table(&key(), PLACE, locked)).unwrap();
    for place in [PLACE, other] {
        assert_eq!(ask(&engine, place, 30, true).cached, FRESH);
    }
    let before = engine.status().mark;
    let purge = TableChange {
        purge: true,
        ..TableChange::default()
    };
    let table = block_on(engine.update_table(&key(), PLACE, purge)).unwrap();
    assert!(
        !table.enabled && table.row_security,
        "what is not given stays"
    );
    assert_eq!(
        engine.status().mark,
        before,
        "a purge is no change of the catalogue"
    );
    assert_eq!(cached(&engine, 30), FRESH);
    assert_eq!(cached(&engine, 30), KEPT);
    assert_eq!(ask(&engine, other, 30, true).cached, KEPT);

    let rename = TableChange {
        name: Some("other".into()),
        ..TableChange::default()
    };
    block_on(engine.update_table(&key(), PLACE, rename)).unwrap();
    assert!(
        cached(&engine, 30).is_some_and(|cached| cached.is_hit),
        "a rename keeps the lists"
    );
    let grant = TableChange {
        permissions: Some(vec!["read(\"any\")".into()]),
        ..TableChange::default()
    };
    block_on(engine.update_table(&key(), PLACE, grant)).unwrap();
    assert_eq!(cached(&engine, 30), FRESH, "a change of grants does not");
    engine.close().unwrap();
}

#[test]
fn a_cached_page_still_needs_its_cursor_row() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    add(&engine, "a");
    add(&engine, "b");
    let texts = [r#"{"method":"cursorAfter","values":["a"]}"#.to_owned()];
    let asked = ListRows {
        ttl_s: 60,
        ..list_rows_of(&texts)
    };
    let list = || block_on(engine.list_rows(&key(), &asked, View::CURRENT));
    assert_eq!(list().unwrap().cached, FRESH);
    assert_eq!(list().unwrap().cached, KEPT);
    let id = RowId::new("a").unwrap();
    block_on(engine.delete_row(&key(), PLACE, id.clone(), None)).unwrap();
    assert_eq!(
        list().unwrap_err(),
        EngineError::Read(ReadError::CursorNotFound(id))
    );
    engine.close().unwrap();
}

/// Where a row stands says what it holds.
#[test]
fn a_cached_page_still_needs_its_cursor_row_to_be_seen() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    let by_rows = TableChange {
        row_security: Some(true),
        ..TableChange::default()
    };
    block_on(engine.update_table(&key(), PLACE, by_rows)).unwrap();
    let granting = |id: &str, grants: &[&str]| RowInput {
        permissions: Some(grants.iter().map(ToString::to_string).collect()),
        ..row(id, &[("n", 1)])
    };
    for id in ["a", "b"] {
        let shown = granting(id, &["read(\"any\")"]);
        block_on(engine.create_row(&key(), PLACE, shown)).unwrap();
    }
    let texts = [r#"{"method":"cursorAfter","values":["a"]}"#.to_owned()];
    let list = |ttl_s: u32| {
        let asked = ListRows {
            ttl_s,
            ..list_rows_of(&texts)
        };
        block_on(engine.list_rows(&guest(), &asked, View::CURRENT))
    };
    for ttl_s in [0, 60] {
        list(ttl_s).unwrap();
        assert!(
            list(ttl_s)
                .unwrap()
                .cached
                .is_some_and(|cached| cached.is_hit)
        );
    }
    block_on(engine.update_row(&key(), PLACE, granting("a", &[]), None)).unwrap();
    for ttl_s in [0, 60] {
        let id = RowId::new("a").unwrap();
        assert_eq!(
            list(ttl_s).unwrap_err(),
            EngineError::Read(ReadError::CursorNotFound(id))
        );
    }
    engine.close().unwrap();
}

#[test]
fn a_write_that_changes_nothing_takes_no_mark_and_no_time() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    add(&engine, "a");
    let before = engine.status().mark;
    let same = block_on(engine.update_row(&key(), PLACE, row("a", &[("n", 1)]), None)).unwrap();
    assert_eq!((engine.status().mark, same.mark), (before, before));
    let other = block_on(engine.update_row(&key(), PLACE, row("a", &[("n", 2)]), None)).unwrap();
    assert!(other.mark > before);
    assert!(other.answer.rows[0].updated >= same.answer.rows[0].updated);
    engine.close().unwrap();
}

#[test]
fn marks_rise_through_restarts_and_clock_steps() {
    let directory = tempfile::tempdir().unwrap();
    let mut marks = Vec::new();
    for (start, now_us) in [NEW_YEAR_US, NEW_YEAR_US - 86_400_000_000, 5]
        .into_iter()
        .enumerate()
    {
        let engine = open(directory.path(), TickingClock::at(now_us));
        if start == 0 {
            furnish(&engine);
        }
        add(&engine, &format!("r{start}"));
        marks.push(engine.status().mark);
        let pinned = block_on(engine.list_rows_pinned(&key(), PLACE, &[], None)).unwrap();
        assert_eq!(
            pinned.total as usize,
            start + 1,
            "what was committed is there"
        );
        assert!(pinned.at.system >= engine.status().mark);
        marks.push(pinned.at.system);
        engine.close().unwrap();
    }
    assert!(marks.is_sorted(), "{marks:?}");
    assert!(
        marks[1] < marks[2] && marks[3] < marks[4],
        "a commit lies above what was read"
    );
}

#[test]
fn a_clock_that_runs_ahead_stops_writes_until_it_is_believed() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = open(directory.path(), clock.clone());
    furnish(&engine);
    clock.step_us(2 * 3_600_000_000);
    let refused = block_on(engine.create_row(&key(), PLACE, row("a", &[("n", 1)])));
    assert!(
        matches!(
            refused,
            Err(EngineError::Unavailable(
                Unavailable::ClockImplausible { .. }
            ))
        ),
        "{refused:?}"
    );
    clock.pass_ms(2 * 3_600_000);
    add(&engine, "a");
    engine.close().unwrap();
}

/// A clock of which an engine holds that it is the machine's.
struct MachinesClock(Arc<TickingClock>);

impl Clock for MachinesClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn elapsed_ms(&self) -> u64 {
        self.0.elapsed_ms()
    }

    fn is_machines(&self) -> bool {
        true
    }
}

/// Starts by clocks that are ahead of the last commit, of the machine or of a store alone, with a
/// configuration: whether the engine takes a write then.
fn with_starts(look: impl FnOnce(&dyn Fn(i64, bool, &Config) -> bool, &Config)) {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let furnished = open(directory.path(), clock.clone());
    furnish(&furnished);
    furnished.close().unwrap();
    let start = |ahead_us: i64, is_machines: bool, config: &Config| {
        clock.step_us(ahead_us);
        let given: Arc<dyn Clock> = if is_machines {
            Arc::new(MachinesClock(clock.clone()))
        } else {
            clock.clone()
        };
        let engine = fixture::start(config.clone(), given).unwrap();
        let id = format!("r{}", clock.look().0);
        let written = block_on(engine.create_row(&key(), PLACE, row(&id, &[("n", 1)])));
        engine.close().unwrap();
        clock.step_us(-ahead_us);
        match written {
            Ok(_) => true,
            Err(EngineError::Unavailable(Unavailable::ClockImplausible { .. })) => false,
            Err(error) => panic!("{error}"),
        }
    };
    look(&start, &config(directory.path()));
}

#[test]
fn a_start_with_a_clock_a_day_ahead_stops_writes_until_it_is_believed() {
    with_starts(|start, usual| {
        // It is not known how long there was no commit: as long as is stated.
        let stated = Config {
            downtime_max_us: 12 * HOUR_US,
            ..usual.clone()
        };
        assert!(!start(24 * HOUR_US, false, &stated));
        let vouched = Config {
            accept_clock: true,
            ..stated
        };
        assert!(start(24 * HOUR_US, true, &vouched));
        assert!(start(2 * 24 * HOUR_US, false, usual));
    });
}

#[test]
fn a_start_on_a_machine_that_ran_on_knows_for_how_long_there_was_no_commit() {
    with_starts(|start, usual| {
        // There was hardly a moment between the last commit and now.
        assert!(!start(24 * HOUR_US, true, usual));
        assert!(!start(HOUR_US + HOUR_US / 10, true, usual));
        assert!(start(HOUR_US / 2, true, usual));
    });
}

#[test]
fn a_clock_that_runs_ahead_for_a_moment_moves_now_for_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let clock = TickingClock::at(NEW_YEAR_US);
    let engine = open(directory.path(), clock.clone());
    furnish(&engine);
    let century_us = 100 * 365 * 86_400_000_000;
    clock.step_us(century_us);
    let pinned = block_on(engine.list_rows_pinned(&key(), PLACE, &[], None)).unwrap();
    let named = Some(Mark(NEW_YEAR_US + century_us));
    let future = block_on(engine.list_rows_pinned(&key(), PLACE, &[], named));
    let horizon = block_on(engine.heartbeat(&key(), "d")).unwrap();
    clock.step_us(-century_us);
    add(&engine, "a");
    let hour = Mark(NEW_YEAR_US + 3_600_000_000);
    assert!(pinned.at.system < hour && horizon < hour);
    assert!(matches!(
        future,
        Err(EngineError::Read(ReadError::FutureMark { .. }))
    ));
    assert!(engine.status().mark < hour && engine.status().horizon < hour);
    engine.close().unwrap();
}

#[test]
fn a_closed_engine_takes_no_writes() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    engine.close().unwrap();
    let refused = block_on(engine.create_row(&key(), PLACE, row("a", &[("n", 1)])));
    assert_eq!(
        refused.unwrap_err(),
        EngineError::Unavailable(Unavailable::Closing)
    );
}

#[test]
fn readers_never_fail_while_tables_come_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    add(&engine, "a");
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            for turn in 0..60 {
                let id = format!("u{turn}");
                block_on(engine.create_table(&key(), "d", new_table(&id))).unwrap();
                let place = Place {
                    database: "d",
                    table: &id,
                };
                block_on(engine.create_row(&key(), place, row("x", &[("n", 1)]))).unwrap();
                block_on(engine.delete_table(&key(), place)).unwrap();
            }
        });
        while !changes.is_finished() {
            assert_eq!(ask(&engine, PLACE, 0, true).total, 1);
            block_on(engine.update_row(&key(), PLACE, row("a", &[("n", 1)]), None)).unwrap();
        }
    });
    engine.close().unwrap();
}

/// Which threads encoded pages, and how many rows those held.
static ENCODED: Mutex<Vec<(String, usize)>> = Mutex::new(Vec::new());

fn encode_where_it_runs(page: &Page, family: Family) -> Vec<u8> {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or_default().to_owned();
    ENCODED.lock().unwrap().push((name, page.rows.len()));
    fixture::encode_page(page, family)
}

const LARGE: Place<'static> = Place {
    table: "large",
    ..PLACE
};

/// An engine with three rows of 100 KB.
fn with_large_rows(look: impl FnOnce(&Engine)) {
    let directory = tempfile::tempdir().unwrap();
    let config = Config {
        encode_page: encode_where_it_runs,
        ..config(directory.path())
    };
    let engine = fixture::start(config, TickingClock::at(NEW_YEAR_US)).unwrap();
    furnish(&engine);
    let table = NewTable {
        columns: vec![NewColumn {
            key: "s".into(),
            kind: "longtext".into(),
            ..NewColumn::default()
        }],
        indexes: Vec::new(),
        ..new_table("large")
    };
    block_on(engine.create_table(&key(), "d", table)).unwrap();
    for id in ["a", "b", "c"] {
        let text = Json::Text("x".repeat(100_000));
        let large = RowInput {
            members: vec![("s".to_owned(), text)],
            ..row(id, &[])
        };
        block_on(engine.create_row(&key(), LARGE, large)).unwrap();
    }
    look(&engine);
}

#[test]
fn large_pages_are_encoded_apart_and_small_ones_where_they_are_wanted() {
    with_large_rows(|engine| {
        let here = std::thread::current().name().unwrap().to_owned();
        let encoded = |text: &str| {
            let texts = [text.to_owned()];
            let asked = ListRows {
                place: LARGE,
                total: false,
                bypass: true,
                ..list_rows_of(&texts)
            };
            block_on(engine.list_rows(&key(), &asked, View::CURRENT)).unwrap();
            ENCODED.lock().unwrap().drain(..).collect::<Vec<_>>()
        };
        let two = r#"{"method":"limit","values":[2]}"#;
        assert_eq!(encoded(two), [(here, 2)]);
        let later = r#"{"method":"validAt","values":["2030-01-01"]}"#;
        for three in [r#"{"method":"limit","values":[3]}"#, later] {
            let encoded = encoded(three);
            let [(name, 3)] = &encoded[..] else {
                panic!("{encoded:?}")
            };
            assert!(name.starts_with("reads-"), "{three}: {name}");
        }
    });
}

#[test]
fn batches_of_many_rows_or_bytes_are_read_apart() {
    with_large_rows(|engine| {
        let apart = |ids: &[&str]| {
            let part = BatchRead {
                table: "large".to_owned(),
                rows: WantedRows::Ids(ids.iter().map(|id| RowId::new(id).unwrap()).collect()),
                texts: Vec::new(),
                as_of: None,
                valid_at: None,
            };
            let taken = || engine.store_counts().long_reads.taken;
            let before = taken();
            let read = block_on(engine.read_batch(&key(), "d", vec![part])).unwrap();
            let part = read.answer.into_iter().next().unwrap().unwrap();
            assert_eq!(part.places.len(), ids.len());
            taken() - before
        };
        assert_eq!(apart(&["a", "b"]), 0);
        assert_eq!(apart(&["a", "b", "b", "a"]), 0, "each is read once");
        assert_eq!(apart(&["a", "b", "c"]), 1, "it has too many bytes");
        assert_eq!(apart(&["a"; 51]), 1, "it has too many rows");
    });
}

#[test]
fn one_row_of_many_bytes_is_read_apart_with_its_related_rows() {
    with_large_rows(|engine| {
        let new = NewRelationship {
            related: "t".into(),
            kind: "oneToMany".into(),
            two_way: true,
            key: Some("down".into()),
            partner_key: Some("up".into()),
            on_delete: None,
        };
        block_on(engine.create_relationship(&key(), LARGE, &new)).unwrap();
        let text = Json::Text("x".repeat(200_000));
        let larger = RowInput {
            members: vec![("s".to_owned(), text)],
            ..row("larger", &[])
        };
        block_on(engine.create_row(&key(), LARGE, larger)).unwrap();
        block_on(engine.create_transaction(&key(), "empty", 600)).unwrap();
        let caller = key();
        let texts = [r#"{"method":"select","values":["*","down.*"]}"#.to_owned()];
        for (id, apart) in [("a", 0), ("larger", 1)] {
            let taken = || engine.store_counts().long_reads.taken;
            let (before, id) = (taken(), RowId::new(id).unwrap());
            let read = block_on(fixture::get_row(
                engine,
                &key(),
                LARGE,
                &id,
                &texts,
                View::CURRENT,
            ))
            .unwrap();
            assert_eq!(read.answer.related.len(), 1);
            assert_eq!(taken() - before, apart, "{id}");
            let inside =
                fixture::get_row(engine, &caller, LARGE, &id, &texts, View::Staged("empty"));
            assert_eq!(block_on(inside).unwrap().answer.related.len(), 1);
            assert_eq!(taken() - before, 2 * apart, "{id} inside a transaction");
        }
    });
}
