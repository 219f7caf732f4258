//! How a list is found.

use crate::http::input::context::RequestContext;
use crate::http::reply::Reply;
use crate::http::wire::error::ApiError;
use crate::http::wire::{SortedObject, written, written_array};

/// `GET /v1/tidemark/databases/{database}/tables/{table}/explain`
pub async fn explain(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.key_caller()?;
    let engine = &context.app.shared.engine;
    let texts = &context.query.queries;
    let found = engine.explain_list(&caller, context.place(), texts).await?;
    let plan = found.plan.iter().map(written);
    let body = SortedObject::from([
        ("query", written(&found.query)),
        ("plan", written_array(plan)),
        ("index", written(&found.index)),
        ("inOrder", written(&found.in_order)),
        ("wantedIndex", written(&found.wanted)),
    ]);
    Ok(Reply::ok(body.written()))
}
