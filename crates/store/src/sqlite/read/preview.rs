//! Reading inside the open transaction of a preview, on the connection that writes.

use model::Row;
use query::{Dialect, Side, emit};
use rusqlite::Connection;

use super::cursor::cursor_values;
use super::row::Shape;
use super::{Halt, Step, bind};
use crate::error::corrupt;
use crate::list_read::ListingBudget;
use crate::sqlite::disk::sorts;
use crate::sqlite::schema::coding::Coding;
use crate::{Listed, Listing, Point, StoreError, TotalCap};

/// As [`crate::StoreReads::list`], of what the connection sees.
pub(in crate::sqlite) fn list(
    connection: &Connection,
    coding: &Coding,
    listing: Listing<'_>,
) -> Result<Listed, StoreError> {
    let reading = Reading { connection, coding };
    let mut listed = Listed::default();
    if listing.rows {
        let rows = sorts::bounded(connection, || reading.rows(listing));
        listed.rows = rows.map_err(Halt::from).flatten().map_err(explain)?;
    }
    if let Some(cap) = listing.total {
        listed.total = reading.total(listing, cap).map_err(explain)?;
    }
    Ok(listed)
}

/// As [`crate::StoreReads::get`], of what the connection sees.
pub(in crate::sqlite) fn get(
    connection: &Connection,
    coding: &Coding,
    point: Point<'_>,
) -> Result<Option<Row>, StoreError> {
    let reading = Reading { connection, coding };
    reading.get(point).map_err(explain)
}

struct Reading<'c> {
    connection: &'c Connection,
    coding: &'c Coding,
}

impl Reading<'_> {
    fn rows(&self, listing: Listing<'_>) -> Step<Vec<Row>> {
        let query = listing.query;
        let cursor = cursor_values::<Halt>(self.connection, query)?;
        let statement = emit::rows(query, cursor.as_deref(), Dialect::Sqlite);
        let shape = Shape {
            connection: self.connection,
            coding: self.coding,
            table: &query.table,
            selection: &query.selection,
            is_now: query.reads_bodies(),
            shows_span: query.shows_span,
            shows_end: false,
            shows_damaged: false,
        };
        let mut prepared = self.connection.prepare(&statement.sql)?;
        let mut found = bind(&mut prepared, &statement.parameters)?;
        let (mut rows, mut budget) = (Vec::new(), ListingBudget::of(listing));
        while let Some(row) = found.next()? {
            let row = shape.read(row, 0)?;
            budget.take(&row)?;
            rows.push(row);
        }
        let place = query.cursor.as_ref();
        if place.is_some_and(|place| place.side == Side::Before) {
            rows.reverse();
        }
        Ok(rows)
    }

    fn total(&self, listing: Listing<'_>, cap: TotalCap) -> Step<u64> {
        let cap = match cap {
            TotalCap::None => None,
            TotalCap::UpTo(cap) => Some(cap),
        };
        let statement = emit::total(listing.query, cap, Dialect::Sqlite);
        let mut prepared = self.connection.prepare(&statement.sql)?;
        let mut found = bind(&mut prepared, &statement.parameters)?;
        let row = found.next()?;
        let row = row.ok_or_else(|| corrupt("a count gave no row"))?;
        let count: i64 = row.get(0)?;
        Ok(count.unsigned_abs())
    }

    fn get(&self, point: Point<'_>) -> Step<Option<Row>> {
        let (table, id) = (point.table, point.id.as_str());
        let statement = emit::point(
            table,
            id,
            point.selection,
            point.visibility,
            Dialect::Sqlite,
        );
        let mut prepared = self.connection.prepare(&statement.sql)?;
        let found = bind(&mut prepared, &statement.parameters)?;
        let shape = Shape {
            connection: self.connection,
            coding: self.coding,
            table,
            selection: point.selection,
            is_now: true,
            shows_span: false,
            shows_end: false,
            shows_damaged: false,
        };
        super::row_of_point(found, &shape)
    }
}

/// Who is interrupted here has run out of the preview's time; the preview knows its limit.
fn explain(halt: Halt) -> StoreError {
    match halt {
        Halt::Store(error) => error,
        Halt::Database(error) => error.into(),
        Halt::Long => unreachable!("nothing is given up on the thread that writes"),
    }
}
