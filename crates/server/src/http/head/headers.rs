//! Headers of requests: one by its name, and those that decide whether a request can be answered
//! at once, found in one walk.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

/// Names the project.
pub const X_APPWRITE_PROJECT: HeaderName = HeaderName::from_static("x-appwrite-project");
/// Holds an API key.
pub const X_APPWRITE_KEY: HeaderName = HeaderName::from_static("x-appwrite-key");
/// Names the deployment that a further part of an archive is of.
pub const X_APPWRITE_ID: HeaderName = HeaderName::from_static("x-appwrite-id");
/// Names the execution that an answer shows.
pub const X_APPWRITE_EXECUTION_ID: HeaderName = HeaderName::from_static("x-appwrite-execution-id");
/// Holds a user's token.
pub const X_APPWRITE_JWT: HeaderName = HeaderName::from_static("x-appwrite-jwt");
/// The instant that a write names for itself, by which late writes are refused.
pub const X_APPWRITE_TIMESTAMP: HeaderName = HeaderName::from_static("x-appwrite-timestamp");
/// Whether a list came from the cache, in Appwrite's words.
pub const X_APPWRITE_CACHE: HeaderName = HeaderName::from_static("x-appwrite-cache");
/// Of a request: what it wants of the list cache. Of an answer: where it came from and its age.
pub const X_TIDEMARK_CACHE: HeaderName = HeaderName::from_static("x-tidemark-cache");
/// The mark that an answer must not be older than.
pub const X_TIDEMARK_MIN_MARK: HeaderName = HeaderName::from_static("x-tidemark-min-mark");
/// The mark that an answer is true for.
pub const X_TIDEMARK_MARK: HeaderName = HeaderName::from_static("x-tidemark-mark");
/// That rows are erased since which the answer may have shown once.
pub const X_TIDEMARK_ERASED: HeaderName = HeaderName::from_static("x-tidemark-erased");
/// What the test clock shows while a request is answered, in microseconds since 1970; without it,
/// the horizon.
pub const X_TIDEMARK_CLOCK: HeaderName = HeaderName::from_static("x-tidemark-clock");
/// What the author of a write says of its commits: a JSON object.
pub const X_TIDEMARK_META: HeaderName = HeaderName::from_static("x-tidemark-meta");
/// Names the request in the log and in the answer.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Names a write, so that it has its effect once however often it is sent.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// What a request sent of these headers; of each the first line.
#[derive(Debug, Default)]
pub struct KnownHeaders<'h> {
    /// `X-Appwrite-Project`
    pub project: Option<&'h HeaderValue>,
    /// `X-Appwrite-Key`
    pub key: Option<&'h HeaderValue>,
    /// `X-Appwrite-JWT`
    pub token: Option<&'h HeaderValue>,
    /// `X-Tidemark-Cache`
    pub cache: Option<&'h HeaderValue>,
    /// `X-Tidemark-Min-Mark`
    pub min_mark: Option<&'h HeaderValue>,
    /// `X-Request-Id`
    pub request_id: Option<&'h HeaderValue>,
    /// `Origin`
    pub origin: Option<&'h HeaderValue>,
    /// `If-None-Match`
    pub held: Option<&'h HeaderValue>,
}

impl<'h> KnownHeaders<'h> {
    /// Walks over all headers once. To ask the map for each by its name takes a hash of the name
    /// and a look each, also where it was not sent.
    pub fn of(headers: &'h HeaderMap) -> KnownHeaders<'h> {
        let mut heads = KnownHeaders::default();
        for (name, value) in headers {
            let place = match name.as_str() {
                "x-appwrite-project" => &mut heads.project,
                "x-appwrite-key" => &mut heads.key,
                "x-appwrite-jwt" => &mut heads.token,
                "x-tidemark-cache" => &mut heads.cache,
                "x-tidemark-min-mark" => &mut heads.min_mark,
                "x-request-id" => &mut heads.request_id,
                "origin" => &mut heads.origin,
                "if-none-match" => &mut heads.held,
                _ => continue,
            };
            place.get_or_insert(value);
        }
        heads
    }
}

/// A header's text; `None` when it is absent, empty, or not plain ASCII.
pub fn header<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers
        .get(name)?
        .to_str()
        .ok()
        .filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, IF_NONE_MATCH, ORIGIN};

    use super::*;

    #[test]
    fn each_header_is_found_by_the_name_it_has_elsewhere() {
        type Find = for<'a, 'h> fn(&'a KnownHeaders<'h>) -> Option<&'h HeaderValue>;
        let known: [(HeaderName, Find); 8] = [
            (X_APPWRITE_PROJECT, |heads| heads.project),
            (X_APPWRITE_KEY, |heads| heads.key),
            (X_APPWRITE_JWT, |heads| heads.token),
            (X_TIDEMARK_CACHE, |heads| heads.cache),
            (X_TIDEMARK_MIN_MARK, |heads| heads.min_mark),
            (X_REQUEST_ID, |heads| heads.request_id),
            (ORIGIN, |heads| heads.origin),
            (IF_NONE_MATCH, |heads| heads.held),
        ];
        for (name, find) in known {
            let mut headers = HeaderMap::new();
            assert_eq!(find(&KnownHeaders::of(&headers)), None);
            headers.append(&name, HeaderValue::from_static("first"));
            headers.append(&name, HeaderValue::from_static("second"));
            headers.append("x-other", HeaderValue::from_static("third"));
            let found = find(&KnownHeaders::of(&headers)).map(HeaderValue::as_bytes);
            assert_eq!(found, Some(&b"first"[..]), "{name}");
        }
    }
}
