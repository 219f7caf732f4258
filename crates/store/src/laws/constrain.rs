//! Giving a table other constraints over valid time.

use std::sync::Arc;

use model::{Table, TableNumber};

use super::halt::Step;
use super::perform::BatchStore;
use super::run::Run;
use super::table_layout::TablesChange;
use crate::batch::{CONSTRAINTS_MAX, Constraint, ConstraintChange, TableConstraints};
use crate::error::corrupt;
use crate::refusal::Refusal;
use crate::stored::constraints;

impl<D: BatchStore> Run<'_, D> {
    /// Changes the constraints of a table over valid time. What is known now must keep those that
    /// are new.
    pub(super) fn constrain(&mut self, table: &Table, change: &ConstraintChange) -> Step<()> {
        let number = table.number;
        let mut before = Vec::new();
        for (place, constraint) in self.rows().read_stored(&constraints::placed(number))? {
            if is_of(table, &constraint) {
                before.push((place, constraint));
            } else {
                // Its column is gone.
                self.drop_constraint(number, place)?;
            }
        }
        let after = changed(before.iter().map(|(_, constraint)| constraint), change)?;
        let wanted: Vec<Constraint> = after.each().collect();
        for (place, constraint) in &before {
            if !wanted.contains(constraint) {
                self.drop_constraint(number, *place)?;
            }
        }
        let is_new = |constraint: &&Constraint| before.iter().all(|(_, old)| old != *constraint);
        let new: Vec<&Constraint> = wanted.iter().filter(is_new).collect();
        for constraint in &new {
            self.add_constraint(table, constraint)?;
        }
        Arc::make_mut(&mut self.state.constraints).set(number, &after);
        for constraint in new {
            self.need_kept(table, constraint)?;
        }
        self.constrained = true;
        Ok(())
    }

    fn drop_constraint(&self, table: TableNumber, place: i64) -> Step<()> {
        let gone = TablesChange::DropConstraint(table, place);
        self.rows().reshape(gone)?;
        self.write(&constraints::remove(table, place))
    }

    fn add_constraint(&self, table: &Table, constraint: &Constraint) -> Step<()> {
        let place = self
            .rows()
            .first_stored(&constraints::next_place(table.number))?;
        let place = place.ok_or_else(|| corrupt("no place follows"))?;
        self.write(&constraints::add(table.number, place, constraint))?;
        let key: Vec<usize> = match constraint {
            Constraint::Unique(columns) => {
                columns.iter().filter_map(|c| table.numbered(*c)).collect()
            }
            Constraint::Ref(column, _) => table.numbered(*column).into_iter().collect(),
        };
        let index = TablesChange::AddConstraint(table, &key, place);
        Ok(self.rows().reshape(index)?)
    }
}

/// Whether the table has its columns.
pub(crate) fn is_of(table: &Table, constraint: &Constraint) -> bool {
    let has = |column| table.numbered(column).is_some();
    match constraint {
        Constraint::Unique(columns) => columns.iter().all(|column| has(*column)),
        Constraint::Ref(column, _) => has(*column),
    }
}

/// # Errors
/// What is to be added is there, or too much; what is to be removed is not there.
fn changed<'c>(
    before: impl Iterator<Item = &'c Constraint>,
    change: &ConstraintChange,
) -> Result<TableConstraints, Refusal> {
    let mut all: Vec<Constraint> = before.cloned().collect();
    let added = match change {
        ConstraintChange::Replace(new) => return Ok(new.clone()),
        ConstraintChange::Add(new) => new.each().collect(),
        ConstraintChange::Remove(old) => {
            for old in old.each() {
                let place = all.iter().position(|constraint| *constraint == old);
                all.remove(place.ok_or(Refusal::ConstraintNotFound)?);
            }
            Vec::new()
        }
    };
    if added.iter().any(|new| all.contains(new)) {
        return Err(Refusal::ConstraintExists);
    }
    let is_longer = !added.is_empty();
    let mut after = TableConstraints::default();
    for constraint in all.into_iter().chain(added) {
        after.add(constraint);
    }
    let constraints_max = CONSTRAINTS_MAX;
    if is_longer && after.unique.len().max(after.refs.len()) > constraints_max {
        return Err(Refusal::TooManyConstraints { constraints_max });
    }
    Ok(after)
}
