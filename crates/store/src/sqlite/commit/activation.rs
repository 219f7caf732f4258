//! What is due comes in: by itself in slices, and before a batch that looks at it.
//!
//! Very many rows may become due at one instant, and a batch need not wait for all of them. One
//! that names its rows sees those as they are at its mark, and what must hold against all others
//! it is held to by their versions. One that looks further, by a filter or along relationships,
//! needs the tables it looks at brought up to its mark.

use std::collections::{BTreeMap, BTreeSet};

use model::{Catalogue, Mark, RowId, Table, TableNumber, Timestamp};
use rusqlite::params;

use super::writer::{End, Writer};
use crate::batch::{Applied, CatalogueOp, Op, RelatedOp, SchemaChange, WriteBatch};
use crate::error::corrupt;
use crate::laws::halt::{Halt, Step};
use crate::refusal::Refusal;
use crate::sqlite::schema::state;
use crate::sqlite::write::run::SqliteRun;
use crate::{DUE_ROWS_MAX, StoreError};

/// Which of the tables that are overdue a batch looks at.
#[derive(Default)]
struct Looks {
    /// Rows that it names, in tables without relationships.
    rows: BTreeMap<TableNumber, BTreeSet<RowId>>,
    /// Tables of which any row may concern it.
    tables: BTreeSet<TableNumber>,
}

impl Looks {
    fn new(catalogue: &Catalogue, batch: &WriteBatch) -> Looks {
        let mut looks = Looks::default();
        for op in &batch.ops {
            match op {
                Op::Row(op) => looks.at_row(catalogue, &op.table, &op.id),
                Op::Matching(op) => looks.at_table(catalogue, &op.query.table),
                Op::Related(op) => looks.at_table(catalogue, related_table(op)),
                Op::Catalogue(CatalogueOp::Constrain { table, .. }) => {
                    looks.at_table(catalogue, table);
                }
                Op::Catalogue(CatalogueOp::ChangeSchema { table, change }) => {
                    looks.at_table(catalogue, table);
                    if let SchemaChange::AddRelationship { related, .. } = change {
                        looks.at_table(catalogue, related);
                    }
                }
                // They look at no row of now.
                Op::Catalogue(_)
                | Op::Transaction(_)
                | Op::Function(_)
                | Op::Since(_)
                | Op::Once(_) => {}
            }
        }
        looks
    }

    fn at_row(&mut self, catalogue: &Catalogue, table: &Table, id: &RowId) {
        if table.relations().next().is_some() {
            self.at_table(catalogue, table);
        } else {
            self.rows
                .entry(table.number)
                .or_default()
                .insert(id.clone());
        }
    }

    /// With all tables that relationships lead to from there.
    fn at_table(&mut self, catalogue: &Catalogue, table: &Table) {
        let project = catalogue.project(table.project.as_str());
        let database = project.and_then(|project| project.databases.get(&table.database));
        let mut open = vec![table];
        while let Some(table) = open.pop() {
            if self.tables.insert(table.number) {
                let beside = table.relations().filter_map(|(_, relation)| {
                    let database = database?;
                    database.tables.get(&relation.related).map(|table| &**table)
                });
                open.extend(beside);
            }
        }
    }
}

fn related_table(op: &RelatedOp) -> &Table {
    match op {
        RelatedOp::Need { table, .. } | RelatedOp::NeedUnlinked { table, .. } => table,
        RelatedOp::Write(op) | RelatedOp::Alone(op) => &op.table,
        RelatedOp::Link(op) => &op.table,
        RelatedOp::Free(op) | RelatedOp::Hold(op) => &op.table,
    }
}

impl Writer {
    /// Runs one batch after what it looks at was activated, of which at most `left` rows more
    /// that it does not name.
    pub(crate) fn run_settled(
        &mut self,
        batch: &WriteBatch,
        mark: Mark,
        left: &mut usize,
    ) -> Result<Applied, End> {
        let instant = mark.timestamp();
        if !self.is_due(instant) {
            return self.run(batch, mark);
        }
        let mut looks = Looks::new(&self.state().catalogue, batch);
        looks
            .tables
            .retain(|table| self.is_overdue(*table, instant));
        looks
            .rows
            .retain(|table, _| self.is_overdue(*table, instant));
        self.activate_named(&looks.rows, instant)
            .map_err(End::WithAll)?;
        if looks.tables.is_empty() {
            let ran = self.run(batch, mark);
            let is_refused = matches!(&ran, Err(End::Alone(refusal)) if refusal.is_unique());
            if !is_refused || looks.rows.is_empty() {
                return ran;
            }
        }
        // What stands in the way may be due to go.
        looks.tables.extend(looks.rows.keys());
        let activated = self.activate(instant, *left, Some(&looks.tables));
        *left -= activated.map_err(End::WithAll)?.min(*left);
        let mut tables = looks.tables.iter();
        match tables.find(|table| self.is_overdue(**table, instant)) {
            Some(table) => Err(End::Alone(Refusal::Behind(*table))),
            None => self.run(batch, mark),
        }
    }

    fn is_due(&self, instant: Timestamp) -> bool {
        self.state().boundaries.values().any(|at| *at <= instant)
    }

    fn is_overdue(&self, table: TableNumber, instant: Timestamp) -> bool {
        let boundary = self.state().boundaries.get(&table);
        boundary.is_some_and(|at| *at <= instant)
    }

    /// Activates all that is due at `instant`.
    pub(crate) fn activate_all(&mut self, instant: Timestamp) -> Result<(), StoreError> {
        self.activate(instant, usize::MAX, None).map(drop)
    }

    /// Inside the open transaction: activates what is due at `instant`, of `only` these tables if
    /// some are named, and at most `count_max` rows; how many.
    fn activate(
        &mut self,
        instant: Timestamp,
        count_max: usize,
        only: Option<&BTreeSet<TableNumber>>,
    ) -> Result<usize, StoreError> {
        if !self.is_due(instant) {
            return Ok(0);
        }
        self.show_due(instant, |run| run.import_rows(instant, count_max, only))
    }

    fn activate_named(
        &mut self,
        rows: &BTreeMap<TableNumber, BTreeSet<RowId>>,
        instant: Timestamp,
    ) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        let shown = self.show_due(instant, |run| {
            let mut stale = Vec::new();
            for (number, ids) in rows {
                let table = run.state.catalogue.table_by_number(*number).cloned();
                if let Some(table) = table {
                    stale.extend(run.due_among(&table, ids, instant)?);
                }
            }
            let count = stale.len();
            run.refresh(stale, instant, None)?;
            Ok(count)
        });
        shown.map(drop)
    }

    fn show_due(
        &mut self,
        instant: Timestamp,
        show: impl FnOnce(&mut SqliteRun<'_, '_>) -> Step<usize>,
    ) -> Result<usize, StoreError> {
        let mut run = self.run_without_batch(instant);
        let count = match show(&mut run) {
            Ok(count) => count,
            Err(Halt::Failed(error)) => return Err(error),
            Err(Halt::Refused(refusal)) => return Err(no_refusal(&refusal)),
        };
        let (state, touched) = (run.state, run.touched);
        self.include_due(state, touched);
        if count > 0 {
            // Whether or not a batch takes the mark of this instant.
            self.store_instant(instant)?;
        }
        Ok(count)
    }

    /// See [`crate::StoreWrites::activate_due`]: the transaction stays open.
    ///
    /// # Errors
    /// What the database says; then no transaction is open.
    pub(crate) fn begin_due(&mut self, instant: Timestamp) -> Result<(), StoreError> {
        self.begin()?;
        let activated = self.activate(instant, DUE_ROWS_MAX, None);
        let stored = activated.and_then(|_| self.store_instant(instant));
        if stored.is_err() {
            self.rollback();
        }
        stored
    }

    /// Says of which instant the tables of now show something. No mark to come is below that: what
    /// was shown once is not taken back by a clock that steps.
    fn store_instant(&mut self, instant: Timestamp) -> Result<(), StoreError> {
        self.connection
            .prepare_cached("UPDATE meta SET x_at = max(x_at, ?1)")?
            .execute(params![instant.0])?;
        self.state.horizon = self.state.horizon.max(Mark(instant.0 - 1));
        state::write(&self.connection, &self.state)?;
        Ok(())
    }
}

/// A refusal arose where none may: what is due was checked when it was written.
fn no_refusal(refusal: &Refusal) -> StoreError {
    corrupt(format!("what is due cannot be shown: {refusal:?}"))
}
