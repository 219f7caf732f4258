//! What is asked again and again: parsed, resolved and named once for each catalogue.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use list_cache::{Key, Part};
use model::{Page, RowId, Selection, Table};
use query::Visibility;
use store::Point;

use crate::Engine;
use crate::asked::{Cached, Caller, ListAnswer, ListRows, Place};
use crate::authorize;
use crate::error::EngineError;
use crate::rows::READ_ROWS;

/// The names under which the cache may hold the answer to one list of one caller.
#[derive(Debug)]
pub struct PreparedList {
    catalogue_epoch: u64,
    purges: u64,
    rows: Key,
    /// `None` where no total is wanted.
    total: Option<Key>,
    ttl_s: u32,
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
            visibility: visibility.ok_or(EngineError::Unauthorized)?,
        })
    }

    /// One row of it, as a page, if it is read without waiting. For the caller it was prepared
    /// for, who must have been asked about anew. Whatever goes wrong, [`Engine::get_row`] says
    /// what it is.
    pub fn row_at_once(&self, prepared: &PreparedTable, id: &RowId) -> Option<Page> {
        if prepared.catalogue_epoch != self.shared.catalogue_epoch() {
            return None;
        }
        let point = Point {
            table: &prepared.table,
            id,
            selection: &Selection::All,
            visibility: &prepared.visibility,
            at: None,
            catalogue_epoch: prepared.catalogue_epoch,
        };
        let read = pin!(self.shared.store.get(point));
        let Poll::Ready(Ok(snapshot)) = read.poll(&mut Context::from_waker(Waker::noop())) else {
            return None;
        };
        Some(Page {
            table: prepared.table.clone(),
            selection: Selection::All,
            rows: vec![snapshot.answer?],
            related: Vec::new(),
        })
    }

    /// Prepares a list that may be answered from the cache alone; `None` where the answer needs
    /// the store as well.
    ///
    /// # Errors
    /// Whatever keeps the caller from reading, or the query from being answered.
    pub fn prepare(
        &self,
        caller: &Caller,
        asked: &ListRows<'_>,
    ) -> Result<Option<PreparedList>, EngineError> {
        if asked.ttl_s == 0 || !self.caches_lists {
            return Ok(None);
        }
        let lists = &self.shared.lists;
        // Before the keys are made: a purge in between makes them too old, never too young.
        let purges = lists.purges();
        let catalogue = self.catalogue();
        let query = self.resolve(&catalogue, caller, asked.place, asked.texts)?;
        // Related rows and random order are never cached, and whether the cursor's row is still
        // there only the store knows.
        let needs_store = query.random
            || query.cursor.is_some()
            || query.filters_relationships()
            || query.table.has_relationships();
        if needs_store {
            return Ok(None);
        }
        Ok(Some(PreparedList {
            catalogue_epoch: catalogue.epoch,
            purges,
            rows: lists.key(&query, Part::Rows(asked.family)),
            total: asked.total.then(|| lists.key(&query, Part::Total)),
            ttl_s: asked.ttl_s,
        }))
    }

    /// Whether the list would be prepared alike now.
    pub fn is_current(&self, list: &PreparedList) -> bool {
        list.catalogue_epoch == self.shared.catalogue_epoch()
            && list.purges == self.shared.lists.purges()
    }

    /// The answer to a list that is current, if the cache holds all of it. For the caller it was
    /// prepared for, who must have been asked about anew.
    pub fn held(&self, list: &PreparedList) -> Option<ListAnswer> {
        if !self.is_current(list) {
            return None;
        }
        let lists = &self.shared.lists;
        let now_ms = self.shared.clock.elapsed_ms();
        let total = match &list.total {
            Some(key) => lists.total(key, list.ttl_s, now_ms)?.count,
            None => 0,
        };
        let rows = lists.young_rows(&list.rows, list.ttl_s, now_ms)?;
        Some(ListAnswer {
            rows: rows.body,
            tag: rows.tag,
            total,
            cached: Some(Cached::Hit {
                age_s: now_ms.saturating_sub(rows.read_ms) / 1_000,
            }),
            mark: rows.mark,
        })
    }
}
