//! Connections that reads borrow. One that is given up in the middle of a read is lent again once
//! it is idle, or cancelled and closed.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::Client;

use super::kept_statements::KeptStatements;
use super::primary::PrimarySeen;
use super::reachable::Reachability;
use crate::StoreError;
use crate::postgres::address::DatabaseUrl;
use crate::postgres::checks;
use crate::postgres::connection::{DatabaseConnection, FIRST_ANSWER_MAX, connect};
use crate::postgres::primary::Primary;

/// A connection on which nothing runs any more answers within a few milliseconds.
const IDLE_WITHIN: Duration = Duration::from_millis(50);
/// A server that does not take a cancellation so long is given up.
const CANCELLED_MAX: Duration = Duration::from_secs(5);
/// One that is there takes it within a few milliseconds. One that is not has nothing to do for a
/// connection any more, which counts as lent no longer.
const CANCELLED_SOON: Duration = Duration::from_millis(250);

/// So long fewer connections are lent where a server has no room for another one.
const CROWDED_FOR: Duration = Duration::from_secs(1);

/// So much longer than a read may take, its transaction may wait for the next statement: while what
/// came of the one before is taken in, or tested.
const BESIDE_READ_MS: u64 = 1_000;

/// What is known of the database that all connections go to.
#[derive(Default)]
pub(in crate::postgres) struct DatabaseStanding {
    pub(super) reachability: Reachability,
    pub(super) primary: PrimarySeen,
}

impl DatabaseStanding {
    /// Takes in on which primary the store was taken: no read goes to one before that.
    pub(in crate::postgres) fn stand_at(&self, primary: &Primary) -> Result<(), StoreError> {
        self.primary.note(primary.mark);
        self.primary.admit(primary.clone(), primary.mark)?;
        Ok(())
    }

    /// Forgets which mark was seen: the store was rewound.
    pub(in crate::postgres) fn rewind(&self) {
        self.primary.rewind();
    }
}

/// Connections with the same limit for each statement, which are opened when they are needed.
pub(super) struct Lending {
    handle: Handle,
    standing: Arc<DatabaseStanding>,
    url: DatabaseUrl,
    password_file: Option<PathBuf>,
    /// What their sessions set.
    settings: String,
    idle: Mutex<Vec<ReadConnection>>,
    permits: Arc<Semaphore>,
    /// Connections that are open, those included that are cancelled.
    open: Arc<AtomicUsize>,
    /// Connections that are being opened.
    opening: Arc<AtomicUsize>,
    count_max: usize,
}

/// Why no connection was opened.
struct OpenFault {
    error: StoreError,
    /// Whether the server has no room for another one.
    is_crowded: bool,
}

impl From<StoreError> for OpenFault {
    fn from(error: StoreError) -> OpenFault {
        let is_crowded = false;
        OpenFault { error, is_crowded }
    }
}

/// How many connections there are.
pub(in crate::postgres) struct ConnectionCounts {
    pub(in crate::postgres) open: usize,
    pub(in crate::postgres) busy: usize,
    pub(in crate::postgres) max: usize,
}

/// Counts a connection until it is dropped.
struct CountedOpen(Arc<AtomicUsize>);

impl CountedOpen {
    fn of(open: &Arc<AtomicUsize>) -> CountedOpen {
        open.fetch_add(1, Ordering::Relaxed);
        CountedOpen(Arc::clone(open))
    }
}

impl Drop for CountedOpen {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection for reading, with what was prepared on it.
struct ReadConnection {
    connection: DatabaseConnection,
    statements: KeptStatements,
    /// [`PrimarySeen::promotions`] when it was opened.
    promotions: u64,
    _counted: CountedOpen,
}

/// A connection in use.
pub(super) struct LentConnection {
    /// There until it is dropped.
    used: Option<ReadConnection>,
    permit: Option<OwnedSemaphorePermit>,
    home: Arc<Lending>,
    /// Whether something has begun on it and has not ended.
    is_open: bool,
}

impl Lending {
    /// Opens nothing yet. At most `count` connections; a statement of theirs may run so long, and a
    /// read so long in all, which ends it by itself: the server does so where this process cannot.
    pub(super) fn new(
        (handle, standing): (Handle, Arc<DatabaseStanding>),
        (url, password_file): (&DatabaseUrl, Option<PathBuf>),
        count: usize,
        (statement_ms, read_ms): (u64, u64),
    ) -> Lending {
        // PostgreSQL takes a number of 31 bits, and 0 for none.
        let most = i32::MAX.unsigned_abs().into();
        let statement_ms = statement_ms.clamp(1, most);
        let idle_ms = read_ms.saturating_add(BESIDE_READ_MS).min(most);
        Lending {
            handle,
            standing,
            url: url.clone(),
            password_file,
            // Behind a change of the schema a read waits as long as its statement may take.
            // A plan made for any values serves where the query decides the index
            // (`query::index_choice`); the others say in their transaction that they need one.
            settings: format!(
                "SET statement_timeout = {statement_ms}; SET lock_timeout = 0; \
                 SET idle_in_transaction_session_timeout = {idle_ms}; \
                 SET plan_cache_mode = force_generic_plan; \
                 SET jit = off; SET max_parallel_workers_per_gather = 0; \
                 SET default_transaction_read_only = on"
            ),
            idle: Mutex::default(),
            permits: Arc::new(Semaphore::new(count.max(1))),
            open: Arc::default(),
            opening: Arc::default(),
            count_max: count.max(1),
        }
    }

    /// Waits until there may be one connection more in use: for other reads, not for the database.
    pub(super) async fn turn(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        // It is closed with the store.
        permit.map_err(|_| StoreError::Interrupted)
    }

    /// Lends a connection to whose turn it is, and opens one where all that are open are in use.
    /// `None` where the server has no room for that: there is one after another turn.
    pub(super) async fn lend(
        self: &Arc<Self>,
        permit: OwnedSemaphorePermit,
    ) -> Result<Option<LentConnection>, StoreError> {
        let used = match self.take_idle() {
            Some(idle) => Some(idle),
            None => self.open().await?,
        };
        if used.is_none() {
            self.handle.spawn(async move {
                tokio::time::sleep(CROWDED_FOR).await;
                drop(permit);
            });
            return Ok(None);
        }
        Ok(Some(LentConnection {
            used,
            permit: Some(permit),
            home: Arc::clone(self),
            is_open: false,
        }))
    }

    fn take_idle(&self) -> Option<ReadConnection> {
        let mut idle = self.lock();
        while let Some(found) = idle.pop() {
            if self.is_usable(&found) {
                return Some(found);
            }
        }
        None
    }

    /// Opens a connection; `None` where the server has no room for it beside others of these.
    ///
    /// # Errors
    /// What a try has come to: this one, or the last one where it is too early for another.
    async fn open(&self) -> Result<Option<ReadConnection>, StoreError> {
        let reachability = &self.standing.reachability;
        reachability.may_try(Instant::now())?;
        let counted = CountedOpen::of(&self.opening);
        let opened = self.try_open().await;
        drop(counted);
        let OpenFault { error, is_crowded } = match opened {
            Ok(opened) => {
                reachability.succeeded();
                return Ok(Some(opened));
            }
            Err(fault) => fault,
        };
        let others = [&self.open, &self.opening].map(|count| count.load(Ordering::Relaxed));
        if is_crowded && others.iter().any(|count| *count > 0) {
            return Ok(None);
        }
        if !self.permits.is_closed() {
            reachability.failed(Instant::now(), error.clone());
        }
        Err(error)
    }

    async fn try_open(&self) -> Result<ReadConnection, OpenFault> {
        let opened = self.try_open_on(self.url.clone()).await;
        if !matches!(&opened, Err(fault) if matches!(fault.error, StoreError::DatabaseUnfit(_))) {
            return opened;
        }
        // A primary may have come back in front of the one that has taken its place.
        for alone in self.url.on_each_host() {
            let other = self.try_open_on(alone).await;
            if other.is_ok() {
                return other;
            }
        }
        opened
    }

    async fn try_open_on(&self, url: DatabaseUrl) -> Result<ReadConnection, OpenFault> {
        let seen = self.standing.primary.mark();
        let file = self.password_file.clone();
        let settings = self.settings.clone();
        // Its messages are read and sent on a thread of the runtime, and not here.
        let opened = self.handle.spawn(async move {
            let connection = connect(&url, file.as_deref()).await;
            let connection = connection.map_err(|fault| OpenFault {
                is_crowded: fault.is_crowded(),
                error: checks::not_connected(&url, &fault),
            })?;
            let primary = admission(&connection.client, &settings);
            let primary = tokio::time::timeout(FIRST_ANSWER_MAX, primary).await;
            let silent = |_| StoreError::Unreachable {
                detail: "it does not say how its store stands".to_owned(),
            };
            let primary = primary.map_err(silent)??;
            Ok::<_, OpenFault>((connection, primary))
        });
        // It is given up with the thread for messages alone.
        let opened = opened.await.map_err(|_| StoreError::Interrupted)?;
        let (connection, primary) = opened?;
        Ok(ReadConnection {
            connection,
            statements: KeptStatements::default(),
            promotions: self.standing.primary.admit(primary, seen)?,
            _counted: CountedOpen::of(&self.open),
        })
    }

    fn take_back(&self, used: ReadConnection) {
        if !self.permits.is_closed() && self.is_usable(&used) {
            self.lock().push(used);
        }
    }

    /// Whether it is open, and goes to the latest primary.
    fn is_usable(&self, idle: &ReadConnection) -> bool {
        let is_closed = idle.connection.client.is_closed();
        !is_closed && idle.promotions == self.standing.primary.promotions()
    }

    /// How many there are; what the server has closed meanwhile is not.
    pub(super) fn counts(&self) -> ConnectionCounts {
        let mut idle = self.lock();
        idle.retain(|one| self.is_usable(one));
        let open = self.open.load(Ordering::Relaxed);
        ConnectionCounts {
            open,
            busy: open.saturating_sub(idle.len()),
            max: self.count_max,
        }
    }

    /// Closes what is idle.
    pub(super) fn forget_idle(&self) {
        self.lock().clear();
    }

    /// Lends nothing any more, and closes what is idle.
    pub(super) fn close(&self) {
        self.permits.close();
        self.forget_idle();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ReadConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How the primary stands that a session is on, which then has its settings: what is asked here is
/// no short read.
async fn admission(client: &Client, settings: &str) -> Result<Primary, StoreError> {
    let primary = Primary::of(client).await?;
    client.batch_execute(settings).await?;
    Ok(primary)
}

impl ReadConnection {
    /// Whether nothing runs on it any more, so that it can be lent again.
    async fn is_idle(&self) -> bool {
        let rollback = self.connection.client.batch_execute("ROLLBACK");
        let idle = tokio::time::timeout(IDLE_WITHIN, rollback).await;
        matches!(idle, Ok(Ok(())))
    }

    /// Ends whatever runs. It is not lent again: the driver does not wait until a cancellation has
    /// arrived, and one that comes late would end the next read.
    async fn cancel(self) {
        let cancel = self.connection.client.cancel_token();
        let cancelled = cancel.cancel_query(self.connection.connector.clone());
        // Where it cannot be cancelled, it ends by its own limit.
        drop(tokio::time::timeout(CANCELLED_MAX, cancelled).await);
    }
}

/// Holds a permit until the end, and no longer than this.
async fn hold_until(
    end: impl Future<Output = ()>,
    held_max: Duration,
    permit: Option<OwnedSemaphorePermit>,
) {
    let mut end = pin!(end);
    if tokio::time::timeout(held_max, end.as_mut()).await.is_err() {
        drop(permit);
        end.await;
    }
}

impl LentConnection {
    fn used(&mut self) -> &mut ReadConnection {
        self.used.as_mut().expect("it is there until the drop")
    }

    pub(super) fn client(&mut self) -> &mut Client {
        &mut self.used().connection.client
    }

    /// The connection, and what was prepared on it.
    pub(super) fn parts(&mut self) -> (&Client, &mut KeptStatements) {
        let used = self.used();
        (&used.connection.client, &mut used.statements)
    }

    /// Says that something begins which, given up, must be cancelled.
    pub(super) fn begin(&mut self) {
        self.is_open = true;
    }

    /// Lets go of a connection that has not answered within the limit of a read: it is lent again
    /// if it answers yet. Those that are idle go the same way through the network. They are closed,
    /// so that no further read waits for one of them.
    pub(super) fn give_up(mut self) {
        self.begin();
        self.home.forget_idle();
    }

    /// Says that it has ended.
    pub(super) fn end(&mut self) {
        self.is_open = false;
    }
}

impl Drop for LentConnection {
    fn drop(&mut self) {
        let Some(used) = self.used.take() else { return };
        if !self.is_open {
            return self.home.take_back(used);
        }
        let (home, permit) = (Arc::clone(&self.home), self.permit.take());
        self.home.handle.spawn(async move {
            if used.is_idle().await {
                home.take_back(used);
            } else {
                hold_until(used.cancel(), CANCELLED_SOON, permit).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_channel::oneshot;

    use super::*;

    #[test]
    fn a_cancellation_that_no_server_takes_holds_up_no_other_read() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().unwrap();
        runtime.block_on(async {
            let permits = Arc::new(Semaphore::new(1));
            let permit = Arc::clone(&permits).acquire_owned().await.unwrap();
            let (taken, is_taken) = oneshot::channel::<()>();
            let end = async move { is_taken.await.unwrap() };
            let held_max = Duration::from_millis(1);
            let held = tokio::spawn(hold_until(end, held_max, Some(permit)));
            drop(permits.acquire().await.unwrap());
            assert!(!held.is_finished(), "it goes on beside that");
            taken.send(()).unwrap();
            held.await.unwrap();
        });
    }
}
