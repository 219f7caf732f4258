//! Random sequences of transactions on one row.

use model::Timestamp;
use model::history::{Range, Until};
use proptest::prelude::*;

/// A row of two columns; 0 is null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Doc {
    pub x: u8,
    pub y: u8,
}

/// What a merge sets; `None` keeps.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    pub x: Option<u8>,
    pub y: Option<u8>,
}

impl Columns {
    pub fn merged(self, doc: Doc) -> Doc {
        Doc {
            x: self.x.unwrap_or(doc.x),
            y: self.y.unwrap_or(doc.y),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Insert,
    Put,
    Patch,
    Update,
    /// Leaves pieces alone that have the values already, as an ordinary request does.
    UpdateWhereDifferent,
    Delete,
}

#[derive(Clone, Copy, Debug)]
pub enum Op {
    Write(Kind, Range, Columns),
    Erase,
    Exists { expected: bool, at: Option<i64> },
    HasX { x: u8, at: Option<i64> },
    UnchangedSince(i64),
}

#[derive(Clone, Debug)]
pub struct Transaction {
    /// By how much its mark is above the horizon.
    pub ahead: i64,
    pub ops: Vec<Op>,
}

/// Highest valid instant that an operation names.
pub const INSTANT_MAX: i64 = 13;
const TRANSACTIONS_MAX: usize = 6;
const AHEAD_MAX: i64 = 2;
/// Highest mark of a transaction.
pub const MARK_MAX: i64 = AHEAD_MAX * TRANSACTIONS_MAX as i64;

/// A number out of which choices are drawn. (A strategy for each choice takes ten times as long,
/// which ten thousand sequences do not bear in a build without optimisation.)
struct Draws(u64);

impl Draws {
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

    fn columns(&mut self) -> Columns {
        let mut column = || self.below(4).checked_sub(1).map(|value| value as u8);
        let (x, y) = (column(), column());
        Columns { x, y }
    }

    fn op(&mut self) -> Op {
        let kind = match self.below(52) {
            0..16 => Kind::Put,
            16..24 => Kind::Delete,
            24..32 => Kind::Patch,
            32..40 => Kind::Update,
            40..44 => Kind::UpdateWhereDifferent,
            44..48 => Kind::Insert,
            48 => return Op::Erase,
            49 => {
                let (expected, at) = (self.below(2) == 1, self.maybe_instant());
                return Op::Exists { expected, at };
            }
            50 => {
                let (x, at) = (self.below(3) as u8, self.maybe_instant());
                return Op::HasX { x, at };
            }
            _ => return Op::UnchangedSince(self.instant()),
        };
        Op::Write(kind, self.range(), self.columns())
    }
}

pub fn transactions() -> impl Strategy<Value = Vec<Transaction>> {
    let ops = prop::collection::vec(any::<u64>(), 1..5);
    let transaction = (1..=AHEAD_MAX, ops).prop_map(|(ahead, ops)| Transaction {
        ahead,
        ops: ops.into_iter().map(|draws| Draws(draws).op()).collect(),
    });
    prop::collection::vec(transaction, 1..=TRANSACTIONS_MAX)
}
