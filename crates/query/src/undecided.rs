//! The part of a filter that a database does not decide as [`crate::predicate`] does.
//!
//! PostgreSQL reads words and regular expressions by a library of its own: its `~` knows other
//! classes, and its parser of texts cuts other words. So there a statement lets through a superset,
//! whose rows come with what has to be tested. SQLite calls our functions, and decides all.

use model::Field;

use crate::dialect::Dialect;
use crate::query::{Filter, Test};

/// What is left to be tested of each row that a statement gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Undecided {
    /// It must hold as well.
    pub filter: Filter,
    /// The fields that it looks at, each once: further columns of the statement, in this order.
    pub fields: Vec<Field>,
}

/// What is left of a filter, if the database does not decide all of it.
pub fn undecided(filter: &Filter, dialect: Dialect) -> Option<Undecided> {
    if dialect == Dialect::Sqlite || !is_undecided(filter) {
        return None;
    }
    let mut branches = Vec::new();
    collect(filter, &mut branches);
    let mut fields = Vec::new();
    for branch in &branches {
        collect_fields(branch, &mut fields);
    }
    Some(Undecided {
        filter: Filter::All(branches),
        fields,
    })
}

fn is_undecided(filter: &Filter) -> bool {
    match filter {
        Filter::All(branches) | Filter::Any(branches) => branches.iter().any(is_undecided),
        Filter::Field(_, test) => is_undecided_test(test),
    }
}

/// Without a word nothing is found, wherever it is looked for.
pub(crate) fn is_undecided_test(test: &Test) -> bool {
    match test {
        Test::Finds(search) | Test::FindsNot(search) => !search.is_empty(),
        Test::Matches(_) => true,
        _ => false,
    }
}

/// The branches that must all hold, and of which something is left.
fn collect(filter: &Filter, branches: &mut Vec<Filter>) {
    match filter {
        Filter::All(inner) => inner.iter().for_each(|branch| collect(branch, branches)),
        other if is_undecided(other) => branches.push(other.clone()),
        _ => {}
    }
}

fn collect_fields(filter: &Filter, fields: &mut Vec<Field>) {
    match filter {
        Filter::All(branches) | Filter::Any(branches) => {
            for branch in branches {
                collect_fields(branch, fields);
            }
        }
        Filter::Field(field, _) if fields.contains(field) => {}
        Filter::Field(field, _) => fields.push(*field),
    }
}

#[cfg(test)]
mod tests {
    use model::Value;

    use super::*;
    use crate::pattern::Pattern;
    use crate::search::Search;

    #[test]
    fn undecided_are_the_branches_with_words_or_expressions() {
        let column = |position| Field::Column(position);
        let is = |position| Filter::Field(column(position), Test::In(vec![Value::Int(1)]));
        let search = |text: &str| Search::parse(text).unwrap();
        let finds = |text| Filter::Field(column(7), Test::Finds(search(text)));
        let pattern = Pattern::parse("a.c").unwrap();
        let matches = Filter::Field(column(8), Test::Matches(pattern));
        let either = Filter::Any(vec![matches.clone(), is(2), is(8)]);
        let left = |filter: &Filter| undecided(filter, Dialect::Postgres);
        assert_eq!(left(&Filter::All(vec![is(1), finds("  ")])), None);
        let all = vec![is(1), Filter::All(vec![either.clone(), finds("a b")])];
        let all = Filter::All(all);
        assert_eq!(undecided(&all, Dialect::Sqlite), None);
        let expected = Undecided {
            filter: Filter::All(vec![either, finds("a b")]),
            fields: vec![column(8), column(2), column(7)],
        };
        assert_eq!(left(&all), Some(expected));
    }
}
