//! How one answer is put together: what is cached, what another caller reads already, and what is
//! left to be read.
//!
//! A state machine, so that the waiting side decides how: the engine awaits, a simulation takes its
//! steps one by one. Rows and total are cached apart, and an exact answer needs both as of one
//! instant. Two parts were true together if the one that was found first is unaltered after the
//! other was found; if not, both are read again on one snapshot.

use crate::entry::{Freshness, StaleFlag};
use crate::fill::{Fill, FillTurn};
use crate::lists::ListCache;
use crate::names::Names;
use crate::request::{Answer, Completeness, ListRequest, Read};
use crate::rules::Rule;
use crate::run::{Failure, FillOutcome, ReadParts, Waiter};

/// Waits for reads of others that came to nothing, before the caller reads for itself.
const WAITS_MAX: u32 = 2;

/// What comes next.
pub enum Step<'a> {
    /// The answer.
    Answer(Answer),
    /// Wait for this, and hand in what it gives by [`ListFetch::take_outcome`].
    Wait(Waiter),
    /// Read what it says on a snapshot opened from now on, and hand it in by [`ListFetch::fill`].
    Read(Fill<'a>),
}

/// One answer on its way.
pub struct ListFetch<'a> {
    lists: &'a ListCache,
    request: ListRequest<'a>,
    names: Names,
    held: ReadParts,
    /// Whether the rows were cached, and whether all was.
    is_rows_hit: bool,
    is_all_hit: bool,
    stage: FetchStage,
    waits: u32,
}

/// How far an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FetchStage {
    /// Parts may be lacking.
    Gathering,
    /// Rows and total were not known to be of one instant: both are to be read on one snapshot.
    Reread,
    /// All that is wanted is there.
    Whole,
}

impl<'a> ListFetch<'a> {
    pub(crate) fn new(lists: &'a ListCache, request: ListRequest<'a>) -> ListFetch<'a> {
        ListFetch {
            lists,
            names: lists.name(request),
            request,
            held: ReadParts::default(),
            is_rows_hit: true,
            is_all_hit: true,
            stage: FetchStage::Gathering,
            waits: 0,
        }
    }

    /// What comes next, at `now_ms` of the caller's monotonic clock.
    pub fn step(&mut self, now_ms: u64) -> Step<'a> {
        match self.stage {
            FetchStage::Whole => return Step::Answer(self.answer()),
            FetchStage::Reread => return self.miss(true, self.request.total),
            FetchStage::Gathering => {}
        }
        let found = self.lists.find(&self.names, &mut self.held, now_ms);
        self.stage = match found {
            Completeness::Lacking { rows, total } => return self.miss(rows, total),
            Completeness::OfTwoInstants => FetchStage::Reread,
            Completeness::Whole => FetchStage::Whole,
        };
        self.step(now_ms)
    }

    /// Takes in what [`Step::Wait`] gave.
    ///
    /// # Errors
    /// Why the read failed that was joined. Unless the caller has rights that its reader had not,
    /// the answer is this.
    pub fn take_outcome(&mut self, outcome: Option<FillOutcome>) -> Result<(), Failure> {
        match outcome {
            Some(FillOutcome(parts)) => self.take(parts?),
            None => self.waits += 1,
        }
        Ok(())
    }

    /// Takes in what [`Step::Read`] asked for, keeps it if no commit overtook it, and hands it to
    /// those who joined.
    pub fn fill(&mut self, fill: Fill<'a>, read: Read) {
        let parts = fill.fill(read);
        self.take(parts);
    }

    /// What was found now was true at an instant after everything found before.
    fn take(&mut self, parts: ReadParts) {
        let has_rows = parts.rows.is_some();
        let has_total = parts.total.is_some();
        let is_one_snapshot = has_rows && (has_total || !self.request.total);
        if has_rows {
            self.held.rows = parts.rows;
        }
        if has_total {
            self.held.total = parts.total;
        }
        let lacks_any = self.held.lacks_any(&self.names);
        if !self.request.contract.is_exact() {
            if !lacks_any {
                self.stage = FetchStage::Whole;
            }
        } else if is_one_snapshot {
            self.stage = FetchStage::Whole;
        } else {
            let found_first = if has_rows {
                self.held.total.as_ref().map(|total| &total.stale)
            } else {
                self.held.rows.as_ref().map(|rows| &rows.stale)
            };
            let is_stale = found_first.is_none_or(StaleFlag::is_set);
            self.stage = if lacks_any || self.lists.parts(&self.names, is_stale) {
                FetchStage::Reread
            } else {
                FetchStage::Whole
            };
        }
    }

    fn answer(&mut self) -> Answer {
        let is_hit = if self.request.contract.is_exact() {
            self.is_all_hit
        } else {
            self.is_rows_hit
        };
        let answer = std::mem::take(&mut self.held).answer(&self.names, is_hit);
        answer.expect("a whole answer has rows")
    }

    fn miss(&mut self, rows: bool, total: bool) -> Step<'a> {
        self.is_rows_hit &= !rows;
        self.is_all_hit = false;
        let names = (
            rows.then_some(self.names.rows()),
            self.names.total().filter(|_| total),
        );
        let may_join = self.waits < WAITS_MAX;
        match Fill::join_or_open(self.lists, self.request, names, may_join) {
            FillTurn::Joined(joined) => Step::Wait(joined),
            FillTurn::Opened(fill) => Step::Read(fill),
        }
    }
}

impl ListCache {
    /// Begins to put an answer together.
    pub fn ask<'a>(&'a self, request: ListRequest<'a>) -> ListFetch<'a> {
        ListFetch::new(self, request)
    }

    /// Looks for the parts of an answer, one after the other; within a `ttl`, for those that are
    /// not held. Each answer from the cache comes through here, and nowhere else.
    pub(crate) fn find(&self, names: &Names, held: &mut ReadParts, now_ms: u64) -> Completeness {
        let contract = names.contract();
        let is_exact = contract.is_exact();
        if is_exact || held.rows.is_none() {
            held.rows = self.rows(names.rows(), contract, now_ms);
        }
        self.rules().pause_for_test();
        if let Some(name) = names.total()
            && (is_exact || held.total.is_none())
        {
            held.total = self.total(name, contract, now_ms);
        }
        if held.lacks_any(names) {
            let (rows, total) = (held.rows.is_none(), held.total.is_none());
            let total = total && names.total().is_some();
            return Completeness::Lacking { rows, total };
        }
        // The rows were found first: unaltered, they were true together with the total.
        let are_rows_stale = held.rows.as_ref().is_some_and(|rows| rows.stale.is_set());
        if self.parts(names, are_rows_stale) {
            Completeness::OfTwoInstants
        } else {
            Completeness::Whole
        }
    }

    /// Whether rows and total must not be answered together, if what was found first has been
    /// altered or not since.
    fn parts(&self, names: &Names, is_stale: bool) -> bool {
        let has_two_parts = names.contract().is_exact() && names.total().is_some();
        is_stale && has_two_parts && self.rules().hold(Rule::OneInstant)
    }
}

impl ReadParts {
    fn lacks_any(&self, names: &Names) -> bool {
        self.rows.is_none() || (names.total().is_some() && self.total.is_none())
    }

    /// The answer; `None` without rows.
    pub(crate) fn answer(self, names: &Names, is_hit: bool) -> Option<Answer> {
        let rows = self.rows?;
        let total = self.total.filter(|_| names.total().is_some());
        // Moved, not copied: each copy counts in a place that all cores share.
        let (total, total_stale) = match total {
            Some(total) => (Some(total.value.count), Some(total.stale)),
            None => (None, None),
        };
        let freshness = Freshness::new(rows.stale, total_stale);
        let is_within_ttl = !names.contract().is_exact();
        Some(Answer {
            is_stale: is_within_ttl.then(|| !freshness.holds()),
            freshness,
            rows: rows.value,
            total,
            is_hit,
        })
    }
}
