//! Traces: who a request belongs to (W3C Trace Context), and spans for a collector (OTLP).
//!
//! A span is made when its answer stands, with the times it had, and handed to a thread of the
//! library, which sends batches. Nothing here waits for a collector: what does not fit into the
//! library's queue is dropped.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, anyhow};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HOST, HeaderMap};
use hyper::{Method, StatusCode};
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::{
    Span as _, SpanKind, Status, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HeaderExtractor, HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider};

use crate::client::{Client, Endpoint};

/// The route of traces under a collector's endpoint (OTLP 1.0, "OTLP/HTTP Request").
const ROUTE: &str = "/v1/traces";
/// Longest time for one batch, from connecting to the collector's answer.
const SENDING: Duration = Duration::from_secs(10);
/// Longest time for the last batch at the end.
const CLOSING: Duration = Duration::from_secs(5);

/// How to trace.
#[derive(Clone, Debug)]
pub struct TraceSetup {
    /// Where a collector takes OTLP over HTTP, such as `http://127.0.0.1:4318`.
    pub endpoint: Endpoint,
    /// Of requests that come without a trace, one of so many begins one; 0 for none.
    pub one_of: u64,
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
    without_trace: AtomicU64,
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
        let extractor = HeaderExtractor(headers);
        let propagator = TraceContextPropagator::new();
        let context = propagator.extract_with_context(&Context::new(), &extractor);
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
    /// Starts the thread that sends.
    ///
    /// # Errors
    /// When the library refuses the endpoint.
    pub fn start(setup: &TraceSetup) -> Result<Traces> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new(setup.endpoint.clone()))
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{}{ROUTE}", setup.endpoint))
            .with_timeout(SENDING)
            .build()
            .map_err(|error| anyhow!("{error}"))
            .context("traces cannot be sent")?;
        let provider = SdkTracerProvider::builder()
            // Which requests to trace was decided before a span is made.
            .with_sampler(Sampler::AlwaysOn)
            .with_resource(
                Resource::builder()
                    .with_service_name("tidemark")
                    .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
                    .build(),
            )
            .with_batch_exporter(exporter)
            .build();
        Ok(Traces {
            tracer: provider.tracer("tidemark"),
            provider,
            one_of: setup.one_of,
            without_trace: AtomicU64::new(0),
        })
    }

    /// Whether a request is traced: as its caller has decided, or, where it has none, one of so
    /// many.
    pub fn wants(&self, incoming: Option<&Incoming>) -> bool {
        match incoming {
            Some(incoming) => incoming.is_sampled(),
            None if self.one_of == 0 => false,
            None => {
                let before = self.without_trace.fetch_add(1, Ordering::Relaxed);
                before.is_multiple_of(self.one_of)
            }
        }
    }

    /// Makes the span of an answered request.
    pub fn record(&self, request: &Request<'_>) -> Named {
        let method = request.method.as_str().to_owned();
        let name = format!("{method} {}", request.route);
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

/// Sends batches by our own client, which knows TLS already. Runs on the library's thread.
struct Collector {
    endpoint: Endpoint,
    /// The log is told when it begins to fail and when it is well again, not of each batch.
    fails: AtomicBool,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collector({})", self.endpoint)
    }
}

impl Collector {
    fn new(endpoint: Endpoint) -> Collector {
        Collector {
            endpoint,
            fails: AtomicBool::new(false),
        }
    }

    fn send(&self, request: hyper::Request<Bytes>) -> Result<hyper::Response<Bytes>> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let exchange = async {
            let mut client = Client::connect(&self.endpoint).await?;
            Ok::<_, anyhow::Error>(client.send(self.on_the_wire(request)?).await?)
        };
        let answer = runtime.block_on(async { tokio::time::timeout(SENDING, exchange).await });
        let answer = answer.context("no answer in time")??;
        let mut response = hyper::Response::new(answer.body);
        *response.status_mut() = answer.status;
        Ok(response)
    }

    /// With the path alone, as a connection that is open already wants it.
    fn on_the_wire(&self, request: hyper::Request<Bytes>) -> Result<hyper::Request<Full<Bytes>>> {
        let (mut head, body) = request.into_parts();
        let path = head.uri.path_and_query().context("an URL with a path")?;
        head.uri = path.as_str().parse()?;
        head.headers
            .insert(HOST, self.endpoint.authority().parse()?);
        Ok(hyper::Request::from_parts(head, Full::from(body)))
    }

    fn note(&self, error: Option<&str>) {
        let fails = error.is_some();
        if self.fails.swap(fails, Ordering::Relaxed) == fails {
            return;
        }
        let endpoint = &self.endpoint;
        if let Some(error) = error {
            tracing::warn!(%endpoint, error, "traces cannot be sent; they are lost");
        } else {
            tracing::info!(%endpoint, "traces are sent again");
        }
    }
}

type Sending<'a> =
    Pin<Box<dyn Future<Output = Result<hyper::Response<Bytes>, HttpError>> + Send + 'a>>;

impl HttpClient for Collector {
    fn send_bytes<'life0, 'async_trait>(
        &'life0 self,
        request: hyper::Request<Bytes>,
    ) -> Sending<'async_trait>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let answer = self.send(request);
            match &answer {
                Ok(answer) if answer.status().is_success() => self.note(None),
                Ok(answer) => self.note(Some(answer.status().as_str())),
                Err(error) => self.note(Some(&format!("{error:#}"))),
            }
            Ok(answer?)
        })
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
    fn what_breaks_the_rules_belongs_to_no_trace() {
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
}
