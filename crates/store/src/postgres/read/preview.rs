//! Reading inside the open transaction of a preview, on the connection that writes.

use std::pin::pin;
use std::time::Instant;

use futures_util::TryStreamExt;
use model::{Row, Selection, Table};
use query::emit::{self, Statement};
use query::{Dialect, Query, RowTest, Undecided, undecided};
use tokio_postgres::Client;

use super::found_row::RowShape;
use super::kept_statements::ReadyStatement;
use super::narrowed::narrowed;
use super::page::{FoundPage, cursor_values};
use super::point::STAMP_COLUMNS;
use super::read_halt::{ReadHalt, Step};
use super::snapshot;
use super::tested::{FETCHED_ROWS, passes};
use crate::error::corrupt;
use crate::list_read::ListingBudget;
use crate::vault::Vault;
use crate::{EncodeRow, Listed, Listing, Point, StoreError, TotalCap};

/// The driver's cursors need a transaction of its own, so the one of a preview has one by name.
const CURSOR: &str = "tested";

/// What a preview reads with.
pub(in crate::postgres) struct PreviewReads<'a> {
    pub(in crate::postgres) client: &'a Client,
    pub(in crate::postgres) encode_row: EncodeRow,
    pub(in crate::postgres) vault: &'a Vault,
    /// When its time is over.
    pub(in crate::postgres) until: Instant,
}

impl PreviewReads<'_> {
    /// As [`crate::StoreReads::list`], of what the connection sees.
    pub(in crate::postgres) async fn list(
        &self,
        listing: Listing<'_>,
    ) -> Result<Listed, StoreError> {
        self.listed(listing).await.map_err(explain)
    }

    /// As [`crate::StoreReads::get`], of what the connection sees.
    pub(in crate::postgres) async fn get(
        &self,
        point: Point<'_>,
    ) -> Result<Option<Row>, StoreError> {
        self.found(point).await.map_err(explain)
    }

    async fn listed(&self, listing: Listing<'_>) -> Step<Listed> {
        let among = narrowed(self.client, listing.query).await?;
        let query = among.as_ref().unwrap_or(listing.query);
        let left = undecided(&query.filter, Dialect::Postgres);
        let mut page = FoundPage::default();
        if listing.rows {
            page = self.page(listing, query, left.clone()).await?;
        }
        let total = match (listing.total, left) {
            (None, _) => 0,
            (Some(cap), None) => self.total(query, cap).await?,
            (Some(cap), Some(left)) => self.tested_total(query, cap, left).await?,
        };
        page.listed(listing, total)
    }

    async fn page(
        &self,
        listing: Listing<'_>,
        query: &Query,
        left: Option<Undecided>,
    ) -> Step<FoundPage> {
        let cursor = cursor_values(self.client, query).await?;
        let statement = emit::rows(query, cursor.as_deref(), Dialect::Postgres);
        let shape = RowShape {
            is_now: query.reads_bodies(),
            shows_span: query.shows_span,
            ..self.shape(&query.table, &query.selection)
        };
        let (mut page, mut budget) = (FoundPage::default(), ListingBudget::of(listing));
        let is_tested = left.is_some();
        let mut left_out = 0;
        let take = |row: &tokio_postgres::Row| {
            if is_tested && left_out < query.offset {
                left_out += 1;
                return Ok(true);
            }
            let one = shape.read(row, 0)?;
            budget.take(&one.row)?;
            page.rows.push(one);
            Ok(page.rows.len() < query.limit as usize)
        };
        match left {
            None => self.each(&statement, take).await?,
            Some(left) => {
                let test = (&*query.table, left, shape.columns());
                self.each_that_passes(&statement, test, take).await?;
            }
        }
        page.fill(self.client, &shape).await?;
        Ok(page)
    }

    /// Hands on each row, until that says that it wants no more.
    async fn each(
        &self,
        statement: &Statement,
        mut take: impl FnMut(&tokio_postgres::Row) -> Step<bool>,
    ) -> Step<()> {
        let mut found = pin!(ReadyStatement::once(statement).run(self.client).await?);
        let mut is_wanted = true;
        // To the end, where an error may stand.
        while let Some(row) = found.try_next().await? {
            is_wanted = is_wanted && take(&row)?;
        }
        Ok(())
    }

    /// The same of each that passes the test of a table, whose fields a row has from this column
    /// on. A few rows are here at a time, and those behind the last that is wanted stay there.
    async fn each_that_passes(
        &self,
        statement: &Statement,
        (table, left, first): (&Table, Undecided, usize),
        mut take: impl FnMut(&tokio_postgres::Row) -> Step<bool>,
    ) -> Step<()> {
        let declared = Statement {
            sql: format!("DECLARE {CURSOR} NO SCROLL CURSOR FOR {}", statement.sql),
            parameters: statement.parameters.clone(),
        };
        self.each(&declared, |_| Ok(true)).await?;
        let (fields, mut test) = (left.fields.clone(), RowTest::new(left));
        let fetched = self.fetch_each(|row| {
            let fields = (table, &*fields, first);
            let passes = passes(row, fields, &mut test, self.until)?;
            Ok(!passes.ok_or(StoreError::Interrupted)? || take(row)?)
        });
        let fetched = fetched.await;
        // Behind an error of the database the transaction takes nothing more.
        if !matches!(fetched, Err(ReadHalt::Database(_))) {
            self.client
                .batch_execute(&format!("CLOSE {CURSOR}"))
                .await?;
        }
        fetched
    }

    /// Hands on each row of the cursor, until that says that it wants no more.
    async fn fetch_each(
        &self,
        mut take: impl FnMut(&tokio_postgres::Row) -> Step<bool>,
    ) -> Step<()> {
        let fetch = format!("FETCH {FETCHED_ROWS} FROM {CURSOR}");
        loop {
            let rows = self.client.query_typed(&fetch, &[]).await?;
            for row in &rows {
                if !take(row)? {
                    return Ok(());
                }
            }
            if rows.len() < FETCHED_ROWS.unsigned_abs() as usize {
                return Ok(());
            }
        }
    }

    async fn total(&self, query: &Query, cap: TotalCap) -> Step<u64> {
        let cap = match cap {
            TotalCap::None => None,
            TotalCap::UpTo(cap) => Some(cap),
        };
        let statement = emit::total(query, cap, Dialect::Postgres);
        let row = ReadyStatement::once(&statement).row(self.client).await?;
        let row = row.ok_or_else(|| corrupt("a count gave no row"))?;
        Ok(row.try_get::<_, i64>(0)?.unsigned_abs())
    }

    async fn tested_total(&self, query: &Query, cap: TotalCap, left: Undecided) -> Step<u64> {
        let statement = emit::total(query, None, Dialect::Postgres);
        let most = match cap {
            TotalCap::None => u64::MAX,
            TotalCap::UpTo(most) => most,
        };
        let mut count = 0;
        self.each_that_passes(&statement, (&*query.table, left, 0), |_| {
            count += 1;
            Ok(count < most)
        })
        .await?;
        Ok(count.min(most))
    }

    async fn found(&self, point: Point<'_>) -> Step<Option<Row>> {
        let (table, id) = (point.table, point.id.as_str());
        let (selection, seen) = (point.selection, point.visibility);
        let statement = emit::point(table, id, selection, seen, Dialect::Postgres);
        let found = ReadyStatement::once(&statement).row(self.client).await?;
        let found = found.ok_or_else(|| corrupt("the table `meta` has no row"))?;
        if found.try_get::<_, Option<i64>>(STAMP_COLUMNS)?.is_none() {
            return Ok(None);
        }
        let shape = self.shape(table, selection);
        let mut one = shape.read(&found, STAMP_COLUMNS)?;
        if one.is_lacking {
            snapshot::fill(self.client, &shape, vec![&mut one.row]).await?;
        }
        Ok(Some(one.row))
    }

    /// That of a row of now.
    fn shape<'s>(&'s self, table: &'s Table, selection: &'s Selection) -> RowShape<'s> {
        RowShape {
            encode_row: self.encode_row,
            vault: self.vault,
            table,
            selection,
            is_now: true,
            shows_span: false,
            shows_end: false,
            shows_damaged: false,
        }
    }
}

/// Who is interrupted here has run out of the preview's time; the preview knows its limit.
fn explain(halt: ReadHalt) -> StoreError {
    match halt {
        ReadHalt::Store(error) => error,
        ReadHalt::Database(error) => error.into(),
        ReadHalt::Long => unreachable!("nothing is begun again elsewhere"),
    }
}
