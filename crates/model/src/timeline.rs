//! An aggregate over many rows as a step function of valid time.

use crate::period::Period;
use crate::time::Timestamp;

mod gathered;
mod number;
mod total;

pub use gathered::Gathered;
pub use number::Number;
pub use total::Total;

/// What is computed of the values that are there at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aggregate {
    /// How many there are.
    Count,
    /// Their sum.
    Sum,
    /// The least one.
    Min,
    /// The greatest one.
    Max,
    /// Their sum by their number.
    Avg,
}

impl Aggregate {
    /// All of them.
    pub const ALL: [Aggregate; 5] = [
        Aggregate::Count,
        Aggregate::Sum,
        Aggregate::Min,
        Aggregate::Max,
        Aggregate::Avg,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Aggregate::Count => "count",
            Aggregate::Sum => "sum",
            Aggregate::Min => "min",
            Aggregate::Max => "max",
            Aggregate::Avg => "avg",
        }
    }

    /// The aggregate of this name.
    pub fn named(name: &str) -> Option<Aggregate> {
        Self::ALL
            .into_iter()
            .find(|aggregate| aggregate.as_str() == name)
    }
}

/// One step: the aggregate has this value at each instant of the period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Over which valid period.
    pub valid: Period,
    /// The value; `None` where there is nothing to compute it of. A count is 0 there.
    pub value: Option<Number>,
}

/// The steps that cover `period` from end to end, equal neighbours joined, of values that are
/// there over the given valid periods: one for each piece that has a value. To count rows, any
/// number stands for a row.
///
/// Takes time in the number of values by its logarithm.
pub fn timeline(
    aggregate: Aggregate,
    period: &Period,
    values: impl IntoIterator<Item = (Period, Number)>,
) -> Vec<Step> {
    let turns = turns(period, values);
    let mut steps: Vec<Step> = Vec::new();
    let mut gathered = Gathered::new(aggregate);
    let mut turns = turns.into_iter().peekable();
    let mut from = period.from();
    while from < period.end() {
        while let Some(turn) = turns.next_if(|turn| turn.at <= from) {
            if turn.enters {
                gathered.add(turn.number);
            } else {
                gathered.remove(turn.number);
            }
        }
        let end = turns.peek().map_or(period.end(), |turn| turn.at);
        let valid = Period::spanning(from, end).expect("turns at or before `from` are taken");
        let value = gathered.value();
        match steps.last_mut() {
            Some(last) if last.value == value => {
                last.valid = last.valid.extend(&valid).expect("steps touch");
            }
            _ => steps.push(Step { valid, value }),
        }
        from = end;
    }
    steps
}

/// A value comes or goes.
struct NumberTurn {
    at: Timestamp,
    enters: bool,
    number: Number,
}

/// Every coming and going inside the period, in the order of time.
fn turns(period: &Period, values: impl IntoIterator<Item = (Period, Number)>) -> Vec<NumberTurn> {
    let mut turns = Vec::new();
    for (valid, number) in values {
        let Some(valid) = valid.intersect(period) else {
            continue;
        };
        let mut turn = |at, enters| turns.push(NumberTurn { at, enters, number });
        turn(valid.from(), true);
        if valid.end() < period.end() {
            turn(valid.end(), false);
        }
    }
    turns.sort_by_key(|turn| turn.at);
    turns
}

#[cfg(test)]
mod tests;
