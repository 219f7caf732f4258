//! Reading rows of now: lists, cached when the reader allows some age, and single rows.

use std::cell::Cell;
use std::sync::Arc;

use list_cache::{Answer, Contract, Failure, ListRequest, Read, ReadRows, Step};
use model::{Catalogue, Direction, Mark, Marked, Page, Row, RowId, Selection, Table, Timestamp};
use query::{Frame, Query, RelatedNames, Visibility};
use store::{Listing, Point, Snapshot, StoreError};

use crate::Engine;
use crate::error::{AccessError, EngineError, ReadError, Unavailable};
use crate::read::coordinates;
use crate::read::hit_audit::Hit;
use crate::read::related::Gathering;
use crate::read::related_plan::{RelatedAsOf, RelatedPlan, related_plan};
use crate::request::attempt::ATTEMPTS_MAX;
use crate::request::authorize::{self, READ_ROWS};
use crate::request::inputs::{Cached, Caller, ListAnswer, ListRows, Place};
use crate::request::past;

impl Engine {
    /// A list of the present.
    pub(crate) async fn list_current(
        &self,
        caller: &Caller,
        request: &ListRows<'_>,
    ) -> Result<ListAnswer, EngineError> {
        let mut was_torn = false;
        for _ in 0..ATTEMPTS_MAX {
            let seen = self.shared.marks.publications();
            let catalogue = self.catalogue();
            let query = self.resolve(&catalogue, caller, request.place, request.texts)?;
            let related = related(&query.table, request.texts)?;
            let number = query.table.number;
            let before = self.shared.before(Some(number));
            let overdue = self.overdue(number);
            let contract = self.contract(caller, request, &query);
            let contract = contract.filter(|_| overdue.is_none() && !was_torn);
            let is_torn = |mark: Mark| match contract {
                None if overdue.is_some() => self.shared.is_torn(&before, mark),
                None => self.shared.parts(&before, mark),
                Some(_) => self.shared.has_passed(&before),
            };
            let torn = Cell::new(None);
            let attempt = ListAttempt {
                engine: self,
                catalogue: &catalogue,
                query: &query,
                request,
                of_guest: caller.is_guest(),
                is_torn: &is_torn,
                torn: &torn,
            };
            let is_alone = related.is_empty();
            let answer = if !is_alone {
                attempt.answer_with(caller, &related).await
            } else if let Some(now) = overdue {
                attempt.answer_at(now).await
            } else if let Some(contract) = contract {
                attempt.answer_by(contract).await
            } else {
                attempt.answer().await
            };
            // Rows and total that were looked for in the cache were found one after the other; what
            // was read on one snapshot was looked at then, and may have been encoded for long.
            let is_torn = |answer: &ListAnswer| {
                let may_be = match contract {
                    _ if !is_alone => false,
                    Some(Contract::Ttl { .. }) => answer.was_read(),
                    _ => true,
                };
                may_be && torn.get().unwrap_or_else(|| is_torn(answer.mark))
            };
            match answer {
                Err(EngineError::Store(StoreError::CatalogueMoved)) => {
                    self.shared.newer_catalogue(catalogue.epoch, seen).await;
                }
                // The next attempt is on one snapshot.
                Ok(answer) if is_torn(&answer) => {
                    was_torn = true;
                    self.reach(answer.mark).await?;
                }
                answer => return answer,
            }
        }
        Err(Unavailable::Overloaded.into())
    }

    /// One row of the present by its id. Of `texts`, only `select` is understood.
    pub(crate) async fn get_row_current(
        &self,
        caller: &Caller,
        place: Place<'_>,
        id: &RowId,
        texts: &[String],
    ) -> Result<Marked<Page>, EngineError> {
        self.under_catalogue(async |catalogue| {
            self.get_row_once(catalogue, caller, place, id, texts).await
        })
        .await
    }

    async fn get_row_once(
        &self,
        catalogue: &Arc<Catalogue>,
        caller: &Caller,
        place: Place<'_>,
        id: &RowId,
        texts: &[String],
    ) -> Result<Marked<Page>, EngineError> {
        authorize::need_scope(caller, READ_ROWS)?;
        let table = authorize::table(catalogue, caller, place)?;
        // A row that cannot be read is not there: its existence is no more public than it is.
        let visibility = query::visibility(table, &caller.actor)
            .ok_or_else(|| ReadError::RowNotFound(id.clone()))?;
        let selection = selection(table, texts)?;
        let related = related(table, texts)?;
        if !related.is_empty() {
            let plans = related_plan(catalogue, caller, RelatedAsOf::Now, (table, &related));
            let get = get_with(table, id, (selection, visibility), plans.await?);
            let Marked { answer, mark } = self.in_turns(catalogue, caller, None, get).await?;
            let answer = answer.ok_or_else(|| ReadError::RowNotFound(id.clone()))?;
            return Ok(Marked { answer, mark });
        }
        let point = Point {
            table,
            id,
            selection: &selection,
            visibility: &visibility,
            at: None,
            shows_span: false,
            catalogue_epoch: catalogue.epoch,
        };
        let of_guest = caller.is_guest();
        let Snapshot { answer, mark } = self.get_now(point, of_guest).await?;
        let row = answer.ok_or_else(|| ReadError::RowNotFound(id.clone()))?;
        Ok(Marked {
            answer: Page {
                table: table.clone(),
                selection,
                rows: vec![row],
                related: Vec::new(),
            },
            mark,
        })
    }

    /// The row of now.
    async fn get_now(
        &self,
        point: Point<'_>,
        of_guest: bool,
    ) -> Result<Snapshot<Option<Row>>, EngineError> {
        let number = point.table.number;
        for _ in 0..ATTEMPTS_MAX {
            let before = self.shared.before(Some(number));
            let read = match self.overdue(number) {
                None => self.shared.store.get(point).await?,
                Some(now) => self.get_overdue(point, now, of_guest).await?,
            };
            if !self.shared.is_torn(&before, read.mark) {
                return Ok(read);
            }
            self.reach(read.mark).await?;
        }
        Err(Unavailable::Overloaded.into())
    }

    /// The row of now as it is once what is due has been activated.
    async fn get_overdue(
        &self,
        point: Point<'_>,
        now: Timestamp,
        of_guest: bool,
    ) -> Result<Snapshot<Option<Row>>, EngineError> {
        let query = Query {
            table: point.table.clone(),
            filter: coordinates::is_row(point.id),
            order: Vec::new(),
            tie: Direction::Asc,
            random: false,
            limit: 1,
            offset: 0,
            cursor: None,
            selection: point.selection.clone(),
            visibility: point.visibility.clone(),
            then: None,
            at: None,
            frame: Frame::Due(now),
            shows_span: false,
        };
        let listing = Listing {
            query: &query,
            rows: true,
            total: None,
            place: false,
            bytes_max: self.answer_bytes_max,
            catalogue_epoch: point.catalogue_epoch,
            of_guest,
            shows_damaged: false,
        };
        let Snapshot { answer, mark } = self.shared.store.list(listing).await?;
        let answer = answer.rows.into_iter().next();
        Ok(Snapshot { answer, mark })
    }

    /// What the caller asks of a cached answer; `None` if there can be none.
    pub(crate) fn contract(
        &self,
        caller: &Caller,
        request: &ListRows<'_>,
        query: &Query,
    ) -> Option<Contract> {
        let bypasses = request.bypass && caller.actor.bypasses_grants();
        if bypasses || !self.caches_lists || !self.shared.lists.keeps(query) {
            return None;
        }
        Some(match request.ttl_s.min(query.table.options.ttl_max_s) {
            0 => Contract::Exact,
            age_s_max => Contract::Ttl { age_s_max },
        })
    }

    /// Query texts against today's schema, for what the caller may see.
    pub(crate) fn resolve(
        &self,
        catalogue: &Catalogue,
        caller: &Caller,
        place: Place<'_>,
        texts: &[String],
    ) -> Result<Query, EngineError> {
        authorize::need_scope(caller, READ_ROWS)?;
        let table = authorize::table(catalogue, caller, place)?;
        let visibility =
            query::visibility(table, &caller.actor).ok_or(AccessError::Unauthorized)?;
        let ast = query::parse(texts)?;
        let query = query::resolve(&ast, table, visibility, None, &self.limits)?;
        if query.shows_span {
            past::need_spans(table, &caller.actor)?;
        }
        Ok(query)
    }
}

/// What is handed on to those who joined a read. Others may go better: the row of a cursor may be
/// missing for one caller only.
fn failure_of(error: &EngineError) -> Option<Failure> {
    match error {
        EngineError::Read(ReadError::Timeout { limit_ms }) => Some(Failure::TimedOut {
            limit_ms: *limit_ms,
        }),
        EngineError::Read(ReadError::ReadersBusy { waiting_max }) => Some(Failure::Busy {
            waiting_max: *waiting_max,
        }),
        _ => None,
    }
}

fn error_of(failure: Failure) -> EngineError {
    match failure {
        Failure::TimedOut { limit_ms } => EngineError::Read(ReadError::Timeout { limit_ms }),
        Failure::Busy { waiting_max } => EngineError::Read(ReadError::ReadersBusy { waiting_max }),
    }
}

/// What single-row reads select; any other query method is refused.
pub(crate) fn selection(table: &Table, texts: &[String]) -> Result<Selection, EngineError> {
    if texts.is_empty() {
        return Ok(Selection::All);
    }
    let ast = query::parse(texts)?;
    Ok(query::resolve_selection(&ast, table)?)
}

/// Reads one row with related rows, again and again.
pub(crate) fn get_with(
    table: &Arc<Table>,
    id: &RowId,
    (selection, visibility): (Selection, Visibility),
    related: Vec<RelatedPlan>,
) -> impl AsyncFnMut(&mut Gathering<'_>) -> Result<Option<Page>, EngineError> + Send + 'static {
    let (table, id) = (table.clone(), id.clone());
    async move |reading: &mut Gathering<'_>| {
        let point = Point {
            table: &table,
            id: &id,
            selection: &selection,
            visibility: &visibility,
            at: None,
            shows_span: false,
            catalogue_epoch: reading.catalogue.epoch,
        };
        reading.get(point, &related).await
    }
}

/// What is selected of related rows.
pub(crate) fn related(table: &Table, texts: &[String]) -> Result<Vec<RelatedNames>, EngineError> {
    if !table.has_relationships() || texts.is_empty() {
        return Ok(Vec::new());
    }
    Ok(query::resolve_related(&query::parse(texts)?, table)?)
}

/// One attempt at a list under one catalogue.
struct ListAttempt<'a> {
    engine: &'a Engine,
    catalogue: &'a Arc<Catalogue>,
    query: &'a Query,
    request: &'a ListRows<'a>,
    of_guest: bool,
    /// Whether what was read on a snapshot of this mark lacks what has begun or ended since.
    is_torn: &'a dyn Fn(Mark) -> bool,
    /// The same of the last read, if that was of all that is asked for.
    torn: &'a Cell<Option<bool>>,
}

impl ListAttempt<'_> {
    /// What the rows of now will say once what is due has been activated.
    async fn answer_at(&self, now: Timestamp) -> Result<ListAnswer, EngineError> {
        let query = Query {
            frame: Frame::Due(now),
            ..self.query.clone()
        };
        let attempt = ListAttempt {
            query: &query,
            ..*self
        };
        attempt.answer().await
    }

    async fn answer(&self) -> Result<ListAnswer, EngineError> {
        let read = self.read(true, self.request.total, false).await?;
        let rows = read.rows.expect("rows were asked for");
        Ok(ListAnswer {
            rows: rows.body,
            tag: rows.tag,
            total: read.total.unwrap_or(0),
            cached: None,
            mark: read.mark,
            fixed: None,
            is_erased: false,
        })
    }

    /// With related rows, which no cache keeps: a change of any of their tables would alter it.
    async fn answer_with(
        &self,
        caller: &Caller,
        names: &[RelatedNames],
    ) -> Result<ListAnswer, EngineError> {
        let (query, request) = (self.query.clone(), self.request);
        let what = (&*query.table, names);
        let plans = related_plan(self.catalogue, caller, RelatedAsOf::Now, what).await?;
        let total = request.total.then_some(self.engine.total_cap);
        let list =
            async move |reading: &mut Gathering<'_>| reading.list(&query, &plans, total).await;
        let read = self
            .engine
            .in_turns(self.catalogue, caller, None, list)
            .await?;
        let answer = self
            .engine
            .uncached_answer(read, request.family, self.of_guest);
        answer.await
    }

    /// From the cache, or read for it.
    async fn answer_by(&self, contract: Contract) -> Result<ListAnswer, EngineError> {
        if contract != Contract::Exact {
            // An exact page goes with its cursor's row; others may outlive it.
            self.check_cursor().await?;
        }
        let answer = self.found_or_read(contract).await?;
        if answer.is_hit {
            self.engine.shape_of(self.query).hit(1);
        }
        if answer.is_hit && contract == Contract::Exact {
            self.engine.look_again(|| {
                let (family, epoch) = (self.request.family, self.catalogue.epoch);
                Hit::of(self.query, family, epoch, &answer)
            });
        }
        let now_ms = self.engine.shared.clock.elapsed_ms();
        let age_ms = now_ms.saturating_sub(answer.rows.read_ms);
        Ok(ListAnswer {
            rows: answer.rows.body,
            tag: answer.rows.tag,
            total: answer.total.unwrap_or(0),
            cached: Some(Cached {
                is_hit: answer.is_hit,
                age_s: if answer.is_hit { age_ms / 1_000 } else { 0 },
                is_stale: answer.is_stale,
            }),
            mark: answer.rows.mark,
            fixed: None,
            is_erased: false,
        })
    }

    /// Found in the cache, in a read of another caller, or in one of its own.
    async fn found_or_read(&self, contract: Contract) -> Result<Answer, EngineError> {
        let shared = &self.engine.shared;
        let mut fetch = shared.lists.ask(ListRequest {
            query: self.query,
            family: self.request.family,
            total: self.request.total,
            contract,
        });
        // What the caller may read was asked of a catalogue. A read of the store checks that it
        // still is the one; what others read does not.
        let mut was_read_here = false;
        let answer = loop {
            match fetch.step(shared.clock.elapsed_ms()) {
                Step::Answer(answer) => break answer,
                Step::Wait(waiter) => {
                    let outcome = waiter.await;
                    self.torn.set(None);
                    match fetch.take_outcome(outcome) {
                        Ok(()) => {}
                        // It may have been a guest's: places of keys may be free.
                        Err(Failure::Busy { .. }) if !self.of_guest => {
                            fetch.take_outcome(None).expect("nothing is handed on");
                        }
                        Err(failure) => return Err(error_of(failure)),
                    }
                    was_read_here = false;
                }
                Step::Read(fill) => {
                    match self.read(fill.rows(), fill.total(), true).await {
                        Ok(read) => fetch.fill(fill, read),
                        Err(error) => {
                            if let Some(failure) = failure_of(&error) {
                                fill.fail(failure);
                            }
                            return Err(error);
                        }
                    }
                    was_read_here = true;
                }
            }
        };
        if !was_read_here && self.catalogue.epoch != shared.catalogue_epoch() {
            return Err(StoreError::CatalogueMoved.into());
        }
        Ok(answer)
    }

    /// The cursor's row must be there for the caller whether or not the page is cached (wire
    /// protocol, 4.3).
    async fn check_cursor(&self) -> Result<(), EngineError> {
        let Some(cursor) = &self.query.cursor else {
            return Ok(());
        };
        let nothing = Selection::Some {
            columns: vec![],
            fields: vec![],
            permissions: false,
        };
        let point = Point {
            table: &self.query.table,
            id: &cursor.row,
            selection: &nothing,
            visibility: &self.query.visibility,
            at: None,
            shows_span: false,
            catalogue_epoch: self.catalogue.epoch,
        };
        match self.engine.shared.store.get(point).await?.answer {
            Some(_) => Ok(()),
            None => Err(ReadError::CursorNotFound(cursor.row.clone()).into()),
        }
    }

    /// Reads parts on one snapshot. `for_keeping`: with what the cache must know of them.
    async fn read(&self, rows: bool, total: bool, for_keeping: bool) -> Result<Read, EngineError> {
        let shared = &self.engine.shared;
        let read_ms = shared.clock.elapsed_ms();
        let listing = Listing {
            query: self.query,
            rows,
            total: total.then_some(self.engine.total_cap),
            place: rows && for_keeping,
            bytes_max: self.engine.answer_bytes_max,
            catalogue_epoch: self.catalogue.epoch,
            of_guest: self.of_guest,
            shows_damaged: false,
        };
        let Snapshot { answer, mark } = self.engine.read_list(listing).await?;
        // Before it is encoded, which may take long where much is read: it is not begun again for
        // what passes meanwhile.
        let is_whole = rows && (total || !self.request.total);
        self.torn.set(is_whole.then(|| (self.is_torn)(mark)));
        let total = total.then_some(answer.total);
        let mut read_rows = None;
        if rows {
            let is_within_ttl = for_keeping && self.request.ttl_s > 0;
            let known = answer.rows.iter().filter(|_| is_within_ttl);
            let shown = known.map(|row| row.seq).collect();
            let page = Page {
                table: self.query.table.clone(),
                selection: self.query.selection.clone(),
                rows: answer.rows,
                related: Vec::new(),
            };
            let (tag, body) = self
                .engine
                .encoded(page, self.request.family, self.of_guest)
                .await?;
            read_rows = Some(ReadRows {
                tag,
                body,
                last_place: answer.last_place,
                shown,
            });
        }
        Ok(Read {
            rows: read_rows,
            total,
            mark,
            read_ms,
        })
    }
}
