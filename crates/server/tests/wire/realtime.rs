//! Realtime is not supported, and its clients are made to give up.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::fixture::{LIMITS, TestServer};
use serde_json::{Value, json};
use server::serve::Limits;

/// The key of the example in RFC 6455, section 1.3, and the answer to it there.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

const PATH: &str = "/v1/realtime?project=p";
const UPGRADE: &[(&str, &str)] = &[
    ("host", "x"),
    ("connection", "keep-alive, Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", KEY),
];

fn request(line: &str, headers: &[(&str, &str)]) -> String {
    let headers = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    format!("{line}\r\n{}\r\n", headers.collect::<String>())
}

fn handshake() -> String {
    request(&format!("GET {PATH} HTTP/1.1"), UPGRADE)
}

/// Sends this, and reads until the server closes: the head of the answer, and what comes then.
fn closed_after(server: &TestServer, sent: &[u8]) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(sent).unwrap();
    split(&read_all(&mut stream))
}

fn first_line(server: &TestServer, sent: &str) -> String {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(sent.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut answer = Vec::new();
    // A reset after the answer is as good as an end.
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn split(answer: &[u8]) -> (String, Vec<u8>) {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, rest) = answer.split_at(end.expect("a head") + 4);
    (String::from_utf8(head.to_vec()).unwrap(), rest.to_vec())
}

/// The frames of a server, each with its first byte.
fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let [first, len, rest @ ..] = bytes {
        let (len, rest) = match (len, rest) {
            (126, [high, low, rest @ ..]) => (u16::from_be_bytes([*high, *low]), rest),
            (len, rest) => (u16::from(*len), rest),
        };
        let (payload, rest) = rest.split_at(usize::from(len));
        frames.push((*first, payload.to_vec()));
        bytes = rest;
    }
    frames
}

/// That the connection has become a WebSocket, and ends with an error and a close that the
/// official SDKs take for the end.
#[track_caller]
fn assert_refused_for_good((head, rest): (String, Vec<u8>)) {
    let has = |line: &str| head.lines().any(|it| it == line);
    assert!(has("HTTP/1.1 101 Switching Protocols"), "{head}");
    assert!(
        has("connection: upgrade") && has("upgrade: websocket"),
        "{head}"
    );
    assert!(has(&format!("sec-websocket-accept: {ACCEPT}")), "{head}");
    assert!(!head.contains("content-"), "{head}");
    let frames = frames(&rest);
    let [(0x81, error), (0x88, close)] = &frames[..] else {
        panic!("{frames:?}");
    };
    let error: Value = serde_json::from_slice(error).unwrap();
    assert_eq!(
        (&error["type"], &error["data"]["code"]),
        (&json!("error"), &json!(1_008))
    );
    let message = error["data"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("Realtime is not supported yet."),
        "{message}"
    );
    assert_eq!(close[..2], 1_008_u16.to_be_bytes());
}

#[test]
fn realtime_is_refused_in_frames_that_end_it() {
    let server = TestServer::start();
    assert_refused_for_good(closed_after(&server, handshake().as_bytes()));
    // A page that may not call learns the same, or it would try for ever.
    let foreign = [UPGRADE, &[("origin", "https://example.org")]].concat();
    let foreign = request(&format!("GET {PATH} HTTP/1.1"), &foreign);
    assert_refused_for_good(closed_after(&server, foreign.as_bytes()));
    // Behind a request of the same connection, with a frame that did not wait.
    let ping = b"GET /v1/ping HTTP/1.1\r\nhost: x\r\n\r\n";
    let early = [&ping[..], handshake().as_bytes(), b"\x81\x80\0\0\0\0"].concat();
    let (first, rest) = closed_after(&server, &early);
    assert!(first.starts_with("HTTP/1.1 200 "), "{first}");
    assert_refused_for_good(split(rest.strip_prefix(b"Pong!").unwrap()));
}

#[test]
fn realtime_without_a_whole_handshake_is_refused_by_http() {
    let server = TestServer::start();
    let changed = |name: &str, value: &str| {
        let mut headers = UPGRADE.to_vec();
        headers.retain(|(of, _)| *of != name);
        headers.push((name, value));
        request(&format!("GET {PATH} HTTP/1.1"), &headers)
    };
    for sent in [
        changed("connection", "close"),
        changed("upgrade", "h2c"),
        changed("sec-websocket-version", "8"),
        changed("sec-websocket-key", ""),
        changed("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ"),
        changed("sec-websocket-key", "c2hvcnQ="),
        changed("content-length", "0"),
        request(&format!("GET {PATH} HTTP/1.0"), UPGRADE),
        request(&format!("POST {PATH} HTTP/1.1"), UPGRADE),
        request("GET /v1/realtime/more HTTP/1.1", UPGRADE),
        request("GET /v1/account HTTP/1.1", UPGRADE),
    ] {
        let first = first_line(&server, &sent);
        assert!(first.contains(" 501 "), "{first}{sent}");
    }
    let foreign = [UPGRADE, &[("origin", "https://example.org")]].concat();
    let rows = request("GET /v1/tablesdb HTTP/1.1", &foreign);
    let first = first_line(&server, &rows);
    assert!(first.contains(" 403 "), "only that route is open: {first}");
}

/// The only place of the server must become free again, whatever its holder does.
#[test]
fn realtime_clients_that_stay_or_flood_lose_their_connection() {
    let server = TestServer::start_with(Limits {
        connections_max: 1,
        ..LIMITS
    });
    let patience = Instant::now() + Duration::from_mins(1);
    let begin = || loop {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let mut status = [0; 12];
        let _ = stream.write_all(handshake().as_bytes());
        if stream.read_exact(&mut status).is_ok() && status == *b"HTTP/1.1 101" {
            return stream;
        }
        assert!(Instant::now() < patience, "the place is still held");
        std::thread::sleep(Duration::from_millis(50));
    };
    let _silent = begin();
    let mut flooding = begin();
    let frame = [0x82_u8, 0xfe, 0x10, 0x00, 0, 0, 0, 0];
    let flood = [&frame[..], &[0; 0x1000]].concat().repeat(256);
    while flooding.write_all(&flood).is_ok() {}
    begin();
}
