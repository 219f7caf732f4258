//! How SQLite looks for what is known now over valid time.

use std::time::Duration;

use model::history::VersionNumber;
use model::{Index, Period, RowId, Table, Value};
use query::names;
use rusqlite::params_from_iter;

use super::row_search::row_id;
use super::stored_rows::{SqliteRows, stored_period};
use crate::StoreError;
use crate::laws::period_search::{FoundOverlaps, PeriodSearch, SharedKey};
use crate::sqlite::schema::bind::Bound;
use crate::sqlite::schema::constraints::key_tests;
use crate::sqlite::schema::tables::END;
use crate::stored::keys_over_time;
use crate::stored::overlaps::{BELIEVED_END, overlap_sql};

impl PeriodSearch for SqliteRows<'_> {
    fn sharer(
        &self,
        table: &Table,
        key: SharedKey<'_>,
        values: &[Value],
        but: &str,
        within: Period,
    ) -> Result<Option<(RowId, Period)>, StoreError> {
        let sql = match key {
            SharedKey::Index(index) => index_sql(table, index),
            SharedKey::OverTime(columns) => key_sql(table, columns),
        };
        let bounds = [
            Value::Text(but.to_owned()),
            Value::Int(within.from().0),
            Value::Int(within.end().0),
        ];
        let mut statement = self.statement(&sql)?;
        let bound = bounds.iter().chain(values).map(Bound);
        let mut rows = statement.query(params_from_iter(bound))?;
        let Some(row) = rows.next()? else {
            return Ok(None);
        };
        let other = row_id(&row.get::<_, String>(0)?)?;
        Ok(Some((other, stored_period(row.get(1)?, row.get(2)?)?)))
    }

    fn valid_periods(
        &self,
        table: &Table,
        wanted: &[(&str, Period)],
    ) -> Result<Vec<Vec<Period>>, StoreError> {
        let (versions, now) = (names::versions(table.number), names::now(table.number));
        let known = format!(
            "FROM {versions} INDEXED BY {} WHERE id = ?1 AND st = {END} AND twin = 0",
            names::known_index(table.number)
        );
        let sql = format!(
            "SELECT vf, {BELIEVED_END} {known} AND vf < ?3 AND vf >= \
             coalesce((SELECT max(vf) {known} AND vf <= ?2), ?2) \
             UNION ALL SELECT vf, vt FROM {now} WHERE id = ?1 AND twin = 1 ORDER BY 1"
        );
        let mut statement = self.statement(&sql)?;
        let mut all = Vec::with_capacity(wanted.len());
        for (id, within) in wanted {
            let mut rows = statement.query((id, within.from().0, within.end().0))?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(stored_period(row.get(0)?, row.get(1)?)?);
            }
            all.push(found);
        }
        Ok(all)
    }

    fn overlaps(
        &self,
        table: &Table,
        key: &[usize],
        few: usize,
        time_max: Option<Duration>,
    ) -> Result<FoundOverlaps, StoreError> {
        let sql = overlap_sql(table.number, &keys_over_time::in_order(table, key), few);
        let mut pieces = Vec::new();
        let mut search = || -> Result<(), StoreError> {
            let mut statement = self.connection.prepare(&sql)?;
            let mut rows = statement.query(())?;
            while let Some(row) = rows.next()? {
                let id = row_id(&row.get::<_, String>(0)?)?;
                pieces.push((VersionNumber(row.get(1)?), id));
            }
            Ok(())
        };
        let searched = match time_max {
            None => search(),
            Some(time_max) => self.deadline.within(time_max, search),
        };
        let is_cut = match searched {
            Err(StoreError::Interrupted) if time_max.is_some() => true,
            searched => searched.map(|()| false)?,
        };
        Ok(FoundOverlaps { pieces, is_cut })
    }

    fn periods_referring(
        &self,
        table: &Table,
        column: usize,
        id: &str,
    ) -> Result<Vec<Period>, StoreError> {
        let sql = format!(
            "SELECT vf, {BELIEVED_END} FROM {} WHERE st = {END}{}",
            names::versions(table.number),
            key_tests(table, &[column], 1),
        );
        let mut statement = self.statement(&sql)?;
        let mut rows = statement.query([id])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            found.push(stored_period(row.get(0)?, row.get(1)?)?);
        }
        Ok(found)
    }
}

/// The number of the parameter that holds the first value of a key: the row and the period come
/// before it.
const FIRST_KEY: usize = 4;

/// Looks for a row with equal values in a user's unique index. Two sources: pieces with a twin
/// stand in no user index of versions, and `$updatedAt` of a row of now may be later than that of
/// its piece.
fn index_sql(table: &Table, index: &Index) -> String {
    let fields = index.columns.iter().map(|part| part.field);
    let tests = fields.zip(FIRST_KEY..).flat_map(|(field, number)| {
        let name = names::field(table, field);
        [
            " AND ".to_owned(),
            name,
            " = ?".to_owned(),
            number.to_string(),
        ]
    });
    let test: String = tests.collect();
    format!(
        "SELECT id, vf, e FROM (\
           SELECT id, vf, {BELIEVED_END} AS e FROM {versions} \
             WHERE twin = 0 AND st = {END} AND id <> ?1 AND vf < ?3{test} \
           UNION ALL SELECT id, vf, vt FROM {now} \
             WHERE id <> ?1 AND vf < ?3{test}) WHERE e > ?2 LIMIT 1",
        versions = names::versions(table.number),
        now = names::now(table.number),
    )
}

/// The same for the columns of a key over valid time, whose own index has all pieces that are
/// known now. The rows of now have none for it.
pub(crate) fn key_sql(table: &Table, key: &[usize]) -> String {
    format!(
        "SELECT id, vf, {BELIEVED_END} AS e FROM {} \
         WHERE st = {END} AND id <> ?1 AND vf < ?3 AND {BELIEVED_END} > ?2{} LIMIT 1",
        names::versions(table.number),
        key_tests(table, key, FIRST_KEY),
    )
}
