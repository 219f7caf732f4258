//! What names a cached list.

use std::sync::Arc;

use model::{Table, TableNumber};
use query::Query;

/// The route family a body was encoded for; it decides how system fields are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Tables, columns and rows.
    Tables,
    /// Collections, attributes and documents.
    Documents,
}

/// What of a list an entry holds. Rows and total live and die apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The encoded rows, for one route family.
    Rows(Family),
    /// The total; it does not depend on order, page, selection or family.
    Total,
}

/// The name of an entry: equal for questions that have the same answer.
///
/// It holds the table's number, which no other table of any project or database ever has; the
/// table's schema and permission epochs, so a change of either finds nothing old; how often the
/// table was purged; and the query's normal form, in which visibility stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// Kept apart from the bytes, so a purge can find a table's entries.
    pub(crate) table: TableNumber,
    /// How often the table had been purged when the key was made.
    pub(crate) purge_epoch: u64,
    bytes: Arc<[u8]>,
}

impl Key {
    /// The key of `query`'s `part`, as of `purge_epoch`.
    pub fn new(query: &Query, part: Part, purge_epoch: u64) -> Key {
        let table: &Table = &query.table;
        let mut bytes = Vec::with_capacity(256);
        bytes.push(match part {
            Part::Rows(Family::Tables) => 0,
            Part::Rows(Family::Documents) => 1,
            Part::Total => 2,
        });
        for epoch in [table.schema_epoch, table.permission_epoch] {
            bytes.extend_from_slice(&epoch.to_le_bytes());
        }
        match part {
            Part::Rows(_) => query.write_normal_form(&mut bytes),
            Part::Total => query.write_total_form(&mut bytes),
        }
        Key {
            table: table.number,
            purge_epoch,
            bytes: bytes.into(),
        }
    }

    /// Bytes this key takes in memory, about.
    pub(crate) fn size_bytes(&self) -> u64 {
        (size_of::<Key>() + self.bytes.len()) as u64
    }
}
