//! Relationships between tables: create, update. Everything else is as for other columns.

use engine::{NewRelationship, RelationshipChange};

use crate::http::input::context::RequestContext;
use crate::http::reply::Reply;
use crate::http::wire;
use crate::http::wire::error::ApiError;

/// `POST /v1/tablesdb/{database}/tables/{table}/columns/relationship`
pub async fn create(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    let new = NewRelationship {
        related: fields.required_text(context.words.related_table_id)?,
        kind: fields.required_text("type")?,
        two_way: fields.flag("twoWay")?.unwrap_or(false),
        key: fields.text("key")?,
        partner_key: fields.text("twoWayKey")?,
        on_delete: fields.text("onDelete")?,
    };
    let engine = &context.app.shared.engine;
    let made = engine
        .create_relationship(&caller, context.place(), &new)
        .await?;
    Ok(Reply::accepted(wire::column(&made, context.words)))
}

/// `PATCH /v1/tablesdb/{database}/tables/{table}/columns/{column}/relationship`, and the other
/// spelling.
pub async fn update(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.caller()?;
    let mut fields = context.fields().await?;
    let change = RelationshipChange {
        new_key: fields.text("newKey")?,
        on_delete: fields.text("onDelete")?,
    };
    let engine = &context.app.shared.engine;
    let changed = engine
        .update_relationship(&caller, context.place(), &context.ids.column, &change)
        .await?;
    Ok(Reply::ok(wire::column(&changed, context.words)))
}
