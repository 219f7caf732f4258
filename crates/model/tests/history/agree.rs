//! Random sequences: the versions say what the grid says, at every point and for ever.

use std::collections::BTreeSet;

use model::history::{History, Piece, Rectangle, Retained, Version, WriteRefusal};
use model::{Coordinates, Mark, Period, Timestamp};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use testing::history::{
    GridArea, GridPiece, HistoryDoc, HistoryGrid, HistoryOp, HistoryTransaction, MARK_MAX,
    instants, transactions,
};

use crate::memory::{Memory, Row};

/// So many in each run of the tests, as the issue that asked for the temporal model says.
const SEQUENCES: u32 = 10_000;

fn ends(period: Period) -> (i64, Option<i64>) {
    (period.from().0, period.to().map(|to| to.0))
}

fn seen(piece: Piece<'_, HistoryDoc>) -> GridPiece {
    let (valid, sys_from) = (ends(piece.valid), piece.sys_from.0);
    (valid, sys_from, piece.origin.0, *piece.value)
}

fn area(r: Rectangle<'_, HistoryDoc>) -> GridArea {
    let sys_to = r.sys_to.map(|to| to.0);
    (ends(r.valid), r.sys_from.0, sys_to, r.origin.0, *r.value)
}

fn at(valid: i64, mark: i64) -> Coordinates {
    Coordinates {
        valid: Timestamp(valid),
        system: Mark(mark),
    }
}

/// All that was answered at one mark.
#[derive(Debug, PartialEq)]
struct Answers {
    mark: i64,
    points: Vec<Option<GridPiece>>,
    rectangles: Vec<GridArea>,
}

fn ask(versions: &[Version<HistoryDoc>], mark: i64) -> Answers {
    let history = History::new(versions);
    let points = instants().into_iter();
    Answers {
        mark,
        points: points
            .map(|valid| history.at(at(valid, mark)).map(seen))
            .collect(),
        rectangles: history
            .rectangles(Mark(mark))
            .into_iter()
            .map(area)
            .collect(),
    }
}

fn code(refusal: &WriteRefusal) -> &'static str {
    match refusal {
        WriteRefusal::EmptyRange { .. } => "invalid_range",
        WriteRefusal::Exists { .. } => "exists",
        WriteRefusal::AssertFailed => "assert_failed",
        WriteRefusal::Invalid(_) => "invalid",
    }
}

/// Both after the transactions, and the last mark that was read.
fn run(transactions: &[HistoryTransaction]) -> (Memory, HistoryGrid, i64) {
    let (mut memory, mut grid, mut horizon) = (Memory::default(), HistoryGrid::default(), 0);
    let mut log: Vec<Answers> = Vec::new();
    for transaction in transactions {
        let mark = horizon + transaction.ahead;
        let refused = memory.transact(mark, &transaction.ops);
        assert_eq!(
            refused.as_ref().map_err(code),
            grid.transact(mark, &transaction.ops)
                .as_ref()
                .map_err(|code| *code),
        );
        if refused.is_ok() {
            horizon = mark;
            if transaction
                .ops
                .iter()
                .any(|op| matches!(op, HistoryOp::Erase))
            {
                // The one thing that takes answers back.
                log.clear();
            }
            assert_eq!(memory.now, expected_now(&grid, &memory, mark));
        }
        log.push(ask(&memory.versions, horizon));
    }
    for answers in &log {
        assert_eq!(&ask(&memory.versions, answers.mark), answers);
    }
    (memory, grid, horizon)
}

/// What the table of now has to show at an instant after the last commit.
fn expected_now(grid: &HistoryGrid, memory: &Memory, instant: i64) -> Option<Row> {
    let (_, _, origin, doc) = grid.at(instant, i64::MAX)?;
    let row = memory.now.expect("the grid has the row");
    let piece = (ends(row.shown.valid), row.shown.sys_from.0, origin, doc);
    assert_eq!(grid.at(instant, i64::MAX), Some(piece));
    let version = memory
        .versions
        .iter()
        .find(|v| v.number == row.shown.number);
    assert_eq!(version.and_then(Version::piece_now).map(seen), Some(piece));
    Some(Row {
        origin: Mark(origin),
        doc,
        ..row
    })
}

fn check_points(history: History<'_, HistoryDoc>, grid: &HistoryGrid, mark: i64) {
    for valid in instants() {
        let coordinates = at(valid, mark);
        assert_eq!(
            history.at(coordinates).map(seen),
            grid.at(valid, mark),
            "{coordinates:?}"
        );
        let boundary = history.boundary_after(coordinates).map(|at| at.0);
        assert_eq!(
            boundary,
            grid.boundary_after(valid, mark),
            "{coordinates:?}"
        );
        let held = history.along_system(coordinates).into_iter();
        let held: Vec<_> = held
            .map(|h| (h.sys_from.0, h.sys_to.map(|to| to.0), h.origin.0, *h.value))
            .collect();
        assert_eq!(held, grid.along_system(valid, mark), "{coordinates:?}");
    }
}

fn check_lists(history: History<'_, HistoryDoc>, grid: &HistoryGrid, mark: i64) {
    let pieces = history.along_valid(Mark(mark)).into_iter();
    assert_eq!(pieces.map(seen).collect::<Vec<_>>(), grid.along_valid(mark));
    let joined = history.along_valid_joined(Mark(mark)).into_iter();
    let joined: Vec<_> = joined.map(|s| (ends(s.valid), *s.value)).collect();
    assert_eq!(joined, grid.along_valid_joined(mark));
    let rectangles = history.rectangles(Mark(mark)).into_iter();
    assert_eq!(
        rectangles.map(area).collect::<Vec<_>>(),
        grid.rectangles(mark)
    );
    assert_eq!(history.is_changed_at(Mark(mark)), grid.is_changed_at(mark));
}

fn check_differences(history: History<'_, HistoryDoc>, grid: &HistoryGrid, horizon: i64) {
    for (valid, mark) in instants().into_iter().zip((0..=horizon).cycle()) {
        let found = history.difference(at(0, horizon), at(valid, mark));
        let found = found.map(|d| (d.before.copied(), d.after.copied()));
        let doc = |valid, mark| grid.at(valid, mark).map(|(_, _, _, doc)| doc);
        let (before, after) = (doc(0, horizon), doc(valid, mark));
        assert_eq!(found, (before != after).then_some((before, after)));
    }
}

/// That ten thousand sequences agree says nothing about a rule that none of them reaches.
#[test]
fn the_sequences_reach_every_rule_and_every_refusal() {
    let mut runner = TestRunner::deterministic();
    let (mut reached, mut done, mut refused) = (BTreeSet::new(), 0, 0);
    for _ in 0..500 {
        let (mut memory, mut horizon) = (Memory::default(), 0);
        let sequence = transactions().new_tree(&mut runner).unwrap().current();
        for transaction in sequence {
            let mark = horizon + transaction.ahead;
            match memory.transact(mark, &transaction.ops) {
                Ok(()) => (horizon, done) = (mark, done + 1),
                Err(refusal) => {
                    refused += 1;
                    reached.insert(code(&refusal));
                }
            }
        }
        reached.append(&mut memory.followed);
    }
    let rules = [
        "assert_failed",
        "close",
        "close what was cut",
        "cut",
        "cut again",
        "erase",
        "exists",
        "invalid_range",
        "remove",
        "uncut",
    ];
    assert_eq!(reached, BTreeSet::from(rules));
    assert!(done > refused, "{done} {refused}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: SEQUENCES,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn versions_say_what_was_believed_at_every_point(transactions in transactions()) {
        let (memory, grid, horizon) = run(&transactions);
        let history = History::new(&memory.versions);
        for mark in grid.marks() {
            check_points(history, &grid, mark);
            check_lists(history, &grid, mark);
        }
        // Most often no commit's own mark.
        check_lists(history, &grid, horizon / 2);
        check_differences(history, &grid, horizon);
        prop_assert_eq!(history.last_change().map(|mark| mark.0), grid.last_change());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: SEQUENCES / 10,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The table of now changes at the boundary that was scheduled, and at no other instant.
    #[test]
    fn scheduled_pieces_come_and_go_at_their_boundaries(transactions in transactions()) {
        let (mut memory, grid, horizon) = run(&transactions);
        memory.refresh(Timestamp(horizon), None);
        let last = *instants().last().unwrap();
        for instant in horizon + 1..=last {
            let (before, boundary) = (memory.now, memory.boundary);
            memory.refresh(Timestamp(instant), None);
            if boundary.is_none_or(|boundary| boundary > Timestamp(instant)) {
                prop_assert_eq!(memory.now, before);
                prop_assert_eq!(memory.boundary, boundary);
            }
            prop_assert_eq!(memory.now, expected_now(&grid, &memory, instant));
        }
    }

    /// Above the line on both axes nothing changes when what lies below it is dropped.
    #[test]
    fn versions_dropped_below_a_line_are_not_missed_above_it(
        transactions in transactions(),
        line in 0..=MARK_MAX,
    ) {
        let (memory, grid, horizon) = run(&transactions);
        let kept: Vec<Version<HistoryDoc>> = memory.versions.iter().filter_map(|version| {
            match version.retain(Mark(line)) {
                Retained::Whole => Some(version.clone()),
                Retained::Cut(version) => Some(version),
                Retained::Nothing => None,
            }
        }).collect();
        let history = History::new(&kept);
        for mark in line..=horizon {
            for valid in instants().into_iter().filter(|valid| *valid >= line) {
                let point = history.at(at(valid, mark)).map(seen);
                prop_assert_eq!(point, grid.at(valid, mark));
            }
        }
        let is_needed = |version: &Version<HistoryDoc>| {
            let mut marks = line..=horizon.max(line);
            let mut shown = marks.by_ref().filter_map(|mark| version.piece_at(Mark(mark)));
            shown.any(|piece| piece.valid.end() > Timestamp(line))
        };
        prop_assert!(kept.iter().all(is_needed));
    }
}
