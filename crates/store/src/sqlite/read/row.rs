//! A row of a result, as the model has it.

use model::{
    Content, ContentRef, Mark, Period, Row, RowId, RowRef, Selection, Span, Table, Timestamp, Value,
};
use query::{Dialect, emit};
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::row_statement::RowFound;
use super::{Step, bind};
use crate::StoreError;
use crate::error::corrupt;
use crate::sqlite::schema::coding::Coding;

/// Columns before those of the user: `$sequence`, id, created, updated, permissions.
const SYSTEM_COLUMNS: usize = 5;

/// How the rows of a statement are read.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a column of the statement, or one that is missing"
)]
pub(super) struct Shape<'a> {
    pub(super) connection: &'a Connection,
    pub(super) coding: &'a Coding,
    pub(super) table: &'a Table,
    pub(super) selection: &'a Selection,
    /// Whether the statement reads the bodies of rows of now.
    pub(super) is_now: bool,
    /// Whether it says after the columns where each row stands in time.
    pub(super) shows_span: bool,
    /// Whether that says until when it was known.
    pub(super) shows_end: bool,
    /// See [`crate::Listing::shows_damaged`].
    pub(super) shows_damaged: bool,
}

impl Shape<'_> {
    /// The row that begins at column `first` of a result. A whole row comes as its body, at
    /// whatever coordinates it was read.
    pub(super) fn read(&self, row: &rusqlite::Row<'_>, first: usize) -> Step<Row> {
        let seq: i64 = row.get(first)?;
        let user = first + SYSTEM_COLUMNS;
        let id = id(row.get_ref(first + 1)?)?;
        let mut damaged = Vec::new();
        let content = match self.selection {
            Selection::All if self.is_now => self.body(row, user, (seq, &id))?,
            Selection::All => self.encoded(self.all_values(row, user, &id)?),
            Selection::Some { columns, .. } => {
                Content::Values(self.values(row, (user, &id), columns, &mut damaged)?)
            }
        };
        Ok(Row {
            seq,
            id,
            created: Timestamp(row.get(first + 2)?),
            updated: Timestamp(row.get(first + 3)?),
            permissions: text(row.get_ref(first + 4)?)?.into(),
            content,
            span: self.span(row, user, damaged)?,
        })
    }

    /// Shows a whole row of now: as it stands there, where its body is stored.
    pub(super) fn show(&self, row: &RowFound<'_>, show: &mut dyn FnMut(RowRef<'_>)) -> Step<()> {
        let seq = row.integer(0)?;
        let id = text(row.value(1))?;
        let encoded;
        let content = match row.value(SYSTEM_COLUMNS) {
            ValueRef::Blob(body) | ValueRef::Text(body) => ContentRef::Body(body),
            _ => {
                encoded = self.encode_stored((seq, &legal_id(id)?))?;
                encoded.borrowed()
            }
        };
        show(RowRef {
            seq,
            id,
            created: Timestamp(row.integer(2)?),
            updated: Timestamp(row.integer(3)?),
            permissions: text(row.value(4))?,
            content,
            span: None,
        });
        Ok(())
    }

    /// Where the row stands in time, if that is shown, behind its columns.
    fn span(
        &self,
        row: &rusqlite::Row<'_>,
        user: usize,
        damaged: Vec<usize>,
    ) -> Step<Option<Box<Span>>> {
        if !self.shows_span {
            return Ok(None);
        }
        let columns = match self.selection {
            Selection::All => self.table.columns.len(),
            Selection::Some { columns, .. } => columns.len(),
        };
        let at = |offset| row.get::<_, i64>(user + columns + offset);
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

    /// The body as stored, copied once; or, where it is none or an older schema's, encoded again.
    fn body(
        &self,
        row: &rusqlite::Row<'_>,
        position: usize,
        named: (i64, &RowId),
    ) -> Step<Content> {
        match row.get_ref(position)? {
            ValueRef::Blob(bytes) | ValueRef::Text(bytes) => Ok(Content::Body(bytes.into())),
            _ => self.encode_stored(named),
        }
    }

    fn encode_stored(&self, (seq, id): (i64, &RowId)) -> Step<Content> {
        let statement = emit::content(self.table, seq, Dialect::Sqlite);
        let mut prepared = self.connection.prepare_cached(&statement.sql)?;
        let mut found = bind(&mut prepared, &statement.parameters)?;
        let row = found
            .next()?
            .ok_or_else(|| corrupt("a row went away inside its snapshot"))?;
        Ok(self.encoded(self.all_values(row, 0, id)?))
    }

    fn encoded(&self, values: Vec<Value>) -> Content {
        let mut body = Vec::new();
        (self.coding.encode_row)(self.table, &values, &mut body);
        Content::Body(body.into())
    }

    fn all_values(&self, row: &rusqlite::Row<'_>, first: usize, id: &RowId) -> Step<Vec<Value>> {
        let place = (self.table, id.as_str());
        Ok(self.coding.values(row, first, place)?)
    }

    /// The values of these columns of the table, which stand side by side from `first` on. Those
    /// that are shown as damaged are null, and their columns among `damaged`.
    fn values(
        &self,
        row: &rusqlite::Row<'_>,
        (first, id): (usize, &RowId),
        columns: &[usize],
        damaged: &mut Vec<usize>,
    ) -> Step<Vec<Value>> {
        let mut values = Vec::with_capacity(columns.len());
        for (offset, position) in columns.iter().enumerate() {
            let stored = row.get_ref(first + offset)?;
            let place = (
                self.table.number,
                &self.table.columns[*position],
                id.as_str(),
            );
            values.push(match self.coding.value(stored, place) {
                Err(StoreError::SealBroken { .. }) if self.shows_damaged && self.shows_span => {
                    damaged.push(*position);
                    Value::Null
                }
                value => value?,
            });
        }
        Ok(values)
    }
}

fn id(stored: ValueRef<'_>) -> Result<RowId, StoreError> {
    legal_id(text(stored)?)
}

fn legal_id(stored: &str) -> Result<RowId, StoreError> {
    RowId::new(stored).map_err(|error| corrupt(error.to_string()))
}

/// A whole row of now, to be kept.
///
/// # Errors
/// When its id is none.
pub(super) fn kept(row: RowRef<'_>) -> Result<Row, StoreError> {
    Ok(Row {
        seq: row.seq,
        id: legal_id(row.id)?,
        created: row.created,
        updated: row.updated,
        permissions: row.permissions.into(),
        content: match row.content {
            ContentRef::Body(body) => Content::Body(body.into()),
            ContentRef::Values(values) => Content::Values(values.into()),
        },
        span: row.span.cloned().map(Box::new),
    })
}

fn text(stored: ValueRef<'_>) -> Result<&str, StoreError> {
    match stored {
        ValueRef::Text(bytes) => {
            std::str::from_utf8(bytes).map_err(|_| corrupt("stored text is not UTF-8"))
        }
        other => Err(corrupt(format!(
            "a system column holds {} in the place of text",
            other.data_type()
        ))),
    }
}
