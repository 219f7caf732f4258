//! A client that sends any bytes at all, and takes a server that stays silent for a failure.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// A server that says nothing for so long hangs; the machine may be busy building.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// An answer.
#[derive(Debug)]
pub struct RawAnswer {
    /// As `404`.
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    /// The body.
    pub text: String,
}

impl RawAnswer {
    /// The body; null when it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Status and type, as `404 row_not_found`; the status alone without a type.
    pub fn outcome(&self) -> String {
        match self.json()["type"].as_str() {
            Some(kind) if self.status >= 400 => format!("{} {kind}", self.status),
            _ => self.status.to_string(),
        }
    }
}

/// What a request is sent with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Credentials {
    /// Project and key.
    Key,
    /// Project only.
    Guest,
    /// Neither.
    None,
}

/// A connection that is opened again where the server closed it.
#[derive(Debug)]
pub struct RawClient {
    port: u16,
    project: String,
    key: String,
    stream: Option<BufReader<TcpStream>>,
}

impl RawClient {
    /// A client of the server that listens on `port` of this machine.
    pub fn new(port: u16, project: &str, key: &str) -> RawClient {
        RawClient {
            port,
            project: project.to_owned(),
            key: key.to_owned(),
            stream: None,
        }
    }

    /// Sends a request with a JSON body, or none, and gives the answer.
    pub fn ask(
        &mut self,
        credentials: Credentials,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> RawAnswer {
        self.ask_typed(credentials, method, path, Some("application/json"), body)
    }

    /// As [`RawClient::ask`], with this `Content-Type` or none.
    pub fn ask_typed(
        &mut self,
        credentials: Credentials,
        method: &str,
        path: &str,
        content_type: Option<&str>,
        body: &[u8],
    ) -> RawAnswer {
        let kind = content_type.map_or(String::new(), |kind| format!("Content-Type: {kind}\r\n"));
        let length = format!("{kind}Content-Length: {}\r\n", body.len());
        let mut request = self.head(credentials, method, path, &length).into_bytes();
        request.extend_from_slice(body);
        // A connection that the server closed after its last answer looks open until it is read.
        let kept = self.stream.is_some();
        match self.exchange(&request) {
            Some(answer) => answer,
            None if kept => self.exchange(&request).expect("a new connection answers"),
            None => panic!("no answer to {method} {path}"),
        }
    }

    /// A request's line and headers, `extra` among them.
    pub fn head(&self, credentials: Credentials, method: &str, path: &str, extra: &str) -> String {
        let project = format!("X-Appwrite-Project: {}\r\n", self.project);
        let key = format!("X-Appwrite-Key: {}\r\n", self.key);
        let credentials = match credentials {
            Credentials::Key => format!("{project}{key}"),
            Credentials::Guest => project,
            Credentials::None => String::new(),
        };
        format!("{method} {path} HTTP/1.1\r\nHost: t\r\n{credentials}{extra}\r\n")
    }

    fn exchange(&mut self, request: &[u8]) -> Option<RawAnswer> {
        let mut stream = self.stream.take().unwrap_or_else(|| connect(self.port));
        // The server may refuse a body before it has read all of it; its answer says why.
        let _ = stream.get_mut().write_all(request);
        let is_head = request.starts_with(b"HEAD ");
        let answer = read_answer(&mut stream, is_head)?;
        let closes = answer
            .head
            .to_ascii_lowercase()
            .contains("connection: close");
        self.stream = (!closes).then_some(stream);
        Some(answer)
    }

    /// Sends `bytes` on a connection of its own, which stays open. `None` when the server closes
    /// it without an answer.
    pub fn send(&self, bytes: &[u8]) -> Option<RawAnswer> {
        let mut stream = connect(self.port);
        let _ = stream.get_mut().write_all(bytes);
        read_answer(&mut stream, false)
    }

    /// As [`RawClient::send`], and the client's half of the connection ends with `bytes`.
    pub fn send_and_end(&self, bytes: &[u8]) -> Option<RawAnswer> {
        let mut stream = connect(self.port);
        let _ = stream.get_mut().write_all(bytes);
        let _ = stream.get_mut().shutdown(Shutdown::Write);
        read_answer(&mut stream, false)
    }
}

/// A request whose lines are answered while it goes on.
#[derive(Debug)]
pub struct RequestLines(BufReader<TcpStream>);

impl RawClient {
    /// Begins to send lines to this path.
    pub fn lines(&self, credentials: Credentials, path: &str) -> RequestLines {
        let more = "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n";
        let mut stream = connect(self.port);
        let head = self.head(credentials, "POST", path, more);
        stream.get_mut().write_all(head.as_bytes()).unwrap();
        RequestLines(stream)
    }
}

impl RequestLines {
    /// Sends a line. Gives its answer; null when the server has ended the request.
    pub fn ask(&mut self, line: &str) -> Value {
        let chunk = format!("{:x}\r\n{line}\n\r\n", line.len() + 1);
        // A server that has ended it reads no more.
        let _ = self.0.get_mut().write_all(chunk.as_bytes());
        let mut read = String::new();
        // Before it stand the head and the sizes of chunks.
        while !read.starts_with('{') {
            read.clear();
            if self.0.read_line(&mut read).unwrap_or(0) == 0 {
                return Value::Null;
            }
        }
        serde_json::from_str(&read).unwrap()
    }
}

fn connect(port: u16) -> BufReader<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).expect("the server listens");
    stream.set_read_timeout(Some(SILENCE_MAX)).unwrap();
    stream.set_write_timeout(Some(SILENCE_MAX)).unwrap();
    stream.set_nodelay(true).unwrap();
    BufReader::new(stream)
}

/// `None` when the connection ends before an answer begins.
fn read_answer(stream: &mut BufReader<TcpStream>, is_head: bool) -> Option<RawAnswer> {
    let mut head = String::new();
    loop {
        let before = head.len();
        match stream.read_line(&mut head) {
            Ok(0) if before == 0 => return None,
            Ok(0) => panic!("the answer broke off after: {head}"),
            Ok(_) if &head[before..] == "\r\n" => break,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("the server hangs; it said: {head}")
            }
            Err(_) => return None,
        }
    }
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no status in: {head}"));
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse().expect("a length is a number"))
    });
    let mut body = vec![0; if is_head { 0 } else { length.unwrap_or(0) }];
    stream
        .read_exact(&mut body)
        .expect("the body is as long as announced");
    let text = String::from_utf8(body).expect("answers are UTF-8");
    Some(RawAnswer { status, head, text })
}
