//! The marks that answers carry, and answers that are not older than a mark.

use serde_json::{Value, json};

use crate::fixture::{Answer, KEY, PROJECT, TestServer};

const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";
const DOCUMENTS: &str = "/v1/databases/d/collections/t/documents";
const OWN: &str = "/v1/tidemark/databases/d";

fn ask_since(server: &TestServer, mark: &str, method: &str, path: &str, body: &str) -> Answer {
    let headers = [
        ("x-appwrite-project", PROJECT),
        ("x-appwrite-key", KEY),
        ("x-tidemark-min-mark", mark),
    ];
    server.ask_with(&headers, method, path, body)
}

#[track_caller]
fn mark_of(answer: &Answer) -> i64 {
    assert!(answer.status.is_success(), "{}", answer.text);
    answer.header("x-tidemark-mark").parse().unwrap()
}

/// The mark in `X-Tidemark-Cache`.
fn mark_of_list(answer: &Answer) -> i64 {
    let told = answer.header("x-tidemark-cache");
    let mark = told.split("mark=").nth(1).unwrap().split(';').next();
    mark.unwrap().parse().unwrap()
}

fn published(server: &TestServer) -> i64 {
    let status = server.ask("GET", "/v1/tidemark/status", "").json();
    status["mark"].as_i64().unwrap()
}

#[test]
fn every_answer_of_rows_has_its_mark() {
    let server = TestServer::start_with_row();
    for rows in [ROWS, DOCUMENTS] {
        let (row, of) = (format!("{rows}/r"), rows == ROWS);
        let (id, many) = if of {
            ("rowId", "rows")
        } else {
            ("documentId", "documents")
        };
        let one = |id_value: &str| json!({id: id_value, "data": {"n": 2}}).to_string();
        let several = json!({many: [{"$id": "x", "n": 3}]}).to_string();
        let all = json!({"data": {"n": 9}, "queries": []}).to_string();
        for (method, path, body) in [
            ("POST", rows.to_owned(), one("new")),
            ("PATCH", row.clone(), r#"{"data":{"n":5}}"#.to_owned()),
            ("PUT", row.clone(), r#"{"data":{"n":6}}"#.to_owned()),
            ("PATCH", format!("{row}/n/increment"), "{}".to_owned()),
            ("PATCH", format!("{row}/n/decrement"), "{}".to_owned()),
            ("PUT", rows.to_owned(), several),
            ("PATCH", rows.to_owned(), all),
            ("DELETE", format!("{rows}/new"), String::new()),
        ] {
            let before = published(&server);
            let mark = mark_of(&server.ask(method, &path, &body));
            assert!(mark > before, "{method} {path}");
            assert_eq!(mark, published(&server), "{method} {path}");
            // The long way, and from then on the short one.
            for _ in 0..3 {
                assert_eq!(mark_of(&server.ask("GET", &row, "")), mark);
            }
        }
        let same = server.ask("PATCH", &row, r#"{"data":{"n":9}}"#);
        assert_eq!(mark_of(&same), published(&server), "it changed nothing");
        server.ask("DELETE", rows, "{}");
        server.ask("POST", rows, &one("r"));
    }
    let ops = json!({"ops": [{"op": "put", "table": "t", "id": "r", "doc": {"n": 1}}]});
    let done = server.ask("POST", &format!("{OWN}/transactions"), &ops.to_string());
    assert_eq!(done.json()["tt"], mark_of(&done));
    let body = json!({"operations": [{"action": "delete", "tableId": "t", "rowId": "r"}]});
    let done = server.ask("POST", &format!("{OWN}/batch/writes"), &body.to_string());
    assert_eq!(done.json()["results"][0]["mark"], published(&server));
}

#[test]
fn the_commit_of_a_transaction_has_a_mark() {
    let server = TestServer::start_with_row();
    let made = server.ask("POST", "/v1/tablesdb/transactions", "{}");
    let id = made.json()["$id"].as_str().unwrap().to_owned();
    let path = format!("/v1/tablesdb/transactions/{id}");
    let op = json!({"operations": [{"action": "delete", "databaseId": "d", "tableId": "t",
        "rowId": "r"}]});
    server.ask("POST", &format!("{path}/operations"), &op.to_string());
    let committed = server.ask("PATCH", &path, r#"{"commit":true}"#);
    assert_eq!(mark_of(&committed), published(&server));
}

#[test]
fn a_read_is_not_older_than_the_mark_it_names() {
    let server = TestServer::start_with_row();
    let reads = |id: &str| json!({"reads": [{"tableId": "t", "ids": [id]}]}).to_string();
    let get = json!({"kind": "get", "table": "t", "id": "r"}).to_string();
    for n in 0..20 {
        let body = json!({"data": {"n": 100 + n}}).to_string();
        let mark = mark_of(&server.ask("PATCH", &format!("{ROWS}/r"), &body));
        let since = mark.to_string();
        for (method, path, body) in [
            ("GET", ROWS.to_owned(), String::new()),
            ("GET", DOCUMENTS.to_owned(), String::new()),
            ("GET", format!("{ROWS}/r"), String::new()),
            ("GET", format!("{DOCUMENTS}/r"), String::new()),
            ("POST", format!("{ROWS}/query"), "{}".to_owned()),
            ("POST", format!("{OWN}/batch/reads"), reads("r")),
            ("POST", format!("{OWN}/reads"), get.clone()),
            ("GET", "/v1/tidemark/status".to_owned(), String::new()),
        ] {
            let answer = ask_since(&server, &since, method, &path, &body);
            assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text);
            let shown = answer.text.contains(&format!("\"n\":{}", 100 + n));
            assert!(
                shown || path.ends_with("status"),
                "{method} {path}: {}",
                answer.text
            );
        }
    }
}

#[test]
fn a_list_that_is_kept_for_a_ttl_and_older_than_the_mark_is_not_used() {
    let server = TestServer::start_with_row();
    let path = format!("{ROWS}?ttl=3600");
    let n = |answer: &Answer| answer.json()["rows"][0]["n"].clone();
    let first = server.ask("GET", &path, "");
    let old = mark_of_list(&first);
    // Often enough to be answered at once.
    for _ in 0..3 {
        assert_eq!(n(&server.ask("GET", &path, "")), 1);
    }
    let since = mark_of(&server.ask("PATCH", &format!("{ROWS}/r"), r#"{"data":{"n":2}}"#));
    for _ in 0..3 {
        let stale = server.ask("GET", &path, "");
        assert_eq!(n(&stale), 1);
        assert!(stale.header("x-tidemark-cache").ends_with("stale=true"));
        let fresh = ask_since(&server, &since.to_string(), "GET", &path, "");
        assert_eq!(n(&fresh), 2);
        assert!(mark_of_list(&fresh) >= since);
        assert!(fresh.header("x-tidemark-cache").ends_with("stale=false"));
        let query = json!({"ttl": 3600}).to_string();
        let fresh = ask_since(
            &server,
            &since.to_string(),
            "POST",
            &format!("{ROWS}/query"),
            &query,
        );
        assert_eq!(n(&fresh), 2);
    }
    // A list that no commit has altered is true for any mark, whenever it was read.
    let other = format!(
        "{ROWS}?ttl=3600&total=false&queries[0]=%7B%22method%22%3A%22equal%22%2C\
        %22attribute%22%3A%22n%22%2C%22values%22%3A%5B7%5D%7D"
    );
    server.ask("GET", &other, "");
    let since = mark_of(&server.ask("PATCH", &format!("{ROWS}/r"), r#"{"data":{"n":3}}"#));
    for _ in 0..3 {
        let kept = ask_since(&server, &since.to_string(), "GET", &other, "");
        assert!(kept.header("x-tidemark-cache").starts_with("hit"), "{old}");
        assert!(mark_of_list(&kept) < since);
    }
}

#[test]
fn a_mark_that_nobody_was_given_is_refused() {
    let server = TestServer::start_with_row();
    let hour_us = 3_600_000_000;
    let now = published(&server);
    for path in [ROWS, DOCUMENTS, &format!("{ROWS}/r"), "/v1/tidemark/status"] {
        for _ in 0..3 {
            for far in [now + hour_us, i64::MAX] {
                let refused = ask_since(&server, &far.to_string(), "GET", path, "");
                assert_eq!(refused.refusal(), "400 future_tt", "{path} {far}");
            }
            for wrong in ["", "x", "-1", "1.5", "9223372036854775808", "0x1"] {
                let refused = ask_since(&server, wrong, "GET", path, "");
                assert_eq!(refused.refusal(), "400 general_argument_invalid", "{wrong}");
            }
            assert_eq!(ask_since(&server, "0", "GET", path, "").status, 200);
        }
    }
    // A write names one as well: it is at a later mark, or not done.
    let body = r#"{"data":{"n":7}}"#;
    let row = format!("{ROWS}/r");
    let refused = ask_since(&server, &(now + hour_us).to_string(), "PATCH", &row, body);
    assert_eq!(refused.refusal(), "400 future_tt");
    assert_eq!(server.ask("GET", &row, "").json()["n"], Value::from(1));
    assert!(mark_of(&ask_since(&server, &now.to_string(), "PATCH", &row, body)) > now);
}
