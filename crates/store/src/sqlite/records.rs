//! Records of commits: who wrote what, when, and why.

use model::{Mark, TableNumber};
use rusqlite::params;

use super::commit::Writer;
use super::connection::{self, Location};
use crate::{Recorded, StoreError};

/// Reads records above `after` on one snapshot, by a connection of its own.
pub(super) fn read(
    location: Location<'_>,
    after: Mark,
    limit: u32,
) -> Result<Vec<Recorded>, StoreError> {
    let connection = connection::open(location)?;
    let snapshot = connection.unchecked_transaction()?;
    let mut records = Vec::new();
    let mut commits = snapshot
        .prepare("SELECT tt, meta, user, erased FROM tx WHERE tt > ?1 ORDER BY tt LIMIT ?2")?;
    let mut touched = snapshot.prepare("SELECT tab, id FROM tx_row WHERE tt = ?1")?;
    let mut rows = commits.query(params![after.0, limit])?;
    while let Some(row) = rows.next()? {
        let mark: i64 = row.get(0)?;
        let of_commit = touched.query_map([mark], |row| {
            Ok((TableNumber(row.get(0)?), row.get::<_, String>(1)?))
        })?;
        let erased: Option<i64> = row.get(3)?;
        records.push(Recorded {
            mark: Mark(mark),
            meta: row.get(1)?,
            author: row.get(2)?,
            erased: erased.map(i64::unsigned_abs),
            rows: of_commit.collect::<Result<_, _>>()?,
        });
    }
    Ok(records)
}

impl Writer {
    /// See [`crate::Store::rewind`].
    pub(super) fn rewind(&mut self) -> Result<(), StoreError> {
        self.aside(|writer| {
            writer
                .connection
                .execute_batch("DELETE FROM tx; DELETE FROM tx_row; UPDATE meta SET x_at = 0;")?;
            writer.forget_marks()
        })
    }
}
