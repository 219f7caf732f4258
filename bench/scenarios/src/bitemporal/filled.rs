//! A table whose rows have many versions: what its rows hold, and when.

use serde_json::{Value, json};

use super::objects::{equal, limit, listing};

/// Rows of a list.
pub const PAGE: u32 = 25;
/// Prices lie below; lists begin at one of the lower half, so that a page is full.
pub const PRICES: u64 = 1_000_000;
/// Numbers of rows go up by this, so that no two reads in a row meet the same page; a prime, so
/// that every row has its turn whatever the number of rows.
const STEP: u64 = 7_919;

/// Rows of one table, each with so many versions.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The table's id.
    pub table: &'static str,
    /// Rows.
    pub rows: u32,
    /// Versions of each.
    pub versions: u32,
}

impl Shape {
    /// Rows of equal status: a thousand, or all.
    pub fn statuses(self) -> u32 {
        (self.rows / 1_000).clamp(1, 100)
    }

    /// The id of a row.
    pub fn id(nth: u32) -> String {
        format!("r{nth:06}")
    }

    /// The price of a row in one of its versions, from 1 on; any two differ (splitmix64).
    pub fn price(nth: u32, version: u32) -> u64 {
        let mixed = (u64::from(nth) << 32 | u64::from(version)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % PRICES
    }

    /// The ids of the list, computed from the definition alone.
    pub fn expected(self, status: u32, from: u64, version: u32) -> Vec<String> {
        let rows = (status..self.rows).step_by(self.statuses() as usize);
        let mut rows: Vec<(u64, u32)> = rows.map(|nth| (Shape::price(nth, version), nth)).collect();
        rows.retain(|(price, _)| *price >= from);
        rows.sort_unstable();
        rows.truncate(PAGE as usize);
        rows.into_iter().map(|(_, nth)| Shape::id(nth)).collect()
    }

    /// The list of equal status at a price and above, now or as of an instant.
    pub fn list(self, (status, from): (u32, u64), as_of: Option<i64>) -> String {
        let mut queries = vec![
            equal("status", json!(status)),
            json!({ "method": "greaterThanEqual", "attribute": "price", "values": [from] }),
            json!({ "method": "orderAsc", "attribute": "price" }),
            limit(PAGE),
        ];
        queries.extend(as_of.map(as_of_query));
        listing(self.table, &queries)
    }

    /// What the list number `nth` asks for.
    pub fn drawn(self, nth: u32) -> (u32, u64) {
        let from = Shape::price(nth, 0) % (PRICES / 2);
        (nth % self.statuses(), from)
    }
}

/// A table that is filled, and when each of its versions but the last was known.
pub struct Filled {
    /// Its rows.
    pub shape: Shape,
    /// After each round of versions: the mark of its last commit.
    pub instants: Vec<i64>,
}

impl Filled {
    /// A version that is not the last one, and an instant at which it was known.
    pub fn past(&self, nth: u32) -> (u32, i64) {
        let place = nth % (self.shape.versions - 1);
        (place + 1, self.instants[place as usize])
    }
}

/// The query that reads as of an instant.
pub fn as_of_query(instant: i64) -> Value {
    json!({ "method": "asOf", "values": [instant] })
}

/// The row that read number `nth` asks for.
pub fn row_of(shape: Shape, nth: u32) -> u32 {
    (u64::from(nth) * STEP % u64::from(shape.rows)) as u32
}
