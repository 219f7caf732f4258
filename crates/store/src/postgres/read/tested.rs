//! Lists that the database does not decide alone: it gives a superset, a few rows at a time, and
//! each is tested here, page and total alike.

use std::time::Instant;

use model::{Field, Table, Value};
use query::emit::{self, Statement};
use query::{Dialect, Query, RowTest, Undecided, Unmatched};
use tokio_postgres::{IsolationLevel, Row, Transaction};

use super::lending::LentConnection;
use super::narrowed::narrowed;
use super::page::{self, FoundPage, cursor_values, place_of, settled};
use super::read_halt::{ReadHalt, Step};
use super::snapshot::{self, STAMP, Stamp};
use super::{ReadPace, SharedReads};
use crate::history_line;
use crate::list_read::ListingBudget;
use crate::postgres::cells;
use crate::{Listed, Listing, Snapshot, StoreError, TotalCap};

/// Rows that are fetched at once: some of them may hold a megabyte.
pub(super) const FETCHED_ROWS: i32 = 64;

/// Reads the rows that a statement lets through, and those that pass are left.
struct TestedRows<'a> {
    transaction: &'a Transaction<'a>,
    table: &'a Table,
    fields: Vec<Field>,
    test: RowTest,
    /// The column with the first of the fields.
    first: usize,
    until: Instant,
    limit_ms: u64,
}

pub(super) async fn list(
    shared: &SharedReads,
    lent: &mut LentConnection,
    (listing, undecided): (Listing<'_>, Undecided),
    pace: ReadPace,
) -> Step<Snapshot<Listed>> {
    let until = match pace {
        ReadPace::Long { until } => until,
        // No statement says how long the tests take, which need not end at a short limit.
        ReadPace::Short => return Err(ReadHalt::Long),
    };
    let (client, kept) = lent.parts();
    let stamp = kept.keep(client, STAMP).await?;
    lent.begin();
    let transaction = lent.client().build_transaction();
    let transaction = transaction.isolation_level(IsolationLevel::RepeatableRead);
    let transaction = transaction.read_only(true).start().await?;
    let manner = "SET LOCAL plan_cache_mode = force_custom_plan";
    transaction.batch_execute(manner).await?;
    let row = transaction.query_one(&stamp, &[]).await?;
    let stamp = Stamp {
        mark: snapshot::mark_of(&row, listing.catalogue_epoch)?,
        activated: model::Timestamp(row.try_get(2)?),
    };
    let settled = settled(listing.query, stamp);
    let query = settled.as_ref().unwrap_or(listing.query);
    history_line::check_query(query, stamp.mark)?;
    let among = narrowed(transaction.client(), query).await?;
    let query = among.as_ref().unwrap_or(query);
    let rows = |first| TestedRows {
        transaction: &transaction,
        table: &query.table,
        fields: undecided.fields.clone(),
        test: RowTest::new(undecided.clone()),
        first,
        until,
        limit_ms: shared.limit_ms,
    };
    let mut found = FoundPage::default();
    if listing.rows {
        let shape = page::shape(shared, listing, query);
        found = rows(shape.columns()).page(shared, listing, query).await?;
        found.fill(transaction.client(), &shape).await?;
    }
    let total = match listing.total {
        None => 0,
        Some(cap) => rows(0).total(query, cap).await?,
    };
    transaction.commit().await?;
    lent.end();
    Ok(Snapshot {
        answer: found.listed(listing, total)?,
        mark: stamp.mark,
    })
}

impl TestedRows<'_> {
    async fn page(
        mut self,
        shared: &SharedReads,
        listing: Listing<'_>,
        query: &Query,
    ) -> Step<FoundPage> {
        let cursor = cursor_values(self.transaction.client(), query).await?;
        let statement = page::rows(listing, query, cursor.as_deref());
        let shape = page::shape(shared, listing, query);
        let mut page = FoundPage::default();
        let (mut left_out, mut budget) = (0, ListingBudget::of(listing));
        self.each(&statement, |row| {
            if left_out < query.offset {
                left_out += 1;
                return Ok(true);
            }
            let one = shape.read(row, 0)?;
            budget.take(&one.row)?;
            page.rows.push(one);
            let is_full = page.rows.len() >= query.limit as usize;
            if is_full && listing.place {
                page.last_place = Some(place_of(row, query)?);
            }
            Ok(!is_full)
        })
        .await?;
        Ok(page)
    }

    async fn total(mut self, query: &Query, cap: TotalCap) -> Step<u64> {
        let statement = emit::total(query, None, Dialect::Postgres);
        let most = match cap {
            TotalCap::None => u64::MAX,
            TotalCap::UpTo(most) => most,
        };
        let mut count = 0;
        self.each(&statement, |_| {
            count += 1;
            Ok(count < most)
        })
        .await?;
        Ok(count.min(most))
    }

    /// Hands on each row that passes, until that says that it wants no more.
    async fn each(
        &mut self,
        statement: &Statement,
        mut take: impl FnMut(&Row) -> Step<bool>,
    ) -> Step<()> {
        let prepared = self.transaction.prepare(&statement.sql).await?;
        let parameters = statement.parameters.iter().map(cells::parameter);
        let portal = self.transaction.bind_raw(&prepared, parameters).await?;
        loop {
            let rows = self.transaction.query_portal(&portal, FETCHED_ROWS).await?;
            for row in &rows {
                if self.passes(row)? && !take(row)? {
                    return Ok(());
                }
            }
            if rows.len() < FETCHED_ROWS.unsigned_abs() as usize {
                return Ok(());
            }
        }
    }

    fn passes(&mut self, row: &Row) -> Step<bool> {
        let fields = (self.table, &*self.fields, self.first);
        let passes = passes(row, fields, &mut self.test, self.until)?;
        let limit_ms = self.limit_ms;
        passes.ok_or_else(|| StoreError::Timeout { limit_ms }.into())
    }
}

/// Whether a row passes the test of these fields of a table, the first of which stands in this
/// column; `None` when the time is over.
pub(super) fn passes(
    row: &Row,
    (table, fields, first): (&Table, &[Field], usize),
    test: &mut RowTest,
    until: Instant,
) -> Step<Option<bool>> {
    let mut is_over = move || Instant::now() >= until;
    if is_over() {
        return Ok(None);
    }
    let fields = fields.iter().enumerate();
    let values =
        fields.map(|(offset, field)| cells::field_value(row, first + offset, (table, *field)));
    let values = values.collect::<Result<Vec<Value>, _>>()?;
    match test.passes(&values, &mut is_over) {
        Ok(passes) => Ok(Some(passes)),
        Err(Unmatched::Over) => Ok(None),
        Err(Unmatched::TooHard) => Err(StoreError::PatternTooHard.into()),
    }
}
