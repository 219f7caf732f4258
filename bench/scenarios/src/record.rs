//! A run's own folder: `report.md` for reading, `report.html` for looking at, `run.json` for
//! programs.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use measure::record::WrittenReport;
use model::Timestamp;

use super::page::page;
use super::run::{FORMAT, Run};

/// The file that programs read.
pub const RUN: &str = "run.json";
/// The file that a browser shows.
pub const PAGE: &str = "report.html";
/// The file that people read.
pub const TEXT: &str = "report.md";

/// Writes the folder `<UTC time>-<kind>` below `out`. `text` is the report in Markdown.
///
/// # Errors
/// When it cannot be written.
pub fn write(
    out: &Path,
    started: Timestamp,
    run: &Run,
    text: String,
    summary: String,
) -> Result<WrittenReport> {
    let json = format!("{}\n", serde_json::to_string(run)?);
    let files = [(RUN, json), (TEXT, text), (PAGE, page(run)?)];
    measure::record::write(out, started, &run.kind, &files, summary)
}

/// Reads a run from its folder or its file.
///
/// # Errors
/// When it is not there, or of another form; the text names the file.
pub fn read(path: &Path) -> Result<Run> {
    let file = if path.is_dir() {
        path.join(RUN)
    } else {
        path.to_owned()
    };
    let cannot = || format!("{} is no run", file.display());
    let text = fs::read_to_string(&file).with_context(cannot)?;
    let value: serde_json::Value = serde_json::from_str(&text).with_context(cannot)?;
    let format = value["format"].as_str().unwrap_or("of no format");
    ensure!(
        format == FORMAT,
        "{} is {format}; {FORMAT} is read",
        file.display()
    );
    serde_json::from_value(value).with_context(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_form_is_refused_by_what_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(RUN);
        for (text, wanted) in [
            ("{}", "is of no format; tidemark.run/1 is read"),
            (
                r#"{"format":"tidemark.run/9"}"#,
                "is tidemark.run/9; tidemark.run/1 is read",
            ),
            (r#"{"format":"tidemark.run/1"}"#, "missing field `kind`"),
            ("{", "is no run"),
        ] {
            fs::write(&file, text).unwrap();
            let error = format!("{:#}", read(folder.path()).unwrap_err());
            assert!(error.contains(wanted), "{error}");
        }
        let error = read(&folder.path().join("absent.json")).unwrap_err();
        assert!(
            error.to_string().ends_with("absent.json is no run"),
            "{error}"
        );
    }
}
