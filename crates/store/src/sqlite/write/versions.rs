//! The versions of one row, out of its table.
//!
//! Never all of them: a counter has millions of pieces in the valid past. Pieces known now never
//! overlap, so those that meet a period are the one that begins last before it, and those that
//! begin inside it: two seeks on one index.

use std::sync::Arc;

use model::history::{Cut, VersionNumber};
use model::{Mark, Period, Table, Timestamp, Value, Version};
use query::names;
use rusqlite::{Connection, Row, params};

use super::halt::Step;
use crate::StoreError;
use crate::refusal::Refusal;
use crate::sqlite::disk::fault::corrupt;
use crate::sqlite::schema::coding::{Coding, Damaged};
use crate::sqlite::schema::columns::column_list;
use crate::sqlite::schema::tables::END;

/// What a piece says: all of a row but its permissions, which live on system time only.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asserted {
    pub(crate) created: Timestamp,
    pub(crate) updated: Timestamp,
    /// One for each of the table's columns.
    pub(crate) values: Vec<Value>,
    /// What is null among them because it cannot be opened.
    pub(crate) damaged: Damaged,
}

/// A version as the store keeps it.
pub(crate) type Stored = Version<Arc<Asserted>>;

/// Most pieces of its row that one operation meets.
pub(crate) const PIECES_MET_MAX: usize = 10_000;
/// Most bytes of values that one operation holds of a row's versions, beside as much again for
/// what it writes …
const PIECES_BYTES_MAX: usize = 64 << 20;
/// … unless they are so few: the most that are read to show a row, or to find a next boundary.
const PIECES_OF_ANY_SIZE: usize = 3;

/// From where versions are read.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) coding: &'a Coding,
}

/// The columns of a version, before those of the user.
const VERSION: &str = "rid, vf, vt, sf, cut_tt, cut_vt, st, origin, created, updated";
const VERSION_COLUMNS: usize = 10;

/// A period as it is stored.
pub(crate) fn stored_period(from: i64, end: i64) -> Step<Period> {
    let stored = Period::new(Timestamp(from), Some(Timestamp(end)));
    Ok(stored.map_err(|error| corrupt(error.to_string()))?)
}

/// The versions of `id` that are not gone, have no twin, and are valid somewhere from `low` to
/// before `high`, by their beginnings; perhaps the one before them, too. At most `count_max`.
///
/// # Errors
/// [`Refusal::PiecesTooLarge`] when they take too much memory together.
pub(crate) fn known(
    source: Source<'_>,
    table: &Table,
    id: &str,
    (low, high): (Timestamp, Timestamp),
    count_max: usize,
) -> Step<Vec<Stored>> {
    let versions = names::versions(table.number);
    let index = names::known_index(table.number);
    let known =
        format!("FROM {versions} INDEXED BY {index} WHERE id = ?1 AND st = {END} AND twin = 0");
    let sql = format!(
        "SELECT {VERSION}{} {known} AND vf < ?3 AND vf >= \
         coalesce((SELECT max(vf) {known} AND vf <= ?2), ?2) ORDER BY vf LIMIT ?4",
        column_list(table)
    );
    let mut statement = source.connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![id, low.0, high.0, count_max as i64])?;
    let mut found = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let version = version(source, row, (table, id))?;
        let values = version.value.values.iter();
        bytes += values.map(Value::size_bytes).sum::<usize>();
        // One row of any size can be changed, with what stands beside it.
        if bytes > PIECES_BYTES_MAX && found.len() > PIECES_OF_ANY_SIZE {
            let bytes_max = PIECES_BYTES_MAX;
            return Err(Refusal::PiecesTooLarge { bytes_max }.into());
        }
        found.push(version);
    }
    Ok(found)
}

/// The same, all of them.
///
/// # Errors
/// [`Refusal::TooManyPieces`] when there are more than one operation may meet.
pub(crate) fn known_within(
    source: Source<'_>,
    table: &Table,
    id: &str,
    within: (Timestamp, Timestamp),
) -> Step<Vec<Stored>> {
    let pieces_max = PIECES_MET_MAX;
    let found = known(source, table, id, within, pieces_max + 1)?;
    if found.len() > pieces_max {
        return Err(Refusal::TooManyPieces { pieces_max }.into());
    }
    Ok(found)
}

/// What is known now of `id` and was not before `mark`, with a twin or without.
pub(crate) fn written(
    source: Source<'_>,
    table: &Table,
    id: &str,
    mark: Mark,
) -> Step<Vec<Stored>> {
    let (versions, now) = (names::versions(table.number), names::now(table.number));
    let index = names::system_index(table.number);
    let columns = column_list(table);
    let sql = format!(
        "SELECT {VERSION}{columns} FROM {versions} INDEXED BY {index} \
         WHERE id = ?1 AND sf = ?2 AND st = {END} AND twin = 0 \
         UNION ALL SELECT {VERSION}{columns} FROM {versions} \
         WHERE rid = (SELECT rid FROM {now} WHERE id = ?1 AND sf = ?2 AND twin = 1)",
    );
    let mut statement = source.connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![id, mark.0])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(version(source, row, (table, id))?);
    }
    found.sort_by_key(|version| version.valid.from());
    Ok(found)
}

/// The version of this number, of the row `id`.
pub(crate) fn numbered(
    source: Source<'_>,
    table: &Table,
    (rid, id): (i64, &str),
) -> Step<Option<Stored>> {
    let sql = format!(
        "SELECT {VERSION}{} FROM {} WHERE rid = ?1",
        column_list(table),
        names::versions(table.number)
    );
    let mut statement = source.connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![rid])?;
    let row = rows.next()?;
    Ok(row
        .map(|row| version(source, row, (table, id)))
        .transpose()?)
}

fn version(source: Source<'_>, row: &Row<'_>, place: (&Table, &str)) -> Result<Stored, StoreError> {
    let end = |position| -> Result<Option<i64>, StoreError> {
        let stored: i64 = row.get(position)?;
        Ok((stored < i64::MAX).then_some(stored))
    };
    let (values, damaged) = source.coding.values_found(row, VERSION_COLUMNS, place)?;
    let valid = Period::new(Timestamp(row.get(1)?), end(2)?.map(Timestamp));
    let cut = end(4)?.map(|mark| -> Result<Cut, StoreError> {
        let valid_to = Timestamp(row.get(5)?);
        let mark = Mark(mark);
        Ok(Cut { mark, valid_to })
    });
    Ok(Version {
        number: VersionNumber(row.get(0)?),
        valid: valid.map_err(|error| corrupt(error.to_string()))?,
        sys_from: Mark(row.get(3)?),
        cut: cut.transpose()?,
        gone: end(6)?.map(Mark),
        origin: Mark(row.get(7)?),
        value: Arc::new(Asserted {
            created: Timestamp(row.get(8)?),
            updated: Timestamp(row.get(9)?),
            values,
            damaged,
        }),
    })
}
