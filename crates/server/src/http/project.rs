//! The caller's own project and its API keys.

use super::error::ApiError;
use super::extract::Asked;
use super::reply::Reply;
use super::wire;

/// `GET /v1/project`
pub fn get(asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let project = asked.app.shared.engine.own_project(&*asked.caller()?)?;
    Ok(Reply::ok(wire::project(&project)))
}

/// `GET /v1/project/keys`
pub fn list_keys(asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let engine = &asked.app.shared.engine;
    let listed = engine.list_own_keys(&caller, asked.containers()?)?;
    Ok(Reply::ok(wire::keys(listed.total, &listed.items)))
}

/// `GET /v1/project/keys/{key}`
pub fn get_key(asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let engine = &asked.app.shared.engine;
    let key = engine.get_own_key(&*asked.caller()?, &asked.ids.key)?;
    Ok(Reply::ok(wire::key(&key)))
}

/// `DELETE /v1/project/keys/{key}`
pub async fn revoke_key(asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let engine = &asked.app.shared.engine;
    engine.revoke_own_key(&caller, &asked.ids.key).await?;
    Ok(Reply::empty())
}

/// `POST /v1/project/keys` and its like: always refused.
pub fn refuse_new_key(asked: &Asked<'_>) -> ApiError {
    match asked.caller() {
        Ok(caller) => asked.app.shared.engine.refuse_new_key(&caller).into(),
        Err(refused) => refused,
    }
}
