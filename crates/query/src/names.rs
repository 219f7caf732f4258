//! Physical names: how tables, columns and indexes are called inside a database.
//!
//! Numbers, not users' words: a rename changes the catalogue only, and nothing a user writes
//! ever stands in SQL text.

use model::{ColumnNumber, Field, SpanEnd, Table, TableNumber};

/// The SQL function (text) → its words as a full-text index holds them. The store provides it.
pub const INDEXED_WORDS: &str = "tidemark_words";
/// The SQL function (text, search as sent) → whether the text has what is searched for; null of
/// null. The store provides it in SQLite.
pub const FINDS: &str = "tidemark_finds";

/// The SQL function (text, part) → 1 where the part stands anywhere in the text, else 0; null of
/// null. The store provides it in SQLite, whose `instr` compares the part again at each position
/// and looks at no clock: some 20 ms for a text of 200 KB and a part of 4,000 characters.
pub const HAS_PART: &str = "tidemark_has_part";
/// The SQL function (text, end) → 1 where the text ends so, else 0; null of null. The store
/// provides it in SQLite.
pub const ENDS_WITH: &str = "tidemark_ends_with";

/// What an index holds of a text that it does not hold whole. SQLite finds the index by the very
/// words in which it was made.
pub fn beginning(text: &str, chars: u32) -> String {
    format!("substr({text}, 1, {chars})")
}

/// Rows valid at the clock, as known now.
pub fn now(table: TableNumber) -> String {
    format!("t{}", table.0)
}

/// Every asserted piece, with the marks from which it is known, cut and gone.
pub fn versions(table: TableNumber) -> String {
    format!("t{}_v", table.0)
}

/// Row grants over system time.
pub fn grants(table: TableNumber) -> String {
    format!("t{}_perm", table.0)
}

/// Stands for a role among the grants of a row, in an entry that grants nothing: the row, which
/// was gone, was created again at the mark at which the entry ends.
pub const LIFE: &str = "";

/// Next valid-time boundary of rows that have one.
pub fn schedule(table: TableNumber) -> String {
    format!("t{}_sched", table.0)
}

/// A user column, in both tables.
pub fn column(column: ColumnNumber) -> String {
    format!("c{}", column.0)
}

/// What a field is called in the tables of now and of versions.
pub fn field(table: &Table, field: Field) -> String {
    match field {
        Field::Id => "id".to_owned(),
        Field::Sequence => "seq".to_owned(),
        Field::Created => "created".to_owned(),
        Field::Updated => "updated".to_owned(),
        Field::Span(SpanEnd::ValidFrom) => "vf".to_owned(),
        Field::Span(SpanEnd::ValidTo) => "vt".to_owned(),
        Field::Span(SpanEnd::SystemFrom) => "sf".to_owned(),
        Field::Column(position) => column(table.columns[position].number),
    }
}

/// A user index on the table of now.
pub fn index(table: TableNumber, index: u32) -> String {
    format!("t{}_i{index}", table.0)
}

/// The table and the number of the index on the table of now that has this name.
pub fn parse_index(name: &str) -> Option<(TableNumber, u32)> {
    let (table, index) = name.strip_prefix('t')?.split_once("_i")?;
    Some((TableNumber(table.parse().ok()?), index.parse().ok()?))
}

/// The same index on the versions, with the marks appended. Like every index on the versions it
/// holds only those that the table of now does not show exactly.
pub fn versions_index(table: TableNumber, index: u32) -> String {
    format!("t{}_v_i{index}", table.0)
}

/// The full-text index behind a user index of that type, on the rows of now.
pub fn fulltext(table: TableNumber, index: u32) -> String {
    format!("{}{index}", fulltext_prefix(table))
}

/// What the names of all full-text indexes of a table begin with, before their numbers.
pub fn fulltext_prefix(table: TableNumber) -> String {
    format!("t{}_f", table.0)
}

/// Which rows of now hold a link to a row, for a column whose links no index finds.
pub fn links(table: TableNumber, column: ColumnNumber) -> String {
    format!("{}{}", links_prefix(table), column.0)
}

/// What the names of all such tables of a table begin with, before the columns' numbers.
pub fn links_prefix(table: TableNumber) -> String {
    format!("t{}_l", table.0)
}

/// The index behind a constraint over valid time, on all versions that are not gone.
pub fn constraint_index(table: TableNumber, place: i64) -> String {
    format!("t{}_v_k{place}", table.0)
}

/// The index on the table of now that finds a row by its id.
pub fn id_index(table: TableNumber) -> String {
    format!("t{}_id", table.0)
}

/// The index on the versions that holds the pieces known now, by id and beginning.
pub fn known_index(table: TableNumber) -> String {
    format!("t{}_v_known", table.0)
}

/// The index on the versions that finds pieces by id and the mark they are known from.
pub fn system_index(table: TableNumber) -> String {
    format!("t{}_v_sys", table.0)
}

/// The index on the versions for lists in the order of `$sequence`.
pub fn sequence_index(table: TableNumber) -> String {
    format!("t{}_v_seq", table.0)
}

/// The index on the open grants, by role and row.
pub fn role_index(table: TableNumber) -> String {
    format!("t{}_perm_role", table.0)
}

/// The index on the grants, by row and end.
pub fn grants_index(table: TableNumber) -> String {
    format!("t{}_perm_seq", table.0)
}

/// The index on the schedule, by instant.
pub fn schedule_index(table: TableNumber) -> String {
    format!("t{}_sched_at", table.0)
}
