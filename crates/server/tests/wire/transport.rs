//! Rules of transport: methods, headers, limits, connections, the end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::fixture::{KEY, LIMITS, PROJECT, ROWS_KEY, TestServer};
use server::serve::{Drained, Limits};

const PROJECT_HEADER: (&str, &str) = ("x-appwrite-project", PROJECT);
const KEY_HEADER: (&str, &str) = ("x-appwrite-key", KEY);

#[test]
fn ping_needs_no_project_but_refuses_an_unknown_one() {
    let server = TestServer::start();
    let pong = server.ask_with(&[], "GET", "/v1/ping", "");
    assert_eq!((pong.status.as_u16(), pong.text.as_str()), (200, "Pong!"));
    assert!(pong.header("content-type").starts_with("text/plain"));
    assert_eq!(
        server
            .ask_with(&[PROJECT_HEADER], "GET", "/v1/ping", "")
            .status,
        200
    );
    let unknown = server.ask_with(&[("x-appwrite-project", "nobody")], "GET", "/v1/ping", "");
    assert_eq!(unknown.refusal(), "404 project_not_found");
}

#[test]
fn health_is_for_keys_and_versions_are_for_all() {
    let server = TestServer::start();
    let version = server.ask_with(&[], "GET", "/v1/health/version", "");
    assert_eq!(version.text, r#"{"version":"1.9.6"}"#);
    assert_eq!(
        server.ask_with(&[], "GET", "/versions", "").json()["server"],
        "1.9.6"
    );
    for part in ["", "/db", "/cache", "/pubsub", "/storage", "/storage/local"] {
        let path = format!("/v1/health{part}");
        assert_eq!(
            server.ask_as(None, "GET", &path, "").refusal(),
            "401 general_unauthorized_scope"
        );
        let answer = server.ask_as(Some(ROWS_KEY), "GET", &path, "");
        assert_eq!(answer.status, 200, "{part}: {}", answer.text);
        assert!(
            answer.text.contains(r#""status":"pass""#),
            "{}",
            answer.text
        );
    }
    let path = "/v1/health/time";
    let refused = server.ask_as(None, "GET", path, "");
    assert_eq!(refused.refusal(), "401 general_unauthorized_scope");
    let time = server.ask_as(Some(ROWS_KEY), "GET", path, "").json();
    let [remote, local, diff] =
        ["remoteTime", "localTime", "diff"].map(|key| time[key].as_i64().expect(key));
    assert_eq!(remote - local, diff);
    assert!(diff.abs() <= 1, "{time}");
    assert!(local > 1_700_000_000, "in seconds: {time}");
    let other = server.ask("GET", "/v1/health/queue", "").refusal();
    assert!(other.starts_with("40"), "{other}");
}

#[test]
fn credentials_are_checked_before_the_request() {
    let server = TestServer::start();
    let path = "/v1/tablesdb";
    for (headers, refusal) in [
        (&[][..], "401 general_access_forbidden"),
        (&[KEY_HEADER], "401 general_access_forbidden"),
        (
            &[("x-appwrite-project", "nobody"), KEY_HEADER],
            "404 project_not_found",
        ),
        (&[PROJECT_HEADER], "401 general_unauthorized_scope"),
        (
            &[PROJECT_HEADER, ("x-appwrite-key", "wrong")],
            "401 general_unauthorized_scope",
        ),
        (
            &[PROJECT_HEADER, ("x-appwrite-key", ROWS_KEY)],
            "401 general_unauthorized_scope",
        ),
        (
            &[PROJECT_HEADER, KEY_HEADER, ("x-appwrite-jwt", "x")],
            "401 user_jwt_invalid",
        ),
        (&[PROJECT_HEADER, KEY_HEADER, ("content-type", "")], "200"),
    ] {
        assert_eq!(
            server.ask_with(headers, "GET", path, "").refusal(),
            refusal,
            "{headers:?}"
        );
    }
    let nobody = [("x-appwrite-project", "nobody"), KEY_HEADER];
    let answer = server.ask_with(&nobody, "GET", "/v1/tablesdb?project=p", "");
    assert_eq!(answer.status, 200, "the query string wins over the header");
}

#[test]
fn refusals_have_the_documented_shape_and_headers() {
    let server = TestServer::start();
    let answer = server.ask_with(&[("x-request-id", "trace-1")], "GET", "/v1/nowhere", "");
    assert_eq!(answer.status, 404);
    assert_eq!(
        answer.header("content-type"),
        "application/json; charset=UTF-8"
    );
    assert_eq!(answer.header("cache-control"), "private, no-cache");
    assert_eq!(answer.header("x-request-id"), "trace-1");
    let json = answer.json();
    assert_eq!(json["code"], 404);
    assert_eq!(json["type"], "general_route_not_found");
    assert_eq!(json["version"], "1.9.6");
    assert!(json["message"].is_string());
    let first = server.ask_with(&[], "GET", "/v1/ping", "");
    let second = server.ask_with(&[], "GET", "/v1/ping", "");
    assert_ne!(first.header("x-request-id"), second.header("x-request-id"));
}

#[test]
fn a_browser_that_opens_the_address_is_shown_a_page() {
    let server = TestServer::start();
    for path in ["/", "/v1", "/v1/"] {
        let answer = server.ask_as(None, "GET", path, "");
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), "text/html; charset=UTF-8");
        assert!(
            answer
                .header("content-security-policy")
                .contains("default-src 'none'")
        );
        assert!(
            answer.text.contains("The server is running."),
            "{}",
            answer.text
        );
        assert!(!answer.text.contains("{version}"), "{}", answer.text);
    }
}

#[test]
fn unsupported_routes_are_refused_in_the_error_shape() {
    let server = TestServer::start();
    let rows = "/v1/tablesdb/d/tables/t/rows";
    for (method, path) in [
        ("POST", "/v1/tablesdb/d/tables/t/columns/point"),
        ("POST", "/v1/ping"),
        ("GET", "/v1/functions/templates"),
    ] {
        let answer = server.ask(method, path, "{}");
        assert_eq!(
            answer.refusal(),
            "405 general_not_implemented",
            "{method} {path}"
        );
        assert!(
            answer.header("allow").starts_with("OPTIONS"),
            "{method} {path}"
        );
    }
    for (method, path, part) in [
        (
            "GET",
            "/v1/account",
            "Accounts and sign-in are not supported yet.",
        ),
        ("POST", "/v1/users", "Users are not supported yet."),
        ("GET", "/v1/sites/s", "Sites are not supported yet."),
        (
            "GET",
            "/v1/realtime?project=p",
            "Realtime is not supported yet.",
        ),
        (
            "PUT",
            "/v1/storage/buckets/b",
            "File storage is not supported yet.",
        ),
    ] {
        let answer = server.ask(method, path, "{}");
        assert_eq!(
            answer.refusal(),
            "501 general_service_not_supported",
            "{path}"
        );
        let json = answer.json();
        let message = json["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(part), "{path}: {message}");
    }
    for method in ["PUT", "PATCH", "DELETE"] {
        let answer = server.ask_as(None, method, rows, "{}");
        assert_eq!(
            answer.refusal(),
            "401 general_unauthorized_scope",
            "{method}"
        );
    }
}

#[test]
fn head_is_get_without_its_body() {
    let server = TestServer::start();
    let get = server.ask("GET", "/v1/tablesdb", "");
    let head = server.ask("HEAD", "/v1/tablesdb", "");
    assert_eq!((head.status, head.text.as_str()), (get.status, ""));
    assert_eq!(head.header("content-length"), get.header("content-length"));
    assert_eq!(head.header("content-type"), get.header("content-type"));
    assert!(!get.text.is_empty());
}

#[test]
fn pages_are_told_whether_they_may_call() {
    let server = TestServer::start();
    let page = ("origin", "https://app.example.com");
    let answer = server.ask_with(&[page, PROJECT_HEADER], "OPTIONS", "/v1/tablesdb", "");
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (204, ""));
    assert_eq!(answer.header("access-control-allow-origin"), page.1);
    assert!(
        answer
            .header("access-control-allow-headers")
            .contains("X-Appwrite-Project")
    );
    assert_eq!(answer.header("access-control-max-age"), "86400");
    let refusal = server.ask_with(&[page, PROJECT_HEADER], "GET", "/v1/tablesdb", "");
    assert_eq!(refusal.refusal(), "401 general_unauthorized_scope");
    assert_eq!(refusal.header("access-control-allow-origin"), page.1);
    assert_eq!(refusal.header("access-control-allow-credentials"), "true");

    let foreign = ("origin", "https://example.org");
    let preflight = server.ask_with(&[foreign], "OPTIONS", "/v1/tablesdb", "");
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.header("access-control-allow-origin"), "");
    let refused = server.ask_with(&[foreign, PROJECT_HEADER], "GET", "/v1/tablesdb", "");
    assert_eq!(refused.refusal(), "403 general_unknown_origin");
    let keyed = server.ask_with(
        &[foreign, PROJECT_HEADER, KEY_HEADER],
        "GET",
        "/v1/tablesdb",
        "",
    );
    assert_eq!(keyed.status, 200);
    assert_eq!(keyed.header("access-control-allow-origin"), "");
}

#[test]
fn a_body_at_the_limit_is_read_and_one_beyond_is_refused() {
    let server = TestServer::start_with(Limits {
        body_bytes_max: 10_000,
        ..LIMITS
    });
    let sized = |bytes: usize| {
        let start = r#"{"name":"D","databaseId":"d","x":""#;
        format!("{start}{}\"}}", "x".repeat(bytes - start.len() - 2))
    };
    assert_eq!(
        server.ask("POST", "/v1/tablesdb", &sized(10_000)).status,
        201
    );
    for bytes in [10_001, 39_999] {
        let answer = server.ask("POST", "/v1/tablesdb", &sized(bytes));
        assert_eq!(answer.refusal(), "413 general_payload_too_large", "{bytes}");
    }
}

/// Sends raw bytes and reads until the server closes.
fn raw(server: &TestServer, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    // A reset after the answer is as good as an end.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_body_far_beyond_the_limit_is_refused_before_it_is_sent() {
    let server = TestServer::start();
    let head = format!(
        "POST /v1/tablesdb HTTP/1.1\r\nhost: x\r\nx-appwrite-project: {PROJECT}\r\n\
         x-appwrite-key: {KEY}\r\ncontent-length: 1000000000\r\nexpect: 100-continue\r\n\r\n"
    );
    let answer = raw(&server, head.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[test]
fn connections_are_shared_out_evenly() {
    let server = TestServer::start();
    let mut open: Vec<_> = (0..8).map(|_| server.connect()).collect();
    let mut threads: Vec<String> = Vec::new();
    for connection in &mut open {
        let answer = connection.ask(&[], "GET", "/v1/ping", "").unwrap();
        // A request id made by the server names its thread between two hyphens.
        let id = answer.header("x-request-id");
        threads.push(id.split('-').nth(1).unwrap().to_owned());
    }
    let of_first = threads.iter().filter(|thread| *thread == "0").count();
    assert_eq!(of_first, 4, "{threads:?}");
}

#[test]
fn a_body_in_chunks_is_counted_while_it_comes() {
    let server = TestServer::start_with(Limits {
        body_bytes_max: 1_000,
        ..LIMITS
    });
    let request = |chunks: &[usize]| {
        let chunk = |bytes: &usize| format!("{bytes:x}\r\n{}\r\n", " ".repeat(*bytes));
        let body = chunks.iter().map(chunk).collect::<Vec<_>>().concat();
        format!(
            "POST /v1/tablesdb HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             x-appwrite-project: {PROJECT}\r\nx-appwrite-key: {KEY}\r\n\
             transfer-encoding: chunked\r\n\r\n{body}0\r\n\r\n"
        )
    };
    for chunks in [&[1_000][..], &[400, 600]] {
        let read = raw(&server, request(chunks).as_bytes());
        assert!(
            read.contains("databaseId"),
            "spaces are an empty body: {read}"
        );
    }
    for chunks in [&[1_001][..], &[400, 601], &[400, 400, 400]] {
        let refused = raw(&server, request(chunks).as_bytes());
        assert!(refused.starts_with("HTTP/1.1 413 "), "{refused}");
        assert!(refused.contains("general_payload_too_large"), "{refused}");
    }
}

#[test]
fn body_in_very_many_pieces_is_refused() {
    let server = TestServer::start();
    let request = |chunks: usize, bytes: usize| {
        let chunk = format!("{bytes:x}\r\n{}\r\n", " ".repeat(bytes));
        let body = chunk.repeat(chunks);
        format!(
            "POST /v1/tablesdb HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             x-appwrite-project: {PROJECT}\r\nx-appwrite-key: {KEY}\r\n\
             transfer-encoding: chunked\r\n\r\n{body}0\r\n\r\n"
        )
    };
    for (chunks, bytes) in [(1_000, 1), (3_000, 64)] {
        let read = raw(&server, request(chunks, bytes).as_bytes());
        assert!(read.contains("databaseId"), "{read}");
    }
    for (chunks, bytes) in [(1_100, 1), (3_000, 8)] {
        let refused = raw(&server, request(chunks, bytes).as_bytes());
        assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
        assert!(refused.contains("too many pieces"), "{refused}");
    }
}

#[test]
fn a_head_beyond_its_limit_gets_a_bare_431() {
    let server = TestServer::start_with(Limits {
        head_bytes_max: 8_192,
        ..LIMITS
    });
    let request = format!(
        "GET /v1/ping HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n",
        "x".repeat(9_000)
    );
    let answer = raw(&server, request.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let nonsense = raw(&server, b"nonsense\r\n\r\n");
    assert!(nonsense.starts_with("HTTP/1.1 400 "), "{nonsense}");
}

/// The library refuses them (URL standard, query state); the docs say how to send them.
#[test]
fn a_query_string_with_a_raw_quote_or_bracket_gets_a_bare_400() {
    let server = TestServer::start();
    for (sent, status) in [
        ("\"", "400"),
        ("<", "400"),
        (">", "400"),
        ("%22%3C%3E", "200"),
    ] {
        let request = format!(
            "GET /v1/ping?x={sent} HTTP/1.1\r\nhost: x\r\nx-appwrite-project: {PROJECT}\r\n\
             connection: close\r\n\r\n"
        );
        let answer = raw(&server, request.as_bytes());
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{sent}: {answer}"
        );
        assert_eq!(answer.contains("Pong!"), status == "200", "{answer}");
    }
}

#[test]
fn a_broken_body_is_the_clients_fault() {
    let server = TestServer::start();
    for body in ["{", "[1]", "5", "{\"a\":\u{1}}", "--boundary"] {
        let answer = server.ask("POST", "/v1/tablesdb", body);
        assert_eq!(answer.refusal(), "400 general_bad_request", "{body}");
    }
}

#[test]
fn one_connection_carries_many_requests() {
    let server = TestServer::start();
    let mut connection = server.connect();
    for _ in 0..50 {
        let answer = connection.ask(&[], "GET", "/v1/ping", "").unwrap();
        assert_eq!(answer.text, "Pong!");
    }
}

/// Longer than a connection waits for the next request before it rests, and the sweep after that.
pub const UNTIL_REST: Duration = Duration::from_millis(2_500);

#[test]
fn a_connection_that_rests_goes_on_where_it_stood_and_ends_with_the_server() {
    let mut server = TestServer::start_with_row();
    let path = "/v1/tablesdb/d/tables/t/rows/r";
    {
        let mut idle = server.connect();
        for _ in 0..2 {
            // The third answer is that to known bytes.
            for _ in 0..3 {
                let headers = [PROJECT_HEADER, KEY_HEADER];
                let answer = idle.ask(&headers, "GET", path, "").unwrap();
                assert_eq!(answer.json()["$id"], "r");
            }
            std::thread::sleep(UNTIL_REST);
        }
    }
    // The rest of a body is no request, however late it comes.
    let mut slow = TcpStream::connect(server.address).unwrap();
    let head = format!(
        "PATCH {path} HTTP/1.1\r\nhost: x\r\nx-appwrite-project: {PROJECT}\r\n\
         x-appwrite-key: {KEY}\r\ncontent-length: 16\r\n\r\n{{\"data\":"
    );
    slow.write_all(head.as_bytes()).unwrap();
    std::thread::sleep(UNTIL_REST);
    slow.write_all(b"{\"n\":2}}").unwrap();
    let mut first = [0; 15];
    slow.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    std::thread::sleep(UNTIL_REST);
    assert_eq!(server.stop(), Drained { unfinished: 0 });
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"}"), "the whole answer, and the end");
}

#[test]
fn the_end_closes_idle_connections_and_waits_for_nobody() {
    let mut server = TestServer::start();
    {
        let mut connection = server.connect();
        assert!(connection.ask(&[], "GET", "/v1/ping", "").is_ok());
    }
    let mut idle = TcpStream::connect(server.address).unwrap();
    idle.write_all(b"GET /v1/ping HTTP/1.1\r\nhost: x\r\n\r\n")
        .unwrap();
    let mut first = [0; 1];
    idle.read_exact(&mut first).unwrap();
    assert_eq!(server.stop(), Drained { unfinished: 0 });
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).unwrap();
    assert!(rest.ends_with(b"Pong!"));
    assert!(
        TcpStream::connect(server.address).is_err(),
        "nobody listens any more"
    );
}

#[test]
fn the_end_lets_a_request_in_work_finish() {
    let mut server = TestServer::start();
    let body = br#"{"databaseId":"late","name":"Late"}"#;
    let head = format!(
        "POST /v1/tablesdb HTTP/1.1\r\nhost: x\r\nx-appwrite-project: {PROJECT}\r\n\
         x-appwrite-key: {KEY}\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    // The go-ahead proves that the request is being answered when the end begins.
    let mut go_ahead = [0; 25];
    stream.read_exact(&mut go_ahead).unwrap();
    assert_eq!(&go_ahead, b"HTTP/1.1 100 Continue\r\n\r\n");
    server.begin_stop();
    while TcpStream::connect(server.address).is_ok() {
        std::thread::yield_now();
    }
    stream.write_all(body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
    assert!(answer.contains(r#""$id":"late""#), "{answer}");
    assert_eq!(server.stop(), Drained { unfinished: 0 });
}

#[test]
fn a_request_that_never_ends_is_cut_off_at_the_limit() {
    let mut server = TestServer::start_with(Limits {
        drain_ms: 1,
        ..LIMITS
    });
    let head = format!(
        "POST /v1/tablesdb HTTP/1.1\r\nhost: x\r\nx-appwrite-project: {PROJECT}\r\n\
         x-appwrite-key: {KEY}\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n"
    );
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    let mut go_ahead = [0; 25];
    stream.read_exact(&mut go_ahead).unwrap();
    assert_eq!(server.stop(), Drained { unfinished: 1 });
}

#[test]
fn a_body_that_does_not_come_is_refused() {
    let server = TestServer::start_with(Limits {
        body_ms: 1,
        ..LIMITS
    });
    let head = format!(
        "POST /v1/tablesdb HTTP/1.1\r\nhost: x\r\nx-appwrite-project: {PROJECT}\r\n\
         x-appwrite-key: {KEY}\r\ncontent-length: 5\r\n\r\n"
    );
    let answer = raw(&server, head.as_bytes());
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("general_request_timeout"), "{answer}");
}

#[test]
fn a_head_that_does_not_come_ends_its_connection() {
    let server = TestServer::start_with(Limits {
        head_ms: 1,
        ..LIMITS
    });
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(b"GET /v1/pi").unwrap();
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer);
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

#[test]
fn a_connection_without_requests_ends() {
    let server = TestServer::start_with(Limits {
        idle_ms: 1,
        ..LIMITS
    });
    let mut connection = server.connect();
    let _ = connection.ask(&[], "GET", "/v1/ping", "");
    connection.until_closed();
}
