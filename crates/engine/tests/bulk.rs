//! Bulk writes: slices among other writers, cached lists, counting.

mod fixture;

use std::sync::Arc;
use std::thread;

use engine::{AccessError, Bulk, Engine, EngineError, Increment, View};
use fixture::{NEW_YEAR_US, PLACE, TickingClock, furnish, guest, key, list_rows_of, open, row};
use futures_executor::block_on;
use model::{Json, RowId};

fn with_rows(rows: i64, test: impl FnOnce(&Arc<Engine>)) {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    for from in (0..rows).step_by(100) {
        let some = (from..rows.min(from + 100)).map(|n| row(&format!("r{n}"), &[("n", n)]));
        block_on(engine.create_rows(&key(), PLACE, some.collect())).unwrap();
    }
    test(&engine);
    engine.close().unwrap();
}

const EVERY: Bulk<'static> = Bulk {
    place: PLACE,
    texts: &[],
    unchanged_since: None,
};

fn set_m(m: i64) -> Vec<(String, Json)> {
    vec![("m".into(), Json::Int(m))]
}

fn total(engine: &Engine, m: i64) -> u64 {
    let texts = [format!(
        r#"{{"method":"equal","attribute":"m","values":[{m}]}}"#
    )];
    let asked = list_rows_of(&texts);
    block_on(engine.list_rows(&key(), &asked, View::CURRENT))
        .unwrap()
        .total
}

#[test]
fn a_large_update_takes_a_mark_for_each_slice() {
    with_rows(2_500, |engine| {
        let before = engine.status().mark;
        let written = block_on(engine.update_rows(&key(), &EVERY, &set_m(1))).unwrap();
        assert_eq!(written.answer.total, 2_500);
        assert_eq!(written.answer.page.rows.len(), 100);
        assert_eq!(written.mark, engine.status().mark);
        assert!(written.mark.0 >= before.0 + 3);
        assert_eq!(total(engine, 1), 2_500);
        // Doing it again changes nothing, and takes no mark.
        let again = block_on(engine.update_rows(&key(), &EVERY, &set_m(1))).unwrap();
        assert_eq!((again.answer.total, again.mark), (2_500, written.mark));
        let gone = block_on(engine.delete_rows(&key(), &EVERY, &[])).unwrap();
        assert_eq!(gone.answer.total, 2_500);
        assert_eq!(total(engine, 1), 0);
    });
}

#[test]
fn rows_that_come_meanwhile_neither_stop_it_nor_are_met() {
    with_rows(3_000, |engine| {
        let other = engine.clone();
        let writer = thread::spawn(move || {
            for n in 0..300 {
                let new = row(&format!("new{n}"), &[("n", -1), ("m", 7)]);
                block_on(other.create_row(&key(), PLACE, new)).unwrap();
                let touched = row(&format!("r{n}"), &[("n", -2)]);
                block_on(other.update_row(&key(), PLACE, touched, None)).unwrap();
            }
        });
        let more = r#"{"method":"increment","values":[1]}"#;
        let data = [("m".to_owned(), Json::Text(more.into()))];
        let written = block_on(engine.update_rows(&key(), &EVERY, &data)).unwrap();
        writer.join().unwrap();
        // Each row of before once; of the new ones those that came before the last slice knew
        // where the table ended.
        let new = total(engine, 8);
        assert_eq!(total(engine, 1), 3_000);
        assert_eq!(written.answer.total, 3_000 + new);
        assert_eq!(total(engine, 7), 300 - new);
    });
}

#[test]
fn bulk_writes_are_for_keys() {
    with_rows(1, |engine| {
        let refused = |error| matches!(error, EngineError::Access(AccessError::ScopeMissing(_)));
        let rows = vec![row("a", &[("n", 1)])];
        let upsert = block_on(engine.upsert_rows(&guest(), PLACE, rows, None));
        assert!(refused(upsert.unwrap_err()));
        let update = block_on(engine.update_rows(&guest(), &EVERY, &set_m(1)));
        assert!(refused(update.unwrap_err()));
        let delete = block_on(engine.delete_rows(&guest(), &EVERY, &[]));
        assert!(refused(delete.unwrap_err()));
    });
}

#[test]
fn counts_of_many_threads_add_up() {
    with_rows(1, |engine| {
        let counters: Vec<_> = (0..8)
            .map(|_| {
                let engine = engine.clone();
                thread::spawn(move || {
                    let step = Increment {
                        id: RowId::new("r0").unwrap(),
                        column: "n",
                        is_down: false,
                        by: Json::Int(3),
                        bound: Some(Json::Int(600)),
                        unchanged_since: None,
                    };
                    let count = || block_on(engine.increment_row(&key(), PLACE, &step));
                    (0..50).filter(|_| count().is_ok()).count()
                })
            })
            .collect();
        let done: usize = counters.into_iter().map(|one| one.join().unwrap()).sum();
        // 600 is reached exactly, and never passed.
        assert_eq!(done, 200);
        let query = r#"{"method":"equal","attribute":"n","values":[600]}"#.to_owned();
        let bulk = Bulk {
            texts: &[query],
            ..EVERY
        };
        let found = block_on(engine.delete_rows(&key(), &bulk, &[])).unwrap();
        assert_eq!(found.answer.total, 1);
    });
}
