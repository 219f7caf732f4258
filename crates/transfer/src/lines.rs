//! The format of an export: JSON lines. `docs/reference/export.md` describes it.

use std::io::{self, BufRead, Read as _};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};

/// The version of the format that is written, and the newest that is read.
pub const VERSION: u64 = 1;
/// What the header of a whole store's history calls it (`history.rs`).
pub const HISTORY: &str = "history";
/// Most bytes of one line: a row is at most a body of the wire, 20 MiB, and JSON may escape a
/// byte with six.
pub const LINE_BYTES_MAX: u64 = 48 << 20;

/// How everything begins that gzip has compressed (RFC 1952, 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The first line of every export.
pub fn header() -> String {
    json!({ "tidemark": "export", "version": VERSION }).to_string()
}

/// What one line says.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// The first line.
    Header,
    /// The database; after the header.
    Database(Value),
    /// A table's definition; before all rows.
    Table(Value),
    /// The rows of this table follow.
    Rows(String),
    /// A row, as text.
    Row,
    /// The last line: how many rows there were.
    End(u64),
}

/// # Errors
/// When it begins as something that gzip has compressed.
pub fn need_plain(text: &[u8]) -> Result<()> {
    if text.starts_with(&GZIP) {
        bail!("this is compressed with gzip. Import it as `gunzip -c FILE | tidemark import -`");
    }
    Ok(())
}

/// Reads what a line says. A row stays text.
///
/// # Errors
/// When it is none of these.
pub fn parse(text: &[u8]) -> Result<Line> {
    // Rows are nearly all lines; ours begin so, and the store reads them anyway.
    if text.starts_with(b"{\"$id\"") {
        return Ok(Line::Row);
    }
    need_plain(text)?;
    let value: Value = serde_json::from_slice(text).context("this is no JSON")?;
    if value["$id"].is_string() {
        return Ok(Line::Row);
    }
    let Value::Object(mut members) = value else {
        bail!("a line is a JSON object");
    };
    if members.get("tidemark").and_then(Value::as_str) == Some("export") {
        return match members.get("version").and_then(Value::as_u64) {
            Some(1..=VERSION) => Ok(Line::Header),
            Some(newer) => Err(anyhow!(
                "the export has format version {newer}; this binary reads versions up to \
                 {VERSION}. Use a newer Tidemark"
            )),
            None => Err(anyhow!("the header names no version")),
        };
    }
    if members.get("tidemark").and_then(Value::as_str) == Some(HISTORY) {
        bail!("this is the history of a whole store. Import it with --history");
    }
    if let Some(database) = members.remove("database") {
        return Ok(Line::Database(database));
    }
    if let Some(table) = members.remove("table") {
        return Ok(Line::Table(table));
    }
    if let Some(Value::String(table)) = members.remove("rows") {
        return Ok(Line::Rows(table));
    }
    let end = members.get("end").and_then(|end| end["rows"].as_u64());
    end.map(Line::End)
        .ok_or_else(|| anyhow!("this is neither a row (`$id` is missing) nor a part of an export"))
}

/// Reads one line without its end into `line`. `false` at the end of the text.
///
/// # Errors
/// When reading fails, or the line is longer than [`LINE_BYTES_MAX`].
pub fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    from.by_ref()
        .take(LINE_BYTES_MAX + 1)
        .read_until(b'\n', line)?;
    if line.len() as u64 > LINE_BYTES_MAX {
        let why = format!("a line has more than {LINE_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let found = !line.is_empty();
    while line
        .last()
        .is_some_and(|byte| matches!(byte, b'\n' | b'\r'))
    {
        line.pop();
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_is_told_from_the_others() {
        let check = |text: &str, line: Line| assert_eq!(parse(text.as_bytes()).unwrap(), line);
        check(&header(), Line::Header);
        check(
            "{\"database\":{\"id\":\"d\"}}",
            Line::Database(json!({"id": "d"})),
        );
        check(
            "{\"table\":{\"id\":\"t\"}}",
            Line::Table(json!({"id": "t"})),
        );
        check("{\"rows\":\"t\"}", Line::Rows("t".to_owned()));
        check("{\"$id\":\"a\",\"rows\":\"t\"}", Line::Row);
        check("{\"rows\":\"t\",\"$id\":\"a\"}", Line::Row);
        check("{\"end\":{\"rows\":7}}", Line::End(7));
    }

    #[test]
    fn other_lines_and_newer_formats_are_refused() {
        let refused = |text: &str| parse(text.as_bytes()).unwrap_err().to_string();
        assert!(refused("{\"tidemark\":\"export\",\"version\":2}").contains("newer Tidemark"));
        assert!(refused("{\"name\":\"x\"}").contains("`$id` is missing"));
        assert!(refused("[1]").contains("JSON object"));
        assert!(refused("name,age").contains("no JSON"));
        let compressed = parse(b"\x1f\x8b\x08\x00").unwrap_err();
        assert!(compressed.to_string().contains("gunzip"), "{compressed}");
    }

    #[test]
    fn lines_end_by_either_convention_or_by_the_end() {
        let mut from: &[u8] = b"a\r\nb\nc";
        let mut line = Vec::new();
        let mut seen = Vec::new();
        while read_line(&mut from, &mut line).unwrap() {
            seen.push(String::from_utf8(line.clone()).unwrap());
        }
        assert_eq!(seen, ["a", "b", "c"]);
    }
}
