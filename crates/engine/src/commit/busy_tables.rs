//! Changes of tables that others use. Each try holds up all that write for a while, so it is made
//! seldom, of all such changes together, and not for ever.

use std::time::{Duration, Instant};

use model::{Catalogue, Table, TableNumber};
use store::{CatalogueOp, Op, SchemaChange, WriteBatch};

use super::write_queue::Until;

/// From one try to the next. Each may hold up the writer for a tenth of that.
const PAUSE: Duration = Duration::from_secs(1);
/// So long a caller waits, as long as a read may take that is in its way.
const PATIENCE: Duration = Duration::from_secs(10);

/// When a write that was not run is to run.
pub(super) enum Again {
    InNextGroup,
    After(Until),
}

/// When changes that were put aside are tried next.
#[derive(Default)]
pub(super) struct NextTry(Option<Instant>);

impl NextTry {
    /// When a change that met others is tried again, which was put aside first at this instant;
    /// `None` where its caller has waited long enough.
    pub(super) fn after(&mut self, since: Instant, now: Instant) -> Option<Instant> {
        if now.saturating_duration_since(since) >= PATIENCE {
            return None;
        }
        let next = self.0.filter(|next| *next > now);
        let next = next.unwrap_or_else(|| now + PAUSE);
        self.0 = Some(next);
        Some(next)
    }

    /// When a change that was not tried yet goes with those that were put aside; `None` where none
    /// is, or its caller has waited long enough.
    pub(super) fn shared(&self, since: Instant, now: Instant) -> Option<Instant> {
        let has_time = now.saturating_duration_since(since) < PATIENCE;
        self.0.filter(|next| has_time && *next > now)
    }
}

/// Whether a batch changes tables of rows, which others may use.
pub(super) fn changes_tables(batch: &WriteBatch) -> bool {
    changes(batch).next().is_some()
}

/// The changes of a batch that need a table to themselves.
fn changes(batch: &WriteBatch) -> impl Iterator<Item = &CatalogueOp> {
    let of_catalogue = batch.ops.iter().filter_map(|op| match op {
        Op::Catalogue(op) => Some(op),
        _ => None,
    });
    of_catalogue.filter(|op| {
        matches!(
            op,
            CatalogueOp::ChangeSchema { .. }
                | CatalogueOp::Constrain { .. }
                | CatalogueOp::DeleteTable(..)
                | CatalogueOp::DeleteDatabase(..)
                | CatalogueOp::DeleteProject(_)
        )
    })
}

/// Whether a batch may need this table to itself.
pub(super) fn needs(batch: &WriteBatch, table: TableNumber, catalogue: &Catalogue) -> bool {
    let Some(table) = catalogue.table_by_number(table) else {
        return false;
    };
    changes(batch).any(|op| match op {
        CatalogueOp::DeleteProject(project) => *project == table.project,
        CatalogueOp::DeleteDatabase(project, database) => {
            (project, database) == (&table.project, &table.database)
        }
        CatalogueOp::DeleteTable(project, database, id) => {
            (project, database, id) == (&table.project, &table.database, &table.id)
        }
        CatalogueOp::Constrain { table: changed, .. } => changed.number == table.number,
        CatalogueOp::ChangeSchema {
            table: changed,
            change,
        } => changed.number == table.number || is_at_an_end(changed, change, table),
        _ => false,
    })
}

/// Whether a table is at the other end of a relationship that a change makes, or may end.
fn is_at_an_end(changed: &Table, change: &SchemaChange, table: &Table) -> bool {
    if let SchemaChange::AddRelationship { related, .. } = change {
        return related.number == table.number;
    }
    let is_same_database =
        (&changed.project, &changed.database) == (&table.project, &table.database);
    let mut relations = changed.relations();
    is_same_database && relations.any(|(_, relation)| relation.related == table.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_tried_each_second_until_its_caller_has_waited_for_ten() {
        let since = Instant::now();
        let mut tried = NextTry::default();
        let mut now = since;
        let mut attempts = 1;
        while let Some(next) = tried.after(since, now) {
            assert!(next > now);
            now = next;
            attempts += 1;
        }
        assert_eq!(attempts, 11);
    }

    #[test]
    fn changes_that_are_put_aside_are_tried_at_one_instant() {
        let first = Instant::now();
        let later = first + PAUSE / 2;
        let mut tried = NextTry::default();
        assert_eq!(tried.shared(first, first), None, "none is put aside");
        let next = tried.after(first, first);
        assert_eq!(next, Some(first + PAUSE));
        assert_eq!(tried.after(later, later), next);
        assert_eq!(tried.shared(later, later), next);
        let then = first + PAUSE;
        assert_eq!(tried.shared(later, then), None, "it is time for all");
        assert_eq!(tried.after(later, then), Some(then + PAUSE));
        assert_eq!(tried.shared(first, first + PATIENCE), None);
    }
}
