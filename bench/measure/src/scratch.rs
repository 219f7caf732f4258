//! A folder for servers that are thrown away.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// A folder that is removed when the value is dropped.
pub struct Scratch(TempDir);

impl Scratch {
    /// Makes a new folder below `parent`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(parent: &Path) -> Result<Scratch> {
        let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(parent);
        let folder = folder.with_context(|| format!("no folder below {}", parent.display()))?;
        Ok(Scratch(folder))
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The path `name` below it; nothing is made.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// A copy of the data directory `from`, whose server has ended, as `name`. Replaces what was
    /// there.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn copy(&self, from: &Path, name: &str) -> Result<PathBuf> {
        let to = self.at(name);
        let cannot = || format!("{} cannot be copied", from.display());
        if to.exists() {
            fs::remove_dir_all(&to).with_context(cannot)?;
        }
        fs::create_dir_all(&to).with_context(cannot)?;
        for entry in fs::read_dir(from).with_context(cannot)? {
            let entry = entry?;
            // A socket or a folder is nothing a store needs.
            if entry.file_type()?.is_file() {
                fs::copy(entry.path(), to.join(entry.file_name())).with_context(cannot)?;
            }
        }
        Ok(to)
    }
}

/// The database file inside a data directory.
///
/// # Errors
/// When there is not exactly one.
pub fn database_file(directory: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let found: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "db"))
        .collect();
    match found.as_slice() {
        [only] => Ok(only.clone()),
        _ => anyhow::bail!("{} holds {} files *.db", directory.display(), found.len()),
    }
}
