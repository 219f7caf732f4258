//! The requests of one connection, one after the other, until it ends.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::connection::{Connection, ConnectionCommand, Phase};
use super::shortcut::Shortcut;
use super::{Limits, last_words};
use crate::http::head::forwarded::Client;
use crate::http::limits::guest_turns::InTurns;
use crate::http::reply::ReplyBody;
use crate::http::{self, App};

/// Answers the requests of one connection, which `peer` has opened, until it ends.
pub async fn serve(stream: TcpStream, peer: Client, connection: &Rc<Connection>, app: &Rc<App>) {
    let watched = |stream| Watched {
        stream,
        connection: connection.clone(),
    };
    let client = |is_secure| Client { is_secure, ..peer };
    // What comes from a jail has passed no network.
    let acceptor = app.shared.tls.as_ref();
    let Some(acceptor) = acceptor.filter(|_| peer.deployment.is_none()) else {
        return exchange(watched(stream), client(false), connection, app).await;
    };
    // Boxed, as is the rest of it, so that plain connections do not carry the room for it around.
    let mut shaking = Box::pin(async {
        // A client that has sent all it will cannot agree any more, and what it began would cost
        // a signature, up to a millisecond.
        let ready = stream.ready(Interest::READABLE).await?;
        if ready.is_read_closed() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        acceptor.accept(watched(stream)).await
    });
    let shaking = InTurns::of(Some(&*app.handshake_turns), shaking.as_mut());
    match unless_ended(connection, shaking).await {
        Some(Ok(stream)) => Box::pin(exchange(stream, client(true), connection, app)).await,
        Some(Err(error)) => tracing::debug!(%error, "a connection did not agree on TLS"),
        None => {}
    }
}

/// What `work` comes to; `None` where the connection must end before.
async fn unless_ended<T>(
    connection: &Connection,
    mut work: impl Future<Output = T> + Unpin,
) -> Option<T> {
    poll_fn(|cx| {
        connection.await_orders(cx.waker());
        connection.turn.begin();
        match connection.command.replace(ConnectionCommand::Nothing) {
            ConnectionCommand::Nothing | ConnectionCommand::Rest => {
                Pin::new(&mut work).poll(cx).map(Some)
            }
            ConnectionCommand::Drain | ConnectionCommand::Close => Poll::Ready(None),
        }
    })
    .await
}

fn library(limits: &Limits) -> http1::Builder {
    let mut library = http1::Builder::new();
    library
        // The sweep keeps this limit: hyper's would set a timer for each request, and would
        // count the time between requests as well.
        .header_read_timeout(None)
        .max_header_size(limits.head_bytes_max)
        // Of each connection, and counted nowhere: hyper would let it grow to 400 KiB while a
        // body comes in, and would take no longer head than that.
        .max_buf_size(limits.head_bytes_max);
    library
}

/// A stream that says when there is something to read, and takes nothing.
trait Readable: AsyncRead + AsyncWrite + Unpin {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()>;
}

impl Readable for Watched {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        // The next read meets the error.
        self.stream.poll_read_ready(cx).map(drop)
    }
}

/// Nothing of a request is kept above the stream: the library has taken all there was.
impl Readable for TlsStream<Watched> {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.get_ref().0.poll_readable(cx)
    }
}

async fn exchange(
    mut stream: impl Readable,
    peer: Client,
    connection: &Rc<Connection>,
    app: &Rc<App>,
) {
    while let Some(rests) = answer_all(stream, peer, connection, app).await {
        stream = rests;
        rest(&stream, connection).await;
    }
}

/// Waits without the library, which has two buffers of 8 KiB for each connection, until something
/// comes or the connection is told something.
async fn rest(stream: &impl Readable, connection: &Connection) {
    poll_fn(|cx| {
        connection.await_orders(cx.waker());
        match connection.command.get() {
            ConnectionCommand::Nothing | ConnectionCommand::Rest => stream.poll_readable(cx),
            ConnectionCommand::Drain | ConnectionCommand::Close => Poll::Ready(()),
        }
    })
    .await;
}

/// Answers requests until the connection ends, or rests: then the stream is given back.
async fn answer_all<S: Readable>(
    stream: S,
    peer: Client,
    connection: &Rc<Connection>,
    app: &Rc<App>,
) -> Option<S> {
    // Of the one answer that leaves HTTP.
    let words: Cell<Option<Bytes>> = Cell::new(None);
    let stream = Shortcut::new(stream, peer, connection, app);
    let handed = stream.handed();
    let service = service_fn(|request: Request<Incoming>| {
        handed.begin(request.body().size_hint().exact());
        if let Some(answer) = http::answer_at_once(app, peer, &request) {
            let mut response = answer.into_response();
            if handed.is_one_request() {
                app.known_heads.learn(&request);
            }
            connection.answered();
            connection.mark_last(&mut response);
            return Answering::Done(Some(response));
        }
        connection.phase.set(Phase::Answering);
        let words = &words;
        Answering::Working(Box::pin(async move {
            connection.turn.work().await;
            let mut response = http::answer(app, peer, request).await;
            connection.answered();
            connection.mark_last(&mut response);
            note_body(response.body(), connection, words);
            response
        }))
    });
    let mut serving = library(&app.shared.limits).serve_connection(TokioIo::new(stream), service);
    let ended = poll_fn(|cx| {
        connection.await_orders(cx.waker());
        connection.turn.begin();
        match connection.command.replace(ConnectionCommand::Nothing) {
            ConnectionCommand::Rest if handed.is_done(connection) => {
                return Poll::Ready(Ok(Ended::Rests));
            }
            ConnectionCommand::Nothing | ConnectionCommand::Rest => {}
            ConnectionCommand::Drain => Pin::new(&mut serving).graceful_shutdown(),
            ConnectionCommand::Close => return Poll::Ready(Ok(Ended::Closed)),
        }
        Pin::new(&mut serving).poll(cx).map_ok(|()| Ended::Itself)
    });
    match ended.await {
        Ok(Ended::Rests) => {
            let parts = serving.into_parts();
            // What the library has not made anything of could not be given back.
            let is_whole = parts.read_buf.is_empty();
            return is_whole.then(|| parts.io.into_inner().into_inner());
        }
        // hyper leaves a connection that has left HTTP open. Its own upgrades would send it to
        // another task, for which it would have to be `Send`.
        Ok(Ended::Itself) => {
            if let Some(words) = words.take() {
                let stream = serving.into_parts().io.into_inner().into_inner();
                let saying = Box::pin(last_words::say(stream, &words));
                unless_ended(connection, saying).await;
            }
        }
        Ok(Ended::Closed) => {}
        // Clients vanish and send nonsense; no operator needs to act on that.
        Err(error) => tracing::debug!(%error, "a connection broke off"),
    }
    None
}

fn note_body(body: &ReplyBody, connection: &Connection, words: &Cell<Option<Bytes>>) {
    match body {
        ReplyBody::Whole(_) => {}
        ReplyBody::Lines(_) => {
            let since_ms = connection.now_ms.get();
            connection.phase.set(Phase::Streaming { since_ms });
        }
        ReplyBody::Switched(last) => words.set(Some(last.clone())),
    }
}

/// Why the library has no more to do.
enum Ended {
    Itself,
    Closed,
    Rests,
}

/// An answer that is there, or is being worked on. hyper moves this about for each request, so
/// the state of the work is not part of it.
#[expect(
    clippy::large_enum_variant,
    reason = "an answer that is there at once is what costs least, and most are"
)]
enum Answering<W> {
    /// `None` once it was taken.
    Done(Option<Response<ReplyBody>>),
    Working(Pin<Box<W>>),
}

impl<W: Future<Output = Response<ReplyBody>>> Future for Answering<W> {
    type Output = Result<Response<ReplyBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Answering::Done(response) => {
                let response = response.take();
                Poll::Ready(Ok(
                    response.expect("a future that is done is not polled again")
                ))
            }
            Answering::Working(work) => work.as_mut().poll(cx).map(Ok),
        }
    }
}

/// Tells the connection of each byte that moves.
struct Watched {
    stream: TcpStream,
    connection: Rc<Connection>,
}

impl Watched {
    fn noted(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.connection.sent(bytes);
        }
        written
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.connection.turn.may_move(cx));
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let bytes = buffer.filled().len() - before;
        if bytes > 0 {
            self.connection.received(bytes);
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let left = ready!(self.connection.turn.may_move(cx));
        let bytes = &bytes[..bytes.len().min(left)];
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.noted(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let left = ready!(self.connection.turn.may_move(cx));
        if slices.iter().map(|slice| slice.len()).sum::<usize>() > left {
            // One that is empty must not be taken for the end.
            let first = slices.iter().find(|slice| !slice.is_empty());
            return self.poll_write(cx, first.map_or(&[], |slice| slice));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.noted(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.connection.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
