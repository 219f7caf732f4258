//! Tests of a text of which an index holds the beginning, or the hash.
//!
//! Beside the exact test stands the same one of what is held, which the index answers. It lets
//! through whatever the exact one does: cutting texts keeps equal ones equal, and of two texts
//! the greater one does not become the lesser. A hash keeps equal ones equal, and no more.

use model::{Field, IndexKind, Table, Value};

use crate::dialect::Dialect;
use crate::key_parts::{KeyPart, key_parts};
use crate::names;
use crate::query::Test;

use super::writer::SqlWriter;

/// Writes the test, if an index that holds no whole values of the field can answer it.
pub(super) fn write(out: &mut SqlWriter, table: &Table, field: Field, test: &Test) -> bool {
    let mut held = held(out.dialect, table, field);
    if !finds_equal(test) {
        held.retain(|part| *part != KeyPart::Hash);
    }
    if held.is_empty() {
        return false;
    }
    let Field::Column(position) = field else {
        return false;
    };
    let Some(wanted) = TextTest::of(out, test) else {
        return false;
    };
    let subject = format!("t.{}", names::column(table.columns[position].number));
    out.push("(");
    for part in held {
        let cut = |text: &str| part.of(text);
        out.push(&wanted.of_beginnings(&cut(&subject), cut));
        out.push(" AND ");
    }
    out.push(&wanted.exactly(&subject, out.dialect));
    out.push(")");
    true
}

/// Whether the test is for the very values that it names, or for none.
fn finds_equal(test: &Test) -> bool {
    matches!(test, Test::In(_) | Test::IsNull)
}

/// What such indexes hold of the field, each kind of it once. In SQLite a unique index holds whole
/// values.
fn held(dialect: Dialect, table: &Table, field: Field) -> Vec<KeyPart> {
    let has_parts = |index: &&model::Index| {
        index.is_available()
            && match index.kind {
                IndexKind::Key => true,
                IndexKind::Unique => dialect == Dialect::Postgres,
                IndexKind::Fulltext => false,
            }
    };
    let mut held: Vec<KeyPart> = Vec::new();
    for index in table.indexes.iter().filter(has_parts) {
        if index.columns.iter().all(|part| part.field != field) {
            continue;
        }
        let parts = key_parts(table, index, dialect);
        let of_field = index.columns.iter().zip(parts);
        held.extend(of_field.filter_map(|(column, part)| {
            (column.field == field && part != KeyPart::Whole).then_some(part)
        }));
    }
    held.sort_unstable();
    held.dedup();
    held
}

/// What a test wants of a text; values as they stand in the statement.
enum TextTest {
    Null,
    One(String),
    OneOf(Vec<String>),
    /// An operator and a value for the lower bound and for the upper one.
    Between(Vec<(&'static str, String)>),
}

impl TextTest {
    fn of(out: &mut SqlWriter, test: &Test) -> Option<TextTest> {
        let mut bind = |value: &Value| {
            let parameter = out.parameter(value.clone());
            out.sign_of(parameter)
        };
        Some(match test {
            Test::IsNull => TextTest::Null,
            Test::In(values) => match &values[..] {
                [value] => TextTest::One(bind(value)),
                values => TextTest::OneOf(values.iter().map(bind).collect()),
            },
            Test::Less(high) => TextTest::Between(vec![(" < ", bind(high))]),
            Test::LessEqual(high) => TextTest::Between(vec![(" <= ", bind(high))]),
            Test::Greater(low) => TextTest::Between(vec![(" > ", bind(low))]),
            Test::GreaterEqual(low) => TextTest::Between(vec![(" >= ", bind(low))]),
            Test::Between(low, high) => {
                TextTest::Between(vec![(" >= ", bind(low)), (" <= ", bind(high))])
            }
            Test::StartsWith(start) => {
                let mut bounds = vec![(" >= ", bind(&Value::Text(start.clone())))];
                let end = next_start(start).map(Value::Text);
                bounds.extend(end.map(|end| (" < ", bind(&end))));
                TextTest::Between(bounds)
            }
            _ => return None,
        })
    }

    /// In SQLite not with `=` of one value: it then takes that value for the column wherever the
    /// column stands beside it, and finds no index over the beginning any more.
    fn exactly(&self, text: &str, dialect: Dialect) -> String {
        match (self, dialect) {
            (TextTest::One(value), Dialect::Sqlite) => format!("{text} IS {value}"),
            (other, _) => other.compare(text, |operator| operator, str::to_owned),
        }
    }

    fn of_beginnings(&self, text: &str, cut: impl Fn(&str) -> String) -> String {
        // Of two texts that begin alike either may be the greater one.
        let or_equal = |operator| match operator {
            " < " => " <= ",
            " > " => " >= ",
            other => other,
        };
        self.compare(text, or_equal, cut)
    }

    fn compare(
        &self,
        text: &str,
        operator: impl Fn(&'static str) -> &'static str,
        cut: impl Fn(&str) -> String,
    ) -> String {
        match self {
            TextTest::Null => format!("{text} IS NULL"),
            TextTest::One(value) => format!("{text} = {}", cut(value)),
            TextTest::OneOf(values) => {
                let values: Vec<String> = values.iter().map(|value| cut(value)).collect();
                format!("{text} IN ({})", values.join(", "))
            }
            TextTest::Between(bounds) => {
                let bounds = bounds.iter();
                let bounds =
                    bounds.map(|(found, value)| format!("{text}{}{}", operator(found), cut(value)));
                bounds.collect::<Vec<String>>().join(" AND ")
            }
        }
    }
}

/// The least text greater than every text that starts with `start`; `None` when there is none.
pub(super) fn next_start(start: &str) -> Option<String> {
    let mut chars: Vec<char> = start.chars().collect();
    while let Some(last) = chars.pop() {
        // Surrogates are no characters, so the one after U+D7FF is U+E000.
        let next = match last {
            char::MAX => continue,
            '\u{d7ff}' => '\u{e000}',
            other => char::from_u32(other as u32 + 1).expect("neither end of a gap"),
        };
        chars.push(next);
        return Some(chars.into_iter().collect());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::next_start;

    #[test]
    fn the_next_start_is_the_least_text_above_all_that_start_so() {
        for (start, expected) in [
            ("", None),
            ("a", Some("b")),
            ("az", Some("a{")),
            ("\u{7f}", Some("\u{80}")),
            ("a\u{d7ff}", Some("a\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}\u{10ffff}", None),
        ] {
            assert_eq!(next_start(start).as_deref(), expected, "{start:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_text_starts_so_exactly_when_it_lies_in_the_range(start in ".{0,3}", text in ".{0,5}") {
            for text in [format!("{start}{text}"), text] {
                let above = text.as_str() >= start.as_str();
                let below = next_start(&start).is_none_or(|end| text < end);
                proptest::prop_assert_eq!(text.starts_with(&start), above && below);
            }
        }
    }
}
