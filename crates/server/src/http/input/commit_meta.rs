//! What the author of a write says of its commits, in the header `X-Tidemark-Meta`.

use engine::Caller;
use hyper::Method;
use hyper::http::request::Parts;
use model::{Actor, Json};

use crate::http::head::headers::X_TIDEMARK_META;
use crate::http::wire::error::{ApiError, Kind};

/// The name of the header, as refusals show it.
const NAME: &str = "X-Tidemark-Meta";

/// The metadata that a request carries; a read makes no commit, so it carries none.
///
/// # Errors
/// Two such headers, or one that holds no JSON object in ASCII.
pub(super) fn read(head: &Parts) -> Result<Option<&str>, ApiError> {
    if matches!(head.method, Method::GET | Method::HEAD) {
        return Ok(None);
    }
    let mut sent = head.headers.get_all(&X_TIDEMARK_META).iter();
    let Some(value) = sent.next() else {
        return Ok(None);
    };
    if sent.next().is_some() {
        return Err(ApiError::invalid(NAME, "The header may be sent once."));
    }
    let text = value.to_str().ok();
    let is_object = |text: &&str| matches!(engine::read_json(text.as_bytes()), Ok(Json::Object(_)));
    let text = text.filter(is_object).ok_or_else(|| {
        let why =
            "The header must hold a JSON object, with other characters than ASCII as \\u escapes.";
        ApiError::invalid(NAME, why)
    })?;
    Ok(Some(text))
}

/// The caller who says this.
///
/// # Errors
/// A caller without a key: records of commits are kept for ever. Metadata that is too long.
pub(super) fn said_by(caller: &Caller, meta: &str) -> Result<Caller, ApiError> {
    if !matches!(caller.actor, Actor::Key { .. }) {
        let message = "Only a request with an API key may carry X-Tidemark-Meta.";
        return Err(ApiError::new(Kind::UnauthorizedScope, message));
    }
    caller.with_meta(meta).map_err(|_| {
        let why = format!("At most {} bytes are allowed.", engine::META_BYTES_MAX);
        ApiError::invalid(NAME, why)
    })
}
