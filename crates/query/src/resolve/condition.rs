//! Filters: methods and values become tests of fields.

use model::calendar::parse_iso;
use model::{Field, Index, Json, Mark, SpanEnd, Storage, Table, Timestamp, Value};

use crate::ast::{Call, Method};
use crate::error::QueryError;
use crate::field;
use crate::instant::{instant, mark};
use crate::parse::echo;
use crate::pattern::Pattern;
use crate::query::{Filter, Test};
use crate::search::{Search, WORDS_MAX};

use super::{PATTERNS_MAX, TESTS_TOTAL_MAX, VALUES_MAX, VALUES_TOTAL_MAX, attribute, refuse};

/// Turns filter queries into filters, and counts the tests and values of all of them.
pub(super) struct Conditions<'a> {
    table: &'a Table,
    test_count: usize,
    value_count: usize,
    pattern_count: usize,
}

impl<'a> Conditions<'a> {
    pub(super) fn new(table: &'a Table) -> Conditions<'a> {
        Conditions {
            table,
            test_count: 0,
            value_count: 0,
            pattern_count: 0,
        }
    }

    pub(super) fn filter(&mut self, call: &Call) -> Result<Filter, QueryError> {
        match call.method {
            Method::Or => self.branches(call).map(Filter::Any),
            Method::And => self.branches(call).map(Filter::All),
            _ => self.test(call),
        }
    }

    fn branches(&mut self, call: &Call) -> Result<Vec<Filter>, QueryError> {
        let name = call.method.as_str();
        if let Some(other) = call.inner.iter().find(|inner| !inner.method.is_filter()) {
            return Err(refuse(format!(
                "`{name}` may only hold filter queries, and `{}` is none",
                other.method.as_str()
            )));
        }
        if call.inner.len() < 2 {
            return Err(refuse(format!("`{name}` needs at least two queries")));
        }
        call.inner.iter().map(|inner| self.filter(inner)).collect()
    }

    fn test(&mut self, call: &Call) -> Result<Filter, QueryError> {
        let name = attribute(call)?;
        let field = super::queried(self.table, name)?;
        if let Method::Search | Method::NotSearch = call.method {
            self.need_fulltext_index(name, field)?;
        }
        // Values are one test, whatever their number. Parts of a text are looked for one by one.
        let has_parts = matches!(
            call.method,
            Method::Contains | Method::ContainsAny | Method::ContainsAll | Method::NotContains
        );
        let is_single =
            !field::is_array(self.table, field) && field::relation(self.table, field).is_none();
        let tests = if has_parts && is_single {
            call.values.len().max(1)
        } else {
            1
        };
        self.count(name, call.values.len(), tests)?;
        if call.method == Method::Regex {
            self.count_pattern()?;
        }
        need_held_links(self.table, name, field, call.method)?;
        let subject = MethodField {
            name,
            method: call.method,
            storage: field::storage(self.table, field),
            field,
        };
        let is_relation = field::relation(self.table, field).is_some();
        let test = if is_relation {
            subject.link_test(&call.values, field::is_array(self.table, field))?
        } else if field::is_array(self.table, field) {
            subject.array_test(&call.values)?
        } else {
            subject.scalar_test(&call.values)?
        };
        Ok(Filter::Field(field, test))
    }

    /// Searching row by row would read the whole table each time.
    fn need_fulltext_index(&self, name: &str, field: Field) -> Result<(), QueryError> {
        let answers = |index: &Index| index.is_fulltext_of(field);
        if self.table.indexes.iter().any(answers) {
            return Ok(());
        }
        Err(refuse(format!(
            "Searching by attribute \"{name}\" requires a fulltext index of it alone"
        )))
    }

    fn count_pattern(&mut self) -> Result<(), QueryError> {
        self.pattern_count += 1;
        if self.pattern_count > PATTERNS_MAX {
            return Err(refuse(format!(
                "The queries of one request may hold at most {PATTERNS_MAX} regular expressions"
            )));
        }
        Ok(())
    }

    fn count(&mut self, name: &str, count: usize, tests: usize) -> Result<(), QueryError> {
        self.test_count += tests;
        if self.test_count > TESTS_TOTAL_MAX {
            return Err(refuse(format!(
                "The queries of one request may test attributes at most {TESTS_TOTAL_MAX} times; \
                 each part that a text is to contain is one"
            )));
        }
        if count > VALUES_MAX {
            return Err(refuse(format!(
                "Query on attribute \"{name}\" has greater than {VALUES_MAX} values: {count}"
            )));
        }
        self.value_count += count;
        if self.value_count > VALUES_TOTAL_MAX {
            return Err(refuse(format!(
                "The queries of one request may hold at most {VALUES_TOTAL_MAX} values"
            )));
        }
        Ok(())
    }
}

/// Links can be asked for where they are held, and only by what they lead to.
fn need_held_links(
    table: &Table,
    name: &str,
    field: Field,
    method: Method,
) -> Result<(), QueryError> {
    let Some(relation) = field::relation(table, field) else {
        return Ok(());
    };
    if !relation.holds_links() {
        return Err(refuse(format!(
            "Cannot filter by attribute \"{name}\", because its links are held by table \"{}\", \
             attribute \"{}\"",
            relation.related, relation.partner_key
        )));
    }
    let may = matches!(
        method,
        Method::Equal
            | Method::NotEqual
            | Method::IsNull
            | Method::IsNotNull
            | Method::Contains
            | Method::ContainsAny
            | Method::ContainsAll
            | Method::NotContains
    );
    if may {
        return Ok(());
    }
    Err(refuse(format!(
        "Cannot use `{}` on attribute \"{name}\", because it is a relationship",
        method.as_str()
    )))
}

/// One field under one method.
struct MethodField<'a> {
    name: &'a str,
    method: Method,
    storage: Storage,
    field: Field,
}

impl MethodField<'_> {
    fn scalar_test(&self, values: &[Json]) -> Result<Test, QueryError> {
        Ok(match self.method {
            Method::Equal => Test::In(self.at_least_one(values)?),
            Method::NotEqual => Test::NotEqual(self.one(values)?),
            Method::LessThan => Test::Less(self.one(values)?),
            Method::LessThanEqual => Test::LessEqual(self.one(values)?),
            Method::GreaterThan => Test::Greater(self.one(values)?),
            Method::GreaterThanEqual => Test::GreaterEqual(self.one(values)?),
            Method::Between => self
                .two(values)
                .map(|(low, high)| Test::Between(low, high))?,
            Method::NotBetween => self
                .two(values)
                .map(|(low, high)| Test::NotBetween(low, high))?,
            // No end is the end of time, which no client can name.
            Method::IsNull if self.is_end() => Test::In(vec![Value::Instant(Timestamp::END)]),
            Method::IsNotNull if self.is_end() => Test::Less(Value::Instant(Timestamp::END)),
            Method::IsNull => Test::IsNull,
            Method::IsNotNull => Test::IsNotNull,
            Method::StartsWith => Test::StartsWith(self.text(values)?),
            Method::NotStartsWith => Test::NotStartsWith(self.text(values)?),
            Method::EndsWith => Test::EndsWith(self.text(values)?),
            Method::NotEndsWith => Test::NotEndsWith(self.text(values)?),
            // On text the reference reads `containsAll` as any-of, too.
            Method::Contains | Method::ContainsAny | Method::ContainsAll => {
                Test::HasPart(self.texts(values)?)
            }
            Method::NotContains => Test::HasNoPart(self.texts(values)?),
            Method::Search => Test::Finds(self.search(values)?),
            Method::NotSearch => Test::FindsNot(self.search(values)?),
            Method::Regex => Test::Matches(self.pattern(values)?),
            // Told apart before; by another mistake of ours it is still a refusal.
            other => {
                let name = other.as_str();
                return Err(refuse(format!("`{name}` is no test of an attribute")));
            }
        })
    }

    fn is_end(&self) -> bool {
        self.field == Field::Span(SpanEnd::ValidTo)
    }

    /// A link is one id, never a part of one.
    fn link_test(&self, values: &[Json], is_list: bool) -> Result<Test, QueryError> {
        let method = match (self.method, is_list) {
            (Method::Contains | Method::ContainsAny, false) => Method::Equal,
            (Method::NotContains, false) => Method::NotEqual,
            (Method::Equal, true) => Method::Contains,
            (Method::NotEqual, true) => Method::NotContains,
            (method, _) => method,
        };
        let subject = MethodField { method, ..*self };
        match method {
            _ if is_list => subject.array_test(values),
            Method::ContainsAll => Ok(Test::In(vec![self.one(values)?])),
            _ => subject.scalar_test(values),
        }
    }

    fn array_test(&self, values: &[Json]) -> Result<Test, QueryError> {
        Ok(match self.method {
            Method::Contains | Method::ContainsAny => Test::HasAny(self.at_least_one(values)?),
            Method::ContainsAll => Test::HasAll(self.at_least_one(values)?),
            Method::NotContains => Test::HasNone(self.at_least_one(values)?),
            Method::IsNull => Test::IsNull,
            Method::IsNotNull => Test::IsNotNull,
            method => {
                return Err(refuse(format!(
                    "Cannot use `{}` on attribute \"{}\", because it is an array",
                    method.as_str(),
                    self.name
                )));
            }
        })
    }

    fn at_least_one(&self, values: &[Json]) -> Result<Vec<Value>, QueryError> {
        if values.is_empty() {
            return Err(refuse(format!(
                "`{}` on attribute \"{}\" needs at least one value",
                self.method.as_str(),
                self.name
            )));
        }
        values.iter().map(|json| self.value(json)).collect()
    }

    fn one(&self, values: &[Json]) -> Result<Value, QueryError> {
        match values {
            [json] => self.value(json),
            _ => Err(self.wrong_count("exactly one value", values.len())),
        }
    }

    fn two(&self, values: &[Json]) -> Result<(Value, Value), QueryError> {
        match values {
            [low, high] => Ok((self.value(low)?, self.value(high)?)),
            _ => Err(self.wrong_count("exactly two values", values.len())),
        }
    }

    fn text(&self, values: &[Json]) -> Result<String, QueryError> {
        self.needs_text("is not a string")?;
        self.one(values).map(into_text)
    }

    fn texts(&self, values: &[Json]) -> Result<Vec<String>, QueryError> {
        self.needs_text("is neither a string nor an array")?;
        let values = self.at_least_one(values)?;
        Ok(values.into_iter().map(into_text).collect())
    }

    fn search(&self, values: &[Json]) -> Result<Search, QueryError> {
        let text = self.text(values)?;
        Search::parse(&text).ok_or_else(|| {
            self.wrong_value(&format!("a search may have at most {WORDS_MAX} words"))
        })
    }

    fn pattern(&self, values: &[Json]) -> Result<Pattern, QueryError> {
        let text = self.text(values)?;
        Pattern::parse(&text)
            .map_err(|why| self.wrong_value(&format!("it is no regular expression: {why}")))
    }

    fn needs_text(&self, why: &str) -> Result<(), QueryError> {
        if self.storage == Storage::Text {
            return Ok(());
        }
        Err(refuse(format!(
            "Cannot use `{}` on attribute \"{}\", because it {why}",
            self.method.as_str(),
            self.name
        )))
    }

    fn wrong_count(&self, wanted: &str, got: usize) -> QueryError {
        refuse(format!(
            "`{}` on attribute \"{}\" needs {wanted}, got {got}",
            self.method.as_str(),
            self.name
        ))
    }

    /// `json` as the field stores it; no conversion that could change which rows match.
    fn value(&self, json: &Json) -> Result<Value, QueryError> {
        if let Field::Span(end) = self.field {
            return self.instant(end, json);
        }
        let value = match (self.storage, json) {
            (Storage::Text, Json::Text(text)) if text.contains('\0') => {
                return Err(self.wrong_value("text may not hold the character U+0000"));
            }
            (Storage::Text, Json::Text(text)) => Some(Value::Text(text.clone())),
            (Storage::Int, Json::Int(number)) => Some(Value::Int(*number)),
            // Answers carry `$sequence` as text, so it comes back as text.
            (Storage::Int, Json::Text(text)) if self.field == Field::Sequence => {
                text.parse().ok().map(Value::Int)
            }
            (Storage::Float, Json::Int(number)) => Some(Value::Float(*number as f64)),
            (Storage::Float, Json::Wide(number)) => Some(Value::Float(*number as f64)),
            // Adding zero makes negative zero zero, as it is stored.
            (Storage::Float, Json::Float(number)) => Some(Value::Float(number + 0.0)),
            (Storage::Bool, Json::Bool(truth)) => Some(Value::Bool(*truth)),
            (Storage::Instant, Json::Text(text)) => {
                parse_iso(text).map(|instant| Value::Instant(instant.cut_to_ms()))
            }
            _ => None,
        };
        value.ok_or_else(|| {
            self.wrong_value(&format!(
                "expected {}, got {}",
                self.expected(),
                self.shown(json)
            ))
        })
    }

    /// An instant with all its digits, in any form in which one is taken.
    fn instant(&self, end: SpanEnd, json: &Json) -> Result<Value, QueryError> {
        let read = match end {
            SpanEnd::ValidFrom | SpanEnd::ValidTo => instant(json),
            SpanEnd::SystemFrom => mark(json).map(Mark::timestamp),
        };
        read.map(Value::Instant)
            .map_err(|why| self.wrong_value(&why))
    }

    /// What was sent instead: of most values the kind says enough.
    fn shown(&self, json: &Json) -> String {
        match json {
            Json::Text(text) => format!("\"{}\"", echo(text)),
            number if self.storage == Storage::Int => number.shown_for_integer(),
            Json::Wide(number) => number.to_string(),
            other => other.kind().to_owned(),
        }
    }

    fn wrong_value(&self, why: &str) -> QueryError {
        refuse(format!(
            "Query value is invalid for attribute \"{}\": {why}",
            self.name
        ))
    }

    fn expected(&self) -> &'static str {
        match self.storage {
            Storage::Text => "a string",
            Storage::Int => "a 64-bit integer",
            Storage::Float => "a number",
            Storage::Bool => "true or false",
            Storage::Instant => "a date and time such as 2026-01-31T10:00:00Z",
        }
    }
}

fn into_text(value: Value) -> String {
    match value {
        Value::Text(text) => text,
        other => unreachable!("the field stores text, so {other:?} was refused"),
    }
}
