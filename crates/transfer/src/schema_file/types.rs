//! Types of rows for programs, from a schema file.

mod go;
mod python;
#[cfg(test)]
mod tests;
mod typescript;

use std::collections::HashSet;

use anyhow::{Result, ensure};

use super::file::{FileColumn, FileTable, RELATIONSHIP, SchemaFile};

/// What a program is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetLanguage {
    /// TypeScript, for `node-appwrite` and the client of this project.
    TypeScript,
    /// Python, for the client of this project.
    Python,
    /// Go, for the client of this project.
    Go,
}

impl TargetLanguage {
    /// Names that mean something else where the types stand.
    fn taken(self) -> &'static [&'static str] {
        match self {
            TargetLanguage::TypeScript => &["Models"],
            TargetLanguage::Python => &["Annotated", "False", "Model", "None", "Size", "True"],
            TargetLanguage::Go => &[],
        }
    }
}

/// A table with the name that its type has.
struct NamedTable<'a> {
    name: String,
    database: &'a str,
    table: &'a FileTable,
}

impl NamedTable<'_> {
    /// The columns that are no relationships.
    fn values(&self) -> impl Iterator<Item = &FileColumn> {
        let columns = self.table.columns.iter();
        columns.filter(|column| !column.is_relationship())
    }

    /// How messages and comments name it.
    fn path(&self) -> String {
        format!("{}/{}", self.database, self.table.id)
    }
}

/// The text of a source file with one type for each table.
///
/// # Errors
/// When two tables would have one name, or a table or column none.
pub fn types(file: &SchemaFile, language: TargetLanguage) -> Result<String> {
    let mut tables = Vec::new();
    let has_many = file.databases.len() > 1;
    for database in &file.databases {
        for table in &database.tables {
            let prefix = if has_many {
                pascal(&database.id)
            } else {
                String::new()
            };
            tables.push(NamedTable {
                name: prefix + &pascal(&table.id),
                database: &database.id,
                table,
            });
        }
    }
    check_names(&tables, language)?;
    match language {
        TargetLanguage::TypeScript => Ok(typescript::text(&tables)),
        TargetLanguage::Python => python::text(&tables),
        TargetLanguage::Go => go::text(&tables),
    }
}

fn check_names(tables: &[NamedTable<'_>], language: TargetLanguage) -> Result<()> {
    let mut names = HashSet::new();
    for table in tables {
        let (name, path) = (&table.name, table.path());
        ensure!(
            name.starts_with(|first: char| first.is_ascii_alphabetic()),
            "table `{path}`: `{name}` cannot be the name of a type; an id that begins with a \
             letter makes one"
        );
        ensure!(
            !language.taken().contains(&&**name),
            "table `{path}`: the name `{name}` is taken in the file that is printed"
        );
        ensure!(
            names.insert(name),
            "table `{path}`: another table has the type `{name}` already"
        );
    }
    Ok(())
}

/// `orderLines`, `order_lines` and `order-lines` as `OrderLines`.
fn pascal(id: &str) -> String {
    let words = id.split(|letter: char| !letter.is_ascii_alphanumeric());
    words
        .map(|word| {
            let mut letters = word.chars();
            let first = letters.next().map(|first| first.to_ascii_uppercase());
            first.into_iter().chain(letters).collect::<String>()
        })
        .collect()
}

/// Whether a key is a name in all three languages, keywords apart.
fn is_identifier(key: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    key.bytes().all(is_part) && !key.starts_with(|first: char| first.is_ascii_digit())
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// What a value of a column is, whatever the language.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    Text,
    Integer,
    Number,
    Flag,
    Instant,
    Link,
}

fn kind(column: &FileColumn) -> ValueKind {
    match &*column.kind {
        "integer" | "bigint" => ValueKind::Integer,
        "float" => ValueKind::Number,
        "boolean" => ValueKind::Flag,
        "datetime" => ValueKind::Instant,
        RELATIONSHIP => ValueKind::Link,
        _ => ValueKind::Text,
    }
}
