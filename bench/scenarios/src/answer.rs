//! The benchmark's query, and the answer it must give, computed from the generator alone.

use serde_json::{Value, json};

use crate::seed::generator::Product;
use crate::seed::{self, table};

const CATEGORY: &str = "electronics";
/// Above 3.5.
const RATING_TENTHS_ABOVE: u32 = 35;
const PAGE_ROWS: usize = 25;
/// Servers count matches up to here by default, so no expected total is higher.
const TOTAL_CAP: usize = 5_000;

/// The route of the list; `ttl_s` in seconds, `None` leaves the parameter out.
pub fn route(ttl_s: Option<u32>) -> String {
    let list = seed::list_route(&[
        json!({ "method": "equal", "attribute": "category", "values": [CATEGORY] }),
        json!({ "method": "greaterThan", "attribute": "rating", "values": [3.5] }),
        json!({ "method": "orderDesc", "attribute": "reviewCount" }),
        json!({ "method": "limit", "values": [PAGE_ROWS] }),
    ]);
    match ttl_s {
        Some(ttl_s) => format!("{list}&ttl={ttl_s}"),
        None => list,
    }
}

/// The right answer over the first rows of the catalog.
pub struct Expected {
    total: usize,
    rows: Vec<Product>,
}

impl Expected {
    /// Filters and sorts in memory.
    pub fn over(rows: u32) -> Expected {
        let matches = |product: &Product| {
            product.category == CATEGORY && product.rating_tenths > RATING_TENTHS_ABOVE
        };
        let mut rows: Vec<Product> = (0..rows).map(Product::new).filter(matches).collect();
        // A stable sort: equal review counts keep the order of insertion, as `$sequence` does.
        rows.sort_by_key(|product| std::cmp::Reverse(product.review_count));
        let total = rows.len().min(TOTAL_CAP);
        rows.truncate(PAGE_ROWS);
        Expected { total, rows }
    }

    /// The first place where the body is not the expected answer, in words; `None` when it is.
    pub fn difference(&self, body: &[u8]) -> Option<String> {
        let answer: Value = match serde_json::from_slice(body) {
            Ok(answer) => answer,
            Err(error) => return Some(format!("no JSON came back: {error}")),
        };
        if answer["total"] != json!(self.total) {
            return Some(format!(
                "total: expected {}, got {}",
                self.total, answer["total"]
            ));
        }
        let rows = answer["rows"].as_array().map_or(&[][..], Vec::as_slice);
        if rows.len() != self.rows.len() {
            return Some(format!(
                "rows: expected {}, got {}",
                self.rows.len(),
                rows.len()
            ));
        }
        let mut pairs = rows.iter().zip(&self.rows).enumerate();
        pairs.find_map(|(place, (row, product))| {
            Some(format!("rows[{place}].{}", seed::difference(row, product)?))
        })
    }

    /// # Errors
    /// When the body is not the expected answer; the text names the first difference.
    pub fn check(&self, body: &[u8], who: &str) -> anyhow::Result<()> {
        match self.difference(body) {
            None => Ok(()),
            Some(difference) => anyhow::bail!(
                "{who} gave a wrong answer, so nothing is measured: {difference}. Run `tidemark \
                 seed catalog` with the same --rows first (table {}/{}).",
                table::DATABASE,
                table::TABLE
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(expected: &Expected) -> Value {
        let row = |product: &Product| serde_json::from_str::<Value>(&product.json()).unwrap();
        let rows: Vec<Value> = expected.rows.iter().map(row).collect();
        json!({ "total": expected.total, "rows": rows })
    }

    #[test]
    fn over_10000_rows_the_answer_is_the_one_the_definition_states() {
        let expected = Expected::over(10_000);
        let first: Vec<u32> = expected.rows[..5]
            .iter()
            .map(|product| product.index)
            .collect();
        assert_eq!(first, [7_221, 2_881, 4_737, 1_606, 4_407]);
        assert_eq!((expected.total, expected.rows.len()), (582, 25));
    }

    #[test]
    fn a_wrong_answer_is_refused_by_its_first_difference() {
        let expected = Expected::over(1_000);
        let right = body(&expected);
        assert_eq!(expected.difference(right.to_string().as_bytes()), None);
        let check = |change: fn(&mut Value), wanted: &str| {
            let mut wrong = right.clone();
            change(&mut wrong);
            let found = expected.difference(wrong.to_string().as_bytes()).unwrap();
            assert!(found.starts_with(wanted), "{found}");
        };
        check(|answer| answer["total"] = json!(1), "total: expected ");
        check(
            |answer| answer["rows"].as_array_mut().unwrap().swap(3, 4),
            "rows[3].$id: expected",
        );
        check(
            |answer| drop(answer["rows"].as_array_mut().unwrap().pop()),
            "rows: expected 25",
        );
        check(
            |answer| answer["rows"][7]["inStock"] = json!(null),
            "rows[7].inStock: expected",
        );
        assert!(expected.difference(b"oops").unwrap().starts_with("no JSON"));
    }
}
