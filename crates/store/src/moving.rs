//! Moving a store between a data directory and a schema of a database: table by table, each
//! compared by the count and the hash of its rows before the copy counts.
//!
//! Either way has the same order. The copy is made where nothing can open it. Then the source is
//! sealed, which is one durable step, and after that the copy is let go. What ends before the seal
//! leaves the source as it is; what ends after it goes on with the last step when it is run again.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::StoreError;
use crate::error::corrupt;
use crate::postgres::TypedColumns;

pub(crate) mod cell;
mod directory_rows;
mod into_database;
mod into_directory;
mod looking;
mod site;

pub use into_database::{StoreCopy, move_to_database};
pub use into_directory::move_to_directory;
pub use looking::{InspectedCopy, inspect_copy};

/// Its one row is written apart: it says where the copy stands, too.
const META: &str = "meta";
/// What orders the grants of a row, by the place of their rows in SQLite.
const NTH: &str = "nth";
/// So many rows pass between two signs of how far a move is.
const ROWS_PER_STEP: u64 = 1_024;

/// How far a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveStep {
    /// So many rows were copied.
    Copied {
        /// How many.
        rows: u64,
        /// Of how many, all tables of the store together.
        of: u64,
    },
    /// So many rows of the copy were read again.
    Compared {
        /// How many.
        rows: u64,
        /// Of how many.
        of: u64,
    },
    /// The copy is whole and durable, and does not count yet.
    Whole,
    /// The source is sealed.
    Sealed,
}

/// A store that was moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// How many rows all of its tables have; `None` where an earlier run had copied them.
    pub rows: Option<u64>,
    /// Why the key of variables of functions is not where the store is now, if it is not.
    pub variables_key: Option<StoreError>,
}

/// Tells how far a move is.
struct MoveWatch<'w> {
    tell: &'w mut dyn FnMut(MoveStep),
    rows: u64,
    of: u64,
    is_comparing: bool,
}

impl<'w> MoveWatch<'w> {
    fn new(tell: &'w mut dyn FnMut(MoveStep)) -> MoveWatch<'w> {
        MoveWatch {
            tell,
            rows: 0,
            of: 0,
            is_comparing: false,
        }
    }

    /// So many rows are to be copied.
    fn begin(&mut self, of: u64) {
        self.of = of;
    }

    /// All are copied, and are read again.
    fn compare(&mut self) {
        self.rows = 0;
        self.is_comparing = true;
    }

    fn row(&mut self) {
        self.rows += 1;
        if self.rows.is_multiple_of(ROWS_PER_STEP) {
            self.tell_rows();
        }
    }

    /// Between two tables.
    fn tell_rows(&mut self) {
        let MoveWatch { rows, of, .. } = *self;
        (self.tell)(if self.is_comparing {
            MoveStep::Compared { rows, of }
        } else {
            MoveStep::Copied { rows, of }
        });
    }

    fn step(&mut self, step: MoveStep) {
        (self.tell)(step);
    }
}

/// Whether a table is one of those that hold the rows of users.
fn is_of_rows(name: &str) -> bool {
    let number = name.strip_prefix('t');
    number.is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
}

/// Each table of a file next to those of rows has one in the database with the same columns.
fn need_alike(file: &Connection, own: &BTreeMap<String, TypedColumns>) -> Result<(), StoreError> {
    let own = own
        .iter()
        .filter(|(table, _)| *table != META && !is_of_rows(table));
    let own: BTreeMap<&String, &TypedColumns> = own.collect();
    let sql = "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c \
               WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut statement = file.prepare(sql)?;
    let mut rows = statement.query(())?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let (table, column): (String, String) = (row.get(0)?, row.get(1)?);
        if is_of_rows(&table) || table == META {
            continue;
        }
        let has = |columns: &&TypedColumns| columns.iter().any(|(name, _)| *name == column);
        if !own.get(&table).is_some_and(has) {
            return Err(corrupt(format!(
                "no database has the column `{column}` of `{table}`"
            )));
        }
        count += 1;
    }
    if own.values().map(|columns| columns.len()).sum::<usize>() != count {
        return Err(corrupt("the database has columns that the directory lacks"));
    }
    Ok(())
}

/// What is left to do for indexes of words and deleted tables, which are not moved.
fn left_out(table: &str) -> &'static str {
    match table {
        "upkeep" => " WHERE task <> 'drop' AND task NOT LIKE 'words%'",
        _ => "",
    }
}

/// What arrived of a table is not what was sent.
fn altered(table: &str, sent: cell::RowsDigest, arrived: cell::RowsDigest) -> StoreError {
    corrupt(format!(
        "of the table `{table}` {} rows were sent and {} have arrived, or others",
        sent.rows, arrived.rows
    ))
}

/// Lineage and mark of the store in a file.
fn stamp_of(file: &Connection) -> Result<(String, i64), StoreError> {
    let sql = "SELECT lineage, mark FROM meta";
    Ok(file.query_row(sql, (), |row| Ok((row.get(0)?, row.get(1)?)))?)
}
