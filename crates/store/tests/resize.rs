//! Moving an end of a row's time, against a model of instants that hold a value or none.

mod suite;

use model::history::{Range, Until};
use model::{Action, Coordinates, Mark, Role, RoleSet, Timestamp};
use proptest::prelude::*;
use std::sync::Arc;
use store::{Guard, Op, PeriodEnd, Refusal, RowAct, RowOp};
use suite::db::{Db, Directory, assert_holds, note, row_id};

/// The model's instants: some before all marks of the test, some after.
const BOUNDARIES: usize = 16;
/// The mark of every commit lies between these two boundaries.
const NOW: usize = 7;

fn boundary(nth: usize) -> Timestamp {
    let century_us = 100 * 365 * 86_400_000_000_i64;
    let nth = nth as i64;
    // The year 1000 and on, up to the one before this century; then from 2300 on.
    let centuries = if nth <= NOW as i64 { nth - 10 } else { nth - 5 };
    Timestamp(centuries * century_us)
}

/// What holds from each boundary to the next one.
type Slots = [Option<u8>; BOUNDARIES - 1];

/// What an end moved there leaves of `slots`, by the words of [`RowAct::Resize`]; `None` where
/// that is refused.
fn resized(slots: &Slots, edge: PeriodEnd, to: usize) -> Option<Slots> {
    let first_met = (NOW..slots.len()).find(|slot| slots[*slot].is_some())?;
    let begin = (0..=first_met)
        .rev()
        .take_while(|slot| slots[*slot].is_some())
        .last()?;
    let last = (first_met..slots.len())
        .take_while(|slot| slots[*slot].is_some())
        .last()?;
    let mut after = *slots;
    match edge {
        PeriodEnd::From(_) => {
            if to > last {
                return None;
            }
            after[to..begin.max(to)].fill(slots[begin]);
            after[begin..to.max(begin)].fill(None);
        }
        PeriodEnd::Until(_) => {
            if to <= begin {
                return None;
            }
            after[(last + 1).min(to)..to].fill(slots[last]);
            if to <= last {
                after = *slots;
                after[to..=last].fill(None);
            }
        }
    }
    Some(after)
}

fn write(db: &Db, from: usize, to: usize, value: Option<u8>) -> Op {
    let range = Range {
        from: Some(boundary(from)),
        until: Until::At(boundary(to)),
    };
    let guard = Guard::Open;
    let act = match value {
        None => RowAct::Delete { guard },
        Some(value) => RowAct::Replace {
            values: note(&value.to_string()),
            permissions: None,
            guard,
        },
    };
    Op::Row(RowOp::over(db.table(), row_id("r"), range, act).literal())
}

fn resize(db: &Db, edge: PeriodEnd, [update, delete]: [Guard; 2]) -> Op {
    let act = RowAct::Resize {
        edge,
        permissions: None,
        guard: update,
        deletion_guard: delete,
    };
    Op::Row(RowOp::over(db.table(), row_id("r"), Range::default(), act))
}

fn open() -> [Guard; 2] {
    [Guard::Open, Guard::Open]
}

#[track_caller]
fn assert_slots(db: &Db, mark: Mark, slots: &Slots) {
    for (nth, value) in slots.iter().enumerate() {
        let valid = boundary(nth);
        let found = db.get_at(
            "r",
            Some(Coordinates {
                valid,
                system: mark,
            }),
        );
        match (found, value) {
            (None, None) => {}
            (Some(row), Some(value)) => assert_holds(&row, &db.table(), &note(&value.to_string())),
            (found, value) => panic!("{value:?} at boundary {nth}, found {found:?}"),
        }
    }
}

/// Where a write begins, over how many slots it goes, and its value; `None` deletes.
fn written() -> impl Strategy<Value = (usize, usize, Option<u8>)> {
    (0..BOUNDARIES - 1, 1..5_usize, prop::option::of(0..9_u8))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 60 } else { 600 }))]
    #[test]
    fn a_moved_end_leaves_what_the_model_says(
        writes in prop::collection::vec(written(), 1..6),
        moves in prop::collection::vec((any::<bool>(), 0..BOUNDARIES), 1..5),
    ) {
        let place = Directory::new();
        let mut db = Db::with_notes(&place);
        let mut slots: Slots = [None; BOUNDARIES - 1];
        let mut mark = Mark(0);
        for (from, length, value) in writes {
            let to = (from + length).min(BOUNDARIES - 1);
            slots[from..to].fill(value);
            mark = db.ok(vec![write(&db, from, to, value)]).mark.unwrap_or(mark);
        }
        for (is_end, to) in moves {
            let edge = if is_end {
                PeriodEnd::Until(Until::At(boundary(to)))
            } else {
                PeriodEnd::From(boundary(to))
            };
            let op = resize(&db, edge, open());
            match (resized(&slots, edge, to), db.try_ops(vec![op])) {
                (Some(after), Ok(applied)) => {
                    slots = after;
                    mark = applied.mark.unwrap_or(mark);
                }
                (None, Err(Refusal::RowNotFound(_) | Refusal::Invalid(_))) => {}
                (model, found) => panic!("{edge:?} of {slots:?}: {model:?}, {found:?}"),
            }
            if mark != Mark(0) {
                assert_slots(&db, mark, &slots);
            }
        }
        db.close();
    }
}

#[test]
fn a_row_is_shortened_by_those_who_may_delete_it_alone() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert_granted(
        "r",
        note("x"),
        &["update(\"users\")"],
    )]);
    let role = || Arc::new(RoleSet::new(vec![Role::parse("users").unwrap()]));
    let guard = |action| Guard::Granted {
        roles: role(),
        actions: [action].into(),
    };
    let guards = || [guard(Action::Update), guard(Action::Delete)];
    let until = |nth| PeriodEnd::Until(Until::At(boundary(nth)));
    let refusal = db.refused(vec![resize(&db, until(9), guards())]);
    assert_eq!(refusal, Refusal::RowForbidden(row_id("r")));
    db.ok(vec![resize(&db, until(9), open())]);
    // What only adds to it needs no such right.
    db.ok(vec![resize(&db, until(10), guards())]);
    let refusal = db.refused(vec![resize(&db, until(9), guards())]);
    assert_eq!(refusal, Refusal::RowForbidden(row_id("r")));
    assert_eq!(db.get("r").map(|row| row.id), Some(row_id("r")));
    db.close();
}
