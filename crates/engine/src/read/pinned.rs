//! Reads that give their coordinates, and therefore the same answer for ever.

use std::sync::Arc;

use model::{Coordinates, Mark, Page};
use query::Query;
use store::Listing;

use crate::Engine;
use crate::error::{EngineError, ReadError, Unavailable};
use crate::request::attempt::ATTEMPTS_MAX;
use crate::request::inputs::{Caller, Place};
use crate::request::past;
use crate::state::marks::Unsettled;

/// A page with the coordinates it was read at.
#[derive(Clone, Debug)]
pub struct PinnedPage {
    /// Asked again at these, the answer is the same.
    pub at: Coordinates,
    /// The rows.
    pub page: Page,
    /// Matches of the filter, up to the cap.
    pub total: u64,
}

impl Engine {
    /// Lists rows at `mark`, valid at that instant; without one, at the highest mark that is
    /// settled now.
    ///
    /// # Errors
    /// [`ReadError::FutureMark`], and whatever keeps a list from being
    /// read.
    pub async fn list_rows_pinned(
        &self,
        caller: &Caller,
        place: Place<'_>,
        texts: &[String],
        mark: Option<Mark>,
    ) -> Result<PinnedPage, EngineError> {
        let mark = match mark {
            Some(mark) => self.settled(mark).await?,
            None => self.fix().await?,
        };
        let at = Coordinates {
            valid: mark.timestamp(),
            system: mark,
        };
        self.under_catalogue(async |catalogue| {
            let mut query = self.resolve(catalogue, caller, place, texts)?;
            past::need_open(&query.table, &caller.actor)?;
            query.at = Some(at);
            let of_guest = caller.is_guest();
            let read = self.read_pinned(&query, catalogue.epoch, of_guest);
            let (page, total) = read.await?;
            Ok(PinnedPage { at, page, total })
        })
        .await
    }

    async fn read_pinned(
        &self,
        query: &Query,
        epoch: u64,
        of_guest: bool,
    ) -> Result<(Page, u64), EngineError> {
        let listing = Listing {
            query,
            rows: true,
            total: Some(self.total_cap),
            place: false,
            bytes_max: self.answer_bytes_max,
            catalogue_epoch: epoch,
            of_guest,
            shows_damaged: false,
        };
        let listed = self.read_list(listing).await?.answer;
        let page = Page {
            table: Arc::clone(&query.table),
            selection: query.selection.clone(),
            rows: listed.rows,
            related: Vec::new(),
        };
        Ok((page, listed.total))
    }

    /// Whether every answer from now on shows the commit of this mark and those before it.
    pub fn has_reached(&self, mark: Mark) -> bool {
        mark <= self.shared.marks.published()
    }

    /// Waits until that is so, or no commit can take `mark` or one below it any more. Such a wait
    /// is for the commit that runs, however long its sync takes.
    ///
    /// # Errors
    /// [`ReadError::FutureMark`] for a mark that no commit has been given yet.
    pub async fn reach(&self, mark: Mark) -> Result<(), EngineError> {
        if self.has_reached(mark) {
            return Ok(());
        }
        self.settled(mark).await.map(drop)
    }

    /// The highest settled mark; the horizon is raised to it, so every later commit gets a
    /// higher one. Must precede the opening of the snapshot.
    pub(crate) async fn fix(&self) -> Result<Mark, EngineError> {
        for _ in 0..ATTEMPTS_MAX {
            if let Ok(mark) = self.shared.marks.fix(self.shared.now()) {
                return Ok(mark);
            }
            self.writer.reserve().await?;
        }
        Err(Unavailable::Overloaded.into())
    }

    /// `mark`, once no commit can take it or one below it any more.
    pub(crate) async fn settled(&self, mark: Mark) -> Result<Mark, EngineError> {
        let marks = &self.shared.marks;
        loop {
            let seen = marks.publications();
            match marks.settle_at(mark, self.shared.now()) {
                Ok(()) => return Ok(mark),
                Err(Unsettled::Pending) => marks.after(seen).await,
                Err(Unsettled::Stopped) => return Err(Unavailable::Stopped.into()),
                Err(Unsettled::LeftOpen) => return Err(Unavailable::AwaitsCommit.into()),
                Err(Unsettled::ReservationNeeded) => self.writer.reserve().await?,
                Err(Unsettled::Future) => {
                    let horizon = marks.horizon();
                    return Err(ReadError::FutureMark { mark, horizon }.into());
                }
            }
        }
    }
}
