//! What is left to do while no request waits for it, in bounded slices that take no mark.

mod rewind;

use std::sync::Arc;

use model::{Table, TableNumber, Value};
use query::names;
use rusqlite::{Connection, params};

use super::commit::writer::Writer;
use super::schema::coding::Coding;
use super::schema::columns::column_list;
use super::schema::freed::Freed;
use super::schema::fulltext;
use super::schema::links;
use super::schema::sizes;
use super::schema::stored_reads;
use super::schema::tables::{drop_table, physical_tables};
use super::write::forget::forget_slice;
use crate::StoreError;
use crate::error::corrupt;
use crate::laws::left_of_functions;
use crate::laws::slices::{SLICE_BYTES_MAX, SLICE_ROWS_MAX, STEP_ROWS};
use crate::laws::tasks::Task;
use crate::stored::upkeep;

impl Writer {
    /// Does one slice; says whether more is waiting.
    pub(crate) fn run_upkeep(&mut self) -> Result<bool, StoreError> {
        if left_of_functions::is_any(&self.rows())? {
            return self.in_own_transaction(|writer| {
                let rows = writer.rows();
                left_of_functions::remove_slice(&rows)?;
                let is_more = left_of_functions::is_any(&rows)?;
                Ok(is_more || next_task(&writer.connection)?.is_some())
            });
        }
        if next_task(&self.connection)?.is_none() {
            return Ok(false);
        }
        self.in_own_transaction(|writer| {
            let Some((number, task, from)) = next_task(&writer.connection)? else {
                return Ok(false);
            };
            let rest = match task {
                Task::Drop => remove_slice(&writer.connection, number)?.then_some(from),
                Task::Bodies => writer.encode_slice(number, from)?,
                Task::Forget => {
                    let table = writer.table_of_task(number)?;
                    forget_slice(&writer.connection, &writer.state.growth, &table, from)?
                }
                Task::Count => writer.count_slice(number, from)?,
            };
            match rest {
                Some(from) => writer
                    .connection
                    .prepare_cached("UPDATE upkeep SET seq = ?3 WHERE tab = ?1 AND task = ?2")?
                    .execute(params![number.0, task.as_str(), from])?,
                None => writer
                    .connection
                    .prepare_cached("DELETE FROM upkeep WHERE tab = ?1 AND task = ?2")?
                    .execute(params![number.0, task.as_str()])?,
            };
            Ok(next_task(&writer.connection)?.is_some())
        })
    }

    /// Counts the next versions after `from`; where to go on.
    fn count_slice(&mut self, number: TableNumber, from: i64) -> Result<Option<i64>, StoreError> {
        let slice = sizes::slice(&self.connection, number, from)?;
        let bytes = slice.as_ref().map_or(0, |slice| slice.bytes);
        let rest = slice.filter(|slice| slice.is_more).map(|slice| slice.last);
        self.state.growth.counted(number, bytes, rest);
        Ok(rest)
    }

    fn table_of_task(&self, number: TableNumber) -> Result<Arc<Table>, StoreError> {
        let table = self.committed.catalogue.table_by_number(number);
        let gone = || corrupt(format!("upkeep of table {}, which is gone", number.0));
        table.cloned().ok_or_else(gone)
    }

    /// Encodes the stale bodies among the next rows after `$sequence` `from`; where to go on.
    fn encode_slice(&self, number: TableNumber, from: i64) -> Result<Option<i64>, StoreError> {
        let table = &*self.table_of_task(number)?;
        if table.columns.iter().any(|column| column.encrypt) {
            return self.clear_slice(table, from);
        }
        let (rows, is_full) = slice(&self.connection, &self.coding, table, from)?;
        let last = rows.last().map(|row| row.seq).filter(|_| is_full);
        let sql = format!(
            "UPDATE {} SET body = ?2, body_epoch = ?3 WHERE seq = ?1",
            names::now(number)
        );
        let mut update = self.connection.prepare_cached(&sql)?;
        for row in rows.iter().filter(|row| row.is_stale) {
            let body = self.coding.body(table, &row.values);
            update.execute(params![row.seq, body.as_deref(), table.schema_epoch as i64])?;
        }
        Ok(last)
    }

    /// As `encode_slice`, where no body is kept: nothing has to be read, so that a value that was
    /// damaged on the disk does not keep this and all later upkeep from going on.
    fn clear_slice(&self, table: &Table, from: i64) -> Result<Option<i64>, StoreError> {
        let now = names::now(table.number);
        let next = format!(
            "SELECT max(seq), count(*) FROM \
             (SELECT seq FROM {now} WHERE seq > ?1 ORDER BY seq LIMIT {SLICE_ROWS_MAX})"
        );
        let (last, count): (Option<i64>, i64) = self
            .connection
            .prepare_cached(&next)?
            .query_row(params![from], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let Some(last) = last else {
            return Ok(None);
        };
        let clear = format!(
            "UPDATE {now} SET body = NULL, body_epoch = ?3 \
             WHERE seq > ?1 AND seq <= ?2 AND body_epoch <> ?3"
        );
        self.connection.prepare_cached(&clear)?.execute(params![
            from,
            last,
            table.schema_epoch as i64
        ])?;
        Ok((count == SLICE_ROWS_MAX as i64).then_some(last))
    }
}

struct SliceRow {
    seq: i64,
    is_stale: bool,
    values: Vec<Value>,
}

/// The next rows, and whether there may be more behind them.
fn slice(
    connection: &Connection,
    coding: &Coding,
    table: &Table,
    from: i64,
) -> Result<(Vec<SliceRow>, bool), StoreError> {
    let list = column_list(table);
    let sql = format!(
        "SELECT seq, body_epoch, id{list} FROM {} WHERE seq > ?1 ORDER BY seq \
         LIMIT {SLICE_ROWS_MAX}",
        names::now(table.number)
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![from])?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        if bytes >= SLICE_BYTES_MAX {
            return Ok((found, true));
        }
        let id: String = row.get(2)?;
        let values = coding.values(row, 3, (table, &id))?;
        bytes += values.iter().map(Value::size_bytes).sum::<usize>();
        found.push(SliceRow {
            seq: row.get(0)?,
            is_stale: row.get::<_, i64>(1)? != table.schema_epoch as i64,
            values,
        });
    }
    let is_full = found.len() == SLICE_ROWS_MAX;
    Ok((found, is_full))
}

/// The next task.
fn next_task(connection: &Connection) -> Result<Option<(TableNumber, Task, i64)>, StoreError> {
    let left = stored_reads::first(connection, &upkeep::next_task())?;
    let left = left.map(|left| Ok((left.table, Task::parse(&left.task)?, left.from)));
    left.transpose()
}

/// Removes rows of a deleted table, and in the end its physical tables; whether any are left.
/// Removed row by row, because dropping a large table at once would hold up every commit.
fn remove_slice(connection: &Connection, number: TableNumber) -> Result<bool, StoreError> {
    let mut room = SLICE_ROWS_MAX;
    let freed = Freed::watch(connection)?;
    for table in physical_tables(number) {
        let sql =
            format!("DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} LIMIT ?1)");
        loop {
            let step = room.min(STEP_ROWS);
            let removed = connection
                .prepare_cached(&sql)?
                .execute(params![step as i64])?;
            room -= removed;
            if room == 0 || freed.is_enough()? {
                return Ok(true);
            }
            if removed < step {
                break;
            }
        }
    }
    fulltext::drop_all(connection, number)?;
    connection.execute_batch(&drop_table(number))?;
    // Last, because the triggers on the rows of now write to them.
    links::drop_all(connection, number)?;
    Ok(false)
}

#[cfg(test)]
pub(crate) mod tests;
