//! Full-text indexes: FTS5 over the words of the rows of now, kept by triggers.
//!
//! The words are taken out of the text by our own function before FTS5 sees them (`query::search`),
//! so an index finds exactly what the same search finds in a text that stands in none. FTS5 stores
//! no text of its own, and removes what is deleted at once (`secure-delete`), so that erasure can
//! promise it.

use model::{Catalogue, Index, IndexKind, Table, TableNumber};
use query::{names, search};
use rusqlite::Connection;

use super::schema::physical_field;

/// The statements that make the index and fill it with the rows that are there. An index of
/// several columns is never asked (wire protocol, 3), and so is not made.
pub(super) fn create(table: &Table, index: &Index) -> String {
    let [column] = index.columns.as_slice() else {
        return String::new();
    };
    let (now, name) = (
        names::now(table.number),
        names::fulltext(table.number, index.number),
    );
    let column = physical_field(table, column.field);
    let words = |row: &str| format!("{}({row}{column})", names::INDEXED_WORDS);
    // FTS5 keeps no text, so what is to be removed must be said.
    let remove = format!(
        "INSERT INTO {name} ({name}, rowid, words) SELECT 'delete', old.seq, {} \
         WHERE old.{column} IS NOT NULL;",
        words("old.")
    );
    let add = format!(
        "INSERT INTO {name} (rowid, words) SELECT new.seq, {} WHERE new.{column} IS NOT NULL;",
        words("new.")
    );
    // One trigger removes and adds: of several, SQLite runs the youngest first, and words that
    // are added before they are removed are lost.
    format!(
        "CREATE VIRTUAL TABLE {name} USING fts5 (words, content = '', columnsize = 0, \
           tokenize = 'ascii');
         INSERT INTO {name} ({name}, rank) VALUES ('secure-delete', 1);
         INSERT INTO {name} (rowid, words) SELECT seq, {filled} FROM {now}
           WHERE {column} IS NOT NULL;
         CREATE TRIGGER {name}_insert AFTER INSERT ON {now} BEGIN {add} END;
         CREATE TRIGGER {name}_delete AFTER DELETE ON {now} BEGIN {remove} END;
         CREATE TRIGGER {name}_change AFTER UPDATE OF {column} ON {now}
           WHEN old.{column} IS NOT new.{column} BEGIN {remove} {add} END;",
        filled = words(""),
    )
}

/// The statements that drop one index of words, if it was made.
pub(super) fn drop(table: TableNumber, index: u32) -> String {
    let name = names::fulltext(table, index);
    let triggers = ["insert", "delete", "change"];
    let triggers = triggers.map(|when| format!("DROP TRIGGER IF EXISTS {name}_{when};"));
    format!("{} DROP TABLE IF EXISTS {name};", triggers.concat())
}

/// Makes every index anew if texts are split into words by another rule than when it was made:
/// words that were added by one rule are not found, and not removed, by another.
pub(super) fn renew(connection: &mut Connection, catalogue: &Catalogue) -> rusqlite::Result<()> {
    let rule = search::rule();
    let made_by: String = connection.query_row("SELECT words FROM meta", (), |row| row.get(0))?;
    if made_by == rule {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    let projects = catalogue.projects();
    let databases = projects.flat_map(|project| project.databases.values());
    for table in databases.flat_map(|database| database.tables.values()) {
        let is_made = |index: &&Index| index.kind == IndexKind::Fulltext && index.is_available();
        for index in table.indexes.iter().filter(is_made) {
            transaction.execute_batch(&drop(table.number, index.number))?;
            transaction.execute_batch(&create(table, index))?;
        }
    }
    transaction.execute("UPDATE meta SET words = ?1", [rule])?;
    transaction.commit()
}

/// Drops every index of words of a table whose rows are removed.
pub(super) fn drop_all(connection: &Connection, table: TableNumber) -> rusqlite::Result<()> {
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
