//! Who may read and write at other times than now: API keys, and others as the table's option
//! `past` allows.

use std::sync::Arc;

use model::{Actor, Column, Coordinates, Field, Index, Mark, Past, Table};
use query::{NamedTimes, NamedValid, Then};

use crate::error::{AccessError, EngineError};
use crate::request::inputs::Caller;

/// By which rule `actor` looks at other times.
fn rule(table: &Table, actor: &Actor) -> Past {
    if actor.bypasses_grants() {
        Past::Now
    } else {
        table.options.past
    }
}

/// # Errors
/// [`AccessError::PastClosed`] unless nothing but today's grants decides what the actor sees.
pub(crate) fn need_open(table: &Table, actor: &Actor) -> Result<(), EngineError> {
    match rule(table, actor) {
        Past::Now => Ok(()),
        closed => Err(AccessError::PastClosed(closed).into()),
    }
}

/// Whether the actor may ask from when to when rows of now are valid and known. Those are times,
/// too: one that is yet to come is part of what is scheduled.
///
/// # Errors
/// [`AccessError::PastClosed`] where no time but now is open to the actor.
pub(crate) fn need_spans(table: &Table, actor: &Actor) -> Result<(), EngineError> {
    match rule(table, actor) {
        Past::Now | Past::Both => Ok(()),
        Past::Keys => Err(AccessError::PastClosed(Past::Keys).into()),
    }
}

/// Whether the grants of then decide as well.
///
/// What lies at one instant of both axes may be looked at so. Of several versions, or of what was
/// known at one time of an earlier one, no one instant could say who might see it.
///
/// # Errors
/// [`AccessError::PastClosed`] if the actor may not look at such times at all.
pub(crate) fn judges_then(
    table: &Table,
    actor: &Actor,
    times: NamedTimes,
) -> Result<bool, EngineError> {
    let is_one_instant = match times.valid {
        NamedValid::Unsaid => true,
        NamedValid::At(at) => times.system.is_none_or(|mark| mark.timestamp() <= at),
        NamedValid::Between(_) => false,
    };
    match rule(table, actor) {
        Past::Now => Ok(false),
        Past::Both if is_one_instant && !times.shows_versions() => Ok(true),
        closed => Err(AccessError::PastClosed(closed).into()),
    }
}

/// The mark whose grants say who might see what lies there.
pub(crate) fn seen_at(at: Coordinates) -> Mark {
    at.system.min(Mark(at.valid.0))
}

/// What the caller might see of the rows of a table as it was at the mark.
pub(crate) fn might_see(table: &Table, caller: &Caller, mark: Mark) -> Result<Then, EngineError> {
    let is_seen = table.enabled || caller.actor.bypasses_grants();
    let visibility = query::visibility(table, &caller.actor).filter(|_| is_seen);
    let visibility = visibility.ok_or(AccessError::Unauthorized)?;
    Ok(Then {
        visibility,
        mark,
        is_there_now: false,
    })
}

/// The table as it was, without the columns that are gone since.
pub(crate) fn without_gone(then: &Arc<Table>, today: &Table) -> Arc<Table> {
    let stays = |column: &&Column| today.numbered(column.number).is_some();
    if then.columns.iter().all(|column| stays(&column)) {
        return Arc::clone(then);
    }
    let columns: Vec<Column> = then.columns.iter().filter(stays).cloned().collect();
    let place = |position: usize| {
        let number = then.columns[position].number;
        columns.iter().position(|column| column.number == number)
    };
    let kept = |index: &Index| {
        let mut index = index.clone();
        for part in &mut index.columns {
            if let Field::Column(position) = part.field {
                part.field = Field::Column(place(position)?);
            }
        }
        Some(index)
    };
    Arc::new(Table {
        indexes: then.indexes.iter().filter_map(kept).collect(),
        columns,
        ..Table::clone(then)
    })
}
