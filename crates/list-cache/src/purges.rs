//! How often the lists of each table were purged, in bounded memory.

use std::collections::HashMap;

use model::TableNumber;

/// Tables whose purges are remembered one by one. A table that is deleted is never asked about
/// again, so they would grow for ever.
const TABLES_MAX: usize = 4_096;

/// A number for each table that every purge of it raises, and that never falls.
#[derive(Default)]
pub(crate) struct Purges {
    /// All purges so far.
    count: u64,
    /// What holds for the tables that are not remembered.
    floor: u64,
    of_tables: HashMap<TableNumber, u64>,
}

impl Purges {
    /// The number of a table.
    pub(crate) fn of(&self, table: TableNumber) -> u64 {
        self.of_tables.get(&table).copied().unwrap_or(self.floor)
    }

    /// Raises the number of a table; at the bound, that of all tables: then lists that were not
    /// purged are read once more.
    pub(crate) fn purge(&mut self, table: TableNumber) {
        self.count += 1;
        if self.of_tables.len() >= TABLES_MAX && !self.of_tables.contains_key(&table) {
            self.of_tables = HashMap::new();
            self.floor = self.count;
        } else {
            self.of_tables.insert(table, self.count);
        }
    }

    /// Raises the number of every table.
    pub(crate) fn purge_all(&mut self) {
        self.count += 1;
        self.of_tables = HashMap::new();
        self.floor = self.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_purge_raises_its_tables_number_and_no_more_tables_are_remembered_than_the_bound() {
        let mut purges = Purges::default();
        let tables = TABLES_MAX as i64 * 3;
        let mut known = vec![0; tables as usize];
        for round in 0..2 {
            for table in 0..tables {
                let before = purges.of(TableNumber(table));
                assert!(before >= known[table as usize], "{round} {table}");
                purges.purge(TableNumber(table));
                known[table as usize] = purges.of(TableNumber(table));
                assert!(known[table as usize] > before, "{round} {table}");
                assert!(purges.of_tables.len() <= TABLES_MAX);
            }
        }
        let before = purges.of(TableNumber(0));
        purges.purge(TableNumber(1));
        assert_eq!(purges.of(TableNumber(0)), before, "another table's");
        let known = purges.of(TableNumber(1));
        purges.purge_all();
        assert!(purges.of(TableNumber(0)) > before && purges.of(TableNumber(1)) > known);
    }
}
