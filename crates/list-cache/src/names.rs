//! Lists that are asked for again and again: named once, looked for many times.

use crate::asking::{Answer, Asked};
use crate::entry::Unaltered;
use crate::key::{Contract, Key, Part};
use crate::lists::ListCache;
use crate::rules::Rule;

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
    /// Bytes they take in memory, about.
    pub fn size_bytes(&self) -> usize {
        let total = self.total.as_ref().map_or(0, |name| name.len());
        size_of::<Names>() + self.rows.len() + total
    }
}

impl ListCache {
    /// The names under which the answer to `asked` may be cached. They are good for as long as the
    /// query would be resolved alike.
    pub fn name(&self, asked: Asked<'_>) -> Names {
        // First: a purge in between makes the names too old, never too young.
        let purges_of_all = self.purges_of_all();
        let purges = self.purges(asked.contract, asked.query.table.number);
        let name = |part| {
            let mut name = Vec::with_capacity(256);
            Key::write(&mut name, asked.query, asked.contract, part, purges);
            name.into_boxed_slice()
        };
        Names {
            contract: asked.contract,
            rows: name(Part::Rows(asked.family)),
            total: asked.total.then(|| name(Part::Total)),
            purges: purges_of_all,
        }
    }

    /// What [`ListCache::ask`] would answer at once: all that was asked for, if it is cached and
    /// may be served. Locks nothing but what the map locks, and keeps nothing of what it finds.
    pub fn look(&self, names: &Names, now_ms: u64) -> Option<Answer> {
        let is_exact = names.contract.is_exact();
        if !is_exact && names.purges != self.purges_of_all() {
            return None;
        }
        let rows = self.rows(&names.rows, names.contract, now_ms)?;
        let total = match &names.total {
            Some(name) => Some(self.total(name, names.contract, now_ms)?),
            None => None,
        };
        let are_rows_altered = rows.altered.is_set();
        // The rows were found first: unaltered, they were true together with the total.
        let needs_one_instant = is_exact && total.is_some() && self.rules().hold(Rule::OneInstant);
        if needs_one_instant && are_rows_altered {
            return None;
        }
        let is_total_altered = total.as_ref().is_some_and(|total| total.altered.is_set());
        let total_altered = total.as_ref().map(|total| total.altered.clone());
        Some(Answer {
            unaltered: Unaltered::new(rows.altered, total_altered),
            rows: rows.value,
            total: total.map(|total| total.value.count),
            is_hit: true,
            is_stale: (!is_exact).then_some(are_rows_altered || is_total_altered),
        })
    }
}
