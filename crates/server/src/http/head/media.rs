//! What a body says of itself: its type and its encoding.

use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};

use crate::http::wire::error::{ApiError, Kind};

/// Most bytes of a header that a refusal repeats.
const SHOWN_BYTES_MAX: usize = 100;

/// The media type of a body, without its parameters; empty where none is sent.
pub fn media_type(headers: &HeaderMap) -> &str {
    let sent = headers.get(CONTENT_TYPE).map(|sent| sent.to_str());
    // What is no text is no type that is known.
    let sent = sent.map_or("", |sent| sent.unwrap_or("unreadable"));
    sent.split(';').next().unwrap_or_default().trim()
}

/// Whether a body of a route that reads JSON can be one. A body without a type is taken for one.
///
/// # Errors
/// Another type: a web page may send those of forms without being asked where it comes from.
/// Any encoding.
pub fn need_json(headers: &HeaderMap) -> Result<(), ApiError> {
    need_plain(headers)?;
    let sent = media_type(headers);
    let is_json = |sent: &str| {
        let sent = sent.to_ascii_lowercase();
        sent == "application/json" || sent.starts_with("application/") && sent.ends_with("+json")
    };
    if sent.is_empty() || is_json(sent) {
        return Ok(());
    }
    Err(refusal("Content-Type", "application/json", sent))
}

/// The header of a body that is a form with files.
///
/// # Errors
/// Another type; any encoding.
pub fn need_form(headers: &HeaderMap) -> Result<&str, ApiError> {
    need_plain(headers)?;
    let sent = media_type(headers);
    let whole = headers
        .get(CONTENT_TYPE)
        .and_then(|sent| sent.to_str().ok());
    match whole {
        Some(whole) if sent.eq_ignore_ascii_case("multipart/form-data") => Ok(whole),
        _ => Err(refusal("Content-Type", "multipart/form-data", sent)),
    }
}

/// # Errors
/// A body that is compressed.
pub fn need_plain(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut sent = headers.get_all(CONTENT_ENCODING).iter();
    let odd =
        sent.find(|sent| !sent.is_empty() && !sent.as_bytes().eq_ignore_ascii_case(b"identity"));
    match odd {
        None => Ok(()),
        Some(sent) => {
            let sent = sent.to_str().unwrap_or("unreadable");
            Err(refusal("Content-Encoding", "identity", sent))
        }
    }
}

fn refusal(header: &str, wanted: &str, sent: &str) -> ApiError {
    let shown = &sent[..sent.floor_char_boundary(SHOWN_BYTES_MAX)];
    let message = format!("The body's `{header}` must be `{wanted}`, got `{shown}`.");
    ApiError::new(Kind::UnsupportedMediaType, message)
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn is_taken(name: &HeaderName, value: &[u8]) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_bytes(value).unwrap());
        let judged = need_json(&headers);
        let kind = judged.as_ref().map_err(|refusal| refusal.kind);
        assert!(matches!(kind, Ok(()) | Err(Kind::UnsupportedMediaType)));
        judged.is_ok()
    }

    #[test]
    fn json_is_known_by_its_type_and_what_says_nothing_is_taken_for_it() {
        assert!(need_json(&HeaderMap::new()).is_ok());
        for taken in ["", "application/json", "Application/JSON; charset=utf-8"] {
            assert!(is_taken(&CONTENT_TYPE, taken.as_bytes()), "{taken}");
        }
        assert!(is_taken(&CONTENT_TYPE, b"application/merge-patch+json"));
        for other in [
            "text/plain",
            "application/jsonx",
            "json",
            "multipart/form-data; a=b",
        ] {
            assert!(!is_taken(&CONTENT_TYPE, other.as_bytes()), "{other}");
        }
        assert!(!is_taken(&CONTENT_TYPE, b"nonsense\x80"));
    }

    #[test]
    fn a_compressed_body_is_refused() {
        assert!(is_taken(&CONTENT_ENCODING, b"") && is_taken(&CONTENT_ENCODING, b"Identity"));
        for other in [&b"gzip"[..], b"br", b"identity, gzip", b"\x80"] {
            assert!(!is_taken(&CONTENT_ENCODING, other));
        }
    }
}
