//! How PostgreSQL looks for what is known now over valid time.

use std::time::Duration;

use model::history::VersionNumber;
use model::{Field, Period, RowId, Table, Value};
use query::names;
use tokio_postgres::Row;

use super::rows::{END, PostgresRows, row_id, stored_period};
use super::session::SqlCall;
use crate::StoreError;
use crate::laws::period_search::{FoundOverlaps, FoundPiece, PeriodSearch, SharedKey};
use crate::postgres::cells::{self, SqlParameter};
use crate::postgres::row_tables::index_tests;
use crate::stored::keys_over_time;
use crate::stored::overlaps::{BELIEVED_END, overlap_sql};

/// The number of the parameter that holds the first value of a key: the row and the period come
/// before it.
const FIRST_KEY: usize = 4;

impl PeriodSearch for PostgresRows<'_> {
    fn sharer(
        &self,
        table: &Table,
        key: SharedKey<'_>,
        values: &[Value],
        but: &str,
        within: Period,
    ) -> Result<Option<(RowId, Period)>, StoreError> {
        let sql = sharer_sql(table, key);
        let mut all: Vec<SqlParameter> = vec![
            Box::new(but.to_owned()),
            Box::new(within.from().0),
            Box::new(within.end().0),
        ];
        all.extend(values.iter().map(cells::parameter));
        let found = self.session.call(SqlCall::new(sql, all))?;
        let Some(row) = found.first() else {
            return Ok(None);
        };
        let period = stored_period(row.try_get(1)?, row.try_get(2)?)?;
        Ok(Some((row_id(row.try_get(0)?)?, period)))
    }

    fn valid_periods(
        &self,
        table: &Table,
        wanted: &[(&str, Period)],
    ) -> Result<Vec<Vec<Period>>, StoreError> {
        let (versions, now) = (names::versions(table.number), names::now(table.number));
        let known = format!("FROM {versions} WHERE id = $1 AND st = {END} AND twin = 0");
        let sql = format!(
            "SELECT vf, {BELIEVED_END} {known} AND vf < $3 AND vf >= \
             coalesce((SELECT max(vf) {known} AND vf <= $2), $2) \
             UNION ALL SELECT vf, vt FROM {now} WHERE id = $1 AND twin = 1 ORDER BY 1"
        );
        let call = |(id, within): &(&str, Period)| {
            let all: Vec<SqlParameter> = vec![
                Box::new((*id).to_owned()),
                Box::new(within.from().0),
                Box::new(within.end().0),
            ];
            SqlCall::new(sql.clone(), all)
        };
        let calls: Vec<SqlCall> = wanted.iter().map(call).collect();
        let found = self.session.burst(&calls)?;
        found.iter().map(|found| periods(found)).collect()
    }

    fn overlaps(
        &self,
        table: &Table,
        key: &[usize],
        few: usize,
        time_max: Option<Duration>,
    ) -> Result<FoundOverlaps, StoreError> {
        let sql = overlap_sql(table.number, &keys_over_time::in_order(table, key), few);
        let search = || -> Result<Vec<FoundPiece>, StoreError> {
            let found = self.session.once(&sql, &[])?;
            let piece = |row: &Row| Ok((VersionNumber(row.try_get(1)?), row_id(row.try_get(0)?)?));
            found.iter().map(piece).collect()
        };
        let found = match time_max {
            None => self.session.patiently(search),
            Some(time_max) => self.within(time_max, |_| self.session.patiently(search)),
        };
        match found {
            Ok(pieces) => Ok(FoundOverlaps {
                pieces,
                is_cut: false,
            }),
            // Rows come when all are found.
            Err(StoreError::Timeout { .. }) if time_max.is_some() => Ok(FoundOverlaps {
                pieces: Vec::new(),
                is_cut: true,
            }),
            Err(error) => Err(error),
        }
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
        periods(
            &self
                .session
                .call(SqlCall::new(sql, vec![Box::new(id.to_owned())]))?,
        )
    }
}

/// Looks for another row with the values of a key: parameters are the row's id, the period and the
/// values.
fn sharer_sql(table: &Table, key: SharedKey<'_>) -> String {
    let versions = names::versions(table.number);
    let known = format!(
        "SELECT id, vf, {BELIEVED_END} AS e FROM {versions} v \
         WHERE st = {END} AND id <> $1 AND vf < $3"
    );
    match key {
        // Pieces with a twin stand in no user index of versions, and `$updatedAt` of a row of
        // now may be later than that of its piece.
        SharedKey::Index(index) => {
            let value = |nth: usize| {
                let kind = cells::type_of(table, index.columns[nth].field);
                format!("${}::{kind}", FIRST_KEY + nth)
            };
            let [of_version, of_row] = ["v", "x"].map(|row| index_tests(table, index, row, value));
            let now = names::now(table.number);
            format!(
                "SELECT id, vf, e FROM ({known} AND twin = 0 AND {of_version} UNION ALL \
                 SELECT id, vf, vt FROM {now} x WHERE id <> $1 AND vf < $3 AND {of_row}) \
                 found WHERE e > $2 LIMIT 1"
            )
        }
        SharedKey::OverTime(columns) => {
            let tests = key_tests(table, columns, FIRST_KEY);
            format!("{known} AND {BELIEVED_END} > $2{tests} LIMIT 1")
        }
    }
}

/// Tests that the columns of a key equal the parameters from the one of number `first` on.
fn key_tests(table: &Table, key: &[usize], first: usize) -> String {
    keys_over_time::tests(table, key, |nth| {
        let kind = cells::type_of(table, Field::Column(key[nth]));
        format!("${}::{kind}", first + nth)
    })
}

fn periods(found: &[Row]) -> Result<Vec<Period>, StoreError> {
    let period = |row: &Row| stored_period(row.try_get(0)?, row.try_get(1)?);
    found.iter().map(period).collect()
}

#[cfg(test)]
mod tests {
    use model::IndexStatus;
    use testing::{plain_column, plain_table};
    use testing_postgres::Cluster;

    use super::*;
    use crate::postgres::row_tables::{create_indexes, create_tables};

    #[test]
    fn a_long_text_is_found_by_the_index_that_holds_its_hash() {
        let columns = vec![plain_column(1, "x", model::ColumnKind::Text)];
        let mut table = plain_table("t", columns);
        table.indexes.push(model::Index {
            number: 1,
            key: model::IndexKey::new("by_x").unwrap(),
            kind: model::IndexKind::Unique,
            columns: vec![model::IndexColumn {
                field: Field::Column(0),
                direction: model::Direction::Asc,
                length: None,
                held: None,
            }],
            status: IndexStatus::Available,
            created: model::Timestamp(0),
            updated: model::Timestamp(0),
        });
        let cluster = Cluster::shared().unwrap();
        let made = "CREATE DATABASE long_unique_text";
        cluster.run_sql("postgres", &[made]).unwrap();
        let sql = sharer_sql(&table, SharedKey::Index(&table.indexes[0]));
        let explained = cluster
            .run_sql(
                "long_unique_text",
                &[
                    &create_tables(table.number, &table.columns),
                    &create_indexes(&table),
                    "INSERT INTO t1_v (rid, vf, sf, origin, seq, created, updated, twin, id, c1) \
                     SELECT g, g, g, g, g, g, g, 0, 'r' || g, 'x' || g \
                     FROM generate_series(1, 5000) AS g",
                    "INSERT INTO t1 (seq, vf, sf, origin, created, updated, rid, twin, \
                     body_epoch, id, perms, c1) SELECT g, g, g, g, g, g, g, 0, 1, 'r' || g, '', \
                     'x' || g FROM generate_series(1, 5000) AS g",
                    "ANALYZE",
                    &format!("PREPARE s (text, bigint, bigint, text) AS {sql}"),
                    "SET plan_cache_mode = force_generic_plan",
                    "EXPLAIN EXECUTE s ('a', 1, 2, 'x')",
                ],
            )
            .unwrap();
        let indexes = [
            names::index(table.number, 1),
            names::versions_index(table.number, 1),
        ];
        for index in indexes {
            assert!(explained.contains(&format!("{index} ")), "{explained}");
        }
    }
}
