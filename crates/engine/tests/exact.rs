//! Lists without a `ttl`: cached, and never older than what any reader could have seen.

mod fixture;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use engine::{
    Bulk, Cached, Caller, Engine, EngineError, ListAnswer, ListRows, ReadError, TableChange, View,
};
use fixture::{
    NEW_YEAR_US, PLACE, TickingClock, config, furnish, guest, integer, key, list_rows_of,
    new_table, open, row,
};
use futures_executor::block_on;
use model::{Json, RowId};

const HIT: Option<Cached> = Some(exact(true));
const MISS: Option<Cached> = Some(exact(false));
const IS_ONE: &str = r#"{"method":"equal","attribute":"n","values":[1]}"#;
const IS_TWO: &str = r#"{"method":"equal","attribute":"n","values":[2]}"#;

const fn exact(is_hit: bool) -> Cached {
    Cached {
        is_hit,
        age_s: 0,
        is_stale: None,
    }
}

fn ask_as(engine: &Engine, caller: &Caller, texts: &[&str], bypass: bool) -> ListAnswer {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    let asked = ListRows {
        bypass,
        ..list_rows_of(&texts)
    };
    block_on(engine.list_rows(caller, &asked, View::CURRENT)).unwrap()
}

fn ask(engine: &Engine, texts: &[&str]) -> ListAnswer {
    ask_as(engine, &key(), texts, false)
}

/// What the cache did; and the answer is the one that is read around it.
#[track_caller]
fn cached(engine: &Engine, texts: &[&str]) -> Option<Cached> {
    let answer = ask(engine, texts);
    let read = ask_as(engine, &key(), texts, true);
    assert_eq!(read.cached, None);
    assert_eq!((answer.rows, answer.total), (read.rows, read.total));
    answer.cached
}

fn add(engine: &Engine, id: &str, n: i64) {
    block_on(engine.create_row(&key(), PLACE, row(id, &[("n", n)]))).unwrap();
}

fn with_engine(test: impl FnOnce(&Engine)) {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    test(&engine);
    engine.close().unwrap();
}

#[test]
fn a_write_takes_away_the_lists_that_it_alters() {
    with_engine(|engine| {
        add(engine, "a", 1);
        for texts in [&[IS_ONE][..], &[IS_TWO], &[]] {
            assert_eq!(cached(engine, texts), MISS);
            assert_eq!(cached(engine, texts), HIT);
        }
        add(engine, "b", 2);
        assert_eq!(cached(engine, &[IS_ONE]), HIT);
        assert_eq!(cached(engine, &[IS_TWO]), MISS);
        assert_eq!(cached(engine, &[]), MISS);
        block_on(engine.update_row(&key(), PLACE, row("b", &[("n", 1)]), None)).unwrap();
        for texts in [&[IS_ONE][..], &[IS_TWO], &[]] {
            assert_eq!(cached(engine, texts), MISS);
        }
        let id = RowId::new("b").unwrap();
        block_on(engine.delete_row(&key(), PLACE, id, None)).unwrap();
        assert_eq!(cached(engine, &[IS_ONE]), MISS);
        assert_eq!(cached(engine, &[IS_TWO]), HIT);
    });
}

#[test]
fn a_count_below_a_full_page_is_patched() {
    with_engine(|engine| {
        let first = [r#"{"method":"limit","values":[2]}"#];
        for id in ["a", "b", "c"] {
            add(engine, id, 1);
        }
        assert_eq!(cached(engine, &first), MISS);
        add(engine, "d", 1);
        assert_eq!(cached(engine, &first), HIT);
        assert_eq!(ask(engine, &first).total, 4);
    });
}

#[test]
fn uncacheable_lists_are_read() {
    with_engine(|engine| {
        add(engine, "a", 1);
        let random = [r#"{"method":"orderRandom"}"#];
        for _ in 0..2 {
            assert_eq!(ask(engine, &random).cached, None);
        }
    });
}

#[test]
fn callers_who_see_the_same_rows_share_an_entry_and_others_do_not() {
    with_engine(|engine| {
        let grant = |permissions: &[&str], row_security| {
            let permissions = permissions.iter().map(|text| (*text).to_owned()).collect();
            let change = TableChange {
                permissions: Some(permissions),
                row_security: Some(row_security),
                ..TableChange::default()
            };
            block_on(engine.update_table(&key(), PLACE, change)).unwrap();
        };
        grant(&["read(\"any\")"], false);
        add(engine, "a", 1);
        assert_eq!(ask(engine, &[]).cached, MISS);
        let shared = ask_as(engine, &guest(), &[], false);
        assert_eq!((shared.cached, shared.total), (HIT, 1));
        let unheard = ask_as(engine, &guest(), &[], true);
        assert_eq!(
            unheard.cached, HIT,
            "only keys are asked whether they bypass"
        );
        grant(&[], true);
        let hidden = ask_as(engine, &guest(), &[], false);
        assert_eq!((hidden.cached, hidden.total), (MISS, 0));
        assert_eq!(ask_as(engine, &guest(), &[], false).cached, HIT);
        let mut shown = row("a", &[]);
        shown.permissions = Some(vec!["read(\"guests\")".into()]);
        block_on(engine.update_row(&key(), PLACE, shown, None)).unwrap();
        let seen = ask_as(engine, &guest(), &[], false);
        assert_eq!((seen.cached, seen.total), (MISS, 1));
    });
}

#[test]
fn a_schema_that_changes_takes_every_list_away() {
    with_engine(|engine| {
        add(engine, "a", 1);
        assert_eq!(cached(engine, &[IS_ONE]), MISS);
        block_on(engine.create_column(&key(), PLACE, &integer("k"))).unwrap();
        assert_eq!(cached(engine, &[IS_ONE]), MISS);
        block_on(engine.delete_column(&key(), PLACE, "m")).unwrap();
        assert_eq!(cached(engine, &[IS_ONE]), MISS);
        block_on(engine.update_row(&key(), PLACE, row("a", &[("k", 5)]), None)).unwrap();
        assert_eq!(cached(engine, &[IS_ONE]), MISS);
    });
}

#[test]
fn a_table_of_the_same_name_is_another_one() {
    with_engine(|engine| {
        add(engine, "a", 1);
        assert_eq!(cached(engine, &[]), MISS);
        block_on(engine.delete_table(&key(), PLACE)).unwrap();
        assert_eq!(engine.status().list_cache_bytes, 0, "gone with its table");
        block_on(engine.create_table(&key(), "d", new_table("t"))).unwrap();
        assert_eq!(cached(engine, &[]), MISS);
        assert_eq!(ask(engine, &[]).total, 0);
        block_on(engine.delete_database(&key(), "d")).unwrap();
        assert_eq!(engine.status().list_cache_bytes, 0);
    });
}

#[test]
fn a_bulk_write_that_tells_no_images_takes_its_table_away() {
    with_engine(|engine| {
        for start in 0..15 {
            let rows = (0..100).map(|i| row(&format!("r{}", start * 100 + i), &[("n", 1)]));
            block_on(engine.create_rows(&key(), PLACE, rows.collect())).unwrap();
        }
        assert_eq!(cached(engine, &[IS_ONE]), MISS);
        assert_eq!(cached(engine, &[IS_TWO]), MISS);
        let every = Bulk {
            place: PLACE,
            texts: &[],
            unchanged_since: None,
        };
        let to_two = vec![("n".into(), Json::Int(2))];
        block_on(engine.update_rows(&key(), &every, &to_two)).unwrap();
        assert_eq!(cached(engine, &[IS_ONE]), MISS);
        assert_eq!(ask(engine, &[IS_TWO]).total, 1_500);
    });
}

#[test]
fn a_cursors_row_that_goes_takes_its_pages_away() {
    with_engine(|engine| {
        for id in ["a", "b", "c"] {
            add(engine, id, 1);
        }
        let after = [r#"{"method":"cursorAfter","values":["a"]}"#];
        assert_eq!(cached(engine, &after), MISS);
        assert_eq!(cached(engine, &after), HIT);
        let id = RowId::new("a").unwrap();
        block_on(engine.delete_row(&key(), PLACE, id.clone(), None)).unwrap();
        let texts = after.map(str::to_owned);
        let asked = list_rows_of(&texts);
        let refused = block_on(engine.list_rows(&key(), &asked, View::CURRENT)).unwrap_err();
        assert_eq!(refused, EngineError::Read(ReadError::CursorNotFound(id)));
    });
}

#[test]
fn a_cache_of_no_bytes_keeps_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let off = engine::Config {
        list_cache_bytes: 0,
        ..config(directory.path())
    };
    let engine = fixture::start(off, TickingClock::at(NEW_YEAR_US)).unwrap();
    furnish(&engine);
    for _ in 0..2 {
        assert_eq!(ask(&engine, &[]).cached, None);
    }
    engine.close().unwrap();
}

/// The values of the column `n` in an answer of the fixture's encoder.
fn numbers(answer: &ListAnswer) -> Vec<i64> {
    let text = String::from_utf8_lossy(&answer.rows);
    let values = text.lines().filter_map(|line| line.split_once("[Int("));
    values
        .map(|(_, rest)| rest.split_once(')').unwrap().0.parse().unwrap())
        .collect()
}

/// Two rows that always hold the same number, one commit for both; a third comes and goes.
#[test]
fn readers_see_no_less_than_was_acknowledged_and_no_half_commit() {
    with_engine(|engine| {
        for id in ["a", "b"] {
            add(engine, id, 0);
        }
        let (acknowledged, is_over) = (AtomicI64::new(0), AtomicBool::new(false));
        let by_number = [r#"{"method":"lessThan","attribute":"n","values":[1000000]}"#];
        let hits = AtomicI64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 1..=200 {
                    let both = ["a", "b"].map(|id| row(id, &[("n", n)]));
                    block_on(engine.upsert_rows(&key(), PLACE, both.into(), None)).unwrap();
                    acknowledged.store(n, Ordering::SeqCst);
                    if n % 2 == 1 {
                        add(engine, "x", 1);
                    } else {
                        let id = RowId::new("x").unwrap();
                        block_on(engine.delete_row(&key(), PLACE, id, None)).unwrap();
                    }
                }
                is_over.store(true, Ordering::SeqCst);
            });
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::SeqCst) {
                        let at_least = acknowledged.load(Ordering::SeqCst);
                        let answer = ask(engine, &by_number);
                        let numbers = numbers(&answer);
                        assert!(numbers[0] >= at_least, "{numbers:?} after {at_least}");
                        assert_eq!(numbers[0], numbers[1], "half a commit");
                        assert_eq!(numbers.len() as u64, answer.total, "two instants");
                        hits.fetch_add(i64::from(answer.cached == HIT), Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(hits.into_inner() > 0, "the cache was asked");
    });
}
