//! From query text to SQL text: parse, resolve, emit.
//!
//! Pure: reads no clock, opens no file, knows no driver. `resolve` refuses what cannot be done,
//! so `emit` cannot fail. What a dialect cannot do alike is decided here, never in a store.

pub mod advice;
pub mod ast;
mod canonical;
pub mod dialect;
pub mod emit;
pub mod equalities;
pub mod error;
pub mod field;
pub mod index_choice;
pub mod instant;
pub mod json;
mod key_parts;
pub mod lexemes;
pub mod names;
pub mod normal;
pub mod parse;
pub mod pattern;
pub mod predicate;
pub mod query;
pub mod resolve;
mod row_test;
pub mod search;
pub mod shape;
pub mod times;
mod undecided;
pub mod unique_key;
pub mod visibility;

pub use advice::advise;
pub use ast::Ast;
pub use dialect::Dialect;
pub use equalities::{Equality, equalities};
pub use error::QueryError;
pub use instant::{instant, mark};
pub use key_parts::{KeyPart, key_parts};
pub use parse::parse;
pub use pattern::{Matcher, Pattern, Unmatched};
pub use query::{Cursor, Filter, Frame, OrderKey, Query, Side, Test, Then, VersionName};
pub use resolve::{
    Limits, RelatedNames, resolve, resolve_related, resolve_selection, select_names,
};
pub use row_test::RowTest;
pub use search::Search;
pub use shape::{shape, shape_number};
pub use times::{NamedTimes, NamedValid, named_times};
pub use undecided::{Undecided, undecided};
pub use unique_key::{UniqueKey, unique_key};
pub use visibility::{Visibility, visibility};
