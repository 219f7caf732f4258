//! Rows of one table as CSV (RFC 4180), in both directions.
//!
//! A field that is empty has no value. A text that is empty, or begins with a quotation mark, is
//! written as JSON, so that it differs from one without a value. Lists are written as JSON.

use std::io;

use anyhow::{Context, Result, anyhow, bail};
use model::counted;
use serde_json::{Map, Value};

use super::definition::{holds_links, is_relationship};

/// The system fields, which stand before the columns.
pub const SYSTEM_FIELDS: [&str; 4] = ["$id", "$createdAt", "$updatedAt", "$permissions"];
/// System fields of other tools' files that an import cannot set and does not need.
const IGNORED_FIELDS: [&str; 4] = ["$sequence", "$databaseId", "$tableId", "$collectionId"];

/// What a field is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Float,
    Boolean,
    List,
    Ignored,
}

/// A column of the file.
#[derive(Clone, Debug)]
struct Field {
    name: String,
    kind: Kind,
}

/// The fields of a table: system fields, then its columns.
#[derive(Clone, Debug)]
pub struct Fields(Vec<Field>);

impl Fields {
    /// Those of a table's definition.
    pub fn of_table(definition: &Value) -> Fields {
        let system = SYSTEM_FIELDS.iter().map(|name| Field {
            name: (*name).to_owned(),
            kind: match *name {
                "$permissions" => Kind::List,
                _ => Kind::Text,
            },
        });
        let columns = definition["columns"].as_array().into_iter().flatten();
        // Of a relationship the end that holds links has something to write.
        let has_cells = |column: &&Value| !is_relationship(column) || holds_links(column);
        let columns = columns.filter(has_cells).map(|column| Field {
            name: column["key"].as_str().unwrap_or_default().to_owned(),
            kind: match column["type"].as_str().unwrap_or_default() {
                _ if column["array"] == true => Kind::List,
                "relationship" if column["relationType"] == "manyToMany" => Kind::List,
                "integer" | "bigint" => Kind::Integer,
                "double" | "float" => Kind::Float,
                "boolean" => Kind::Boolean,
                _ => Kind::Text,
            },
        });
        Fields(system.chain(columns).collect())
    }

    /// Those that a file's first record names, in its order.
    ///
    /// # Errors
    /// When the table has none of a name, or the record names one twice.
    pub fn named(&self, header: &csv::StringRecord) -> Result<Fields> {
        let mut fields: Vec<Field> = Vec::with_capacity(header.len());
        for name in header {
            let name = name.trim_start_matches('\u{feff}');
            if fields.iter().any(|field| field.name == name) {
                bail!("line 1: the column `{name}` stands there twice");
            }
            let known = self.0.iter().find(|field| field.name == name);
            match known {
                Some(field) => fields.push(field.clone()),
                None if IGNORED_FIELDS.contains(&name) => fields.push(Field {
                    name: name.to_owned(),
                    kind: Kind::Ignored,
                }),
                None => {
                    let names: Vec<&str> = self.0.iter().map(|f| f.name.as_str()).collect();
                    bail!(
                        "line 1: the table has no column `{name}`. It has {}",
                        names.join(", ")
                    );
                }
            }
        }
        Ok(Fields(fields))
    }

    /// Whether there is one of this name.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|field| field.name == name)
    }

    /// Writes the first record.
    ///
    /// # Errors
    /// When writing fails.
    pub fn write_header<W: io::Write>(&self, out: &mut csv::Writer<W>) -> csv::Result<()> {
        out.write_record(self.0.iter().map(|field| &field.name))
    }

    /// Writes a row, given as a line of an export.
    ///
    /// # Errors
    /// When writing fails.
    pub fn write_row<W: io::Write>(&self, line: &[u8], out: &mut csv::Writer<W>) -> Result<()> {
        let row: Map<String, Value> =
            serde_json::from_slice(line).context("the store gave a row that is no JSON")?;
        let cells = self.0.iter().map(|field| cell(row.get(&field.name)));
        Ok(out.write_record(cells)?)
    }

    /// The line of an export for a record. `id` is taken where the file has none.
    ///
    /// # Errors
    /// When a field is not what its column holds; the text names line and column.
    pub fn line(
        &self,
        record: &csv::StringRecord,
        line: u64,
        id: impl Fn() -> String,
    ) -> Result<String> {
        let mut members = Vec::with_capacity(self.0.len() + 1);
        if !self.has("$id") {
            members.push(format!("\"$id\":{}", Value::String(id())));
        }
        for (field, cell) in self.0.iter().zip(record) {
            if cell.is_empty() && field.name.starts_with('$') || field.kind == Kind::Ignored {
                continue;
            }
            let value = field
                .value(cell)
                .map_err(|why| anyhow!("line {line}, column `{}`: {why}", field.name))?;
            members.push(format!("\"{}\":{value}", field.name));
        }
        Ok(format!("{{{}}}", members.join(",")))
    }
}

/// How a value stands in a field.
fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) if !text.is_empty() && !text.starts_with('"') => text.clone(),
        Some(other) => other.to_string(),
    }
}

impl Field {
    fn value(&self, cell: &str) -> Result<Value, String> {
        if cell.is_empty() {
            return Ok(Value::Null);
        }
        let expected = |what: &str| {
            let shown: String = cell.chars().take(40).collect();
            format!("expected {what}, got `{shown}`")
        };
        let plain = cell.trim();
        match self.kind {
            Kind::Ignored => Ok(Value::Null),
            // A text of another tool's file may begin with a quotation mark and be no JSON.
            Kind::Text if cell.starts_with('"') => Ok(match serde_json::from_str(cell) {
                Ok(Value::String(text)) => Value::String(text),
                _ => Value::String(cell.to_owned()),
            }),
            Kind::Text => Ok(Value::String(cell.to_owned())),
            Kind::Integer => plain
                .parse::<i64>()
                .map(Value::from)
                .map_err(|_| expected("a 64-bit integer")),
            Kind::Float => serde_json::from_str::<serde_json::Number>(plain)
                .map(Value::Number)
                .map_err(|_| expected("a number")),
            Kind::Boolean => match plain.to_ascii_lowercase().as_str() {
                "true" => Ok(Value::Bool(true)),
                "false" => Ok(Value::Bool(false)),
                _ => Err(expected("true or false")),
            },
            Kind::List => match serde_json::from_str(plain) {
                Ok(list @ Value::Array(_)) => Ok(list),
                _ => Err(expected("a list as JSON, such as [\"a\",\"b\"]")),
            },
        }
    }
}

/// A writer by RFC 4180: records end with CR LF.
pub fn writer<W: io::Write>(out: W) -> csv::Writer<W> {
    csv::WriterBuilder::new()
        .terminator(csv::Terminator::CRLF)
        .from_writer(out)
}

/// A reader that takes either line end, and refuses records of another length than the first.
pub fn reader<R: io::Read>(from: R) -> csv::Reader<R> {
    csv::ReaderBuilder::new().from_reader(from)
}

/// How many lines the reader's count is behind, given the header that it has just read: of CR LF
/// it has left LF for the next record, and counts it then.
pub fn lines_behind<R: io::Read>(from: &csv::Reader<R>, header: &csv::StringRecord) -> u64 {
    let within = header
        .iter()
        .flat_map(str::chars)
        .filter(|one| *one == '\n');
    (within.count() as u64 + 2).saturating_sub(from.position().line())
}

/// What is wrong with a file, with its line; the reader's count is `behind` by so many.
pub fn explain(error: &csv::Error, behind: u64) -> anyhow::Error {
    let line = error.position().map_or(0, csv::Position::line) + behind;
    match error.kind() {
        csv::ErrorKind::Utf8 { err, .. } => {
            anyhow!(
                "line {line}, field {}: the text is not UTF-8",
                err.field() + 1
            )
        }
        csv::ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => anyhow!(
            "line {line}: {}, but the first line names {}",
            counted(*len, "field"),
            counted(*expected_len, "column")
        ),
        _ => anyhow!("{error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields() -> Fields {
        Fields::of_table(&json!({"columns": [
            {"key": "name", "type": "varchar"},
            {"key": "age", "type": "integer"},
            {"key": "score", "type": "double"},
            {"key": "ok", "type": "boolean"},
            {"key": "tags", "type": "varchar", "array": true},
        ]}))
    }

    fn round(line: &str) -> String {
        let fields = fields();
        let mut out = writer(Vec::new());
        fields.write_header(&mut out).unwrap();
        fields.write_row(line.as_bytes(), &mut out).unwrap();
        let bytes = out.into_inner().unwrap();
        let mut from = reader(&bytes[..]);
        let named = fields.named(from.headers().unwrap()).unwrap();
        let record = from.records().next().unwrap().unwrap();
        named
            .line(&record, 2, || unreachable!("the file has ids"))
            .unwrap()
    }

    #[test]
    fn rows_come_back_unchanged() {
        for content in [
            r#""name":null,"age":null,"score":null,"ok":null,"tags":null"#,
            r#""name":"","age":0,"score":-0.5,"ok":false,"tags":[]"#,
            r#""name":"\"quoted\"","age":-9223372036854775808,"score":1e+300,"ok":true,"tags":[""]"#,
            r#""name":"a,b\r\nc\td","age":1,"score":4.0,"ok":true,"tags":["x","\"y\"","ü,\n"]"#,
            r#""name":"[1]","age":1,"score":0.1,"ok":true,"tags":["null"]"#,
            r#""name":" padded ","age":1,"score":5e-324,"ok":true,"tags":[]"#,
        ] {
            let line = format!(
                "{{\"$id\":\"a\",\"$createdAt\":\"2026-01-01T00:00:00.000+00:00\",\
                 \"$updatedAt\":\"2026-01-01T00:00:00.000+00:00\",\
                 \"$permissions\":[\"read(\\\"any\\\")\"],{content}}}"
            );
            assert_eq!(round(&line), line);
        }
    }

    #[test]
    fn errors_name_line_and_column() {
        let refused = |file: &str| {
            let mut from = reader(file.as_bytes());
            let named = match fields().named(from.headers().unwrap()) {
                Ok(named) => named,
                Err(error) => return error.to_string(),
            };
            let record = match from.records().next().unwrap() {
                Ok(record) => record,
                Err(error) => return explain(&error, 0).to_string(),
            };
            let line = record.position().unwrap().line();
            named
                .line(&record, line, String::new)
                .unwrap_err()
                .to_string()
        };
        let check = |file: &str, wanted: &str| {
            let said = refused(file);
            assert!(said.starts_with(wanted), "{said}");
        };
        check(
            "age\nabc\n",
            "line 2, column `age`: expected a 64-bit integer, got `abc`",
        );
        check(
            "name,score\nx,1.2.3\n",
            "line 2, column `score`: expected a number",
        );
        check(
            "ok\nyes\n",
            "line 2, column `ok`: expected true or false, got `yes`",
        );
        check(
            "tags\na;b\n",
            "line 2, column `tags`: expected a list as JSON",
        );
        check(
            "nmae\nx\n",
            "line 1: the table has no column `nmae`. It has $id, ",
        );
        check(
            "age,age\n1,2\n",
            "line 1: the column `age` stands there twice",
        );
        check(
            "name,age\nx\n",
            "line 2: 1 field, but the first line names 2 columns",
        );
    }

    #[test]
    fn lines_are_counted_alike_whatever_ends_them() {
        for file in [
            "a\nb\n\"c\nc\"\nd\n",
            "a\r\nb\r\n\"c\r\nc\"\r\nd\r\n",
            "\"a\n\"\r\nb\r\n",
        ] {
            let mut from = reader(file.as_bytes());
            let header = from.headers().unwrap().clone();
            let first = 2 + header[0].matches('\n').count() as u64;
            let behind = lines_behind(&from, &header);
            let lines = from
                .records()
                .map(|record| record.unwrap().position().unwrap().line() + behind);
            let lines: Vec<u64> = lines.collect();
            let wanted = [first, first + 1, first + 3];
            assert_eq!(lines, wanted[..lines.len()], "{file:?}");
        }
    }

    #[test]
    fn a_file_of_another_tool_needs_no_system_fields() {
        let mut from = reader("\u{feff}name,$sequence,age\n\"He said \"\"no\"\"\",7,\n".as_bytes());
        let named = fields().named(from.headers().unwrap()).unwrap();
        let record = from.records().next().unwrap().unwrap();
        let line = named.line(&record, 2, || "drawn".to_owned()).unwrap();
        assert_eq!(
            line,
            r#"{"$id":"drawn","name":"He said \"no\"","age":null}"#
        );
    }
}
