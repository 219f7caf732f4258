//! The recording VFS itself, over plain SQLite: it records everything, a crash it rebuilds is a
//! real one (with syncs switched off it finds the lost commits), and each fault comes through.

mod vfs;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::thread;

use rusqlite::{Connection, Result as SqlResult, Row, ffi};
use tempfile::TempDir;

use vfs::{Call, Fault, HeapLimit, Loss, Op, Outcome, Phase, RecordingVfs, Role, What};

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

/// One transaction of two rows, so that half a commit can be told from a whole one.
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

/// Commits under a fault and asserts the extended error code, that nothing of the failed commit
/// stays, and that the same connection commits again once the fault is over.
#[track_caller]
fn check_fault_in_commit(name: &str, fault: Fault, code: i32) {
    let bench = Bench::new(name);
    let connection = bench.open_with_one_pair();
    let armed = bench.vfs.arm(fault);
    let error = insert_pair(&connection, 1).expect_err("the fault must come through");
    assert_eq!(extended_code(&error), code, "{error}");
    assert!(armed.strikes() >= 1);
    armed.disarm();
    insert_pair(&connection, 2).unwrap();
    let ids: Vec<u64> = ids(&connection);
    assert_eq!(ids, [0, 2]);

    // Acknowledged means on disk here too: with all unsynced writes gone, 0 and 2 are there.
    let recovered = recover_last_point(&bench);
    assert_eq!(recovered.whole, BTreeSet::from([0, 2]));
    assert!(recovered.halves.is_empty());
}

fn extended_code(error: &rusqlite::Error) -> i32 {
    error
        .sqlite_error()
        .expect("an error of SQLite")
        .extended_code
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

#[test]
fn a_full_disk_fails_the_commit() {
    let fault = Fault::new(Op::Write, Outcome::Full).on(Role::Wal);
    check_fault_in_commit("full-first", fault.clone(), ffi::SQLITE_FULL);
    check_fault_in_commit("full-second", fault.clone().after(1), ffi::SQLITE_FULL);
    check_fault_in_commit("full-always", fault.always(), ffi::SQLITE_FULL);
}

#[test]
fn a_short_write_fails_the_commit() {
    let fault = Fault::new(Op::Write, Outcome::ShortWrite)
        .on(Role::Wal)
        .after(1);
    check_fault_in_commit("short", fault.clone(), ffi::SQLITE_FULL);

    let bench = Bench::new("short-half");
    let connection = bench.open_with_one_pair();
    bench.vfs.arm(fault);
    insert_pair(&connection, 1).unwrap_err();
    let events = bench.vfs.log().events();
    let [.., written, failed] = &events[..] else {
        panic!("too few events")
    };
    assert!(matches!(
        &failed.what,
        What::Failed {
            op: Op::Write,
            code: ffi::SQLITE_FULL,
            ..
        }
    ));
    let What::Wrote { offset, bytes, .. } = &written.what else {
        panic!("{written:?}")
    };
    assert!(
        (512..4096).contains(&bytes.len()),
        "half a page, not {} bytes",
        bytes.len()
    );
    assert_eq!(
        (offset + bytes.len() as u64) % 512,
        0,
        "cut at a sector's border"
    );
}

#[test]
fn a_failed_write_fails_the_commit() {
    let fault = Fault::new(Op::Write, Outcome::WriteError)
        .on(Role::Wal)
        .after(1);
    check_fault_in_commit("write-error", fault, ffi::SQLITE_IOERR_WRITE);
}

#[test]
fn a_failed_sync_fails_the_commit() {
    let fault = Fault::new(Op::Sync, Outcome::SyncError).on(Role::Wal);
    check_fault_in_commit("sync-error", fault, ffi::SQLITE_IOERR_FSYNC);
}

/// A later sync does not bring back what a failed one may have lost. SQLite wrote these frames under
/// NORMAL and does not write them again, so the next commit, though synced, hangs in the air.
#[test]
fn a_failed_sync_may_lose_what_it_covered_for_good() {
    let bench = Bench::new("sync-lost");
    let connection = bench.open_with_one_pair();
    connection
        .execute_batch("PRAGMA synchronous = NORMAL")
        .unwrap();
    insert_pair(&connection, 1).unwrap();
    bench
        .vfs
        .arm(Fault::new(Op::Sync, Outcome::SyncError).on(Role::Wal));
    let checkpoint = connection.execute_batch("PRAGMA wal_checkpoint");
    assert_eq!(
        extended_code(&checkpoint.unwrap_err()),
        ffi::SQLITE_IOERR_FSYNC
    );
    connection
        .execute_batch("PRAGMA synchronous = FULL")
        .unwrap();
    insert_pair(&connection, 2).unwrap();
    assert_eq!(ids(&connection), [0, 1, 2]);
    assert_eq!(recover_last_point(&bench).whole, BTreeSet::from([0]));
    // Or the disk had it all before the error, or the machine never went down.
    for loss in [Loss::UnsyncedOnly, Loss::Nothing] {
        let rebuilt = tempfile::tempdir().unwrap();
        write_last_point(&bench, rebuilt.path(), loss);
        let recovered = recover(rebuilt.path()).unwrap();
        assert_eq!(recovered.whole, BTreeSet::from([0, 1, 2]), "{loss:?}");
    }
}

#[test]
fn no_memory_fails_the_commit() {
    for (name, outcome) in [
        ("no-memory", Outcome::OutOfMemory),
        ("no-memory-in-io", Outcome::OutOfMemoryInIo),
    ] {
        let fault = Fault::new(Op::Write, outcome).on(Role::Wal);
        check_fault_in_commit(name, fault, ffi::SQLITE_NOMEM);
    }
}

/// A real failure to allocate undoes the statement alone if it kept a statement journal, and the
/// whole transaction otherwise: whoever groups requests must ask which it was.
#[test]
fn a_failed_allocation_fails_the_statement_or_ends_the_transaction() {
    let alone = MEMORY.write().unwrap_or_else(PoisonError::into_inner);
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch("CREATE TABLE pair (id, half, bytes)")
        .unwrap();
    let fails = |sql: &str, spare_bytes| {
        connection
            .execute_batch("BEGIN; INSERT INTO pair VALUES (0, 0, 0)")
            .unwrap();
        let limit = HeapLimit::above_used(spare_bytes);
        let error = connection
            .execute(sql, ())
            .expect_err("there is no memory for it");
        drop(limit);
        assert_eq!(
            error.sqlite_error_code(),
            Some(rusqlite::ErrorCode::OutOfMemory)
        );
    };
    fails(
        "INSERT INTO pair SELECT 1, 0, hex(zeroblob(100000))",
        50_000,
    );
    assert!(
        !connection.is_autocommit(),
        "the statement was undone alone"
    );
    connection.execute_batch("COMMIT").unwrap();
    fails("INSERT INTO pair VALUES (2, 0, zeroblob(100000))", 0);
    assert!(connection.is_autocommit(), "the transaction was ended");
    assert_eq!(ids(&connection), [0]);
    drop(alone);
}

/// A connection with nothing cached, so that its first statement reads from the file.
#[track_caller]
fn check_fault_in_read(name: &str, outcome: Outcome, code: i32) {
    let bench = Bench::new(name);
    commit_pairs(&bench, "WAL", "FULL");
    let connection = bench.vfs.open(DB).unwrap();
    let count = |connection: &Connection| -> SqlResult<u64> {
        connection.query_row("SELECT count(*) FROM pair", (), unsigned)
    };
    bench
        .vfs
        .arm(Fault::new(Op::Read, outcome).on(Role::Db).after(1).always());
    let error = count(&connection).expect_err("the fault must come through");
    assert_eq!(extended_code(&error), code, "{error}");
    bench.vfs.disarm_all();
    assert_eq!(count(&connection).unwrap(), COMMITS * 2);
}

#[test]
fn a_failed_read_fails_the_statement() {
    check_fault_in_read("read-error", Outcome::ReadError, ffi::SQLITE_IOERR_READ);
    check_fault_in_read("read-no-memory", Outcome::OutOfMemory, ffi::SQLITE_NOMEM);
    check_fault_in_read(
        "read-no-memory-io",
        Outcome::OutOfMemoryInIo,
        ffi::SQLITE_NOMEM,
    );
}

#[test]
fn a_failed_truncate_fails_the_checkpoint() {
    let bench = Bench::new("truncate-error");
    let connection = bench.open_with_one_pair();
    let fault = Fault::new(Op::Truncate, Outcome::TruncateError).on(Role::Wal);
    let armed = bench.vfs.arm(fault);
    let checkpoint = |connection: &Connection| {
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| {
            row.get::<_, i64>(0)
        })
    };
    let error = checkpoint(&connection).expect_err("the fault must come through");
    assert_eq!(extended_code(&error), ffi::SQLITE_IOERR_TRUNCATE);
    assert_eq!(armed.strikes(), 1);
    assert_eq!(checkpoint(&connection).unwrap(), 0);
}

#[test]
fn a_file_that_cannot_be_opened_fails_the_open() {
    let bench = Bench::new("cannot-open");
    bench
        .vfs
        .arm(Fault::new(Op::Open, Outcome::CannotOpen).on(Role::Db));
    let error = bench
        .vfs
        .open(DB)
        .map(drop)
        .expect_err("the fault must come through");
    assert_eq!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::CannotOpen)
    );
    drop(bench.open_with_one_pair());
}

/// The number of strikes is exact: `after` calls pass, `times` fail, the rest pass again.
#[test]
fn a_fault_strikes_as_often_as_it_was_told() {
    let bench = Bench::new("counts");
    let connection = bench.open_with_one_pair();
    let fault = Fault::new(Op::Sync, Outcome::SyncError)
        .on(Role::Wal)
        .after(1)
        .times(2);
    let armed = bench.vfs.arm(fault);
    let worked: Vec<bool> = (1..=5)
        .map(|id| insert_pair(&connection, id).is_ok())
        .collect();
    assert_eq!(worked, [true, false, false, true, true]);
    assert_eq!(armed.strikes(), 2);
    assert_eq!(ids(&connection), [0, 1, 4, 5]);
}

/// A statement that outgrows the page cache writes in its midst; there it can be interrupted.
#[track_caller]
fn check_interrupt(name: &str, strike: impl FnOnce(&Bench, &Connection)) {
    let bench = Bench::new(name);
    let connection = bench.open_with_one_pair();
    connection
        .execute_batch("PRAGMA cache_size = 10; PRAGMA cache_spill = 10; BEGIN")
        .unwrap();
    connection
        .execute("UPDATE pair SET half = 9 WHERE half = 0", ())
        .unwrap();
    strike(&bench, &connection);
    let many = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
                INSERT INTO pair SELECT i, 0, zeroblob(600) FROM n";
    let error = connection
        .execute(many, ())
        .expect_err("the interrupt must come through");
    assert_eq!(extended_code(&error), ffi::SQLITE_INTERRUPT, "{error}");
    assert!(
        connection.is_autocommit(),
        "SQLite ends the whole transaction"
    );
    let nines = "SELECT count(*) FROM pair WHERE half = 9";
    assert_eq!(connection.query_row(nines, (), unsigned).unwrap(), 0);
    insert_pair(&connection, 1).unwrap();
    bench.vfs.remove_hooks();
    assert_eq!(ids(&connection), [0, 1]);
}

#[test]
fn an_interrupt_strikes_inside_a_writing_statement() {
    check_interrupt("interrupt-wal", |bench, _connection| {
        bench.vfs.arm(
            Fault::new(Op::Write, Outcome::Interrupt)
                .on(Role::Wal)
                .after(2),
        );
    });
    check_interrupt("interrupt-hook", |bench, connection| {
        let handle = connection.get_interrupt_handle();
        let writes = AtomicU64::new(0);
        bench.vfs.on_call(move |call: &Call<'_>| {
            let counts = call.op == Op::Write && call.phase == Phase::Before;
            if counts && writes.fetch_add(1, Ordering::SeqCst) == 2 {
                handle.interrupt();
            }
        });
    });
}

#[test]
fn an_interrupt_strikes_inside_a_reading_statement() {
    let bench = Bench::new("interrupt-read");
    commit_pairs(&bench, "WAL", "FULL");
    let connection = bench.vfs.open(DB).unwrap();
    let armed = bench.vfs.arm(
        Fault::new(Op::Read, Outcome::Interrupt)
            .on(Role::Db)
            .after(4),
    );
    let count = "SELECT sum(length(bytes)) FROM pair";
    let error = connection.query_row(count, (), unsigned).unwrap_err();
    assert_eq!(extended_code(&error), ffi::SQLITE_INTERRUPT, "{error}");
    assert_eq!(armed.strikes(), 1);
    let bytes = connection.query_row(count, (), unsigned).unwrap();
    assert_eq!(bytes, COMMITS * 2 * 600);
}

/// What the commit path rests on: in WAL mode under FULL a reader sees a commit only after its
/// sync. While the sync is held the frames are written, yet neither seen nor acknowledged.
#[test]
fn a_commit_is_invisible_until_its_sync_returns() {
    let bench = Bench::new("held-full");
    let writer = Mutex::new(bench.open_with_one_pair());
    let reader = bench.vfs.open(DB).unwrap();
    assert_eq!(ids(&reader), [0]);

    // Once the sync is done, and SQLite does not know yet: still nobody sees it.
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
