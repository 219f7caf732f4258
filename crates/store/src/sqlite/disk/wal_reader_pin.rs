//! A reader that never leaves, so that the others need not ask the system for a lock.
//!
//! Each read of SQLite holds a shared lock on the place in the log up to which it reads. The locks
//! of one process are counted in memory: the system is asked by the first reader of a place that
//! comes and by the last that goes. Where reads do not overlap that is each of them, and the two
//! calls took a tenth of a point read (docs/performance.md). So one reader stays at the latest
//! commit.
//!
//! A reader in the log keeps the log from starting again, and from being repaired after an error.
//! So this one lets go of its snapshot during writes and checkpoints. It stays at the new end once
//! the writer has nothing to do: a commit is answered before, and between two commits of a busy
//! writer no reader would come in time to gain by it. Where everything was carried over it finds
//! its place beside the log.

use std::sync::{Mutex, MutexGuard, PoisonError};

use query::emit;
use rusqlite::{Connection, OpenFlags};

use super::connection::Location;

/// Shared by the writer, which moves it on, and the thread for checkpoints; it ends with both.
pub(crate) struct WalReaderPin(Mutex<State>);

struct State {
    /// `None` where none could be opened: reads then ask for themselves.
    connection: Option<Connection>,
    /// How many callers want it released.
    released: usize,
    /// Whether it may stay: not from the beginning of a transaction until the writer has nothing to
    /// do. A checkpoint that ends meanwhile would have it stay at the commit before, which no later
    /// reader shares.
    may_stay: bool,
}

impl WalReaderPin {
    /// One that stays at the latest commit.
    pub(crate) fn open(location: Location<'_>) -> WalReaderPin {
        let connection = open(location).ok();
        let reader_pin = WalReaderPin(Mutex::new(State {
            connection,
            released: 0,
            may_stay: true,
        }));
        reader_pin.stay();
        reader_pin
    }

    /// Goes to the latest commit, unless it has not left it. Where that fails it stays nowhere,
    /// which only costs time.
    pub(crate) fn stay(&self) {
        let mut state = self.lock();
        state.may_stay = true;
        state.stay();
    }

    /// Stays nowhere until it is to stay again.
    pub(crate) fn leave(&self) {
        let mut state = self.lock();
        state.may_stay = false;
        state.leave();
    }

    /// Stays nowhere while `work` is done.
    pub(crate) fn without<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut state = self.lock();
        state.released += 1;
        state.leave();
        drop(state);
        let answer = work();
        let mut state = self.lock();
        state.released -= 1;
        state.stay();
        answer
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves the connection in one of two states, both of which are fine.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Each commit lets it leave first, so where it is, is the latest one.
    fn stay(&mut self) {
        if self.may_stay
            && self.released == 0
            && let Some(connection) = &self.connection
            && connection.is_autocommit()
        {
            let _ = stay(connection);
        }
    }

    fn leave(&mut self) {
        let is_open = |connection: &&Connection| !connection.is_autocommit();
        if let Some(connection) = self.connection.as_ref().filter(is_open)
            && leave(connection).is_err()
        {
            // It must not hold what it cannot be made to give up.
            self.connection = None;
        }
    }
}

fn stay(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("BEGIN")?.execute(())?;
    // The snapshot of a transaction begins with its first read.
    let mut read = connection.prepare_cached(emit::stamp())?;
    read.query_row((), |_| Ok(()))
}

fn leave(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("COMMIT")?.execute(()).map(drop)
}

/// Without a wait for locks: it has time until the next commit.
fn open(location: Location<'_>) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    match location.vfs {
        Some(vfs) => Connection::open_with_flags_and_vfs(location.database, flags, vfs),
        None => Connection::open_with_flags(location.database, flags),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_that_ends_inside_a_transaction_leaves_it_free_for_the_next_commit() {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("pinned.db");
        let writer = Connection::open(&database).unwrap();
        let made = "PRAGMA journal_mode = WAL; CREATE TABLE commits (n INTEGER);";
        writer.execute_batch(made).unwrap();
        let location = Location {
            database: &database,
            vfs: None,
        };
        let pin = WalReaderPin::open(location);
        let insert = "INSERT INTO commits VALUES (1)";
        pin.leave();
        writer.execute_batch("BEGIN").unwrap();
        writer.execute(insert, ()).unwrap();
        pin.without(|| ());
        assert!(is_free(&pin), "the transaction is not committed yet");
        writer.execute_batch("COMMIT").unwrap();
        pin.stay();
        assert!(!is_free(&pin));
        pin.without(|| assert!(is_free(&pin)));
        assert!(!is_free(&pin), "no transaction has begun since");
    }

    fn is_free(pin: &WalReaderPin) -> bool {
        pin.lock().connection.as_ref().unwrap().is_autocommit()
    }
}
