//! Definitions of columns and indexes as sent, turned into a schema or refused.

use std::sync::Arc;

use model::permission::Permission;
use model::{
    Column, ColumnKey, ColumnKind, ColumnNumber, DatabaseId, Direction, Field, INDEX_CHARS_MAX,
    Index, IndexColumn, IndexKey, IndexKind, IndexStatus, Json, ModelError, ProjectId, Storage,
    Table, TableNumber, Timestamp, Value,
};

use crate::error::{ColumnFault, EngineError, IndexFault, SchemaError};
use crate::request::inputs::{NewColumn, NewIndex, NewTable};

/// Most columns, and most indexes, of one call (wire protocol, 2.2).
pub const DEFINITIONS_MAX: usize = 100;
/// Most indexes of a table (wire protocol, 2.5).
const INDEXES_MAX: usize = 61;
/// Characters of the texts that an index holds not whole, all together: at four bytes each an
/// entry still is no longer than the 1,002 bytes that SQLite keeps beside others in a page.
const BEGINNINGS_CHARS_MAX: u32 = 240;
/// Greatest size of a `varchar` (wire protocol, 2.3).
pub const VARCHAR_CHARS_MAX: i64 = 16_381;
/// Greatest size of a `string` (wire protocol, 2.3).
pub const STRING_CHARS_MAX: i64 = 1_073_741_824;
/// Least size of a `string` that is encrypted (wire protocol, 2.3).
const ENCRYPTED_CHARS_MIN: u32 = 150;
/// Most elements of an enum (wire protocol, 2.3).
pub const ELEMENTS_MAX: usize = 100;
/// Most characters of one.
pub const ELEMENT_CHARS_MAX: usize = 255;

/// The parameters in which a definition stands, as refusals name them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) key: &'static str,
    pub(crate) kind: &'static str,
}

impl Given {
    /// A parameter of its own for each part.
    pub(crate) const ALONE: Given = Given {
        key: "key",
        kind: "type",
    };

    /// All of it in one.
    const fn within(parameter: &'static str) -> Given {
        Given {
            key: parameter,
            kind: parameter,
        }
    }
}

/// The number of what gets its own from the commit.
pub(crate) const UNNUMBERED: u32 = 0;

/// The table that `new` defines. Its number, times and epochs are set by the commit.
pub(crate) fn table(
    project: &ProjectId,
    database: &DatabaseId,
    new: &NewTable,
    permissions: Vec<Permission>,
) -> Result<Table, EngineError> {
    need_at_most(new.columns.len(), "columns")?;
    need_at_most(new.indexes.len(), "indexes")?;
    defined(project, database, new, permissions)
}

/// As [`table`], however many calls it takes to define all of it.
pub(crate) fn defined(
    project: &ProjectId,
    database: &DatabaseId,
    new: &NewTable,
    permissions: Vec<Permission>,
) -> Result<Table, EngineError> {
    let mut table = Table {
        number: TableNumber(0),
        project: project.clone(),
        database: database.clone(),
        id: new.id.clone(),
        name: new.name.clone(),
        enabled: new.enabled,
        row_security: new.row_security,
        permissions,
        columns: Vec::with_capacity(new.columns.len()),
        indexes: Vec::with_capacity(new.indexes.len()),
        created: Timestamp(0),
        updated: Timestamp(0),
        schema_epoch: 0,
        permission_epoch: 0,
        options: model::TableOptions::default(),
    };
    for definition in &new.columns {
        let number = ColumnNumber(table.columns.len() as u32 + 1);
        let column = column(&table, definition, number, Given::within("columns"))?;
        table.columns.push(column);
    }
    for definition in &new.indexes {
        let number = table.indexes.len() as u32 + 1;
        let index = index(&table, definition, number, Given::within("indexes"))?;
        table.indexes.push(index);
    }
    Ok(table)
}

fn need_at_most(count: usize, name: &'static str) -> Result<(), EngineError> {
    if count <= DEFINITIONS_MAX {
        return Ok(());
    }
    let why = format!("at most {DEFINITIONS_MAX} may be given, got {count}.");
    Err(EngineError::Argument { name, why })
}

/// The column `number` of `table` as `new` defines it, beside the others.
pub(crate) fn column(
    table: &Table,
    new: &NewColumn,
    number: ColumnNumber,
    given: Given,
) -> Result<Column, EngineError> {
    let key = ColumnKey::new(&new.key).map_err(|error| argument(given.key, &error))?;
    let is_taken = |column: &Column| {
        column.number != number
            && !column.is_hidden()
            && column.key.as_str().eq_ignore_ascii_case(&new.key)
    };
    if table.columns.iter().any(is_taken) {
        return Err(SchemaError::Column(ColumnFault::Exists(new.key.clone())).into());
    }
    let kind = kind(new, given)?;
    if new.encrypt {
        need_room_for_seal(new, &kind)?;
    }
    let mut column = Column {
        number,
        kind,
        key,
        required: new.required,
        array: new.array,
        encrypt: new.encrypt,
        default: None,
        created: Timestamp(0),
        updated: Timestamp(0),
    };
    column.default = default(&column, new.default.as_ref())?;
    Ok(column)
}

/// The reference refuses short encrypted strings, because there the sealed text takes the room.
fn need_room_for_seal(new: &NewColumn, kind: &ColumnKind) -> Result<(), EngineError> {
    let refuse = |name, why| Err(EngineError::Argument { name, why });
    match kind {
        ColumnKind::String { chars_max } if *chars_max < ENCRYPTED_CHARS_MIN => refuse(
            "size",
            format!(
                "column `{}`: an encrypted string needs {ENCRYPTED_CHARS_MIN} or more, got \
                 {chars_max}.",
                new.key
            ),
        ),
        ColumnKind::String { .. }
        | ColumnKind::Varchar { .. }
        | ColumnKind::Text
        | ColumnKind::Mediumtext
        | ColumnKind::Longtext => Ok(()),
        _ => refuse(
            "encrypt",
            format!(
                "column `{}` of type `{}` cannot be encrypted; texts can.",
                new.key, new.kind
            ),
        ),
    }
}

fn argument(name: &'static str, error: &ModelError) -> EngineError {
    EngineError::Argument {
        name,
        why: error.to_string(),
    }
}

fn value_invalid(new: &NewColumn, why: &str) -> EngineError {
    let why = format!("Column `{}`: {why}.", new.key);
    EngineError::Schema(SchemaError::Column(ColumnFault::ValueInvalid(why)))
}

fn kind(new: &NewColumn, given: Given) -> Result<ColumnKind, EngineError> {
    let format = new.format.as_deref().filter(|format| !format.is_empty());
    Ok(match (new.kind.as_str(), format) {
        ("email", _) | ("string", Some("email")) => ColumnKind::Email,
        ("url", _) | ("string", Some("url")) => ColumnKind::Url,
        ("ip", _) | ("string", Some("ip")) => ColumnKind::Ip,
        ("enum", _) | ("string", Some("enum")) => enum_kind(new)?,
        ("datetime", _) => ColumnKind::Datetime,
        (_, Some(format)) => {
            let why = format!(
                "Column `{}`: type `{}` has no format `{format}`.",
                new.key, new.kind
            );
            return Err(ColumnFault::FormatUnsupported(why).into());
        }
        ("string", None) => ColumnKind::String {
            chars_max: size(new, STRING_CHARS_MAX)?,
        },
        ("varchar", None) => ColumnKind::Varchar {
            chars_max: size(new, VARCHAR_CHARS_MAX)?,
        },
        ("text", None) => ColumnKind::Text,
        ("mediumtext", None) => ColumnKind::Mediumtext,
        ("longtext", None) => ColumnKind::Longtext,
        ("integer", None) => {
            let (min, max) = integer_limits(new)?;
            ColumnKind::Integer { min, max }
        }
        ("bigint", None) => {
            let (min, max) = integer_limits(new)?;
            ColumnKind::Bigint { min, max }
        }
        ("float" | "double", None) => {
            let (min, max) = float_limits(new)?;
            ColumnKind::Float { min, max }
        }
        ("boolean", None) => ColumnKind::Boolean,
        ("relationship", None) => {
            let why = format!(
                "column `{}`: relationships cannot be defined here.",
                new.key
            );
            return Err(EngineError::Argument {
                name: given.kind,
                why,
            });
        }
        ("point" | "linestring" | "polygon", None) => {
            return Err(EngineError::Unsupported(format!(
                "The column type `{}`",
                new.kind
            )));
        }
        (other, None) => {
            let why = format!("column `{}` has the unknown type `{other}`.", new.key);
            return Err(EngineError::Argument {
                name: given.kind,
                why,
            });
        }
    })
}

fn size(new: &NewColumn, size_max: i64) -> Result<u32, EngineError> {
    match new.size {
        Some(size) if (1..=size_max).contains(&size) => Ok(size as u32),
        Some(size) => Err(EngineError::Argument {
            name: "size",
            why: format!(
                "column `{}`: expected 1 to {size_max}, got {size}.",
                new.key
            ),
        }),
        None => Err(EngineError::Argument {
            name: "size",
            why: format!("column `{}` of type `{}` needs one.", new.key, new.kind),
        }),
    }
}

fn enum_kind(new: &NewColumn) -> Result<ColumnKind, EngineError> {
    let elements = new.elements.as_deref().unwrap_or_default();
    let fits = |element: &String| {
        (1..=ELEMENT_CHARS_MAX).contains(&element.chars().count()) && !element.contains('\0')
    };
    if !(1..=ELEMENTS_MAX).contains(&elements.len()) || !elements.iter().all(fits) {
        let why = format!(
            "column `{}`: an enum needs 1 to {ELEMENTS_MAX} texts of 1 to {ELEMENT_CHARS_MAX} \
             characters.",
            new.key
        );
        return Err(EngineError::Argument {
            name: "elements",
            why,
        });
    }
    Ok(ColumnKind::Enum {
        elements: Arc::from(elements),
    })
}

fn integer_limits(new: &NewColumn) -> Result<(i64, i64), EngineError> {
    let limit = |json: &Option<Json>, absent: i64| match json {
        None | Some(Json::Null) => Ok(absent),
        Some(Json::Int(n)) => Ok(*n),
        Some(_) => Err(value_invalid(new, "min and max must be 64-bit integers")),
    };
    let limits = (limit(&new.min, i64::MIN)?, limit(&new.max, i64::MAX)?);
    ordered(new, limits)
}

fn float_limits(new: &NewColumn) -> Result<(f64, f64), EngineError> {
    let limit = |json: &Option<Json>, absent: f64| match json {
        None | Some(Json::Null) => Ok(absent),
        Some(Json::Int(n)) => Ok(*n as f64),
        Some(Json::Float(x)) => Ok(*x),
        Some(_) => Err(value_invalid(new, "min and max must be numbers")),
    };
    let limits = (limit(&new.min, f64::MIN)?, limit(&new.max, f64::MAX)?);
    ordered(new, limits)
}

fn ordered<T: PartialOrd>(new: &NewColumn, (min, max): (T, T)) -> Result<(T, T), EngineError> {
    if min > max {
        return Err(value_invalid(new, "min is greater than max"));
    }
    Ok((min, max))
}

fn default(column: &Column, json: Option<&Json>) -> Result<Option<Value>, EngineError> {
    let Some(json) = json.filter(|json| **json != Json::Null) else {
        return Ok(None);
    };
    let obstacle = match column {
        Column { required: true, .. } => Some("a required column"),
        Column { array: true, .. } => Some("an array column"),
        _ => None,
    };
    if let Some(obstacle) = obstacle {
        let why = format!("Column `{}`: {obstacle} cannot have a default.", column.key);
        return Err(ColumnFault::DefaultUnsupported(why).into());
    }
    match column.check_single(json) {
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(EngineError::Schema(SchemaError::Column(
            ColumnFault::ValueInvalid(format!("The default does not fit: {error}")),
        ))),
    }
}

/// The index `number` of `table` as `new` defines it.
pub(crate) fn index(
    table: &Table,
    new: &NewIndex,
    number: u32,
    given: Given,
) -> Result<Index, EngineError> {
    let key = IndexKey::new(&new.key).map_err(|error| argument(given.key, &error))?;
    if table.visible_indexes().any(|index| index.key == key) {
        return Err(SchemaError::Index(IndexFault::Exists(new.key.clone())).into());
    }
    if table.visible_indexes().count() >= INDEXES_MAX {
        let why = format!("A table has at most {INDEXES_MAX} indexes.");
        return Err(IndexFault::LimitExceeded(why).into());
    }
    let mut columns = index_columns(table, new)?;
    let (kind, unset) = (index_kind(new, given)?, Timestamp(0));
    match kind {
        IndexKind::Fulltext => need_texts(table, new, &columns)?,
        IndexKind::Key => shorten_key(table, new, &mut columns)?,
        IndexKind::Unique => need_whole_key(table, new, &columns)?,
    }
    Ok(Index {
        number,
        key,
        kind,
        columns,
        status: IndexStatus::Processing,
        created: unset,
        updated: unset,
    })
}

fn index_kind(new: &NewIndex, given: Given) -> Result<IndexKind, EngineError> {
    match new.kind.as_str() {
        "key" => Ok(IndexKind::Key),
        "unique" => Ok(IndexKind::Unique),
        "fulltext" => Ok(IndexKind::Fulltext),
        "spatial" | "trigram" => Err(EngineError::Unsupported(format!(
            "The index type `{}`",
            new.kind
        ))),
        other => Err(EngineError::Argument {
            name: given.kind,
            why: format!("index `{}` has the unknown type `{other}`.", new.key),
        }),
    }
}

fn index_columns(table: &Table, new: &NewIndex) -> Result<Vec<IndexColumn>, EngineError> {
    let invalid = |why: String| {
        let why = format!("Index `{}`: {why}.", new.key);
        EngineError::Schema(SchemaError::Index(IndexFault::ColumnInvalid(why)))
    };
    if new.columns.is_empty() {
        return Err(invalid("it needs at least one column".into()));
    }
    let fits = |given: usize| given == 0 || given == new.columns.len();
    if !fits(new.orders.len()) || !fits(new.lengths.len()) {
        return Err(invalid(
            "orders and lengths must be as many as columns".into(),
        ));
    }
    let mut columns: Vec<IndexColumn> = Vec::with_capacity(new.columns.len());
    for (position, key) in new.columns.iter().enumerate() {
        let field = index_field(table, new, key)?;
        if columns.iter().any(|column| column.field == field) {
            return Err(invalid(format!("column `{key}` stands in it twice")));
        }
        let order = new
            .orders
            .get(position)
            .and_then(Option::as_deref)
            .unwrap_or("ASC");
        let direction = match order.to_ascii_uppercase().as_str() {
            "ASC" | "" => Direction::Asc,
            "DESC" => Direction::Desc,
            _ => return Err(invalid(format!("order `{order}` is neither ASC nor DESC"))),
        };
        let length = new
            .lengths
            .get(position)
            .copied()
            .flatten()
            .filter(|length| *length != 0);
        let length = length
            .map(|length| check_length(table, field, length))
            .transpose();
        columns.push(IndexColumn {
            field,
            direction,
            length: length.map_err(invalid)?,
            held: None,
        });
    }
    Ok(columns)
}

fn index_field(table: &Table, new: &NewIndex, key: &str) -> Result<Field, EngineError> {
    match key {
        "$id" => return Ok(Field::Id),
        "$createdAt" => return Ok(Field::Created),
        "$updatedAt" => return Ok(Field::Updated),
        _ => {}
    }
    let Some(position) = table.position(key) else {
        let why = format!("Index `{}` names the unknown column `{key}`.", new.key);
        return Err(IndexFault::ColumnUnknown(why).into());
    };
    if table.columns[position].relation().is_some() {
        let why = format!(
            "Index `{}`: the relationship `{key}` cannot be indexed; it is found without.",
            new.key
        );
        return Err(ColumnFault::TypeInvalid(why).into());
    }
    if table.columns[position].encrypt {
        let why = format!(
            "Index `{}`: the encrypted column `{key}` cannot be indexed.",
            new.key
        );
        return Err(IndexFault::Invalid(why).into());
    }
    if table.columns[position].array {
        let why = format!(
            "Index `{}`: the array column `{key}` cannot be indexed.",
            new.key
        );
        return Err(IndexFault::Invalid(why).into());
    }
    Ok(Field::Column(position))
}

fn check_length(table: &Table, field: Field, length: i64) -> Result<u32, String> {
    let Field::Column(position) = field else {
        return Err("only text columns take a length".into());
    };
    let kind = &table.columns[position].kind;
    if kind.storage() != Storage::Text {
        return Err("only text columns take a length".into());
    }
    let chars_max = kind.chars_max().map_or(i64::from(u32::MAX), i64::from);
    if !(1..=chars_max).contains(&length) {
        return Err(format!(
            "length {length} is not 1 to {chars_max}, the column's size"
        ));
    }
    Ok(length as u32)
}

/// Words are found in texts only.
fn need_texts(table: &Table, new: &NewIndex, columns: &[IndexColumn]) -> Result<(), EngineError> {
    let is_text = |column: &IndexColumn| match column.field {
        Field::Column(position) => table.columns[position].kind.storage() == Storage::Text,
        _ => false,
    };
    if columns.iter().all(is_text) {
        return Ok(());
    }
    let why = format!(
        "Index `{}`: a fulltext index holds text columns only.",
        new.key
    );
    Err(IndexFault::ColumnInvalid(why).into())
}

/// The reference bounds an index by its key's length; so do we: an application that fits us must
/// fit there. One that is longer as its columns are declared holds beginnings of the texts that
/// it was given lengths for.
fn shorten_key(
    table: &Table,
    new: &NewIndex,
    columns: &mut [IndexColumn],
) -> Result<(), EngineError> {
    if whole_chars(table, columns) <= INDEX_CHARS_MAX {
        return Ok(());
    }
    let is_shorter = |column: &IndexColumn| {
        column
            .length
            .filter(|length| u64::from(*length) < chars_of(table, column.field))
    };
    let wanted =
        |column: &IndexColumn| is_shorter(column).map_or(chars_of(table, column.field), u64::from);
    let chars = columns
        .iter()
        .fold(0_u64, |sum, column| sum.saturating_add(wanted(column)));
    if chars > INDEX_CHARS_MAX {
        let why = "Give shorter `lengths`";
        return Err(too_long(new, why));
    }
    let count = columns.iter().filter(|column| is_shorter(column).is_some());
    let each = BEGINNINGS_CHARS_MAX / (count.count() as u32).max(1);
    for column in columns {
        column.held = is_shorter(column).map(|length| length.min(each.max(1)));
    }
    Ok(())
}

/// Equal beginnings are no equal values, so that a unique index holds all of them.
fn need_whole_key(
    table: &Table,
    new: &NewIndex,
    columns: &[IndexColumn],
) -> Result<(), EngineError> {
    if whole_chars(table, columns) <= INDEX_CHARS_MAX {
        return Ok(());
    }
    let why = "A unique index compares whole values, whatever `lengths` says: make its columns \
               smaller";
    Err(too_long(new, why))
}

fn too_long(new: &NewIndex, why: &str) -> EngineError {
    EngineError::Schema(SchemaError::Index(IndexFault::TooLong {
        key: new.key.clone(),
        why: format!(
            "Index `{}`: Index length is longer than the maximum: {INDEX_CHARS_MAX} characters. \
             {why}.",
            new.key
        ),
    }))
}

/// The characters that the index holds of a row at most, were its columns held whole; of those
/// that are not, as many as it holds.
pub(crate) fn whole_chars(table: &Table, columns: &[IndexColumn]) -> u64 {
    let chars = |column: &IndexColumn| match column.held {
        Some(chars) => u64::from(chars),
        None => chars_of(table, column.field),
    };
    let sum = |sum: u64, column| sum.saturating_add(chars(column));
    columns.iter().fold(0, sum)
}

/// The characters that a text of the field may have; none of what is no text.
fn chars_of(table: &Table, field: Field) -> u64 {
    let Field::Column(position) = field else {
        return 0;
    };
    let kind = &table.columns[position].kind;
    match (kind.storage(), kind.chars_max()) {
        (Storage::Text, Some(chars_max)) => u64::from(chars_max),
        (Storage::Text, None) => u64::MAX,
        _ => 0,
    }
}

/// The word by which definitions and lists call the type of a kind. Formats are strings.
pub fn column_type(kind: &ColumnKind) -> &'static str {
    match kind {
        ColumnKind::String { .. }
        | ColumnKind::Email
        | ColumnKind::Url
        | ColumnKind::Ip
        | ColumnKind::Enum { .. } => "string",
        ColumnKind::Varchar { .. } => "varchar",
        ColumnKind::Text => "text",
        ColumnKind::Mediumtext => "mediumtext",
        ColumnKind::Longtext => "longtext",
        ColumnKind::Integer { .. } => "integer",
        ColumnKind::Bigint { .. } => "bigint",
        ColumnKind::Float { .. } => "double",
        ColumnKind::Boolean => "boolean",
        ColumnKind::Datetime => "datetime",
        ColumnKind::Relationship(_) => "relationship",
    }
}

/// The word by which definitions and lists call a kind of index.
pub fn index_type(kind: IndexKind) -> &'static str {
    match kind {
        IndexKind::Key => "key",
        IndexKind::Unique => "unique",
        IndexKind::Fulltext => "fulltext",
    }
}

/// The word by which lists call the status of an index, and its error.
pub fn index_status(status: &IndexStatus) -> (&'static str, &str) {
    match status {
        IndexStatus::Available => ("available", ""),
        IndexStatus::Processing => ("processing", ""),
        IndexStatus::Failed(error) => ("failed", error),
    }
}

#[cfg(test)]
mod tests;
