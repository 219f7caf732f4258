//! Random batches of operations that need each other: unique values that change hands, rows that
//! come after those that refer to them and go before them. An oracle that knows no versions says
//! which are refused, and what is left.

mod suite;

use futures_executor::block_on;
use model::history::{Range, Until};
use model::{
    ColumnKind, Coordinates, Direction, Field, IndexKind, Mark, Selection, Table, Timestamp, Value,
};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config as ProptestConfig, RngAlgorithm, TestRng, TestRunner};
use query::{Filter, Query, Test, Visibility};
use store::{
    CatalogueOp, ConstraintChange, Op, Outcome, Point, Refusal, RowAct, RowAssertion, RowOp,
    TableConstraints,
};
use suite::db::{
    DATABASE, Db, Directory, PROJECT, column, create_database, create_project, index, notes_called,
    row_id,
};
use suite::history_write::row_act;
use testing::OwnTurn;
use testing::history::{
    HistoryDoc, HistoryGrid, HistoryOp, HistoryWrite, SetColumns, instants, transactions,
};

const SEQUENCES: u32 = 400;
const SEQUENCES_AT_NIGHT: u32 = 8_000;
/// Each sequence has so much time for itself.
const STRETCH: i64 = 100;
/// Rows of a sequence. The second column of each refers to one of the last two.
const ROWS: u8 = 3;

const X: usize = 0;
const TO: usize = 1;

/// One sequence on the rows that are its own, and what is believed of each.
struct Sequence<'d> {
    db: &'d mut Db,
    number: u32,
    since: i64,
    grids: Vec<HistoryGrid>,
    /// What was done so far, to be shown where the two disagree.
    done: Vec<String>,
}

fn furnished(place: &Directory) -> Db {
    let mut db = Db::open(place);
    let kind = ColumnKind::Bigint {
        min: i64::MIN,
        max: i64::MAX,
    };
    let table = Table {
        columns: vec![
            column(1, "x", kind, false),
            column(2, "to", ColumnKind::Varchar { chars_max: 36 }, false),
        ],
        indexes: vec![index(1, "one_x", IndexKind::Unique, &[(X, Direction::Asc)])],
        ..notes_called("notes")
    };
    db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
    db.ok(vec![Op::Catalogue(create_database(DATABASE))]);
    db.ok(vec![Op::Catalogue(CatalogueOp::CreateTable(Box::new(
        table,
    )))]);
    let table = db.table();
    let constraints = TableConstraints {
        unique: Vec::new(),
        refs: vec![(table.columns[TO].number, table.number)],
    };
    let change = ConstraintChange::Replace(constraints);
    db.ok(vec![Op::Catalogue(CatalogueOp::Constrain {
        table,
        change,
    })]);
    db
}

impl Sequence<'_> {
    fn name(&self, row: u8) -> String {
        format!("s{}r{row}", self.number)
    }

    fn instant(&self, at: i64) -> Timestamp {
        match at {
            i64::MIN => Timestamp::BOT,
            at => Timestamp(self.since + at),
        }
    }

    fn x(&self, x: u8) -> Value {
        match x {
            0 => Value::Null,
            x => Value::Int(i64::from(self.number) * 10 + i64::from(x)),
        }
    }

    fn to(&self, row: u8) -> Value {
        match row {
            0 => Value::Null,
            row => Value::Text(self.name(row)),
        }
    }

    fn op(&self, row: u8, op: HistoryOp) -> Op {
        let at = |at: Option<i64>| at.map(|at| self.instant(at));
        let mut over = Range::default();
        let act = match op {
            HistoryOp::Write(kind, range, set) => {
                over.from = range.from.map(|from| self.instant(from.0));
                over.until = match range.until {
                    Until::At(end) => Until::At(self.instant(end.0)),
                    other => other,
                };
                self.act(kind, set)
            }
            HistoryOp::Erase => RowAct::Erase,
            HistoryOp::Exists { expected, at: when } => {
                RowAct::Assert(RowAssertion::Exists(expected, at(when)))
            }
            HistoryOp::HasX { x, at: when } => {
                RowAct::Assert(RowAssertion::Equals(vec![(X, self.x(x))], at(when)))
            }
            HistoryOp::UnchangedSince(since) => {
                RowAct::Assert(RowAssertion::UnchangedSince(Mark(self.since + since)))
            }
        };
        let id = row_id(&self.name(row));
        Op::Row(RowOp::over(self.db.table(), id, over, act).literal())
    }

    fn act(&self, kind: HistoryWrite, set: SetColumns) -> RowAct {
        let whole = set.merged(HistoryDoc::default());
        let values = vec![self.x(whole.x), self.to(whole.y)];
        let x = set.x.map(|x| (X, self.x(x)));
        let to = set.y.map(|to| (TO, self.to(to)));
        let patch: Vec<(usize, Value)> = x.into_iter().chain(to).collect();
        row_act(kind, values, patch.into(), Vec::new())
    }

    /// What the oracle says of a batch: why it is refused, if it is.
    fn foretell(&mut self, mark: i64, ops: &[(u8, HistoryOp)]) -> Result<(), &'static str> {
        let mut after = self.grids.clone();
        for row in 0..ROWS {
            let own = ops.iter().filter(|(of, _)| *of == row);
            let own: Vec<HistoryOp> = own.map(|(_, op)| *op).collect();
            if !own.is_empty() {
                after[usize::from(row)].transact(mark, &own)?;
            }
        }
        for at in instants() {
            let docs: Vec<Option<HistoryDoc>> = after.iter().map(|g| doc(g, at, mark)).collect();
            let mut seen = Vec::new();
            for doc in docs.iter().flatten() {
                if doc.x != 0 && seen.contains(&doc.x) {
                    return Err("unique");
                }
                seen.push(doc.x);
                if doc.y != 0 && docs[usize::from(doc.y)].is_none() {
                    return Err("ref");
                }
            }
        }
        self.grids = after;
        Ok(())
    }

    fn run(&mut self, mark: i64, ops: &[(u8, HistoryOp)]) -> Outcome {
        self.db.next = Mark(self.since + mark);
        let ops = ops.iter().map(|(row, op)| self.op(*row, *op));
        let batch = store::WriteBatch {
            // As a transaction of the native routes: it takes a mark whatever it changes.
            noted_in: Some(0),
            ..self.db.batch(ops.collect())
        };
        self.db.commit(&[batch]).remove(0)
    }

    /// How many answers were compared.
    fn check(&self, mark: i64) -> u64 {
        let mut compared = 0;
        // Rows that the batch did not name may be due.
        let due = block_on(self.db.store.activate_due(self.instant(mark))).unwrap();
        testing::done(block_on(due.commit())).unwrap();
        for row in 0..ROWS {
            for at in instants() {
                let expected = doc(&self.grids[usize::from(row)], at, mark);
                let expected = expected.map(|doc| vec![self.x(doc.x), self.to(doc.y)]);
                let coordinates = Coordinates {
                    valid: self.instant(at),
                    system: Mark(self.since + mark),
                };
                let found = self.values(row, Some(coordinates));
                assert_eq!(
                    found, expected,
                    "row {row} at {at}, known at {mark}:\n{:#?}",
                    self.done
                );
                compared += 1;
            }
            let now = doc(&self.grids[usize::from(row)], mark, mark);
            let now = now.map(|doc| vec![self.x(doc.x), self.to(doc.y)]);
            assert_eq!(
                self.values(row, None),
                now,
                "row {row} now, at {mark}:\n{:#?}",
                self.done
            );
            compared += 1;
        }
        for x in 1..3 {
            let holds = |row: &u8| {
                let now = doc(&self.grids[usize::from(*row)], mark, mark);
                now.is_some_and(|doc| doc.x == x)
            };
            let holders: Vec<String> = (0..ROWS).filter(holds).map(|row| self.name(row)).collect();
            assert_eq!(
                self.found(x),
                holders,
                "by the unique index, at {mark}:\n{:#?}",
                self.done
            );
            compared += 1;
        }
        compared
    }

    fn values(&self, row: u8, at: Option<Coordinates>) -> Option<Vec<Value>> {
        let point = Point {
            table: &self.db.table(),
            id: &row_id(&self.name(row)),
            selection: &Selection::Some {
                columns: vec![X, TO],
                fields: Vec::new(),
                permissions: false,
            },
            visibility: &Visibility::Everything,
            at,
            shows_span: false,
            catalogue_epoch: self.db.catalogue.epoch,
        };
        let found = block_on(self.db.store.get(point)).unwrap().answer?;
        match found.content {
            model::Content::Values(values) => Some(values),
            model::Content::Body(_) => panic!("columns were selected"),
        }
    }

    fn found(&self, x: u8) -> Vec<String> {
        let query = Query {
            filter: Filter::Field(Field::Column(X), Test::In(vec![self.x(x)])),
            ..self.db.all()
        };
        let rows = self.db.list(&query).rows;
        let mut found: Vec<String> = rows.iter().map(|row| row.id.to_string()).collect();
        found.sort();
        found
    }
}

fn doc(grid: &HistoryGrid, valid: i64, mark: i64) -> Option<HistoryDoc> {
    grid.at(valid, mark).map(|(_, _, _, doc)| doc)
}

/// What a refusal is about.
fn kind_of(outcome: &Outcome) -> Result<(), &'static str> {
    match outcome {
        Ok(_) => Ok(()),
        Err(Refusal::Of { refusal, .. }) => Err(match **refusal {
            Refusal::RowExists(_) => "exists",
            Refusal::AssertFailed(_) => "assert_failed",
            Refusal::Invalid(model::ModelError::EmptyPeriod { .. }) => "invalid_range",
            Refusal::Unique { .. } => "unique",
            Refusal::ReferenceOverTime { .. } => "ref",
            ref other => panic!("{other:?}"),
        }),
        Err(other) => panic!("no operation was named: {other:?}"),
    }
}

#[test]
fn batches_are_judged_at_their_end() {
    let place = Directory::new();
    let mut db = furnished(&place);
    let seed = [7; 32];
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let rows = proptest::collection::vec(0..ROWS, 24);
    let strategy = (transactions(), rows);
    let first = db.next.0 + STRETCH;
    let sequences = match std::env::var("TIDEMARK_LANE").as_deref() {
        Ok("night") => SEQUENCES_AT_NIGHT,
        _ => SEQUENCES,
    };
    let (mut tally, mut compared) = ([0_u32; 3], 0);
    for number in 0..sequences {
        let (drawn, rows) = strategy.new_tree(&mut runner).unwrap().current();
        let mut rows = rows.into_iter().cycle();
        let mut sequence = Sequence {
            db: &mut db,
            number,
            since: first + STRETCH * i64::from(number),
            grids: vec![HistoryGrid::default(); usize::from(ROWS)],
            done: Vec::new(),
        };
        let mut horizon = 0;
        for transaction in &drawn {
            let ops = transaction.ops.iter();
            let ops: Vec<_> = ops.map(|op| (rows.next().unwrap(), *op)).collect();
            let mark = horizon + transaction.ahead;
            let foretold = sequence.foretell(mark, &ops);
            let done = kind_of(&sequence.run(mark, &ops));
            let is_late = |told: Result<(), &str>| matches!(told, Err("unique" | "ref"));
            assert_eq!(
                (done.is_ok(), is_late(done)),
                (foretold.is_ok(), is_late(foretold)),
                "{done:?} {foretold:?} {number} at {mark}: {ops:?}"
            );
            tally[usize::from(done.is_err()) + usize::from(is_late(done))] += 1;
            // Also where it is refused: what is due by then has been activated.
            horizon = mark;
            if done.is_ok() {
                sequence.done.push(format!("{mark}: {ops:?}"));
                compared += sequence.check(mark);
            }
        }
    }
    println!("{compared} answers compared, in {sequences} sequences");
    let [done, refused, at_the_end] = tally;
    assert!(
        done > sequences && refused > 0 && at_the_end > sequences / 4,
        "{tally:?}"
    );
}
