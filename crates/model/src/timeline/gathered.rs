//! The values that are there at one instant, and what is computed of them.

use std::collections::BTreeMap;

use super::{Aggregate, Number, Total};

/// Values on their way to an aggregate. They may come and go in any order: the result depends on
/// which are there, and on nothing else. So an aggregate at one instant, a step of a timeline and
/// the same read on another node agree to the last bit.
#[derive(Clone, Debug)]
pub struct Gathered {
    aggregate: Aggregate,
    count: u64,
    float_count: u64,
    // 2^64 integers of 64 bits fit.
    ints: i128,
    floats: Total,
    /// How often each value is there; kept for the least and the greatest one only.
    values: BTreeMap<Number, u64>,
}

impl Gathered {
    /// Nothing yet.
    pub fn new(aggregate: Aggregate) -> Gathered {
        Gathered {
            aggregate,
            count: 0,
            float_count: 0,
            ints: 0,
            floats: Total::default(),
            values: BTreeMap::new(),
        }
    }

    /// A value comes.
    pub fn add(&mut self, number: Number) {
        self.count += 1;
        match (self.aggregate, number) {
            (Aggregate::Count, _) => {}
            (Aggregate::Min | Aggregate::Max, _) => *self.values.entry(number).or_insert(0) += 1,
            (Aggregate::Sum | Aggregate::Avg, Number::Int(int)) => self.ints += i128::from(int),
            (Aggregate::Sum | Aggregate::Avg, Number::Float(float)) => {
                self.float_count += 1;
                self.floats.add_float(float);
            }
        }
    }

    /// A value that has come goes.
    ///
    /// # Panics
    /// If there is none left that could go.
    pub fn remove(&mut self, number: Number) {
        assert!(self.count > 0, "only a value that came can go");
        self.count -= 1;
        match (self.aggregate, number) {
            (Aggregate::Count, _) => {}
            (Aggregate::Min | Aggregate::Max, _) => {
                let there = self.values.get_mut(&number);
                let there = there.expect("only a value that came can go");
                *there -= 1;
                if *there == 0 {
                    self.values.remove(&number);
                }
            }
            (Aggregate::Sum | Aggregate::Avg, Number::Int(int)) => self.ints -= i128::from(int),
            (Aggregate::Sum | Aggregate::Avg, Number::Float(float)) => {
                self.float_count -= 1;
                self.floats.remove_float(float);
            }
        }
    }

    /// The aggregate of the values that are there; `None` of none, but a count is 0. A sum of
    /// integers is an integer, unless it needs more than 64 bits: then it is the nearest double.
    /// A double may be infinite if the sum lies beyond the doubles.
    pub fn value(&self) -> Option<Number> {
        if self.aggregate == Aggregate::Count {
            return Some(Number::Int(self.count as i64));
        }
        if self.count == 0 {
            return None;
        }
        match self.aggregate {
            Aggregate::Count => unreachable!("answered above"),
            Aggregate::Min => self.values.keys().next().copied(),
            Aggregate::Max => self.values.keys().next_back().copied(),
            Aggregate::Sum => Some(match i64::try_from(self.ints) {
                Ok(sum) if self.float_count == 0 => Number::Int(sum),
                _ => Number::Float(self.sum()),
            }),
            Aggregate::Avg => Some(Number::Float(self.sum() / self.count as f64)),
        }
    }

    fn sum(&self) -> f64 {
        let mut sum = self.floats.clone();
        sum.add_int(self.ints);
        sum.to_float()
    }
}
