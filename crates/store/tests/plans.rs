//! How SQLite runs each statement of the query compiler's cases, with and without statistics.
//!
//! `plans/*.plan` holds the plans. `UPDATE_GOLDEN=1 cargo test -p store --test plans` writes them
//! again; read the difference before it is called right.

#[path = "suite/db.rs"]
#[allow(dead_code, reason = "written for the conformance suite, too")]
mod db;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use db::{DATABASE, Db, Directory, PROJECT};
use model::{DatabaseId, ProjectId, Table, TableId, Timestamp, Value};
use query::{Dialect, names};
use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use store::{CatalogueOp, Op, RowAct, RowOp, Stamps};
use testing::golden::{self, GoldenCase, PreparedCase, hold_beginnings, read_all};

const PLANS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plans");
const ROWS: usize = 2_000;

/// The table of the cases, thrice: with its indexes, without, and with those of beginnings.
struct Tables {
    indexed: Arc<Table>,
    bare: Arc<Table>,
    beginnings: Arc<Table>,
    connection: Connection,
    _directory: Directory,
}

impl Tables {
    fn new() -> Tables {
        let directory = Directory::new();
        let mut db = Db::open(&directory);
        db.ok(vec![Op::Catalogue(db::create_project(PROJECT))]);
        db.ok(vec![Op::Catalogue(db::create_database(DATABASE))]);
        for id in ["indexed", "bare", "beginnings"] {
            let mut table = products(id);
            match id {
                "bare" => table.indexes.clear(),
                "beginnings" => hold_beginnings(&mut table),
                _ => {}
            }
            db.ok(vec![Op::Catalogue(CatalogueOp::CreateTable(Box::new(
                table,
            )))]);
            let table = db.table_called(id);
            let ops: Vec<Op> = (0..ROWS).map(|number| insert(&table, number)).collect();
            for ops in ops.chunks(1_000) {
                db.ok(ops.to_vec());
            }
        }
        let (indexed, bare) = (db.table_called("indexed"), db.table_called("bare"));
        let beginnings = db.table_called("beginnings");
        db.close();
        let connection = Connection::open(directory.0.path().join("data/tidemark.db")).unwrap();
        // The store's own; a plan only needs them to be there.
        let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
        for name in [names::FINDS, names::HAS_PART, names::ENDS_WITH, "regexp"] {
            connection
                .create_scalar_function(name, 2, flags, |_| Ok(true))
                .unwrap();
        }
        Tables {
            indexed,
            bare,
            beginnings,
            connection,
            _directory: directory,
        }
    }

    fn asked(&self, case: &GoldenCase) -> PreparedCase {
        let is_of = |wanted: &str| case.directives.iter().any(|line| line == wanted);
        let table = match () {
            () if is_of("@ no indexes") => &self.bare,
            () if is_of("@ beginnings") => &self.beginnings,
            () => &self.indexed,
        };
        PreparedCase::new(case, Table::clone(table))
    }

    /// The plan of one statement: what SQLite says of each step, inner steps indented.
    fn plan(&self, statement: &query::emit::Statement) -> Vec<String> {
        let explain = format!("EXPLAIN QUERY PLAN {}", statement.sql);
        let mut prepared = self.connection.prepare(&explain).unwrap();
        let mut rows = prepared.raw_query();
        let mut depths = std::collections::HashMap::from([(0, 0)]);
        let mut steps = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            let (id, parent): (i64, i64) = (row.get(0).unwrap(), row.get(1).unwrap());
            let detail: String = row.get(3).unwrap();
            let depth = depths.get(&parent).map_or(0, |depth| depth + 1);
            depths.insert(id, depth);
            steps.push(format!("{}{detail}", "  ".repeat(depth)));
        }
        steps
    }
}

fn products(id: &str) -> Table {
    let mut table = golden::products();
    table.project = ProjectId::new(PROJECT).unwrap();
    table.database = DatabaseId::new(DATABASE).unwrap();
    table.id = TableId::new(id).unwrap();
    table
}

fn insert(table: &Arc<Table>, number: usize) -> Op {
    let n = number as i64;
    let list = |values: Vec<Value>| Value::List(values);
    let values = vec![
        Value::Text(["books", "electronics", "toys"][number % 3].into()),
        Value::Text(format!("name {number}")),
        if number.is_multiple_of(10) {
            Value::Null
        } else {
            Value::Float((n % 500) as f64)
        },
        Value::Int(n % 50),
        Value::Bool(n % 2 == 0),
        Value::Instant(Timestamp(n * 1_000_000)),
        list(vec![Value::Text(format!("tag {}", n % 7))]),
        list(vec![Value::Int(n % 7)]),
        list(vec![Value::Float((n % 7) as f64)]),
        Value::Null,
        Value::Float((n % 30) as f64 / 10.0),
    ];
    let act = RowAct::Insert {
        values,
        permissions: db::grants(&[if number.is_multiple_of(4) {
            "read(\"any\")"
        } else {
            "read(\"users\")"
        }]),
        stamps: Stamps::default(),
        guard: store::Guard::Open,
    };
    Op::Row(RowOp::now(
        table.clone(),
        db::row_id(&format!("r{number}")),
        act,
    ))
}

#[test]
fn every_statement_runs_as_planned() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let tables = Tables::new();
    let plain = plans(&tables);
    tables.connection.execute_batch("ANALYZE").unwrap();
    let analyzed = plans(&tables);
    let mut wrong = String::new();
    for (plain, analyzed) in plain.iter().zip(&analyzed) {
        let path = Path::new(PLANS).join(&plain.file);
        let text = plain.write(analyzed);
        if update {
            std::fs::write(&path, text).unwrap();
            continue;
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        for difference in differences(&expected, &text) {
            writeln!(wrong, "{}: {difference}", plain.file).unwrap();
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    for plans in plain.iter().chain(&analyzed) {
        plans.entries.iter().for_each(Entry::check);
    }
}

/// The plans of one file of cases.
struct Plans {
    file: String,
    entries: Vec<Entry>,
}

/// The plan of one statement.
struct Entry {
    title: String,
    /// The indexes the statement names, one for each table it reads.
    indexes: Vec<String>,
    steps: Vec<String>,
}

impl Entry {
    /// What must hold of any plan, whatever stands in the files: the named index is used wherever
    /// the table is read, and no table is walked row by row beside one.
    fn check(&self) {
        let indexes = &self.indexes;
        if indexes.is_empty() {
            return;
        }
        // A page whose keys were sorted apart takes its rows by their numbers.
        let takes_page = self.steps.iter().any(|step| step.trim() == "SCAN page");
        let reads = self.steps.iter().map(|step| step.trim()).filter(|step| {
            let is_taken = takes_page && *step == "SEARCH t USING INTEGER PRIMARY KEY (rowid=?)";
            let reads = step.starts_with("SCAN t ") || step.starts_with("SEARCH t ");
            (reads && !is_taken) || *step == "SCAN t"
        });
        let mut count = 0;
        for step in reads {
            let mut words = step.split_whitespace();
            let named = words.any(|word| indexes.iter().any(|index| index == word));
            assert!(named, "{}: {step} uses none of {indexes:?}", self.title);
            count += 1;
        }
        assert!(count > 0, "{}: nothing reads the table", self.title);
    }
}

impl Plans {
    /// The plans as text; where statistics change one, both.
    fn write(&self, analyzed: &Plans) -> String {
        let mut text = String::new();
        for (entry, analyzed) in self.entries.iter().zip(&analyzed.entries) {
            writeln!(text, "=== {}", entry.title).unwrap();
            for step in &entry.steps {
                writeln!(text, "{step}").unwrap();
            }
            if entry.steps != analyzed.steps {
                writeln!(text, "--- with statistics").unwrap();
                for step in &analyzed.steps {
                    writeln!(text, "{step}").unwrap();
                }
            }
            text.push('\n');
        }
        text
    }
}

fn plans(tables: &Tables) -> Vec<Plans> {
    read_all()
        .iter()
        .map(|file| {
            let entries = file
                .cases
                .iter()
                .flat_map(|case| entries(tables, case))
                .collect();
            let name = file.path.file_stem().unwrap().to_str().unwrap();
            Plans {
                file: format!("{name}.plan"),
                entries,
            }
        })
        .filter(|plans: &Plans| !plans.entries.is_empty())
        .collect()
}

fn entries(tables: &Tables, case: &GoldenCase) -> Vec<Entry> {
    let asked = tables.asked(case);
    let Ok(query) = asked.query(&case.queries) else {
        return Vec::new();
    };
    let table = asked.table.number;
    let mut indexes = Vec::new();
    if let Some(number) = asked.index(&query) {
        indexes.push(query::names::index(table, number));
        if query.at.is_some() {
            indexes.push(query::names::versions_index(table, number));
        }
    }
    let statements = asked.statements(&query, Dialect::Sqlite);
    for (what, statement) in statements.iter().filter(|(what, _)| *what == "rows") {
        let in_place = PreparedCase::rows_in_place(&query, Dialect::Sqlite);
        let (plain, in_place) = (tables.plan(statement), tables.plan(&in_place));
        assert_eq!(in_place, plain, "{}: {what} in place", case.name);
    }
    let entry = |(what, statement): &(&str, query::emit::Statement)| Entry {
        title: format!("{}: {what}", case.name),
        indexes: match *what {
            "cursor" => Vec::new(),
            _ => indexes.clone(),
        },
        steps: tables.plan(statement),
    };
    statements.iter().map(entry).collect()
}

/// The blocks in which two texts differ.
fn differences(expected: &str, found: &str) -> Vec<String> {
    let blocks = |text: &str| -> Vec<String> { text.split("\n\n").map(str::to_owned).collect() };
    let (expected, found) = (blocks(expected), blocks(found));
    let longest = expected.len().max(found.len());
    let at = |blocks: &[String], position: usize| blocks.get(position).cloned().unwrap_or_default();
    (0..longest)
        .map(|position| (at(&expected, position), at(&found, position)))
        .filter(|(expected, found)| expected != found)
        .map(|(expected, found)| format!("\n{expected}\nbut is\n{found}\n"))
        .collect()
}
