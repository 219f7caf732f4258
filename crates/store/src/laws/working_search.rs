//! What the laws of writing look for in a working set. What it does not hold, the database is
//! asked for, which is sent what is unsent before.

use std::time::Duration;

use model::{ColumnNumber, Index, IndexKind, Mark, Period, RowId, Table, Timestamp, Value};
use query::Query;

use super::bulk_rows::BulkRows;
use super::expected_links::targets;
use super::period_search::{FoundOverlaps, PeriodSearch, SharedKey};
use super::row_search::{
    DueRow, DueWanted, HoldersWanted, LinkHolders, LinksAhead, MarkOf, RowSearch, ValueHolder,
};
use super::working_set::WorkingSet;
use crate::StoreError;
use crate::batch::BATCH_ROWS_MAX;

impl<B: BulkRows> RowSearch for WorkingSet<B> {
    fn value_holders(
        &self,
        table: &Table,
        index: &Index,
        values: &[Value],
        which: HoldersWanted,
    ) -> Result<Vec<ValueHolder>, StoreError> {
        let HoldersWanted::Any { but } = which else {
            return self.behind()?.value_holders(table, index, values, which);
        };
        if index.kind != IndexKind::Unique {
            return self.behind()?.value_holders(table, index, values, which);
        }
        let holder = self.holder_of(table, index, values)?;
        let holder = holder.filter(|holder| holder.seq != but);
        let holder = holder.map(|holder| ValueHolder {
            id: holder.id,
            seq: holder.seq,
            valid: holder.image.valid,
        });
        Ok(holder.into_iter().collect())
    }

    fn is_link_held(
        &self,
        table: &Table,
        column: ColumnNumber,
        link: &Value,
        seq: i64,
    ) -> Result<bool, StoreError> {
        let Some(position) = table.numbered(column) else {
            return Ok(false);
        };
        let holder = self.holder_of_link(table, position, link)?;
        Ok(holder.is_some_and(|holder| holder.seq != seq))
    }

    fn due_rows(
        &self,
        table: &Table,
        instant: Timestamp,
        which: DueWanted<'_>,
    ) -> Result<Vec<DueRow>, StoreError> {
        let found = self.behind()?.due_rows(table, instant, which)?;
        // They are shown one by one.
        let ids: Vec<&str> = found.iter().map(|row| row.id.as_str()).collect();
        self.hold_all(table, ids)?;
        Ok(found)
    }

    fn last_mark(&self, table: &Table, of: MarkOf<'_>) -> Result<Option<Mark>, StoreError> {
        let held = self.held();
        let row = |seq| {
            held.find(table.number)
                .and_then(|of_table| of_table.row_of(seq))
        };
        let found = match of {
            MarkOf::Versions(_) => None,
            MarkOf::Grants(seq) => row(seq).map(super::held_row::HeldRow::grants_from),
            MarkOf::Rebirth(seq) => row(seq).map(super::held_row::HeldRow::reborn_at),
        };
        drop(held);
        match found {
            Some(mark) => Ok(mark),
            None => self.behind()?.last_mark(table, of),
        }
    }

    fn has_changed(
        &self,
        table: &Table,
        row: (&str, i64),
        (after, before): (Mark, Mark),
    ) -> Result<bool, StoreError> {
        let held = self.held();
        let of_table = held.find(table.number).filter(|_| !held.is_read_again);
        let found = of_table.and_then(|of_table| of_table.row(row.0));
        let found = found.filter(|found| found.seq == Some(row.1));
        if let Some(has_changed) = found.and_then(|found| found.has_changed(after, before)) {
            return Ok(has_changed);
        }
        drop(held);
        self.behind()?.has_changed(table, row, (after, before))
    }

    fn link_holders(
        &self,
        table: &Table,
        column: usize,
        id: &str,
        which: LinkHolders,
    ) -> Result<Vec<RowId>, StoreError> {
        let expected = match which {
            LinkHolders::Now { count_max } => self.expected_holders(table, column, id, count_max),
            LinkHolders::ToCome { after, count_max } => {
                self.expected_to_come(table, column, id, (after, count_max))
            }
            LinkHolders::Within { .. } => None,
        };
        if let Some(found) = expected {
            return Ok(found);
        }
        let found = self.behind()?.link_holders(table, column, id, which)?;
        let (LinkHolders::Now { count_max }
        | LinkHolders::ToCome { count_max, .. }
        | LinkHolders::Within { count_max, .. }) = which;
        // They are changed one by one; where there are so many, none is.
        if found.len() < count_max {
            self.hold_all(table, found.iter().map(RowId::as_str).collect())?;
        }
        Ok(found)
    }

    fn matching(
        &self,
        query: &Query,
        walks: bool,
        time_max: Duration,
    ) -> Result<Vec<(i64, RowId)>, StoreError> {
        let found = self.behind()?.matching(query, walks, time_max)?;
        // They are changed one by one.
        let ids: Vec<&str> = found.iter().map(|(_, id)| id.as_str()).collect();
        self.hold_all(&query.table, ids)?;
        Ok(found)
    }

    fn last_shown(&self, table: &Table) -> Result<i64, StoreError> {
        self.behind()?.last_shown(table)
    }
}

impl<B: BulkRows> LinksAhead for WorkingSet<B> {
    fn expect_links(
        &self,
        table: &Table,
        column: usize,
        ids: &[&str],
        (each_max, to_come): (usize, Option<Mark>),
    ) -> Result<(), StoreError> {
        if ids.len() < 2 {
            return Ok(());
        }
        // No batch changes more.
        let all_max = BATCH_ROWS_MAX + 1;
        if let Some(after) = to_come {
            self.expect_to_come(table, column, ids, (after, all_max))?;
        }
        let bounds = (each_max, all_max);
        let found = self.behind()?.link_holders_of(table, column, ids, bounds)?;
        if found.len() >= all_max {
            return Ok(());
        }
        // They are changed one by one, but where one alone is wanted of each.
        if each_max > 1 {
            let holders = found.iter().map(|(_, holder)| holder.as_str());
            self.hold_all(table, holders.collect())?;
        }
        let of = (table, &table.columns[column]);
        self.held().expected.take_in(of, ids, (found, each_max));
        Ok(())
    }
}

impl<B: BulkRows> WorkingSet<B> {
    fn expect_to_come(
        &self,
        table: &Table,
        column: usize,
        ids: &[&str],
        (after, all_max): (Mark, usize),
    ) -> Result<(), StoreError> {
        let wanted = (after, all_max);
        let found = self
            .behind()?
            .holders_to_come_of(table, column, ids, wanted)?;
        if found.len() >= all_max {
            return Ok(());
        }
        let holders = found.iter().map(|(_, holder)| holder.as_str());
        self.hold_all(table, holders.collect())?;
        let of = (table, &table.columns[column]);
        self.held().expected.take_in_to_come(of, ids, found);
        Ok(())
    }

    /// Rows of which a piece that begins after the mark holds a link to the row `id`, where they
    /// were looked for and what is held of each tells whether it does so yet.
    fn expected_to_come(
        &self,
        table: &Table,
        column: usize,
        id: &str,
        (after, count_max): (Mark, usize),
    ) -> Option<Vec<RowId>> {
        let held = self.held();
        let of_table = held.find(table.number);
        let expected = held.expected.to_come(table, &table.columns[column], id)?;
        let mut found = Vec::new();
        for holder in expected {
            let row = of_table?.row(holder.as_str())?;
            let holds = |values: &[Value]| targets(&values[column]).any(|target| target == id);
            if row.will_be(after.timestamp(), holds)? {
                found.push(holder.clone());
            }
        }
        found.truncate(count_max);
        Some(found)
    }

    /// Rows of now that hold a link to the row `id`, where they were looked for and so many are
    /// known, or all.
    fn expected_holders(
        &self,
        table: &Table,
        column: usize,
        id: &str,
        count_max: usize,
    ) -> Option<Vec<RowId>> {
        let held = self.held();
        let of_table = held.find(table.number);
        let expected = held.expected.holders(table, &table.columns[column], id)?;
        let holds = |holder: &&RowId| {
            let row = of_table.and_then(|of_table| of_table.row(holder.as_str()));
            // One that is not held is as the database has it.
            row.is_none_or(|row| {
                let now = row.now.as_ref();
                now.is_some_and(|now| targets(&now.image.values[column]).any(|to| to == id))
            })
        };
        let found = expected.ids.iter().filter(holds).take(count_max);
        let found: Vec<RowId> = found.cloned().collect();
        (expected.is_whole || found.len() == count_max).then_some(found)
    }
}

impl<B: BulkRows> PeriodSearch for WorkingSet<B> {
    fn sharer(
        &self,
        table: &Table,
        key: SharedKey<'_>,
        values: &[Value],
        but: &str,
        within: Period,
    ) -> Result<Option<(RowId, Period)>, StoreError> {
        self.behind()?.sharer(table, key, values, but, within)
    }

    fn valid_periods(
        &self,
        table: &Table,
        wanted: &[(&str, Period)],
    ) -> Result<Vec<Vec<Period>>, StoreError> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        self.behind()?.valid_periods(table, wanted)
    }

    fn overlaps(
        &self,
        table: &Table,
        key: &[usize],
        few: usize,
        time_max: Option<Duration>,
    ) -> Result<FoundOverlaps, StoreError> {
        self.behind()?.overlaps(table, key, few, time_max)
    }

    fn periods_referring(
        &self,
        table: &Table,
        column: usize,
        id: &str,
    ) -> Result<Vec<Period>, StoreError> {
        self.behind()?.periods_referring(table, column, id)
    }
}
