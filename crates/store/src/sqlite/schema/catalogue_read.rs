//! The catalogue as of the latest commit, from its tables.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{
    ApiKey, Catalogue, CatalogueChange, Column, ColumnKey, ColumnKind, ColumnNumber, Database,
    DatabaseId, DatabaseKind, Direction, Field, Grantee, Index, IndexColumn, IndexKey, IndexKind,
    IndexStatus, KeyId, Mark, ModelError, OnDelete, Past, Permission, Project, ProjectId, Relation,
    RelationKind, Retention, Scope, Side, Table, TableId, TableNumber, TableOptions, Timestamp,
    Value,
};
use query::names;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row};
use serde_json::Value as Json;

use super::codec;
use super::constraints;
use super::sizes;
use super::stored_functions::{FUNCTION, function};
use super::tables::END;
use crate::StoreError;
use crate::error::corrupt;
use crate::laws::growth::Growth;
use crate::laws::state::State;

type Read<T> = Result<T, StoreError>;

/// What a store knows when it is opened.
pub(crate) struct Known {
    pub(crate) state: State,
    pub(crate) lineage: String,
}

/// Reads everything on one snapshot.
pub(crate) fn load(connection: &Connection) -> Read<Known> {
    let snapshot = connection.unchecked_transaction()?;
    let sql = "SELECT mark, horizon, catalogue_epoch, next_table, next_database, lineage, \
               (SELECT coalesce((SELECT n FROM tx ORDER BY tt DESC LIMIT 1), 0)), \
               key_id <> '' FROM meta";
    let mut known = snapshot.query_row(sql, (), |row| {
        let mut catalogue = Catalogue::default();
        catalogue.epoch = row.get::<_, i64>(2)? as u64;
        let state = State {
            catalogue: Arc::new(catalogue),
            mark: Mark(row.get(0)?),
            horizon: Mark(row.get(1)?),
            number: row.get(6)?,
            next_table: row.get(3)?,
            next_database: row.get(4)?,
            erased: 0,
            boundaries: Arc::default(),
            constraints: Arc::default(),
            is_sealing: row.get(7)?,
            growth: Growth::default(),
        };
        Ok(Known {
            state,
            lineage: row.get(5)?,
        })
    })?;
    for change in containers(&snapshot)? {
        known.state.catalogue_mut().apply(change);
    }
    known.state.boundaries = Arc::new(boundaries(&snapshot, &known.state.catalogue)?);
    known.state.growth = sizes::load_growth(&snapshot)?;
    known.state.constraints = Arc::new(constraints::load(&snapshot)?);
    Ok(known)
}

/// When each table changes next without a commit.
fn boundaries(
    connection: &Connection,
    catalogue: &Catalogue,
) -> Read<BTreeMap<TableNumber, Timestamp>> {
    let mut found = BTreeMap::new();
    for table in catalogue.tables() {
        let sql = format!("SELECT min(at) FROM {}", names::schedule(table.number));
        let next: Option<i64> = connection.query_row(&sql, (), |row| row.get(0))?;
        found.extend(next.map(|at| (table.number, Timestamp(at))));
    }
    Ok(found)
}

/// Every container, outermost first, as if it were put now.
fn containers(connection: &Connection) -> Read<Vec<CatalogueChange>> {
    let mut changes = open_rows(connection, "project", "id, name, created", project)?;
    let keys = "project, id, name, scopes, expires, hash, created";
    changes.extend(open_rows(connection, "api_key", keys, api_key)?);
    let databases = "seq, project, id, name, kind, enabled, created, updated";
    changes.extend(open_rows(connection, "database_", databases, database)?);
    let mut columns = by_table(open_rows(connection, "column_", COLUMN, column)?);
    let mut indexes = by_table(open_rows(connection, "index_", INDEX, index)?);
    for mut table in open_rows(connection, "table_", TABLE, table)? {
        table.columns = columns.remove(&table.number).unwrap_or_default();
        table.columns.sort_by_key(|column| column.number);
        let parts = indexes.remove(&table.number).unwrap_or_default();
        table.indexes = parts
            .into_iter()
            .map(|stored| stored.resolve(&table.columns))
            .collect::<Read<_>>()?;
        table.indexes.sort_by_key(|index| index.number);
        changes.push(CatalogueChange::TablePut(Arc::new(table)));
    }
    let functions = open_rows(connection, "function_", FUNCTION, function)?;
    let functions = functions.into_iter().map(Arc::new);
    changes.extend(functions.map(CatalogueChange::FunctionPut));
    Ok(changes)
}

/// Every column that a table ever had, as it was last, in the order of their numbers.
pub(crate) fn columns_ever(connection: &Connection, table: TableNumber) -> Read<Vec<Column>> {
    let sql = format!("SELECT {COLUMN} FROM column_ WHERE tab = ?1 ORDER BY number, sf, st");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([table.0])?;
    let mut found: Vec<Column> = Vec::new();
    while let Some(row) = rows.next()? {
        let (_, column) = column(row)?;
        found.pop_if(|former| former.number == column.number);
        found.push(column);
    }
    Ok(found)
}

/// The catalogue of a database whose tables of rows are not made yet.
pub(crate) fn load_without_rows(connection: &Connection) -> Read<Catalogue> {
    let mut catalogue = Catalogue::default();
    for change in containers(connection)? {
        catalogue.apply(change);
    }
    Ok(catalogue)
}

/// A table and its columns as of a mark, without indexes; `None` if there was none.
pub(crate) fn table_at(
    connection: &Connection,
    number: TableNumber,
    mark: i64,
) -> Read<Option<Table>> {
    let parameters = [number.0, mark];
    let sql = format!("SELECT {TABLE} FROM table_ WHERE number = ?1 AND sf <= ?2 AND st > ?2");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(parameters)?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let mut found = table(row)?;
    let sql = format!(
        "SELECT {COLUMN} FROM column_ WHERE tab = ?1 AND sf <= ?2 AND st > ?2 ORDER BY number"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(parameters)?;
    while let Some(row) = rows.next()? {
        found.columns.push(column(row)?.1);
    }
    Ok(Some(found))
}

fn open_rows<T>(
    connection: &Connection,
    table: &str,
    columns: &str,
    read: impl Fn(&Row<'_>) -> Read<T>,
) -> Read<Vec<T>> {
    let sql = format!("SELECT {columns} FROM {table} WHERE st = {END} ORDER BY rowid");
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query(())?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

fn by_table<T>(rows: Vec<(TableNumber, T)>) -> HashMap<TableNumber, Vec<T>> {
    let mut tables: HashMap<TableNumber, Vec<T>> = HashMap::new();
    for (table, row) in rows {
        tables.entry(table).or_default().push(row);
    }
    tables
}

fn project(row: &Row<'_>) -> Read<CatalogueChange> {
    Ok(CatalogueChange::ProjectPut(Project {
        id: id(row, 0, ProjectId::new)?,
        name: row.get(1)?,
        created: Timestamp(row.get(2)?),
        databases: HashMap::new(),
        functions: HashMap::new(),
    }))
}

fn api_key(row: &Row<'_>) -> Read<CatalogueChange> {
    let scopes = texts(row, 3)?
        .iter()
        .map(|name| Scope::parse(name).ok_or_else(|| corrupt(format!("unknown scope {name:?}"))))
        .collect::<Read<_>>()?;
    Ok(CatalogueChange::KeyPut(Arc::new(ApiKey {
        project: id(row, 0, ProjectId::new)?,
        id: id(row, 1, KeyId::new)?,
        name: row.get(2)?,
        scopes,
        expires: row.get::<_, Option<i64>>(4)?.map(Timestamp),
        secret_hash: row.get(5)?,
        created: Timestamp(row.get(6)?),
    })))
}

fn database(row: &Row<'_>) -> Read<CatalogueChange> {
    Ok(CatalogueChange::DatabasePut(Database {
        seq: row.get(0)?,
        project: id(row, 1, ProjectId::new)?,
        id: id(row, 2, DatabaseId::new)?,
        name: row.get(3)?,
        kind: match text(row, 4)? {
            "tablesdb" => DatabaseKind::Tablesdb,
            "legacy" => DatabaseKind::Legacy,
            other => return Err(corrupt(format!("unknown kind of database {other:?}"))),
        },
        enabled: row.get(5)?,
        created: Timestamp(row.get(6)?),
        updated: Timestamp(row.get(7)?),
        tables: HashMap::new(),
    }))
}

const TABLE: &str = "number, project, database_, id, name, enabled, row_security, permissions, \
                     created, updated, schema_epoch, permission_epoch, pinned_max_age, history, \
                     kept_from, past, ttl_max";

fn table(row: &Row<'_>) -> Read<Table> {
    Ok(Table {
        number: TableNumber(row.get(0)?),
        project: id(row, 1, ProjectId::new)?,
        database: id(row, 2, DatabaseId::new)?,
        id: id(row, 3, TableId::new)?,
        name: row.get(4)?,
        enabled: row.get(5)?,
        row_security: row.get(6)?,
        permissions: permissions(row, 7)?,
        columns: Vec::new(),
        indexes: Vec::new(),
        created: Timestamp(row.get(8)?),
        updated: Timestamp(row.get(9)?),
        schema_epoch: row.get::<_, i64>(10)? as u64,
        permission_epoch: row.get::<_, i64>(11)? as u64,
        options: TableOptions {
            pinned_max_age_s: row.get(12)?,
            history: match row.get(13)? {
                None => Retention::All,
                Some(0) => Retention::None,
                Some(days) => Retention::Days(days),
            },
            kept_from: Timestamp(row.get(14)?),
            past: match row.get(15)? {
                0 => Past::Keys,
                1 => Past::Both,
                2 => Past::Now,
                other => return Err(corrupt(format!("unknown rule {other} of the past"))),
            },
            ttl_max_s: row.get(16)?,
        },
    })
}

const COLUMN: &str = "tab, number, key, kind, chars_max, low, high, elements, required, \
                      is_array, default_, created, updated, encrypt";

fn column(row: &Row<'_>) -> Read<(TableNumber, Column)> {
    let mut column = Column {
        number: ColumnNumber(row.get(1)?),
        key: id(row, 2, ColumnKey::new)?,
        kind: column_kind(row)?,
        required: row.get(8)?,
        array: row.get(9)?,
        encrypt: row.get(13)?,
        default: None,
        created: Timestamp(row.get(11)?),
        updated: Timestamp(row.get(12)?),
    };
    if !matches!(row.get_ref(10)?, ValueRef::Null) {
        column.default = Some(default(text(row, 10)?, &column)?);
    }
    Ok((TableNumber(row.get(0)?), column))
}

fn column_kind(row: &Row<'_>) -> Read<ColumnKind> {
    Ok(match text(row, 3)? {
        "string" => ColumnKind::String {
            chars_max: row.get(4)?,
        },
        "varchar" => ColumnKind::Varchar {
            chars_max: row.get(4)?,
        },
        "text" => ColumnKind::Text,
        "mediumtext" => ColumnKind::Mediumtext,
        "longtext" => ColumnKind::Longtext,
        "integer" => ColumnKind::Integer {
            min: row.get(5)?,
            max: row.get(6)?,
        },
        "bigint" => ColumnKind::Bigint {
            min: row.get(5)?,
            max: row.get(6)?,
        },
        "float" => ColumnKind::Float {
            min: row.get(5)?,
            max: row.get(6)?,
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
    if column.array {
        return codec::value(ValueRef::Text(json.as_bytes()), column);
    }
    let as_list = Column {
        array: true,
        ..column.clone()
    };
    match codec::value(ValueRef::Text(format!("[{json}]").as_bytes()), &as_list)? {
        Value::List(mut values) if values.len() == 1 => Ok(values.remove(0)),
        other => Err(corrupt(format!("a default is {other:?}"))),
    }
}

/// An index whose columns are still named by number.
struct StoredIndex {
    index: Index,
    columns: Json,
}

const INDEX: &str = "tab, number, key, kind, columns, created, updated, status, error";

fn index(row: &Row<'_>) -> Read<(TableNumber, StoredIndex)> {
    let index = Index {
        number: row.get(1)?,
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
            "failed" => IndexStatus::Failed(row.get(8)?),
            other => return Err(corrupt(format!("unknown status of index {other:?}"))),
        },
        created: Timestamp(row.get(5)?),
        updated: Timestamp(row.get(6)?),
    };
    let columns = json(text(row, 4)?)?;
    Ok((TableNumber(row.get(0)?), StoredIndex { index, columns }))
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

fn permissions(row: &Row<'_>, position: usize) -> Read<Vec<Permission>> {
    let texts = texts(row, position)?;
    Grantee::Table
        .parse(texts.iter().map(String::as_str))
        .map_err(|error| corrupt(error.to_string()))
}

fn id<T>(row: &Row<'_>, position: usize, new: impl Fn(&str) -> Result<T, ModelError>) -> Read<T> {
    new(text(row, position)?).map_err(|error| corrupt(error.to_string()))
}

fn text<'row>(row: &'row Row<'_>, position: usize) -> Read<&'row str> {
    row.get_ref(position)?
        .as_str()
        .map_err(|error| corrupt(error.to_string()))
}

fn texts(row: &Row<'_>, position: usize) -> Read<Vec<String>> {
    serde_json::from_str(text(row, position)?).map_err(|error| corrupt(error.to_string()))
}

fn json(text: &str) -> Read<Json> {
    serde_json::from_str(text).map_err(|error| corrupt(error.to_string()))
}
