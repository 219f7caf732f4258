//! What is left to do while no request waits for it, in bounded slices that take no mark.

mod rewind;

use std::sync::Arc;

use model::{Table, TableNumber, Value};
use query::names;
use rusqlite::{Connection, OptionalExtension, params};

use super::commit::writer::Writer;
use super::schema::coding::Coding;
use super::schema::columns::column_list;
use super::schema::fulltext;
use super::schema::links;
use super::schema::sizes;
use super::schema::tables::{drop_table, physical_tables};
use super::schema::tasks::{Freed, Task};
use super::write::forget::forget_slice;
use crate::StoreError;
use crate::error::corrupt;
use crate::function_op::PIECE_BYTES_MAX;
use crate::laws::slices::{SLICE_BYTES_MAX, SLICE_ROWS_MAX, STEP_ROWS};

impl Writer {
    /// Does one slice; says whether more is waiting.
    pub(super) fn run_upkeep(&mut self) -> Result<bool, StoreError> {
        if has_pieces_gone(&self.connection)? {
            return self.in_own_transaction(|writer| {
                remove_pieces(&writer.connection)?;
                remove_executions(&writer.connection)?;
                remove_calls(&writer.connection)?;
                remove_old_executions(&writer.connection)?;
                let connection = &writer.connection;
                Ok(has_pieces_gone(connection)? || next_task(connection)?.is_some())
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

/// The next task. How far indexes of words are filled stands in the same table (`fulltext.rs`).
fn next_task(connection: &Connection) -> Result<Option<(TableNumber, Task, i64)>, StoreError> {
    let found: Option<(i64, String, i64)> = connection
        .prepare_cached(
            "SELECT tab, task, seq FROM upkeep WHERE task NOT GLOB 'words*' \
             ORDER BY tab, task LIMIT 1",
        )?
        .query_row((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    found
        .map(|(number, task, from)| Ok((TableNumber(number), Task::parse(&task)?, from)))
        .transpose()
}

fn has_pieces_gone(connection: &Connection) -> Result<bool, StoreError> {
    let any = "SELECT 1 FROM pieces_gone UNION ALL SELECT 1 FROM executions_gone \
               UNION ALL SELECT 1 FROM calls_gone UNION ALL SELECT 1 FROM executions_old LIMIT 1";
    let mut any = connection.prepare_cached(any)?;
    Ok(any.exists(())?)
}

/// Removes pieces of a deployment that is gone, at most [`SLICE_BYTES_MAX`] of them.
fn remove_pieces(connection: &Connection) -> Result<(), StoreError> {
    let pieces = SLICE_BYTES_MAX / PIECE_BYTES_MAX;
    let removed = connection
        .prepare_cached(
            "DELETE FROM deployment_piece WHERE rowid IN (SELECT rowid FROM deployment_piece \
             WHERE deployment = (SELECT min(deployment) FROM pieces_gone) LIMIT ?1)",
        )?
        .execute(params![pieces as i64])?;
    if removed < pieces {
        let gone = "DELETE FROM pieces_gone \
                    WHERE deployment = (SELECT min(deployment) FROM pieces_gone)";
        connection.prepare_cached(gone)?.execute(())?;
    }
    Ok(())
}

/// Removes records of executions of a function that is gone, of at most about
/// [`SLICE_BYTES_MAX`]: the row that passes it is the last one.
fn remove_executions(connection: &Connection) -> Result<(), StoreError> {
    let gone = "SELECT min(function) FROM executions_gone";
    let Some(function) = connection
        .prepare_cached(gone)?
        .query_row((), |row| row.get::<_, Option<i64>>(0))?
    else {
        return Ok(());
    };
    let (mut bytes, mut count) = (0, 0);
    while bytes < SLICE_BYTES_MAX as i64 && count < SLICE_ROWS_MAX {
        let removed: Option<i64> = connection
            .prepare_cached(
                "DELETE FROM execution WHERE seq = (SELECT seq FROM execution \
                 WHERE function = ?1 ORDER BY seq LIMIT 1) RETURNING bytes",
            )?
            .query_row([function], |row| row.get(0))
            .optional()?;
        let Some(removed) = removed else {
            connection
                .prepare_cached("DELETE FROM executions_gone WHERE function = ?1")?
                .execute([function])?;
            return Ok(());
        };
        bytes += removed;
        count += 1;
    }
    Ok(())
}

/// Removes the oldest records of a function that keeps them no longer: at most
/// [`SLICE_ROWS_MAX`], and at most about [`SLICE_BYTES_MAX`].
fn remove_old_executions(connection: &Connection) -> Result<(), StoreError> {
    let next = "SELECT function, count_max, bytes_max, since, count, bytes FROM executions_old \
                JOIN execution_kept USING (function) ORDER BY function LIMIT 1";
    let next = connection
        .prepare_cached(next)?
        .query_row((), |row| {
            let limits: (i64, i64, i64) = (row.get(1)?, row.get(2)?, row.get(3)?);
            Ok((row.get(0)?, limits, row.get(4)?, row.get(5)?))
        })
        .optional()?;
    let Some((function, (count_max, bytes_max, since), count, bytes)) = next else {
        return Ok(());
    };
    let (function, count, bytes): (i64, i64, i64) = (function, count, bytes);
    let mut oldest = connection.prepare_cached(
        "SELECT seq, bytes, created FROM execution WHERE function = ?1 ORDER BY seq LIMIT 1",
    )?;
    let mut remove = connection.prepare_cached("DELETE FROM execution WHERE seq = ?1")?;
    let (mut removed, mut removed_bytes, mut is_more) = (0, 0, true);
    while removed < SLICE_ROWS_MAX as i64 && removed_bytes < SLICE_BYTES_MAX as i64 {
        let oldest: Option<(i64, i64, i64)> = oldest
            .query_row([function], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()?;
        let is_kept = |created| {
            count - removed <= count_max && bytes - removed_bytes <= bytes_max && created >= since
        };
        let Some((seq, of_it, _)) = oldest.filter(|(_, _, created)| !is_kept(*created)) else {
            is_more = false;
            break;
        };
        remove.execute([seq])?;
        removed += 1;
        removed_bytes += of_it;
    }
    connection
        .prepare_cached(
            "UPDATE execution_kept SET count = count - ?2, bytes = bytes - ?3 WHERE function = ?1",
        )?
        .execute([function, removed, removed_bytes])?;
    if !is_more {
        connection
            .prepare_cached("DELETE FROM executions_old WHERE function = ?1")?
            .execute([function])?;
    }
    Ok(())
}

/// Removes what the handlers of a deleted function were to be given, of at most about
/// [`SLICE_BYTES_MAX`]: the one that passes it is the last one.
fn remove_calls(connection: &Connection) -> Result<(), StoreError> {
    let (mut bytes, mut count) = (0, 0);
    while bytes < SLICE_BYTES_MAX as i64 && count < SLICE_ROWS_MAX {
        let next = "DELETE FROM calls_gone WHERE seq = (SELECT min(seq) FROM calls_gone) \
                    RETURNING seq";
        let next: Option<i64> = connection
            .prepare_cached(next)?
            .query_row((), |row| row.get(0))
            .optional()?;
        let Some(seq) = next else {
            return Ok(());
        };
        let removed = "DELETE FROM queued_call WHERE seq = ?1 RETURNING length(call)";
        let removed: Option<i64> = connection
            .prepare_cached(removed)?
            .query_row([seq], |row| row.get(0))
            .optional()?;
        bytes += removed.unwrap_or_default();
        count += 1;
    }
    Ok(())
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
