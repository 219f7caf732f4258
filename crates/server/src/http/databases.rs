//! Databases: list, create, get, update, delete.

use engine::Family;
use model::{DatabaseId, DatabaseKind};

use super::error::ApiError;
use super::extract::Asked;
use super::reply::Reply;
use super::wire;

/// `GET /v1/tablesdb`
pub fn list(asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let listed = asked
        .app
        .shared
        .engine
        .list_databases(&caller, asked.containers()?)?;
    Ok(Reply::ok(wire::databases(listed.total, &listed.items)))
}

/// `POST /v1/tablesdb`
pub async fn create(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let mut fields = asked.fields().await?;
    let id = fields.required_text("databaseId")?;
    let name = fields.required_text("name")?;
    let enabled = fields.flag("enabled")?.unwrap_or(true);
    let id = asked.id("databaseId", &id, DatabaseId::new)?;
    let kind = match asked.family {
        Family::Tables => DatabaseKind::Tablesdb,
        Family::Documents => DatabaseKind::Legacy,
    };
    let engine = &asked.app.shared.engine;
    let made = engine
        .create_database(&caller, id, name, enabled, kind)
        .await?;
    Ok(Reply::created(wire::database(&made)))
}

/// `GET /v1/tablesdb/{database}`
pub fn get(asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let database = asked
        .app
        .shared
        .engine
        .get_database(&*asked.caller()?, &asked.ids.database)?;
    Ok(Reply::ok(wire::database(&database)))
}

/// `PUT /v1/tablesdb/{database}`
pub async fn update(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let mut fields = asked.fields().await?;
    let (name, enabled) = (fields.text("name")?, fields.flag("enabled")?);
    let engine = &asked.app.shared.engine;
    let changed = engine
        .update_database(&caller, &asked.ids.database, name, enabled)
        .await?;
    Ok(Reply::ok(wire::database(&changed)))
}

/// `DELETE /v1/tablesdb/{database}`
pub async fn delete(asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    asked
        .app
        .shared
        .engine
        .delete_database(&caller, &asked.ids.database)
        .await?;
    Ok(Reply::empty())
}
