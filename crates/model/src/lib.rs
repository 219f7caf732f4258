//! The nouns of Tidemark and their laws: ids, values, time, schema, rows, roles, changes.
//!
//! Pure: this crate opens no file, reads no clock and draws no random number. It knows nothing
//! of SQL, of HTTP, or of how anything is encoded on the wire.

pub mod actor;
pub mod calendar;
pub mod catalogue;
pub mod change;
pub mod check;
pub mod count;
pub mod error;
pub mod function;
pub mod history;
pub mod id;
pub mod json;
pub mod operator;
pub mod options;
pub mod patch;
pub mod period;
pub mod permission;
pub mod relation;
pub mod row;
pub mod schema;
pub mod text;
pub mod time;
pub mod timeline;
pub mod value;

pub use actor::{Actor, Scope};
pub use catalogue::{ApiKey, Catalogue, CatalogueChange, Database, DatabaseKind, Project};
pub use change::{Change, Image};
pub use count::counted;
pub use error::{HistoryGone, ModelError};
pub use function::{
    ActiveDeployment, Function, FunctionChange, FunctionDefinition, FunctionNetwork,
    FunctionOptions, FunctionOptionsChange,
};
pub use history::{History, Version};
pub use id::{
    ColumnKey, ColumnNumber, DatabaseId, DeploymentId, FunctionId, IndexKey, KeyId, ProjectId,
    RowId, TableId, VariableId,
};
pub use json::Json;
pub use operator::Operator;
pub use options::{Past, Retention, TableOptions};
pub use patch::{Edit, Patch};
pub use period::{Allen, Period, PeriodPredicate};
pub use permission::{Action, Grantee, Permission, Role, RoleSet};
pub use relation::{OnDelete, Relation, RelationKind, Side};
pub use row::{Content, ContentRef, Marked, Page, Related, Row, RowRef, Selection, Span};
pub use schema::{
    Column, ColumnKind, Direction, Field, INDEX_CHARS_MAX, Index, IndexColumn, IndexKind,
    IndexStatus, SpanEnd, Storage, Table, TableNumber,
};
pub use time::{Coordinates, Mark, Timestamp};
pub use value::Value;
