//! Each answered request: counted, and if so configured a line of the log and a span of a trace.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::body::Body as _;
use hyper::header::HeaderMap;
use hyper::{Method, Response, StatusCode};

use crate::http::head::forwarded::Client;
use crate::http::head::headers::X_REQUEST_ID;
use crate::http::head::route::Route;
use crate::http::reply::ReplyBody;
use crate::http::{App, Shared};
use crate::telemetry::trace::{Incoming, Request as Traced, method_word};

/// What of a request is logged and traced.
#[derive(Clone, Copy)]
pub struct LoggedRequest<'a> {
    /// The method.
    pub method: &'a Method,
    /// The headers.
    pub headers: &'a HeaderMap,
    /// The client at the other end of the connection.
    pub peer: Client,
}

/// What of an answer is counted, logged and traced.
#[derive(Clone, Copy)]
pub struct LoggedAnswer<'a> {
    /// Its status.
    pub status: StatusCode,
    /// The name of its request.
    pub request_id: &'a str,
    /// Bytes of its body, where they are known before it is sent.
    pub body_bytes: u64,
}

impl LoggedAnswer<'_> {
    /// Of an answer as the library takes it.
    pub fn of(response: &Response<ReplyBody>) -> LoggedAnswer<'_> {
        let request_id = response.headers().get(X_REQUEST_ID);
        LoggedAnswer {
            status: response.status(),
            request_id: request_id
                .and_then(|id| id.to_str().ok())
                .unwrap_or_default(),
            body_bytes: response.body().size_hint().exact().unwrap_or_default(),
        }
    }
}

impl App {
    /// Whether the time that an answer takes is measured.
    pub(super) fn is_timed(&self) -> bool {
        self.shared.access_log || self.shared.counts.is_timed()
    }

    /// Counts an answer and reports it. `began` if it was timed.
    pub(super) fn answered(
        &self,
        request: LoggedRequest<'_>,
        route: Option<&Route>,
        answer: &LoggedAnswer<'_>,
        began: Option<Instant>,
    ) {
        let counts = &self.shared.counts;
        let place = route.map_or_else(|| counts.nowhere(), |route| route.position);
        counts.answered(&self.counts, place, answer.status);
        let Some(began) = began else { return };
        let took = began.elapsed();
        self.counts.took(place, took.as_nanos() as u64);
        if self.shared.access_log || self.shared.traces.is_some() {
            self.shared.report(request, route, answer, took);
        }
    }
}

impl Shared {
    fn report(
        &self,
        request: LoggedRequest<'_>,
        route: Option<&Route>,
        answer: &LoggedAnswer<'_>,
        took: Duration,
    ) {
        let incoming = Incoming::of(request.headers);
        let traces = self.traces.as_ref();
        let traces = traces.filter(|traces| traces.wants(incoming.as_ref()));
        let pattern = route.map_or("", |route| &route.pattern);
        let span = traces.map(|traces| {
            let now_us = u64::try_from(self.clock.now().0).unwrap_or_default();
            let ended = UNIX_EPOCH + Duration::from_micros(now_us);
            traces.record(&Traced {
                incoming: incoming.as_ref(),
                method: request.method,
                route: pattern,
                status: answer.status,
                request_id: answer.request_id,
                began: ended.checked_sub(took).unwrap_or(SystemTime::UNIX_EPOCH),
                ended,
            })
        });
        if !self.access_log {
            return;
        }
        let client = self.proxies.client(request.peer, request.headers);
        // The pattern instead of the path, and no query: what users look for is not the log's
        // business.
        tracing::debug!(
            target: "access",
            request = answer.request_id,
            client = %client.address,
            secure = client.is_secure,
            method = %method_word(request.method),
            route = pattern,
            status = answer.status.as_u16(),
            us = took.as_micros() as u64,
            bytes = answer.body_bytes,
            trace_id = incoming.as_ref().map(Incoming::trace_id).or_else(|| {
                span.as_ref().map(|span| span.trace_id.clone())
            }),
            parent_id = incoming.as_ref().map(Incoming::parent_id),
            span_id = span.as_ref().map(|span| span.span_id.clone()),
        );
    }
}
