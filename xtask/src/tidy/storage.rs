//! Rules `sql-text` and `database-name`: who may know that there is SQL, and whose.

use super::Finding;
use super::source::{Source, Tree};

/// Tests that have a database of their own beside the program.
const FOREIGN: [&str; 5] = [
    "crates/tidemark/tests/doctor_database.rs",
    "crates/tidemark/tests/first_steps_database.rs",
    "crates/tidemark/tests/serve_database.rs",
    "crates/tidemark/tests/store_place.rs",
    "tests/tests/kill_database.rs",
];
/// Where SQL may stand. The emitter's tests compare whole statements; this file looks for them.
const SQL_HOMES: [&str; 12] = [
    "crates/query/src/emit.rs",
    "crates/query/src/emit/",
    "crates/query/tests/",
    "crates/store/",
    "crates/testing-postgres/",
    FOREIGN[0],
    FOREIGN[1],
    FOREIGN[2],
    FOREIGN[3],
    FOREIGN[4],
    "crates/tiers/tests/support/sqlite.rs",
    "xtask/src/tidy/storage.rs",
];
/// What a statement begins with, up to where an English sentence would go on differently.
const STATEMENTS: [&str; 17] = [
    "SELECT ",
    "INSERT INTO ",
    "INSERT OR ",
    "REPLACE INTO ",
    "UPDATE ",
    "DELETE FROM ",
    "CREATE TABLE ",
    "CREATE INDEX ",
    "CREATE UNIQUE INDEX ",
    "ALTER TABLE ",
    "DROP TABLE ",
    "DROP INDEX ",
    "PRAGMA ",
    "SAVEPOINT ",
    "ROLLBACK TO ",
    "BEGIN IMMEDIATE",
    "EXPLAIN QUERY PLAN ",
];
/// Rooms that must not know which database is below them.
const UNAWARE: [&str; 12] = [
    "bench/measure/",
    "bench/scenarios/",
    "crates/client/",
    "crates/engine/",
    "crates/functions/",
    "crates/server/",
    "crates/store/src/laws/",
    "crates/tidemark/",
    "crates/transfer/",
    "crates/list-cache/",
    "crates/cache/",
    "crates/model/",
];

/// The databases, as their names begin.
const DATABASES: [&str; 2] = ["sqlite", "postgres"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in tree.rust() {
        check_sql(source, &mut findings);
        check_names(source, &mut findings);
    }
    findings
}

fn check_sql(source: &Source, findings: &mut Vec<Finding>) {
    if SQL_HOMES.iter().any(|home| source.path.starts_with(home)) {
        return;
    }
    for literal in source
        .literals
        .iter()
        .filter(|literal| is_sql(&literal.text))
    {
        let message = "SQL outside its home; build it in crates/query/src/emit.rs or keep it \
                       under crates/store/";
        findings.push(Finding::new(
            &source.path,
            literal.line,
            "sql-text",
            message,
        ));
    }
}

/// Written in capitals as a statement, or in small letters with the words that make it one.
fn is_sql(text: &str) -> bool {
    // A raw literal may hold a line break, written out or as an escape.
    let text = text.trim_start().replace(['\n', '\t'], " ");
    let small = text.to_lowercase();
    STATEMENTS.iter().any(|start| {
        let is_small = text.starts_with(&start.to_lowercase());
        text.starts_with(start)
            || is_small && (start.matches(' ').count() > 1)
            || is_small && (small.contains(" from ") || small.contains(" set "))
    })
}

fn check_names(source: &Source, findings: &mut Vec<Finding>) {
    if !UNAWARE.iter().any(|room| source.path.starts_with(room))
        || FOREIGN.contains(&source.path.as_str())
    {
        return;
    }
    // Reports say beside what was measured.
    let is_report = source.path.starts_with("bench/");
    let names = &DATABASES[..if is_report { 1 } else { DATABASES.len() }];
    let in_code = source
        .code
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line));
    let in_literals = source
        .literals
        .iter()
        .map(|literal| (literal.line, literal.text.as_str()));
    for (line, text) in in_code.chain(in_literals) {
        let text = text.to_lowercase();
        let is_named = |name: &&str| text.contains(*name);
        if names.iter().any(is_named) {
            let message = "names the database below; say `store`, or what the store promises";
            findings.push(Finding::new(&source.path, line, "database-name", message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::snippets;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        snippets::check(super::check, files, expected);
    }

    #[test]
    fn sql_stands_in_its_home_only() {
        let text = "fn f() {\n  run(\"SELECT 1\");\n}";
        check(&[("crates/query/src/emit.rs", text)], &[]);
        check(&[("crates/store/src/sqlite/read.rs", text)], &[]);
        check(
            &[("crates/engine/src/read/rows.rs", text)],
            &["crates/engine/src/read/rows.rs:2: sql-text"],
        );
        check(
            &[("crates/query/src/parse.rs", text)],
            &["crates/query/src/parse.rs:2: sql-text"],
        );
    }

    #[test]
    fn sql_is_told_from_english() {
        let sql = [
            "INSERT INTO t",
            "\\n  UPDATE t SET a = 1",
            "delete from t",
            "create unique index i",
            "select a from b",
            "update t set a = 1",
            "PRAGMA x",
            "DELETE FROM t",
            "SELECT\n a",
        ];
        for text in sql.map(|text| text.replace("\\n", "\n")) {
            assert!(super::is_sql(&text), "{text}");
        }
        let english = [
            "update the row",
            "Select a row",
            "select",
            "SELECTED",
            "delete it",
            "UPDATED",
            "create table",
            "insert",
            "/v1/tables",
        ];
        for text in english {
            assert!(!super::is_sql(text), "{text}");
        }
    }

    #[test]
    fn the_engine_does_not_know_the_database() {
        let text =
            "// SQLite may say so in a comment\nuse store::SqliteStore;\n\nlet a = \"sqlite\";";
        let expected = [
            "crates/engine/src/a.rs:2: database-name",
            "crates/engine/src/a.rs:4: database-name",
        ];
        check(&[("crates/engine/src/a.rs", text)], &expected);
        check(&[("crates/store/src/a.rs", text)], &[]);
        let text = "// PostgreSQL may say so in a comment\nlet a = \"postgres://\";";
        let expected = ["crates/tidemark/src/a.rs:2: database-name"];
        check(&[("crates/tidemark/src/a.rs", text)], &expected);
        check(&[("bench/scenarios/src/a.rs", text)], &[]);
        check(
            &[("crates/query/src/dialect.rs", "enum Dialect { Sqlite }")],
            &[],
        );
    }
}
