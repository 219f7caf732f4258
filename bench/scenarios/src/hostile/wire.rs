//! One connection of a stranger: sends any bytes, and reads what comes back without keeping it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use measure::connection::{HEAD_END, Length, extent, header};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};

/// Bytes of a body that are kept: enough for any refusal, and for the id of a transaction.
const KEPT_MAX: usize = 4 << 10;
/// A server that accepts no client for so long has stopped.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// What one call of the system reads at most.
const ROOM_BYTES: usize = 16 << 10;

/// An open connection.
pub struct Wire {
    stream: TcpStream,
    /// Came, and belongs to no answer yet.
    received: Vec<u8>,
    /// Whether the server said that no other request will be answered.
    pub is_last: bool,
}

/// How an answer ended.
#[derive(Clone, Debug)]
pub enum Seen {
    /// It came to its end.
    Answer(Reply),
    /// The connection ended; whether within an answer.
    Closed { is_within: bool },
    /// It did not come in time.
    Late,
    /// What came is no HTTP.
    Garbled(String),
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The beginning of the body.
    pub body: Vec<u8>,
    /// Bytes of the whole body.
    pub bytes: u64,
}

/// Why reading ended early.
enum Broken {
    Closed,
    Late,
    Garbled(String),
}

impl Wire {
    /// Connects from `source`: every address below 127.0.0.0/8 is this machine.
    ///
    /// # Errors
    /// When the server takes no connection.
    pub fn open(to: SocketAddr, source: Ipv4Addr) -> Result<Wire> {
        let close = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, close, None)?;
        // Connecting heeds it, too (socket(7)).
        set_socket_timeout(&socket, Timeout::Send, Some(CONNECT_MAX))?;
        bind(&socket, &SocketAddrV4::new(source, 0)).context("no address is free")?;
        connect(&socket, &to).context("the server takes no connection")?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        Ok(Wire {
            stream,
            received: Vec::new(),
            is_last: false,
        })
    }

    /// Sends bytes until `until`; whether all of them went out.
    pub fn send(&mut self, mut bytes: &[u8], until: Instant) -> bool {
        while !bytes.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stream.set_write_timeout(Some(left)).is_err() {
                return false;
            }
            match self.stream.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Says that nothing else will be sent. A server that has gone needs no telling.
    pub fn end_of_requests(&self) {
        drop(self.stream.shutdown(Shutdown::Write));
    }

    /// Reads the next answer to its end, or until `until`.
    pub fn answer(&mut self, until: Instant) -> Seen {
        let mut is_within = false;
        match self.read(until, &mut is_within) {
            Ok(reply) => Seen::Answer(reply),
            Err(Broken::Closed) => Seen::Closed { is_within },
            Err(Broken::Late) => Seen::Late,
            Err(Broken::Garbled(why)) => Seen::Garbled(why),
        }
    }

    fn read(&mut self, until: Instant, is_within: &mut bool) -> Result<Reply, Broken> {
        let (start, length) = loop {
            match extent(&self.received) {
                Ok(Some(extent)) => break extent,
                Ok(None) => self.fill(until)?,
                Err(error) => return Err(Broken::Garbled(format!("{error:#}"))),
            }
            *is_within = true;
        };
        let head = String::from_utf8_lossy(&self.received[..start - HEAD_END.len()]);
        let status = head.split(' ').nth(1).and_then(|text| text.parse().ok());
        let status = status.ok_or_else(|| Broken::Garbled(format!("no status: {head}")))?;
        self.is_last |= header(&head, "connection").is_some_and(|said| said == "close");
        drop(head);
        self.received.drain(..start);
        let mut reply = Reply {
            status,
            body: Vec::new(),
            bytes: 0,
        };
        match length {
            Length::Bytes(bytes) => self.take(bytes, &mut reply, until)?,
            Length::Chunked => self.take_chunks(&mut reply, until)?,
        }
        Ok(reply)
    }

    fn take(&mut self, mut bytes: usize, reply: &mut Reply, until: Instant) -> Result<(), Broken> {
        while bytes > 0 {
            if self.received.is_empty() {
                self.fill(until)?;
            }
            let count = bytes.min(self.received.len());
            let kept = count.min(KEPT_MAX - reply.body.len());
            reply.body.extend_from_slice(&self.received[..kept]);
            reply.bytes += count as u64;
            self.received.drain(..count);
            bytes -= count;
        }
        Ok(())
    }

    /// Chunks (RFC 9112, 7.1).
    fn take_chunks(&mut self, reply: &mut Reply, until: Instant) -> Result<(), Broken> {
        loop {
            let line = self.line(until)?;
            let size = usize::from_str_radix(line.trim(), 16)
                .map_err(|_| Broken::Garbled(format!("no size of a chunk: {line}")))?;
            self.take(size, reply, until)?;
            self.line(until)?;
            if size == 0 {
                return Ok(());
            }
        }
    }

    fn line(&mut self, until: Instant) -> Result<String, Broken> {
        loop {
            if let Some(at) = self.received.windows(2).position(|part| part == b"\r\n") {
                let line = String::from_utf8_lossy(&self.received[..at]).into_owned();
                self.received.drain(..at + 2);
                return Ok(line);
            }
            self.fill(until)?;
        }
    }

    fn fill(&mut self, until: Instant) -> Result<(), Broken> {
        let mut room = [0; ROOM_BYTES];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stream.set_read_timeout(Some(left)).is_err() {
                return Err(Broken::Late);
            }
            match self.stream.read(&mut room) {
                Ok(0) => return Err(Broken::Closed),
                Ok(count) => {
                    self.received.extend_from_slice(&room[..count]);
                    return Ok(());
                }
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => {}
                    _ => return Err(Broken::Closed),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    /// What a stranger sees of a server that sends this and closes.
    fn seen(sent: &'static [&'static str], answers: usize) -> Vec<Seen> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let (mut stream, from) = listener.accept().unwrap();
            for part in sent {
                stream.write_all(part.as_bytes()).unwrap();
            }
            from.ip().to_string()
        });
        let mut wire = Wire::open(address, Ipv4Addr::new(127, 9, 9, 9)).unwrap();
        assert_eq!(server.join().unwrap(), "127.9.9.9");
        (0..answers).map(|_| wire.answer(soon())).collect()
    }

    #[test]
    fn answers_behind_one_another_are_told_apart_and_their_bodies_only_begun() {
        let sent = &[
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 201 OK\r\n",
            "Transfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r",
            "\nf\r\n0\r\n\r\nHTTP/1.1 304 No\r\n\r\n",
        ];
        let seen: Vec<(u16, Vec<u8>, u64)> = seen(sent, 3)
            .into_iter()
            .map(|seen| match seen {
                Seen::Answer(reply) => (reply.status, reply.body, reply.bytes),
                other => panic!("{other:?}"),
            })
            .collect();
        let wanted = [
            (200, b"abc".to_vec(), 3),
            (201, b"def".to_vec(), 3),
            (304, Vec::new(), 0),
        ];
        assert_eq!(seen, wanted);
    }

    #[test]
    fn exchanges_without_an_answer_are_named_by_their_end() {
        let closed = &seen(&[], 1)[0];
        assert!(matches!(closed, Seen::Closed { is_within: false }));
        let cut = &seen(&["HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"], 1)[0];
        assert!(matches!(cut, Seen::Closed { is_within: true }), "{cut:?}");
        let garbled = &seen(&["HTTP/1.1 200 OK\r\n\r\n"], 1)[0];
        assert!(matches!(garbled, Seen::Garbled(_)), "{garbled:?}");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut wire = Wire::open(address, Ipv4Addr::LOCALHOST).unwrap();
        assert!(matches!(wire.answer(Instant::now()), Seen::Late));
    }
}
