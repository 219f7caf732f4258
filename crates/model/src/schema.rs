//! The schema of a table: columns, indexes, and what is known of the table itself.

use std::sync::Arc;

use crate::id::{ColumnKey, ColumnNumber, DatabaseId, IndexKey, ProjectId, TableId};
use crate::options::TableOptions;
use crate::permission::Permission;
use crate::relation::Relation;
use crate::time::Timestamp;
use crate::value::Value;

/// A table's number in its store. Given once, never again, so it can name physical tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableNumber(pub i64);

/// A table as of one commit.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Names the physical tables.
    pub number: TableNumber,
    /// The project it belongs to.
    pub project: ProjectId,
    /// The database it belongs to.
    pub database: DatabaseId,
    /// The table's id.
    pub id: TableId,
    /// What people call it.
    pub name: String,
    /// Whether callers without a key see it.
    pub enabled: bool,
    /// Whether grants on rows count beside those on the table.
    pub row_security: bool,
    /// Grants for the whole table, in the order given.
    pub permissions: Vec<Permission>,
    /// Columns in the order of their creation.
    pub columns: Vec<Column>,
    /// Indexes in the order of their creation.
    pub indexes: Vec<Index>,
    /// When it was created.
    pub created: Timestamp,
    /// When anything of the above last changed.
    pub updated: Timestamp,
    /// Rises when rows are to be encoded otherwise: a column came, went, or got another key. Row
    /// bodies carry the one they were encoded under.
    pub schema_epoch: u64,
    /// Rises when permissions, row security or `enabled` change.
    pub permission_epoch: u64,
    /// What its owner decides about its past. No change of it counts as one of the table.
    pub options: TableOptions,
}

impl Table {
    /// The position in [`Table::columns`] of the column called `key`, in any case: keys are
    /// unique without regard to case, but are asked for as they were written.
    pub fn position(&self, key: &str) -> Option<usize> {
        self.columns
            .iter()
            .position(|column| column.key.as_str() == key && !column.is_hidden())
    }

    /// The columns that users see.
    pub fn visible_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| !column.is_hidden())
    }

    /// The indexes that users see. Those over a relationship belong to it: users make none.
    pub fn visible_indexes(&self) -> impl Iterator<Item = &Index> {
        self.indexes
            .iter()
            .filter(|index| !self.is_of_relation(index))
    }

    /// Whether the index serves a relationship.
    pub fn is_of_relation(&self, index: &Index) -> bool {
        index.columns.iter().any(|part| match part.field {
            Field::Column(position) => self.columns[position].relation().is_some(),
            _ => false,
        })
    }

    /// Whether a table of links finds the rows that hold a link in the column at this position: in
    /// one of lists always, in another one until its index is there.
    pub fn has_links_table(&self, position: usize) -> bool {
        let column = &self.columns[position];
        let finds = |index: &Index| {
            let first = index.columns.first().map(|part| part.field);
            index.is_available() && first == Some(Field::Column(position))
        };
        let is_kept = |relation: &Relation| relation.holds_links() && !relation.has_ended;
        column.relation().is_some_and(is_kept) && (column.array || !self.indexes.iter().any(finds))
    }

    /// The columns that are an end of a relationship, hidden ones too, with their positions.
    pub fn relations(&self) -> impl Iterator<Item = (usize, &Relation)> {
        let columns = self.columns.iter().enumerate();
        columns.filter_map(|(position, column)| Some((position, column.relation()?)))
    }

    /// Whether users see a relationship of this table.
    pub fn has_relationships(&self) -> bool {
        self.visible_columns()
            .any(|column| column.relation().is_some())
    }

    /// The position of the column with this number.
    pub fn numbered(&self, number: ColumnNumber) -> Option<usize> {
        self.columns
            .iter()
            .position(|column| column.number == number)
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Names the physical column.
    pub number: ColumnNumber,
    /// What users call it.
    pub key: ColumnKey,
    /// What it holds.
    pub kind: ColumnKind,
    /// Whether each row must have a value.
    pub required: bool,
    /// Whether it holds a list of such values.
    pub array: bool,
    /// Whether its values are sealed wherever they rest. Texts alone are; it never changes.
    pub encrypt: bool,
    /// The value of rows that were created without one.
    pub default: Option<Value>,
    /// When it was created.
    pub created: Timestamp,
    /// When its definition last changed.
    pub updated: Timestamp,
}

impl Column {
    /// The end of a relationship that this column is.
    pub fn relation(&self) -> Option<&Relation> {
        match &self.kind {
            ColumnKind::Relationship(relation) => Some(relation),
            _ => None,
        }
    }

    /// Whether no user sees it.
    pub fn is_hidden(&self) -> bool {
        self.relation().is_some_and(Relation::is_hidden)
    }
}

/// What a column holds, with the limits of the wire protocol.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnKind {
    /// Text of at most `chars_max` characters (1 to 1,073,741,824). Deprecated on the wire.
    String {
        /// Most characters.
        chars_max: u32,
    },
    /// Text of at most `chars_max` characters (1 to 16,381).
    Varchar {
        /// Most characters.
        chars_max: u32,
    },
    /// Text of at most 65,535 bytes.
    Text,
    /// Text of at most 16,777,215 bytes.
    Mediumtext,
    /// Text of at most 2,147,483,647 bytes.
    Longtext,
    /// An integer in `min..=max`; 32 bits if `max` fits them.
    Integer {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// A 64-bit integer in `min..=max`.
    Bigint {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// A double in `min..=max`.
    Float {
        /// Least value.
        min: f64,
        /// Greatest value.
        max: f64,
    },
    /// A boolean.
    Boolean,
    /// An e-mail address.
    Email,
    /// A URL.
    Url,
    /// An IPv4 or IPv6 address.
    Ip,
    /// One of the elements.
    Enum {
        /// What is allowed, 1 to 100 texts of 1 to 255 characters.
        elements: Arc<[String]>,
    },
    /// An instant, kept to the millisecond.
    Datetime,
    /// Ids of related rows, or nothing, if the links are held at the other end.
    Relationship(Relation),
}

/// How a single value of a kind is stored and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    /// Text, compared by bytes.
    Text,
    /// A 64-bit integer.
    Int,
    /// A double.
    Float,
    /// A boolean; false before true.
    Bool,
    /// Microseconds since 1970 UTC.
    Instant,
}

impl ColumnKind {
    /// How values of this kind are stored.
    pub fn storage(&self) -> Storage {
        match self {
            ColumnKind::Integer { .. } | ColumnKind::Bigint { .. } => Storage::Int,
            ColumnKind::Float { .. } => Storage::Float,
            ColumnKind::Boolean => Storage::Bool,
            ColumnKind::Datetime => Storage::Instant,
            ColumnKind::String { .. }
            | ColumnKind::Varchar { .. }
            | ColumnKind::Text
            | ColumnKind::Mediumtext
            | ColumnKind::Longtext
            | ColumnKind::Email
            | ColumnKind::Url
            | ColumnKind::Ip
            | ColumnKind::Enum { .. }
            | ColumnKind::Relationship(_) => Storage::Text,
        }
    }

    /// Most characters of a text of this kind, where characters are what is bounded.
    pub fn chars_max(&self) -> Option<u32> {
        match self {
            ColumnKind::String { chars_max } | ColumnKind::Varchar { chars_max } => {
                Some(*chars_max)
            }
            ColumnKind::Email => Some(254),
            ColumnKind::Url => Some(2_000),
            ColumnKind::Ip => Some(39),
            ColumnKind::Enum { .. } => Some(255),
            _ => None,
        }
    }
}

/// Something of a row that can be filtered, sorted by, or indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// `$id`
    Id,
    /// `$sequence`
    Sequence,
    /// `$createdAt`
    Created,
    /// `$updatedAt`
    Updated,
    /// Where the row stands on the two axes of time.
    Span(SpanEnd),
    /// The column at this position of [`Table::columns`].
    Column(usize),
}

/// One end of what a row is valid and known over. Until when it is known is none of them: the
/// answer to it would tell the future of the time at which it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpanEnd {
    /// `$validFrom`
    ValidFrom,
    /// `$validTo`; of a row without an end it is [`Timestamp::END`], later than every instant.
    ValidTo,
    /// `$systemFrom`
    SystemFrom,
}

impl SpanEnd {
    /// Each of them.
    pub const ALL: [SpanEnd; 3] = [SpanEnd::ValidFrom, SpanEnd::ValidTo, SpanEnd::SystemFrom];

    /// Its name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            SpanEnd::ValidFrom => "$validFrom",
            SpanEnd::ValidTo => "$validTo",
            SpanEnd::SystemFrom => "$systemFrom",
        }
    }
}

/// Ascending or descending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Smallest first, nulls before all.
    Asc,
    /// Greatest first, nulls after all.
    Desc,
}

impl Direction {
    /// The opposite direction.
    #[must_use]
    pub fn reversed(self) -> Direction {
        match self {
            Direction::Asc => Direction::Desc,
            Direction::Desc => Direction::Asc,
        }
    }
}

/// An index.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    /// Names the physical index; unique in the table, never reused.
    pub number: u32,
    /// What users call it.
    pub key: IndexKey,
    /// What it promises.
    pub kind: IndexKind,
    /// What it orders, first one first.
    pub columns: Vec<IndexColumn>,
    /// Whether it can be used.
    pub status: IndexStatus,
    /// When it was created.
    pub created: Timestamp,
    /// When its definition last changed.
    pub updated: Timestamp,
}

/// Whether an index can be used. Only one that is available stands in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexStatus {
    /// It holds every row.
    Available,
    /// It waits for the writer to build it.
    Processing,
    /// It cannot be built, and the text says why: rows have equal values in a unique index.
    Failed(String),
}

/// What an index promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// Order only.
    Key,
    /// Order, and no two rows with equal non-null values at the same instant.
    Unique,
    /// Finding words. Only one over a single column is used, as in the reference.
    Fulltext,
}

impl Index {
    /// Whether it finds words in `field`, and in nothing else.
    pub fn is_fulltext_of(&self, field: Field) -> bool {
        let alone = matches!(self.columns.as_slice(), [column] if column.field == field);
        alone && self.kind == IndexKind::Fulltext && self.is_available()
    }

    /// Whether reads may use it.
    pub fn is_available(&self) -> bool {
        self.status == IndexStatus::Available
    }
}

/// One column of an index.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexColumn {
    /// What it orders.
    pub field: Field,
    /// In which direction.
    pub direction: Direction,
    /// The prefix length a client gave, in characters. Kept and shown.
    pub length: Option<u32>,
    /// How many characters of a text the index holds, from its beginning; `None` holds whole
    /// values. Said once, when the index is made: what stands in it does not change with the
    /// column's size.
    pub held: Option<u32>,
}

/// Characters that an index may hold of a row's texts, and a client may ask it to hold: as many
/// as the reference takes.
pub const INDEX_CHARS_MAX: u64 = 768;
