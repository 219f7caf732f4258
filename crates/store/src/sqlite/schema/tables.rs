//! The four physical tables of each user table, and their indexes.
//!
//! A user table is stored twice. `t<n>_v` holds every asserted piece with the marks from which
//! it is known, cut and gone; a piece is appended, cut once, and never rewritten. `t<n>` holds
//! the rows valid at the clock as known now; it is derived from the former, and read as if it
//! were a plain table. All tables of rows have rowids: in a table without them SQLite does not
//! use the filter columns of a secondary index before it has fetched the row.
//!
//! While a row of now is an exact copy of its piece, both have `twin = 1`, and the piece stands in
//! no index: it is found through the row. An insert so writes each user index once, and the
//! entry for the versions is made when the row changes (docs/decisions/0005-twins.md).

use model::{Column, Direction, Index, IndexKind, Table, TableNumber};
use query::names;

use super::columns::column_type;
use super::fulltext;

/// The end of time as it stands in SQL text. A partial index is only used when its constant
/// stands in the query literally.
pub(crate) const END: &str = "9223372036854775807";

/// The statements that make the physical tables and indexes of `table`.
pub(crate) fn create_table(table: &Table) -> String {
    let number = table.number;
    let (now, versions) = (names::now(number), names::versions(number));
    let (grants, schedule) = (names::grants(number), names::schedule(number));
    let columns: String = table.columns.iter().map(column).collect();
    let mut sql = format!(
        "CREATE TABLE {versions} (
           rid INTEGER PRIMARY KEY,
           id TEXT NOT NULL,
           vf INTEGER NOT NULL,
           vt INTEGER NOT NULL DEFAULT {END},
           sf INTEGER NOT NULL,
           cut_tt INTEGER NOT NULL DEFAULT {END},
           cut_vt INTEGER NOT NULL DEFAULT {END},
           st INTEGER NOT NULL DEFAULT {END},
           origin INTEGER NOT NULL,
           seq INTEGER NOT NULL,
           created INTEGER NOT NULL,
           updated INTEGER NOT NULL,
           twin INTEGER NOT NULL{columns});
         CREATE UNIQUE INDEX {known} ON {versions} (id, vf) WHERE st = {END} AND twin = 0;
         CREATE INDEX {system} ON {versions} (id, sf) WHERE twin = 0;
         CREATE INDEX {sequence} ON {versions} (seq, sf, vf) WHERE twin = 0;
         CREATE TABLE {now} (
           seq INTEGER PRIMARY KEY,
           id TEXT NOT NULL,
           vf INTEGER NOT NULL,
           vt INTEGER NOT NULL DEFAULT {END},
           sf INTEGER NOT NULL,
           origin INTEGER NOT NULL,
           created INTEGER NOT NULL,
           updated INTEGER NOT NULL,
           perms TEXT NOT NULL,
           rid INTEGER NOT NULL,
           twin INTEGER NOT NULL,
           body_epoch INTEGER NOT NULL{columns},
           body BLOB);
         CREATE UNIQUE INDEX {by_id} ON {now} (id);
         CREATE TABLE {grants} (
           seq INTEGER NOT NULL,
           role TEXT NOT NULL,
           actions INTEGER NOT NULL,
           sf INTEGER NOT NULL,
           st INTEGER NOT NULL DEFAULT {END});
         CREATE INDEX {by_role} ON {grants} (role, seq) WHERE st = {END};
         CREATE INDEX {by_row} ON {grants} (seq, st);
         CREATE TABLE {schedule} (id TEXT PRIMARY KEY, at INTEGER NOT NULL);
         CREATE INDEX {by_instant} ON {schedule} (at);",
        known = names::known_index(number),
        system = names::system_index(number),
        sequence = names::sequence_index(number),
        by_id = names::id_index(number),
        by_role = names::role_index(number),
        by_row = names::grants_index(number),
        by_instant = names::schedule_index(number),
    );
    for index in table.indexes.iter().filter(|index| index.is_available()) {
        sql.push_str(&create_index(table, index));
    }
    sql
}

/// The statements that make room for one more column in both tables of rows. No row is written:
/// SQLite reads a value that a row ends before as null.
pub(crate) fn add_column(table: TableNumber, definition: &Column) -> String {
    let column = names::column(definition.number);
    let declared = column_type(definition.array, &definition.kind);
    [names::now(table), names::versions(table)]
        .map(|name| format!("ALTER TABLE {name} ADD COLUMN {column} {declared};"))
        .concat()
}

/// The statements that drop a user index, if it stands.
pub(crate) fn drop_index(table: TableNumber, number: u32, kind: IndexKind) -> String {
    if kind == IndexKind::Fulltext {
        return fulltext::drop(table, number);
    }
    [
        names::index(table, number),
        names::versions_index(table, number),
    ]
    .map(|name| format!("DROP INDEX IF EXISTS {name};"))
    .concat()
}

/// The statements that drop the physical tables of a table, and with them their indexes.
pub(crate) fn drop_table(number: model::TableNumber) -> String {
    physical_tables(number)
        .map(|name| format!("DROP TABLE {name};"))
        .concat()
}

/// The physical tables of a table.
pub(crate) fn physical_tables(number: model::TableNumber) -> [String; 4] {
    [
        names::now(number),
        names::versions(number),
        names::grants(number),
        names::schedule(number),
    ]
}

/// A user index: unique among the rows of now where it says so, plain among the versions that
/// have no twin there.
pub(crate) fn create_index(table: &Table, index: &Index) -> String {
    if index.kind == IndexKind::Fulltext {
        return fulltext::create(table, index);
    }
    let unique = match index.kind {
        IndexKind::Unique => "UNIQUE ",
        IndexKind::Key | IndexKind::Fulltext => "",
    };
    format!(
        "CREATE {unique}INDEX {} ON {} ({}); {}",
        names::index(table.number, index.number),
        names::now(table.number),
        index_columns(table, index),
        create_versions_index(table, index)
    )
}

/// The half of a user index that is over versions, if it is not there yet.
pub(crate) fn create_versions_index(table: &Table, index: &Index) -> String {
    format!(
        "CREATE INDEX IF NOT EXISTS {} ON {} ({}, sf, vf) WHERE twin = 0;",
        names::versions_index(table.number, index.number),
        names::versions(table.number),
        index_columns(table, index)
    )
}

fn index_columns(table: &Table, index: &Index) -> String {
    let columns: Vec<String> = index
        .columns
        .iter()
        .map(|part| {
            let direction = match part.direction {
                Direction::Asc => "",
                Direction::Desc => " DESC",
            };
            let field = names::field(table, part.field);
            match part.held {
                None => format!("{field}{direction}"),
                Some(chars) => format!("{}{direction}", names::beginning(&field, chars)),
            }
        })
        .collect();
    columns.join(", ")
}

fn column(column: &Column) -> String {
    format!(
        ", {} {}",
        names::column(column.number),
        column_type(column.array, &column.kind)
    )
}
