//! Letting go of the past: from the line on every answer is what it was, below it there is none,
//! whatever slice is under way and wherever the process ends.

mod suite;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_executor::block_on;
use model::history::{Range, Until};
use model::{Coordinates, HistoryGone, Mark, Period, Retention, Timestamp, Value};
use query::{Frame, Query};
use store::{
    CatalogueOp, Durability, Guard, Op, Options, Refusal, RowAct, RowOp, Store, StoreError,
};
use suite::db::{CODE, Db, Directory, Place, TITLE, note, options, row_id};
use testing::OwnTurn;

const HOUR_US: i64 = 3_600_000_000;
const ROWS: u64 = 12;
const COUNT: &str = "SELECT count(*) FROM t1_v";
/// Grants of rows of which nothing is known.
const ORPHANS: &str = "SELECT count(*) FROM t1_perm AS g WHERE NOT EXISTS \
                       (SELECT 1 FROM t1_v AS v WHERE v.seq = g.seq)";

struct Durable(Directory);

impl Place for Durable {
    fn open(&self) -> Arc<dyn Store> {
        self.0.open_with(Options {
            durability: Durability::Full,
            ..options(&self.0.data())
        })
    }
}

/// Steps that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

fn timed(db: &Db, id: &str, range: Range, act: RowAct) -> Op {
    Op::Row(RowOp::over(db.table(), row_id(id), range, act).literal())
}

/// One step of a history: everyday changes, and periods that begin and end in past and future.
fn step(db: &Db, dice: &mut Dice, nth: u64) -> Op {
    let id = format!("r{}", dice.below(ROWS));
    let mut values = note(&format!("{nth}"));
    values[CODE] = Value::Null;
    let is_there = db.get(&id).is_some();
    match dice.below(10) {
        0..5 if is_there => db.update(&id, vec![(TITLE, values[TITLE].clone())]),
        5 if is_there => db.delete(&id),
        6 if is_there => db.grant(
            &id,
            if nth.is_multiple_of(2) {
                &["read(\"any\")"]
            } else {
                &[]
            },
        ),
        7 => {
            let low = dice.below(96) as i64 - 72;
            let from = Timestamp(db.next.0 + low * HOUR_US + 7);
            let until = match dice.below(3) {
                0 => Until::Open,
                _ => Until::At(Timestamp(from.0 + (1 + dice.below(60) as i64) * HOUR_US)),
            };
            let range = Range {
                from: Some(from),
                until,
            };
            let guard = Guard::Open;
            timed(db, &id, range, RowAct::Delete { guard })
        }
        _ => {
            let low = dice.below(96) as i64 - 72;
            let from = Timestamp(db.next.0 + low * HOUR_US + 5);
            let until = match dice.below(3) {
                0 => Until::Open,
                1 => Until::Next,
                _ => Until::At(Timestamp(from.0 + (1 + dice.below(60) as i64) * HOUR_US)),
            };
            let range = Range {
                from: Some(from),
                until,
            };
            let put = RowAct::Replace {
                values,
                permissions: None,
                guard: Guard::Open,
            };
            timed(db, &id, range, put)
        }
    }
}

/// Takes a step; its mark, if it changed anything. A row may end by itself just before it, and what
/// lies below the line cannot be written.
fn take(db: &mut Db, dice: &mut Dice, nth: u64) -> Option<i64> {
    let op = step(db, dice, nth);
    match db.try_ops(vec![op]) {
        Ok(applied) => applied.mark.map(|mark| mark.0),
        Err(Refusal::RowNotFound(_) | Refusal::HistoryGone(_)) => None,
        Err(refusal) => panic!("{refusal:?}"),
    }
}

fn query_at(db: &Db, valid: i64, system: i64, frame: Frame) -> Query {
    Query {
        at: Some(Coordinates {
            valid: Timestamp(valid),
            system: Mark(system),
        }),
        frame,
        shows_span: true,
        ..db.all()
    }
}

/// What is seen at some instant and above it.
#[derive(Debug, PartialEq)]
struct Seen {
    /// By where it was looked at.
    answers: BTreeMap<String, String>,
    /// Up to where.
    end: Mark,
}

fn seen(db: &Db, line: i64) -> Seen {
    let mut seen = BTreeMap::new();
    let now = db.next.0;
    let mut look = |name: String, query: Query| {
        let listed = db.list(&query);
        let rows: Vec<String> = listed.rows.iter().map(|row| format!("{row:?}")).collect();
        assert_eq!(listed.total, rows.len() as u64);
        seen.insert(name, rows.join("\n"));
    };
    for system in (line..now).step_by(5 * HOUR_US as usize).chain([now]) {
        for valid in (line..now + 48 * HOUR_US).step_by(7 * HOUR_US as usize) {
            let query = query_at(db, valid, system, Frame::One);
            look(format!("one {valid} {system}"), query);
        }
        let since = Period::new(Timestamp(line), None).unwrap();
        let query = query_at(db, line, system, Frame::Pieces(since));
        look(format!("pieces {system}"), query);
    }
    look("now".to_owned(), db.all());
    Seen {
        answers: seen,
        end: db.next,
    }
}

fn is_gone(db: &Db, valid: i64, system: i64, frame: Frame) -> bool {
    let read = db.try_list(&query_at(db, valid, system, frame));
    let one = Coordinates {
        valid: Timestamp(valid),
        system: Mark(system),
    };
    let point = db.try_get("r1", Some(one), &query::Visibility::Everything);
    let is_gone = matches!(read, Err(StoreError::HistoryGone(_)));
    if frame == Frame::One {
        assert_eq!(is_gone, matches!(point, Err(StoreError::HistoryGone(_))));
    }
    is_gone
}

fn keep(db: &mut Db, history: Retention) -> i64 {
    let number = db.table().number;
    db.ok(vec![Op::Catalogue(CatalogueOp::SetOptions {
        number,
        pinned_max_age_s: None,
        history: Some(history),
        past: None,
        ttl_max_s: None,
    })]);
    db.table().options.kept_from.0
}

/// Versions and grants as they are stored.
fn stored(place: &Durable, what: &str) -> i64 {
    place.0.run_sql(&[what])[0].parse().unwrap()
}

/// A store with a long history, closed, and how many versions it holds.
fn long_history(place: &Durable, dice: &mut Dice) -> i64 {
    let mut db = Db::with_notes(place);
    for nth in 0..2_400 {
        take(&mut db, dice, nth);
        db.next = Mark(db.next.0 + HOUR_US / 20);
    }
    db.close();
    let versions = stored(place, COUNT);
    assert!(versions > 2_000, "{versions}");
    versions
}

fn versions_since(db: &Db, line: i64) -> Vec<String> {
    let since = Period::new(Timestamp(line), None).unwrap();
    let query = query_at(db, line, db.next.0, Frame::Versions(since));
    let rows = db.list(&query).rows;
    let mut rows: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    rows.sort();
    rows
}

/// Nothing below the line is answered, and the line is.
fn check_line(db: &Db, line: i64) {
    for (valid, system) in [(line - 1, line), (line, line - 1), (line - 1, line - 1)] {
        assert!(is_gone(db, valid, system, Frame::One));
    }
    let wide = Period::new(Timestamp(line - 1), None).unwrap();
    assert!(is_gone(db, line, line, Frame::Pieces(wide)));
    assert!(is_gone(db, line, line, Frame::Versions(Period::ALWAYS)));
    assert!(!is_gone(db, line, line, Frame::One));
}

#[test]
fn readers_at_or_above_the_line_see_nothing_of_it() {
    let place = Durable(Directory::new());
    let mut dice = Dice(11);
    let versions = long_history(&place, &mut dice);
    let mut db = Db::open(&place);
    let due = db.next.0 - 24 * HOUR_US;
    // Seen before there was a line, at coordinates that will lie above it.
    let mut before = seen(&db, due + HOUR_US);
    let line = keep(&mut db, Retention::Days(1));
    assert!(line >= due && line < due + HOUR_US, "{line} {due}");
    let end = db.next.0;
    let kept = seen(&db, line);
    let all_versions = versions_since(&db, line);
    assert!(all_versions.len() > 100, "{}", all_versions.len());
    let mut slices = 0;
    loop {
        let is_more = block_on(db.store.run_upkeep()).unwrap();
        slices += 1;
        db.next = Mark(end);
        assert_eq!(seen(&db, line), kept, "after slice {slices}");
        assert_eq!(
            versions_since(&db, line),
            all_versions,
            "after slice {slices}"
        );
        check_line(&db, line);
        if !is_more {
            break;
        }
        // The process ends between two slices; the next one goes on.
        drop(db);
        db = Db::open(&place);
    }
    assert!(slices >= 3, "{slices}");
    db.next = before.end;
    let mut after = seen(&db, due + HOUR_US);
    // What is shown now has moved on with the commit that made the line.
    before.answers.remove("now");
    after.answers.remove("now");
    assert_eq!(after.answers, before.answers, "whatever has been let go of");
    db.next = Mark(end);
    // A writer goes on as if nothing had happened, but for what lies below the line.
    let below = Range {
        from: Some(Timestamp(line - 9)),
        until: Until::At(Timestamp(line)),
    };
    let guard = Guard::Open;
    let refused = db.refused(vec![timed(&db, "r1", below, RowAct::Delete { guard })]);
    assert_eq!(
        refused,
        Refusal::HistoryGone(HistoryGone {
            kept_from: Timestamp(line)
        })
    );
    for nth in 0..200 {
        take(&mut db, &mut dice, nth);
        db.next = Mark(db.next.0 + HOUR_US / 20);
    }
    db.close();
    let below = format!("{COUNT} WHERE twin = 0 AND (st <= {line} OR cut_tt <= {line})");
    assert_eq!(stored(&place, &below), 0);
    let left = stored(&place, COUNT);
    assert!(left * 2 < versions, "{left} of {versions}");
    assert_eq!(stored(&place, ORPHANS), 0);
}

/// Ids and contents.
fn shown(db: &Db, rows: &[model::Row]) -> Vec<String> {
    let table = db.table();
    let one = |row: &model::Row| format!("{} {}", row.id, suite::db::content(row, &table));
    rows.iter().map(one).collect()
}

#[test]
fn a_table_without_history_keeps_what_is_believed_of_now_and_later_only() {
    let place = Durable(Directory::new());
    let mut db = Db::with_notes(&place);
    let mut dice = Dice(5);
    for nth in 0..300 {
        if nth == 150 {
            keep(&mut db, Retention::None);
            while block_on(db.store.run_upkeep()).unwrap() {}
        }
        let mark = take(&mut db, &mut dice, nth);
        if let Some(mark) = mark.filter(|_| nth >= 150) {
            assert!(is_gone(&db, mark, mark - 1, Frame::One));
            assert!(is_gone(&db, mark - 1, mark, Frame::One));
            // The write has activated what it looked at, and no more.
            let pending = block_on(db.store.activate_due(Timestamp(mark))).unwrap();
            testing::done(block_on(pending.commit())).unwrap();
            let at = db.list(&query_at(&db, mark, mark, Frame::One)).rows;
            assert_eq!(shown(&db, &db.list(&db.all()).rows), shown(&db, &at));
        }
        db.next = Mark(db.next.0 + HOUR_US);
    }
    db.close();
    let closed = "SELECT count(*) FROM t1_v WHERE st < 9223372036854775807";
    assert_eq!(stored(&place, closed), 0);
    let left = stored(&place, "SELECT count(*) FROM t1_v");
    assert!(left < 150, "{left}");
}
