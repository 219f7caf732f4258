//! The normal form of a query: equal bytes for queries that mean the same.
//!
//! Two queries with different meanings never share bytes: each part begins with what it is, and
//! whatever has a length says it first. The table is not part of it, but the numbers of its
//! columns are, so the form belongs to one table.

use model::{Direction, Field, Selection, SpanEnd, Table, Value};

use crate::canonical::{Canonical, canonical};
use crate::query::{Cursor, Filter, Frame, Query, Side, Test};
use crate::search::Search;
use crate::visibility::Visibility;

impl Query {
    /// Appends the normal form.
    ///
    /// The order of filters that must all hold, of alternatives, and of values of which any one
    /// will do has no meaning and leaves no trace; neither has repeating one.
    pub fn write_normal_form(&self, out: &mut Vec<u8>) {
        let form = Form { table: &self.table };
        form.write_filter(out, &self.filter);
        self.write_order(&form, out);
        out.extend(self.limit.to_be_bytes());
        out.extend(self.offset.to_be_bytes());
        write_cursor(out, self.cursor.as_ref());
        form.write_selection(out, &self.selection);
        self.write_view(out);
    }

    /// Appends the normal form of what the total depends on: filter, visibility, coordinates.
    pub fn write_total_form(&self, out: &mut Vec<u8>) {
        Form { table: &self.table }.write_filter(out, &self.filter);
        self.write_view(out);
    }

    /// Who looks, and through which coordinates.
    fn write_view(&self, out: &mut Vec<u8>) {
        write_visibility(out, &self.visibility);
        match &self.then {
            None => out.push(0),
            Some(then) => {
                out.push(1);
                write_visibility(out, &then.visibility);
                out.extend(then.mark.0.to_be_bytes());
                out.push(u8::from(then.is_there_now));
            }
        }
        match self.at {
            None => out.push(0),
            Some(at) => {
                out.push(1);
                out.extend(at.valid.0.to_be_bytes());
                out.extend(at.system.0.to_be_bytes());
            }
        }
        out.push(u8::from(self.shows_span));
        match self.frame {
            Frame::One => out.push(0),
            Frame::Due(now) => {
                out.push(1);
                out.extend(now.0.to_be_bytes());
            }
            Frame::Pieces(period) | Frame::Versions(period) => {
                out.push(if matches!(self.frame, Frame::Pieces(_)) {
                    2
                } else {
                    3
                });
                out.extend(period.from().0.to_be_bytes());
                out.extend(period.end().0.to_be_bytes());
            }
            Frame::Changes(valid, system) => {
                out.push(4);
                for end in [valid.from(), valid.end(), system.from(), system.end()] {
                    out.extend(end.0.to_be_bytes());
                }
            }
        }
    }

    fn write_order(&self, form: &Form<'_>, out: &mut Vec<u8>) {
        if self.random {
            return out.push(1);
        }
        out.push(0);
        let keys = self.total_order();
        write_length(out, keys.len());
        for key in keys {
            form.write_field(out, key.field);
            out.push(match key.direction {
                Direction::Asc => 0,
                Direction::Desc => 1,
            });
        }
    }
}

/// Writes what refers to columns.
struct Form<'a> {
    table: &'a Table,
}

impl Form<'_> {
    fn write_field(&self, out: &mut Vec<u8>, field: Field) {
        match field {
            Field::Id => out.push(0),
            Field::Sequence => out.push(1),
            Field::Created => out.push(2),
            Field::Updated => out.push(3),
            Field::Span(SpanEnd::ValidFrom) => out.push(5),
            Field::Span(SpanEnd::ValidTo) => out.push(6),
            Field::Span(SpanEnd::SystemFrom) => out.push(7),
            Field::Column(position) => {
                out.push(4);
                out.extend(self.table.columns[position].number.0.to_be_bytes());
            }
        }
    }

    fn write_filter(&self, out: &mut Vec<u8>, filter: &Filter) {
        let form = |branch: &Filter| {
            let mut form = Vec::new();
            self.write_filter(&mut form, branch);
            form
        };
        let (tag, forms) = match canonical(filter, form) {
            Canonical::Condition(field, test) => {
                out.push(2);
                self.write_field(out, field);
                return write_test(out, test);
            }
            Canonical::Single(form) => return out.extend(form),
            Canonical::All(forms) => (0, forms),
            Canonical::Any(forms) => (1, forms),
        };
        out.push(tag);
        write_length(out, forms.len());
        for form in forms {
            write_bytes(out, &form);
        }
    }

    fn write_selection(&self, out: &mut Vec<u8>, selection: &Selection) {
        let Selection::Some {
            columns,
            fields,
            permissions,
        } = selection
        else {
            return out.push(0);
        };
        out.push(1);
        let columns = columns.iter().map(|position| Field::Column(*position));
        let mut forms: Vec<Vec<u8>> = columns
            .chain(fields.iter().copied())
            .map(|field| {
                let mut form = Vec::new();
                self.write_field(&mut form, field);
                form
            })
            .collect();
        forms.sort_unstable();
        forms.dedup();
        write_length(out, forms.len());
        for form in forms {
            write_bytes(out, &form);
        }
        out.push(u8::from(*permissions));
    }
}

/// What tells tests apart in a form. The compiler gives each a number of its own: two with one
/// number would give two queries one key of the cache.
#[derive(Clone, Copy)]
#[repr(u8)]
enum TestNumber {
    In,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Between,
    NotBetween,
    IsNull,
    IsNotNull,
    StartsWith,
    NotStartsWith,
    EndsWith,
    NotEndsWith,
    HasPart,
    HasNoPart,
    HasAny,
    HasAll,
    HasNone,
    Finds,
    FindsNot,
    Matches,
    Longer,
}

fn write_test(out: &mut Vec<u8>, test: &Test) {
    match test {
        Test::In(values) => write_set(out, TestNumber::In, values),
        Test::NotEqual(value) => write_tagged(out, TestNumber::NotEqual, &[value]),
        Test::Less(value) => write_tagged(out, TestNumber::Less, &[value]),
        Test::LessEqual(value) => write_tagged(out, TestNumber::LessEqual, &[value]),
        Test::Greater(value) => write_tagged(out, TestNumber::Greater, &[value]),
        Test::GreaterEqual(value) => write_tagged(out, TestNumber::GreaterEqual, &[value]),
        Test::Between(low, high) => write_tagged(out, TestNumber::Between, &[low, high]),
        Test::NotBetween(low, high) => write_tagged(out, TestNumber::NotBetween, &[low, high]),
        Test::IsNull => out.push(TestNumber::IsNull as u8),
        Test::IsNotNull => out.push(TestNumber::IsNotNull as u8),
        Test::StartsWith(start) => write_text(out, TestNumber::StartsWith, start),
        Test::NotStartsWith(start) => write_text(out, TestNumber::NotStartsWith, start),
        Test::EndsWith(end) => write_text(out, TestNumber::EndsWith, end),
        Test::NotEndsWith(end) => write_text(out, TestNumber::NotEndsWith, end),
        Test::HasPart(parts) => write_texts(out, TestNumber::HasPart, parts),
        Test::HasNoPart(parts) => write_texts(out, TestNumber::HasNoPart, parts),
        Test::Finds(search) => write_search(out, TestNumber::Finds, search),
        Test::FindsNot(search) => write_search(out, TestNumber::FindsNot, search),
        Test::Matches(pattern) => write_text(out, TestNumber::Matches, pattern.as_str()),
        Test::HasAny(values) => write_set(out, TestNumber::HasAny, values),
        Test::HasAll(values) => write_set(out, TestNumber::HasAll, values),
        Test::HasNone(values) => write_set(out, TestNumber::HasNone, values),
        Test::Longer(chars) => {
            write_tagged(out, TestNumber::Longer, &[&Value::Int(i64::from(*chars))]);
        }
    }
}

fn write_search(out: &mut Vec<u8>, number: TestNumber, search: &Search) {
    let mut parts = Vec::new();
    search.write_normal_form(|part| parts.push(part.to_vec()));
    out.push(number as u8);
    write_length(out, parts.len());
    for part in parts {
        write_bytes(out, &part);
    }
}

fn write_tagged(out: &mut Vec<u8>, number: TestNumber, values: &[&Value]) {
    out.push(number as u8);
    for value in values {
        write_value(out, value);
    }
}

fn write_text(out: &mut Vec<u8>, number: TestNumber, text: &str) {
    out.push(number as u8);
    write_bytes(out, text.as_bytes());
}

fn write_texts(out: &mut Vec<u8>, number: TestNumber, texts: &[String]) {
    let forms = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    write_forms(out, number, forms);
}

fn write_set(out: &mut Vec<u8>, number: TestNumber, values: &[Value]) {
    let form = |value| {
        let mut form = Vec::new();
        write_value(&mut form, value);
        form
    };
    write_forms(out, number, values.iter().map(form).collect());
}

fn write_forms(out: &mut Vec<u8>, number: TestNumber, mut forms: Vec<Vec<u8>>) {
    forms.sort_unstable();
    forms.dedup();
    out.push(number as u8);
    write_length(out, forms.len());
    for form in forms {
        write_bytes(out, &form);
    }
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(0),
        Value::Bool(truth) => out.extend([1, u8::from(*truth)]),
        Value::Int(number) => {
            out.push(2);
            out.extend(number.to_be_bytes());
        }
        Value::Float(number) => {
            out.push(3);
            out.extend(number.to_bits().to_be_bytes());
        }
        Value::Text(text) => {
            out.push(4);
            write_bytes(out, text.as_bytes());
        }
        Value::Instant(instant) => {
            out.push(5);
            out.extend(instant.0.to_be_bytes());
        }
        Value::List(values) => {
            out.push(6);
            write_length(out, values.len());
            for value in values {
                write_value(out, value);
            }
        }
    }
}

fn write_cursor(out: &mut Vec<u8>, cursor: Option<&Cursor>) {
    match cursor {
        None => out.push(0),
        Some(cursor) => {
            out.push(match cursor.side {
                Side::After => 1,
                Side::Before => 2,
            });
            write_bytes(out, cursor.row.as_str().as_bytes());
            match cursor.version {
                None => out.push(0),
                Some(version) => {
                    out.push(1);
                    out.extend(version.valid_from.0.to_be_bytes());
                    out.extend(version.system_from.0.to_be_bytes());
                }
            }
        }
    }
}

fn write_visibility(out: &mut Vec<u8>, visibility: &Visibility) {
    match visibility {
        Visibility::Everything => out.push(0),
        Visibility::Granted(roles) => {
            out.push(1);
            write_length(out, roles.iter().len());
            for role in roles.iter() {
                write_bytes(out, role.as_str().as_bytes());
            }
        }
    }
}

fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn write_length(out: &mut Vec<u8>, length: usize) {
    out.extend((length as u64).to_be_bytes());
}

#[cfg(test)]
pub(crate) mod tests;
