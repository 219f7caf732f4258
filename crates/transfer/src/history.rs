//! The history of a store as a file: JSON lines with a digest at the end, so that a file that is
//! cut off or altered is refused as a whole. `docs/reference/history-file.md` describes it.

use std::io::{self, BufRead, Write};

use anyhow::{Context, Result, bail};
use engine::{HistoryCount, HistoryFault, HistoryImport, HistoryMembers, Inspection};
use indicatif::ProgressBar;
use ring::digest::{self, SHA256};
use serde_json::{Value, json};

use super::counter;
use super::lines::{self, HISTORY};

/// The version of the format that is written, and the newest that is read.
pub const VERSION: u64 = 1;
/// The part that ends a file.
const END: &str = "end";

/// What was written before the end, counted and digested.
struct HistoryLines<'a> {
    out: &'a mut dyn Write,
    digest: digest::Context,
    count: u64,
    text: Vec<u8>,
    bar: ProgressBar,
}

impl HistoryLines<'_> {
    fn put(&mut self, line: &Value) -> io::Result<()> {
        self.text.clear();
        serde_json::to_writer(&mut self.text, line)?;
        self.text.push(b'\n');
        self.digest.update(&self.text);
        self.count += 1;
        self.bar.inc(1);
        self.out.write_all(&self.text)
    }
}

/// Writes everything that the store knew at any mark, as of one instant.
///
/// # Errors
/// When the store cannot be read, something encrypted in it is damaged, or writing fails.
pub fn export(inspection: &Inspection, out: &mut dyn Write) -> Result<HistoryCount> {
    let mut lines = HistoryLines {
        out,
        digest: digest::Context::new(&SHA256),
        count: 0,
        text: Vec::new(),
        bar: counter(HISTORY, "{spinner} {msg}: {human_pos} lines, {per_sec}"),
    };
    let cannot = "cannot write the history";
    let header = json!({ "tidemark": HISTORY, "version": VERSION });
    lines.put(&header).context(cannot)?;
    let exported = inspection.export_history(&mut |part, members| {
        let mut line = HistoryMembers::new();
        line.insert(part.to_owned(), members.into());
        lines.put(&line.into())
    });
    lines.bar.finish_and_clear();
    let count = exported.map_err(|fault| match fault {
        HistoryFault::Output(error) => anyhow::Error::new(error).context(cannot),
        HistoryFault::Store(engine::StoreError::SealBroken { what, .. }) => anyhow::anyhow!(
            "what is encrypted of {what} is damaged, and a history lacks nothing. \
             `tidemark doctor` names all such rows; erase them with `tidemark erase`"
        ),
        other => other.into(),
    })?;
    let end = end_line(lines.count, lines.digest.finish().as_ref());
    writeln!(lines.out, "{end}")
        .and_then(|()| lines.out.flush())
        .context(cannot)?;
    Ok(count)
}

fn end_line(count: u64, digest: &[u8]) -> Value {
    json!({ END: { "lines": count, "sha256": hex(digest) } })
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

/// Makes a store of the lines of a file. It is there when all of them were read and found whole.
///
/// # Errors
/// With the line and the member at fault; nothing of the file is stored then.
pub fn import(
    mut import: HistoryImport,
    from: &mut impl BufRead,
    bar: &ProgressBar,
) -> Result<HistoryCount> {
    let mut digest = digest::Context::new(&SHA256);
    let (mut text, mut line, mut has_ended) = (Vec::new(), 0_u64, false);
    while lines::read_line(from, &mut text).with_context(|| at(line + 1))? {
        line += 1;
        bar.inc(text.len() as u64 + 1);
        if has_ended {
            bail!("{}: something follows the end", at(line));
        }
        if line == 1 {
            need_header(&text).with_context(|| at(1))?;
        } else {
            let (part, members) = entry(&text).with_context(|| at(line))?;
            if part == END {
                let end = end_line(line - 1, digest.clone().finish().as_ref());
                need_whole(&end[END], &members.into()).with_context(|| at(line))?;
                has_ended = true;
                continue;
            }
            import.take(&part, members).with_context(|| at(line))?;
        }
        digest.update(&text);
        digest.update(b"\n");
    }
    if !has_ended {
        bail!("{}: the file ends before the history does", at(line + 1));
    }
    Ok(import.finish()?)
}

/// The one member of a line, and the members of that.
fn entry(text: &[u8]) -> Result<(String, HistoryMembers)> {
    let line: Value = serde_json::from_slice(text).context("this is no JSON")?;
    let Value::Object(line) = line else {
        bail!("a line is a JSON object");
    };
    let mut parts = line.into_iter();
    match (parts.next(), parts.next()) {
        (Some((part, Value::Object(members))), None) => Ok((part, members)),
        _ => bail!("a line has one member, which is an object"),
    }
}

fn need_header(text: &[u8]) -> Result<()> {
    lines::need_plain(text)?;
    let header: Value = serde_json::from_slice(text).context("this is no JSON")?;
    match header["tidemark"].as_str() {
        Some(HISTORY) => {}
        Some("export") => {
            bail!("this is an export of a database, not a history. Import it without --history")
        }
        _ => bail!("this is not the history of a store"),
    }
    match header["version"].as_u64() {
        Some(1..=VERSION) => Ok(()),
        Some(newer) => bail!(
            "the history has format version {newer}; this binary reads versions up to {VERSION}. \
             Use a newer Tidemark"
        ),
        None => bail!("the header names no version"),
    }
}

fn need_whole(expected: &Value, found: &Value) -> Result<()> {
    for member in ["lines", "sha256"] {
        if found[member] != expected[member] {
            bail!(
                "`{member}` is {}, and the lines before it make {}: the file was altered, or parts \
                 of it are missing",
                found[member],
                expected[member]
            );
        }
    }
    Ok(())
}

fn at(line: u64) -> String {
    format!("line {line}")
}
