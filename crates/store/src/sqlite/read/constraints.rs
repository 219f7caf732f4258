//! Reading what must hold over valid time.

use model::TableNumber;

use super::Readers;
use crate::StoreError;
use crate::batch::TableConstraints;
use crate::sqlite::schema::constraints;

/// From table to table along references, in either direction.
const REFERRING: &str = "WITH RECURSIVE joined(tab) AS (VALUES (?1) UNION \
  SELECT CASE o.tab WHEN joined.tab THEN o.related ELSE o.tab END \
  FROM joined JOIN over_time AS o ON o.related = joined.tab OR o.tab = joined.tab \
  WHERE o.related IS NOT NULL) SELECT tab FROM joined";

impl Readers {
    /// What [`crate::StoreReads::constraints`] promises.
    pub(in crate::sqlite) fn constraints(
        &self,
        table: TableNumber,
    ) -> Result<TableConstraints, StoreError> {
        self.look(|connection| Ok(constraints::load_of(connection, table)?))
    }

    /// What [`crate::StoreReads::referring`] promises.
    pub(in crate::sqlite) fn referring(
        &self,
        table: TableNumber,
    ) -> Result<Vec<TableNumber>, StoreError> {
        self.look(|connection| {
            let mut statement = connection.prepare_cached(REFERRING)?;
            let found = statement.query_map([table.0], |row| Ok(TableNumber(row.get(0)?)))?;
            Ok(found.collect::<Result<_, _>>()?)
        })
    }
}
