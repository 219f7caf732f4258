//! The connection that writes. The laws are synchronous, so each call waits for its answer here;
//! what can go out together does, in one burst.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use model::{Mark, TableNumber};
use tokio::runtime::Runtime;
use tokio_postgres::error::{DbError, Severity, SqlState};
use tokio_postgres::{Client, Error, Row, Statement};

use super::group_stamp::GroupStamp;
use crate::StoreError;
use crate::error::corrupt;
use crate::postgres::cells::{SqlParameter, borrowed};
use crate::postgres::connection::DatabaseNotices;

/// What the session sets next to what all do. A warning says that a commit is not on the standby
/// yet, so a role must not hide it. Batch statements are prepared, and each has one plan
/// that is good for all values: planning them for each only costs (nodes-postgres.md, section 2).
/// A cursor, of a preview, is planned as a list outside of it: for all rows.
///
/// While the laws run on a group in memory its transaction is idle: for a second of a core, if it
/// has 10,000 rows, which was over ten on a machine with a load of 50; and so it is while rows are
/// tested that a search has found. No other process waits for it, as the store has one owner, and
/// none writes what it would keep from being vacuumed; the limit is for a process that is stopped,
/// whose transaction would stay open for ever.
const BATCH_SESSION: &str = "SET client_min_messages = warning; \
                             SET plan_cache_mode = force_generic_plan; SET jit = off; \
                             SET cursor_tuple_fraction = 1; \
                             SET idle_in_transaction_session_timeout = '2min'; \
                             SET max_parallel_workers_per_gather = 0";
/// So long a commit is waited for. Where every synchronous standby is gone the server waits for one
/// without an end, and no setting of a session ends that. A group brings 8 MiB at most, so that a
/// slow disk under load takes less; and who gives one up too soon loses no more than the session,
/// since the next one finds how it ended.
pub(in crate::postgres) const COMMIT_MAX: Duration = Duration::from_secs(30);
/// So long any other request is waited for. The system of a server whose processes hang answers for
/// them for ever, while a standby may have taken its place.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The same of what goes through whole tables, or loads all that is known of them.
pub(super) const LONG_ANSWER_MAX: Duration = Duration::from_mins(10);
/// Most statements that stay prepared. Each table has about twenty.
const PREPARED_MAX: usize = 2_000;
/// So long a change of tables waits for those who use them, before others may write again.
const TABLES_WAIT_MS: u64 = 100;
/// The same of a further change in a transaction in which one has waited in vain.
const FURTHER_WAIT_MS: u64 = 1;
/// Rows of a search that are fetched at once: some of them may hold a megabyte.
const FETCHED_ROWS: usize = 64;
/// Locks the row that stamps snapshots: whatever else writes waits, and shows what it left. The
/// name is for the group that begins.
const LOCK: &str = "SELECT mark, groups, last_group, gen_random_uuid()::text FROM meta FOR UPDATE";

/// A statement with what it is given.
pub(crate) struct SqlCall {
    sql: String,
    parameters: Vec<SqlParameter>,
}

impl SqlCall {
    pub(super) fn new(sql: impl Into<String>, parameters: Vec<SqlParameter>) -> SqlCall {
        SqlCall {
            sql: sql.into(),
            parameters,
        }
    }

    /// Without parameters.
    pub(super) fn plain(sql: impl Into<String>) -> SqlCall {
        SqlCall::new(sql, Vec::new())
    }

    /// A statement that changes as many rows as it is to. Changing others, or fewer, is an error
    /// of the statement itself (a division by zero), so that no commit of it can follow.
    pub(super) fn checked(sql: &str, mut parameters: Vec<SqlParameter>, count: usize) -> SqlCall {
        parameters.push(Box::new(count as i64));
        let number = parameters.len();
        SqlCall::new(
            format!(
                "WITH done AS ({sql} RETURNING 1) \
                 SELECT 1 / (count(*) = ${number}::bigint)::int FROM done"
            ),
            parameters,
        )
    }
}

/// Whether a statement failed, so that the commit behind it came to nothing. What ends the
/// connection may come behind a commit that was done.
fn is_of_statement(error: &Error) -> bool {
    let severity = error.as_db_error().and_then(DbError::parsed_severity);
    severity == Some(Severity::Error)
}

/// How a burst that ends with a commit ended.
pub(super) enum BurstEnd {
    Done,
    /// Nothing of the transaction stays.
    Nothing(StoreError),
    /// The connection, or the time for the answer, ended before that came.
    Unknown(StoreError),
}

/// How a transaction begins.
struct TransactionStart {
    /// Where the store is to stand.
    mark: i64,
    group: GroupStamp,
    calls: Vec<SqlCall>,
}

/// How long a session waits for an answer before it is given up.
#[derive(Clone, Copy)]
pub(in crate::postgres) struct LongestWaits {
    /// Of a commit.
    pub(in crate::postgres) commit: Duration,
    /// Of anything else.
    pub(in crate::postgres) other: Duration,
}

impl Default for LongestWaits {
    fn default() -> LongestWaits {
        LongestWaits {
            commit: COMMIT_MAX,
            other: ANSWER_MAX,
        }
    }
}

/// The connection that writes.
pub(crate) struct WriterSession {
    runtime: Runtime,
    client: Client,
    notices: DatabaseNotices,
    statements: RefCell<HashMap<Box<str>, Statement>>,
    /// The next burst begins a transaction.
    opening: RefCell<Option<TransactionStart>>,
    /// What the last one that did has read for its opening.
    opened: RefCell<Vec<Vec<Row>>>,
    /// Whether a transaction is open, or may be.
    is_open: Cell<bool>,
    /// Whether a statement of it has failed, so that it takes no more.
    has_failed: Cell<bool>,
    /// Whether a change of tables was given up, because others used them.
    are_tables_busy: Cell<bool>,
    /// Which tables those were.
    busy_tables: RefCell<BTreeSet<TableNumber>>,
    /// Whether one was in this transaction.
    has_waited: Cell<bool>,
    /// Whether the session has ended.
    has_ended: Cell<bool>,
    /// Why it is of no more use, though it may not have ended.
    given_up: RefCell<Option<StoreError>>,
    waits: Cell<LongestWaits>,
    /// The name of the group that began last.
    group_name: RefCell<String>,
    round_trips: Cell<u64>,
}

impl WriterSession {
    pub(crate) fn new(runtime: Runtime, client: Client, notices: DatabaseNotices) -> WriterSession {
        WriterSession {
            runtime,
            client,
            notices,
            statements: RefCell::default(),
            opening: RefCell::default(),
            opened: RefCell::default(),
            is_open: Cell::new(false),
            has_failed: Cell::new(false),
            are_tables_busy: Cell::new(false),
            busy_tables: RefCell::default(),
            has_waited: Cell::new(false),
            has_ended: Cell::new(false),
            given_up: RefCell::default(),
            waits: Cell::default(),
            group_name: RefCell::default(),
            round_trips: Cell::new(0),
        }
    }

    /// Sets what such a session sets.
    pub(super) async fn prepare(client: &Client) -> Result<(), StoreError> {
        Ok(client.batch_execute(BATCH_SESSION).await?)
    }

    /// The next burst begins a transaction, and runs these statements first; it fails unless this
    /// group was the last one, and left this mark.
    pub(super) fn begin_after(&self, group: GroupStamp, mark: Mark, calls: Vec<SqlCall>) {
        self.opening.replace(Some(TransactionStart {
            mark: mark.0,
            group,
            calls,
        }));
    }

    /// What these statements gave.
    pub(super) fn take_opened(&self) -> Vec<Vec<Row>> {
        self.opened.take()
    }

    /// Runs one statement.
    pub(super) fn call(&self, call: SqlCall) -> Result<Vec<Row>, StoreError> {
        let found = self.burst(&[call])?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// Runs one statement, unless a unique index is against it: whether none was.
    pub(super) fn call_if_free(&self, call: SqlCall) -> Result<bool, StoreError> {
        let statements = self.prepared(&[&call])?;
        self.simple("SAVEPOINT free")?;
        match self.run(&statements, &[&call])? {
            Burst::Answered(_) => self.simple("RELEASE free").map(|()| true),
            Burst::Failed(error, _) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {
                self.take_back("free")?;
                Ok(false)
            }
            Burst::Failed(error, _) => Err(self.notices.explain(error)),
        }
    }

    /// Changes what stands for this table. It waits but shortly for those who use it, as all that
    /// write wait behind it; then [`WriterSession::take_tables_busy`] says so, and nothing of the
    /// change stays.
    pub(super) fn reshape(&self, of: TableNumber, sql: &str) -> Result<(), StoreError> {
        match self.change_tables(of, sql)? {
            Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The same, unless what is unique is against it: whether it was not.
    pub(super) fn reshape_if_free(&self, of: TableNumber, sql: &str) -> Result<bool, StoreError> {
        match self.change_tables(of, sql)? {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// What came of a change of tables. One that failed has left nothing.
    fn change_tables(&self, of: TableNumber, sql: &str) -> Result<Result<(), Error>, StoreError> {
        self.count_trip();
        let wait_ms = if self.has_waited.get() {
            FURTHER_WAIT_MS
        } else {
            TABLES_WAIT_MS
        };
        // The setting ends with the transaction: of what else it locks, it is the only writer.
        let all = format!(
            "SAVEPOINT tables; SET LOCAL lock_timeout = '{wait_ms}ms'; {sql} RELEASE tables"
        );
        let ran = self.patiently(|| self.wait(self.client.batch_execute(&all)))?;
        match ran {
            Err(error) if is_of_statement(&error) => {
                self.take_back("tables")?;
                if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
                    self.are_tables_busy.set(true);
                    self.busy_tables.borrow_mut().insert(of);
                    self.has_waited.set(true);
                }
                Ok(Err(error))
            }
            ran => self.heed(ran).map(Ok),
        }
    }

    /// Whether a change of tables was given up since, because others used them.
    pub(super) fn take_tables_busy(&self) -> bool {
        self.are_tables_busy.take()
    }

    /// Of which tables one was given up since this was asked.
    pub(super) fn take_busy_tables(&self) -> BTreeSet<TableNumber> {
        self.busy_tables.take()
    }

    /// Runs statements in their order, in one round trip. Behind one that fails nothing is run,
    /// and the transaction has failed.
    pub(super) fn burst(&self, calls: &[SqlCall]) -> Result<Vec<Vec<Row>>, StoreError> {
        let Some(start) = self.opening.take() else {
            return self.answers(&calls.iter().collect::<Vec<_>>());
        };
        if self.is_open.replace(true) {
            // Of a group that was given up: nothing of it may come with this one.
            self.simple("ROLLBACK")?;
        }
        self.has_failed.set(false);
        self.has_waited.set(false);
        let opening = [SqlCall::plain("BEGIN"), SqlCall::plain(LOCK)];
        let first = start.calls.iter();
        let all: Vec<&SqlCall> = opening.iter().chain(first).chain(calls).collect();
        let mut found = self.answers(&all)?;
        let stamp = found[1].first();
        let stamp = stamp.ok_or_else(|| corrupt("the table `meta` has no row"))?;
        let stands = (stamp.try_get::<_, i64>(0)?, GroupStamp::read(stamp, 1)?);
        if stands != (start.mark, start.group) {
            return Err(corrupt(
                "another process has written to the store, which this one owns",
            ));
        }
        self.group_name.replace(stamp.try_get(3)?);
        let answers = found.split_off(opening.len() + start.calls.len());
        self.opened.replace(found.split_off(opening.len()));
        Ok(answers)
    }

    /// Runs statements and the commit, in one round trip. A commit counts if nothing before it
    /// failed: that of a failed transaction answers without an error.
    pub(super) fn commit(&self, mut calls: Vec<SqlCall>) -> BurstEnd {
        self.hear();
        calls.push(SqlCall::plain("COMMIT"));
        let statements = match self.prepared(&calls.iter().collect::<Vec<_>>()) {
            Ok(statements) => statements,
            // Nothing was sent.
            Err(error) => return BurstEnd::Nothing(error),
        };
        self.notices.clear();
        let calls: Vec<&SqlCall> = calls.iter().collect();
        let longest = self.waits.get().commit;
        let burst = match self.run_within(&statements, &calls, longest) {
            Ok(burst) => burst,
            Err(cause) => return BurstEnd::Unknown(cause),
        };
        match burst {
            // A cancelled wait for the standby reports success with a warning.
            Burst::Answered(_) => match self.notices.warning() {
                None => {
                    self.is_open.set(false);
                    BurstEnd::Done
                }
                Some(warning) => BurstEnd::Unknown(StoreError::Unreachable {
                    detail: format!("a commit waits for a standby ({warning})"),
                }),
            },
            Burst::Failed(error, true) if !is_of_statement(&error) => {
                BurstEnd::Unknown(self.notices.explain(error))
            }
            Burst::Failed(error, _) => BurstEnd::Nothing(self.notices.explain(error)),
        }
    }

    /// Ends the open transaction, if there is one, without a trace.
    pub(super) fn rollback(&self) -> Result<(), StoreError> {
        self.opening.take();
        self.wait(self.client.batch_execute("ROLLBACK"))??;
        self.is_open.set(false);
        self.has_failed.set(false);
        Ok(())
    }

    /// Gives up what the session owns, and ends it.
    pub(super) fn end(self) {
        // An error means that the session has ended already.
        let unlock = self.client.batch_execute("SELECT pg_advisory_unlock_all()");
        let _ = self.wait(unlock);
    }

    /// Takes back what was done behind a savepoint, a statement that failed included.
    pub(super) fn take_back(&self, savepoint: &str) -> Result<(), StoreError> {
        self.hear();
        self.simple(&format!("ROLLBACK TO {savepoint}; RELEASE {savepoint}"))?;
        self.has_failed.set(false);
        Ok(())
    }

    /// Whether the open transaction takes no more.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.get()
    }

    /// Whether the session has ended, or is of no more use.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.get() || self.given_up.borrow().is_some() || self.client.is_closed()
    }

    /// From now on it is of no more use: what it has left is not known, for this cause.
    pub(super) fn give_up(&self, cause: &StoreError) {
        self.given_up.replace(Some(cause.clone()));
    }

    /// Why it was given up, if it was.
    pub(super) fn given_up(&self) -> Option<StoreError> {
        self.given_up.borrow().clone()
    }

    /// Waits no longer than this for answers from now on.
    pub(super) fn limit_waits(&self, longest: LongestWaits) {
        self.waits.set(longest);
    }

    /// Waits longer for the answers to these requests: they go through whole tables.
    pub(super) fn patiently<T>(&self, request: impl FnOnce() -> T) -> T {
        let usual = self.waits.get();
        let other = usual.other.max(LONG_ANSWER_MAX);
        self.waits.set(LongestWaits { other, ..usual });
        let answer = request();
        self.waits.set(usual);
        answer
    }

    fn wait<T>(&self, answer: impl Future<Output = T>) -> Result<T, StoreError> {
        self.wait_for(self.waits.get().other, answer)
    }

    /// Waits for an answer of the database, so long at most. Then the session is of no more use:
    /// the answer may come yet, in front of any other.
    fn wait_for<T>(
        &self,
        longest: Duration,
        answer: impl Future<Output = T>,
    ) -> Result<T, StoreError> {
        if let Some(cause) = self.given_up() {
            return Err(cause);
        }
        let answered = async { tokio::time::timeout(longest, answer).await };
        self.runtime.block_on(answered).map_err(|_| {
            let detail = format!(
                "a request was not answered within {} ms",
                longest.as_millis()
            );
            let cause = StoreError::Unreachable { detail };
            self.has_failed.set(true);
            self.give_up(&cause);
            cause
        })
    }

    /// The name of the group that began last.
    pub(super) fn group_name(&self) -> String {
        self.group_name.borrow().clone()
    }

    /// Takes in what the server has said while nothing was asked: where it has ended the session,
    /// a request that is sent before that learns no more than that the connection is broken.
    fn hear(&self) {
        // The first time the runtime looks what has come, the second time the connection reads it.
        self.runtime.block_on(async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        });
    }

    /// Takes in what became of a request.
    fn heed<T>(&self, answer: Result<T, Error>) -> Result<T, StoreError> {
        answer.map_err(|error| {
            self.take_failure(&error);
            self.notices.explain(error)
        })
    }

    fn take_failure(&self, error: &Error) {
        self.has_failed.set(true);
        if !is_of_statement(error) {
            self.has_ended.set(true);
        }
    }

    /// From now on each statement of the open transaction is planned for its values, and takes no
    /// longer than until then.
    pub(super) fn limit_statements(&self, until: Instant) -> Result<(), StoreError> {
        let left = until.saturating_duration_since(Instant::now());
        self.simple(&format!(
            "SET LOCAL statement_timeout = {}; SET LOCAL plan_cache_mode = force_custom_plan",
            left.as_millis().max(1)
        ))
    }

    /// Runs what reads in the open transaction.
    pub(super) fn read<T>(
        &self,
        read: impl AsyncFnOnce(&Client) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.count_trip();
        self.wait(read(&self.client))?
    }

    /// Runs statements that have no parameters and no answer.
    pub(super) fn simple(&self, sql: &str) -> Result<(), StoreError> {
        self.count_trip();
        self.heed(self.wait(self.client.batch_execute(sql))?)
    }

    /// What a statement gives, a line a row.
    #[cfg(test)]
    pub(super) fn lines(&self, sql: &str) -> Result<Vec<String>, StoreError> {
        let rows = crate::postgres::connection::rows(&self.client, sql);
        let rows = self.runtime.block_on(rows)?;
        let line = |row: &tokio_postgres::SimpleQueryRow| {
            let cells = (0..row.len()).map(|position| row.get(position).unwrap_or_default());
            cells.collect::<Vec<_>>().join("|")
        };
        Ok(rows.iter().map(line).collect())
    }

    /// Runs a statement that is not kept, and is planned for its values.
    pub(super) fn once(
        &self,
        sql: &str,
        parameters: &[SqlParameter],
    ) -> Result<Vec<Row>, StoreError> {
        self.count_trip();
        self.heed(self.wait(async {
            let statement = self.client.prepare(sql).await?;
            self.client.query(&statement, &borrowed(parameters)).await
        })?)
    }

    /// Hands on the rows of a statement, some at a time, until that says that it wants no more.
    /// Each time the server takes no longer than until then. It is planned for its values, and
    /// stays open until the savepoint around it ends.
    pub(super) fn each(
        &self,
        call: &SqlCall,
        until: Instant,
        mut take: impl FnMut(&Row) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let declare = format!("DECLARE found NO SCROLL CURSOR FOR {}", call.sql);
        self.once(&declare, &call.parameters)?;
        let next = format!("FETCH {FETCHED_ROWS} FROM found");
        loop {
            let rows = self.fetched(&next, until)?;
            for row in &rows {
                if !take(row)? {
                    return Ok(());
                }
            }
            if rows.len() < FETCHED_ROWS {
                return Ok(());
            }
        }
    }

    /// In one round trip.
    fn fetched(&self, next: &str, until: Instant) -> Result<Vec<Row>, StoreError> {
        let left = until.saturating_duration_since(Instant::now());
        let limit = format!("SET LOCAL statement_timeout = {}", left.as_millis().max(1));
        let requests = [Some(limit), None].map(|limit| {
            let client = &self.client;
            async move {
                match limit {
                    Some(limit) => client.batch_execute(&limit).await.map(|()| Vec::new()),
                    None => client.query_typed(next, &[]).await,
                }
            }
        });
        self.count_trip();
        match self.wait(pipelined(requests.into()))? {
            Burst::Answered(mut answers) => Ok(answers.pop().unwrap_or_default()),
            Burst::Failed(error, _) => self.heed(Err(error)),
        }
    }

    fn answers(&self, calls: &[&SqlCall]) -> Result<Vec<Vec<Row>>, StoreError> {
        let statements = self.prepared(calls)?;
        match self.run(&statements, calls)? {
            Burst::Answered(found) => Ok(found),
            Burst::Failed(error, _) => Err(self.notices.explain(error)),
        }
    }

    fn run(
        &self,
        statements: &[Statement],
        calls: &[&SqlCall],
    ) -> Result<Burst<Vec<Row>>, StoreError> {
        self.run_within(statements, calls, self.waits.get().other)
    }

    fn run_within(
        &self,
        statements: &[Statement],
        calls: &[&SqlCall],
        longest: Duration,
    ) -> Result<Burst<Vec<Row>>, StoreError> {
        let queries = statements.iter().zip(calls).map(|(statement, call)| {
            let client = &self.client;
            async move { client.query(statement, &borrowed(&call.parameters)).await }
        });
        self.count_trip();
        let burst = self.wait_for(longest, pipelined(queries.collect()))?;
        if let Burst::Failed(error, _) = &burst {
            self.take_failure(error);
        }
        Ok(burst)
    }

    fn count_trip(&self) {
        self.round_trips.set(self.round_trips.get() + 1);
    }

    /// How often it has waited for an answer.
    pub(super) fn round_trips(&self) -> u64 {
        self.round_trips.get()
    }

    /// The statements of calls, of which those that are new go out together.
    fn prepared(&self, calls: &[&SqlCall]) -> Result<Vec<Statement>, StoreError> {
        let mut known = self.statements.borrow_mut();
        if known.len() > PREPARED_MAX {
            known.clear();
        }
        let mut missing: Vec<&str> = calls.iter().map(|call| call.sql.as_str()).collect();
        missing.retain(|sql| !known.contains_key(*sql));
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            let prepared = missing.iter().map(|sql| {
                let (client, sql) = (&self.client, *sql);
                async move { client.prepare(sql).await }
            });
            self.count_trip();
            match self.wait(pipelined(prepared.collect()))? {
                Burst::Answered(prepared) => {
                    let named = missing.iter().map(|sql| Box::from(*sql));
                    known.extend(named.zip(prepared));
                }
                Burst::Failed(error, _) => return self.heed(Err(error)),
            }
        }
        Ok(calls
            .iter()
            .map(|call| known[call.sql.as_str()].clone())
            .collect())
    }
}

/// What a burst came to.
enum Burst<T> {
    Answered(Vec<T>),
    /// The first error, and whether all of the burst went out.
    Failed(Error, bool),
}

/// Runs requests of one client side by side: the driver sends them in the order in which they are
/// first polled, without waiting for answers. One that fails at once was not sent; then none that
/// follows is sent either, so that no commit goes out behind a gap.
async fn pipelined<T, F: Future<Output = Result<T, Error>>>(requests: Vec<F>) -> Burst<T> {
    let mut left: Vec<Pin<Box<F>>> = requests.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<Result<T, Error>>> = left.iter().map(|_| None).collect();
    let (mut is_first, mut is_sent) = (true, true);
    poll_fn(|context| {
        let mut is_pending = false;
        for (request, done) in left.iter_mut().zip(&mut done) {
            if done.is_none() {
                match request.as_mut().poll(context) {
                    Poll::Ready(output) => *done = Some(output),
                    Poll::Pending => is_pending = true,
                }
            }
            if is_first && matches!(done, Some(Err(_))) {
                is_sent = false;
                return Poll::Ready(());
            }
        }
        is_first = false;
        if is_pending {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    let mut answers = Vec::with_capacity(done.len());
    for output in done.into_iter().flatten() {
        match output {
            Ok(answer) => answers.push(answer),
            Err(error) => return Burst::Failed(error, is_sent),
        }
    }
    Burst::Answered(answers)
}
