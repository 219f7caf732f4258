//! What the owner of a table decides about its past, and about the age of its lists.

use engine::OptionsChange;
use model::{TableOptions, Timestamp};
use serde_json::{Value, json};

use crate::http::input::context::RequestContext;
use crate::http::reply::Reply;
use crate::http::wire;
use crate::http::wire::error::ApiError;

/// `GET /v1/tidemark/databases/{database}/tables/{table}/options`
pub fn options(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.key_caller()?;
    let engine = &context.app.shared.engine;
    Ok(shown(engine.table_options(&caller, context.place())?))
}

/// `PATCH /v1/tidemark/databases/{database}/tables/{table}/options`
pub async fn set_options(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.key_caller()?;
    let mut fields = context.fields().await?;
    // The last one is shown only, and may be sent back as it was.
    fields.need_known(&["pinnedMaxAge", "history", "past", "ttlMax", "keptFrom"])?;
    let change = OptionsChange {
        pinned_max_age_s: fields.integer("pinnedMaxAge")?,
        history: fields.text("history")?,
        past: fields.text("past")?,
        ttl_max_s: fields.integer("ttlMax")?,
    };
    let engine = &context.app.shared.engine;
    let set = engine.set_table_options(&caller, context.place(), &change);
    Ok(shown(set.await?))
}

fn shown(options: TableOptions) -> Reply {
    Reply::ok(options_shown(options).to_string().into_bytes())
}

/// Options as they are shown.
pub fn options_shown(options: TableOptions) -> Value {
    let kept_from = options.kept_from;
    let kept_from = (kept_from > Timestamp::BOT).then(|| wire::instant_us(kept_from));
    json!({
        "pinnedMaxAge": options.pinned_max_age_s,
        "history": options.history.to_string(),
        "past": options.past.as_str(),
        "ttlMax": options.ttl_max_s,
        "keptFrom": kept_from,
    })
}
