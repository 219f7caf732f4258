//! What an operation does under today's catalogue.

use std::sync::Arc;

use model::history::{Range, Until};
use model::{Action, Actor, Catalogue, Patch, Table, Timestamp};
use query::Query;
use store::batch::BATCH_ROWS_MAX;
use store::{MatchingAct, MatchingOp, Op, Refusal, RowAct, RowOp, Stamps};

use super::operation::{Act, Operation};
use crate::error::{EngineError, WriteError};
use crate::request::authorize::{self, WRITE_ROWS};
use crate::request::inputs::{Caller, Place};
use crate::request::times;
use crate::write::bulk;
use crate::write::content::PermissionsIn;
use crate::write::increment::{self, Increment};
use crate::write::links::{self, Scene};
use crate::write::row_ops::{insert, put, update};
use crate::write::rows_write::{
    deletion, in_time, need_duplicate_free, need_no_relationships, need_payload,
};

const ALWAYS: Range = Range {
    from: Some(Timestamp::BOT),
    until: Until::Open,
};

/// The table of an operation, as the caller sees it.
pub(crate) fn table<'c>(
    catalogue: &'c Catalogue,
    caller: &Caller,
    operation: &Operation,
) -> Result<&'c Arc<Table>, EngineError> {
    let place = Place {
        database: &operation.database,
        table: &operation.table,
    };
    authorize::table(catalogue, caller, place)
}

/// What `operation` does when `caller` is the one who does it.
pub(crate) fn plan(
    catalogue: &Catalogue,
    caller: &Caller,
    operation: &Operation,
) -> Result<Vec<Op>, EngineError> {
    let table = table(catalogue, caller, operation)?;
    let actor = &caller.actor;
    if operation.row().is_none() {
        authorize::need_key(caller, WRITE_ROWS)?;
        need_no_relationships(table)?;
    }
    let scene = Scene {
        catalogue,
        caller,
        database: &operation.database,
    };
    match &operation.act {
        Act::Create(row) => {
            if row.members.is_empty() {
                return Err(WriteError::RowDataMissing.into());
            }
            let linked = links::take_apart(scene, table, row)?;
            let grants_in = PermissionsIn::Parameter;
            let op = insert(table, actor, &linked.row, &linked.held, grants_in)?;
            Ok(linked.into_ops(in_time(actor, op, row)?))
        }
        Act::Update(row) => {
            need_payload(row)?;
            let linked = links::take_apart(scene, table, row)?;
            let op = update(table, actor, &linked.row, &linked.held)?;
            Ok(linked.into_ops(in_time(actor, op, row)?))
        }
        Act::Upsert(row) => {
            need_payload(row)?;
            let linked = links::take_apart(scene, table, row)?;
            let op = put(table, actor, &linked.row, &linked.held)?;
            Ok(linked.into_ops(in_time(actor, op, row)?))
        }
        Act::CreateMany(rows) => {
            let grants_in = PermissionsIn::Content;
            let insert = |row| in_time(actor, insert(table, actor, row, &[], grants_in)?, row);
            rows.iter().map(insert).collect()
        }
        Act::UpsertMany(rows) => {
            need_duplicate_free(rows)?;
            let put = |row| in_time(actor, put(table, actor, row, &[])?, row);
            rows.iter().map(put).collect()
        }
        Act::Delete(row) => Ok(vec![deletion(table, actor, row)?]),
        Act::Increment { .. } => count(table, actor, operation).map(|op| vec![op]),
        Act::UpdateMany { texts, members } => {
            if members.is_empty() {
                return Err(WriteError::PayloadMissing.into());
            }
            let act = bulk::update(table, actor, members)?;
            Ok(vec![matching(bulk::resolve(table, texts)?, act)])
        }
        Act::DeleteMany { texts, members } => Ok(vec![matching(
            bulk::resolve(table, texts)?,
            bulk::deletion(members)?,
        )]),
    }
}

fn count(table: &Arc<Table>, actor: &Actor, operation: &Operation) -> Result<Op, EngineError> {
    let Act::Increment {
        id,
        column,
        is_down,
        by,
        bound,
    } = &operation.act
    else {
        unreachable!("the caller matched a count");
    };
    let request = Increment {
        id: id.clone(),
        column,
        is_down: *is_down,
        by: by.clone(),
        bound: bound.clone(),
        unchanged_since: None,
    };
    let act = change(table, actor, increment::patch(table, &request)?);
    Ok(Op::Row(RowOp::now(table.clone(), id.clone(), act)))
}

fn change(table: &Table, actor: &Actor, patch: Patch) -> RowAct {
    RowAct::Update {
        guard: authorize::guard_patch(table, actor, &patch),
        patch,
        permissions: None,
        stamps: Stamps::default(),
    }
}

fn matching(query: Query, act: MatchingAct) -> Op {
    let rows_max = u32::try_from(BATCH_ROWS_MAX).expect("a batch has fewer rows");
    Op::Matching(Box::new(MatchingOp {
        may_leave_rows: query.limit <= rows_max,
        query: Query {
            limit: query.limit.min(rows_max),
            ..query
        },
        walks: false,
        bytes_max: None,
        tells_end: false,
        act,
        rows_returned_max: 0,
    }))
}

/// An operation that asks of a row what `operation` does and leaves it as it is: whether it is
/// there, and whether the caller may. `None` where nothing has to be asked.
pub(crate) fn probe(table: &Arc<Table>, caller: &Caller, operation: &Operation) -> Option<Op> {
    let actor = &caller.actor;
    let (row, act) = match &operation.act {
        Act::Update(row) => (row, change(table, actor, Patch::default())),
        Act::Delete(row) => {
            let act = RowAct::Update {
                patch: Patch::default(),
                permissions: None,
                stamps: Stamps::default(),
                guard: authorize::guard(table, actor, &[Action::Delete]),
            };
            (row, act)
        }
        Act::Upsert(row) => {
            let forbidden = Refusal::RowForbidden(row.id.clone());
            let refusal = if authorize::may_create(table, actor) {
                Refusal::Invalid(model::ModelError::NulCharacter)
            } else {
                forbidden
            };
            let act = RowAct::Put {
                patch: Patch::default(),
                insert: Err(Box::new(refusal)),
                permissions: None,
                insert_permissions: Vec::new(),
                stamps: Stamps::default(),
                guard: authorize::guard(table, actor, &[Action::Update]),
            };
            (row, act)
        }
        _ => return None,
    };
    let op = RowOp::now(table.clone(), row.id.clone(), act);
    Some(match times::range(&row.members) {
        Ok(None) => Op::Row(op),
        Ok(Some(range)) => Op::Row(op.within(range)),
        // The commit will say that this is no time.
        Err(_) => Op::Row(op.within(ALWAYS)),
    })
}
