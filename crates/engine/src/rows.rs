//! Reading rows of now: lists, cached when the reader allows some age, and single rows.

use std::sync::Arc;

use list_cache::{Asked, Contract, Family, Read, ReadRows, Step};
use model::{
    Actor, Catalogue, Direction, Marked, Page, Row, RowId, Scope, Selection, Table, Timestamp,
};
use query::ast::Ast;
use query::{AskedTimes, Frame, Query, RelatedNames};
use store::{Listing, Point, Snapshot, StoreError, TotalCap};

use crate::Engine;
use crate::aside::Turn;
use crate::asked::{Cached, Caller, Judged, ListAnswer, ListRows, Place};
use crate::authorize;
use crate::coordinates;
use crate::error::EngineError;
use crate::paranoid::Hit;
use crate::related::Gathering;

/// A read is begun anew so often when the schema changes under it.
pub(crate) const ATTEMPTS_MAX: usize = 16;

pub(crate) const READ_ROWS: &[Scope] = &[Scope::RowsRead];

impl Engine {
    /// Lists rows. The answer may be cached: exact, or, with `ttl_s` above 0, up to that age.
    ///
    /// # Errors
    /// Whatever keeps the caller from reading, or the query from being answered.
    pub async fn list_rows(
        &self,
        caller: &Caller,
        asked: &ListRows<'_>,
    ) -> Result<ListAnswer, EngineError> {
        if let Some(timed) = timed(asked.texts)? {
            return self.list_at(caller, asked, &timed, Judged::Today).await;
        }
        let mut was_torn = false;
        for _ in 0..ATTEMPTS_MAX {
            let seen = self.shared.marks.publications();
            let catalogue = self.catalogue();
            let query = self.resolve(&catalogue, caller, asked.place, asked.texts)?;
            let related = related(&query.table, asked.texts)?;
            let number = query.table.number;
            let before = self.shared.before(Some(number));
            let attempt = Attempt {
                engine: self,
                catalogue: &catalogue,
                query: &query,
                asked,
            };
            let overdue = self.overdue(number);
            let contract = self.contract(caller, asked, &query);
            let contract = contract.filter(|_| overdue.is_none() && !was_torn);
            let answer = if !related.is_empty() {
                attempt.answer_with(caller, &related).await
            } else if let Some(now) = overdue {
                attempt.answer_at(now).await
            } else if let Some(contract) = contract {
                attempt.answer_by(contract).await
            } else {
                attempt.answer().await
            };
            // Rows and total that were looked for in the cache were found one after the other.
            let is_torn = |answer: &ListAnswer| match contract {
                _ if !related.is_empty() => false,
                None if overdue.is_some() => self.shared.is_torn(&before, answer.mark),
                None => self.shared.parts(&before, answer.mark),
                Some(Contract::Exact) => self.shared.has_passed(&before),
                Some(Contract::Ttl { .. }) => answer.was_read() && self.shared.has_passed(&before),
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
        Err(EngineError::Overloaded)
    }

    /// One row of now by its id. Of `texts`, only `select` is understood; for the times that others
    /// name see [`Engine::get_row_at`].
    ///
    /// # Errors
    /// [`EngineError::RowNotFound`] also when the caller may not read it.
    pub async fn get_row(
        &self,
        caller: &Caller,
        place: Place<'_>,
        id: &RowId,
        texts: &[String],
    ) -> Result<Marked<Page>, EngineError> {
        for _ in 0..ATTEMPTS_MAX {
            let seen = self.shared.marks.publications();
            let catalogue = self.catalogue();
            match self
                .get_row_once(&catalogue, caller, place, id, texts)
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

    async fn get_row_once(
        &self,
        catalogue: &Catalogue,
        caller: &Caller,
        place: Place<'_>,
        id: &RowId,
        texts: &[String],
    ) -> Result<Marked<Page>, EngineError> {
        authorize::need_scope(caller, READ_ROWS)?;
        let table = authorize::table(catalogue, caller, place)?;
        // A row that cannot be read is not there: its existence is no more public than it is.
        let visibility = query::visibility(table, &caller.actor)
            .ok_or_else(|| EngineError::RowNotFound(id.clone()))?;
        let selection = selection(table, texts)?;
        let related = related(table, texts)?;
        let point = Point {
            table,
            id,
            selection: &selection,
            visibility: &visibility,
            at: None,
            shows_span: false,
            catalogue_epoch: catalogue.epoch,
        };
        if !related.is_empty() {
            let get = async |reading: &mut Gathering<'_>| reading.get(point, &related).await;
            let read = self.on_one_snapshot(None, catalogue, caller, get);
            let Marked { answer, mark } = read.await?;
            let answer = answer.ok_or_else(|| EngineError::RowNotFound(id.clone()))?;
            return Ok(Marked { answer, mark });
        }
        let Snapshot { answer, mark } = self.get_now(point).await?;
        let row = answer.ok_or_else(|| EngineError::RowNotFound(id.clone()))?;
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
    async fn get_now(&self, point: Point<'_>) -> Result<Snapshot<Option<Row>>, EngineError> {
        let number = point.table.number;
        for _ in 0..ATTEMPTS_MAX {
            let before = self.shared.before(Some(number));
            let read = match self.overdue(number) {
                None => self.shared.store.get(point).await?,
                Some(now) => self.get_overdue(point, now).await?,
            };
            if !self.shared.is_torn(&before, read.mark) {
                return Ok(read);
            }
            self.reach(read.mark).await?;
        }
        Err(EngineError::Overloaded)
    }

    /// The row of now as it is once what is due has been brought in.
    async fn get_overdue(
        &self,
        point: Point<'_>,
        now: Timestamp,
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
        };
        let Snapshot { answer, mark } = self.shared.store.list(listing).await?;
        let answer = answer.rows.into_iter().next();
        Ok(Snapshot { answer, mark })
    }

    /// What the caller asks of a cached answer; `None` if there can be none.
    pub(crate) fn contract(
        &self,
        caller: &Caller,
        asked: &ListRows<'_>,
        query: &Query,
    ) -> Option<Contract> {
        let bypasses = asked.bypass && matches!(caller.actor, Actor::Key { .. });
        if bypasses || !self.caches_lists || !self.shared.lists.keeps(query) {
            return None;
        }
        Some(match asked.ttl_s.min(query.table.options.ttl_max_s) {
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
            query::visibility(table, &caller.actor).ok_or(EngineError::Unauthorized)?;
        let ast = query::parse(texts)?;
        Ok(query::resolve(&ast, table, visibility, None, &self.limits)?)
    }
}

/// Queries that name times.
pub(crate) struct Timed {
    pub(crate) ast: Ast,
    pub(crate) times: AskedTimes,
}

/// The queries, if they name times. Texts without such a method, which is nearly all, are not read
/// for it.
pub(crate) fn timed(texts: &[String]) -> Result<Option<Timed>, EngineError> {
    let may_name = |text: &String| {
        let methods = ["asOf", "valid", "versions"];
        methods.iter().any(|method| text.contains(method))
            // A method may be written with escapes.
            || text.contains('\\')
    };
    if !texts.iter().any(may_name) {
        return Ok(None);
    }
    let ast = query::parse(texts)?;
    let times = query::asked_times(&ast)?;
    Ok(times.map(|times| Timed { ast, times }))
}

/// What single-row reads select; any other query method is refused.
pub(crate) fn selection(table: &Table, texts: &[String]) -> Result<Selection, EngineError> {
    if texts.is_empty() {
        return Ok(Selection::All);
    }
    let ast = query::parse(texts)?;
    Ok(query::resolve_selection(&ast, table)?)
}

/// What is selected of related rows.
pub(crate) fn related(table: &Table, texts: &[String]) -> Result<Vec<RelatedNames>, EngineError> {
    if !table.has_relationships() || texts.is_empty() {
        return Ok(Vec::new());
    }
    Ok(query::resolve_related(&query::parse(texts)?, table)?)
}

/// One attempt at a list under one catalogue.
struct Attempt<'a> {
    engine: &'a Engine,
    catalogue: &'a Arc<Catalogue>,
    query: &'a Query,
    asked: &'a ListRows<'a>,
}

impl Attempt<'_> {
    /// What the rows of now will say once what is due has been brought in.
    async fn answer_at(&self, now: Timestamp) -> Result<ListAnswer, EngineError> {
        let query = Query {
            frame: Frame::Due(now),
            ..self.query.clone()
        };
        let attempt = Attempt {
            query: &query,
            ..*self
        };
        attempt.answer().await
    }

    async fn answer(&self) -> Result<ListAnswer, EngineError> {
        let read = self.read(true, self.asked.total, false).await?;
        let rows = read.rows.expect("rows were asked for");
        Ok(ListAnswer {
            rows: rows.body,
            tag: rows.tag,
            total: read.total.unwrap_or(0),
            cached: None,
            mark: read.mark,
            fixed: None,
        })
    }

    /// With related rows, which no cache keeps: a change of any of their tables would alter it.
    async fn answer_with(
        &self,
        caller: &Caller,
        related: &[RelatedNames],
    ) -> Result<ListAnswer, EngineError> {
        let asked = Related {
            query: self.query.clone(),
            names: related.to_vec(),
            total: self.asked.total.then_some(self.engine.total_cap),
            family: self.asked.family,
        };
        let turn = Turn::here();
        let read = asked.read(self.engine, &turn, self.catalogue, caller);
        let answer = read.await;
        if !turn.is_over() {
            return answer;
        }
        let (catalogue, caller) = (self.catalogue.clone(), caller.clone());
        let read = async move |engine: &Engine, turn: &Turn<'_>| {
            asked.read(engine, turn, &catalogue, &caller).await
        };
        self.engine.read_apart(read).await
    }

    /// From the cache, or read for it.
    async fn answer_by(&self, contract: Contract) -> Result<ListAnswer, EngineError> {
        if contract != Contract::Exact {
            // An exact page goes with its cursor's row; others may outlive it.
            self.check_cursor().await?;
        }
        let shared = &self.engine.shared;
        let mut asking = shared.lists.ask(Asked {
            query: self.query,
            family: self.asked.family,
            total: self.asked.total,
            contract,
        });
        // What the caller may read was asked of a catalogue. A read of the store checks that it
        // still is the one; what others read does not.
        let mut was_read_here = false;
        let answer = loop {
            match asking.step(shared.clock.elapsed_ms()) {
                Step::Answer(answer) => break answer,
                Step::Wait(joined) => {
                    let landed = joined.await;
                    asking.landed(landed);
                    was_read_here = false;
                }
                Step::Read(reading) => {
                    let read = self.read(reading.rows(), reading.total(), true).await?;
                    asking.fill(reading, read);
                    was_read_here = true;
                }
            }
        };
        if !was_read_here && self.catalogue.epoch != shared.catalogue_epoch() {
            return Err(StoreError::CatalogueMoved.into());
        }
        if answer.is_hit {
            self.engine.shape_of(self.query).hit(1);
        }
        if answer.is_hit && contract == Contract::Exact {
            self.engine.look_again(|| {
                let (family, epoch) = (self.asked.family, self.catalogue.epoch);
                Hit::of(self.query, family, epoch, &answer)
            });
        }
        let age_ms = shared
            .clock
            .elapsed_ms()
            .saturating_sub(answer.rows.read_ms);
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
        })
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
            None => Err(EngineError::CursorNotFound(cursor.row.clone())),
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
        };
        let Snapshot { answer, mark } = self.engine.read_list(listing).await?;
        let total = total.then_some(answer.total);
        let mut read_rows = None;
        if rows {
            let is_within_ttl = for_keeping && self.asked.ttl_s > 0;
            let known = answer.rows.iter().filter(|_| is_within_ttl);
            let shown = known.map(|row| row.seq).collect();
            let page = Page {
                table: self.query.table.clone(),
                selection: self.query.selection.clone(),
                rows: answer.rows,
                related: Vec::new(),
            };
            let (tag, body) = self.engine.encoded(page, self.asked.family).await?;
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

/// A list with related rows.
struct Related {
    query: Query,
    names: Vec<RelatedNames>,
    total: Option<TotalCap>,
    family: Family,
}

impl Related {
    async fn read(
        &self,
        engine: &Engine,
        turn: &Turn<'_>,
        catalogue: &Catalogue,
        caller: &Caller,
    ) -> Result<ListAnswer, EngineError> {
        let Related {
            query,
            names,
            total,
            family,
        } = self;
        let list = async |reading: &mut Gathering<'_>| reading.list(query, names, *total).await;
        let read = engine.on_one_snapshot(Some(turn), catalogue, caller, list);
        let Marked { answer, mark } = read.await?;
        engine.uncached_answer(answer, *family, mark).await
    }
}
