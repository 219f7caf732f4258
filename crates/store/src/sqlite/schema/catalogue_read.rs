//! The catalogue as of the latest commit, from its tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Catalogue, CatalogueChange, Column, Mark, Table, TableNumber, Timestamp};
use query::names;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};

use super::constraints;
use super::sizes;
use crate::StoreError;
use crate::error::corrupt;
use crate::laws::growth::Growth;
use crate::laws::state::State;
use crate::stored::row::{StoredCell, StoredRow};
use crate::stored_catalogue::{COLUMN, CataloguePart, StoredCatalogue, TABLE, column, table};

type Read<T> = Result<T, StoreError>;

/// What a store knows when it is opened.
pub(crate) struct Known {
    pub(crate) state: State,
    pub(crate) lineage: String,
}

/// Reads everything on one snapshot.
pub(crate) fn load(connection: &Connection) -> Read<Known> {
    let snapshot = connection.unchecked_transaction()?;
    let sql = "SELECT mark, horizon, catalogue_epoch, next_table, next_database, lineage, \
               (SELECT coalesce((SELECT n FROM tx ORDER BY tt DESC LIMIT 1), 0)), \
               key_id <> '' FROM meta";
    let mut known = snapshot.query_row(sql, (), |row| {
        let mut catalogue = Catalogue::default();
        catalogue.epoch = row.get::<_, i64>(2)? as u64;
        let state = State {
            catalogue: Arc::new(catalogue),
            mark: Mark(row.get(0)?),
            horizon: Mark(row.get(1)?),
            number: row.get(6)?,
            next_table: row.get(3)?,
            next_database: row.get(4)?,
            erased: 0,
            boundaries: Arc::default(),
            constraints: Arc::default(),
            is_sealing: row.get(7)?,
            growth: Growth::default(),
        };
        Ok(Known {
            state,
            lineage: row.get(5)?,
        })
    })?;
    for change in containers(&snapshot)? {
        known.state.catalogue_mut().apply(change);
    }
    known.state.boundaries = Arc::new(boundaries(&snapshot, &known.state.catalogue)?);
    known.state.growth = sizes::load_growth(&snapshot)?;
    known.state.constraints = Arc::new(constraints::load(&snapshot)?);
    Ok(known)
}

/// When each table changes next without a commit.
fn boundaries(
    connection: &Connection,
    catalogue: &Catalogue,
) -> Read<BTreeMap<TableNumber, Timestamp>> {
    let mut found = BTreeMap::new();
    for table in catalogue.tables() {
        let sql = format!("SELECT min(at) FROM {}", names::schedule(table.number));
        let next: Option<i64> = connection.query_row(&sql, (), |row| row.get(0))?;
        found.extend(next.map(|at| (table.number, Timestamp(at))));
    }
    Ok(found)
}

/// Every container, outermost first, as if it were put now.
fn containers(connection: &Connection) -> Read<Vec<CatalogueChange>> {
    let mut stored = StoredCatalogue::default();
    for part in CataloguePart::ALL {
        let mut statement = connection.prepare(&format!("{} ORDER BY rowid", part.sql()))?;
        let mut rows = statement.query(())?;
        while let Some(row) = rows.next()? {
            stored.take(part, row)?;
        }
    }
    Ok(stored.changes())
}

impl StoredRow for Row<'_> {
    fn cell(&self, position: usize) -> Read<StoredCell<'_>> {
        Ok(match self.get_ref(position)? {
            ValueRef::Null => StoredCell::Null,
            ValueRef::Integer(number) => StoredCell::Int(number),
            ValueRef::Real(number) => StoredCell::Float(number),
            ValueRef::Text(bytes) => StoredCell::Text(
                std::str::from_utf8(bytes).map_err(|error| corrupt(error.to_string()))?,
            ),
            ValueRef::Blob(bytes) => StoredCell::Bytes(bytes),
        })
    }
}

/// Every column that a table ever had, as it was last, in the order of their numbers.
pub(crate) fn columns_ever(connection: &Connection, table: TableNumber) -> Read<Vec<Column>> {
    let sql = format!("SELECT {COLUMN} FROM column_ WHERE tab = ?1 ORDER BY number, sf, st");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([table.0])?;
    let mut found: Vec<Column> = Vec::new();
    while let Some(row) = rows.next()? {
        let (_, column) = column(row)?;
        found.pop_if(|former| former.number == column.number);
        found.push(column);
    }
    Ok(found)
}

/// The catalogue of a database whose tables of rows are not made yet.
pub(crate) fn load_without_rows(connection: &Connection) -> Read<Catalogue> {
    let mut catalogue = Catalogue::default();
    for change in containers(connection)? {
        catalogue.apply(change);
    }
    Ok(catalogue)
}

/// A table and its columns as of a mark, without indexes; `None` if there was none.
pub(crate) fn table_at(
    connection: &Connection,
    number: TableNumber,
    mark: i64,
) -> Read<Option<Table>> {
    let parameters = [number.0, mark];
    let sql = format!("SELECT {TABLE} FROM table_ WHERE number = ?1 AND sf <= ?2 AND st > ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(parameters)?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let mut found = table(row)?;
    let sql = format!(
        "SELECT {COLUMN} FROM column_ WHERE tab = ?1 AND sf <= ?2 AND st > ?2 ORDER BY number"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(parameters)?;
    while let Some(row) = rows.next()? {
        found.columns.push(column(row)?.1);
    }
    Ok(Some(found))
}
