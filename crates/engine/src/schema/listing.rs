//! Lists of databases, tables, columns, indexes, keys and functions, by the query language of rows.
//!
//! They are few and in memory. What they can be asked about is described as a table, so that the
//! queries are read and refused exactly as those of rows are.

use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

use model::{
    Column, ColumnKey, ColumnKind, ColumnNumber, Database, DatabaseId, Field, Index, ProjectId,
    Table, TableId, TableNumber, Timestamp, Value,
};
use query::predicate::{compare_by, satisfies};
use query::{Cursor, OrderKey, Query, QueryError, Side, Visibility};

use crate::error::{EngineError, ReadError};
use crate::request::inputs::{ListContainers, Listed};
use crate::schema::definition::{column_type, index_status, index_type};

/// What a list can be filtered and ordered by, beside `$id`, `$sequence`, `$createdAt` and
/// `$updatedAt`, in the order of [`Listable::attribute`].
pub(crate) type Attributes = LazyLock<Arc<Table>>;

pub(crate) static DATABASES: Attributes = LazyLock::new(|| attributes(&[("name", TEXT)]));

pub(crate) static TABLES: Attributes = LazyLock::new(|| {
    attributes(&[
        ("name", TEXT),
        ("enabled", FLAG),
        ("rowSecurity", FLAG),
        ("documentSecurity", FLAG),
    ])
});

pub(crate) static COLUMNS: Attributes = LazyLock::new(|| {
    attributes(&[
        ("key", TEXT),
        ("type", TEXT),
        ("size", NUMBER),
        ("required", FLAG),
        ("array", FLAG),
        ("status", TEXT),
        ("error", TEXT),
    ])
});

pub(crate) static INDEXES: Attributes = LazyLock::new(|| {
    attributes(&[
        ("key", TEXT),
        ("type", TEXT),
        ("status", TEXT),
        ("error", TEXT),
        ("attributes", TEXTS),
        ("columns", TEXTS),
    ])
});

pub(crate) static KEYS: Attributes =
    LazyLock::new(|| attributes(&[("name", TEXT), ("expire", TIME), ("scopes", TEXTS)]));

pub(crate) static FUNCTIONS: Attributes = LazyLock::new(|| {
    attributes(&[
        ("name", TEXT),
        ("enabled", FLAG),
        ("runtime", TEXT),
        ("deploymentId", TEXT),
        ("schedule", TEXT),
        ("timeout", NUMBER),
        ("entrypoint", TEXT),
        ("commands", TEXT),
    ])
});

pub(crate) static VARIABLES: Attributes = LazyLock::new(|| {
    attributes(&[
        ("key", TEXT),
        ("resourceType", TEXT),
        ("resourceId", TEXT),
        ("secret", FLAG),
    ])
});

pub(crate) static DEPLOYMENTS: Attributes = LazyLock::new(|| {
    attributes(&[
        ("buildSize", NUMBER),
        ("sourceSize", NUMBER),
        ("totalSize", NUMBER),
        ("buildDuration", NUMBER),
        ("status", TEXT),
        ("activate", FLAG),
        ("type", TEXT),
    ])
});

pub(crate) static EXECUTIONS: Attributes = LazyLock::new(|| {
    attributes(&[
        ("trigger", TEXT),
        ("status", TEXT),
        ("responseStatusCode", NUMBER),
        ("duration", FRACTION),
        ("requestMethod", TEXT),
        ("requestPath", TEXT),
        ("deploymentId", TEXT),
    ])
});

pub(crate) static TRANSACTIONS: Attributes = LazyLock::new(|| {
    attributes(&[
        ("status", TEXT),
        ("operations", NUMBER),
        ("expiresAt", TIME),
    ])
});

/// A kind, and whether it is an array of such.
type Type = (ColumnKind, bool);

const TEXT: Type = (ColumnKind::Text, false);
const TEXTS: Type = (ColumnKind::Text, true);
const TIME: Type = (ColumnKind::Datetime, false);
const FLAG: Type = (ColumnKind::Boolean, false);
const FRACTION: Type = (
    ColumnKind::Float {
        min: f64::MIN,
        max: f64::MAX,
    },
    false,
);
const NUMBER: Type = (
    ColumnKind::Bigint {
        min: i64::MIN,
        max: i64::MAX,
    },
    false,
);

fn attributes(list: &[(&str, Type)]) -> Arc<Table> {
    const LEGAL: &str = "the words of the lists are legal ids";
    let column = |(position, (key, (kind, array))): (usize, &(&str, Type))| Column {
        number: ColumnNumber(position as u32 + 1),
        key: ColumnKey::new(key).expect(LEGAL),
        kind: kind.clone(),
        required: false,
        array: *array,
        encrypt: false,
        default: None,
        created: Timestamp(0),
        updated: Timestamp(0),
    };
    Arc::new(Table {
        number: TableNumber(0),
        project: ProjectId::new("catalogue").expect(LEGAL),
        database: DatabaseId::new("catalogue").expect(LEGAL),
        id: TableId::new("catalogue").expect(LEGAL),
        name: String::new(),
        enabled: true,
        row_security: false,
        permissions: Vec::new(),
        columns: list.iter().enumerate().map(column).collect(),
        indexes: Vec::new(),
        created: Timestamp(0),
        updated: Timestamp(0),
        schema_epoch: 0,
        permission_epoch: 0,
        options: model::TableOptions::default(),
    })
}

/// Something that lists show.
pub(crate) trait Listable {
    /// Its id or key, by which cursors name it.
    fn id(&self) -> &str;

    /// What else `search` looks at.
    fn name(&self) -> &str;

    /// The order of creation.
    fn sequence(&self) -> i64;

    /// When it was created, and when it last changed.
    fn times(&self) -> (Timestamp, Timestamp);

    /// What it says to the attribute at this position of its [`Attributes`].
    fn attribute(&self, position: usize) -> Value;
}

/// One page of `all`.
///
/// # Errors
/// [`ReadError::Query`] for what cannot be asked of such a list, or a cursor that names nothing.
pub(crate) fn page<T: Listable>(
    all: Vec<T>,
    attributes: &Arc<Table>,
    request: ListContainers<'_>,
    limits: query::Limits,
) -> Result<Listed<T>, EngineError> {
    let query = resolve(attributes, request.texts, limits)?;
    let mut ranked = Ranked::new(all, query.total_order());
    let cursor = query
        .cursor
        .as_ref()
        .map(|cursor| ranked.place_of(cursor))
        .transpose()?;
    let part = request.search.to_lowercase();
    ranked.items.retain(|(item, _)| {
        let says = |text: &str| text.to_lowercase().contains(&part);
        let is_found = part.is_empty() || says(item.id()) || says(item.name());
        is_found && satisfies(&query.filter, &|field| value_of(item, field))
    });
    let total = if request.total {
        ranked.items.len() as u64
    } else {
        0
    };
    let items = ranked.page(&query, cursor.as_deref());
    Ok(Listed { total, items })
}

fn resolve(
    attributes: &Arc<Table>,
    texts: &[String],
    limits: query::Limits,
) -> Result<Query, EngineError> {
    let ast = query::parse(texts)?;
    if query::named_times(&ast)?.is_some() {
        let why = "other times than now are for reads of rows only".to_owned();
        return Err(QueryError::Invalid(why).into());
    }
    let query = query::resolve(&ast, attributes, Visibility::Everything, None, &limits)?;
    if query.shows_span {
        let why = "when something is valid or known is asked of rows only".to_owned();
        return Err(QueryError::Invalid(why).into());
    }
    if query.random {
        let why = "`orderRandom` is for lists of rows only".to_owned();
        return Err(QueryError::Invalid(why).into());
    }
    if query.has_patterns() {
        let why = "`regex` is for lists of rows only".to_owned();
        return Err(QueryError::Invalid(why).into());
    }
    Ok(query)
}

/// Items with their places in an order.
struct Ranked<T> {
    order: Vec<OrderKey>,
    items: Vec<(T, Vec<Value>)>,
}

impl<T: Listable> Ranked<T> {
    fn new(all: Vec<T>, order: Vec<OrderKey>) -> Ranked<T> {
        let place = |item: &T| order.iter().map(|key| value_of(item, key.field)).collect();
        let mut items: Vec<(T, Vec<Value>)> = all
            .into_iter()
            .map(|item| {
                let place = place(&item);
                (item, place)
            })
            .collect();
        items.sort_by(|(_, left), (_, right)| compare_by(&order, left, right));
        Ranked { order, items }
    }

    fn place_of(&self, cursor: &Cursor) -> Result<Vec<Value>, EngineError> {
        let found = self
            .items
            .iter()
            .find(|(item, _)| item.id() == cursor.row.as_str());
        match found {
            None => Err(ReadError::CursorNotFound(cursor.row.clone()).into()),
            Some((_, place)) if place.contains(&Value::Null) => {
                Err(ReadError::CursorNull(cursor.row.clone()).into())
            }
            Some((_, place)) => Ok(place.clone()),
        }
    }

    fn page(mut self, query: &Query, cursor: Option<&[Value]>) -> Vec<T> {
        let side = query.cursor.as_ref().map(|cursor| cursor.side);
        if let (Some(cursor), Some(side)) = (cursor, side) {
            let wanted = match side {
                Side::After => Ordering::Greater,
                Side::Before => Ordering::Less,
            };
            let order = &self.order;
            self.items
                .retain(|(_, place)| compare_by(order, place, cursor) == wanted);
        }
        // What lies before a cursor is counted from the cursor, too.
        let is_backwards = side == Some(Side::Before);
        if is_backwards {
            self.items.reverse();
        }
        let offset = usize::try_from(query.offset).unwrap_or(usize::MAX);
        let items = self.items.into_iter().map(|(item, _)| item);
        let mut page: Vec<T> = items.skip(offset).take(query.limit as usize).collect();
        if is_backwards {
            page.reverse();
        }
        page
    }
}

fn value_of(item: &impl Listable, field: Field) -> Value {
    match field {
        Field::Id => text(item.id()),
        Field::Sequence => Value::Int(item.sequence()),
        Field::Created => Value::Instant(item.times().0),
        Field::Updated => Value::Instant(item.times().1),
        // Refused when the query was resolved.
        Field::Span(_) => Value::Null,
        Field::Column(position) => item.attribute(position),
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// The attributes of a list and the values of its items were written by the same hand.
pub(crate) fn no_such_attribute(position: usize) -> Value {
    unreachable!("no list has an attribute {position}")
}

impl Listable for Arc<Database> {
    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn sequence(&self) -> i64 {
        self.seq
    }

    fn times(&self) -> (Timestamp, Timestamp) {
        (self.created, self.updated)
    }

    fn attribute(&self, position: usize) -> Value {
        match position {
            0 => text(&self.name),
            other => no_such_attribute(other),
        }
    }
}

impl Listable for Arc<Table> {
    fn id(&self) -> &str {
        self.id.as_str()
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn sequence(&self) -> i64 {
        self.number.0
    }

    fn times(&self) -> (Timestamp, Timestamp) {
        (self.created, self.updated)
    }

    fn attribute(&self, position: usize) -> Value {
        match position {
            0 => text(&self.name),
            1 => Value::Bool(self.enabled),
            2 | 3 => Value::Bool(self.row_security),
            other => no_such_attribute(other),
        }
    }
}

impl Listable for Column {
    fn id(&self) -> &str {
        self.key.as_str()
    }

    fn name(&self) -> &str {
        self.key.as_str()
    }

    fn sequence(&self) -> i64 {
        i64::from(self.number.0)
    }

    fn times(&self) -> (Timestamp, Timestamp) {
        (self.created, self.updated)
    }

    fn attribute(&self, position: usize) -> Value {
        match position {
            0 => text(self.key.as_str()),
            1 => text(column_type(&self.kind)),
            2 => match &self.kind {
                ColumnKind::String { chars_max } | ColumnKind::Varchar { chars_max } => {
                    Value::Int(i64::from(*chars_max))
                }
                _ => Value::Null,
            },
            3 => Value::Bool(self.required),
            4 => Value::Bool(self.array && self.relation().is_none()),
            // A column is there with the commit that adds it, and gone with the one that drops it.
            5 => text("available"),
            6 => text(""),
            other => no_such_attribute(other),
        }
    }
}

/// An index with the keys of its columns.
pub(crate) struct NamedIndex {
    pub(crate) index: Index,
    pub(crate) columns: Vec<String>,
}

impl Listable for NamedIndex {
    fn id(&self) -> &str {
        self.index.key.as_str()
    }

    fn name(&self) -> &str {
        self.index.key.as_str()
    }

    fn sequence(&self) -> i64 {
        i64::from(self.index.number)
    }

    fn times(&self) -> (Timestamp, Timestamp) {
        (self.index.created, self.index.updated)
    }

    fn attribute(&self, position: usize) -> Value {
        let (status, error) = index_status(&self.index.status);
        match position {
            0 => text(self.index.key.as_str()),
            1 => text(index_type(self.index.kind)),
            2 => text(status),
            3 => text(error),
            4 | 5 => Value::List(self.columns.iter().map(|key| text(key)).collect()),
            other => no_such_attribute(other),
        }
    }
}
