//! What a hostile caller may take: connections, time, memory.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::fixture::{KEY, LIMITS, PROJECT, TestServer};
use server::serve::Limits;

fn head(method: &str, path: &str, more: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nx-appwrite-project: {PROJECT}\r\n\
         x-appwrite-key: {KEY}\r\n{more}\r\n"
    )
}

fn read_to_end(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // A reset after the answer is as good as an end.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_connection_too_many_is_told_so_and_others_live_on() {
    let server = TestServer::start_with(Limits {
        connections_max: 2,
        ..LIMITS
    });
    let mut first = server.connect();
    let mut second = server.connect();
    // An answer proves that both were counted.
    assert!(first.ask(&[], "GET", "/v1/ping", "").is_ok());
    assert!(second.ask(&[], "GET", "/v1/ping", "").is_ok());
    for _ in 0..200 {
        let mut third = TcpStream::connect(server.address).unwrap();
        let asked = third.write_all(head("GET", "/v1/ping", "").as_bytes());
        if asked.is_ok() {
            third.shutdown(std::net::Shutdown::Write).unwrap();
        }
        let answer = read_to_end(&mut third);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
        assert!(answer.contains("general_service_unavailable"), "{answer}");
        assert!(answer.contains("holds 2 connections"), "{answer}");
    }
    assert!(first.ask(&[], "GET", "/v1/ping", "").is_ok());
    drop(second);
    // The place of one that ended is free again, once the server has seen its end.
    loop {
        let mut next = server.connect();
        if next
            .ask(&[], "GET", "/v1/ping", "")
            .is_ok_and(|answer| answer.text == "Pong!")
        {
            break;
        }
    }
}

#[test]
fn one_who_waits_without_a_word_is_refused_without_harm() {
    let server = TestServer::start_with(Limits {
        connections_max: 1,
        ..LIMITS
    });
    let mut first = server.connect();
    assert!(first.ask(&[], "GET", "/v1/ping", "").is_ok());
    // More than are answered 503 at once; those beyond are closed without an answer.
    let mut silent: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(server.address).unwrap())
        .collect();
    let answers = silent.iter_mut().map(|stream| {
        let mut start = [0; 12];
        stream.read_exact(&mut start).is_ok() && &start == b"HTTP/1.1 503"
    });
    let told = answers.filter(|told| *told).count();
    assert!(told >= 64, "{told}");
    assert!(first.ask(&[], "GET", "/v1/ping", "").is_ok());
}

#[test]
fn large_bodies_share_one_budget_and_small_ones_need_none() {
    let server = TestServer::start_with(Limits {
        bodies_bytes_max: 10,
        ..LIMITS
    });
    let sized = |id: &str, bytes: usize| {
        let start = format!(r#"{{"databaseId":"{id}","name":"D","x":""#);
        format!("{start}{}\"}}", "x".repeat(bytes - start.len() - 2))
    };
    let small = server.ask("POST", "/v1/tablesdb", &sized("a", 16 * 1_024 + 10));
    assert_eq!(small.status, 201, "{}", small.text);
    let large = server.ask("POST", "/v1/tablesdb", &sized("b", 16 * 1_024 + 11));
    assert_eq!(large.refusal(), "503 general_service_unavailable");
    assert_eq!(large.header("retry-after"), "1");
    // What was refused is not counted any more.
    let small = server.ask("POST", "/v1/tablesdb", &sized("c", 16 * 1_024 + 10));
    assert_eq!(small.status, 201, "{}", small.text);
}

/// A list whose queries are so many arrays, which take 40 times their text.
fn arrays(count: usize) -> String {
    format!(r#"{{"queries":[{}0]}}"#, "[0],".repeat(count))
}

#[test]
fn arrays_and_objects_of_a_body_take_no_more_memory_than_a_body_may() {
    let server = TestServer::start();
    make_tables(&server);
    let shown = "/v1/tablesdb/d/tables/shown/rows/query";
    // Parsed where it was taken, and apart from other requests.
    for count in [30_000, 60_000] {
        for key in [None, Some(KEY)] {
            let refused = server.ask_as(key, "POST", shown, &arrays(count));
            assert_eq!(refused.refusal(), "413 general_payload_too_large");
            assert!(refused.text.contains("bytes of memory"), "{}", refused.text);
        }
    }
    let inside = format!(r#"{{"s":[{}0]}}"#, "[0],".repeat(60_000));
    let row = serde_json::json!({ "rowId": "unique()", "data": inside }).to_string();
    let refused = server.ask_as(None, "POST", OPEN_ROWS, &row);
    assert_eq!(refused.refusal(), "413 general_payload_too_large");
    let fits = server.ask_as(None, "POST", shown, &arrays(1_000));
    assert_eq!(fits.refusal(), "400 general_argument_invalid");
}

#[test]
fn arrays_and_objects_of_bodies_count_in_the_budget_of_bodies() {
    let server = TestServer::start_with(Limits {
        bodies_bytes_max: 100_000,
        guest_bodies_bytes_max: 100_000,
        ..LIMITS
    });
    make_tables(&server);
    let shown = "/v1/tablesdb/d/tables/shown/rows/query";
    for key in [None, Some(KEY)] {
        let refused = server.ask_as(key, "POST", shown, &arrays(2_000));
        assert_eq!(refused.refusal(), "503 general_service_unavailable");
        let fits = server.ask_as(key, "POST", shown, &arrays(200));
        assert_eq!(fits.refusal(), "400 general_argument_invalid");
    }
}

/// The head of a request without a key.
fn guest_head(method: &str, path: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nx-appwrite-project: {PROJECT}\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n"
    )
}

const OPEN_ROWS: &str = "/v1/tablesdb/d/tables/open/rows";

/// A table whose rows any caller may create, and one whose rows any caller may read.
fn make_tables(server: &TestServer) {
    let made = server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    assert_eq!(made.status, 201, "{}", made.text);
    for (id, grant) in [("open", "create"), ("shown", "read")] {
        let table = format!(
            r#"{{"tableId":"{id}","name":"T","permissions":["{grant}(\"any\")"],
                "columns":[{{"key":"s","type":"text"}}]}}"#
        );
        let made = server.ask("POST", "/v1/tablesdb/d/tables", &table);
        assert_eq!(made.status, 201, "{}", made.text);
    }
}

fn large_row() -> String {
    let filler = "x".repeat(60_000);
    format!(r#"{{"rowId":"unique()","data":{{"s":"{filler}"}}}}"#)
}

/// The answer to a guest who creates a large row.
fn large_row_of_a_guest(server: &TestServer) -> String {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let row = large_row();
    let sent = guest_head("POST", OPEN_ROWS, row.len()) + &row;
    stream.write_all(sent.as_bytes()).unwrap();
    read_to_end(&mut stream)
}

#[test]
fn guest_bodies_in_memory_refuse_no_key() {
    let server = TestServer::start_with(Limits {
        body_bytes_max: 100_000,
        bodies_bytes_max: 100_000,
        guest_bodies_bytes_max: 100_000,
        ..LIMITS
    });
    make_tables(&server);
    let answer = large_row_of_a_guest(&server);
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let mut held = Vec::new();
    // Guests that announce more than they send hold what they sent, once it is read.
    let refused = loop {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let start = guest_head("POST", OPEN_ROWS, 90_000) + &"x".repeat(60_000);
        stream.write_all(start.as_bytes()).unwrap();
        held.push(stream);
        let answer = large_row_of_a_guest(&server);
        if !answer.starts_with("HTTP/1.1 201 ") {
            break answer;
        }
    };
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains("without an API key"), "{refused}");
    assert!(refused.contains("100000 bytes"), "{refused}");
    let made = server.ask("POST", OPEN_ROWS, &large_row());
    assert_eq!(made.status, 201, "{}", made.text);
    drop(held);
    while !large_row_of_a_guest(&server).starts_with("HTTP/1.1 201 ") {}
}

#[test]
fn a_guest_without_a_right_is_refused_before_its_large_body_is_read() {
    let server = TestServer::start();
    make_tables(&server);
    let shown = "/v1/tablesdb/d/tables/shown/rows";
    let row = format!("{shown}/r");
    let count = format!("{row}/s/increment");
    for (method, path, wanted) in [
        ("POST", shown, "401 user_unauthorized"),
        ("PATCH", &row, "401 user_unauthorized"),
        ("PUT", &row, "401 user_unauthorized"),
        ("DELETE", &row, "401 user_unauthorized"),
        ("PATCH", &count, "401 user_unauthorized"),
        (
            "POST",
            "/v1/tablesdb/d/tables/none/rows",
            "404 table_not_found",
        ),
        ("POST", "/v1/tablesdb", "401 general_unauthorized_scope"),
    ] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        // Nothing of the body is ever sent.
        stream
            .write_all(guest_head(method, path, 900_000).as_bytes())
            .unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = read_to_end(&mut stream);
        let (status, kind) = wanted.split_once(' ').unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.contains(kind),
            "{method} {path}: {answer}"
        );
    }
    // Where a table takes rows of guests, they may open and fill transactions; else nowhere.
    let transactions = "/v1/tablesdb/transactions";
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream
            .write_all(guest_head("POST", path, 100_000).as_bytes())
            .unwrap();
        let _ = stream.write_all(" ".repeat(100_000).as_bytes());
        read_to_end(&mut stream)
    };
    let may = ask(transactions);
    assert!(may.starts_with("HTTP/1.1 201 "), "{may}");
    let closed = server.ask(
        "PUT",
        "/v1/tablesdb/d/tables/open",
        r#"{"name":"T","permissions":[]}"#,
    );
    assert_eq!(closed.status, 200, "{}", closed.text);
    for path in [transactions, "/v1/tidemark/databases/d/batch/writes"] {
        let answer = ask(path);
        assert!(answer.starts_with("HTTP/1.1 401 "), "{path}: {answer}");
    }
}

#[test]
fn a_body_that_trickles_is_cut_off_and_one_at_a_pace_is_not() {
    let server = TestServer::start();
    let body = r#"{"databaseId":"d","name":"D"}"#;
    let length = format!("content-length: {}\r\nconnection: close\r\n", body.len());
    let mut stream = TcpStream::connect(server.address).unwrap();
    let start = head("POST", "/v1/tablesdb", &length) + &body[..20];
    stream.write_all(start.as_bytes()).unwrap();
    stream.write_all(&body.as_bytes()[20..]).unwrap();
    let answer = read_to_end(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");

    let server = TestServer::start_with(Limits {
        body_ms: 1,
        rate_bytes_min: 1_000_000,
        ..LIMITS
    });
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(start.as_bytes()).unwrap();
    let answer = read_to_end(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("general_request_timeout"), "{answer}");
    assert!(answer.contains("1000000 bytes a second"), "{answer}");
}

#[test]
fn a_body_that_stands_still_has_won_nothing_by_what_came_before() {
    // Its bytes would win the first part of this body eleven days.
    let server = TestServer::start_with(Limits {
        body_ms: 1,
        rate_bytes_min: 1,
        ..LIMITS
    });
    let mut stream = TcpStream::connect(server.address).unwrap();
    let start = head("POST", "/v1/tablesdb", "content-length: 1000000\r\n") + &"x".repeat(999_999);
    // Cut off on the way is cut off as well.
    let _ = stream.write_all(start.as_bytes());
    let limit = std::time::Duration::from_mins(1);
    stream.set_read_timeout(Some(limit)).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
}

#[test]
fn a_body_that_is_parsed_apart_is_read_and_refused_like_others() {
    let server = TestServer::start();
    let filler = "x".repeat(200_000);
    let good = format!(r#"{{"databaseId":"d","name":"D","x":"{filler}"}}"#);
    assert_eq!(server.ask("POST", "/v1/tablesdb", &good).status, 201);
    let broken = server.ask("POST", "/v1/tablesdb", &good[..200_000]);
    assert_eq!(broken.refusal(), "400 general_bad_request");
    let deep = server.ask("POST", "/v1/tablesdb", &"[".repeat(200_000));
    assert_eq!(deep.refusal(), "400 general_bad_request");
}

#[test]
fn slow_bodies_hold_up_nobody() {
    let server = TestServer::start_with(Limits {
        connections_max: 1_000,
        ..LIMITS
    });
    let slow: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            let start = head("POST", "/v1/tablesdb", "content-length: 1000000\r\n") + "{";
            stream.write_all(start.as_bytes()).unwrap();
            stream
        })
        .collect();
    for n in 0..20 {
        let body = format!(r#"{{"databaseId":"d{n}","name":"D"}}"#);
        assert_eq!(server.ask("POST", "/v1/tablesdb", &body).status, 201);
    }
    drop(slow);
}

#[test]
fn client_that_reads_no_answer_loses_the_connection() {
    let server = TestServer::start_with(Limits {
        idle_ms: 1,
        rate_bytes_min: 1 << 30,
        ..LIMITS
    });
    let mut stream = TcpStream::connect(server.address).unwrap();
    let one = head("GET", "/v1/tablesdb", "");
    // Questions without end, whose answers no client reads: at some point the server can send no
    // more, and writing fails once it has closed.
    let many = one.repeat(1_000);
    while stream.write_all(many.as_bytes()).is_ok() {}
}

#[test]
fn an_address_without_a_key_has_so_many_requests_a_second_and_keys_any_number() {
    let server = TestServer::start_with(Limits {
        guest_rate: 1,
        ..LIMITS
    });
    let ask = |key: Option<&str>| server.ask_as(key, "GET", "/v1/ping", "");
    let refused = (0..1_000)
        .map(|_| ask(None))
        .find(|answer| answer.status != 200);
    let refused = refused.expect("a thousand requests take less than a thousand seconds");
    assert_eq!(refused.refusal(), "429 general_rate_limit_exceeded");
    assert_eq!(refused.header("retry-after"), "1");
    assert!(
        refused.text.contains("may send 1 requests a second"),
        "{}",
        refused.text
    );
    for _ in 0..50 {
        assert_eq!(ask(Some(KEY)).status, 200);
    }
    // A secret that no key has buys nothing.
    let made_up = (0..1_000)
        .map(|_| ask(Some("made up")))
        .find(|one| one.status != 200);
    assert!(made_up.is_some());
    server.skip_s(10);
    assert_eq!(ask(None).status, 200);
}

/// Reads up to these bytes, and no further.
fn read_until(stream: &mut TcpStream, end: &[u8]) -> String {
    let mut answer = Vec::new();
    while !answer.ends_with(end) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn requests_that_came_before_the_end_are_answered() {
    let mut server = TestServer::start();
    let ping = head("GET", "/v1/ping", "");
    let connect = |_| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(ping.as_bytes()).unwrap();
        read_until(&mut stream, b"Pong!");
        stream
    };
    let mut streams: Vec<TcpStream> = (0..50).map(connect).collect();
    for stream in &mut streams {
        stream.write_all(ping.as_bytes()).unwrap();
    }
    assert_eq!(server.stop().unfinished, 0);
    for stream in &mut streams {
        let answer = read_to_end(stream);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.ends_with("Pong!"), "{answer}");
    }
}

#[test]
fn a_request_in_work_at_the_end_is_answered_and_told_that_it_is_the_last() {
    let mut server = TestServer::start();
    let mut idle = TcpStream::connect(server.address).unwrap();
    idle.write_all(head("GET", "/v1/ping", "").as_bytes())
        .unwrap();
    read_until(&mut idle, b"Pong!");
    let body = r#"{"databaseId":"last","name":"Last"}"#;
    let more = format!(
        "content-type: application/json\r\ncontent-length: {}\r\nexpect: 100-continue\r\n",
        body.len()
    );
    let mut held = TcpStream::connect(server.address).unwrap();
    held.write_all(head("POST", "/v1/tablesdb", &more).as_bytes())
        .unwrap();
    // A client that is sent `100 Continue` is in work.
    read_until(&mut held, b"HTTP/1.1 100 Continue\r\n\r\n");
    let rest = std::thread::spawn(move || {
        // Connections without a request end when the stop has begun.
        assert_eq!(read_to_end(&mut idle), "");
        held.write_all(body.as_bytes()).unwrap();
        read_to_end(&mut held)
    });
    assert_eq!(server.stop().unfinished, 0);
    let answer = rest.join().unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
}
