//! Equalities of a filter: values of fields of which every row that matches has one.

use model::{Field, Value};

use crate::query::{Filter, Test};

/// A field, and one value it may have; no value is [`Value::Null`].
pub type Equality<'a> = (Field, &'a Value);

const NULL: Value = Value::Null;

/// Sets of equalities, each enough by itself: whatever satisfies the filter satisfies at least one
/// equality of each set. None when the filter has no such set.
///
/// Of what must hold all together each branch has its sets; of alternatives each one must have a
/// set, and all these together, the smallest of each, are one.
pub fn equalities(filter: &Filter) -> Vec<Vec<Equality<'_>>> {
    match filter {
        Filter::All(branches) => branches.iter().flat_map(equalities).collect(),
        Filter::Any(branches) => {
            let smallest = |branch| equalities(branch).into_iter().min_by_key(Vec::len);
            let sets: Option<Vec<_>> = branches.iter().map(smallest).collect();
            sets.map(|sets| sets.concat()).into_iter().collect()
        }
        Filter::Field(field, Test::In(values)) => {
            vec![values.iter().map(|value| (*field, value)).collect()]
        }
        Filter::Field(field, Test::IsNull) => vec![vec![(*field, &NULL)]],
        Filter::Field(..) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(column: usize, values: &[i64]) -> Filter {
        let values = values.iter().map(|value| Value::Int(*value)).collect();
        Filter::Field(Field::Column(column), Test::In(values))
    }

    fn above(column: usize) -> Filter {
        Filter::Field(Field::Column(column), Test::Greater(Value::Int(0)))
    }

    #[track_caller]
    fn check(filter: Filter, expected: &[&[(usize, i64)]]) {
        let found = equalities(&filter);
        let expected: Vec<Vec<(Field, Value)>> = expected
            .iter()
            .map(|set| {
                let pair =
                    |(column, value): &(usize, i64)| (Field::Column(*column), Value::Int(*value));
                set.iter().map(pair).collect()
            })
            .collect();
        let found: Vec<Vec<(Field, Value)>> = found
            .into_iter()
            .map(|set| set.into_iter().map(|(f, v)| (f, v.clone())).collect())
            .collect();
        assert_eq!(found, expected, "{filter:?}");
    }

    #[test]
    fn each_branch_that_must_hold_has_its_sets() {
        let filter = Filter::All(vec![is(0, &[1, 2]), above(1), is(2, &[3])]);
        check(filter, &[&[(0, 1), (0, 2)], &[(2, 3)]]);
        check(Filter::All(vec![]), &[]);
        check(above(0), &[]);
    }

    #[test]
    fn alternatives_have_one_if_each_has_one() {
        let both = Filter::All(vec![is(0, &[1, 2]), is(1, &[3])]);
        check(
            Filter::Any(vec![both.clone(), is(2, &[4])]),
            &[&[(1, 3), (2, 4)]],
        );
        check(Filter::Any(vec![both, above(2)]), &[]);
    }

    #[test]
    fn no_value_is_one_too() {
        let filter = Filter::Field(Field::Column(3), Test::IsNull);
        assert_eq!(
            equalities(&filter),
            [vec![(Field::Column(3), &Value::Null)]]
        );
    }
}
