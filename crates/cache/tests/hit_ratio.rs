//! How often the table answers, beside the least recently used rule and `quick_cache`, on drawn
//! traces of the shapes that caches meet.

use std::collections::{BTreeMap, HashMap};

use cache::{Bounds, NEVER_US, NewEntry, ObjectTable, TableLimits, WeightedMap};

const ENTRIES: usize = 1_000;
const REQUESTS: usize = 100_000;

/// Numbers by chance that are the same in each run.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A key by Zipf's law with exponent 1 over `keys`, by inversion of its continuous form.
    fn zipf(&mut self, keys: f64) -> u64 {
        keys.powf(self.share()) as u64
    }
}

fn table_ratio(trace: &[u64]) -> f64 {
    let mut table: ObjectTable<u64> = ObjectTable::new(TableLimits {
        entries_max: ENTRIES,
        bytes_max: u64::MAX,
        stale_us: 0,
    });
    let mut hits = 0;
    for key in trace {
        if let Some(found) = table.probe(*key, 0).first {
            table.hit(found.place);
            hits += 1;
            continue;
        }
        let new = NewEntry {
            hash: *key,
            item: *key,
            weight: 1,
            expires_us: NEVER_US,
            replaces: None,
        };
        drop(table.insert(new, 0));
    }
    f64::from(hits) / trace.len() as f64
}

fn lru_ratio(trace: &[u64]) -> f64 {
    let (mut by_key, mut by_time, mut hits) = (HashMap::new(), BTreeMap::new(), 0);
    for (time, key) in trace.iter().enumerate() {
        if let Some(before) = by_key.insert(*key, time) {
            by_time.remove(&before);
            hits += 1;
        } else if by_key.len() > ENTRIES {
            let (_, oldest) = by_time.pop_first().expect("it is full");
            by_key.remove(&oldest);
        }
        by_time.insert(time, *key);
    }
    f64::from(hits) / trace.len() as f64
}

fn quick_cache_ratio(trace: &[u64]) -> f64 {
    let bounds = Bounds {
        bytes_max: ENTRIES as u64,
        entry_bytes_typical: 1,
    };
    let (map, mut hits) = (WeightedMap::new(bounds, |_: &u64, _: &u64| 1), 0);
    for key in trace {
        match map.get(key) {
            Some(_) => hits += 1,
            None => drop(map.put(*key, *key, 10)),
        }
    }
    f64::from(hits) / trace.len() as f64
}

fn traces() -> Vec<(&'static str, Vec<u64>)> {
    let mut draw = Draw(7);
    let zipf: Vec<u64> = (0..REQUESTS).map(|_| draw.zipf(100_000.0)).collect();
    // A popular set, and between it keys that come once.
    let mut once = 1 << 40;
    let scans: Vec<u64> = (0..REQUESTS)
        .map(|at| {
            once += 1;
            if at % 4 == 0 {
                once
            } else {
                draw.zipf(20_000.0)
            }
        })
        .collect();
    // What is popular moves on.
    let moving: Vec<u64> = (0..REQUESTS)
        .map(|at| (at as u64 / 10_000) * 3_000 + draw.zipf(10_000.0))
        .collect();
    // A hot set that fits, and a loop beside it that does not.
    let looping: Vec<u64> = (0..REQUESTS as u64)
        .map(|at| match at % 2 {
            0 => draw.next() % 500,
            _ => 10_000 + (at / 2) % 2_000,
        })
        .collect();
    vec![
        ("zipf", zipf),
        ("scans", scans),
        ("moving", moving),
        ("looping", looping),
    ]
}

#[test]
fn table_answers_at_least_as_often_as_lru_and_nearly_as_often_as_quick_cache() {
    // Of a loop that does not fit quick_cache keeps a part: 0.61 to 0.49.
    let allowed = |name: &str| match name {
        "looping" => (0.0, 0.12),
        _ => (0.005, 0.005),
    };
    for (name, trace) in traces() {
        let table = table_ratio(&trace);
        let (lru, quick) = (lru_ratio(&trace), quick_cache_ratio(&trace));
        println!("{name}: table {table:.4}, lru {lru:.4}, quick_cache {quick:.4}");
        let (below_lru, below_quick) = allowed(name);
        assert!(
            table >= lru - below_lru,
            "{name}: {table} beside {lru} of LRU"
        );
        assert!(
            table >= quick - below_quick,
            "{name}: {table} beside {quick} of quick_cache"
        );
    }
}
