//! Rows of one group of batches in memory: what its batches name is read at once, the laws run on
//! it and see their own writes, and what is left of them goes out as lists, each in one statement.
//!
//! A batch that is refused drops its part of it. What only the database can answer inside a batch,
//! a search say, sends what is unsent before it: from then on the batch is taken back behind.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;

use model::{Mark, Table, TableNumber};

use super::bulk_rows::{BulkRows, RowsWanted, kept};
use super::expected_links::ExpectedLinks;
use super::held_row::HeldRow;
use super::held_table::HeldTable;
use super::unsent::UnsentTable;
use crate::StoreError;
use crate::error::corrupt;

/// How much a working set holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldSize {
    pub(crate) rows: usize,
    /// About.
    pub(crate) bytes: usize,
}

/// The rows of a group, in front of the database. A clone is the same set.
#[derive(Clone)]
pub(crate) struct WorkingSet<B> {
    pub(super) behind: B,
    /// The mark at which the group begins.
    since: Mark,
    held: Rc<RefCell<HeldTables>>,
}

#[derive(Default)]
pub(super) struct HeldTables {
    tables: BTreeMap<TableNumber, HeldTable>,
    /// Whether a batch runs.
    is_in_batch: bool,
    /// Whether what the batch sent can be taken back behind.
    is_saved: bool,
    /// Whether rows of this group are held that were read after it changed them.
    pub(super) is_read_again: bool,
    /// What the batch is about to ask for.
    pub(super) expected: ExpectedLinks,
}

impl HeldTables {
    pub(super) fn find(&self, table: TableNumber) -> Option<&HeldTable> {
        self.tables.get(&table)
    }

    pub(super) fn of(&mut self, table: &Table) -> &mut HeldTable {
        let new = || HeldTable::new(kept(table));
        self.tables.entry(table.number).or_insert_with(new)
    }

    /// A table of which rows are held.
    pub(super) fn known(&mut self, table: &Table) -> Result<&mut HeldTable, StoreError> {
        let known = self.tables.get_mut(&table.number);
        known.ok_or_else(|| corrupt("a table is written that was not read"))
    }

    fn unsent(&mut self, earlier: bool) -> Result<Vec<UnsentTable>, StoreError> {
        let tables = self.tables.values_mut();
        let unsent = tables.map(|table| table.take_unsent(earlier));
        let unsent: Vec<UnsentTable> = unsent.collect::<Result<_, _>>()?;
        Ok(unsent.into_iter().filter(|one| !one.is_empty()).collect())
    }
}

impl<B: BulkRows> WorkingSet<B> {
    /// Empty, of a group that begins at the mark.
    pub(crate) fn new(behind: B, since: Mark) -> WorkingSet<B> {
        WorkingSet {
            behind,
            since,
            held: Rc::default(),
        }
    }

    pub(super) fn held(&self) -> RefMut<'_, HeldTables> {
        self.held.borrow_mut()
    }

    /// Reads what the batches name.
    ///
    /// # Errors
    /// What the database says; so it is with each call.
    pub(crate) fn read_ahead(&self, mut wanted: Vec<RowsWanted<'_>>) -> Result<(), StoreError> {
        for of_table in &mut wanted {
            of_table.since = self.since;
        }
        let read = self.behind.read(&wanted)?;
        let mut held = self.held();
        for (of_table, read) in wanted.iter().zip(read) {
            let table = held.of(of_table.table);
            table.take_in(read);
            for (index, values) in &of_table.holders {
                if let Some(key) = super::held_table::unique_key(index, values) {
                    table.add_probed(key);
                }
            }
        }
        Ok(())
    }

    /// Reads a row, unless it is held.
    pub(super) fn hold(&self, table: &Table, id: &str) -> Result<(), StoreError> {
        let is_held = |held: &HeldTable| held.counts.is_some() && held.row(id).is_some();
        if self.held().find(table.number).is_some_and(is_held) {
            return Ok(());
        }
        // Counts that are read again must have in them what is held.
        if self
            .held()
            .find(table.number)
            .is_some_and(|held| held.counts.is_none())
        {
            self.send()?;
        }
        let wanted = RowsWanted {
            table,
            ids: vec![id],
            holders: Vec::new(),
            since: self.since,
            asks_changes: false,
        };
        self.read_ahead(vec![wanted])
    }

    /// Reads those of the rows that are not held.
    pub(super) fn hold_all(&self, table: &Table, ids: Vec<&str>) -> Result<(), StoreError> {
        let ids: Vec<&str> = {
            let held = self.held();
            let held = held.find(table.number);
            let is_missing = |id: &&str| held.is_none_or(|held| held.row(id).is_none());
            ids.into_iter().filter(is_missing).collect()
        };
        if ids.is_empty() {
            return Ok(());
        }
        self.read_ahead(vec![RowsWanted {
            table,
            ids,
            holders: Vec::new(),
            since: self.since,
            asks_changes: false,
        }])
    }

    /// Asks a row that is read if need be.
    pub(super) fn ask<T>(
        &self,
        table: &Table,
        id: &str,
        ask: impl FnOnce(&HeldRow) -> T,
    ) -> Result<T, StoreError> {
        self.hold(table, id)?;
        let held = self.held();
        let row = held.find(table.number).and_then(|held| held.row(id));
        let row = row.ok_or_else(|| corrupt("a row was read and is not held"))?;
        Ok(ask(row))
    }

    /// Reads again how a table stands.
    pub(super) fn count_again(&self, table: &Table) -> Result<(), StoreError> {
        self.send()?;
        self.held().of(table).counts = None;
        let wanted = RowsWanted {
            table,
            ids: Vec::new(),
            holders: Vec::new(),
            since: self.since,
            asks_changes: false,
        };
        self.read_ahead(vec![wanted])
    }

    /// A batch begins.
    pub(crate) fn begin(&self) {
        let mut held = self.held();
        held.is_in_batch = true;
        held.expected.clear();
        held.tables.values_mut().for_each(HeldTable::keep);
    }

    /// The batch is done: another one may follow.
    pub(crate) fn keep(&self) -> Result<(), StoreError> {
        let mut held = self.held();
        held.is_in_batch = false;
        held.tables.values_mut().for_each(HeldTable::keep);
        if std::mem::take(&mut held.is_saved) {
            self.behind.settle(true)?;
        }
        Ok(())
    }

    /// The batch is refused: nothing of it stays.
    pub(crate) fn drop_batch(&self) -> Result<(), StoreError> {
        let mut held = self.held();
        held.expected.clear();
        held.is_in_batch = false;
        if !std::mem::take(&mut held.is_saved) {
            held.tables.values_mut().for_each(HeldTable::take_back);
            return Ok(());
        }
        held.tables.clear();
        held.is_read_again = true;
        self.behind.settle(false)
    }

    /// How much is held now.
    pub(crate) fn size(&self) -> HeldSize {
        let held = self.held();
        let mut size = HeldSize::default();
        for row in held.tables.values().flat_map(HeldTable::rows) {
            size.rows += 1;
            size.bytes += row.size_bytes();
        }
        size
    }

    /// What is left of the batches that are done.
    pub(crate) fn take_unsent(&self) -> Result<Vec<UnsentTable>, StoreError> {
        self.held().unsent(false)
    }

    /// Sends what is unsent. Of the batch that runs only behind what can be taken back.
    pub(super) fn send(&self) -> Result<(), StoreError> {
        let is_changed = self.held().tables.values().any(HeldTable::is_changed);
        if is_changed {
            self.save()?;
        }
        let left = self.held().unsent(false)?;
        if left.is_empty() {
            return Ok(());
        }
        self.behind.send(&left)
    }

    /// Sends what was done before the batch, and begins what can be taken back.
    fn save(&self) -> Result<(), StoreError> {
        let needs_none = |held: &HeldTables| !held.is_in_batch || held.is_saved;
        if needs_none(&self.held()) {
            return Ok(());
        }
        let earlier = self.held().unsent(true)?;
        if !earlier.is_empty() {
            self.behind.send(&earlier)?;
        }
        self.behind.save()?;
        self.held().is_saved = true;
        Ok(())
    }

    /// The database as it is, for what belongs to no row.
    pub(crate) fn database(&self) -> &B {
        &self.behind
    }

    /// The database, to be asked: it has all that was done.
    pub(super) fn behind(&self) -> Result<&B, StoreError> {
        self.send()?;
        Ok(&self.behind)
    }

    /// The database, to be changed: what is held of these rows is to be forgotten.
    pub(super) fn behind_to_change(&self) -> Result<&B, StoreError> {
        self.save()?;
        self.held().expected.clear();
        self.behind()
    }

    /// The database, to be changed where no rows are.
    pub(super) fn beside(&self) -> Result<&B, StoreError> {
        self.save()?;
        Ok(&self.behind)
    }

    /// The database, to be changed in whatever way: nothing is held any more.
    pub(crate) fn directly(&self) -> Result<&B, StoreError> {
        self.behind_to_change()?;
        let mut held = self.held();
        held.tables.clear();
        held.is_read_again = true;
        Ok(&self.behind)
    }
}
