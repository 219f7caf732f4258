//! An AST against a table: names become columns, values become column types, the order total.

use std::sync::Arc;

use model::{Coordinates, Direction, Json, Mark, RowId, Selection, Table, Timestamp};

use crate::ast::{Ast, Call, Method};
use crate::error::QueryError;
use crate::field;
use crate::parse::echo;
use crate::query::{Cursor, Filter, Frame, OrderKey, Query, Side, VersionName};
use crate::visibility::Visibility;

mod condition;
mod select;

use condition::Conditions;
use select::Chosen;
pub use select::RelatedNames;

/// Most values of one query (wire protocol, 2.8).
pub const VALUES_MAX: usize = 500;
/// Most values of all queries of a request together. A statement of SQLite takes 32,766
/// parameters (SQLite manual, "Implementation Limits"), and 100 queries could hold more.
pub const VALUES_TOTAL_MAX: usize = 10_000;

/// Most names of all `select` queries of a request together: each is looked for among the table's
/// columns, and names of related rows are kept. The wire protocol states none.
pub const SELECTED_TOTAL_MAX: usize = 2_000;

/// Most tests of fields of all queries of a request together, each part that a text may have being
/// one. The wire protocol states none; the time that SQLite takes to plan grows faster than the
/// number. Of now, 100 tests took 1 ms at worst and 495 took 50; of all versions, which are read
/// apart, 12 and 190.
pub const TESTS_TOTAL_MAX: usize = 100;

/// Most regular expressions of all queries of a request together. The wire protocol states none;
/// compiling one takes up to a few milliseconds on the caller's thread.
pub const PATTERNS_MAX: usize = 4;

/// Limits of one query.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rows of a page when the query names none.
    pub page_rows_default: u32,
    /// Most rows of a page.
    pub page_rows_max: u32,
}

/// What `ast` asks of `table`, for a caller with this visibility, at these coordinates.
///
/// # Errors
/// [`QueryError::Invalid`] for whatever cannot be asked of this table.
pub fn resolve(
    ast: &Ast,
    table: &Arc<Table>,
    visibility: Visibility,
    at: Option<Coordinates>,
    limits: &Limits,
) -> Result<Query, QueryError> {
    let mut draft = Draft::new(table, limits);
    for call in &ast.calls {
        draft.take(call)?;
    }
    if draft.random && draft.cursor.is_some() {
        return Err(refuse(
            "A cursor needs an order, and `orderRandom` has none",
        ));
    }
    let (order, tie) = if draft.random {
        (Vec::new(), Direction::Asc)
    } else {
        (total_order(&draft.order), tie(&draft.order))
    };
    let shows_span = draft.chosen.shows_span();
    let mut query = Query {
        table: table.clone(),
        filter: Filter::All(draft.filters),
        order,
        tie,
        random: draft.random,
        limit: draft.limit.unwrap_or(limits.page_rows_default),
        offset: draft.offset.unwrap_or(0),
        cursor: draft.cursor,
        selection: draft.chosen.selection(),
        visibility,
        then: None,
        at,
        frame: Frame::One,
        shows_span: false,
    };
    query.shows_span = shows_span || query.names_span();
    Ok(query)
}

/// What `ast` selects of one row of `table`: a read by id takes `select` and nothing else.
///
/// # Errors
/// [`QueryError::Invalid`] for another method, or a selection that cannot be made.
pub fn resolve_selection(ast: &Ast, table: &Table) -> Result<Selection, QueryError> {
    let mut chosen = Chosen::default();
    for call in &ast.calls {
        if call.method != Method::Select {
            return Err(refuse(format!(
                "Query method is invalid: `{}` has no meaning for one row, only `select` has",
                call.method.as_str()
            )));
        }
        chosen.take(table, &call.values)?;
    }
    chosen.need_no_span()?;
    Ok(chosen.selection())
}

/// What the `select` queries of `ast` choose of rows related to those of `table`, each column once.
///
/// # Errors
/// [`QueryError::Invalid`] for a selection that cannot be made.
pub fn resolve_related(ast: &Ast, table: &Table) -> Result<Vec<RelatedNames>, QueryError> {
    let mut chosen = Chosen::default();
    let selects = ast
        .calls
        .iter()
        .filter(|call| call.method == Method::Select);
    for call in selects {
        chosen.take(table, &call.values)?;
    }
    Ok(chosen.related())
}

/// What `names` select of a row of `table`, and of the rows related to it.
///
/// # Errors
/// [`QueryError::Invalid`] for a name that the table does not have.
pub fn select_names(
    table: &Table,
    names: &[String],
) -> Result<(Selection, Vec<RelatedNames>), QueryError> {
    let mut chosen = Chosen::default();
    for name in names {
        chosen.take_one(table, name)?;
    }
    chosen.need_no_span()?;
    let related = chosen.related();
    Ok((chosen.selection(), related))
}

/// What the queries read so far add up to.
struct Draft<'a> {
    table: &'a Table,
    limits: &'a Limits,
    conditions: Conditions<'a>,
    filters: Vec<Filter>,
    order: Vec<OrderKey>,
    random: bool,
    limit: Option<u32>,
    offset: Option<u64>,
    cursor: Option<Cursor>,
    chosen: Chosen,
}

impl<'a> Draft<'a> {
    fn new(table: &'a Table, limits: &'a Limits) -> Draft<'a> {
        Draft {
            table,
            limits,
            conditions: Conditions::new(table),
            filters: Vec::new(),
            order: Vec::new(),
            random: false,
            limit: None,
            offset: None,
            cursor: None,
            chosen: Chosen::default(),
        }
    }

    /// Of several limits, offsets and cursors the first one counts; the others are checked.
    fn take(&mut self, call: &Call) -> Result<(), QueryError> {
        match call.method {
            Method::OrderAsc => self.order_by(call, Direction::Asc)?,
            Method::OrderDesc => self.order_by(call, Direction::Desc)?,
            Method::OrderRandom => self.random = true,
            Method::Limit => {
                let limit = limit(call, self.limits.page_rows_max)?;
                self.limit.get_or_insert(limit);
            }
            Method::Offset => {
                let offset = offset(call)?;
                self.offset.get_or_insert(offset);
            }
            Method::CursorAfter => {
                let cursor = cursor(call, Side::After)?;
                self.cursor.get_or_insert(cursor);
            }
            Method::CursorBefore => {
                let cursor = cursor(call, Side::Before)?;
                self.cursor.get_or_insert(cursor);
            }
            // Said by `named_times`, and settled before the query is resolved.
            Method::AsOf
            | Method::ValidAt
            | Method::ValidBetween
            | Method::SystemBetween
            | Method::Versions => {}
            Method::Select => self.chosen.take(self.table, &call.values)?,
            _ => self.filters.push(self.conditions.filter(call)?),
        }
        Ok(())
    }

    fn order_by(&mut self, call: &Call, direction: Direction) -> Result<(), QueryError> {
        let name = attribute(call)?;
        let field = queried(self.table, name)?;
        let obstacle = if field::relation(self.table, field).is_some() {
            Some("a relationship")
        } else if field::is_array(self.table, field) {
            Some("an array")
        } else {
            None
        };
        if let Some(obstacle) = obstacle {
            return Err(refuse(format!(
                "Cannot order by attribute \"{name}\", because it is {obstacle}"
            )));
        }
        self.order.push(OrderKey { field, direction });
        Ok(())
    }
}

/// The keys that decide: a field's second mention changes nothing, nor does any key after one
/// that no two rows share.
fn total_order(named: &[OrderKey]) -> Vec<OrderKey> {
    let mut order: Vec<OrderKey> = Vec::with_capacity(named.len());
    for key in named {
        if order.iter().all(|earlier| earlier.field != key.field) {
            order.push(*key);
        }
        if field::is_distinct(key.field) {
            break;
        }
    }
    order
}

/// Rows of one instant were mostly written in order, so the tie follows a leading time (wire
/// protocol, section 3).
fn tie(named: &[OrderKey]) -> Direction {
    match named.first() {
        Some(OrderKey {
            field: model::Field::Created | model::Field::Updated | model::Field::Span(_),
            direction,
        }) => *direction,
        _ => Direction::Asc,
    }
}

fn limit(call: &Call, page_rows_max: u32) -> Result<u32, QueryError> {
    match call.values.as_slice() {
        [Json::Int(rows)] if (1..=i64::from(page_rows_max)).contains(rows) => Ok(*rows as u32),
        _ => Err(refuse(format!(
            "`limit` needs one integer from 1 to {page_rows_max}"
        ))),
    }
}

fn offset(call: &Call) -> Result<u64, QueryError> {
    match call.values.as_slice() {
        [Json::Int(rows)] if *rows >= 0 => Ok(*rows as u64),
        _ => Err(refuse(format!(
            "`offset` needs one integer from 0 to {}",
            i64::MAX
        ))),
    }
}

fn cursor(call: &Call, side: Side) -> Result<Cursor, QueryError> {
    let named = match call.values.as_slice() {
        [Json::Text(text)] => version_named(text),
        _ => None,
    };
    match named {
        Some((row, version)) => Ok(Cursor { row, version, side }),
        None => Err(refuse(format!(
            "`{}` needs the id of one row",
            call.method.as_str()
        ))),
    }
}

/// A row by its id, or a version of it by its `$version`: id, valid from and known from, with `@`
/// between them.
fn version_named(text: &str) -> Option<(RowId, Option<VersionName>)> {
    let mut parts = text.split('@');
    let row = RowId::new(parts.next()?).ok()?;
    let Some(from) = parts.next() else {
        return Some((row, None));
    };
    let valid_from = match from {
        "min" => Timestamp::BOT,
        from => Timestamp(from.parse().ok()?),
    };
    let system_from = Mark(parts.next()?.parse().ok()?);
    parts.next().is_none().then_some((
        row,
        Some(VersionName {
            valid_from,
            system_from,
        }),
    ))
}

fn attribute(call: &Call) -> Result<&str, QueryError> {
    let name = call.attribute.as_deref().filter(|name| !name.is_empty());
    name.ok_or_else(|| refuse(format!("`{}` needs an attribute", call.method.as_str())))
}

/// The field called `name`, by which rows can be found and ordered.
fn queried(table: &Table, name: &str) -> Result<model::Field, QueryError> {
    let field = field::named(table, name).ok_or_else(|| not_found(name))?;
    if field::is_encrypted(table, field) {
        let name = echo(name);
        return Err(refuse(format!("Cannot query encrypted attribute: {name}")));
    }
    Ok(field)
}

fn refuse(why: impl Into<String>) -> QueryError {
    QueryError::Invalid(why.into())
}

fn not_found(name: &str) -> QueryError {
    refuse(format!("Attribute not found in schema: {}", echo(name)))
}
