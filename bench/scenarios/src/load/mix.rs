//! Lists and changes of single rows at once, by the client of every scenario: an external
//! generator asks for one kind of request and does not read which answers came from a cache.

use std::time::{Duration, Instant};

use anyhow::Result;
use measure::connection::{Access, Connection};
use measure::draw::Draw;
use measure::threads::together;
use serde_json::json;

use super::figure::Share;
use crate::run::Sample;
use crate::seed;
use crate::seed::generator::{Product, row_id};
use crate::seed::table;

/// The first rows of the catalog that hold every category.
const CATEGORIES_WITHIN: u32 = 100;
/// Rows rated above one of these.
const RATINGS: [f64; 8] = [2.5, 3.0, 3.2, 3.4, 3.6, 3.8, 4.0, 4.2];
/// Stock goes from 0 to 500 (bench/ttl/CATALOG.md).
const STOCKS: u64 = 501;

/// How much of each.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Lists of a hundred requests; the others change a row.
    pub reads_percent: u64,
    /// Clients, each one request after the other.
    pub connections: u32,
    /// How long.
    pub lasting: Duration,
    /// Rows of the catalog.
    pub rows: u32,
}

/// Every list that is asked for: each category above each rating, most reviewed first.
pub fn lists() -> Vec<String> {
    let mut categories: Vec<&str> = (0..CATEGORIES_WITHIN)
        .map(|index| Product::new(index).category)
        .collect();
    categories.sort_unstable();
    categories.dedup();
    let list = |category: &str, rating: f64| {
        seed::list_route(&[
            json!({ "method": "equal", "attribute": "category", "values": [category] }),
            json!({ "method": "greaterThan", "attribute": "rating", "values": [rating] }),
            json!({ "method": "orderDesc", "attribute": "reviewCount" }),
            json!({ "method": "limit", "values": [25] }),
        ])
    };
    let lists = categories
        .iter()
        .flat_map(|category| RATINGS.iter().map(move |rating| list(category, *rating)));
    lists.collect()
}

/// The route of the list that is asked for most.
pub fn first_list() -> String {
    lists().swap_remove(0)
}

/// Runs the mix. `seed` decides what each client does.
///
/// # Errors
/// When a connection cannot be made or breaks.
pub fn run(access: &Access, mix: Mix, seed: u64) -> Result<Share> {
    let lists = lists();
    let mut connections = Vec::new();
    for _ in 0..mix.connections {
        connections.push(Connection::open(access.address)?);
    }
    let origin = Instant::now();
    let clients = connections.into_iter().zip(0_u64..);
    let shares = together(clients.map(|(connection, number)| {
        let draw = Draw(seed.wrapping_mul(1_000_003).wrapping_add(number));
        let lists = &lists;
        move || drive(connection, (access, lists), (mix, draw, origin))
    }))?;
    let mut all = Share::default();
    for one in shares {
        all.samples.extend(one.samples);
        all.lists += one.lists;
        all.hits += one.hits;
        all.errors += one.errors;
    }
    all.wall = origin.elapsed();
    all.samples.sort_by_key(|sample| sample.ended);
    Ok(all)
}

fn drive(
    mut connection: Connection,
    (access, lists): (&Access, &[String]),
    (mix, mut draw, origin): (Mix, Draw, Instant),
) -> Result<Share> {
    let mut seen = Share::default();
    while origin.elapsed() < mix.lasting {
        let is_list = draw.below(100) < mix.reads_percent;
        let request = if is_list {
            access.request("GET", &lists[draw.popular(lists.len())], "")
        } else {
            let row = row_id(draw.below(u64::from(mix.rows)) as u32);
            let route = format!("{}/{row}", table::rows_route());
            let body = json!({ "data": { "stock": draw.below(STOCKS) } });
            access.request("PATCH", &route, &body.to_string())
        };
        let before = Instant::now();
        let answer = connection.ask(&request)?;
        let after = Instant::now();
        if !(200..300).contains(&answer.status) {
            seen.errors += 1;
            continue;
        }
        seen.samples.push(Sample {
            ended: after - origin,
            took: after - before,
        });
        if is_list {
            let cached = answer.header("x-tidemark-cache");
            seen.lists += 1;
            seen.hits += u64::from(cached.is_some_and(|said| said.starts_with("hit")));
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_has_a_list_for_every_rating() {
        let lists = lists();
        assert_eq!(lists.len(), 8 * RATINGS.len());
        let mut distinct = lists.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), lists.len());
    }

    #[test]
    fn the_first_list_is_asked_for_most_and_none_never() {
        let mut draw = Draw(7);
        let mut counts = [0; 64];
        for _ in 0..50_000 {
            counts[draw.popular(64)] += 1;
        }
        assert!(counts[0] > 5 * counts[9], "{counts:?}");
        assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
        let again: Vec<u64> = (0..4).map(|_| Draw(9).any()).collect();
        assert!(again.iter().all(|number| *number == again[0]));
    }
}
