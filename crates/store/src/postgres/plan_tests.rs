//! How PostgreSQL runs each statement of the query compiler's cases on 200,000 rows, before it has
//! statistics and with them. At night: it takes minutes.
//!
//! `tests/plans_postgres/*.plan` holds the plans of version 15: nodes, conditions of indexes and
//! keys of sorts. `TIDEMARK_LANE=night UPDATE_GOLDEN=1 cargo test -p store --lib plan_tests` writes
//! them again; read the difference before it is called right.

use std::fmt::Write as _;
use std::path::Path;

use model::{Column, Storage, Table};
use query::emit::{self, Statement};
use query::index_choice::is_planned_each_time;
use query::{Dialect, lexemes, names};
use testing::golden::{GoldenCase, PreparedCase, hold_beginnings, products, read_all};
use testing_postgres::Cluster;
use tokio_postgres::Client;

use super::address::DatabaseUrl;
use super::cells;
use super::connection::{connect, rows};
use super::format::STEPS;
use super::read::narrowed::narrows;
use super::row_tables::{create_indexes, create_tables};

const PLANS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plans_postgres");
const ROWS: usize = 200_000;
/// Longest line that is kept: a case may name hundreds of values.
const LINE_CHARS_MAX: usize = 160;

/// The table of the cases in three schemas: with its indexes, without, and with those of
/// beginnings.
const SCHEMAS: [&str; 3] = ["indexed", "bare", "beginnings"];

fn schema_of(case: &GoldenCase) -> &'static str {
    let is_of = |wanted: &str| case.directives.iter().any(|line| line == wanted);
    match () {
        () if is_of("@ no indexes") => "bare",
        () if is_of("@ beginnings") => "beginnings",
        () => "indexed",
    }
}

fn table_in(schema: &str) -> Table {
    let mut table = products();
    match schema {
        "bare" => table.indexes.clear(),
        "beginnings" => hold_beginnings(&mut table),
        _ => {}
    }
    table
}

/// What the row of number `n` has: some hundred values of each kind, and nulls.
fn value_of(column: &Column) -> String {
    // The one with a unique index.
    if column.key.as_str() == "name" {
        return "'name ' || n".to_owned();
    }
    let one = match column.kind.storage() {
        Storage::Text => "'value ' || n % 900",
        Storage::Int | Storage::Instant => "n % 700",
        Storage::Float => "(n % 500) / 10.0::float8",
        Storage::Bool => "n % 2 = 0",
    };
    let one = if column.array {
        format!("ARRAY[{one}]")
    } else {
        one.to_owned()
    };
    format!("CASE WHEN n % 10 = 3 THEN NULL ELSE {one} END")
}

/// Rows of now, each with the version that it copies; a quarter with one before it.
fn fill(table: &Table) -> String {
    let number = table.number;
    let of_columns = |write: &dyn Fn(&Column) -> String| {
        let columns = table.columns.iter();
        let columns: Vec<String> = columns
            .map(|column| format!(", {}", write(column)))
            .collect();
        columns.concat()
    };
    let columns = of_columns(&|column| names::column(column.number));
    let values = of_columns(&value_of);
    let (now, versions) = (names::now(number), names::versions(number));
    let grants = names::grants(number);
    let all = format!("FROM generate_series(1, {ROWS}) AS n");
    format!(
        "INSERT INTO {versions} (rid, vf, sf, origin, seq, created, updated, twin, id{columns}) \
           SELECT n, n, n, n, n, n, n, 1, 'r' || n{values} {all}; \
         INSERT INTO {versions} (rid, vf, vt, sf, st, origin, seq, created, updated, twin, \
           id{columns}) SELECT n + {ROWS}, 0, n, 0, n, 0, n, 0, 0, 0, 'r' || n{values} {all} \
           WHERE n % 4 = 0; \
         INSERT INTO {now} (seq, vf, sf, origin, created, updated, rid, twin, body_epoch, id, \
           perms, body{columns}) SELECT n, n, n, n, n, n, n, 1, 0, 'r' || n, '', \
           decode(repeat('00', 100), 'hex'){values} {all}; \
         INSERT INTO {grants} (seq, role, actions, sf) \
           SELECT n, CASE n % 4 WHEN 0 THEN 'any' ELSE 'users' END, 1, n {all}"
    )
}

/// Makes the schemas.
async fn make(client: &Client) {
    for schema in SCHEMAS {
        let table = table_in(schema);
        let path = format!("CREATE SCHEMA {schema}; SET search_path = {schema}");
        client.batch_execute(&path).await.unwrap();
        client.batch_execute(&STEPS.join(";")).await.unwrap();
        client.batch_execute(lexemes::function()).await.unwrap();
        let tables = create_tables(table.number, &table.columns);
        client.batch_execute(&tables).await.unwrap();
        client.batch_execute(&fill(&table)).await.unwrap();
        client.batch_execute(&create_indexes(&table)).await.unwrap();
    }
}

/// The plan of a statement, as reads have it planned: for its values, or once for any.
async fn plan(client: &Client, statement: &Statement, each_time: bool) -> Vec<String> {
    let parameters = &statement.parameters;
    let lines: Vec<String> = if each_time {
        let explain = format!("EXPLAIN (COSTS OFF) {}", statement.sql);
        let typed = parameters
            .iter()
            .map(|value| (cells::parameter(value), cells::parameter_type(value)));
        let typed: Vec<_> = typed.collect();
        let typed: Vec<_> = typed
            .iter()
            .map(|(value, kind)| (&**value as _, kind.clone()))
            .collect();
        let found = client.query_typed(&explain, &typed).await.unwrap();
        found.iter().map(|row| row.get(0)).collect()
    } else {
        let nulls = vec!["NULL"; parameters.len()].join(", ");
        let values = if parameters.is_empty() {
            String::new()
        } else {
            format!("({nulls})")
        };
        let prepare = format!("PREPARE p AS {}", statement.sql);
        client.batch_execute(&prepare).await.unwrap();
        let explain = format!("EXPLAIN (COSTS OFF) EXECUTE p{values}");
        let found = rows(client, &explain).await.unwrap();
        client.batch_execute("DEALLOCATE p").await.unwrap();
        let lines = found.iter().filter_map(|row| row.get(0).map(str::to_owned));
        lines.collect()
    };
    lines.iter().filter_map(|line| kept(line)).collect()
}

/// A line that says how rows are found.
fn kept(line: &str) -> Option<String> {
    let text = line.trim_start();
    let is_kept = !text.contains(": ")
        || [
            "Index Cond:",
            "Sort Key:",
            "Recheck Cond:",
            "Presorted Key:",
        ]
        .iter()
        .any(|start| text.starts_with(start))
        || text.starts_with("->");
    is_kept.then(|| line.chars().take(LINE_CHARS_MAX).collect())
}

/// A statement by the name of its case, and its plan.
type PlannedStatement = (String, Vec<String>);

/// The plans of each file of cases: its name, and its blocks.
async fn plans(client: &Client) -> Vec<(String, Vec<PlannedStatement>)> {
    let mut all = Vec::new();
    for file in read_all() {
        let mut blocks = Vec::new();
        for case in &file.cases {
            let schema = schema_of(case);
            let path = format!("SET search_path = {schema}");
            client.batch_execute(&path).await.unwrap();
            let asked = PreparedCase::new(case, products());
            let Ok(query) = asked.query(&case.queries) else {
                continue;
            };
            for (what, statement) in asked.statements(&query, Dialect::Postgres) {
                let steps = plan(client, &statement, is_planned_each_time(&query)).await;
                blocks.push((format!("{}: {what}", case.name), steps));
            }
            let of_words = emit::narrowing(&query).filter(|_| asked.is_list());
            if let Some(statement) = of_words {
                let begins = format!("BEGIN; {}", narrows());
                client.batch_execute(&begins).await.unwrap();
                let steps = plan(client, &statement, true).await;
                client.batch_execute("ROLLBACK").await.unwrap();
                blocks.push((format!("{}: words", case.name), steps));
            }
        }
        let name = file.path.file_stem().unwrap().to_str().unwrap();
        if !blocks.is_empty() {
            all.push((format!("{name}.plan"), blocks));
        }
    }
    all
}

/// The plans as text; where statistics change one, both.
fn written(plain: &[PlannedStatement], analyzed: &[PlannedStatement]) -> String {
    let mut text = String::new();
    for ((title, steps), (_, analyzed)) in plain.iter().zip(analyzed) {
        writeln!(text, "=== {title}\n{}", steps.join("\n")).unwrap();
        if steps != analyzed {
            writeln!(text, "--- with statistics\n{}", analyzed.join("\n")).unwrap();
        }
        text.push('\n');
    }
    text
}

#[test]
fn statements_of_golden_cases_are_planned_as_written() {
    if std::env::var("TIDEMARK_LANE").as_deref() != Ok("night") {
        return;
    }
    let settings = testing_postgres::ClusterSettings {
        // Statistics come when they are called for.
        further: &["autovacuum=off"],
        ..Default::default()
    };
    let cluster = Cluster::start(&settings).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let url = DatabaseUrl::parse(&cluster.url("postgres")).unwrap();
    let (plain, analyzed) = runtime.block_on(async {
        let client = connect(&url, None).await.unwrap().client;
        // As in sessions of reads; and a sample of all rows, so that it is the same each time.
        let session = "SET plan_cache_mode = force_generic_plan; SET jit = off; \
                       SET max_parallel_workers_per_gather = 0; \
                       SET default_statistics_target = 1000";
        client.batch_execute(session).await.unwrap();
        make(&client).await;
        let plain = plans(&client).await;
        client.batch_execute("ANALYZE").await.unwrap();
        (plain, plans(&client).await)
    });
    let mut wrong = Vec::new();
    for ((file, plain), (_, analyzed)) in plain.iter().zip(&analyzed) {
        let path = Path::new(PLANS).join(file);
        let text = written(plain, analyzed);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, text).unwrap();
        } else if std::fs::read_to_string(&path).unwrap_or_default() != text {
            wrong.push(format!("{file} is now:\n{text}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
