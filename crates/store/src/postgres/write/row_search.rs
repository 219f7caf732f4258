//! How PostgreSQL looks for rows inside the transaction that writes, for the laws of writing.

use std::time::{Duration, Instant};

use model::{ColumnNumber, Field, Index, Mark, RowId, Table, Timestamp, Value};
use query::{Dialect, Query, RowTest, Side, Undecided, Unmatched, emit, field, names, undecided};
use tokio_postgres::Row;

use super::rows::{END, PostgresRows, row_id, stored_period};
use super::session::SqlCall;
use crate::StoreError;
use crate::laws::row_search::{
    DueRow, DueWanted, HoldersWanted, LinkHolders, MarkOf, RowSearch, ValueHolder,
};
use crate::laws::search_time::SEARCH_MAX;
use crate::postgres::cells::{self, SqlParameter};
use crate::postgres::read::narrowed::narrows;
use crate::postgres::row_tables::index_tests;
use crate::stored::overlaps::BELIEVED_END;

/// Most rows that are tested here for what the database does not decide; a search with more of
/// them takes too long.
const TESTED_MAX: usize = 100_000;
/// Columns of a found row before those that are tested: `$sequence`, id, times and permissions …
const ROW_COLUMNS: usize = 5;
/// … where it stands in time, if that is shown …
const SPAN_COLUMNS: usize = 5;
/// … and of a walk.
const WALKED_COLUMNS: usize = 2;

impl RowSearch for PostgresRows<'_> {
    fn value_holders(
        &self,
        table: &Table,
        index: &Index,
        values: &[Value],
        which: HoldersWanted,
    ) -> Result<Vec<ValueHolder>, StoreError> {
        let (mut all, join, bound): (Vec<SqlParameter>, _, _) = match which {
            HoldersWanted::Any { but } => (vec![Box::new(but)], String::new(), " LIMIT 1"),
            HoldersWanted::DueBy { instant, but } => {
                let schedule = names::schedule(table.number);
                let join = format!(" JOIN {schedule} s ON s.id = n.id AND s.at <= $2");
                (vec![Box::new(but), Box::new(instant.0)], join, "")
            }
        };
        let first = all.len() + 1;
        all.extend(values.iter().map(cells::parameter));
        let tests = index_tests(table, index, "n", |nth| parameter(table, index, first, nth));
        let sql = format!(
            "SELECT n.id, n.seq, n.vf, n.vt FROM {} n{join} WHERE n.seq <> $1 AND {tests}{bound}",
            names::now(table.number)
        );
        let found = self.session.call(SqlCall::new(sql, all))?;
        let holder = |row: &Row| {
            Ok(ValueHolder {
                id: row_id(row.try_get(0)?)?,
                seq: row.try_get(1)?,
                valid: stored_period(row.try_get(2)?, row.try_get(3)?)?,
            })
        };
        found.iter().map(holder).collect()
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
        let holds = holds_link(table, position, "$1::text");
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM {} t WHERE {holds} AND t.seq <> $2)",
            names::now(table.number)
        );
        self.truth(SqlCall::new(
            sql,
            vec![cells::parameter(link), Box::new(seq)],
        ))
    }

    fn due_rows(
        &self,
        table: &Table,
        instant: Timestamp,
        which: DueWanted<'_>,
    ) -> Result<Vec<DueRow>, StoreError> {
        let (which, bound): (_, SqlParameter) = match which {
            DueWanted::Row(id) => ("AND s.id = $2", Box::new(id.to_owned())),
            DueWanted::First(count) => {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                ("ORDER BY s.at LIMIT $2", Box::new(count))
            }
        };
        let sql = format!(
            "SELECT s.id, (SELECT v.seq FROM {versions} v WHERE v.id = s.id AND v.st = {END} \
             AND v.twin = 0 LIMIT 1) FROM {schedule} s WHERE s.at <= $1 {which}",
            versions = names::versions(table.number),
            schedule = names::schedule(table.number),
        );
        let found = self
            .session
            .call(SqlCall::new(sql, vec![Box::new(instant.0), bound]))?;
        let due = |row: &Row| {
            Ok(DueRow {
                id: row_id(row.try_get(0)?)?,
                seq: row.try_get(1)?,
            })
        };
        found.iter().map(due).collect()
    }

    fn last_mark(&self, table: &Table, of: MarkOf<'_>) -> Result<Option<Mark>, StoreError> {
        let known = |column: &str| format!("CASE {column} WHEN {END} THEN sf ELSE {column} END");
        let (versions, grants) = (names::versions(table.number), names::grants(table.number));
        let (sql, of): (_, SqlParameter) = match of {
            MarkOf::Versions(id) => {
                let last = format!("greatest(sf, {}, {})", known("cut_tt"), known("st"));
                let sql = format!("SELECT max({last}) FROM {versions} WHERE id = $1 AND twin = 0");
                (sql, Box::new(id.to_owned()))
            }
            MarkOf::Grants(seq) => {
                let last = format!("greatest(sf, {})", known("st"));
                let sql = format!("SELECT max({last}) FROM {grants} WHERE seq = $1");
                (sql, Box::new(seq))
            }
            MarkOf::Rebirth(seq) => {
                let life = names::LIFE;
                let sql =
                    format!("SELECT max(st) FROM {grants} WHERE seq = $1 AND role = '{life}'");
                (sql, Box::new(seq))
            }
        };
        let found = self.session.call(SqlCall::new(sql, vec![of]))?;
        let mark = found.first().map(|row| row.try_get::<_, Option<i64>>(0));
        Ok(mark.transpose()?.flatten().map(Mark))
    }

    fn has_changed(
        &self,
        table: &Table,
        (id, seq): (&str, i64),
        (after, before): (Mark, Mark),
    ) -> Result<bool, StoreError> {
        let since = |column: &str| format!("({column} > $2 AND {column} < $3)");
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM {} WHERE id = $1 AND twin = 0 AND ({} OR {} OR {})) \
             OR EXISTS (SELECT 1 FROM {} WHERE seq = $4 AND ({} OR {}))",
            names::versions(table.number),
            since("sf"),
            since("cut_tt"),
            since("st"),
            names::grants(table.number),
            since("sf"),
            since("st"),
        );
        let all: Vec<SqlParameter> = vec![
            Box::new(id.to_owned()),
            Box::new(after.0),
            Box::new(before.0),
            Box::new(seq),
        ];
        self.truth(SqlCall::new(sql, all))
    }

    fn link_holders(
        &self,
        table: &Table,
        column: usize,
        id: &str,
        which: LinkHolders,
    ) -> Result<Vec<RowId>, StoreError> {
        let holds = holds_link(table, column, "$1::text");
        let (now, versions) = (names::now(table.number), names::versions(table.number));
        let count = |count_max: usize| i64::try_from(count_max).unwrap_or(i64::MAX);
        let mut all: Vec<SqlParameter> = vec![Box::new(id.to_owned())];
        match which {
            LinkHolders::Now { count_max } => {
                all.push(Box::new(count(count_max)));
                let sql = format!("SELECT t.id FROM {now} t WHERE {holds} LIMIT $2");
                ids(&self.session.call(SqlCall::new(sql, all))?)
            }
            LinkHolders::ToCome { after, count_max } => {
                all.push(Box::new(count(count_max)));
                all.push(Box::new(after.0));
                let sql = format!(
                    "SELECT DISTINCT t.id FROM {schedule} s JOIN {versions} t ON t.id = s.id \
                     WHERE t.st = {END} AND t.twin = 0 AND t.vf > $3 AND {holds} LIMIT $2",
                    schedule = names::schedule(table.number)
                );
                ids(&self.session.call(SqlCall::new(sql, all))?)
            }
            LinkHolders::Within {
                valid,
                count_max,
                time_max,
            } => {
                all.push(Box::new(count(count_max)));
                all.push(Box::new(valid.from().0));
                all.push(Box::new(valid.end().0));
                let sql = format!(
                    "SELECT t.id FROM {versions} t WHERE t.twin = 0 AND t.st = {END} \
                     AND t.vf < $4 AND {BELIEVED_END} > $3 AND {holds} \
                     UNION SELECT t.id FROM {now} t WHERE t.twin = 1 AND t.vf < $4 AND {holds} \
                     LIMIT $2"
                );
                self.within(time_max, |_| ids(&self.session.once(&sql, &all)?))
            }
        }
    }

    fn matching(
        &self,
        query: &Query,
        walks: bool,
        time_max: Duration,
    ) -> Result<Vec<(i64, RowId)>, StoreError> {
        self.within(time_max, |until| self.search(query, walks, until))
    }

    fn last_shown(&self, table: &Table) -> Result<i64, StoreError> {
        let now = names::now(table.number);
        let sql = format!("SELECT coalesce(max(seq), 0) FROM {now}");
        let found = self.session.call(SqlCall::plain(sql))?;
        let last = found.first().map(|row| row.try_get(0)).transpose()?;
        Ok(last.unwrap_or_default())
    }
}

impl PostgresRows<'_> {
    fn truth(&self, call: SqlCall) -> Result<bool, StoreError> {
        let found = self.session.call(call)?;
        let truth = found.first().map(|row| row.try_get(0)).transpose()?;
        Ok(truth.unwrap_or_default())
    }

    /// Runs a search of limited time: one that is stopped would end the whole transaction, so it
    /// runs behind a savepoint. Its statements are planned for their values.
    pub(super) fn within<T>(
        &self,
        time_max: Duration,
        search: impl FnOnce(Instant) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let until = Instant::now() + time_max;
        let time_max = time_max.as_millis().max(1);
        self.session.simple(&format!(
            "SAVEPOINT search; SET LOCAL statement_timeout = {time_max}; \
             SET LOCAL plan_cache_mode = force_custom_plan"
        ))?;
        let found = search(until);
        // It has changed nothing, and going back also ends what was set for it.
        self.session.take_back("search")?;
        found.map_err(|error| match error {
            StoreError::Interrupted => StoreError::Timeout {
                limit_ms: SEARCH_MAX.as_millis() as u64,
            },
            other => other,
        })
    }

    fn search(
        &self,
        query: &Query,
        walks: bool,
        until: Instant,
    ) -> Result<Vec<(i64, RowId)>, StoreError> {
        let among = self.narrowed(query)?;
        let query = among.as_ref().unwrap_or(query);
        let statement = if walks {
            emit::walk(query, Dialect::Postgres)
        } else {
            let cursor = self.cursor_values(query)?;
            emit::rows(query, cursor.as_deref(), Dialect::Postgres)
        };
        let all: Vec<SqlParameter> = statement.parameters.iter().map(cells::parameter).collect();
        let mut found = match undecided(&query.filter, Dialect::Postgres) {
            None => {
                let rows = self.session.once(&statement.sql, &all)?;
                rows.iter().map(found_row).collect::<Result<_, _>>()?
            }
            Some(left) => {
                let call = SqlCall::new(statement.sql, all);
                self.tested(call, (query, walks), left, until)?
            }
        };
        let is_reversed = |cursor: &query::Cursor| cursor.side == Side::Before;
        if query.cursor.as_ref().is_some_and(is_reversed) {
            found.reverse();
        }
        Ok(found)
    }

    /// The query among the rows that the indexes of words give, where that is of help.
    fn narrowed(&self, query: &Query) -> Result<Option<Query>, StoreError> {
        let Some(statement) = emit::narrowing(query) else {
            return Ok(None);
        };
        let all: Vec<SqlParameter> = statement.parameters.iter().map(cells::parameter).collect();
        self.session.simple(&narrows())?;
        let found = self.session.once(&statement.sql, &all);
        self.session.take_back("words")?;
        match found {
            Ok(rows) => {
                let rows = rows.iter().map(|row| row.try_get(0));
                Ok(emit::narrowed(query, rows.collect::<Result<_, _>>()?))
            }
            Err(StoreError::Interrupted) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Those that match of the rows of a search that the database does not decide alone: it gives
    /// more, some at a time, until there are as many as are wanted.
    fn tested(
        &self,
        call: SqlCall,
        (query, walks): (&Query, bool),
        left: Undecided,
        until: Instant,
    ) -> Result<Vec<(i64, RowId)>, StoreError> {
        let limit = query.limit as usize;
        // Of a walk the offset has no meaning.
        let (columns, mut left_out) = match (walks, query.shows_span) {
            (true, _) => (WALKED_COLUMNS, 0),
            (false, false) => (ROW_COLUMNS, query.offset),
            (false, true) => (ROW_COLUMNS + SPAN_COLUMNS, query.offset),
        };
        let fields = left.fields.clone();
        let mut test = RowTest::new(left);
        let (mut read, mut found) = (0, Vec::new());
        self.session.each(&call, until, |row| {
            read += 1;
            if read > TESTED_MAX {
                return Err(StoreError::Interrupted);
            }
            if found.len() < limit && passes(row, (query, &fields, columns), &mut test, until)? {
                if left_out > 0 {
                    left_out -= 1;
                } else {
                    found.push(found_row(row)?);
                }
            }
            Ok(found.len() < limit)
        })?;
        Ok(found)
    }

    /// The cursor row's value of each key of the order, then its `$sequence`; `None` when the
    /// query has no cursor.
    fn cursor_values(&self, query: &Query) -> Result<Option<Vec<Value>>, StoreError> {
        let (Some(cursor), Some(statement)) =
            (&query.cursor, emit::cursor_row(query, Dialect::Postgres))
        else {
            return Ok(None);
        };
        let id = || cursor.row.clone();
        let all: Vec<SqlParameter> = statement.parameters.iter().map(cells::parameter).collect();
        let found = self.session.once(&statement.sql, &all)?;
        let row = found
            .first()
            .ok_or_else(|| StoreError::CursorNotFound { id: id() })?;
        let mut values = Vec::with_capacity(query.order.len() + 1);
        for (position, key) in query.order.iter().enumerate() {
            let storage = field::storage(&query.table, key.field);
            match cells::single(row, position, storage)? {
                Value::Null => return Err(StoreError::CursorNull { id: id() }),
                value => values.push(value),
            }
        }
        let after = query.order.len();
        let numbers = if query.frame.is_wide() { 3 } else { 1 };
        for position in after..after + numbers {
            values.push(Value::Int(row.try_get(position)?));
        }
        Ok(Some(values))
    }
}

/// Whether a row passes the test of these fields, the first of which stands in this column.
fn passes(
    row: &Row,
    (query, fields, first): (&Query, &[Field], usize),
    test: &mut RowTest,
    until: Instant,
) -> Result<bool, StoreError> {
    let mut is_over = || Instant::now() >= until;
    if is_over() {
        return Err(StoreError::Interrupted);
    }
    let values = fields.iter().zip(first..);
    let values = values.map(|(field, at)| cells::field_value(row, at, (&query.table, *field)));
    let values = values.collect::<Result<Vec<Value>, _>>()?;
    test.passes(&values, &mut is_over)
        .map_err(|unmatched| match unmatched {
            Unmatched::Over => StoreError::Interrupted,
            Unmatched::TooHard => StoreError::PatternTooHard,
        })
}

/// `$sequence` and id of a row that was searched for.
fn found_row(row: &Row) -> Result<(i64, RowId), StoreError> {
    Ok((row.try_get(0)?, row_id(row.try_get(1)?)?))
}

fn ids(found: &[Row]) -> Result<Vec<RowId>, StoreError> {
    found.iter().map(|row| row_id(row.try_get(0)?)).collect()
}

/// That a row `t` holds a link to the row of this id.
pub(super) fn holds_link(table: &Table, column: usize, id: &str) -> String {
    let definition = &table.columns[column];
    let name = names::column(definition.number);
    if definition.array {
        format!("t.{name} @> ARRAY[{id}]")
    } else {
        format!("t.{name} = {id}")
    }
}

/// The parameter with the value of a part of an index.
fn parameter(table: &Table, index: &Index, first: usize, nth: usize) -> String {
    let field: Field = index.columns[nth].field;
    format!("${}::{}", first + nth, cells::type_of(table, field))
}
