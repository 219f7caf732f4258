//! Looking at a data directory without owning it, also while its owner runs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use model::{Mark, Table, TableNumber};
use query::names;
use rusqlite::{Connection, OpenFlags};

use super::disk::directory::{self, DATABASE_FILE};
use super::disk::kept::Kept;
use super::disk::keys;
use super::read::staged::used_bytes;
use super::schema::catalogue_read;
use super::schema::coding;
use super::schema::functions_key;
use super::schema::migrate::{self, FORMAT};
use super::schema::sizes::FIRST_FORMAT;
use crate::vault::Vault;
use crate::{StoreError, StorePlace};

/// Steps of SQLite's machine between two signs of life: some hundredths of a second.
const STEPS_PER_SIGN: i32 = 500_000;

/// Rows whose encrypted values are opened at once.
const SLICE_ROWS: usize = 1_000;
/// Most rows that are named as damaged.
pub const DAMAGED_ROWS_MAX: usize = 1_000;

/// What is encrypted and cannot be opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// How many values, those of the past included; most stand in a row and its latest version.
    pub values: u64,
    /// Of which rows: `project/database/table` and id, at most [`DAMAGED_ROWS_MAX`].
    pub rows: BTreeSet<(String, String)>,
}

/// A database opened for looking only.
pub struct Inspection {
    directory: PathBuf,
    connection: Connection,
    kept: Option<Kept>,
}

/// Opens the store of a data directory for looking; `None` when there is none yet.
///
/// # Errors
/// [`StoreError::Format`] when a newer Tidemark wrote it, [`StoreError::Corrupt`] when it is
/// another program's database or none, [`StoreError::DatabaseMissing`] when one was there,
/// [`StoreError::Io`] when it cannot be read, [`StoreError::PlaceUnfit`] when it is no directory.
pub fn inspect(place: &StorePlace) -> Result<Option<Inspection>, StoreError> {
    let directory = directory::directory_of(place)?;
    directory::expect_own(directory)?;
    directory::expect_database(directory)?;
    let database = directory.join(DATABASE_FILE);
    if !database.exists() {
        return Ok(None);
    }
    // Before the database is looked at: its owner may go on meanwhile.
    let kept = Kept::read(directory);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&database, flags)?;
    migrate::check(&connection)?;
    Ok(Some(Inspection {
        directory: directory.to_owned(),
        connection,
        kept,
    }))
}

impl Inspection {
    /// Of a copy, whose keys are in this directory.
    pub(crate) fn of_copy(directory: &Path, connection: Connection) -> Inspection {
        Inspection {
            directory: directory.to_owned(),
            connection,
            kept: None,
        }
    }

    /// The directory, and the connection to its database.
    pub(crate) fn place(&self) -> (&Path, &Connection) {
        (&self.directory, &self.connection)
    }

    /// Whether each commit is there that the file beside the database knows of.
    ///
    /// # Errors
    /// [`StoreError::CommitsLost`], or when the database cannot be read.
    pub fn holds_all(&self) -> Result<(), StoreError> {
        self.kept
            .as_ref()
            .map_or(Ok(()), |kept| kept.check(&self.connection))
    }

    /// See [`crate::Loaded::rest_ms`], of the commit at `mark`.
    pub fn rest_ms(&self, mark: Mark) -> Option<u64> {
        self.kept.as_ref()?.rest_ms(mark)
    }

    /// Whether the key stands beside the database that its encrypted columns need; `None` where it
    /// has none.
    ///
    /// # Errors
    /// [`StoreError::KeyMissing`], [`StoreError::KeyWrong`], or when the database cannot be read.
    pub fn key(&self) -> Result<Option<()>, StoreError> {
        keys::holds_key(&self.directory, &self.connection)
    }

    /// Whether the key of variables of functions, in `named` or in the data directory, opens them;
    /// `None` where there are none.
    ///
    /// # Errors
    /// As for [`Inspection::key`].
    pub fn variables_key(&self, named: Option<&Path>) -> Result<Option<()>, StoreError> {
        functions_key::holds_variables_key(&self.directory, named, &self.connection)
    }

    /// Opens every encrypted value of rows, now and in the past, and says what cannot be opened.
    /// Takes as long as reading their tables does; a slice at a time, so that the log shrinks
    /// meanwhile, and what is written meanwhile may be missed. `sign` is called after each.
    ///
    /// # Errors
    /// As for [`Inspection::key`], or when the database cannot be read.
    pub fn damaged(&self, mut sign: impl FnMut()) -> Result<Damage, StoreError> {
        let mut damage = Damage::default();
        if self.formats()?.0 != FORMAT {
            return Ok(damage);
        }
        let vault = keys::vault_of(&self.directory, &self.connection)?;
        let known = catalogue_read::load(&self.connection)?;
        let catalogue = known.state.catalogue;
        for table in catalogue.tables() {
            let positions = 0..table.columns.len();
            let sealed: Vec<usize> = positions.filter(|at| table.columns[*at].encrypt).collect();
            if sealed.is_empty() {
                continue;
            }
            for (physical, key) in [
                (names::now(table.number), "seq"),
                (names::versions(table.number), "rid"),
            ] {
                let mut from = i64::MIN;
                while let Some(last) = self.open_slice(
                    &vault,
                    (table, &sealed),
                    (&physical, key, from),
                    &mut damage,
                )? {
                    from = last;
                    sign();
                }
            }
        }
        Ok(damage)
    }

    /// Opens what is encrypted of the next rows after `from`; the last of them.
    fn open_slice(
        &self,
        vault: &Vault,
        (table, sealed): (&Table, &[usize]),
        (physical, key, from): (&str, &str, i64),
        damage: &mut Damage,
    ) -> Result<Option<i64>, StoreError> {
        let columns = sealed
            .iter()
            .map(|at| names::column(table.columns[*at].number));
        let columns: Vec<String> = columns.collect();
        let sql = format!(
            "SELECT {key}, id, {} FROM {physical} WHERE {key} > ?1 \
             ORDER BY {key} LIMIT {SLICE_ROWS}",
            columns.join(", ")
        );
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query([from])?;
        let mut last = None;
        while let Some(row) = rows.next()? {
            last = Some(row.get(0)?);
            let id: String = row.get(1)?;
            let mut is_broken = false;
            for (nth, at) in sealed.iter().enumerate() {
                let stored = row.get_ref(2 + nth)?;
                let place = (table.number, &table.columns[*at], id.as_str());
                match coding::open_value(vault, stored, place) {
                    Err(StoreError::SealBroken { .. }) => {
                        damage.values += 1;
                        is_broken = true;
                    }
                    opened => drop(opened?),
                }
            }
            if is_broken && damage.rows.len() < DAMAGED_ROWS_MAX {
                let table = format!("{}/{}/{}", table.project, table.database, table.id);
                damage.rows.insert((table, id));
            }
        }
        Ok(last)
    }

    /// The format found, and the one this binary writes.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn formats(&self) -> Result<(i64, i64), StoreError> {
        let found = self
            .connection
            .pragma_query_value(None, "user_version", |row| row.get(0))?;
        Ok((found, FORMAT))
    }

    /// The mark of the latest commit; `None` in a database that holds nothing yet.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn mark(&self) -> Result<Option<Mark>, StoreError> {
        if self.formats()?.0 == 0 {
            return Ok(None);
        }
        let read = self
            .connection
            .query_row("SELECT mark FROM meta", (), |row| row.get(0));
        let mark = Mark(read?);
        Ok(Some(mark).filter(|mark| *mark != Mark::ZERO))
    }

    /// Bytes of the pages that are in use.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn data_bytes(&self) -> Result<u64, StoreError> {
        Ok(used_bytes(&self.connection)?)
    }

    /// How many rows each project has now, those with the most first. Takes as long as walking an
    /// index of every table does.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn rows(&self) -> Result<Vec<(String, u64)>, StoreError> {
        if self.formats()?.0 == 0 {
            return Ok(Vec::new());
        }
        let sql = "SELECT project, number FROM table_ WHERE st = 9223372036854775807";
        let mut statement = self.connection.prepare(sql)?;
        let tables = statement.query_map((), |row| {
            Ok((row.get::<_, String>(0)?, TableNumber(row.get(1)?)))
        })?;
        let mut rows: BTreeMap<String, u64> = BTreeMap::new();
        for table in tables {
            let (project, number) = table?;
            let sql = format!("SELECT count(*) FROM {}", names::now(number));
            let count: i64 = self.connection.query_row(&sql, (), |row| row.get(0))?;
            *rows.entry(project).or_default() += count.unsigned_abs();
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by_key(|(_, count)| Reverse(*count));
        Ok(rows)
    }

    /// How many bytes the versions of each project hold, those with the most first.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn project_bytes(&self) -> Result<Vec<(String, u64)>, StoreError> {
        if self.formats()?.0 < FIRST_FORMAT {
            return Ok(Vec::new());
        }
        let sql = "SELECT project, sum(bytes) FROM table_bytes \
                   JOIN table_ ON number = tab AND st = 9223372036854775807 \
                   GROUP BY project ORDER BY 2 DESC";
        let mut statement = self.connection.prepare(sql)?;
        let bytes = statement.query_map((), |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
        })?;
        Ok(bytes.collect::<Result<_, _>>()?)
    }

    /// Walks the whole file and says what is wrong with it, at most 100 findings; none is good.
    /// `sign` is called every now and then. Takes as long as reading the file does.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn check(
        &mut self,
        mut sign: impl FnMut() + Send + 'static,
    ) -> Result<Vec<String>, StoreError> {
        let go_on = move || {
            sign();
            false
        };
        self.connection
            .progress_handler(STEPS_PER_SIGN, Some(go_on))?;
        // A page that keeps the walk from going on ends it with an error.
        match self.quick_check() {
            Err(StoreError::Corrupt { detail }) => Ok(vec![detail]),
            said => said,
        }
    }

    fn quick_check(&self) -> Result<Vec<String>, StoreError> {
        let mut statement = self.connection.prepare("PRAGMA quick_check")?;
        let said = statement.query_map((), |row| row.get(0))?;
        let mut said = said.collect::<rusqlite::Result<Vec<String>>>()?;
        said.retain(|line| line != "ok");
        Ok(said)
    }

    /// The database inside this binary, with its version.
    pub fn database() -> String {
        format!("SQLite {}", rusqlite::version())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_directory_without_a_database_and_a_file_that_is_none_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        assert!(inspect(&folder.path().into()).unwrap().is_none());
        let file = folder.path().join(DATABASE_FILE);
        fs::write(
            &file,
            "no database, but longer than the header of one".repeat(90),
        )
        .unwrap();
        let error = inspect(&folder.path().into()).err().unwrap();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    }

    #[test]
    fn a_damaged_page_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(DATABASE_FILE);
        let mut connection = Connection::open(&file).unwrap();
        migrate::migrate(&mut connection).unwrap();
        drop(connection);
        let mut found = inspect(&folder.path().into()).unwrap().unwrap();
        assert_eq!(found.formats().unwrap(), (FORMAT, FORMAT));
        assert_eq!(found.mark().unwrap(), None);
        assert_eq!(found.check(|| {}).unwrap(), Vec::<String>::new());
        drop(found);
        let mut bytes = fs::read(&file).unwrap();
        let last = bytes.len() - 4_096;
        bytes[last..].fill(0xA5);
        fs::write(&file, bytes).unwrap();
        let mut found = inspect(&folder.path().into()).unwrap().unwrap();
        assert!(!found.check(|| {}).unwrap().is_empty());
    }
}
