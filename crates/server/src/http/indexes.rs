//! Indexes of a table: list, create, get, delete.

use super::error::ApiError;
use super::extract::Asked;
use super::reply::Reply;
use super::tables::new_index;
use super::wire;

/// `GET /v1/tablesdb/{database}/tables/{table}/indexes`
pub fn list(asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let engine = &asked.app.shared.engine;
    let (table, listed) = engine.list_indexes(&caller, asked.place(), asked.containers()?)?;
    Ok(Reply::ok(wire::indexes(
        &table,
        listed.total,
        &listed.items,
        asked.words,
    )))
}

/// `POST /v1/tablesdb/{database}/tables/{table}/indexes`
pub async fn create(mut asked: Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let mut fields = asked.fields().await?;
    fields.text("description")?;
    if !fields.holds("columns") && !fields.holds("attributes") {
        return Err(ApiError::missing(asked.words.columns));
    }
    let new = new_index(fields)?;
    let engine = &asked.app.shared.engine;
    let (table, made) = engine.create_index(&caller, asked.place(), &new).await?;
    Ok(Reply::accepted(wire::index(&table, &made, asked.words)))
}

/// `GET /v1/tablesdb/{database}/tables/{table}/indexes/{index}`
pub fn get(asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let engine = &asked.app.shared.engine;
    let (table, index) = engine.get_index(&caller, asked.place(), &asked.ids.index)?;
    Ok(Reply::ok(wire::index(&table, &index, asked.words)))
}

/// `DELETE /v1/tablesdb/{database}/tables/{table}/indexes/{index}`
pub async fn delete(asked: &Asked<'_>) -> Result<Reply, ApiError> {
    let caller = asked.caller()?;
    let engine = &asked.app.shared.engine;
    engine
        .delete_index(&caller, asked.place(), &asked.ids.index)
        .await?;
    Ok(Reply::empty())
}
