//! Reads: short ones on connections with a short limit for each statement, and those that turn out
//! long, begun again, on others with the limit of a read.
//!
//! A short read runs wherever its caller polls it; its messages are sent and taken in by a thread
//! of the store. A long one has a thread for long reads to itself, as with a data directory, so
//! that the same bounds hold for what runs and what waits. A caller that goes cancels its read.

use std::future::{Future, ready};
use std::io;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use model::{Mark, Row, Table, TableNumber, Timestamp};
use query::{Dialect, Query};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::Sleep;

use crate::history_line;
use crate::list_read::OwnedListing;
use crate::read_threads::{self, Pool, WAIT_MAX};
use crate::slow_shapes::SlowShapes;
use crate::stored::boundaries::BoundaryRead;
use crate::stored::read::StoredRead;
use crate::stored::{constraints, names_then};
use crate::vault::StoreKeys;
use crate::{
    BoundaryOf, EncodeRow, Listed, Listing, Loaded, OffloadKind, Options, Point, Recorded,
    RecordsOf, Snapshot, StoreConstraints, StoreError, StoreFuture, StorePlace, StoreReads,
    TableConstraints, Work,
};

mod boundary;
mod explain;
mod found_row;
mod functions_of;
mod kept_statements;
mod lending;
mod list;
pub(super) mod narrowed;
mod page;
mod point;
pub(super) mod preview;
mod primary;
mod reachable;
mod read_halt;
mod records;
mod snapshot;
mod staged;
mod stored_reads;
mod tested;
#[cfg(test)]
mod tests;
mod whole;

use explain::PlanOf;
pub(super) use lending::{ConnectionCounts, DatabaseStanding};
use lending::{Lending, LentConnection};
use point::OwnedPoint;
use read_halt::{ReadHalt, Step};
use whole::WholeStore;

/// Connections for short reads: each serves some thousand points a second, and a server has room
/// for a hundred connections unless it is set otherwise.
const SHORT_CONNECTIONS_MAX: usize = 32;
/// Least time of a statement on one of them: shorter ones are cut off by a busy machine, too.
const SHORT_MS_MIN: u64 = 20;
/// How often a long read looks whether its caller is still there.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The reads of a store in a database. It needs no right to write, and takes no lock: the owner of
/// the store may write meanwhile.
pub struct DatabaseReads {
    shared: Arc<SharedReads>,
    pool: Pool,
    messages: Mutex<Option<MessageThread>>,
}

/// The thread that moves the messages of all connections, and what ends it.
struct MessageThread {
    thread: JoinHandle<()>,
    end: oneshot::Sender<()>,
}

/// What all reads have in common.
struct SharedReads {
    handle: Handle,
    short_ones: Arc<Lending>,
    long_ones: Arc<Lending>,
    standing: Arc<DatabaseStanding>,
    encode_row: EncodeRow,
    keys: StoreKeys,
    /// Longest time of a short read.
    short: Duration,
    limit_ms: u64,
    slow: SlowShapes,
}

/// How long a read may take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadPace {
    /// Each statement as long as its connection lets it.
    Short,
    /// All of it until then.
    Long { until: Instant },
}

type ReadFuture<'a, T> = Pin<Box<dyn Future<Output = Step<T>> + Send + 'a>>;

/// A read that can be begun again elsewhere.
trait DatabaseRead: Send + Sync + 'static {
    type Answer: Send + 'static;

    /// Whether it is worth a try on a connection for short reads.
    fn may_be_short(&self) -> bool;

    /// The mark of the snapshot that an answer is of, if it says so.
    fn mark_of(_: &Self::Answer) -> Option<Mark> {
        None
    }

    fn read<'a>(
        &'a self,
        shared: &'a SharedReads,
        lent: &'a mut LentConnection,
        pace: ReadPace,
    ) -> ReadFuture<'a, Self::Answer>;
}

impl DatabaseReads {
    /// Opens no connection yet: the first read does. A password that the URL lacks is looked for in
    /// the file; the files of keys are in the directory `keys`, if any are. Of the options a
    /// database has no use for `durability`, `reader_cache_bytes` and `vfs`.
    ///
    /// # Errors
    /// [`StoreError::PlaceUnfit`] when the place is a directory; [`StoreError::Io`] when no thread
    /// can be started.
    pub fn open(
        options: &Options,
        password_file: Option<&Path>,
        keys: &Path,
    ) -> Result<DatabaseReads, StoreError> {
        let StorePlace::Database(url) = &options.place else {
            let place = options.place.clone();
            return Err(StoreError::PlaceUnfit { place });
        };
        let (messages, handle) = MessageThread::start().map_err(|error| StoreError::Io {
            detail: error.to_string(),
        })?;
        let limits = options.long_reads;
        let short_ms = (limits.after_us / 1_000)
            .max(SHORT_MS_MIN)
            .min(options.read_limit_ms);
        let standing = Arc::<DatabaseStanding>::default();
        let lending = |count, statement_ms| {
            let place = (&**url, password_file.map(Path::to_owned));
            let common = (handle.clone(), Arc::clone(&standing));
            let limits = (statement_ms, options.read_limit_ms);
            Arc::new(Lending::new(common, place, count, limits))
        };
        Ok(DatabaseReads {
            shared: Arc::new(SharedReads {
                short_ones: lending(SHORT_CONNECTIONS_MAX, short_ms),
                long_ones: lending(limits.threads, options.read_limit_ms),
                standing: Arc::clone(&standing),
                handle,
                encode_row: options.encode_row,
                keys: StoreKeys::of(keys),
                short: Duration::from_millis(short_ms),
                limit_ms: options.read_limit_ms,
                slow: SlowShapes::new(),
            }),
            pool: Pool::new(limits),
            messages: Mutex::new(Some(messages)),
        })
    }

    /// Since when the database cannot be reached, if so, and what the last try came to. It is tried
    /// again when something is to be read, twice a second at least.
    pub fn outage(&self) -> Option<(Duration, StoreError)> {
        let (since, error) = self.shared.standing.reachability.outage()?;
        Some((since.elapsed(), error))
    }

    /// How often another primary was met since the start that was promoted. What is cached of reads
    /// from the one before may hold what that one lost.
    pub fn promotions(&self) -> u64 {
        self.shared.standing.primary.promotions()
    }

    /// Ends what runs, and closes all connections. No read succeeds afterwards.
    pub fn close(&self) {
        self.shared.short_ones.close();
        self.shared.long_ones.close();
        self.pool.close();
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(MessageThread { thread, end }) = messages.take() {
            // An error means that the thread has ended already.
            let _ = end.send(());
            drop(thread.join());
        }
    }

    /// Runs what is spawned on it until the reads are closed.
    pub(super) fn handle(&self) -> Handle {
        self.shared.handle.clone()
    }

    /// What they have seen of the database.
    pub(super) fn standing(&self) -> Arc<DatabaseStanding> {
        Arc::clone(&self.shared.standing)
    }

    /// The connections for reads.
    pub(super) fn connections(&self) -> ConnectionCounts {
        let short = self.shared.short_ones.counts();
        let long = self.shared.long_ones.counts();
        ConnectionCounts {
            open: short.open + long.open,
            busy: short.busy + long.busy,
            max: short.max + long.max,
        }
    }

    /// The keys of the store, of which the writer has the same.
    pub(super) fn keys(&self) -> StoreKeys {
        self.shared.keys.clone()
    }

    /// Runs beside reads what is no read. Dropped, it is called off.
    pub(super) fn aside<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> StoreFuture<'static, T> {
        let mut running = JoinSet::new();
        running.spawn_on(work, &self.shared.handle);
        Box::pin(async move {
            match running.join_next().await {
                Some(Ok(done)) => done,
                Some(Err(_)) | None => Err(StoreError::Interrupted),
            }
        })
    }

    /// All containers, and the marks to go on from, as of the latest commit.
    pub(super) fn load(&self) -> StoreFuture<'_, Loaded> {
        self.run(WholeStore, false)
    }

    fn run<R: DatabaseRead>(&self, read: R, of_guest: bool) -> StoreFuture<'_, R::Answer> {
        // A thread for long reads that waited for another one could wait for ever.
        if let Some(stop) = read_threads::stop_of_this() {
            return Box::pin(ready(self.shared.long(&read, &stop)));
        }
        Box::pin(async move {
            if read.may_be_short() {
                match self.shared.short(&read).await {
                    Err(ReadHalt::Long) => {}
                    answer => return answer.map_err(|halt| halt.explain(self.shared.limit_ms)),
                }
            }
            self.apart(read, of_guest)?.await
        })
    }

    /// What the first row of a statement is, if there is one.
    fn first<T: Send + 'static>(&self, read: StoredRead<T>) -> StoreFuture<'_, Option<T>> {
        Box::pin(async move { Ok(self.run(read, false).await?.into_iter().next()) })
    }

    /// Reads on a thread for long reads.
    fn apart<R: DatabaseRead>(
        &self,
        read: R,
        of_guest: bool,
    ) -> Result<StoreFuture<'static, R::Answer>, StoreError> {
        let (shared, start) = (Arc::clone(&self.shared), Instant::now());
        let waiting_max = self.pool.waiting_max(of_guest);
        let read = move |stop: Arc<AtomicBool>| {
            if start.elapsed() >= WAIT_MAX {
                return Err(StoreError::ReadersBusy { waiting_max });
            }
            shared.long(&read, &stop)
        };
        let waiting = self.pool.run(OffloadKind::Read, of_guest, read)?;
        Ok(Box::pin(waiting))
    }
}

impl MessageThread {
    fn start() -> io::Result<(MessageThread, Handle)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let thread = Builder::new().name("database".to_owned());
        let thread = thread.spawn(move || {
            // It ends with its sender, too.
            let _ = runtime.block_on(ended);
        })?;
        Ok((MessageThread { thread, end }, handle))
    }
}

impl Drop for DatabaseReads {
    fn drop(&mut self) {
        self.close();
    }
}

impl SharedReads {
    /// Reads where this is polled. The limit of a read bounds all of it: a statement has a limit on
    /// the server, whose answer may not arrive.
    async fn short<R: DatabaseRead>(&self, read: &R) -> Step<R::Answer> {
        let mut limit = pin!(self.sleep(Duration::from_millis(self.limit_ms)));
        match self.short_once(read, limit.as_mut()).await {
            // The server was restarted while a connection was idle: it may be back already.
            Err(halt) if halt.is_of_connection() => {
                self.short_ones.forget_idle();
                self.short_once(read, limit).await
            }
            answer => answer,
        }
    }

    async fn short_once<R: DatabaseRead>(
        &self,
        read: &R,
        mut limit: Pin<&mut Sleep>,
    ) -> Step<R::Answer> {
        let mut lent = loop {
            let turn = tokio::select! {
                biased;
                turn = self.short_ones.turn() => turn?,
                // The database was asked for nothing yet.
                () = &mut limit => return Err(self.over().into()),
            };
            let lent = tokio::select! {
                biased;
                lent = self.short_ones.lend(turn) => lent?,
                () = &mut limit => return Err(self.silent()),
            };
            if let Some(lent) = lent {
                break lent;
            }
        };
        let answer = tokio::select! {
            biased;
            answer = read.read(self, &mut lent, ReadPace::Short) => Some(answer),
            () = &mut limit => None,
        };
        let Some(answer) = answer else {
            lent.give_up();
            return Err(self.silent());
        };
        self.take_note::<R>(&mut lent, &answer);
        answer.map_err(|halt| {
            if halt.is_interruption() || halt.is_of_aborted() {
                ReadHalt::Long
            } else {
                halt
            }
        })
    }

    /// The read has taken as long as it may.
    fn over(&self) -> StoreError {
        StoreError::Timeout {
            limit_ms: self.limit_ms,
        }
    }

    /// The database has not answered for as long as a read may take.
    fn silent(&self) -> ReadHalt {
        let error = self.over();
        let reachability = &self.standing.reachability;
        reachability.was_silent(Instant::now(), error.clone());
        error.into()
    }

    /// Waits by the clock of the thread for messages, wherever it is polled.
    fn sleep(&self, duration: Duration) -> Sleep {
        let _entered = self.handle.enter();
        tokio::time::sleep(duration)
    }

    /// Statements that were prepared under another schema are prepared again. No primary may follow
    /// that holds less than was seen.
    fn take_note<R: DatabaseRead>(&self, lent: &mut LentConnection, answer: &Step<R::Answer>) {
        match answer {
            Ok(answer) => {
                self.standing.reachability.answered();
                if let Some(mark) = R::mark_of(answer) {
                    self.standing.primary.note(mark);
                }
            }
            Err(halt) if halt.is_of_schema() => lent.parts().1.clear(),
            Err(_) => {}
        }
    }

    /// Reads on this thread, which waits. The limit counts from when there is a connection: one
    /// that was cancelled may have to be replaced first.
    fn long<R: DatabaseRead>(&self, read: &R, stop: &AtomicBool) -> Result<R::Answer, StoreError> {
        let reading = async {
            match self.long_once(read).await {
                // As of a short one.
                Err(halt) if halt.is_of_connection() => {
                    self.long_ones.forget_idle();
                    self.long_once(read).await
                }
                Err(halt) if halt.is_of_aborted() => self.long_once(read).await,
                answer => answer,
            }
        };
        self.handle.block_on(async {
            tokio::select! {
                answer = reading => answer.map_err(|halt| halt.explain(self.limit_ms)),
                () = raised(stop) => Err(StoreError::Interrupted),
            }
        })
    }

    async fn long_once<R: DatabaseRead>(&self, read: &R) -> Step<R::Answer> {
        let mut lent = loop {
            let turn = self.long_ones.turn().await?;
            if let Some(lent) = self.long_ones.lend(turn).await? {
                break lent;
            }
        };
        let limit = Duration::from_millis(self.limit_ms);
        let until = Instant::now() + limit;
        let answer = read.read(self, &mut lent, ReadPace::Long { until });
        let Ok(answer) = tokio::time::timeout(limit, answer).await else {
            lent.begin();
            return Err(self.over().into());
        };
        self.take_note::<R>(&mut lent, &answer);
        answer
    }
}

/// Waits until the flag is raised: no caller waits any more, or the store is closed.
async fn raised(stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

impl StoreReads for DatabaseReads {
    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Snapshot<Listed>> {
        self.run(OwnedListing::new(listing), listing.of_guest)
    }

    fn get<'a>(&'a self, point: Point<'a>) -> StoreFuture<'a, Snapshot<Option<Row>>> {
        self.run(OwnedPoint::new(point), false)
    }

    fn table_as_of<'a>(&'a self, today: &'a Arc<Table>, mark: Mark) -> StoreFuture<'a, Arc<Table>> {
        // No transaction is needed: what was so at a settled mark no commit changes.
        Box::pin(async move {
            let then = self.first(names_then::table_then(today.number, mark));
            let Some(mut then) = then.await? else {
                return Ok(Arc::clone(today));
            };
            let columns = names_then::columns_then(today.number, mark);
            then.columns = self.run(columns, false).await?;
            Ok(history_line::table_then(today, then))
        })
    }

    fn next_boundary<'a>(&'a self, request: BoundaryOf<'a>) -> StoreFuture<'a, Option<Timestamp>> {
        self.run(BoundaryRead::new(request), false)
    }

    fn recorded(&self, request: RecordsOf) -> StoreFuture<'_, Vec<Recorded>> {
        self.run(request, false)
    }

    fn last_erasure<'a>(&'a self, tables: &'a [TableNumber]) -> StoreFuture<'a, Option<Mark>> {
        let read = constraints::last_erasure(Dialect::Postgres, tables);
        Box::pin(async move { Ok(self.first(read).await?.flatten()) })
    }

    fn explain<'a>(&'a self, query: &'a Query) -> StoreFuture<'a, Vec<String>> {
        // From where in the order the rows come changes nothing about how they are found.
        let query = Query {
            cursor: None,
            ..query.clone()
        };
        self.run(PlanOf(query), false)
    }

    fn offload(&self, kind: OffloadKind, of_guest: bool, work: Work) -> StoreFuture<'static, ()> {
        match self.pool.offload(kind, of_guest, work) {
            Ok(waiting) => waiting,
            Err(error) => Box::pin(ready(Err(error))),
        }
    }
}

impl StoreConstraints for DatabaseReads {
    fn constraints(&self, table: TableNumber) -> StoreFuture<'_, TableConstraints> {
        Box::pin(async move {
            let found = self.run(constraints::of_table(table), false).await?;
            Ok(constraints::together(found))
        })
    }

    fn referring(&self, table: TableNumber) -> StoreFuture<'_, Vec<TableNumber>> {
        self.run(constraints::referring(table), false)
    }
}
