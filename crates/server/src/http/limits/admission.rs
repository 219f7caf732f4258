//! Which rights a request needs, as far as its head says: asked before a large body is read.

use engine::{Caller, Engine, EngineError, Place};
use model::Action::{Create, Delete, Update};

use crate::http::head::route::{Action, FunctionAction};
use crate::http::head::router::PathIds;
use crate::http::wire::error::{ApiError, Kind};

impl Action {
    /// Whether a caller without a key may send a large body here. What a small one says is
    /// judged with it, row by row.
    ///
    /// # Errors
    /// No right that this needs; a place that the caller does not see.
    pub(in crate::http) fn need_right(
        self,
        engine: &Engine,
        caller: &Caller,
        ids: &PathIds<'_>,
    ) -> Result<(), ApiError> {
        let place = Place {
            database: &ids.database,
            table: &ids.table,
        };
        let judged: Result<(), EngineError> = match self {
            Action::CreateRows => engine.need_grant(caller, place, &[Create]),
            Action::UpsertRow => engine.need_grant(caller, place, &[Create, Update]),
            Action::UpdateRow | Action::IncrementColumn | Action::DecrementColumn => {
                engine.need_grant(caller, place, &[Update])
            }
            Action::DeleteRow => engine.need_grant(caller, place, &[Delete]),
            Action::BatchWrite => engine.need_write_somewhere(caller, Some(place.database)),
            Action::CreateTransaction
            | Action::UpdateTransaction
            | Action::DeleteTransaction
            | Action::StageOperations => engine.need_write_somewhere(caller, None),
            Action::Function(FunctionAction::Execute) => {
                engine.may_execute(caller, &ids.function).map(drop)
            }
            // What is read is filtered by grants of rows, and a long query is a large body.
            Action::QueryRows | Action::BatchRead => Ok(()),
            _ => {
                let message = "This route needs an API key.";
                return Err(ApiError::new(Kind::UnauthorizedScope, message));
            }
        };
        judged.map_err(ApiError::from)
    }
}
