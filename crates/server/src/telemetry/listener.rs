//! The address of its own where metrics are read.
//!
//! Apart from the port that applications use, so that serving them does not expose it: who may
//! connect here may read, and nothing here needs or knows a key. It has a thread of its own, so
//! that readers, however many, hold up neither the acceptor nor the threads that answer requests.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::LocalSet;

use super::Telemetry;
use super::exposition::{Exposition, Format};

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

/// The bound address, and the thread that answers there until this is dropped.
pub struct Listener {
    address: SocketAddr,
    /// Dropped, it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Binds it, and answers from now on.
    ///
    /// # Errors
    /// When the address is taken or none of this machine, or no thread can be started.
    pub fn start(address: SocketAddr, watch: Arc<Telemetry>) -> io::Result<Listener> {
        let listener = StdListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        watch.begin_timing();
        let (stop, stopped) = oneshot::channel();
        let serving = move || {
            let serving = LocalSet::new();
            serving.spawn_local(async {
                let Err(error) = serve(listener, watch).await;
                tracing::error!(%error, "metrics cannot be shown");
            });
            // A sender that is gone asks to stop.
            drop(runtime.block_on(serving.run_until(stopped)));
        };
        let thread = thread::Builder::new().name("metrics".to_owned());
        Ok(Listener {
            address,
            stop: Some(stop),
            thread: Some(thread.spawn(serving)?),
        })
    }

    /// The address that was bound.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // After a panic there is nothing left to end.
            drop(thread.join());
        }
    }
}

/// Answers until it is dropped.
async fn serve(listener: StdListener, watch: Arc<Telemetry>) -> io::Result<Infallible> {
    let listener = TcpListener::from_std(listener)?;
    let exposition = Rc::new(Exposition::new(watch));
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = places.clone().acquire_owned().await;
        let place = place.expect("it is never closed");
        match listener.accept().await {
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
        "/metrics" if is_read => metrics(exposition, request.headers()),
        "/metrics" => {
            let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD.\n");
            let allowed = HeaderValue::from_static("GET, HEAD");
            refusal.headers_mut().insert(ALLOW, allowed);
            refusal
        }
        _ => plain(StatusCode::NOT_FOUND, "Metrics are at /metrics.\n"),
    }
}

/// All metrics, as an answer to a request with these headers. hyper leaves the body out where HEAD
/// was asked.
pub fn metrics(exposition: &Exposition, headers: &HeaderMap) -> Response<Full<Bytes>> {
    let accepted = headers.get_all(ACCEPT).iter();
    let accepted: Vec<&str> = accepted.filter_map(|text| text.to_str().ok()).collect();
    let format = Format::wanted(Some(&accepted.join(",")));
    let mut answer = Response::new(Full::from(exposition.text(format, Instant::now())));
    let headers = answer.headers_mut();
    let content_type = HeaderValue::from_static(format.content_type());
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(VARY, HeaderValue::from_static("accept"));
    answer
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::from(text));
    *answer.status_mut() = status;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, content_type);
    answer
}
