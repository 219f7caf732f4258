//! The address of its own where metrics are read.
//!
//! Apart from the port that applications use, so that nobody exposes it by serving them: who may
//! connect here may read, and nothing here needs or knows a key. It runs beside the acceptor, not
//! on threads that answer requests.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::Watch;
use super::exposition::{CONTENT_TYPE as METRICS_TYPE, Exposition};

/// Most connections that are read from at once; more wait. A server is scraped by one or two.
const CONNECTIONS_MAX: usize = 16;
/// Longest time for a request's head, and between requests; scrapes come once a minute by default
/// (Prometheus, "Configuration").
const HEAD: Duration = Duration::from_secs(90);
/// A connection is closed after this time whatever it does, so that none that takes no bytes
/// keeps its place for ever.
const CONNECTION: Duration = Duration::from_mins(15);
/// How long accepting pauses when the system has no file handle left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Most bytes of a head; scrapers send a few hundred.
const HEAD_BYTES_MAX: usize = 16 * 1_024;

/// The bound address.
pub struct Listener {
    listener: TcpListener,
}

impl Listener {
    /// Binds it. Needs a runtime.
    ///
    /// # Errors
    /// When the address is taken, or is none of this machine.
    pub fn bind(address: SocketAddr) -> io::Result<Listener> {
        let listener = StdListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Listener {
            listener: TcpListener::from_std(listener)?,
        })
    }

    /// The address that was bound.
    ///
    /// # Errors
    /// When the system does not know it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until its task is dropped. Runs where tasks may stay on their thread.
    pub async fn serve(self, watch: Arc<Watch>) {
        watch.begin_timing();
        let exposition = Rc::new(Exposition::new(watch));
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let place = places.clone().acquire_owned().await;
            let place = place.expect("nobody closes it");
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let exposition = exposition.clone();
                    tokio::task::spawn_local(async move {
                        // However it ends, the other side knows.
                        drop(tokio::time::timeout(CONNECTION, converse(stream, exposition)).await);
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a reader of metrics could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn converse(stream: TcpStream, exposition: Rc<Exposition>) {
    let service = service_fn(|request| {
        let answer = answer(&request, &exposition);
        async move { Ok::<_, Infallible>(answer) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a reader of metrics broke off");
    }
}

fn answer(request: &Request<Incoming>, exposition: &Exposition) -> Response<Full<Bytes>> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        "/metrics" if is_read => metrics(exposition),
        "/metrics" => {
            let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD.\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            refusal.headers_mut().insert(ALLOW, allowed);
            refusal
        }
        _ => plain(StatusCode::NOT_FOUND, "Metrics are at /metrics.\n"),
    }
}

/// All metrics, as an answer. hyper leaves the body out where HEAD was asked.
pub fn metrics(exposition: &Exposition) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(exposition.text()));
    let content_type = HeaderValue::from_static(METRICS_TYPE);
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}
