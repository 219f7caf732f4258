//! Rows of the open transaction in PostgreSQL, as a working set asks for them one by one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use model::history::{Cut, VersionNumber};
use model::{Column, Mark, Period, RowId, Table, TableNumber, Timestamp, Version};
use query::names;
use tokio_postgres::Row;

use super::group_requests::GroupRequests;
use super::records::UnsentRecords;
use super::session::{SqlCall, WriterSession};
use super::user_values::values_found;
use crate::StoreError;
use crate::error::corrupt;
use crate::laws::growth::{NUMBER_BYTES, VERSION_BYTES};
use crate::laws::halt::Step;
use crate::laws::held_row::HeldVersion;
use crate::laws::ledger::SingleRows;
use crate::laws::versions::{Asserted, Stored, VersionsRead, VersionsWanted};
use crate::postgres::cells;
use crate::vault::StoreKeys;

/// The end of what has none.
pub(super) const END: i64 = Timestamp::END.0;
/// The columns of a version, before what it counts and the columns of the user.
const VERSION: &str = "v.id, v.seq, v.rid, v.vf, v.vt, v.sf, v.cut_tt, v.cut_vt, v.st, v.origin, \
                       v.created, v.updated, v.twin";
const VERSION_COLUMNS: usize = 14;

/// What versions of tables count, as SQL, each by the epoch of the schema it was made for.
pub(super) type ByteTexts = HashMap<TableNumber, (u64, Arc<str>)>;

/// The rows of the open transaction.
#[derive(Clone, Copy)]
pub(crate) struct PostgresRows<'w> {
    pub(super) session: &'w WriterSession,
    pub(super) records: &'w RefCell<UnsentRecords>,
    pub(super) requests: &'w RefCell<GroupRequests>,
    pub(super) bytes: &'w RefCell<ByteTexts>,
    pub(super) keys: &'w StoreKeys,
}

/// A version, and of which row.
pub(super) struct FoundVersion {
    pub(super) id: String,
    pub(super) held: HeldVersion,
}

impl PostgresRows<'_> {
    /// What a version named `v` counts, those of its values included that stand in columns which
    /// were dropped.
    pub(super) fn bytes_of_version(&self, table: &Table) -> Result<Arc<str>, StoreError> {
        let number = table.number;
        if let Some((epoch, text)) = self.bytes.borrow().get(&number)
            && *epoch == table.schema_epoch
        {
            return Ok(Arc::clone(text));
        }
        let sql = "SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute \
                   WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped \
                   AND attname ~ '^c[0-9]+$' ORDER BY attnum";
        let mut text = VERSION_BYTES.to_string();
        for row in self
            .session
            .once(sql, &[Box::new(names::versions(number))])?
        {
            let (name, kind): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            let bytes = match kind.as_str() {
                "text" | "bytea" => format!("coalesce(octet_length(v.{name}), 0)"),
                "text[]" => {
                    format!("coalesce(octet_length(array_to_string(v.{name}, '')), 0)")
                }
                list if list.ends_with("[]") => {
                    format!("{NUMBER_BYTES} * coalesce(cardinality(v.{name}), 0)")
                }
                _ => format!("{NUMBER_BYTES} * (v.{name} IS NOT NULL)::int"),
            };
            text = format!("{text} + {bytes}");
        }
        let text: Arc<str> = format!("({text})::bigint").into();
        let known = (table.schema_epoch, Arc::clone(&text));
        self.bytes.borrow_mut().insert(number, known);
        Ok(text)
    }

    /// What is selected of a version named `v`.
    pub(super) fn version_columns(&self, table: &Table) -> Result<String, StoreError> {
        let bytes = self.bytes_of_version(table)?;
        Ok(format!("{VERSION}, {bytes}{}", columns_of(table, "v")))
    }
}

/// The columns of the user, each after a comma.
pub(super) fn columns_of(table: &Table, of: &str) -> String {
    let column = |column: &Column| format!(", {of}.{}", names::column(column.number));
    table.columns.iter().map(column).collect()
}

/// A version of which [`PostgresRows::version_columns`] were selected.
pub(super) fn version_of(
    table: &Table,
    row: &Row,
    keys: &StoreKeys,
) -> Result<FoundVersion, StoreError> {
    let number = |position| row.try_get::<_, i64>(position);
    let end = |position| -> Result<Option<i64>, StoreError> {
        Ok(Some(number(position)?).filter(|at| *at < END))
    };
    let id: String = row.try_get(0)?;
    let (values, damaged) = values_found(&keys.values, (row, VERSION_COLUMNS), (table, &id))?;
    let cut = match end(6)? {
        None => None,
        Some(mark) => Some(Cut {
            mark: Mark(mark),
            valid_to: Timestamp(number(7)?),
        }),
    };
    let version = Version {
        number: VersionNumber(number(2)?),
        valid: stored_period(number(3)?, number(4)?)?,
        sys_from: Mark(number(5)?),
        cut,
        gone: end(8)?.map(Mark),
        origin: Mark(number(9)?),
        value: Arc::new(Asserted {
            created: Timestamp(number(10)?),
            updated: Timestamp(number(11)?),
            values,
            damaged,
        }),
    };
    Ok(FoundVersion {
        id,
        held: HeldVersion {
            version,
            is_twin: number(12)? == 1,
            bytes: number(13)?,
        },
    })
}

/// A period as it is stored.
pub(super) fn stored_period(from: i64, end: i64) -> Result<Period, StoreError> {
    let stored = Period::new(Timestamp(from), Some(Timestamp(end)));
    stored.map_err(|error| corrupt(error.to_string()))
}

pub(super) fn row_id(stored: &str) -> Result<RowId, StoreError> {
    RowId::new(stored).map_err(|error| corrupt(error.to_string()))
}

impl SingleRows for PostgresRows<'_> {
    fn versions(&self, table: &Table, id: &str, which: VersionsWanted) -> Step<Vec<Stored>> {
        let columns = self.version_columns(table)?;
        let (versions, now) = (names::versions(table.number), names::now(table.number));
        let id = id.to_owned();
        let found = match which {
            VersionsWanted::Known {
                low,
                high,
                count_max,
            } => {
                let known = format!("WHERE v.id = $1 AND v.st = {END} AND v.twin = 0");
                let sql = format!(
                    "SELECT {columns} FROM {versions} v {known} AND v.vf < $3 AND v.vf >= \
                     coalesce((SELECT max(v.vf) FROM {versions} v {known} AND v.vf <= $2), $2) \
                     ORDER BY v.vf LIMIT $4"
                );
                let count_max = i64::try_from(count_max).unwrap_or(i64::MAX);
                let all = vec![
                    Box::new(id) as cells::SqlParameter,
                    Box::new(low.0),
                    Box::new(high.0),
                    Box::new(count_max),
                ];
                self.session.call(SqlCall::new(sql, all))?
            }
            VersionsWanted::WrittenAt(mark) => {
                let sql = format!(
                    "SELECT {columns} FROM {versions} v WHERE v.id = $1 AND v.sf = $2 \
                     AND v.st = {END} AND v.twin = 0 UNION ALL SELECT {columns} FROM {versions} v \
                     WHERE v.rid = (SELECT x.rid FROM {now} x WHERE x.id = $1 AND x.sf = $2 \
                     AND x.twin = 1)"
                );
                self.session
                    .call(SqlCall::new(sql, vec![Box::new(id), Box::new(mark.0)]))?
            }
            VersionsWanted::Numbered(number) => {
                let sql = format!("SELECT {columns} FROM {versions} v WHERE v.rid = $1");
                self.session
                    .call(SqlCall::new(sql, vec![Box::new(number.0)]))?
            }
        };
        let mut read = VersionsRead::new(which);
        for row in found {
            read.add(version_of(table, &row, self.keys)?.held.version)?;
        }
        Ok(read.all())
    }

    fn open_grants(
        &self,
        table: &Table,
        seq: i64,
        each: &mut dyn FnMut(&str, i64),
    ) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT role, actions FROM {} WHERE seq = $1 AND st = {END} ORDER BY nth",
            names::grants(table.number)
        );
        for row in self.session.call(SqlCall::new(sql, vec![Box::new(seq)]))? {
            each(row.try_get(0)?, row.try_get(1)?);
        }
        Ok(())
    }

    fn next_boundary(&self, table: TableNumber) -> Result<Option<Timestamp>, StoreError> {
        let sql = format!("SELECT min(at) FROM {}", names::schedule(table));
        let found = self.session.call(SqlCall::plain(sql))?;
        let first = found.first().map(|row| row.try_get::<_, Option<i64>>(0));
        Ok(first.transpose()?.flatten().map(Timestamp))
    }
}
