//! Reading rows of now: lists, cached when the reader allows some age, and single rows.

use list_cache::{Key, Lookup, Part, Rows, Ticket, Total};
use model::{Catalogue, Marked, Page, RowId, Scope, Selection, Table};
use query::{Query, RelatedNames, Visibility};
use store::{Listing, Point, Snapshot, StoreError};

use crate::Engine;
use crate::asked::{Cached, Caller, ListAnswer, ListRows, Place};
use crate::authorize;
use crate::error::EngineError;
use crate::related::Gathering;

/// A read is begun anew so often when the schema changes under it.
pub(crate) const ATTEMPTS_MAX: usize = 16;

pub(crate) const READ_ROWS: &[Scope] = &[Scope::RowsRead];

impl Engine {
    /// Lists rows. With `ttl_s` above 0 the answer may come from the cache, up to that age.
    ///
    /// # Errors
    /// Whatever keeps the caller from reading, or the query from being answered.
    pub async fn list_rows(
        &self,
        caller: &Caller,
        asked: &ListRows<'_>,
    ) -> Result<ListAnswer, EngineError> {
        for _ in 0..ATTEMPTS_MAX {
            let seen = self.shared.marks.publications();
            let catalogue = self.catalogue();
            let query = self.resolve(&catalogue, caller, asked.place, asked.texts)?;
            let related = related(&query.table, asked.texts)?;
            let reading = Reading {
                engine: self,
                catalogue: &catalogue,
                query: &query,
                asked,
            };
            let is_plain = !query.random && !query.filters_relationships();
            let answer = if !related.is_empty() {
                reading.answer_with(caller, &related).await
            } else if asked.ttl_s > 0 && self.caches_lists && is_plain {
                reading.answer_within_ttl().await
            } else {
                reading.answer().await
            };
            match answer {
                Err(EngineError::Store(StoreError::CatalogueMoved)) => {
                    self.shared.newer_catalogue(catalogue.epoch, seen).await;
                }
                answer => return answer,
            }
        }
        Err(EngineError::Overloaded)
    }

    /// One row by its id. Of `texts`, only `select` is understood.
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
            catalogue_epoch: catalogue.epoch,
        };
        if !related.is_empty() {
            let get = async |reading: &mut Gathering<'_>| reading.get(point, &related).await;
            let Marked { answer, mark } = self.on_one_snapshot(catalogue, caller, get).await?;
            let answer = answer.ok_or_else(|| EngineError::RowNotFound(id.clone()))?;
            return Ok(Marked { answer, mark });
        }
        let Snapshot { answer, mark } = self.shared.store.get(point).await?;
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

/// What single-row reads select; any other query method is refused.
fn selection(table: &Table, texts: &[String]) -> Result<Selection, EngineError> {
    if texts.is_empty() {
        return Ok(Selection::All);
    }
    let ast = query::parse(texts)?;
    Ok(query::resolve_selection(&ast, table)?)
}

/// What is selected of related rows.
fn related(table: &Table, texts: &[String]) -> Result<Vec<RelatedNames>, EngineError> {
    if !table.has_relationships() || texts.is_empty() {
        return Ok(Vec::new());
    }
    let ast = query::parse(texts)?;
    Ok(query::resolve_related(&ast, table)?)
}

/// One attempt at a list under one catalogue.
struct Reading<'a> {
    engine: &'a Engine,
    catalogue: &'a Catalogue,
    query: &'a Query,
    asked: &'a ListRows<'a>,
}

impl Reading<'_> {
    async fn answer(&self) -> Result<ListAnswer, EngineError> {
        let (rows, total) = self.read(true, self.asked.total).await?;
        let rows = rows.expect("rows were asked for");
        Ok(ListAnswer {
            rows: rows.body,
            tag: rows.tag,
            total: total.unwrap_or(0),
            cached: None,
            mark: rows.mark,
        })
    }

    /// With related rows, which no cache keeps: a change of any of their tables would alter it.
    async fn answer_with(
        &self,
        caller: &Caller,
        related: &[RelatedNames],
    ) -> Result<ListAnswer, EngineError> {
        let (query, total) = (self.query, self.asked.total);
        let list = async |reading: &mut Gathering<'_>| reading.list(query, related, total).await;
        let read = self.engine.on_one_snapshot(self.catalogue, caller, list);
        let Marked { answer, mark } = read.await?;
        let (page, total) = answer;
        let body = (self.engine.shared.encode_page)(&page, self.asked.family);
        Ok(ListAnswer {
            tag: self.engine.fingerprint(&body),
            rows: body.into(),
            total,
            cached: None,
            mark,
        })
    }

    /// Rows and total, each from the cache if it is young enough. What is missing of both is
    /// read in one go by whoever leads.
    async fn answer_within_ttl(&self) -> Result<ListAnswer, EngineError> {
        self.check_cursor().await?;
        let lists = &self.engine.shared.lists;
        let rows_key = lists.key(self.query, Part::Rows(self.asked.family));
        let total_key = self.asked.total.then(|| lists.key(self.query, Part::Total));
        let now_ms = self.engine.shared.clock.elapsed_ms();
        let known_total = total_key
            .as_ref()
            .and_then(|key| lists.total(key, self.asked.ttl_s, now_ms))
            .map(|total| total.count);
        let missing_total = total_key.filter(|_| known_total.is_none());
        let (rows, hit, mut total) = self
            .rows_within_ttl(&rows_key, missing_total.as_ref())
            .await?;
        total = total.or(known_total);
        if total.is_none()
            && let Some(key) = missing_total
        {
            total = self.fill_total(key).await?;
        }
        let age_s = now_ms.saturating_sub(rows.read_ms) / 1_000;
        let cached = if hit {
            Cached::Hit { age_s }
        } else {
            Cached::Miss
        };
        Ok(ListAnswer {
            rows: rows.body,
            tag: rows.tag,
            total: total.unwrap_or(0),
            cached: Some(cached),
            mark: rows.mark,
        })
    }

    /// The rows, whether the cache had them, and the total if it was read along with them.
    async fn rows_within_ttl(
        &self,
        key: &Key,
        missing_total: Option<&Key>,
    ) -> Result<(Rows, bool, Option<u64>), EngineError> {
        loop {
            let now_ms = self.engine.shared.clock.elapsed_ms();
            match self.engine.shared.lists.rows(key, self.asked.ttl_s, now_ms) {
                Lookup::Hit(rows) => return Ok((rows, true, None)),
                Lookup::Join(joined) => {
                    if let Some(rows) = joined.await {
                        return Ok((rows, false, None));
                    }
                }
                Lookup::Lead(ticket) => return self.lead(ticket, missing_total).await,
            }
        }
    }

    async fn lead(
        &self,
        ticket: Ticket,
        missing_total: Option<&Key>,
    ) -> Result<(Rows, bool, Option<u64>), EngineError> {
        let (rows, total) = self.read(true, missing_total.is_some()).await?;
        let rows = rows.expect("rows were asked for");
        if let (Some(key), Some(count)) = (missing_total, total) {
            let total = Total {
                count,
                read_ms: rows.read_ms,
            };
            self.engine.shared.lists.fill_total(key.clone(), total);
        }
        self.engine.shared.lists.fill_rows(ticket, rows.clone());
        Ok((rows, false, total))
    }

    async fn fill_total(&self, key: Key) -> Result<Option<u64>, EngineError> {
        let read_ms = self.engine.shared.clock.elapsed_ms();
        let (_, total) = self.read(false, true).await?;
        if let Some(count) = total {
            self.engine
                .shared
                .lists
                .fill_total(key, Total { count, read_ms });
        }
        Ok(total)
    }

    /// The cursor's row must exist whether or not the page is cached (wire protocol, 4.3).
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
            visibility: &Visibility::Everything,
            at: None,
            catalogue_epoch: self.catalogue.epoch,
        };
        match self.engine.shared.store.get(point).await?.answer {
            Some(_) => Ok(()),
            None => Err(EngineError::CursorNotFound(cursor.row.clone())),
        }
    }

    async fn read(
        &self,
        rows: bool,
        total: bool,
    ) -> Result<(Option<Rows>, Option<u64>), EngineError> {
        let shared = &self.engine.shared;
        let read_ms = shared.clock.elapsed_ms();
        let listing = Listing {
            query: self.query,
            rows,
            total: total.then_some(self.engine.total_cap),
            catalogue_epoch: self.catalogue.epoch,
        };
        let Snapshot { answer, mark } = shared.store.list(listing).await?;
        let total = total.then_some(answer.total);
        let rows = rows.then(|| {
            let page = Page {
                table: self.query.table.clone(),
                selection: self.query.selection.clone(),
                rows: answer.rows,
                related: Vec::new(),
            };
            let body = (shared.encode_page)(&page, self.asked.family);
            Rows {
                tag: self.engine.fingerprint(&body),
                body: body.into(),
                mark,
                read_ms,
            }
        });
        Ok((rows, total))
    }
}
