//! Lists that are all distinct, each kept by the list cache for as long as it has room.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use measure::connection::{Access, Connection};
use measure::threads::together;
use scenarios::seed::list_route;
use serde_json::json;

/// Most distinct lists: limits times offsets times values.
const LISTS: u32 = LIMITS * OFFSETS * VALUES;
const LIMITS: u32 = 25;
const OFFSETS: u32 = 40;
const VALUES: u32 = 1_000;
/// Review counts go to 8,000. In steps of 7 each value leaves over a hundred rows of a category,
/// so that every page is full.
const VALUE_STEP: u32 = 7;
/// The longest `ttl` there is, in seconds, so that no entry expires.
const TTL_S: u32 = 86_400;
/// Clients that ask at the same time: as many as would keep two cores busy.
const CLIENTS: u32 = 2;
/// How many of the last lists are asked for once more.
const AGAIN: u32 = 100;

/// What became of the lists.
pub struct DistinctReads {
    /// How long all took.
    pub took: Duration,
    /// How many of the last [`AGAIN`] were answered from the cache when asked for again.
    pub kept: usize,
}

/// Asks for `count` distinct lists.
///
/// # Errors
/// When one is refused or comes from the cache although no client asked for it before, or when
/// nothing is kept.
pub fn ask(access: &Access, count: u32) -> Result<DistinctReads> {
    let start = Instant::now();
    let client = |first| {
        let mine = (first..count).step_by(CLIENTS as usize);
        move || hits(access, mine)
    };
    let hits: usize = together((0..CLIENTS).map(client))?.into_iter().sum();
    let took = start.elapsed();
    ensure!(
        hits == 0,
        "{hits} lists that are distinct came from the cache"
    );
    let kept = self::hits(access, count.saturating_sub(AGAIN)..count)?;
    ensure!(kept > 0, "none of the last {AGAIN} lists was kept");
    Ok(DistinctReads { took, kept })
}

/// How many of these lists come from the cache.
fn hits(access: &Access, numbers: impl Iterator<Item = u32>) -> Result<usize> {
    let mut connection = Connection::open(access.address)?;
    let mut hits = 0;
    for number in numbers {
        let answer = connection.call(access, "GET", &route(number), "")?;
        match answer.header("x-appwrite-cache") {
            Some("hit") => hits += 1,
            Some("miss") => {}
            other => bail!("X-Appwrite-Cache says {other:?} of a list with a ttl"),
        }
    }
    Ok(hits)
}

/// Limit, offset and value of list `number`.
fn parts(number: u32) -> (u32, u32, u32) {
    let number = number % LISTS;
    let (limit, rest) = (1 + number % LIMITS, number / LIMITS);
    (limit, rest % OFFSETS, rest / OFFSETS * VALUE_STEP)
}

fn route(number: u32) -> String {
    let (limit, offset, value) = parts(number);
    let list = list_route(&[
        json!({ "method": "equal", "attribute": "category", "values": ["electronics"] }),
        json!({ "method": "greaterThan", "attribute": "reviewCount", "values": [value] }),
        json!({ "method": "orderDesc", "attribute": "reviewCount" }),
        json!({ "method": "limit", "values": [limit] }),
        json!({ "method": "offset", "values": [offset] }),
    ]);
    format!("{list}&ttl={TTL_S}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_million_lists_are_a_million_distinct_ones() {
        let distinct: HashSet<(u32, u32, u32)> = (0..1_000_000).map(parts).collect();
        assert_eq!(distinct.len(), 1_000_000);
        let most = distinct.iter().max_by_key(|(_, _, value)| *value).unwrap();
        assert_eq!(most.2, 6_993);
        let routes: HashSet<String> = (0..5_000).map(route).collect();
        assert_eq!(routes.len(), 5_000);
    }
}
