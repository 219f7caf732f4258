//! What is asked again and again: parsed, resolved and named once for each catalogue.

use std::sync::Arc;

use list_cache::{Contract, Family, ListRequest, Names};
use model::{Marked, RowId, RowRef, Selection, Table, TableNumber};
use query::{Query, Visibility};
use store::Point;

use crate::Engine;
use crate::error::{AccessError, EngineError};
use crate::read::hit_audit::Hit;
use crate::read::rows::related;
use crate::request::authorize::{self, READ_ROWS};
use crate::request::inputs::{Cached, Caller, ListAnswer, ListRows, Place};
use crate::request::named_times::timed;
use crate::state::observed::ObservedShape;

/// The names under which the cache may hold the answer to one list of one caller.
#[derive(Debug)]
pub struct PreparedList {
    catalogue_epoch: u64,
    table: TableNumber,
    names: Names,
    /// What the names stand for, where hits are compared with fresh reads.
    request: Option<(Box<Query>, Family)>,
    /// What its answers are counted as.
    pub(crate) shape: Arc<ObservedShape>,
}

impl PreparedList {
    /// Bytes it takes in memory, about.
    pub fn size_bytes(&self) -> usize {
        self.names.size_bytes()
    }
}

/// A table whose rows one caller reads by their ids.
#[derive(Debug)]
pub struct PreparedTable {
    catalogue_epoch: u64,
    table: Arc<Table>,
    visibility: Visibility,
}

impl Engine {
    /// Prepares a table for reads of single rows.
    ///
    /// # Errors
    /// Whatever keeps the caller from reading any of its rows.
    pub fn prepare_table(
        &self,
        caller: &Caller,
        place: Place<'_>,
    ) -> Result<PreparedTable, EngineError> {
        authorize::need_scope(caller, READ_ROWS)?;
        let catalogue = self.catalogue();
        let table = authorize::table(&catalogue, caller, place)?;
        let visibility = query::visibility(table, &caller.actor);
        Ok(PreparedTable {
            catalogue_epoch: catalogue.epoch,
            table: table.clone(),
            visibility: visibility.ok_or(AccessError::Unauthorized)?,
        })
    }

    /// One row of it, as it is written from where it was read, with the mark it is true for, if it
    /// is read without waiting. For the caller it was prepared for, whose grants must have been
    /// checked again. Whatever goes wrong, [`Engine::get_row`] says what it is.
    pub fn row_at_once<T>(
        &self,
        prepared: &PreparedTable,
        id: &RowId,
        write: impl FnOnce(&Arc<Table>, RowRef<'_>) -> T,
    ) -> Option<Marked<T>> {
        let before = self.shared.before(Some(prepared.table.number));
        if prepared.catalogue_epoch != self.shared.catalogue_epoch()
            || self.shared.overdue(prepared.table.number).is_some()
        {
            return None;
        }
        let point = Point {
            table: &prepared.table,
            id,
            selection: &Selection::All,
            visibility: &prepared.visibility,
            at: None,
            shows_span: false,
            catalogue_epoch: prepared.catalogue_epoch,
        };
        let (mut write, mut written) = (Some(write), None);
        let mut show = |row: RowRef<'_>| {
            written = write.take().map(|write| write(&prepared.table, row));
        };
        let mark = self
            .shared
            .store
            .at_once()?
            .show_at_once(point, &mut show)
            .ok()?;
        if self.shared.is_torn(&before, mark) {
            return None;
        }
        let answer = written?;
        Some(Marked { answer, mark })
    }

    /// Prepares a list that may be answered from the cache alone; `None` where the answer needs
    /// the store as well.
    ///
    /// # Errors
    /// Whatever keeps the caller from reading, or the query from being answered.
    pub fn prepare(
        &self,
        caller: &Caller,
        request: &ListRows<'_>,
    ) -> Result<Option<PreparedList>, EngineError> {
        if timed(request.texts)?.is_some() {
            return Ok(None);
        }
        let catalogue = self.catalogue();
        let query = self.resolve(&catalogue, caller, request.place, request.texts)?;
        let Some(contract) = self.contract(caller, request, &query) else {
            return Ok(None);
        };
        // Within a `ttl`, whether the cursor's row is still there only the store knows.
        let needs_store = query.cursor.is_some() && contract != Contract::Exact;
        if needs_store || !related(&query.table, request.texts)?.is_empty() {
            return Ok(None);
        }
        let names = self.shared.lists.name(ListRequest {
            query: &query,
            family: request.family,
            total: request.total,
            contract,
        });
        Ok(Some(PreparedList {
            catalogue_epoch: catalogue.epoch,
            table: query.table.number,
            shape: self.shape_of(&query),
            names,
            request: (self.compared().is_some() && contract == Contract::Exact)
                .then(|| (Box::new(query), request.family)),
        }))
    }

    /// Counts answers that were given by [`Engine::held`].
    pub fn count_held(&self, list: &PreparedList, count: u64) {
        list.shape.hit(count);
    }

    /// The answer to a list, if the cache holds all of it and the list would be prepared alike
    /// now. For the caller it was prepared for, whose grants must have been checked again.
    pub fn held(&self, list: &PreparedList) -> Option<ListAnswer> {
        let before = self.shared.before(Some(list.table));
        if list.catalogue_epoch != self.shared.catalogue_epoch()
            || self.shared.overdue(list.table).is_some()
        {
            return None;
        }
        let now_ms = self.shared.clock.elapsed_ms();
        let answer = self.shared.lists.look(&list.names, now_ms)?;
        // A caller that may read more may have filled it since this one was checked, or
        // one that read across a boundary.
        if list.catalogue_epoch != self.shared.catalogue_epoch()
            || (answer.is_stale.is_none() && self.shared.has_passed(&before))
        {
            return None;
        }
        if let Some((query, family)) = &list.request {
            self.look_again(|| Hit::of(query, *family, list.catalogue_epoch, &answer));
        }
        Some(ListAnswer {
            rows: answer.rows.body,
            tag: answer.rows.tag,
            total: answer.total.unwrap_or(0),
            cached: Some(Cached {
                is_hit: answer.is_hit,
                age_s: now_ms.saturating_sub(answer.rows.read_ms) / 1_000,
                is_stale: answer.is_stale,
            }),
            mark: answer.rows.mark,
            fixed: None,
            is_erased: false,
        })
    }
}
