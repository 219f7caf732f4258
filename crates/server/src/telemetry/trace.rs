//! Traces: who a request belongs to (W3C Trace Context), and spans for a collector (OTLP).
//!
//! A span is made when its answer stands, with the times it had, and handed to a thread of the
//! library, which sends batches. Nothing here waits for a collector: what does not fit into the
//! library's queue is dropped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use client::Endpoint;
use hyper::header::HeaderMap;
use hyper::{Method, StatusCode};
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{
    Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::resource::TelemetryResourceDetector;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, SpanLimits,
};

use super::collector::Collector;

/// Spans that wait to be sent. A span is bounded, so this bounds their memory: some 2 MB.
const WAITING_MAX: usize = 2_048;
/// Most spans of one request to the collector.
const BATCH_MAX: usize = 512;
/// How long spans wait for others.
const BATCH_EVERY: Duration = Duration::from_secs(5);
/// Longest time for the last batch at the end.
const CLOSING: Duration = Duration::from_secs(5);
/// Longest `tracestate` that is passed on: what each system must take at least (W3C Trace Context,
/// 3.3.1.5). A longer one is left away whole, which the standard allows.
const STATE_BYTES_MAX: usize = 512;
/// A method that is none of those OpenTelemetry knows ("Semantic Conventions for HTTP Spans",
/// `http.request.method`).
const OTHER_METHOD: &str = "_OTHER";

/// How to trace.
#[derive(Clone, Debug)]
pub struct TraceSetup {
    /// Where a collector takes OTLP over HTTP, such as `http://127.0.0.1:4318`.
    pub endpoint: Endpoint,
    /// Headers of each request to it.
    pub headers: HeaderMap,
    /// Of requests that come without a trace, one of so many begins one; 0 for none.
    pub one_of: u64,
    /// Whether requests that come with a trace are chosen like those that come without.
    pub ignores_callers: bool,
    /// Most spans a second.
    pub spans_per_s_max: u32,
}

/// The trace that a request belongs to, as its headers say.
pub struct Incoming {
    context: Context,
}

/// An answered request.
pub struct Request<'a> {
    /// The trace it belongs to.
    pub incoming: Option<&'a Incoming>,
    /// The method.
    pub method: &'a Method,
    /// The pattern of its route; empty where it has none.
    pub route: &'a str,
    /// The answer's.
    pub status: StatusCode,
    /// As the log has it.
    pub request_id: &'a str,
    /// When its head had come.
    pub began: SystemTime,
    /// When its answer stood.
    pub ended: SystemTime,
}

/// The names of a span, in hexadecimal digits.
pub struct Named {
    /// 32 of them.
    pub trace_id: String,
    /// 16 of them.
    pub span_id: String,
}

/// Sends spans.
pub struct Traces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    one_of: u64,
    ignores_callers: bool,
    undecided: AtomicU64,
    rate: Rate,
}

/// Lets so many through a second.
struct Rate {
    began: Instant,
    per_s_max: u32,
    /// The upper half is a second since `began`, the lower one how many it has had.
    taken: AtomicU64,
}

impl Rate {
    fn new(per_s_max: u32) -> Rate {
        Rate {
            began: Instant::now(),
            per_s_max,
            taken: AtomicU64::new(0),
        }
    }

    fn has_room(&self) -> bool {
        self.takes(self.began.elapsed().as_secs())
    }

    fn takes(&self, second: u64) -> bool {
        let next = |taken: u64| {
            let count = if taken >> 32 == second {
                taken & u64::from(u32::MAX)
            } else {
                0
            };
            (count < u64::from(self.per_s_max)).then_some((second << 32) | (count + 1))
        };
        let taken = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        taken.is_ok()
    }
}

/// What of the headers is read for a trace: a client may send a `tracestate` of any length, and
/// spans keep it.
struct Bounded<'a>(&'a HeaderMap);

impl Extractor for Bounded<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        let text = self.0.get(key)?.to_str().ok()?;
        (text.len() <= STATE_BYTES_MAX).then_some(text)
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

/// A method as it is recorded: clients may invent any, of any length, and both logs and collectors
/// expect few.
pub fn method_word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::CONNECT => "CONNECT",
        Method::TRACE => "TRACE",
        _ => OTHER_METHOD,
    }
}

impl Incoming {
    /// Reads `traceparent` and `tracestate`. `None` where there is none, more than one, or one that
    /// breaks the rules: the request then belongs to no trace (W3C Trace Context, 3.2).
    pub fn of(headers: &HeaderMap) -> Option<Incoming> {
        let mut parents = headers.get_all("traceparent").iter();
        let parent = parents.next()?;
        if parents.next().is_some() || !is_well_formed(parent.as_bytes()) {
            return None;
        }
        let propagator = TraceContextPropagator::new();
        let context = propagator.extract_with_context(&Context::new(), &Bounded(headers));
        let is_valid = context.span().span_context().is_valid();
        is_valid.then_some(Incoming { context })
    }

    /// The trace's name, 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        self.context.span().span_context().trace_id().to_string()
    }

    /// The name of the caller's span, 16 hexadecimal digits.
    pub fn parent_id(&self) -> String {
        self.context.span().span_context().span_id().to_string()
    }

    fn is_sampled(&self) -> bool {
        self.context.span().span_context().is_sampled()
    }
}

/// The shape of W3C Trace Context, 3.2.2. The library is content with fewer digits.
fn is_well_formed(parent: &[u8]) -> bool {
    const LEN: usize = 55;
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let has_shape = parent.len() >= LEN
        && parent[..LEN].iter().enumerate().all(|(at, byte)| {
            if matches!(at, 2 | 35 | 52) {
                *byte == b'-'
            } else {
                is_digit(byte)
            }
        });
    // Later versions may say more, after another dash.
    has_shape
        && match &parent[..2] {
            b"00" => parent.len() == LEN,
            b"ff" => false,
            _ => parent.len() == LEN || parent[LEN] == b'-',
        }
}

impl Traces {
    /// Starts the thread that sends. What the library would read from the environment is decided
    /// here.
    pub fn start(setup: &TraceSetup) -> Traces {
        let collector = Collector::new(setup.endpoint.clone(), setup.headers.clone());
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(WAITING_MAX)
            .with_max_export_batch_size(BATCH_MAX)
            .with_scheduled_delay(BATCH_EVERY)
            .build();
        let sending = BatchSpanProcessor::builder(collector)
            .with_batch_config(batches)
            .build();
        let resource = Resource::builder_empty()
            .with_detector(Box::new(TelemetryResourceDetector))
            .with_service_name("tidemark")
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let provider = SdkTracerProvider::builder()
            // Which requests to trace was decided before a span is made.
            .with_sampler(Sampler::AlwaysOn)
            .with_span_limits(SpanLimits::default())
            .with_resource(resource)
            .with_span_processor(sending)
            .build();
        Traces {
            tracer: provider.tracer("tidemark"),
            provider,
            one_of: setup.one_of,
            ignores_callers: setup.ignores_callers,
            undecided: AtomicU64::new(0),
            rate: Rate::new(setup.spans_per_s_max),
        }
    }

    /// Whether a request is traced: as its caller has decided, if callers are heard, or one of so
    /// many; and no more than so many a second.
    pub fn wants(&self, incoming: Option<&Incoming>) -> bool {
        let is_chosen = match incoming {
            Some(incoming) if !self.ignores_callers => incoming.is_sampled(),
            _ if self.one_of == 0 => false,
            _ => {
                let before = self.undecided.fetch_add(1, Ordering::Relaxed);
                before.is_multiple_of(self.one_of)
            }
        };
        is_chosen && self.rate.has_room()
    }

    /// Makes the span of an answered request.
    pub fn record(&self, request: &Request<'_>) -> Named {
        let method = method_word(request.method);
        let of_name = if method == OTHER_METHOD {
            "HTTP"
        } else {
            method
        };
        let name = format!("{of_name} {}", request.route);
        let mut attributes = vec![
            // OpenTelemetry, "Semantic Conventions for HTTP Spans".
            KeyValue::new("http.request.method", method),
            KeyValue::new(
                "http.response.status_code",
                i64::from(request.status.as_u16()),
            ),
            KeyValue::new("tidemark.request_id", request.request_id.to_owned()),
        ];
        if !request.route.is_empty() {
            attributes.push(KeyValue::new("http.route", request.route.to_owned()));
        }
        let root = Context::new();
        let parent = request.incoming.map_or(&root, |incoming| &incoming.context);
        let mut span = self
            .tracer
            .span_builder(name.trim_end().to_owned())
            .with_kind(SpanKind::Server)
            .with_start_time(request.began)
            .with_attributes(attributes)
            .start_with_context(&self.tracer, parent);
        if request.status.is_server_error() {
            span.set_status(Status::error(""));
        }
        span.end_with_timestamp(request.ended);
        let named = span.span_context();
        Named {
            trace_id: named.trace_id().to_string(),
            span_id: named.span_id().to_string(),
        }
    }

    /// Sends what waits, and ends. Blocks for some seconds at most.
    pub fn close(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(CLOSING) {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEGAL: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn incoming(parents: &[&str]) -> Option<Incoming> {
        let mut headers = HeaderMap::new();
        for parent in parents {
            headers.append("traceparent", parent.parse().unwrap());
        }
        Incoming::of(&headers)
    }

    #[test]
    fn the_example_of_the_standard_is_read() {
        let read = incoming(&[LEGAL]).unwrap();
        assert_eq!(read.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(read.parent_id(), "b7ad6b7169203331");
        assert!(read.is_sampled());
        let read = incoming(&[&LEGAL.replace("-01", "-00")]).unwrap();
        assert!(!read.is_sampled());
        // A version to come, which says more.
        assert!(incoming(&[&format!("{}-more", LEGAL.replacen("00", "01", 1))]).is_some());
    }

    #[test]
    fn invalid_traceparent_belongs_to_no_trace() {
        let zeros = "00-00000000000000000000000000000000-b7ad6b7169203331-01";
        let no_parent = "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01";
        let capitals = LEGAL.to_ascii_uppercase();
        let longer = format!("{LEGAL}-more");
        let forbidden = LEGAL.replacen("00", "ff", 1);
        for parent in [
            "",
            "00",
            "00-1-2-01",
            zeros,
            no_parent,
            &capitals,
            &longer,
            &forbidden,
            &LEGAL[..54],
            "ü0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert!(incoming(&[parent]).is_none(), "{parent}");
        }
        assert!(incoming(&[LEGAL, LEGAL]).is_none(), "two parents are none");
        assert!(incoming(&[]).is_none());
    }

    #[test]
    fn a_long_trace_state_is_left_away_and_the_trace_is_not() {
        let with_state = |state: String| {
            let mut headers = HeaderMap::new();
            headers.append("traceparent", LEGAL.parse().unwrap());
            headers.append("tracestate", state.parse().unwrap());
            let read = Incoming::of(&headers).unwrap();
            let context = read.context.span().span_context().clone();
            context.trace_state().header()
        };
        assert_eq!(with_state("a=b".into()), "a=b");
        assert_eq!(with_state(format!("a={}", "b".repeat(600))), "");
    }

    #[test]
    fn invented_methods_are_one() {
        assert_eq!(method_word(&Method::PATCH), "PATCH");
        let invented = Method::from_bytes("X".repeat(50_000).as_bytes()).unwrap();
        assert_eq!(method_word(&invented), "_OTHER");
    }

    #[test]
    fn so_many_are_let_through_a_second() {
        let rate = Rate::new(3);
        assert_eq!((0..9).filter(|_| rate.takes(0)).count(), 3);
        assert_eq!((0..9).filter(|_| rate.takes(7)).count(), 3);
    }
}
