//! Numbers of both kinds in one exact order.

use std::cmp::Ordering;

/// A number of a column. A float is finite and never negative zero, as [`crate::Value`] says.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// A 64-bit integer.
    Int(i64),
    /// A double.
    Float(f64),
}

/// First double above every 64-bit integer.
const BEYOND_INTS: f64 = 9_223_372_036_854_775_808.0;

impl Number {
    /// Compares by value, without rounding.
    fn compare(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Int(one), Number::Int(other)) => one.cmp(&other),
            (Number::Float(one), Number::Float(other)) => one.total_cmp(&other),
            (Number::Int(int), Number::Float(float)) => compare_mixed(int, float),
            (Number::Float(float), Number::Int(int)) => compare_mixed(int, float).reverse(),
        }
    }
}

fn compare_mixed(int: i64, float: f64) -> Ordering {
    if float >= BEYOND_INTS {
        Ordering::Less
    } else if float < -BEYOND_INTS {
        Ordering::Greater
    } else {
        // In this range cutting the fraction off is exact.
        let whole = float.trunc();
        int.cmp(&(whole as i64))
            .then_with(|| whole.total_cmp(&float))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Number) -> Ordering {
        self.compare(*other)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Number {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_doubles_stand_in_one_order() {
        let rising = [
            Number::Float(-1e300),
            Number::Int(i64::MIN),
            Number::Int(i64::MIN + 1),
            Number::Float(-1.5),
            Number::Int(-1),
            Number::Float(-0.5),
            Number::Int(0),
            Number::Float(0.5),
            Number::Float(9_007_199_254_740_992.0),
            Number::Int(9_007_199_254_740_993),
            Number::Int(i64::MAX),
            Number::Float(BEYOND_INTS),
        ];
        for (l, left) in rising.iter().enumerate() {
            for (r, right) in rising.iter().enumerate() {
                assert_eq!(left.cmp(right), l.cmp(&r), "{left:?} {right:?}");
            }
        }
        assert_eq!(Number::Int(i64::MIN), Number::Float(-BEYOND_INTS));
        assert_eq!(Number::Int(2), Number::Float(2.0));
    }
}
