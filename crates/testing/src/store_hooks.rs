//! A store that stands before another one and changes a few of its methods.

use std::future::ready;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};

use model::{Mark, ProjectId, Row, RowRef, Table, TableNumber, Timestamp};
use store::{
    ArchivePart, ArchivePiece, BoundaryOf, ChangedRows, Deployment, ExecutionRecord, IndexBuildEnd,
    KeptRequest, Listed, Listing, Loaded, OffloadKind, OperationsOf, Pending, Point, PointKeys,
    Points, Preview, QueuedCall, QueuedExecution, ReadsAtOnce, Recorded, RecordsOf, Snapshot,
    Staged, Standing, Store, StoreAtOnce, StoreConstraints, StoreError, StoreExecutions,
    StoreFunctions, StoreFuture, StoreReads, StoreTransactions, StoreUpkeep, StoreUsage,
    StoreWrites, TableConstraints, Transaction, Trial, Variable, Work, WriteBatch, WriteTurn,
};

use crate::own_turn::{OwnTurn, waited};

/// The methods of a store that tests change; those that are not written are those of
/// [`StoreHooks::inner`].
pub trait StoreHooks: Send + Sync {
    /// Whether [`StoreAtOnce::at_once`] gives what [`StoreHooks::get`] reads, if the store behind
    /// reads at once.
    const READS_AT_ONCE: bool = true;

    /// The store behind this one.
    fn inner(&self) -> &dyn Store;

    /// What changes the rest; `None` if nothing does.
    fn upkeep(&self) -> Option<&dyn UpkeepHooks> {
        None
    }

    /// See [`StoreReads::list`].
    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Snapshot<Listed>> {
        self.inner().list(listing)
    }

    /// See [`StoreReads::get`].
    fn get<'a>(&'a self, point: Point<'a>) -> StoreFuture<'a, Snapshot<Option<Row>>> {
        self.inner().get(point)
    }

    /// See [`StoreReads::offload`]. Here the work is done on the caller's thread, so that a test
    /// decides when it is.
    fn offload(&self, _kind: OffloadKind, _of_guest: bool, work: Work) -> StoreFuture<'static, ()> {
        work(&AtomicBool::new(false));
        Box::pin(ready(Ok(())))
    }

    /// See [`WriteTurn::apply`].
    fn apply<'a>(
        &'a self,
        batches: &'a [WriteBatch],
        first: Mark,
    ) -> StoreFuture<'a, Box<dyn Pending>> {
        self.inner().apply(batches, first)
    }

    /// See [`WriteTurn::activate_due`].
    fn activate_due(&self, instant: Timestamp) -> StoreFuture<'_, Box<dyn Pending>> {
        self.inner().activate_due(instant)
    }

    /// See [`WriteTurn::preview`].
    fn preview<'a>(
        &'a self,
        trials: &'a [Trial],
        first: Mark,
        limit_ms: u64,
    ) -> StoreFuture<'a, Box<dyn Preview>> {
        self.inner().preview(trials, first, limit_ms)
    }
}

/// Further methods of a store that tests change; those that are not written are those of
/// [`UpkeepHooks::behind`].
pub trait UpkeepHooks: Send + Sync {
    /// The store behind this one.
    fn behind(&self) -> &dyn Store;

    /// See [`WriteTurn::standing`].
    fn standing(&self) -> StoreFuture<'_, Standing> {
        Box::pin(async { Ok(self.behind().turn().await?.standing()) })
    }

    /// See [`StoreUpkeep::load`].
    fn load(&self) -> StoreFuture<'_, Loaded> {
        self.behind().load()
    }

    /// See [`StoreUpkeep::build`].
    fn build(&self, table: &Arc<Table>, index: u32) -> StoreFuture<'static, IndexBuildEnd> {
        self.behind().build(table, index)
    }

    /// See [`WriteTurn::reserve`].
    fn reserve(&self, horizon: Mark) -> StoreFuture<'_, ()> {
        self.behind().reserve(horizon)
    }

    /// See [`WriteTurn::run_upkeep`].
    fn run_upkeep(&self) -> StoreFuture<'_, bool> {
        self.behind().run_upkeep()
    }

    /// See [`StoreUpkeep::rest`].
    fn rest(&self) {
        self.behind().rest();
    }

    /// See [`StoreUpkeep::close`].
    fn close(&self, horizon: Mark) -> StoreFuture<'_, ()> {
        self.behind().close(horizon)
    }
}

/// A store whose reads are over when they were polled once, wherever it is: for hooks that decide
/// what comes between two reads.
pub struct WaitedStore(pub Arc<dyn Store>);

impl StoreHooks for WaitedStore {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Snapshot<Listed>> {
        waited(self.0.list(listing))
    }

    fn get<'a>(&'a self, point: Point<'a>) -> StoreFuture<'a, Snapshot<Option<Row>>> {
        waited(self.0.get(point))
    }
}

/// The store that hooks make of the one behind them. What they do not change is over when it was
/// polled once.
pub struct Hooked<H>(pub H);

impl<H> Deref for Hooked<H> {
    type Target = H;

    fn deref(&self) -> &H {
        &self.0
    }
}

impl<H: StoreHooks> StoreAtOnce for Hooked<H> {
    fn at_once(&self) -> Option<&dyn ReadsAtOnce> {
        let reads_at_once = H::READS_AT_ONCE && self.0.inner().at_once().is_some();
        reads_at_once.then_some(self)
    }
}

impl<H: StoreHooks> ReadsAtOnce for Hooked<H> {
    fn show_at_once(
        &self,
        point: Point<'_>,
        show: &mut dyn FnMut(RowRef<'_>),
    ) -> Result<Mark, StoreError> {
        let Snapshot { answer, mark } = self.get_at_once(point)?;
        if let Some(row) = &answer {
            show(row.borrowed());
        }
        Ok(mark)
    }

    /// By ids one row a call, so that hooks see each of them.
    fn points_at_once(&self, points: Points<'_>) -> Result<Snapshot<Vec<Option<Row>>>, StoreError> {
        let PointKeys::Ids(ids) = points.keys else {
            let reads = self.0.inner().at_once().ok_or(StoreError::Interrupted)?;
            return reads.points_at_once(points);
        };
        let Snapshot { answer, mark } = self.get_at_once(Point {
            table: points.table,
            id: ids[0],
            selection: points.selection,
            visibility: points.visibility,
            at: None,
            shows_span: false,
            catalogue_epoch: points.catalogue_epoch,
        })?;
        let answer = vec![answer];
        Ok(Snapshot { answer, mark })
    }
}

impl<H: StoreHooks> Hooked<H> {
    fn get_at_once(&self, point: Point<'_>) -> Result<Snapshot<Option<Row>>, StoreError> {
        match pin!(self.0.get(point)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(read) => read,
            Poll::Pending => Err(StoreError::Interrupted),
        }
    }
}

impl<H: StoreHooks> StoreReads for Hooked<H> {
    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Snapshot<Listed>> {
        self.0.list(listing)
    }

    fn get<'a>(&'a self, point: Point<'a>) -> StoreFuture<'a, Snapshot<Option<Row>>> {
        self.0.get(point)
    }

    fn table_as_of<'a>(&'a self, today: &'a Arc<Table>, mark: Mark) -> StoreFuture<'a, Arc<Table>> {
        waited(self.0.inner().table_as_of(today, mark))
    }

    fn next_boundary<'a>(&'a self, request: BoundaryOf<'a>) -> StoreFuture<'a, Option<Timestamp>> {
        waited(self.0.inner().next_boundary(request))
    }

    fn last_erasure<'a>(&'a self, tables: &'a [TableNumber]) -> StoreFuture<'a, Option<Mark>> {
        waited(self.0.inner().last_erasure(tables))
    }

    fn recorded(&self, request: RecordsOf) -> StoreFuture<'_, Vec<Recorded>> {
        waited(self.0.inner().recorded(request))
    }

    fn offload(&self, kind: OffloadKind, of_guest: bool, work: Work) -> StoreFuture<'static, ()> {
        self.0.offload(kind, of_guest, work)
    }
}

impl<H: StoreHooks> StoreConstraints for Hooked<H> {
    fn constraints(&self, table: TableNumber) -> StoreFuture<'_, TableConstraints> {
        waited(self.0.inner().constraints(table))
    }

    fn referring(&self, table: TableNumber) -> StoreFuture<'_, Vec<TableNumber>> {
        waited(self.0.inner().referring(table))
    }
}

impl<H: StoreHooks> StoreWrites for Hooked<H> {
    fn turn(&self) -> StoreFuture<'_, Box<dyn WriteTurn + '_>> {
        Box::pin(async move {
            let standing = match self.0.upkeep() {
                Some(upkeep) => upkeep.standing().await?,
                None => self.0.inner().turn().await?.standing(),
            };
            let hooks = &self.0;
            let turn: Box<dyn WriteTurn + '_> = Box::new(HookedTurn { hooks, standing });
            Ok(turn)
        })
    }
}

/// A turn whose calls are those of the hooks, which take one of the store behind for each.
struct HookedTurn<'h, H> {
    hooks: &'h H,
    standing: Standing,
}

impl<H: StoreHooks> WriteTurn for HookedTurn<'_, H> {
    fn standing(&self) -> Standing {
        self.standing
    }

    fn apply<'a>(
        self: Box<Self>,
        batches: &'a [WriteBatch],
        first: Mark,
    ) -> StoreFuture<'a, Box<dyn Pending>>
    where
        Self: 'a,
    {
        self.hooks.apply(batches, first)
    }

    fn activate_due<'a>(self: Box<Self>, instant: Timestamp) -> StoreFuture<'a, Box<dyn Pending>>
    where
        Self: 'a,
    {
        self.hooks.activate_due(instant)
    }

    fn preview<'a>(
        self: Box<Self>,
        trials: &'a [Trial],
        first: Mark,
        limit_ms: u64,
    ) -> StoreFuture<'a, Box<dyn Preview>>
    where
        Self: 'a,
    {
        self.hooks.preview(trials, first, limit_ms)
    }

    fn reserve<'a>(self: Box<Self>, horizon: Mark) -> StoreFuture<'a, ()>
    where
        Self: 'a,
    {
        match self.hooks.upkeep() {
            Some(upkeep) => upkeep.reserve(horizon),
            None => self.hooks.inner().reserve(horizon),
        }
    }

    fn rewind<'a>(self: Box<Self>) -> StoreFuture<'a, ()>
    where
        Self: 'a,
    {
        self.hooks.inner().rewind()
    }

    fn run_upkeep<'a>(self: Box<Self>) -> StoreFuture<'a, bool>
    where
        Self: 'a,
    {
        match self.hooks.upkeep() {
            Some(upkeep) => upkeep.run_upkeep(),
            None => self.hooks.inner().run_upkeep(),
        }
    }
}

impl<H: StoreHooks> StoreTransactions for Hooked<H> {
    fn transactions<'a>(&'a self, project: &'a ProjectId) -> StoreFuture<'a, Vec<Transaction>> {
        waited(self.0.inner().transactions(project))
    }

    fn transaction<'a>(
        &'a self,
        project: &'a ProjectId,
        id: &'a str,
        operations: OperationsOf<'a>,
    ) -> StoreFuture<'a, Option<Staged>> {
        waited(self.0.inner().transaction(project, id, operations))
    }

    fn kept_request<'a>(
        &'a self,
        project: &'a ProjectId,
        key: &'a str,
    ) -> StoreFuture<'a, Option<KeptRequest>> {
        waited(self.0.inner().kept_request(project, key))
    }
}

impl<H: StoreHooks> StoreFunctions for Hooked<H> {
    fn variables(&self, function: i64) -> StoreFuture<'_, Vec<Variable>> {
        waited(self.0.inner().variables(function))
    }

    fn name_variables_key(&self, file: std::path::PathBuf) {
        self.0.inner().name_variables_key(file);
    }

    fn revealed_variables(&self, function: i64) -> StoreFuture<'_, Vec<Variable>> {
        waited(self.0.inner().revealed_variables(function))
    }

    fn deployments(&self, function: i64) -> StoreFuture<'_, Vec<Deployment>> {
        waited(self.0.inner().deployments(function))
    }

    fn latest_deployment(&self, function: i64) -> StoreFuture<'_, Option<Deployment>> {
        waited(self.0.inner().latest_deployment(function))
    }

    fn piece(
        &self,
        deployment: i64,
        part: ArchivePart,
        from: u64,
    ) -> StoreFuture<'_, Option<ArchivePiece>> {
        waited(self.0.inner().piece(deployment, part, from))
    }

    fn source_extents(&self, deployment: i64) -> StoreFuture<'_, Vec<(u64, u64)>> {
        waited(self.0.inner().source_extents(deployment))
    }

    fn next_build<'a>(&'a self, except: &'a [i64]) -> StoreFuture<'a, Option<(i64, Deployment)>> {
        waited(self.0.inner().next_build(except))
    }
}

impl<H: StoreHooks> StoreExecutions for Hooked<H> {
    fn queued_executions(&self, function: i64) -> StoreFuture<'_, Vec<QueuedExecution>> {
        waited(self.0.inner().queued_executions(function))
    }

    fn queued_execution<'a>(
        &'a self,
        function: i64,
        id: &'a str,
    ) -> StoreFuture<'a, Option<QueuedExecution>> {
        waited(self.0.inner().queued_execution(function, id))
    }

    fn due_executions<'a>(
        &'a self,
        now: Timestamp,
        except: &'a [i64],
        limit: usize,
    ) -> StoreFuture<'a, Vec<(i64, QueuedExecution)>> {
        waited(self.0.inner().due_executions(now, except, limit))
    }

    fn schedule_minute(&self, function: i64) -> StoreFuture<'_, Option<Timestamp>> {
        waited(self.0.inner().schedule_minute(function))
    }

    fn changed_rows<'a>(
        &'a self,
        of: Option<&'a ProjectId>,
        limit: usize,
    ) -> StoreFuture<'a, Option<ChangedRows>> {
        waited(self.0.inner().changed_rows(of, limit))
    }

    fn queued_call(
        &self,
        function: i64,
        seq: i64,
    ) -> StoreFuture<'_, Option<(QueuedExecution, QueuedCall)>> {
        waited(self.0.inner().queued_call(function, seq))
    }

    fn executions(&self, function: i64) -> StoreFuture<'_, Vec<ExecutionRecord>> {
        waited(self.0.inner().executions(function))
    }

    fn execution<'a>(
        &'a self,
        function: i64,
        id: &'a str,
    ) -> StoreFuture<'a, Option<ExecutionRecord>> {
        waited(self.0.inner().execution(function, id))
    }
}

// No test needs more of it than its defaults.
impl<H: StoreHooks> StoreUsage for Hooked<H> {}

impl<H: StoreHooks> StoreUpkeep for Hooked<H> {
    fn load(&self) -> StoreFuture<'_, Loaded> {
        match self.0.upkeep() {
            Some(upkeep) => upkeep.load(),
            None => self.0.inner().load(),
        }
    }

    fn build(&self, table: &Arc<Table>, index: u32) -> StoreFuture<'static, IndexBuildEnd> {
        match self.0.upkeep() {
            Some(upkeep) => upkeep.build(table, index),
            None => self.0.inner().build(table, index),
        }
    }

    fn rest(&self) {
        match self.0.upkeep() {
            Some(upkeep) => upkeep.rest(),
            None => self.0.inner().rest(),
        }
    }

    fn close(&self, horizon: Mark) -> StoreFuture<'_, ()> {
        match self.0.upkeep() {
            Some(upkeep) => upkeep.close(horizon),
            None => self.0.inner().close(horizon),
        }
    }
}
