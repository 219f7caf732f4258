//! The past of one row: shown, and erased.

use engine::{Engine, Frame, Pieces, TimedTransaction, TransactionAct, TransactionOp};
use model::history::Range;
use model::{Coordinates, Period, RowId};
use serde_json::{Value, json};
use server::http::routes::native;

use super::{administrator, describe_wire, place, refusal};
use crate::port_request::TablePath;
use crate::refusal::Refusal;

fn checked(row: &str) -> Result<RowId, Refusal> {
    RowId::new(row)
        .map_err(|error| Refusal::bad(format!("The row id `{row}` cannot be used: {error}.")))
}

/// Every version on both axes, as known now.
pub(super) async fn history(
    engine: &Engine,
    path: &TablePath,
    row: &str,
) -> Result<Value, Refusal> {
    let (caller, id) = (administrator(&path.project)?, checked(row)?);
    let system = engine.settle(None).await.map_err(refusal)?;
    let at = Coordinates {
        valid: system.timestamp(),
        system,
    };
    let pieces = Pieces {
        place: place(path),
        id: Some(&id),
        beyond: None,
        equal: Vec::new(),
        order: None,
        limit: None,
        at,
        frame: Frame::Versions(Period::ALWAYS),
        shows_damaged: true,
        shows_grants: false,
    };
    let read = engine.pieces(&caller, &pieces).await.map_err(refusal)?;
    let versions = describe_wire(&native::rectangles(&read, at));
    Ok(json!({ "tt": system.0, "versions": versions }))
}

/// Whether there was anything to erase.
pub(super) async fn erase(engine: &Engine, path: &TablePath, row: &str) -> Result<Value, Refusal> {
    let (caller, id) = (administrator(&path.project)?, checked(row)?);
    let op = TransactionOp {
        table: path.table.clone(),
        id,
        range: Range::default(),
        act: TransactionAct::Erase,
    };
    let erasure = TimedTransaction {
        ops: vec![op],
        meta: None,
    };
    let done = engine.transact(&caller, &path.database, &erasure).await;
    let done = done.map_err(refusal)?;
    Ok(json!(done.affected.first() == Some(&true)))
}
