//! Other times than now: what a question names of them, and where the judge looks for the answer.

use model::{Coordinates, Mark, Period, Timestamp};
use query::{Frame, Query};

use super::chance::Chance;

/// Far beyond any instant of a run, in microseconds.
const YEAR_US: i64 = 365 * 24 * 3_600 * 1_000_000;

/// The times that a question names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// As known then; `None` is when the read begins.
    pub as_of: Option<Mark>,
    valid: Valid,
    versions: bool,
    /// The period in which versions began or ceased to be known.
    changed: Option<Period>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Valid {
    Unsaid,
    At(Timestamp),
    Between(Period),
}

impl Times {
    /// Times around those that commits took, and around now.
    pub fn draw(chance: &mut Chance, marks: &[Mark], now: Timestamp) -> Times {
        let as_of = match chance.below(12) {
            0..4 => None,
            4 => Some(Mark(now.0)),
            5 => Some(Mark(now.0 + YEAR_US)),
            6 => Some(Mark(chance.pick(marks).0 - 1)),
            7 => Some(chance.pick(marks).next()),
            _ => Some(*chance.pick(marks)),
        };
        let valid = match chance.below(8) {
            0..4 => Valid::Unsaid,
            4 | 5 => Valid::At(instant(chance, marks, now)),
            _ => between(instant(chance, marks, now), instant(chance, marks, now)),
        };
        let versions = chance.one_in(5);
        let says_nothing = as_of.is_none() && valid == Valid::Unsaid && !versions;
        Times {
            as_of,
            valid: if says_nothing { Valid::At(now) } else { valid },
            versions,
            changed: None,
        }
    }

    /// The same, sometimes only of what changed in a period.
    pub fn or_changes(self, chance: &mut Chance, marks: &[Mark], now: Timestamp) -> Times {
        let changed = match between(instant(chance, marks, now), instant(chance, marks, now)) {
            Valid::Between(period) if chance.one_in(3) => Some(period),
            _ => None,
        };
        Times { changed, ..self }
    }

    /// The same, as known at this mark.
    pub fn known_at(self, mark: Mark) -> Times {
        Times {
            as_of: Some(mark),
            ..self
        }
    }

    /// Whether it names a mark that no commit can give before the run is over.
    pub fn is_future(self, now: Timestamp) -> bool {
        self.as_of.is_some_and(|mark| mark.0 > now.0 + YEAR_US / 2)
    }

    /// Whether an answer may show a row more than once.
    pub fn is_wide(self) -> bool {
        self.versions || self.changed.is_some() || matches!(self.valid, Valid::Between(_))
    }

    /// The earliest mark whose knowledge an answer as known at `mark` shows, of a table that keeps
    /// its past from `line` on.
    pub fn looks_back_to(self, mark: Mark, line: Timestamp) -> Mark {
        match (self.changed, self.versions) {
            (Some(period), _) => mark.min(Mark(period.from().0)),
            (None, true) => Mark(line.0),
            (None, false) => mark,
        }
    }

    /// As queries.
    pub fn texts(self) -> Vec<String> {
        let call = |method: &str, values: String| {
            Some(format!(r#"{{"method":"{method}","values":[{values}]}}"#))
        };
        let as_of = self.as_of.and_then(|mark| call("asOf", mark.0.to_string()));
        let valid = match self.valid {
            Valid::Unsaid => None,
            Valid::At(at) => call("validAt", at.0.to_string()),
            Valid::Between(period) => {
                let to = period.to().map_or("null".to_owned(), |to| to.0.to_string());
                call("validBetween", format!("{},{to}", period.from().0))
            }
        };
        let period = |period: Period| {
            let to = period.to().map_or("null".to_owned(), |to| to.0.to_string());
            format!("{},{to}", period.from().0)
        };
        let changed = self.changed.map(period);
        let changed = changed.and_then(|period| call("systemBetween", period));
        let versions = self.versions.then(|| r#"{"method":"versions"}"#.to_owned());
        let said = [as_of, valid, changed, versions];
        said.into_iter().flatten().collect()
    }

    /// Lets the query look there, as known at `mark`.
    pub fn look_through(self, query: &mut Query, mark: Mark) {
        let (valid, period) = match self.valid {
            Valid::Unsaid => (mark.timestamp(), Period::ALWAYS),
            Valid::At(at) => (at, moment(at)),
            Valid::Between(period) => (period.from(), period),
        };
        query.frame = match (self.changed, self.versions, self.valid) {
            (Some(changed), ..) => Frame::Changes(period, changed),
            (None, true, _) => Frame::Versions(period),
            (None, false, Valid::Between(_)) => Frame::Pieces(period),
            (None, false, _) => Frame::One,
        };
        query.at = Some(Coordinates {
            valid,
            system: mark,
        });
        query.shows_span = true;
    }
}

/// Nothing but this instant.
fn moment(at: Timestamp) -> Period {
    Period::new(at, Some(Timestamp(at.0 + 1))).expect("it holds the instant")
}

fn between(one: Timestamp, other: Timestamp) -> Valid {
    let (from, to) = (one.min(other), one.max(other));
    let to = (from < to).then_some(to);
    Period::new(from, to).map_or(Valid::Unsaid, Valid::Between)
}

/// Near commits, and near the boundaries that are drawn for rows.
fn instant(chance: &mut Chance, marks: &[Mark], now: Timestamp) -> Timestamp {
    let by_ms = chance.weighed(&[(3, 0), (2, 1), (2, 2), (2, 300), (1, -1), (1, -2_000)]);
    let near = if chance.one_in(2) {
        now
    } else {
        chance.pick(marks).timestamp()
    };
    Timestamp(near.0 + by_ms * 1_000)
}
