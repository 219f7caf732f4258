//! What this machine keeps next to a store in a database: keys, and the sockets of its server.

use std::path::Path;

use crate::sqlite::disk::directory::Directory;
use crate::{StoreError, StorePlace};

/// A directory that is held for that until the value is dropped.
pub struct DirectoryBeside(#[expect(dead_code, reason = "it is held")] Directory);

impl DirectoryBeside {
    /// Takes the directory, which is made where it is absent, and from then on says that its store
    /// is in this place.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process holds it; [`StoreError::StoredHere`] when a
    /// store is in it; [`StoreError::Io`] when it cannot be written to.
    pub fn take(directory: &Path, place: &StorePlace) -> Result<DirectoryBeside, StoreError> {
        Directory::open_beside(directory, place).map(DirectoryBeside)
    }
}
