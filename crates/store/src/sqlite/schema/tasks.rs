//! What the table `upkeep` may ask for, and how much of it one slice does.

use rusqlite::Connection;

use crate::StoreError;
use crate::error::corrupt;
use crate::laws::slices::SLICE_BYTES_MAX;

/// What the table `upkeep` may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// The table was deleted: remove its rows, then the physical tables.
    Drop,
    /// Bodies may be older than the schema: encode those again. A change that raises a table's
    /// schema epoch asks for this.
    Bodies,
    /// The table's line has risen: let go of what lies below it.
    Forget,
    /// The table is older than the counter of its bytes: count what it holds.
    Count,
}

impl Task {
    /// Written to disk: never to be changed.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Task::Drop => "drop",
            Task::Bodies => "bodies",
            Task::Forget => "forget",
            Task::Count => "count",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Task, StoreError> {
        match text {
            "drop" => Ok(Task::Drop),
            "bodies" => Ok(Task::Bodies),
            "forget" => Ok(Task::Forget),
            "count" => Ok(Task::Count),
            other => Err(corrupt(format!("unknown upkeep {other:?}"))),
        }
    }
}

/// How much a slice has removed, by the pages that came free.
pub(crate) struct Freed<'c> {
    connection: &'c Connection,
    pages_before: i64,
    page_bytes: i64,
}

impl Freed<'_> {
    /// Counts from now on.
    pub(crate) fn watch(connection: &Connection) -> Result<Freed<'_>, StoreError> {
        Ok(Freed {
            connection,
            pages_before: free_pages(connection)?,
            page_bytes: connection.pragma_query_value(None, "page_size", |row| row.get(0))?,
        })
    }

    /// Whether the slice is to end.
    pub(crate) fn is_enough(&self) -> Result<bool, StoreError> {
        let pages = free_pages(self.connection)? - self.pages_before;
        Ok(pages * self.page_bytes >= SLICE_BYTES_MAX as i64)
    }
}

fn free_pages(connection: &Connection) -> rusqlite::Result<i64> {
    let mut count = connection.prepare_cached("PRAGMA freelist_count")?;
    count.query_row((), |row| row.get(0))
}
