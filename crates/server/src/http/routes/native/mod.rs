//! Tidemark's own routes: what the query language has no words for.
//!
//! Transactions over valid periods and reads of pieces, versions and records of commits, in the
//! words of all routes of our own or of the bitemporal case files, which are served as written.

mod along;
mod answer;
mod constraints;
mod explain;
mod json;
mod options;
mod page;
pub(in crate::http) mod read;
mod transaction;
mod undo;
mod vocabulary;

use crate::http::input::context::RequestContext;
use crate::http::reply::Reply;
use crate::http::wire::error::{ApiError, Kind};
use crate::http::wire::{InstantForm, SortedObject, written};

pub use answer::rectangles;
pub use constraints::{constrain, constraints_shown, reset};
pub use explain::explain;
pub use json::{mark, time};
pub use options::{options, options_shown, set_options};
pub use read::read;
pub use transaction::transact;
pub use undo::undo;

/// `GET /v1/tidemark/status`
pub fn status(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    context.caller()?;
    let form = marks(context)?;
    let status = context.app.shared.engine.status();
    let body = SortedObject::from([
        ("role", written("both")),
        ("mark", form.written(status.mark.timestamp())),
        ("horizon", form.written(status.horizon.timestamp())),
        ("lineage", written(&*status.lineage)),
    ]);
    Ok(Reply::ok(body.written()))
}

/// `POST /v1/tidemark/databases/{database}/heartbeat`
pub async fn heartbeat(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let form = marks(&context)?;
    // The body is empty, but a connection whose body is not read cannot be used again.
    context.load().await?;
    let engine = &context.app.shared.engine;
    let horizon = engine.heartbeat(&caller, &context.ids.database).await?;
    let body = SortedObject::from([("horizon", form.written(horizon.timestamp()))]);
    Ok(Reply::ok(body.written()))
}

/// Marks are given back and compared by programs, so they are integers unless asked for otherwise.
fn marks(context: &RequestContext<'_>) -> Result<InstantForm, ApiError> {
    Ok(context.instant_form()?.unwrap_or(InstantForm::Integer))
}

/// A refusal with the error types of the case language.
fn in_case_language(error: impl Into<ApiError>) -> ApiError {
    let error = error.into().in_full();
    let kind = match error.kind {
        Kind::RowExists => Kind::Exists,
        Kind::RowUniqueViolation => Kind::UniqueOverTime,
        other => other,
    };
    error.of_kind(kind)
}
