//! How one answer is put together: what is cached, what somebody else reads already, and what is
//! left to be read.
//!
//! A state machine, so that whoever waits decides how: the engine awaits, a simulation takes its
//! steps one by one. Rows and total are cached apart, and an exact answer needs both as of one
//! instant. Two parts were true together if the one that was found first is unaltered after the
//! other was found; if not, both are read anew on one snapshot.

use std::sync::Arc;

use model::{Mark, Value};
use query::Query;

use crate::entry::{Altered, Held, Rows, Total, Unaltered};
use crate::key::{Contract, Family, Key, Part};
use crate::lists::ListCache;
use crate::reading::Reading;
use crate::rules::Rule;
use crate::run::{Joined, Landed, Parts};

/// Waits for reads of others that came to nothing, before the caller reads for itself.
const WAITS_MAX: u32 = 2;

/// A list that somebody asks for. The query must be one that [`keeps`](crate::keeps) allows.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// What to list.
    pub query: &'a Query,
    /// For which route family the rows are encoded.
    pub family: Family,
    /// Whether the total is wanted.
    pub total: bool,
    /// How old the answer may be.
    pub contract: Contract,
}

/// What comes next.
pub enum Step<'a> {
    /// The answer.
    Answer(Answer),
    /// Wait for this, and hand in what it gives by [`Asking::landed`].
    Wait(Joined),
    /// Read what it says on a snapshot opened from now on, and hand it in by [`Asking::fill`].
    Read(Reading<'a>),
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The rows.
    pub rows: Rows,
    /// The total, if it was wanted: matches, up to the cap.
    pub total: Option<u64>,
    /// Whether it was cached: within a `ttl` the rows, else all of it.
    pub is_hit: bool,
    /// Within a `ttl`: whether a commit since may have altered it. `Some(false)` is proof that
    /// none has.
    pub is_stale: Option<bool>,
    /// Whether it is still so.
    pub unaltered: Unaltered,
}

/// What was read, on one snapshot.
#[derive(Clone, Debug)]
pub struct Read {
    /// The rows, if they were asked for.
    pub rows: Option<ReadRows>,
    /// The total, if it was asked for.
    pub total: Option<u64>,
    /// The mark that stood in the snapshot.
    pub mark: Mark,
    /// When the read began, in milliseconds of the clock that [`Asking::step`] is told.
    pub read_ms: u64,
}

/// Rows that were read.
#[derive(Clone, Debug)]
pub struct ReadRows {
    /// As in [`Rows::body`].
    pub body: Arc<[u8]>,
    /// As in [`Rows::tag`].
    pub tag: u128,
    /// Of a page that has as many rows as its limit: what the row read last has in each key of
    /// [`Query::read_order`]. `None` of any other page.
    pub last_place: Option<Vec<Value>>,
}

/// One answer on its way.
pub struct Asking<'a> {
    lists: &'a ListCache,
    asked: Asked<'a>,
    rows_key: Vec<u8>,
    /// Empty if no total is wanted.
    total_key: Vec<u8>,
    rows: Option<Held<Rows>>,
    total: Option<Held<Total>>,
    /// Whether the rows were cached, and whether all was.
    is_rows_hit: bool,
    is_all_hit: bool,
    stage: Stage,
    waits: u32,
}

/// How far an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Parts may be lacking.
    Gathering,
    /// Rows and total were not known to be of one instant: both are to be read on one snapshot.
    Anew,
    /// All that is wanted is there.
    Whole,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(lists: &'a ListCache, asked: Asked<'a>) -> Asking<'a> {
        let purges = lists.purges(asked.contract, asked.query.table.number);
        let key = |part| {
            let mut key = Vec::with_capacity(256);
            Key::write(&mut key, asked.query, asked.contract, part, purges);
            key
        };
        Asking {
            lists,
            rows_key: key(Part::Rows(asked.family)),
            total_key: if asked.total {
                key(Part::Total)
            } else {
                Vec::new()
            },
            asked,
            rows: None,
            total: None,
            is_rows_hit: true,
            is_all_hit: true,
            stage: Stage::Gathering,
            waits: 0,
        }
    }

    /// What comes next, at `now_ms` of the caller's monotonic clock.
    pub fn step(&mut self, now_ms: u64) -> Step<'a> {
        match self.stage {
            Stage::Whole => return Step::Answer(self.answer()),
            Stage::Anew => return self.lead(true, self.asked.total),
            Stage::Gathering => {}
        }
        let is_exact = self.asked.contract.is_exact();
        if is_exact || self.rows.is_none() {
            self.rows = self.lists.rows(&self.rows_key, self.asked.contract, now_ms);
        }
        self.lists.rules().look_away();
        if self.asked.total && (is_exact || self.total.is_none()) {
            self.total = self
                .lists
                .total(&self.total_key, self.asked.contract, now_ms);
        }
        let lacks_rows = self.rows.is_none();
        let lacks_total = self.asked.total && self.total.is_none();
        if lacks_rows || lacks_total {
            return self.miss(lacks_rows, lacks_total);
        }
        // The rows were found first.
        self.join_parts(self.rows.as_ref().is_some_and(|rows| rows.altered.is_set()));
        self.step(now_ms)
    }

    /// Takes in what [`Step::Wait`] gave.
    pub fn landed(&mut self, landed: Option<Landed>) {
        match landed {
            Some(Landed(parts)) => self.take(parts),
            None => self.waits += 1,
        }
    }

    /// Takes in what [`Step::Read`] asked for, keeps it if no commit overtook it, and hands it to
    /// those who joined.
    pub fn fill(&mut self, reading: Reading<'a>, read: Read) {
        let parts = reading.fill(read);
        self.take(parts);
    }

    /// What was found now was true at an instant after everything found before.
    fn take(&mut self, parts: Parts) {
        let has_rows = parts.rows.is_some();
        let has_total = parts.total.is_some();
        let is_one_snapshot = has_rows && (has_total || !self.asked.total);
        if has_rows {
            self.rows = parts.rows;
        }
        if has_total {
            self.total = parts.total;
        }
        let lacks_any = self.rows.is_none() || (self.asked.total && self.total.is_none());
        if !self.asked.contract.is_exact() {
            if !lacks_any {
                self.stage = Stage::Whole;
            }
        } else if is_one_snapshot {
            self.stage = Stage::Whole;
        } else {
            let found_first = if has_rows {
                self.total.as_ref().map(|total| &total.altered)
            } else {
                self.rows.as_ref().map(|rows| &rows.altered)
            };
            self.join_parts(found_first.is_none_or(Altered::is_set));
        }
    }

    /// Both parts are there; `is_altered`: the one that was found first has been altered since.
    fn join_parts(&mut self, is_altered: bool) {
        let lacks_any = self.rows.is_none() || (self.asked.total && self.total.is_none());
        let needs_one_instant = self.asked.contract.is_exact()
            && self.asked.total
            && self.lists.rules().hold(Rule::OneInstant);
        self.stage = if lacks_any || (is_altered && needs_one_instant) {
            Stage::Anew
        } else {
            Stage::Whole
        };
    }

    fn answer(&mut self) -> Answer {
        let rows = self.rows.take().expect("a whole answer has rows");
        let total = self.total.take().filter(|_| self.asked.total);
        let is_exact = self.asked.contract.is_exact();
        let is_altered =
            rows.altered.is_set() || total.as_ref().is_some_and(|total| total.altered.is_set());
        let total_altered = total.as_ref().map(|total| total.altered.clone());
        Answer {
            unaltered: Unaltered::new(rows.altered, total_altered),
            rows: rows.value,
            total: total.map(|total| total.value.count),
            is_hit: if is_exact {
                self.is_all_hit
            } else {
                self.is_rows_hit
            },
            is_stale: (!is_exact).then_some(is_altered),
        }
    }

    fn miss(&mut self, rows: bool, total: bool) -> Step<'a> {
        if self.waits < WAITS_MAX {
            let key = if rows {
                &self.rows_key
            } else {
                &self.total_key
            };
            if let Some(joined) = self.lists.join(key, rows, total) {
                self.is_rows_hit &= !rows;
                self.is_all_hit = false;
                return Step::Wait(joined);
            }
        }
        self.lead(rows, total)
    }

    fn lead(&mut self, rows: bool, total: bool) -> Step<'a> {
        self.is_rows_hit &= !rows;
        self.is_all_hit = false;
        let rows_key = rows.then_some(self.rows_key.as_slice());
        let total_key = total.then_some(self.total_key.as_slice());
        Step::Read(Reading::open(self.lists, self.asked, rows_key, total_key))
    }
}
