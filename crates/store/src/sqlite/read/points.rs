//! Rows by many keys in one statement: a key takes a third of what it takes as a point read, most
//! of which is to begin and to end a statement.

use model::{Row, Selection, Value};
use query::{Visibility, emit};
use rusqlite::types::ValueRef;

use super::{Reader, Shared, Step, bind, read_stamp};
use crate::error::corrupt;
use crate::sqlite::schema::bind::Bound;
use crate::{PointKeys, Points, Snapshot};

/// Most keys of one statement. Statements are made for the powers of two, so one table has seven
/// for an index.
const KEYS_MAX: usize = 128;
/// Most values of one statement, which bounds its text: keys of five columns take fewer rows.
const VALUES_MAX: usize = 512;

impl Reader {
    pub(super) fn points(
        &self,
        shared: &Shared,
        points: Points<'_>,
    ) -> Step<Snapshot<Vec<Option<Row>>>> {
        let Points {
            table,
            selection,
            visibility,
            ..
        } = points;
        let (columns, index) = match points.keys {
            PointKeys::Ids(_) => (1, None),
            PointKeys::Of(index, _) => (index.columns.len(), Some(index)),
        };
        let keys_max = (VALUES_MAX / columns).clamp(1, KEYS_MAX);
        let count = points.keys.len().min(keys_max);
        // The last key stands for those that are missing, and is never stepped to.
        let places = count.next_power_of_two();
        let write = || {
            let keys = (0..places).map(|nth| key(points.keys, nth.min(count - 1)));
            emit::points((table, index), keys, selection, visibility)
        };
        let mut stamp_statement = self.connection.prepare_cached(emit::stamp())?;
        // Open until the answer is complete: it holds the snapshot.
        let mut stamp = stamp_statement.query(())?;
        let mark = read_stamp(&mut stamp, points.catalogue_epoch)?;
        let shape = self.shape(shared, table, selection, true);
        let is_common = (selection, visibility) == (&Selection::All, &Visibility::Everything);
        let mut prepared;
        let mut found = if is_common {
            let text = self.points.many_now(table, index, places, write);
            prepared = self.prepare(&text.sql)?;
            bind_keys(&mut prepared, points.keys, count)?;
            prepared.raw_query()
        } else {
            let statement = write();
            prepared = self.prepare(&statement.sql)?;
            bind(&mut prepared, &statement.parameters)?
        };
        let mut rows = Vec::with_capacity(count);
        let mut bytes = 0;
        while rows.len() < count && (bytes < points.bytes_enough || rows.is_empty()) {
            let row = found.next()?.ok_or_else(|| corrupt("a key has no row"))?;
            rows.push(match row.get_ref(0)? {
                ValueRef::Null => None,
                _ => Some(shape.read(row, 0)?),
            });
            bytes += rows
                .last()
                .and_then(Option::as_ref)
                .map_or(0, Row::size_bytes);
        }
        Ok(Snapshot { answer: rows, mark })
    }
}

/// The values of one key.
fn key(keys: PointKeys<'_>, nth: usize) -> Vec<Value> {
    match keys {
        PointKeys::Ids(ids) => vec![Value::Text(ids[nth].to_string())],
        PointKeys::Of(_, keys) => keys[nth].clone(),
    }
}

/// Binds the first keys. What is not bound is null, which no row has.
fn bind_keys(
    statement: &mut rusqlite::Statement<'_>,
    keys: PointKeys<'_>,
    count: usize,
) -> rusqlite::Result<()> {
    match keys {
        PointKeys::Ids(ids) => {
            for (nth, id) in ids[..count].iter().enumerate() {
                statement.raw_bind_parameter(nth + 1, id.as_str())?;
            }
        }
        PointKeys::Of(_, keys) => {
            for (nth, value) in keys[..count].iter().flatten().enumerate() {
                statement.raw_bind_parameter(nth + 1, Bound(value))?;
            }
        }
    }
    Ok(())
}
