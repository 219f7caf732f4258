//! Heads of requests that are no HTTP, or more of it than fits.

use super::fixture::{DATABASE, Fixture};
use testing::Credentials;

/// Requests that are none, by what is wrong with them. `ROW` stands for the path of a row.
#[rustfmt::skip]
const NO_HEADS: &[(&str, &str)] = &[
    ("NUL", "\0\0\0\0"),
    ("TLS", "\u{16}\u{3}\u{1}\u{2}\0\u{1}\0"),
    ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("no version", "DELETE ROW\r\n\r\n"),
    ("an unknown version", "DELETE ROW HTTP/9.9\r\n\r\n"),
    ("no path", "DELETE  HTTP/1.1\r\n\r\n"),
    ("a space in the path", "DELETE ROW x HTTP/1.1\r\nHost: t\r\n\r\n"),
    ("NUL in the path", "DELETE ROW\0 HTTP/1.1\r\nHost: t\r\n\r\n"),
    ("a header without a colon", "DELETE ROW HTTP/1.1\r\nHost\r\n\r\n"),
    ("a space in a header's name", "DELETE ROW HTTP/1.1\r\nHo st: t\r\n\r\n"),
    ("NUL in a header", "DELETE ROW HTTP/1.1\r\nHost: t\0\r\n\r\n"),
    ("a header on two lines", "DELETE ROW HTTP/1.1\r\nHost: t\r\n t\r\n\r\n"),
    ("two lengths", "DELETE ROW HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
    ("no number as length", "DELETE ROW HTTP/1.1\r\nContent-Length: x\r\n\r\n"),
    ("a negative length", "DELETE ROW HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
    ("an unknown encoding", "DELETE ROW HTTP/1.1\r\nTransfer-Encoding: x\r\n\r\n"),
];

#[test]
fn a_head_that_cannot_be_read_gets_a_bare_refusal() {
    let mut fixture = Fixture::new();
    let before = fixture.held();
    let row = format!("/v1/tablesdb/{DATABASE}/tables/t/rows/r1");
    let long = "x".repeat(100_000);
    let written = NO_HEADS
        .iter()
        .map(|(what, head)| (*what, head.replace("ROW", &row)));
    let too_long = [
        (
            "a method that is too long",
            format!("{long} {row} HTTP/1.1\r\n\r\n"),
        ),
        (
            "a path that is too long",
            format!("GET /{long} HTTP/1.1\r\n\r\n"),
        ),
        (
            "a header that is too long",
            format!("GET {row} HTTP/1.1\r\na: {long}\r\n\r\n"),
        ),
        (
            "too many headers",
            format!("GET {row} HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(5_000)),
        ),
    ];
    for (what, head) in written.chain(too_long) {
        let answer = fixture.client.send(head.as_bytes());
        let refused = answer
            .as_ref()
            .is_none_or(|answer| matches!(answer.status, 400 | 414 | 431 | 505));
        assert!(refused, "{what}: {answer:?}");
    }
    for (what, head) in [
        ("nothing", String::new()),
        ("an end of line", "\r\n\r\n".to_owned()),
        (
            "half a head",
            format!("DELETE {row} HTTP/1.1\r\nHost: t\r\n"),
        ),
    ] {
        let answer = fixture.client.send_and_end(head.as_bytes());
        assert!(answer.is_none_or(|answer| answer.status == 400), "{what}");
    }
    assert_eq!(fixture.held(), before);
    fixture.end();
}

/// Headers that this server reads, with values that it must not take for what they look like.
#[test]
fn a_header_that_says_nonsense_is_refused_or_ignored() {
    let mut fixture = Fixture::new();
    let before = fixture.held();
    let path = format!("/v1/tablesdb/{DATABASE}/tables/t/rows/r1");
    for (header, wanted) in [
        ("X-Appwrite-JWT: x", "401 user_jwt_invalid"),
        ("X-Appwrite-JWT: a.b.c", "401 user_jwt_invalid"),
        ("X-Appwrite-Response-Format: 99999999999999999999", "200"),
        ("X-Appwrite-Response-Format: ' OR 1=1", "200"),
        ("X-Appwrite-Session: \u{1F600}", "200"),
        ("X-Fallback-Cookies: {", "200"),
        ("Cookie: a_session_default=x; ;;=", "200"),
        ("X-Appwrite-Timestamp: yesterday", "200"),
        (
            "X-Tidemark-Min-Mark: yesterday",
            "400 general_argument_invalid",
        ),
        ("X-Tidemark-Min-Mark: -1", "400 general_argument_invalid"),
        ("X-Tidemark-Min-Mark: 1e6", "400 general_argument_invalid"),
        (
            "X-Tidemark-Min-Mark: \u{e9}",
            "400 general_argument_invalid",
        ),
        (
            "X-Tidemark-Min-Mark: 18446744073709551616",
            "400 general_argument_invalid",
        ),
        ("X-Tidemark-Min-Mark: 9223372036854775807", "400 future_tt"),
        ("X-Tidemark-Min-Mark: 1\r\nX-Tidemark-Min-Mark: x", "200"),
        ("X-Tidemark-Cache: ' OR 1=1", "200"),
        ("Idempotency-Key: a b", "200"),
        ("X-Request-Id: a\tb", "200"),
        ("If-None-Match: W/", "200"),
        ("If-None-Match: \"\"\"", "200"),
        ("Accept-Encoding: ,,;q=nan", "200"),
        ("Range: bytes=9-1", "200"),
        ("Origin: null", "200"),
        ("Origin: https://evil.example", "200"),
        ("X-Forwarded-For: ' OR 1=1, 999.999.999.999", "200"),
        ("X-Forwarded-Proto: javascript", "200"),
    ] {
        let head = fixture
            .client
            .head(Credentials::Key, "GET", &path, &format!("{header}\r\n"));
        let answer = fixture.client.send(head.as_bytes()).expect("an answer");
        assert_eq!(answer.outcome(), wanted, "{header}: {answer:?}");
    }
    for (key, wanted) in [
        ("x", "401 general_unauthorized_scope"),
        ("standard_' OR 1=1 --", "401 general_unauthorized_scope"),
        ("\u{e9}", "401 general_unauthorized_scope"),
        (&"x".repeat(10_000), "401 general_unauthorized_scope"),
    ] {
        let extra = format!("X-Appwrite-Key: {key}\r\n");
        let head = fixture
            .client
            .head(Credentials::Guest, "GET", "/v1/tablesdb", &extra);
        let answer = fixture.client.send(head.as_bytes()).expect("an answer");
        assert_eq!(answer.outcome(), wanted, "{key}");
    }
    let origin = "Origin: https://evil.example\r\n";
    let foreign = fixture
        .client
        .head(Credentials::Guest, "GET", &path, origin);
    let answer = fixture.client.send(foreign.as_bytes()).expect("an answer");
    assert_eq!(answer.outcome(), "403 general_unknown_origin");
    assert_eq!(fixture.held(), before);
    fixture.end();
}

/// A time that cannot be read must not be taken for none: the write would come through.
#[test]
fn a_write_that_names_no_time_is_refused() {
    let mut fixture = Fixture::new();
    let before = fixture.held();
    let path = format!("/v1/tablesdb/{DATABASE}/tables/t/rows/r1");
    let body = r#"{"data":{"n":5}}"#;
    for time in [
        "yesterday",
        "0",
        "2026-02-30T00:00:00Z",
        "99999-01-01T00:00:00Z",
        "\u{e9}",
        "' OR 1=1",
    ] {
        for (method, body) in [("PATCH", body), ("PUT", body), ("DELETE", "{}")] {
            let length = body.len();
            let extra = format!("X-Appwrite-Timestamp: {time}\r\nContent-Length: {length}\r\n");
            let head = fixture.client.head(Credentials::Key, method, &path, &extra);
            let answer = fixture
                .client
                .send(format!("{head}{body}").as_bytes())
                .expect("an answer");
            assert_eq!(
                answer.outcome(),
                "400 general_argument_invalid",
                "{method} {time}"
            );
        }
    }
    assert_eq!(fixture.held(), before);
    fixture.end();
}

/// A key that cannot be read must not be taken for none: the write would be done twice.
#[test]
fn a_write_under_a_key_that_is_none_is_refused() {
    let mut fixture = Fixture::new();
    let before = fixture.held();
    let path = format!("/v1/tablesdb/{DATABASE}/tables/t/rows/r1");
    let body = r#"{"data":{"n":5}}"#;
    let long = "x".repeat(129);
    for key in ["", "a b", "\u{e9}", "a\tb", &long] {
        for (method, body) in [("PATCH", body), ("PUT", body), ("DELETE", "{}")] {
            let length = body.len();
            let extra = format!("Idempotency-Key: {key}\r\nContent-Length: {length}\r\n");
            let head = fixture.client.head(Credentials::Key, method, &path, &extra);
            let answer = fixture.client.send(format!("{head}{body}").as_bytes());
            let outcome = answer.expect("an answer").outcome();
            assert_eq!(outcome, "400 general_argument_invalid", "{method} {key}");
        }
    }
    assert_eq!(fixture.held(), before);
    fixture.end();
}
