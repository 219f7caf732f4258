//! Where a copy is made in a data directory: in a folder of its own, whose database gets another
//! name when it is whole, and its place in the data directory when the source is sealed.

use std::path::{Path, PathBuf};

use crate::sqlite::disk::directory::{self, DATABASE_FILE, Directory};
use crate::sqlite::history::site::{
    UNMOVED, make_empty_directory, remove_all, remove_empty, rename, sync, written,
};
use crate::{StoreError, StorePlace};

use super::elsewhere;

/// A copy that is whole, and does not count yet.
const WHOLE_FILE: &str = "whole.db";

/// A data directory into which a store is moved. Dropped, it has nothing of a copy that is not
/// whole.
pub(super) struct MoveSite {
    owner: Directory,
    path: PathBuf,
    is_whole: bool,
}

impl MoveSite {
    /// Locks the data directory. It may be the one that is kept beside the source.
    ///
    /// # Errors
    /// [`StoreError::Locked`]; [`StoreError::StoredElsewhere`] when it is kept beside another one.
    pub(super) fn open(directory: &Path, source: &StorePlace) -> Result<MoveSite, StoreError> {
        let owner = Directory::open(directory)?;
        let path = owner.path().join(UNMOVED);
        match directory::elsewhere(directory)? {
            Some(named) if named != source.to_string() => Err(elsewhere(directory, named)),
            _ => Ok(MoveSite {
                is_whole: path.join(WHOLE_FILE).exists(),
                owner,
                path,
            }),
        }
    }

    /// The data directory.
    pub(super) fn directory(&self) -> &Path {
        self.owner.path()
    }

    /// Makes room for a copy, in place of one that was left. Where it is written.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`] when there is a store; [`StoreError::DatabaseMissing`] when one was
    /// there; what the system says.
    pub(super) fn begin(&mut self) -> Result<PathBuf, StoreError> {
        let directory = self.owner.path();
        if directory::elsewhere(directory)?.is_none() {
            directory::expect_database(directory)?;
        }
        if written(directory)?.is_some() {
            return Err(StoreError::NotEmpty {
                directory: directory.to_owned(),
            });
        }
        self.is_whole = false;
        remove_empty(directory)?;
        make_empty_directory(&self.path)?;
        sync(directory)?;
        Ok(self.path.join(DATABASE_FILE))
    }

    /// The copy is complete, and closed.
    pub(super) fn complete(&mut self) -> Result<(), StoreError> {
        let database = self.path.join(DATABASE_FILE);
        sync(&database)?;
        rename(&database, &self.path.join(WHOLE_FILE))?;
        self.is_whole = true;
        Ok(())
    }

    /// The copy that an earlier run has completed.
    pub(super) fn whole(&self) -> Option<PathBuf> {
        self.is_whole.then(|| self.path.join(WHOLE_FILE))
    }

    /// Gives the copy its place. Until then the directory says that the move has not ended.
    pub(super) fn publish(self) -> Result<(), StoreError> {
        self.owner.name_no_place()?;
        let directory = self.owner.path();
        sync(directory)?;
        rename(&self.path.join(WHOLE_FILE), &directory.join(DATABASE_FILE))?;
        remove_all(&self.path)
    }
}

impl Drop for MoveSite {
    fn drop(&mut self) {
        if !self.is_whole {
            drop(remove_all(&self.path));
        }
    }
}
