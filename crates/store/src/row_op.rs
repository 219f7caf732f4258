//! Operations on one row from now on, as they go into a batch.

use std::sync::Arc;

use model::{Action, Patch, Permission, RoleSet, RowId, Table, Timestamp, Value};

use crate::refusal::Refusal;

/// An operation on one row, valid from the batch's mark until further notice.
#[derive(Clone, Debug)]
pub struct RowOp {
    /// The table, as of the batch's catalogue.
    pub table: Arc<Table>,
    /// The row.
    pub id: RowId,
    /// What happens to it.
    pub act: RowAct,
}

/// What happens to a row.
#[derive(Clone, Debug)]
pub enum RowAct {
    /// Fails with [`Refusal::RowExists`] when the row is there.
    Insert {
        /// One value for each column.
        values: Vec<Value>,
        /// The row's grants.
        permissions: Vec<Permission>,
        /// Times a key set by hand.
        stamps: Stamps,
        /// Who may update a row of this id that is there: see [`crate::TimedAct::Insert`].
        guard: Guard,
    },
    /// Merges into an existing row. One that changes nothing writes nothing.
    Update {
        /// The columns to set.
        patch: Patch,
        /// New grants; `None` keeps the old ones.
        permissions: Option<Vec<Permission>>,
        /// Times a key set by hand.
        stamps: Stamps,
        /// Who may.
        guard: Guard,
    },
    /// Merges into an existing row, or inserts.
    Put {
        /// The columns to set when the row is there. Its operators run on an insertion, too.
        patch: Patch,
        /// The content when it is not, before operators have run, or why there can be none.
        insert: Result<Vec<Value>, Box<Refusal>>,
        /// New grants; `None` keeps the old ones.
        permissions: Option<Vec<Permission>>,
        /// The grants when it is inserted.
        insert_permissions: Vec<Permission>,
        /// Times a key set by hand.
        stamps: Stamps,
        /// Who may update.
        guard: Guard,
    },
    /// Fails with [`Refusal::RowNotFound`] when the row is absent.
    Delete {
        /// Who may.
        guard: Guard,
    },
}

/// Times that a key caller set by hand; `None` is the commit's own time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// `$createdAt`
    pub created: Option<Timestamp>,
    /// `$updatedAt`
    pub updated: Option<Timestamp>,
}

/// Who may change the row, judged inside the transaction, where its grants cannot move.
#[derive(Clone, Debug)]
pub enum Guard {
    /// The actor may: a key, or a grant on the whole table.
    Open,
    /// The row itself must grant each of the actions to one of the roles.
    Granted {
        /// Whom the actor stands for.
        roles: Arc<RoleSet>,
        /// What the operation needs beyond the grants of the table.
        actions: Box<[Action]>,
    },
    /// The actor may not: [`Refusal::RowForbidden`] if the row is there, else
    /// [`Refusal::RowNotFound`].
    Closed,
}
