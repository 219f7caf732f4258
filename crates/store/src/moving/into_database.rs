//! From a data directory into a schema of a database, in one transaction.

use std::path::Path;

use query::names;
use rusqlite::{Connection, OpenFlags};

use super::cell::{MovedCell, RowsDigest};
use super::directory_rows::{count, next_row, select};
use super::{META, MoveStep, MoveWatch, Moved, NTH, altered, need_alike, stamp_of};
use crate::postgres::{
    CopiedStore, DatabaseStore, DatabaseUrl, StoreFilling, TypedColumns, row_tables,
};
use crate::sqlite::constraint::constrain;
use crate::sqlite::disk::directory::{self, DATABASE_FILE, Directory};
use crate::sqlite::inspect::inspect;
use crate::sqlite::schema::catalogue_read;
use crate::{StoreError, StorePlace};

/// A store that was copied, with both of its places held.
pub struct StoreCopy {
    store: DatabaseStore,
    rows: u64,
    directory: Directory,
}

impl StoreCopy {
    /// Copies the store of a data directory that no process holds into a schema that holds none.
    /// `tell` is called with how far that is.
    ///
    /// # Errors
    /// As [`DatabaseStore::open`]; [`StoreError::OlderFormat`]; [`StoreError::Locked`] when a
    /// process holds the directory; [`StoreError::DatabaseMissing`] when no store is in it;
    /// [`StoreError::DatabaseUnfit`] when the schema holds rows that no earlier run copied there;
    /// [`StoreError::Corrupt`] when the directory holds what the database cannot keep, or what
    /// arrived is not what was sent.
    pub fn make(
        directory: &Path,
        (url, password_file): (&DatabaseUrl, Option<&Path>),
        tell: &mut dyn FnMut(MoveStep),
    ) -> Result<StoreCopy, StoreError> {
        let missing = || StoreError::DatabaseMissing {
            directory: directory.to_owned(),
        };
        let place = StorePlace::from(directory);
        let inspection = inspect(&place)?.ok_or_else(missing)?;
        let held = Directory::open(directory)?;
        // Another move may have sealed it since it was looked at.
        directory::expect_own(directory)?;
        inspection.holds_all()?;
        let (found, newest) = inspection.formats()?;
        if found != newest {
            return Err(StoreError::OlderFormat { found, newest });
        }
        let (_, connection) = inspection.place();
        let source = connection.unchecked_transaction()?;
        let (lineage, mark) = stamp_of(&source)?;
        let lineage = lineage.as_str();
        let of = CopiedStore { lineage, mark };
        let mut store = DatabaseStore::open_for_copy(url, password_file, of)?;
        let mut watch = MoveWatch::new(tell);
        let rows = store.fill(async |filling| copy(&source, filling, &mut watch).await)?;
        watch.step(MoveStep::Whole);
        Ok(StoreCopy {
            store,
            rows,
            directory: held,
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

/// Moves the store of a data directory into a schema of a database. From when the directory is
/// sealed it keeps keys for that store, and its own database is not opened any more. Where an
/// earlier run has ended after that, this one lets the copy go.
///
/// # Errors
/// As [`StoreCopy::make`]; [`StoreError::StoredElsewhere`] when the directory is sealed already.
pub fn move_to_database(
    directory: &Path,
    (url, password_file): (&DatabaseUrl, Option<&Path>),
    tell: &mut dyn FnMut(MoveStep),
) -> Result<Moved, StoreError> {
    let place = StorePlace::from(url.clone());
    if let Some(named) = directory::elsewhere(directory)? {
        let held = Directory::open(directory)?;
        if named != place.to_string() {
            return Err(directory::stored_elsewhere(directory, named));
        }
        let store = DatabaseStore::open_copy(url, password_file)?;
        finish(store, &held, named)?;
        return Ok(Moved {
            rows: None,
            variables_key: None,
        });
    }
    let copy = StoreCopy::make(directory, (url, password_file), &mut *tell)?;
    copy.directory.name_place(&place)?;
    tell(MoveStep::Sealed);
    let rows = copy.rows;
    copy.release()?.close();
    Ok(Moved {
        rows: Some(rows),
        variables_key: None,
    })
}

/// Lets the copy go that was made of a directory before it was sealed.
fn finish(mut store: DatabaseStore, held: &Directory, named: String) -> Result<(), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let file = Connection::open_with_flags(held.path().join(DATABASE_FILE), flags)?;
    if stamp_of(&file)? != (store.lineage().to_owned(), store.mark()?) {
        return Err(directory::stored_elsewhere(held.path(), named));
    }
    store.release()?;
    store.close();
    Ok(())
}

async fn copy(
    source: &Connection,
    filling: &StoreFilling<'_>,
    watch: &mut MoveWatch<'_>,
) -> Result<u64, StoreError> {
    let own = filling.tables().await?;
    need_alike(source, &own)?;
    let catalogue = catalogue_read::load_without_rows(source)?;
    for table in catalogue.tables() {
        let columns = catalogue_read::columns_ever(source, table.number)?;
        let tables = row_tables::create_tables(table.number, &columns);
        filling.run(&tables).await?;
    }
    let tables = filling.tables().await?;
    let moved = || tables.iter().filter(|(table, _)| *table != META);
    let mut of = 0;
    for (table, _) in moved() {
        of += count(source, table)?;
    }
    watch.begin(of);
    let mut digests = Vec::with_capacity(tables.len());
    for (table, columns) in moved() {
        let sent = copy_table(source, filling, (table, columns), watch).await?;
        digests.push((table, columns, sent));
        watch.tell_rows();
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
    watch.compare();
    for (table, columns, sent) in digests {
        let arrived = filling.digest((table, columns), || watch.row()).await?;
        if arrived != sent {
            return Err(altered(table, sent, arrived));
        }
        watch.tell_rows();
    }
    let all: Vec<String> = tables.keys().map(|table| format!("\"{table}\"")).collect();
    filling.run(&format!("ANALYZE {}", all.join(", "))).await?;
    Ok(of)
}

async fn copy_table(
    source: &Connection,
    filling: &StoreFilling<'_>,
    (table, columns): (&str, &TypedColumns),
    watch: &mut MoveWatch<'_>,
) -> Result<RowsDigest, StoreError> {
    let mut statement = source.prepare(&select(table, columns))?;
    let mut rows = statement.query(())?;
    let next = |cells: &mut Vec<MovedCell>| {
        let is_there = next_row(&mut rows, (table, columns), cells)?;
        if is_there {
            watch.row();
        }
        Ok(is_there)
    };
    filling.fill(table, columns, next).await
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

/// The marks, the horizon, the lineage and what else names the store. The rule of the indexes of
/// words stays the database's own, which has made them.
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
