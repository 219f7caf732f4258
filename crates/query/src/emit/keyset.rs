//! The total order as SQL: ORDER BY, and the rows that lie beyond a cursor's row.

use model::{Direction, Value};

use crate::field;
use crate::index_choice::excludes_null;
use crate::query::{OrderKey, Query};

use super::source::SelectSource;
use super::writer::{Parameter, SqlWriter};

/// Writes ORDER BY.
pub(super) fn write_order(out: &mut SqlWriter, query: &Query, source: &SelectSource<'_>) {
    if query.random {
        return out.push(" ORDER BY random()");
    }
    write_order_by(out, query, |out, key, _| key.write(out, source));
}

/// Writes ORDER BY of a statement whose SELECTs give the keys as `k0`, `k1` …
pub(super) fn write_order_of_keys(out: &mut SqlWriter, query: &Query) {
    if query.random {
        return out.push(" ORDER BY k0");
    }
    write_order_by(out, query, |out, _, position| {
        out.push("k");
        out.push_number(position);
    });
}

fn write_order_by(
    out: &mut SqlWriter,
    query: &Query,
    write_key: impl Fn(&mut SqlWriter, &SortKey, usize),
) {
    let mut separator = " ORDER BY ";
    for (position, key) in keys_of(query).iter().enumerate() {
        out.push(separator);
        write_key(out, key, position);
        if key.direction() == Direction::Desc {
            out.push(" DESC");
        }
        out.push(out.dialect.nulls(key.direction(), key.is_nullable()));
        separator = ", ";
    }
}

/// What rows are ordered by. Where a row may be there more than once, its versions
/// differ by when they begin to be valid and known.
#[derive(Clone, Copy)]
enum SortKey {
    Field(OrderKey),
    ValidFrom(Direction),
    SystemFrom(Direction),
}

impl SortKey {
    fn direction(&self) -> Direction {
        match self {
            SortKey::Field(key) => key.direction,
            SortKey::ValidFrom(direction) | SortKey::SystemFrom(direction) => *direction,
        }
    }

    fn is_nullable(&self) -> bool {
        match self {
            SortKey::Field(key) => field::is_nullable(key.field),
            SortKey::ValidFrom(_) | SortKey::SystemFrom(_) => false,
        }
    }

    /// Writes it so that it compares by bytes.
    fn write(&self, out: &mut SqlWriter, source: &SelectSource<'_>) {
        match self {
            SortKey::Field(key) => source.write_comparable(out, key.field),
            SortKey::ValidFrom(_) => out.push("t.vf"),
            SortKey::SystemFrom(_) => source.write_system_from(out),
        }
    }
}

/// The keys in the order in which rows are read.
fn keys_of(query: &Query) -> Vec<SortKey> {
    let order = query.read_order();
    let last = order.last().map_or(query.tie, |key| key.direction);
    let mut keys: Vec<SortKey> = order.into_iter().map(SortKey::Field).collect();
    if query.frame.is_wide() {
        keys.extend([SortKey::ValidFrom(last), SortKey::SystemFrom(last)]);
    }
    keys
}

/// Writes the keys as further columns of the result, for [`write_order_of_keys`].
pub(super) fn write_keys(out: &mut SqlWriter, query: &Query, source: &SelectSource<'_>) {
    if query.random {
        return out.push(", random() AS k0");
    }
    for (position, key) in keys_of(query).iter().enumerate() {
        out.push(", ");
        key.write(out, source);
        out.push(" AS k");
        out.push_number(position);
    }
}

/// Whether rows without a value in the first key lie beyond the cursor's row.
pub(super) fn may_meet_nulls(query: &Query) -> bool {
    query.cursor.is_some() && nulls_beyond(query, SortKey::Field(query.read_order()[0]))
}

/// Whether rows without a value in this key lie beyond those with one.
fn nulls_beyond(query: &Query, key: SortKey) -> bool {
    let SortKey::Field(key) = key else {
        return false;
    };
    key.direction == Direction::Desc
        && field::is_nullable(key.field)
        && !excludes_null(&query.filter, key.field)
}

/// Writes that the row has no value in the first key.
pub(super) fn write_null(out: &mut SqlWriter, query: &Query, source: &SelectSource<'_>) {
    source.write_field(out, query.read_order()[0].field);
    out.push(" IS NULL");
}

/// Writes the condition that a row comes after the cursor's row in the order of reading.
///
/// `values` holds the cursor row's value of each key and its `$sequence`. None is null, but
/// other rows may hold nulls: ascending they come before any value, descending after all.
pub(super) fn write_beyond(
    out: &mut SqlWriter,
    query: &Query,
    source: &SelectSource<'_>,
    values: &[Value],
) {
    let bounds = bounds(out, query, values);
    write_bounds(out, source, &bounds);
}

/// Writes the same for the rows that have a value in the first key.
pub(super) fn write_values_beyond(
    out: &mut SqlWriter,
    query: &Query,
    source: &SelectSource<'_>,
    values: &[Value],
) {
    let mut bounds = bounds(out, query, values);
    bounds[0].nulls_beyond = false;
    write_bounds(out, source, &bounds);
}

/// One key of the order, and where the cursor's row stands in it.
struct CursorBound {
    key: SortKey,
    value: Parameter,
    nulls_beyond: bool,
}

fn bounds(out: &mut SqlWriter, query: &Query, values: &[Value]) -> Vec<CursorBound> {
    assert!(
        values.len() > query.order.len(),
        "a cursor has a value for each key and its sequence"
    );
    // A cursor's row comes with its `$sequence` also where the order does without.
    let (named, rest) = values.split_at(query.order.len());
    let has_tie = query.read_order().len() > query.order.len();
    let rest = if has_tie { rest } else { &rest[1..] };
    let keys = keys_of(query).into_iter().zip(named.iter().chain(rest));
    keys.map(|(key, value)| CursorBound {
        key,
        value: out.parameter(value.clone()),
        nulls_beyond: nulls_beyond(query, key),
    })
    .collect()
}

fn write_bounds(out: &mut SqlWriter, source: &SelectSource<'_>, bounds: &[CursorBound]) {
    // `(keys) > (values)`, or `<`, says it all where there is one direction and no null.
    let direction = bounds[0].key.direction();
    let is_one_comparison = bounds
        .iter()
        .all(|bound| bound.key.direction() == direction && !bound.nulls_beyond);
    if is_one_comparison {
        write_row_comparison(out, source, bounds);
    } else {
        write_nested(out, source, bounds);
    }
}

fn write_row_comparison(out: &mut SqlWriter, source: &SelectSource<'_>, bounds: &[CursorBound]) {
    let (open, close) = if bounds.len() > 1 {
        ("(", ")")
    } else {
        ("", "")
    };
    let mut separator = open;
    for bound in bounds {
        out.push(separator);
        bound.key.write(out, source);
        separator = ", ";
    }
    out.push(close);
    out.push(beyond(bounds[0].key.direction()));
    separator = open;
    for bound in bounds {
        out.push(separator);
        out.push_parameter(bound.value);
        separator = ", ";
    }
    out.push(close);
}

/// Key by key: beyond in this one, or equal in it and beyond in the rest. Where no null can lie
/// beyond, a plain bound comes first, which an index can start at.
fn write_nested(out: &mut SqlWriter, source: &SelectSource<'_>, bounds: &[CursorBound]) {
    let (bound, rest) = bounds.split_first().expect("a total order has a key");
    let direction = bound.key.direction();
    let compare = |out: &mut SqlWriter, operator: &str| {
        bound.key.write(out, source);
        out.push(operator);
        out.push_parameter(bound.value);
    };
    if rest.is_empty() && !bound.nulls_beyond {
        return compare(out, beyond(direction));
    }
    out.push("(");
    if !bound.nulls_beyond {
        compare(out, or_equal(direction));
        out.push(" AND (");
    }
    compare(out, beyond(direction));
    if bound.nulls_beyond {
        out.push(" OR ");
        if let SortKey::Field(key) = bound.key {
            source.write_field(out, key.field);
        }
        out.push(" IS NULL");
    }
    if !rest.is_empty() {
        out.push(" OR ");
        if bound.nulls_beyond {
            compare(out, " = ");
            out.push(" AND ");
        }
        write_nested(out, source, rest);
    }
    out.push(")");
    out.push(out.dialect.unplanned());
    if !bound.nulls_beyond {
        out.push(")");
    }
}

fn beyond(direction: Direction) -> &'static str {
    match direction {
        Direction::Asc => " > ",
        Direction::Desc => " < ",
    }
}

fn or_equal(direction: Direction) -> &'static str {
    match direction {
        Direction::Asc => " >= ",
        Direction::Desc => " <= ",
    }
}
