//! Which rows of now hold a link to a row, kept by triggers.
//!
//! A column with links to many rows holds them as a list, like any array column, and so has its
//! history. SQLite has no index over the elements of a list; this table is one, for the rows of
//! now. A column with one link has an index; in a table with many rows, this table stands in for
//! it until it is built: made over nothing, it is there at once.

use model::{ColumnNumber, Relation, RelationKind, TableNumber};
use query::names;
use rusqlite::Connection;

/// The statements that make the table of links of a column in which nothing stands yet. One
/// trigger takes old links away before it adds new ones, because SQLite does not say which of two
/// would run first.
pub(crate) fn create(table: TableNumber, column: ColumnNumber, relation: &Relation) -> String {
    let (links, now) = (names::links(table, column), names::now(table));
    let held = names::column(column);
    let (add, remove) = if relation.is_list() {
        (
            format!(
                "INSERT OR IGNORE INTO {links} (target, seq) \
                 SELECT value, new.seq FROM json_each(new.{held})"
            ),
            format!(
                "DELETE FROM {links} \
                 WHERE seq = old.seq AND target IN (SELECT value FROM json_each(old.{held}))"
            ),
        )
    } else {
        (
            format!(
                "INSERT INTO {links} (target, seq) \
                 SELECT new.{held}, new.seq WHERE new.{held} IS NOT NULL"
            ),
            format!("DELETE FROM {links} WHERE seq = old.seq AND target = old.{held}"),
        )
    };
    let once = match relation.kind {
        RelationKind::OneToOne => "UNIQUE (target), ",
        RelationKind::ManyToOne | RelationKind::OneToMany | RelationKind::ManyToMany => "",
    };
    format!(
        "CREATE TABLE {links} (target TEXT NOT NULL, seq INTEGER NOT NULL, {once}\
           PRIMARY KEY (target, seq)) WITHOUT ROWID;
         CREATE TRIGGER {links}_insert AFTER INSERT ON {now} WHEN new.{held} IS NOT NULL
           BEGIN {add}; END;
         CREATE TRIGGER {links}_delete AFTER DELETE ON {now} WHEN old.{held} IS NOT NULL
           BEGIN {remove}; END;
         CREATE TRIGGER {links}_update AFTER UPDATE OF {held} ON {now}
           WHEN old.{held} IS NOT new.{held}
           BEGIN {remove}; {add}; END;"
    )
}

/// The statements that drop the table of links of a column.
pub(crate) fn drop(table: TableNumber, column: ColumnNumber) -> String {
    let links = names::links(table, column);
    let triggers = ["insert", "delete", "update"];
    let triggers = triggers.map(|when| format!("DROP TRIGGER IF EXISTS {links}_{when};"));
    format!("{} DROP TABLE IF EXISTS {links};", triggers.concat())
}

/// Drops every table of links of a table whose rows are removed.
pub(crate) fn drop_all(connection: &Connection, table: TableNumber) -> rusqlite::Result<()> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB ?1";
    let names = format!("{}[0-9]*", names::links_prefix(table));
    let mut statement = connection.prepare_cached(sql)?;
    let found: Vec<String> = statement
        .query_map([names], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let drops = found.iter().map(|name| format!("DROP TABLE {name};"));
    connection.execute_batch(&drops.collect::<String>())
}
