//! The log is carried over beside the commits, not by them, and does not grow for ever.

mod suite;
mod vfs;

use std::sync::Arc;

use model::Value;
use store::{Durability, Options, Store};
use suite::db::{Db, Place, TITLE, encode_row, note};
use tempfile::TempDir;
use vfs::{Op as Call, RecordingVfs, Role};

struct Bench {
    root: TempDir,
    vfs: RecordingVfs,
}

impl Bench {
    fn new(name: &str) -> Bench {
        let root = tempfile::tempdir().unwrap();
        let vfs = RecordingVfs::register(name, root.path()).unwrap();
        Bench { root, vfs }
    }
}

impl Place for Bench {
    fn open(&self) -> Arc<dyn Store> {
        store::open(Options {
            directory: self.root.path().join("data"),
            durability: Durability::Normal,
            encode_row,
            reader_cache_bytes: 1 << 20,
            read_limit_ms: 60_000,
            vfs: Some(self.vfs.name().to_owned()),
        })
        .unwrap()
    }
}

/// Commits a group that leaves at least 2 MiB in the log.
fn commit_2_mib(db: &mut Db, number: usize) {
    let wide = |n: usize| {
        let id = format!("w{number}-{n}");
        let mut values = note(&id);
        values[TITLE] = Value::Text(format!("{id}{}", "x".repeat(15_500)));
        db.insert(&id, values)
    };
    db.ok((0..50).map(wide).collect());
}

#[test]
fn commits_go_on_while_a_checkpoint_runs() {
    let bench = Bench::new("checkpoint-beside");
    let mut db = Db::with_notes(&bench);
    let hold = bench.vfs.hold(Call::Sync, Role::Db);
    for number in 0..3 {
        commit_2_mib(&mut db, number);
    }
    hold.wait_until_reached();
    // The checkpoint stands before its sync. Nobody else does.
    db.ok(vec![db.insert("meanwhile", note("meanwhile"))]);
    assert!(db.get("meanwhile").is_some());
    hold.release();
    db.close();
    let db = Db::open(&bench);
    assert_eq!(db.list(&db.all()).total, 151);
}

#[test]
fn a_log_that_was_held_is_truncated_when_it_may() {
    let bench = Bench::new("checkpoint-truncate");
    let mut db = Db::with_notes(&bench);
    let hold = bench.vfs.hold(Call::Write, Role::Db);
    let truncation = bench.vfs.hold(Call::Truncate, Role::Wal);
    // The first checkpoint stands still, and the log passes the limit of 64 MiB.
    for number in 0..34 {
        commit_2_mib(&mut db, number);
    }
    hold.wait_until_reached();
    let log = bench.root.path().join("data/tidemark.db-wal");
    let log_bytes = || std::fs::metadata(&log).unwrap().len();
    assert!(log_bytes() > 64 << 20);
    hold.release();
    truncation.wait_until_reached();
    truncation.release();
    commit_2_mib(&mut db, 34);
    assert!(log_bytes() < 16 << 20, "{} bytes of log", log_bytes());
    assert_eq!(db.list(&db.all()).total, 35 * 50);
}
