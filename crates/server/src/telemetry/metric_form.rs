//! What a metric is, before it is written in a format.

use engine::tally::Distribution;

/// Nanoseconds of a second.
pub(super) const SECOND_NS: f64 = 1e9;

/// How a value behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only rises, until the process ends.
    Counter,
    /// It rises and falls.
    Gauge,
    /// How many values lie below which bounds.
    Histogram,
}

impl Kind {
    /// As the text formats call it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric, with its values by labels.
#[derive(Clone, Debug)]
pub struct Metric {
    /// As it is asked for, `_total` included.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// The labels that tell its values apart.
    pub labels: &'static [&'static str],
    /// What it is, as a sentence without its full stop.
    pub help: &'static str,
    /// A value for each combination of labels that occurs, as many as there are labels.
    pub samples: Vec<(Vec<String>, Value)>,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// A measure.
    Real(f64),
    /// Times, in nanoseconds; shown in seconds.
    Times(Distribution),
    /// Numbers of things.
    Sizes(Distribution),
}

/// A metric without labels.
pub(super) fn plain(name: &'static str, kind: Kind, help: &'static str, value: Value) -> Metric {
    Metric {
        name,
        kind,
        labels: &[],
        help,
        samples: vec![(Vec::new(), value)],
    }
}

pub(super) fn counter(name: &'static str, help: &'static str, value: u64) -> Metric {
    plain(name, Kind::Counter, help, Value::Whole(value))
}

pub(super) fn gauge(name: &'static str, help: &'static str, value: u64) -> Metric {
    plain(name, Kind::Gauge, help, Value::Whole(value))
}
