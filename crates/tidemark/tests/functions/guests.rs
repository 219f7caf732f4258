//! Callers without an API key: how many executions one address may have at once.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testing::{Credentials, RawAnswer};

use super::fixture::{Host, NODE, can};

/// Holds requests until it is asked to let them go, and says how many it has held.
const HOLDER: &str = "
let free, held = 0
const freed = new Promise((resolve) => { free = resolve })
module.exports = async ({ req, res }) => {
  if (req.path === '/held') return res.text(`${held}`)
  if (req.path === '/hold') { held += 1; await freed }
  if (req.path === '/free') free()
  return res.text('done')
}";
/// A machine busy building takes its time.
const SOON: Duration = Duration::from_mins(1);
const REFUSED: &str = "429 general_rate_limit_exceeded";

/// A function for each of these ids that guests may execute; all requests go to one process.
fn start(flags: &[&str], ids: &[&str]) -> Host {
    let mut all = vec!["--functions-processes-max=1", "--functions-idle-s=600"];
    all.extend(flags);
    let host = Host::new(&all);
    for id in ids {
        host.create(id, NODE, &json!({"execute": ["any"], "timeout": 900}));
        host.deploy(id, &[("main.js", HOLDER)], "");
        // The process is there from now on.
        assert_eq!(host.executed(id, &json!({}))["responseBody"], "done");
    }
    host
}

fn as_guest(host: &Host, function: &str, body: &Value) -> RawAnswer {
    let path = format!("/{function}/executions");
    host.ask_as(Credentials::Guest, "POST", &path, body)
}

/// Executes as a guest until there is room for it.
#[track_caller]
fn until_executed(host: &Host, function: &str) {
    let begun = Instant::now();
    loop {
        let answer = as_guest(host, function, &json!({}));
        if answer.status == 201 {
            return;
        }
        assert!(begun.elapsed() < SOON, "{answer:?}\n{}", host.log());
    }
}

/// Waits until a handler holds so many requests.
#[track_caller]
fn until_held(host: &Host, function: &str, count: &str) {
    let begun = Instant::now();
    while host.executed(function, &json!({"path": "/held"}))["responseBody"] != count {
        assert!(begun.elapsed() < SOON, "{}", host.log());
    }
}

/// Sends a request that the handler holds, and does not wait for its answer.
fn hold(host: &Host, function: &str) -> TcpStream {
    let body = r#"{"path":"/hold"}"#;
    let mut stream = TcpStream::connect(("127.0.0.1", host.port())).unwrap();
    write!(
        stream,
        "POST /v1/functions/{function}/executions HTTP/1.1\r\nHost: localhost\r\n\
         X-Appwrite-Project: default\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream
}

#[test]
fn executions_of_one_address_are_bounded_over_all_functions() {
    if !can() {
        return;
    }
    let host = start(&["--guest-executions=4"], &["a", "b"]);
    let held = ["a", "b", "a", "b"].map(|function| hold(&host, function));
    for function in ["a", "b"] {
        until_held(&host, function, "2");
    }
    let refused = as_guest(&host, "a", &json!({}));
    assert_eq!(refused.outcome(), REFUSED, "{refused:?}");
    assert!(
        refused.text.contains("may have 4 executions"),
        "{refused:?}"
    );
    assert!(
        refused.head.to_lowercase().contains("retry-after: 1"),
        "{refused:?}"
    );
    assert_eq!(as_guest(&host, "b", &json!({})).outcome(), REFUSED);
    // A key has room, and a guest who goes away still has what runs for it.
    assert_eq!(host.executed("b", &json!({}))["responseBody"], "done");
    drop(held);
    for _ in 0..50 {
        assert_eq!(as_guest(&host, "b", &json!({})).outcome(), REFUSED);
    }
    // What ends makes room.
    assert_eq!(
        host.executed("a", &json!({"path": "/free"}))["status"],
        "completed"
    );
    until_executed(&host, "b");
    host.executed("b", &json!({"path": "/free"}));
    until_executed(&host, "a");
}

#[test]
fn executions_of_one_address_are_bounded_by_the_bytes_of_their_bodies() {
    if !can() {
        return;
    }
    let host = start(&["--guest-executions-memory=100KiB"], &["a"]);
    let of_bytes = |bytes: usize| json!({"body": "x".repeat(bytes)});
    assert_eq!(as_guest(&host, "a", &of_bytes(102_400)).status, 201);
    let refused = as_guest(&host, "a", &of_bytes(102_401));
    assert_eq!(refused.outcome(), REFUSED, "{refused:?}");
    assert!(refused.text.contains("102400 bytes"), "{refused:?}");
    let with_key = host.executed("a", &of_bytes(102_401));
    assert_eq!(with_key["responseBody"], "done");
}

#[test]
fn large_answers_of_executions_have_room_or_are_not_sent() {
    if !can() {
        return;
    }
    let host = Host::new(&["--answers-memory=1MiB"]);
    host.create("a", NODE, &json!({"execute": ["any"]}));
    let large = "module.exports = ({ req, res }) => res.text('x'.repeat(req.bodyText))";
    host.deploy("a", &[("main.js", large)], "");
    // Guests have half of the memory.
    for (bytes, status) in [("500000", 201), ("600000", 503)] {
        let answer = as_guest(&host, "a", &json!({"body": bytes}));
        assert_eq!(answer.status, status, "{bytes}: {}", answer.head);
    }
    let refused = as_guest(&host, "a", &json!({"body": "600000"}));
    assert_eq!(refused.outcome(), "503 execution_answer_unsent");
    // Sent again, it would be executed again.
    let head = refused.head.to_lowercase();
    assert!(!head.contains("retry-after"), "{head}");
    let records = host.make("GET", "/a/executions", &Value::Null);
    let records = records["executions"].as_array().unwrap();
    let is_named = |record: &Value| refused.text.contains(record["$id"].as_str().unwrap());
    let named = records.iter().find(|record| is_named(record));
    assert_eq!(named.unwrap()["status"], "completed", "{refused:?}");
    // A key has all of it.
    for (bytes, status) in [("600000", 201), ("1100000", 503)] {
        let answer = host.execute("a", &json!({"body": bytes}));
        assert_eq!(answer.status, status, "{bytes}: {}", answer.head);
    }
}

#[test]
fn executions_that_wait_count_for_the_address_that_queued_them() {
    if !can() {
        return;
    }
    let host = start(&["--guest-executions=3"], &["a", "b"]);
    let later = json!({"async": true, "scheduledAt": "2099-01-01T00:00:00.000Z"});
    let queued = ["a", "b", "a"].map(|function| as_guest(&host, function, &later));
    let ids = queued.map(|answer| {
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()["$id"].as_str().unwrap().to_owned()
    });
    for body in [&later, &json!({"async": true}), &json!({})] {
        let refused = as_guest(&host, "b", body);
        assert_eq!(refused.outcome(), REFUSED, "{refused:?}");
    }
    assert_eq!(host.execute("a", &later).status, 202, "a key has room");

    // Deleted by a key, and with its function.
    let path = format!("/a/executions/{}", ids[0]);
    let deleted = host.ask_as(Credentials::Key, "DELETE", &path, &Value::Null);
    assert_eq!(deleted.status, 204, "{deleted:?}");
    until_executed(&host, "a");
    host.ask_as(Credentials::Key, "DELETE", "/b", &Value::Null);
    until_executed(&host, "a");

    // What has ended makes room at once.
    for _ in 0..6 {
        let begun = Instant::now();
        while as_guest(&host, "a", &json!({"async": true})).status != 202 {
            assert!(begun.elapsed() < SOON, "{}", host.log());
        }
    }
    until_executed(&host, "a");
}

#[test]
fn executions_of_guests_can_be_shut_off() {
    if !can() {
        return;
    }
    let host = start(&["--guest-executions=0"], &["a"]);
    assert_eq!(as_guest(&host, "a", &json!({})).outcome(), REFUSED);
}
