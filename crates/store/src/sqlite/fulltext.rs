//! Full-text indexes: FTS5 over the words of the rows of now, kept by triggers.
//!
//! The words are taken out of the text by our own function before FTS5 sees them (`query::search`),
//! so an index finds exactly what the same search finds in a text that stands in none. FTS5 stores
//! no text of its own, and removes what is deleted at once (`secure-delete`), so that erasure can
//! promise it.

use model::{Index, Table};
use query::names;
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
    let add = |row: &str| {
        let words = words(row);
        format!("INSERT INTO {name} (rowid, words) VALUES ({row}seq, {words})")
    };
    // FTS5 keeps no text, so what is to be removed must be said.
    let remove = format!(
        "INSERT INTO {name} ({name}, rowid, words) VALUES ('delete', old.seq, {})",
        words("old.")
    );
    format!(
        "CREATE VIRTUAL TABLE {name} USING fts5 (words, content = '', columnsize = 0, \
           tokenize = 'ascii');
         INSERT INTO {name} ({name}, rank) VALUES ('secure-delete', 1);
         INSERT INTO {name} (rowid, words) SELECT seq, {filled} FROM {now}
           WHERE {column} IS NOT NULL;
         CREATE TRIGGER {name}_insert AFTER INSERT ON {now} WHEN new.{column} IS NOT NULL
           BEGIN {added}; END;
         CREATE TRIGGER {name}_delete AFTER DELETE ON {now} WHEN old.{column} IS NOT NULL
           BEGIN {remove}; END;
         CREATE TRIGGER {name}_leave AFTER UPDATE OF {column} ON {now}
           WHEN old.{column} IS NOT NULL AND old.{column} IS NOT new.{column}
           BEGIN {remove}; END;
         CREATE TRIGGER {name}_enter AFTER UPDATE OF {column} ON {now}
           WHEN new.{column} IS NOT NULL AND old.{column} IS NOT new.{column}
           BEGIN {added}; END;",
        filled = words(""),
        added = add("new."),
    )
}

/// Drops every index of words of a table whose rows are removed.
pub(super) fn drop_all(connection: &Connection, table: model::TableNumber) -> rusqlite::Result<()> {
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
