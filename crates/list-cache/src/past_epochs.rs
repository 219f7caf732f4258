//! One number for each table that rises when what is kept about its past must not be found again.

use model::TableNumber;

use crate::purges::Purges;

/// The past epochs of all tables.
#[derive(Default)]
pub(crate) struct PastEpochs {
    pub(crate) raised: Purges,
    /// Tables whose past the commit in flight changes.
    pub(crate) in_flight: Vec<TableNumber>,
}

impl PastEpochs {
    /// The number that the names of answers about a table hold; `None` while the commit in flight
    /// raises it.
    pub(crate) fn of(&self, table: TableNumber) -> Option<u64> {
        (!self.in_flight.contains(&table)).then(|| self.raised.of(table))
    }
}
