//! A row of a result, as the model has it.

use model::{Content, Mark, Period, RowId, Selection, Span, Table, Timestamp, Value};
use tokio_postgres::Row;

use crate::error::corrupt;
use crate::postgres::cells;
use crate::vault::Vault;
use crate::{EncodeRow, StoreError};

/// Columns before those of the user: `$sequence`, id, created, updated, permissions.
const SYSTEM_COLUMNS: usize = 5;
/// Columns that say where a row stands in time.
const SPAN_COLUMNS: usize = 5;

type Read<T> = Result<T, StoreError>;

/// How the rows of a statement are read.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one thing that is read, or not"
)]
#[derive(Clone, Copy)]
pub(super) struct RowShape<'a> {
    pub(super) encode_row: EncodeRow,
    pub(super) vault: &'a Vault,
    pub(super) table: &'a Table,
    pub(super) selection: &'a Selection,
    /// Whether the statement reads the bodies of rows of now.
    pub(super) is_now: bool,
    /// Whether it says after the columns where each row stands in time.
    pub(super) shows_span: bool,
    /// Whether that says until when it was known.
    pub(super) shows_end: bool,
    /// Whether a row with a span comes without what is encrypted and damaged of it.
    pub(super) shows_damaged: bool,
}

/// A row that was read.
pub(super) struct FoundRow {
    pub(super) row: model::Row,
    /// Whether its body is none, or an older schema's: its columns are read apart.
    pub(super) is_lacking: bool,
}

impl RowShape<'_> {
    /// The row that begins at column `first` of a result. A whole row comes as its body, at
    /// whatever coordinates it was read.
    pub(super) fn read(&self, row: &Row, first: usize) -> Read<FoundRow> {
        let user = first + SYSTEM_COLUMNS;
        let id: &str = row.try_get(first + 1)?;
        let id = RowId::new(id).map_err(|error| corrupt(error.to_string()))?;
        let mut damaged = Vec::new();
        let content = match self.selection {
            Selection::All if self.is_now => {
                let body: Option<&[u8]> = row.try_get(user)?;
                body.map(|body| Content::Body(body.into()))
            }
            Selection::All => {
                let all = 0..self.table.columns.len();
                let values = all.map(|position| self.value(row, user + position, (position, &id)));
                Some(self.encoded(&values.collect::<Read<Vec<_>>>()?))
            }
            Selection::Some { columns, .. } => {
                let values = columns.iter().enumerate();
                let values = values.map(|(offset, position)| {
                    match self.value(row, user + offset, (*position, &id)) {
                        Err(StoreError::SealBroken { .. })
                            if self.shows_damaged && self.shows_span =>
                        {
                            damaged.push(*position);
                            Ok(Value::Null)
                        }
                        value => value,
                    }
                });
                Some(Content::Values(values.collect::<Read<_>>()?))
            }
        };
        Ok(FoundRow {
            is_lacking: content.is_none(),
            row: model::Row {
                seq: row.try_get(first)?,
                id,
                created: Timestamp(row.try_get(first + 2)?),
                updated: Timestamp(row.try_get(first + 3)?),
                permissions: row.try_get::<_, &str>(first + 4)?.into(),
                content: content.unwrap_or_else(|| Content::Body([].into())),
                span: self.span(row, user, damaged)?,
            },
        })
    }

    /// The row's body, from its columns, which begin a result.
    pub(super) fn body(&self, row: &Row, id: &RowId) -> Read<Content> {
        let all = 0..self.table.columns.len();
        let values = all.map(|position| self.value(row, position, (position, id)));
        Ok(self.encoded(&values.collect::<Read<Vec<_>>>()?))
    }

    fn encoded(&self, values: &[Value]) -> Content {
        let mut body = Vec::new();
        (self.encode_row)(self.table, values, &mut body);
        Content::Body(body.into())
    }

    fn user_columns(&self) -> usize {
        match self.selection {
            Selection::All if self.is_now => 1,
            Selection::All => self.table.columns.len(),
            Selection::Some { columns, .. } => columns.len(),
        }
    }

    /// Where the row stands in time, if that is shown, behind its columns.
    fn span(&self, row: &Row, user: usize, damaged: Vec<usize>) -> Read<Option<Box<Span>>> {
        if !self.shows_span {
            return Ok(None);
        }
        let first = user + self.user_columns();
        let at = |offset: usize| row.try_get::<_, i64>(first + offset);
        let valid = Period::new(Timestamp(at(0)?), Some(Timestamp(at(1)?)));
        let system_to = at(3)?;
        Ok(Some(Box::new(Span {
            valid: valid.map_err(|error| corrupt(error.to_string()))?,
            system_from: Mark(at(2)?),
            system_to: (system_to < i64::MAX).then_some(Mark(system_to)),
            shows_end: self.shows_end,
            origin: Mark(at(4)?),
            damaged,
        })))
    }

    /// The first column behind those of a row that begins the result.
    pub(super) fn columns(&self) -> usize {
        let span = if self.shows_span { SPAN_COLUMNS } else { 0 };
        SYSTEM_COLUMNS + self.user_columns() + span
    }

    fn value(&self, row: &Row, at: usize, (position, id): (usize, &RowId)) -> Read<Value> {
        let column = &self.table.columns[position];
        if !column.encrypt {
            return cells::value(row, at, column);
        }
        match row.try_get::<_, Option<&[u8]>>(at)? {
            None => Ok(Value::Null),
            Some(sealed) => {
                let place = (self.table.number, column, id.as_str());
                self.vault.open_value(sealed, place)
            }
        }
    }
}
