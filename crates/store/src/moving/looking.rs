//! A copy of a store in a database that is made to be looked at: in a folder of the data directory,
//! which goes with it. A server may have the store meanwhile.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::into_directory::fill;
use super::{MoveStep, MoveWatch};
use crate::postgres::{DatabaseUrl, read_beside};
use crate::sqlite::disk::directory::{DATABASE_FILE, Directory};
use crate::sqlite::history::site::{remove_all, remove_empty};
use crate::sqlite::inspect::Inspection;
use crate::{StoreError, StorePlace};

/// The folder's name.
const FOLDER: &str = "export.unfinished";

/// A copy, which goes when this is dropped.
pub struct InspectedCopy {
    // Closed before its folder goes.
    inspection: Inspection,
    _folder: CopyFolder,
}

impl InspectedCopy {
    /// The copy, opened for looking.
    pub fn inspection(&self) -> &Inspection {
        &self.inspection
    }
}

/// Where the copy is, which one process makes at a time.
struct CopyFolder {
    _owner: Directory,
    path: PathBuf,
}

impl CopyFolder {
    /// # Errors
    /// [`StoreError::Locked`] when another process makes a copy there; what the system says.
    fn open(directory: &Path) -> Result<CopyFolder, StoreError> {
        let path = directory.join(FOLDER);
        let folder = CopyFolder {
            _owner: Directory::open(&path)?,
            path,
        };
        // A run that was killed has left its own.
        remove_empty(&folder.path)?;
        Ok(folder)
    }
}

impl Drop for CopyFolder {
    fn drop(&mut self) {
        drop(remove_all(&self.path));
    }
}

/// Copies the store in a schema of a database, as of one snapshot, to look at it. The keys are in
/// the data directory.
///
/// # Errors
/// [`StoreError::DatabaseUnfit`] when it cannot be connected to, or has no store;
/// [`StoreError::KeyMissing`] and [`StoreError::KeyWrong`] for the key of encrypted columns;
/// [`StoreError::Locked`] when another process makes such a copy in the directory;
/// [`StoreError::Corrupt`] when what arrived is not what was sent.
pub fn inspect_copy(
    (url, password_file): (&DatabaseUrl, Option<&Path>),
    directory: &Path,
    tell: &mut dyn FnMut(MoveStep),
) -> Result<InspectedCopy, StoreError> {
    if !directory.is_dir() {
        let place = StorePlace::from(directory);
        let detail = format!("the {place} is not there, in which a copy would be made");
        return Err(StoreError::Io { detail });
    }
    let folder = CopyFolder::open(directory)?;
    let database = folder.path.join(DATABASE_FILE);
    let mut watch = MoveWatch::new(tell);
    let place = (&*database, directory);
    read_beside(url, password_file, async |leaving| {
        fill(place, leaving, &mut watch).await
    })?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&database, flags)?;
    Ok(InspectedCopy {
        inspection: Inspection::of_copy(directory, connection),
        _folder: folder,
    })
}
