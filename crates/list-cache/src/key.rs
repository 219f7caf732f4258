//! What names a cached list.

use std::borrow::Borrow;
use std::sync::Arc;

use model::TableNumber;
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
pub(crate) enum EntryPart {
    /// The encoded rows, for one route family.
    Rows(Family),
    /// The total; it does not depend on order, page, selection or family.
    Total,
}

/// What a reader asks of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contract {
    /// Never older than what any caller could have read when the request came.
    Exact,
    /// At most this old.
    Ttl {
        /// In seconds.
        age_s_max: u32,
    },
}

impl Contract {
    pub(crate) fn is_exact(self) -> bool {
        self == Contract::Exact
    }
}

/// The name of an entry: equal for questions that have the same answer.
///
/// It holds the contract; the table's number, which no other table of any project or database
/// ever has; how often the table was purged, within a `ttl`; the table's schema and permission
/// epochs, so a change of either finds nothing old; and the query's normal form, in which
/// visibility stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(Arc<[u8]>);

/// Where in a key the table's epochs begin: behind contract, part, number and purges. From there
/// on the key of a total says which rows are meant.
const EPOCHS_AT: usize = 2 + 8 + 8;

/// Where rows have their family.
const TOTAL: u8 = 2;

/// Where others have their contract.
const PINNED: u8 = 2;

impl Key {
    pub(crate) fn new(bytes: &[u8]) -> Key {
        Key(bytes.into())
    }

    /// Appends the name of `query`'s `part`.
    pub(crate) fn write(
        out: &mut Vec<u8>,
        query: &Query,
        contract: Contract,
        part: EntryPart,
        purge_epoch: u64,
    ) {
        let table = &query.table;
        out.push(u8::from(contract.is_exact()));
        out.push(match part {
            EntryPart::Rows(Family::Tables) => 0,
            EntryPart::Rows(Family::Documents) => 1,
            EntryPart::Total => TOTAL,
        });
        out.extend_from_slice(&table.number.0.to_be_bytes());
        for epoch in [purge_epoch, table.schema_epoch, table.permission_epoch] {
            out.extend_from_slice(&epoch.to_be_bytes());
        }
        match part {
            EntryPart::Rows(_) => query.write_normal_form(out),
            EntryPart::Total => query.write_total_form(out),
        }
    }

    /// Appends the name of the answer to `query` at fixed coordinates, behind these numbers: past
    /// epoch, schema and permission epochs, and the line of its table.
    pub(crate) fn write_pinned(
        out: &mut Vec<u8>,
        query: &Query,
        family: Family,
        total: bool,
        numbers: [u64; 4],
    ) {
        out.push(PINNED);
        out.push(u8::from(family == Family::Documents) | (u8::from(total) << 1));
        out.extend_from_slice(&query.table.number.0.to_be_bytes());
        for number in numbers {
            out.extend_from_slice(&number.to_be_bytes());
        }
        query.write_normal_form(out);
    }

    /// The name of the total beside the rows, or the total, of this name: `form` is what
    /// [`rows_meant`] gives of it.
    pub(crate) fn total_beside(name: &[u8], form: &[u8]) -> Key {
        let mut total = Vec::with_capacity(EPOCHS_AT + form.len());
        total.push(name[0]);
        total.push(TOTAL);
        total.extend_from_slice(&name[2..EPOCHS_AT]);
        total.extend_from_slice(form);
        Key::new(&total)
    }

    pub(crate) fn is_exact(&self) -> bool {
        self.0[0] == 1
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.0[0] == PINNED
    }

    /// The table, kept in a place of its own so that a purge can find a table's entries.
    pub(crate) fn table(&self) -> TableNumber {
        let number = self.0[2..10].try_into().expect("eight bytes");
        TableNumber(i64::from_be_bytes(number))
    }

    /// How often the table had been purged when it was made.
    pub(crate) fn purges(&self) -> u64 {
        let purges = self.0[10..EPOCHS_AT].try_into().expect("eight bytes");
        u64::from_be_bytes(purges)
    }

    /// Bytes this key takes in memory, about.
    pub(crate) fn size_bytes(&self) -> u64 {
        (size_of::<Key>() + self.0.len()) as u64
    }
}

/// What of a total's key names the rows that are meant, whatever the contract.
pub(crate) fn rows_meant(total_key: &[u8]) -> &[u8] {
    &total_key[EPOCHS_AT..]
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}
