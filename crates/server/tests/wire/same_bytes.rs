//! Requests whose very bytes were answered before: below the HTTP library they get what the library
//! would send, and bytes that only look like one of them are not taken for it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::json;

use crate::fixture::{KEY, PROJECT, TestServer};

const LIST: &str = "/v1/tablesdb/d/tables/t/rows?total=false";
const ROW: &str = "/v1/tablesdb/d/tables/t/rows/r";
/// A miss, a hit, two that are answered at once and make the bytes known, and one more.
const UNTIL_KNOWN: usize = 6;

/// A connection of a client that writes what it likes.
struct Wire(BufReader<TcpStream>);

#[derive(Clone, Debug, PartialEq)]
struct Taken {
    lines: Vec<String>,
    body: String,
}

impl Wire {
    fn to(server: &TestServer) -> Wire {
        let stream = TcpStream::connect(server.address).unwrap();
        stream.set_nodelay(true).unwrap();
        Wire(BufReader::new(stream))
    }

    fn write(&mut self, bytes: &str) {
        self.0.get_mut().write_all(bytes.as_bytes()).unwrap();
    }

    /// The next answer. What differs in each is left out: its name, its date, the age of a list.
    fn take(&mut self) -> Taken {
        let mut lines = Vec::new();
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "after {lines:?}");
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            if let Some(digits) = line.strip_prefix("content-length: ") {
                length = digits.parse().unwrap();
            }
            let varies = ["x-request-id: ", "date: "];
            let varies = varies.into_iter().find(|name| line.starts_with(name));
            let line = line.split("; age=").next().unwrap();
            lines.push(varies.unwrap_or(line).to_owned());
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        let body = String::from_utf8(body).unwrap();
        Taken { lines, body }
    }

    fn ask(&mut self, bytes: &str) -> Taken {
        self.write(bytes);
        self.take()
    }

    /// Asks until the bytes are known to the one thread; says what the library answered, and what
    /// was answered last.
    fn known(&mut self, bytes: &str) -> [Taken; 2] {
        let all: Vec<Taken> = (0..UNTIL_KNOWN).map(|_| self.ask(bytes)).collect();
        [all[1].clone(), all[UNTIL_KNOWN - 1].clone()]
    }
}

fn get(path: &str, more: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: t\r\nX-Appwrite-Project: {PROJECT}\r\n\
         X-Appwrite-Key: {KEY}\r\n{more}\r\n"
    )
}

fn post(path: &str, body_bytes: usize) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: t\r\nX-Appwrite-Project: {PROJECT}\r\n\
         X-Appwrite-Key: {KEY}\r\nContent-Type: application/json\r\n\
         Content-Length: {body_bytes}\r\n\r\n"
    )
}

#[test]
fn known_bytes_get_what_the_library_sends() {
    let server = TestServer::start_with_row();
    let mut wire = Wire::to(&server);
    let [first, last] = wire.known(&get(LIST, ""));
    assert_eq!(first, last);
    let tag = first.lines.iter().find_map(|it| it.strip_prefix("etag: "));
    let held = format!("If-None-Match: {}\r\n", tag.unwrap());
    for (path, more) in [
        (ROW, ""),
        (LIST, &held),
        (LIST, "Origin: http://localhost:1\r\n"),
        (LIST, "X-Request-Id: mine\r\n"),
        (LIST, "Accept:\t */* \r\nX-A: 1\r\nx-a: 2\r\n"),
        ("/v1/tablesdb/d/tables/t/rows?ttl=60", ""),
    ] {
        let [first, last] = wire.known(&get(path, more));
        assert_eq!(first, last, "{path} {more}");
    }
    // Another connection of the same thread, with the first bytes it sends.
    assert_eq!(Wire::to(&server).ask(&get(LIST, "")), last);
}

#[test]
fn known_bytes_follow_what_is_written() {
    let server = TestServer::start_with_row();
    let mut wire = Wire::to(&server);
    let bytes = [get(LIST, ""), get(ROW, "")];
    for bytes in &bytes {
        wire.known(bytes);
    }
    for n in 2..9 {
        let body = json!({"data": {"n": n}}).to_string();
        assert_eq!(server.ask("PATCH", ROW, &body).status, 200);
        for bytes in &bytes {
            let answer = wire.ask(bytes);
            let wanted = format!("\"n\":{n}");
            assert!(answer.body.contains(&wanted), "{wanted}: {}", answer.body);
        }
    }
    assert_eq!(server.ask("DELETE", ROW, "").status, 204);
    assert!(wire.ask(&bytes[0]).body.contains("\"rows\":[]"));
    assert_eq!(wire.ask(&bytes[1]).lines[0], "HTTP/1.1 404 Not Found");
}

#[test]
fn known_bytes_that_come_in_pieces_or_together_are_requests_all_the_same() {
    let server = TestServer::start_with_row();
    let mut wire = Wire::to(&server);
    let bytes = get(LIST, "");
    let [wanted, _] = wire.known(&bytes);
    wire.write(&[bytes.as_str(), &bytes, &bytes].concat());
    for _ in 0..3 {
        assert_eq!(wire.take(), wanted);
    }
    let mut wire = Wire::to(&server);
    for _ in 0..2 {
        for at in 0..bytes.len() {
            wire.write(&bytes[at..=at]);
        }
        assert_eq!(wire.take(), wanted);
        assert_eq!(wire.ask(&bytes), wanted);
    }
}

#[test]
fn known_bytes_inside_another_head_are_part_of_it() {
    let server = TestServer::start_with_row();
    let bytes = get(LIST, "");
    let [wanted, _] = Wire::to(&server).known(&bytes);
    let begun = "GET /v1/ping HTTP/1.1\r\nHost: t\r\nX-Pad: ";
    // The library holds the beginning of a head while it answers what came before it.
    let mut wire = Wire::to(&server);
    assert_eq!(wire.ask(&format!("{bytes}{begun}")), wanted);
    assert_eq!(wire.ask(&bytes).body, "Pong!");
    assert_eq!(wire.ask(&bytes), wanted);
    // And here before it has answered anything.
    let mut wire = Wire::to(&server);
    wire.write(begun);
    assert_eq!(wire.ask(&bytes).body, "Pong!");
}

#[test]
fn known_bytes_in_a_body_are_its_bytes() {
    let server = TestServer::start_with_row();
    let bytes = get(LIST, "");
    let [wanted, _] = Wire::to(&server).known(&bytes);
    let path = "/v1/tablesdb/d/tables/t/rows";
    let mut wire = Wire::to(&server);
    for is_together in [false, true] {
        let head = post(path, bytes.len());
        if is_together {
            wire.write(&[head.as_str(), &bytes].concat());
        } else {
            wire.write(&head);
            wire.write(&bytes);
        }
        assert_eq!(wire.take().lines[0], "HTTP/1.1 400 Bad Request");
        assert_eq!(wire.ask(&bytes), wanted);
    }
    // Of unknown length: the library alone knows where it ends.
    let chunk = format!("{:x}\r\n{bytes}\r\n0\r\n\r\n", bytes.len());
    let head = post(path, 0).replace("Content-Length: 0", "Transfer-Encoding: chunked");
    wire.write(&head);
    wire.write(&chunk);
    assert_eq!(wire.take().lines[0], "HTTP/1.1 400 Bad Request");
    assert_eq!(wire.ask(&bytes), wanted);
}

#[test]
fn known_bytes_are_answered_whole_to_who_does_not_read() {
    let server = TestServer::start_with_table(&json!({
        "tableId": "t", "name": "T",
        "columns": [{"key": "s", "type": "longtext"}],
    }));
    for id in 0..9 {
        let row = json!({"rowId": format!("r{id}"), "data": {"s": "x".repeat(40_000)}});
        server.make("POST", "/v1/tablesdb/d/tables/t/rows", &row);
    }
    let mut wire = Wire::to(&server);
    let bytes = get(LIST, "");
    let [wanted, _] = wire.known(&bytes);
    assert!(wanted.body.len() > 300_000);
    let times = 60;
    // Twenty megabytes: more than the system keeps for a client that takes nothing.
    for _ in 0..times {
        wire.write(&bytes);
    }
    for _ in 0..times {
        assert!(
            wire.take() == wanted,
            "an answer of {} bytes",
            wanted.body.len()
        );
    }
}

#[test]
fn known_bytes_of_a_key_that_is_gone_are_refused() {
    let server = TestServer::start_with_row();
    let mut wire = Wire::to(&server);
    let bytes = get(LIST, "");
    wire.known(&bytes);
    let gone = bytes.replace(KEY, "another");
    assert_eq!(wire.ask(&gone).lines[0], "HTTP/1.1 401 Unauthorized");
    let ends = bytes.replace("Host: t", "Host: t\r\nConnection: close");
    let last = wire.ask(&ends);
    assert!(last.lines.contains(&"connection: close".to_owned()));
    assert_eq!(wire.0.read(&mut [0]).unwrap(), 0);
}
