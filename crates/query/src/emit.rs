//! A query to SQL text. Cannot fail: what a table or a dialect cannot do was refused before.
//!
//! All text is ours; what a user wrote travels as a parameter. `t` is the table read, `n` the
//! rows of now beside it, `g` its grants, `m` the one row of `meta`.

use model::{Coordinates, Field, Index, Selection, Table, Value};

use crate::dialect::Dialect;
use crate::index_choice::{is_left_to_planner, is_of_one_row};
use crate::names;
use crate::query::{Cursor, Frame, Query};
use crate::undecided::undecided;
use crate::unique_key::UniqueKey;
use crate::visibility::Visibility;

mod beginning;
mod condition;
mod hint;
mod keyset;
mod narrowed;
mod source;
mod writer;

use hint::Purpose;
pub use narrowed::{narrowed, narrowing};
use source::SelectSource;
use writer::{Clause, SqlWriter};

/// Most rows, those before the page among them, that SQLite may have to sort whole: 4 MB of
/// bodies. Of more it sorts the keys alone and takes the page's rows afterwards.
const SORTED_WHOLE_MAX: u64 = 256;

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
/// reverse: the reader turns the page around.
///
/// Of a query that the database does not decide ([`undecided()`]) come all rows from the first one
/// on, with the fields that are tested as further columns: offset and limit are for those of them
/// that match.
pub fn rows(query: &Query, cursor: Option<&[Value]>, dialect: Dialect) -> Statement {
    page(query, cursor, dialect, Keys::Left)
}

/// The same, with each key of [`Query::read_order`] as a further column at the end: where in the
/// order a row stands.
pub fn rows_in_place(query: &Query, cursor: Option<&[Value]>, dialect: Dialect) -> Statement {
    page(query, cursor, dialect, Keys::Written)
}

fn page(query: &Query, cursor: Option<&[Value]>, dialect: Dialect, keys: Keys) -> Statement {
    let mut out = SqlWriter::new(dialect);
    let sources = SelectSource::of(query);
    let tested = tested(query, dialect);
    if query.at.is_some() && is_of_one_row(query) && cursor.is_none() {
        write_row(&mut out, &sources, |out, source| {
            Arm::new(query, *source, &tested).write(out, &SelectPart::All, Keys::Written);
        });
        // Sources after the one that has the row are not looked at.
        if tested.is_empty() {
            write_page(&mut out, query.limit.min(1), query.offset);
        }
        return out.finish();
    }
    let arms = sources.into_iter();
    let arms = arms.map(|source| Arm::new(query, source, &tested));
    let arms: Vec<Arm<'_>> = arms.collect();
    let in_order = arms.iter().any(Arm::is_in_order);
    let parts = match cursor {
        None => vec![SelectPart::All],
        Some(values) if in_order && keyset::may_meet_nulls(query) => {
            vec![SelectPart::Values(values), SelectPart::Nulls]
        }
        Some(values) => vec![SelectPart::Beyond(values)],
    };
    if let ([arm], [part]) = (&arms[..], &parts[..]) {
        if dialect == Dialect::Sqlite && arm.sorts_many() {
            arm.write_sorted(&mut out, part, keys);
            return out.finish();
        }
        arm.write(&mut out, part, keys);
        keyset::write_order(&mut out, query, &arm.source);
    } else {
        let mut joint = "";
        for (arm, part) in arms
            .iter()
            .flat_map(|arm| parts.iter().map(move |p| (arm, p)))
        {
            out.push(joint);
            arm.write(&mut out, part, Keys::Written);
            joint = " UNION ALL ";
        }
        keyset::write_order_of_keys(&mut out, query);
    }
    if tested.is_empty() {
        write_page(&mut out, query.limit, query.offset);
    }
    out.finish()
}

/// The fields that are tested of each row, if anything is.
fn tested(query: &Query, dialect: Dialect) -> Vec<Field> {
    undecided(&query.filter, dialect).map_or(Vec::new(), |left| left.fields)
}

fn write_tested(out: &mut SqlWriter, source: &SelectSource<'_>, tested: &[Field], joint: &str) {
    let mut joint = joint;
    for field in tested {
        out.push(joint);
        source.write_field(out, *field);
        joint = ", ";
    }
}

/// `$sequence` and id of the rows of now that match, along `$sequence` and without any index: for
/// a filter that bounds `$sequence`, so that no more rows are looked at than lie between. Order,
/// offset and cursor of the query have no meaning here; a query that the database does not decide
/// gives what [`rows`] does of it.
pub fn walk(query: &Query, dialect: Dialect) -> Statement {
    let source = SelectSource::now(&query.table);
    let mut out = SqlWriter::new(dialect);
    let tested = tested(query, dialect);
    out.push("SELECT t.seq, t.id");
    write_tested(&mut out, &source, &tested, ", ");
    out.push(" FROM ");
    source.write_walked(&mut out);
    let mut clause = Clause::of_where();
    condition::write_all(&mut out, &mut clause, &source, &query.filter);
    source.write_visible(&mut out, &mut clause, &query.visibility);
    out.push(" ORDER BY t.seq");
    if tested.is_empty() {
        write_page(&mut out, query.limit, 0);
    }
    out.finish()
}

/// Which rows of a query one SELECT gives.
enum SelectPart<'a> {
    All,
    /// Those beyond the cursor's row.
    Beyond(&'a [Value]),
    /// Those beyond the cursor's row with a value in the first key of the order, and …
    Values(&'a [Value]),
    /// … those with none. Two parts, because one condition for both has no bound at which an
    /// index could start: each page would walk over all pages before it.
    Nulls,
}

/// Whether a SELECT gives the keys of the order as columns of its own. It must where several
/// SELECTs are united, because only columns of the result can be ordered by then.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    Left,
    Written,
}

/// One SELECT of the statement for a page's rows.
struct Arm<'a> {
    source: SelectSource<'a>,
    query: &'a Query,
    /// The fields that are tested afterwards.
    tested: &'a [Field],
    hint: Option<hint::Hint>,
}

impl<'a> Arm<'a> {
    fn new(query: &'a Query, source: SelectSource<'a>, tested: &'a [Field]) -> Arm<'a> {
        Arm {
            hint: hint::hint(query, &source, Purpose::Rows),
            source,
            query,
            tested,
        }
    }

    fn is_in_order(&self) -> bool {
        self.hint.as_ref().is_some_and(|hint| hint.in_order)
    }

    /// Whether rows of now may have to be sorted, and many of them be kept meanwhile.
    fn sorts_many(&self) -> bool {
        let query = self.query;
        let is_sorted = if let Some(hint) = &self.hint {
            !hint.in_whole_order
        } else {
            // The table itself is in the order of its rows' numbers.
            let is_of_table = query.read_order()[0].field == Field::Sequence;
            query.random || !is_of_table || is_left_to_planner(query)
        };
        let kept = query.offset.saturating_add(u64::from(query.limit));
        is_sorted && kept > SORTED_WHOLE_MAX && !self.source.is_of_versions()
    }

    /// Writes a statement that sorts nothing but the keys of the page's rows and of those before
    /// it. `CROSS JOIN` makes SQLite go through them in their order, which so stays that of the
    /// rows.
    fn write_sorted(&self, out: &mut SqlWriter, part: &SelectPart<'_>, keys: Keys) {
        let query = self.query;
        self.write_columns(out, keys);
        out.push(" FROM (SELECT t.seq");
        self.write_matches(out, part);
        keyset::write_order(out, query, &self.source);
        write_page(out, query.limit, query.offset);
        out.push(") AS page CROSS JOIN ");
        self.source.write_from(out, None);
        out.push(" ON t.seq = page.seq");
    }

    fn write(&self, out: &mut SqlWriter, part: &SelectPart<'_>, keys: Keys) {
        self.write_columns(out, keys);
        self.write_matches(out, part);
    }

    fn write_columns(&self, out: &mut SqlWriter, keys: Keys) {
        let query = self.query;
        out.push("SELECT ");
        self.source.write_columns(out, &query.selection);
        self.source.write_span(out);
        write_tested(out, &self.source, self.tested, ", ");
        if keys == Keys::Written {
            keyset::write_keys(out, query, &self.source);
        }
    }

    fn write_matches(&self, out: &mut SqlWriter, part: &SelectPart<'_>) {
        let query = self.query;
        out.push(" FROM ");
        let index = self.hint.as_ref().map(|hint| hint.name.as_str());
        self.source.write_from(out, index);
        let mut clause = Clause::of_where();
        self.source.write_period(out, &mut clause);
        condition::write_all(out, &mut clause, &self.source, &query.filter);
        match part {
            SelectPart::All => {}
            SelectPart::Beyond(values) => {
                clause.open(out);
                keyset::write_beyond(out, query, &self.source, values);
            }
            SelectPart::Values(values) => {
                clause.open(out);
                keyset::write_values_beyond(out, query, &self.source, values);
            }
            SelectPart::Nulls => {
                clause.open(out);
                keyset::write_null(out, query, &self.source);
            }
        }
        self.source.write_seen(out, &mut clause, query);
    }
}

fn write_page(out: &mut SqlWriter, limit: u32, offset: u64) {
    out.push(" LIMIT ");
    write_count(out, u64::from(limit));
    if offset > 0 {
        out.push(" OFFSET ");
        write_count(out, offset);
    }
}

/// Writes how many rows, as far as a database counts: to PostgreSQL in the text itself, because a
/// plan that is made without it does not know that few rows are wanted.
fn write_count(out: &mut SqlWriter, count: u64) {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    match out.dialect {
        Dialect::Sqlite => out.bind(Value::Int(count)),
        Dialect::Postgres => out.push_number(count),
    }
}

/// How many rows match, whatever the page; up to `cap`, if there is one. Of a query that the
/// database does not decide ([`undecided()`]) the fields that are tested, of each row.
pub fn total(query: &Query, cap: Option<u64>, dialect: Dialect) -> Statement {
    let sources = SelectSource::of(query);
    let mut out = SqlWriter::new(dialect);
    let tested = tested(query, dialect);
    let write_select = |out: &mut SqlWriter, source: &SelectSource<'_>| {
        let hint = hint::hint(query, source, Purpose::Total);
        source.write_from(out, hint.as_ref().map(|hint| hint.name.as_str()));
        let mut clause = Clause::of_where();
        source.write_period(out, &mut clause);
        condition::write_all(out, &mut clause, source, &query.filter);
        source.write_seen(out, &mut clause, query);
    };
    if !tested.is_empty() {
        let mut joint = "SELECT ";
        for source in sources {
            out.push(joint);
            write_tested(&mut out, &source, &tested, "");
            out.push(" FROM ");
            write_select(&mut out, &source);
            joint = " UNION ALL SELECT ";
        }
        return out.finish();
    }
    if query.at.is_some() && is_of_one_row(query) {
        out.push("SELECT count(*) FROM (");
        write_row(&mut out, &sources, |out, source| {
            out.push("SELECT 1 FROM ");
            write_select(out, source);
        });
        out.push(" LIMIT 1) AS matches");
        return out.finish();
    }
    let is_nested = cap.is_some() || sources.len() > 1;
    let mut joint = if is_nested {
        "SELECT count(*) FROM (SELECT 1 FROM "
    } else {
        "SELECT count(*) FROM "
    };
    for source in sources {
        out.push(joint);
        write_select(&mut out, &source);
        joint = " UNION ALL SELECT 1 FROM ";
    }
    if let Some(cap) = cap {
        out.push(" LIMIT ");
        write_count(&mut out, cap);
    }
    if is_nested {
        out.push(") AS matches");
    }
    out.finish()
}

/// The cursor row's value of each key of the order, then its `$sequence`, if the query may see the
/// row: where a row stands says what it holds. `None` when the query has no cursor.
pub fn cursor_row(query: &Query, dialect: Dialect) -> Option<Statement> {
    let cursor = query.cursor.as_ref()?;
    let id = cursor.row.as_str();
    let mut out = SqlWriter::new(dialect);
    let write_keys = |out: &mut SqlWriter, source: &SelectSource<'_>| {
        for key in &query.order {
            source.write_field(out, key.field);
            out.push(", ");
        }
        out.push("t.seq");
        if query.frame.is_wide() {
            out.push(", t.vf, ");
            source.write_system_from(out);
        }
    };
    if query.frame == Frame::One {
        write_row(&mut out, &SelectSource::of_cursor(query), |out, source| {
            out.push("SELECT ");
            write_keys(out, source);
            out.push(" FROM ");
            source.write_one(out, id, &Visibility::Everything);
            source.write_seen(out, &mut Clause::further(), query);
        });
    } else {
        write_versions_of(&mut out, query, cursor, write_keys);
    }
    Some(out.finish())
}

/// Writes SELECTs that together give the row with this id, if it is visible.
fn write_one(
    out: &mut SqlWriter,
    table: &Table,
    at: Option<Coordinates>,
    id: &str,
    visibility: &Visibility,
    write_columns: impl Fn(&mut SqlWriter, &SelectSource<'_>),
) {
    write_row(out, &SelectSource::of_row(table, at), |out, source| {
        out.push("SELECT ");
        write_columns(out, source);
        out.push(" FROM ");
        source.write_one(out, id, visibility);
    });
}

/// Writes SELECTs of one row, one for each source, of which one at most gives it.
fn write_row(
    out: &mut SqlWriter,
    sources: &[SelectSource<'_>],
    write_select: impl Fn(&mut SqlWriter, &SelectSource<'_>),
) {
    let mut joint = "";
    for source in sources {
        out.push(joint);
        // A SELECT with an order of its own can only be united from inside another one.
        let is_nested = source.is_of_versions();
        if is_nested {
            out.push("SELECT * FROM (");
        }
        write_select(out, source);
        source.write_first(out);
        if is_nested {
            out.push(") AS version");
        }
        joint = " UNION ALL ";
    }
}

/// Writes SELECTs that together give the version that the cursor names; without a name, the
/// version that comes first.
fn write_versions_of(
    out: &mut SqlWriter,
    query: &Query,
    cursor: &Cursor,
    write_columns: impl Fn(&mut SqlWriter, &SelectSource<'_>),
) {
    let mut joint = "SELECT * FROM (";
    for source in SelectSource::of(query) {
        out.push(joint);
        out.push("SELECT ");
        write_columns(out, &source);
        out.push(" FROM ");
        source.write_from(out, None);
        let mut clause = Clause::of_where();
        clause.open(out);
        source.write_id(out, cursor.row.as_str());
        source.write_period(out, &mut clause);
        if let Some(version) = cursor.version {
            clause.open(out);
            out.push("t.vf = ");
            out.bind(Value::Instant(version.valid_from));
            clause.open(out);
            source.write_system_from(out);
            out.push(" = ");
            out.bind(Value::Int(version.system_from.0));
        }
        source.write_seen(out, &mut clause, query);
        joint = " UNION ALL ";
    }
    out.push(") AS named LIMIT 1");
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
    let source = SelectSource::now(table);
    let mut out = SqlWriter::new(dialect);
    out.push("SELECT m.mark, m.catalogue_epoch, ");
    source.write_columns(&mut out, selection);
    out.push(" FROM meta AS m LEFT JOIN ");
    source.write_from(&mut out, None);
    out.push(" ON ");
    source.write_id(&mut out, id);
    source.write_visible(&mut out, &mut Clause::further(), visibility);
    out.finish()
}

/// A whole row of now without a stamp, for a caller that sees all rows. For SQLite, where another
/// statement on the same snapshot reads the stamp.
pub fn row_now(table: &Table, id: &str) -> Statement {
    let mut out = SqlWriter::new(Dialect::Sqlite);
    let everything = &Visibility::Everything;
    write_one(&mut out, table, None, id, everything, |out, source| {
        source.write_columns(out, &Selection::All);
    });
    out.finish()
}

/// The row of now with this key of a unique index, as [`point`] gives that with an id. The values
/// are the parameters, in the order of the index's columns.
pub fn point_by_key(
    table: &Table,
    key: &UniqueKey<'_>,
    selection: &Selection,
    visibility: &Visibility,
    dialect: Dialect,
) -> Statement {
    let source = SelectSource::now(table);
    let mut out = SqlWriter::new(dialect);
    out.push("SELECT m.mark, m.catalogue_epoch, ");
    source.write_columns(&mut out, selection);
    out.push(" FROM meta AS m LEFT JOIN ");
    source.write_from(
        &mut out,
        Some(&names::index(table.number, key.index.number)),
    );
    let mut clause = Clause::of_join();
    for (part, value) in key.index.columns.iter().zip(&key.values) {
        clause.open(&mut out);
        condition::write_equal(&mut out, &source, part.field, value);
    }
    source.write_visible(&mut out, &mut clause, visibility);
    out.finish()
}

/// The rows of now with these keys of a unique index, or, without one, with these ids: one row of
/// the result for each, in their order, all null when there is no such row or it is not visible.
/// The keys are the first parameters, so their number decides the text; none of them is null. For
/// SQLite, which keeps the order of what it joins from the left.
pub fn points(
    (table, index): (&Table, Option<&Index>),
    keys: impl IntoIterator<Item = Vec<Value>>,
    selection: &Selection,
    visibility: &Visibility,
) -> Statement {
    let source = SelectSource::now(table);
    let mut out = SqlWriter::new(Dialect::Sqlite);
    out.push("SELECT ");
    source.write_columns(&mut out, selection);
    out.push(" FROM (VALUES ");
    let mut joint = "";
    for key in keys {
        out.push(joint);
        out.bind_list(key);
        joint = ", ";
    }
    out.push(") AS k LEFT JOIN ");
    let name = index.map(|index| names::index(table.number, index.number));
    source.write_from(&mut out, name.as_deref());
    let by_id = [Field::Id];
    let fields = index.map(|index| {
        index
            .columns
            .iter()
            .map(|part| part.field)
            .collect::<Vec<_>>()
    });
    let mut clause = Clause::of_join();
    for (nth, field) in fields.as_deref().unwrap_or(&by_id).iter().enumerate() {
        clause.open(&mut out);
        source.write_comparable(&mut out, *field);
        // As SQLite calls the columns of such rows.
        out.push(" = k.column");
        out.push_number(nth + 1);
    }
    source.write_visible(&mut out, &mut clause, visibility);
    out.finish()
}

/// One row as the coordinates show it, without a stamp: beside an order and a limit, which find
/// the version fast in a long history, a joined stamp would make SQLite store the row first. With
/// its place in time behind the columns, if `shows_span`.
pub fn point_at(
    table: &Table,
    id: &str,
    (selection, shows_span): (&Selection, bool),
    visibility: &Visibility,
    at: Coordinates,
    dialect: Dialect,
) -> Statement {
    let mut out = SqlWriter::new(dialect);
    write_one(&mut out, table, Some(at), id, visibility, |out, source| {
        let source = source.with_span(shows_span);
        source.write_columns(out, selection);
        source.write_span(out);
    });
    out.finish()
}

/// All columns of the row of now with the `$sequence` given as the parameter, in the table's
/// order: what a body is encoded from.
pub fn content(table: &Table, seq: i64, dialect: Dialect) -> Statement {
    let mut out = SqlWriter::new(dialect);
    out.push("SELECT ");
    for column in &table.columns {
        out.push("t.");
        out.push(&names::column(column.number));
        out.push(", ");
    }
    // The last column is there for tables without any, and never read.
    out.push("t.seq FROM ");
    out.push(&names::now(table.number));
    out.push(" AS t WHERE t.seq = ");
    out.bind(Value::Int(seq));
    out.finish()
}

/// The same of rows of now with these `$sequence`s, which stands behind their columns, in no order:
/// for a database over a network. `parameters` hold them as one list.
pub fn contents(table: &Table, seqs: &[i64]) -> Statement {
    let mut out = SqlWriter::new(Dialect::Postgres);
    out.push("SELECT ");
    for column in &table.columns {
        out.push("t.");
        out.push(&names::column(column.number));
        out.push(", ");
    }
    out.push("t.seq FROM ");
    out.push(&names::now(table.number));
    out.push(" AS t WHERE t.seq = ANY (");
    out.bind(Value::List(seqs.iter().copied().map(Value::Int).collect()));
    out.push(")");
    out.finish()
}

/// The snapshot's stamp: mark and catalogue epoch.
pub fn stamp() -> &'static str {
    "SELECT m.mark, m.catalogue_epoch FROM meta AS m"
}
