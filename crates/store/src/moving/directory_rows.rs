//! The rows of a database file as cells, read and written.

use std::collections::BTreeMap;

use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, Rows, Statement};

use super::cell::{MovedCell, RowsDigest};
use super::{NTH, is_of_rows, left_out};
use crate::StoreError;
use crate::error::corrupt;
use crate::postgres::TypedColumns;

/// The columns of texts that may be sealed: a directory keeps bytes there.
const SEALED: [(&str, &str); 3] = [
    ("tx", "meta"),
    ("staged_op", "body"),
    ("request_key", "request"),
];
/// The columns of bounds, which are numbers there.
const BOUNDS: [(&str, &str); 2] = [("column_", "low"), ("column_", "high")];

/// The statement that reads a table, by the columns of a database.
pub(super) fn select(table: &str, columns: &TypedColumns) -> String {
    format!(
        "SELECT {} FROM \"{table}\"{}",
        list_of(columns),
        left_out(table)
    )
}

/// How many rows that are.
pub(super) fn count(file: &Connection, table: &str) -> Result<u64, StoreError> {
    let sql = format!("SELECT count(*) FROM \"{table}\"{}", left_out(table));
    let count: i64 = file.query_row(&sql, (), |row| row.get(0))?;
    Ok(count.unsigned_abs())
}

/// Puts the next row into the list; whether there was one.
pub(super) fn next_row(
    rows: &mut Rows<'_>,
    (table, columns): (&str, &TypedColumns),
    cells: &mut Vec<MovedCell>,
) -> Result<bool, StoreError> {
    cells.clear();
    let Some(row) = rows.next()? else {
        return Ok(false);
    };
    for (position, (name, kind)) in columns.iter().enumerate() {
        let stored = row.get_ref(position)?;
        let cell = if SEALED.contains(&(table, name.as_str())) {
            MovedCell::of_sealed(stored)
        } else {
            MovedCell::of_sqlite(kind, stored)
        };
        cells.push(cell.ok_or_else(|| {
            let held = stored.data_type();
            corrupt(format!(
                "`{name}` of `{table}` holds {held} that is no {kind}"
            ))
        })?);
    }
    Ok(true)
}

/// What stands in a table. `read` is called for each row.
pub(super) fn digest(
    file: &Connection,
    (table, columns): (&str, &TypedColumns),
    mut read: impl FnMut(),
) -> Result<RowsDigest, StoreError> {
    let mut statement = file.prepare(&select(table, columns))?;
    let mut rows = statement.query(())?;
    let (mut digest, mut cells) = (RowsDigest::default(), Vec::new());
    while next_row(&mut rows, (table, columns), &mut cells)? {
        digest.take(&cells);
        read();
    }
    Ok(digest)
}

/// In which form a file has a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnForm {
    AsItIs,
    Sealed,
    Bound,
    Text,
}

/// Writes rows of one table.
pub(super) struct RowInserts<'c> {
    statement: Statement<'c>,
    table: String,
    forms: Vec<ColumnForm>,
}

impl<'c> RowInserts<'c> {
    /// Each column of the table is among those of the database.
    pub(super) fn new(
        file: &'c Connection,
        (table, columns): (&str, &TypedColumns),
    ) -> Result<RowInserts<'c>, StoreError> {
        let declared = declared(file, table)?;
        let given = columns.iter().filter(|(name, _)| name != NTH);
        if given.count() != declared.len() {
            return Err(corrupt(format!(
                "the table `{table}` has other columns in the database"
            )));
        }
        let sql = format!(
            "INSERT INTO \"{table}\" ({}) VALUES (?{})",
            list_of(columns),
            ", ?".repeat(columns.len() - 1)
        );
        let form = |(name, _): &(String, _)| {
            let place = (table, name.as_str());
            // Bytes in a column of texts of users are an encrypted value.
            let is_text = || declared.get(name).is_some_and(|kind| kind == "TEXT");
            if SEALED.contains(&place) {
                ColumnForm::Sealed
            } else if BOUNDS.contains(&place) {
                ColumnForm::Bound
            } else if !is_of_rows(table) && is_text() {
                ColumnForm::Text
            } else {
                ColumnForm::AsItIs
            }
        };
        Ok(RowInserts {
            statement: file.prepare(&sql)?,
            table: table.to_owned(),
            forms: columns.iter().map(form).collect(),
        })
    }

    /// # Errors
    /// When a cell is none that the table can have.
    pub(super) fn put(&mut self, cells: &[MovedCell]) -> Result<(), StoreError> {
        for (nth, (cell, form)) in cells.iter().zip(&self.forms).enumerate() {
            let value: Option<ToSqlOutput<'_>> = match form {
                ColumnForm::AsItIs => Some(cell.as_sqlite()),
                ColumnForm::Sealed => Some(cell.as_sealed()),
                ColumnForm::Bound => cell.as_bound(),
                ColumnForm::Text => cell.as_text(),
            };
            let value = value.ok_or_else(|| {
                let table = &self.table;
                corrupt(format!(
                    "column {nth} of `{table}` holds what no file has there"
                ))
            })?;
            self.statement.raw_bind_parameter(nth + 1, value)?;
        }
        self.statement.raw_execute()?;
        Ok(())
    }
}

/// The columns of a table with their declared types.
fn declared(file: &Connection, table: &str) -> Result<BTreeMap<String, String>, StoreError> {
    let mut statement = file.prepare("SELECT name, type FROM pragma_table_info(?1)")?;
    let columns = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(columns.collect::<Result<_, _>>()?)
}

fn list_of(columns: &TypedColumns) -> String {
    let columns: Vec<String> = columns
        .iter()
        .map(|(name, _)| match name.as_str() {
            NTH => "rowid".to_owned(),
            // Not in quotation marks: SQLite takes those for a text where no column is called so.
            name => format!("[{name}]"),
        })
        .collect();
    columns.join(", ")
}
