//! `tidemark seed catalog`: makes the benchmark's table hold the first rows of the catalog.
//!
//! Over the wire, like any client, so it works against every compatible server. Batches go one
//! after the other on one connection: the order of insertion decides ties of the benchmark's
//! list, so two batches in flight would make its right answer a matter of chance.

use anyhow::Result;
use client::{Access, Client};
use hyper::Method;
use indicatif::{ProgressBar, ProgressStyle};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

pub mod generator;
pub mod table;
mod words;

use generator::{Product, row_id};

/// Most rows of one bulk create (wire protocol, `createRows`).
const BATCH_ROWS_MAX: u32 = 100;

/// What the table is to hold.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Rows of the catalog, from the first; at least 1.
    pub rows: u32,
    /// Whether the table has the index over category, reviews and rating.
    pub indexed: bool,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The table held exactly that already, and was left alone.
    Complete,
    /// The table was built, from nothing or in place of an incomplete one.
    Built,
}

/// Makes the table hold exactly what is wanted.
///
/// # Errors
/// When the server cannot be reached or refuses; its message is in the text.
pub async fn catalog(access: &Access, wanted: Wanted) -> Result<Outcome> {
    let mut seeding = Seeding {
        client: Client::connect(&access.endpoint).await?,
        access,
    };
    if seeding.get(&table::database_route()).await?.is_none() {
        let body = json!({ "databaseId": table::DATABASE, "name": "Benchmark" });
        seeding
            .post("creating the database", "/tablesdb", body.to_string())
            .await?;
    }
    if seeding.is_complete(wanted).await? {
        return Ok(Outcome::Complete);
    }
    seeding.drop_table().await?;
    let tables = format!("{}/tables", table::database_route());
    let definition = table::definition(wanted.indexed).to_string();
    seeding
        .post("creating the table", &tables, definition)
        .await?;
    seeding.fill(wanted.rows).await?;
    Ok(Outcome::Built)
}

struct Seeding<'a> {
    client: Client,
    access: &'a Access,
}

impl Seeding<'_> {
    async fn get(&mut self, route: &str) -> Result<Option<Value>> {
        let answer = self
            .client
            .call(self.access, Method::GET, route, None)
            .await?;
        answer.found(&format!("GET {route}"))
    }

    async fn post(&mut self, what: &str, route: &str, body: String) -> Result<Value> {
        let answer = self
            .client
            .call(self.access, Method::POST, route, Some(body))
            .await?;
        answer.accepted(what)
    }

    async fn drop_table(&mut self) -> Result<()> {
        let body = Some("{}".to_owned());
        let route = table::table_route();
        let answer = self
            .client
            .call(self.access, Method::DELETE, &route, body)
            .await?;
        answer.found("dropping the table").map(|_| ())
    }

    /// Whether the table holds exactly the wanted rows. Batches are written in order and each
    /// is all or nothing, so the last row stands for those before it; its place in the order
    /// of insertion shows that none was deleted or added.
    async fn is_complete(&mut self, wanted: Wanted) -> Result<bool> {
        let Some(table) = self.get(&table::table_route()).await? else {
            return Ok(false);
        };
        if !is_defined(&table, wanted.indexed) {
            return Ok(false);
        }
        let last = wanted.rows - 1;
        let queries = [json!({ "method": "offset", "values": [last] }), limit(2)];
        let tail = self.get(&list_route(&queries)).await?.unwrap_or_default();
        let first = self
            .get(&format!("{}/{}", table::rows_route(), row_id(0)))
            .await?;
        let tail = tail["rows"].as_array().map_or(&[][..], Vec::as_slice);
        Ok(matches!(tail, [row] if is_product(row, last))
            && first.is_some_and(|row| is_product(&row, 0)))
    }

    async fn fill(&mut self, rows: u32) -> Result<()> {
        let bar = progress(rows);
        for start in (0..rows).step_by(BATCH_ROWS_MAX as usize) {
            let end = rows.min(start + BATCH_ROWS_MAX);
            let batch: Vec<String> = (start..end)
                .map(|index| Product::new(index).json())
                .collect();
            let what = format!("creating rows {start} to {}", end - 1);
            let body = format!(r#"{{"rows":[{}]}}"#, batch.join(","));
            self.post(&what, &table::rows_route(), body).await?;
            bar.set_position(u64::from(end));
        }
        bar.finish_and_clear();
        Ok(())
    }
}

fn limit(rows: u32) -> Value {
    json!({ "method": "limit", "values": [rows] })
}

/// The route of a list of the table's rows with these queries.
pub fn list_route(queries: &[Value]) -> String {
    list_route_of(&table::rows_route(), queries)
}

/// The route of a list with these queries of the rows whose route is `rows`.
pub fn list_route_of(rows: &str, queries: &[Value]) -> String {
    let texts = queries.iter().enumerate().map(|(place, query)| {
        let text = query.to_string();
        format!(
            "queries%5B{place}%5D={}",
            utf8_percent_encode(&text, NON_ALPHANUMERIC)
        )
    });
    let texts: Vec<String> = texts.collect();
    format!("{rows}?{}", texts.join("&"))
}

fn is_defined(table: &Value, indexed: bool) -> bool {
    let keys = |list: &str| -> Vec<&str> {
        let items = table[list].as_array().into_iter().flatten();
        items.filter_map(|item| item["key"].as_str()).collect()
    };
    keys("columns") == table::COLUMNS && keys("indexes").contains(&table::INDEX) == indexed
}

fn is_product(row: &Value, index: u32) -> bool {
    difference(row, &Product::new(index)).is_none()
}

/// The first column in which a row that came back is not the product; `None` when it is.
pub fn difference(row: &Value, product: &Product) -> Option<String> {
    let wanted: Value = serde_json::from_str(&product.json()).expect("the generator writes JSON");
    let same = |got: &Value, wanted: &Value| match (got.as_f64(), wanted.as_f64()) {
        // A float column may come back as `5` or `5.0`.
        (Some(got), Some(wanted)) => got.total_cmp(&wanted).is_eq(),
        _ => got == wanted,
    };
    std::iter::once("$id")
        .chain(table::COLUMNS)
        .find_map(|key| {
            let (got, wanted) = (&row[key], &wanted[key]);
            (!same(got, wanted)).then(|| format!("{key}: expected {wanted}, got {got}"))
        })
}

/// A bar on a terminal; silent elsewhere.
fn progress(rows: u32) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} rows, {per_sec}, {eta} left")
        .expect("the template is constant");
    ProgressBar::new(u64::from(rows)).with_style(style)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_complete_only_with_its_columns_and_the_wanted_index() {
        let mut table = table::definition(true);
        assert!(is_defined(&table, true));
        assert!(!is_defined(&table, false));
        table["columns"].as_array_mut().unwrap().pop();
        assert!(!is_defined(&table, true));
    }

    #[test]
    fn a_row_is_compared_column_by_column() {
        let product = Product::new(3);
        let mut row: Value = serde_json::from_str(&product.json()).unwrap();
        assert_eq!(difference(&row, &product), None);
        row["rating"] = json!(1.5);
        let found = difference(&row, &product).unwrap();
        assert!(found.starts_with("rating: expected"), "{found}");
    }

    #[test]
    fn a_whole_float_may_come_back_with_or_without_a_point() {
        let whole = (0..5_000)
            .map(Product::new)
            .find(|product| product.rating_tenths == 40);
        let product = whole.expect("one rating of 31 is 4");
        let mut row: Value = serde_json::from_str(&product.json()).unwrap();
        for four in ["4", "4.0"] {
            row["rating"] = serde_json::from_str(four).unwrap();
            assert_eq!(difference(&row, &product), None, "{four}");
        }
    }

    #[test]
    fn queries_are_percent_encoded() {
        let route = list_route(&[limit(2)]);
        let wanted = "/tablesdb/bench_db/tables/products/rows?queries%5B0%5D=\
                      %7B%22method%22%3A%22limit%22%2C%22values%22%3A%5B2%5D%7D";
        assert_eq!(route, wanted);
    }
}
