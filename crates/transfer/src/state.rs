//! What a copy from another server has done so far, kept in a file so that it can go on.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

/// The version of the file.
const VERSION: u64 = 1;

/// The file, and what stands in it.
pub struct State {
    path: PathBuf,
    kept: Kept,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    version: u64,
    /// Endpoint and project of the source, and the project of the target.
    from: String,
    /// By `database/table`, and for links by `database/table/key`.
    tables: BTreeMap<String, Progress>,
}

/// How far one table has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The id of the last row that was copied.
    #[serde(default)]
    pub after: Option<String>,
    /// Whether all rows were copied.
    #[serde(default)]
    pub done: bool,
}

impl State {
    /// Reads the file, or begins one.
    ///
    /// # Errors
    /// When it is of another copy, or cannot be read.
    pub fn open(path: &Path, from: &str) -> Result<State> {
        let read = match fs::read(path) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(State {
                    path: path.to_owned(),
                    kept: Kept {
                        version: VERSION,
                        from: from.to_owned(),
                        tables: BTreeMap::new(),
                    },
                });
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let kept: Kept = serde_json::from_slice(&read)
            .with_context(|| format!("{} holds no state of a copy", path.display()))?;
        if kept.version != VERSION || kept.from != from {
            bail!(
                "{} is the state of another copy ({}). Give another file with --state, or remove \
                 it",
                path.display(),
                kept.from
            );
        }
        Ok(State {
            path: path.to_owned(),
            kept,
        })
    }

    /// Whether an earlier run has left something.
    pub fn is_resumed(&self) -> bool {
        !self.kept.tables.is_empty()
    }

    /// How far a table has come.
    pub fn progress(&self, database: &str, table: &str) -> Progress {
        let known = self.kept.tables.get(&format!("{database}/{table}"));
        known.cloned().unwrap_or_default()
    }

    /// Keeps how far a table has come.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep(&mut self, database: &str, table: &str, progress: Progress) -> Result<()> {
        self.kept
            .tables
            .insert(format!("{database}/{table}"), progress);
        let text = serde_json::to_vec(&self.kept)?;
        // Whole or not at all; what a power cut takes is copied again, and found to be there.
        let unfinished = self.path.with_extension("new");
        write(&unfinished, &text)
            .and_then(|()| fs::rename(&unfinished, &self.path))
            .with_context(|| format!("cannot write the state {}", self.path.display()))
    }

    /// Removes the file: nothing is left to go on with.
    ///
    /// # Errors
    /// When it is there and cannot be removed.
    pub fn forget(self) -> Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.path.display()))
            }
            _ => Ok(()),
        }
    }
}

/// For its owner only, like what it tells of.
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_state_is_kept_and_belongs_to_one_copy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let mut state = State::open(&path, "a").unwrap();
        assert!(!state.is_resumed());
        let progress = Progress {
            after: Some("r9".to_owned()),
            done: false,
        };
        state.keep("d", "t", progress.clone()).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = State::open(&path, "a").unwrap();
        assert!(again.is_resumed());
        assert_eq!(again.progress("d", "t"), progress);
        assert_eq!(again.progress("d", "u"), Progress::default());
        let error = State::open(&path, "b").err().unwrap().to_string();
        assert!(error.contains("another copy (a)"), "{error}");
        again.forget().unwrap();
        assert!(!path.exists());
    }
}
