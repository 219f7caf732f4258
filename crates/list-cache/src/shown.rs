//! Which rows the lists within a `ttl` show.
//!
//! Age is what a reader chose; access is not. A commit that takes a row from a caller's sight, by
//! deleting it or by taking a grant away, takes away the lists that show it to him. They stand
//! apart from the watches, because a list that a commit has altered is watched no more, and goes on
//! being served.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::{Change, Image, TableNumber};
use query::{Query, Visibility};

use crate::batch::Batch;
use crate::entry::StaleFlag;
use crate::key::Key;
use crate::weight;

/// The lists within a `ttl`, by their tables.
#[derive(Default)]
pub(crate) struct ShownLists(HashMap<TableNumber, Lists>);

/// Those of one table, by the numbers of their entries or open reads.
#[derive(Default)]
struct Lists {
    /// In an order that each process repeats.
    by_number: BTreeMap<u64, ShownList>,
    /// Row and list, so that the lists with a row are found without looking at others.
    by_row: BTreeSet<(i64, u64)>,
    /// Being read: they may show any row.
    open: BTreeSet<u64>,
}

struct ShownList {
    visibility: Visibility,
    /// What the total beside it is called.
    total: Key,
    state: ShownState,
}

enum ShownState {
    /// Set if it is taken away, so that no caller joins it.
    Open(Option<StaleFlag>),
    Kept {
        key: Key,
        rows: Box<[i64]>,
    },
}

/// What must leave the map: by its number, or, of a total beside such, whatever is called so.
pub(crate) type Lost = (Key, Option<u64>);

impl Lists {
    fn remove(&mut self, number: u64) -> Option<ShownList> {
        let list = self.by_number.remove(&number)?;
        self.open.remove(&number);
        if let ShownState::Kept { rows, .. } = &list.state {
            for row in rows {
                self.by_row.remove(&(*row, number));
            }
        }
        Some(list)
    }

    /// The lists that may show the row to a caller that loses it.
    fn losing(&self, change: &Change) -> Vec<u64> {
        let with = self.by_row.range((change.seq, 0)..=(change.seq, u64::MAX));
        let numbers = with.map(|(_, number)| number).chain(&self.open);
        let loses = |number: &&u64| is_lost(change, &self.by_number[*number].visibility);
        numbers.filter(loses).copied().collect()
    }
}

/// Whether the change takes the row from any caller's sight.
fn may_be_lost(change: &Change) -> bool {
    match (&change.before, &change.after) {
        (None, _) => false,
        (Some(before), Some(after)) => before.permissions != after.permissions,
        (Some(_), None) => true,
    }
}

/// Whether who sees so saw the row before the change, and does not after it.
fn is_lost(change: &Change, visibility: &Visibility) -> bool {
    let sees = |image: &Image| visibility.sees(&image.permissions);
    change.before.as_ref().is_some_and(sees) && !change.after.as_ref().is_some_and(sees)
}

/// Whether the batch takes a row that the query may show from who asks. More changes than
/// `asked_max` are not looked at: they may.
pub(crate) fn is_any_lost(batch: &Batch, query: &Query, asked_max: usize) -> bool {
    let table = query.table.number;
    let mut changes = batch.changes_of(table).enumerate();
    batch.unseen.contains(&table)
        || changes.any(|(nth, change)| nth >= asked_max || is_lost(change, &query.visibility))
}

impl ShownLists {
    pub(crate) fn count(&self) -> u64 {
        self.0.values().map(|of| of.by_number.len() as u64).sum()
    }

    /// A read for `query` begins. `altered` is its own flag; one that others share is not given.
    pub(crate) fn open(
        &mut self,
        query: &Query,
        number: u64,
        total: Key,
        stale: Option<StaleFlag>,
    ) {
        let lists = self.0.entry(query.table.number).or_default();
        let list = ShownList {
            visibility: query.visibility.clone(),
            total,
            state: ShownState::Open(stale),
        };
        lists.by_number.insert(number, list);
        lists.open.insert(number);
    }

    /// It found these rows, and becomes the entry `key`; without rows it is a total, which shows
    /// none. Says how many bytes are taken here; `None` if a caller has lost a row since it began.
    pub(crate) fn keep(&mut self, key: &Key, number: u64, rows: Option<Vec<i64>>) -> Option<usize> {
        let lists = self.0.get_mut(&key.table())?;
        let list = lists.by_number.get_mut(&number)?;
        let Some(rows) = rows else {
            self.remove(key.table(), number);
            return Some(0);
        };
        lists.open.remove(&number);
        lists.by_row.extend(rows.iter().map(|row| (*row, number)));
        let of_rows = rows.len() * (size_of::<i64>() + weight::hashed::<(i64, u64)>());
        let of_total = list.total.size_bytes() as usize;
        list.state = ShownState::Kept {
            key: key.clone(),
            rows: rows.into(),
        };
        Some(of_rows + of_total + weight::hashed::<(u64, ShownList)>())
    }

    /// An open read or an entry is no more.
    pub(crate) fn remove(&mut self, table: TableNumber, number: u64) {
        if let Some(lists) = self.0.get_mut(&table) {
            lists.remove(number);
            self.remove_if_empty(table);
        }
    }

    /// The entries of a table are no more. What is being read goes on.
    pub(crate) fn forget_kept(&mut self, table: TableNumber) {
        if let Some(lists) = self.0.get_mut(&table) {
            lists.by_row.clear();
            let is_open = |list: &ShownList| matches!(list.state, ShownState::Open(_));
            lists.by_number.retain(|_, list| is_open(list));
            self.remove_if_empty(table);
        }
    }

    fn remove_if_empty(&mut self, table: TableNumber) {
        let is_empty = |lists: &Lists| lists.by_number.is_empty();
        if self.0.get(&table).is_some_and(is_empty) {
            self.0.remove(&table);
        }
    }

    /// Takes away what shows a row to a caller that the batch takes it from.
    pub(crate) fn withhold(&mut self, batch: &Batch) -> Vec<Lost> {
        let mut lost = Vec::new();
        if self.0.is_empty() {
            return lost;
        }
        for table in &batch.unseen {
            let lists = self.0.remove(table).unwrap_or_default();
            for (number, list) in lists.by_number {
                take(number, list, &mut lost);
            }
        }
        let changes = batch.images.iter().flat_map(|changes| changes.iter());
        for change in changes.filter(|change| may_be_lost(change)) {
            let Some(lists) = self.0.get_mut(&change.table) else {
                continue;
            };
            for number in lists.losing(change) {
                if let Some(list) = lists.remove(number) {
                    take(number, list, &mut lost);
                }
            }
            self.remove_if_empty(change.table);
        }
        lost
    }
}

fn take(number: u64, of: ShownList, lost: &mut Vec<Lost>) {
    match of.state {
        ShownState::Open(stale) => stale.iter().for_each(StaleFlag::set),
        ShownState::Kept { key, .. } => {
            lost.push((key, Some(number)));
            // Or it would count rows that are not shown.
            lost.push((of.total, None));
        }
    }
}
