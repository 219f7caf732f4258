//! Requests that are answered below the HTTP library: those whose very bytes it has parsed before.
//!
//! It stands between the library and the stream. While the library has nothing to do, the next
//! bytes that come are looked up; those of a known request are answered here, and the library never
//! sees them. Everything else is handed on as it came.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::Connection;
use crate::http::head::forwarded::Client;
use crate::http::reply::Pieces;
use crate::http::reply::fixed_head::QuickAnswer;
use crate::http::state::known_heads::{END, KnownHead};
use crate::http::{self, App};

/// Slices of one call of the system: a head, and up to three pieces of a body.
const SLICES: usize = 4;

/// What the library was handed, and what it has made of it, since it last had nothing to do. Shared
/// with the function that the library calls with each request.
#[derive(Debug, Default)]
pub struct Handed {
    bytes: Cell<usize>,
    /// Bytes of the first head, if it came whole in the first piece.
    head_bytes: Cell<Option<usize>>,
    begun: Cell<u32>,
    /// Of the body that belongs to the head; `None` where that is not known before it ends.
    body_bytes: Cell<Option<u64>>,
}

impl Handed {
    /// The library has begun a request with so many bytes of a body.
    pub fn begin(&self, body_bytes: Option<u64>) {
        self.begun.set(self.begun.get().saturating_add(1));
        self.body_bytes.set(body_bytes);
    }

    /// Whether all that was handed is one request with its body, and nothing after it.
    pub fn is_one_request(&self) -> bool {
        let wanted = || {
            let body_bytes = usize::try_from(self.body_bytes.get()?).ok()?;
            self.head_bytes.get()?.checked_add(body_bytes)
        };
        self.begun.get() == 1 && wanted() == Some(self.bytes.get())
    }

    fn is_nothing(&self) -> bool {
        self.bytes.get() == 0
    }

    /// Whether all that has come is answered, and the library holds nothing of it.
    pub fn is_done(&self, connection: &Connection) -> bool {
        connection.is_between_requests() && (self.is_nothing() || self.is_one_request())
    }

    fn start(&self, first: &[u8]) {
        self.bytes.set(first.len());
        self.head_bytes.set(head_bytes(first));
        self.begun.set(0);
        self.body_bytes.set(None);
    }

    fn more(&self, bytes: usize) {
        self.bytes.set(self.bytes.get().saturating_add(bytes));
    }
}

/// How long the first head is, if it ends in these bytes. Every request that is not known is
/// searched, so only one byte of four is looked at: what ends a head holds one of them.
fn head_bytes(bytes: &[u8]) -> Option<usize> {
    let looked_at = (END.len() - 1..bytes.len()).step_by(END.len());
    let mut near = looked_at.filter(|at| matches!(bytes[*at], b'\r' | b'\n'));
    let begin =
        near.find_map(|at| (at + 1 - END.len()..=at).find(|from| bytes[*from..].starts_with(END)));
    begin.map(|begin| begin + END.len())
}

/// A stream whose known requests are answered before the library reads them.
pub struct Shortcut<S> {
    stream: S,
    app: Rc<App>,
    peer: Client,
    connection: Rc<Connection>,
    handed: Rc<Handed>,
    /// The request that was answered here last: a client that asks again mostly sends its bytes,
    /// which are found without a hash then.
    last: Weak<KnownHead>,
    /// What is left of an answer that the system did not take whole.
    unsent: Option<Box<Chain<Bytes, Pieces>>>,
    /// Whether an answer is yet to be flushed.
    is_unflushed: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Shortcut<S> {
    /// A new connection that `peer` has opened.
    pub fn new(stream: S, peer: Client, connection: &Rc<Connection>, app: &Rc<App>) -> Shortcut<S> {
        Shortcut {
            stream,
            app: app.clone(),
            peer,
            connection: connection.clone(),
            handed: Rc::default(),
            last: Weak::new(),
            unsent: None,
            is_unflushed: false,
        }
    }

    /// What it shares with the function that answers what the library reads.
    pub fn handed(&self) -> Rc<Handed> {
        self.handed.clone()
    }

    /// The stream, once nothing is read from it here any more.
    pub fn into_inner(self) -> S {
        self.stream
    }

    /// The answer to these bytes, if they are a known request.
    fn answer(&mut self, bytes: &[u8]) -> Option<QuickAnswer> {
        // The last answer says so in a header.
        if self.connection.ends() {
            return None;
        }
        let last = self.last.upgrade().filter(|last| last.is(bytes));
        let known = if let Some(last) = last {
            self.app.known_heads.pass_over();
            last
        } else {
            let known = self.app.known_heads.find(&self.app.shared.engine, bytes)?;
            self.last = Rc::downgrade(&known);
            known
        };
        let answer = http::answer_known(&self.app, self.peer, &known)?;
        self.connection.answered();
        Some(answer)
    }

    /// Sends an answer, head and body in one call of the system if that takes them.
    fn begin(&mut self, cx: &mut Context<'_>, answer: QuickAnswer) -> io::Result<()> {
        let head = self.app.head_bytes(&answer);
        let mut pieces = answer.into_pieces();
        let sent = {
            let mut slices = [IoSlice::new(&[]); SLICES];
            slices[0] = IoSlice::new(&head);
            let count = 1 + pieces.chunks_vectored(&mut slices[1..]);
            Pin::new(&mut self.stream).poll_write_vectored(cx, &slices[..count])
        };
        let sent = match sent {
            Poll::Ready(sent) => some(sent)?,
            Poll::Pending => 0,
        };
        let of_head = sent.min(head.len());
        pieces.advance(sent - of_head);
        self.is_unflushed = true;
        if of_head < head.len() || pieces.has_remaining() {
            let rest = Bytes::copy_from_slice(&head[of_head..]);
            self.unsent = Some(Box::new(rest.chain(pieces)));
        }
        Ok(())
    }

    /// Sends what is left of the answer, if there is one.
    fn send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(unsent) = &mut self.unsent {
            let sent = {
                let mut slices = [IoSlice::new(&[]); SLICES];
                let count = unsent.chunks_vectored(&mut slices);
                Pin::new(&mut self.stream).poll_write_vectored(cx, &slices[..count])
            };
            unsent.advance(some(ready!(sent))?);
            if !unsent.has_remaining() {
                self.unsent = None;
            }
        }
        if self.is_unflushed {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}

/// What was taken of some bytes, which is not none.
fn some(sent: io::Result<usize>) -> io::Result<usize> {
    match sent {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        sent => sent,
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Shortcut<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            ready!(this.send(cx))?;
            let is_idle = this.handed.is_nothing()
                || this.connection.is_between_requests() && this.handed.is_one_request();
            let before = buffer.filled().len();
            ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
            let bytes = &buffer.filled()[before..];
            if !is_idle {
                this.handed.more(bytes.len());
                return Poll::Ready(Ok(()));
            }
            let Some(answer) = this.answer(bytes) else {
                this.handed.start(bytes);
                return Poll::Ready(Ok(()));
            };
            buffer.set_filled(before);
            this.begin(cx, answer)?;
        }
    }
}

/// While the library writes, nothing is left of an answer from here; at the end there may be.
impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Shortcut<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.send(cx))?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.send(cx))?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.send(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.send(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: t\r\n\r\n";

    fn handed(first: &[u8], begun: &[Option<u64>], more: usize) -> Handed {
        let handed = Handed::default();
        handed.start(first);
        for body_bytes in begun {
            handed.begin(*body_bytes);
        }
        handed.more(more);
        handed
    }

    #[test]
    fn one_request_is_a_whole_head_and_its_body() {
        assert!(handed(HEAD, &[Some(0)], 0).is_one_request());
        assert!(handed(HEAD, &[Some(5)], 5).is_one_request());
        let with_body = [HEAD, b"12345"].concat();
        assert!(handed(&with_body, &[Some(5)], 0).is_one_request());
        assert!(Handed::default().is_nothing());
    }

    #[test]
    fn head_ends_at_its_first_empty_line() {
        for length in 0..12 {
            let head = ["x".repeat(length).as_bytes(), END].concat();
            let more = [&head, &b"\r\n\r\ny\r\n\r\n"[..]].concat();
            assert_eq!(head_bytes(&head), Some(length + END.len()));
            assert_eq!(head_bytes(&more), Some(length + END.len()));
            for cut in 0..head.len() {
                assert_eq!(head_bytes(&head[..cut]), None);
            }
        }
        assert_eq!(head_bytes(b"\r\r\n\n\r\n\n\r\n\r\nx"), Some(11));
        assert_eq!(head_bytes(b"a\r\nb\n\nc\r\rd\r\n\n\r"), None);
    }

    #[test]
    fn more_or_less_than_one_request_is_not_taken_for_one() {
        let two = [HEAD, HEAD].concat();
        let partial = [HEAD, &HEAD[..9]].concat();
        for (first, begun, more) in [
            (HEAD, &[][..], 0),
            (HEAD, &[Some(5)], 4),
            (HEAD, &[Some(0)], 1),
            (HEAD, &[None], 0),
            (&HEAD[..9], &[Some(0)], HEAD.len() - 9),
            (&two, &[Some(0)], 0),
            (&two, &[Some(0), Some(0)], 0),
            (&partial, &[Some(0)], 0),
            (HEAD, &[Some(u64::MAX)], 0),
        ] {
            let handed = handed(first, begun, more);
            assert!(!handed.is_one_request(), "{handed:?}");
        }
    }
}
