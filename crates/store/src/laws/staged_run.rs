//! What one batch has to do with transactions of clients.

use std::cell::RefCell;
use std::collections::HashMap;

use model::{Mark, RowId, TableNumber, Timestamp};

use crate::staged::{Once, Since, Transaction};

/// What one batch has to do with transactions.
#[derive(Default)]
pub(crate) struct StagedRun {
    /// Those it changed.
    pub(crate) changed: Vec<Transaction>,
    /// What holds for the operations on rows; `None` in a batch of any other kind.
    pub(crate) since: Option<Since>,
    /// What the rows that it changes were before it.
    pub(crate) entered: RefCell<HashMap<(TableNumber, RowId), Entered>>,
    /// What keeps it from running twice.
    pub(crate) once: Option<Once>,
}

impl StagedRun {
    /// Whether it leaves something beside rows.
    pub(crate) fn keeps(&self) -> bool {
        self.once.is_some() || !self.changed.is_empty()
    }
}

/// A row before the batch.
#[derive(Clone, Copy)]
pub(crate) struct Entered {
    /// The mark of its last change; below any when it was not there.
    pub(crate) changed: Mark,
    pub(crate) updated: Timestamp,
}
