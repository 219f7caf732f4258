//! Latencies of the same requests in two situations, taken in turns and pooled over all rounds.
//!
//! A high percentile of a short slice is decided by a few requests. So the samples of all rounds
//! are put together first and the percentile is taken of them; single rounds only show how far
//! they lie apart.

use anyhow::{Result, ensure};
use measure::percentile::Sorted;
use serde_json::{Value, json};

use crate::figure::{Goal, counts, points};

/// The points that are compared: their names, and their thousandths.
const POINTS: [(&str, u64); 2] = [("p50", 500), ("p99", 990)];

/// One round: the base, the subject, the base again. Latencies in nanoseconds.
#[derive(Clone, Debug)]
pub struct Turn {
    before: Vec<u64>,
    subject: Vec<u64>,
    after: Vec<u64>,
}

/// The same requests in two situations.
#[derive(Clone, Debug)]
pub struct Contrast {
    /// Its name in the raw samples.
    pub key: String,
    /// Its name for people.
    pub title: String,
    /// What the subject is.
    pub subject: &'static str,
    /// What it is held against.
    pub base: &'static str,
    /// What the ratio of the p50 and of the p99 must reach.
    pub goals: [Goal; 2],
    /// At least one.
    pub turns: Vec<Turn>,
}

/// One point of a contrast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// Its name.
    pub point: &'static str,
    /// What the ratio must reach.
    pub goal: Goal,
    /// Of the subject's samples of all rounds, in microseconds.
    pub subject_us: f64,
    /// Of the base's samples of all rounds, before and after, in microseconds.
    pub base_us: f64,
    /// The least and the greatest ratio of a single round.
    pub rounds: (f64, f64),
    /// The base to itself: the samples after the subject to those before, of all rounds.
    pub itself: f64,
}

/// One slice of a round.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The round's number, from 1.
    pub round: usize,
    /// Which of its slices.
    pub name: &'static str,
    /// How many samples it has.
    pub answers: usize,
    /// Their points, in microseconds.
    pub points: Vec<(&'static str, f64)>,
}

impl Turn {
    /// # Errors
    /// When a slice holds no sample.
    pub fn new(before: Vec<u64>, subject: Vec<u64>, after: Vec<u64>) -> Result<Turn> {
        let lengths = [before.len(), subject.len(), after.len()];
        ensure!(
            !lengths.contains(&0),
            "a slice holds no answer; there are {lengths:?} before, in and after it"
        );
        Ok(Turn {
            before,
            subject,
            after,
        })
    }

    fn slices(&self) -> [(&'static str, &[u64]); 3] {
        [
            ("base", &self.before),
            ("subject", &self.subject),
            ("base again", &self.after),
        ]
    }

    fn ratio(&self, per_mille: u64) -> f64 {
        let base = [&self.before, &self.after];
        pooled(&[&self.subject], per_mille) / pooled(&base.map(Vec::as_slice), per_mille)
    }
}

impl Contrast {
    /// Its points, pooled.
    pub fn compared(&self) -> Vec<Compared> {
        let goals = POINTS.into_iter().zip(self.goals);
        goals
            .map(|((point, per_mille), goal)| self.compare(point, per_mille, goal))
            .collect()
    }

    fn compare(&self, point: &'static str, per_mille: u64, goal: Goal) -> Compared {
        let all = |pick: fn(&Turn) -> &Vec<u64>| -> Vec<&[u64]> {
            self.turns
                .iter()
                .map(|turn| pick(turn).as_slice())
                .collect()
        };
        let (before, after) = (all(|turn| &turn.before), all(|turn| &turn.after));
        let base = [before.clone(), after.clone()].concat();
        let ratios = Sorted::new(self.turns.iter().map(|turn| turn.ratio(per_mille)))
            .expect("a contrast has a round");
        Compared {
            point,
            goal,
            subject_us: pooled(&all(|turn| &turn.subject), per_mille),
            base_us: pooled(&base, per_mille),
            rounds: (ratios.at(0), ratios.at(1_000)),
            itself: pooled(&after, per_mille) / pooled(&before, per_mille),
        }
    }

    /// Each slice of each round, in order.
    pub fn slices(&self) -> Vec<Line> {
        let rounds = self.turns.iter().enumerate();
        let slices = rounds.flat_map(|(at, turn)| turn.slices().map(|slice| (at + 1, slice)));
        let line = |(round, (name, ns)): (usize, (&'static str, &[u64]))| Line {
            round,
            name,
            answers: ns.len(),
            points: points(ns),
        };
        slices.map(line).collect()
    }

    /// Every sample, for machines.
    pub fn raw(&self) -> Value {
        let rounds = self.turns.iter().map(|turn| {
            let slices = turn.slices();
            let slices = slices.map(|(name, ns)| (name.to_owned(), json!(counts(ns))));
            Value::Object(slices.into_iter().collect())
        });
        json!({
            "unit": "ns",
            "subject": self.subject,
            "base": self.base,
            "rounds": rounds.collect::<Vec<_>>(),
        })
    }
}

impl Compared {
    /// The subject to the base, both pooled.
    pub fn ratio(&self) -> f64 {
        self.subject_us / self.base_us
    }

    /// Whether the ratio reaches its goal; `None` when it has none.
    pub fn is_met(&self) -> Option<bool> {
        self.goal.is_met_by(self.ratio())
    }
}

/// The percentile of all slices together, in microseconds.
fn pooled(slices: &[&[u64]], per_mille: u64) -> f64 {
    let all = slices.iter().copied().flatten();
    let sorted = Sorted::new(all.map(|ns| *ns as f64 / 1e3));
    sorted.map_or(f64::NAN, |sorted| sorted.at(per_mille))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(range: std::ops::RangeInclusive<u64>) -> Vec<u64> {
        range.map(|us| us * 1_000).collect()
    }

    fn contrast(turns: Vec<Turn>, goal: Goal) -> Contrast {
        Contrast {
            key: "k".into(),
            title: "t".into(),
            subject: "s",
            base: "b",
            goals: [Goal::Reported, goal],
            turns,
        }
    }

    #[test]
    fn percentiles_are_taken_of_all_rounds_together() {
        // One slow request in the first round is the p99 of that round, and not of both.
        let slow = Turn::new(us(1..=50), vec![9_000_000; 1], us(51..=100)).unwrap();
        let even = Turn::new(us(1..=50), us(1..=199), us(51..=100)).unwrap();
        let [p50, p99] = contrast(vec![slow, even], Goal::AtMost(2.0)).compared()[..] else {
            panic!("there are two points");
        };
        assert_eq!((p50.subject_us, p50.base_us), (100.0, 50.0));
        assert_eq!((p99.subject_us, p99.base_us), (198.0, 99.0));
        assert_eq!((p99.ratio(), p99.is_met()), (2.0, Some(true)));
        assert_eq!((p99.itself, p50.itself), (2.0, 3.0));
        assert_eq!(p99.rounds, (2.0, 9_000.0 / 99.0));
    }

    #[test]
    fn a_goal_is_one_of_the_ratio() {
        let turn = || Turn::new(us(1..=10), us(20..=30), us(1..=10)).unwrap();
        let met = |goal| contrast(vec![turn()], goal).compared()[1].is_met();
        assert_eq!(met(Goal::AtMost(3.0)), Some(true));
        assert_eq!(met(Goal::AtMost(2.9)), Some(false));
        assert_eq!(met(Goal::Reported), None);
    }

    #[test]
    fn a_slice_without_answers_is_refused_and_each_other_one_is_kept() {
        assert!(Turn::new(us(1..=3), Vec::new(), us(1..=3)).is_err());
        let turn = Turn::new(vec![1_000], vec![2_000, 2_000], vec![3_000]).unwrap();
        let contrast = contrast(vec![turn], Goal::Reported);
        let lines = contrast.slices();
        let shape = |line: &Line| (line.round, line.name, line.answers);
        let shapes: Vec<_> = lines.iter().map(shape).collect();
        assert_eq!(
            shapes,
            [(1, "base", 1), (1, "subject", 2), (1, "base again", 1)]
        );
        assert_eq!(contrast.raw()["rounds"][0]["subject"], json!([[2_008, 2]]));
    }
}
