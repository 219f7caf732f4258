//! A run's own folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use model::Timestamp;
use model::calendar::iso_ms;
use serde_json::{Map, Value};

/// What was written.
#[derive(Debug)]
pub struct WrittenReport {
    /// The summary, for the terminal.
    pub summary: String,
    /// The run's folder.
    pub folder: PathBuf,
}

/// Makes `out` and tries to write there, so that no user loses what took long to measure.
///
/// # Errors
/// When it cannot be made or written.
pub fn prepare(out: &Path) -> Result<()> {
    let cannot = || format!("cannot write a report below {}", out.display());
    fs::create_dir_all(out).with_context(cannot)?;
    tempfile::tempfile_in(out).with_context(cannot)?;
    Ok(())
}

/// Writes these files, by name, into the folder `<UTC time>-<kind>` below `out`.
///
/// # Errors
/// When it cannot be written.
pub fn write(
    out: &Path,
    started: Timestamp,
    kind: &str,
    files: &[(&str, String)],
    summary: String,
) -> Result<WrittenReport> {
    let folder = out.join(folder_name(kind, started));
    let cannot = || format!("cannot write the report below {}", out.display());
    fs::create_dir_all(&folder).with_context(cannot)?;
    for (name, text) in files {
        fs::write(folder.join(name), text).with_context(cannot)?;
    }
    Ok(WrittenReport { summary, folder })
}

/// `2026-11-21T12-34-56Z-ttl`: a name on every file system, and in the order of time.
fn folder_name(kind: &str, started: Timestamp) -> String {
    format!("{}Z-{kind}", iso_ms(started)[..19].replace(':', "-"))
}

/// Pairs as an object.
pub fn object<K: AsRef<str>>(pairs: impl IntoIterator<Item = (K, Value)>) -> Map<String, Value> {
    let pairs = pairs.into_iter();
    pairs
        .map(|(key, value)| (key.as_ref().to_owned(), value))
        .collect()
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
}
