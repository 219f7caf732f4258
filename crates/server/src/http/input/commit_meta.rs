//! What the author of a write says of its commits, in the header `X-Tidemark-Meta`.

use engine::Caller;
use hyper::HeaderMap;
use model::Json;

use crate::http::head::headers::X_TIDEMARK_META;
use crate::http::wire::error::{ApiError, Kind};

/// Longest metadata in a header, in bytes: it is kept with each commit, and one request may make a
/// thousand of them. A transaction over valid periods is one commit and takes more in its body.
pub(in crate::http) const META_BYTES_MAX: usize = 1_024;

/// The name of the header, as refusals show it.
const NAME: &str = "X-Tidemark-Meta";

/// The caller with the metadata that these headers carry; `None` where they carry none.
///
/// # Errors
/// A caller without a key: records of commits are kept for ever. Two such headers, or one that
/// is too long or holds no JSON object in ASCII.
pub(super) fn said_by(caller: &Caller, headers: &HeaderMap) -> Result<Option<Caller>, ApiError> {
    let mut sent = headers.get_all(&X_TIDEMARK_META).iter();
    let Some(value) = sent.next() else {
        return Ok(None);
    };
    if caller.is_guest() {
        let message = "Only a request with an API key may carry X-Tidemark-Meta.";
        return Err(ApiError::new(Kind::UnauthorizedScope, message));
    }
    let refuse = |why: String| Err(ApiError::invalid(NAME, why));
    if sent.next().is_some() {
        return refuse("The header may be sent once.".to_owned());
    }
    if value.len() > META_BYTES_MAX {
        return refuse(format!("At most {META_BYTES_MAX} bytes are allowed."));
    }
    let is_object = |text: &&str| matches!(engine::read_json(text.as_bytes()), Ok(Json::Object(_)));
    let Some(text) = value.to_str().ok().filter(is_object) else {
        let why = "The header must hold a JSON object, with \\u escapes for what is not ASCII.";
        return refuse(why.to_owned());
    };
    Ok(Some(Caller {
        meta: Some(text.into()),
        ..caller.clone()
    }))
}
