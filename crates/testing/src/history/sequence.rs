//! Random sequences of transactions on one row.

#![allow(
    missing_docs,
    reason = "operations and columns are named as the model names them"
)]

use model::Timestamp;
use model::history::{Range, Until};
use proptest::prelude::*;

/// A row of two columns; 0 is null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HistoryDoc {
    pub x: u8,
    pub y: u8,
}

/// What a merge sets; `None` keeps.
#[derive(Clone, Copy, Debug)]
pub struct SetColumns {
    pub x: Option<u8>,
    pub y: Option<u8>,
}

impl SetColumns {
    pub fn merged(self, doc: HistoryDoc) -> HistoryDoc {
        HistoryDoc {
            x: self.x.unwrap_or(doc.x),
            y: self.y.unwrap_or(doc.y),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum HistoryWrite {
    Insert,
    Put,
    Patch,
    Update,
    /// Leaves pieces alone that have the values already, as an ordinary request does.
    UpdateWhereDifferent,
    Delete,
}

#[derive(Clone, Copy, Debug)]
pub enum HistoryOp {
    Write(HistoryWrite, Range, SetColumns),
    Erase,
    Exists { expected: bool, at: Option<i64> },
    HasX { x: u8, at: Option<i64> },
    UnchangedSince(i64),
}

/// An end of a row's unbroken time, and where it goes.
#[derive(Clone, Copy, Debug)]
pub enum HistoryEnd {
    /// `i64::MIN` is the beginning of time.
    From(i64),
    Until(Until),
}

#[derive(Clone, Debug)]
pub struct HistoryTransaction {
    /// By how much its mark is above the horizon.
    pub ahead: i64,
    pub ops: Vec<HistoryOp>,
}

/// Highest valid instant that an operation names.
pub const INSTANT_MAX: i64 = 13;
const TRANSACTIONS_MAX: usize = 6;
const AHEAD_MAX: i64 = 2;
/// Highest mark of a transaction.
pub const MARK_MAX: i64 = AHEAD_MAX * TRANSACTIONS_MAX as i64;

/// A number out of which choices are drawn. (A strategy for each choice takes ten times as long,
/// which ten thousand sequences do not bear in a build without optimisation.)
struct HistoryDraws(u64);

impl HistoryDraws {
    /// One of `count` choices.
    fn below(&mut self, count: u64) -> u64 {
        let drawn = self.0 % count;
        self.0 /= count;
        drawn
    }

    fn instant(&mut self) -> i64 {
        self.below(INSTANT_MAX as u64 + 2) as i64 - 1
    }

    fn maybe_instant(&mut self) -> Option<i64> {
        (self.below(2) == 1).then(|| self.instant())
    }

    fn range(&mut self) -> Range {
        let from = match self.below(10) {
            0..3 => None,
            3 => Some(Timestamp::BOT),
            _ => Some(Timestamp(self.instant())),
        };
        let until = match self.below(10) {
            0..3 => Until::Open,
            3 | 4 => Until::Next,
            // Seldom before the beginning, because a transaction that is refused shows little.
            _ => {
                let from = from.map_or(INSTANT_MAX / 2, |from| from.0.max(-1));
                let to = from + self.below(INSTANT_MAX as u64) as i64;
                Until::At(Timestamp(to.min(INSTANT_MAX)))
            }
        };
        Range { from, until }
    }

    fn columns(&mut self) -> SetColumns {
        let mut column = || self.below(4).checked_sub(1).map(|value| value as u8);
        let (x, y) = (column(), column());
        SetColumns { x, y }
    }

    fn end(&mut self) -> HistoryEnd {
        match self.below(8) {
            0 => HistoryEnd::Until(Until::Open),
            1 => HistoryEnd::Until(Until::Next),
            2 => HistoryEnd::From(i64::MIN),
            3 | 4 => HistoryEnd::From(self.instant()),
            _ => HistoryEnd::Until(Until::At(Timestamp(self.instant()))),
        }
    }

    fn op(&mut self) -> HistoryOp {
        let kind = match self.below(52) {
            0..16 => HistoryWrite::Put,
            16..24 => HistoryWrite::Delete,
            24..32 => HistoryWrite::Patch,
            32..40 => HistoryWrite::Update,
            40..44 => HistoryWrite::UpdateWhereDifferent,
            44..48 => HistoryWrite::Insert,
            48 => return HistoryOp::Erase,
            49 => {
                let (expected, at) = (self.below(2) == 1, self.maybe_instant());
                return HistoryOp::Exists { expected, at };
            }
            50 => {
                let (x, at) = (self.below(3) as u8, self.maybe_instant());
                return HistoryOp::HasX { x, at };
            }
            _ => return HistoryOp::UnchangedSince(self.instant()),
        };
        HistoryOp::Write(kind, self.range(), self.columns())
    }
}

pub fn transactions() -> impl Strategy<Value = Vec<HistoryTransaction>> {
    let ops = prop::collection::vec(any::<u64>(), 1..5);
    let transaction = (1..=AHEAD_MAX, ops).prop_map(|(ahead, ops)| HistoryTransaction {
        ahead,
        ops: ops
            .into_iter()
            .map(|draws| HistoryDraws(draws).op())
            .collect(),
    });
    prop::collection::vec(transaction, 1..=TRANSACTIONS_MAX)
}

/// Which transactions of a sequence, by their place in it, are to move an end instead.
pub fn moved_ends() -> impl Strategy<Value = Vec<Option<HistoryEnd>>> {
    let end = any::<u64>().prop_map(|draws| {
        let mut draws = HistoryDraws(draws);
        (draws.below(4) == 0).then(|| draws.end())
    });
    prop::collection::vec(end, TRANSACTIONS_MAX)
}
