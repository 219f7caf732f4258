//! Failures about projects, keys, databases, tables, columns and indexes.

use model::TableId;
use store::Violations;
use thiserror::Error;

use super::EngineError;

/// Tables that a message names; of more it says how many there are.
const NAMED_TABLES_MAX: usize = 5;

/// Why a project, key, database, table, column or index cannot be found or defined so.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SchemaError {
    /// There is no such project.
    #[error("No project `{0}`.")]
    ProjectNotFound(String),
    /// There is no such API key.
    #[error("No key `{0}`.")]
    KeyNotFound(String),
    /// There is no such database, or it is disabled for this actor.
    #[error("No database `{0}`.")]
    DatabaseNotFound(String),
    /// There is no such table, or it is disabled for this actor.
    #[error("No table `{0}`.")]
    TableNotFound(String),
    /// A project of this id is there already.
    #[error("A project with this id already exists.")]
    ProjectExists,
    /// An API key of this id, or with this secret, is there already.
    #[error("A key with this id or secret already exists.")]
    KeyExists,
    /// A database of this id is there already.
    #[error("A database with this id already exists.")]
    DatabaseExists,
    /// A table of this id is there already.
    #[error("A table with this id already exists.")]
    TableExists,
    /// References over valid time lead from other tables to the one that is to be deleted.
    #[error(
        "Table `{table}` is referred to by the constraints of {}. Remove the references to it from \
         these constraints, or delete those tables first.",
        named_tables(.by)
    )]
    TableReferenced {
        /// The table.
        table: TableId,
        /// The tables that refer to it.
        by: Vec<TableId>,
    },
    /// Rows break a constraint over valid time that is to be declared.
    #[error("{first}")]
    NotKept {
        /// What one of them would be refused with.
        first: Box<EngineError>,
        /// Which they are.
        violations: Violations,
    },
    /// The table has this constraint over valid time already.
    #[error("The table has this constraint already.")]
    ConstraintExists,
    /// The table has no such constraint over valid time.
    #[error("The table has no such constraint.")]
    ConstraintNotFound,
    /// Callers make and change no keys.
    #[error("API keys are not made or changed by callers; they can be revoked.")]
    KeyCreationDenied,
    /// A definition of a column breaks its rule.
    #[error(transparent)]
    Column(#[from] ColumnFault),
    /// A definition of an index breaks its rule.
    #[error(transparent)]
    Index(#[from] IndexFault),
}

/// Why a column cannot be as defined. Each variant is a `type` of its own on the wire.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ColumnFault {
    /// The key is taken, in whatever case.
    #[error("A column `{0}` already exists.")]
    Exists(String),
    /// There is no such column.
    #[error("No column `{0}`.")]
    NotFound(String),
    /// The type is unknown.
    #[error("{0}")]
    UnknownType(String),
    /// A default where none is allowed: the column is required, or an array.
    #[error("{0}")]
    DefaultUnsupported(String),
    /// Limits or default contradict each other.
    #[error("{0}")]
    ValueInvalid(String),
    /// Too many columns, or too wide ones.
    #[error("{0}")]
    LimitExceeded(String),
    /// The format does not fit the type.
    #[error("{0}")]
    FormatUnsupported(String),
    /// The column is of another kind than the change is for.
    #[error("{0}")]
    TypeInvalid(String),
    /// Rows hold longer texts than the column is to take.
    #[error("{0}")]
    InvalidResize(String),
    /// An index names the column.
    #[error("{0}")]
    IndexDependency(String),
}

/// Why an index cannot be as defined.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum IndexFault {
    /// The key is taken.
    #[error("An index `{0}` already exists.")]
    Exists(String),
    /// There is no such index.
    #[error("No index `{0}`.")]
    NotFound(String),
    /// It names a column that is not there.
    #[error("{0}")]
    ColumnUnknown(String),
    /// An array column, or otherwise nothing an index can order.
    #[error("{0}")]
    Invalid(String),
    /// A column twice, or lengths or orders that do not fit.
    #[error("{0}")]
    ColumnInvalid(String),
    /// It would hold longer texts than an index may.
    #[error("{why}")]
    TooLong {
        /// The key of the index.
        key: String,
        /// What to do about it.
        why: String,
    },
    /// Too many indexes.
    #[error("{0}")]
    LimitExceeded(String),
}

/// The first few tables by name, and how many more there are.
fn named_tables(tables: &[TableId]) -> String {
    let named = tables.iter().take(NAMED_TABLES_MAX);
    let named: Vec<_> = named.map(|table| format!("`{table}`")).collect();
    match tables.len().saturating_sub(NAMED_TABLES_MAX) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
