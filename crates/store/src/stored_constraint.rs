//! A constraint over valid time as it is stored.

use model::{ColumnNumber, TableNumber};

use crate::StoreError;
use crate::batch::Constraint;
use crate::error::corrupt;

/// The constraint of a kind over columns, whose numbers stand between commas, and the table that a
/// reference leads to.
pub(crate) fn read(
    kind: &str,
    columns: &str,
    related: Option<i64>,
) -> Result<Constraint, StoreError> {
    let columns: Vec<ColumnNumber> = columns
        .split(',')
        .map(|number| number.parse().map(ColumnNumber))
        .collect::<Result<_, _>>()
        .map_err(|_| corrupt("a constraint names no column"))?;
    if kind == "unique" {
        return Ok(Constraint::Unique(columns));
    }
    let related = related.ok_or_else(|| corrupt("a reference leads to no table"))?;
    Ok(Constraint::Ref(columns[0], TableNumber(related)))
}
