//! The schema of databases as a file that people read, edit and keep in version control.
//!
//! JSON with one line for each column and index, so that a change of one is a change of one line.
//! What a new table has anyway is left out. A relationship stands on the table on which it is
//! created, and its other end is not written.

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

mod check;
mod text;

/// What `format` says in files of this form.
pub const FORMAT: &str = "tidemark-schema-1";

/// The type of a column that is a relationship.
pub const RELATIONSHIP: &str = "relationship";

/// A schema of one or more databases.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SchemaFile {
    /// [`FORMAT`]
    pub format: String,
    /// The databases; what is in no file is left alone.
    pub databases: Vec<FileDatabase>,
}

/// A database.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileDatabase {
    /// The id.
    pub id: String,
    /// The name.
    pub name: String,
    /// Whether callers without a key see it.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// All its tables.
    #[serde(default)]
    pub tables: Vec<FileTable>,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileTable {
    /// The id.
    pub id: String,
    /// The name.
    pub name: String,
    /// Whether callers without a key see it.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Who may do what with every row, such as `read("any")`.
    #[serde(default)]
    pub permissions: Vec<String>,
    /// Whether rows have permissions of their own.
    #[serde(default)]
    pub row_security: bool,
    /// What its owner decided about its past; absent where the server knows no such thing.
    #[serde(default)]
    pub options: Option<FileOptions>,
    /// Rules over valid time.
    #[serde(default)]
    pub constraints: FileConstraints,
    /// All its columns, without the other ends of relationships.
    #[serde(default)]
    pub columns: Vec<FileColumn>,
    /// All its indexes.
    #[serde(default)]
    pub indexes: Vec<FileIndex>,
}

/// Options of a table (the page of time, "Options of a table").
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileOptions {
    /// How much of the past is kept: `keep`, `days(N)`, `none`.
    pub history: String,
    /// Who reads it.
    pub past: String,
    /// Seconds for which others may keep answers at fixed coordinates.
    pub pinned_max_age: i64,
    /// Longest `ttl` of a list in seconds.
    pub ttl_max: i64,
}

/// Rules over valid time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileConstraints {
    /// Columns whose values differ between rows at every instant.
    #[serde(default)]
    pub unique: Vec<Vec<String>>,
    /// Columns whose values are ids of rows that are valid as long.
    #[serde(default)]
    pub refs: Vec<FileReference>,
}

/// A reference over valid time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileReference {
    /// The column that holds ids.
    pub column: String,
    /// The table of the rows.
    pub table: String,
}

/// A column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileColumn {
    /// The key.
    pub key: String,
    /// As in the table of column types: `varchar`, `integer`, `email` and so on.
    #[serde(rename = "type")]
    pub kind: String,
    /// Most characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// Least number; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Value>,
    /// Greatest number; absent for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Value>,
    /// What an enum allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elements: Option<Vec<String>>,
    /// Whether it holds lists.
    #[serde(default, skip_serializing_if = "is_false")]
    pub array: bool,
    /// Whether each row must have a value.
    #[serde(default, skip_serializing_if = "is_false")]
    pub required: bool,
    /// The value of rows created without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Whether values are encrypted on disk.
    #[serde(default, skip_serializing_if = "is_false")]
    pub encrypt: bool,
    /// Of a relationship: the other table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub related_table: Option<String>,
    /// Of a relationship: `oneToOne`, `oneToMany`, `manyToOne`, `manyToMany`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation_type: Option<String>,
    /// Of a relationship that both tables show: its key in the other table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub two_way_key: Option<String>,
    /// Of a relationship: `restrict`, `cascade`, `setNull`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_delete: Option<String>,
}

impl FileColumn {
    /// Whether it is a relationship.
    pub fn is_relationship(&self) -> bool {
        self.kind == RELATIONSHIP
    }
}

/// An index.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileIndex {
    /// The key.
    pub key: String,
    /// `key`, `unique` or `fulltext`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Keys of columns.
    pub columns: Vec<String>,
    /// `ASC` or `DESC` for each column; absent where all are `ASC`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<String>,
    /// Most characters of each column; absent where all are whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lengths: Vec<i64>,
    /// Whether the server could not build it; never written.
    #[serde(skip)]
    pub is_failed: bool,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// What is read of a file before its form is known.
#[derive(Deserialize)]
struct FormatOnly {
    format: Option<Value>,
}

impl SchemaFile {
    /// Reads the text of a file, and brings it into the form in which a server shows the same
    /// schema.
    ///
    /// # Errors
    /// With line and column where it is not of the form; with the database, table, column or index
    /// where a server would refuse the definition.
    pub fn parse(text: &str) -> Result<SchemaFile> {
        let head: FormatOnly = serde_json::from_str(text).context("not a schema file")?;
        match head.format {
            Some(format) => ensure!(
                format == FORMAT,
                "`format` is {format}; this version reads \"{FORMAT}\""
            ),
            None => bail!("`format` is missing; it is \"{FORMAT}\""),
        }
        let mut file: SchemaFile = serde_json::from_str(text)?;
        check::complete(&mut file)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests;
