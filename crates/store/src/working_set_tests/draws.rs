//! Random groups of batches on a few rows that share a unique column.

use std::sync::Arc;

use model::history::{Range, Until};
use model::{
    Action, Catalogue, ColumnKind, Direction, Field, Grantee, Index, IndexColumn, IndexKey,
    IndexKind, IndexStatus, Patch, Permission, Role, RoleSet, RowId, Selection, Table, TableNumber,
    Timestamp, Value,
};
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};
use query::{Filter, Pattern, Query, Test, Visibility};
use testing::{plain_column, plain_table};

use crate::batch::{MatchingAct, MatchingOp, Op, SpaceLimit, WriteBatch};
use crate::row_op::{Guard, PeriodEnd, RowAct, RowAssertion, RowOp, Stamps};

/// Rows, and values of their unique column: few enough to meet.
const ROWS: u64 = 5;
const VALUES: u64 = 9;
/// What operations over periods name lies so far around the mark, in microseconds.
const AROUND: u64 = 400;
/// Periods that are to come begin so long after all marks …
pub(super) const NEVER_DUE: i64 = 1 << 40;
/// … or so long, by which they are due one or two groups later.
pub(super) const SOON_DUE: i64 = 1_200;

pub(super) struct BatchDraws {
    random: TestRng,
    /// Periods that are to come begin so many microseconds later.
    later: i64,
    /// Whether batches do something beside rows.
    has_more: bool,
    /// How many ids were given that are given once.
    ids: u64,
}

/// A table with a unique column and a plain one.
pub(super) fn table() -> Table {
    let columns = vec![
        plain_column(1, "x", ColumnKind::Text),
        plain_column(
            2,
            "y",
            ColumnKind::Integer {
                min: i64::MIN,
                max: i64::MAX,
            },
        ),
    ];
    let mut table = plain_table("t", columns);
    table.indexes.push(Index {
        number: 1,
        key: IndexKey::new("by_x").unwrap(),
        kind: IndexKind::Unique,
        columns: vec![IndexColumn {
            field: Field::Column(0),
            direction: Direction::Asc,
            length: None,
            held: None,
        }],
        status: IndexStatus::Available,
        created: Timestamp(0),
        updated: Timestamp(0),
    });
    table
}

impl BatchDraws {
    /// Those of one sequence.
    pub(super) fn of(sequence: u8, later: i64) -> BatchDraws {
        BatchDraws {
            random: TestRng::from_seed(RngAlgorithm::ChaCha, &[sequence; 32]),
            later,
            has_more: false,
            ids: 0,
        }
    }

    /// The same, of batches that do something beside rows, too.
    pub(super) fn with_more(self) -> BatchDraws {
        BatchDraws {
            has_more: true,
            ..self
        }
    }

    /// The number of an id that was not given before.
    pub(super) fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// The number of one that was given lately, if any was.
    pub(super) fn below_ids(&mut self) -> i64 {
        let back = self.below(8);
        self.ids.saturating_sub(back) as i64
    }

    pub(super) fn below(&mut self, count: u64) -> u64 {
        self.random.next_u64() % count
    }

    pub(super) fn is_one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn x(&mut self) -> Value {
        match self.below(VALUES + 1) {
            0 => Value::Null,
            n => Value::Text(format!("x{n}")),
        }
    }

    fn values(&mut self) -> Vec<Value> {
        vec![self.x(), Value::Int(self.below(3) as i64)]
    }

    fn patch(&mut self) -> Patch {
        match self.below(3) {
            0 => vec![(0, self.x())].into(),
            1 => vec![(1, Value::Int(self.below(3) as i64))].into(),
            _ => vec![(0, self.x()), (1, Value::Int(self.below(3) as i64))].into(),
        }
    }

    fn permissions(&mut self) -> Vec<Permission> {
        let texts = ["read(\"any\")", "update(\"user:a\")", "delete(\"user:b\")"];
        let count = self.below(3) as usize;
        Grantee::Row.parse(texts[..count].iter().copied()).unwrap()
    }

    fn new_permissions(&mut self) -> Option<Vec<Permission>> {
        self.is_one_in(4).then(|| self.permissions())
    }

    fn guard(&mut self) -> Guard {
        if !self.is_one_in(12) {
            return Guard::Open;
        }
        Guard::Granted {
            roles: Arc::new(RoleSet::new(vec![Role::any()])),
            actions: Box::new([Action::Read]),
        }
    }

    fn instant(&mut self, now: Timestamp) -> Timestamp {
        let around = self.below(AROUND) as i64;
        match self.below(3) {
            0 => Timestamp(now.0 + self.later + around),
            _ => Timestamp(now.0 - 1 - around),
        }
    }

    fn range(&mut self, now: Timestamp) -> Range {
        let from = (!self.is_one_in(4)).then(|| self.instant(now));
        let until = match self.below(4) {
            0 => Until::Next,
            1 => Until::Open,
            _ => Until::At(self.instant(now)),
        };
        Range { from, until }
    }

    fn act(&mut self, now: Timestamp) -> RowAct {
        let (stamps, guard) = (Stamps::default(), self.guard());
        match self.below(24) {
            0..=2 => RowAct::Insert {
                values: self.values(),
                permissions: self.permissions(),
                stamps,
                guard,
            },
            3..=8 => RowAct::Update {
                patch: self.patch(),
                permissions: self.new_permissions(),
                stamps,
                guard,
            },
            9..=15 => RowAct::Put {
                patch: self.patch(),
                insert: Ok(self.values()),
                permissions: self.new_permissions(),
                insert_permissions: self.permissions(),
                stamps,
                guard,
            },
            16 | 17 => RowAct::Replace {
                values: self.values(),
                permissions: self.new_permissions(),
                guard,
            },
            18 | 19 => RowAct::Resize {
                edge: match self.below(3) {
                    0 => PeriodEnd::From(self.instant(now)),
                    1 => PeriodEnd::Until(Until::Open),
                    _ => PeriodEnd::Until(Until::At(self.instant(now))),
                },
                permissions: self.new_permissions(),
                guard,
                deletion_guard: Guard::Open,
            },
            20 => RowAct::Erase,
            21 => RowAct::Assert(RowAssertion::Exists(self.is_one_in(2), None)),
            _ => RowAct::Delete { guard },
        }
    }

    fn op(&mut self, table: &Arc<Table>, now: Timestamp) -> Op {
        if self.is_one_in(12) {
            return Op::Matching(Box::new(self.matching(table)));
        }
        let id = RowId::new(&format!("r{}", self.below(ROWS))).unwrap();
        let op = RowOp::now(Arc::clone(table), id, self.act(now));
        if self.is_one_in(3) {
            return Op::Row(op.within(self.range(now)));
        }
        Op::Row(op)
    }

    fn matching(&mut self, table: &Arc<Table>) -> MatchingOp {
        let filter = if self.is_one_in(3) {
            // PostgreSQL gives a superset of these.
            let pattern = Pattern::parse("(?i)^X[1-4]$").unwrap();
            Filter::Field(Field::Column(0), Test::Matches(pattern))
        } else {
            let y = Value::Int(self.below(3) as i64);
            Filter::Field(Field::Column(1), Test::In(vec![y]))
        };
        let query = Query {
            filter,
            ..all_of(table)
        };
        MatchingOp {
            query,
            may_leave_rows: true,
            walks: false,
            bytes_max: None,
            tells_end: self.is_one_in(2),
            act: match self.below(3) {
                0 => MatchingAct::Delete { range: None },
                _ => MatchingAct::Update {
                    patch: self.patch(),
                    permissions: self.new_permissions(),
                    stamps: Stamps::default(),
                    range: None,
                },
            },
            rows_returned_max: 2,
        }
    }

    /// Some batches at this instant, and little after it.
    pub(super) fn group(&mut self, catalogue: &Catalogue, now: Timestamp) -> Vec<WriteBatch> {
        let table = catalogue.table_by_number(TableNumber(1)).unwrap();
        let count = 1 + self.below(4);
        let batches = (0..count).map(|_| {
            let mut ops = if self.has_more {
                self.beside(now)
            } else {
                Vec::new()
            };
            let count = 1 + self.below(3);
            ops.extend((0..count).map(|_| self.op(table, now)));
            WriteBatch {
                catalogue_epoch: catalogue.epoch,
                ops,
                author: None,
                unchanged_since: None,
                meta: None,
                noted_in: None,
                space: SpaceLimit::Any,
            }
        });
        batches.collect()
    }
}

/// The deletion of all rows whose unique text matches the expression.
pub(super) fn matching(table: &Arc<Table>, pattern: &str) -> MatchingOp {
    let pattern = Pattern::parse(pattern).unwrap();
    MatchingOp {
        query: Query {
            filter: Filter::Field(Field::Column(0), Test::Matches(pattern)),
            ..all_of(table)
        },
        may_leave_rows: true,
        walks: false,
        bytes_max: None,
        tells_end: false,
        act: MatchingAct::Delete { range: None },
        rows_returned_max: 0,
    }
}

fn all_of(table: &Arc<Table>) -> Query {
    Query {
        table: Arc::clone(table),
        filter: Filter::All(Vec::new()),
        order: Vec::new(),
        tie: Direction::Asc,
        random: false,
        limit: 100,
        offset: 0,
        cursor: None,
        selection: Selection::All,
        visibility: Visibility::Everything,
        then: None,
        at: None,
        frame: query::Frame::One,
        shows_span: false,
    }
}
