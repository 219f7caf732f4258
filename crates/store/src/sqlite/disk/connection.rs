//! How this process opens its connections.

use std::path::Path;
use std::sync::Once;
use std::thread;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, ffi};

use super::functions;
use super::sorts;
use super::wal_coalescing;
use crate::Durability;

/// Statements kept prepared by the writer: about eight for each table that is being written to, and
/// at most as many more for updates that leave out columns.
const WRITER_STATEMENTS_MAX: usize = 1_024;
/// Pages the writer keeps in memory, in KiB; negative is how the pragma says KiB. A commit that
/// split a page looks through all of them: SQLite swaps page numbers by way of the lock page's,
/// beyond the end of a file below 1 GiB, and then searches its cache for more pages up there.
/// With 64 MiB that is an eighth of the processor time of an insert.
pub(crate) const WRITER_CACHE_KIB: i64 = -16 * 1_024;
/// How often, and how many times, a connection asks for a lock another one holds: 10 s in all.
/// Inside this process only a checkpoint holds one, for the time of a few writes and syncs.
const BUSY_PAUSE: Duration = Duration::from_micros(500);
const BUSY_PAUSES_MAX: i32 = 20_000;

/// Where the database is, and through which file system layer it is reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location<'a> {
    /// The database file.
    pub(crate) database: &'a Path,
    /// A registered layer other than the default one.
    pub(crate) vfs: Option<&'a str>,
}

/// Opens a connection with what holds for each one of this process: no mutex, because a
/// connection is used by one thread at a time, and no memory map, because a read error there
/// is a signal, not an error.
pub(crate) fn open(location: Location<'_>) -> rusqlite::Result<Connection> {
    configure_once();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = match location.vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(location.database, flags, vfs)?,
        None => Connection::open_with_flags(location.database, flags)?,
    };
    connection.busy_handler(Some(wait_for_lock))?;
    connection.execute_batch("PRAGMA mmap_size = 0; PRAGMA trusted_schema = OFF;")?;
    keep_plans(&connection)?;
    functions::provide(&connection)?;
    Ok(connection)
}

/// Keeps a prepared statement's plan whatever is bound to it. Otherwise this build of SQLite
/// (with STAT4) compiles each statement again when a value is bound that a better plan might
/// depend on: it made a point read cost 24 instead of 6 microseconds.
pub(crate) fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)
        .map(drop)
}

/// Opens the connection that writes.
///
/// Deleted content is overwritten (`secure_delete`), so that erasure can promise it. Savepoints
/// keep their journals in memory: they are as large as a batch at most.
pub(crate) fn open_writer(
    location: Location<'_>,
    durability: Durability,
) -> rusqlite::Result<Connection> {
    let sorting = sorts::over(location.vfs);
    let below = sorting.as_deref().or(location.vfs);
    let (synchronous, layer) = match durability {
        Durability::Full => ("FULL", wal_coalescing::over(below, true)),
        // Readers see commits that were not synced: nothing may be kept back from the system.
        Durability::Normal => ("NORMAL", wal_coalescing::over(below, false)),
    };
    let connection = open(Location {
        vfs: layer.as_deref().or(below),
        ..location
    })?;
    connection.set_prepared_statement_cache_capacity(WRITER_STATEMENTS_MAX);
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = {synchronous};
         PRAGMA wal_autocheckpoint = 0;
         PRAGMA secure_delete = ON;
         PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = {WRITER_CACHE_KIB};"
    ))?;
    Ok(connection)
}

fn wait_for_lock(asked_before: i32) -> bool {
    if asked_before >= BUSY_PAUSES_MAX {
        return false;
    }
    thread::sleep(BUSY_PAUSE);
    true
}

/// Switches off SQLite's account of its memory, which would make every allocation of every
/// thread pass one lock. It must happen before SQLite's first use in the process; where a host
/// has used it before, the setting is refused and only that speed is lost.
fn configure_once() {
    static CONFIGURED: Once = Once::new();
    CONFIGURED.call_once(|| {
        #[allow(unsafe_code, reason = "the driver does not offer this call")]
        // SAFETY: the option takes one int. The call is not thread-safe, and refused when SQLite
        // is initialised; all uses of SQLite in this crate come after this one.
        unsafe {
            ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0);
        }
    });
}
