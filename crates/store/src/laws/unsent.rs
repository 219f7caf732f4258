//! What is left to be written of a group: for each table what its rows have become, against what
//! the database has of them, as lists of one kind each.

use std::sync::Arc;

use model::history::{Cut, VersionNumber};
use model::{IndexKind, Mark, RowId, Table, Timestamp};

use super::held_row::{HeldGrant, HeldNow, HeldRow, HeldVersion};
use super::row_write::{Target, field_value};

/// What is left to be written to one table. Each list is one statement, in their order.
pub(crate) struct UnsentTable {
    pub(crate) table: Arc<Table>,
    pub(crate) versions_removed: Vec<VersionNumber>,
    pub(crate) versions_changed: Vec<VersionChange>,
    pub(crate) versions_added: Vec<AddedVersionOf>,
    /// Rows of now that go, and those that come back among the added ones because a value of them
    /// in a unique index changes: two rows may change places in one statement.
    pub(crate) rows_removed: Vec<i64>,
    /// Rows of now whose permissions changed, or whether they are twins, and nothing else.
    pub(crate) rows_adjusted: Vec<HeldNow>,
    /// Rows of now of which more changed.
    pub(crate) rows_changed: Vec<HeldNow>,
    pub(crate) rows_added: Vec<HeldNow>,
    /// By their numbers.
    pub(crate) grants_removed: Vec<i64>,
    /// Their numbers, and when they end.
    pub(crate) grants_changed: Vec<(i64, Option<Mark>)>,
    /// Each with the `$sequence` of its row.
    pub(crate) grants_added: Vec<(i64, HeldGrant)>,
    /// When rows begin or end by themselves next; `None` if they do not.
    pub(crate) schedule: Vec<(RowId, Option<Timestamp>)>,
}

/// How a version ended, or that it has no twin any more.
pub(crate) struct VersionChange {
    pub(crate) number: VersionNumber,
    pub(crate) cut: Option<Cut>,
    pub(crate) gone: Option<Mark>,
    pub(crate) is_twin: bool,
}

/// A version of a row that the database does not have.
pub(crate) struct AddedVersionOf {
    pub(crate) id: RowId,
    pub(crate) seq: i64,
    pub(crate) held: HeldVersion,
}

impl UnsentTable {
    pub(crate) fn new(table: Arc<Table>) -> UnsentTable {
        UnsentTable {
            table,
            versions_removed: Vec::new(),
            versions_changed: Vec::new(),
            versions_added: Vec::new(),
            rows_removed: Vec::new(),
            rows_adjusted: Vec::new(),
            rows_changed: Vec::new(),
            rows_added: Vec::new(),
            grants_removed: Vec::new(),
            grants_changed: Vec::new(),
            grants_added: Vec::new(),
            schedule: Vec::new(),
        }
    }

    /// Takes in what became of one row since the database had it as `before`.
    pub(crate) fn add(&mut self, id: &RowId, before: &HeldRow, after: &HeldRow) {
        self.add_versions(id, before, after);
        self.add_now(before.now.as_ref(), after.now.as_ref());
        self.add_grants(before, after);
        if before.due != after.due {
            self.schedule.push((id.clone(), after.due));
        }
    }

    fn add_versions(&mut self, id: &RowId, before: &HeldRow, after: &HeldRow) {
        for held in &after.versions {
            let number = held.version.number;
            let Some(known) = before.numbered(number) else {
                self.versions_added.push(AddedVersionOf {
                    id: id.clone(),
                    seq: after.seq.unwrap_or_default(),
                    held: held.clone(),
                });
                continue;
            };
            let state = |held: &HeldVersion| (held.version.cut, held.version.gone, held.is_twin);
            if state(known) != state(held) {
                let (cut, gone, is_twin) = state(held);
                self.versions_changed.push(VersionChange {
                    number,
                    cut,
                    gone,
                    is_twin,
                });
            }
        }
        let numbers = before.versions.iter().map(|held| held.version.number);
        let removed = numbers.filter(|number| after.numbered(*number).is_none());
        self.versions_removed.extend(removed);
    }

    fn add_now(&mut self, before: Option<&HeldNow>, after: Option<&HeldNow>) {
        let Some(before) = before else {
            self.rows_added.extend(after.cloned());
            return;
        };
        let Some(after) = after else {
            self.rows_removed.push(before.seq);
            return;
        };
        let is_written = match (&before.body, &after.body) {
            (Some(before), Some(after)) => !Arc::ptr_eq(before, after),
            (before, after) => before.is_some() != after.is_some(),
        };
        let shown = |now: &HeldNow| (now.image.updated, now.is_twin);
        if !is_written {
            let is_same = shown(before) == shown(after)
                && before.image.permissions == after.image.permissions;
            if !is_same {
                self.rows_adjusted.push(after.clone());
            }
        } else if moves_unique_value(&self.table, before, after) {
            self.rows_removed.push(before.seq);
            self.rows_added.push(after.clone());
        } else {
            self.rows_changed.push(after.clone());
        }
    }

    fn add_grants(&mut self, before: &HeldRow, after: &HeldRow) {
        for grant in &after.grants {
            let mut known = before.grants.iter();
            match known.find(|known| known.number == grant.number) {
                None => {
                    let seq = after.seq.unwrap_or_default();
                    self.grants_added.push((seq, grant.clone()));
                }
                Some(known) if known.until != grant.until => {
                    self.grants_changed.push((grant.number, grant.until));
                }
                Some(_) => {}
            }
        }
        let is_gone = |known: &&HeldGrant| {
            let mut left = after.grants.iter();
            !left.any(|grant| grant.number == known.number)
        };
        let gone = before.grants.iter().filter(is_gone);
        self.grants_removed.extend(gone.map(|grant| grant.number));
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.versions_removed.is_empty()
            && self.versions_changed.is_empty()
            && self.versions_added.is_empty()
            && self.rows_removed.is_empty()
            && self.rows_adjusted.is_empty()
            && self.rows_changed.is_empty()
            && self.rows_added.is_empty()
            && self.grants_removed.is_empty()
            && self.grants_changed.is_empty()
            && self.grants_added.is_empty()
            && self.schedule.is_empty()
    }
}

fn moves_unique_value(table: &Table, before: &HeldNow, after: &HeldNow) -> bool {
    let unique = table
        .indexes
        .iter()
        .filter(|index| index.kind == IndexKind::Unique);
    let mut fields = unique.flat_map(|index| index.columns.iter().map(|part| part.field));
    let value = |now: &HeldNow, field| {
        field_value(&Target::new(table, &now.id), now.seq, &now.image, field)
    };
    fields.any(|field| value(before, field) != value(after, field))
        || table.relations().any(|(position, _)| {
            before.image.values.get(position) != after.image.values.get(position)
        })
}
