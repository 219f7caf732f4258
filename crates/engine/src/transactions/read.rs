//! Reads inside a transaction: of the rows as its commit would leave them.
//!
//! No cache is asked and none is filled: what they show is nobody else's.

use std::sync::Arc;

use model::{Catalogue, Marked, Page, RowId, Selection, Table};
use query::{Query, Visibility};
use store::{Listed, Listing, OperationsOf, Point, Refusal, StoreError, WriteBatch};

use super::trial::{Tried, batches, kept};
use crate::Engine;
use crate::asked::{Caller, ListAnswer, ListRows, Place};
use crate::authorize;
use crate::error::EngineError;
use crate::rows::{ATTEMPTS_MAX, READ_ROWS, related, selection, times};

impl Engine {
    /// As [`Engine::list_rows`], inside a transaction; never from a cache.
    ///
    /// # Errors
    /// [`EngineError::TransactionNotFound`], [`EngineError::TransactionEnded`],
    /// [`EngineError::TransactionExpired`]; [`EngineError::Timeout`] when what was staged and the
    /// read take more than a second; [`EngineError::Unsupported`] for related rows.
    pub async fn list_rows_staged(
        &self,
        caller: &Caller,
        id: &str,
        asked: &ListRows<'_>,
    ) -> Result<ListAnswer, EngineError> {
        for _ in 0..ATTEMPTS_MAX {
            let seen = self.shared.marks.publications();
            let catalogue = self.catalogue();
            need_now(asked.texts)?;
            let query = self.resolve(&catalogue, caller, asked.place, asked.texts)?;
            need_no_related(&query.table, asked.texts)?;
            let trial = self.staged_of(&catalogue, caller, id, asked.place, &query.table);
            let trial = trial.await?;
            match self
                .list_tried(&catalogue, caller, &query, trial, asked)
                .await
            {
                Err(EngineError::Store(StoreError::CatalogueMoved)) => {
                    self.shared.newer_catalogue(catalogue.epoch, seen).await;
                }
                answer => return answer,
            }
        }
        Err(EngineError::Overloaded)
    }

    async fn list_tried(
        &self,
        catalogue: &Catalogue,
        caller: &Caller,
        query: &Query,
        trial: Vec<WriteBatch>,
        asked: &ListRows<'_>,
    ) -> Result<ListAnswer, EngineError> {
        let listing = ListingOf {
            query: query.clone(),
            total: asked.total.then_some(self.total_cap),
            epoch: catalogue.epoch,
        };
        let (listed, mark) = if trial.is_empty() {
            let read = self.shared.store.list(listing.listing()).await?;
            (read.answer, read.mark)
        } else {
            let tried = self.tried(caller, trial, move |preview| {
                preview.list(listing.listing())
            });
            let tried = tried.await?;
            (tried.seen, tried.mark)
        };
        let Listed { rows, total, .. } = listed;
        let page = Page {
            table: query.table.clone(),
            selection: query.selection.clone(),
            rows,
            related: Vec::new(),
        };
        let body = (self.shared.encode_page)(&page, asked.family);
        Ok(ListAnswer {
            tag: self.fingerprint(&body),
            rows: body.into(),
            total,
            cached: None,
            mark,
            fixed: None,
        })
    }

    /// As [`Engine::get_row`], inside a transaction.
    ///
    /// # Errors
    /// As for [`Engine::list_rows_staged`]; [`EngineError::RowNotFound`].
    pub async fn get_row_staged(
        &self,
        caller: &Caller,
        id: &str,
        place: Place<'_>,
        row: &RowId,
        texts: &[String],
    ) -> Result<Marked<Page>, EngineError> {
        need_now(texts)?;
        for _ in 0..ATTEMPTS_MAX {
            let seen = self.shared.marks.publications();
            let catalogue = self.catalogue();
            let got = self.get_tried(&catalogue, caller, id, (place, row), texts);
            match got.await {
                Err(EngineError::Store(StoreError::CatalogueMoved)) => {
                    self.shared.newer_catalogue(catalogue.epoch, seen).await;
                }
                answer => return answer,
            }
        }
        Err(EngineError::Overloaded)
    }

    async fn get_tried(
        &self,
        catalogue: &Catalogue,
        caller: &Caller,
        id: &str,
        (place, row): (Place<'_>, &RowId),
        texts: &[String],
    ) -> Result<Marked<Page>, EngineError> {
        authorize::need_scope(caller, READ_ROWS)?;
        let table = authorize::table(catalogue, caller, place)?;
        let missing = || EngineError::RowNotFound(row.clone());
        let visibility = query::visibility(table, &caller.actor);
        let visibility = visibility.ok_or_else(missing)?;
        let selection = selection(table, texts)?;
        need_no_related(table, texts)?;
        let trial = self.staged_of(catalogue, caller, id, place, table).await?;
        let point = PointOf {
            table: table.clone(),
            id: row.clone(),
            selection: selection.clone(),
            visibility,
            epoch: catalogue.epoch,
        };
        let (found, mark) = if trial.is_empty() {
            let read = self.shared.store.get(point.point()).await?;
            (read.answer, read.mark)
        } else {
            let tried = self.tried(caller, trial, move |preview| preview.get(point.point()));
            let tried = tried.await?;
            (tried.seen, tried.mark)
        };
        Ok(Marked {
            answer: Page {
                table: table.clone(),
                selection,
                rows: vec![found.ok_or_else(missing)?],
                related: Vec::new(),
            },
            mark,
        })
    }

    /// What must be done before a table of the transaction can be read.
    async fn staged_of(
        &self,
        catalogue: &Catalogue,
        caller: &Caller,
        id: &str,
        place: Place<'_>,
        table: &Arc<Table>,
    ) -> Result<Vec<WriteBatch>, EngineError> {
        let named = format!("{}/{}", place.database, place.table);
        // Deletions and links reach into related tables.
        let wanted = if table.has_relationships() {
            OperationsOf::Everything
        } else {
            OperationsOf::Place(&named)
        };
        let (_, staged) = self.find_open(caller, READ_ROWS, id, wanted).await?;
        Ok(batches(catalogue, caller, &kept(&staged)?))
    }

    async fn tried<T: Send + 'static>(
        &self,
        caller: &Caller,
        batches: Vec<WriteBatch>,
        look: impl FnOnce(&dyn store::Preview) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Tried<T>, EngineError> {
        let tried = self.try_out(caller, batches, look).await?;
        let has_moved = |outcome: &store::Outcome| matches!(outcome, Err(Refusal::CatalogueMoved));
        if tried.outcomes.iter().any(has_moved) {
            return Err(StoreError::CatalogueMoved.into());
        }
        Ok(tried)
    }
}

/// A listing with all it borrows.
struct ListingOf {
    query: Query,
    total: Option<store::TotalCap>,
    epoch: u64,
}

impl ListingOf {
    fn listing(&self) -> Listing<'_> {
        Listing {
            query: &self.query,
            rows: true,
            total: self.total,
            place: false,
            catalogue_epoch: self.epoch,
        }
    }
}

/// A point with all it borrows.
struct PointOf {
    table: Arc<Table>,
    id: RowId,
    selection: Selection,
    visibility: Visibility,
    epoch: u64,
}

impl PointOf {
    fn point(&self) -> Point<'_> {
        Point {
            table: &self.table,
            id: &self.id,
            selection: &self.selection,
            visibility: &self.visibility,
            at: None,
            catalogue_epoch: self.epoch,
        }
    }
}

/// What a transaction would leave is read as of now only.
fn need_now(texts: &[String]) -> Result<(), EngineError> {
    if times(texts)?.is_none() {
        return Ok(());
    }
    let what = "A read at another time than now inside a transaction".to_owned();
    Err(EngineError::Unsupported(what))
}

fn need_no_related(table: &Table, texts: &[String]) -> Result<(), EngineError> {
    if related(table, texts)?.is_empty() {
        return Ok(());
    }
    let what = "Selecting related rows inside a transaction".to_owned();
    Err(EngineError::Unsupported(what))
}
