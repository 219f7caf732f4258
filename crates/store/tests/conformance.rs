//! Both stores keep one contract. PostgreSQL joins by a `Place` of its own.

mod suite;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use futures_executor::block_on;
use model::Mark;
use store::{Durability, Options, Store, StoreError};
use suite::db::{Db, Place, encode_row, note};

/// A data directory of the embedded store.
struct Embedded {
    root: tempfile::TempDir,
}

impl Embedded {
    fn new() -> Embedded {
        Embedded {
            root: tempfile::tempdir().unwrap(),
        }
    }

    fn directory(&self) -> std::path::PathBuf {
        self.root.path().join("data")
    }
}

fn options(directory: &Path) -> Options {
    Options {
        directory: directory.to_owned(),
        durability: Durability::Normal,
        encode_row,
        reader_cache_bytes: 8 << 20,
        read_limit_ms: 60_000,
        long_reads: suite::db::LONG_READS,
        vfs: None,
    }
}

impl Place for Embedded {
    fn open(&self) -> Arc<dyn Store> {
        store::open(options(&self.directory())).unwrap()
    }
}

/// Runs every case, each in a new place, and names all that fail.
fn suite(new_place: impl Fn() -> Box<dyn Place>) {
    let failed: Vec<&str> = suite::CASES
        .iter()
        .filter(|(_, case)| {
            let place = new_place();
            catch_unwind(AssertUnwindSafe(|| case(&*place))).is_err()
        })
        .map(|(name, _)| *name)
        .collect();
    assert!(failed.is_empty(), "failed: {failed:#?}");
}

#[test]
fn the_embedded_store_keeps_the_contract() {
    suite(|| Box::new(Embedded::new()));
}

#[test]
fn a_directory_is_opened_once_at_a_time() {
    let place = Embedded::new();
    let db = Db::open(&place);
    let second = store::open(options(&place.directory())).map(|_| ());
    assert_eq!(
        second,
        Err(StoreError::Locked {
            directory: place.directory()
        })
    );
    db.close();
    Db::open(&place).close();
    // A store that was only dropped gives the directory up, too.
    drop(Db::open(&place));
    Db::open(&place).close();
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let place = Embedded::new();
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("a", note("one"))]);
    db.close();
    let file = place.directory().join("tidemark.db");
    let set_format = |format: i64| {
        let connection = rusqlite::Connection::open(&file).unwrap();
        connection
            .execute_batch(&format!("PRAGMA user_version = {format}"))
            .unwrap();
    };
    set_format(1_000);
    let refused = store::open(options(&place.directory()))
        .map(|_| ())
        .unwrap_err();
    assert!(
        matches!(
            refused,
            StoreError::Format {
                found: 1_000,
                newest: 1
            }
        ),
        "{refused}"
    );
    set_format(1);
    assert_eq!(Db::open(&place).ids(), ["a"]);
}

#[test]
fn another_programs_file_is_refused() {
    let place = Embedded::new();
    std::fs::create_dir(place.directory()).unwrap();
    let file = place.directory().join("tidemark.db");
    std::fs::write(
        &file,
        "this is no database, but long enough to be looked at".repeat(20),
    )
    .unwrap();
    let refused = store::open(options(&place.directory()))
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let place = Embedded::new();
    std::fs::write(place.directory(), "").unwrap();
    let refused = store::open(options(&place.directory()))
        .map(|_| ())
        .unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains(&place.directory().display().to_string()),
        "{text}"
    );
}

#[test]
#[should_panic(expected = "marks rise strictly")]
fn a_mark_that_does_not_rise_is_our_own_mistake() {
    let place = Embedded::new();
    let mut db = Db::with_notes(&place);
    db.next = db.load().mark;
    db.ok(vec![db.insert("a", note("one"))]);
}

#[test]
fn a_closed_store_says_so() {
    let place = Embedded::new();
    let db = Db::with_notes(&place);
    let store = db.store.clone();
    let batches = [db.batch(vec![db.insert("a", note("one"))])];
    let next = db.next;
    db.close();
    let refused = block_on(store.apply(&batches, next))
        .map(|_| ())
        .unwrap_err();
    assert!(refused.to_string().contains("closed"), "{refused}");
    assert!(block_on(store.close(Mark(next.0))).is_err());
}
