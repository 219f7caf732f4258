//! What a server would refuse of a schema file, found before anything is sent, and the form in
//! which it would show the rest: bounds as numbers of their type, `write` as the actions that it
//! stands for, what has a default without it.

use std::collections::HashSet;

use anyhow::{Context, Result, anyhow, bail, ensure};
use engine::Family;
use model::options::{PINNED_MAX_AGE_S_MAX, TTL_S_MAX};
use model::relation::RelationKind;
use model::{ColumnKey, DatabaseId, OnDelete, Past, ProjectId, Retention};
use serde_json::{Value, json};
use server::http::head::route::COLUMN_KINDS;
use server::http::wire;

use super::{
    FileColumn, FileDatabase, FileIndex, FileOptions, FileTable, RELATIONSHIP, SchemaFile,
};
use crate::definition::new_table;
use crate::schema_file::read;

/// Checks all of it, and completes it.
pub(super) fn complete(file: &mut SchemaFile) -> Result<()> {
    need_unique("database", file.databases.iter().map(|one| one.id.clone()))?;
    for database in &mut file.databases {
        let named = format!("database `{}`", database.id);
        complete_database(database).context(named)?;
    }
    Ok(())
}

fn complete_database(database: &mut FileDatabase) -> Result<()> {
    let id = DatabaseId::new(&database.id).map_err(|error| anyhow!("`id`: {error}"))?;
    need_unique("table", database.tables.iter().map(|one| one.id.clone()))?;
    let ends = other_ends(database);
    let ids: Vec<String> = database.tables.iter().map(|one| one.id.clone()).collect();
    for table in &mut database.tables {
        let named = format!("table `{}`", table.id);
        let ends = ends.iter().filter(|(to, _)| *to == table.id);
        let keys = table.columns.iter().map(|column| &column.key);
        let keys = keys.chain(ends.map(|(_, key)| key));
        // Keys that differ in case only are equal.
        let keys = keys.map(|key| key.to_ascii_lowercase());
        need_unique("column", keys).context(named.clone())?;
        check_table(table, &ids).context(named.clone())?;
        complete_table(&id, table).context(named)?;
    }
    Ok(())
}

/// The keys that relationships have in the tables to which they lead.
fn other_ends(database: &FileDatabase) -> Vec<(String, String)> {
    let columns = database.tables.iter().flat_map(|table| &table.columns);
    columns
        .filter_map(|column| Some((column.related_table.clone()?, column.two_way_key.clone()?)))
        .collect()
}

fn need_unique(what: &str, keys: impl Iterator<Item = String>) -> Result<()> {
    let mut seen = HashSet::new();
    for key in keys {
        ensure!(!seen.contains(&key), "the {what} `{key}` is there twice");
        seen.insert(key);
    }
    Ok(())
}

fn check_table(table: &mut FileTable, tables: &[String]) -> Result<()> {
    for column in &mut table.columns {
        let named = format!("column `{}`", column.key);
        check_column(column, tables).context(named)?;
    }
    need_unique("index", table.indexes.iter().map(|index| index.key.clone()))?;
    for index in &table.indexes {
        check_index(index, &table.columns).with_context(|| format!("index `{}`", index.key))?;
    }
    if let Some(options) = &mut table.options {
        check_options(options).context("`options`")?;
    }
    check_constraints(table, tables).context("`constraints`")
}

fn check_column(column: &mut FileColumn, tables: &[String]) -> Result<()> {
    ColumnKey::new(&column.key).map_err(|error| anyhow!("`key`: {error}"))?;
    let kind = &*column.kind;
    ensure!(
        column.is_relationship() || COLUMN_KINDS.contains(&kind),
        "`type` is `{kind}`; expected one of {}, {RELATIONSHIP}",
        COLUMN_KINDS.join(", ")
    );
    let given = json!(column);
    for (name, kinds) in PARAMETERS {
        let is_taken = given[name].is_null() || kinds.contains(&kind);
        ensure!(
            is_taken,
            "`{name}` does not belong to the type {kind}, but to {}",
            kinds.join(", ")
        );
    }
    if column.is_relationship() {
        for name in ["array", "required", "default", "encrypt"] {
            ensure!(
                given[name].is_null(),
                "`{name}` does not belong to the type {RELATIONSHIP}"
            );
        }
        check_relationship(column, tables)?;
    }
    Ok(())
}

/// The members of a column that only some types have.
const PARAMETERS: [(&str, &[&str]); 8] = [
    ("size", &["varchar", "string"]),
    ("min", &["integer", "bigint", "float"]),
    ("max", &["integer", "bigint", "float"]),
    ("elements", &["enum"]),
    ("relatedTable", &[RELATIONSHIP]),
    ("relationType", &[RELATIONSHIP]),
    ("twoWayKey", &[RELATIONSHIP]),
    ("onDelete", &[RELATIONSHIP]),
];

fn check_relationship(column: &mut FileColumn, tables: &[String]) -> Result<()> {
    let Some(related) = &column.related_table else {
        bail!("a relationship needs `relatedTable`, the id of the table to which it leads");
    };
    ensure!(
        tables.contains(related),
        "`relatedTable`: the file has no table `{related}` in this database"
    );
    let kind = column.relation_type.as_deref().unwrap_or_default();
    ensure!(
        RelationKind::parse(kind).is_some(),
        "`relationType` is `{kind}`; expected oneToOne, oneToMany, manyToOne or manyToMany"
    );
    if let Some(key) = &column.two_way_key {
        ColumnKey::new(key).map_err(|error| anyhow!("`twoWayKey`: {error}"))?;
    }
    let word = column
        .on_delete
        .get_or_insert_with(|| OnDelete::Restrict.as_str().to_owned());
    ensure!(
        OnDelete::parse(word).is_some(),
        "`onDelete` is `{word}`; expected restrict, cascade or setNull"
    );
    Ok(())
}

fn check_index(index: &FileIndex, columns: &[FileColumn]) -> Result<()> {
    for (name, count) in [
        ("orders", index.orders.len()),
        ("lengths", index.lengths.len()),
    ] {
        ensure!(
            count == 0 || count == index.columns.len(),
            "`{name}` has {count} items; expected {}, one for each column",
            index.columns.len()
        );
    }
    for key in &index.columns {
        let column = columns.iter().find(|column| column.key == *key);
        ensure!(
            !column.is_some_and(FileColumn::is_relationship),
            "the relationship `{key}` cannot be indexed; it is found without"
        );
    }
    Ok(())
}

fn check_options(options: &mut FileOptions) -> Result<()> {
    let history = Retention::parse(&options.history);
    let history = history.ok_or_else(|| {
        anyhow!(
            "`history` is `{}`; expected keep, days(N) or none",
            options.history
        )
    })?;
    options.history = history.to_string();
    ensure!(
        Past::parse(&options.past).is_some(),
        "`past` is `{}`; expected keys, both or now",
        options.past
    );
    for (name, seconds, seconds_max) in [
        ("pinnedMaxAge", options.pinned_max_age, PINNED_MAX_AGE_S_MAX),
        ("ttlMax", options.ttl_max, TTL_S_MAX),
    ] {
        ensure!(
            (0..=i64::from(seconds_max)).contains(&seconds),
            "`{name}` is {seconds}; expected 0 to {seconds_max}"
        );
    }
    Ok(())
}

fn check_constraints(table: &FileTable, tables: &[String]) -> Result<()> {
    let constraints = &table.constraints;
    let unique = constraints.unique.iter().flatten();
    let refs = constraints.refs.iter().map(|one| &one.column);
    for key in unique.chain(refs) {
        let is_there = table.columns.iter().any(|column| column.key == *key);
        ensure!(is_there, "the table has no column `{key}`");
    }
    for one in &constraints.refs {
        ensure!(
            tables.contains(&one.table),
            "`refs`: the file has no table `{}` in this database",
            one.table
        );
    }
    Ok(())
}

/// Has the engine define the table, without its relationships, and reads what it shows.
fn complete_table(database: &DatabaseId, table: &mut FileTable) -> Result<()> {
    let plain = table.columns.iter().filter(|one| !one.is_relationship());
    let definition = json!({
        "id": table.id,
        "name": table.name,
        "permissions": table.permissions,
        "rowSecurity": table.row_security,
        "columns": plain.collect::<Vec<_>>(),
        "indexes": table.indexes,
    });
    let new = new_table(&definition).map_err(|refusal| anyhow!(refusal.message))?;
    let project = ProjectId::new("project").expect("it is of letters");
    let defined = engine::define(&project, database, &new)?;
    let shown = wire::table(&defined, wire::words(Family::Tables));
    let shown: Value = serde_json::from_slice(&shown).expect("answers are JSON");
    let shown = read::table(&shown);
    let mut columns = shown.columns.into_iter();
    for column in &mut table.columns {
        if !column.is_relationship() {
            *column = columns.next().expect("a column is shown for each");
        }
    }
    table.permissions = shown.permissions;
    table.indexes = shown.indexes;
    Ok(())
}
