//! Indexes of a table: list, create, get, delete.

use super::tables::new_index;
use crate::http::input::context::RequestContext;
use crate::http::reply::Reply;
use crate::http::wire;
use crate::http::wire::error::ApiError;

/// `GET /v1/tablesdb/{database}/tables/{table}/indexes`
pub fn list(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let engine = &context.app.shared.engine;
    let (table, listed) = engine.list_indexes(&caller, context.place(), context.containers()?)?;
    Ok(Reply::ok(wire::indexes(
        &table,
        listed.total,
        &listed.items,
        context.words,
    )))
}

/// `POST /v1/tablesdb/{database}/tables/{table}/indexes`
pub async fn create(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    fields.text("description")?;
    if !fields.holds("columns") && !fields.holds("attributes") {
        return Err(ApiError::missing(context.words.columns));
    }
    let new = new_index(fields)?;
    let engine = &context.app.shared.engine;
    let (table, made) = engine.create_index(&caller, context.place(), &new).await?;
    Ok(Reply::accepted(wire::index(&table, &made, context.words)))
}

/// `GET /v1/tablesdb/{database}/tables/{table}/indexes/{index}`
pub fn get(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let engine = &context.app.shared.engine;
    let (table, index) = engine.get_index(&caller, context.place(), &context.ids.index)?;
    Ok(Reply::ok(wire::index(&table, &index, context.words)))
}

/// `DELETE /v1/tablesdb/{database}/tables/{table}/indexes/{index}`
pub async fn delete(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let engine = &context.app.shared.engine;
    engine
        .delete_index(&caller, context.place(), &context.ids.index)
        .await?;
    Ok(Reply::empty())
}
