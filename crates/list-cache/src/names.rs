//! Lists that are asked for again and again: named once, looked for many times.

use crate::key::{Contract, EntryPart, Key};
use crate::lists::ListCache;
use crate::request::{Answer, Completeness, ListRequest};
use crate::run::ReadParts;

/// The names of the parts of one list.
#[derive(Debug)]
pub struct Names {
    contract: Contract,
    rows: Box<[u8]>,
    /// `None` if no total is wanted.
    total: Option<Box<[u8]>>,
    /// How many purges there had been, of any table.
    purges: u64,
}

impl Names {
    pub(crate) fn contract(&self) -> Contract {
        self.contract
    }

    pub(crate) fn rows(&self) -> &[u8] {
        &self.rows
    }

    pub(crate) fn total(&self) -> Option<&[u8]> {
        self.total.as_deref()
    }

    /// Bytes they take in memory, about.
    pub fn size_bytes(&self) -> usize {
        let total = self.total.as_ref().map_or(0, |name| name.len());
        size_of::<Names>() + self.rows.len() + total
    }
}

impl ListCache {
    /// The names under which the answer to `request` may be cached. They are good for as long as
    /// the query would be resolved alike.
    pub fn name(&self, request: ListRequest<'_>) -> Names {
        // First: a purge in between makes the names too old, never too young.
        let purges_of_all = self.purges_of_all();
        let purges = self.purges(request.contract, request.query.table.number);
        let name = |part| {
            let mut name = Vec::with_capacity(256);
            Key::write(&mut name, request.query, request.contract, part, purges);
            name.into_boxed_slice()
        };
        Names {
            contract: request.contract,
            rows: name(EntryPart::Rows(request.family)),
            total: request.total.then(|| name(EntryPart::Total)),
            purges: purges_of_all,
        }
    }

    /// What [`ListCache::ask`] would answer at once: all that was asked for, if it is cached and
    /// may be served. Locks nothing but what the map locks, and keeps nothing of what it finds.
    pub fn look(&self, names: &Names, now_ms: u64) -> Option<Answer> {
        if !names.contract.is_exact() && names.purges != self.purges_of_all() {
            return None;
        }
        let mut held = ReadParts::default();
        let found = self.find(names, &mut held, now_ms);
        held.answer(names, true)
            .filter(|_| found == Completeness::Whole)
    }
}
