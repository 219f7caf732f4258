//! Whether rows that an answer about the past may have shown once are erased since.
//!
//! Known is the last erasure in each table, so an answer that does not say so has lost nothing.
//! Which row was erased is known no more.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Mark, Table, TableNumber};
use query::{Frame, Query};

use crate::Engine;
use crate::error::EngineError;
use crate::read::related_plan::RelatedPlan;
use crate::request::authorize::{self, READ_ROWS};
use crate::request::inputs::Caller;
#[cfg(feature = "test-switches")]
use crate::state::shared::ErasureFault;

impl Engine {
    /// Whether a row was erased after this mark in these tables of a database, by their ids;
    /// without any, in one of all its tables. To be asked after they were read. For keys only.
    ///
    /// # Errors
    /// What keeps the caller from reading; what the store says.
    pub async fn erased_after(
        &self,
        caller: &Caller,
        database: &str,
        tables: Option<&BTreeSet<String>>,
        mark: Mark,
    ) -> Result<bool, EngineError> {
        authorize::need_key(caller, READ_ROWS)?;
        let catalogue = self.catalogue();
        let database = authorize::database(&catalogue, caller, database)?;
        let is_meant =
            |table: &&Arc<Table>| tables.is_none_or(|ids| ids.contains(table.id.as_str()));
        let meant = database.tables.values().filter(is_meant);
        let numbers: Vec<TableNumber> = meant.map(|table| table.number).collect();
        self.has_erased(&numbers, mark).await
    }

    /// Whether a row was erased after this mark in one of these tables. To be asked after they
    /// were read: what was erased before is not in the answer, and what is erased later may be.
    pub(crate) async fn has_erased(
        &self,
        tables: &[TableNumber],
        after: Mark,
    ) -> Result<bool, EngineError> {
        let last = self.shared.store.last_erasure(tables).await?;
        #[cfg(feature = "test-switches")]
        if let Some(fault) = self.shared.erasure_fault.get() {
            return Ok(*fault == ErasureFault::OfAnyTime && last.is_some());
        }
        Ok(last.is_some_and(|last| after < last))
    }
}

/// The earliest mark whose knowledge an answer to the query shows.
pub(crate) fn looks_back_to(query: &Query) -> Mark {
    let at = query.at.map_or(Mark(i64::MAX), |at| at.system);
    match query.frame {
        Frame::One | Frame::Due(_) | Frame::Pieces(_) => at,
        Frame::Versions(_) => Mark(query.table.options.kept_from.0),
        Frame::Changes(_, system) => at.min(Mark(system.from().0)),
    }
}

/// The tables of a query and of what is selected of related rows.
pub(crate) fn tables_of(query: &Query, related: &[RelatedPlan]) -> Vec<TableNumber> {
    let mut numbers = vec![query.table.number];
    let mut plans: Vec<&RelatedPlan> = related.iter().collect();
    while let Some(plan) = plans.pop() {
        numbers.push(plan.table.number);
        plans.extend(&plan.further);
    }
    numbers
}
