//! Heads of requests that a thread has answered at once, by their very bytes.
//!
//! A client that asks again sends the same bytes. Those that are remembered here were parsed by the
//! HTTP library and answered at once, so the same bytes are the same request: it is answered
//! without being parsed again. Whether its caller still may ask, and whether the answer still
//! stands, is asked each time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use engine::Engine;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Uri, Version};

use crate::http::state::fast_path::Meaning;

/// Heads that a thread remembers: as many as it remembers sets of targets.
const PLACES: usize = 512;
/// Longest head that is remembered, in bytes: no longer than a target with its plan may be. A head
/// is kept twice, as it came and parsed, so a thread remembers some 6 MB at most.
const HEAD_BYTES_MAX: usize = 4_096;
/// Ends a head.
pub const END: &[u8] = b"\r\n\r\n";
/// A request with one of these asks something of the connection, or has a body.
const OF_CONNECTION: [HeaderName; 6] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// What one thread remembers.
pub struct KnownHeads {
    places: RefCell<Vec<Option<Rc<KnownHead>>>>,
    /// Of heads that were answered at once, by place: one that no one sends again is not kept.
    seen: RefCell<Vec<u128>>,
    /// The head that the library was handed last, if it was one that could be remembered.
    handed: RefCell<Vec<u8>>,
    handed_fingerprint: Cell<u128>,
}

/// The bytes of a head, and the request that it is.
pub struct KnownHead {
    fingerprint: u128,
    bytes: Box<[u8]>,
    /// As the library has parsed it.
    pub request: Request<()>,
    /// What it meant when it was answered last.
    pub meaning: RefCell<Option<Meaning>>,
}

impl KnownHead {
    /// Whether these bytes are it.
    pub fn is(&self, bytes: &[u8]) -> bool {
        *self.bytes == *bytes
    }
}

impl KnownHeads {
    /// Remembers nothing yet.
    pub fn new() -> KnownHeads {
        KnownHeads {
            places: RefCell::new(vec![None; PLACES]),
            seen: RefCell::new(vec![0; PLACES]),
            handed: RefCell::default(),
            handed_fingerprint: Cell::new(0),
        }
    }

    /// The request that these bytes are, if they are one whole head that is remembered. Otherwise
    /// [`KnownHeads::learn`] may remember them, if the library is handed them next.
    pub fn find(&self, engine: &Engine, bytes: &[u8]) -> Option<Rc<KnownHead>> {
        let mut handed = self.handed.borrow_mut();
        handed.clear();
        if bytes.len() > HEAD_BYTES_MAX || !bytes.starts_with(b"GET ") || !bytes.ends_with(END) {
            return None;
        }
        // Under a secret of this store, so that no one can tell which heads share a place.
        let fingerprint = engine.fingerprint(bytes);
        if let Some(known) = &self.places.borrow()[place(fingerprint)]
            && known.fingerprint == fingerprint
            && known.is(bytes)
        {
            return Some(known.clone());
        }
        handed.extend_from_slice(bytes);
        self.handed_fingerprint.set(fingerprint);
        None
    }

    /// The library is handed other bytes next, which are not to be remembered.
    pub fn pass_over(&self) {
        self.handed.borrow_mut().clear();
    }

    /// Remembers the head that the library was handed last, which was answered at once, when it is
    /// sent for the second time and is `request`.
    pub fn learn<B>(&self, request: &Request<B>) {
        let handed = std::mem::take(&mut *self.handed.borrow_mut());
        if handed.is_empty() {
            return;
        }
        let fingerprint = self.handed_fingerprint.get();
        let place = place(fingerprint);
        let is_again =
            std::mem::replace(&mut self.seen.borrow_mut()[place], fingerprint) == fingerprint;
        if is_again && let Some(request) = read_again(&handed, request) {
            self.places.borrow_mut()[place] = Some(Rc::new(KnownHead {
                fingerprint,
                bytes: handed.into(),
                request,
                meaning: RefCell::default(),
            }));
        }
    }
}

impl Default for KnownHeads {
    fn default() -> KnownHeads {
        KnownHeads::new()
    }
}

fn place(fingerprint: u128) -> usize {
    fingerprint as usize % PLACES
}

/// The request that a head is, read by other means than the library's, if that comes to what the
/// library has read: it was this head which led to `request`, and no part of another one. Shares no
/// memory with `request`, which holds on to all that came with it.
fn read_again<B>(head: &[u8], request: &Request<B>) -> Option<Request<()>> {
    let asks_more = |name| request.headers().contains_key(name);
    if *request.method() != Method::GET
        || request.version() != Version::HTTP_11
        || OF_CONNECTION.iter().any(asks_more)
    {
        return None;
    }
    let head = std::str::from_utf8(head.strip_suffix(END)?).ok()?;
    let mut lines = head.split("\r\n");
    let target = lines.next()?.strip_prefix("GET ")?;
    let uri: Uri = target.strip_suffix(" HTTP/1.1")?.parse().ok()?;
    let mut headers = HeaderMap::with_capacity(request.headers().len());
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let value = HeaderValue::from_str(value.trim_matches([' ', '\t'])).ok()?;
        headers.append(name.parse::<HeaderName>().ok()?, value);
    }
    if uri != *request.uri() || headers != *request.headers() {
        return None;
    }
    let mut read = Request::new(());
    *read.uri_mut() = uri;
    *read.headers_mut() = headers;
    Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::credentials::tests::engine_with_project;

    const HEAD: &str = "GET /a?b HTTP/1.1\r\nHost: t\r\nX-A: 1\r\nx-a:  2 \r\n\r\n";

    fn request(headers: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::get("/a?b");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    #[test]
    fn a_head_is_remembered_when_it_is_answered_again() {
        let folder = tempfile::tempdir().unwrap();
        let (engine, _runtime) = engine_with_project(folder.path());
        let heads = KnownHeads::new();
        let request = request(&[("host", "t"), ("x-a", "1"), ("x-a", "2")]);
        for _ in 0..2 {
            assert!(heads.find(&engine, HEAD.as_bytes()).is_none());
            heads.learn(&request);
        }
        let found = heads.find(&engine, HEAD.as_bytes()).unwrap();
        assert_eq!(found.request.uri(), request.uri());
        assert_eq!(found.request.headers(), request.headers());
        let twice = [HEAD, HEAD].concat();
        for other in [&HEAD[1..], &HEAD[..HEAD.len() - 1], &twice, ""] {
            assert!(heads.find(&engine, other.as_bytes()).is_none(), "{other}");
        }
        engine.close().unwrap();
    }

    #[test]
    fn a_head_is_not_remembered_as_another_request() {
        let sent = [("host", "t"), ("x-a", "1"), ("x-a", "2")];
        let read = read_again(HEAD.as_bytes(), &request(&sent)).unwrap();
        assert_eq!(read.headers(), request(&sent).headers());
        let wrong: [&[(&str, &str)]; 4] = [
            &[("host", "t"), ("x-a", "1")],
            &[("host", "t"), ("x-a", "2"), ("x-a", "1")],
            &[("host", "u"), ("x-a", "1"), ("x-a", "2")],
            &[("host", "t"), ("x-a", "1"), ("x-a", "2"), ("x-b", "")],
        ];
        for headers in wrong {
            let read = read_again(HEAD.as_bytes(), &request(headers));
            assert!(read.is_none(), "{headers:?}");
        }
        for head in [
            "GET /a HTTP/1.1\r\nhost: t\r\nx-a: 1\r\nx-a: 2\r\n\r\n",
            "GET /a?b HTTP/1.0\r\nhost: t\r\nx-a: 1\r\nx-a: 2\r\n\r\n",
            "GET http://h/a?b HTTP/1.1\r\nhost: t\r\nx-a: 1\r\nx-a: 2\r\n\r\n",
            "x\r\nGET /a?b HTTP/1.1\r\nhost: t\r\nx-a: 1\r\nx-a: 2\r\n\r\n",
            "GET /a?b HTTP/1.1\r\nhost: t\r\nx-a: 1\r\nx-a: 2\r\n\r\nx\r\n\r\n",
        ] {
            let read = read_again(head.as_bytes(), &request(&sent));
            assert!(read.is_none(), "{head}");
        }
    }

    #[test]
    fn a_head_that_asks_something_of_its_connection_is_not_remembered() {
        for (name, value) in [
            ("connection", "close"),
            ("content-length", "0"),
            ("expect", "100-continue"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
        ] {
            let head = format!("GET /a?b HTTP/1.1\r\n{name}: {value}\r\n\r\n");
            let read = read_again(head.as_bytes(), &request(&[(name, value)]));
            assert!(read.is_none(), "{name}");
        }
        let mut old = request(&[("host", "t")]);
        *old.version_mut() = Version::HTTP_10;
        let head = b"GET /a?b HTTP/1.1\r\nhost: t\r\n\r\n";
        assert!(read_again(head, &old).is_none());
    }
}
