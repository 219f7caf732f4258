//! Which of the user's indexes SQLite must use.
//!
//! SQLite's planner knows neither the page's length nor, without ANALYZE, how rare a value is:
//! left alone it was seen to sort what an index holds in order. So a statement names its index
//! wherever the query itself decides; where two indexes answer different parts of a filter, only
//! statistics can tell, and the planner chooses. PostgreSQL plans by itself.

use std::cmp::Reverse;

use model::{Direction, Field, Index, IndexKind};

use crate::field;
use crate::query::{Filter, Frame, OrderKey, Query, Test};

/// An index that a statement names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The index's number.
    pub number: u32,
    /// Whether rows come out of it in the order asked for, ties perhaps excepted.
    pub in_order: bool,
    /// Whether they do so without exception, so that nothing is sorted.
    pub in_whole_order: bool,
}

/// The index that the statement for the page's rows names, if any.
pub fn choose_index(query: &Query) -> Option<Choice> {
    if query.random {
        choose(query, &[])
    } else {
        choose(query, &query.total_order())
    }
}

/// The index that the statement for the total names, if any: order is no concern.
pub fn choose_total_index(query: &Query) -> Option<Choice> {
    choose(query, &[])
}

/// What must be looked at to find the first so many matches in order of `$sequence`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanExtent {
    /// Hardly more than those: each row matches, ids decide, or an index gives them in order.
    Matches,
    /// All matches, wherever they stand: an index leads to them in another order.
    AllMatches,
    /// Any number of other rows.
    Rows,
}

/// How far a search for matches in order of `$sequence` reaches.
pub fn scan_extent(query: &Query) -> ScanExtent {
    if matches!(&query.filter, Filter::All(branches) if branches.is_empty()) {
        return ScanExtent::Matches;
    }
    let demands = demands(&query.filter);
    let by_row =
        |(field, demand): &(Field, Demand)| field::is_distinct(*field) && *demand > Demand::Range;
    if demands.iter().any(by_row) {
        return ScanExtent::Matches;
    }
    let by_sequence = OrderKey {
        field: Field::Sequence,
        direction: Direction::Asc,
    };
    match choose(query, &[by_sequence]) {
        Some(choice) if choice.in_order => ScanExtent::Matches,
        Some(_) => ScanExtent::AllMatches,
        None => ScanExtent::Rows,
    }
}

/// Whether only the values of a query say which index serves it, so that a plan made for others may
/// be a bad one: PostgreSQL then plans its statements each time.
pub fn is_planned_each_time(query: &Query) -> bool {
    let is_decided = choose_index(query).is_some() && choose_total_index(query).is_some();
    !is_decided && (is_left_to_planner(query) || has_elements(&query.filter))
}

/// Whether an array must have certain elements, which an index of them may find.
fn has_elements(filter: &Filter) -> bool {
    match filter {
        Filter::All(branches) | Filter::Any(branches) => branches.iter().any(has_elements),
        Filter::Field(_, test) => matches!(test, Test::HasAny(_) | Test::HasAll(_)),
    }
}

/// Whether the planner may go by an index where no statement names one.
pub(crate) fn is_left_to_planner(query: &Query) -> bool {
    let demands = demands(&query.filter);
    let is_ready = |index: &&Index| index.is_available() && index.kind != IndexKind::Fulltext;
    let answers = |index: &Index| {
        let used = usefulness(index, &demands, &[]);
        used.fixed > 0 || used.range
    };
    let mut indexes = query.table.indexes.iter().filter(is_ready);
    indexes.any(|index| has_any(&query.filter) || answers(index))
}

/// Whether the filter lets one row through at most, by its id, and one version of it is shown.
pub(crate) fn is_of_one_row(query: &Query) -> bool {
    let on_id = || demand_on(&demands(&query.filter), Field::Id);
    query.frame == Frame::One && on_id() == Some(Demand::Exactly)
}

/// Whether no row without a value in `field` can match.
pub(crate) fn excludes_null(filter: &Filter, field: Field) -> bool {
    match filter {
        Filter::All(branches) => branches.iter().any(|branch| excludes_null(branch, field)),
        Filter::Any(branches) => branches.iter().all(|branch| excludes_null(branch, field)),
        Filter::Field(tested, test) => *tested == field && *test != Test::IsNull,
    }
}

/// What the filter demands of a field, as far as an index can answer it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Demand {
    /// Values between bounds.
    Range,
    /// One of several values.
    Several,
    /// No value.
    Null,
    /// One value.
    Exactly,
}

impl Demand {
    /// Whether all matching rows have the same there, so that it takes no part in an order.
    pub(crate) fn is_fixed(self) -> bool {
        self >= Demand::Null
    }
}

/// The demands of all branches that must hold.
pub(crate) fn demands(filter: &Filter) -> Vec<(Field, Demand)> {
    let mut found = Vec::new();
    collect(filter, &mut found);
    found
}

fn collect(filter: &Filter, found: &mut Vec<(Field, Demand)>) {
    match filter {
        Filter::All(branches) => branches.iter().for_each(|branch| collect(branch, found)),
        Filter::Any(_) => {}
        // The index of words gives numbers of rows.
        Filter::Field(_, Test::Finds(_)) => found.push((Field::Sequence, Demand::Several)),
        Filter::Field(field, test) => {
            if let Some(demand) = demand(test) {
                found.push((*field, demand));
            }
        }
    }
}

fn demand(test: &Test) -> Option<Demand> {
    match test {
        Test::In(values) if values.len() == 1 => Some(Demand::Exactly),
        Test::In(_) => Some(Demand::Several),
        Test::IsNull => Some(Demand::Null),
        Test::Less(_)
        | Test::LessEqual(_)
        | Test::Greater(_)
        | Test::GreaterEqual(_)
        | Test::Between(..)
        | Test::StartsWith(_) => Some(Demand::Range),
        Test::NotEqual(_)
        | Test::NotBetween(..)
        | Test::IsNotNull
        | Test::NotStartsWith(_)
        | Test::EndsWith(_)
        | Test::NotEndsWith(_)
        | Test::HasPart(_)
        | Test::HasNoPart(_)
        | Test::Finds(_)
        | Test::FindsNot(_)
        | Test::Matches(_)
        | Test::HasAny(_)
        | Test::HasAll(_)
        | Test::HasNone(_)
        | Test::Longer(_) => None,
    }
}

/// The strongest demand on `field`.
pub(crate) fn demand_on(demands: &[(Field, Demand)], field: Field) -> Option<Demand> {
    let on_field = demands.iter().filter(|(demanded, _)| *demanded == field);
    on_field.map(|(_, demand)| *demand).max()
}

/// What an index does for a query. Ordered: what counts more stands first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Use {
    /// Whether the filter fixes every column of a unique index: one row at most.
    at_once: bool,
    /// Leading columns that the filter fixes to one or several values.
    fixed: usize,
    /// How far it gives rows in the order asked for.
    order: Ordered,
    /// Whether the next column is bounded.
    range: bool,
    /// Short indexes are smaller.
    columns: Reverse<usize>,
}

impl Use {
    /// What it does, whatever its size.
    pub(crate) fn strength(self) -> impl Ord {
        (self.at_once, self.fixed, self.order, self.range)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ordered {
    No,
    /// Rows that tie in the first keys must be sorted among themselves.
    Partly,
    Wholly,
}

fn choose(query: &Query, keys: &[OrderKey]) -> Option<Choice> {
    let demands = demands(&query.filter);
    let by_row =
        |(field, demand): &(Field, Demand)| field::is_distinct(*field) && *demand > Demand::Range;
    if demands.iter().any(by_row) {
        return None; // Nothing beats going straight to the rows.
    }
    let uses: Vec<(Use, &Index)> = query
        .table
        .indexes
        .iter()
        // One that is being built, or never could be, is not there.
        .filter(|index| index.is_available() && index.kind != IndexKind::Fulltext)
        .map(|index| (usefulness(index, &demands, keys), index))
        .collect();
    let filtering = best(uses.iter().filter(|(u, _)| u.fixed > 0 || u.range));
    let ordering = uses.iter().filter(|(u, _)| u.fixed == 0 && !u.range);
    let ordering = best(ordering.filter(|(u, _)| u.order > Ordered::No));
    match (filtering, ordering) {
        (Best::Only(u, number), ordering) => {
            let decided = u.fixed > 0 || u.order > Ordered::No || ordering == Best::None;
            decided.then_some(Choice {
                number,
                in_order: u.order > Ordered::No,
                in_whole_order: u.order == Ordered::Wholly,
            })
        }
        // With OR the planner may unite indexes, which a named one would forbid.
        (Best::None, Best::Only(u, number)) => (!has_any(&query.filter)).then_some(Choice {
            number,
            in_order: true,
            in_whole_order: u.order == Ordered::Wholly,
        }),
        _ => None,
    }
}

/// Whether a branch that must hold is an OR.
fn has_any(filter: &Filter) -> bool {
    match filter {
        Filter::All(branches) => branches.iter().any(has_any),
        Filter::Any(_) => true,
        Filter::Field(..) => false,
    }
}

pub(crate) fn usefulness(index: &Index, demands: &[(Field, Demand)], keys: &[OrderKey]) -> Use {
    let on = |at: usize| demand_on(demands, index.columns.get(at)?.field);
    let fixed = (0..index.columns.len())
        .take_while(|at| on(*at) > Some(Demand::Range))
        .count();
    let several = (0..fixed).any(|at| on(at) == Some(Demand::Several));
    let whole = fixed == index.columns.len() && index.kind == IndexKind::Unique;
    // Null is a fixed value, too, but one that many rows may share.
    let at_once = whole && (0..fixed).all(|at| on(at) == Some(Demand::Exactly));
    Use {
        at_once,
        fixed,
        order: match several {
            _ if at_once => Ordered::Wholly,
            true => Ordered::No,
            false => ordered(index, fixed, demands, keys),
        },
        range: on(fixed) == Some(Demand::Range),
        columns: Reverse(index.columns.len()),
    }
}

/// How far `index`, its first `fixed` columns held still, gives rows in the order of `keys`.
fn ordered(index: &Index, fixed: usize, demands: &[(Field, Demand)], keys: &[OrderKey]) -> Ordered {
    let is_fixed = |key: &&OrderKey| demand_on(demands, key.field).is_some_and(Demand::is_fixed);
    let wanted: Vec<&OrderKey> = keys.iter().filter(|key| !is_fixed(key)).collect();
    let rest = &index.columns[fixed..];
    // Texts that begin alike stand in no order, and what comes after them is of no use.
    let whole = rest.iter().take_while(|column| column.held.is_none());
    let end = whole.clone().count() == rest.len();
    // Every index of SQLite ends in the row's number, ascending.
    let end = end.then_some((Field::Sequence, Direction::Asc));
    let held = whole
        .map(|column| (column.field, column.direction))
        .chain(end);
    let mut turned = None;
    let in_order = wanted
        .iter()
        .zip(held)
        .take_while(|(key, (field, direction))| {
            let turn = key.direction != *direction;
            key.field == *field && *turned.get_or_insert(turn) == turn
        })
        .count();
    match in_order {
        all if all == wanted.len() => Ordered::Wholly,
        0 => Ordered::No,
        _ => Ordered::Partly,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Best {
    None,
    Only(Use, u32),
    /// Several that differ in what they answer: the query alone cannot decide.
    Tied,
}

fn best<'a>(uses: impl Iterator<Item = &'a (Use, &'a Index)>) -> Best {
    let mut best: Option<&(Use, &Index)> = None;
    let mut tied = false;
    for candidate in uses {
        match best {
            Some(leader) if candidate.0 < leader.0 => {}
            Some(leader) if candidate.0 == leader.0 => {
                tied |= !answers_alike(leader, candidate);
            }
            _ => {
                best = Some(candidate);
                tied = false;
            }
        }
    }
    match best {
        None => Best::None,
        Some(_) if tied => Best::Tied,
        Some((u, index)) => Best::Only(*u, index.number),
    }
}

/// Whether two equally useful indexes use the same columns, so that either will do.
fn answers_alike((used, one): &(Use, &Index), (_, other): &(Use, &Index)) -> bool {
    let fields = |index: &Index, range: std::ops::Range<usize>| -> Vec<Field> {
        let columns = &index.columns[range];
        columns.iter().map(|column| column.field).collect()
    };
    let (fixed, others_fixed) = (fields(one, 0..used.fixed), fields(other, 0..used.fixed));
    let next = used.fixed..used.fixed + usize::from(used.range || used.fixed == 0);
    fixed.iter().all(|field| others_fixed.contains(field))
        && fields(one, next.clone()) == fields(other, next)
}
