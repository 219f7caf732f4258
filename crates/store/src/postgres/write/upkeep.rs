//! What is left to do between commits, in slices: what functions have left, bodies of older
//! schemas, versions below the line of their table, and, of a store that was copied before it had
//! counted them, the bytes of versions.

use std::sync::Arc;

use model::{Table, Value};
use query::names;
use tokio_postgres::Row;

use super::array_lists::ArrayLists;
use super::rows::{PostgresRows, columns_of};
use super::session::SqlCall;
use super::writer::{AppliedGroup, BesideRows, DatabaseWriter, GroupEnd};
use crate::StoreError;
use crate::error::corrupt;
use crate::laws::body::body_to_keep;
use crate::laws::growth::Growth;
use crate::laws::left_of_functions;
use crate::laws::slices::{SLICE_BYTES_MAX, SLICE_ROWS_MAX};
use crate::laws::stored_tables::StoredTables as _;
use crate::laws::tasks::Task;
use crate::postgres::cells;
use crate::stored::change::StoredChange;
use crate::stored::upkeep::{TaskLeft, next_task};

impl DatabaseWriter {
    /// Does one slice; says whether more is waiting.
    ///
    /// # Errors
    /// What the database says; then nothing of it is done, or all.
    pub(crate) fn run_upkeep(&mut self) -> Result<bool, StoreError> {
        let ran = self.upkeep_slice().inspect_err(|_| {
            // What was said first tells more.
            let _ = self.session().rollback();
        });
        let Some((group, is_more)) = ran? else {
            self.session().rollback()?;
            return Ok(false);
        };
        match self.commit(group) {
            GroupEnd::Done(_) => Ok(is_more),
            GroupEnd::Nothing(error) => Err(error),
            // It is there or not, which the next one to take the store finds.
            GroupEnd::Unknown(end) => {
                self.session().give_up(&end.cause);
                Err(end.cause)
            }
        }
    }

    /// A slice that was done, and whether more is waiting.
    fn upkeep_slice(&self) -> Result<Option<(AppliedGroup, bool)>, StoreError> {
        let beside = BesideRows::default();
        let rows = self.rows(&beside);
        self.begin_alone()?;
        let mut state = self.committed().clone();
        if left_of_functions::is_any(&rows)? {
            left_of_functions::remove_slice(&rows)?;
            let is_more =
                left_of_functions::is_any(&rows)? || rows.first_stored(&next_task())?.is_some();
            return Ok(Some((AppliedGroup::of_upkeep(state), is_more)));
        }
        let Some(left) = rows.first_stored(&next_task())? else {
            return Ok(None);
        };
        let table = state.catalogue.table_by_number(left.table);
        let table = table
            .cloned()
            .ok_or_else(|| corrupt(format!("upkeep of table {}, which is gone", left.table.0)))?;
        let rest = match Task::parse(&left.task)? {
            Task::Bodies => self.encode_slice(&rows, &table, left.from)?,
            Task::Forget => forget_slice(&rows, &state.growth, &table, left.from)?,
            Task::Count => count_slice(&rows, &mut state.growth, &table, left.from)?,
            // A table goes at once here.
            Task::Drop => return Err(corrupt("the upkeep of a deleted table is left")),
        };
        rows.change_stored(&goes_on(left, rest))?;
        let is_more = rows.first_stored(&next_task())?.is_some();
        state.growth.settle();
        Ok(Some((AppliedGroup::of_upkeep(state), is_more)))
    }

    /// Encodes the stale bodies among the next rows after `$sequence` `from`; where to go on.
    fn encode_slice(
        &self,
        rows: &PostgresRows<'_>,
        table: &Arc<Table>,
        from: i64,
    ) -> Result<Option<i64>, StoreError> {
        let now = names::now(table.number);
        // Where no body is kept, nothing has to be read: a damaged value keeps no upkeep from
        // going on.
        let keeps_body = !table.columns.iter().any(|column| column.encrypt);
        let columns = if keeps_body {
            columns_of(table, "v")
        } else {
            String::new()
        };
        let of_row = format!("v.seq, v.body_epoch{columns}");
        let found = slice(rows, table, (&of_row, &now, "seq"), from)?;
        let epoch = table.schema_epoch as i64;
        let (mut seqs, mut bodies) = (Vec::new(), Vec::new());
        for row in &found {
            if row.try_get::<_, i64>(1)? != epoch {
                seqs.push(row.try_get::<_, i64>(0)?);
                bodies.push(if keeps_body {
                    self.body_of(table, row)?
                } else {
                    None
                });
            }
        }
        if !seqs.is_empty() {
            let mut lists = ArrayLists::default();
            lists.numbers("seq", seqs.iter().copied());
            lists.numbers("body_epoch", seqs.iter().map(|_| epoch));
            lists.maybe_bytes("body", bodies.into_iter());
            let sql = format!(
                "UPDATE {now} AS x SET {} FROM {} WHERE x.seq = u.seq",
                lists.assignments(),
                lists.rows()
            );
            rows.session
                .call(SqlCall::new(sql, lists.into_parameters()))?;
        }
        last(&found)
    }

    /// What is kept for readers of a row whose columns stand behind two others.
    fn body_of(&self, table: &Table, row: &Row) -> Result<Option<Vec<u8>>, StoreError> {
        let columns = table.columns.iter().enumerate();
        let values = columns.map(|(at, column)| cells::value(row, 2 + at, column));
        let values: Vec<Value> = values.collect::<Result<_, _>>()?;
        let body = body_to_keep(self.encode_row(), table, &values);
        Ok(body.map(Vec::from))
    }
}

/// Looks at the next versions after `from`; where to go on, if there may be more.
fn forget_slice(
    rows: &PostgresRows<'_>,
    growth: &Growth,
    table: &Table,
    from: i64,
) -> Result<Option<i64>, StoreError> {
    let versions = names::versions(table.number);
    let found = slice(rows, table, ("v.rid", &versions, "rid"), from)?;
    let last = last(&found)?;
    if let Some(last) = last {
        let which = "v.rid > $2 AND v.rid <= $3";
        let all = || -> Vec<cells::SqlParameter> { vec![Box::new(from), Box::new(last)] };
        rows.forget(table, (which, &all), table.options.kept_from, growth)?;
    }
    Ok(last)
}

/// Counts the next versions after `from`; where to go on, if there may be more.
fn count_slice(
    rows: &PostgresRows<'_>,
    growth: &mut Growth,
    table: &Table,
    from: i64,
) -> Result<Option<i64>, StoreError> {
    let versions = names::versions(table.number);
    let found = slice(rows, table, ("v.rid, v.size", &versions, "rid"), from)?;
    let mut bytes = 0;
    for row in &found {
        bytes += row.try_get::<_, i64>(1)?;
    }
    let last = last(&found)?;
    growth.counted(table.number, bytes, last);
    Ok(last)
}

/// The next rows of a table behind `from`, in the order of `key`, until they hold so many bytes.
fn slice(
    rows: &PostgresRows<'_>,
    table: &Table,
    (selected, from_table, key): (&str, &str, &str),
    from: i64,
) -> Result<Vec<Row>, StoreError> {
    let bytes = rows.bytes_of_version(table)?;
    let sql = format!(
        "SELECT {selected} FROM (\
           SELECT w.*, sum(w.size) OVER (ORDER BY w.{key}) - w.size AS before FROM (\
             SELECT v.*, {bytes} AS size FROM {from_table} v WHERE v.{key} > $1 \
             ORDER BY v.{key} LIMIT {SLICE_ROWS_MAX}) w) v \
         WHERE v.before < {SLICE_BYTES_MAX} ORDER BY v.{key}"
    );
    rows.session.call(SqlCall::new(sql, vec![Box::new(from)]))
}

/// The key of the last row, which stands first in it.
fn last(found: &[Row]) -> Result<Option<i64>, StoreError> {
    Ok(found.last().map(|row| row.try_get(0)).transpose()?)
}

/// Lets a task go on behind this row, or ends it.
fn goes_on(TaskLeft { table, task, .. }: TaskLeft, rest: Option<i64>) -> StoredChange {
    match rest {
        Some(from) => StoredChange::new(
            "UPDATE upkeep SET seq = $1 WHERE tab = $2 AND task = $3",
            vec![from.into(), table.0.into(), task.into()],
        ),
        None => StoredChange::new(
            "DELETE FROM upkeep WHERE tab = $1 AND task = $2",
            vec![table.0.into(), task.into()],
        ),
    }
}
