//! What SQLite sorts takes bounded memory, whichever caller asks and however far the page lies.

#[path = "suite/db.rs"]
#[allow(dead_code, reason = "written for the conformance suite, too")]
mod db;

use db::{COUNT, Db, Directory, TITLE, note};
use model::{Coordinates, Direction, Field, Value};
use query::{Cursor, OrderKey, Query, Side};
use store::{MatchingAct, MatchingOp, Op, Refusal, StoreError};

/// What a sort may take (`store/sqlite/disk/sorts.rs`).
const BOUND: StoreError = StoreError::SortTooLarge {
    bytes_max: 64 << 20,
};
/// Together 75 MB: as much as the longest titles that `notes` takes.
const ROWS: i64 = 4_700;
const TITLE_BYTES: usize = 16_000;

/// Rows `r0`, `r1` … in no order of their counts and titles, every fifth without a count.
fn filled(rows: i64, title_bytes: usize) -> (Directory, Db) {
    let directory = Directory::new();
    let mut db = Db::with_notes(&directory);
    for from in (0..rows).step_by(500) {
        let numbers = from..rows.min(from + 500);
        let rows = numbers.map(|n| db.insert(&format!("r{n}"), values(n, title_bytes)));
        db.ok(rows.collect());
    }
    (directory, db)
}

fn values(n: i64, title_bytes: usize) -> Vec<Value> {
    let mut values = note(&n.to_string());
    let place = n * 7_919 % 10_007;
    values[TITLE] = Value::Text(format!("{place:05}{}", "x".repeat(title_bytes - 5)));
    values[COUNT] = count(n);
    values
}

/// Ten rows share each.
fn count(n: i64) -> Value {
    match n % 5 {
        0 => Value::Null,
        _ => Value::Int(n * 7_919 % 10_007 / 10),
    }
}

fn by(db: &Db, column: usize, direction: Direction, limit: u32) -> Query {
    Query {
        order: vec![OrderKey {
            field: Field::Column(column),
            direction,
        }],
        limit,
        ..db.all()
    }
}

fn ids(db: &Db, query: &Query) -> Result<Vec<String>, StoreError> {
    let listed = db.try_list(query)?.answer;
    Ok(listed.rows.iter().map(|row| row.id.to_string()).collect())
}

/// All ids, ordered by count and `$sequence` as the query says.
fn expected(rows: i64, direction: Direction) -> Vec<String> {
    let key = |n: i64| match count(n) {
        Value::Int(count) => count,
        _ => -1,
    };
    let mut numbers: Vec<i64> = (0..rows).collect();
    match direction {
        Direction::Asc => numbers.sort_by_key(|n| (key(*n), *n)),
        Direction::Desc => numbers.sort_by_key(|n| (-key(*n), *n)),
    }
    numbers.iter().map(|n| format!("r{n}")).collect()
}

#[test]
fn pages_far_from_the_beginning_hold_the_rows_that_the_order_says() {
    let rows = 1_300;
    let (_directory, db) = filled(rows, 5);
    for direction in [Direction::Asc, Direction::Desc] {
        let all = expected(rows, direction);
        for (offset, limit) in [
            (0, 256),
            (0, 257),
            (250, 7),
            (900, 300),
            (1_290, 25),
            (0, 2_000),
        ] {
            let query = Query {
                offset,
                ..by(&db, COUNT, direction, limit)
            };
            let page = all.iter().skip(offset as usize).take(limit as usize);
            let page: Vec<String> = page.cloned().collect();
            assert_eq!(
                ids(&db, &query).unwrap(),
                page,
                "{direction:?} {offset} {limit}"
            );
        }
        for (side, from, to) in [(Side::After, 701, 1_001), (Side::Before, 400, 700)] {
            let query = Query {
                cursor: Some(Cursor {
                    row: db::row_id(&all[700]),
                    version: None,
                    side,
                }),
                ..by(&db, COUNT, direction, 300)
            };
            assert_eq!(
                ids(&db, &query).unwrap(),
                all[from..to],
                "{direction:?} {side:?}"
            );
        }
    }
    let query = Query {
        random: true,
        ..db.all()
    };
    let mut found = ids(&db, &query).unwrap();
    found.sort_unstable();
    let mut all = expected(rows, Direction::Asc);
    all.sort_unstable();
    assert_eq!(found, all);
}

#[test]
fn a_sort_of_more_than_its_bound_is_refused_on_every_path_and_leaves_nothing() {
    let (_directory, mut db) = filled(ROWS, TITLE_BYTES);
    let mark = db.load().mark;
    for _ in 0..2 {
        let all = by(&db, TITLE, Direction::Asc, 5_000);
        assert_eq!(ids(&db, &all).unwrap_err(), BOUND);
        let far = Query {
            limit: 25,
            offset: 4_600,
            ..all.clone()
        };
        assert_eq!(ids(&db, &far).unwrap_err(), BOUND);
        let past = Query {
            at: Some(Coordinates {
                valid: mark.timestamp(),
                system: mark,
            }),
            ..all
        };
        assert_eq!(ids(&db, &past).unwrap_err(), BOUND);
        // Large keys are no fault: few of them are kept.
        let first = ids(&db, &by(&db, TITLE, Direction::Asc, 25)).unwrap();
        assert_eq!((first.len(), first[0].as_str()), (25, "r0"));
    }
    // Rows that are as large in all, by a short key.
    let far = Query {
        offset: 4_600,
        ..by(&db, COUNT, Direction::Asc, 25)
    };
    let all = expected(ROWS, Direction::Asc);
    assert_eq!(ids(&db, &far).unwrap(), all[4_600..4_625]);
    let change = Op::Matching(Box::new(MatchingOp {
        query: by(&db, TITLE, Direction::Asc, 5_000),
        may_leave_rows: true,
        walks: false,
        bytes_max: None,
        tells_end: false,
        act: MatchingAct::Delete { range: None },
        rows_returned_max: 0,
    }));
    assert_eq!(db.refused(vec![change]), Refusal::Failed(BOUND));
    assert_eq!(db.load().mark, mark, "nothing was changed");
    let query = by(&db, TITLE, Direction::Asc, 1);
    assert_eq!(ids(&db, &query).unwrap(), ["r0"]);
    db.close();
}
