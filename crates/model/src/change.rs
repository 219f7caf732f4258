//! What a commit did to rows.

use crate::id::RowId;
use crate::period::Period;
use crate::schema::{SpanEnd, TableNumber};
use crate::time::{Mark, Timestamp};
use crate::value::Value;

/// One row before and after, inside a commit.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The table.
    pub table: TableNumber,
    /// The row's id.
    pub id: RowId,
    /// The row's `$sequence`.
    pub seq: i64,
    /// As it was; `None` when the commit created it.
    pub before: Option<Image>,
    /// As it became; `None` when the commit deleted it.
    pub after: Option<Image>,
}

/// A row's content on one side of a change.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// `$createdAt`
    pub created: Timestamp,
    /// `$updatedAt`
    pub updated: Timestamp,
    /// What it is valid over, as known on that side.
    pub valid: Period,
    /// Known as exactly this since.
    pub system_from: Mark,
    /// The row's grants, as in [`crate::Row::permissions`]: they decide who saw it.
    pub permissions: Box<str>,
    /// One value for each of the table's columns, in its order.
    pub values: Vec<Value>,
}

impl Image {
    /// One end of where it stands in time.
    pub fn span_end(&self, end: SpanEnd) -> Timestamp {
        match end {
            SpanEnd::ValidFrom => self.valid.from(),
            SpanEnd::ValidTo => self.valid.end(),
            SpanEnd::SystemFrom => self.system_from.timestamp(),
        }
    }

    /// Bytes this image takes in memory, about.
    pub fn size_bytes(&self) -> usize {
        let values: usize = self.values.iter().map(Value::size_bytes).sum();
        size_of::<Image>() + self.permissions.len() + values
    }
}
