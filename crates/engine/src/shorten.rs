//! Texts of a column that is to take shorter ones: looked at by a reader first, so that writers wait
//! for those alone that change meanwhile.

use std::sync::Arc;

use model::{Column, ColumnNumber, Direction, Field, Mark, Selection, Table, TableNumber};
use query::{Filter, Query, Test, Visibility};
use store::{Listing, Refusal, StoreError};

use crate::Engine;
use crate::asked::{Caller, ColumnChange, Place};
use crate::authorize;
use crate::columns::{changed, position};
use crate::commit::refused;
use crate::error::EngineError;
use crate::rows::ATTEMPTS_MAX;

/// That every text of a column was found to be short enough.
pub(crate) struct LookedAt {
    table: TableNumber,
    column: ColumnNumber,
    chars_max: u32,
    /// When.
    pub(crate) mark: Mark,
}

impl LookedAt {
    /// Whether it was for this change of this column.
    pub(crate) fn is_at(&self, table: &Table, column: &Column) -> bool {
        self.table == table.number
            && self.column == column.number
            && Some(self.chars_max) == column.kind.chars_max()
    }
}

impl Engine {
    /// Looks at the texts of a column if `change` makes them shorter; `None` if not.
    ///
    /// # Errors
    /// [`crate::ColumnFault::InvalidResize`] when one does not fit, and whatever keeps a list from
    /// being read: all rows are looked at, within the limit of any read.
    pub(crate) async fn look_at_texts(
        &self,
        caller: &Caller,
        place: Place<'_>,
        key: &str,
        change: &ColumnChange,
    ) -> Result<Option<LookedAt>, EngineError> {
        for _ in 0..ATTEMPTS_MAX {
            let seen = self.shared.marks.publications();
            let catalogue = self.catalogue();
            let table = authorize::table(&catalogue, caller, place)?;
            let at = position(table, key)?;
            let after = changed(table, &table.columns[at], change)?;
            let limits = (table.columns[at].kind.chars_max(), after.kind.chars_max());
            let (Some(most), Some(least)) = limits else {
                return Ok(None);
            };
            if least >= most {
                return Ok(None);
            }
            let query = longer(table, at, least);
            let listing = Listing {
                query: &query,
                rows: true,
                total: None,
                catalogue_epoch: catalogue.epoch,
            };
            match self.shared.store.list(listing).await {
                Err(StoreError::CatalogueMoved) => {
                    self.shared.newer_catalogue(catalogue.epoch, seen).await;
                }
                Err(error) => return Err(error.into()),
                Ok(read) if read.answer.rows.is_empty() => {
                    return Ok(Some(LookedAt {
                        table: table.number,
                        column: after.number,
                        chars_max: least,
                        mark: read.mark,
                    }));
                }
                Ok(_) => {
                    return Err(refused(Refusal::ValuesTooLong {
                        column: after.key.to_string(),
                        chars_max: least,
                    }));
                }
            }
        }
        Err(EngineError::Overloaded)
    }
}

/// One row with a longer text in the column at `position`.
fn longer(table: &Arc<Table>, position: usize, chars: u32) -> Query {
    Query {
        table: Arc::clone(table),
        filter: Filter::Field(Field::Column(position), Test::Longer(chars)),
        order: Vec::new(),
        tie: Direction::Asc,
        random: false,
        limit: 1,
        offset: 0,
        cursor: None,
        selection: Selection::Some {
            columns: Vec::new(),
            fields: vec![Field::Id],
            permissions: false,
        },
        visibility: Visibility::Everything,
        at: None,
    }
}
