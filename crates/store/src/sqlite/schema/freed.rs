//! How much of what is left to do one slice does.

use rusqlite::Connection;

use crate::StoreError;
use crate::laws::slices::SLICE_BYTES_MAX;

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
