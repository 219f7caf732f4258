//! Databases: list, create, get, update, delete.

use engine::Family;
use model::{DatabaseId, DatabaseKind};

use crate::http::input::context::RequestContext;
use crate::http::reply::Reply;
use crate::http::wire;
use crate::http::wire::error::ApiError;

/// `GET /v1/tablesdb`
pub fn list(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let listed = context
        .app
        .shared
        .engine
        .list_databases(&caller, context.containers()?)?;
    Ok(Reply::ok(wire::databases(listed.total, &listed.items)))
}

/// `POST /v1/tablesdb`
pub async fn create(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    let id = fields.required_text("databaseId")?;
    let name = fields.required_text("name")?;
    let enabled = fields.flag("enabled")?.unwrap_or(true);
    let id = context.id("databaseId", &id, DatabaseId::new)?;
    let kind = match context.family {
        Family::Tables => DatabaseKind::Tablesdb,
        Family::Documents => DatabaseKind::Legacy,
    };
    let engine = &context.app.shared.engine;
    let made = engine
        .create_database(&caller, id, name, enabled, kind)
        .await?;
    Ok(Reply::created(wire::database(&made)))
}

/// `GET /v1/tablesdb/{database}`
pub fn get(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let database = context
        .app
        .shared
        .engine
        .get_database(&*context.caller()?, &context.ids.database)?;
    Ok(Reply::ok(wire::database(&database)))
}

/// `PUT /v1/tablesdb/{database}`
pub async fn update(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    let (name, enabled) = (fields.text("name")?, fields.flag("enabled")?);
    let engine = &context.app.shared.engine;
    let changed = engine
        .update_database(&caller, &context.ids.database, name, enabled)
        .await?;
    Ok(Reply::ok(wire::database(&changed)))
}

/// `DELETE /v1/tablesdb/{database}`
pub async fn delete(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    context
        .app
        .shared
        .engine
        .delete_database(&caller, &context.ids.database)
        .await?;
    Ok(Reply::empty())
}
