//! Changing or deleting all rows that match, in slices.
//!
//! A slice is a batch like any other: atomic, with a mark of its own. Between two slices the
//! writer serves the requests that wait, so a change of a million rows holds none up for longer
//! than one slice takes. Slices go by `$sequence`, which no change moves: no row is met twice.
//! Together they cover the rows that were there before the mark of the first one: up to where those
//! go is read inside its transaction. Rows that are created between two slices are left alone.

use std::sync::Arc;

use model::{
    Actor, Catalogue, Direction, Field, Json, Mark, Marked, Page, Row, Selection, Table, Timestamp,
    Value,
};
use query::index_choice::{ScanExtent, scan_extent};
use query::{Filter, Limits, OrderKey, Query, QueryError, Side, Test, Visibility};
use store::batch::BATCH_ROWS_MAX;
use store::{Matched, MatchingAct, MatchingOp, Once, Op, Outcome, Refusal, WriteBatch};

use crate::Engine;
use crate::commit::batch::batch;
use crate::error::refused::answer;
use crate::error::{EngineError, Unavailable, WriteError};
use crate::request::attempt::ATTEMPTS_MAX;
use crate::request::authorize::{self, WRITE_ROWS};
use crate::request::inputs::{Caller, Effect, Place};
use crate::request::times;
use crate::write::content::{Content, PermissionsIn, Sent};
use crate::write::rows_write::need_no_relationships;

/// Most rows of one slice. As many as may share a commit with other requests (design page,
/// section 4). At the 18.7 microseconds a change that the bitemporal page measured (section 7), a
/// neighbour waits about 20 milliseconds and a sync.
pub(crate) const SLICE_ROWS_MAX: u32 = 1_000;
/// A slice ends behind the row with which it has written so many bytes, as they were before and are
/// now: a neighbour waits for those as well.
const SLICE_BYTES_MAX: usize = 8 << 20;
/// Where no index leads to the matches, so many rows are looked at in one slice: a search through
/// a million rows takes a good part of a second, which no other write should wait for.
const SLICE_LOOKED_AT_MAX: i64 = 100_000;
/// Most rows that an answer shows (wire protocol, section 2.6).
const ROWS_RETURNED_MAX: usize = 100;
/// Stands for "no limit": more rows than any slice has.
const NO_LIMIT: u32 = u32::MAX;

/// The rows that a bulk write is about.
#[derive(Clone, Copy, Debug)]
pub struct Bulk<'a> {
    /// Where.
    pub place: Place<'a>,
    /// The query texts as sent; none means every row.
    pub texts: &'a [String],
    /// Rows that were changed after this stop it.
    pub unchanged_since: Option<Timestamp>,
}

/// What a bulk write did.
#[derive(Clone, Debug)]
pub struct Bulked {
    /// How many rows matched, those included that had the values already.
    pub total: u64,
    /// The first 100 of them as they became; deleted ones as they were.
    pub page: Page,
}

impl Engine {
    /// Merges `members` into every row that matches; for keys only.
    ///
    /// Up to 1,000 rows, and 8 MiB of them, are changed together or not at all; more, or a filter
    /// without an index on a table of more than 100,000 rows, are changed in slices. A query that
    /// orders the rows *and* limits, offsets or starts them at a cursor is one commit, of at most
    /// 10,000 rows.
    ///
    /// # Errors
    /// [`WriteError::PayloadMissing`], [`WriteError::TooManyRows`], what keeps the caller,
    /// the query or the content out; as [`WriteError::Partly`] if slices went before.
    pub async fn update_rows(
        &self,
        caller: &Caller,
        request: &Bulk<'_>,
        members: &[(String, Json)],
    ) -> Result<Marked<Bulked>, EngineError> {
        authorize::need_key(caller, WRITE_ROWS)?;
        if members.is_empty() {
            return Err(WriteError::PayloadMissing.into());
        }
        self.write_matching(caller, request, |table| {
            update(table, &caller.actor, members)
        })
        .await
    }

    /// Deletes every row that matches, from now on or over the period that `members` name; for keys
    /// only. Slices are as for
    /// [`Engine::update_rows`].
    ///
    /// # Errors
    /// [`WriteError::TooManyRows`], what keeps the caller or the query out; as
    /// [`WriteError::Partly`] if slices went before.
    pub async fn delete_rows(
        &self,
        caller: &Caller,
        request: &Bulk<'_>,
        members: &[(String, Json)],
    ) -> Result<Marked<Bulked>, EngineError> {
        authorize::need_key(caller, WRITE_ROWS)?;
        self.write_matching(caller, request, |_| deletion(members))
            .await
    }

    async fn write_matching(
        &self,
        caller: &Caller,
        request: &Bulk<'_>,
        act: impl Fn(&Table) -> Result<MatchingAct, EngineError>,
    ) -> Result<Marked<Bulked>, EngineError> {
        let mut progress = Progress::default();
        let mut attempts = 0;
        while attempts < ATTEMPTS_MAX {
            let seen = self.shared.marks.publications();
            let catalogue = self.catalogue();
            let slice = self.slice(&catalogue, caller, request, &act, &mut progress);
            match slice.await {
                Ok(Next::Done(table)) => return Ok(self.bulked(table, progress)),
                Ok(Next::Slice) => attempts = 0,
                Ok(Next::Again) => {
                    attempts += 1;
                    self.shared.newer_catalogue(catalogue.epoch, seen).await;
                }
                Err(error) => return Err(progress.stopped(error)),
            }
        }
        Err(progress.stopped(EngineError::Unavailable(Unavailable::Overloaded)))
    }

    /// Runs the next slice under this catalogue.
    async fn slice(
        &self,
        catalogue: &Catalogue,
        caller: &Caller,
        request: &Bulk<'_>,
        act: impl Fn(&Table) -> Result<MatchingAct, EngineError>,
        progress: &mut Progress,
    ) -> Result<Next, EngineError> {
        let table = authorize::table(catalogue, caller, request.place)?;
        need_no_relationships(table)?;
        let query = resolve(table, request.texts)?;
        let act = act(table)?;
        // What runs once is one commit, with one answer.
        let is_whole = caller.request.is_some();
        let slice = if is_whole {
            Some(whole(query))
        } else {
            progress.next(&query)
        };
        let Some(slice) = slice else {
            return Ok(Next::Done(table.clone()));
        };
        let op = MatchingOp {
            query: slice.query.clone(),
            may_leave_rows: slice.may_leave_rows,
            walks: slice.walks,
            bytes_max: slice.may_go_on.then_some(SLICE_BYTES_MAX),
            tells_end: slice.may_go_on && progress.end.is_none(),
            act,
            rows_returned_max: ROWS_RETURNED_MAX.saturating_sub(progress.rows.len()),
        };
        let once = self.once_of_matching(caller, table);
        let mut ops: Vec<Op> = once.into_iter().map(Op::Once).collect();
        ops.push(Op::Matching(Box::new(op)));
        let batch = WriteBatch {
            unchanged_since: request.unchanged_since,
            ..batch(catalogue, caller, ops)
        };
        let applied = match self.writer.commit(batch).await? {
            Outcome::Err(Refusal::CatalogueMoved) => return Ok(Next::Again),
            outcome => answer(outcome)?,
        };
        progress.mark = applied.mark.or(progress.mark);
        let matched = applied.matched.into_iter().next();
        let matched = matched.expect("one operation, one report");
        Ok(if progress.take(table, &slice, matched) {
            Next::Done(table.clone())
        } else {
            Next::Slice
        })
    }

    fn once_of_matching(&self, caller: &Caller, table: &Arc<Table>) -> Option<Once> {
        let table = table.clone();
        self.once(caller, move |done, tell| {
            let Some(matched) = done.matched.first() else {
                return;
            };
            let page = Page {
                table: table.clone(),
                selection: Selection::All,
                rows: matched.rows.clone(),
                related: Vec::new(),
            };
            let total = matched.count as u64;
            tell(&Effect::Rows { total, page: &page });
        })
    }

    fn bulked(&self, table: Arc<Table>, progress: Progress) -> Marked<Bulked> {
        let published = || self.shared.marks.published();
        Marked {
            // Where nothing was changed, what was committed while the answer was on its way was
            // not looked at.
            mark: progress.mark.or(progress.seen).unwrap_or_else(published),
            answer: Bulked {
                total: progress.total,
                page: Page {
                    table: progress.table.unwrap_or(table),
                    selection: Selection::All,
                    rows: progress.rows,
                    related: Vec::new(),
                },
            },
        }
    }
}

/// Keys see every row, so that no visibility narrows a bulk write.
pub(crate) fn resolve(table: &Arc<Table>, texts: &[String]) -> Result<Query, EngineError> {
    let limits = Limits {
        page_rows_default: NO_LIMIT,
        page_rows_max: NO_LIMIT,
    };
    let ast = query::parse(texts)?;
    if query::named_times(&ast)?.is_some() {
        let why = "other times than now are for reads of rows only".to_owned();
        return Err(QueryError::Invalid(why).into());
    }
    let everything = Visibility::Everything;
    Ok(query::resolve(&ast, table, everything, None, &limits)?)
}

pub(crate) fn update(
    table: &Table,
    actor: &Actor,
    members: &[(String, Json)],
) -> Result<MatchingAct, EngineError> {
    let sent = Sent {
        members,
        permissions: None,
        permissions_in: PermissionsIn::Content,
        may_operate: true,
    };
    let content = Content::check(table, actor, sent)?;
    if times::are_alone(members) {
        return Ok(MatchingAct::Resize {
            edge: times::moved_end(members).map_err(WriteError::Structure)?,
            permissions: content.permissions,
        });
    }
    Ok(MatchingAct::Update {
        patch: content.patch,
        permissions: content.permissions,
        stamps: content.stamps,
        range: times::range(members).map_err(WriteError::Structure)?,
    })
}

pub(crate) fn deletion(members: &[(String, Json)]) -> Result<MatchingAct, EngineError> {
    let range = times::range(members).map_err(WriteError::Structure)?;
    Ok(MatchingAct::Delete { range })
}

/// What comes after a slice.
enum Next {
    Slice,
    /// The same slice, under a newer catalogue.
    Again,
    Done(Arc<Table>),
}

/// A slice to run.
struct Slice {
    query: Query,
    may_leave_rows: bool,
    /// Whether it is bounded by the rows it looks at, in place of those that match.
    walks: bool,
    /// Up to which `$sequence` it looks, if not to the end.
    looks_to: Option<i64>,
    /// Whether another one may follow.
    may_go_on: bool,
}

/// How far a bulk write has come.
#[derive(Default)]
struct Progress {
    total: u64,
    /// All rows up to this `$sequence` are done.
    done_to: Option<i64>,
    /// Rows beyond this `$sequence` came after the first slice, which says so.
    end: Option<i64>,
    mark: Option<Mark>,
    /// The mark of the last commit that the first slice has seen.
    seen: Option<Mark>,
    /// The schema of the rows below.
    table: Option<Arc<Table>>,
    rows: Vec<Row>,
}

impl Progress {
    /// Whether the next slice must be bounded by the rows it looks at. An index that leads to the
    /// matches in another order is asked once: it would give all of them again to each slice. An
    /// offset counts from the first match on, and a cursor stands somewhere: with either, the
    /// first slice looks at all.
    fn walks(&self, query: &Query) -> bool {
        let is_first = self.done_to.is_none();
        if !goes_by_sequence(query) || (is_first && (query.offset > 0 || query.cursor.is_some())) {
            return false;
        }
        match scan_extent(query) {
            ScanExtent::Matches => false,
            ScanExtent::AllMatches => !is_first,
            ScanExtent::Rows => true,
        }
    }

    /// The next slice; `None` when nothing is left to look at.
    fn next(&self, query: &Query) -> Option<Slice> {
        if !goes_by_sequence(query) {
            return Some(whole(query.clone()));
        }
        let mut query = Query {
            order: Vec::new(),
            tie: Direction::Asc,
            random: false,
            ..query.clone()
        };
        let (walks, looks_to) = (self.walks(&query), self.looks_to(&query));
        if let Some(done_to) = self.done_to {
            if self.end.is_some_and(|end| done_to >= end) {
                return None;
            }
            (query.offset, query.cursor) = (0, None);
            add_condition(&mut query, Test::Greater(Value::Int(done_to)));
        }
        if let Some(last) = looks_to.or(self.end) {
            add_condition(&mut query, Test::LessEqual(Value::Int(last)));
        }
        let left = u64::from(query.limit).saturating_sub(self.total);
        if left == 0 {
            return None;
        }
        query.limit = SLICE_ROWS_MAX.min(u32::try_from(left).unwrap_or(SLICE_ROWS_MAX));
        Some(Slice {
            query,
            may_leave_rows: true,
            walks,
            looks_to,
            may_go_on: true,
        })
    }

    /// Up to where a slice that is bounded so looks, if not to the end.
    fn looks_to(&self, query: &Query) -> Option<i64> {
        if !self.walks(query) {
            return None;
        }
        let to = self
            .done_to
            .unwrap_or(0)
            .saturating_add(SLICE_LOOKED_AT_MAX);
        self.end.is_none_or(|end| to < end).then_some(to)
    }

    /// Takes in what a slice did. Says whether it was the last one.
    fn take(&mut self, table: &Arc<Table>, slice: &Slice, matched: Matched) -> bool {
        self.total += matched.count as u64;
        // Rows of two schemas would not fit one page.
        let first = self.table.get_or_insert_with(|| table.clone());
        if first.schema_epoch == table.schema_epoch {
            self.rows.extend(matched.rows);
        }
        self.end = self.end.or(matched.end);
        self.seen = self.seen.or(matched.seen);
        let is_full = matched.is_cut || matched.count == slice.query.limit as usize;
        self.done_to = if is_full {
            matched.last_seq.or(self.done_to)
        } else {
            slice.looks_to
        };
        let is_through = |done_to| self.end.is_some_and(|end| done_to >= end);
        !slice.may_go_on || self.done_to.is_none_or(is_through)
    }

    fn stopped(&self, error: EngineError) -> EngineError {
        match self.total {
            0 => error,
            rows => EngineError::Write(WriteError::Partly {
                rows,
                error: Box::new(error),
            }),
        }
    }
}

/// All of it in one commit, or nothing.
fn whole(query: Query) -> Slice {
    let rows_max = u32::try_from(BATCH_ROWS_MAX).expect("a batch has fewer rows");
    Slice {
        may_leave_rows: query.limit <= rows_max,
        query: Query {
            limit: query.limit.min(rows_max),
            ..query
        },
        walks: false,
        looks_to: None,
        may_go_on: false,
    }
}

/// Whether the rows can be found in order of `$sequence`. Without a limit, an offset or a cursor
/// no order decides which rows match.
fn goes_by_sequence(query: &Query) -> bool {
    let by_sequence = OrderKey {
        field: Field::Sequence,
        direction: Direction::Asc,
    };
    let takes_all = query.limit == NO_LIMIT && query.offset == 0 && query.cursor.is_none();
    let is_default = query.order.is_empty() || query.order == [by_sequence];
    let is_before = |cursor: &query::Cursor| cursor.side == Side::Before;
    let goes_back = query.cursor.as_ref().is_some_and(is_before);
    takes_all || (!query.random && is_default && !goes_back)
}

fn add_condition(query: &mut Query, test: Test) {
    let all = Filter::All(Vec::new());
    let filter = std::mem::replace(&mut query.filter, all);
    query.filter = Filter::All(vec![filter, Filter::Field(Field::Sequence, test)]);
}

#[cfg(test)]
mod tests;
