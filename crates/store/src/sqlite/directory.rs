//! The data directory: where its files are, and the lock that gives it one owner.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::StoreError;

/// The database file. SQLite keeps its log beside it, as `tidemark.db-wal`.
pub(super) const DATABASE_FILE: &str = "tidemark.db";
/// The file whose lock says that the directory has an owner. It is always empty.
pub(super) const LOCK_FILE: &str = "lock";

/// A data directory held by this process until the value is dropped.
pub(super) struct Directory {
    database: PathBuf,
    // The lock ends when the file is closed, at the latest when the process ends, however.
    _lock: File,
}

impl Directory {
    /// Creates `path` if it is absent, and locks it.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another owner holds it, [`StoreError::Io`] when it cannot be
    /// created or written to.
    pub(super) fn open(path: &Path) -> Result<Directory, StoreError> {
        create(path).map_err(|error| describe(path, "cannot be created", &error))?;
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join(LOCK_FILE))
            .map_err(|error| describe(path, "cannot be written to", &error))?;
        match lock.try_lock() {
            Ok(()) => Ok(Directory {
                database: path.join(DATABASE_FILE),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Locked {
                directory: path.to_owned(),
            }),
            Err(TryLockError::Error(error)) => Err(describe(path, "cannot be locked", &error)),
        }
    }

    /// The database file.
    pub(super) fn database(&self) -> &Path {
        &self.database
    }
}

/// Creates the directory so that a power cut cannot take it back: its entry in its parent is
/// synced, too. What it holds is nobody else's business, so only its owner may enter.
fn create(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    let absolute = fs::canonicalize(path)?;
    match absolute.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

fn describe(path: &Path, what: &str, error: &io::Error) -> StoreError {
    StoreError::Io {
        detail: format!("the data directory {} {what}: {error}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_owner_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a/b");
        let first = Directory::open(&path).unwrap();
        let second = Directory::open(&path).map(|_| ());
        assert_eq!(
            second,
            Err(StoreError::Locked {
                directory: path.clone()
            })
        );
        drop(first);
        assert!(Directory::open(&path).is_ok());
    }

    #[test]
    fn what_is_no_directory_is_named() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        fs::write(&path, "").unwrap();
        let error = Directory::open(&path).map(|_| ()).unwrap_err();
        let StoreError::Io { detail } = error else {
            panic!("{error:?}");
        };
        assert!(detail.contains(&path.display().to_string()), "{detail}");
    }
}
