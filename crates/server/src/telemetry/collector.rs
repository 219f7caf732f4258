//! Where spans go: a collector that takes OTLP over HTTP, as protobuf.
//!
//! The library's own sender reads a dozen variables of the environment. This one knows what its
//! setup says and nothing else.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use client::{Client, Endpoint};
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use prost::Message as _;

/// The route of traces under a collector's endpoint (OTLP 1.0, "OTLP/HTTP Request").
pub const ROUTE: &str = "/v1/traces";
/// Longest time for one batch, from connecting to the collector's answer.
const SENDING: Duration = Duration::from_secs(10);

/// Sends batches by our own client, which knows TLS already. Runs on the library's thread.
pub struct Collector {
    endpoint: Endpoint,
    headers: HeaderMap,
    resource: ResourceAttributesWithSchema,
    /// The log gets a line when it begins to fail and when it is well again, not for each batch.
    fails: AtomicBool,
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Collector({})", self.endpoint)
    }
}

impl Collector {
    /// At this endpoint, with these headers in each request.
    pub fn new(endpoint: Endpoint, headers: HeaderMap) -> Collector {
        Collector {
            endpoint,
            headers,
            resource: ResourceAttributesWithSchema::default(),
            fails: AtomicBool::new(false),
        }
    }

    fn send(&self, batch: Vec<SpanData>) -> Result<()> {
        let message = ExportTraceServiceRequest {
            resource_spans: group_spans_by_resource_and_scope(batch, &self.resource),
        };
        let mut request = hyper::Request::post(format!("{}{ROUTE}", self.endpoint.path()))
            .body(Full::from(message.encode_to_vec()))?;
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        headers.insert(HOST, self.endpoint.authority().parse()?);
        headers.insert(CONTENT_TYPE, "application/x-protobuf".parse()?);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let exchange = async {
            let mut client = Client::connect(&self.endpoint).await?;
            Ok::<_, anyhow::Error>(client.send(request).await?)
        };
        let answer = runtime.block_on(async { tokio::time::timeout(SENDING, exchange).await });
        let answer = answer.context("no answer in time")??;
        if !answer.status.is_success() {
            bail!("{}", answer.status);
        }
        // A collector that answers otherwise has taken all of it.
        let response = ExportTraceServiceResponse::decode(answer.body).unwrap_or_default();
        match response.partial_success {
            Some(part) if part.rejected_spans > 0 => {
                bail!(
                    "{} spans were rejected: {}",
                    part.rejected_spans,
                    part.error_message
                )
            }
            _ => Ok(()),
        }
    }

    fn note(&self, error: Option<&anyhow::Error>) {
        let fails = error.is_some();
        if self.fails.swap(fails, Ordering::Relaxed) == fails {
            return;
        }
        let endpoint = &self.endpoint;
        if let Some(error) = error {
            let error = format!("{error:#}");
            tracing::warn!(%endpoint, error, "traces cannot be sent; they are lost");
        } else {
            tracing::info!(%endpoint, "traces are sent again");
        }
    }
}

impl SpanExporter for Collector {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let sent = self.send(batch);
        self.note(sent.as_ref().err());
        sent.map_err(|error| OTelSdkError::InternalFailure(format!("{error:#}")))
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
    }
}
