//! Carries the log over into the database file, on a thread of its own.
//!
//! Commits append to the log; readers look through it; only this thread checkpoints, so
//! that no commit pays for it. A passive checkpoint takes no lock that a commit or a reader
//! waits for. When it has carried everything over and no reader needs the log, the next commit
//! starts the log from its beginning, and its file grows no further. Under writes without a
//! pause that moment may never come; then, past a second limit, the log is made to start again,
//! for which commits are held up: for the few pages that the passive checkpoint before it left
//! over and a sync, and for at most [`READERS_PATIENCE`] until readers have left the log.
//!
//! The file keeps its size then, because writing over what is there is cheaper than growing:
//! commits of eight rows took 1.2 instead of 2.3 ms with it, and of one row 0.5 instead of 1.0.
//!
//! After an erasure it does not: what was erased still stands in the log, so the log is carried
//! over and cut to nothing as soon as no reader looks through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;

use super::connection::{self, Location};
use super::wal_reader_pin::WalReaderPin;
use crate::StoreError;

/// So many bytes of log not carried over yet start a checkpoint (SQLite's own default of 1,000
/// pages, in the same order of size).
const PASSIVE_BYTES: u64 = 4 << 20;
/// So many bytes of log in all have it start again.
const RESTART_BYTES: u64 = 16 << 20;
/// How long a restart waits for readers, or for a writer: pauses of 0.5 ms.
const READERS_PATIENCE: i32 = 40;
/// After so long it is tried again to cut the log to nothing, where a reader stood in the way.
const CUT_AGAIN: Duration = Duration::from_secs(1);

/// What the writer knows of the log, and whom it tells.
pub(crate) struct Backlog {
    log: Arc<Log>,
    reader_pin: Arc<WalReaderPin>,
    sender: SyncSender<()>,
}

/// The log's size, as counted by the commits, and how much of it was carried over.
struct Log {
    page_bytes: u64,
    pages: AtomicU64,
    carried_pages: AtomicU64,
    /// Whether something stands in it that was erased.
    is_to_be_cut: AtomicBool,
}

/// The thread. It ends when the writer, with its [`Backlog`], is dropped.
pub(crate) struct Checkpointer {
    thread: JoinHandle<()>,
    log: Arc<Log>,
}

impl Backlog {
    /// Called before each transaction: no reader stays in the log while it is written. After an
    /// error SQLite may need all of it, and a reader that never leaves would be waited for in vain.
    pub(crate) fn clear(&self) {
        self.reader_pin.leave();
    }

    /// Called when no transaction is at hand.
    pub(crate) fn rest(&self) {
        self.reader_pin.stay();
    }

    /// Called after each commit: wakes the thread if enough has gathered. Never waits.
    pub(crate) fn report(&self) {
        let pages = self.log.pages.load(Ordering::Relaxed);
        let carried = self.log.carried_pages.load(Ordering::Relaxed);
        if pages.saturating_sub(carried) * self.log.page_bytes < PASSIVE_BYTES {
            return;
        }
        self.wake();
    }

    /// Called after each commit that erased something, before [`Backlog::report`].
    pub(crate) fn report_erased(&self) {
        self.log.is_to_be_cut.store(true, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        match self.sender.try_send(()) {
            // Full: the thread is about to look anyway. Disconnected: it could not go on; the
            // log then grows until the next start, and nothing is lost.
            Ok(()) | Err(TrySendError::Full(()) | TrySendError::Disconnected(())) => {}
        }
    }
}

/// Starts the thread, and has `writer` count the pages of the log. `is_left`: whether a process
/// left its log behind, in which something may stand that it had erased.
pub(crate) fn start(
    writer: &mut Connection,
    location: Location<'_>,
    is_left: bool,
) -> Result<(Backlog, Checkpointer), StoreError> {
    let page_bytes: i64 = writer.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let log = Arc::new(Log {
        page_bytes: page_bytes.unsigned_abs(),
        pages: AtomicU64::new(0),
        carried_pages: AtomicU64::new(0),
        is_to_be_cut: AtomicBool::new(is_left),
    });
    let counted = Arc::clone(&log);
    writer.wal_hook(Some(move |_: &mut _, pages: i32| {
        let pages = u64::from(pages.unsigned_abs());
        if pages < counted.pages.swap(pages, Ordering::Relaxed) {
            // The log has started from its beginning.
            counted.carried_pages.store(0, Ordering::Relaxed);
        }
        Ok(())
    }))?;
    let mut own = connection::open(location)?;
    own.busy_handler(Some(has_patience))?;
    // A connection that has read nothing does not know of the log, and its checkpoints do nothing
    // (`sqlite3PagerCheckpoint`).
    own.query_row("SELECT count(*) FROM sqlite_schema", (), |_| Ok(()))?;
    let reader_pin = Arc::new(WalReaderPin::open(location));
    let (sender, receiver) = sync_channel(1);
    let (seen, kept) = (Arc::clone(&log), Arc::clone(&reader_pin));
    let thread = thread::Builder::new()
        .name("checkpoint".to_owned())
        .spawn(move || run(&own, (&seen, &kept), &receiver))
        .map_err(|error| StoreError::Io {
            detail: format!("no thread for checkpoints: {error}"),
        })?;
    let checkpointer = Checkpointer {
        thread,
        log: Arc::clone(&log),
    };
    let backlog = Backlog {
        log,
        reader_pin,
        sender,
    };
    Ok((backlog, checkpointer))
}

/// Whether a process has left its log behind; one that ends in order leaves none. To be asked
/// before the database is opened.
pub(crate) fn is_log_left(location: Location<'_>) -> bool {
    let mut log = location.database.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|file| file.len() > 0)
}

impl Checkpointer {
    /// Bytes of log that are not carried over yet, as counted by the commits.
    pub(crate) fn backlog_bytes(&self) -> u64 {
        let carried = self.log.carried_pages.load(Ordering::Relaxed);
        let pages = self.log.pages.load(Ordering::Relaxed);
        pages.saturating_sub(carried) * self.log.page_bytes
    }

    /// Waits until the thread has ended. The writer must have been dropped before.
    pub(crate) fn join(self) {
        // A panic over there was reported there; the log is whole whatever became of it.
        let _ = self.thread.join();
    }
}

fn has_patience(asked_before: i32) -> bool {
    thread::sleep(Duration::from_micros(500));
    asked_before < READERS_PATIENCE
}

fn run(connection: &Connection, (log, reader_pin): (&Log, &WalReaderPin), receiver: &Receiver<()>) {
    loop {
        let is_told = if log.is_to_be_cut.load(Ordering::Acquire) {
            receiver.recv_timeout(CUT_AGAIN)
        } else {
            receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        if is_told == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        // A failed checkpoint loses nothing: what it would have carried over is in the log, and
        // the next report tries again.
        let _ = reader_pin.without(|| {
            carry_over(connection, log)?;
            cut(connection, log)
        });
    }
}

/// Cuts the log to nothing if something in it was erased. Where a reader needs it, later.
fn cut(connection: &Connection, log: &Log) -> rusqlite::Result<()> {
    if !log.is_to_be_cut.swap(false, Ordering::AcqRel) {
        return Ok(());
    }
    let pages = log.pages.load(Ordering::Relaxed);
    let is_cut = checkpoint(connection, log, CheckpointMode::TRUNCATE);
    if is_cut.is_err() {
        log.is_to_be_cut.store(true, Ordering::Release);
    } else {
        // Unless a commit has counted it since.
        let (at, with) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = log.pages.compare_exchange(pages, 0, at, with);
    }
    is_cut.map(drop)
}

fn carry_over(connection: &Connection, log: &Log) -> rusqlite::Result<()> {
    let (pages, carried) = checkpoint(connection, log, CheckpointMode::PASSIVE)?;
    let left_bytes = (pages - carried) * log.page_bytes;
    // With much left over a reader holds the log; a restart would wait for it in vain.
    if pages * log.page_bytes > RESTART_BYTES && left_bytes < PASSIVE_BYTES {
        checkpoint(connection, log, CheckpointMode::RESTART)?;
    }
    Ok(())
}

/// Carries over what it can. The pages that stood in the log, and how many of them are over.
fn checkpoint(
    connection: &Connection,
    log: &Log,
    mode: CheckpointMode,
) -> rusqlite::Result<(u64, u64)> {
    let (pages, carried) = connection.wal_checkpoint_v2(None::<&str>, mode)?;
    let count = |pages: i32| u64::from(pages.max(0).unsigned_abs());
    log.carried_pages.store(count(carried), Ordering::Relaxed);
    Ok((count(pages), count(carried)))
}
