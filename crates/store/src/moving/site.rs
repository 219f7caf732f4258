//! Where a copy is made in a data directory: in a folder of its own, whose database gets another
//! name when it is whole, and its place in the data directory when the source is sealed.

use std::fs;
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom as _, SystemRandom};

use crate::sqlite::disk::directory::{self, DATABASE_FILE, Directory};
use crate::sqlite::history::site::{
    UNMOVED, describe, make_empty_directory, remove_all, remove_empty, rename, sync, written,
};
use crate::{StoreError, StorePlace};

/// A copy that is whole, and does not count yet.
const WHOLE_FILE: &str = "whole.db";
/// The name of the move that has made it, which its source has from when it is sealed.
const NAME_FILE: &str = "move.name";

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
            Some(named) if named != source.to_string() => {
                Err(directory::stored_elsewhere(directory, named))
            }
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

    /// The copy is complete, and closed. The name of this move, which no other one has.
    pub(super) fn complete(&mut self) -> Result<String, StoreError> {
        let (database, named) = (self.path.join(DATABASE_FILE), self.path.join(NAME_FILE));
        let name = drawn_name()?;
        fs::write(&named, &name).map_err(|error| describe(&named, &error))?;
        sync(&named)?;
        sync(&database)?;
        rename(&database, &self.path.join(WHOLE_FILE))?;
        self.is_whole = true;
        Ok(name)
    }

    /// The copy that an earlier run has completed.
    pub(super) fn whole(&self) -> Option<PathBuf> {
        self.is_whole.then(|| self.path.join(WHOLE_FILE))
    }

    /// The name of the run that has.
    pub(super) fn name(&self) -> Result<String, StoreError> {
        let named = self.path.join(NAME_FILE);
        fs::read_to_string(&named).map_err(|error| describe(&named, &error))
    }

    /// Where the copy is until it has its place.
    pub(super) fn path(&self) -> &Path {
        &self.path
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

fn drawn_name() -> Result<String, StoreError> {
    let mut bytes = [0; 16];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| StoreError::Io {
        detail: "the system gives no random bytes".to_owned(),
    })?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

impl Drop for MoveSite {
    fn drop(&mut self) {
        if !self.is_whole {
            drop(remove_all(&self.path));
        }
    }
}
