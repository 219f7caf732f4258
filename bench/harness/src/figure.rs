//! One figure: what was measured in turns with its floor, and what it is held against.

pub use measure::costs::PROCESSOR;
use measure::percentile::Sorted;
use serde_json::{Value, json};

/// What a figure must reach. Of a figure with a floor it is the ratio to the floor that must.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// No less.
    AtLeast(f64),
    /// No more.
    AtMost(f64),
    /// It is reported, and compared with nothing.
    Reported,
}

/// One slice of one round.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// What is compared, in the figure's unit.
    pub value: f64,
    /// What else was seen, by name.
    pub notes: Vec<(&'static str, f64)>,
    /// Single latencies, where the client took them, in nanoseconds.
    pub samples_ns: Vec<u64>,
}

/// The subject, its floor, and the subject again.
#[derive(Clone, Debug)]
pub struct Round {
    /// Before the floor.
    pub first: Slice,
    /// Not there where nothing can be one.
    pub floor: Option<Slice>,
    /// After the floor.
    pub second: Option<Slice>,
}

/// One figure.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its name in the raw samples.
    pub key: String,
    /// Its name for people.
    pub title: String,
    /// The unit of its values.
    pub unit: &'static str,
    /// What it is held against.
    pub goal: Goal,
    /// What the floor is; empty without one.
    pub floor: &'static str,
    /// At least one.
    pub rounds: Vec<Round>,
}

/// The median of all rounds, with the least and the greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
}

impl Slice {
    /// A value and nothing else.
    pub fn of(value: f64) -> Slice {
        Slice::noted(value, Vec::new())
    }

    /// A value, and what else was seen.
    pub fn noted(value: f64, notes: Vec<(&'static str, f64)>) -> Slice {
        Slice {
            value,
            notes,
            samples_ns: Vec::new(),
        }
    }

    /// A slice whose value is the median of its latencies, in microseconds.
    pub fn of_latencies(samples_ns: Vec<u64>) -> Slice {
        let mut slice = Slice {
            notes: points(&samples_ns),
            samples_ns,
            ..Slice::default()
        };
        slice.value = slice.notes.first().map_or(f64::NAN, |(_, p50)| *p50);
        slice
    }

    /// Processor time per operation in microseconds, where it was taken.
    pub fn processor_us(&self) -> Option<f64> {
        self.note(PROCESSOR)
    }

    fn note(&self, wanted: &str) -> Option<f64> {
        let note = self.notes.iter().find(|(name, _)| *name == wanted);
        note.map(|(_, value)| *value)
    }
}

/// The points of latencies that reports show, in microseconds; none without samples.
pub fn points(samples_ns: &[u64]) -> Vec<(&'static str, f64)> {
    let Some(sorted) = Sorted::new(samples_ns.iter().map(|ns| *ns as f64 / 1e3)) else {
        return Vec::new();
    };
    let points = [
        ("p50 µs", 500),
        ("p90 µs", 900),
        ("p99 µs", 990),
        ("max µs", 1_000),
    ];
    points.map(|(name, at)| (name, sorted.at(at))).to_vec()
}

impl Spread {
    fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let sorted = Sorted::new(values)?;
        let (least, greatest) = (sorted.at(0), sorted.at(1_000));
        Some(Spread {
            median: sorted.midpoint(),
            least,
            greatest,
        })
    }
}

impl Round {
    /// The subject, its floor, and the subject again.
    pub fn of(first: Slice, floor: Slice, second: Slice) -> Round {
        Round {
            first,
            floor: Some(floor),
            second: Some(second),
        }
    }

    /// A slice that has no floor.
    pub fn alone(first: Slice) -> Round {
        Round {
            first,
            floor: None,
            second: None,
        }
    }

    /// The subject's value: the mean of both slices, in the middle of which the floor stands, so
    /// that a machine that drifts evenly takes nothing from the ratio.
    fn subject(&self) -> f64 {
        match &self.second {
            Some(second) => f64::midpoint(self.first.value, second.value),
            None => self.first.value,
        }
    }
}

impl Goal {
    /// Whether `value` reaches it; `None` when nothing is to be reached.
    pub fn is_met_by(self, value: f64) -> Option<bool> {
        match self {
            Goal::AtLeast(least) => Some(value >= least),
            Goal::AtMost(most) => Some(value <= most),
            Goal::Reported => None,
        }
    }
}

impl Figure {
    /// A figure without a floor, measured once a round.
    pub fn plain(
        key: impl Into<String>,
        title: impl Into<String>,
        unit: &'static str,
        goal: Goal,
        values: Vec<f64>,
    ) -> Figure {
        let round = |value| Round::alone(Slice::of(value));
        Figure {
            key: key.into(),
            title: title.into(),
            unit,
            goal,
            floor: "",
            rounds: values.into_iter().map(round).collect(),
        }
    }

    /// What was measured.
    pub fn measured(&self) -> Spread {
        Spread::of(self.rounds.iter().map(Round::subject)).expect("a figure has a round")
    }

    /// The floor's own values.
    pub fn floors(&self) -> Option<Spread> {
        Spread::of(
            self.rounds
                .iter()
                .filter_map(|round| Some(round.floor.as_ref()?.value)),
        )
    }

    /// The subject to the floor of the same round.
    pub fn ratio(&self) -> Option<Spread> {
        let ratio = |round: &Round| Some(round.subject() / round.floor.as_ref()?.value);
        Spread::of(self.rounds.iter().filter_map(ratio))
    }

    /// Processor time per operation of the subject and of its floor, in microseconds; `None`
    /// where it was not taken of both.
    pub fn processor(&self) -> Option<(f64, f64)> {
        let [subject, floor] = self.noted(PROCESSOR);
        Some((subject?, floor?))
    }

    /// The medians of a note of the subject and of its floor.
    pub fn noted(&self, name: &str) -> [Option<f64>; 2] {
        let subjects = self
            .rounds
            .iter()
            .flat_map(|round| [Some(&round.first), round.second.as_ref()]);
        let floors = self.rounds.iter().map(|round| round.floor.as_ref());
        let subjects = Spread::of(subjects.filter_map(|slice| slice?.note(name)));
        let floors = Spread::of(floors.filter_map(|slice| slice?.note(name)));
        [subjects, floors].map(|spread| Some(spread?.median))
    }

    /// The same rounds, with processor time per operation in place of the values; `None` where
    /// a slice lacks it.
    pub fn by_processor(&self, goal: Goal) -> Option<Figure> {
        let cost = |slice: &Slice| Some(Slice::of(slice.processor_us()?));
        let round = |round: &Round| {
            Some(Round {
                first: cost(&round.first)?,
                floor: round
                    .floor
                    .as_ref()
                    .map_or(Some(None), |floor| cost(floor).map(Some))?,
                second: round
                    .second
                    .as_ref()
                    .map_or(Some(None), |slice| cost(slice).map(Some))?,
            })
        };
        Some(Figure {
            key: format!("{}_cpu", self.key),
            title: format!("{}: CPU of the server", self.title),
            unit: "µs/request",
            goal,
            floor: self.floor,
            rounds: self.rounds.iter().map(round).collect::<Option<_>>()?,
        })
    }

    /// The subject to itself: the second slice to the first. Ratios that differ from 1 by no
    /// more are noise.
    pub fn itself(&self) -> Option<Spread> {
        let ratio = |round: &Round| Some(round.second.as_ref()?.value / round.first.value);
        Spread::of(self.rounds.iter().filter_map(ratio))
    }

    /// Whether it reaches its goal; `None` when it has none.
    pub fn is_met(&self) -> Option<bool> {
        let judged = self.ratio().unwrap_or_else(|| self.measured()).median;
        self.goal.is_met_by(judged)
    }

    /// Everything measured, for machines.
    pub fn raw(&self) -> Value {
        let rounds = self.rounds.iter().map(|round| {
            json!({
                "first": raw_slice(&round.first),
                "floor": round.floor.as_ref().map(raw_slice),
                "second": round.second.as_ref().map(raw_slice),
            })
        });
        json!({ "unit": self.unit, "rounds": rounds.collect::<Vec<_>>() })
    }
}

fn raw_slice(slice: &Slice) -> Value {
    let notes: serde_json::Map<String, Value> = slice
        .notes
        .iter()
        .map(|(name, value)| ((*name).to_owned(), json!(value)))
        .collect();
    let mut raw = json!({ "value": slice.value, "notes": notes });
    if !slice.samples_ns.is_empty() {
        raw["counts_ns"] = json!(counts(&slice.samples_ns));
    }
    raw
}

/// The samples as pairs of value and count. A value keeps its first seven binary digits, so it is
/// within 0.8 % of what was measured, and the list a small part of its size.
pub fn counts(samples_ns: &[u64]) -> Vec<(u64, u64)> {
    let mut counts = std::collections::BTreeMap::new();
    for sample in samples_ns {
        *counts.entry(seven_digits(*sample)).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

/// The middle of the values that begin with the same seven binary digits.
fn seven_digits(value: u64) -> u64 {
    let shift = value.checked_ilog2().unwrap_or(0).saturating_sub(6);
    (value >> shift << shift) + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(value: f64) -> Slice {
        Slice::of(value)
    }

    fn figure(goal: Goal, rounds: &[[f64; 3]]) -> Figure {
        let rounds = rounds
            .iter()
            .map(|[first, floor, second]| Round::of(slice(*first), slice(*floor), slice(*second)));
        Figure {
            key: "k".into(),
            title: "t".into(),
            unit: "u",
            goal,
            floor: "f",
            rounds: rounds.collect(),
        }
    }

    #[test]
    fn a_ratio_is_taken_within_each_round() {
        // The machine slows down by half from round to round; the ratio stays.
        let rounds = [[40.0, 100.0, 60.0], [20.0, 50.0, 30.0], [11.0, 25.0, 16.5]];
        let figure = figure(Goal::AtLeast(0.5), &rounds);
        let ratio = figure.ratio().unwrap();
        assert_eq!(
            (ratio.median, ratio.least, ratio.greatest),
            (0.5, 0.5, 0.55)
        );
        let spreads = [figure.itself(), Some(figure.measured()), figure.floors()];
        let medians = spreads.map(|spread| (spread.unwrap().median * 2.0) as u32);
        assert_eq!(medians, [3, 50, 100]);
    }

    #[test]
    fn a_goal_is_met_up_to_its_limit() {
        let rounds = [[2.0, 4.0, 2.0]];
        let met = |goal| figure(goal, &rounds).is_met();
        assert_eq!(met(Goal::AtLeast(0.5)), Some(true));
        assert_eq!(met(Goal::AtLeast(0.51)), Some(false));
        assert_eq!(met(Goal::AtMost(0.5)), Some(true));
        assert_eq!(met(Goal::AtMost(0.49)), Some(false));
        assert_eq!(met(Goal::Reported), None);
    }

    #[test]
    fn processor_time_may_be_judged_in_place_of_the_values() {
        let mut figure = figure(Goal::AtLeast(9.0), &[[1.0, 1.0, 1.0]]);
        assert!(figure.by_processor(Goal::Reported).is_none());
        let costly = |us| Slice {
            notes: vec![(PROCESSOR, us)],
            ..slice(1.0)
        };
        figure.rounds[0] = Round::of(costly(20.0), costly(20.0), costly(30.0));
        let judged = figure.by_processor(Goal::AtMost(1.3)).unwrap();
        assert_eq!(judged.key, "k_cpu");
        assert_eq!((judged.ratio().unwrap().median * 100.0) as u32, 125);
        assert_eq!(judged.is_met(), Some(true));
        figure.rounds[0].floor = None;
        assert!(
            figure
                .by_processor(Goal::Reported)
                .unwrap()
                .ratio()
                .is_none()
        );
    }

    #[test]
    fn without_a_floor_the_value_itself_is_judged() {
        let mut figure = figure(Goal::AtMost(40.0), &[[39.0, 1.0, 0.0]]);
        (figure.rounds[0].floor, figure.rounds[0].second) = (None, None);
        assert_eq!((figure.ratio(), figure.itself()), (None, None));
        assert_eq!(figure.is_met(), Some(true));
    }

    #[test]
    fn samples_are_counted_by_their_first_digits() {
        let samples = [0, 7, 127, 128, 129, 130, 50_000_000];
        let counted = [
            (0, 1),
            (7, 1),
            (127, 1),
            (129, 2),
            (131, 1),
            (50_069_504, 1),
        ];
        assert_eq!(counts(&samples), counted);
        for value in (1..2_000_000).step_by(777) {
            assert!(
                seven_digits(value).abs_diff(value) * 125 <= value,
                "{value}"
            );
        }
    }

    #[test]
    fn latencies_are_told_in_microseconds() {
        let slice = Slice::of_latencies((1..=100).map(|us| us * 1_000).collect());
        assert_eq!(
            [("", slice.value), slice.notes[2]],
            [("", 50.0), ("p99 µs", 99.0)]
        );
    }
}
