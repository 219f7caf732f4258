//! What a stranger may take: connections, time, memory.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::site::{KEY, LIMITS, PROJECT, Site};
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
    let site = Site::start_with(Limits {
        connections_max: 2,
        ..LIMITS
    });
    let mut first = site.connect();
    let mut second = site.connect();
    // An answer proves that both were counted.
    assert!(first.ask(&[], "GET", "/v1/ping", "").is_ok());
    assert!(second.ask(&[], "GET", "/v1/ping", "").is_ok());
    for _ in 0..200 {
        let mut third = TcpStream::connect(site.address).unwrap();
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
        let mut next = site.connect();
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
    let site = Site::start_with(Limits {
        connections_max: 1,
        ..LIMITS
    });
    let mut first = site.connect();
    assert!(first.ask(&[], "GET", "/v1/ping", "").is_ok());
    // More than are told so at once; those beyond are closed without a word.
    let mut silent: Vec<TcpStream> = (0..100)
        .map(|_| TcpStream::connect(site.address).unwrap())
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
    let site = Site::start_with(Limits {
        bodies_bytes_max: 10,
        ..LIMITS
    });
    let sized = |id: &str, bytes: usize| {
        let start = format!(r#"{{"databaseId":"{id}","name":"D","x":""#);
        format!("{start}{}\"}}", "x".repeat(bytes - start.len() - 2))
    };
    let small = site.ask("POST", "/v1/tablesdb", &sized("a", 16 * 1_024 + 10));
    assert_eq!(small.status, 201, "{}", small.text);
    let large = site.ask("POST", "/v1/tablesdb", &sized("b", 16 * 1_024 + 11));
    assert_eq!(large.refusal(), "503 general_service_unavailable");
    assert_eq!(large.header("retry-after"), "1");
    // What was refused is not counted any more.
    let small = site.ask("POST", "/v1/tablesdb", &sized("c", 16 * 1_024 + 10));
    assert_eq!(small.status, 201, "{}", small.text);
}

#[test]
fn a_body_that_trickles_is_cut_off_and_one_at_a_pace_is_not() {
    let site = Site::start_with(Limits {
        body_ms: 1,
        rate_bytes_min: 1,
        ..LIMITS
    });
    let body = r#"{"databaseId":"d","name":"D"}"#;
    let length = format!("content-length: {}\r\nconnection: close\r\n", body.len());
    let mut stream = TcpStream::connect(site.address).unwrap();
    let start = head("POST", "/v1/tablesdb", &length) + &body[..20];
    // Twenty bytes come along with the head, and win twenty seconds.
    stream.write_all(start.as_bytes()).unwrap();
    stream.write_all(&body.as_bytes()[20..]).unwrap();
    let answer = read_to_end(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");

    let site = Site::start_with(Limits {
        body_ms: 1,
        rate_bytes_min: 1_000_000,
        ..LIMITS
    });
    let mut stream = TcpStream::connect(site.address).unwrap();
    stream.write_all(start.as_bytes()).unwrap();
    let answer = read_to_end(&mut stream);
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("general_request_timeout"), "{answer}");
    assert!(answer.contains("1000000 bytes a second"), "{answer}");
}

#[test]
fn a_body_that_is_parsed_apart_is_read_and_refused_like_others() {
    let site = Site::start();
    let filler = "x".repeat(200_000);
    let good = format!(r#"{{"databaseId":"d","name":"D","x":"{filler}"}}"#);
    assert_eq!(site.ask("POST", "/v1/tablesdb", &good).status, 201);
    let broken = site.ask("POST", "/v1/tablesdb", &good[..200_000]);
    assert_eq!(broken.refusal(), "400 general_bad_request");
    let deep = site.ask("POST", "/v1/tablesdb", &"[".repeat(200_000));
    assert_eq!(deep.refusal(), "400 general_bad_request");
}

#[test]
fn slow_bodies_hold_up_nobody() {
    let site = Site::start_with(Limits {
        connections_max: 1_000,
        ..LIMITS
    });
    let slow: Vec<TcpStream> = (0..300)
        .map(|_| {
            let mut stream = TcpStream::connect(site.address).unwrap();
            let start = head("POST", "/v1/tablesdb", "content-length: 1000000\r\n") + "{";
            stream.write_all(start.as_bytes()).unwrap();
            stream
        })
        .collect();
    for n in 0..20 {
        let body = format!(r#"{{"databaseId":"d{n}","name":"D"}}"#);
        assert_eq!(site.ask("POST", "/v1/tablesdb", &body).status, 201);
    }
    drop(slow);
}

#[test]
fn whoever_does_not_take_an_answer_loses_the_connection() {
    let site = Site::start_with(Limits {
        idle_ms: 1,
        rate_bytes_min: 1 << 30,
        ..LIMITS
    });
    let mut stream = TcpStream::connect(site.address).unwrap();
    let one = head("GET", "/v1/tablesdb", "");
    // Questions without end, whose answers nobody reads: at some point the server can send no
    // more, and writing fails once it has closed.
    let many = one.repeat(1_000);
    while stream.write_all(many.as_bytes()).is_ok() {}
}

#[test]
fn an_address_without_a_key_has_so_many_requests_a_second_and_keys_any_number() {
    let site = Site::start_with(Limits {
        guest_rate: 1,
        ..LIMITS
    });
    let ask = |key: Option<&str>| site.ask_as(key, "GET", "/v1/ping", "");
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
    site.skip_s(10);
    assert_eq!(ask(None).status, 200);
}
