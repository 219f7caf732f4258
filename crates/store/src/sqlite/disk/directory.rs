//! The data directory: where its files are, and the lock that gives it one owner.

use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::kept::MARKS_FILE;
use crate::vault::KEY_FILE;
use crate::{StoreError, StorePlace};

/// The database file. SQLite keeps its log beside it, as `tidemark.db-wal`.
pub(crate) const DATABASE_FILE: &str = "tidemark.db";
/// A file that is locked, too, and is always empty: what versions before 0.2 lock alone. It can be
/// removed, and then a second owner would lock another one of this name.
const LOCK_FILE: &str = "lock";
/// A file of a directory whose store is in a database: which one, in words.
const ELSEWHERE_FILE: &str = "tidemark.database";
/// What SQLite makes beside the database, after its name.
const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];

/// A data directory held by this process until the value is dropped.
pub(crate) struct Directory {
    path: PathBuf,
    // Locks end when their files are closed, at the latest when the process ends, however. The
    // first one is of the directory itself.
    _locks: [File; 2],
}

impl Directory {
    /// Creates `path` if it is absent, and locks it.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when another owner holds it, [`StoreError::Io`] when it cannot be
    /// created or written to.
    pub(crate) fn open(path: &Path) -> Result<Directory, StoreError> {
        create(path).map_err(|error| describe(path, "cannot be created", &error))?;
        let directory =
            File::open(path).map_err(|error| describe(path, "cannot be opened", &error))?;
        let mut options = File::options();
        options.create(true).truncate(false).write(true).mode(0o600);
        let file = options
            .open(path.join(LOCK_FILE))
            .map_err(|error| describe(path, "cannot be written to", &error))?;
        let locks = [directory, file];
        for lock in &locks {
            lock.try_lock().map_err(|error| match error {
                TryLockError::WouldBlock => StoreError::Locked {
                    place: path.into(),
                    holder: None,
                },
                TryLockError::Error(error) => describe(path, "cannot be locked", &error),
            })?;
        }
        close_to_others(path);
        Ok(Directory {
            path: path.to_owned(),
            _locks: locks,
        })
    }

    /// The same for what is kept next to a store in this place, a database.
    ///
    /// # Errors
    /// As [`Directory::open`]; [`StoreError::StoredHere`] when a store is in the directory itself
    /// and was not moved away, [`StoreError::StoredElsewhere`] when it is that of a store in
    /// another database, whose keys would seal what is in this one.
    pub(crate) fn open_beside(path: &Path, place: &StorePlace) -> Result<Directory, StoreError> {
        let directory = Directory::open(path)?;
        let holds = |name: &&str| path.join(name).exists();
        if elsewhere(path)?.is_none() && [DATABASE_FILE, MARKS_FILE].iter().any(holds) {
            return Err(StoreError::StoredHere {
                directory: path.to_owned(),
            });
        }
        if elsewhere(path)?.is_some_and(|named| named != place.to_string()) {
            expect_own(path)?;
        }
        Ok(directory)
    }

    /// Says from now on that the store of this directory is in this place. What is in the directory
    /// itself is sealed by that; a power cut does not take it back.
    ///
    /// # Errors
    /// [`StoreError::Io`] when it cannot be written.
    pub(crate) fn name_place(&self, place: &StorePlace) -> Result<(), StoreError> {
        let words = place.to_string();
        if elsewhere(&self.path)?.is_some_and(|named| named == words) {
            return Ok(());
        }
        let (named, new) = (ELSEWHERE_FILE, format!("{ELSEWHERE_FILE}.new"));
        let write = || {
            let mut file = File::create(self.path.join(&new))?;
            file.write_all(words.as_bytes())?;
            file.sync_all()?;
            fs::rename(self.path.join(&new), self.path.join(named))?;
            File::open(&self.path)?.sync_all()
        };
        write().map_err(|error| describe(&self.path, "cannot be written to", &error))
    }

    /// Takes that back.
    ///
    /// # Errors
    /// [`StoreError::Io`] when it cannot be removed.
    pub(crate) fn name_no_place(&self) -> Result<(), StoreError> {
        match fs::remove_file(self.path.join(ELSEWHERE_FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(describe(&self.path, "cannot be written to", &error))
            }
            _ => Ok(()),
        }
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The database file, which is made if it is absent: SQLite would let others read it, and
    /// gives its log the rights of the database.
    ///
    /// # Errors
    /// [`StoreError::DatabaseMissing`] when one was here; [`StoreError::Io`] when none can be made.
    pub(crate) fn database(&self) -> Result<PathBuf, StoreError> {
        expect_database(&self.path)?;
        let database = self.path.join(DATABASE_FILE);
        let mut options = File::options();
        // Closed at once, before SQLite has a lock on it, which this would end.
        let made = options.write(true).create_new(true).mode(0o600);
        match made.open(&database) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                Err(describe(&self.path, "cannot be written to", &error))
            }
            _ => Ok(database),
        }
    }
}

/// In which database the store of a directory is, in words; `None` where it is in none.
///
/// # Errors
/// [`StoreError::Io`] when that cannot be read.
pub(crate) fn elsewhere(path: &Path) -> Result<Option<String>, StoreError> {
    match fs::read_to_string(path.join(ELSEWHERE_FILE)) {
        Ok(place) => Ok(Some(place)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(describe(path, "cannot be read", &error)),
    }
}

/// # Errors
/// [`StoreError::StoredElsewhere`] when the directory is kept next to a database, and
/// [`StoreError::Io`] when that cannot be read.
pub(crate) fn expect_own(path: &Path) -> Result<(), StoreError> {
    elsewhere(path)?.map_or(Ok(()), |place| Err(stored_elsewhere(path, place)))
}

/// The store of a directory is in this place, in words.
pub(crate) fn stored_elsewhere(path: &Path, place: String) -> StoreError {
    let holds = |name: &str| path.join(name).exists();
    StoreError::StoredElsewhere {
        directory: path.to_owned(),
        place,
        was_moved: [DATABASE_FILE, MARKS_FILE].into_iter().any(holds),
    }
}

/// # Errors
/// [`StoreError::DatabaseMissing`] when the directory holds what is kept beside a database, and
/// the database is absent or empty.
pub(crate) fn expect_database(path: &Path) -> Result<(), StoreError> {
    let bytes = |name: &str| fs::metadata(path.join(name)).ok().map(|file| file.len());
    let is_there = bytes(DATABASE_FILE).is_some_and(|bytes| bytes > 0);
    let log = bytes(&format!("{DATABASE_FILE}{}", BESIDE[0]));
    let had_one = bytes(MARKS_FILE).is_some() || log.is_some_and(|bytes| bytes > 0);
    if had_one && !is_there {
        return Err(StoreError::DatabaseMissing {
            directory: path.to_owned(),
        });
    }
    Ok(())
}

/// # Errors
/// [`StoreError::PlaceUnfit`] when it is none.
pub(crate) fn directory_of(place: &StorePlace) -> Result<&Path, StoreError> {
    match place {
        StorePlace::Directory(path) => Ok(path),
        StorePlace::Database(_) => Err(StoreError::PlaceUnfit {
            place: place.clone(),
        }),
    }
}

/// Lets the next start go on with what is there, after commits were lost: what tells of them goes,
/// and so does the log of a database that is gone.
///
/// # Errors
/// As for [`crate::open`].
pub fn accept_loss(place: &StorePlace) -> Result<(), StoreError> {
    let path = directory_of(place)?;
    let directory = Directory::open(path)?;
    let remove = |name: &str| match fs::remove_file(directory.path.join(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(describe(path, "cannot be written to", &error))
        }
        _ => Ok(()),
    };
    let is_gone = expect_database(path).is_err();
    remove(MARKS_FILE)?;
    if is_gone {
        for end in BESIDE {
            remove(&format!("{DATABASE_FILE}{end}"))?;
        }
    }
    Ok(())
}

/// Takes the rights of others to the files away, which earlier versions gave. Those of another
/// user stay as they are, and `tidemark doctor` tells of them.
fn close_to_others(path: &Path) {
    let beside = BESIDE.map(|end| format!("{DATABASE_FILE}{end}"));
    let files = [DATABASE_FILE, LOCK_FILE, MARKS_FILE, KEY_FILE].map(str::to_owned);
    for name in files.iter().chain(&beside) {
        let file = path.join(name);
        let mode = fs::metadata(&file).map(|known| known.permissions().mode());
        if mode.is_ok_and(|mode| mode & 0o077 != 0)
            && let Err(error) = fs::set_permissions(&file, Permissions::from_mode(0o600))
        {
            let file = file.display();
            tracing::warn!(%file, %error, "others may read it, and that cannot be changed");
        }
    }
}

/// Creates the directory so that a power cut cannot take it back: its entry in its parent is
/// synced, too. What it holds is private, so only its owner may enter.
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
                place: path.clone().into(),
                holder: None,
            })
        );
        drop(first);
        assert!(Directory::open(&path).is_ok());
    }

    #[test]
    fn a_lock_holds_when_its_file_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let first = Directory::open(root.path()).unwrap();
        fs::remove_file(root.path().join(LOCK_FILE)).unwrap();
        let second = Directory::open(root.path()).map(|_| ());
        assert!(
            matches!(second, Err(StoreError::Locked { .. })),
            "{second:?}"
        );
        drop(first);
        // An earlier version has this lock alone.
        let earlier = File::create(root.path().join(LOCK_FILE)).unwrap();
        earlier.try_lock().unwrap();
        let second = Directory::open(root.path()).map(|_| ());
        assert!(
            matches!(second, Err(StoreError::Locked { .. })),
            "{second:?}"
        );
    }

    #[test]
    fn a_directory_whose_store_was_moved_is_kept_next_to_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        fs::write(path.join(DATABASE_FILE), "old").unwrap();
        let place = StorePlace::from(Path::new("elsewhere"));
        let refused = Directory::open_beside(path, &place).map(|_| ());
        let is_here = matches!(refused, Err(StoreError::StoredHere { .. }));
        assert!(is_here, "{refused:?}");
        let named = |directory: &Directory| directory.name_place(&place).unwrap();
        named(&Directory::open(path).unwrap());
        assert_eq!(elsewhere(path), Ok(Some(place.to_string())));
        named(&Directory::open_beside(path, &place).unwrap());
        Directory::open(path).unwrap().name_no_place().unwrap();
        assert_eq!(expect_own(path), Ok(()));
        let left = fs::read_dir(path).unwrap().count();
        assert_eq!(left, 2, "the database and the lock");
    }

    #[test]
    fn files_in_place_of_directories_are_named() {
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
