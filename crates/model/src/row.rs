//! Rows as they are read, and pages of them.

use std::sync::Arc;

use crate::id::RowId;
use crate::period::Period;
use crate::schema::{Field, Table};
use crate::time::{Mark, Timestamp};
use crate::value::Value;

/// One row as some coordinates show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// `$sequence`: rises with each new id of the table, belongs to the id for ever.
    pub seq: i64,
    /// The row's id.
    pub id: RowId,
    /// `$createdAt`, cut to milliseconds.
    pub created: Timestamp,
    /// `$updatedAt`, cut to milliseconds.
    pub updated: Timestamp,
    /// The row's grants as the JSON array of strings in which they are stored and shown.
    pub permissions: Box<str>,
    /// The user's columns.
    pub content: Content,
    /// Where on both axes it stands; `None` where it was not requested.
    pub span: Option<Box<Span>>,
}

/// Where a version of a row stands on both axes, as some coordinates show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Valid over.
    pub valid: Period,
    /// Known as exactly this since.
    pub system_from: Mark,
    /// Until when it was known, as far as that was over at the mark asked for.
    pub system_to: Option<Mark>,
    /// Whether the answer says until when: only one that shows every version does.
    pub shows_end: bool,
    /// The mark of the commit that asserted the value.
    pub origin: Mark,
    /// The positions of columns that are null because their encrypted value is damaged.
    pub damaged: Vec<usize>,
}

impl Row {
    /// Bytes of what it shows, without the system fields of fixed length.
    pub fn size_bytes(&self) -> usize {
        self.borrowed().size_bytes()
    }

    /// What it holds, borrowed.
    pub fn borrowed(&self) -> RowRef<'_> {
        RowRef {
            seq: self.seq,
            id: self.id.as_str(),
            created: self.created,
            updated: self.updated,
            permissions: &self.permissions,
            content: self.content.borrowed(),
            span: self.span.as_deref(),
        }
    }
}

/// A [`Row`] that is shown and not kept: it is borrowed from where it was read.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    /// See [`Row::seq`].
    pub seq: i64,
    /// See [`Row::id`].
    pub id: &'a str,
    /// See [`Row::created`].
    pub created: Timestamp,
    /// See [`Row::updated`].
    pub updated: Timestamp,
    /// See [`Row::permissions`].
    pub permissions: &'a str,
    /// See [`Row::content`].
    pub content: ContentRef<'a>,
    /// See [`Row::span`].
    pub span: Option<&'a Span>,
}

impl RowRef<'_> {
    /// See [`Row::size_bytes`].
    pub fn size_bytes(&self) -> usize {
        let content = match self.content {
            ContentRef::Body(body) => body.len(),
            ContentRef::Values(values) => values.iter().map(Value::size_bytes).sum(),
        };
        content + self.permissions.len() + self.id.len()
    }
}

impl Content {
    /// The same, borrowed.
    pub fn borrowed(&self) -> ContentRef<'_> {
        match self {
            Content::Body(body) => ContentRef::Body(body),
            Content::Values(values) => ContentRef::Values(values),
        }
    }
}

/// A [`Content`], borrowed.
#[derive(Clone, Copy, Debug)]
pub enum ContentRef<'a> {
    /// See [`Content::Body`].
    Body(&'a [u8]),
    /// See [`Content::Values`].
    Values(&'a [Value]),
}

/// The user's columns of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// As encoded when the row was written, by the encoder the store was opened with. All
    /// columns of today's schema, in its order.
    Body(Box<[u8]>),
    /// One value for each column that was asked for, in the order asked.
    Values(Vec<Value>),
}

/// One page of a list, or the rows a write returns.
#[derive(Clone, Debug)]
pub struct Page {
    /// The schema the rows were read under.
    pub table: Arc<Table>,
    /// What was selected; [`Content::Values`] follow the order of [`Selection::columns`].
    pub selection: Selection,
    /// The rows in the order asked for.
    pub rows: Vec<Row>,
    /// Relationships that were asked for, each once.
    pub related: Vec<Related>,
}

impl Page {
    /// Bytes of what it shows, by [`Row::size_bytes`], where a related row counts as often as it is
    /// shown: one that a thousand rows are related to is written a thousand times.
    pub fn size_bytes(&self) -> usize {
        if self.related.is_empty() {
            return self.rows.iter().map(Row::size_bytes).sum();
        }
        let rows = self.sizes_bytes().into_iter();
        rows.fold(0, usize::saturating_add)
    }

    fn sizes_bytes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.rows.iter().map(Row::size_bytes).collect();
        for related in &self.related {
            let of_related = related.page.sizes_bytes();
            for (size, links) in sizes.iter_mut().zip(&related.links) {
                let shown = links.iter().map(|at| of_related[*at]);
                *size = shown.fold(*size, usize::saturating_add);
            }
        }
        sizes
    }
}

/// What the rows of a page are related to through one column.
#[derive(Clone, Debug)]
pub struct Related {
    /// The position of the column in the table of the page.
    pub column: usize,
    /// The related rows that the actor may see, each once.
    pub page: Page,
    /// For each row of the page the positions of its related rows.
    pub links: Vec<Vec<usize>>,
}

/// Which fields an answer shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Selection {
    /// System fields and every column.
    All,
    /// The named ones; `$databaseId` and `$tableId` are always shown.
    Some {
        /// Positions in [`Table::columns`], each once, in the table's order.
        columns: Vec<usize>,
        /// `$id`, `$sequence`, `$createdAt`, `$updatedAt` if named.
        fields: Vec<Field>,
        /// Whether `$permissions` was named.
        permissions: bool,
    },
}

/// An answer and the mark at which it is true.
#[derive(Clone, Debug)]
pub struct Marked<T> {
    /// The answer.
    pub answer: T,
    /// The mark of the snapshot it was read from.
    pub mark: Mark,
}

impl<T> Marked<T> {
    /// What `change` makes of the answer, at the same mark.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Marked<U> {
        Marked {
            answer: change(self.answer),
            mark: self.mark,
        }
    }
}
