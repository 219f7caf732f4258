//! Texts of a column that is to take shorter ones: looked at by readers first, so that writers wait
//! for those alone that change meanwhile.
//!
//! Rows are looked at in slices, each a read like any other: none of them runs into the limit of
//! reads, whatever the size of the table, and other long reads have their turns between them. The
//! first one fixes the mark; whatever a later one finds otherwise than then, a commit after that
//! mark has changed.

use std::sync::Arc;

use model::{
    Catalogue, Column, ColumnNumber, Direction, Field, Mark, Selection, Table, TableNumber, Value,
};
use query::{Filter, Frame, Query, Test, Visibility};
use store::{Listing, Refusal, StoreError};

use crate::Engine;
use crate::error::refused::refused;
use crate::error::{ColumnFault, EngineError};
use crate::request::authorize;
use crate::request::inputs::{Caller, ColumnChange, Place};
use crate::schema::columns::{changed, position};

/// Numbers of rows in one slice. Wide rows took 0.15 s of processor time so.
const SLICE_ROWS: i64 = 100_000;

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
    /// being read.
    pub(crate) async fn look_at_texts(
        &self,
        caller: &Caller,
        place: Place<'_>,
        key: &str,
        change: &ColumnChange,
    ) -> Result<Option<LookedAt>, EngineError> {
        self.under_catalogue(async |catalogue| {
            let table = authorize::table(catalogue, caller, place)?;
            let at = position(table, key)?;
            let after = changed(table, &table.columns[at], change)?;
            let limits = (table.columns[at].kind.chars_max(), after.kind.chars_max());
            let (Some(most), Some(least)) = limits else {
                return Ok(None);
            };
            if least >= most {
                return Ok(None);
            }
            if after.encrypt {
                let why = format!(
                    "Column `{}` is encrypted: its texts cannot be measured, so it cannot take \
                     shorter ones.",
                    after.key
                );
                return Err(ColumnFault::InvalidResize(why).into());
            }
            let mark = self.longer(catalogue, table, (at, least)).await?;
            let mark = mark.ok_or_else(|| {
                refused(Refusal::ValuesTooLong {
                    column: after.key.to_string(),
                    chars_max: least,
                })
            })?;
            Ok(Some(LookedAt {
                table: table.number,
                column: after.number,
                chars_max: least,
                mark,
            }))
        })
        .await
    }

    /// The mark since which rows may have got longer texts than `chars` in the column at
    /// `position`; `None` when one has it already.
    async fn longer(
        &self,
        catalogue: &Catalogue,
        table: &Arc<Table>,
        (position, chars): (usize, u32),
    ) -> Result<Option<Mark>, StoreError> {
        let read = async |filter, tie| {
            let query = one_row(table, filter, tie);
            let listing = Listing {
                query: &query,
                rows: true,
                total: None,
                place: false,
                bytes_max: usize::MAX,
                catalogue_epoch: catalogue.epoch,
                of_guest: false,
                shows_damaged: false,
            };
            self.shared.store.list(listing).await
        };
        let newest = read(Filter::All(Vec::new()), Direction::Desc).await?;
        let last = newest.answer.rows.first().map_or(0, |row| row.seq);
        let is_long = Filter::Field(Field::Column(position), Test::Longer(chars));
        let mut after = 0;
        while after < last {
            let to = after + SLICE_ROWS;
            let slice = Test::Between(Value::Int(after + 1), Value::Int(to));
            let slice = Filter::Field(Field::Sequence, slice);
            let filter = Filter::All(vec![slice, is_long.clone()]);
            if !read(filter, Direction::Asc).await?.answer.rows.is_empty() {
                return Ok(None);
            }
            after = to;
        }
        Ok(Some(newest.mark))
    }
}

/// The first row in order of `$sequence`, or the last, of those that `filter` names.
fn one_row(table: &Arc<Table>, filter: Filter, tie: Direction) -> Query {
    Query {
        table: Arc::clone(table),
        filter,
        order: Vec::new(),
        tie,
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
        then: None,
        at: None,
        frame: Frame::One,
        shows_span: false,
    }
}
