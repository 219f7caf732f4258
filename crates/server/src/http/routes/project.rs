//! The caller's own project and its API keys.

use crate::http::input::context::RequestContext;
use crate::http::reply::Reply;
use crate::http::wire;
use crate::http::wire::error::ApiError;

/// `GET /v1/project`
pub fn get(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let project = context.app.shared.engine.own_project(&*context.caller()?)?;
    Ok(Reply::ok(wire::project(&project)))
}

/// `GET /v1/project/keys`
pub fn list_keys(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let engine = &context.app.shared.engine;
    let listed = engine.list_own_keys(&caller, context.containers()?)?;
    Ok(Reply::ok(wire::keys(listed.total, &listed.items)))
}

/// `GET /v1/project/keys/{key}`
pub fn get_key(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let engine = &context.app.shared.engine;
    let key = engine.get_own_key(&*context.caller()?, &context.ids.key)?;
    Ok(Reply::ok(wire::key(&key)))
}

/// `DELETE /v1/project/keys/{key}`
pub async fn revoke_key(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let engine = &context.app.shared.engine;
    engine.revoke_own_key(&caller, &context.ids.key).await?;
    Ok(Reply::empty())
}

/// `POST /v1/project/keys` and its like: always refused.
pub fn refuse_new_key(context: &RequestContext<'_>) -> ApiError {
    match context.caller() {
        Ok(caller) => context.app.shared.engine.refuse_new_key(&caller).into(),
        Err(refused) => refused,
    }
}
