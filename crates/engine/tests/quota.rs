//! What projects may take: rows of each, bytes of all.

mod fixture;

use std::path::Path;
use std::sync::Arc;

use engine::{Bulk, Config, Counted, Engine, EngineError, Quotas, WriteError};
use fixture::{NEW_YEAR_US, PLACE, TickingClock, furnish, key, row};
use futures_executor::block_on;
use model::{Json, ProjectId};

const EVERY: Bulk<'static> = Bulk {
    place: PLACE,
    texts: &[],
    unchanged_since: None,
};

fn open(directory: &Path, quotas: Quotas) -> Arc<Engine> {
    let config = Config {
        quotas,
        ..fixture::config(directory)
    };
    fixture::start(config, TickingClock::at(NEW_YEAR_US)).unwrap()
}

fn create(engine: &Engine, ids: &[&str]) -> Result<(), EngineError> {
    let rows = ids.iter().map(|id| row(id, &[("n", 1)])).collect();
    block_on(engine.create_rows(&key(), PLACE, rows)).map(drop)
}

fn change(engine: &Engine, m: i64) -> Result<u64, EngineError> {
    let members = [("m".to_owned(), Json::Int(m))];
    let changed = block_on(engine.update_rows(&key(), &EVERY, &members));
    changed.map(|written| written.answer.total)
}

fn full(held: u64) -> Result<(), EngineError> {
    Err(EngineError::Write(WriteError::QuotaExceeded {
        what: Counted::Rows(ProjectId::new("p").unwrap()),
        held,
        max: 3,
    }))
}

#[test]
fn a_project_has_so_many_rows_and_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let quotas = Quotas {
        project_rows: 3,
        ..Quotas::NONE
    };
    let engine = open(directory.path(), quotas);
    furnish(&engine);
    create(&engine, &["a", "b"]).unwrap();
    assert_eq!(create(&engine, &["c", "d"]), full(2));
    create(&engine, &["c"]).unwrap();
    assert_eq!(create(&engine, &["d"]), full(3));
    let taken = engine.taken();
    assert_eq!(taken.rows, [(ProjectId::new("p").unwrap(), 3)]);
    assert_eq!((taken.rows_max, taken.rows_refused), (3, 2));
    assert!(taken.data_bytes > 4_096, "{taken:?}");
    // What is there can be changed, and deleted; the next count makes room.
    assert_eq!(change(&engine, 7), Ok(3));
    assert_eq!(create(&engine, &["d"]), full(3));
    engine.close().unwrap();
    let engine = open(directory.path(), quotas);
    assert_eq!(create(&engine, &["d"]), full(3), "counted at the start");
    block_on(engine.delete_rows(&key(), &EVERY, &[])).unwrap();
    while create(&engine, &["d"]) == full(3) {
        std::thread::yield_now();
    }
    assert_eq!(change(&engine, 8), Ok(1));
    engine.close().unwrap();
}

#[test]
fn a_server_stores_so_many_bytes_and_what_makes_room_is_done_beyond() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), Quotas::NONE);
    furnish(&engine);
    create(&engine, &["a", "b"]).unwrap();
    engine.close().unwrap();
    let quotas = Quotas {
        data_bytes: 4_096,
        ..Quotas::NONE
    };
    let engine = open(directory.path(), quotas);
    for refused in [create(&engine, &["c"]), change(&engine, 5).map(drop)] {
        match refused {
            Err(EngineError::Write(WriteError::QuotaExceeded { what, held, max })) => {
                assert_eq!((what, max), (Counted::Bytes, 4_096));
                assert!(held > 4_096 && held.is_multiple_of(4_096), "{held} bytes");
            }
            other => panic!("{other:?}"),
        }
    }
    block_on(engine.delete_rows(&key(), &EVERY, &[])).unwrap();
    block_on(engine.delete_table(&key(), PLACE)).unwrap();
    engine.close().unwrap();
}
