//! Lists and rows at other times than now: `asOf`, `validAt`, `validBetween`, `versions`.
//!
//! Coordinates are settled before anything is read: a mark that is not named is the highest one
//! that nobody can write at any more, and the horizon is raised to it. So whoever names the
//! coordinates of an answer again gets the same answer.

use std::sync::Arc;

use model::{Coordinates, Mark, Marked, Page, Period, RowId, Timestamp};
use query::ast::Method;
use query::{AskedTimes, AskedValid, Filter, Frame, Query, Test};
use store::{Listing, StoreError};

use crate::Engine;
use crate::asked::{Caller, ListAnswer, ListRows, Place};
use crate::error::EngineError;
use crate::rows::{ATTEMPTS_MAX, related};

/// A page with the coordinates it was read at.
#[derive(Clone, Debug)]
pub(crate) struct TimedPage {
    /// The mark, and the valid instant where one was asked for.
    pub(crate) at: Coordinates,
    pub(crate) page: Page,
    /// Matches of the filter, up to the cap; 0 if it was not wanted.
    pub(crate) total: u64,
}

impl Engine {
    /// Lists rows at the times that the query names.
    pub(crate) async fn list_at(
        &self,
        caller: &Caller,
        asked: &ListRows<'_>,
        times: AskedTimes,
    ) -> Result<ListAnswer, EngineError> {
        let read = self.page_at(caller, asked.place, asked.texts, times, asked.total, None);
        let read = read.await?;
        let body = (self.shared.encode_page)(&read.page, asked.family);
        Ok(ListAnswer {
            tag: self.fingerprint(&body),
            rows: body.into(),
            total: read.total,
            cached: None,
            mark: read.at.system,
        })
    }

    /// One row at the times that the query names.
    pub(crate) async fn row_at(
        &self,
        caller: &Caller,
        place: Place<'_>,
        id: &RowId,
        texts: &[String],
        times: AskedTimes,
    ) -> Result<Marked<Page>, EngineError> {
        if times.versions || matches!(times.valid, AskedValid::Between(_)) {
            return refuse("one row is read at one instant; list its versions instead");
        }
        let is_meant = |method| matches!(method, Method::Select | Method::AsOf | Method::ValidAt);
        if !query::parse(texts)?
            .calls
            .iter()
            .all(|call| is_meant(call.method))
        {
            return refuse("of one row, only `select`, `asOf` and `validAt` have a meaning");
        }
        let read = self.page_at(caller, place, texts, times, false, Some(id));
        let TimedPage { at, page, .. } = match read.await {
            // A row that cannot be read is not there.
            Err(EngineError::Unauthorized) => Err(EngineError::RowNotFound(id.clone())),
            read => read,
        }?;
        if page.rows.is_empty() {
            return Err(EngineError::RowNotFound(id.clone()));
        }
        let mark = at.system;
        Ok(Marked { answer: page, mark })
    }

    /// A page at the times asked for; of one row, if `only` names it.
    async fn page_at(
        &self,
        caller: &Caller,
        place: Place<'_>,
        texts: &[String],
        times: AskedTimes,
        total: bool,
        only: Option<&RowId>,
    ) -> Result<TimedPage, EngineError> {
        let mark = match times.system {
            Some(mark) => self.settled(mark).await?,
            None => self.fix().await?,
        };
        for _ in 0..ATTEMPTS_MAX {
            let seen = self.shared.marks.publications();
            let catalogue = self.catalogue();
            let mut query = self.resolve(&catalogue, caller, place, texts)?;
            if !related(&query.table, texts)?.is_empty() {
                return refuse("related rows are selected as of now only");
            }
            if let Some(id) = only {
                query.filter = is_row(id);
            }
            look_through(&mut query, times, mark)?;
            let listing = Listing {
                query: &query,
                rows: true,
                total: total.then_some(self.total_cap),
                place: false,
                catalogue_epoch: catalogue.epoch,
            };
            match self.shared.store.list(listing).await {
                Err(StoreError::CatalogueMoved) => {
                    self.shared.newer_catalogue(catalogue.epoch, seen).await;
                }
                Err(error) => return Err(error.into()),
                Ok(listed) => {
                    return Ok(TimedPage {
                        at: query.at.expect("it was just set"),
                        page: Page {
                            table: Arc::clone(&query.table),
                            selection: query.selection,
                            rows: listed.answer.rows,
                            related: Vec::new(),
                        },
                        total: listed.answer.total,
                    });
                }
            }
        }
        Err(EngineError::Overloaded)
    }
}

fn refuse<T>(why: &str) -> Result<T, EngineError> {
    Err(query::QueryError::Invalid(why.to_owned()).into())
}

/// The row of this id alone.
pub(crate) fn is_row(id: &RowId) -> Filter {
    let id = model::Value::Text(id.to_string());
    Filter::All(vec![Filter::Field(model::Field::Id, Test::In(vec![id]))])
}

/// Makes the query look at what was asked, as known at `mark`.
fn look_through(query: &mut Query, times: AskedTimes, mark: Mark) -> Result<(), EngineError> {
    if query.table.has_relationships() && query.filters_relationships() {
        return refuse("relationships are filtered as of now only");
    }
    let (valid, frame) = match (times.valid, times.versions) {
        (AskedValid::Unsaid, false) => (mark.timestamp(), Frame::One),
        (AskedValid::At(at), false) => (at, Frame::One),
        (AskedValid::Between(period), false) => (period.from(), Frame::Pieces(period)),
        (AskedValid::Unsaid, true) => (mark.timestamp(), Frame::Versions(Period::ALWAYS)),
        (AskedValid::At(at), true) => {
            let instant = Period::new(at, Some(Timestamp(at.0.saturating_add(1))));
            let instant = instant.map_err(EngineError::Structure)?;
            (at, Frame::Versions(instant))
        }
        (AskedValid::Between(period), true) => (period.from(), Frame::Versions(period)),
    };
    let names_version = query.cursor.as_ref().map(|cursor| cursor.version.is_some());
    match (frame.is_wide(), names_version) {
        (true, Some(false)) => {
            return refuse("where a row may appear more than once, a cursor names a `$version`");
        }
        // The coordinates show one version of it, whatever it is called.
        (false, Some(true)) => {
            if let Some(cursor) = &mut query.cursor {
                cursor.version = None;
            }
        }
        _ => {}
    }
    query.at = Some(Coordinates {
        valid,
        system: mark,
    });
    query.frame = frame;
    query.shows_span = true;
    Ok(())
}
