//! The log is carried over beside the commits, not by them, and does not grow for ever.

mod suite;
mod vfs;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
            place: self.root.path().join("data").into(),
            durability: Durability::Normal,
            encode_row,
            reader_cache_bytes: 1 << 20,
            read_limit_ms: 60_000,
            long_reads: suite::db::LONG_READS,
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
    let hold = bench.vfs.hold(Call::Write, Role::Db);
    for number in 0..3 {
        commit_2_mib(&mut db, number);
    }
    hold.wait_until_reached();
    // The checkpoint stands before its first page. No other thread does.
    db.ok(vec![db.insert("meanwhile", note("meanwhile"))]);
    assert!(db.get("meanwhile").is_some());
    hold.release();
    db.close();
    let db = Db::open(&bench);
    assert_eq!(db.list(&db.all()).total, 151);
}

#[test]
fn a_log_that_was_held_starts_again_when_it_may() {
    let bench = Bench::new("checkpoint-restart");
    let mut db = Db::with_notes(&bench);
    let hold = bench.vfs.hold(Call::Write, Role::Db);
    // The first checkpoint stands still, and the log passes the limit of 16 MiB.
    for number in 0..10 {
        commit_2_mib(&mut db, number);
    }
    hold.wait_until_reached();
    let starts = Arc::new(AtomicUsize::new(0));
    let seen = starts.clone();
    bench.vfs.on_call(move |call| {
        if call.op == Call::Write && call.file.role == Role::Wal && call.offset == 0 {
            seen.fetch_add(1, Ordering::Relaxed);
        }
    });
    let log = bench.root.path().join("data/tidemark.db-wal");
    assert!(std::fs::metadata(&log).unwrap().len() > 16 << 20);
    hold.release();
    // Writes go on without a pause, so only the restart lets the log begin again.
    let mut groups = 10;
    while starts.load(Ordering::Relaxed) == 0 {
        assert!(groups < 1_000, "the log only grows");
        commit_2_mib(&mut db, groups);
        groups += 1;
    }
    assert_eq!(db.list(&db.all()).total, groups as u64 * 50);
}
