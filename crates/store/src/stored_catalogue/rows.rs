//! How containers are written as rows of the catalogue's tables.
//!
//! What has a shape of its own and is never searched for (scopes, permissions, elements,
//! defaults, an index's columns) is JSON text. Indexes name columns by number, because positions
//! move when a column is dropped.

use model::{
    ApiKey, Column, ColumnKind, Database, DatabaseKind, Direction, Field, Index, IndexColumn,
    IndexKind, IndexStatus, Mark, Past, Project, Relation, Retention, Table, TableNumber,
    Timestamp,
};
use serde_json::json;

use crate::json_value::json_text;
use crate::laws::permissions::permissions_text;
use crate::stored::change::StoredChange;
use crate::stored::parameter::StoredParameter;

/// Ends the open rows of a table of the catalogue for which a condition holds, whose parameters go
/// on from `$2`.
pub(crate) fn close(
    table: &str,
    condition: &str,
    mark: Mark,
    parameters: impl IntoIterator<Item = StoredParameter>,
) -> StoredChange {
    let sql = format!(
        "UPDATE {table} SET st = $1 WHERE st = {} AND {condition}",
        Timestamp::END.0
    );
    let mut all = vec![mark.0.into()];
    all.extend(parameters);
    StoredChange::new(sql, all)
}

pub(crate) fn project(project: &Project, mark: Mark) -> StoredChange {
    StoredChange::new(
        "INSERT INTO project (id, name, created, sf) VALUES ($1, $2, $3, $4)",
        vec![
            project.id.as_str().into(),
            project.name.as_str().into(),
            project.created.0.into(),
            mark.0.into(),
        ],
    )
}

pub(crate) fn key(key: &ApiKey, mark: Mark) -> StoredChange {
    let scopes: serde_json::Value = key.scopes.iter().map(|scope| scope.as_str()).collect();
    StoredChange::new(
        "INSERT INTO api_key (project, id, name, scopes, expires, hash, created, sf) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        vec![
            key.project.as_str().into(),
            key.id.as_str().into(),
            key.name.as_str().into(),
            scopes.to_string().into(),
            key.expires.map(|instant| instant.0).into(),
            key.secret_hash.to_vec().into(),
            key.created.0.into(),
            mark.0.into(),
        ],
    )
}

pub(crate) fn database(database: &Database, mark: Mark) -> StoredChange {
    StoredChange::new(
        "INSERT INTO database_ (seq, project, id, name, kind, enabled, created, updated, sf) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        vec![
            database.seq.into(),
            database.project.as_str().into(),
            database.id.as_str().into(),
            database.name.as_str().into(),
            database_kind(database.kind).into(),
            database.enabled.into(),
            database.created.0.into(),
            database.updated.0.into(),
            mark.0.into(),
        ],
    )
}

/// A table, without its columns and indexes.
pub(crate) fn table(table: &Table, mark: Mark) -> StoredChange {
    let options = &table.options;
    StoredChange::new(
        "INSERT INTO table_ (number, project, database_, id, name, enabled, row_security, \
         permissions, created, updated, schema_epoch, permission_epoch, pinned_max_age, history, \
         kept_from, past, ttl_max, sf) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)",
        vec![
            table.number.0.into(),
            table.project.as_str().into(),
            table.database.as_str().into(),
            table.id.as_str().into(),
            table.name.as_str().into(),
            table.enabled.into(),
            table.row_security.into(),
            permissions_text(&table.permissions).into(),
            table.created.0.into(),
            table.updated.0.into(),
            (table.schema_epoch as i64).into(),
            (table.permission_epoch as i64).into(),
            options.pinned_max_age_s.into(),
            retention(options.history).into(),
            options.kept_from.0.into(),
            past(options.past).into(),
            options.ttl_max_s.into(),
            mark.0.into(),
        ],
    )
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

pub(crate) fn column(table: TableNumber, column: &Column, mark: Mark) -> StoredChange {
    let kind = KindRow::of(&column.kind);
    StoredChange::new(
        "INSERT INTO column_ (tab, number, key, kind, chars_max, low, high, elements, required, \
         is_array, default_, created, updated, sf, encrypt) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)",
        vec![
            table.0.into(),
            column.number.0.into(),
            column.key.as_str().into(),
            kind.name.into(),
            kind.chars_max.into(),
            kind.low,
            kind.high,
            kind.elements.into(),
            column.required.into(),
            column.array.into(),
            column.default.as_ref().map(json_text).into(),
            column.created.0.into(),
            column.updated.0.into(),
            mark.0.into(),
            column.encrypt.into(),
        ],
    )
}

pub(crate) fn index(table: &Table, index: &Index, mark: Mark) -> StoredChange {
    let columns: serde_json::Value = index
        .columns
        .iter()
        .map(|part| index_column(table, part))
        .collect();
    let (status, error) = index_status(&index.status);
    StoredChange::new(
        "INSERT INTO index_ (tab, number, key, kind, columns, status, error, created, updated, sf) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        vec![
            table.number.0.into(),
            index.number.into(),
            index.key.as_str().into(),
            index_kind(index.kind).into(),
            columns.to_string().into(),
            status.into(),
            error.into(),
            index.created.0.into(),
            index.updated.0.into(),
            mark.0.into(),
        ],
    )
}

/// A kind of column, spread over the columns of its row.
struct KindRow {
    name: &'static str,
    chars_max: Option<u32>,
    low: StoredParameter,
    high: StoredParameter,
    elements: Option<String>,
}

impl KindRow {
    fn of(kind: &ColumnKind) -> KindRow {
        let mut row = KindRow {
            name: kind_name(kind),
            chars_max: None,
            low: StoredParameter::Text(None),
            high: StoredParameter::Text(None),
            elements: None,
        };
        match kind {
            ColumnKind::String { chars_max } | ColumnKind::Varchar { chars_max } => {
                row.chars_max = Some(*chars_max);
            }
            ColumnKind::Integer { min, max } | ColumnKind::Bigint { min, max } => {
                row.low = StoredParameter::WholeBound(*min);
                row.high = StoredParameter::WholeBound(*max);
            }
            ColumnKind::Float { min, max } => {
                row.low = StoredParameter::RealBound(*min);
                row.high = StoredParameter::RealBound(*max);
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
fn kind_name(kind: &ColumnKind) -> &'static str {
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
fn index_kind(kind: IndexKind) -> &'static str {
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
fn database_kind(kind: DatabaseKind) -> &'static str {
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
