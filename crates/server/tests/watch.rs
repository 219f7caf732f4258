//! The built binary as somebody watches it: metrics at an address of their own, slow queries in
//! the log.

mod process;

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use process::{Folder, Running, assert_refused, tidemark};
use serde_json::{Value, json};

const ROWS: &str = "/tablesdb/d/tables/t/rows";

/// Database `d` with table `t`, and some rows.
fn furnish(server: &Running, rows: usize) {
    server.call(
        "POST",
        "/tablesdb",
        &json!({"databaseId": "d", "name": "D"}),
    );
    let table = json!({
        "tableId": "t", "name": "T", "permissions": ["read(\"any\")"],
        "columns": [{"key": "genre", "type": "varchar", "size": 100},
                    {"key": "title", "type": "varchar", "size": 100},
                    {"key": "year", "type": "integer"}],
    });
    server.call("POST", "/tablesdb/d/tables", &table);
    for first in (0..rows).step_by(100) {
        let row = |n: usize| json!({"$id": format!("r{n}"), "genre": "g", "title": format!("book {n}"), "year": n});
        let rows: Vec<Value> = (first..rows.min(first + 100)).map(row).collect();
        server.call("POST", ROWS, &json!({ "rows": rows }));
    }
}

/// Sends a head and reads the answer to its end.
fn exchange(mut stream: impl std::io::Read + std::io::Write, line: &str) -> String {
    write!(
        stream,
        "{line} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn at_metrics(server: &Running, line: &str) -> String {
    let url = server.metrics.as_deref().expect("the banner names it");
    let authority = url
        .trim_start_matches("http://")
        .trim_end_matches("/metrics");
    exchange(TcpStream::connect(authority).unwrap(), line)
}

#[test]
fn metrics_have_an_address_of_their_own_and_only_if_it_is_wanted() {
    let folder = Folder::new();
    let wanted = [("TIDEMARK_METRICS_LISTEN", "127.0.0.1:0")];
    let server = Running::start_with(&folder, &wanted);
    furnish(&server, 1);
    let answer = at_metrics(&server, "GET /metrics");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        answer.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{answer}"
    );
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    let created = "tidemark_http_requests_total{method=\"POST\",route=\"/v1/tablesdb\",\
                   status=\"201\"} 1\n";
    assert!(answer.contains(created), "{answer}");
    let head = at_metrics(&server, "HEAD /metrics");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"));
    let other = at_metrics(&server, "POST /metrics");
    assert!(other.starts_with("HTTP/1.1 405") && other.contains("allow: GET, HEAD"));
    assert!(at_metrics(&server, "GET /").starts_with("HTTP/1.1 404"));
    // The port of applications does not show them to anybody.
    let stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    assert!(exchange(stream, "GET /metrics").starts_with("HTTP/1.1 404"));
    // Who may administer may look without a setting.
    let stream = UnixStream::connect(folder.data().join("admin.sock")).unwrap();
    assert!(exchange(stream, "GET /metrics").contains(created));
    assert_eq!(server.stop(), Some(0));
    let server = Running::start(&folder);
    assert_eq!(server.metrics, None);
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn an_address_that_is_taken_stops_the_start_and_is_named() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let start = |words: &str| {
        let mut command = tidemark("serve --listen 127.0.0.1:0");
        command.args(words.split(' ')).arg("--data");
        command.arg(folder.data()).output().unwrap()
    };
    let refused = start(&format!("--metrics-listen {address}"));
    assert_refused(&refused, 1, &format!("cannot show metrics at {address}"));
    let refused = start("--metrics-listen 8281");
    assert_refused(&refused, 2, "such as 127.0.0.1:8280");
}

#[test]
fn a_slow_query_is_logged_with_its_plan_and_the_index_that_would_help() {
    let folder = Folder::new();
    let env = [
        ("TIDEMARK_SLOW_QUERY_MS", "1"),
        ("TIDEMARK_LOG_FORMAT", "json"),
        ("TIDEMARK_TOTAL_CAP", "0"),
    ];
    let mut server = Running::launch(&folder, &env, Stdio::piped());
    furnish(&server, 5_000);
    // Each row is asked twice by a function of ours, which takes milliseconds on any machine.
    let queries = [
        r#"{"method":"regex","attribute":"title","values":["secret$"]}"#,
        r#"{"method":"equal","attribute":"genre","values":["g"]}"#,
        r#"{"method":"orderDesc","attribute":"year"}"#,
    ];
    server.call(
        "POST",
        "/tablesdb/d/tables/t/rows/query",
        &json!({ "queries": queries }),
    );
    // Its end ends the log, too, should the line be missing.
    server.signal("TERM");
    let line = server.log_line_with("a slow query");
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["target"], "slow");
    assert_eq!(
        (&line["database"], &line["table"]),
        (&json!("d"), &json!("t"))
    );
    let shape = r#"equal("genre") regex("title") orderDesc("year")"#;
    assert_eq!(line["query"], shape);
    assert_eq!((&line["limit"], &line["rows"]), (&json!(25), &json!(0)));
    assert_eq!(line["index"], "genre, year DESC");
    assert!(line["ms"].as_u64() >= Some(1), "{line}");
    assert!(line["plan"].as_str().unwrap().contains("SCAN"), "{line}");
    assert!(line["scanned"].as_u64() >= Some(5_000), "{line}");
    assert!(!line.to_string().contains("secret"), "{line}");
}
