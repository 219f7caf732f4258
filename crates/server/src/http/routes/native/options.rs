//! What the owner of a table decides about its past, and about the age of its lists.

use engine::OptionsChange;
use model::{TableOptions, Timestamp};

use crate::http::input::context::RequestContext;
use crate::http::reply::Reply;
use crate::http::wire::error::ApiError;
use crate::http::wire::{InstantForm, SortedObject, WrittenJson, written};

/// `GET /v1/tidemark/databases/{database}/tables/{table}/options`
pub fn options(context: &RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.key_caller()?;
    let engine = &context.app.shared.engine;
    let form = form(context)?;
    Ok(shown(engine.table_options(&caller, context.place())?, form))
}

/// `PATCH /v1/tidemark/databases/{database}/tables/{table}/options`
pub async fn set_options(mut context: RequestContext<'_>) -> Result<Reply, ApiError> {
    let caller = context.key_caller()?;
    let form = form(&context)?;
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
    Ok(shown(set.await?, form))
}

fn form(context: &RequestContext<'_>) -> Result<InstantForm, ApiError> {
    Ok(context.instant_form()?.unwrap_or(InstantForm::Iso))
}

fn shown(options: TableOptions, form: InstantForm) -> Reply {
    Reply::ok(options_shown(options, form))
}

/// Options as they are shown.
pub fn options_shown(options: TableOptions, form: InstantForm) -> WrittenJson {
    let kept_from = options.kept_from;
    let kept_from = (kept_from > Timestamp::BOT).then_some(kept_from);
    let shown = SortedObject::from([
        ("pinnedMaxAge", written(&options.pinned_max_age_s)),
        ("history", written(&options.history.to_string())),
        ("past", written(options.past.as_str())),
        ("ttlMax", written(&options.ttl_max_s)),
        ("keptFrom", form.written(kept_from)),
    ]);
    shown.written()
}
