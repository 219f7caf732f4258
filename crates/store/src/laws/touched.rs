//! Which rows a batch has touched so far, as they were before it and as they are now.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Change, Image, RowId, Table, TableNumber};

use crate::batch::{Changes, IMAGE_BYTES_MAX, IMAGES_MAX};

/// The rows touched by one batch, each once, in the order in which they were first touched.
pub(crate) struct Touched {
    rows: Vec<TouchedRow>,
    positions: HashMap<(TableNumber, RowId), usize>,
    /// A batch of one operation hardly ever asks for a row again: it need not be found.
    is_findable: bool,
    image_bytes: usize,
    keeps_images: bool,
}

/// One row. The images go when the batch outgrows their bounds; the rest stays.
struct TouchedRow {
    table: TableNumber,
    id: RowId,
    seq: i64,
    was_there: bool,
    is_there: bool,
    beyond: Beyond,
    before: Option<Image>,
    after: Option<Image>,
}

/// What the batch did to a row beyond what it shows now.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beyond {
    Nothing,
    /// Something else is known of it at another instant.
    Changed,
    /// It was erased, and not written again since.
    Erased,
}

impl Touched {
    /// `is_findable`: whether an operation may meet a row that was touched before.
    pub(crate) fn new(op_count: usize, is_findable: bool) -> Touched {
        Touched {
            rows: Vec::with_capacity(op_count.min(IMAGES_MAX)),
            positions: HashMap::new(),
            is_findable,
            image_bytes: 0,
            keeps_images: true,
        }
    }

    /// Whether the row was there before the batch; `None` when the batch has not touched it.
    pub(crate) fn was_there(&self, table: &Table, id: &RowId) -> Option<bool> {
        if self.positions.is_empty() {
            return None;
        }
        let position = self.positions.get(&(table.number, id.clone()))?;
        Some(self.rows[*position].was_there)
    }

    /// Takes one step of a row in: `before` is what it was before this step.
    pub(crate) fn record(
        &mut self,
        table: &Table,
        id: &RowId,
        seq: i64,
        before: Option<Image>,
        after: Option<Image>,
    ) {
        let (was_there, is_there) = (before.is_some(), after.is_some());
        let (before, after) = self.within_bounds(before, after);
        let known = if self.is_findable {
            let next = self.rows.len();
            *self
                .positions
                .entry((table.number, id.clone()))
                .or_insert(next)
        } else {
            // One operation may take several steps with its row.
            let is_last = |row: &&TouchedRow| row.table == table.number && row.id == *id;
            let last = self.rows.last().filter(is_last);
            self.rows.len() - usize::from(last.is_some())
        };
        if let Some(row) = self.rows.get_mut(known) {
            row.is_there = is_there;
            if is_there && row.beyond == Beyond::Erased {
                row.beyond = Beyond::Nothing;
            }
            row.after = after;
            return;
        }
        self.rows.push(TouchedRow {
            table: table.number,
            id: id.clone(),
            seq,
            was_there,
            is_there,
            beyond: Beyond::Nothing,
            before,
            after,
        });
    }

    /// Takes in that something is known of the row now that was not before, at some instant.
    pub(crate) fn record_elsewhere(&mut self, table: &Table, id: &RowId, seq: i64) {
        if self.find(table, id).is_none() {
            self.record(table, id, seq, None, None);
        }
        if let Some(row) = self.find(table, id) {
            row.beyond = Beyond::Changed;
        }
    }

    fn find(&mut self, table: &Table, id: &RowId) -> Option<&mut TouchedRow> {
        let is_it = |row: &TouchedRow| row.table == table.number && row.id == *id;
        let position = if self.is_findable {
            *self.positions.get(&(table.number, id.clone()))?
        } else {
            self.rows.iter().position(is_it)?
        };
        self.rows.get_mut(position)
    }

    /// Takes in that nothing is known of the row any more, nor ever was.
    pub(crate) fn erase(&mut self, table: &Table, id: &RowId) {
        if let Some(row) = self.find(table, id) {
            row.beyond = Beyond::Erased;
        }
    }

    /// The images of one more step, if they still fit; otherwise every image goes.
    fn within_bounds(
        &mut self,
        before: Option<Image>,
        after: Option<Image>,
    ) -> (Option<Image>, Option<Image>) {
        let images = before.iter().chain(&after);
        self.image_bytes += images.map(Image::size_bytes).sum::<usize>();
        let fits = self.rows.len() < IMAGES_MAX && self.image_bytes <= IMAGE_BYTES_MAX;
        if self.keeps_images && !fits {
            self.drop_images();
        }
        if self.keeps_images {
            (before, after)
        } else {
            (None, None)
        }
    }

    /// Every image goes, for one would lack a value that cannot be read.
    pub(crate) fn drop_images(&mut self) {
        self.keeps_images = false;
        for row in &mut self.rows {
            (row.before, row.after) = (None, None);
        }
    }

    /// Bytes of all images so far, whether or not they are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.image_bytes
    }

    /// How many rows were touched.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Leaves out rows that came and went inside the batch: they never were.
    pub(crate) fn drop_transient(&mut self) {
        self.rows
            .retain(|row| row.was_there || row.is_there || row.beyond == Beyond::Changed);
        self.positions.clear();
    }

    /// The rows, for the record of the commit.
    pub(crate) fn ids(&self) -> impl Iterator<Item = (TableNumber, &RowId)> {
        let recorded = self.rows.iter().filter(|row| row.beyond != Beyond::Erased);
        recorded.map(|row| (row.table, &row.id))
    }

    pub(crate) fn into_changes(self) -> Changes {
        if self.keeps_images {
            let shown = |row: &TouchedRow| row.was_there || row.is_there;
            let rows = self.rows.into_iter().filter(shown);
            let changes = rows.map(TouchedRow::into_change);
            return Changes::Images(Arc::new(changes.collect()));
        }
        let mut tables: Vec<TableNumber> = self.rows.iter().map(|row| row.table).collect();
        tables.sort_unstable();
        tables.dedup();
        Changes::Tables(tables)
    }
}

impl TouchedRow {
    fn into_change(self) -> Change {
        Change {
            table: self.table,
            id: self.id,
            seq: self.seq,
            before: self.before,
            after: self.after,
        }
    }
}
