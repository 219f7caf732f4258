//! Each fault of the recording VFS comes through, and nothing of what it struck stays.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, ffi};

use super::vfs::{Call, Fault, HeapLimit, Loss, Op, Outcome, Phase, Role, What};
use super::{
    Bench, COMMITS, DB, MEMORY, SqlResult, commit_pairs, ids, insert_pair, recover,
    recover_last_point, unsigned, write_last_point,
};

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
/// whole transaction otherwise: code that groups requests must ask which it was.
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
