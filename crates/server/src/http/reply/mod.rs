//! An answer before it becomes bytes: status, body, and the headers that every answer carries.

pub mod fixed_head;
pub mod head_bytes;
pub mod ndjson_body;

use std::convert::Infallible;
use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use engine::{Cached, Family, ListAnswer};
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use model::Mark;

use crate::http::head::cors::Origin;
use crate::http::head::etag;
use crate::http::head::headers::{
    X_APPWRITE_CACHE, X_REQUEST_ID, X_TIDEMARK_CACHE, X_TIDEMARK_ERASED, X_TIDEMARK_MARK,
};
use crate::http::limits::unsent::Untaken;
use crate::http::wire;
use crate::http::wire::error::{ApiError, Kind, RETRY_AFTER_S};
use ndjson_body::Lines;

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=UTF-8");
/// Also of answers without a body: one of the official clients reads the header always, and two
/// fail on an empty body that is announced as JSON.
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=UTF-8");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=UTF-8");
/// A page of this server runs no script and loads nothing.
const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
);
const GZIP: HeaderValue = HeaderValue::from_static("application/gzip");
const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");
const CACHE_CONTROL: HeaderValue = HeaderValue::from_static("private, no-cache");
const VARY: HeaderValue = HeaderValue::from_static(
    "Origin, Cookie, X-Appwrite-Project, X-Appwrite-Key, X-Appwrite-Session, X-Appwrite-JWT",
);

/// Up to three pieces, written out in one go: the rows of a list are not copied between the
/// parts of their envelope. They are dropped when the last of them has been handed to the system.
#[derive(Debug)]
pub struct Pieces {
    bytes: Chain<Chain<Bytes, Bytes>, Bytes>,
    _untaken: Option<Untaken>,
}

impl Pieces {
    fn new([first, second, third]: [Bytes; 3], untaken: Option<Untaken>) -> Pieces {
        Pieces {
            bytes: first.chain(second).chain(third),
            _untaken: untaken,
        }
    }
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.bytes.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

/// The body of an answer.
pub enum ReplyBody {
    /// All of it; `None` where that is nothing, or was taken.
    Whole(Option<Pieces>),
    /// Lines, each as soon as it is there.
    Lines(Lines),
    /// None: the connection is no longer HTTP once the head is sent, and ends with these bytes.
    Switched(Bytes),
}

impl ReplyBody {
    /// All of it, which counts as untaken until it has been sent.
    pub fn whole(pieces: [Bytes; 3], untaken: Option<Untaken>) -> ReplyBody {
        let pieces = Pieces::new(pieces, untaken);
        ReplyBody::Whole(Some(pieces).filter(Buf::has_remaining))
    }

    /// The pieces of a body that is there whole; none of any other.
    pub fn into_pieces(self) -> Pieces {
        match self {
            ReplyBody::Whole(Some(pieces)) => pieces,
            _ => Pieces::new(<[Bytes; 3]>::default(), None),
        }
    }
}

impl Body for ReplyBody {
    type Data = Pieces;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Pieces>, Infallible>>> {
        match &mut *self {
            ReplyBody::Whole(body) => Poll::Ready(body.take().map(|all| Ok(Frame::data(all)))),
            ReplyBody::Lines(lines) => lines.poll(context).map(|lines| {
                let (lines, untaken) = lines?;
                let pieces = Pieces::new([lines, Bytes::new(), Bytes::new()], untaken);
                Some(Ok(Frame::data(pieces)))
            }),
            ReplyBody::Switched(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ReplyBody::Whole(body) => body.is_none(),
            ReplyBody::Lines(_) => false,
            ReplyBody::Switched(_) => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole(body) => {
                let bytes = body.as_ref().map_or(0, Buf::remaining);
                SizeHint::with_exact(bytes as u64)
            }
            ReplyBody::Lines(_) => SizeHint::default(),
            ReplyBody::Switched(_) => SizeHint::with_exact(0),
        }
    }
}

/// Bytes before the body of an answer that is kept: its status and its mark. Written to disk.
const KEPT_HEAD_BYTES: usize = 2 + 8;

/// An answer.
#[derive(Debug)]
pub struct Reply {
    /// The HTTP status.
    pub status: StatusCode,
    content_type: HeaderValue,
    pieces: [Bytes; 3],
    untaken: Option<Untaken>,
    /// In the place of the pieces.
    lines: Option<Lines>,
    /// Names the body, where a request can be repeated.
    tag: Option<HeaderValue>,
    /// For how many seconds it need not be repeated; 0 if it must.
    max_age_s: u32,
    /// Seldom any, so seldom an allocation.
    more: Vec<(HeaderName, HeaderValue)>,
}

impl Reply {
    /// A JSON body.
    pub fn json(status: StatusCode, body: Vec<u8>) -> Reply {
        let pieces = [Bytes::from(body), Bytes::new(), Bytes::new()];
        Reply {
            status,
            content_type: JSON,
            pieces,
            untaken: None,
            lines: None,
            tag: None,
            max_age_s: 0,
            more: Vec::new(),
        }
    }

    /// 200 with a JSON body.
    pub fn ok(body: Vec<u8>) -> Reply {
        Reply::json(StatusCode::OK, body)
    }

    /// 200 with lines of JSON. The connection ends with them: while they come, it is watched by
    /// other limits than one that waits for a request.
    pub fn lines(lines: Lines) -> Reply {
        Reply {
            content_type: LINES,
            lines: Some(lines),
            more: vec![(header::CONNECTION, HeaderValue::from_static("close"))],
            ..Reply::ok(Vec::new())
        }
    }

    /// 200 with a gzip archive of so many bytes, which comes in pieces. The connection ends with
    /// them, as with [`Reply::lines`]; a client sees by the length whether that was too early.
    pub fn archive(pieces: Lines, bytes: u64) -> Reply {
        let mut reply = Reply::lines(pieces);
        reply.content_type = GZIP;
        let length = (header::CONTENT_LENGTH, HeaderValue::from(bytes));
        reply.more.push(length);
        reply
    }

    /// 200 with a JSON body that others send as well.
    pub fn shared(body: Bytes) -> Reply {
        Reply {
            pieces: [body, Bytes::new(), Bytes::new()],
            ..Reply::ok(Vec::new())
        }
    }

    /// 201 with a JSON body.
    pub fn created(body: Vec<u8>) -> Reply {
        Reply::json(StatusCode::CREATED, body)
    }

    /// 201 with a body that is a form, whose parts this boundary separates.
    pub fn created_form(body: Vec<u8>, boundary: &str) -> Reply {
        let kind = format!("multipart/form-data; boundary={boundary}");
        Reply {
            content_type: HeaderValue::from_maybe_shared(Bytes::from(kind))
                .expect("a boundary is made of letters and digits"),
            ..Reply::created(body)
        }
    }

    /// 202 with a JSON body: what was asked is there, or will be.
    pub fn accepted(body: Vec<u8>) -> Reply {
        Reply::json(StatusCode::ACCEPTED, body)
    }

    /// 200 with plain text.
    pub fn text(body: &'static str) -> Reply {
        let pieces = [
            Bytes::from_static(body.as_bytes()),
            Bytes::new(),
            Bytes::new(),
        ];
        Reply {
            status: StatusCode::OK,
            content_type: TEXT,
            pieces,
            untaken: None,
            lines: None,
            tag: None,
            max_age_s: 0,
            more: Vec::new(),
        }
    }

    /// 200 with a page for browsers.
    pub fn html(page: String) -> Reply {
        Reply {
            content_type: HTML,
            more: vec![(header::CONTENT_SECURITY_POLICY, PAGE_POLICY)],
            ..Reply::ok(page.into_bytes())
        }
    }

    /// 101: the connection becomes a WebSocket by this key, which these bytes end.
    pub fn switching(accept: HeaderValue, last_words: Bytes) -> Reply {
        let upgrade = HeaderValue::from_static("websocket");
        Reply {
            more: vec![
                (header::CONNECTION, HeaderValue::from_static("upgrade")),
                (header::UPGRADE, upgrade),
                (header::SEC_WEBSOCKET_ACCEPT, accept),
            ],
            pieces: [last_words, Bytes::new(), Bytes::new()],
            status: StatusCode::SWITCHING_PROTOCOLS,
            ..Reply::empty()
        }
    }

    /// 204.
    pub fn empty() -> Reply {
        let pieces = [Bytes::new(), Bytes::new(), Bytes::new()];
        Reply {
            status: StatusCode::NO_CONTENT,
            content_type: TEXT,
            pieces,
            untaken: None,
            lines: None,
            tag: None,
            max_age_s: 0,
            more: Vec::new(),
        }
    }

    /// A list of rows, with what the caches did.
    pub fn list(answer: ListAnswer, words: &wire::Words) -> Reply {
        let (open, close) = wire::list_envelope(words.rows, answer.total);
        let envelope = (Bytes::from(open), Bytes::from_static(close));
        Reply::of_rows(answer, envelope, words)
    }

    /// A row that was read as a list of one, with what the caches did.
    pub fn row(answer: ListAnswer, words: &wire::Words) -> Reply {
        Reply::of_rows(answer, (Bytes::new(), Bytes::new()), words)
    }

    fn of_rows(answer: ListAnswer, envelope: (Bytes, Bytes), words: &wire::Words) -> Reply {
        let (family, total) = (words.family(), answer.total);
        let tag = match answer.fixed {
            None => etag::of_list(answer.tag, total, family),
            Some(fixed) => etag::of_fixed(answer.tag, total, family, fixed.epochs),
        };
        let (open, close) = envelope;
        let mut more = Vec::with_capacity(2);
        let outcome = match answer.cached {
            Some(Cached { is_hit: true, .. }) => "hit",
            Some(Cached { is_hit: false, .. }) => "miss",
            None => "bypass",
        };
        let age_s = answer.cached.map_or(0, |cached| cached.age_s);
        let is_stale = answer.cached.and_then(|cached| cached.is_stale);
        if is_stale.is_some() {
            more.push((X_APPWRITE_CACHE, HeaderValue::from_static(outcome)));
        }
        let stale = match is_stale {
            None => "",
            Some(false) => "; stale=false",
            Some(true) => "; stale=true",
        };
        let text = format!("{outcome}; mark={}; age={age_s}{stale}", answer.mark.0);
        let text = HeaderValue::from_maybe_shared(Bytes::from(text));
        more.push((
            X_TIDEMARK_CACHE,
            text.expect("words and digits are legal in a header"),
        ));
        Reply {
            status: StatusCode::OK,
            content_type: JSON,
            pieces: [open, shared_bytes(answer.rows), close],
            untaken: None,
            lines: None,
            tag: Some(tag),
            max_age_s: answer.fixed.map_or(0, |fixed| fixed.max_age_s),
            more,
        }
        .of_erased_past(answer.is_erased)
    }

    /// Adds the mark that the answer is true for.
    #[must_use]
    pub fn at(mut self, mark: Mark) -> Reply {
        self.more.push((X_TIDEMARK_MARK, mark.0.into()));
        self
    }

    /// Adds a header; a value that cannot stand in one is left out.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: &str) -> Reply {
        let value = HeaderValue::from_str(value);
        self.more.extend(value.map(|value| (name, value)));
        self
    }

    /// As it is kept, with the mark that it is true for; see [`Reply::restored`].
    pub fn to_keep(&self, mark: Mark) -> Vec<u8> {
        let mut kept = Vec::with_capacity(KEPT_HEAD_BYTES + self.len_bytes());
        kept.extend_from_slice(&self.status.as_u16().to_be_bytes());
        kept.extend_from_slice(&mark.0.to_be_bytes());
        for piece in &self.pieces {
            kept.extend_from_slice(piece);
        }
        kept
    }

    /// The answer that was kept as these bytes; `None` for what is none.
    pub fn restored(kept: &[u8]) -> Option<Reply> {
        let (head, body) = kept.split_first_chunk::<KEPT_HEAD_BYTES>()?;
        let (status, mark) = head.split_first_chunk::<2>()?;
        let status = StatusCode::from_u16(u16::from_be_bytes(*status)).ok()?;
        let mark = Mark(i64::from_be_bytes(mark.try_into().ok()?));
        let reply = if status == StatusCode::NO_CONTENT {
            Reply::empty()
        } else {
            Reply::json(status, body.to_vec())
        };
        Some(reply.at(mark))
    }

    /// Adds the methods that the path answers, where the one used is not among them.
    #[must_use]
    pub fn allowing(mut self, methods: Option<&str>) -> Reply {
        if let Some(value) = methods.and_then(|methods| HeaderValue::from_str(methods).ok()) {
            self.more.push((header::ALLOW, value));
        }
        self
    }

    /// Adds whether rows are erased since that the answer may have shown once.
    #[must_use]
    pub fn of_erased_past(mut self, is_erased: bool) -> Reply {
        if is_erased {
            let value = HeaderValue::from_static("true");
            self.more.push((X_TIDEMARK_ERASED, value));
        }
        self
    }

    /// Adds after how many seconds it makes sense to ask again.
    #[must_use]
    pub fn after_s(mut self, seconds: Option<&'static str>) -> Reply {
        let value = seconds.map(HeaderValue::from_static);
        self.more
            .extend(value.map(|value| (header::RETRY_AFTER, value)));
        self
    }

    /// The answer to a request that is not repeatable, whose body it makes no sense to hold.
    #[must_use]
    pub fn untagged(mut self) -> Reply {
        self.tag = None;
        self.max_age_s = 0;
        self
    }

    /// The answer to a repeatable request with these headers: the body with its tag, or 304
    /// where the client holds that body. `fingerprint` is asked where the body has no tag yet.
    #[must_use]
    pub fn unless_held(
        mut self,
        headers: &HeaderMap,
        fingerprint: impl Fn(&[u8]) -> u128,
    ) -> Reply {
        if self.status != StatusCode::OK {
            return self;
        }
        let body = &self.pieces[0];
        let tag = self
            .tag
            .get_or_insert_with(|| etag::of_body(fingerprint(body)));
        if etag::is_held(headers, tag.as_bytes()) {
            self.status = StatusCode::NOT_MODIFIED;
            self.pieces = [Bytes::new(), Bytes::new(), Bytes::new()];
        }
        self
    }

    /// The body.
    pub fn pieces(&self) -> &[Bytes; 3] {
        &self.pieces
    }

    /// The same answer, counted until its client has taken it.
    #[must_use]
    pub fn counted(mut self, untaken: Option<Untaken>) -> Reply {
        self.untaken = untaken;
        self
    }

    /// The answer to a preflight, to a page at `origin`.
    pub fn preflight(origin: &Origin) -> Reply {
        let mut headers = HeaderMap::new();
        origin.write_preflight(&mut headers);
        let mut reply = Reply::empty();
        reply.more = headers
            .into_iter()
            .filter_map(|(name, value)| Some((name?, value)))
            .collect();
        reply
    }

    /// Bytes of the body.
    pub fn len_bytes(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    /// What hyper writes.
    pub fn into_response(self, request_id: HeaderValue, origin: &Origin) -> Response<ReplyBody> {
        let is_switched = self.status == StatusCode::SWITCHING_PROTOCOLS;
        let body = match (self.lines, self.pieces) {
            (None, [last_words, ..]) if is_switched => ReplyBody::Switched(last_words),
            (None, pieces) => ReplyBody::whole(pieces, self.untaken),
            (Some(lines), _) => ReplyBody::Lines(lines),
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.reserve(8 + self.more.len());
        // A browser takes what a 304 says into the answer it holds, whose type is the right one.
        if self.status != StatusCode::NOT_MODIFIED && !is_switched {
            headers.insert(header::CONTENT_TYPE, self.content_type);
        }
        if let Some(tag) = self.tag {
            headers.insert(header::ETAG, tag);
        }
        headers.insert(header::CACHE_CONTROL, cache_control(self.max_age_s));
        headers.insert(header::VARY, VARY);
        headers.insert(X_REQUEST_ID, request_id);
        headers.extend(self.more);
        origin.write(headers);
        response
    }
}

/// A cache that holds an answer revalidates it, except within the age that the owner of the table
/// allows.
fn cache_control(max_age_s: u32) -> HeaderValue {
    if max_age_s == 0 {
        return CACHE_CONTROL;
    }
    let text = format!("private, max-age={max_age_s}, immutable");
    HeaderValue::from_maybe_shared(Bytes::from(text)).expect("words and digits are legal")
}

/// The bytes themselves, not a copy.
pub(in crate::http) fn shared_bytes(bytes: Arc<[u8]>) -> Bytes {
    if bytes.is_empty() {
        Bytes::new()
    } else {
        Bytes::from_owner(bytes)
    }
}

impl ApiError {
    /// The answer to a client of this family.
    pub fn reply(&self, family: Family) -> Reply {
        let status = self.kind.status();
        let message = self.message(family);
        let kind = self.kind.name(family);
        let body = wire::error_body(&message, status, kind, self.index(), &self.members());
        let passes = [
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::TOO_MANY_REQUESTS,
        ];
        // What may be stored is not to be sent again before that is known, and what has run never.
        let is_done = [Kind::CommitUnknown, Kind::AnswerUnsent].contains(&self.kind);
        let passes = passes.contains(&status) && !is_done;
        let after_s = passes.then_some(RETRY_AFTER_S);
        Reply::json(status, body)
            .allowing(self.allow.as_deref())
            .after_s(after_s)
            .of_erased_past(self.is_of_erased_past())
    }
}

#[cfg(test)]
mod tests {
    use engine::{Family, Fixed};

    use super::*;

    fn answer(cached: Option<Cached>) -> ListAnswer {
        ListAnswer {
            rows: Arc::from(*br#"{"a":1}"#),
            tag: 0xabc,
            total: 12,
            cached,
            mark: Mark(7),
            fixed: None,
            is_erased: false,
        }
    }

    fn response(reply: Reply) -> Response<ReplyBody> {
        reply.into_response(HeaderValue::from_static("id"), &Origin::None)
    }

    fn bytes(reply: Reply) -> Vec<u8> {
        reply.pieces.concat()
    }

    #[test]
    fn a_list_is_its_rows_in_an_envelope_of_known_length() {
        let reply = Reply::list(answer(None), wire::words(Family::Tables));
        assert_eq!(reply.len_bytes(), 29);
        assert_eq!(response(reply).body().size_hint().exact(), Some(29));
        let reply = Reply::list(answer(None), wire::words(Family::Tables));
        assert_eq!(bytes(reply), br#"{"total":12,"rows":[{"a":1}]}"#);
        let reply = Reply::list(answer(None), wire::words(Family::Documents));
        assert_eq!(bytes(reply), br#"{"total":12,"documents":[{"a":1}]}"#);
    }

    fn held(tag: &'static str, reply: Reply) -> Response<ReplyBody> {
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static(tag));
        response(reply.unless_held(&headers, |body| body.len() as u128))
    }

    #[test]
    fn reply_the_client_holds_has_no_body() {
        let list = || Reply::list(answer(None), wire::words(Family::Tables));
        let tag = "\"00000000000000000000000000000abc-ct\"";
        let fresh = held("\"other\"", list());
        assert_eq!(
            (fresh.status().as_u16(), &fresh.headers()["etag"]),
            (200, &tag.parse().unwrap())
        );
        let kept = held(tag, list());
        assert_eq!(
            (kept.status().as_u16(), &kept.headers()["etag"]),
            (304, &tag.parse().unwrap())
        );
        assert_eq!(kept.body().size_hint().exact(), Some(0));
        assert!(!kept.headers().contains_key("content-type"));
        for name in ["cache-control", "vary", "x-tidemark-cache"] {
            assert!(kept.headers().contains_key(name), "{name}");
        }
        let body = Reply::ok(b"{\"n\":1}".to_vec());
        let tag = "\"00000000000000000000000000000007\"";
        assert_eq!(held(tag, body).status(), 304, "the whole body is named");
    }

    #[test]
    fn only_what_was_found_can_be_held() {
        for reply in [Reply::created(vec![]), Reply::empty()] {
            let answered = held("*", reply);
            assert_ne!(answered.status(), 304);
            assert!(!answered.headers().contains_key("etag"));
        }
    }

    #[track_caller]
    fn check_cache_headers(cached: Option<Cached>, appwrite: Option<&str>, tidemark: &str) {
        let response = response(Reply::list(answer(cached), wire::words(Family::Tables)));
        let header = |name| {
            response
                .headers()
                .get(name)
                .map(|value| value.to_str().unwrap())
        };
        assert_eq!(header(X_APPWRITE_CACHE), appwrite);
        assert_eq!(header(X_TIDEMARK_CACHE), Some(tidemark));
    }

    #[test]
    fn a_list_says_what_the_caches_did() {
        let cached = |is_hit, age_s, is_stale| {
            Some(Cached {
                is_hit,
                age_s,
                is_stale,
            })
        };
        for (cached, appwrite, tidemark) in [
            (cached(true, 3, None), None, "hit; mark=7; age=3"),
            (cached(false, 0, None), None, "miss; mark=7; age=0"),
            (
                cached(true, 3, Some(false)),
                Some("hit"),
                "hit; mark=7; age=3; stale=false",
            ),
            (
                cached(true, 3, Some(true)),
                Some("hit"),
                "hit; mark=7; age=3; stale=true",
            ),
            (
                cached(false, 0, Some(false)),
                Some("miss"),
                "miss; mark=7; age=0; stale=false",
            ),
            (None, None, "bypass; mark=7; age=0"),
        ] {
            check_cache_headers(cached, appwrite, tidemark);
        }
    }

    #[test]
    fn a_kept_answer_is_the_same() {
        for reply in [Reply::created(b"{}".to_vec()), Reply::empty()] {
            let kept = reply.to_keep(Mark(i64::MAX));
            let wanted = response(reply.at(Mark(i64::MAX)));
            let restored = Reply::restored(&kept).unwrap();
            assert_eq!(
                Reply::restored(&kept).unwrap().to_keep(Mark(i64::MAX)),
                kept
            );
            let restored = response(restored);
            assert_eq!(restored.status(), wanted.status());
            assert_eq!(restored.headers(), wanted.headers());
        }
        assert!(Reply::restored(b"").is_none());
        assert!(Reply::restored(&[0; 10]).is_none());
    }

    #[test]
    fn an_answer_at_fixed_coordinates_is_named_with_its_epochs_and_kept_as_long_as_allowed() {
        let fixed = |max_age_s| ListAnswer {
            fixed: Some(Fixed {
                epochs: [u64::MAX, 2, 3],
                max_age_s,
            }),
            is_erased: true,
            total: u64::MAX,
            ..answer(None)
        };
        let words = wire::words(Family::Tables);
        let tag = "\"00000000000000000000000000000abc-fffffffffffffffft-ffffffffffffffff.2.3\"";
        let list = held(tag, Reply::list(fixed(0), words));
        assert_eq!(list.status(), 304);
        assert_eq!(list.headers()["cache-control"], "private, no-cache");
        let list = held("\"other\"", Reply::list(fixed(60), words));
        let text = "private, max-age=60, immutable";
        assert_eq!(list.headers()["cache-control"], text);
        assert_eq!(list.headers()["etag"], tag);
        let posted = response(Reply::list(fixed(60), words).untagged());
        assert_eq!(posted.headers()["cache-control"], "private, no-cache");
        assert_eq!(bytes(Reply::row(fixed(0), words)), br#"{"a":1}"#);
    }

    #[test]
    fn an_answer_without_a_body_is_not_announced_as_json() {
        let response = response(Reply::empty());
        assert_eq!(response.status(), 204);
        assert_eq!(
            response.headers()["content-type"],
            "text/plain; charset=UTF-8"
        );
    }

    #[test]
    fn every_answer_is_private_and_named() {
        let response = response(Reply::ok(b"{}".to_vec()));
        assert_eq!(
            response.headers()["content-type"],
            "application/json; charset=UTF-8"
        );
        assert_eq!(response.headers()["cache-control"], "private, no-cache");
        assert_eq!(response.headers()["x-request-id"], "id");
        assert!(
            response.headers()["vary"]
                .to_str()
                .unwrap()
                .contains("X-Appwrite-Key")
        );
    }
}
