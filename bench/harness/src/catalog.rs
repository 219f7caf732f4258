//! Filling servers with rows of the catalog, and asking for them.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use measure::connection::{Access, Connection};
use measure::live::LiveServer;
use measure::scratch::Scratch;
use scenarios::answer::{self, Expected};
use scenarios::seed::generator::{Product, row_id};
use scenarios::seed::table;
use serde_json::{Value, json};

use crate::surroundings::{self, ServerSite};

/// Rows of one request, as many as it may have (wire protocol, `createRows`).
const BATCH_ROWS: u32 = 100;
/// Characters of a text column that an index holds; no brand has more.
const TEXT_INDEXED: u32 = 32;
/// Numbers of rows go up by this, so that no two reads in a row meet the same page; a prime, so
/// that every row has its turn whatever the number of rows.
const STEP: u64 = 7_919;

/// How often an index is asked for its status: the resolution of the time it takes.
const POLL: Duration = Duration::from_millis(20);
/// An index of a million rows takes seconds; one that takes so long is lost.
const BUILD_MAX: Duration = Duration::from_mins(10);

/// Runs `tidemark seed catalog`, checks the list it makes, and says how long the seeding took.
///
/// # Errors
/// When seeding fails, or the list is not the one that the generator demands.
pub fn seed(binary: &Path, server: &LiveServer, rows: u32, indexed: bool) -> Result<Duration> {
    let took = server.seed(surroundings::command(binary), rows, indexed)?;
    let access = &server.access;
    let route = answer::route(None);
    let mut connection = Connection::open(access.address)?;
    let body = connection.call(access, "GET", &route, "")?.body;
    Expected::over(rows).check(body, &route)?;
    Ok(took)
}

/// A data directory with the indexed catalog and further indexes, each over these columns, whose
/// server has ended.
///
/// # Errors
/// As [`seed`], and when an index cannot be built or the server not start or end in order.
pub fn seeded(
    binary: &Path,
    scratch: &Scratch,
    rows: u32,
    indexes: &[Vec<String>],
) -> Result<PathBuf> {
    let directory = scratch.at("seeded");
    let site = ServerSite::from(directory.clone());
    furnish(binary, &site, rows, indexes)?;
    Ok(directory)
}

/// The same where the site says.
///
/// # Errors
/// As [`seeded`].
pub fn furnish(binary: &Path, site: &ServerSite, rows: u32, indexes: &[Vec<String>]) -> Result<()> {
    let server = site.serve(binary, &[])?;
    seed(binary, &server, rows, true)?;
    let access = &server.access;
    let mut connection = Connection::open(access.address)?;
    let route = format!("{}/indexes", table::table_route());
    for (number, columns) in indexes.iter().enumerate() {
        let key = format!("index_{number}");
        let lengths: Vec<Value> = columns.iter().map(|column| length(column)).collect();
        let body = json!({ "key": key, "type": "key", "columns": columns, "lengths": lengths });
        let body = body.to_string();
        connection.call(access, "POST", &route, &body)?;
        wait_until_available(&mut connection, access, &format!("{route}/{key}"))?;
    }
    server.stop()
}

/// Polls until the index is built.
///
/// # Errors
/// When it fails, or is not built within [`BUILD_MAX`].
pub fn wait_until_available(
    connection: &mut Connection,
    access: &Access,
    route: &str,
) -> Result<()> {
    let request = access.request("GET", route, "");
    let start = Instant::now();
    while start.elapsed() < BUILD_MAX {
        let index = connection.accepted(&request)?.body;
        let index: Value = serde_json::from_slice(index).context("no JSON came back")?;
        match index["status"].as_str() {
            Some("available") => return Ok(()),
            Some("processing") => thread::sleep(POLL),
            other => bail!("the index is {other:?}: {}", index["error"]),
        }
    }
    bail!("no index after {} s", BUILD_MAX.as_secs())
}

/// How much of a column an index holds: a text column may be longer than an index allows.
fn length(column: &str) -> Value {
    match column {
        "name" | "description" | "sku" | "brand" => json!(TEXT_INDEXED),
        _ => Value::Null,
    }
}

/// Makes a second table of the catalog's database, and fills it with its first rows.
///
/// # Errors
/// When the server refuses.
pub fn fill(access: &Access, table: &str, rows: u32) -> Result<()> {
    let mut connection = Connection::open(access.address)?;
    let mut definition = table::definition(false);
    definition["tableId"] = json!(table);
    let tables = format!("{}/tables", table::database_route());
    connection.call(access, "POST", &tables, &definition)?;
    for start in (0..rows).step_by(BATCH_ROWS as usize) {
        let batch = start..rows.min(start + BATCH_ROWS);
        let batch: Vec<String> = batch.map(|index| Product::new(index).json()).collect();
        let body = format!(r#"{{"rows":[{}]}}"#, batch.join(","));
        connection.call(access, "POST", &rows_of(table), &body)?;
    }
    Ok(())
}

/// The route of a table's rows.
pub fn rows_of(table: &str) -> String {
    format!("{}/tables/{table}/rows", table::database_route())
}

/// Reads one row of the first `rows` of `table`, another one each time.
pub fn point_read(access: &Access, table: &str, rows: u32, number: u64) -> Vec<u8> {
    let index = (number * STEP % u64::from(rows)) as u32;
    access.request("GET", &format!("{}/{}", rows_of(table), row_id(index)), "")
}

/// Inserts row `index` of the catalog into its table, alone.
pub fn insert(access: &Access, index: u32) -> Vec<u8> {
    let body = json!({ "rowId": row_id(index), "data": Product::new(index).columns() });
    access.request("POST", &table::rows_route(), &body.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn access() -> Access {
        Access::new(([127, 0, 0, 1], 80), "p", "k")
    }

    #[test]
    fn point_reads_meet_every_row() {
        let access = access();
        let read = |number| point_read(&access, "t", 300, number);
        let distinct: HashSet<Vec<u8>> = (0..300).map(read).collect();
        assert_eq!((distinct.len(), read(0) == read(300)), (300, true));
        let text = String::from_utf8(read(1)).unwrap();
        let wanted = "GET /v1/tablesdb/bench_db/tables/t/rows/product-00119 HTTP/1.1\r\n";
        assert!(text.starts_with(wanted), "{text}");
    }

    #[test]
    fn an_insert_names_the_row_apart_from_its_columns() {
        let text = String::from_utf8(insert(&access(), 12)).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["rowId"], "product-00012");
        assert_eq!(
            body["data"].as_object().unwrap().len(),
            table::COLUMNS.len()
        );
    }
}
