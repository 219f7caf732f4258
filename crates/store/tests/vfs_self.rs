//! The recording VFS itself, over plain SQLite: it records everything, a crash it rebuilds is a
//! real one (with syncs switched off it finds the lost commits), and each fault comes through.

#[path = "vfs_self/faults.rs"]
mod faults;
mod vfs;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::thread;

use rusqlite::{Connection, Result as SqlResult, Row, ffi};
use tempfile::TempDir;

use vfs::{Call, Fault, Loss, Op, Outcome, Phase, RecordingVfs, Role, What};

/// Commits of one workload. With 600-byte rows and a checkpoint every 8 pages this passes through
/// several checkpoints and restarts of the WAL.
const COMMITS: u64 = 30;
const DB: &str = "main.db";

/// Who writes here bounds the memory of all of SQLite; every other test reads.
static MEMORY: RwLock<()> = RwLock::new(());

/// A VFS under the name of its test, over a directory that lives as long.
struct Bench {
    directory: TempDir,
    vfs: RecordingVfs,
    _memory: RwLockReadGuard<'static, ()>,
}

impl Bench {
    fn new(name: &str) -> Bench {
        let memory = MEMORY.read().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        let vfs = RecordingVfs::register(name, directory.path()).unwrap();
        Bench {
            directory,
            vfs,
            _memory: memory,
        }
    }

    fn open(&self, journal_mode: &str, synchronous: &str) -> Connection {
        let connection = self.vfs.open(DB).unwrap();
        connection
            .execute_batch(&format!(
                "PRAGMA journal_mode = {journal_mode};
                 PRAGMA synchronous = {synchronous};
                 PRAGMA wal_autocheckpoint = 8;
                 PRAGMA mmap_size = 1000000000;
                 CREATE TABLE IF NOT EXISTS pair (id INTEGER, half INTEGER, bytes BLOB);"
            ))
            .unwrap();
        connection
    }

    /// A database in WAL mode under FULL with one committed pair, and no checkpoint to come.
    fn open_with_one_pair(&self) -> Connection {
        let connection = self.open("WAL", "FULL");
        connection
            .execute_batch("PRAGMA wal_autocheckpoint = 0")
            .unwrap();
        insert_pair(&connection, 0).unwrap();
        connection
    }
}

/// One transaction of two rows, so that half a commit differs from a whole one.
fn insert_pair(connection: &Connection, id: u64) -> SqlResult<()> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let insert = "INSERT INTO pair VALUES (?1, ?2, zeroblob(600))";
    let id = i64::try_from(id).expect("a test counts in small numbers");
    let inserted = connection
        .execute(insert, (id, 0))
        .and_then(|_| connection.execute(insert, (id, 1)))
        .and_then(|_| connection.execute_batch("COMMIT"));
    if inserted.is_err() && !connection.is_autocommit() {
        connection.execute_batch("ROLLBACK")?;
    }
    inserted
}

/// Commits pairs one after the other, noting each before it starts and after it is acknowledged.
/// Halfway the database is closed, which checkpoints and deletes the WAL, and opened again.
fn commit_pairs(bench: &Bench, journal_mode: &str, synchronous: &str) {
    let mut connection = bench.open(journal_mode, synchronous);
    for id in 0..COMMITS {
        if id == COMMITS / 2 {
            drop(connection);
            connection = bench.open(journal_mode, synchronous);
        }
        bench.vfs.log().note("attempted", id);
        insert_pair(&connection, id).unwrap();
        bench.vfs.log().note("acknowledged", id);
    }
}

/// SQLite has no unsigned numbers; 32 bits are plenty here.
fn unsigned(row: &Row<'_>) -> SqlResult<u64> {
    row.get::<_, u32>(0).map(u64::from)
}

/// What a rebuilt directory holds once SQLite has recovered it.
struct Recovered {
    whole: BTreeSet<u64>,
    halves: BTreeSet<u64>,
    integrity: String,
}

fn recover(directory: &Path) -> SqlResult<Recovered> {
    let mut recovered = Recovered {
        whole: BTreeSet::new(),
        halves: BTreeSet::new(),
        integrity: String::new(),
    };
    let path = directory.join(DB);
    if !path.exists() {
        "ok".clone_into(&mut recovered.integrity);
        return Ok(recovered);
    }
    let connection = Connection::open(path)?;
    recovered.integrity = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0))?;
    if !connection.table_exists(None, "pair")? {
        return Ok(recovered);
    }
    let mut counted = connection.prepare("SELECT id, count(*) FROM pair GROUP BY id")?;
    let mut rows = counted.query(())?;
    while let Some(row) = rows.next()? {
        let is_whole = row.get::<_, u32>(1)? == 2;
        let side = if is_whole {
            &mut recovered.whole
        } else {
            &mut recovered.halves
        };
        side.insert(unsigned(row)?);
    }
    Ok(recovered)
}

/// What the crashes of one recorded workload did.
#[derive(Default, Debug)]
struct Findings {
    /// Directories that were rebuilt and looked at.
    states: u64,
    /// Points at which an acknowledged commit was gone.
    points_with_loss: u64,
    /// Points at which the database was damaged, held half a commit, one never attempted, or a
    /// later one without an earlier one.
    points_with_damage: u64,
}

/// Crashes at every recorded point. `Loss::Unsynced` states that did not change are looked at once.
fn crash_everywhere(bench: &Bench, loss: Loss) -> Findings {
    let rebuilt = tempfile::tempdir().unwrap();
    let mut findings = Findings::default();
    let (mut attempted, mut acknowledged) = (0, 0);
    let (mut state_number, mut recovered) = (None, None);
    let mut crashes = bench.vfs.log().crashes();
    while let Some(point) = crashes.advance() {
        match &point.event().what {
            What::Note {
                label: "attempted",
                number,
            } => attempted = number + 1,
            What::Note {
                label: "acknowledged",
                number,
            } => acknowledged = number + 1,
            _ => {}
        }
        if loss != Loss::Unsynced || state_number != Some(point.state_number()) {
            state_number = Some(point.state_number());
            point.write_to(rebuilt.path(), loss).unwrap();
            recovered = recover(rebuilt.path()).ok();
            findings.states += 1;
        }
        let sound = recovered.as_ref().filter(|found| {
            let is_prefix = found.whole.iter().copied().eq(0..found.whole.len() as u64);
            found.integrity == "ok" && found.halves.is_empty() && is_prefix
        });
        let count = sound.map(|found| found.whole.len() as u64);
        findings.points_with_damage += u64::from(count.is_none_or(|count| count > attempted));
        findings.points_with_loss += u64::from(count.is_none_or(|count| count < acknowledged));
    }
    assert_eq!((attempted, acknowledged), (COMMITS, COMMITS));
    findings
}

#[track_caller]
fn check_sound(findings: &Findings) {
    assert_eq!(
        (findings.points_with_loss, findings.points_with_damage),
        (0, 0),
        "{findings:?}"
    );
    assert!(
        findings.states > COMMITS,
        "too few states to prove anything: {findings:?}"
    );
}

#[test]
fn full_keeps_every_acknowledged_commit_at_every_point() {
    let bench = Bench::new("full-unsynced");
    commit_pairs(&bench, "WAL", "FULL");
    check_sound(&crash_everywhere(&bench, Loss::Unsynced));
}

#[test]
fn full_keeps_every_acknowledged_commit_with_torn_and_reordered_writes() {
    let bench = Bench::new("full-seeded");
    commit_pairs(&bench, "WAL", "FULL");
    for seed in 0..4 {
        check_sound(&crash_everywhere(&bench, Loss::Seeded(seed)));
    }
}

#[test]
fn a_rollback_journal_keeps_every_acknowledged_commit_too() {
    let bench = Bench::new("journal");
    commit_pairs(&bench, "DELETE", "FULL");
    check_sound(&crash_everywhere(&bench, Loss::Unsynced));
    check_sound(&crash_everywhere(&bench, Loss::Seeded(0)));
}

#[test]
fn normal_loses_the_last_commits_and_nothing_else() {
    let bench = Bench::new("normal");
    commit_pairs(&bench, "WAL", "NORMAL");
    for loss in [Loss::Unsynced, Loss::Seeded(1)] {
        let findings = crash_everywhere(&bench, loss);
        assert_eq!(findings.points_with_damage, 0, "{findings:?}");
        assert!(findings.points_with_loss > 0, "{findings:?}");
    }
}

/// The proof that this harness can fail.
#[test]
fn without_syncs_acknowledged_commits_are_lost() {
    let bench = Bench::new("off");
    commit_pairs(&bench, "WAL", "OFF");
    assert!(crash_everywhere(&bench, Loss::Unsynced).points_with_loss > 0);
    let torn = crash_everywhere(&bench, Loss::Seeded(2));
    assert!(
        torn.points_with_loss > 0 && torn.points_with_damage > 0,
        "{torn:?}"
    );
    // A killed process loses nothing even so, which is why killing proves nothing.
    check_sound(&crash_everywhere(&bench, Loss::Nothing));
}

/// Nothing reaches the files that the log does not hold, even where the user asks for mapping.
#[test]
fn the_record_equals_the_files_byte_for_byte() {
    let bench = Bench::new("bytes");
    let rebuilt = tempfile::tempdir().unwrap();
    let mut connection = bench.open("WAL", "FULL");
    for id in 0..20 {
        insert_pair(&connection, id).unwrap();
    }
    connection
        .execute_batch("DELETE FROM pair WHERE id > 5; VACUUM")
        .unwrap();
    connection
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA user_version = 7")
        .unwrap();
    insert_pair(&connection, 20).unwrap();
    bench.vfs.arm(
        Fault::new(Op::Write, Outcome::ShortWrite)
            .on(Role::Wal)
            .after(1),
    );
    insert_pair(&connection, 21).expect_err("half a write is on the disk and in the record");
    // Shared memory lives on in the open connection, so the WAL stays to be compared.
    let transaction = connection.transaction().unwrap();
    write_last_point(&bench, rebuilt.path(), Loss::Nothing);
    for file in [DB, "main.db-wal"] {
        let [real, recorded] = [bench.directory.path(), rebuilt.path()]
            .map(|directory| std::fs::read(directory.join(file)).unwrap());
        assert!(!real.is_empty());
        assert!(real == recorded, "{file} differs");
    }
    assert!(!rebuilt.path().join("main.db-shm").exists());
    drop(transaction);
}

fn write_last_point(bench: &Bench, directory: &Path, loss: Loss) {
    let last = bench.vfs.log().last_seq();
    let mut crashes = bench.vfs.log().crashes();
    while let Some(point) = crashes.advance() {
        if point.seq() == last {
            point.write_to(directory, loss).unwrap();
        }
    }
}

/// Drops all unsynced writes at the end of the record.
fn recover_last_point(bench: &Bench) -> Recovered {
    let rebuilt = tempfile::tempdir().unwrap();
    write_last_point(bench, rebuilt.path(), Loss::Unsynced);
    recover(rebuilt.path()).unwrap()
}

#[test]
fn a_file_that_was_there_before_is_durable() {
    let bench = Bench::new("found");
    let plain = Connection::open(bench.directory.path().join(DB)).unwrap();
    plain
        .execute_batch("CREATE TABLE pair (id, half, bytes); PRAGMA user_version = 9")
        .unwrap();
    drop(plain);
    drop(bench.open("WAL", "OFF"));
    let rebuilt = tempfile::tempdir().unwrap();
    let mut crashes = bench.vfs.log().crashes();
    let point = crashes.advance().unwrap();
    point.write_to(rebuilt.path(), Loss::Unsynced).unwrap();
    let plain = Connection::open(rebuilt.path().join(DB)).unwrap();
    let found: i64 = plain
        .query_row("PRAGMA user_version", (), |row| row.get(0))
        .unwrap();
    assert_eq!(found, 9);
}

#[test]
fn the_same_seed_rebuilds_the_same_files() {
    let bench = Bench::new("seeds");
    drop(bench.open("WAL", "OFF"));
    let rebuilt = tempfile::tempdir().unwrap();
    let mut states = [Vec::new(), Vec::new(), Vec::new()];
    for (state, seed) in states.iter_mut().zip([5, 5, 6]) {
        let mut crashes = bench.vfs.log().crashes();
        while let Some(point) = crashes.advance() {
            point.write_to(rebuilt.path(), Loss::Seeded(seed)).unwrap();
            state.push(std::fs::read(rebuilt.path().join(DB)).unwrap());
        }
    }
    assert!(states[0] == states[1], "a seed must replay");
    assert!(states[0] != states[2], "another seed must differ");
}

/// By chance a write is kept whole, dropped, or torn between any two of its sectors.
#[test]
fn a_seeded_crash_keeps_drops_and_tears_a_write() {
    let bench = Bench::new("tears");
    drop(bench.open("DELETE", "OFF"));
    let rebuilt = tempfile::tempdir().unwrap();
    let mut crashes = bench.vfs.log().crashes();
    let mut outcomes = BTreeSet::new();
    while let Some(point) = crashes.advance() {
        // The first page of a new database begins with its header and ends with its schema.
        let What::Wrote {
            file,
            offset: 0,
            bytes,
        } = &point.event().what
        else {
            continue;
        };
        if file.role != Role::Db {
            continue;
        }
        for seed in 0..64 {
            point.write_to(rebuilt.path(), Loss::Seeded(seed)).unwrap();
            let mut page = std::fs::read(rebuilt.path().join(DB)).unwrap();
            page.resize(bytes.len(), 0);
            let last = bytes.len() - 512;
            outcomes.insert((page[..512] == bytes[..512], page[last..] == bytes[last..]));
        }
    }
    let all = [(false, false), (false, true), (true, false), (true, true)];
    assert!(outcomes.iter().eq(&all), "{outcomes:?}");
}

#[test]
fn notes_of_many_threads_and_calls_share_one_sequence() {
    let bench = Bench::new("sequence");
    let connection = bench.open("WAL", "FULL");
    thread::scope(|scope| {
        for thread in 0..4 {
            let log = bench.vfs.log().clone();
            scope.spawn(move || {
                for count in 0..100 {
                    log.note("noted", thread * 100 + count);
                }
            });
        }
        for id in 0..10 {
            insert_pair(&connection, id).unwrap();
        }
    });
    let events = bench.vfs.log().events();
    assert!(
        events
            .iter()
            .map(|event| event.seq)
            .eq(1..=events.len() as u64)
    );
    let number_of = |what: &What| match what {
        What::Note { number, .. } => Some(*number),
        _ => None,
    };
    let notes: Vec<u64> = events
        .iter()
        .filter_map(|event| number_of(&event.what))
        .collect();
    assert_eq!(notes.len(), 400);
    for thread in 0..4 {
        let own = notes
            .iter()
            .copied()
            .filter(|number| number / 100 == thread);
        assert!(
            own.eq(thread * 100..(thread + 1) * 100),
            "a thread's notes keep their order"
        );
    }
    let ten_commits = bench.vfs.log().syncs(Role::Wal).len();
    assert!(
        ten_commits >= 10,
        "{ten_commits} syncs of the WAL for ten commits under FULL"
    );
}
fn ids(connection: &Connection) -> Vec<u64> {
    let mut select = connection
        .prepare("SELECT DISTINCT id FROM pair ORDER BY id")
        .unwrap();
    select
        .query_map((), unsigned)
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

/// What the commit path rests on: in WAL mode under FULL a reader sees a commit only after its
/// sync. While the sync is held the frames are written, yet neither seen nor acknowledged.
#[test]
fn a_commit_is_invisible_until_its_sync_returns() {
    let bench = Bench::new("held-full");
    let writer = Mutex::new(bench.open_with_one_pair());
    let reader = bench.vfs.open(DB).unwrap();
    assert_eq!(ids(&reader), [0]);

    // Once the sync is done, and SQLite does not know yet: still no reader sees it.
    let watcher = Mutex::new(bench.vfs.open(DB).unwrap());
    let synced_unseen = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&synced_unseen);
    bench.vfs.on_call(move |call: &Call<'_>| {
        if call.op == Op::Sync && call.phase == Phase::After(ffi::SQLITE_OK) {
            assert_eq!(ids(&watcher.lock().unwrap()), [0]);
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let hold = bench.vfs.hold(Op::Sync, Role::Wal);
    thread::scope(|scope| {
        let commit = scope.spawn(|| {
            insert_pair(&writer.lock().unwrap(), 1).unwrap();
            bench.vfs.log().note("acknowledged", 1)
        });
        hold.wait_until_reached();
        let events = bench.vfs.log().events();
        assert!(
            matches!(events.last().unwrap().what, What::Wrote { .. }),
            "no note, no sync"
        );
        assert_eq!(
            ids(&reader),
            [0],
            "the frames are written, and nobody sees them"
        );
        hold.release();
        let acknowledged = commit.join().unwrap();
        assert!(events.len() as u64 + 1 < acknowledged);
    });
    bench.vfs.remove_hooks();
    assert_eq!(synced_unseen.load(Ordering::SeqCst), 1);
    assert_eq!(ids(&reader), [0, 1]);
}

#[test]
#[should_panic(expected = "a hook's assertion")]
fn a_panic_in_a_hook_fails_the_test() {
    let bench = Bench::new("hook-panic");
    bench.vfs.on_call(|_call| panic!("a hook's assertion"));
    drop(bench.vfs.open(DB).unwrap());
}

/// The counterpart: under NORMAL no sync stands before publication, so the hold is never reached.
#[test]
fn under_normal_a_commit_is_visible_without_a_sync() {
    let bench = Bench::new("held-normal");
    let writer = bench.open_with_one_pair();
    writer.execute_batch("PRAGMA synchronous = NORMAL").unwrap();
    let reader = bench.vfs.open(DB).unwrap();
    let hold = bench.vfs.hold(Op::Sync, Role::Wal);
    insert_pair(&writer, 1).unwrap();
    assert_eq!(ids(&reader), [0, 1]);
    assert!(!hold.is_reached());
}

#[test]
fn a_name_is_taken_while_its_vfs_lives() {
    let bench = Bench::new("taken");
    let root = bench.directory.path();
    let error = RecordingVfs::register("taken", root).map(drop).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists);
    let connection = bench.open_with_one_pair();
    let Bench {
        directory,
        vfs,
        _memory,
    } = bench;
    drop(vfs);
    insert_pair(&connection, 1).expect("an open connection outlives the name");
    drop(RecordingVfs::register("taken", directory.path()).unwrap());
}
