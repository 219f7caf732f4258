//! What one batch writes with, and what it has done so far.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::{
    CatalogueChange, Database, DatabaseId, Mark, Project, ProjectId, RowId, Table, TableNumber,
    Timestamp, Value,
};

use super::awaited::{NeededRow, ParkedRows};
use super::body::body_to_keep;
use super::growth::Totals;
use super::halt::Step;
use super::ledger::RowLedger;
use super::period_search::PeriodSearch;
use super::row_search::{LinksAhead, RowSearch};
use super::search_time::SEARCH_MAX;
use super::staged_run::StagedRun;
use super::state::State;
use super::timed_rows::Timed;
use super::touched::Touched;
use crate::EncodeRow;
use crate::batch::{BATCH_BYTES_MAX, BATCH_ROWS_MAX};
use crate::error::corrupt;
use crate::refusal::{Container, Refusal};
use crate::schema_record::SchemaRecord;

/// A batch while it runs: what it writes with, and what it has done so far.
pub(crate) struct Run<'w, D> {
    /// The rows of the open transaction.
    pub(crate) rows: D,
    /// Writes a row's columns as readers copy them.
    pub(crate) encode_row: EncodeRow,
    /// How many bytes the tables held before the open transaction.
    pub(crate) totals: &'w Totals,
    /// The writer's state as this batch sees and changes it; thrown away if the batch halts.
    pub(crate) state: State,
    /// The mark this batch gets if it changes something.
    pub(crate) mark: Mark,
    pub(crate) touched: Touched,
    /// How many operations on rows have begun.
    pub(crate) row_ops: usize,
    /// See [`crate::WriteBatch::unchanged_since`].
    pub(crate) unchanged_since: Option<Timestamp>,
    /// How long its searches may still take, together.
    pub(crate) search_left: Duration,
    /// How many rows they may still find, together: a row that is found costs its turn, whether or
    /// not another search of the batch has found it before.
    pub(crate) finds_left: usize,
    /// What the batch has to do with transactions of clients.
    pub(crate) staged: StagedRun,
    pub(crate) catalogue: Vec<CatalogueChange>,
    /// What the record of its commit says of these, each with its database by
    /// [`model::Database::seq`].
    pub(crate) noted: Vec<(i64, SchemaRecord)>,
    pub(crate) manner: RunManner,
    /// The place in the batch of the operation that runs.
    pub(crate) nth: usize,
    /// Rows that links lead to and that were not there when these were made.
    pub(crate) needed: Vec<NeededRow>,
    /// What it wrote over valid periods.
    pub(crate) timed: Timed,
    /// The rows of now that lack values which other rows have in unique indexes.
    pub(crate) parked: ParkedRows,
    /// The rows it erased.
    pub(crate) erased: Vec<(Arc<Table>, RowId)>,
    /// Whether what runs now is the change of a row that is not shown.
    pub(crate) shows_no_row: bool,
    /// Whether it changed what must hold over valid time.
    pub(crate) constrained: bool,
    /// Whether it wrote a part of an index, which no reader sees before all of it is there.
    pub(crate) is_begun: bool,
    /// What it did to what belongs to functions.
    pub(crate) of_functions: FunctionsRun,
    /// See [`crate::Applied::past_changed`].
    pub(crate) past_changed: TableSet,
    /// See [`crate::Applied::erased`].
    pub(crate) erased_in: TableSet,
}

/// A database, as the laws of rows see it.
pub(crate) trait RowStore: RowLedger + RowSearch + LinksAhead + PeriodSearch {}

impl<D: RowLedger + RowSearch + LinksAhead + PeriodSearch> RowStore for D {}

/// What a batch did to what belongs to functions.
#[derive(Default)]
pub(crate) struct FunctionsRun {
    /// Whether it changed any of it.
    pub(crate) is_any: bool,
    /// Whether it left pieces of deployments that are gone.
    pub(crate) leaves_pieces: Cell<bool>,
}

/// How a batch runs.
#[derive(Clone, Copy)]
pub(crate) struct RunManner {
    /// Whether a refusal names the operation that it is about.
    pub(crate) blames: bool,
    /// Whether what is judged at the end of a batch is judged. If not, nothing of it may stay.
    pub(crate) judges_end: bool,
}

/// Tables whose past looks otherwise.
#[derive(Default)]
pub(crate) struct TableSet(RefCell<BTreeSet<TableNumber>>);

impl From<TableSet> for Vec<TableNumber> {
    fn from(past_changed: TableSet) -> Vec<TableNumber> {
        past_changed.0.into_inner().into_iter().collect()
    }
}

impl TableSet {
    pub(crate) fn add(&self, table: TableNumber) {
        self.0.borrow_mut().insert(table);
    }
}

impl<'w, D> Run<'w, D> {
    /// A batch that has done nothing yet, and goes on from this state.
    pub(crate) fn new(
        rows: D,
        (encode_row, totals): (EncodeRow, &'w Totals),
        state: State,
        mark: Mark,
        manner: RunManner,
    ) -> Run<'w, D> {
        Run {
            rows,
            encode_row,
            totals,
            state,
            mark,
            touched: Touched::new(0, false),
            row_ops: 0,
            unchanged_since: None,
            search_left: SEARCH_MAX,
            finds_left: BATCH_ROWS_MAX,
            staged: StagedRun::default(),
            catalogue: Vec::new(),
            noted: Vec::new(),
            manner,
            nth: 0,
            needed: Vec::new(),
            timed: Timed::default(),
            parked: ParkedRows::default(),
            erased: Vec::new(),
            shows_no_row: false,
            constrained: false,
            is_begun: false,
            of_functions: FunctionsRun::default(),
            past_changed: TableSet::default(),
            erased_in: TableSet::default(),
        }
    }

    /// To be asked after each row: other writers wait until all of this batch is in the log.
    pub(crate) fn need_room(&self) -> Step<()> {
        // One change of one row is possible however large the row is.
        let is_single = self.touched.len() <= 1 && self.row_ops <= 1;
        if self.touched.bytes() > BATCH_BYTES_MAX && !is_single {
            let bytes_max = BATCH_BYTES_MAX;
            return Err(Refusal::TooManyBytes { bytes_max }.into());
        }
        Ok(())
    }

    /// The rows of the open transaction.
    pub(crate) fn rows(&self) -> &D {
        &self.rows
    }

    /// The row's columns as readers copy them, unless that is too large to be kept.
    pub(crate) fn body(&self, table: &Table, values: &[Value]) -> Option<Box<[u8]>> {
        body_to_keep(self.encode_row, table, values)
    }

    /// The time a commit leaves on what it changes.
    pub(crate) fn now(&self) -> Timestamp {
        self.mark.timestamp().cut_to_ms()
    }

    /// The epoch of the catalogue after this batch. Epochs of tables take it as their number, so
    /// that a table that is created again under its old id shares none with the one before.
    pub(crate) fn next_epoch(&self) -> u64 {
        self.state.catalogue.epoch + 1
    }

    pub(crate) fn project(&self, id: &ProjectId) -> Result<Arc<Project>, Refusal> {
        let project = self.state.catalogue.project(id.as_str()).cloned();
        project.ok_or_else(|| Refusal::NotFound(Container::Project, id.to_string()))
    }

    pub(crate) fn database(
        &self,
        project: &ProjectId,
        id: &DatabaseId,
    ) -> Result<Arc<Database>, Refusal> {
        let database = self.project(project)?.databases.get(id).cloned();
        database.ok_or_else(|| Refusal::NotFound(Container::Database, id.to_string()))
    }

    /// The table `id` of the same database, as it is now.
    pub(crate) fn table_beside(&self, table: &Table, id: &str) -> Result<Arc<Table>, Refusal> {
        let database = self.database(&table.project, &table.database)?;
        let found = database.tables.get(id).cloned();
        found.ok_or_else(|| Refusal::NotFound(Container::Table, id.to_owned()))
    }

    pub(crate) fn table_numbered(&self, number: TableNumber) -> Step<Arc<Table>> {
        let table = self.state.catalogue.table_by_number(number);
        Ok(Arc::clone(table.ok_or_else(|| {
            corrupt(format!(
                "a constraint names table {}, which is gone",
                number.0
            ))
        })?))
    }

    /// Takes one change of the catalogue in, for the operations that follow and for the report.
    pub(crate) fn change_catalogue(&mut self, change: CatalogueChange) {
        Arc::make_mut(&mut self.state.catalogue).apply(change.clone());
        self.catalogue.push(change);
    }
}
