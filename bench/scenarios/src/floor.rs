//! A static responder: answers every request with the same bytes. What a client measures
//! against it is its own share, and the share of the network and of the HTTP library. With a short
//! head it is the leanest server of this body that this library makes: the *lean responder*.
//!
//! It uses the threads as the server does: one runtime on each, connections go to the one with
//! the fewest.

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

use bytes::Bytes;
use client::Answer;
use http_body_util::Full;
use hyper::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderMap, TRANSFER_ENCODING};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::runtime::{LocalOptions, LocalRuntime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Which headers of the copied answer are sent, besides those that hyper writes for every answer:
/// `Content-Length` and `Date`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloorHead {
    /// All of them: the price of these very bytes.
    Whole,
    /// `Content-Type` alone: the least that a client needs.
    Short,
}

/// What is answered.
#[derive(Clone, Debug)]
struct Fixed {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Fixed {
    /// The same status and body, and those of the headers that are wanted, less those that hyper
    /// writes for every answer.
    fn copy_of(answer: &Answer, head: FloorHead) -> Fixed {
        let headers = match head {
            FloorHead::Whole => {
                let mut headers = answer.headers.clone();
                for written_by_hyper in [CONNECTION, CONTENT_LENGTH, DATE, TRANSFER_ENCODING] {
                    headers.remove(written_by_hyper);
                }
                headers
            }
            FloorHead::Short => {
                let kind = answer.headers.get(CONTENT_TYPE);
                kind.map(|kind| (CONTENT_TYPE, kind.clone()))
                    .into_iter()
                    .collect()
            }
        };
        Fixed {
            status: answer.status,
            headers,
            body: answer.body.clone(),
        }
    }

    fn response(&self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body.clone()));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }
}

/// Starts threads that answer until the process ends; says where.
///
/// # Errors
/// When the address cannot be listened on, or a thread not be started.
pub fn start(
    listen: SocketAddr,
    answer: &Answer,
    head: FloorHead,
    threads: usize,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(listen)?;
    let address = listener.local_addr()?;
    let fixed = Arc::new(Fixed::copy_of(answer, head));
    let workers = (0..threads.max(1)).map(|number| Worker::start(number, fixed.clone()));
    let workers = workers.collect::<io::Result<Vec<Worker>>>()?;
    Builder::new()
        .name("floor-accept".to_owned())
        .spawn(move || accept(&listener, &workers))?;
    Ok(address)
}

fn accept(listener: &TcpListener, workers: &[Worker]) {
    for stream in listener.incoming() {
        let fewest = workers
            .iter()
            .min_by_key(|worker| worker.live.load(Ordering::Relaxed));
        // A client that is gone before it was accepted concerns no one.
        if let (Ok(stream), Some(worker)) = (stream, fewest) {
            worker.take(stream);
        }
    }
}

fn local_runtime() -> io::Result<LocalRuntime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
}

struct Worker {
    streams: UnboundedSender<TcpStream>,
    live: Arc<AtomicUsize>,
}

impl Worker {
    fn start(number: usize, fixed: Arc<Fixed>) -> io::Result<Worker> {
        let (streams, received) = unbounded_channel();
        let live = Arc::new(AtomicUsize::new(0));
        let (ready, started) = std::sync::mpsc::sync_channel(1);
        let counted = live.clone();
        Builder::new()
            .name(format!("floor-{number}"))
            .spawn(move || match local_runtime() {
                Ok(runtime) => {
                    drop(ready.send(Ok(())));
                    runtime.block_on(answer_all(received, &fixed, &counted));
                }
                Err(error) => drop(ready.send(Err(error))),
            })?;
        started.recv().map_err(io::Error::other)??;
        Ok(Worker { streams, live })
    }

    fn take(&self, stream: TcpStream) {
        self.live.fetch_add(1, Ordering::Relaxed);
        // The thread ends with this sender, so it takes what is sent.
        drop(self.streams.send(stream));
    }
}

async fn answer_all(
    mut streams: UnboundedReceiver<TcpStream>,
    fixed: &Arc<Fixed>,
    live: &Arc<AtomicUsize>,
) {
    while let Some(stream) = streams.recv().await {
        let (fixed, live) = (fixed.clone(), live.clone());
        tokio::task::spawn_local(async move {
            // A client that closes its connection ends it, whatever hyper calls that.
            drop(answer_one(stream, &fixed).await);
            live.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

async fn answer_one(stream: TcpStream, fixed: &Fixed) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let stream = tokio::net::TcpStream::from_std(stream)?;
    let service = service_fn(|_| async { Ok::<_, Infallible>(fixed.response()) });
    http1::Builder::new()
        // As in the server, which keeps this limit without a timer for each request.
        .header_read_timeout(None)
        .serve_connection(TokioIo::new(stream), service)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::Client;
    use hyper::Request;

    #[track_caller]
    fn check(head: FloorHead, wanted: &[&str]) {
        let mut headers = HeaderMap::new();
        headers.insert(
            "content-type",
            "application/json; charset=UTF-8".parse().unwrap(),
        );
        headers.insert("etag", "\"x\"".parse().unwrap());
        headers.insert(CONTENT_LENGTH, "3".parse().unwrap());
        headers.insert(DATE, "Sat, 21 Nov 2026 00:00:00 GMT".parse().unwrap());
        let body = Bytes::from_static(b"[1]");
        let answer = Answer {
            status: StatusCode::OK,
            headers,
            body,
        };
        let address = start(([127, 0, 0, 1], 0).into(), &answer, head, 2).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            for route in ["/", "/v1/other?x"] {
                let endpoint = format!("http://{address}").parse().unwrap();
                let mut client = Client::connect(&endpoint).await.unwrap();
                for _ in 0..2 {
                    let request = Request::get(route).header("host", "x");
                    let got = client
                        .send(request.body(Full::default()).unwrap())
                        .await
                        .unwrap();
                    assert_eq!((got.status, &got.body), (StatusCode::OK, &answer.body));
                    let mut names: Vec<&str> = got
                        .headers
                        .keys()
                        .map(hyper::header::HeaderName::as_str)
                        .collect();
                    names.sort_unstable();
                    assert_eq!(names, wanted);
                    let (copied, sent) =
                        (&answer.headers[CONTENT_TYPE], &got.headers[CONTENT_TYPE]);
                    assert_eq!(copied, sent);
                }
            }
        });
    }

    #[test]
    fn every_request_gets_the_same_status_headers_and_body() {
        check(
            FloorHead::Whole,
            &["content-length", "content-type", "date", "etag"],
        );
    }

    #[test]
    fn a_lean_responder_sends_the_body_and_three_headers() {
        check(
            FloorHead::Short,
            &["content-length", "content-type", "date"],
        );
    }
}
