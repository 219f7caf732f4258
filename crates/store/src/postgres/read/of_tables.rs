//! What is stored of tables beside their rows: when rows were erased, and what must hold over
//! valid time.

use model::{Mark, TableNumber};

use super::lending::LentConnection;
use super::{DatabaseRead, ReadFuture, ReadPace, SharedReads};
use crate::TableConstraints;
use crate::stored_constraint;

/// From table to table along references, in either direction.
const REFERRING: &str = "WITH RECURSIVE joined(tab) AS (SELECT $1::bigint UNION \
  SELECT CASE o.tab WHEN joined.tab THEN o.related ELSE o.tab END \
  FROM joined JOIN over_time AS o ON o.related = joined.tab OR o.tab = joined.tab \
  WHERE o.related IS NOT NULL) SELECT tab FROM joined";

/// The last erasure of these tables.
pub(super) struct LastErasure(pub(super) Vec<TableNumber>);

/// The constraints of a table.
pub(super) struct ConstraintsOf(pub(super) TableNumber);

/// The tables that references join with one.
pub(super) struct ReferringTo(pub(super) TableNumber);

impl DatabaseRead for LastErasure {
    type Answer = Option<Mark>;

    fn may_be_short(&self) -> bool {
        true
    }

    fn read<'a>(
        &'a self,
        _: &'a SharedReads,
        lent: &'a mut LentConnection,
        _: ReadPace,
    ) -> ReadFuture<'a, Option<Mark>> {
        Box::pin(async move {
            let numbers: Vec<i64> = self.0.iter().map(|table| table.0).collect();
            let sql = "SELECT max(tt) FROM erasure WHERE tab = ANY ($1::bigint[])";
            let (client, kept) = lent.parts();
            let statement = kept.keep(client, sql).await?;
            lent.begin();
            let found = lent.client().query_one(&statement, &[&numbers]).await?;
            lent.end();
            Ok(found.try_get::<_, Option<i64>>(0)?.map(Mark))
        })
    }
}

impl DatabaseRead for ConstraintsOf {
    type Answer = TableConstraints;

    fn may_be_short(&self) -> bool {
        true
    }

    fn read<'a>(
        &'a self,
        _: &'a SharedReads,
        lent: &'a mut LentConnection,
        _: ReadPace,
    ) -> ReadFuture<'a, TableConstraints> {
        Box::pin(async move {
            let sql = "SELECT kind, columns, related FROM over_time \
                       WHERE tab = $1::bigint ORDER BY place";
            let (client, kept) = lent.parts();
            let statement = kept.keep(client, sql).await?;
            lent.begin();
            let rows = lent.client().query(&statement, &[&self.0.0]).await?;
            lent.end();
            let mut found = TableConstraints::default();
            for row in rows {
                let related: Option<i64> = row.try_get(2)?;
                let (kind, columns) = (row.try_get(0)?, row.try_get(1)?);
                found.add(stored_constraint::read(kind, columns, related)?);
            }
            Ok(found)
        })
    }
}

impl DatabaseRead for ReferringTo {
    type Answer = Vec<TableNumber>;

    fn may_be_short(&self) -> bool {
        true
    }

    fn read<'a>(
        &'a self,
        _: &'a SharedReads,
        lent: &'a mut LentConnection,
        _: ReadPace,
    ) -> ReadFuture<'a, Vec<TableNumber>> {
        Box::pin(async move {
            let (client, kept) = lent.parts();
            let statement = kept.keep(client, REFERRING).await?;
            lent.begin();
            let rows = lent.client().query(&statement, &[&self.0.0]).await?;
            lent.end();
            let numbers = rows.iter().map(|row| Ok(TableNumber(row.try_get(0)?)));
            numbers.collect()
        })
    }
}
