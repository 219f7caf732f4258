//! Rows as SQLite has them, for the laws of writing.

use std::sync::Arc;

use model::history::{Cut, VersionNumber};
use model::{Image, Mark, Period, Table, TableNumber, Timestamp, Version};
use query::names;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, params};

use crate::StoreError;
use crate::error::corrupt;
use crate::laws::halt::Step;
use crate::laws::ledger::{CurrentRow, RowIdentity, ShownVersion, SingleRows, StoredRows};
use crate::laws::versions::{Asserted, Stored, VersionsRead, VersionsWanted};
use crate::sqlite::disk::deadline::Deadline;
use crate::sqlite::schema::coding::Coding;
use crate::sqlite::schema::columns::column_list;
use crate::sqlite::schema::row_sql::RowTexts;
use crate::sqlite::schema::tables::END;

/// The columns of a version, before those of the user.
const VERSION: &str = "rid, vf, vt, sf, cut_tt, cut_vt, st, origin, created, updated";
const VERSION_COLUMNS: usize = 10;

/// The rows of the open transaction.
#[derive(Clone, Copy)]
pub(crate) struct SqliteRows<'w> {
    pub(crate) connection: &'w Connection,
    pub(crate) coding: &'w Coding,
    pub(crate) texts: &'w RowTexts,
    /// Stops a search.
    pub(crate) deadline: &'w Deadline,
}

impl<'w> SqliteRows<'w> {
    /// A prepared statement, kept for the next time.
    pub(crate) fn statement(&self, sql: &str) -> rusqlite::Result<CachedStatement<'w>> {
        self.connection.prepare_cached(sql)
    }

    fn version(&self, row: &Row<'_>, place: (&Table, &str)) -> Result<Stored, StoreError> {
        let end = |position| -> Result<Option<i64>, StoreError> {
            let stored: i64 = row.get(position)?;
            Ok((stored < i64::MAX).then_some(stored))
        };
        let (values, damaged) = self.coding.values_found(row, VERSION_COLUMNS, place)?;
        let valid = Period::new(Timestamp(row.get(1)?), end(2)?.map(Timestamp));
        let cut = end(4)?.map(|mark| -> Result<Cut, StoreError> {
            let valid_to = Timestamp(row.get(5)?);
            let mark = Mark(mark);
            Ok(Cut { mark, valid_to })
        });
        Ok(Version {
            number: VersionNumber(row.get(0)?),
            valid: valid.map_err(|error| corrupt(error.to_string()))?,
            sys_from: Mark(row.get(3)?),
            cut: cut.transpose()?,
            gone: end(6)?.map(Mark),
            origin: Mark(row.get(7)?),
            value: Arc::new(Asserted {
                created: Timestamp(row.get(8)?),
                updated: Timestamp(row.get(9)?),
                values,
                damaged,
            }),
        })
    }
}

/// A period as it is stored.
pub(crate) fn stored_period(from: i64, end: i64) -> Result<Period, StoreError> {
    let stored = Period::new(Timestamp(from), Some(Timestamp(end)));
    stored.map_err(|error| corrupt(error.to_string()))
}

impl SingleRows for SqliteRows<'_> {
    fn versions(&self, table: &Table, id: &str, which: VersionsWanted) -> Step<Vec<Stored>> {
        let sql = versions_sql(table, which);
        let mut statement = self.statement(&sql)?;
        let mut rows = match which {
            VersionsWanted::Known {
                low,
                high,
                count_max,
            } => statement.query(params![id, low.0, high.0, count_max as i64])?,
            VersionsWanted::WrittenAt(mark) => statement.query(params![id, mark.0])?,
            VersionsWanted::Numbered(number) => statement.query(params![number.0])?,
        };
        let mut read = VersionsRead::new(which);
        while let Some(row) = rows.next()? {
            read.add(self.version(row, (table, id))?)?;
        }
        Ok(read.all())
    }

    fn open_grants(
        &self,
        table: &Table,
        seq: i64,
        each: &mut dyn FnMut(&str, i64),
    ) -> Result<(), StoreError> {
        let mut statement = self.statement(&self.texts.of(table).open_grants)?;
        let mut grants = statement.query(params![seq])?;
        while let Some(grant) = grants.next()? {
            let role = grant.get_ref(0)?.as_str();
            each(
                role.map_err(|error| corrupt(error.to_string()))?,
                grant.get(1)?,
            );
        }
        Ok(())
    }

    fn next_boundary(&self, table: TableNumber) -> Result<Option<Timestamp>, StoreError> {
        let sql = format!("SELECT min(at) FROM {}", names::schedule(table));
        let next: Option<i64> = self.statement(&sql)?.query_row((), |row| row.get(0))?;
        Ok(next.map(Timestamp))
    }
}

impl StoredRows for SqliteRows<'_> {
    fn current(&self, table: &Table, id: &str) -> Result<Option<CurrentRow>, StoreError> {
        let mut statement = self.statement(&self.texts.of(table).current)?;
        let mut rows = statement.query(params![id])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let (values, damaged) = self.coding.values_found(row, 8, (table, id))?;
        Ok(Some(CurrentRow {
            seq: row.get(0)?,
            version: VersionNumber(row.get(1)?),
            image: Image {
                created: Timestamp(row.get(3)?),
                updated: Timestamp(row.get(4)?),
                valid: stored_period(row.get(6)?, row.get(7)?)?,
                system_from: Mark(row.get(2)?),
                permissions: row.get::<_, String>(5)?.into(),
                values,
            },
            damaged,
        }))
    }

    fn shown(&self, table: &Table, id: &str) -> Result<Option<ShownVersion>, StoreError> {
        let now = names::now(table.number);
        let sql = format!("SELECT rid, vf, vt, sf, updated, twin FROM {now} WHERE id = ?1");
        let mut statement = self.statement(&sql)?;
        let mut rows = statement.query(params![id])?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        Ok(Some(ShownVersion {
            number: VersionNumber(row.get(0)?),
            valid: stored_period(row.get(1)?, row.get(2)?)?,
            sys_from: Mark(row.get(3)?),
            updated: Timestamp(row.get(4)?),
            is_twin: row.get(5)?,
        }))
    }

    fn identity(&self, table: &Table, id: &str) -> Result<RowIdentity, StoreError> {
        let mut statement = self.statement(&self.texts.of(table).identity)?;
        Ok(statement.query_row(params![id], |row| {
            Ok(RowIdentity {
                is_there: row.get(0)?,
                known: row.get(1)?,
                highest: row.get::<_, Option<i64>>(2)?.unwrap_or(0),
            })
        })?)
    }

    fn known_seq(&self, table: &Table, id: &str) -> Result<Option<i64>, StoreError> {
        let versions = names::versions(table.number);
        let sql = format!("SELECT seq FROM {versions} WHERE id = ?1 AND twin = 0 LIMIT 1");
        let mut statement = self.statement(&sql)?;
        Ok(statement
            .query_row(params![id], |row| row.get(0))
            .optional()?)
    }

    fn is_scheduled(&self, table: &Table, id: &str) -> Result<bool, StoreError> {
        let schedule = names::schedule(table.number);
        let sql = format!("SELECT EXISTS (SELECT 1 FROM {schedule} WHERE id = ?1)");
        let mut statement = self.statement(&sql)?;
        Ok(statement.query_row(params![id], |row| row.get(0))?)
    }
}

/// `?1` is the id, or the number.
fn versions_sql(table: &Table, which: VersionsWanted) -> String {
    let (number, columns) = (table.number, column_list(table));
    let versions = names::versions(number);
    match which {
        VersionsWanted::Known { .. } => {
            let index = names::known_index(number);
            let known = format!(
                "FROM {versions} INDEXED BY {index} WHERE id = ?1 AND st = {END} AND twin = 0"
            );
            format!(
                "SELECT {VERSION}{columns} {known} AND vf < ?3 AND vf >= \
                 coalesce((SELECT max(vf) {known} AND vf <= ?2), ?2) ORDER BY vf LIMIT ?4"
            )
        }
        VersionsWanted::WrittenAt(_) => {
            let (now, index) = (names::now(number), names::system_index(number));
            format!(
                "SELECT {VERSION}{columns} FROM {versions} INDEXED BY {index} \
                 WHERE id = ?1 AND sf = ?2 AND st = {END} AND twin = 0 \
                 UNION ALL SELECT {VERSION}{columns} FROM {versions} \
                 WHERE rid = (SELECT rid FROM {now} WHERE id = ?1 AND sf = ?2 AND twin = 1)"
            )
        }
        VersionsWanted::Numbered(_) => {
            format!("SELECT {VERSION}{columns} FROM {versions} WHERE rid = ?1")
        }
    }
}
