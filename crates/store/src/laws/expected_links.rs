//! Rows that hold links to others, found for many at once before they are needed one by one, and
//! kept true while the batch writes.

use std::collections::{BTreeSet, HashMap};

use model::{Column, ColumnNumber, RowId, Table, TableNumber, Value};

/// The holders that were looked for, by the row that their links lead to.
#[derive(Default)]
pub(super) struct ExpectedLinks(
    HashMap<(TableNumber, ColumnNumber), HashMap<Box<str>, KnownHolders>>,
);

/// Rows that held a link when they were looked for, or were given one since. Whether they hold it
/// yet, the rows themselves say.
#[derive(Default)]
pub(super) struct KnownHolders {
    pub(super) ids: BTreeSet<RowId>,
    /// Whether there were no others.
    pub(super) is_whole: bool,
}

impl ExpectedLinks {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes in what was found of these rows: at most `each_max` holders of each.
    pub(super) fn take_in(
        &mut self,
        (table, column): (&Table, &Column),
        ids: &[&str],
        (found, each_max): (Vec<(String, RowId)>, usize),
    ) {
        let of_column = self.0.entry((table.number, column.number)).or_default();
        for id in ids {
            of_column.insert((*id).into(), KnownHolders::default());
        }
        for (id, holder) in found {
            let holders = of_column.entry(id.into()).or_default();
            holders.ids.insert(holder);
        }
        for id in ids {
            if let Some(holders) = of_column.get_mut(*id) {
                holders.is_whole = holders.ids.len() < each_max;
            }
        }
    }

    /// A row of now is written with these values.
    pub(super) fn written(&mut self, table: &Table, id: &RowId, values: &[Value]) {
        if self.0.is_empty() {
            return;
        }
        for (position, _) in table.relations() {
            let column = table.columns[position].number;
            let Some(of_column) = self.0.get_mut(&(table.number, column)) else {
                continue;
            };
            for target in targets(&values[position]) {
                if let Some(holders) = of_column.get_mut(target) {
                    holders.ids.insert(id.clone());
                }
            }
        }
    }

    /// The holders of links to this row, if they were looked for.
    pub(super) fn holders(
        &self,
        table: &Table,
        column: &Column,
        id: &str,
    ) -> Option<&KnownHolders> {
        self.0.get(&(table.number, column.number))?.get(id)
    }
}

/// The rows that a value leads to.
pub(super) fn targets(value: &Value) -> impl Iterator<Item = &str> {
    let links = match value {
        Value::List(links) => links.as_slice(),
        single => std::slice::from_ref(single),
    };
    links.iter().filter_map(|link| match link {
        Value::Text(id) => Some(id.as_str()),
        _ => None,
    })
}
