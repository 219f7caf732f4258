//! Constraints over valid time, as tables declare them.

use std::collections::BTreeMap;

use model::{ColumnNumber, Table, TableNumber};

use crate::batch::{Constraint, TableConstraints};

/// The constraints of all tables that have some.
#[derive(Clone, Debug, Default)]
pub(crate) struct Constraints(BTreeMap<TableNumber, TableConstraints>);

impl Constraints {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a table declares.
    pub(crate) fn of(&self, table: TableNumber) -> TableConstraints {
        self.0.get(&table).cloned().unwrap_or_default()
    }

    /// Whether a write to this table may break one.
    pub(crate) fn concern(&self, table: TableNumber) -> bool {
        self.0.contains_key(&table)
            || self
                .0
                .values()
                .any(|of| of.refs.iter().any(|(_, to)| *to == table))
    }

    /// The unique keys of a table, by the positions of their columns. One whose column is gone
    /// holds no more.
    pub(crate) fn unique_of(&self, table: &Table) -> Vec<Vec<usize>> {
        let keys = self.0.get(&table.number).map(|of| of.unique.as_slice());
        let positions =
            |key: &Vec<ColumnNumber>| key.iter().map(|number| table.numbered(*number)).collect();
        keys.unwrap_or_default()
            .iter()
            .filter_map(positions)
            .collect()
    }

    /// The columns of a table that refer, and the tables they refer to.
    pub(crate) fn references_of(&self, table: &Table) -> Vec<(usize, TableNumber)> {
        let refs = self.0.get(&table.number).map(|of| of.refs.as_slice());
        let position =
            |(column, to): &(ColumnNumber, TableNumber)| Some((table.numbered(*column)?, *to));
        refs.unwrap_or_default()
            .iter()
            .filter_map(position)
            .collect()
    }

    /// The tables that refer to this one, and by which columns.
    pub(crate) fn references_to(&self, table: TableNumber) -> Vec<(TableNumber, ColumnNumber)> {
        let all = self.0.iter().flat_map(|(holder, of)| {
            let refs = of.refs.iter().filter(|(_, to)| *to == table);
            refs.map(|(column, _)| (*holder, *column))
        });
        all.collect()
    }

    /// Gives a table one more.
    pub(crate) fn add(&mut self, table: TableNumber, constraint: Constraint) {
        self.0.entry(table).or_default().add(constraint);
    }

    /// Gives a table these, in the place of those it has.
    pub(crate) fn set(&mut self, table: TableNumber, new: &TableConstraints) {
        self.0.remove(&table);
        if !new.unique.is_empty() || !new.refs.is_empty() {
            self.0.insert(table, new.clone());
        }
    }

    pub(crate) fn forget(&mut self, table: TableNumber) {
        self.0.remove(&table);
        for of in self.0.values_mut() {
            of.refs.retain(|(_, to)| *to != table);
        }
    }
}
