//! The rows of the load test: which are there, which are added, and what must come back.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::seed;
use crate::seed::generator::Product;

/// Rows before the first request, as in the published test.
pub const ROWS: u32 = 10_000;
/// Bodies that are added, drawn by chance; rows of the catalog behind those that are there.
pub const BODIES: u32 = 5_000;
/// Rows of a bunch.
pub const BUNCH: u32 = 25;
/// The server counts matches up to here by default.
const TOTAL: u64 = 5_000;

/// Bodies of rows to be added, one a line; each asks for an id of its own.
pub fn bodies_text() -> String {
    let line = |index: u32| {
        let row = Product::new(index).columns();
        format!("{}\n", json!({ "rowId": "unique()", "data": row }))
    };
    let lines: Vec<String> = (ROWS..ROWS + BODIES).map(line).collect();
    lines.concat()
}

/// The route of the first bunch.
pub fn bunch() -> String {
    seed::list_route(&[json!({ "method": "limit", "values": [BUNCH] })])
}

/// # Errors
/// When an answer is not the first bunch with its total.
pub fn check_bunch(answer: &Value) -> Result<()> {
    let total = &answer["total"];
    ensure!(total.as_u64() == Some(TOTAL), "total: {total}");
    let rows = answer["rows"].as_array().map_or(&[][..], Vec::as_slice);
    ensure!(rows.len() == BUNCH as usize, "{} rows came", rows.len());
    rows.iter()
        .zip(0..)
        .try_for_each(|(row, index)| check_row(row, index))
}

/// # Errors
/// When an answer is not the row of this number.
pub fn check_row(answer: &Value, index: u32) -> Result<()> {
    let difference = seed::difference(answer, &Product::new(index));
    ensure!(difference.is_none(), "row {index}: {difference:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::generator::row_id;
    use crate::seed::table;

    #[test]
    fn bodies_are_rows_behind_the_seeded_ones_and_no_two_are_alike() {
        let text = bodies_text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), BODIES as usize);
        let first: Value = serde_json::from_str(lines[0]).unwrap();
        assert_eq!(first["rowId"], "unique()");
        let mut row = first["data"].clone();
        assert_eq!(row.as_object().unwrap().len(), table::COLUMNS.len());
        row["$id"] = json!(row_id(ROWS));
        check_row(&row, ROWS).unwrap();
        let mut distinct = lines.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), lines.len());
    }
}
