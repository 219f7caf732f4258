//! Rows that share values and an instant.

use model::{ColumnNumber, Period, RowId, TableNumber, Timestamp};
use query::names;

use super::read::StoredRead;
use super::row::{id, instant, int, text};
use crate::error::corrupt;

/// The end of a version as it is believed now.
pub(crate) const BELIEVED_END: &str =
    "CASE cut_tt WHEN 9223372036854775807 THEN vt ELSE cut_vt END";

/// The number of a piece, if there is one, of a row that shares values in these columns, and an
/// instant, with another row, as known now.
pub(crate) fn any_overlap(table: TableNumber, columns: &[String]) -> StoredRead<i64> {
    StoredRead {
        sql: overlap_sql(table, columns, 1),
        parameters: Vec::new(),
        read: |row| int(row, 1),
    }
}

/// A piece that refers to a row.
pub(crate) struct ReferringPiece {
    pub(crate) number: i64,
    pub(crate) row: RowId,
    pub(crate) valid: Period,
    /// The row that it refers to, as far as an id is long and no further than a bit more.
    pub(crate) target: String,
}

/// The next pieces known now behind that of this number that hold a link in a column, at most
/// `few`.
pub(crate) fn referring(
    table: TableNumber,
    column: ColumnNumber,
    behind: i64,
    few: usize,
) -> StoredRead<ReferringPiece> {
    let name = names::column(column);
    StoredRead {
        sql: format!(
            "SELECT rid, id, vf, {BELIEVED_END}, {} FROM {} \
             WHERE rid > $1 AND st = {} AND {name} IS NOT NULL ORDER BY rid LIMIT {few}",
            names::beginning(&name, TARGET_CHARS_MAX),
            names::versions(table),
            Timestamp::END.0,
        ),
        parameters: vec![behind.into()],
        read: |row| {
            let valid = Period::new(instant(row, 2)?, Some(instant(row, 3)?));
            Ok(ReferringPiece {
                number: int(row, 0)?,
                row: id(row, 1, RowId::new)?,
                valid: valid.map_err(|error| corrupt(error.to_string()))?,
                target: text(row, 4)?.to_owned(),
            })
        },
    }
}

/// More than an id has: what is longer leads to no row, however it goes on.
const TARGET_CHARS_MAX: u32 = 100;

/// Looks for `few` pieces of rows that share values in these columns, and an instant, with others.
/// One pass along each key: pieces of one row never overlap, so what begins before all that came
/// before it has ended belongs to another row.
pub(crate) fn overlap_sql(table: TableNumber, columns: &[String], few: usize) -> String {
    let key = columns.join(", ");
    let has_value = columns
        .iter()
        .map(|name| format!(" AND {name} IS NOT NULL"));
    let has_value: String = has_value.collect();
    let end = Timestamp::END.0;
    format!(
        "SELECT id, rid FROM (\
           SELECT id, rid, vf, max({BELIEVED_END}) OVER (\
             PARTITION BY {key} ORDER BY vf \
             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before \
           FROM {} WHERE st = {end}{has_value}) AS p WHERE vf < before LIMIT {few}",
        names::versions(table)
    )
}
