//! The counters of what tables hold: whatever is written, let go of, erased or dropped, each says
//! what a count of every version comes to.

mod suite;

use std::collections::BTreeMap;
use std::path::PathBuf;

use futures_executor::block_on;
use model::history::{Range, Until};
use model::{ColumnKind, Mark, Patch, ProjectId, Retention, Timestamp, Value};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use store::{
    CatalogueOp, Counted, Full, Guard, MatchingAct, MatchingOp, Op, Refusal, RowAct, RowOp,
    SchemaChange, SpaceLimit, Stamps, WriteBatch,
};
use suite::db::{
    CODE, COUNT, Db, Directory, PROJECT, TAGS, TITLE, adding, column, create_database,
    create_project, delete_table, note, notes, notes_called, row_id,
};
use testing::OwnTurn;

const HOUR_US: i64 = 3_600_000_000;
const ROWS: u64 = 12;
/// What a version counts beside its values.
const VERSION_BYTES: u64 = 100;

impl Directory {
    /// The database beside the store.
    fn database(&self) -> Connection {
        let entries = std::fs::read_dir(self.0.path().join("data")).unwrap();
        let mut files = entries.map(|entry| entry.unwrap().path());
        let is_database = |path: &PathBuf| {
            std::fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"SQLite format 3"))
        };
        Connection::open(files.find(is_database).unwrap()).unwrap()
    }

    /// What the versions of each table come to, one by one.
    fn counted(&self) -> BTreeMap<i64, u64> {
        let database = self.database();
        let sql = "SELECT number FROM table_ WHERE st = 9223372036854775807";
        let mut statement = database.prepare(sql).unwrap();
        let numbers = statement.query_map((), |row| row.get(0)).unwrap();
        let numbers: Vec<i64> = numbers.collect::<Result<_, _>>().unwrap();
        let count = |number: i64| (number, bytes_of(&database, number));
        numbers.into_iter().map(count).collect()
    }
}

fn bytes_of(database: &Connection, table: i64) -> u64 {
    let sql = format!("SELECT * FROM t{table}_v");
    let mut statement = database.prepare(&sql).unwrap();
    let is_user = |name: &str| name[1..].parse::<u32>().is_ok();
    let names: Vec<&str> = statement.column_names().collect();
    let user: Vec<usize> = (0..names.len()).filter(|at| is_user(names[*at])).collect();
    let mut rows = statement.query(()).unwrap();
    let mut bytes = 0;
    while let Some(row) = rows.next().unwrap() {
        bytes += VERSION_BYTES;
        for at in &user {
            bytes += match row.get_ref(*at).unwrap() {
                ValueRef::Null => 0,
                ValueRef::Integer(_) | ValueRef::Real(_) => 8,
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len() as u64,
            };
        }
    }
    bytes
}

fn kept(db: &Db) -> BTreeMap<i64, u64> {
    let kept = block_on(db.store.table_bytes()).unwrap();
    kept.into_iter()
        .map(|(table, bytes)| (table.0, bytes))
        .collect()
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

    fn id(&mut self) -> String {
        format!("r{}", self.below(ROWS))
    }

    /// A period that may lie in the past or the future, or begin now.
    fn range(&mut self, db: &Db) -> Range {
        let low = self.below(96) as i64 - 72;
        let from = Timestamp(db.next.0 + low * HOUR_US + 5);
        let until = match self.below(3) {
            0 => Until::Open,
            1 => Until::Next,
            _ => Until::At(Timestamp(from.0 + (1 + self.below(60) as i64) * HOUR_US)),
        };
        let from = (self.below(4) > 0).then_some(from);
        Range { from, until }
    }

    fn values(&mut self, db: &Db) -> Vec<Value> {
        let mut values = note(&"ü".repeat(self.below(40) as usize));
        values[CODE] = Value::Null;
        let tags = (0..self.below(5)).map(|_| Value::Text("a\"b".into()));
        values[TAGS] = Value::List(tags.collect());
        if self.below(3) == 0 {
            let at = self.below(6) as usize;
            values[at] = Value::Null;
        }
        values.resize(db.table().columns.len(), Value::Text("later".into()));
        values
    }
}

fn timed(db: &Db, id: &str, range: Range, act: RowAct) -> Op {
    Op::Row(RowOp::over(db.table(), row_id(id), range, act))
}

fn matching(db: &Db, dice: &mut Dice) -> Op {
    let act = match dice.below(4) {
        0 => MatchingAct::Delete { range: None },
        1 => MatchingAct::Update {
            patch: adding(1),
            permissions: None,
            stamps: Stamps::default(),
            range: None,
        },
        _ => MatchingAct::Update {
            patch: vec![(TITLE, dice.values(db)[TITLE].clone())].into(),
            permissions: None,
            stamps: Stamps::default(),
            range: None,
        },
    };
    let mut query = db.all();
    query.limit = 1 + dice.below(4) as u32;
    Op::Matching(Box::new(MatchingOp {
        query,
        may_leave_rows: true,
        walks: false,
        bytes_max: None,
        tells_end: false,
        act,
        rows_returned_max: 2,
    }))
}

/// A change of rows of any kind.
fn rows_op(db: &Db, dice: &mut Dice) -> Op {
    let (id, values, guard) = (dice.id(), dice.values(db), Guard::Open);
    let permissions = None;
    let stamps = Stamps::default();
    let patch: Patch = vec![(TITLE, values[TITLE].clone()), (TAGS, values[TAGS].clone())].into();
    match dice.below(16) {
        0..3 => db.insert(&id, values),
        3..6 => db.update(&id, vec![(TITLE, values[TITLE].clone())]),
        6 => db.delete(&id),
        7 => db.grant(&id, &["read(\"any\")"]),
        8 => db.op(
            &id,
            RowAct::Put {
                patch: adding(1),
                insert: Ok(values),
                permissions,
                insert_permissions: Vec::new(),
                stamps,
                guard,
            },
        ),
        9 => matching(db, dice),
        10 => timed(db, &id, dice.range(db), RowAct::Delete { guard }),
        11 => timed(db, &id, Range::default(), RowAct::Erase),
        12 => {
            let update = RowAct::Update {
                patch,
                permissions,
                stamps,
                guard,
            };
            timed(db, &id, dice.range(db), update)
        }
        _ => {
            let put = RowAct::Replace {
                values,
                permissions,
                guard,
            };
            timed(db, &id, dice.range(db), put)
        }
    }
}

fn keep(db: &Db, history: Retention) -> Op {
    Op::Catalogue(CatalogueOp::SetOptions {
        number: db.table().number,
        pinned_max_age_s: None,
        history: Some(history),
        past: None,
        ttl_max_s: None,
    })
}

fn reshape(db: &Db, change: SchemaChange) -> Op {
    let table = db.table();
    Op::Catalogue(CatalogueOp::ChangeSchema { table, change })
}

/// A table whose titles and tags are encrypted.
fn sealed_notes() -> Op {
    let mut table = notes();
    for position in [TITLE, TAGS] {
        table.columns[position].encrypt = true;
    }
    Op::Catalogue(CatalogueOp::CreateTable(Box::new(table)))
}

/// Something that happens to the table as a whole.
fn table_op(db: &Db, dice: &mut Dice) -> Op {
    let columns = db.table().columns.clone();
    match dice.below(8) {
        0 => keep(db, Retention::None),
        1 => keep(db, Retention::Days(1)),
        2 | 3 => keep(db, Retention::All),
        4 | 5 if columns.len() > 7 => {
            let number = columns.last().unwrap().number;
            reshape(db, SchemaChange::DropColumn(number))
        }
        4 | 5 => {
            let mut later = column(0, "later", ColumnKind::Varchar { chars_max: 100 }, false);
            later.encrypt = dice.below(2) == 0;
            reshape(db, SchemaChange::AddColumn(later))
        }
        6 => Op::Catalogue(delete_table("notes")),
        _ => keep(db, Retention::Days(2)),
    }
}

/// Groups of batches, some of which are refused, and some rolled back as a whole.
fn step(db: &mut Db, dice: &mut Dice) {
    if dice.below(25) == 0 {
        let op = table_op(db, dice);
        db.try_ops(vec![op]).unwrap();
        if !db.database().tables.keys().any(|id| id.as_str() == "notes") {
            db.ok(vec![sealed_notes()]);
        }
        return;
    }
    let batches: Vec<WriteBatch> = (0..=dice.below(3))
        .map(|_| {
            let ops = (0..=dice.below(3)).map(|_| rows_op(db, dice));
            let ops = ops.collect();
            db.batch(ops)
        })
        .collect();
    if dice.below(10) == 0 {
        drop(block_on(db.store.apply(&batches, db.next)).unwrap());
        return;
    }
    for outcome in db.commit(&batches) {
        assert!(
            !matches!(outcome, Err(Refusal::Failed(_))),
            "{outcome:?} of {batches:?}"
        );
    }
    db.next = Mark(db.next.0 + HOUR_US / 4);
}

#[test]
fn counters_equal_counts_after_any_write() {
    let place = Directory::new();
    let mut db = Db::open(&place);
    db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
    db.ok(vec![Op::Catalogue(create_database(suite::db::DATABASE))]);
    db.ok(vec![sealed_notes()]);
    db.ok(vec![Op::Catalogue(CatalogueOp::CreateTable(Box::new(
        notes_called("beside"),
    )))]);
    let mut dice = Dice(17);
    let (mut largest, mut smaller) = (0, 0);
    let mut before = 0;
    for nth in 0..1_200 {
        step(&mut db, &mut dice);
        if dice.below(4) == 0 {
            block_on(db.store.run_upkeep()).unwrap();
        }
        if dice.below(100) == 0 {
            let next = db.next;
            // As after a crash: nothing is said to the store.
            drop(db);
            db = Db::open(&place);
            db.next = next.max(db.next);
        }
        let kept = kept(&db);
        assert_eq!(kept, place.counted(), "after step {nth}");
        let all: u64 = kept.values().sum();
        largest = largest.max(all);
        smaller += usize::from(all < before);
        before = all;
    }
    assert!(largest > 10_000, "{largest}");
    assert!(smaller > 50, "{smaller}");
}

#[test]
fn damaged_values_that_are_moved_count_as_they_are_stored() {
    let place = Directory::new();
    let mut db = Db::open(&place);
    db.ok(vec![Op::Catalogue(create_project(PROJECT))]);
    db.ok(vec![Op::Catalogue(create_database(suite::db::DATABASE))]);
    db.ok(vec![sealed_notes()]);
    let hour = |nth: i64| Timestamp(db.next.0 + nth * HOUR_US);
    let (from, cut, again) = (hour(1), hour(3), hour(5));
    let put = RowAct::Replace {
        values: note("sealed"),
        permissions: None,
        guard: Guard::Open,
    };
    let later = |from, until| Range {
        from: Some(from),
        until,
    };
    let ops = vec![timed(&db, "a", later(from, Until::Open), put)];
    db.ok(ops);
    let number = db.table().number.0;
    let damage = format!("UPDATE t{number}_v SET c1 = zeroblob(octet_length(c1))");
    place.database().execute_batch(&damage).unwrap();
    let before = kept(&db);
    // One piece becomes two, on both sides of what is deleted.
    let guard = Guard::Open;
    let gap = later(cut, Until::At(again));
    let ops = vec![timed(&db, "a", gap, RowAct::Delete { guard })];
    db.ok(ops);
    assert!(kept(&db)[&number] > before[&number]);
    assert_eq!(kept(&db), place.counted());
}

/// What a store without counters has left behind.
fn make_older(place: &Directory) {
    let older = "DROP TABLE table_bytes; DROP TABLE tx_schema; DROP TABLE erasure;
                 DROP TABLE function_; DROP TABLE variable; DROP TABLE deployment;
                 DROP TABLE deployment_piece; DROP TABLE pieces_gone;
                 DROP TABLE execution; DROP TABLE execution_kept; DROP TABLE executions_gone;
                 DROP TABLE queued; DROP TABLE queued_call; DROP TABLE queue_size;
                 DROP TABLE calls_gone; DROP TABLE schedule; DROP TABLE listening;
                 DROP TABLE event_cursor; DROP TABLE event_apart;
                 DROP TABLE executions_old;
                 PRAGMA user_version = 11;";
    place.database().execute_batch(older).unwrap();
}

#[test]
fn rows_of_older_files_are_counted_in_slices_while_writes_go_on() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    let insert = |db: &Db, id: String| {
        let mut values = note(&id);
        values[CODE] = Value::Null;
        db.insert(&id, values)
    };
    for part in 0..7 {
        let ids = (0..500).map(|nth| format!("old{part}-{nth}"));
        let ops = ids.map(|id| insert(&db, id)).collect();
        db.ok(ops);
    }
    db.close();
    make_older(&place);
    let mut db = Db::open(&place);
    assert_eq!(kept(&db).values().sum::<u64>(), 0);
    let mut dice = Dice(3);
    let mut slices = 0;
    loop {
        // Some of those that are counted already, and some that are not, the last ones among them:
        // their places are given again.
        for _ in 0..40 {
            let id = format!("old{}-{}", dice.below(7), dice.below(500));
            let range = Range::default();
            let erased = timed(&db, &id, range, RowAct::Erase);
            db.ok(vec![erased]);
            step_of_rows(&mut db, &mut dice);
        }
        let last = format!("old6-{}", 499 - slices);
        let erased = timed(&db, &last, Range::default(), RowAct::Erase);
        db.ok(vec![erased]);
        db.ok(vec![insert(&db, format!("new{slices}"))]);
        let counted = place.counted();
        assert!(kept(&db) < counted, "{slices} slices");
        let is_more = block_on(db.store.run_upkeep()).unwrap();
        slices += 1;
        if !is_more {
            break;
        }
        let next = db.next;
        drop(db);
        db = Db::open(&place);
        db.next = next.max(db.next);
    }
    assert!(slices >= 4, "{slices}");
    assert_eq!(kept(&db), place.counted());
    for _ in 0..50 {
        step_of_rows(&mut db, &mut dice);
    }
    assert_eq!(kept(&db), place.counted());
}

fn step_of_rows(db: &mut Db, dice: &mut Dice) {
    let op = rows_op(db, dice);
    let _ = db.try_ops(vec![op]);
}

#[test]
fn a_table_that_goes_before_it_was_counted_leaves_nothing_to_count() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("a", note("a"))]);
    db.close();
    make_older(&place);
    let mut db = Db::open(&place);
    db.ok(vec![Op::Catalogue(delete_table("notes"))]);
    db.ok(vec![Op::Catalogue(CatalogueOp::CreateTable(Box::new(
        notes(),
    )))]);
    db.ok(vec![db.insert("b", note("b"))]);
    assert_eq!(kept(&db), place.counted());
    while block_on(db.store.run_upkeep()).unwrap() {}
    assert_eq!(kept(&db), place.counted());
    assert!(kept(&db).values().sum::<u64>() > VERSION_BYTES);
}

#[test]
fn bytes_of_each_project_are_seen_from_outside() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    db.ok(vec![db.insert("a", note("a"))]);
    let held: u64 = kept(&db).values().sum();
    db.close();
    let look = || {
        let directory = place.0.path().join("data");
        let inspection = store::inspect(&directory.into()).unwrap().unwrap();
        inspection.project_bytes().unwrap()
    };
    assert_eq!(look(), [(PROJECT.to_owned(), held)]);
    make_older(&place);
    assert_eq!(look(), []);
}

fn within(db: &mut Db, bytes: u64, ops: Vec<Op>) -> Result<(), Refusal> {
    let batch = WriteBatch {
        space: SpaceLimit::ProjectBytes(bytes),
        ..db.batch(ops)
    };
    db.commit(&[batch]).remove(0).map(drop)
}

#[test]
fn a_project_that_is_full_takes_what_adds_nothing() {
    let place = Directory::new();
    let mut db = Db::with_notes(&place);
    db.ok(vec![Op::Catalogue(CatalogueOp::CreateTable(Box::new(
        notes_called("beside"),
    )))]);
    db.ok(vec![db.insert("a", note("a"))]);
    let held: u64 = kept(&db).values().sum();
    let insert = |db: &Db| vec![db.insert("b", note("b"))];
    // To the byte: the second row is as long as the first.
    let ops = insert(&db);
    assert!(within(&mut db, 2 * held - 1, ops).is_err());
    let ops = insert(&db);
    assert_eq!(within(&mut db, 2 * held, ops), Ok(()));
    assert_eq!(kept(&db).values().sum::<u64>(), 2 * held);
    // What is in the same group counts.
    let batch = |db: &Db, id: &str| WriteBatch {
        space: SpaceLimit::ProjectBytes(3 * held),
        ..db.batch(vec![db.insert(id, note(id))])
    };
    let group = [batch(&db, "c"), batch(&db, "d"), batch(&db, "e")];
    let outcomes = db.commit(&group);
    assert_eq!(
        outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(),
        [true, false, false]
    );
    // Another version counts, however little it changes; one of another table as well.
    let ops = vec![db.update("a", vec![(COUNT, Value::Int(1))])];
    assert_eq!(within(&mut db, 2 * held, ops).map_err(|_| ()), Err(()));
    let erase = |db: &Db, id: &str| timed(db, id, Range::default(), RowAct::Erase);
    let ops = vec![db.delete("c")];
    assert_eq!(within(&mut db, 1, ops), Ok(()), "it adds no version");
    let ops = vec![erase(&db, "c"), erase(&db, "b"), db.insert("f", note("f"))];
    assert_eq!(
        within(&mut db, 1, ops),
        Ok(()),
        "it takes more than it adds"
    );
    assert_eq!(kept(&db).values().sum::<u64>(), 2 * held);
    let ops = insert(&db);
    assert_eq!(within(&mut db, 2 * held, ops).map_err(|_| ()), Err(()));
    db.ok(vec![erase(&db, "a")]);
    let ops = insert(&db);
    assert_eq!(within(&mut db, 2 * held, ops), Ok(()));
    let ops = vec![db.insert("g", note("g"))];
    let full = Full {
        what: Counted::ProjectBytes(ProjectId::new(PROJECT).unwrap()),
        held: 2 * held,
        max: 2 * held,
    };
    assert_eq!(within(&mut db, 2 * held, ops), Err(Refusal::Full(full)));
}
