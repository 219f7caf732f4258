//! Clients in great number that do next to nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use measure::connection::{Access, Connection};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use scenarios::seed::table;

use crate::expect;

/// The length that each slow body announces.
pub const BODY_BYTES: usize = 1_000_000;
/// What of it is sent at once. A thousand of these are twice the memory that bodies may take
/// together, so that the limit is met.
pub const PART_BYTES: usize = 512 << 10;
/// Between two single bytes of each body.
const DRIP_EVERY: Duration = Duration::from_secs(1);
/// A server that does not take the part in this time will not take it.
const SEND_MAX: Duration = Duration::from_secs(10);

/// Raises the limit of open files to `needed` for this process and for servers it starts.
///
/// # Errors
/// When the system does not allow so many.
pub fn make_room(needed: u64) -> Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    // Who may raise the hard limit is free to; everybody else is refused.
    let raised = Rlimit {
        current: Some(needed),
        maximum: maximum.map(|maximum| maximum.max(needed)),
    };
    setrlimit(Resource::Nofile, raised)
        .with_context(|| format!("{needed} open files are needed: raise `ulimit -Hn`"))
}

/// Opens `count` connections, each of which has one row read and then rests.
///
/// # Errors
/// When one of them is refused.
pub fn idle(access: &Access, count: u32) -> Result<Vec<TcpStream>> {
    let request = access.request("GET", &expect::point_route(), "");
    let open = |_| {
        let mut connection = Connection::open(access.address)?;
        connection.accepted(&request)?;
        Ok(connection.into_stream())
    };
    (0..count).map(open).collect()
}

/// # Errors
/// When the server has closed one of these, or said something on it.
pub fn all_open(streams: &[TcpStream]) -> Result<()> {
    for stream in streams {
        stream.set_nonblocking(true)?;
        let peeked = stream.peek(&mut [0]);
        let is_quiet = matches!(&peeked, Err(error) if error.kind() == ErrorKind::WouldBlock);
        ensure!(is_quiet, "an idle connection was ended: {peeked:?}");
    }
    Ok(())
}

/// Clients that have sent a part of a large body.
pub struct SlowBodies {
    held: Vec<TcpStream>,
    refused: usize,
    broken: usize,
}

/// What became of a slow body.
#[derive(Debug, PartialEq)]
enum State {
    Held,
    Refused,
    Broken,
}

impl SlowBodies {
    /// Opens `count` connections, and sends on each the head of an insert and a part of its body.
    ///
    /// # Errors
    /// When no connection is to be had.
    pub fn begin(access: &Access, count: u32) -> Result<SlowBodies> {
        let request = beginning(access);
        let mut bodies = SlowBodies {
            held: Vec::new(),
            refused: 0,
            broken: 0,
        };
        for _ in 0..count {
            let mut stream = Connection::open(access.address)?.into_stream();
            stream.set_write_timeout(Some(SEND_MAX))?;
            // A refused body is not taken to its end. Why it was is read later.
            let _ = stream.write_all(&request);
            stream.set_nonblocking(true)?;
            bodies.held.push(stream);
        }
        bodies.look();
        Ok(bodies)
    }

    /// Sends a byte of each body now and then, for so long.
    ///
    /// # Errors
    /// When the server holds none of them.
    pub fn drip(&mut self, lasting: Duration) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < lasting {
            for stream in &mut self.held {
                // What cannot be sent shows when it is looked at.
                let _ = stream.write(b"x");
            }
            std::thread::sleep(DRIP_EVERY.min(lasting.saturating_sub(start.elapsed())));
            self.look();
        }
        ensure!(!self.held.is_empty(), "the server holds none of the bodies");
        Ok(())
    }

    /// Bodies answered 503 so far.
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// Bodies whose connection ended otherwise.
    pub fn broken(&self) -> usize {
        self.broken
    }

    fn look(&mut self) {
        let (refused, broken) = (&mut self.refused, &mut self.broken);
        self.held.retain_mut(|stream| match state(stream) {
            State::Held => true,
            State::Refused => {
                *refused += 1;
                false
            }
            State::Broken => {
                *broken += 1;
                false
            }
        });
    }
}

/// The head of an insert and the part of its body that is sent at once.
fn beginning(access: &Access) -> Vec<u8> {
    let opening = r#"{"rowId":"slow","data":{"description":""#;
    let body = opening.to_owned() + &"x".repeat(BODY_BYTES - opening.len());
    let mut request = access.request("POST", &table::rows_route(), &body);
    request.truncate(request.len() - BODY_BYTES + PART_BYTES);
    request
}

/// What the server has said of a body that is not whole.
fn state(stream: &mut TcpStream) -> State {
    let mut said = [0; 64];
    match stream.read(&mut said) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => State::Held,
        Ok(count) if said[..count].starts_with(b"HTTP/1.1 503") => State::Refused,
        _ => State::Broken,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_slow_body_announces_more_than_it_sends() {
        let access = Access::new(([127, 0, 0, 1], 80), "p", "k");
        let text = String::from_utf8(beginning(&access)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("\r\nContent-Length: 1000000"), "{head}");
        assert_eq!(body.len(), PART_BYTES);
        assert!(body.starts_with(r#"{"rowId":"slow","data":{"description":"xxx"#));
    }

    #[test]
    fn bodies_end_as_the_answer_says() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let said = |words: &[u8]| {
            let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            server.write_all(words).unwrap();
            drop(server);
            state(&mut stream)
        };
        assert_eq!(
            said(b"HTTP/1.1 503 Service Unavailable\r\n"),
            State::Refused
        );
        assert_eq!(said(b"HTTP/1.1 408 Request Timeout\r\n"), State::Broken);
        assert_eq!(said(b""), State::Broken);
        let mut quiet = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        quiet.set_nonblocking(true).unwrap();
        assert_eq!(state(&mut quiet), State::Held);
        all_open(std::slice::from_ref(&quiet)).unwrap();
        drop(listener);
    }

    #[test]
    fn room_that_is_there_need_not_be_made() {
        make_room(1).unwrap();
    }
}
