//! Lists and rows at other times than now: `asOf`, `validAt`, `validBetween`, `systemBetween`,
//! `versions`.
//!
//! Coordinates are settled before anything is read: a mark that is not named is the highest one
//! that no write can change any more, and the horizon is raised to it. So a request that names the
//! coordinates of an answer again gets the same answer.
//! Where nothing of it is yet to come, the answer is kept without expiry.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use list_cache::{Family, Pinned};
use model::{Catalogue, Coordinates, Mark, Page, Period, Row, RowId, Table, Timestamp};
use query::ast::Method;
use query::{Filter, Frame, NamedTimes, NamedValid, Query, RelatedNames, Test, Then, Visibility};
use store::{Listing, Point, StoreError};

use crate::Engine;
use crate::error::{AccessError, EngineError, ReadError, Unavailable, WriteError};
use crate::read::erased::{looks_back_to, tables_of};
use crate::read::hit_audit::Hit;
use crate::read::related::Gathering;
use crate::read::related_plan::{RelatedAsOf, RelatedPlan, TimesOfRelated, related_plan};
use crate::request::attempt::ATTEMPTS_MAX;
use crate::request::authorize::{self, READ_ROWS};
use crate::request::inputs::{Cached, Caller, Fixed, GrantsAsOf, ListAnswer, ListRows, Place};
use crate::request::named_times::{Timed, timed};
use crate::request::past;

/// What is read at other times, as far as it does not depend on when it is asked.
#[derive(Clone, Copy)]
struct ReadAt<'a> {
    list: &'a ListRows<'a>,
    /// One row, if only that is asked for.
    only: Option<&'a RowId>,
    timed: &'a Timed,
    grants: GrantsAsOf,
}

/// How an answer is made.
#[derive(Clone, Copy)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are chosen one by one, and handed on together"
)]
struct How<'a> {
    /// The row, if only that is asked for.
    only: Option<&'a RowId>,
    family: Family,
    total: bool,
    /// Whether it is the same for ever.
    is_fixed: bool,
    bypasses: bool,
    of_guest: bool,
}

/// What is asked, resolved at its coordinates.
pub(crate) struct Viewed {
    pub(crate) query: Query,
    pub(crate) related: Vec<RelatedPlan>,
}

/// Single rows of a table at coordinates that are over.
#[derive(Debug)]
pub struct PreparedPast {
    catalogue_epoch: u64,
    /// For no row yet.
    query: Query,
    mark: Mark,
    family: Family,
    of_guest: bool,
}

impl Engine {
    /// Prepares reads of single rows at the times that the queries name, if they are over, and
    /// today's columns go for them.
    ///
    /// # Errors
    /// As for [`Engine::get_row`].
    pub fn prepare_past(
        &self,
        caller: &Caller,
        list: &ListRows<'_>,
        grants: GrantsAsOf,
    ) -> Result<Option<PreparedPast>, EngineError> {
        let timed = timed(list.texts)?;
        need_mark(timed.as_ref(), grants)?;
        let Some(timed) = timed else {
            return Ok(None);
        };
        need_one_instant(&timed)?;
        let catalogue = self.catalogue();
        let (table, visibility) = visible(&catalogue, caller, list.place)?;
        let Some(mark) = timed.times.system.filter(|mark| is_of_today(table, *mark)) else {
            return Ok(None);
        };
        let request = ReadAt {
            list,
            only: None,
            timed: &timed,
            grants,
        };
        // The grants of then are found where the row is read.
        if past::judges_then(table, &caller.actor, timed.times)? {
            return Ok(None);
        }
        if !related_names(request, table)?.is_empty() {
            return Ok(None);
        }
        let query = self.view_of(table.clone(), caller, visibility, request, mark)?;
        Ok(self.is_over(&query).then_some(PreparedPast {
            catalogue_epoch: catalogue.epoch,
            query,
            mark,
            family: list.family,
            of_guest: caller.is_guest(),
        }))
    }

    /// One of these rows, if it is found without waiting. For the caller it was prepared for, who
    /// must have been checked again. Whatever goes wrong, [`Engine::get_row`] says what it
    /// is.
    pub fn past_at_once(&self, past: &PreparedPast, id: &RowId) -> Option<ListAnswer> {
        let epoch = past.catalogue_epoch;
        if epoch != self.shared.catalogue_epoch() || !self.has_reached(past.mark) {
            return None;
        }
        // Otherwise the read below would be sent away, and dropped.
        self.shared.store.at_once()?;
        let query = Query {
            filter: is_row(id),
            ..past.query.clone()
        };
        let how = How {
            only: Some(id),
            family: past.family,
            total: false,
            is_fixed: true,
            bypasses: false,
            of_guest: past.of_guest,
        };
        let answer = pin!(self.answer_fixed(epoch, query, how, past.mark));
        match answer.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer.ok(),
            Poll::Pending => None,
        }
    }

    /// Lists rows at the times that the query names.
    pub(crate) async fn list_at(
        &self,
        caller: &Caller,
        list: &ListRows<'_>,
        timed: &Timed,
        grants: GrantsAsOf,
    ) -> Result<ListAnswer, EngineError> {
        let request = ReadAt {
            list,
            only: None,
            timed,
            grants,
        };
        self.answer_at(caller, request).await
    }

    /// One row at the times that its queries name, as a list of one.
    pub(crate) async fn get_row_at(
        &self,
        caller: &Caller,
        list: &ListRows<'_>,
        id: &RowId,
        timed: &Timed,
        grants: GrantsAsOf,
    ) -> Result<ListAnswer, EngineError> {
        need_one_instant(timed)?;
        let request = ReadAt {
            list,
            only: Some(id),
            timed,
            grants,
        };
        match self.answer_at(caller, request).await {
            // A row that cannot be read is not there.
            Err(EngineError::Access(AccessError::Unauthorized)) => {
                Err(ReadError::RowNotFound(id.clone()).into())
            }
            answer => answer,
        }
    }

    /// What is asked of the state that a transaction would leave, which is known when no other
    /// request can know any more: with what is staged.
    pub(crate) async fn view_staged(
        &self,
        catalogue: &Catalogue,
        caller: &Caller,
        (list, only): (&ListRows<'_>, Option<&RowId>),
        timed: &Timed,
    ) -> Result<Viewed, EngineError> {
        let request = ReadAt {
            list,
            only,
            timed,
            grants: GrantsAsOf::Today,
        };
        let everything = Mark(Timestamp::END.0 - 1);
        self.view(catalogue, caller, request, everything).await
    }

    async fn answer_at(
        &self,
        caller: &Caller,
        request: ReadAt<'_>,
    ) -> Result<ListAnswer, EngineError> {
        for _ in 0..ATTEMPTS_MAX {
            let mark = match request.timed.times.system {
                Some(mark) => self.settled(mark).await?,
                None => self.fix().await?,
            };
            let seen = self.shared.marks.publications();
            let catalogue = self.catalogue();
            match self.answer_once(&catalogue, caller, request, mark).await {
                Err(EngineError::Store(StoreError::CatalogueMoved)) => {
                    self.shared.newer_catalogue(catalogue.epoch, seen).await;
                }
                // A commit came between the choice of the mark and the read, or could be read
                // before it was published.
                Err(EngineError::Read(ReadError::HistoryGone(_))) if request.is_of_now() => {
                    self.shared.marks.after(seen).await;
                }
                answer => return answer,
            }
        }
        Err(Unavailable::Overloaded.into())
    }

    async fn answer_once(
        &self,
        catalogue: &Arc<Catalogue>,
        caller: &Caller,
        request: ReadAt<'_>,
        mark: Mark,
    ) -> Result<ListAnswer, EngineError> {
        let Viewed { query, related } = self.view(catalogue, caller, request, mark).await?;
        let asks_of_now = query.then.as_ref().is_some_and(|then| then.is_there_now);
        let names_mark = request.timed.times.system.is_some();
        let is_fixed = names_mark && self.is_over(&query) && !asks_of_now;
        let (list, only) = (request.list, request.only);
        let how = How {
            only,
            family: list.family,
            total: list.total,
            is_fixed,
            bypasses: list.bypass && caller.actor.bypasses_grants(),
            of_guest: caller.is_guest(),
        };
        if related.is_empty() {
            return self.answer_fixed(catalogue.epoch, query, how, mark).await;
        }
        self.answer_with(catalogue, caller, Viewed { query, related }, how)
            .await
    }

    /// With related rows, at the same coordinates. No cache keeps it: an erasure in any of their
    /// tables would alter it.
    async fn answer_with(
        &self,
        catalogue: &Arc<Catalogue>,
        caller: &Caller,
        Viewed { query, related }: Viewed,
        how: How<'_>,
    ) -> Result<ListAnswer, EngineError> {
        let at = query.at.expect("what names times has coordinates");
        let total = how.total.then_some(self.total_cap);
        let (tables, since) = (tables_of(&query, &related), looks_back_to(&query));
        let list =
            async move |reading: &mut Gathering<'_>| reading.list(&query, &related, total).await;
        let read = self.in_turns(catalogue, caller, Some(at), list).await?;
        let is_erased = self.has_erased(&tables, since).await?;
        how.need_row(read.answer.0.rows.is_empty(), is_erased)?;
        let answer = self.uncached_answer(read, how.family, how.of_guest).await?;
        Ok(ListAnswer {
            is_erased,
            ..answer
        })
    }

    /// The answer to a query that was resolved by a catalogue of this epoch.
    async fn answer_fixed(
        &self,
        catalogue_epoch: u64,
        query: Query,
        how: How<'_>,
        mark: Mark,
    ) -> Result<ListAnswer, EngineError> {
        let lists = &self.shared.lists;
        let named = || lists.name_pinned(&query, how.family, how.total);
        let name = how.is_fixed.then(named).flatten();
        let fixed = name.as_ref().map(|name| Fixed {
            epochs: name.epochs,
            max_age_s: query.table.options.pinned_max_age_s,
        });
        let name = name.filter(|_| self.caches_lists && !how.bypasses);
        let answer = |pinned: Pinned, is_hit: Option<bool>| {
            let age_ms = self.shared.clock.elapsed_ms();
            let age_ms = age_ms.saturating_sub(pinned.read_ms);
            ListAnswer {
                rows: pinned.body,
                tag: pinned.tag,
                total: pinned.total,
                cached: is_hit.map(|is_hit| Cached {
                    is_hit,
                    age_s: if is_hit { age_ms / 1_000 } else { 0 },
                    is_stale: None,
                }),
                mark,
                fixed,
                is_erased: pinned.is_erased,
            }
        };
        let kept = |name| lists.pinned(name).map(|kept| (name, kept));
        if let Some((name, kept)) = name.as_ref().and_then(kept) {
            // What the caller may read was asked of a catalogue that must still be the one.
            if catalogue_epoch != self.shared.catalogue_epoch() {
                return Err(StoreError::CatalogueMoved.into());
            }
            self.look_again(|| {
                let what = (how.family, how.total);
                Hit::of_pinned(&query, what, catalogue_epoch, (name, &kept))
            });
            return Ok(answer(kept, Some(true)));
        }
        let read = self.read_at(query, how, catalogue_epoch, mark).await?;
        let is_hit = name.is_some().then_some(false);
        if let Some(name) = name {
            lists.keep_pinned(name, read.clone());
        }
        Ok(answer(read, is_hit))
    }

    /// Whether nothing that the query looks at is yet to come.
    fn is_over(&self, query: &Query) -> bool {
        let now = self.shared.now();
        let last = match query.frame.valid_range() {
            None => query.at.map(|at| at.valid),
            Some(period) => period.to(),
        };
        last.is_some_and(|last| last <= now)
    }

    /// What is asked, resolved for what the caller may see at `mark`.
    async fn view(
        &self,
        catalogue: &Catalogue,
        caller: &Caller,
        request: ReadAt<'_>,
        mark: Mark,
    ) -> Result<Viewed, EngineError> {
        let (today, visibility) = visible(catalogue, caller, request.list.place)?;
        let judges_then = past::judges_then(today, &caller.actor, request.timed.times)?;
        let mut table = self.table_as_of(today, mark).await?;
        if judges_then {
            table = past::without_gone(&table, today);
        }
        let names = related_names(request, &table)?;
        let mut query = self.view_of(table, caller, visibility, request, mark)?;
        if let Some(at) = query.at.filter(|_| judges_then) {
            let seen_at = past::seen_at(at);
            let table = self.table_as_of(today, seen_at).await?;
            let then = past::might_see(&table, caller, seen_at)?;
            query.then = Some(Then {
                is_there_now: true,
                ..then
            });
        }
        let related = self.related_at(catalogue, caller, request, (&query, &names));
        let related = related.await?;
        Ok(Viewed { query, related })
    }

    /// What is selected of related rows, at the coordinates of the query.
    async fn related_at(
        &self,
        catalogue: &Catalogue,
        caller: &Caller,
        request: ReadAt<'_>,
        (query, names): (&Query, &[RelatedNames]),
    ) -> Result<Vec<RelatedPlan>, EngineError> {
        let Some(at) = query.at.filter(|_| !names.is_empty()) else {
            return Ok(Vec::new());
        };
        if query.frame.is_wide() {
            return refuse(
                "related rows are selected at one instant: a version is valid over a period, in \
                 which what it is related to may change. Name an instant by `asOf` or `validAt`",
            );
        }
        let (times, grants) = (request.timed.times, request.grants);
        let looking = RelatedAsOf::At(self, TimesOfRelated { at, times, grants });
        related_plan(catalogue, caller, looking, (&query.table, names)).await
    }

    fn view_of(
        &self,
        table: Arc<Table>,
        caller: &Caller,
        visibility: Visibility,
        request: ReadAt<'_>,
        mark: Mark,
    ) -> Result<Query, EngineError> {
        let ast = &request.timed.ast;
        let mut query = query::resolve(ast, &table, visibility, None, &self.limits)?;
        if request.grants == GrantsAsOf::Mark {
            query.then = Some(past::might_see(&table, caller, mark)?);
        }
        if let Some(id) = request.only {
            query.filter = is_row(id);
        }
        look_through(&mut query, request.timed.times, mark)?;
        Ok(query)
    }

    /// The table with the columns and grants that it had at `mark`, by the names of then. Indexes,
    /// epochs and options are those of today.
    pub(crate) async fn table_as_of(
        &self,
        today: &Arc<Table>,
        mark: Mark,
    ) -> Result<Arc<Table>, EngineError> {
        if is_of_today(today, mark) {
            return Ok(today.clone());
        }
        Ok(self.shared.store.table_as_of(today, mark).await?)
    }

    /// The rows, and the total if it was asked for.
    async fn rows_at(
        &self,
        query: &Query,
        how: How<'_>,
        catalogue_epoch: u64,
    ) -> Result<(Vec<Row>, u64), EngineError> {
        if let Some(point) = how.point(query, catalogue_epoch) {
            let row = self.shared.store.get(point).await?.answer;
            return Ok((row.into_iter().collect(), 0));
        }
        let listing = Listing {
            query,
            rows: true,
            total: how.total.then_some(self.total_cap),
            place: false,
            bytes_max: self.answer_bytes_max,
            catalogue_epoch,
            of_guest: how.of_guest,
            shows_damaged: false,
        };
        let listed = self.shared.store.list(listing).await?.answer;
        Ok((listed.rows, listed.total))
    }

    async fn read_at(
        &self,
        query: Query,
        how: How<'_>,
        catalogue_epoch: u64,
        mark: Mark,
    ) -> Result<Pinned, EngineError> {
        let read_ms = self.shared.clock.elapsed_ms();
        let (rows, total) = self.rows_at(&query, how, catalogue_epoch).await?;
        let (tables, since) = ([query.table.number], looks_back_to(&query));
        let is_erased = self.has_erased(&tables, since).await?;
        how.need_row(rows.is_empty(), is_erased)?;
        let page = Page {
            table: query.table,
            selection: query.selection,
            rows,
            related: Vec::new(),
        };
        let (tag, body) = self.encoded(page, how.family, how.of_guest).await?;
        Ok(Pinned {
            tag,
            body,
            total,
            mark,
            read_ms,
            is_erased,
        })
    }
}

impl How<'_> {
    /// # Errors
    /// That the row is not there, where only one is asked for.
    fn need_row(&self, is_missing: bool, is_erased: bool) -> Result<(), ReadError> {
        match self.only.filter(|_| is_missing) {
            None => Ok(()),
            Some(id) if is_erased => Err(ReadError::RowNotFoundSinceErasure(id.clone())),
            Some(id) => Err(ReadError::RowNotFound(id.clone())),
        }
    }

    /// The row that the query reads, as a point.
    fn point<'a>(&'a self, query: &'a Query, catalogue_epoch: u64) -> Option<Point<'a>> {
        // What is judged by the grants of then only a list can ask.
        let id = self.only.filter(|_| query.then.is_none())?;
        Some(Point {
            table: &query.table,
            id,
            selection: &query.selection,
            visibility: &query.visibility,
            at: query.at,
            shows_span: query.shows_span,
            catalogue_epoch,
        })
    }
}

impl ReadAt<'_> {
    /// Whether it asks for no earlier time than now.
    fn is_of_now(&self) -> bool {
        let times = self.timed.times;
        times.system.is_none() && times.valid == NamedValid::Unsaid && !times.shows_versions()
    }
}

/// What is selected of related rows, by the names of the table.
fn related_names(request: ReadAt<'_>, table: &Table) -> Result<Vec<RelatedNames>, EngineError> {
    if !table.has_relationships() {
        return Ok(Vec::new());
    }
    Ok(query::resolve_related(&request.timed.ast, table)?)
}

/// The table, and what the caller sees of its rows.
fn visible<'c>(
    catalogue: &'c Catalogue,
    caller: &Caller,
    place: Place<'_>,
) -> Result<(&'c Arc<Table>, Visibility), EngineError> {
    authorize::need_scope(caller, READ_ROWS)?;
    let table = authorize::table(catalogue, caller, place)?;
    let visibility = query::visibility(table, &caller.actor);
    Ok((table, visibility.ok_or(AccessError::Unauthorized)?))
}

/// Whether the table had the columns and grants of today at `mark`.
fn is_of_today(today: &Table, mark: Mark) -> bool {
    // Times of changes are kept to the millisecond.
    mark.0 >= today.updated.0.saturating_add(1_000)
}

/// # Errors
/// [`EngineError::Argument`] for grants of a mark that is not named.
pub(crate) fn need_mark(timed: Option<&Timed>, grants: GrantsAsOf) -> Result<(), EngineError> {
    let names_mark = timed.is_some_and(|timed| timed.times.system.is_some());
    if grants == GrantsAsOf::Mark && !names_mark {
        let why = "`as-of` needs the query `asOf`".to_owned();
        let name = "permissions";
        return Err(EngineError::Argument { name, why });
    }
    Ok(())
}

/// # Errors
/// What has no meaning for one row.
pub(crate) fn need_one_instant(request: &Timed) -> Result<(), EngineError> {
    let times = request.times;
    if times.shows_versions() || matches!(times.valid, NamedValid::Between(_)) {
        return refuse("one row is read at one instant; list its versions instead");
    }
    let is_meant = |method| matches!(method, Method::Select | Method::AsOf | Method::ValidAt);
    let calls = &request.ast.calls;
    if !calls.iter().all(|call| is_meant(call.method)) {
        return refuse("of one row, only `select`, `asOf` and `validAt` have a meaning");
    }
    Ok(())
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
fn look_through(query: &mut Query, times: NamedTimes, mark: Mark) -> Result<(), EngineError> {
    let versions = |valid| match times.changed {
        Some(system) => Frame::Changes(valid, system),
        None => Frame::Versions(valid),
    };
    let (valid, frame) = match (times.valid, times.shows_versions()) {
        (NamedValid::Unsaid, false) => (mark.timestamp(), Frame::One),
        (NamedValid::At(at), false) => (at, Frame::One),
        (NamedValid::Between(period), false) => (period.from(), Frame::Pieces(period)),
        (NamedValid::Unsaid, true) => (mark.timestamp(), versions(Period::ALWAYS)),
        (NamedValid::At(at), true) => {
            let instant = Period::new(at, Some(Timestamp(at.0.saturating_add(1))));
            let instant = instant.map_err(WriteError::Structure)?;
            (at, versions(instant))
        }
        (NamedValid::Between(period), true) => (period.from(), versions(period)),
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
