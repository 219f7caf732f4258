//! Full-text indexes: FTS5 over the words of the rows of now, kept by triggers.
//!
//! The words are taken out of the text by our own function before FTS5 sees them (`query::search`),
//! so an index finds exactly what the same search finds in a text that stands in none. FTS5 stores
//! no text of its own, and removes what is deleted at once (`secure-delete`), so that erasure can
//! promise it.

use model::{Catalogue, Index, IndexKind, Table, TableNumber};
use query::{names, search};
use rusqlite::{Connection, OptionalExtension, params};

/// A slice that fills an index ends behind this many rows, or behind the row with which it has
/// taken in so many bytes of text. In a release build a row of 20 words took 27 microseconds.
const SLICE_ROWS_MAX: usize = 1_000;
const SLICE_BYTES_MAX: i64 = 1 << 20;

/// An index of words: its table, and where the words come from. One of several columns is never
/// asked (wire protocol, 3), and so is not made.
struct Words {
    table: TableNumber,
    index: u32,
    now: String,
    name: String,
    column: String,
}

impl Words {
    fn new(table: &Table, index: &Index) -> Option<Words> {
        let [column] = index.columns.as_slice() else {
            return None;
        };
        Some(Words {
            table: table.number,
            index: index.number,
            now: names::now(table.number),
            name: names::fulltext(table.number, index.number),
            column: names::field(table, column.field),
        })
    }

    fn create_empty(&self) -> String {
        let name = &self.name;
        format!(
            "CREATE VIRTUAL TABLE {name} USING fts5 (words, content = '', columnsize = 0, \
               tokenize = 'ascii');
             INSERT INTO {name} ({name}, rank) VALUES ('secure-delete', 1);"
        )
    }

    /// Takes in the words of the rows for which `which` holds.
    fn fill(&self, which: &str) -> String {
        let (name, now, column, words) = (&self.name, &self.now, &self.column, self.words(""));
        format!(
            "INSERT INTO {name} (rowid, words) SELECT seq, {words} FROM {now} \
             WHERE {column} IS NOT NULL{which};"
        )
    }

    fn words(&self, row: &str) -> String {
        format!("{}({row}{})", names::INDEXED_WORDS, self.column)
    }

    /// The triggers that keep the index. While it `is_filling`, they leave alone the rows that it
    /// has not come to yet.
    fn triggers(&self, is_filling: bool) -> String {
        let (now, name, column) = (&self.now, &self.name, &self.column);
        let filled_to = filled_to(self.table, self.index);
        let among = |row: &str| {
            if is_filling {
                format!(" AND {row}seq <= ({filled_to})")
            } else {
                String::new()
            }
        };
        // FTS5 keeps no text, so what is to be removed must be said.
        let remove = format!(
            "INSERT INTO {name} ({name}, rowid, words) SELECT 'delete', old.seq, {} \
             WHERE old.{column} IS NOT NULL{};",
            self.words("old."),
            among("old.")
        );
        let add = format!(
            "INSERT INTO {name} (rowid, words) SELECT new.seq, {} \
             WHERE new.{column} IS NOT NULL{};",
            self.words("new."),
            among("new.")
        );
        // One trigger removes and adds: of several, SQLite runs the youngest first, and words that
        // are added before they are removed are lost.
        format!(
            "CREATE TRIGGER {name}_insert AFTER INSERT ON {now} BEGIN {add} END;
             CREATE TRIGGER {name}_delete AFTER DELETE ON {now} BEGIN {remove} END;
             CREATE TRIGGER {name}_change AFTER UPDATE OF {column} ON {now}
               WHEN old.{column} IS NOT new.{column} BEGIN {remove} {add} END;"
        )
    }

    /// The last row of the next slice after `from`, and whether rows follow it.
    fn slice(&self, connection: &Connection, from: i64) -> rusqlite::Result<(i64, bool)> {
        let sql = format!(
            "SELECT seq, coalesce(octet_length({}), 0) FROM {} WHERE seq > ?1 ORDER BY seq",
            self.column, self.now
        );
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query([from])?;
        let (mut last, mut bytes) = (from, 0);
        for _ in 0..SLICE_ROWS_MAX {
            let Some(row) = rows.next()? else {
                return Ok((last, false));
            };
            if bytes >= SLICE_BYTES_MAX {
                return Ok((last, true));
            }
            last = row.get(0)?;
            bytes += row.get::<_, i64>(1)?;
        }
        Ok((last, true))
    }
}

/// What the upkeep calls the rows of an index that is being filled. Written to disk.
fn task(index: u32) -> String {
    format!("words{index}")
}

/// Reads up to which `$sequence` an index that is being filled has the rows.
fn filled_to(table: TableNumber, index: u32) -> String {
    let task = task(index);
    format!(
        "SELECT seq FROM upkeep WHERE tab = {} AND task = '{task}'",
        table.0
    )
}

/// The statements that make the index and fill it with the rows that are there.
pub(crate) fn create(table: &Table, index: &Index) -> String {
    let Some(words) = Words::new(table, index) else {
        return String::new();
    };
    [words.create_empty(), words.fill(""), words.triggers(false)].concat()
}

/// Takes the next slice of rows into an index, which is made first if it is not there; whether all
/// rows are in it. From its first slice on the index follows every write to the rows it has, so
/// that others may write between two slices, and a start goes on where the last process ended.
pub(crate) fn fill(
    connection: &Connection,
    table: &Table,
    index: &Index,
) -> rusqlite::Result<bool> {
    let Some(words) = Words::new(table, index) else {
        return Ok(true);
    };
    let (number, task) = (table.number.0, task(index.number));
    let begun: Option<i64> = connection
        .prepare_cached(&filled_to(table.number, index.number))?
        .query_row((), |row| row.get(0))
        .optional()?;
    if begun.is_none() {
        connection.execute_batch(&[words.create_empty(), words.triggers(true)].concat())?;
        connection
            .prepare_cached("INSERT INTO upkeep (tab, task, seq) VALUES (?1, ?2, 0)")?
            .execute(params![number, task])?;
    }
    let from = begun.unwrap_or(0);
    let (last, is_more) = words.slice(connection, from)?;
    connection
        .prepare_cached(&words.fill(" AND seq > ?1 AND seq <= ?2"))?
        .execute(params![from, last])?;
    if is_more {
        connection
            .prepare_cached("UPDATE upkeep SET seq = ?3 WHERE tab = ?1 AND task = ?2")?
            .execute(params![number, task, last])?;
        return Ok(false);
    }
    let triggers = [drop_triggers(&words.name), words.triggers(false)].concat();
    connection.execute_batch(&triggers)?;
    connection
        .prepare_cached("DELETE FROM upkeep WHERE tab = ?1 AND task = ?2")?
        .execute(params![number, task])?;
    Ok(true)
}

/// The statements that drop one index of words, if it was made or begun.
pub(crate) fn drop(table: TableNumber, index: u32) -> String {
    let (name, task, number) = (names::fulltext(table, index), task(index), table.0);
    format!(
        "{} DROP TABLE IF EXISTS {name}; \
         DELETE FROM upkeep WHERE tab = {number} AND task = '{task}';",
        drop_triggers(&name)
    )
}

fn drop_triggers(name: &str) -> String {
    ["insert", "delete", "change"]
        .map(|when| format!("DROP TRIGGER IF EXISTS {name}_{when};"))
        .concat()
}

/// Builds every index again if texts are split into words by another rule than when it was made:
/// words that were added by one rule are not found, and not removed, by another.
pub(crate) fn renew(connection: &mut Connection, catalogue: &Catalogue) -> rusqlite::Result<()> {
    let rule = search::rule();
    let made_by: String = connection.query_row("SELECT words FROM meta", (), |row| row.get(0))?;
    if made_by == rule {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    let projects = catalogue.projects();
    let databases = projects.flat_map(|project| project.databases.values());
    for table in databases.flat_map(|database| database.tables.values()) {
        let is_of_words = |index: &&Index| index.kind == IndexKind::Fulltext;
        for index in table.indexes.iter().filter(is_of_words) {
            transaction.execute_batch(&drop(table.number, index.number))?;
            // One that is being filled is begun again by its next slice.
            if index.is_available() {
                transaction.execute_batch(&create(table, index))?;
            }
        }
    }
    transaction.execute("UPDATE meta SET words = ?1", [rule])?;
    transaction.commit()
}

/// Drops every index of words of a table whose rows are removed.
pub(crate) fn drop_all(connection: &Connection, table: TableNumber) -> rusqlite::Result<()> {
    let sql = "SELECT name FROM sqlite_schema \
               WHERE type = 'table' AND name GLOB ?1 AND sql LIKE 'CREATE VIRTUAL TABLE %'";
    let names = format!("{}[0-9]*", names::fulltext_prefix(table));
    let mut statement = connection.prepare_cached(sql)?;
    let found: Vec<String> = statement
        .query_map([names], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let drops = found.iter().map(|name| format!("DROP TABLE {name};"));
    connection.execute_batch(&drops.collect::<String>())
}
