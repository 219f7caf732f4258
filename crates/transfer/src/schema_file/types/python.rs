//! Models of the client for Python.

use anyhow::{Result, ensure};

use super::{NamedTable, ValueKind, is_identifier, kind, quoted};
use crate::schema_file::file::{FileColumn, FileIndex};

/// Words that no field can be named (The Python Language Reference, "Keywords").
const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// Members that every model has, and names with which the lines of a model are written: a field of
/// such a name would change what they mean.
const TAKEN: [&str; 19] = [
    "Annotated",
    "Model",
    "Size",
    "bool",
    "column_fields",
    "coordinates",
    "dataclass",
    "datetime",
    "field",
    "float",
    "id",
    "index",
    "int",
    "list",
    "lookups",
    "read_at",
    "str",
    "table_id",
    "unique",
];

/// The size of texts that name none (the client's `SIZE_DEFAULT`).
const SIZE_DEFAULT: i64 = 255;

pub(super) fn text(tables: &[NamedTable<'_>]) -> Result<String> {
    let models: Vec<String> = tables.iter().map(model).collect::<Result<_>>()?;
    let body = models.concat();
    Ok(imports(&body) + &body)
}

/// What the models use, and a comment on top.
fn imports(body: &str) -> String {
    let names = |parts: &[(&'static str, &str)]| {
        let used = parts.iter().filter(|(_, part)| body.contains(part));
        used.map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
    };
    let standard = [
        (
            "dataclasses",
            names(&[("dataclass", "@dataclass"), ("field", "= field(")]),
        ),
        ("datetime", names(&[("datetime", "datetime")])),
        ("typing", names(&[("Annotated", "Annotated[")])),
    ];
    let ours = names(&[
        ("Model", "(Model,"),
        ("Size", "Size("),
        ("index", "= index("),
        ("unique", "= unique("),
    ]);
    let standard = standard.iter().filter(|(_, names)| !names.is_empty());
    let lines = standard.map(|(module, names)| format!("from {module} import {names}\n"));
    let lines = lines.collect::<Vec<_>>().concat();
    let imports = if ours.is_empty() {
        String::new()
    } else {
        format!("\n{lines}\nfrom tidemark import {ours}\n")
    };
    format!("# Made by `tidemark schema types python`. Do not edit.\n{imports}")
}

fn model(table: &NamedTable<'_>) -> Result<String> {
    let (name, id, path) = (&table.name, quoted(&table.table.id), table.path());
    let mut out = format!(
        "\n\n@dataclass\nclass {name}(Model, table={id}):\n    \"\"\"A row of `{path}`.\"\"\"\n"
    );
    // Fields without a default come first.
    let (required, rest): (Vec<_>, Vec<_>) = table
        .values()
        .partition(|column| column.required && !column.array);
    let mut lines = Vec::new();
    for column in required.into_iter().chain(rest) {
        let key = &column.key;
        ensure!(
            is_name(key),
            "column `{path}/{key}`: a field of a model cannot have this name"
        );
        lines.push(format!("    {key}: {}\n", annotation(column)));
    }
    let keys: Vec<&str> = table.values().map(|column| &*column.key).collect();
    let lookups = table.table.indexes.iter();
    let lookups = lookups.filter_map(|index| lookup(index, &keys));
    lines.extend(lookups.map(|lookup| format!("    {lookup}\n")));
    if !lines.is_empty() {
        out += "\n";
        out += &lines.concat();
    }
    Ok(out)
}

fn is_name(key: &str) -> bool {
    let is_word = KEYWORDS.contains(&key) || TAKEN.contains(&key);
    is_identifier(key) && !is_word
}

fn annotation(column: &FileColumn) -> String {
    let one = match kind(column) {
        ValueKind::Integer => "int".to_owned(),
        ValueKind::Number => "float".to_owned(),
        ValueKind::Flag => "bool".to_owned(),
        ValueKind::Instant => "datetime".to_owned(),
        ValueKind::Text | ValueKind::Link => match column.size {
            Some(size) if size != SIZE_DEFAULT => format!("Annotated[str, Size({size})]"),
            _ => "str".to_owned(),
        },
    };
    match (column.array, column.required) {
        (true, _) => format!("list[{one}] = field(default_factory=list)"),
        (false, true) => one,
        (false, false) => format!("{one} | None = None"),
    }
}

/// An index as a lookup, where it is over columns of the model and its key is a name.
fn lookup(index: &FileIndex, columns: &[&str]) -> Option<String> {
    let word = match &*index.kind {
        "key" => "index",
        "unique" => "unique",
        _ => return None,
    };
    let key = &*index.key;
    let is_free = is_name(key) && !columns.contains(&key);
    let has_all = index.columns.iter().all(|key| columns.contains(&&**key));
    (is_free && has_all).then(|| {
        let keys: Vec<String> = index.columns.iter().map(|key| quoted(key)).collect();
        format!("{key} = {word}({})", keys.join(", "))
    })
}
