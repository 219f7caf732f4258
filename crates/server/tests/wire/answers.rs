//! What an answer may take, and all of them together that no client takes.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use server::serve::Limits;

use crate::fixture::{KEY, LIMITS, PROJECT, TestServer};

const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";
const READS: &str = "/v1/tidemark/databases/d/batch/reads";
const TOO_LARGE: &str = "400 general_answer_too_large";

/// A table that everybody reads, with so many rows of a text of so many bytes.
fn server(limits: Limits, rows: usize, bytes: usize) -> TestServer {
    let server = TestServer::start_with(limits);
    let table = r#"{"tableId":"t","name":"T","permissions":["read(\"any\")"],
        "columns":[{"key":"n","type":"integer"},{"key":"s","type":"mediumtext"}]}"#;
    for (path, body) in [
        ("/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#),
        ("/v1/tablesdb/d/tables", table),
    ] {
        let made = server.ask("POST", path, body);
        assert_eq!(made.status, 201, "{}", made.text);
    }
    for n in 0..rows {
        let row = json!({"rowId": format!("r{n}"), "data": {"n": n, "s": "x".repeat(bytes)}});
        let made = server.ask("POST", ROWS, &row.to_string());
        assert_eq!(made.status, 201, "{}", made.text);
    }
    server
}

fn list(queries: &[Value]) -> String {
    let query = |(nth, query): (usize, &Value)| {
        let text = query.to_string();
        let escaped: Vec<String> = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        format!("queries%5B{nth}%5D={}", escaped.concat())
    };
    let queries: Vec<String> = queries.iter().enumerate().map(query).collect();
    format!("{ROWS}?{}", queries.join("&"))
}

fn limit(rows: usize) -> Value {
    json!({"method": "limit", "values": [rows]})
}

fn select(column: &str) -> Value {
    json!({"method": "select", "values": [column]})
}

#[test]
fn an_answer_beyond_its_limit_says_how_to_page() {
    let limits = Limits {
        answer_bytes_max: 100_000,
        ..LIMITS
    };
    let server = server(limits, 6, 30_000);
    for key in [None, Some(KEY)] {
        let refused = server.ask_as(key, "GET", &list(&[limit(6)]), "");
        assert_eq!(refused.refusal(), TOO_LARGE);
        for word in ["100000 bytes", "`limit`", "`cursorAfter`", "`select`"] {
            assert!(refused.text.contains(word), "{}", refused.text);
        }
        let few = server.ask_as(key, "GET", &list(&[limit(3)]), "").json();
        assert_eq!(few["rows"].as_array().unwrap().len(), 3);
        assert_eq!(few["total"], 6);
        let narrow = server.ask_as(key, "GET", &list(&[limit(6), select("n")]), "");
        assert_eq!(narrow.json()["rows"].as_array().unwrap().len(), 6);
    }
    let body = json!({"queries": [limit(6).to_string()]}).to_string();
    let refused = server.ask("POST", &format!("{ROWS}/query"), &body);
    assert_eq!(refused.refusal(), TOO_LARGE);
    let past = json!({"method": "versions", "values": []});
    let refused = server.ask("GET", &list(&[limit(6), past]), "");
    assert_eq!(refused.refusal(), TOO_LARGE);
}

#[test]
fn a_sort_beyond_its_memory_says_what_to_do() {
    let server = server(LIMITS, 180, 400_000);
    let by_text = json!({"method": "orderDesc", "attribute": "s"});
    let by_number = json!({"method": "orderDesc", "attribute": "n"});
    let far = json!({"method": "offset", "values": [175]});
    let made = server.ask("POST", "/v1/tablesdb/transactions", "{}").json();
    let id = made["$id"].as_str().unwrap();
    let staged = json!({"databaseId": "d", "tableId": "t", "action": "create", "rowId": "z",
        "data": {"n": -1}});
    let path = format!("/v1/tablesdb/transactions/{id}/operations");
    let staged = server.ask("POST", &path, &json!({"operations": [staged]}).to_string());
    assert_eq!(staged.status, 201, "{}", staged.text);
    let inside = format!("&transactionId={id}");
    for (key, suffix) in [(None, ""), (Some(KEY), ""), (Some(KEY), inside.as_str())] {
        let ask = |queries: &[Value]| server.ask_as(key, "GET", &(list(queries) + suffix), "");
        let refused = ask(&[by_text.clone(), select("n"), limit(180)]);
        assert_eq!(refused.refusal(), "400 general_sort_too_large");
        for word in [
            "67108864 bytes",
            "index",
            "`limit`",
            "`offset`",
            "`cursorAfter`",
        ] {
            assert!(refused.text.contains(word), "{}", refused.text);
        }
        let refused = ask(&[by_text.clone(), select("n"), far.clone(), limit(5)]);
        assert_eq!(refused.refusal(), "400 general_sort_too_large");
        let few = ask(&[by_text.clone(), select("n"), limit(5)]).json();
        assert_eq!(few["rows"].as_array().unwrap().len(), 5, "{suffix}");
        let by_short_key = ask(&[by_number.clone(), select("n"), far.clone(), limit(5)]).json();
        assert_eq!(by_short_key["rows"][0]["n"], 4, "{suffix}");
    }
}

#[test]
fn a_row_beyond_the_limit_is_read_in_parts() {
    let limits = Limits {
        answer_bytes_max: 100_000,
        ..LIMITS
    };
    let server = server(limits, 2, 120_000);
    // The second time it would be answered at once.
    for _ in 0..3 {
        let row = server.ask("GET", &format!("{ROWS}/r1"), "");
        assert_eq!(row.refusal(), TOO_LARGE);
    }
    let part = list(&[select("n")]).replace("rows?", "rows/r1?");
    assert_eq!(server.ask("GET", &part, "").json()["n"], 1);
    let changed = r#"{"data":{"n":5}}"#;
    let written = server.ask("PATCH", &format!("{ROWS}/r1"), changed);
    assert_eq!(written.status, 200, "what is done is told");
    assert_eq!(written.json()["n"], 5);
}

#[test]
fn a_related_row_counts_wherever_it_is_shown() {
    let limits = Limits {
        answer_bytes_max: 300_000,
        ..LIMITS
    };
    let server = server(limits, 1, 60_000);
    let table = r#"{"tableId":"books","name":"B","permissions":["read(\"any\")"],"columns":[]}"#;
    let made = server.ask("POST", "/v1/tablesdb/d/tables", table);
    assert_eq!(made.status, 201, "{}", made.text);
    let path = "/v1/tablesdb/d/tables/books";
    let link = r#"{"relatedTableId":"t","type":"manyToOne","key":"author"}"#;
    let made = server.ask("POST", &format!("{path}/columns/relationship"), link);
    assert!(made.status.is_success(), "{}", made.text);
    for n in 0..6 {
        let row = json!({"rowId": format!("b{n}"), "data": {"author": "r0"}});
        let made = server.ask("POST", &format!("{path}/rows"), &row.to_string());
        assert_eq!(made.status, 201, "{}", made.text);
    }
    let of = |queries: &[Value]| list(queries).replace("tables/t/", "tables/books/");
    let all = server.ask("GET", &of(&[limit(6), select("author.*")]), "");
    assert_eq!(all.refusal(), TOO_LARGE);
    let some = server.ask("GET", &of(&[limit(4), select("author.*")]), "");
    let authors = some.json()["rows"].as_array().unwrap().len();
    assert_eq!(authors, 4, "{}", some.text);
}

fn shown(answer: &Value) -> Value {
    match answer["rows"].as_array() {
        Some(rows) => rows.iter().map(|row| row["$id"].clone()).collect(),
        None => answer["error"]["type"].clone(),
    }
}

#[test]
fn a_batch_answers_the_parts_that_fit_however_often_an_id_is_named() {
    let limits = Limits {
        answer_bytes_max: 100_000,
        ..LIMITS
    };
    let server = server(limits, 6, 30_000);
    let read = |parts: Value| {
        let answer = server.ask("POST", READS, &json!({ "reads": parts }).to_string());
        assert_eq!(answer.status, 200, "{}", answer.text);
        let results = answer.json()["results"].clone();
        results.as_array().unwrap().iter().map(shown).collect()
    };
    let ids = |ids: &[&str]| json!({"tableId": "t", "ids": ids});
    let too_large = "general_answer_too_large";
    let answered: Value = read(json!([
        ids(&["r0", "r1", "none"]),
        ids(&["r2", "r3"]),
        {"tableId": "none", "ids": ["r4"]},
        ids(&["r4"]),
    ]));
    let wanted = json!([["r0", "r1", null], too_large, "table_not_found", too_large]);
    assert_eq!(answered, wanted);
    let again: Value = read(json!([ids(&["r1"; 3])]));
    assert_eq!(again, json!([["r1", "r1", "r1"]]));
    let many: Value = read(json!([ids(&["r1"; 1_000])]));
    assert_eq!(many, json!([too_large]));
}

/// Asks, and reads no more of the answer than its first line.
fn ask_only(server: &TestServer, key: bool, target: &str) -> (BufReader<TcpStream>, String) {
    let mut stream = TcpStream::connect(server.address).unwrap();
    let secret = if key {
        format!("x-appwrite-key: {KEY}\r\n")
    } else {
        String::new()
    };
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nhost: x\r\nx-appwrite-project: {PROJECT}\r\n{secret}\r\n"
    )
    .unwrap();
    let mut answer = BufReader::new(stream);
    let mut status = String::new();
    answer.read_line(&mut status).unwrap();
    (answer, status.trim_end().to_owned())
}

#[test]
fn answers_that_nobody_takes_are_bounded_and_keys_keep_their_part() {
    let limits = Limits {
        answers_bytes_max: 40_000_000,
        ..LIMITS
    };
    // Far more than the system takes of an answer that its client does not read.
    let server = server(limits, 10, 900_000);
    let (large, ok, busy) = (
        list(&[limit(10)]),
        "HTTP/1.1 200 OK",
        "HTTP/1.1 503 Service Unavailable",
    );
    let mut held = Vec::new();
    for (key, wanted) in [
        (false, ok),
        (false, ok),
        (false, busy),
        (true, ok),
        (false, busy),
        (true, ok),
        (true, busy),
    ] {
        let (stream, status) = ask_only(&server, key, &large);
        assert_eq!(status, wanted, "{} held, by key: {key}", held.len());
        held.push(stream);
    }
    let refused = server.ask_as(None, "GET", &large, "");
    assert_eq!(refused.refusal(), "503 general_service_unavailable");
    assert_eq!(refused.header("retry-after"), "1");
    assert!(refused.text.contains("40000000 bytes"), "{}", refused.text);
    let small = server.ask_as(None, "GET", &list(&[limit(10), select("n")]), "");
    assert_eq!(small.status, 200, "small answers need no room");
    drop(held);
    // Once the server has seen their ends there is room again.
    while server.ask_as(None, "GET", &large, "").status != 200 {}
}

#[test]
fn a_stream_sends_each_group_that_fits_into_an_answer() {
    let limits = Limits {
        answer_bytes_max: 100_000,
        ..LIMITS
    };
    let server = server(limits, 5, 40_000);
    let line = |ids: &[&str]| format!("{}\n", json!({"tableId": "t", "ids": ids}));
    let mut lines = ["r0", "r1", "r2", "r3", "r4"]
        .map(|id| line(&[id]))
        .concat();
    lines += &line(&["r0"; 3]);
    let headers = [
        ("x-appwrite-project", PROJECT),
        ("content-type", "application/x-ndjson"),
    ];
    let answer = server.ask_with(&headers, "POST", READS, &lines);
    let line = |line: &str| shown(&serde_json::from_str(line).unwrap());
    let answered: Value = answer.text.lines().map(line).collect();
    let too_large = "general_answer_too_large";
    assert_eq!(
        answered,
        json!([["r0"], ["r1"], ["r2"], ["r3"], ["r4"], too_large])
    );
}
