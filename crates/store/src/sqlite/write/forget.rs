//! Letting go of what lies below the line from which a table keeps its past.
//!
//! A read on both axes at the line or above it sees none of: a version that was gone by
//! then, a version whose period, as it was believed at the line, was over by then, and of one
//! that was cut by then what it was before. So these can go while reads run: readers below the
//! line have been refused since before the first one went, because the line stands in the
//! catalogue.

use model::{RowId, Table, TableNumber, Timestamp};
use query::names;
use rusqlite::{Connection, params};

use super::stored_rows::SqliteRows;
use crate::StoreError;
use crate::laws::growth::Growth;
use crate::laws::past::PastRows;
use crate::sqlite::schema::sizes::{self, Slice};
use crate::sqlite::schema::tables::END;

/// Which versions cannot be seen any more by a read at the line `?1` or above it. A row that is due
/// and was not activated is left alone until it is.
fn is_below(table: TableNumber) -> String {
    format!(
        "twin = 0 AND (st <= ?1 OR CASE WHEN cut_tt <= ?1 THEN cut_vt ELSE vt END <= ?1) \
         AND NOT EXISTS (SELECT 1 FROM {} AS s WHERE s.id = v.id AND s.at <= ?1)",
        names::schedule(table)
    )
}

/// Lets go of what lies below `line` among the versions that `which` names, with `?2` and `?3`.
/// Each counts its `bytes`.
fn forget(
    connection: &Connection,
    table: TableNumber,
    line: Timestamp,
    (bytes, growth): (&str, &Growth),
    (which, low, high): (&str, &dyn rusqlite::ToSql, &dyn rusqlite::ToSql),
) -> Result<(), StoreError> {
    let versions = names::versions(table);
    let sql = format!(
        "DELETE FROM {versions} AS v WHERE {which} AND {}{}",
        is_below(table),
        sizes::returning(bytes)
    );
    let parameters: [&dyn rusqlite::ToSql; 3] = [&line.0, low, high];
    let mut gone = sizes::remove(connection, growth, (table, &sql), &parameters)?;
    let sql = format!(
        "UPDATE {versions} SET sf = cut_tt, vt = cut_vt, cut_tt = {END}, cut_vt = {END} \
         WHERE {which} AND twin = 0 AND cut_tt <= ?1"
    );
    connection.prepare_cached(&sql)?.execute(parameters)?;
    gone.sort_unstable();
    gone.dedup();
    for seq in gone {
        forget_grants(connection, table, seq)?;
    }
    Ok(())
}

/// Lets go of the grants of a row of which nothing is known any more: its number may be given to
/// another row, which must not find them.
fn forget_grants(connection: &Connection, table: TableNumber, seq: i64) -> Result<(), StoreError> {
    let sql = format!(
        "DELETE FROM {grants} WHERE seq = ?1 \
         AND NOT EXISTS (SELECT 1 FROM {now} WHERE seq = ?1) \
         AND NOT EXISTS (SELECT 1 FROM {versions} INDEXED BY {by_sequence} \
           WHERE seq = ?1 AND twin = 0)",
        grants = names::grants(table),
        now = names::now(table),
        versions = names::versions(table),
        by_sequence = names::sequence_index(table),
    );
    connection.prepare_cached(&sql)?.execute(params![seq])?;
    Ok(())
}

/// Looks at the next versions after `from`; where to go on, if there are more.
pub(crate) fn forget_slice(
    connection: &Connection,
    growth: &Growth,
    table: &Table,
    from: i64,
) -> Result<Option<i64>, StoreError> {
    let (number, line) = (table.number, table.options.kept_from);
    // What they hold is counted whether or not it goes: a version that was cut is rewritten.
    let Some(Slice { last, is_more, .. }) = sizes::slice(connection, number, from)? else {
        return Ok(None);
    };
    let which = ("rid > ?2 AND rid <= ?3", &from as _, &last as _);
    let bytes = sizes::of_all(connection, number)?;
    forget(connection, number, line, (&bytes, growth), which)?;
    Ok(is_more.then_some(last))
}

impl PastRows for SqliteRows<'_> {
    fn forget_below(
        &self,
        table: &Table,
        ids: &[&RowId],
        line: Timestamp,
        growth: &Growth,
    ) -> Result<(), StoreError> {
        let (connection, number) = (self.connection, table.number);
        let bytes = self.texts.bytes_of_all(connection, table)?;
        for id in ids {
            let id = id.as_str();
            let of_row = ("id = ?2 AND ?3 = 0", &id as _, &0 as _);
            forget(connection, number, line, (&bytes, growth), of_row)?;
        }
        Ok(())
    }
}
