//! What containers leave to be done between commits.

use model::TableNumber;

use crate::StoreError;
use crate::error::corrupt;
use crate::stored::change::StoredChange;

/// What the table `upkeep` may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// The table was deleted: remove its rows, then the physical tables.
    Drop,
    /// Bodies may be older than the schema: encode those again. A change that raises a table's
    /// schema epoch asks for this.
    Bodies,
    /// The table's line has risen: let go of what lies below it.
    Forget,
    /// The table is older than the counter of its bytes: count what it holds.
    Count,
}

impl Task {
    /// Written to disk: never to be changed.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Task::Drop => "drop",
            Task::Bodies => "bodies",
            Task::Forget => "forget",
            Task::Count => "count",
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Task, StoreError> {
        match text {
            "drop" => Ok(Task::Drop),
            "bodies" => Ok(Task::Bodies),
            "forget" => Ok(Task::Forget),
            "count" => Ok(Task::Count),
            other => Err(corrupt(format!("unknown upkeep {other:?}"))),
        }
    }

    /// Leaves it to the upkeep, from the table's first row on.
    pub(crate) fn leave(self, table: TableNumber) -> StoredChange {
        StoredChange::new(
            "INSERT INTO upkeep (tab, task, seq) VALUES ($1, $2, 0) \
             ON CONFLICT (tab, task) DO UPDATE SET seq = 0",
            vec![table.0.into(), self.as_str().into()],
        )
    }
}
