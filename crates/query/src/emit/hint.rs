//! The index that a statement is made for; a statement of SQLite names it.

use model::Field;

use crate::index_choice::{Choice, Demand, choose_index, choose_total_index, demand_on, demands};
use crate::names;
use crate::query::Query;

use super::source::SelectSource;

/// What a statement is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Rows,
    Total,
}

/// The index to use, if the query decides it.
#[derive(Clone)]
pub(super) struct Hint {
    /// Its physical name.
    pub(super) name: String,
    /// Whether rows come out of it in the order asked for, ties perhaps excepted.
    pub(super) in_order: bool,
    /// Whether they do so without exception.
    pub(super) in_whole_order: bool,
}

pub(super) fn hint(query: &Query, source: &SelectSource<'_>, purpose: Purpose) -> Option<Hint> {
    if !source.takes_hint() {
        return None;
    }
    let chosen = match purpose {
        Purpose::Rows => choose_index(query),
        Purpose::Total => choose_total_index(query),
    };
    let table = query.table.number;
    match chosen {
        Some(Choice {
            number,
            in_order,
            in_whole_order,
        }) => {
            let name = if source.is_of_versions() {
                names::versions_index(table, number)
            } else {
                names::index(table, number)
            };
            Some(Hint {
                name,
                in_order,
                in_whole_order,
            })
        }
        None if source.is_of_versions() => own_index(query, source, purpose),
        None => None,
    }
}

/// The versions have indexes of their own, for what the rows of now do by their keys.
fn own_index(query: &Query, source: &SelectSource<'_>, purpose: Purpose) -> Option<Hint> {
    let table = query.table.number;
    let demands = demands(&query.filter);
    let goes_to = |field| demand_on(&demands, field) > Some(Demand::Range);
    let in_order = purpose == Purpose::Rows && !query.random && query.order.is_empty();
    if goes_to(Field::Id) {
        let by_system = || names::system_index(table);
        let name = source.row_index().unwrap_or_else(by_system);
        return Some(Hint {
            name,
            in_order: false,
            in_whole_order: false,
        });
    }
    (goes_to(Field::Sequence) || in_order).then(|| Hint {
        name: names::sequence_index(table),
        in_order,
        in_whole_order: in_order,
    })
}
