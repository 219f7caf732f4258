//! Testing the rows that a database has let through.

use model::{Field, Value};

use crate::pattern::{Matcher, Pattern, Unmatched};
use crate::predicate::{Look, Seen, satisfies};
use crate::query::{Filter, Test};
use crate::undecided::Undecided;

/// What is left to be tested of each row, with what its expressions compile to.
pub struct RowTest {
    left: Undecided,
    matchers: Vec<(Pattern, Matcher)>,
}

impl RowTest {
    /// Compiles nothing yet.
    pub fn new(left: Undecided) -> RowTest {
        RowTest {
            left,
            matchers: Vec::new(),
        }
    }

    /// Whether a row with these values of [`Undecided::fields`] matches. `is_over` is asked every
    /// few kilobytes of what expressions look at.
    ///
    /// # Errors
    /// [`Unmatched`].
    pub fn passes(
        &mut self,
        values: &[Value],
        is_over: &mut dyn FnMut() -> bool,
    ) -> Result<bool, Unmatched> {
        let RowTest { left, matchers } = self;
        let row = TestedRow {
            fields: &left.fields,
            values,
        };
        row.passes(&left.filter, matchers, is_over)
    }
}

struct TestedRow<'a> {
    fields: &'a [Field],
    values: &'a [Value],
}

impl TestedRow<'_> {
    fn passes(
        &self,
        filter: &Filter,
        matchers: &mut Vec<(Pattern, Matcher)>,
        is_over: &mut dyn FnMut() -> bool,
    ) -> Result<bool, Unmatched> {
        match filter {
            Filter::All(branches) => {
                for branch in branches {
                    if !self.passes(branch, matchers, is_over)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Filter::Any(branches) => {
                for branch in branches {
                    if self.passes(branch, matchers, is_over)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Filter::Field(field, Test::Matches(pattern)) => match self.value(*field) {
                Seen::Text(text) => matcher(matchers, pattern).finds(text, is_over),
                _ => Ok(false),
            },
            Filter::Field(..) => Ok(satisfies(filter, &|field| self.value(field))),
        }
    }

    fn value(&self, field: Field) -> Seen<'_> {
        let position = self.fields.iter().position(|known| *known == field);
        let value = position.and_then(|position| self.values.get(position));
        value
            .expect("a field that is tested comes with the row")
            .look()
    }
}

fn matcher<'m>(matchers: &'m mut Vec<(Pattern, Matcher)>, pattern: &Pattern) -> &'m mut Matcher {
    let known = matchers.iter().position(|(known, _)| known == pattern);
    let position = known.unwrap_or_else(|| {
        let matcher = Matcher::parse(pattern.as_str()).expect("it was compiled before");
        matchers.push((pattern.clone(), matcher));
        matchers.len() - 1
    });
    &mut matchers[position].1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;
    use crate::search::Search;
    use crate::undecided::undecided;

    fn test(filter: Filter) -> RowTest {
        RowTest::new(undecided(&filter, Dialect::Postgres).unwrap())
    }

    #[test]
    fn a_row_passes_as_the_predicate_says() {
        let field = |position| Field::Column(position);
        let matches = |pattern: &str| Test::Matches(Pattern::parse(pattern).unwrap());
        let finds = |words: &str| Test::Finds(Search::parse(words).unwrap());
        let mut row = test(Filter::All(vec![
            Filter::Any(vec![
                Filter::Field(field(1), matches("^a.c$")),
                Filter::Field(field(2), Test::In(vec![Value::Int(7)])),
            ]),
            Filter::Field(field(1), finds("abc xyz")),
        ]));
        let text = |text: &str| Value::Text(text.to_owned());
        for (values, expected) in [
            ([text("abc"), Value::Null], true),
            ([text("abd"), Value::Null], false),
            ([text("abc d"), Value::Int(7)], true),
            ([Value::Null, Value::Int(7)], false),
        ] {
            let found = row.passes(&values, &mut || false);
            assert_eq!(found, Ok(expected), "{values:?}");
        }
    }

    #[test]
    fn a_test_ends_when_it_is_over() {
        let pattern = Pattern::parse("x$").unwrap();
        let mut test = test(Filter::Field(Field::Id, Test::Matches(pattern)));
        let long = [Value::Text("x".repeat(100_000) + "y")];
        let found = test.passes(&long, &mut || true);
        assert_eq!(found, Err(Unmatched::Over));
    }
}
