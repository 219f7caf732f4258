//! The page about the data directory, compared with a database that the store makes.

mod suite;

use std::collections::BTreeMap;

use model::{OnDelete, RelationKind};
use rusqlite::Connection;
use suite::db::Directory;
use suite::{related, search};

const PAGE: &str = include_str!("../../../docs/data-format.md");

/// Columns by table.
type Tables = BTreeMap<String, Vec<String>>;

/// `t12_v_i3` → `t<n>_v_i<n>`, and so for columns.
fn numberless(name: &str) -> String {
    let mut out = String::new();
    for letter in name.chars() {
        if !letter.is_ascii_digit() {
            out.push(letter);
        } else if !out.ends_with("<n>") {
            out.push_str("<n>");
        }
    }
    out
}

/// Each `### ` heading in code, and the code in the first cells of the table below it.
fn documented() -> Tables {
    let mut tables = Tables::new();
    for section in PAGE.split("\n### `").skip(1) {
        let (name, text) = section.split_once('`').unwrap();
        let text = text.split("\n## ").next().unwrap();
        let rows = text.lines().filter(|line| line.starts_with("| `"));
        let cells = rows.map(|row| row.split('|').nth(1).unwrap());
        let columns = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        tables.insert(name.to_owned(), columns.map(str::to_owned).collect());
    }
    tables
}

fn made(database: &Connection) -> Tables {
    let sql = "SELECT s.name, c.name FROM sqlite_schema s, pragma_table_info(s.name) c
               WHERE s.type = 'table' AND s.name NOT LIKE 'sqlite_%' ORDER BY s.name, c.cid";
    let mut statement = database.prepare(sql).unwrap();
    let names = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)));
    let mut tables = Tables::new();
    for pair in names.unwrap() {
        let (table, column): (String, String) = pair.unwrap();
        // FTS5 keeps tables of its own beside each index.
        let is_shadow = ["_config", "_data", "_docsize", "_idx"];
        if is_shadow.iter().any(|end| table.ends_with(end)) {
            continue;
        }
        let (table, column) = (numberless(&table), numberless(&column));
        let columns = tables.entry(table).or_default();
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    tables
}

#[test]
fn page_names_every_table_and_column_of_a_database() {
    let directory = Directory::new();
    let mut db = search::with_words(&directory);
    related::relate(&mut db, RelationKind::ManyToMany, OnDelete::SetNull);
    db.close();
    let file = directory.0.path().join("data/tidemark.db");
    let (made, documented) = (made(&Connection::open(&file).unwrap()), documented());
    for (table, columns) in &made {
        assert_eq!(documented.get(table), Some(columns), "{table}");
    }
    assert_eq!(made.len(), documented.len(), "{:?}", documented.keys());
    let database = Connection::open(&file).unwrap();
    let number: i64 = database
        .pragma_query_value(None, "application_id", |row| row.get(0))
        .unwrap();
    assert!(PAGE.contains(&format!("`{number:#x}`")));
}
