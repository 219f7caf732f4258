//! The one entry of reads of rows: lists and single rows, of whichever state a view names.

use model::{Marked, Page, RowId};

use crate::Engine;
use crate::error::EngineError;
use crate::read::coordinates::need_mark;
use crate::request::inputs::{Caller, GrantsAsOf, ListAnswer, ListRows};
use crate::request::named_times::timed;

/// The state of the rows that a read shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View<'a> {
    /// What is committed: now, or at the times that the queries name.
    Committed(GrantsAsOf),
    /// What the commit of this transaction would leave, never from a cache. Of another system time
    /// it shows what was known then and nothing that is staged.
    Staged(&'a str),
}

impl View<'_> {
    /// What is committed, as today's grants show it.
    pub const CURRENT: View<'static> = View::Committed(GrantsAsOf::Today);
}

/// A row that was read.
#[derive(Clone, Debug)]
pub enum RowAnswer {
    /// A page of one row, of the present.
    Page(Marked<Page>),
    /// A list of one row, at the times that the queries name.
    AtTimes(ListAnswer),
}

impl Engine {
    /// Lists rows. The answer may be cached: exact, or, with `ttl_s` above 0, up to that age.
    ///
    /// # Errors
    /// Whatever keeps the caller from reading, or the query from being answered;
    /// [`EngineError::Argument`] for [`GrantsAsOf::Mark`] without `asOf`. Of a staged view
    /// [`crate::TransactionError::NotFound`], [`crate::TransactionError::Ended`],
    /// [`crate::TransactionError::Expired`]; [`crate::ReadError::Timeout`] when what was staged and
    /// the read take too long (a second; a tenth of it without a key);
    /// [`crate::Unavailable::DryRunsBusy`].
    pub async fn list_rows(
        &self,
        caller: &Caller,
        list: &ListRows<'_>,
        view: View<'_>,
    ) -> Result<ListAnswer, EngineError> {
        let timed = timed(list.texts)?;
        match (view, timed) {
            // Boxed, so that other reads do not carry its state around.
            (View::Staged(id), timed) => {
                Box::pin(self.list_staged(caller, id, list, timed.as_ref())).await
            }
            (View::Committed(grants), None) => {
                need_mark(None, grants)?;
                self.list_current(caller, list).await
            }
            (View::Committed(grants), Some(timed)) => {
                need_mark(Some(&timed), grants)?;
                Box::pin(self.list_at(caller, list, &timed, grants)).await
            }
        }
    }

    /// One row by its id. Of the texts, only `select` and those that name one instant are
    /// understood.
    ///
    /// # Errors
    /// [`crate::ReadError::RowNotFound`] also when the caller may not read it; else as for
    /// [`Engine::list_rows`].
    pub async fn get_row(
        &self,
        caller: &Caller,
        list: &ListRows<'_>,
        id: &RowId,
        view: View<'_>,
    ) -> Result<RowAnswer, EngineError> {
        let timed = timed(list.texts)?;
        match (view, timed) {
            (View::Committed(grants), None) => {
                need_mark(None, grants)?;
                let read = self.get_row_current(caller, list.place, id, list.texts);
                read.await.map(RowAnswer::Page)
            }
            // Boxed, so that reads of the present do not carry their state around.
            (View::Committed(grants), Some(timed)) => {
                need_mark(Some(&timed), grants)?;
                let read = Box::pin(self.get_row_at(caller, list, id, &timed, grants));
                read.await.map(RowAnswer::AtTimes)
            }
            (View::Staged(transaction), None) => {
                let read = self.get_row_staged(caller, transaction, list.place, id, list.texts);
                Box::pin(read).await.map(RowAnswer::Page)
            }
            (View::Staged(transaction), Some(timed)) => {
                let read = self.get_row_staged_at(caller, transaction, list, id, &timed);
                Box::pin(read).await.map(RowAnswer::AtTimes)
            }
        }
    }
}
