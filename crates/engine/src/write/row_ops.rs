//! The operation that a row of a request becomes, for the store.

use std::sync::Arc;

use model::{Action, Actor, Edit, Patch, Table, Value};
use store::{Refusal, RowAct, RowOp};

use crate::error::{AccessError, EngineError, WriteError};
use crate::request::authorize;
use crate::request::inputs::RowInput;
use crate::write::content::{Content, PermissionsIn, Sent};

/// The content of a row, where it may change one that is there.
pub(crate) fn sent(row: &RowInput, permissions_in: PermissionsIn) -> Sent<'_> {
    Sent {
        members: &row.members,
        permissions: row.permissions.as_deref(),
        permissions_in,
        may_operate: true,
    }
}

pub(crate) fn update(
    table: &Arc<Table>,
    actor: &Actor,
    row: &RowInput,
    held: &[(usize, Value)],
) -> Result<RowOp, EngineError> {
    let mut content = Content::check(table, actor, sent(row, PermissionsIn::Parameter))?;
    hold(&mut content.patch, held);
    let act = RowAct::Update {
        guard: authorize::guard_patch(table, actor, &content.patch),
        patch: content.patch,
        permissions: content.permissions,
        stamps: content.stamps,
    };
    Ok(RowOp::now(table.clone(), row.id.clone(), act))
}

/// Adds the columns that hold links.
fn hold(patch: &mut Patch, held: &[(usize, Value)]) {
    for (position, value) in held {
        patch.put(*position, Edit::Set(value.clone()));
    }
}

pub(crate) fn insert(
    table: &Arc<Table>,
    actor: &Actor,
    row: &RowInput,
    held: &[(usize, Value)],
    permissions_in: PermissionsIn,
) -> Result<RowOp, EngineError> {
    if !authorize::may_create(table, actor) {
        return Err(AccessError::Unauthorized.into());
    }
    let sent = Sent {
        may_operate: false,
        ..sent(row, permissions_in)
    };
    let mut content = Content::check(table, actor, sent)?;
    hold(&mut content.patch, held);
    let act = RowAct::Insert {
        values: content.patch.start(table).map_err(WriteError::Structure)?,
        permissions: content.permissions.unwrap_or_default(),
        stamps: content.stamps,
        guard: authorize::guard(table, actor, &[Action::Update]),
    };
    Ok(RowOp::now(table.clone(), row.id.clone(), act))
}

/// An upsert, with what an insertion would be or why there could be none: which of the two it
/// becomes is known only inside the transaction.
pub(crate) fn put(
    table: &Arc<Table>,
    actor: &Actor,
    row: &RowInput,
    held: &[(usize, Value)],
) -> Result<RowOp, EngineError> {
    let mut content = Content::check(table, actor, sent(row, PermissionsIn::Either))?;
    hold(&mut content.patch, held);
    let insert = if authorize::may_create(table, actor) {
        content
            .patch
            .start(table)
            .map_err(|error| Box::new(Refusal::Invalid(error)))
    } else {
        Err(Box::new(Refusal::RowForbidden(row.id.clone())))
    };
    let act = RowAct::Put {
        insert,
        guard: authorize::guard_patch(table, actor, &content.patch),
        patch: content.patch,
        insert_permissions: content.permissions.clone().unwrap_or_default(),
        permissions: content.permissions,
        stamps: content.stamps,
    };
    Ok(RowOp::now(table.clone(), row.id.clone(), act))
}
