//! A run's own folder: `report.md` for reading, `report.html` for looking at, `run.json` for
//! programs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use model::Timestamp;
use model::calendar::iso_ms;

use super::page::page;
use super::run::{FORMAT, Run};

/// The file that programs read.
pub const RUN: &str = "run.json";
/// The file that a browser shows.
pub const PAGE: &str = "report.html";
/// The file that people read.
pub const TEXT: &str = "report.md";

/// What was written.
#[derive(Debug)]
pub struct Written {
    /// The summary, for the terminal.
    pub summary: String,
    /// The run's folder.
    pub folder: PathBuf,
}

/// Makes `out` and tries to write there, so that nobody loses what took long to measure.
///
/// # Errors
/// When it cannot be made or written.
pub fn prepare(out: &Path) -> Result<()> {
    let cannot = || format!("cannot write a report below {}", out.display());
    fs::create_dir_all(out).with_context(cannot)?;
    tempfile::tempfile_in(out).with_context(cannot)?;
    Ok(())
}

/// Writes the folder `<UTC time>-<kind>` below `out`. `text` is the report in Markdown.
///
/// # Errors
/// When it cannot be written.
pub fn write(out: &Path, started: Timestamp, run: &Run, text: &str) -> Result<Written> {
    let folder = out.join(folder_name(&run.kind, started));
    let cannot = || format!("cannot write the report below {}", out.display());
    fs::create_dir_all(&folder).with_context(cannot)?;
    let json = format!("{}\n", serde_json::to_string(run)?);
    for (name, text) in [(RUN, json.as_str()), (TEXT, text), (PAGE, &page(run)?)] {
        fs::write(folder.join(name), text).with_context(cannot)?;
    }
    Ok(Written {
        summary: String::new(),
        folder,
    })
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

/// `2026-11-21T12-34-56Z-ttl`: a name on every file system, and in the order of time.
pub fn folder_name(kind: &str, started: Timestamp) -> String {
    format!("{}Z-{kind}", iso_ms(started)[..19].replace(':', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_named_by_the_second_they_began() {
        let started = model::calendar::parse_iso("2026-11-21T12:34:56.789Z").unwrap();
        assert_eq!(folder_name("ttl", started), "2026-11-21T12-34-56Z-ttl");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told_before_anything_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("a/b");
        prepare(&made).unwrap();
        assert_eq!(fs::read_dir(&made).unwrap().count(), 0);
        fs::write(folder.path().join("file"), "").unwrap();
        let error = prepare(&folder.path().join("file")).unwrap_err();
        assert!(
            error.to_string().contains("cannot write a report"),
            "{error}"
        );
    }

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
