//! Figures that others have published. Quoted, never measured here.

use std::collections::BTreeMap;

use super::run::{Role, Row, Series, Source};

/// Who published the figures of the list, and when.
pub const LIST_IN: &str =
    "appwrite-community/ttl-benchmark and its write-up of 21 April 2026 (100,000 calls a phase)";
/// Who published the load test, and when.
pub const LOAD_IN: &str = "the load test in the reference's community, 2023 (generator oha; \
     connections and duration not stated; one server of shared virtual cores)";
/// Calls of each phase.
pub const LIST_CALLS: u32 = 100_000;
/// One connection on their authors' machine: point, milliseconds without and with `ttl`.
pub const LIST_MS: [(&str, f64, f64); 7] = [
    ("min", 10.783, 4.146),
    ("p50", 13.187, 6.108),
    ("p90", 15.173, 7.862),
    ("p95", 16.450, 8.966),
    ("p99", 21.303, 12.527),
    ("max", 118.957, 75.173),
    ("mean", 13.626, 6.440),
];
/// Wall times without and with `ttl`: 22m43.4s and 10m44.5s.
pub const LIST_WALL_MS: [f64; 2] = [1_363_400.0, 644_500.0];
/// Calls a second without and with `ttl`.
pub const LIST_PER_SECOND: [u32; 2] = [73, 155];

/// Columns of the load test: rows added, read one by one, fetched in bunches; a function that
/// returns JSON, and one that fetches a bunch.
pub const COLUMNS: [&str; 5] = ["Adding", "Reading", "Fetching", "E1", "E2"];
/// Cores, GB, requests a second by column, EUR a month.
const LOAD: [(u32, u32, [f64; 5], f64); 4] = [
    (2, 2, [170.0, 427.0, 241.0, 106.0, 80.0], 3.85),
    (4, 8, [443.0, 870.0, 511.0, 288.0, 180.0], 13.10),
    (8, 16, [939.0, 1_857.0, 1_015.0, 436.0, 235.0], 24.70),
    (16, 32, [2_140.0, 3_841.0, 2_106.0, 1_311.0, 519.0], 54.40),
];

/// The published list benchmark as series of ours.
pub fn list() -> [Series; 2] {
    let series = |idx: usize, key: &str, title: &str| {
        let points = LIST_MS.map(|(name, plain, ttl)| {
            (name.to_owned(), super::run::milli([plain, ttl][idx] * 1e3))
        });
        Series {
            key: key.to_owned(),
            title: title.to_owned(),
            role: [Role::Reference, Role::Other][idx],
            source: Source::Quoted,
            connections: 1,
            asked_per_s: None,
            count: u64::from(LIST_CALLS),
            wall_ms: LIST_WALL_MS[idx],
            points_us: BTreeMap::from(points),
            noise: None,
            errors: None,
            cpu_us: None,
            memory_mib: None,
            hits_percent: None,
            timeline: None,
            passes: Vec::new(),
            samples: None,
        }
    };
    [
        series(0, "published_uncached", "published, no cache"),
        series(1, "published_ttl", "published, ttl"),
    ]
}

/// The published load test, one row for each server.
pub fn load() -> Vec<Row> {
    let row = |(cores, memory_gb, rates, monthly): (u32, u32, [f64; 5], f64)| Row {
        name: format!("published, {cores} cores / {memory_gb} GB"),
        source: Source::Quoted,
        rates: rates.map(Some).to_vec(),
        monthly: Some(monthly),
        currency: Some("EUR".to_owned()),
    };
    LOAD.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_walls_and_rates_agree_with_each_other() {
        for (series, rate) in list().iter().zip(LIST_PER_SECOND) {
            assert_eq!(series.per_s().unwrap().round() as u32, rate);
            assert_eq!(series.source, Source::Quoted);
        }
    }

    #[test]
    fn the_published_price_per_request_is_the_sum_of_five_rates_under_the_price() {
        // As the document states them: to five places, some cut and some rounded.
        let stated = [0.003_75, 0.005_71, 0.005_51, 0.005_49];
        for (row, stated) in load().into_iter().zip(stated) {
            let sum: f64 = row.rates.iter().flatten().sum();
            let price = row.monthly.unwrap() / sum;
            assert!((price - stated).abs() <= 1e-5, "{}: {price}", row.name);
        }
    }
}
