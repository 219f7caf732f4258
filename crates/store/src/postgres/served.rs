//! A store in a schema, behind the border: its reads, and its one writer.

use std::future::ready;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Mark, ProjectId, Row, Table, TableNumber, Timestamp};
use query::Query;

use super::address::DatabaseUrl;
use super::opening::DatabaseStore;
use super::read::DatabaseReads;
use super::write::index_builds::build_index;
use super::write::session::LongestWaits;
use super::write::shared_writer::{SharedWriter, WriterPlace};
use super::write::turn::DatabaseTurn;
use crate::batch::TableConstraints;
use crate::{
    ArchivePart, ArchivePiece, BoundaryOf, ChangedRows, Counts, Deployment, ExecutionRecord,
    IndexBuildEnd, KeptRequest, Listed, Listing, Loaded, OffloadKind, OpenTransactions,
    OperationsOf, Options, Point, QueuedCall, QueuedExecution, ReadsAtOnce, Recorded, RecordsOf,
    Snapshot, Staged, Store, StoreAtOnce, StoreConstraints, StoreError, StoreExecutions,
    StoreFunctions, StoreFuture, StorePlace, StoreReads, StoreTransactions, StoreUpkeep,
    StoreUsage, StoreWrites, Transaction, Variable, Work, WriteTurn,
};

/// The store behind the border.
struct ServedDatabase {
    reads: DatabaseReads,
    writer: Arc<SharedWriter>,
}

impl DatabaseStore {
    /// Serves the store, in the place that the options name. A session that ends is begun again
    /// when something is to be written.
    ///
    /// # Errors
    /// As [`DatabaseReads::open`]; what the database says; [`StoreError::KeyMissing`] and
    /// [`StoreError::KeyWrong`] when `keys` is not where the key of its encrypted columns is.
    pub fn serve(
        self,
        options: &Options,
        password_file: Option<&Path>,
        keys: &Path,
    ) -> Result<Arc<dyn Store>, StoreError> {
        let reads = DatabaseReads::open(options, password_file, keys)?;
        let StorePlace::Database(url) = &options.place else {
            let place = options.place.clone();
            return Err(StoreError::PlaceUnfit { place });
        };
        let place = WriterPlace {
            url: DatabaseUrl::clone(url),
            password_file: password_file.map(Path::to_owned),
            encode_row: options.encode_row,
            keys: reads.keys(),
            waits: LongestWaits::default(),
            aside: reads.handle(),
            read: reads.standing(),
        };
        let writer = self.into_writer(place.encode_row, place.keys.clone())?;
        place.read.stand_at(writer.primary())?;
        Ok(Arc::new(ServedDatabase {
            reads,
            writer: Arc::new(SharedWriter::new(place, writer)),
        }))
    }
}

impl StoreAtOnce for ServedDatabase {
    fn at_once(&self) -> Option<&dyn ReadsAtOnce> {
        None
    }
}

impl StoreWrites for ServedDatabase {
    fn turn(&self) -> StoreFuture<'_, Box<dyn WriteTurn + '_>> {
        let turn = DatabaseTurn::begin(&self.writer);
        Box::pin(ready(
            turn.map(|turn| -> Box<dyn WriteTurn + '_> { Box::new(turn) }),
        ))
    }
}

impl StoreUpkeep for ServedDatabase {
    fn load(&self) -> StoreFuture<'_, Loaded> {
        self.reads.load()
    }

    fn build(&self, table: &Arc<Table>, index: u32) -> StoreFuture<'static, IndexBuildEnd> {
        let mut indexes = table.indexes.iter();
        let Some(index) = indexes.find(|one| one.number == index).cloned() else {
            return Box::pin(ready(Ok(IndexBuildEnd::Ready)));
        };
        let WriterPlace {
            url, password_file, ..
        } = self.writer.place();
        let (url, password_file) = (url.clone(), password_file.clone());
        let table = Arc::clone(table);
        self.reads.aside(async move {
            build_index(&url, password_file.as_deref(), (&table, &index)).await
        })
    }

    fn keeps_its_turn(&self) -> bool {
        false
    }

    fn outage(&self) -> Option<StoreError> {
        let of_reads = self.reads.outage().map(|(_, error)| error);
        of_reads.or_else(|| self.writer.outage())
    }

    fn close(&self, horizon: Mark) -> StoreFuture<'_, ()> {
        self.reads.close();
        Box::pin(ready(self.writer.close(horizon)))
    }
}

impl StoreReads for ServedDatabase {
    fn list<'a>(&'a self, listing: Listing<'a>) -> StoreFuture<'a, Snapshot<Listed>> {
        self.reads.list(listing)
    }

    fn get<'a>(&'a self, point: Point<'a>) -> StoreFuture<'a, Snapshot<Option<Row>>> {
        self.reads.get(point)
    }

    fn table_as_of<'a>(&'a self, today: &'a Arc<Table>, mark: Mark) -> StoreFuture<'a, Arc<Table>> {
        self.reads.table_as_of(today, mark)
    }

    fn next_boundary<'a>(&'a self, request: BoundaryOf<'a>) -> StoreFuture<'a, Option<Timestamp>> {
        self.reads.next_boundary(request)
    }

    fn recorded(&self, request: RecordsOf) -> StoreFuture<'_, Vec<Recorded>> {
        self.reads.recorded(request)
    }

    fn last_erasure<'a>(&'a self, tables: &'a [TableNumber]) -> StoreFuture<'a, Option<Mark>> {
        self.reads.last_erasure(tables)
    }

    fn explain<'a>(&'a self, query: &'a Query) -> StoreFuture<'a, Vec<String>> {
        self.reads.explain(query)
    }

    fn offload(&self, kind: OffloadKind, of_guest: bool, work: Work) -> StoreFuture<'static, ()> {
        self.reads.offload(kind, of_guest, work)
    }
}

impl StoreConstraints for ServedDatabase {
    fn constraints(&self, table: TableNumber) -> StoreFuture<'_, TableConstraints> {
        self.reads.constraints(table)
    }

    fn referring(&self, table: TableNumber) -> StoreFuture<'_, Vec<TableNumber>> {
        self.reads.referring(table)
    }
}

impl StoreTransactions for ServedDatabase {
    fn transactions<'a>(&'a self, project: &'a ProjectId) -> StoreFuture<'a, Vec<Transaction>> {
        self.reads.transactions(project)
    }

    fn transaction<'a>(
        &'a self,
        project: &'a ProjectId,
        id: &'a str,
        operations: OperationsOf<'a>,
    ) -> StoreFuture<'a, Option<Staged>> {
        self.reads.transaction(project, id, operations)
    }

    fn kept_request<'a>(
        &'a self,
        project: &'a ProjectId,
        key: &'a str,
    ) -> StoreFuture<'a, Option<KeptRequest>> {
        self.reads.kept_request(project, key)
    }
}

impl StoreFunctions for ServedDatabase {
    fn variables(&self, function: i64) -> StoreFuture<'_, Vec<Variable>> {
        self.reads.variables(function)
    }

    fn name_variables_key(&self, file: PathBuf) {
        self.reads.name_variables_key(file);
    }

    fn revealed_variables(&self, function: i64) -> StoreFuture<'_, Vec<Variable>> {
        self.reads.revealed_variables(function)
    }

    fn deployments(&self, function: i64) -> StoreFuture<'_, Vec<Deployment>> {
        self.reads.deployments(function)
    }

    fn latest_deployment(&self, function: i64) -> StoreFuture<'_, Option<Deployment>> {
        self.reads.latest_deployment(function)
    }

    fn piece(
        &self,
        deployment: i64,
        part: ArchivePart,
        from: u64,
    ) -> StoreFuture<'_, Option<ArchivePiece>> {
        self.reads.piece(deployment, part, from)
    }

    fn source_extents(&self, deployment: i64) -> StoreFuture<'_, Vec<(u64, u64)>> {
        self.reads.source_extents(deployment)
    }

    fn next_build<'a>(&'a self, except: &'a [i64]) -> StoreFuture<'a, Option<(i64, Deployment)>> {
        self.reads.next_build(except)
    }
}

impl StoreExecutions for ServedDatabase {
    fn queued_executions(&self, function: i64) -> StoreFuture<'_, Vec<QueuedExecution>> {
        self.reads.queued_executions(function)
    }

    fn queued_execution<'a>(
        &'a self,
        function: i64,
        id: &'a str,
    ) -> StoreFuture<'a, Option<QueuedExecution>> {
        self.reads.queued_execution(function, id)
    }

    fn due_executions<'a>(
        &'a self,
        now: Timestamp,
        except: &'a [i64],
        limit: usize,
    ) -> StoreFuture<'a, Vec<(i64, QueuedExecution)>> {
        self.reads.due_executions(now, except, limit)
    }

    fn schedule_minute(&self, function: i64) -> StoreFuture<'_, Option<Timestamp>> {
        self.reads.schedule_minute(function)
    }

    fn changed_rows<'a>(
        &'a self,
        of: Option<&'a ProjectId>,
        limit: usize,
    ) -> StoreFuture<'a, Option<ChangedRows>> {
        self.reads.changed_rows(of, limit)
    }

    fn queued_call(
        &self,
        function: i64,
        seq: i64,
    ) -> StoreFuture<'_, Option<(QueuedExecution, QueuedCall)>> {
        self.reads.queued_call(function, seq)
    }

    fn executions(&self, function: i64) -> StoreFuture<'_, Vec<ExecutionRecord>> {
        self.reads.executions(function)
    }

    fn execution<'a>(
        &'a self,
        function: i64,
        id: &'a str,
    ) -> StoreFuture<'a, Option<ExecutionRecord>> {
        self.reads.execution(function, id)
    }
}

impl StoreUsage for ServedDatabase {
    fn data_bytes(&self) -> StoreFuture<'_, u64> {
        self.reads.data_bytes()
    }

    fn table_bytes(&self) -> StoreFuture<'_, Vec<(TableNumber, u64)>> {
        self.reads.table_bytes()
    }

    fn open_transactions(&self) -> StoreFuture<'_, OpenTransactions> {
        self.reads.open_transactions()
    }

    fn kept_answer_bytes(&self) -> StoreFuture<'_, u64> {
        self.reads.kept_answer_bytes()
    }

    fn counts(&self) -> Counts {
        Counts {
            database: Some(self.writer.counts(&self.reads.connections())),
            ..self.reads.counts()
        }
    }
}
