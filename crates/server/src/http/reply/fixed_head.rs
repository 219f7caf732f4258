//! Heads of answers that are given again and again: they stand but for what is of one answer, as
//! the HTTP library takes them and as bytes.

use std::rc::Rc;

use hyper::body::Body as _;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Response, StatusCode};
use model::{Mark, Timestamp};

use super::head_bytes::{self, DateLine};
use super::{Pieces, ReplyBody};
use crate::http::head::cors::Origin;
use crate::http::head::etag::BodyTag;
use crate::http::head::headers::{X_REQUEST_ID, X_TIDEMARK_MARK};
use crate::http::head::request_ids::RequestName;

/// A head of 200, and that of the 304 in its place.
#[derive(Debug)]
pub struct FixedHead {
    /// With anything in the places of what is of one answer.
    headers: HeaderMap,
    /// The lines, without what is of one answer.
    lines: Box<[u8]>,
    /// Where the first line ends: the content type, which a 304 does not say.
    type_end: usize,
    /// Where in the lines something is missing.
    gaps: Vec<(usize, Gap)>,
}

#[derive(Clone, Copy, Debug)]
enum Gap {
    RequestId,
    Tag,
    Mark,
}

/// What is of one answer whose head says which body and which mark it has.
#[derive(Clone, Copy, Debug)]
pub struct BodyNames {
    /// The body's tag.
    pub tag: BodyTag,
    /// The mark it is true for.
    pub mark: Mark,
}

/// An answer that is given at once.
pub enum QuickAnswer {
    /// With a head that stands.
    Fixed(FixedAnswer),
    /// As the library takes it.
    Written(Response<ReplyBody>),
}

/// An answer with a head that stands.
pub struct FixedAnswer {
    /// The head.
    pub head: Rc<FixedHead>,
    /// Whether the client holds the body.
    pub is_held: bool,
    /// The name of the request.
    pub request_id: RequestName,
    /// Where the head does not say them always.
    pub names: Option<BodyNames>,
    /// Where the request comes from.
    pub origin: Origin,
    /// The body.
    pub body: ReplyBody,
}

impl FixedHead {
    /// A head with these headers, of which the content type is the first, but for the name of the
    /// request; where `is_of_body`, also but for tag and mark.
    pub fn new(headers: HeaderMap, is_of_body: bool) -> FixedHead {
        let (mut lines, mut gaps) = (Vec::new(), Vec::new());
        let mut type_end = 0;
        for (name, value) in &headers {
            lines.extend_from_slice(name.as_str().as_bytes());
            lines.extend_from_slice(b": ");
            let gap = match name {
                name if *name == X_REQUEST_ID => Some(Gap::RequestId),
                name if is_of_body && *name == header::ETAG => Some(Gap::Tag),
                name if is_of_body && *name == X_TIDEMARK_MARK => Some(Gap::Mark),
                _ => None,
            };
            match gap {
                Some(gap) => gaps.push((lines.len(), gap)),
                None => lines.extend_from_slice(value.as_bytes()),
            }
            lines.extend_from_slice(b"\r\n");
            if type_end == 0 {
                assert_eq!(name, header::CONTENT_TYPE, "the first header");
                type_end = lines.len();
            }
        }
        FixedHead {
            headers,
            lines: lines.into(),
            type_end,
            gaps,
        }
    }

    /// The tag of the body that it always goes before.
    pub fn tag(&self) -> &[u8] {
        self.headers[header::ETAG].as_bytes()
    }

    fn write(&self, answer: &FixedAnswer, out: &mut Vec<u8>) {
        let mut from = if answer.is_held { self.type_end } else { 0 };
        for (to, gap) in &self.gaps {
            out.extend_from_slice(&self.lines[from..*to]);
            from = *to;
            match (gap, &answer.names) {
                (Gap::RequestId, _) => out.extend_from_slice(answer.request_id.as_bytes()),
                (Gap::Tag, Some(names)) => out.extend_from_slice(names.tag.as_bytes()),
                (Gap::Mark, Some(names)) => head_bytes::write_digits(&names.mark.0, out),
                (Gap::Tag | Gap::Mark, None) => unreachable!("its answers have names"),
            }
        }
        out.extend_from_slice(&self.lines[from..]);
    }
}

impl FixedAnswer {
    fn status(&self) -> StatusCode {
        if self.is_held {
            StatusCode::NOT_MODIFIED
        } else {
            StatusCode::OK
        }
    }

    fn into_response(self) -> Response<ReplyBody> {
        let status = self.status();
        let always = &self.head.headers;
        let mut headers = HeaderMap::with_capacity(always.len() + 3);
        for (name, value) in always {
            if !self.is_held || name != header::CONTENT_TYPE {
                headers.insert(name, value.clone());
            }
        }
        headers.insert(X_REQUEST_ID, self.request_id.header());
        if let Some(BodyNames { tag, mark }) = self.names {
            headers.insert(header::ETAG, tag.header());
            headers.insert(X_TIDEMARK_MARK, HeaderValue::from(mark.0));
        }
        self.origin.write(&mut headers);
        let mut response = Response::new(self.body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

impl QuickAnswer {
    /// Its status.
    pub fn status(&self) -> StatusCode {
        match self {
            QuickAnswer::Fixed(answer) => answer.status(),
            QuickAnswer::Written(response) => response.status(),
        }
    }

    /// The name of the request, where it has one.
    pub fn request_id(&self) -> &str {
        match self {
            QuickAnswer::Fixed(answer) => answer.request_id.as_str(),
            QuickAnswer::Written(response) => {
                let name = response.headers().get(X_REQUEST_ID);
                name.and_then(|name| name.to_str().ok()).unwrap_or_default()
            }
        }
    }

    fn body(&self) -> &ReplyBody {
        match self {
            QuickAnswer::Fixed(answer) => &answer.body,
            QuickAnswer::Written(response) => response.body(),
        }
    }

    /// Bytes of its body, where they are known before it is sent.
    pub fn body_bytes(&self) -> u64 {
        self.body().size_hint().exact().unwrap_or_default()
    }

    /// As the library takes it.
    pub fn into_response(self) -> Response<ReplyBody> {
        match self {
            QuickAnswer::Fixed(answer) => answer.into_response(),
            QuickAnswer::Written(response) => response,
        }
    }

    /// Writes its head, as the library would.
    pub fn write_head(&self, now: (&DateLine, Timestamp), out: &mut Vec<u8>) {
        head_bytes::write_status(self.status(), out);
        match self {
            QuickAnswer::Fixed(answer) => {
                answer.head.write(answer, out);
                if answer.origin != Origin::None {
                    let mut of_origin = HeaderMap::new();
                    answer.origin.write(&mut of_origin);
                    head_bytes::write_lines(&of_origin, out);
                }
            }
            QuickAnswer::Written(response) => head_bytes::write_lines(response.headers(), out),
        }
        head_bytes::write_end(self.status(), self.body_bytes(), now, out);
    }

    /// The pieces of its body.
    pub fn into_pieces(self) -> Pieces {
        let body = match self {
            QuickAnswer::Fixed(answer) => answer.body,
            QuickAnswer::Written(response) => response.into_body(),
        };
        body.into_pieces()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::head::request_ids::RequestIds;
    use crate::http::reply::Reply;

    fn head(is_of_body: bool) -> Rc<FixedHead> {
        let reply = Reply::ok(Vec::new()).at(Mark(7));
        let reply = reply.unless_held(&HeaderMap::new(), |_| 0xabc);
        let response = reply.into_response(HeaderValue::from_static(""), &Origin::None);
        Rc::new(FixedHead::new(response.into_parts().0.headers, is_of_body))
    }

    fn answer(is_of_body: bool, is_held: bool, origin: &Origin) -> QuickAnswer {
        let ids = RequestIds::new(1, |bytes| bytes.fill(0x22));
        let names = BodyNames {
            tag: BodyTag::of(0xdef),
            mark: Mark(1_700_000_000_000_001),
        };
        let body = if is_held { &b""[..] } else { b"{}" };
        let pieces = [body.into(), bytes::Bytes::new(), bytes::Bytes::new()];
        QuickAnswer::Fixed(FixedAnswer {
            head: head(is_of_body),
            is_held,
            request_id: ids.text(None),
            names: is_of_body.then_some(names),
            origin: origin.clone(),
            body: ReplyBody::whole(pieces, None),
        })
    }

    #[test]
    fn a_head_has_the_same_bytes_as_its_response() {
        let page = Origin::Allowed(HeaderValue::from_static("http://localhost:1"));
        for is_of_body in [false, true] {
            for is_held in [false, true] {
                for origin in [&Origin::None, &page] {
                    let now = (&DateLine::default(), Timestamp(0));
                    let (mut fixed, mut written) = (Vec::new(), Vec::new());
                    answer(is_of_body, is_held, origin).write_head(now, &mut fixed);
                    let response = answer(is_of_body, is_held, origin).into_response();
                    QuickAnswer::Written(response).write_head(now, &mut written);
                    let [fixed, written] =
                        [fixed, written].map(|it| String::from_utf8(it).unwrap());
                    assert_eq!(fixed, written);
                    assert_eq!(fixed.contains("content-type: "), !is_held);
                    assert!(fixed.contains("x-request-id: 22222222-1-0\r\n"), "{fixed}");
                    let mark = if is_of_body { "1700000000000001" } else { "7" };
                    assert!(
                        fixed.contains(&format!("x-tidemark-mark: {mark}\r\n")),
                        "{fixed}"
                    );
                    let tag = if is_of_body { "def" } else { "abc" };
                    assert!(fixed.contains(&format!("{tag}\"\r\n")), "{fixed}");
                }
            }
        }
    }
}
