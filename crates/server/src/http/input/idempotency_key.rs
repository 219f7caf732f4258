//! The key by which a client names a write.

use hyper::header::HeaderMap;

use crate::http::head::headers::IDEMPOTENCY_KEY;
use crate::http::wire::error::ApiError;

/// Longest key of a request, in characters: room for a UUID and whatever a client puts before it.
pub(in crate::http) const KEY_CHARS_MAX: usize = 128;

/// A request that carries a key.
#[derive(Clone, Debug)]
pub struct Named {
    pub(in crate::http) key: String,
    /// Stands for method, target and body.
    pub(in crate::http) print: u128,
}

/// The key of the request, if it has one.
///
/// # Errors
/// A header that is empty, too long, or holds something else than visible ASCII.
pub(in crate::http) fn request_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let Some(value) = headers.get(&IDEMPOTENCY_KEY) else {
        return Ok(None);
    };
    let is_legal = |key: &&str| {
        (1..=KEY_CHARS_MAX).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let key = value.to_str().ok().filter(is_legal);
    key.map(Some).ok_or_else(|| {
        let why = format!("The header must hold 1 to {KEY_CHARS_MAX} visible ASCII characters.");
        ApiError::invalid("Idempotency-Key", why)
    })
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use crate::http::wire::error::Kind;

    use super::*;

    #[test]
    fn a_request_key_is_short_and_visible() {
        let ask = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_str(text).unwrap());
            request_key(&headers).map(|key| key.map(str::to_owned))
        };
        assert_eq!(request_key(&HeaderMap::new()).unwrap(), None);
        assert_eq!(ask("a-1:x").unwrap().as_deref(), Some("a-1:x"));
        assert!(ask(&"x".repeat(128)).is_ok());
        for wrong in ["", "a b", &"x".repeat(129)] {
            let refused = ask(wrong).unwrap_err();
            assert_eq!(refused.kind, Kind::ArgumentInvalid);
        }
    }
}
