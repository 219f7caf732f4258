//! How containers are written as rows of the catalogue's tables.
//!
//! What has a shape of its own and is never searched for (scopes, permissions, elements,
//! defaults, an index's columns) is JSON text. Indexes name columns by number, because positions
//! move when a column is dropped.

use model::{
    ApiKey, Column, ColumnKind, Database, DatabaseKind, Direction, Field, Index, IndexColumn,
    IndexKind, IndexStatus, Mark, Past, Relation, Retention, Table, TableNumber,
};
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, params};
use serde_json::json;

use super::bind::json_text;
use crate::laws::permissions::permissions_text;

pub(crate) fn insert_key(
    connection: &Connection,
    key: &ApiKey,
    mark: Mark,
) -> rusqlite::Result<()> {
    let scopes: serde_json::Value = key.scopes.iter().map(|scope| scope.as_str()).collect();
    connection
        .prepare_cached(
            "INSERT INTO api_key (project, id, name, scopes, expires, hash, created, sf) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute(params![
            key.project.as_str(),
            key.id.as_str(),
            key.name,
            scopes.to_string(),
            key.expires.map(|instant| instant.0),
            key.secret_hash,
            key.created.0,
            mark.0,
        ])?;
    Ok(())
}

pub(crate) fn insert_database(
    connection: &Connection,
    database: &Database,
    mark: Mark,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO database_ \
             (seq, project, id, name, kind, enabled, created, updated, sf) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            database.seq,
            database.project.as_str(),
            database.id.as_str(),
            database.name,
            database_kind(database.kind),
            database.enabled,
            database.created.0,
            database.updated.0,
            mark.0,
        ])?;
    Ok(())
}

pub(crate) fn insert_table(
    connection: &Connection,
    table: &Table,
    mark: Mark,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "INSERT INTO table_ (number, project, database_, id, name, enabled, row_security, \
             permissions, created, updated, schema_epoch, permission_epoch, pinned_max_age, \
             history, kept_from, past, ttl_max, sf) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, \
             ?18)",
        )?
        .execute(params![
            table.number.0,
            table.project.as_str(),
            table.database.as_str(),
            table.id.as_str(),
            table.name,
            table.enabled,
            table.row_security,
            permissions_text(&table.permissions),
            table.created.0,
            table.updated.0,
            table.schema_epoch as i64,
            table.permission_epoch as i64,
            table.options.pinned_max_age_s,
            retention(table.options.history),
            table.options.kept_from.0,
            past(table.options.past),
            table.options.ttl_max_s,
            mark.0,
        ])?;
    Ok(())
}

/// Days of history; 0 for none, null for all of it. Written to disk: never to be changed.
fn retention(history: Retention) -> Option<u32> {
    match history {
        Retention::All => None,
        Retention::Days(days) => Some(days),
        Retention::None => Some(0),
    }
}

/// Written to disk: never to be changed.
fn past(past: Past) -> i64 {
    match past {
        Past::Keys => 0,
        Past::Both => 1,
        Past::Now => 2,
    }
}

pub(crate) fn insert_column(
    connection: &Connection,
    table: TableNumber,
    column: &Column,
    mark: Mark,
) -> rusqlite::Result<()> {
    let kind = KindRow::of(&column.kind);
    connection
        .prepare_cached(
            "INSERT INTO column_ (tab, number, key, kind, chars_max, low, high, elements, \
             required, is_array, default_, created, updated, sf, encrypt) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        )?
        .execute(params![
            table.0,
            column.number.0,
            column.key.as_str(),
            kind.name,
            kind.chars_max,
            kind.low,
            kind.high,
            kind.elements,
            column.required,
            column.array,
            column.default.as_ref().map(json_text),
            column.created.0,
            column.updated.0,
            mark.0,
            column.encrypt,
        ])?;
    Ok(())
}

pub(crate) fn insert_index(
    connection: &Connection,
    table: &Table,
    index: &Index,
    mark: Mark,
) -> rusqlite::Result<()> {
    let columns: serde_json::Value = index
        .columns
        .iter()
        .map(|part| index_column(table, part))
        .collect();
    let (status, error) = index_status(&index.status);
    connection
        .prepare_cached(
            "INSERT INTO index_ \
             (tab, number, key, kind, columns, status, error, created, updated, sf) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            table.number.0,
            index.number,
            index.key.as_str(),
            index_kind(index.kind),
            columns.to_string(),
            status,
            error,
            index.created.0,
            index.updated.0,
            mark.0,
        ])?;
    Ok(())
}

/// A kind of column, spread over the columns of its row.
#[derive(Default)]
struct KindRow {
    name: &'static str,
    chars_max: Option<u32>,
    low: Option<SqlValue>,
    high: Option<SqlValue>,
    elements: Option<String>,
}

impl KindRow {
    fn of(kind: &ColumnKind) -> KindRow {
        let mut row = KindRow {
            name: kind_name(kind),
            ..KindRow::default()
        };
        match kind {
            ColumnKind::String { chars_max } | ColumnKind::Varchar { chars_max } => {
                row.chars_max = Some(*chars_max);
            }
            ColumnKind::Integer { min, max } | ColumnKind::Bigint { min, max } => {
                row.low = Some(SqlValue::Integer(*min));
                row.high = Some(SqlValue::Integer(*max));
            }
            ColumnKind::Float { min, max } => {
                row.low = Some(SqlValue::Real(*min));
                row.high = Some(SqlValue::Real(*max));
            }
            ColumnKind::Enum { elements } => {
                let elements: serde_json::Value = elements.iter().map(String::as_str).collect();
                row.elements = Some(elements.to_string());
            }
            ColumnKind::Relationship(relation) => row.elements = Some(relation_text(relation)),
            _ => {}
        }
        row
    }
}

/// One end of a relationship. Written to disk: members may be added, none may change.
fn relation_text(relation: &Relation) -> String {
    json!({
        "related": relation.related.as_str(),
        "partner": relation.partner.0,
        "partnerKey": relation.partner_key.as_str(),
        "type": relation.kind.as_str(),
        "twoWay": relation.two_way,
        "onDelete": relation.on_delete.as_str(),
        "side": relation.side.as_str(),
    })
    .to_string()
}

/// What a kind of column is called in the catalogue. Written to disk: never to be changed.
pub(crate) fn kind_name(kind: &ColumnKind) -> &'static str {
    match kind {
        ColumnKind::String { .. } => "string",
        ColumnKind::Varchar { .. } => "varchar",
        ColumnKind::Text => "text",
        ColumnKind::Mediumtext => "mediumtext",
        ColumnKind::Longtext => "longtext",
        ColumnKind::Integer { .. } => "integer",
        ColumnKind::Bigint { .. } => "bigint",
        ColumnKind::Float { .. } => "float",
        ColumnKind::Boolean => "boolean",
        ColumnKind::Email => "email",
        ColumnKind::Url => "url",
        ColumnKind::Ip => "ip",
        ColumnKind::Enum { .. } => "enum",
        ColumnKind::Datetime => "datetime",
        ColumnKind::Relationship(_) => "relationship",
    }
}

/// Written to disk: never to be changed.
pub(crate) fn index_kind(kind: IndexKind) -> &'static str {
    match kind {
        IndexKind::Key => "key",
        IndexKind::Unique => "unique",
        IndexKind::Fulltext => "fulltext",
    }
}

/// What an index's status is called in the catalogue, and its error. Written to disk: never to be
/// changed.
fn index_status(status: &IndexStatus) -> (&'static str, &str) {
    match status {
        IndexStatus::Available => ("available", ""),
        IndexStatus::Processing => ("processing", ""),
        IndexStatus::Failed(error) => ("failed", error),
    }
}

/// Written to disk: never to be changed.
pub(crate) fn database_kind(kind: DatabaseKind) -> &'static str {
    match kind {
        DatabaseKind::Tablesdb => "tablesdb",
        DatabaseKind::Legacy => "legacy",
    }
}

fn index_column(table: &Table, part: &IndexColumn) -> serde_json::Value {
    let field = match part.field {
        Field::Id => json!("$id"),
        Field::Sequence => json!("$sequence"),
        Field::Created => json!("$createdAt"),
        Field::Updated => json!("$updatedAt"),
        Field::Span(end) => json!(end.as_str()),
        Field::Column(position) => json!(table.columns[position].number.0),
    };
    let direction = match part.direction {
        Direction::Asc => "asc",
        Direction::Desc => "desc",
    };
    let mut stored = json!({"field": field, "direction": direction, "length": part.length});
    // Absent from what earlier versions wrote, whose indexes hold whole values.
    if let Some(chars) = part.held {
        stored["held"] = json!(chars);
    }
    stored
}
