//! The right answers, computed from the generator alone.

use anyhow::{Context, Result, bail, ensure};
use measure::connection::{Access, Connection};
use scenarios::answer::Expected;
use scenarios::seed::generator::{Product, row_id};
use scenarios::seed::{self, table};
use serde_json::{Value, json};

/// Rows of the catalog, as in the published benchmark.
pub const ROWS: u32 = 10_000;
/// The row of point reads: neither the first nor the last of anything.
pub const POINT: u32 = 4_321;

/// The published query's texts, for readers without HTTP.
pub fn query_texts() -> [String; 4] {
    [
        json!({ "method": "equal", "attribute": "category", "values": ["electronics"] }),
        json!({ "method": "greaterThan", "attribute": "rating", "values": [3.5] }),
        json!({ "method": "orderDesc", "attribute": "reviewCount" }),
        json!({ "method": "limit", "values": [25] }),
    ]
    .map(|query| query.to_string())
}

/// The route of the row that point reads ask for.
pub fn point_route() -> String {
    row_route(POINT)
}

/// The route of row `index`.
pub fn row_route(index: u32) -> String {
    format!("{}/{}", table::rows_route(), row_id(index))
}

/// Checks the list that `route` answers.
///
/// # Errors
/// When it is not the right one; the first difference is in the text.
pub fn check_list(connection: &mut Connection, access: &Access, route: &str) -> Result<()> {
    let answer = connection.call(access, "GET", route, "")?;
    Expected::over(ROWS).check(answer.body, route)
}

/// Checks that row `index` is there as the generator makes it.
///
/// # Errors
/// When it is not; the first difference is in the text.
pub fn check_row(connection: &mut Connection, access: &Access, index: u32) -> Result<()> {
    let answer = connection.call(access, "GET", &row_route(index), "")?;
    let row: Value = serde_json::from_slice(answer.body).context("no JSON came back")?;
    match seed::difference(&row, &Product::new(index)) {
        None => Ok(()),
        Some(difference) => bail!("row {index} is wrong: {difference}"),
    }
}

/// Checks rows that were read without HTTP: their JSON, joined by commas, and the total where
/// it was read.
///
/// # Errors
/// When they are not the right ones.
pub fn check_rows(rows: &[u8], total: Option<u64>, who: &str) -> Result<()> {
    let rows = std::str::from_utf8(rows).context("the rows are no text")?;
    let total = total.unwrap_or(TOTAL);
    let body = format!(r#"{{"total":{total},"rows":[{rows}]}}"#);
    Expected::over(ROWS).check(body.as_bytes(), who)
}

/// Matches of the query, as `bench/ttl/CATALOG.md` states them.
const TOTAL: u64 = 582;

/// Checks what the example `bare` read: the ids in order, and the total if it counted.
///
/// # Errors
/// When they are not the ones of `rows`, which were checked before.
pub fn check_bare(printed: &Value, rows: &[u8]) -> Result<()> {
    let rows = format!("[{}]", String::from_utf8_lossy(rows));
    let rows: Value = serde_json::from_str(&rows)?;
    let ids: Vec<&Value> = rows
        .as_array()
        .into_iter()
        .flatten()
        .map(|row| &row["$id"])
        .collect();
    ensure!(
        printed["rows"] == json!(ids),
        "bare read other rows: {}",
        printed["rows"]
    );
    let total = &printed["total"];
    ensure!(
        total.is_null() || *total == json!(TOTAL),
        "bare counted {total}"
    );
    Ok(())
}
