//! What SQLite sorts takes bounded memory, whichever caller asks and however far the page lies.

mod suite;
#[allow(dead_code, reason = "written for the tests of moves, too")]
mod target_database;
mod vfs;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_executor::block_on;
use model::history::{Range, Until};
use model::{Coordinates, Direction, Field, IndexKind, IndexStatus, Timestamp, Value};
use query::{Cursor, OrderKey, Query, Side};
use store::{
    DatabaseStore, Guard, Listing, MatchingAct, MatchingOp, Op, Options, Refusal, RowAct, RowOp,
    SchemaChange, SortRoom, Stamps, Store, StoreError, TotalCap,
};
use suite::db::{self, COUNT, Db, Directory, Place, TITLE, index, note, row_id};
use suite::schema::change;
use target_database::Target;
use tempfile::TempDir;
use vfs::{Op as Call, RecordingVfs, Role};

/// What a sort may take (`store/sqlite/disk/sorts.rs`).
const BOUND: StoreError = StoreError::SortTooLarge(SortRoom::Memory {
    bytes_max: 64 << 20,
});
/// Together 75 MB: as much as the longest titles that `notes` takes.
const ROWS: i64 = 4_700;
const TITLE_BYTES: usize = 16_000;

/// Rows `r0`, `r1` … in no order of their counts and titles, every fifth without a count.
fn filled(rows: i64, title_bytes: usize) -> (Directory, Db) {
    let directory = Directory::new();
    let db = filled_at(&directory, rows, title_bytes);
    (directory, db)
}

fn filled_at(place: &dyn Place, rows: i64, title_bytes: usize) -> Db {
    let mut db = Db::with_notes(place);
    for from in (0..rows).step_by(500) {
        let numbers = from..rows.min(from + 500);
        let rows = numbers.map(|n| db.insert(&format!("r{n}"), values(n, title_bytes)));
        db.ok(rows.collect());
    }
    db
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
                    row: row_id(&all[700]),
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

/// A store in a database.
struct Served<'a> {
    target: &'a Target,
    keys: TempDir,
}

impl Place for Served<'_> {
    fn open(&self) -> Arc<dyn Store> {
        let url = self.target.url("sorted");
        let options = Options {
            place: url.clone().into(),
            ..db::options(self.keys.path())
        };
        let store = DatabaseStore::open(&url, None).unwrap();
        store.serve(&options, None, self.keys.path()).unwrap()
    }
}

#[test]
fn a_sort_beyond_the_files_of_a_database_is_refused_on_every_path_and_leaves_nothing() {
    let target = Target::new("sorts");
    let keys = tempfile::tempdir().unwrap();
    let place = Served {
        target: &target,
        keys,
    };
    let rows = 6_000;
    filled_at(&place, rows, 500).close();
    for setting in ["work_mem = '64kB'", "temp_file_limit = '200kB'"] {
        target.sql(&format!("ALTER DATABASE sorts SET {setting}"));
    }
    let mut db = Db::open(&place);
    let mark = db.load().mark;
    let bound = StoreError::SortTooLarge(SortRoom::Files { kib_max: Some(200) });
    let all = by(&db, TITLE, Direction::Asc, 5_000);
    for _ in 0..20 {
        assert_eq!(ids(&db, &all).unwrap_err(), bound);
        let with_total = Listing {
            total: Some(TotalCap::None),
            ..db::listing(&all, db.catalogue.epoch)
        };
        let listed = block_on(db.store.list(with_total)).map(|_| ());
        assert_eq!(listed.unwrap_err(), bound, "whichever answer comes first");
        let few = ids(&db, &by(&db, TITLE, Direction::Asc, 5)).unwrap();
        assert_eq!((few.len(), few[0].as_str()), (5, "r0"));
    }
    let change = Op::Matching(Box::new(MatchingOp {
        query: all,
        may_leave_rows: true,
        walks: false,
        bytes_max: None,
        tells_end: false,
        act: MatchingAct::Delete { range: None },
        rows_returned_max: 0,
    }));
    let other = db.insert("other", note("other"));
    let batches = [db.batch(vec![change]), db.batch(vec![other])];
    let outcomes = db.commit(&batches);
    assert_eq!(outcomes[0].as_ref().unwrap_err(), &Refusal::Failed(bound));
    assert!(outcomes[1].is_ok(), "{:?}", outcomes[1]);
    assert!(db.load().mark > mark);
    db.close();
}

struct Watched {
    root: TempDir,
    vfs: RecordingVfs,
}

impl Place for Watched {
    fn open(&self) -> Arc<dyn Store> {
        let options = db::options(&self.root.path().join("data"));
        let vfs = Some(self.vfs.name().to_owned());
        store::open(Options { vfs, ..options }).unwrap()
    }
}

#[test]
fn values_that_scheduled_rows_will_share_are_sorted_in_files_and_not_in_memory() {
    let root = tempfile::tempdir().unwrap();
    let vfs = RecordingVfs::register("sorts-of-scheduled", root.path()).unwrap();
    let place = Watched { root, vfs };
    // 8 MB of titles, of which an index holds the first characters.
    let mut db = filled_at(&place, 500, TITLE_BYTES);
    let written = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&written);
    place.vfs.on_call(move |call| {
        if call.op == Call::Write && call.file.role == Role::Other {
            counter.fetch_add(call.length_bytes, Ordering::SeqCst);
        }
    });
    let build = |db: &mut Db, key: &str| {
        let unique = index(0, key, IndexKind::Unique, &[(TITLE, Direction::Asc)]);
        written.store(0, Ordering::SeqCst);
        let table = change(db, SchemaChange::AddIndex(unique));
        let status = table.indexes.last().unwrap().status.clone();
        assert_eq!(status, IndexStatus::Available);
        written.load(Ordering::SeqCst)
    };
    assert_eq!(
        build(&mut db, "before"),
        0,
        "so few rows are indexed in memory"
    );
    let act = RowAct::Insert {
        values: note("later"),
        permissions: Vec::new(),
        stamps: Stamps::default(),
        guard: Guard::Open,
    };
    let tomorrow = Range {
        from: Some(Timestamp(db.next.0 + 86_400_000_000)),
        until: Until::Open,
    };
    let later = RowOp::over(db.table(), row_id("later"), tomorrow, act);
    db.ok(vec![Op::Row(later)]);
    assert!(build(&mut db, "after") > 4 << 20, "all titles are sorted");
    db.close();
}
