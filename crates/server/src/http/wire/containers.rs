//! Databases, tables, columns and indexes as answers show them.
//!
//! Three generations of official clients must be able to read one answer, so each shape holds
//! every field that any of them demands.

use std::sync::Arc;

use engine::{column_type, index_status, index_type};
use model::{
    Column, ColumnKind, Database, DatabaseKind, Direction, Field, Index, Relation, Table, Value,
};

use super::object::Object;
use super::{Words, json, list, value};

/// One database.
pub fn database(database: &Database) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write_database(database, &mut out);
    out
}

/// A page of databases.
pub fn databases(total: u64, databases: &[Arc<Database>]) -> Vec<u8> {
    list("databases", total, databases, |database, out| {
        write_database(database, out);
    })
}

fn write_database(database: &Database, out: &mut Vec<u8>) {
    let kind = match database.kind {
        DatabaseKind::Tablesdb => "tablesdb",
        DatabaseKind::Legacy => "legacy",
    };
    let mut object = Object::open(out);
    object.plain("$id", database.id.as_str());
    object.text("name", &database.name);
    object.text("description", "");
    object.instant("$createdAt", database.created);
    object.instant("$updatedAt", database.updated);
    object.flag("enabled", database.enabled);
    object.text("type", kind);
    object.text("status", "ready");
    object.raw("policies", b"[]");
    object.raw("archives", b"[]");
    object.close();
}

/// One table with its columns and indexes.
pub fn table(table: &Table, words: &Words) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write_table(table, words, &mut out);
    out
}

/// A page of tables.
pub fn tables(total: u64, tables: &[Arc<Table>], words: &Words) -> Vec<u8> {
    list(words.tables, total, tables, |table, out| {
        write_table(table, words, out);
    })
}

fn write_table(table: &Table, words: &Words, out: &mut Vec<u8>) {
    let mut object = Object::open(out);
    object.plain("$id", table.id.as_str());
    object.instant("$createdAt", table.created);
    object.instant("$updatedAt", table.updated);
    object.array("$permissions", &table.permissions, |permission, out| {
        json(out, &permission.to_string());
    });
    object.plain("databaseId", table.database.as_str());
    object.text("name", &table.name);
    object.text("description", "");
    object.flag("enabled", table.enabled);
    object.flag(words.row_security, table.row_security);
    object.array(words.columns, table.visible_columns(), |column, out| {
        write_column(column, words, out);
    });
    object.array("indexes", table.visible_indexes(), |index, out| {
        write_index(table, index, words, out);
    });
    // A row's width has no limit here, so none of it is counted either (wire protocol, tables:
    // 0 means no limit).
    object.number("bytesMax", 0);
    object.number("bytesUsed", 0);
    object.close();
}

/// One column.
pub fn column(column: &Column, words: &Words) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write_column(column, words, &mut out);
    out
}

/// A page of columns.
pub fn columns(total: u64, columns: &[Column], words: &Words) -> Vec<u8> {
    list(words.columns, total, columns, |column, out| {
        write_column(column, words, out);
    })
}

fn write_column(column: &Column, words: &Words, out: &mut Vec<u8>) {
    let mut object = Object::open(out);
    object.plain("key", column.key.as_str());
    object.text("description", "");
    object.text("type", column_type(&column.kind));
    object.text("status", "available");
    object.text("error", "");
    object.flag("required", column.required);
    // That a relationship holds a list of links is not the client's business.
    object.flag("array", column.array && column.relation().is_none());
    object.instant("$createdAt", column.created);
    object.instant("$updatedAt", column.updated);
    match column.relation() {
        Some(relation) => write_relation(relation, words, &mut object),
        None => write_limits(column, &mut object),
    }
    let unset = Value::Null;
    object.with("default", |out| {
        value(out, column.default.as_ref().unwrap_or(&unset));
    });
    object.close();
}

/// The fields that only some kinds have.
fn write_limits(column: &Column, object: &mut Object<'_>) {
    match &column.kind {
        ColumnKind::String { chars_max } | ColumnKind::Varchar { chars_max } => {
            object.number("size", i64::from(*chars_max));
            object.flag("encrypt", column.encrypt);
        }
        ColumnKind::Text | ColumnKind::Mediumtext | ColumnKind::Longtext => {
            object.flag("encrypt", column.encrypt);
        }
        ColumnKind::Integer { min, max } | ColumnKind::Bigint { min, max } => {
            object.number("min", *min);
            object.number("max", *max);
        }
        ColumnKind::Float { min, max } => {
            object.with("min", |out| json(out, min));
            object.with("max", |out| json(out, max));
        }
        ColumnKind::Boolean | ColumnKind::Relationship(_) => {}
        ColumnKind::Email => object.text("format", "email"),
        ColumnKind::Url => object.text("format", "url"),
        ColumnKind::Ip => object.text("format", "ip"),
        ColumnKind::Enum { elements } => {
            object.text("format", "enum");
            object.array("elements", elements.iter(), |element, out| {
                json(out, element);
            });
        }
        ColumnKind::Datetime => object.text("format", ""),
    }
}

fn write_relation(relation: &Relation, words: &Words, object: &mut Object<'_>) {
    object.plain(words.related_table, relation.related.as_str());
    object.text("relationType", relation.kind.as_str());
    object.flag("twoWay", relation.two_way);
    object.plain("twoWayKey", relation.partner_key.as_str());
    object.text("onDelete", relation.on_delete.as_str());
    object.text("side", relation.side.as_str());
}

/// One index of a table.
pub fn index(table: &Table, index: &Index, words: &Words) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write_index(table, index, words, &mut out);
    out
}

/// A page of a table's indexes.
pub fn indexes(table: &Table, total: u64, indexes: &[Index], words: &Words) -> Vec<u8> {
    list("indexes", total, indexes, |index, out| {
        write_index(table, index, words, out);
    })
}

fn write_index(table: &Table, index: &Index, words: &Words, out: &mut Vec<u8>) {
    let mut object = Object::open(out);
    object.plain("$id", index.key.as_str());
    object.instant("$createdAt", index.created);
    object.instant("$updatedAt", index.updated);
    object.plain("key", index.key.as_str());
    object.text("description", "");
    object.text("type", index_type(index.kind));
    let (status, error) = index_status(&index.status);
    object.text("status", status);
    object.text("error", error);
    object.array(words.columns, &index.columns, |column, out| {
        json(out, field_word(table, column.field));
    });
    // Clients demand numbers; 0 is how the answers say "the whole value".
    object.array("lengths", &index.columns, |column, out| {
        json(out, &column.length.unwrap_or(0));
    });
    object.array("orders", &index.columns, |column, out| {
        json(
            out,
            match column.direction {
                Direction::Asc => "ASC",
                Direction::Desc => "DESC",
            },
        );
    });
    object.close();
}

fn field_word(table: &Table, field: Field) -> &str {
    match field {
        Field::Id => "$id",
        Field::Sequence => "$sequence",
        Field::Created => "$createdAt",
        Field::Updated => "$updatedAt",
        Field::Span(end) => end.as_str(),
        Field::Column(position) => table.columns[position].key.as_str(),
    }
}
