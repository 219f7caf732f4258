//! Random sequences on several rows that share a unique column: values change hands inside a
//! batch, over any period, and in the same sequence the line below which the past is forgotten
//! rises into what was answered.

use std::sync::Arc;

use futures_executor::block_on;
use model::history::{Range, Until};
use model::{Index, IndexKind, Mark, Retention, RowId, Timestamp};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};
use store::{Refusal, SchemaChange, StoreError, WriteBatch};
use testing::history::{HistoryGrid, HistoryOp, HistoryWrite, MARK_MAX, SetColumns, instants};

use super::{Log, Row, STRETCH, World, ask_again, doc, index_over_x};
use testing::OwnTurn;

/// Rows of one sequence, and values of their unique column: few enough to meet, enough to part.
const ROWS: usize = 3;
const VALUES: u64 = 5;
/// Sequences of one database.
const SEQUENCES: i64 = 80;
/// Steps of a sequence, at most: those that are refused take no mark.
const STEPS: usize = 16;
/// The last instant that anything is valid at, so that sequences share none.
const END: u64 = 13;

/// An operation on one of the rows.
type Step = (usize, HistoryOp);

struct Draws(TestRng);

impl Draws {
    fn below(&mut self, count: u64) -> u64 {
        self.0.next_u64() % count
    }

    fn row(&mut self) -> usize {
        self.below(ROWS as u64) as usize
    }

    fn range(&mut self) -> Range {
        let from = self.below(END);
        let to = from + 1 + self.below(END - from);
        Range {
            from: Some(Timestamp(from as i64)),
            until: Until::At(Timestamp(to as i64)),
        }
    }

    fn x(&mut self) -> SetColumns {
        let (x, y) = (self.below(VALUES) as u8, self.below(4) as u8);
        SetColumns {
            x: Some(x),
            y: Some(y),
        }
    }

    /// Two or three rows take each other's values of some instant, or one is written by itself.
    fn act(&mut self, grids: &[HistoryGrid]) -> Vec<Step> {
        let range = self.range();
        let write = |row, kind, set| (row, HistoryOp::Write(kind, range, set));
        let row = self.row();
        match self.below(8) {
            0 | 1 => vec![write(row, HistoryWrite::Put, self.x())],
            2 => vec![write(
                row,
                HistoryWrite::Delete,
                SetColumns { x: None, y: None },
            )],
            3 => vec![write(row, HistoryWrite::Update, self.x())],
            _ => {
                let at = self.below(END) as i64;
                let held = |row: usize| doc(&grids[row], at, i64::MAX).map(|doc| doc.x);
                let count = 2 + self.below(2) as usize;
                let those = (0..count).map(|nth| (row + nth) % ROWS);
                let those: Vec<(usize, u8)> =
                    those.filter_map(|row| Some((row, held(row)?))).collect();
                let next = those.iter().cycle().skip(1);
                let pairs = those.iter().zip(next);
                let taken = pairs.map(|((row, _), (_, x))| {
                    let set = SetColumns {
                        x: Some(*x),
                        y: None,
                    };
                    write(*row, HistoryWrite::Update, set)
                });
                taken.collect()
            }
        }
    }
}

/// The rows of one sequence, and what should be known of them.
struct Scene {
    rows: Vec<Row>,
    grids: Vec<HistoryGrid>,
    horizon: i64,
    /// Below it nothing is answered.
    line: i64,
}

impl Scene {
    fn new(number: i64) -> Scene {
        let row = |nth: usize| Row {
            id: RowId::new(&format!("s{number}-{nth}")).unwrap(),
            since: STRETCH * (number + 1),
        };
        Scene {
            rows: (0..ROWS).map(row).collect(),
            grids: vec![HistoryGrid::default(); ROWS],
            horizon: 0,
            line: i64::MIN,
        }
    }

    fn since(&self) -> i64 {
        self.rows[0].since
    }

    /// What becomes of the batch, judged when all of it is done.
    fn expected(&mut self, mark: i64, steps: &[Step]) -> Result<(), &'static str> {
        let ends = |(_, op): &Step| match op {
            HistoryOp::Write(_, range, _) => match range.until {
                Until::At(end) => end.0,
                Until::Open | Until::Next => i64::MAX,
            },
            _ => i64::MAX,
        };
        let is_gone = |step: &Step| self.since() + ends(step) <= self.line;
        if steps.iter().any(is_gone) {
            return Err("history_gone");
        }
        let mut after = self.grids.clone();
        for (row, grid) in after.iter_mut().enumerate() {
            let ops = steps.iter().filter(|(of, _)| *of == row);
            let ops: Vec<HistoryOp> = ops.map(|(_, op)| *op).collect();
            grid.transact(mark, &ops)?;
        }
        // What was forgotten clashes with nothing.
        let known = instants().into_iter();
        for at in known.filter(|at| self.since() + at >= self.line) {
            let held = after.iter().filter_map(|grid| doc(grid, at, i64::MAX));
            let mut held: Vec<u8> = held.map(|doc| doc.x).collect();
            held.sort_unstable();
            if held.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err("unique");
            }
        }
        self.grids = after;
        self.horizon = mark;
        Ok(())
    }

    /// Compares every answer at every mark with the grids; those below the line are refused.
    fn check(&self, world: &World, why: &str) {
        for (row, grid) in self.rows.iter().zip(&self.grids) {
            for mark in grid.marks() {
                for valid in instants() {
                    let at = row.at(valid, mark);
                    let read = world.try_read(row, Some(at));
                    if at.valid.0 < self.line || at.system.0 < self.line {
                        let is_gone = matches!(read, Err(StoreError::HistoryGone { .. }));
                        assert!(is_gone, "{} at {valid}, {mark}: {read:?}; {why}", row.id);
                    } else {
                        let wanted = doc(grid, valid, mark);
                        assert_eq!(
                            read.unwrap(),
                            wanted,
                            "{} at {valid}, {mark}; {why}",
                            row.id
                        );
                    }
                    world.compared(1);
                }
            }
            // What became due while only options were changed.
            world.pass(row, self.horizon);
            let now = doc(grid, self.horizon, i64::MAX);
            assert_eq!(world.read(row, None), now, "{} now; {why}", row.id);
        }
    }

    /// Every answer now, to be compared with later ones.
    fn answered(self, world: &World) -> Vec<(Row, Log)> {
        let line = self.line;
        let rows = self.rows.into_iter().zip(self.grids);
        let logged = rows.map(|(row, grid)| {
            let of_mark = |mark| {
                (
                    mark,
                    instants().iter().map(|at| doc(&grid, *at, mark)).collect(),
                )
            };
            let log: Log = grid.marks().map(of_mark).collect();
            (row, log)
        });
        let logged: Vec<(Row, Log)> = logged.collect();
        ask_again(world, &logged, line);
        logged
    }
}

fn transact(world: &World, scene: &Scene, mark: i64, steps: &[Step]) -> Result<(), &'static str> {
    let ops = steps
        .iter()
        .map(|(row, op)| world.timed(&scene.rows[*row], *op));
    let batch = WriteBatch {
        catalogue_epoch: world.epoch,
        ops: ops.collect(),
        author: None,
        unchanged_since: None,
        meta: None,
        noted_in: Some(0),
        space: store::SpaceLimit::Any,
    };
    let pending = block_on(world.store.apply(&[batch], Mark(scene.since() + mark))).unwrap();
    match pending.outcomes()[0].clone() {
        Ok(_) => {
            testing::done(block_on(pending.commit())).unwrap();
            Ok(())
        }
        Err(Refusal::Of { refusal, .. }) => match *refusal {
            Refusal::Unique { .. } => Err("unique"),
            Refusal::HistoryGone(_) => Err("history_gone"),
            other => panic!("{other:?}"),
        },
        Err(other) => panic!("{other:?}"),
    }
}

/// Plays one sequence; how many of its batches were done, were refused for a value, and how often
/// the line rose.
fn play(world: &mut World, draws: &mut Draws, mut scene: Scene) -> (Vec<(Row, Log)>, [u64; 3]) {
    let mut counts = [0; 3];
    for _ in 0..STEPS {
        // A step takes up to three marks.
        if scene.horizon + 3 > MARK_MAX {
            break;
        }
        let mark = scene.horizon + 1;
        let mut steps = draws.act(&scene.grids);
        if draws.below(3) == 0 {
            steps.extend(draws.act(&scene.grids));
        }
        if steps.is_empty() {
            continue;
        }
        let done = transact(world, &scene, mark, &steps);
        let expected = scene.expected(mark, &steps);
        assert_eq!(
            done, expected,
            "{steps:?} at {mark} of {}",
            scene.rows[0].id
        );
        counts[0] += u64::from(done.is_ok());
        counts[1] += u64::from(done == Err("unique"));
        if draws.below(6) == 0 {
            // Everything up to here is let go of, and what follows is kept.
            let at = scene.since() + scene.horizon + 1;
            world.keep(Retention::None, at);
            scene.line = world.keep(Retention::All, at + 1);
            scene.horizon += 2;
            counts[2] += 1;
            scene.check(world, "before what is forgotten is removed");
            while draws.below(2) == 0 && block_on(world.store.run_upkeep()).unwrap() {}
        }
        scene.check(world, "after a step");
    }
    (scene.answered(world), counts)
}

#[test]
fn values_change_hands_and_the_past_is_forgotten_within_one_sequence() {
    let mut world = World::new();
    let unique = Index {
        kind: IndexKind::Unique,
        ..index_over_x()
    };
    world.change_schema(SchemaChange::AddIndex(unique), 10);
    let seed = [7; 32];
    let mut draws = Draws(TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let (mut answered, mut counts) = (Vec::new(), [0; 3]);
    for number in 0..SEQUENCES {
        let mut scene = Scene::new(number);
        scene.line = world.table.options.kept_from.0;
        let (log, of_scene) = play(&mut world, &mut draws, scene);
        answered.extend(log);
        for (sum, count) in counts.iter_mut().zip(of_scene) {
            *sum += count;
        }
        if number % 20 == 19 {
            world.restart(number % 40 == 39);
        }
    }
    world.moves();
    let line = Arc::clone(&world.table).options.kept_from.0;
    ask_again(&world, &answered, line);
    println!("{counts:?} done, refused for a value, lines");
    assert!(counts.iter().all(|count| *count > 15), "{counts:?}");
}
