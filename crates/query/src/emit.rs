//! A query to SQL text. Cannot fail: what a table or a dialect cannot do was refused before.
//!
//! All text is ours; what a user wrote travels as a parameter. `t` is the table read, `n` the
//! rows of now beside it, `g` its grants, `m` the one row of `meta`.

use model::{Coordinates, Selection, Table, Value};

use crate::dialect::Dialect;
use crate::names;
use crate::query::Query;
use crate::visibility::Visibility;

mod condition;
mod hint;
mod keyset;
mod source;
mod writer;

use hint::Purpose;
use source::Source;
use writer::{Clause, Writer};

/// SQL text with its parameters, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The text.
    pub sql: String,
    /// Parameters `?1…`/`$1…`. A list is bound as an array column stores it.
    pub parameters: Vec<Value>,
}

/// The page's rows: `$sequence`, id, created, updated, permissions, then what is selected.
///
/// With [`Selection::All`] of now that is one column, the row's body, null when it was encoded
/// under another schema; else one column for each selected one, in its order. `cursor` holds what
/// the statement of [`cursor_row`] gave, none of it null. Before a cursor the rows come in
/// reverse: whoever reads them turns the page around.
pub fn rows(query: &Query, cursor: Option<&[Value]>, dialect: Dialect) -> Statement {
    let mut out = Writer::new(dialect);
    let hint = hint::hint(query, Purpose::Rows);
    let in_order = hint.as_ref().is_some_and(|hint| hint.in_order);
    let arm = Arm {
        source: Source::new(&query.table, query.at),
        query,
        index: hint.as_ref().map(|hint| hint.name.as_str()),
    };
    match cursor {
        None => arm.write(&mut out, &Part::All),
        Some(values) if in_order && keyset::may_meet_nulls(query) => {
            arm.write(&mut out, &Part::Values(values));
            out.push(" UNION ALL ");
            arm.write(&mut out, &Part::Nulls);
            keyset::write_order_of_keys(&mut out, query);
            write_page(&mut out, query);
            return out.finish();
        }
        Some(values) => arm.write(&mut out, &Part::Beyond(values)),
    }
    if query.random {
        out.push(" ORDER BY random()");
    } else {
        keyset::write_order(&mut out, query);
    }
    write_page(&mut out, query);
    out.finish()
}

/// Which rows of a query one SELECT gives.
enum Part<'a> {
    All,
    /// Those beyond the cursor's row.
    Beyond(&'a [Value]),
    /// Those beyond the cursor's row with a value in the first key of the order, and …
    Values(&'a [Value]),
    /// … those with none. Two parts, because one condition for both has no bound at which an
    /// index could start: each page would walk over all pages before it.
    Nulls,
}

/// One SELECT of the statement for a page's rows.
struct Arm<'a> {
    source: Source<'a>,
    query: &'a Query,
    index: Option<&'a str>,
}

impl Arm<'_> {
    fn write(&self, out: &mut Writer, part: &Part<'_>) {
        let query = self.query;
        out.push("SELECT ");
        self.source.write_columns(out, &query.selection);
        if let Part::Values(_) | Part::Nulls = part {
            keyset::write_keys(out, query);
        }
        out.push(" FROM ");
        self.source.write_from(out, self.index);
        let mut clause = Clause::of_where();
        self.source.write_period(out, &mut clause);
        condition::write_all(out, &mut clause, &query.table, &query.filter);
        match part {
            Part::All => {}
            Part::Beyond(values) => {
                clause.open(out);
                keyset::write_beyond(out, query, values);
            }
            Part::Values(values) => {
                clause.open(out);
                keyset::write_values_beyond(out, query, values);
            }
            Part::Nulls => {
                clause.open(out);
                keyset::write_null(out, query);
            }
        }
        self.source
            .write_visible(out, &mut clause, &query.visibility);
    }
}

fn write_page(out: &mut Writer, query: &Query) {
    out.push(" LIMIT ");
    out.bind(Value::Int(i64::from(query.limit)));
    if query.offset > 0 {
        out.push(" OFFSET ");
        out.bind(Value::Int(i64::try_from(query.offset).unwrap_or(i64::MAX)));
    }
}

/// How many rows match, whatever the page; up to `cap`, if there is one.
pub fn total(query: &Query, cap: Option<u64>, dialect: Dialect) -> Statement {
    let source = Source::new(&query.table, query.at);
    let mut out = Writer::new(dialect);
    out.push(match cap {
        Some(_) => "SELECT count(*) FROM (SELECT 1 FROM ",
        None => "SELECT count(*) FROM ",
    });
    let hint = hint::hint(query, Purpose::Total);
    source.write_from(&mut out, hint.as_ref().map(|hint| hint.name.as_str()));
    let mut clause = Clause::of_where();
    source.write_period(&mut out, &mut clause);
    condition::write_all(&mut out, &mut clause, &query.table, &query.filter);
    source.write_visible(&mut out, &mut clause, &query.visibility);
    if let Some(cap) = cap {
        out.push(" LIMIT ");
        out.bind(Value::Int(i64::try_from(cap).unwrap_or(i64::MAX)));
        out.push(") AS matches");
    }
    out.finish()
}

/// The cursor row's value of each key of the order, then its `$sequence`, without asking who may
/// see it. `None` when the query has no cursor.
pub fn cursor_row(query: &Query, dialect: Dialect) -> Option<Statement> {
    let cursor = query.cursor.as_ref()?;
    let source = Source::new(&query.table, query.at);
    let mut out = Writer::new(dialect);
    out.push("SELECT ");
    for key in &query.order {
        out.push_field(&query.table, key.field);
        out.push(", ");
    }
    out.push("t.seq FROM ");
    source.write_one(&mut out, cursor.row.as_str());
    Some(out.finish())
}

/// One row of now, and the snapshot's stamp before it: mark, catalogue epoch, then the columns of
/// [`rows`], all null when there is no such row or it is not visible.
pub fn point(
    table: &Table,
    id: &str,
    selection: &Selection,
    visibility: &Visibility,
    dialect: Dialect,
) -> Statement {
    let source = Source::new(table, None);
    let mut out = Writer::new(dialect);
    out.push("SELECT m.mark, m.catalogue_epoch, ");
    source.write_columns(&mut out, selection);
    out.push(" FROM meta AS m LEFT JOIN ");
    source.write_from(&mut out, None);
    out.push(" ON ");
    source.write_id(&mut out, id);
    source.write_visible(&mut out, &mut Clause::further(), visibility);
    out.finish()
}

/// One row as the coordinates show it, without a stamp: beside an order and a limit, which find
/// the version fast in a long history, a joined stamp would make SQLite store the row first.
pub fn point_at(
    table: &Table,
    id: &str,
    selection: &Selection,
    visibility: &Visibility,
    at: Coordinates,
    dialect: Dialect,
) -> Statement {
    let source = Source::new(table, Some(at));
    let mut out = Writer::new(dialect);
    out.push("SELECT ");
    source.write_columns(&mut out, selection);
    out.push(" FROM ");
    source.write_one_visible(&mut out, id, visibility);
    out.finish()
}

/// All columns of the row of now with the `$sequence` given as the parameter, in the table's
/// order: what a body is encoded from.
pub fn content(table: &Table, seq: i64, dialect: Dialect) -> Statement {
    let mut out = Writer::new(dialect);
    out.push("SELECT ");
    for column in &table.columns {
        out.push("t.");
        out.push(&names::column(column.number));
        out.push(", ");
    }
    // The last column is there for tables without any, and read by nobody.
    out.push("t.seq FROM ");
    out.push(&names::now(table.number));
    out.push(" AS t WHERE t.seq = ");
    out.bind(Value::Int(seq));
    out.finish()
}

/// The snapshot's stamp: mark and catalogue epoch.
pub fn stamp() -> &'static str {
    "SELECT m.mark, m.catalogue_epoch FROM meta AS m"
}
