//! The rows that wrk inserts: a script that writes them, and what they must be when read back.
//!
//! A row is one row of the catalog of about average length with its unique and its indexed
//! columns replaced by functions of its number: a client that draws the generator's rows takes
//! processor time from the server beside it. The indexed columns vary because rows that all meet
//! in one place of the index are inserted 1.5 to 2 times as fast (docs/performance.md).

use anyhow::{Context, Result, ensure};
use measure::connection::{Access, Connection};
use scenarios::seed::generator::{Product, row_id};
use scenarios::seed::{self, table};
use serde_json::{Value, json};

/// The catalog's row that all are made from. Its length differs by less than 1% from the mean.
const TEMPLATE: u32 = 17;
/// Reviews are `number * REVIEWS_STEP % REVIEWS`: every count the column allows once before one
/// comes again, since the two have no common divisor, and neighbours far apart in the index.
const REVIEWS: u32 = 8_001;
const REVIEWS_STEP: u32 = 7_919;
/// Rows of a run that are read back, besides its last.
const CHECKED: u32 = 25;
/// The first rows of the catalog that hold every category.
const CATEGORIES_WITHIN: u32 = 100;
/// Stands for the reviews while the template is cut; no number within the column's limits.
const REVIEWS_PLACE: u32 = u32::MAX;

/// Writes one row a request. `wrk.format` would build the headers again each time.
const REQUEST: &str = r#"
local writers = {}
setup = function(thread)
  thread:set("place", #writers)
  table.insert(writers, thread)
end

init = function(args)
  prefix, number, misfits = RUN .. "-" .. place .. "-", -1, 0
end

request = function()
  number = number + 1
  local id = prefix .. string.format("%07d", number)
  local body = PARTS[1] .. id .. PARTS[2] .. id .. PARTS[3] .. CATEGORIES[number % #CATEGORIES + 1]
    .. PARTS[4] .. string.format("%d", number * REVIEWS_STEP % REVIEWS) .. PARTS[5]
  return HEAD .. #body .. "\r\n\r\n" .. body
end

response = function(status)
  if status ~= 201 then
    misfits = misfits + 1
  end
end

refusals = function(summary)
  local sum = 0
  for _, thread in ipairs(writers) do
    sum = sum + thread:get("misfits")
  end
  return sum
end
"#;

/// One run of wrk: the ids of its rows begin with its own number.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Unique among the runs on one server.
    pub number: u32,
    /// Connections of its only thread.
    pub writers: u32,
    /// Rows acknowledged.
    pub rows: u32,
}

/// The part of a script for wrk that writes the rows of run `run`, one a request, and counts
/// answers other than 201. Rows are numbered from 1: wrk looks at number 0 and never sends it.
pub fn script(access: &Access, run: u32) -> String {
    let empty = String::from_utf8(access.request("POST", &table::rows_route(), ""))
        .expect("a request is made of strings");
    let open = empty.trim_end();
    let head = format!("{open}\r\nContent-Type: application/json\r\nContent-Length: ");
    // What JSON escapes in these texts, Lua reads the same way.
    let quoted = |text: &str| json!(text).to_string();
    let list = |texts: &[&str]| {
        let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
        format!("{{{}}}", texts.join(","))
    };
    format!(
        "local HEAD, RUN = {}, {}\nlocal PARTS = {}\nlocal CATEGORIES = {}\n\
         local REVIEWS, REVIEWS_STEP = {REVIEWS}, {REVIEWS_STEP}\n{REQUEST}",
        quoted(&head),
        quoted(&run_id(run)),
        list(&parts().each_ref().map(String::as_str)),
        list(&categories()),
    )
}

/// What ids of run `run` begin with.
fn run_id(run: u32) -> String {
    format!("wrk-{run:03}")
}

/// The id of row `number` that the first thread of run `run` writes.
fn id(run: u32, number: u32) -> String {
    format!("{}-0-{number:07}", run_id(run))
}

/// Every category, in the order in which the catalog's rows come to them.
fn categories() -> Vec<&'static str> {
    let mut found = Vec::new();
    for category in (0..CATEGORIES_WITHIN).map(|index| Product::new(index).category) {
        if !found.contains(&category) {
            found.push(category);
        }
    }
    found
}

/// The template with these in their columns.
fn product(sku: &str, category: &'static str, review_count: u32) -> Product {
    Product {
        sku: sku.to_owned(),
        category,
        review_count,
        ..Product::new(TEMPLATE)
    }
}

/// The body of a request around its id, `sku`, `category` and `reviewCount`.
fn parts() -> [String; 5] {
    let (sku, category) = ("<sku>", "<category>");
    let json = product(sku, category, REVIEWS_PLACE).json();
    let own = format!(r#"{{"$id":"{}","#, row_id(TEMPLATE));
    let columns = json.strip_prefix(&own).expect("the id is written first");
    let data = format!(r#"","data":{{{columns}}}"#);
    let mut rest = data.as_str();
    let reviews = REVIEWS_PLACE.to_string();
    let mut before = |place: &str| {
        let (part, after) = rest.split_once(place).expect("each column is written");
        rest = after;
        part.to_owned()
    };
    let [first, second, third] = [before(sku), before(category), before(&reviews)];
    [
        r#"{"rowId":""#.to_owned(),
        first,
        second,
        third,
        rest.to_owned(),
    ]
}

/// Row `number`, acknowledged under `id`, but for the place in the catalog that it has not.
fn wanted(id: &str, number: u32) -> Product {
    let categories = categories();
    let reviews = u64::from(number) * u64::from(REVIEWS_STEP) % u64::from(REVIEWS);
    product(
        id,
        categories[number as usize % categories.len()],
        reviews as u32,
    )
}

impl Run {
    /// Checks that some of its rows are there as they were written, the first among them.
    ///
    /// The last are left out, one for each connection: which of them were on their way when wrk
    /// stopped to listen is not known.
    ///
    /// # Errors
    /// When one is not; the first difference is in the text.
    pub fn check(self, access: &Access, connection: &mut Connection) -> Result<()> {
        let end = self.rows.saturating_sub(self.writers).max(1);
        let step = end.div_ceil(CHECKED).max(1) as usize;
        for number in (1..end).step_by(step).chain([end]) {
            self.check_row(access, connection, number)?;
        }
        Ok(())
    }

    fn check_row(self, access: &Access, connection: &mut Connection, number: u32) -> Result<()> {
        let id = id(self.number, number);
        let route = format!("{}/{id}", table::rows_route());
        let answer = connection
            .call(access, "GET", &route, "")
            .with_context(|| format!("row {id} of {} acknowledged", self.rows))?;
        let mut row: Value = serde_json::from_slice(answer.body).context("no JSON came back")?;
        let named = std::mem::replace(&mut row["$id"], json!(row_id(TEMPLATE)));
        ensure!(named == json!(id), "row {id} came back as {named}");
        let difference = seed::difference(&row, &wanted(&id, number));
        ensure!(
            difference.is_none(),
            "row {id} is wrong: {}",
            difference.unwrap_or_default()
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_around_a_rows_own_columns_are_its_body() {
        let (id, row) = (id(7, 12_345), wanted(&id(7, 12_345), 12_345));
        let [first, second, third, fourth, fifth] = parts();
        let (category, reviews) = (row.category, row.review_count);
        let body = format!("{first}{id}{second}{id}{third}{category}{fourth}{reviews}{fifth}");
        let sent: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(sent, json!({ "rowId": id, "data": row.columns() }));
        assert_eq!(sent["data"].as_object().unwrap().len(), 15);
    }

    #[test]
    fn neighbours_differ_in_what_the_index_holds() {
        let rows: Vec<Product> = (0..8_001).map(|number| wanted("a", number)).collect();
        assert_eq!(categories().len(), 8);
        let mut counts: Vec<u32> = rows.iter().map(|row| row.review_count).collect();
        counts.sort_unstable();
        assert!(counts.into_iter().eq(0..8_001));
        for pair in rows.windows(2) {
            assert_ne!(pair[0].category, pair[1].category);
        }
    }

    #[test]
    fn the_template_is_as_long_as_rows_are() {
        let length = |index| Product::new(index).json().len() as f64;
        let mean = (0..10_000).map(length).sum::<f64>() / 10_000.0;
        assert!((length(TEMPLATE) / mean - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn a_script_holds_the_head_and_the_runs_number() {
        let access = Access::new(([127, 0, 0, 1], 80), "p", "k");
        let script = script(&access, 3);
        let head = r#"local HEAD, RUN = "POST /v1/tablesdb/bench_db/tables/products/rows HTTP/1.1"#;
        assert!(script.starts_with(head), "{script}");
        let end = r#"X-Appwrite-Key: k\r\nContent-Type: application/json\r\nContent-Length: ", "#;
        assert!(script.contains(end), "{script}");
        assert!(script.contains(r#""wrk-003""#));
        assert_eq!(id(3, 9), "wrk-003-0-0000009");
    }
}
