//! Reads inside a transaction: of the rows as its commit would leave them.
//!
//! No cache is asked and none is filled: what they show is for this transaction alone.

use std::sync::Arc;

use futures_executor::block_on;
use model::{Catalogue, Marked, Page, RowId, Table};
use query::{Query, QueryError, RelatedNames};
use store::{OperationsOf, Refusal, StagedOperation, StoreError, Trial, WriteBatch};

use super::dry_run::{DryRunOutcome, batches, kept};
use crate::Engine;
use crate::error::{EngineError, ReadError};
use crate::read::related::{Gathering, Reads};
use crate::read::related_plan::{RelatedAsOf, related_plan};
use crate::read::rows::{get_with, related, selection};
use crate::request::authorize::{self, READ_ROWS};
use crate::request::inputs::{Caller, ListAnswer, ListRows, Place};
use crate::request::named_times::Timed;

impl Engine {
    /// A list inside a transaction.
    pub(crate) async fn list_staged(
        &self,
        caller: &Caller,
        id: &str,
        request: &ListRows<'_>,
        timed: Option<&Timed>,
    ) -> Result<ListAnswer, EngineError> {
        if let Some(timed) = timed {
            return self
                .list_staged_at(caller, id, (request, None), timed)
                .await;
        }
        self.under_catalogue(async |catalogue| {
            let query = self.resolve(catalogue, caller, request.place, request.texts)?;
            need_key_for_texts(caller, &query)?;
            let related = related(&query.table, request.texts)?;
            let staged = self.staged_of(catalogue, caller, id, request.place, &query.table);
            let staged = staged.await?;
            self.list_tried(catalogue, caller, (query, related), staged, request)
                .await
        })
        .await
    }

    async fn list_tried(
        &self,
        catalogue: &Arc<Catalogue>,
        caller: &Caller,
        (query, related): (Query, Vec<RelatedNames>),
        staged: Vec<WriteBatch>,
        request: &ListRows<'_>,
    ) -> Result<ListAnswer, EngineError> {
        let total = request.total.then_some(self.total_cap);
        let what = (&*query.table, &*related);
        let plans = related_plan(catalogue, caller, RelatedAsOf::Now, what).await?;
        let read =
            async move |reading: &mut Gathering<'_>| reading.list(&query, &plans, total).await;
        let read = self.read_staged(catalogue, caller, staged, read).await?;
        let of_guest = caller.is_guest();
        self.uncached_answer(read, request.family, of_guest).await
    }

    /// Reads what the batches would leave.
    pub(super) async fn read_staged<T: Send + 'static>(
        &self,
        catalogue: &Arc<Catalogue>,
        caller: &Caller,
        staged: Vec<WriteBatch>,
        mut read: impl AsyncFnMut(&mut Gathering<'_>) -> Result<T, EngineError> + Send + 'static,
    ) -> Result<Marked<T>, EngineError> {
        if staged.is_empty() {
            return self.in_turns(catalogue, caller, None, read).await;
        }
        let (catalogue, who) = (Arc::clone(catalogue), caller.clone());
        let bytes_max = self.answer_bytes_max;
        let tried = self.tried(caller, staged, move |preview| {
            let reads = Reads::Preview(preview);
            let mut reading = Gathering::new(reads, &catalogue, &who, None, bytes_max);
            Ok(block_on(read(&mut reading)))
        });
        let tried = tried.await?;
        Ok(Marked {
            answer: tried.seen?,
            mark: tried.mark,
        })
    }

    /// One row inside a transaction.
    pub(crate) async fn get_row_staged(
        &self,
        caller: &Caller,
        id: &str,
        place: Place<'_>,
        row: &RowId,
        texts: &[String],
    ) -> Result<Marked<Page>, EngineError> {
        self.under_catalogue(async |catalogue| {
            self.get_tried(catalogue, caller, id, (place, row), texts)
                .await
        })
        .await
    }

    async fn get_tried(
        &self,
        catalogue: &Arc<Catalogue>,
        caller: &Caller,
        id: &str,
        (place, row): (Place<'_>, &RowId),
        texts: &[String],
    ) -> Result<Marked<Page>, EngineError> {
        authorize::need_scope(caller, READ_ROWS)?;
        let table = authorize::table(catalogue, caller, place)?;
        let missing = || EngineError::Read(ReadError::RowNotFound(row.clone()));
        let visibility = query::visibility(table, &caller.actor);
        let visibility = visibility.ok_or_else(missing)?;
        let selection = selection(table, texts)?;
        let related = related(table, texts)?;
        let staged = self.staged_of(catalogue, caller, id, place, table).await?;
        let plans = related_plan(catalogue, caller, RelatedAsOf::Now, (table, &related)).await?;
        let read = get_with(table, row, (selection, visibility), plans);
        let Marked { answer, mark } = self.read_staged(catalogue, caller, staged, read).await?;
        let answer = answer.ok_or_else(missing)?;
        Ok(Marked { answer, mark })
    }

    /// What must be done before a table of the transaction can be read.
    pub(super) async fn staged_of(
        &self,
        catalogue: &Catalogue,
        caller: &Caller,
        id: &str,
        place: Place<'_>,
        table: &Arc<Table>,
    ) -> Result<Vec<WriteBatch>, EngineError> {
        let joined = self.joined_with(catalogue, table).await?;
        let wanted = match &joined {
            Some(places) => OperationsOf::Places(places),
            None => OperationsOf::Everything,
        };
        let (_, staged) = self.find_open(caller, READ_ROWS, id, wanted).await?;
        let named = format!("{}/{}", place.database, place.table);
        let is_own = |operation: &StagedOperation| operation.place == named;
        if !table.has_relationships() && !staged.iter().any(is_own) {
            return Ok(Vec::new());
        }
        Ok(batches(catalogue, caller, &kept(&staged)?))
    }

    /// The tables whose operations decide what becomes of those on this one; `None` is any.
    async fn joined_with(
        &self,
        catalogue: &Catalogue,
        table: &Table,
    ) -> Result<Option<Vec<String>>, EngineError> {
        let numbers = self.shared.store.referring(table.number).await?;
        let tables = numbers.into_iter();
        let tables = tables.filter_map(|number| catalogue.table_by_number(number));
        let mut places = Vec::new();
        for table in tables {
            // Deletions and links reach into related tables.
            if table.has_relationships() {
                return Ok(None);
            }
            places.push(format!("{}/{}", table.database, table.id));
        }
        Ok(Some(places))
    }

    async fn tried<T: Send + 'static>(
        &self,
        caller: &Caller,
        batches: Vec<WriteBatch>,
        look: impl FnOnce(&dyn store::Preview) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<DryRunOutcome<T>, EngineError> {
        let trial = Trial {
            batches,
            judges_end: true,
        };
        let tried = self.dry_run(caller, vec![trial], look).await?;
        let has_moved = |outcome: &store::Outcome| matches!(outcome, Err(Refusal::CatalogueMoved));
        if tried.outcomes.iter().any(has_moved) {
            return Err(StoreError::CatalogueMoved.into());
        }
        Ok(tried)
    }
}

/// Reads inside a transaction run on the thread that writes, where everybody would wait for what
/// a regular expression takes, or one step of the index of words.
///
/// # Errors
/// [`ReadError::Query`] for one of a caller without a key.
pub(super) fn need_key_for_texts(caller: &Caller, query: &Query) -> Result<(), EngineError> {
    if caller.actor.bypasses_grants() {
        return Ok(());
    }
    let methods = if query.has_patterns() {
        "`regex` needs"
    } else if query.has_searches() {
        "`search` and `notSearch` need"
    } else {
        return Ok(());
    };
    let why = format!("inside a transaction {methods} an API key");
    Err(QueryError::Invalid(why).into())
}
