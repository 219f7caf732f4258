//! Rows that share values and an instant.

use model::{TableNumber, Timestamp};
use query::names;

use super::read::StoredRead;
use super::row::int;

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
