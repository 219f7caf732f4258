//! What is due comes in before a batch that looks at it.
//!
//! Very many rows may become due at one instant, and a batch need not wait for all of them. One
//! that names its rows sees those as they are at its mark, and what must hold against all others
//! it is held to by their versions. One that looks further, by a filter or along relationships,
//! needs the tables it looks at brought up to its mark.

use std::collections::{BTreeMap, BTreeSet};

use model::{Catalogue, Mark, RowId, Table, TableNumber, Timestamp};

use super::due::DueRows;
use super::state::State;
use crate::StoreError;
use crate::batch::{Applied, CatalogueOp, Op, RelatedOp, SchemaChange, WriteBatch};
use crate::refusal::Refusal;

/// How a batch ended other than by success.
pub(crate) enum BatchEnd {
    /// Nothing of it stays, and the transaction lives.
    Alone(Refusal),
    /// The whole transaction has ended over it.
    WithAll(StoreError),
}

/// Batches that run one after the other in an open transaction.
pub(crate) trait SettledGroup {
    /// As of the open transaction.
    fn state(&self) -> &State;

    /// Runs a batch at a mark, whole or not at all.
    fn run(&mut self, batch: &WriteBatch, mark: Mark) -> Result<Applied, BatchEnd>;

    /// Shows rows as they are at the instant, by which they are due; how many.
    fn show_due(&mut self, instant: Timestamp, which: DueRows<'_>) -> Result<usize, StoreError>;
}

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

/// Runs one batch after what it looks at was activated, of which at most `left` rows more that it
/// does not name.
pub(crate) fn run_settled(
    group: &mut impl SettledGroup,
    batch: &WriteBatch,
    mark: Mark,
    left: &mut usize,
) -> Result<Applied, BatchEnd> {
    let instant = mark.timestamp();
    if !group.state().is_due(instant) {
        return group.run(batch, mark);
    }
    let mut looks = Looks::new(&group.state().catalogue, batch);
    let state = group.state();
    looks
        .tables
        .retain(|table| state.is_overdue(*table, instant));
    looks
        .rows
        .retain(|table, _| state.is_overdue(*table, instant));
    if !looks.rows.is_empty() {
        let shown = group.show_due(instant, DueRows::Named(&looks.rows));
        shown.map_err(BatchEnd::WithAll)?;
    }
    if looks.tables.is_empty() {
        let ran = group.run(batch, mark);
        let is_refused = matches!(&ran, Err(BatchEnd::Alone(refusal)) if refusal.is_unique());
        if !is_refused || looks.rows.is_empty() {
            return ran;
        }
    }
    // What stands in the way may be due to go.
    looks.tables.extend(looks.rows.keys());
    if group.state().is_due(instant) {
        let first = DueRows::First {
            count_max: *left,
            only: Some(&looks.tables),
        };
        let shown = group.show_due(instant, first).map_err(BatchEnd::WithAll)?;
        *left -= shown.min(*left);
    }
    let mut tables = looks.tables.iter();
    match tables.find(|table| group.state().is_overdue(**table, instant)) {
        Some(table) => Err(BatchEnd::Alone(Refusal::Behind(*table))),
        None => group.run(batch, mark),
    }
}
