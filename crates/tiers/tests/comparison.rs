//! The ring and SQLite, side by side: 10 KB values, one write in twenty, by 1, 4 and 16 processes.
//!
//! By day both only have to do the work. The figures of a page come from
//! `TIDEMARK_LANE=night cargo test --release -p tiers --test comparison -- --nocapture`.

use std::fs;
use std::path::Path;
use std::process::Child;

use nix::time::{ClockId, clock_gettime};
use tiers::{Lookup, Tier, TierFault};

mod support;

use support::sqlite::SqliteTier;
use support::{Numbers, host, insist, is_night, job, start, tier};

const KEYS: u64 = 500;
const VALUE_BYTES: usize = 10_000;
const ENGINES: [&str; 2] = ["ring", "sqlite"];

/// Does the job for which another test has started this program; none by itself.
#[test]
fn worker() {
    let Some(words) = job() else { return };
    let folder = Path::new(&words[1]);
    let (seed, count) = (words[2].parse().unwrap(), words[3].parse().unwrap());
    let engine = opened(&words[0], folder);
    let (gets, sets) = run(&*engine, seed, count);
    let bytes = |times: Vec<u64>| times.into_iter().flat_map(u64::to_le_bytes).collect();
    let [gets, sets]: [Vec<u8>; 2] = [bytes(gets), bytes(sets)];
    fs::write(folder.join(format!("{seed}.get")), gets).unwrap();
    fs::write(folder.join(format!("{seed}.set")), sets).unwrap();
}

fn opened(engine: &str, folder: &Path) -> Box<dyn Tier> {
    match engine {
        "ring" => Box::new(tier(folder, 64 << 20, 16)),
        _ => Box::new(SqliteTier::open(&folder.join("sqlite"), host())),
    }
}

fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// What each read and each write took, in nanoseconds.
fn run(engine: &dyn Tier, seed: u64, count: usize) -> (Vec<u64>, Vec<u64>) {
    let mut numbers = Numbers(seed);
    let value: Vec<u8> = (0..VALUE_BYTES).map(|_| numbers.next() as u8).collect();
    let (mut gets, mut sets) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let key = numbers.below(KEYS).to_le_bytes();
        let is_set = numbers.below(20) == 0;
        let begin = now_ns();
        if is_set {
            // One that its stripe kept waiting for too long is dropped, and took that long.
            match engine.set(&key, &value, None, None) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.fault, TierFault::Busy, "{error}"),
            }
        } else if let Lookup::Hit(hit) = engine.get(&key).unwrap() {
            assert_eq!(hit.value().len(), VALUE_BYTES);
        }
        let time = now_ns() - begin;
        if is_set { &mut sets } else { &mut gets }.push(time);
    }
    (gets, sets)
}

/// The median and the 99th percentile of what all processes measured, in microseconds.
fn percentiles(folder: &Path, processes: u64, kind: &str) -> (f64, f64) {
    let mut times: Vec<u64> = (1..=processes)
        .flat_map(|seed| {
            let bytes = fs::read(folder.join(format!("{seed}.{kind}"))).unwrap();
            let words = bytes.as_chunks().0.iter();
            words
                .map(|word| u64::from_le_bytes(*word))
                .collect::<Vec<_>>()
        })
        .collect();
    times.sort_unstable();
    let at = |share: usize| times[times.len() * share / 100] as f64 / 1_000.0;
    (at(50), at(99))
}

fn measure(engine: &str, processes: u64, count: usize) -> [f64; 4] {
    let folder = tempfile::tempdir().unwrap();
    let filled = opened(engine, folder.path());
    for key in 0..KEYS {
        insist(&*filled, &key.to_le_bytes(), &[1; VALUE_BYTES]);
    }
    drop(filled);
    let path = folder.path().to_str().unwrap();
    let workers: Vec<Child> = (1..=processes)
        .map(|seed| start(&[engine, path, &seed.to_string(), &count.to_string()]))
        .collect();
    for worker in workers {
        let output = worker.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{engine}: {said}");
    }
    let (get, get_99) = percentiles(folder.path(), processes, "get");
    let (set, set_99) = percentiles(folder.path(), processes, "set");
    [get, get_99, set, set_99]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn ring_and_sqlite_do_the_same_work() {
    let (rounds, count) = if is_night() { (5, 20_000) } else { (1, 300) };
    println!("µs, medians of {rounds} rounds: get p50, p99; set p50, p99");
    for processes in if is_night() {
        vec![1, 4, 16]
    } else {
        vec![1, 4]
    } {
        let mut found = [const { Vec::new() }; 2];
        for _ in 0..rounds {
            for (place, engine) in ENGINES.iter().enumerate() {
                found[place].push(measure(engine, processes, count / processes as usize));
            }
        }
        for (engine, found) in ENGINES.iter().zip(found) {
            let of = |place: usize| median(found.iter().map(|times| times[place]).collect());
            let (get, get_99, set, set_99) = (of(0), of(1), of(2), of(3));
            println!("{processes:2} {engine:6} {get:6.1} {get_99:8.1} {set:8.1} {set_99:9.1}");
        }
    }
}
