//! Any bytes on a connection: refused, answered or closed, never a failure of the server, and it
//! still answers afterwards.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use socket2::SockRef;

use crate::fixture::{PROJECT, port, with_client};
use testing::Credentials;

/// How long the server may wait for more before the connection is shut for writing.
const PATIENCE: Duration = Duration::from_millis(50);
/// A server that neither answers nor closes for so long hangs.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// The bytes are sent as they are. `@P` in them stands for the header that names the project,
/// which chance alone would never find. A key is not lent: one method turned into another, and
/// it would rightly delete what all targets ask.
pub fn check(bytes: &[u8]) {
    let mut sent = replace(bytes, b"@P", &format!("X-Appwrite-Project: {PROJECT}"));
    // Whatever was complete before this is answered, and then the connection ends.
    sent.extend_from_slice(
        b"\r\n\r\nGET /v1/ping HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n",
    );
    let answers = exchange(&sent);
    for status in statuses(&answers) {
        let said = String::from_utf8_lossy(&answers);
        assert!((100..500).contains(&status), "{status} among {said}");
    }
    with_client(|client| {
        let ping = client.ask(Credentials::None, "GET", "/v1/ping", b"");
        assert_eq!(ping.text, "Pong!");
        // The rows that all targets ask are there for good; this one may not change them.
        let rows = client.ask(
            Credentials::Key,
            "GET",
            "/v1/tablesdb/d/tables/t/rows/r0",
            b"",
        );
        assert_eq!(rows.status, 200, "{}", rows.text);
    });
}

fn replace(bytes: &[u8], mark: &[u8], text: &str) -> Vec<u8> {
    let mut whole = Vec::with_capacity(bytes.len() + 256);
    let mut rest = bytes;
    while let Some(at) = rest.windows(mark.len()).position(|window| window == mark) {
        whole.extend_from_slice(&rest[..at]);
        whole.extend_from_slice(text.as_bytes());
        rest = &rest[at + mark.len()..];
    }
    whole.extend_from_slice(rest);
    whole
}

fn exchange(sent: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port())).expect("the server listens");
    // Closed by a reset: thousands of connections a second that linger would use up the ports.
    SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .expect("a socket has a linger time");
    let _ = stream.write_all(sent);
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a socket has a timeout");
    let mut answers = Vec::new();
    if read_to_end(&mut stream, &mut answers) {
        return answers;
    }
    let _ = stream.shutdown(Shutdown::Write);
    stream
        .set_read_timeout(Some(SILENCE_MAX))
        .expect("a socket has a timeout");
    assert!(
        read_to_end(&mut stream, &mut answers),
        "the server keeps a dead connection"
    );
    answers
}

/// False when the time is over before the other side has closed.
fn read_to_end(stream: &mut TcpStream, answers: &mut Vec<u8>) -> bool {
    match stream.read_to_end(answers) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

/// The statuses of answers that follow each other. Bodies are one line, and JSON never begins
/// like a head.
fn statuses(answers: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(answers);
    let heads = text.split("HTTP/1.").skip(1);
    heads
        .filter_map(|head| head.get(2..5)?.parse().ok())
        .collect()
}
