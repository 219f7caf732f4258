//! Filters as SQL. What a filter means must be the same in both dialects, and the same as the
//! list cache's predicate decides: text compares by bytes, null satisfies nothing but IS NULL.
//! Where a database cannot decide so, it lets through more ([`crate::undecided()`]).

use model::{Field, Index, Value};

use crate::dialect::Dialect;
use crate::names;
use crate::pattern::Pattern;
use crate::query::{Filter, Test};
use crate::search::Search;
use crate::undecided::is_undecided_test;

use super::beginning::{self, next_start};
use super::source::SelectSource;
use super::writer::{Clause, Parameter, SqlWriter};

/// Most branches of an OR for which SQLite may look for an index each. Beyond, and for a second
/// OR, planning takes longer than it saves.
const PLANNED_BRANCHES_MAX: usize = 16;

/// Writes a filter's branches as conditions of the statement.
pub(super) fn write_all(
    out: &mut SqlWriter,
    clause: &mut Clause,
    source: &SelectSource<'_>,
    filter: &Filter,
) {
    let mut branches = Vec::new();
    flatten(filter, &mut branches);
    let alternatives = branches
        .iter()
        .filter(|branch| matches!(branch, Filter::Any(_)));
    let is_only_one = alternatives.count() == 1;
    for branch in branches {
        clause.open(out);
        match branch {
            Filter::Any(branches) if is_only_one && branches.len() <= PLANNED_BRANCHES_MAX => {
                write_joined(out, source, branches, " OR ", "FALSE");
            }
            other => write(out, source, other),
        }
    }
}

/// The branches that must all hold, those of branches among them.
fn flatten<'a>(filter: &'a Filter, branches: &mut Vec<&'a Filter>) {
    match filter {
        Filter::All(inner) => inner.iter().for_each(|branch| flatten(branch, branches)),
        other => branches.push(other),
    }
}

fn write(out: &mut SqlWriter, source: &SelectSource<'_>, filter: &Filter) {
    match filter {
        Filter::All(branches) => write_joined(out, source, branches, " AND ", "TRUE"),
        Filter::Any(branches) => {
            write_joined(out, source, branches, " OR ", "FALSE");
            out.push(out.dialect.unplanned());
        }
        Filter::Field(field, test) => write_test(out, source, *field, test),
    }
}

fn write_joined(
    out: &mut SqlWriter,
    source: &SelectSource<'_>,
    branches: &[Filter],
    joint: &str,
    none: &str,
) {
    let Some((first, rest)) = branches.split_first() else {
        return out.push(none);
    };
    out.push("(");
    write(out, source, first);
    for branch in rest {
        out.push(joint);
        write(out, source, branch);
    }
    out.push(")");
}

fn write_test(out: &mut SqlWriter, source: &SelectSource<'_>, field: Field, test: &Test) {
    let table = source.table();
    if beginning::write(out, table, field, test) {
        return;
    }
    let subject = ConditionField { source, field };
    match test {
        Test::In(values) => match subject.links(out.dialect) {
            Some(links) => write_any_link(out, &links, values),
            None => subject.write_in(out, values),
        },
        Test::NotEqual(value) => subject.write_compared(out, " <> ", value),
        Test::Less(value) => subject.write_compared(out, " < ", value),
        Test::LessEqual(value) => subject.write_compared(out, " <= ", value),
        Test::Greater(value) => subject.write_compared(out, " > ", value),
        Test::GreaterEqual(value) => subject.write_compared(out, " >= ", value),
        Test::Between(low, high) => {
            subject.write_compared(out, " BETWEEN ", low);
            out.push(" AND ");
            out.bind(high.clone());
        }
        Test::NotBetween(low, high) => {
            subject.write_compared(out, " NOT BETWEEN ", low);
            out.push(" AND ");
            out.bind(high.clone());
        }
        Test::IsNull => subject.write_null(out, " IS NULL"),
        Test::IsNotNull => subject.write_null(out, " IS NOT NULL"),
        Test::StartsWith(start) => subject.write_start(out, start),
        Test::NotStartsWith(start) => {
            out.push("NOT ");
            subject.write_start(out, start);
        }
        Test::EndsWith(end) => subject.write_end(out, true, end),
        Test::NotEndsWith(end) => subject.write_end(out, false, end),
        Test::HasPart(parts) => {
            subject.write_parts(out, parts, " > 0", " OR ");
            if parts.len() > 1 {
                out.push(out.dialect.unplanned());
            }
        }
        Test::HasNoPart(parts) => subject.write_parts(out, parts, " = 0", " AND "),
        // Rows with any text, whose words are looked for afterwards.
        Test::Finds(_) | Test::FindsNot(_)
            if out.dialect == Dialect::Postgres && is_undecided_test(test) =>
        {
            subject.write_null(out, " IS NOT NULL");
        }
        Test::Finds(search) => subject.write_search(out, true, search),
        Test::FindsNot(search) => {
            out.push("(");
            subject.write_null(out, " IS NOT NULL AND ");
            subject.write_search(out, false, search);
            out.push(")");
        }
        Test::Matches(pattern) => subject.write_pattern(out, pattern),
        Test::HasAny(values) => match subject.links(out.dialect) {
            Some(links) => write_any_link(out, &links, values),
            None => subject.write_any_element(out, values),
        },
        Test::HasNone(values) => subject.write_no_element(out, values),
        Test::HasAll(values) => subject.write_all_elements(out, values),
        Test::Longer(chars) => subject.write_longer(out, *chars),
    }
}

/// Writes that a key of a unique index has this value.
pub(super) fn write_equal(
    out: &mut SqlWriter,
    source: &SelectSource<'_>,
    field: Field,
    value: &Value,
) {
    let test = || Test::In(vec![value.clone()]);
    let is_hashed = out.dialect == Dialect::Postgres;
    if !is_hashed || !beginning::write(out, source.table(), field, &test()) {
        ConditionField { source, field }.write_compared(out, " = ", value);
    }
}

/// The field that a test is about.
struct ConditionField<'a> {
    source: &'a SelectSource<'a>,
    field: Field,
}

impl ConditionField<'_> {
    fn write_compared(&self, out: &mut SqlWriter, operator: &str, value: &Value) {
        self.source.write_comparable(out, self.field);
        out.push(operator);
        out.bind(value.clone());
    }

    fn write_in(&self, out: &mut SqlWriter, values: &[Value]) {
        if let [value] = values {
            return self.write_compared(out, " = ", value);
        }
        self.source.write_comparable(out, self.field);
        // Of these there may be thousands, from an index of words.
        if out.dialect == Dialect::Postgres && self.field == Field::Sequence {
            out.push(" = ANY (");
            out.bind(Value::List(values.to_vec()));
            return out.push(")");
        }
        out.push(" IN ");
        out.bind_list(values.iter().cloned());
    }

    fn write_null(&self, out: &mut SqlWriter, test: &str) {
        self.source.write_field(out, self.field);
        out.push(test);
    }

    /// The texts from `start` up to, without it, the first text that is greater than all that
    /// start so: a range that an index can answer. Exact, because bytes of UTF-8 compare as the
    /// characters they stand for.
    fn write_start(&self, out: &mut SqlWriter, start: &str) {
        out.push("(");
        self.write_compared(out, " >= ", &Value::Text(start.to_owned()));
        if let Some(end) = next_start(start) {
            out.push(" AND ");
            self.write_compared(out, " < ", &Value::Text(end));
        }
        out.push(")");
    }

    fn write_end(&self, out: &mut SqlWriter, wanted: bool, end: &str) {
        let end = Value::Text(end.to_owned());
        match out.dialect {
            Dialect::Sqlite => {
                out.push(names::ENDS_WITH);
                out.push("(");
                self.source.write_field(out, self.field);
                out.push(", ");
                out.bind(end);
                out.push(if wanted { ") = 1" } else { ") = 0" });
            }
            Dialect::Postgres => self.write_last(out, wanted, end),
        }
    }

    /// The last characters, as many as `end` has. Of a text with fewer, whatever `substr` then
    /// gives is shorter than `end`, so it is another text.
    fn write_last(&self, out: &mut SqlWriter, wanted: bool, end: Value) {
        let end = out.parameter(end);
        out.push("substr(");
        self.source.write_field(out, self.field);
        out.push(", length(");
        self.source.write_field(out, self.field);
        out.push(") - length(");
        out.push_parameter(end);
        out.push(") + 1)");
        out.push(if wanted { " = " } else { " <> " });
        out.push_parameter(end);
    }

    fn write_parts(&self, out: &mut SqlWriter, parts: &[String], found: &str, joint: &str) {
        let mut before = "(";
        for part in parts {
            out.push(before);
            out.push(out.dialect.has_part());
            out.push("(");
            self.source.write_field(out, self.field);
            out.push(", ");
            out.bind(Value::Text(part.clone()));
            out.push(")");
            out.push(found);
            before = joint;
        }
        out.push(")");
    }

    /// SQLite calls the store's own function. PostgreSQL looks for what each match has, and those
    /// rows are tested afterwards.
    fn write_pattern(&self, out: &mut SqlWriter, pattern: &Pattern) {
        if out.dialect == Dialect::Sqlite {
            let wanted = Value::Text(pattern.as_str().to_owned());
            return self.write_compared(out, " REGEXP ", &wanted);
        }
        match &pattern.literals()[..] {
            [] => self.write_null(out, " IS NOT NULL"),
            literals => self.write_parts(out, literals, " > 0", " AND "),
        }
    }

    /// Asks SQLite's index of words; older versions, which stand in none, are searched one by one.
    fn write_search(&self, out: &mut SqlWriter, wanted: bool, search: &Search) {
        if search.is_empty() {
            return out.push(if wanted { "FALSE" } else { "TRUE" });
        }
        let is_indexed = |index: &&Index| index.is_fulltext_of(self.field);
        let index = self.source.table().indexes.iter().find(is_indexed);
        match (out.dialect, index) {
            (Dialect::Sqlite, Some(index)) if !self.source.is_of_versions() => {
                let words = names::fulltext(self.source.table().number, index.number);
                out.push(if wanted { "t.seq IN " } else { "t.seq NOT IN " });
                out.push(&format!("(SELECT rowid FROM {words} WHERE {words} MATCH "));
                out.bind(Value::Text(search.to_fts5()));
            }
            _ => {
                out.push(if wanted { "" } else { "NOT " });
                out.push(names::FINDS);
                out.push("(");
                self.source.write_field(out, self.field);
                out.push(", ");
                out.bind(Value::Text(search.to_string()));
            }
        }
        out.push(")");
    }

    fn write_longer(&self, out: &mut SqlWriter, chars: u32) {
        let is_list = match self.field {
            Field::Column(position) => self.source.table().columns[position].array,
            _ => false,
        };
        if is_list {
            out.push("EXISTS (SELECT 1 FROM ");
            self.write_elements(out);
            out.push(" WHERE length(e.value) > ");
        } else {
            out.push("length(");
            self.source.write_field(out, self.field);
            out.push(") > ");
        }
        out.bind(Value::Int(i64::from(chars)));
        if is_list {
            out.push(")");
        }
    }

    /// One parameter for all elements: the text is the same for any number of them. SQLite reads
    /// them as it reads the stored array, so equal elements are equal to the last bit.
    fn write_any_element(&self, out: &mut SqlWriter, values: &[Value]) {
        match out.dialect {
            Dialect::Sqlite => self.write_each_element(out, "EXISTS", values),
            Dialect::Postgres => self.write_array(out, " && ", values),
        }
    }

    fn write_no_element(&self, out: &mut SqlWriter, values: &[Value]) {
        match out.dialect {
            Dialect::Sqlite => {
                out.push("(");
                self.write_null(out, " IS NOT NULL AND ");
                self.write_each_element(out, "NOT EXISTS", values);
                out.push(")");
            }
            Dialect::Postgres => {
                out.push("NOT (");
                self.write_array(out, " && ", values);
                out.push(")");
            }
        }
    }

    fn write_array(&self, out: &mut SqlWriter, operator: &str, values: &[Value]) {
        self.source.write_field(out, self.field);
        out.push(operator);
        out.bind(Value::List(values.to_vec()));
    }

    fn write_each_element(&self, out: &mut SqlWriter, exists: &str, values: &[Value]) {
        let wanted = out.parameter(Value::List(values.to_vec()));
        out.push(exists);
        out.push(" (SELECT 1 FROM ");
        self.write_elements(out);
        out.push(" WHERE e.value IN (SELECT w.value FROM ");
        write_wanted(out, wanted);
        out.push("))");
    }

    /// The table of the links that rows of now hold in this column, if there is one. PostgreSQL
    /// indexes the elements of lists, and indexes while others write.
    fn links(&self, dialect: Dialect) -> Option<String> {
        let Field::Column(position) = self.field else {
            return None;
        };
        let column = &self.source.table().columns[position];
        let is_kept = dialect == Dialect::Sqlite && !self.source.is_of_versions();
        (is_kept && self.source.table().has_links_table(position))
            .then(|| names::links(self.source.table().number, column.number))
    }

    /// No wanted element is missing. Of an array that is null they all are.
    fn write_all_elements(&self, out: &mut SqlWriter, values: &[Value]) {
        if out.dialect == Dialect::Postgres {
            return self.write_array(out, " @> ", values);
        }
        let wanted = out.parameter(Value::List(values.to_vec()));
        out.push("NOT EXISTS (SELECT 1 FROM ");
        write_wanted(out, wanted);
        out.push(" WHERE w.value NOT IN (SELECT e.value FROM ");
        self.write_elements(out);
        out.push("))");
    }

    fn write_elements(&self, out: &mut SqlWriter) {
        let (open, close) = out.dialect.elements("e");
        out.push(open);
        self.source.write_field(out, self.field);
        out.push(&close);
    }
}

/// Rows that hold one of the links, by the table of links.
fn write_any_link(out: &mut SqlWriter, links: &str, values: &[Value]) {
    let wanted = out.parameter(Value::List(values.to_vec()));
    out.push("t.seq IN (SELECT l.seq FROM ");
    out.push(links);
    out.push(" AS l WHERE l.target IN (SELECT w.value FROM ");
    write_wanted(out, wanted);
    out.push("))");
}

fn write_wanted(out: &mut SqlWriter, wanted: Parameter) {
    let (open, close) = out.dialect.elements("w");
    out.push(open);
    out.push_parameter(wanted);
    out.push(&close);
}
