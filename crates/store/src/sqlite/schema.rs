//! The tables of format 1: those of the store itself, and the four of each user table.
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

use model::{Column, ColumnKind, Direction, Field, Index, IndexKind, Storage, Table, TableNumber};
use query::names;

use super::fulltext;

/// The end of time as it stands in SQL text. A partial index is only used when its constant
/// stands in the query literally.
pub(super) const END: &str = "9223372036854775807";

/// The tables of the store itself.
///
/// - `meta`, one row: written in each commit and read in each snapshot, whose stamp it is.
///   `words` names the rule by which full-text indexes were made.
///   `x_at` is the last instant of which the tables of now show anything: when something was
///   committed, or what was due brought in, of which a part may be left.
/// - `tx`: one row a commit; `n` is dense, so that a gap is seen. `tx_row`: what it touched.
/// - The catalogue over time: a row holds from the mark `sf` until the mark `st`. User columns
///   have numbers that name the physical columns and are never given twice.
/// - `upkeep`: what is left to do for a table, and the `$sequence` up to which it is done; for an
///   index of words that is being filled, up to where it is.
pub(super) const SYSTEM_TABLES: &str = "
CREATE TABLE meta (
  one             INTEGER PRIMARY KEY CHECK (one = 1),
  mark            INTEGER NOT NULL,
  x_at            INTEGER NOT NULL,
  horizon         INTEGER NOT NULL,
  catalogue_epoch INTEGER NOT NULL,
  next_table      INTEGER NOT NULL,
  next_database   INTEGER NOT NULL,
  lineage         TEXT    NOT NULL,
  words           TEXT    NOT NULL
);
INSERT INTO meta VALUES (1, 0, 0, 0, 0, 1, 1, lower(hex(randomblob(16))), '');

CREATE TABLE tx (
  tt     INTEGER PRIMARY KEY,
  n      INTEGER NOT NULL,
  prev   INTEGER NOT NULL,
  meta   TEXT,
  user   TEXT,
  erased INTEGER
);
CREATE TABLE tx_row (
  tt  INTEGER NOT NULL,
  tab INTEGER NOT NULL,
  id  TEXT    NOT NULL,
  PRIMARY KEY (tt, tab, id)
) WITHOUT ROWID;

CREATE TABLE project (
  id      TEXT    NOT NULL,
  name    TEXT    NOT NULL,
  created INTEGER NOT NULL,
  sf      INTEGER NOT NULL,
  st      INTEGER NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX project_known ON project (id) WHERE st = 9223372036854775807;

CREATE TABLE api_key (
  project TEXT    NOT NULL,
  id      TEXT    NOT NULL,
  name    TEXT    NOT NULL,
  scopes  TEXT    NOT NULL,
  expires INTEGER,
  hash    BLOB    NOT NULL,
  created INTEGER NOT NULL,
  sf      INTEGER NOT NULL,
  st      INTEGER NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX api_key_known ON api_key (project, id) WHERE st = 9223372036854775807;
CREATE UNIQUE INDEX api_key_hash ON api_key (hash) WHERE st = 9223372036854775807;

CREATE TABLE database_ (
  seq     INTEGER NOT NULL,
  project TEXT    NOT NULL,
  id      TEXT    NOT NULL,
  name    TEXT    NOT NULL,
  kind    TEXT    NOT NULL,
  enabled INTEGER NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  sf      INTEGER NOT NULL,
  st      INTEGER NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX database_known ON database_ (project, id) WHERE st = 9223372036854775807;

CREATE TABLE table_ (
  number           INTEGER NOT NULL,
  project          TEXT    NOT NULL,
  database_        TEXT    NOT NULL,
  id               TEXT    NOT NULL,
  name             TEXT    NOT NULL,
  enabled          INTEGER NOT NULL,
  row_security     INTEGER NOT NULL,
  permissions      TEXT    NOT NULL,
  created          INTEGER NOT NULL,
  updated          INTEGER NOT NULL,
  schema_epoch     INTEGER NOT NULL,
  permission_epoch INTEGER NOT NULL,
  sf               INTEGER NOT NULL,
  st               INTEGER NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX table_known ON table_ (project, database_, id)
  WHERE st = 9223372036854775807;
CREATE UNIQUE INDEX table_number ON table_ (number) WHERE st = 9223372036854775807;

CREATE TABLE column_ (
  tab       INTEGER NOT NULL,
  number    INTEGER NOT NULL,
  key       TEXT    NOT NULL,
  kind      TEXT    NOT NULL,
  chars_max INTEGER,
  low,
  high,
  elements  TEXT,
  required  INTEGER NOT NULL,
  is_array  INTEGER NOT NULL,
  default_  TEXT,
  created   INTEGER NOT NULL,
  updated   INTEGER NOT NULL,
  sf        INTEGER NOT NULL,
  st        INTEGER NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX column_known ON column_ (tab, number) WHERE st = 9223372036854775807;

CREATE TABLE index_ (
  tab     INTEGER NOT NULL,
  number  INTEGER NOT NULL,
  key     TEXT    NOT NULL,
  kind    TEXT    NOT NULL,
  columns TEXT    NOT NULL,
  status  TEXT    NOT NULL,
  error   TEXT    NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  sf      INTEGER NOT NULL,
  st      INTEGER NOT NULL DEFAULT 9223372036854775807
);
CREATE UNIQUE INDEX index_known ON index_ (tab, number) WHERE st = 9223372036854775807;

CREATE TABLE upkeep (
  tab  INTEGER NOT NULL,
  task TEXT    NOT NULL,
  seq  INTEGER NOT NULL,
  PRIMARY KEY (tab, task)
) WITHOUT ROWID;
";

/// A later format: constraints over valid time. `kind` is `unique` or `ref`; `columns` are
/// numbers of columns with commas between them; `related` is the table that a `ref` leads to.
pub(super) const OVER_TIME: &str = "
CREATE TABLE over_time (
  tab     INTEGER NOT NULL,
  kind    TEXT    NOT NULL,
  place   INTEGER NOT NULL,
  columns TEXT    NOT NULL,
  related INTEGER,
  PRIMARY KEY (tab, place)
) WITHOUT ROWID;
";

/// A later format: the database that a transaction was committed through, where it says so.
pub(super) const NOTED: &str = "ALTER TABLE tx ADD COLUMN noted_in INTEGER;";

/// A later format still: what owners decide about the past of their tables, and a way to the
/// catalogue as it once was. `history` is a number of days, 0 for none, null for all of it.
pub(super) const OPTIONS: &str = "
ALTER TABLE table_ ADD COLUMN pinned_max_age INTEGER NOT NULL DEFAULT 0;
ALTER TABLE table_ ADD COLUMN history INTEGER;
ALTER TABLE table_ ADD COLUMN kept_from INTEGER NOT NULL DEFAULT -9223372036854775808;
CREATE INDEX table_over_time ON table_ (number, sf);
CREATE INDEX column_over_time ON column_ (tab, sf);
";

/// A later format: who may look at the past of a table. 0 for API keys alone, also of tables that
/// were made before.
pub(super) const WHO_LOOKS_BACK: &str = "
ALTER TABLE table_ ADD COLUMN past INTEGER NOT NULL DEFAULT 0;
";

/// A later format: which columns are encrypted, and the id of the key; empty until it is used.
pub(super) const ENCRYPTION: &str = "
ALTER TABLE column_ ADD COLUMN encrypt INTEGER NOT NULL DEFAULT 0;
ALTER TABLE meta ADD COLUMN key_id TEXT NOT NULL DEFAULT '';
";

/// A later format: the greatest age in seconds of a table's lists; a day is what any may have.
pub(super) const GREATEST_AGE: &str = "
ALTER TABLE table_ ADD COLUMN ttl_max INTEGER NOT NULL DEFAULT 86400;
";

/// The statements that make the physical tables and indexes of `table`.
pub(super) fn create_table(table: &Table) -> String {
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
pub(super) fn add_column(table: TableNumber, definition: &Column) -> String {
    let column = names::column(definition.number);
    let declared = column_type(definition.array, &definition.kind);
    [names::now(table), names::versions(table)]
        .map(|name| format!("ALTER TABLE {name} ADD COLUMN {column} {declared};"))
        .concat()
}

/// The statements that drop a user index, if it stands.
pub(super) fn drop_index(table: TableNumber, number: u32, kind: IndexKind) -> String {
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
pub(super) fn drop_table(number: model::TableNumber) -> String {
    physical_tables(number)
        .map(|name| format!("DROP TABLE {name};"))
        .concat()
}

/// The physical tables of a table.
pub(super) fn physical_tables(number: model::TableNumber) -> [String; 4] {
    [
        names::now(number),
        names::versions(number),
        names::grants(number),
        names::schedule(number),
    ]
}

/// A user index: unique among the rows of now where it says so, plain among the versions that
/// have no twin there.
pub(super) fn create_index(table: &Table, index: &Index) -> String {
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
pub(super) fn create_versions_index(table: &Table, index: &Index) -> String {
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
            let field = physical_field(table, part.field);
            match part.held {
                None => format!("{field}{direction}"),
                Some(chars) => format!("{}{direction}", names::beginning(&field, chars)),
            }
        })
        .collect();
    columns.join(", ")
}

/// What a field is called in both tables.
pub(super) fn physical_field(table: &Table, field: Field) -> String {
    match field {
        Field::Id => "id".to_owned(),
        Field::Sequence => "seq".to_owned(),
        Field::Created => "created".to_owned(),
        Field::Updated => "updated".to_owned(),
        Field::Column(position) => names::column(table.columns[position].number),
    }
}

fn column(column: &Column) -> String {
    format!(
        ", {} {}",
        names::column(column.number),
        column_type(column.array, &column.kind)
    )
}

/// The declared type. It gives the affinity under which values come back as they were bound.
pub(super) fn column_type(array: bool, kind: &ColumnKind) -> &'static str {
    match kind.storage() {
        _ if array => "TEXT",
        Storage::Text => "TEXT",
        Storage::Float => "REAL",
        Storage::Int | Storage::Bool | Storage::Instant => "INTEGER",
    }
}
