//! Wire shapes: the only place that knows how anything looks in JSON.
//!
//! Everything is written straight into bytes; no answer is built as a tree first. Objects whose
//! members stand in the order of their names are put together by `sorted.rs`.

use engine::Family;
use hyper::StatusCode;
use model::{
    ContentRef, Field, Mark, Page, Related, Relation, Row, RowRef, Selection, Span, Table,
    Timestamp, Value, calendar,
};
use serde::Serialize;

mod batch;
mod containers;
pub mod error;
mod executions;
mod export;
mod functions;
mod instants;
mod object;
mod project;
mod sorted;
mod staged;

pub use batch::{batch_read, batch_written, found_lines, refused_line, size_bytes, written_line};
pub use containers::{column, columns, database, databases, index, indexes, table, tables};
pub use executions::{execution, execution_form, executions};
pub use export::encode_export_row;
pub use functions::{
    NO_PROVIDER, NO_REPOSITORY, deployment, deployments, function, function_options,
    function_output, functions, runtimes, specifications, variable, variables,
};
pub use instants::InstantForm;
use object::Object;
pub use project::{NO_PROJECT_TEXTS, key, keys, project};
pub use sorted::{SentJson, SortedObject, WrittenJson, written, written_array};
pub use staged::{sent_row, staged_rows, transaction, transactions};

/// The server version whose protocol is spoken (wire protocol, status).
pub const WIRE_VERSION: &str = "1.9.6";

/// How a route family calls things, in parameters and in answers.
#[derive(Debug)]
pub struct Words {
    family: Family,
    /// Lists of tables.
    pub tables: &'static str,
    /// A table's id.
    pub table_id: &'static str,
    /// Whether grants on rows count.
    pub row_security: &'static str,
    /// Lists of columns.
    pub columns: &'static str,
    /// Lists of rows.
    pub rows: &'static str,
    /// A row's id.
    pub row_id: &'static str,
    /// The table at the other end of a relationship.
    pub related_table_id: &'static str,
    /// The same, in a column.
    pub related_table: &'static str,
    /// A row's table, in the row.
    table_of_row: &'static str,
}

const TABLES: Words = Words {
    family: Family::Tables,
    tables: "tables",
    table_id: "tableId",
    row_security: "rowSecurity",
    columns: "columns",
    rows: "rows",
    row_id: "rowId",
    related_table_id: "relatedTableId",
    related_table: "relatedTable",
    table_of_row: "$tableId",
};

const DOCUMENTS: Words = Words {
    family: Family::Documents,
    tables: "collections",
    table_id: "collectionId",
    row_security: "documentSecurity",
    columns: "attributes",
    rows: "documents",
    row_id: "documentId",
    related_table_id: "relatedCollectionId",
    related_table: "relatedCollection",
    table_of_row: "$collectionId",
};

/// The words of a family.
pub fn words(family: Family) -> &'static Words {
    match family {
        Family::Tables => &TABLES,
        Family::Documents => &DOCUMENTS,
    }
}

/// In which words an answer is written, and how its instants are.
pub type Wording<'a> = (&'a Words, InstantForm);

impl Words {
    /// The family whose words these are.
    pub fn family(&self) -> Family {
        self.family
    }

    /// What this family calls the parameter that the other calls `name`.
    pub fn of(&self, name: &'static str) -> &'static str {
        let (from, to) = match self.family {
            Family::Tables => (&DOCUMENTS, &TABLES),
            Family::Documents => (&TABLES, &DOCUMENTS),
        };
        let pairs = [
            (from.tables, to.tables),
            (from.table_id, to.table_id),
            (from.row_security, to.row_security),
            (from.columns, to.columns),
            (from.rows, to.rows),
            (from.row_id, to.row_id),
            (from.related_table_id, to.related_table_id),
        ];
        pairs
            .iter()
            .find(|(other, _)| *other == name)
            .map_or(name, |(_, own)| own)
    }
}

/// Appends `value` as JSON.
fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("memory takes every byte, and these types are plain");
}

fn instant(out: &mut Vec<u8>, instant: Timestamp) {
    out.push(b'"');
    calendar::write_iso_ms(instant, out);
    out.push(b'"');
}

fn value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(truth) => json(out, truth),
        Value::Int(number) => json(out, number),
        Value::Float(number) => json(out, number),
        Value::Text(text) => json(out, text),
        Value::Instant(at) => instant(out, *at),
        Value::List(elements) => array(out, elements, |element, out| self::value(out, element)),
    }
}

/// Appends an array, each element written by `one`.
fn array<T>(
    out: &mut Vec<u8>,
    elements: impl IntoIterator<Item = T>,
    one: impl FnMut(T, &mut Vec<u8>),
) {
    out.push(b'[');
    joined(out, elements, one);
    out.push(b']');
}

/// The same without brackets.
fn joined<T>(
    out: &mut Vec<u8>,
    elements: impl IntoIterator<Item = T>,
    mut one: impl FnMut(T, &mut Vec<u8>),
) {
    for (position, element) in elements.into_iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        one(element, out);
    }
}

/// Appends the columns at `positions` with their values: `"key":value,…`, without braces.
fn members<'a>(
    table: &Table,
    positions: impl Iterator<Item = usize>,
    values: impl Iterator<Item = &'a Value>,
    out: &mut Vec<u8>,
) {
    let mut is_first = true;
    for (position, content) in positions.zip(values) {
        let column = &table.columns[position];
        // Related rows are shown where they are asked for, and links never.
        if column.relation().is_some() {
            continue;
        }
        if !is_first {
            out.push(b',');
        }
        is_first = false;
        // Keys are letters, digits and `_.-`, so nothing in them needs escaping.
        out.push(b'"');
        out.extend_from_slice(column.key.as_str().as_bytes());
        out.extend_from_slice(b"\":");
        match content {
            // Clients read a list where the column holds lists, whether or not one was set.
            Value::Null if column.array => out.extend_from_slice(b"[]"),
            content => value(out, content),
        }
    }
}

/// Encodes a row's columns, all of them in the table's order, as the store keeps them.
pub fn encode_row(table: &Table, values: &[Value], out: &mut Vec<u8>) {
    assert_eq!(
        values.len(),
        table.columns.len(),
        "a row has one value for each column"
    );
    members(table, 0..values.len(), values.iter(), out);
}

/// Bytes of the system fields of a row with ids of usual length.
const SYSTEM_BYTES: usize = 240;

/// Encodes the rows of a page, joined by commas.
pub fn encode_page(page: &Page, family: Family) -> Vec<u8> {
    let mut out = Vec::with_capacity(page.size_bytes() + page.rows.len() * SYSTEM_BYTES);
    let wording = (words(family), InstantForm::Iso);
    joined(&mut out, page.rows.iter().enumerate(), |row, out| {
        encode_one(page, row, wording, out);
    });
    out
}

/// Encodes a whole row, as a page with it alone.
pub fn encode_shown_row(table: &Table, row: RowRef<'_>, family: Family) -> Vec<u8> {
    let mut out = Vec::with_capacity(row.size_bytes() + SYSTEM_BYTES);
    let wording = (words(family), InstantForm::Iso);
    encode_row_with((table, &Selection::All), row, wording, &mut out, |_, _| {});
    out
}

fn encode_one(page: &Page, (nth, row): (usize, &Row), wording: Wording<'_>, out: &mut Vec<u8>) {
    let shown = (&*page.table, &page.selection);
    encode_row_with(shown, row.borrowed(), wording, out, |before, out| {
        for related in &page.related {
            if out.len() > before {
                out.push(b',');
            }
            related_of(page, related, nth, wording, out);
        }
    });
}

/// Encodes a row; `further` writes what follows its columns, which begin at that many bytes.
fn encode_row_with(
    (table, selection): (&Table, &Selection),
    row: RowRef<'_>,
    (words, form): Wording<'_>,
    out: &mut Vec<u8>,
    further: impl FnOnce(usize, &mut Vec<u8>),
) {
    let shows = |field: Field| match selection {
        Selection::All => true,
        Selection::Some { fields, .. } => fields.contains(&field),
    };
    let mut object = Object::open(out);
    if shows(Field::Id) {
        object.plain("$id", row.id);
    }
    if shows(Field::Sequence) {
        object.quoted_number("$sequence", row.seq);
    }
    if shows(Field::Created) {
        object.instant("$createdAt", row.created);
    }
    if shows(Field::Updated) {
        object.instant("$updatedAt", row.updated);
    }
    if matches!(
        selection,
        Selection::All
            | Selection::Some {
                permissions: true,
                ..
            }
    ) {
        object.raw("$permissions", row.permissions.as_bytes());
    }
    object.plain("$databaseId", table.database.as_str());
    object.plain(words.table_of_row, table.id.as_str());
    if let Some(span) = row.span {
        span_of(row.id, span, form, &mut object);
    }
    object.close_with(|out| {
        let before = out.len();
        columns_of((table, selection), row.content, out);
        further(before, out);
    });
}

/// Where a row stands in time.
fn span_of(id: &str, span: &Span, form: InstantForm, object: &mut Object<'_>) {
    let from = span.valid.from();
    form.write(object, "$validFrom", Some(from));
    form.write(object, "$validTo", span.valid.to());
    form.write(object, "$systemFrom", Some(span.system_from.timestamp()));
    if span.shows_end {
        form.write(object, "$systemTo", span.system_to.map(Mark::timestamp));
    }
    object.text("$version", &version_name(id, from, span.system_from));
}

/// The name of one version: the cursor value of lists in which an id may appear more than once.
fn version_name(id: &str, from: Timestamp, system_from: Mark) -> String {
    match from {
        Timestamp::BOT => format!("{id}@min@{}", system_from.0),
        Timestamp(from) => format!("{id}@{from}@{}", system_from.0),
    }
}

/// Appends the rows that the page's `nth` row is related to through one column, as a member.
fn related_of(page: &Page, related: &Related, nth: usize, wording: Wording<'_>, out: &mut Vec<u8>) {
    let column = &page.table.columns[related.column];
    out.push(b'"');
    out.extend_from_slice(column.key.as_str().as_bytes());
    out.extend_from_slice(b"\":");
    let one = |at: usize, out: &mut Vec<u8>| {
        encode_one(&related.page, (at, &related.page.rows[at]), wording, out);
    };
    let links = &related.links[nth];
    if !column.relation().is_some_and(Relation::is_list) {
        return match links.first() {
            Some(at) => one(*at, out),
            None => out.extend_from_slice(b"null"),
        };
    }
    array(out, links, |at, out| one(*at, out));
}

fn columns_of(
    (table, selection): (&Table, &Selection),
    content: ContentRef<'_>,
    out: &mut Vec<u8>,
) {
    match (content, selection) {
        (ContentRef::Body(body), Selection::All) => out.extend_from_slice(body),
        (ContentRef::Values(values), Selection::All) => encode_row(table, values, out),
        (ContentRef::Values(values), Selection::Some { columns, .. }) => {
            assert_eq!(
                values.len(),
                columns.len(),
                "a row has one value for each column asked"
            );
            members(table, columns.iter().copied(), values.iter(), out);
        }
        (ContentRef::Body(_), Selection::Some { .. }) => {
            unreachable!("a body holds all columns, so it is read only where all are shown")
        }
    }
}

/// What stands before and after the rows of a list, or the items of another one.
pub fn list_envelope(key: &str, total: u64) -> (Vec<u8>, &'static [u8]) {
    let mut open = Vec::with_capacity(48);
    open.extend_from_slice(b"{\"total\":");
    json(&mut open, &total);
    open.extend_from_slice(b",\"");
    open.extend_from_slice(key.as_bytes());
    open.extend_from_slice(b"\":[");
    (open, b"]}")
}

/// A list whose items are written one by one.
fn list<T>(key: &str, total: u64, items: &[T], one: impl Fn(&T, &mut Vec<u8>)) -> Vec<u8> {
    let (mut out, close) = list_envelope(key, total);
    joined(&mut out, items, one);
    out.extend_from_slice(close);
    out
}

/// The first of `total` rows that a write concerned.
pub fn rows_of(total: u64, page: &Page, words: &Words) -> Vec<u8> {
    let (mut out, close) = list_envelope(words.rows, total);
    out.extend_from_slice(&encode_page(page, words.family));
    out.extend_from_slice(close);
    out
}

/// The body of a refusal, which may be about one part of the request, and may have further members:
/// JSON, each with its name.
pub fn error_body(
    message: &str,
    status: StatusCode,
    kind: &str,
    index: Option<u32>,
    members: &[(&str, Vec<u8>)],
) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    let mut object = Object::open(&mut out);
    object.text("message", message);
    object.number("code", i64::from(status.as_u16()));
    object.text("type", kind);
    object.text("version", WIRE_VERSION);
    if let Some(index) = index {
        object.number("index", i64::from(index));
    }
    for (name, json) in members {
        object.raw(name, json);
    }
    object.close();
    out
}

/// One measured part of the server.
pub fn health(name: &str, ping_ms: i64, passes: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    let mut object = Object::open(&mut out);
    object.text("name", name);
    object.number("ping", ping_ms);
    object.text("status", if passes { "pass" } else { "fail" });
    object.close();
    out
}

/// The time that counts, and what the machine's clock says, in seconds.
pub fn health_time(believed: Timestamp, clock: Timestamp) -> Vec<u8> {
    let seconds = |at: Timestamp| at.0.div_euclid(1_000_000);
    let (remote, local) = (seconds(believed), seconds(clock));
    let mut out = Vec::with_capacity(64);
    let mut object = Object::open(&mut out);
    object.number("remoteTime", remote);
    object.number("localTime", local);
    object.number("diff", remote - local);
    object.close();
    out
}

/// Parts of the server, each as [`health`] writes it.
pub fn statuses(parts: &[Vec<u8>]) -> Vec<u8> {
    list("statuses", parts.len() as u64, parts, |part, out| {
        out.extend_from_slice(part);
    })
}

/// Pairs of names and versions.
pub fn versions(pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = Object::open(&mut out);
    for (name, version) in pairs {
        object.text(name, version);
    }
    object.close();
    out
}

#[cfg(test)]
mod tests;
