//! Interfaces for `node-appwrite`: `tables.listRows<Orders>(…)`.

use super::{NamedTable, ValueKind, is_identifier, kind, quoted};
use crate::schema_file::file::FileColumn;

const HEAD: &str = "// Made by `tidemark schema types typescript`. Do not edit.\n\n\
                    import type { Models } from 'node-appwrite';\n";

pub(super) fn text(tables: &[NamedTable<'_>]) -> String {
    let interfaces = tables.iter().map(interface);
    HEAD.to_owned() + &interfaces.collect::<String>()
}

fn interface(table: &NamedTable<'_>) -> String {
    let columns = table.table.columns.iter();
    let members = columns
        .map(|column| format!("  {}: {};\n", member(&column.key), type_of(column)))
        .collect::<Vec<_>>()
        .concat();
    let (name, path) = (&table.name, table.path());
    format!(
        "\n/** A row of `{path}`. */\nexport interface {name} extends Models.Row {{\n{members}}}\n"
    )
}

/// A key as a member: quoted where it is no identifier.
fn member(key: &str) -> String {
    if is_identifier(key) {
        key.to_owned()
    } else {
        quoted(key)
    }
}

fn type_of(column: &FileColumn) -> String {
    let one = match kind(column) {
        ValueKind::Link => return link(column),
        // The SDK reads what a number cannot hold exactly as a bigint.
        ValueKind::Integer if column.kind == "bigint" => "number | bigint".to_owned(),
        ValueKind::Integer | ValueKind::Number => "number".to_owned(),
        ValueKind::Flag => "boolean".to_owned(),
        ValueKind::Text | ValueKind::Instant => match &column.elements {
            Some(elements) => {
                let words: Vec<String> = elements.iter().map(|word| quoted(word)).collect();
                words.join(" | ")
            }
            None => "string".to_owned(),
        },
    };
    match (column.array, column.required) {
        (true, _) if one.contains('|') => format!("({one})[]"),
        (true, _) => format!("{one}[]"),
        (false, true) => one,
        (false, false) => format!("{one} | null"),
    }
}

/// A row is in the answer where it was selected; else its id may be, or nothing at all.
fn link(column: &FileColumn) -> String {
    let leads_to_many = matches!(
        column.relation_type.as_deref(),
        Some("oneToMany" | "manyToMany")
    );
    if leads_to_many {
        "(Models.Row | string)[]".to_owned()
    } else {
        "Models.Row | string | null".to_owned()
    }
}
