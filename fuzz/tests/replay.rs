//! The committed inputs, and mutations of them that are the same every time.

use std::fs;

use fuzz::{INPUT_BYTES_MAX, TARGETS, Target, corpus};

/// Mutations of each target by day.
const MUTATIONS: usize = 2_000;

/// Numbers that look like chance and are not: SplitMix64 (Steele, Lea, Flood 2014).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

fn inputs(target: &Target) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(corpus(target)).expect("every target has a corpus");
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} has no input", target.name);
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// A few changes of one input: bytes turned, cut out, doubled, or taken from another.
fn mutate(inputs: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = inputs[numbers.below(inputs.len())].clone();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len() + 1);
        let until = (at + numbers.below(9)).min(bytes.len());
        match numbers.below(5) {
            0 if at < bytes.len() => bytes[at] ^= 1 << numbers.below(8),
            1 => drop(bytes.drain(at..until)),
            2 => {
                let again = bytes[at..until].to_vec();
                bytes.splice(at..at, again);
            }
            3 => bytes.insert(at, b"\0\"\\{}[],:0-9eE.\xff\r\n %"[numbers.below(20)]),
            _ => {
                let other = &inputs[numbers.below(inputs.len())];
                let from = numbers.below(other.len() + 1);
                let to = (from + numbers.below(33)).min(other.len());
                bytes.splice(at..until, other[from..to].iter().copied());
            }
        }
    }
    bytes.truncate(INPUT_BYTES_MAX);
    bytes
}

#[track_caller]
fn replay(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let inputs = inputs(target);
    for input in &inputs {
        check(target, input);
    }
    let mut numbers = Numbers(5);
    for _ in 0..MUTATIONS {
        check(target, &mutate(&inputs, &mut numbers));
    }
}

/// Says what fails itself: the server in this process has taken over the reports of panics, and
/// its log is off.
#[track_caller]
fn check(target: &Target, bytes: &[u8]) {
    let Err(panic) = std::panic::catch_unwind(|| (target.check)(bytes)) else {
        return;
    };
    let why = panic.downcast_ref::<String>().cloned();
    let why = why.or_else(|| panic.downcast_ref::<&str>().map(|why| (*why).to_owned()));
    let shown = String::from_utf8_lossy(bytes);
    eprintln!(
        "{} fails for {shown:?}: {}",
        target.name,
        why.unwrap_or_default()
    );
    std::panic::resume_unwind(panic);
}

#[test]
fn query_text() {
    replay("query_text");
}

#[test]
fn query_tree() {
    replay("query_tree");
}

#[test]
fn content() {
    replay("content");
}

#[test]
fn change() {
    replay("change");
}

#[test]
fn cursor() {
    replay("cursor");
}

#[test]
fn head() {
    replay("head");
}

#[test]
fn envelope() {
    replay("envelope");
}

#[test]
fn tier_file() {
    replay("tier_file");
}

#[test]
fn redis_answer() {
    replay("redis_answer");
}

#[test]
fn php_value() {
    replay("php_value");
}

#[test]
fn frames() {
    replay("frames");
}

#[test]
fn deployment_form() {
    replay("deployment_form");
}

#[test]
fn deployment_parts() {
    replay("deployment_parts");
}

#[test]
fn archive() {
    replay("archive");
}

#[test]
fn every_target_is_replayed() {
    let names = TARGETS.map(|target| target.name);
    assert_eq!(
        names,
        [
            "query_text",
            "query_tree",
            "content",
            "change",
            "cursor",
            "head",
            "envelope",
            "tier_file",
            "redis_answer",
            "php_value",
            "frames",
            "deployment_form",
            "deployment_parts",
            "archive"
        ]
    );
}
