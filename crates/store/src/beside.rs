//! What this machine keeps next to a store in a database: keys, and the sockets of its server.

use std::path::Path;

use crate::sqlite::disk::directory::Directory;
use crate::{StoreError, StorePlace};

/// A directory that is held for that until the value is dropped.
pub struct DirectoryBeside(Directory);

impl DirectoryBeside {
    /// Takes the directory, which is made where it is absent, for a store in this place.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another process holds it; [`StoreError::StoredHere`] when a
    /// store is in it; [`StoreError::StoredElsewhere`] when it is that of a store in another place;
    /// [`StoreError::Io`] when it cannot be written to.
    pub fn take(directory: &Path, place: &StorePlace) -> Result<DirectoryBeside, StoreError> {
        Directory::open_beside(directory, place).map(DirectoryBeside)
    }

    /// Says from now on that the store of the directory is in this place. To be called when it was
    /// opened there: a URL that was mistyped has no store.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the directory cannot be written to.
    pub fn name_place(&self, place: &StorePlace) -> Result<(), StoreError> {
        self.0.name_place(place)
    }
}
