//! Where an import builds its store: in a directory inside the data directory, whose database
//! takes its place there when it is whole. Until then the data directory holds no database, and
//! says that an import did not end.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use model::Mark;
use rusqlite::{Connection, OpenFlags};

use super::fault::HistoryFault;
use crate::StoreError;
use crate::sqlite::disk::directory::{self, DATABASE_FILE, Directory, expect_own};
use crate::sqlite::disk::file_format;
use crate::sqlite::disk::kept::MARKS_FILE;
use crate::sqlite::schema::migrate;
use crate::vault::KEY_FILE;

/// The directory's name.
const UNFINISHED: &str = "import.unfinished";
/// The same where a store is moved here.
pub(crate) const UNMOVED: &str = "move.unfinished";

/// A data directory into which a history is imported. Dropped, it is empty again.
pub(super) struct ImportSite {
    owner: Directory,
    /// Where the store is built.
    pub(super) path: PathBuf,
    is_done: bool,
}

impl ImportSite {
    /// Locks the data directory and makes room in it.
    ///
    /// # Errors
    /// [`HistoryFault::NotEmpty`], [`HistoryFault::KeyThere`], or what the system says.
    pub(super) fn open(path: &Path) -> Result<ImportSite, HistoryFault> {
        let owner = Directory::open(path)?;
        expect_own(owner.path())?;
        let path = owner.path().join(UNFINISHED);
        need_empty(owner.path())?;
        let directory = owner.path().join(UNMOVED);
        if directory.exists() {
            return Err(StoreError::MoveUnfinished { directory }.into());
        }
        let key = owner.path().join(KEY_FILE);
        if fs::symlink_metadata(&key).is_ok() {
            // An import that ended between its last two steps has left its own.
            if !is_same(&key, &path.join(KEY_FILE)) {
                return Err(HistoryFault::KeyThere(key));
            }
            remove_file(&key)?;
        }
        remove_empty(owner.path())?;
        make_empty_directory(&path)?;
        sync(owner.path())?;
        Ok(ImportSite {
            owner,
            path,
            is_done: false,
        })
    }

    /// Puts the store, which is closed, in its place. Everything is durable before its database has
    /// its name there.
    pub(super) fn publish(mut self) -> Result<(), HistoryFault> {
        let log = self.path.join(format!("{DATABASE_FILE}-wal"));
        if fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
            let why = "its log could not be carried over into the database".to_owned();
            return Err(HistoryFault::Store(StoreError::Io { detail: why }));
        }
        let database = self.path.join(DATABASE_FILE);
        sync(&database)?;
        let key = self.path.join(KEY_FILE);
        if key.exists() {
            let place = self.owner.path().join(KEY_FILE);
            fs::hard_link(&key, &place).map_err(|error| describe(&place, &error))?;
        }
        let place = self.owner.path().join(DATABASE_FILE);
        sync(self.owner.path())?;
        fs::rename(&database, &place).map_err(|error| describe(&place, &error))?;
        self.is_done = true;
        sync(self.owner.path())?;
        Ok(remove_all(&self.path)?)
    }
}

impl Drop for ImportSite {
    fn drop(&mut self) {
        if !self.is_done {
            drop(remove_all(&self.path));
        }
    }
}

/// What an import, or a move into this directory, has left in a data directory that is opened:
/// nothing, if it came to its end.
///
/// # Errors
/// [`StoreError::ImportUnfinished`] or [`StoreError::MoveUnfinished`] if it did not.
pub(crate) fn settle(path: &Path) -> Result<(), StoreError> {
    for name in [UNFINISHED, UNMOVED] {
        let directory = path.join(name);
        if !directory.is_dir() {
            continue;
        }
        if !path.join(DATABASE_FILE).exists() {
            return Err(match name {
                UNMOVED => StoreError::MoveUnfinished { directory },
                _ => StoreError::ImportUnfinished { directory },
            });
        }
        remove_all(&directory)?;
    }
    Ok(())
}

/// Whether nothing was ever committed there.
fn need_empty(path: &Path) -> Result<(), HistoryFault> {
    directory::expect_database(path)?;
    written(path)?.map_or(Ok(()), |mark| {
        Err(HistoryFault::NotEmpty {
            directory: path.to_owned(),
            mark,
        })
    })
}

/// The mark, or the horizon, of the store in a directory; `None` where nothing was ever committed.
pub(crate) fn written(path: &Path) -> Result<Option<Mark>, StoreError> {
    let database = path.join(DATABASE_FILE);
    if !database.exists() {
        return Ok(None);
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&database, flags)?;
    migrate::check(&connection)?;
    if file_format::is_empty(&connection)? {
        return Ok(None);
    }
    let sql = "SELECT max(mark, horizon) FROM meta";
    let mark: i64 = connection.query_row(sql, (), |row| row.get(0))?;
    Ok((mark > 0).then_some(Mark(mark)))
}

/// Takes a store away in which nothing was ever committed.
pub(crate) fn remove_empty(path: &Path) -> Result<(), StoreError> {
    for name in [
        MARKS_FILE.to_owned(),
        DATABASE_FILE.to_owned(),
        format!("{DATABASE_FILE}-wal"),
        format!("{DATABASE_FILE}-shm"),
    ] {
        remove_file(&path.join(name))?;
    }
    Ok(())
}

/// Makes a directory for what is not whole yet, in place of one that was left.
pub(crate) fn make_empty_directory(path: &Path) -> Result<(), StoreError> {
    remove_all(path)?;
    let mut builder = DirBuilder::new();
    let made = builder.mode(0o700).create(path);
    made.map_err(|error| describe(path, &error))
}

fn is_same(one: &Path, other: &Path) -> bool {
    match (fs::read(one), fs::read(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

fn remove_file(path: &Path) -> Result<(), StoreError> {
    ignore_absent(path, fs::remove_file(path))
}

pub(crate) fn remove_all(path: &Path) -> Result<(), StoreError> {
    ignore_absent(path, fs::remove_dir_all(path))
}

fn ignore_absent(path: &Path, removed: io::Result<()>) -> Result<(), StoreError> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(describe(path, &error)),
        _ => Ok(()),
    }
}

pub(crate) fn sync(path: &Path) -> Result<(), StoreError> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|error| describe(path, &error))
}

/// Gives a file another name, whose entry survives a power cut.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::rename(from, to).map_err(|error| describe(to, &error))?;
    to.parent().map_or(Ok(()), sync)
}

pub(crate) fn describe(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io {
        detail: format!("{}: {error}", path.display()),
    }
}
