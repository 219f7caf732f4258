//! An answer that names its coordinates is the same for ever.

mod fixture;

use std::sync::atomic::{AtomicBool, Ordering};

use engine::{Engine, Family};
use fixture::{NEW_YEAR_US, PLACE, TickingClock, encode_page, furnish, key, open, row};
use futures_executor::block_on;
use model::Mark;
use testing::places::on_database;

const ROWS: i64 = 40;

/// A small generator, so that a failing seed can be run again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: i64) -> i64 {
        // The multiplier of Knuth's MMIX; the high bits are the good ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % bound as u64) as i64
    }
}

fn texts(dice: &mut Dice) -> Vec<String> {
    let queries: [&[&str]; 4] = [
        &[r#"{"method":"orderDesc","attribute":"n"}"#],
        &[r#"{"method":"greaterThan","attribute":"n","values":[50]}"#],
        &[
            r#"{"method":"isNull","attribute":"m"}"#,
            r#"{"method":"limit","values":[5]}"#,
        ],
        &[],
    ];
    queries[dice.below(4) as usize]
        .iter()
        .map(ToString::to_string)
        .collect()
}

/// An answer with everything a client can see of it, and the question that led to it.
#[derive(Clone, PartialEq, Debug)]
struct Answer {
    texts: Vec<String>,
    mark: Mark,
    total: u64,
    rows: Vec<u8>,
}

fn ask(engine: &Engine, texts: Vec<String>, mark: Option<Mark>) -> Answer {
    let pinned = block_on(engine.list_rows_pinned(&key(), PLACE, &texts, mark)).unwrap();
    let rows = encode_page(&pinned.page, Family::Tables);
    Answer {
        texts,
        mark: pinned.at.system,
        total: pinned.total,
        rows,
    }
}

fn write(engine: &Engine, dice: &mut Dice) {
    let id = format!("r{}", dice.below(ROWS));
    let n = dice.below(100);
    // Absent or present rows make some of these fail; that is part of the traffic.
    let _ = match dice.below(4) {
        0 => block_on(engine.delete_row(&key(), PLACE, model::RowId::new(&id).unwrap(), None))
            .map(drop),
        1 => block_on(engine.update_row(&key(), PLACE, row(&id, &[("m", n)]), None)).map(drop),
        _ => block_on(engine.upsert_row(&key(), PLACE, row(&id, &[("n", n)]), None)).map(drop),
    };
}

/// Repeats `repeats` answers beside a writer and counts those that changed.
fn changed(seed: u64, repeats: usize, ignore_pending: bool) -> usize {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), TickingClock::at(NEW_YEAR_US));
    furnish(&engine);
    if ignore_pending {
        engine.ignore_pending_marks();
    }
    let done = AtomicBool::new(false);
    let changed = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut dice = Dice(seed);
            while !done.load(Ordering::Relaxed) {
                write(&engine, &mut dice);
            }
        });
        let changed = read_and_repeat(&engine, &mut Dice(seed + 1), repeats);
        done.store(true, Ordering::Relaxed);
        changed
    });
    engine.close().unwrap();
    changed
}

fn read_and_repeat(engine: &Engine, dice: &mut Dice, repeats: usize) -> usize {
    let mut known: Vec<Answer> = Vec::new();
    let mut changed = 0;
    for step in 0..repeats {
        if known.len() < 500 || step % 10 == 0 {
            let answer = ask(engine, texts(dice), None);
            if known.len() < 500 {
                known.push(answer);
            } else {
                let place = dice.below(500) as usize;
                known[place] = answer;
            }
        }
        let before = &known[dice.below(known.len() as i64) as usize];
        let after = ask(engine, before.texts.clone(), Some(before.mark));
        changed += usize::from(after != *before);
    }
    changed
}

/// In stores of their own, because a listing of the past grows with the versions it passes over: ten
/// by night, with 50,000 answers, and three by day, or in a database.
#[test]
fn repeated_answers_do_not_change() {
    let is_night = std::env::var("TIDEMARK_LANE").as_deref() == Ok("night");
    for seed in 0..if is_night && !on_database() { 10 } else { 3 } {
        assert_eq!(changed(seed, 5_000, false), 0, "seed {seed}");
    }
}

#[test]
fn without_the_publication_rule_answers_do_change() {
    assert!(changed(1, 5_000, true) > 0, "the test above would notice");
}
