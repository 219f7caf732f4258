//! The catalogue as it is stored: which columns its tables have, and what they say. Every database
//! has the same ones, whose rows each gives in its own way.
//!
//! How functions are stored stands in `stored_catalogue/functions.rs`, and how rows are written in
//! `stored_catalogue/rows.rs`.

use std::collections::HashMap;
use std::sync::Arc;

use model::catalogue::SecretHash;
use model::{
    ApiKey, CatalogueChange, Column, ColumnKey, ColumnKind, ColumnNumber, Database, DatabaseId,
    DatabaseKind, Direction, Field, Grantee, Index, IndexColumn, IndexKey, IndexKind, IndexStatus,
    KeyId, OnDelete, Past, Permission, Project, ProjectId, Relation, RelationKind, Retention,
    Scope, Side, Table, TableId, TableNumber, TableOptions, Timestamp, Value,
};
use serde_json::Value as Json;

use crate::error::corrupt;
use crate::json_list;
use crate::stored::row::{
    Read, StoredCell, StoredRow, count, flag, id, instant, int, maybe_int, other, string, text,
};

pub(crate) mod functions;
pub(crate) mod rows;

/// A table of the catalogue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CataloguePart {
    Project,
    Key,
    Database,
    Column,
    Index,
    Table,
    Function,
}

impl CataloguePart {
    /// Each after those that it needs.
    pub(crate) const ALL: [CataloguePart; 7] = [
        CataloguePart::Project,
        CataloguePart::Key,
        CataloguePart::Database,
        CataloguePart::Column,
        CataloguePart::Index,
        CataloguePart::Table,
        CataloguePart::Function,
    ];

    /// Reads what is known now.
    pub(crate) fn sql(self) -> String {
        let (columns, table) = match self {
            CataloguePart::Project => ("id, name, created", "project"),
            CataloguePart::Key => (
                "project, id, name, scopes, expires, hash, created",
                "api_key",
            ),
            CataloguePart::Database => (
                "seq, project, id, name, kind, enabled, created, updated",
                "database_",
            ),
            CataloguePart::Column => (COLUMN, "column_"),
            CataloguePart::Index => (INDEX, "index_"),
            CataloguePart::Table => (TABLE, "table_"),
            CataloguePart::Function => (functions::FUNCTION, "function_"),
        };
        format!(
            "SELECT {columns} FROM {table} WHERE st = {}",
            Timestamp::END.0
        )
    }
}

/// The rows of the catalogue that were read so far.
#[derive(Default)]
pub(crate) struct StoredCatalogue {
    changes: Vec<CatalogueChange>,
    columns: HashMap<TableNumber, Vec<Column>>,
    indexes: HashMap<TableNumber, Vec<StoredIndex>>,
}

impl StoredCatalogue {
    /// Takes in a row of a part, after all rows of those before it.
    pub(crate) fn take(&mut self, part: CataloguePart, row: &dyn StoredRow) -> Read<()> {
        let change = match part {
            CataloguePart::Project => project(row)?,
            CataloguePart::Key => api_key(row)?,
            CataloguePart::Database => database(row)?,
            CataloguePart::Column => {
                let (table, column) = column(row)?;
                self.columns.entry(table).or_default().push(column);
                return Ok(());
            }
            CataloguePart::Index => {
                let (table, index) = index(row)?;
                self.indexes.entry(table).or_default().push(index);
                return Ok(());
            }
            CataloguePart::Table => self.whole(table(row)?)?,
            CataloguePart::Function => {
                CatalogueChange::FunctionPut(Arc::new(functions::function(row)?))
            }
        };
        self.changes.push(change);
        Ok(())
    }

    /// A table with its columns and indexes.
    fn whole(&mut self, mut table: Table) -> Read<CatalogueChange> {
        table.columns = self.columns.remove(&table.number).unwrap_or_default();
        table.columns.sort_by_key(|column| column.number);
        let indexes = self.indexes.remove(&table.number).unwrap_or_default();
        table.indexes = indexes
            .into_iter()
            .map(|stored| stored.resolve(&table.columns))
            .collect::<Read<_>>()?;
        table.indexes.sort_by_key(|index| index.number);
        Ok(CatalogueChange::TablePut(Arc::new(table)))
    }

    /// Every container, outermost first, as if it were put now.
    pub(crate) fn changes(self) -> Vec<CatalogueChange> {
        self.changes
    }
}

fn project(row: &dyn StoredRow) -> Read<CatalogueChange> {
    Ok(CatalogueChange::ProjectPut(Project {
        id: id(row, 0, ProjectId::new)?,
        name: string(row, 1)?,
        created: instant(row, 2)?,
        databases: HashMap::new(),
        functions: HashMap::new(),
    }))
}

fn api_key(row: &dyn StoredRow) -> Read<CatalogueChange> {
    let scopes = texts(row, 3)?
        .iter()
        .map(|name| Scope::parse(name).ok_or_else(|| corrupt(format!("unknown scope {name:?}"))))
        .collect::<Read<_>>()?;
    Ok(CatalogueChange::KeyPut(Arc::new(ApiKey {
        project: id(row, 0, ProjectId::new)?,
        id: id(row, 1, KeyId::new)?,
        name: string(row, 2)?,
        scopes,
        expires: maybe_int(row, 4)?.map(Timestamp),
        secret_hash: hash(row, 5)?,
        created: instant(row, 6)?,
    })))
}

fn database(row: &dyn StoredRow) -> Read<CatalogueChange> {
    Ok(CatalogueChange::DatabasePut(Database {
        seq: int(row, 0)?,
        project: id(row, 1, ProjectId::new)?,
        id: id(row, 2, DatabaseId::new)?,
        name: string(row, 3)?,
        kind: match text(row, 4)? {
            "tablesdb" => DatabaseKind::Tablesdb,
            "legacy" => DatabaseKind::Legacy,
            other => return Err(corrupt(format!("unknown kind of database {other:?}"))),
        },
        enabled: flag(row, 5)?,
        created: instant(row, 6)?,
        updated: instant(row, 7)?,
        tables: HashMap::new(),
    }))
}

/// The columns of a table, as [`table`] reads them.
pub(crate) const TABLE: &str = "number, project, database_, id, name, enabled, row_security, \
                                permissions, created, updated, schema_epoch, permission_epoch, \
                                pinned_max_age, history, kept_from, past, ttl_max";

/// A table, without its columns and indexes.
pub(crate) fn table(row: &dyn StoredRow) -> Read<Table> {
    Ok(Table {
        number: TableNumber(int(row, 0)?),
        project: id(row, 1, ProjectId::new)?,
        database: id(row, 2, DatabaseId::new)?,
        id: id(row, 3, TableId::new)?,
        name: string(row, 4)?,
        enabled: flag(row, 5)?,
        row_security: flag(row, 6)?,
        permissions: permissions(row, 7)?,
        columns: Vec::new(),
        indexes: Vec::new(),
        created: instant(row, 8)?,
        updated: instant(row, 9)?,
        schema_epoch: int(row, 10)? as u64,
        permission_epoch: int(row, 11)? as u64,
        options: TableOptions {
            pinned_max_age_s: count(row, 12)?,
            history: match maybe_int(row, 13)? {
                None => Retention::All,
                Some(0) => Retention::None,
                Some(_) => Retention::Days(count(row, 13)?),
            },
            kept_from: instant(row, 14)?,
            past: match int(row, 15)? {
                0 => Past::Keys,
                1 => Past::Both,
                2 => Past::Now,
                other => return Err(corrupt(format!("unknown rule {other} of the past"))),
            },
            ttl_max_s: count(row, 16)?,
        },
    })
}

/// The columns of a column, as [`column`] reads them.
pub(crate) const COLUMN: &str = "tab, number, key, kind, chars_max, low, high, elements, required, \
                      is_array, default_, created, updated, encrypt";

/// A column, and the table that has it.
pub(crate) fn column(row: &dyn StoredRow) -> Read<(TableNumber, Column)> {
    let mut column = Column {
        number: ColumnNumber(count(row, 1)?),
        key: id(row, 2, ColumnKey::new)?,
        kind: column_kind(row)?,
        required: flag(row, 8)?,
        array: flag(row, 9)?,
        encrypt: flag(row, 13)?,
        default: None,
        created: instant(row, 11)?,
        updated: instant(row, 12)?,
    };
    if row.cell(10)? != StoredCell::Null {
        column.default = Some(default(text(row, 10)?, &column)?);
    }
    Ok((TableNumber(int(row, 0)?), column))
}

fn column_kind(row: &dyn StoredRow) -> Read<ColumnKind> {
    Ok(match text(row, 3)? {
        "string" => ColumnKind::String {
            chars_max: count(row, 4)?,
        },
        "varchar" => ColumnKind::Varchar {
            chars_max: count(row, 4)?,
        },
        "text" => ColumnKind::Text,
        "mediumtext" => ColumnKind::Mediumtext,
        "longtext" => ColumnKind::Longtext,
        "integer" => ColumnKind::Integer {
            min: whole_bound(row, 5)?,
            max: whole_bound(row, 6)?,
        },
        "bigint" => ColumnKind::Bigint {
            min: whole_bound(row, 5)?,
            max: whole_bound(row, 6)?,
        },
        "float" => ColumnKind::Float {
            min: real_bound(row, 5)?,
            max: real_bound(row, 6)?,
        },
        "boolean" => ColumnKind::Boolean,
        "email" => ColumnKind::Email,
        "url" => ColumnKind::Url,
        "ip" => ColumnKind::Ip,
        "enum" => ColumnKind::Enum {
            elements: texts(row, 7)?.into(),
        },
        "datetime" => ColumnKind::Datetime,
        "relationship" => {
            let stored = json(text(row, 7)?)?;
            let relation = relation(&stored);
            ColumnKind::Relationship(
                relation.ok_or_else(|| corrupt(format!("a relationship is {stored}")))?,
            )
        }
        other => return Err(corrupt(format!("unknown kind of column {other:?}"))),
    })
}

fn relation(stored: &Json) -> Option<Relation> {
    let text = |key: &str| stored.get(key)?.as_str();
    let partner = u32::try_from(stored.get("partner")?.as_u64()?).ok()?;
    Some(Relation {
        related: TableId::new(text("related")?).ok()?,
        partner: ColumnNumber(partner),
        partner_key: ColumnKey::new(text("partnerKey")?).ok()?,
        kind: RelationKind::parse(text("type")?)?,
        two_way: stored.get("twoWay")?.as_bool()?,
        on_delete: OnDelete::parse(text("onDelete")?)?,
        side: Side::parse(text("side")?)?,
        has_ended: false,
    })
}

/// A default is written as JSON. A list reads back as a value of its column does; anything else
/// as the only element of such a list.
fn default(json: &str, column: &Column) -> Read<Value> {
    let storage = column.kind.storage();
    let broken = || {
        corrupt(format!(
            "a default of the column `{}` is {json}",
            column.key
        ))
    };
    if column.array {
        return json_list::read(json.as_bytes(), storage).ok_or_else(broken);
    }
    match json_list::read(format!("[{json}]").as_bytes(), storage) {
        Some(Value::List(mut values)) if values.len() == 1 => Ok(values.remove(0)),
        _ => Err(broken()),
    }
}

/// An index whose columns are still named by number.
struct StoredIndex {
    index: Index,
    columns: Json,
}

const INDEX: &str = "tab, number, key, kind, columns, created, updated, status, error";

fn index(row: &dyn StoredRow) -> Read<(TableNumber, StoredIndex)> {
    let index = Index {
        number: count(row, 1)?,
        key: id(row, 2, IndexKey::new)?,
        kind: match text(row, 3)? {
            "key" => IndexKind::Key,
            "unique" => IndexKind::Unique,
            "fulltext" => IndexKind::Fulltext,
            other => return Err(corrupt(format!("unknown kind of index {other:?}"))),
        },
        columns: Vec::new(),
        status: match text(row, 7)? {
            "available" => IndexStatus::Available,
            "processing" => IndexStatus::Processing,
            "failed" => IndexStatus::Failed(string(row, 8)?),
            other => return Err(corrupt(format!("unknown status of index {other:?}"))),
        },
        created: instant(row, 5)?,
        updated: instant(row, 6)?,
    };
    let columns = json(text(row, 4)?)?;
    Ok((TableNumber(int(row, 0)?), StoredIndex { index, columns }))
}

impl StoredIndex {
    fn resolve(self, columns: &[Column]) -> Read<Index> {
        let parts = self
            .columns
            .as_array()
            .ok_or_else(|| corrupt("an index without columns"))?;
        let columns = parts
            .iter()
            .map(|part| {
                index_column(part, columns)
                    .ok_or_else(|| corrupt(format!("an index column is {part}")))
            })
            .collect::<Read<_>>()?;
        Ok(Index {
            columns,
            ..self.index
        })
    }
}

fn index_column(part: &Json, columns: &[Column]) -> Option<IndexColumn> {
    let field = match part.get("field")? {
        Json::Number(number) => {
            let number = u32::try_from(number.as_u64()?).ok()?;
            Field::Column(
                columns
                    .iter()
                    .position(|column| column.number.0 == number)?,
            )
        }
        Json::String(name) => match name.as_str() {
            "$id" => Field::Id,
            "$sequence" => Field::Sequence,
            "$createdAt" => Field::Created,
            "$updatedAt" => Field::Updated,
            _ => return None,
        },
        _ => return None,
    };
    let direction = match part.get("direction")?.as_str()? {
        "asc" => Direction::Asc,
        "desc" => Direction::Desc,
        _ => return None,
    };
    let chars = |count: &Json| match count {
        Json::Null => Some(None),
        count => u32::try_from(count.as_u64()?).ok().map(Some),
    };
    Some(IndexColumn {
        field,
        direction,
        length: chars(part.get("length")?)?,
        held: chars(part.get("held").unwrap_or(&Json::Null))?,
    })
}

fn permissions(row: &dyn StoredRow, position: usize) -> Read<Vec<Permission>> {
    let texts = texts(row, position)?;
    Grantee::Table
        .parse(texts.iter().map(String::as_str))
        .map_err(|error| corrupt(error.to_string()))
}

fn hash(row: &dyn StoredRow, position: usize) -> Read<SecretHash> {
    let cell = row.cell(position)?;
    let StoredCell::Bytes(bytes) = cell else {
        return Err(other(cell));
    };
    bytes.try_into().map_err(|_| other(cell))
}

/// A database whose columns have one type each holds bounds as JSON text.
fn whole_bound(row: &dyn StoredRow, position: usize) -> Read<i64> {
    match row.cell(position)? {
        StoredCell::Int(number) => Ok(number),
        StoredCell::Text(json) => json.parse().map_err(|_| other(StoredCell::Text(json))),
        cell => Err(other(cell)),
    }
}

fn real_bound(row: &dyn StoredRow, position: usize) -> Read<f64> {
    match row.cell(position)? {
        StoredCell::Float(number) => Ok(number),
        StoredCell::Text(json) => json.parse().map_err(|_| other(StoredCell::Text(json))),
        cell => Err(other(cell)),
    }
}

fn texts(row: &dyn StoredRow, position: usize) -> Read<Vec<String>> {
    serde_json::from_str(text(row, position)?).map_err(|error| corrupt(error.to_string()))
}

fn json(text: &str) -> Read<Json> {
    serde_json::from_str(text).map_err(|error| corrupt(error.to_string()))
}
