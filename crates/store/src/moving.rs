//! Copying a store from a data directory into a schema of a database: table by table, in one
//! transaction, each table compared by the count and the hash of its rows before that is committed.
//!
//! The copy is no store yet: it refuses to be opened until it is released, which is for the caller
//! to do once the directory cannot be opened any more. What ends before leaves the directory as it
//! is.

use std::collections::BTreeMap;
use std::path::Path;

use query::names;
use rusqlite::Connection;

use crate::error::corrupt;
use crate::postgres::{DatabaseStore, DatabaseUrl, StoreFilling, TypedColumns, row_tables};
use crate::sqlite::constraint::constrain;
use crate::sqlite::disk::directory::Directory;
use crate::sqlite::inspect::inspect;
use crate::sqlite::schema::catalogue_read;
use crate::{StoreError, StorePlace};

pub(crate) mod cell;

use cell::{MovedCell, RowsDigest};

/// Its one row is written apart: it says where the copy stands, too.
const META: &str = "meta";
/// The columns of texts that may be sealed: a directory keeps bytes there.
const SEALED: [(&str, &str); 3] = [
    ("tx", "meta"),
    ("staged_op", "body"),
    ("request_key", "request"),
];
/// What orders the grants of a row, by the place of their rows in SQLite.
const NTH: &str = "nth";

/// A store that was copied, with both of its places held.
pub struct StoreCopy {
    store: DatabaseStore,
    rows: u64,
    _directory: Directory,
}

impl StoreCopy {
    /// Copies the store of a data directory that no process holds into a schema that holds none.
    ///
    /// # Errors
    /// As [`DatabaseStore::open`]; [`StoreError::OlderFormat`]; [`StoreError::Locked`] when a
    /// process holds the directory; [`StoreError::DatabaseMissing`] when no store is in it;
    /// [`StoreError::DatabaseUnfit`] when the schema holds rows; [`StoreError::Corrupt`] when the
    /// directory holds what the database cannot keep, or what arrived is not what was sent.
    pub fn make(
        directory: &Path,
        url: &DatabaseUrl,
        password_file: Option<&Path>,
    ) -> Result<StoreCopy, StoreError> {
        let missing = || StoreError::DatabaseMissing {
            directory: directory.to_owned(),
        };
        let place = StorePlace::from(directory);
        let inspection = inspect(&place)?.ok_or_else(missing)?;
        let held = Directory::open(directory)?;
        inspection.holds_all()?;
        let (found, newest) = inspection.formats()?;
        if found != newest {
            return Err(StoreError::OlderFormat { found, newest });
        }
        let mut store = DatabaseStore::open_for_copy(url, password_file)?;
        let (_, connection) = inspection.place();
        let source = connection.unchecked_transaction()?;
        let rows = store.fill(async |filling| copy(&source, filling).await)?;
        Ok(StoreCopy {
            store,
            rows,
            _directory: held,
        })
    }

    /// How many rows of all tables it has.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Makes the copy a store, which is then open.
    ///
    /// # Errors
    /// What the database says.
    pub fn release(mut self) -> Result<DatabaseStore, StoreError> {
        self.store.release()?;
        Ok(self.store)
    }
}

async fn copy(source: &Connection, filling: &StoreFilling<'_>) -> Result<u64, StoreError> {
    let own = filling.tables().await?;
    known(source, &own)?;
    let catalogue = catalogue_read::load_without_rows(source)?;
    for table in catalogue.tables() {
        let columns = catalogue_read::columns_ever(source, table.number)?;
        let tables = row_tables::create_tables(table.number, &columns);
        filling.run(&tables).await?;
    }
    let tables = filling.tables().await?;
    let mut digests = Vec::with_capacity(tables.len());
    for (table, columns) in tables.iter().filter(|(table, _)| *table != META) {
        digests.push((
            table,
            columns,
            copy_table(source, filling, (table, columns)).await?,
        ));
    }
    for table in catalogue.tables() {
        filling.run(&row_tables::create_indexes(table)).await?;
        for index in constrain::index_texts(source, table)? {
            filling.run(&index).await?;
        }
        let grants = names::grants(table.number);
        filling.go_on_above(&grants, NTH, 0).await?;
    }
    go_on_above(source, filling).await?;
    copy_meta(source, filling).await?;
    let mut rows = 0;
    for (table, columns, sent) in digests {
        let arrived = filling.digest(table, columns).await?;
        if arrived != sent {
            return Err(corrupt(format!(
                "of the table `{table}` {} rows were sent and {} have arrived, or others",
                sent.rows, arrived.rows
            )));
        }
        rows += sent.rows;
    }
    let all: Vec<String> = tables.keys().map(|table| format!("\"{table}\"")).collect();
    filling.run(&format!("ANALYZE {}", all.join(", "))).await?;
    Ok(rows)
}

/// Each table of the directory has one here with the same columns, but for those that each database
/// makes in its own way: of words, of links, and of tables that were deleted and are not cleared
/// away yet.
fn known(source: &Connection, own: &BTreeMap<String, TypedColumns>) -> Result<(), StoreError> {
    let is_of_rows = |name: &str| {
        let number = name.strip_prefix('t');
        number.is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
    };
    let sql = "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c \
               WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut statement = source.prepare(sql)?;
    let mut rows = statement.query(())?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        let (table, column): (String, String) = (row.get(0)?, row.get(1)?);
        if is_of_rows(&table) || table == META {
            continue;
        }
        let has = |columns: &TypedColumns| columns.iter().any(|(name, _)| *name == column);
        if !own.get(&table).is_some_and(has) {
            return Err(corrupt(format!(
                "no copy has the column `{column}` of `{table}`"
            )));
        }
        count += 1;
    }
    let columns = own.iter().filter(|(table, _)| *table != META);
    if columns.map(|(_, columns)| columns.len()).sum::<usize>() != count {
        return Err(corrupt("a copy has columns that the directory lacks"));
    }
    Ok(())
}

async fn copy_table(
    source: &Connection,
    filling: &StoreFilling<'_>,
    (table, columns): (&str, &TypedColumns),
) -> Result<RowsDigest, StoreError> {
    let list: Vec<String> = columns
        .iter()
        .map(|(name, _)| column_in_sqlite(name))
        .collect();
    let sql = format!(
        "SELECT {} FROM \"{table}\"{}",
        list.join(", "),
        left_out(table)
    );
    let mut statement = source.prepare(&sql)?;
    let mut rows = statement.query(())?;
    let next = |cells: &mut Vec<MovedCell>| {
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
    };
    filling.fill(table, columns, next).await
}

fn column_in_sqlite(name: &str) -> String {
    match name {
        NTH => "rowid".to_owned(),
        // Not in quotation marks: SQLite takes those for a text where no column is called so.
        name => format!("[{name}]"),
    }
}

/// What is left to do for indexes of words and deleted tables, none of which are here.
fn left_out(table: &str) -> &'static str {
    match table {
        "upkeep" => " WHERE task <> 'drop' AND task NOT GLOB 'words*'",
        _ => "",
    }
}

/// Numbers that were given are never given again, also where their rows are gone.
async fn go_on_above(source: &Connection, filling: &StoreFilling<'_>) -> Result<(), StoreError> {
    let mut statement = source.prepare("SELECT name, seq FROM sqlite_sequence")?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let (table, given): (String, i64) = (row.get(0)?, row.get(1)?);
        filling.go_on_above(&table, "seq", given).await?;
    }
    Ok(())
}

/// The marks, the horizon, the lineage and what else the store is told by. The rule of the indexes
/// of words is none: there are no such indexes.
async fn copy_meta(source: &Connection, filling: &StoreFilling<'_>) -> Result<(), StoreError> {
    let sql = "SELECT mark, x_at, horizon, catalogue_epoch, next_table, next_database, lineage, \
               key_id FROM meta";
    let (numbers, lineage, key) = source.query_row(sql, (), |row| {
        let numbers = (0..6).map(|nth| row.get::<_, i64>(nth));
        let numbers: Vec<i64> = numbers.collect::<Result<_, _>>()?;
        Ok((numbers, row.get::<_, String>(6)?, row.get::<_, String>(7)?))
    })?;
    filling.set_meta(&numbers, &lineage, &key).await
}
