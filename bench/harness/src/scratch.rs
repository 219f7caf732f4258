//! A folder for servers that are thrown away.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A folder that is removed when the value is dropped.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes a new folder below `parent`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(parent: &Path) -> Result<Scratch> {
        let path = parent.join(format!("figures-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        Ok(Scratch { path })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path `name` below it; nothing is made.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
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

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left behind is named after this process, and no run takes it for its own.
        let _ = fs::remove_dir_all(&self.path);
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
