//! A plain blocking client: one kept-alive connection, one request at a time.
//!
//! No HTTP library, because its time would be part of every sample. It reads a head, and a body
//! with `Content-Length`, as this server writes it, or in chunks, as others may.

use std::fmt::Display;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// No answer of ours takes so long; a hung server must not hang the measurement.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// What a head ends in.
pub const HEAD_END: &[u8] = b"\r\n\r\n";

/// Where a server is and how to be let in.
#[derive(Clone)]
pub struct Access {
    /// Where it listens.
    pub address: SocketAddr,
    /// The project's id.
    pub project: String,
    /// The secret of a key with every scope, of a server that is thrown away.
    pub key: String,
}

/// One open connection.
pub struct Connection {
    stream: TcpStream,
    received: Vec<u8>,
    /// The body of an answer that came in chunks, joined.
    joined: Vec<u8>,
}

/// How a body says where it ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// After so many bytes.
    Bytes(usize),
    /// By its last chunk.
    Chunked,
}

/// An answer, until the next request.
#[derive(Debug)]
pub struct Answer<'a> {
    /// The status.
    pub status: u16,
    /// Status line and headers.
    pub head: &'a str,
    /// The body.
    pub body: &'a [u8],
}

impl Access {
    /// The access to a server at `address`.
    pub fn new(address: impl Into<SocketAddr>, project: &str, key: &str) -> Access {
        Access {
            address: address.into(),
            project: project.to_owned(),
            key: key.to_owned(),
        }
    }

    /// The address of `route`, such as `/tablesdb`.
    pub fn url(&self, route: &str) -> String {
        format!("http://{}/v1{route}", self.address)
    }

    /// The headers that let a request in.
    pub fn headers(&self) -> [String; 2] {
        let Access { project, key, .. } = self;
        [
            format!("X-Appwrite-Project: {project}"),
            format!("X-Appwrite-Key: {key}"),
        ]
    }

    /// The bytes of a request on `route`, with a JSON body where it is not empty.
    pub fn request(&self, method: &str, route: &str, body: &str) -> Vec<u8> {
        let [project, key] = self.headers();
        let address = self.address;
        let head = format!("{method} /v1{route} HTTP/1.1\r\nHost: {address}\r\n{project}\r\n{key}");
        let length = body.len();
        let rest = match body {
            "" => "\r\n\r\n".to_owned(),
            _ => format!(
                "\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
            ),
        };
        (head + &rest).into_bytes()
    }

    /// The bytes of a request for a list that is to be read, not taken from a cache.
    pub fn uncached(&self, route: &str) -> Vec<u8> {
        let mut request = self.request("GET", route, "");
        request.truncate(request.len() - 2);
        request.extend_from_slice(b"X-Tidemark-Cache: bypass\r\n\r\n");
        request
    }
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// When no server listens there.
    pub fn open(address: SocketAddr) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        Ok(Connection {
            stream,
            received: Vec::with_capacity(64 << 10),
            joined: Vec::new(),
        })
    }

    /// Waits for answers for so long, in place of half a minute.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn wait_at_most(&self, patience: Duration) -> std::io::Result<()> {
        self.stream.set_read_timeout(Some(patience))
    }

    /// The bare connection, without what was read from it.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// Sends a request and reads its answer to the end.
    ///
    /// # Errors
    /// When the connection breaks, or the answer has no length.
    pub fn ask(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        self.stream
            .write_all(request)
            .context("the request could not be sent")?;
        self.received.clear();
        let mut room = [0; 16 << 10];
        let mut begun: Option<(usize, Length)> = None;
        loop {
            if let Some((body, length)) = begun {
                match length {
                    Length::Bytes(bytes) if self.received.len() >= body + bytes => {
                        let (head, rest) = self.received.split_at(body);
                        return answer(head, &rest[..bytes]);
                    }
                    Length::Chunked if join(&self.received[body..], &mut self.joined)? => {
                        return answer(&self.received[..body], &self.joined);
                    }
                    _ => {}
                }
            }
            let count = self.stream.read(&mut room).context("no answer came")?;
            if count == 0 {
                bail!("the connection was closed before the answer ended");
            }
            self.received.extend_from_slice(&room[..count]);
            if begun.is_none() {
                begun = extent(&self.received)?;
            }
        }
    }

    /// Calls `route`, with a body where it is not empty; that must succeed.
    ///
    /// # Errors
    /// As [`Connection::accepted`].
    pub fn call(
        &mut self,
        access: &Access,
        method: &str,
        route: &str,
        body: impl Display,
    ) -> Result<Answer<'_>> {
        self.accepted(&access.request(method, route, &body.to_string()))
    }

    /// As [`Connection::ask`], for requests that must succeed.
    ///
    /// # Errors
    /// When the status is not 2xx; the server's words are in the text.
    pub fn accepted(&mut self, request: &[u8]) -> Result<Answer<'_>> {
        let answer = self.ask(request)?;
        if !(200..300).contains(&answer.status) {
            bail!(
                "status {}: {}",
                answer.status,
                String::from_utf8_lossy(answer.body)
            );
        }
        Ok(answer)
    }
}

/// Where the body begins, and how long it is; `None` while the head is not whole.
pub fn extent(received: &[u8]) -> Result<Option<(usize, Length)>> {
    let Some(at) = received
        .windows(HEAD_END.len())
        .position(|part| part == HEAD_END)
    else {
        return Ok(None);
    };
    let head = std::str::from_utf8(&received[..at]).context("the head is no text")?;
    let length = match header(head, "content-length") {
        Some(length) => Length::Bytes(length.parse().context("Content-Length is no number")?),
        None if header(head, "transfer-encoding") == Some("chunked") => Length::Chunked,
        // These have no body, and so need no length (RFC 9110, 6.4.1 and 8.6).
        None if matches!(head.split(' ').nth(1), Some("204" | "304")) => Length::Bytes(0),
        None => bail!("the answer has no Content-Length"),
    };
    Ok(Some((at + HEAD_END.len(), length)))
}

/// Joins the chunks (RFC 9112, 7.1); whether the last one has come.
fn join(mut chunks: &[u8], joined: &mut Vec<u8>) -> Result<bool> {
    joined.clear();
    loop {
        let Some(at) = chunks.windows(2).position(|part| part == b"\r\n") else {
            return Ok(false);
        };
        let size = std::str::from_utf8(&chunks[..at]).context("a chunk's size is no text")?;
        let size = usize::from_str_radix(size.trim(), 16).context("a chunk's size is no number")?;
        // The chunk, and the end of its line.
        let Some(chunk) = chunks.get(at + 2..at + 2 + size + 2) else {
            return Ok(false);
        };
        if size == 0 {
            return Ok(true);
        }
        joined.extend_from_slice(&chunk[..size]);
        chunks = &chunks[at + 2 + size + 2..];
    }
}

fn answer<'a>(head: &'a [u8], body: &'a [u8]) -> Result<Answer<'a>> {
    let head = std::str::from_utf8(head).context("the head is no text")?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    Ok(Answer {
        status: status.context("the answer has no status")?,
        head,
        body,
    })
}

impl Answer<'_> {
    /// The value of the header `name`, given in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(self.head, name)
    }
}

/// The value of the header `name`, given in small letters.
pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// A server that answers each read with the next of `parts`.
    fn serve(parts: Vec<&'static str>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut room = [0; 1_024];
            assert!(stream.read(&mut room).unwrap() > 0);
            for part in parts {
                stream.write_all(part.as_bytes()).unwrap();
            }
        });
        address
    }

    #[test]
    fn an_answer_in_pieces_is_put_together() {
        let parts = vec![
            "HTTP/1.1 200 OK\r\ncontent-",
            "length: 5\r\nX-A: b\r\n\r",
            "\nhel",
            "lo",
        ];
        let mut connection = Connection::open(serve(parts)).unwrap();
        let answer = connection.ask(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!((answer.status, answer.body), (200, &b"hello"[..]));
        assert_eq!(answer.header("x-a"), Some("b"));
    }

    #[test]
    fn only_an_answer_without_a_body_may_lack_a_length() {
        let ask = |head| {
            let mut connection = Connection::open(serve(vec![head])).unwrap();
            connection.ask(b"x").map(|answer| answer.status)
        };
        assert_eq!(ask("HTTP/1.1 204 No Content\r\n\r\n").unwrap(), 204);
        let error = ask("HTTP/1.1 200 OK\r\n\r\n").unwrap_err().to_string();
        assert_eq!(error, "the answer has no Content-Length");
    }

    #[test]
    fn an_answer_cut_short_and_a_refusal_are_errors() {
        let cut = serve(vec!["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhel"]);
        let error = Connection::open(cut)
            .unwrap()
            .ask(b"x")
            .unwrap_err()
            .to_string();
        assert!(error.contains("closed before"), "{error}");
        let refused = serve(vec!["HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno"]);
        let error = Connection::open(refused)
            .unwrap()
            .accepted(b"x")
            .unwrap_err()
            .to_string();
        assert_eq!(error, "status 401: no");
    }

    #[test]
    fn an_answer_in_chunks_is_joined_wherever_it_was_cut() {
        let whole = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                     5\r\nhello\r\nA\r\n, chunked!\r\n0\r\n\r\n";
        for cut in 1..whole.len() {
            let (first, second) = whole.split_at(cut);
            let address = serve(vec![first, second]);
            let mut connection = Connection::open(address).unwrap();
            let answer = connection.ask(b"x").unwrap();
            assert_eq!(answer.body, b"hello, chunked!", "cut at {cut}");
        }
        let address = serve(vec![
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ]);
        let error = Connection::open(address).unwrap().ask(b"x").unwrap_err();
        assert_eq!(error.to_string(), "a chunk's size is no number");
    }

    #[test]
    fn a_request_carries_key_and_length() {
        let access = Access::new(([127, 0, 0, 1], 80), "p", "k");
        let text = String::from_utf8(access.request("POST", "/x", "{}")).unwrap();
        let wanted = "POST /v1/x HTTP/1.1\r\nHost: 127.0.0.1:80\r\nX-Appwrite-Project: p\r\n\
                      X-Appwrite-Key: k\r\nContent-Type: application/json\r\n\
                      Content-Length: 2\r\n\r\n{}";
        assert_eq!(text, wanted);
        assert!(
            access
                .request("GET", "/", "")
                .ends_with(b"X-Appwrite-Key: k\r\n\r\n")
        );
        assert!(
            access
                .uncached("/")
                .ends_with(b"X-Appwrite-Key: k\r\nX-Tidemark-Cache: bypass\r\n\r\n")
        );
    }
}
