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

fn instant() -> impl Strategy<Value = i64> {
    -1..=INSTANT_MAX
}

fn range() -> impl Strategy<Value = Range> {
    let from = prop_oneof![
        3 => Just(None),
        1 => Just(Some(Timestamp::BOT)),
        6 => instant().prop_map(|at| Some(Timestamp(at))),
    ];
    let until = prop_oneof![
        3 => Just(Until::Open),
        2 => Just(Until::Next),
        5 => instant().prop_map(|at| Until::At(Timestamp(at))),
    ];
    (from, until).prop_map(|(from, until)| Range { from, until })
}

fn op() -> impl Strategy<Value = Op> {
    let kind = prop_oneof![
        1 => Just(Kind::Insert),
        4 => Just(Kind::Put),
        2 => Just(Kind::Patch),
        2 => Just(Kind::Update),
        1 => Just(Kind::UpdateWhereDifferent),
        2 => Just(Kind::Delete),
    ];
    let column = || prop::option::of(0..3_u8);
    let columns = (column(), column()).prop_map(|(x, y)| Columns { x, y });
    let at = || prop::option::of(instant());
    prop_oneof![
        40 => (kind, range(), columns).prop_map(|(kind, range, set)| Op::Write(kind, range, set)),
        1 => Just(Op::Erase),
        1 => (any::<bool>(), at()).prop_map(|(expected, at)| Op::Exists { expected, at }),
        1 => (0..3_u8, at()).prop_map(|(x, at)| Op::HasX { x, at }),
        1 => (0..=INSTANT_MAX).prop_map(Op::UnchangedSince),
    ]
}

pub fn transactions() -> impl Strategy<Value = Vec<Transaction>> {
    let ops = prop::collection::vec(op(), 1..5);
    let transaction = (1..=AHEAD_MAX, ops).prop_map(|(ahead, ops)| Transaction { ahead, ops });
    prop::collection::vec(transaction, 1..=TRANSACTIONS_MAX)
}
