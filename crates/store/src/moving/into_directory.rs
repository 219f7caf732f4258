//! From a schema of a database into a data directory: into a file that gets its name last.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, params, params_from_iter};

use super::cell::{MovedCell, RowsDigest};
use super::directory_rows::{RowInserts, digest};
use super::site::MoveSite;
use super::{
    META, MoveStep, MoveWatch, Moved, altered, is_of_rows, left_out, need_alike, stamp_of,
};
use crate::error::corrupt;
use crate::postgres::{DatabaseStore, DatabaseUrl, LeavingMeta, StoreLeaving, TypedColumns};
use crate::sqlite::disk::connection::{self, Location};
use crate::sqlite::disk::keys;
use crate::sqlite::history::{HistoryFault, tables};
use crate::sqlite::schema::{catalogue_read, fulltext, functions_key, migrate};
use crate::{StoreError, StorePlace};

/// The counters of tables, which are made with them.
const COUNTERS: &str = "table_bytes";

/// Moves the store in a schema of a database into a data directory, which is empty, or keeps keys
/// for that store. Where an earlier run has ended after the store was sealed, this one gives the
/// copy its place.
///
/// # Errors
/// As [`DatabaseStore::open`]; [`StoreError::NotEmpty`]; [`StoreError::Locked`];
/// [`StoreError::StoredElsewhere`] when the directory is kept beside another database;
/// [`StoreError::KeyMissing`] when it has no key of encrypted columns that are there;
/// [`StoreError::Corrupt`] when what arrived is not what was sent.
pub fn move_to_directory(
    (url, password_file): (&DatabaseUrl, Option<&Path>),
    directory: &Path,
    tell: &mut dyn FnMut(MoveStep),
) -> Result<Moved, StoreError> {
    let mut store = DatabaseStore::open_to_leave(url, password_file)?;
    let mut site = MoveSite::open(directory, &StorePlace::from(url.clone()))?;
    if store.has_left()? {
        let name = finish((&store, url), &site)?;
        // The run that has sealed it may not have waited for a standby.
        store.seal(&name)?;
        site.publish()?;
        store.close();
        return Ok(Moved {
            rows: None,
            variables_key: None,
        });
    }
    let database = site.begin()?;
    let mut watch = MoveWatch::new(tell);
    let place = (&*database, site.directory());
    let filled = store.leave(async |leaving| fill(place, leaving, &mut watch).await);
    let (rows, variables_key) = filled?;
    let name = site.complete()?;
    watch.step(MoveStep::Whole);
    store.seal(&name)?;
    watch.step(MoveStep::Sealed);
    site.publish()?;
    store.close();
    Ok(Moved {
        rows: Some(rows),
        variables_key,
    })
}

/// The name of the earlier run whose copy is that of the store. A copy that was whole before
/// another move began may be as new, and the store is where that one has put it.
fn finish(
    (store, url): (&DatabaseStore, &DatabaseUrl),
    site: &MoveSite,
) -> Result<String, StoreError> {
    let Some(whole) = site.whole() else {
        return Err(DatabaseStore::moved_away(url));
    };
    let name = site.name()?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let file = Connection::open_with_flags(&whole, flags)?;
    let is_its_own = stamp_of(&file)? == (store.lineage().to_owned(), store.mark()?);
    if !is_its_own || store.left_by()?.as_ref() != Some(&name) {
        return Err(DatabaseStore::left_by_another(url, site.path()));
    }
    Ok(name)
}

/// A store as it leaves, and the file it goes to.
struct Leaving<'l> {
    file: &'l Connection,
    source: &'l StoreLeaving<'l>,
    /// What was sent of each table.
    sent: Vec<(String, TypedColumns, RowsDigest)>,
}

/// How many rows were copied, and whether the key of variables is missing.
pub(super) async fn fill(
    (database, directory): (&Path, &Path),
    leaving: &StoreLeaving<'_>,
    watch: &mut MoveWatch<'_>,
) -> Result<(u64, Option<StoreError>), StoreError> {
    let mut file = new_file(database)?;
    let theirs = leaving.tables().await?;
    need_alike(&file, &theirs)?;
    let of = count(leaving, &theirs).await?;
    watch.begin(of);
    let triggers = without_triggers(&file)?;
    file.execute_batch("BEGIN")?;
    let mut moving = Leaving {
        file: &file,
        source: leaving,
        sent: Vec::new(),
    };
    for (table, columns) in &theirs {
        if table != META && table != COUNTERS && !is_of_rows(table) {
            moving.copy_table((table, columns), watch).await?;
        }
    }
    set_meta(&file, leaving.meta().await?)?;
    keys::holds_key(directory, &file)?;
    let made = tables::make_tables(&file).map_err(unfit)?;
    file.execute("DELETE FROM table_bytes", ())?;
    let rows = theirs.iter().filter(|(table, _)| is_of_rows(table));
    if rows.clone().count() != 4 * made.len() {
        return Err(corrupt("the database has other tables than its catalogue"));
    }
    let counters = theirs.get_key_value(COUNTERS);
    for (table, columns) in counters.into_iter().chain(rows) {
        moving.copy_table((table, columns), watch).await?;
    }
    go_on_above(&file, leaving).await?;
    file.execute_batch(&triggers)?;
    file.execute_batch("COMMIT")?;
    watch.compare();
    for (table, columns, sent) in &moving.sent {
        let arrived = digest(&file, (table, columns), || watch.row())?;
        if arrived != *sent {
            return Err(altered(table, *sent, arrived));
        }
        watch.tell_rows();
    }
    drop(moving);
    let known = catalogue_read::load(&file)?;
    fulltext::renew(&mut file, &known.state.catalogue)?;
    let of_variables = functions_key::holds_variables_key(directory, None, &file);
    Ok((of, of_variables.err()))
}

/// Should what is written to it break off, all of it is removed: nothing is synced, or taken back,
/// before.
fn new_file(database: &Path) -> Result<Connection, StoreError> {
    let location = Location {
        database,
        vfs: None,
    };
    let mut file = connection::open(location)?;
    file.execute_batch(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -32768;",
    )?;
    migrate::migrate(&mut file)?;
    Ok(file)
}

async fn count(
    leaving: &StoreLeaving<'_>,
    theirs: &BTreeMap<String, TypedColumns>,
) -> Result<u64, StoreError> {
    let mut of = 0;
    for table in theirs.keys().filter(|table| *table != META) {
        of += leaving.count((table, left_out(table))).await?;
    }
    Ok(of)
}

/// Takes the triggers of counters away, which the rows come with. The statements that make them.
fn without_triggers(file: &Connection) -> Result<String, StoreError> {
    let sql = "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'";
    let mut statement = file.prepare(sql)?;
    let triggers = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let triggers: Vec<(String, String)> = triggers.collect::<Result<_, _>>()?;
    let mut make = String::new();
    for (name, text) in triggers {
        file.execute_batch(&format!("DROP TRIGGER {name}"))?;
        make.push_str(&text);
        make.push(';');
    }
    Ok(make)
}

fn set_meta(file: &Connection, meta: LeavingMeta) -> Result<(), StoreError> {
    let numbers = "UPDATE meta SET mark = ?1, x_at = ?2, horizon = ?3, catalogue_epoch = ?4, \
                   next_table = ?5, next_database = ?6";
    file.execute(numbers, params_from_iter(meta.numbers))?;
    let names = "UPDATE meta SET lineage = ?1, key_id = ?2";
    file.execute(names, [meta.lineage, meta.key])?;
    Ok(())
}

/// Numbers that were given are never given again, also where their rows are gone.
async fn go_on_above(file: &Connection, leaving: &StoreLeaving<'_>) -> Result<(), StoreError> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'";
    let mut statement = file.prepare(sql)?;
    let tables: Vec<String> = statement
        .query_map((), |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for table in tables {
        let given = leaving.given(&table, "seq").await?;
        file.execute("DELETE FROM sqlite_sequence WHERE name = ?1", [&table])?;
        if given > 0 {
            let insert = "INSERT INTO sqlite_sequence (name, seq) VALUES (?1, ?2)";
            file.execute(insert, params![table, given])?;
        }
    }
    Ok(())
}

/// A catalogue of which no tables can be made is damaged.
fn unfit(fault: HistoryFault) -> StoreError {
    match fault {
        HistoryFault::Store(error) => error,
        fault => corrupt(fault.to_string()),
    }
}

impl Leaving<'_> {
    async fn copy_table(
        &mut self,
        (table, columns): (&str, &TypedColumns),
        watch: &mut MoveWatch<'_>,
    ) -> Result<(), StoreError> {
        let mut inserts = RowInserts::new(self.file, (table, columns))?;
        let mut sent = RowsDigest::default();
        let rows = (table, columns, left_out(table));
        let put = |cells: &[MovedCell]| {
            sent.take(cells);
            inserts.put(cells)?;
            watch.row();
            Ok(())
        };
        self.source.each_row(rows, put).await?;
        self.sent.push((table.to_owned(), columns.clone(), sent));
        watch.tell_rows();
        Ok(())
    }
}
