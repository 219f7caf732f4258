//! Rows that hold links to others, found for many at once before they are needed one by one, and
//! kept true while the batch writes.

use std::collections::{BTreeSet, HashMap};

use model::{Column, ColumnNumber, RowId, Table, TableNumber, Value};

/// What is known of each row that links lead to, by the column that holds them.
type OfColumns<T> = HashMap<(TableNumber, ColumnNumber), HashMap<Box<str>, T>>;

/// The holders that were looked for, by the row that their links lead to.
#[derive(Default)]
pub(super) struct ExpectedLinks {
    now: OfColumns<KnownHolders>,
    /// All rows of which a piece that is yet to begin held a link, or that were given one since.
    to_come: OfColumns<BTreeSet<RowId>>,
}

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
        *self = ExpectedLinks::default();
    }

    /// Takes in what was found of these rows: at most `each_max` holders of each.
    pub(super) fn take_in(
        &mut self,
        (table, column): (&Table, &Column),
        ids: &[&str],
        (found, each_max): (Vec<(String, RowId)>, usize),
    ) {
        let of_column = self.now.entry((table.number, column.number)).or_default();
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

    /// Takes in all that were found of these rows among what is to come.
    pub(super) fn take_in_to_come(
        &mut self,
        (table, column): (&Table, &Column),
        ids: &[&str],
        found: Vec<(String, RowId)>,
    ) {
        let of_column = self.to_come.entry((table.number, column.number));
        let of_column = of_column.or_default();
        for id in ids {
            of_column.insert((*id).into(), BTreeSet::new());
        }
        for (id, holder) in found {
            of_column.entry(id.into()).or_default().insert(holder);
        }
    }

    /// A row of now, or a version, is written with these values.
    pub(super) fn written(&mut self, table: &Table, id: &str, values: &[Value]) {
        let ExpectedLinks { now, to_come } = self;
        if now.is_empty() && to_come.is_empty() {
            return;
        }
        let Ok(id) = RowId::new(id) else { return };
        for (position, _) in table.relations() {
            let column = (table.number, table.columns[position].number);
            for target in targets(&values[position]) {
                let of_target = now.get_mut(&column).and_then(|of| of.get_mut(target));
                if let Some(holders) = of_target {
                    holders.ids.insert(id.clone());
                }
                let of_target = to_come.get_mut(&column).and_then(|of| of.get_mut(target));
                if let Some(holders) = of_target {
                    holders.insert(id.clone());
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
        self.now.get(&(table.number, column.number))?.get(id)
    }

    /// Those to come, if they were looked for.
    pub(super) fn to_come(
        &self,
        table: &Table,
        column: &Column,
        id: &str,
    ) -> Option<&BTreeSet<RowId>> {
        self.to_come.get(&(table.number, column.number))?.get(id)
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
