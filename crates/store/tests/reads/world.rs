//! Two tables with the same rows, one with indexes and one without, and what they must hold at
//! each stage of their history.

use std::sync::Arc;

use model::{
    ColumnKind, Coordinates, DatabaseId, Mark, Period, ProjectId, Table, TableId, Timestamp, Value,
};
use store::{CatalogueOp, Durability, Guard, Op, Options, RowAct, RowOp, Stamps, Store};
use testing::golden;

use super::db::{self, DATABASE, Db, PROJECT, Place};
use super::oracle::Known;

/// A stream of numbers that a seed repeats (the multiplier is Knuth's, from MMIX).
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

pub struct Directory(pub tempfile::TempDir, pub u64);

impl Place for Directory {
    fn open(&self) -> Arc<dyn Store> {
        store::open(Options {
            place: self.0.path().join("data").into(),
            durability: Durability::Normal,
            encode_row: db::encode_row,
            reader_cache_bytes: 8 << 20,
            read_limit_ms: self.1,
            long_reads: db::LONG_READS,
            vfs: None,
        })
        .unwrap()
    }
}

/// What was true after some commit.
pub struct Stage {
    pub mark: Mark,
    /// The rows of either table, by its position in [`World::tables`].
    pub rows: [Vec<Known>; 2],
}

impl Stage {
    pub fn coordinates(&self) -> Coordinates {
        Coordinates {
            valid: self.mark.timestamp(),
            system: self.mark,
        }
    }
}

pub struct World {
    pub db: Db,
    pub tables: [Arc<Table>; 2],
    /// The last one is now.
    pub stages: Vec<Stage>,
    pub directory: Directory,
}

pub const ROLES: [&str; 3] = ["any", "users", "team:red"];

/// What columns and queries take their values from: few, so that rows tie and tests match.
pub fn domain(key: &str) -> Vec<Value> {
    let texts = |texts: &[&str]| {
        texts
            .iter()
            .map(|text| Value::Text((*text).into()))
            .collect()
    };
    match key {
        "category" => texts(&["books", "electronics", "toys"]),
        "name" => {
            // Longer than what an index of PostgreSQL holds whole, and alike as far as it holds.
            let long = ["b".repeat(700), "b".repeat(699) + "c"];
            let long = long.map(Value::Text);
            let short = texts(&[
                "",
                "a",
                "ab",
                "abc",
                "b",
                "B",
                "Ab%",
                "a_b",
                "é",
                "ée",
                "\u{10ffff}",
                "\u{d7ff}x",
                "it's",
                "The red fox, é!",
                "fox\nred Ab",
            ]);
            [short, long.to_vec()].concat()
        }
        "price" | "rating" | "weights" => [-1.5, 0.0, 5e-324, 0.1, 0.1 + 0.2, 2.5, 1e300]
            .map(Value::Float)
            .to_vec(),
        "stock" | "scores" => [-3, 0, 1, 2, 7, i64::MAX].map(Value::Int).to_vec(),
        "inStock" => vec![Value::Bool(false), Value::Bool(true)],
        "releasedAt" | "days" | "$createdAt" | "$updatedAt" | "$validFrom" | "$validTo"
        | "$systemFrom" => [-1_000, 0, 1_767_225_600_000_000]
            .map(|us| Value::Instant(Timestamp(us)))
            .to_vec(),
        "tags" => texts(&["red", "a\"b", "grün", "1"]),
        "$id" => texts(&["r1", "r2", "r3", "r30", "x"]),
        "$sequence" => [1, 2, 30, 90].map(Value::Int).to_vec(),
        other => panic!("no such attribute: {other}"),
    }
}

impl World {
    /// Rows come in stages: inserted, changed, some deleted, others inserted.
    pub fn new(seed: u64, rows: usize) -> World {
        let directory = Directory(tempfile::tempdir().unwrap(), 60_000);
        let mut db = Db::open(&directory);
        db.ok(vec![Op::Catalogue(db::create_project(PROJECT))]);
        db.ok(vec![Op::Catalogue(db::create_database(DATABASE))]);
        for id in ["indexed", "bare"] {
            db.ok(vec![Op::Catalogue(CatalogueOp::CreateTable(Box::new(
                products(id),
            )))]);
        }
        let tables = ["indexed", "bare"].map(|id| db.table_called(id));
        let mut world = World {
            db,
            tables,
            stages: Vec::new(),
            directory,
        };
        let mut chance = Chance::new(seed);
        let ids =
            |range: std::ops::Range<usize>| range.map(|n| format!("r{n}")).collect::<Vec<_>>();
        world.stage(&mut chance, &ids(0..rows / 2), Step::Insert);
        world.stage(&mut chance, &ids(0..rows / 4), Step::Update);
        world.stage(&mut chance, &ids(rows / 2..rows), Step::Insert);
        world.stage(&mut chance, &ids(rows / 8..rows / 4), Step::Delete);
        world.stage(&mut chance, &ids(rows / 5..rows / 2), Step::Put);
        world
    }

    pub fn now(&self) -> &Stage {
        self.stages.last().unwrap()
    }

    fn stage(&mut self, chance: &mut Chance, ids: &[String], step: Step) {
        let mut rows = self
            .stages
            .last()
            .map_or([const { Vec::new() }; 2], |s| s.rows.clone());
        // The same in both tables, in commits of a few rows: times tie inside a commit.
        for ids in ids.chunks(7) {
            let acts: Vec<(String, RowAct, &str)> =
                ids.iter().map(|id| act(chance, id, step)).collect();
            for (table, rows) in self.tables.iter().zip(&mut rows) {
                let op = |(id, act, _): &(String, RowAct, &str)| {
                    Op::Row(RowOp::now(table.clone(), db::row_id(id), act.clone()))
                };
                let applied = self.db.ok(acts.iter().map(op).collect());
                let mark = applied.mark.unwrap_or(Mark::ZERO);
                for ((id, act, role), written) in acts.iter().zip(applied.rows) {
                    follow(rows, (id, mark), act, role, written);
                }
            }
        }
        let mark = self.db.load().mark;
        self.stages.push(Stage { mark, rows });
    }
}

#[derive(Clone, Copy)]
enum Step {
    Insert,
    Update,
    Delete,
    Put,
}

fn products(id: &str) -> Table {
    let mut table = golden::products();
    table.project = ProjectId::new(PROJECT).unwrap();
    table.database = DatabaseId::new(DATABASE).unwrap();
    table.id = TableId::new(id).unwrap();
    table.columns[1].kind = ColumnKind::Text;
    if id == "bare" {
        table.indexes.clear();
    }
    // Unique names would leave no ties to break.
    for index in &mut table.indexes {
        index.kind = model::IndexKind::Key;
    }
    table
}

fn content(chance: &mut Chance) -> Vec<Value> {
    let columns = golden::products().columns;
    let value = |column: &model::Column| {
        let domain = domain(column.key.as_str());
        if chance.below(6) == 0 {
            return Value::Null;
        }
        if column.array {
            let count = chance.below(4);
            return Value::List((0..count).map(|_| chance.pick(&domain).clone()).collect());
        }
        chance.pick(&domain).clone()
    };
    columns.iter().map(value).collect()
}

/// A row keeps its role through all its changes: it is judged by today's grants anyway.
fn role_of(id: &str) -> &'static str {
    ROLES[id.len() % 2 + usize::from(id.ends_with('7'))]
}

fn act(chance: &mut Chance, id: &str, step: Step) -> (String, RowAct, &'static str) {
    let role = role_of(id);
    let permissions = db::grants(&[&format!("read(\"{role}\")")]);
    let values = content(chance);
    let stamps = Stamps::default();
    let act = match step {
        Step::Insert => RowAct::Insert {
            values,
            permissions,
            stamps,
            guard: Guard::Open,
        },
        Step::Update => RowAct::Update {
            patch: vec![(2, values[2].clone()), (6, values[6].clone())].into(),
            permissions: None,
            stamps,
            guard: Guard::Open,
        },
        Step::Delete => RowAct::Delete { guard: Guard::Open },
        Step::Put => RowAct::Put {
            patch: vec![(1, values[1].clone())].into(),
            insert: Ok(values),
            permissions: None,
            insert_permissions: permissions,
            stamps,
            guard: Guard::Open,
        },
    };
    (id.to_owned(), act, role)
}

/// Does to the known rows what the act must have done to the stored ones.
fn follow(
    rows: &mut Vec<Known>,
    (id, mark): (&str, Mark),
    act: &RowAct,
    role: &'static str,
    written: Option<model::Row>,
) {
    let position = rows.iter().position(|row| row.id.as_str() == id);
    let Some(written) = written else {
        rows.remove(position.unwrap());
        return;
    };
    let values = match (act, position) {
        (RowAct::Insert { values, .. }, None) => values.clone(),
        (RowAct::Put { insert, .. }, None) => insert.clone().unwrap(),
        (RowAct::Update { patch, .. } | RowAct::Put { patch, .. }, Some(position)) => {
            let mut values = rows[position].values.clone();
            for (column, edit) in patch.edits() {
                let model::Edit::Set(value) = edit else {
                    panic!("no operators here: {edit:?}");
                };
                values[*column] = value.clone();
            }
            values
        }
        (act, position) => panic!("{act:?} at {position:?}"),
    };
    // What stays as it was is no other piece.
    let same = position
        .map(|at| &rows[at])
        .filter(|row| row.values == values);
    let from_now_on = || Period::new(mark.timestamp(), None).unwrap();
    let known = Known {
        valid: same.map_or_else(from_now_on, |row| row.valid),
        system_from: same.map_or(mark, |row| row.system_from),
        seq: written.seq,
        id: written.id,
        created: written.created,
        updated: written.updated,
        values,
        role,
    };
    match position {
        Some(position) => rows[position] = known,
        None => rows.push(known),
    }
}
