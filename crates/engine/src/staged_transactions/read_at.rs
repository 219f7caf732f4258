//! Reads inside a transaction at other times than now.
//!
//! Of another valid time they show the rows as the commit would leave them. Of another system time
//! they show what was known then, and nothing that is staged: no commit changes that.

use std::sync::Arc;

use model::{Catalogue, RowId};
use query::QueryError;
use store::OperationsOf;

use super::read::need_key_for_texts;
use crate::Engine;
use crate::error::{AccessError, EngineError, ReadError};
use crate::read::coordinates::{Viewed, need_one_instant};
use crate::read::related::Gathering;
use crate::request::authorize::{self, READ_ROWS};
use crate::request::inputs::{Caller, GrantsAsOf, ListAnswer, ListRows};
use crate::request::named_times::Timed;

/// A list, or one row of it.
type ShapeCounts<'a> = (&'a ListRows<'a>, Option<&'a RowId>);

impl Engine {
    /// One row inside a transaction, at the times that its queries name.
    pub(crate) async fn get_row_staged_at(
        &self,
        caller: &Caller,
        id: &str,
        list: &ListRows<'_>,
        row: &RowId,
        timed: &Timed,
    ) -> Result<ListAnswer, EngineError> {
        need_one_instant(timed)?;
        let listed = self.list_staged_at(caller, id, (list, Some(row)), timed);
        match listed.await {
            // A row that cannot be read is not there.
            Err(EngineError::Access(AccessError::Unauthorized)) => {
                Err(ReadError::RowNotFound(row.clone()).into())
            }
            answer => answer,
        }
    }

    pub(super) async fn list_staged_at(
        &self,
        caller: &Caller,
        id: &str,
        (list, only): ShapeCounts<'_>,
        timed: &Timed,
    ) -> Result<ListAnswer, EngineError> {
        if timed.times.system.is_some() {
            // It must be open, and the caller's.
            let nothing = OperationsOf::Nothing;
            self.find_open(caller, READ_ROWS, id, nothing).await?;
            return self.answer_committed(caller, (list, only), timed).await;
        }
        if timed.times.shows_versions() {
            let name = match timed.times.changed {
                Some(_) => "systemBetween",
                None => "versions",
            };
            let why = format!(
                "inside a transaction `{name}` needs `asOf`: what is staged is no version yet"
            );
            return Err(QueryError::Invalid(why).into());
        }
        self.under_catalogue(async |catalogue| {
            self.list_tried_at(catalogue, caller, id, (list, only), timed)
                .await
        })
        .await
    }

    /// What is asked, of what is committed.
    async fn answer_committed(
        &self,
        caller: &Caller,
        (list, only): ShapeCounts<'_>,
        timed: &Timed,
    ) -> Result<ListAnswer, EngineError> {
        let grants = GrantsAsOf::Today;
        match only {
            None => self.list_at(caller, list, timed, grants).await,
            Some(row) => self.get_row_at(caller, list, row, timed, grants).await,
        }
    }

    async fn list_tried_at(
        &self,
        catalogue: &Arc<Catalogue>,
        caller: &Caller,
        id: &str,
        (list, only): ShapeCounts<'_>,
        timed: &Timed,
    ) -> Result<ListAnswer, EngineError> {
        let request = (list, only);
        let Viewed { query, related } = self.view_staged(catalogue, caller, request, timed).await?;
        need_key_for_texts(caller, &query)?;
        let table = authorize::table(catalogue, caller, list.place)?;
        let staged = self.staged_of(catalogue, caller, id, list.place, table);
        let staged = staged.await?;
        if staged.is_empty() {
            return self.answer_committed(caller, request, timed).await;
        }
        let total = list.total.then_some(self.total_cap);
        let read = async move |reading: &mut Gathering<'_>| {
            reading.at = query.at;
            reading.list(&query, &related, total).await
        };
        let read = self.read_staged(catalogue, caller, staged, read).await?;
        if let (Some(row), true) = (only, read.answer.0.rows.is_empty()) {
            return Err(ReadError::RowNotFound(row.clone()).into());
        }
        let of_guest = caller.is_guest();
        self.uncached_answer(read, list.family, of_guest).await
    }
}
