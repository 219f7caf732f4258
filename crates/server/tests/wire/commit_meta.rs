//! What the author of a write says of its commits, in the header `X-Tidemark-Meta`.

use serde_json::{Value, json};

use crate::fixture::{Answer, KEY, PROJECT, ROWS_KEY, TestServer};
use crate::idempotency::{server, writes};

const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";
const OWN: &str = "/v1/tidemark/databases/d";

fn say(server: &TestServer, meta: &str, method: &str, path: &str, body: &str) -> Answer {
    let headers = [
        ("x-appwrite-project", PROJECT),
        ("x-appwrite-key", KEY),
        ("x-tidemark-meta", meta),
    ];
    server.ask_with(&headers, method, path, body)
}

/// Mark and metadata of each commit above a mark.
fn said_after(server: &TestServer, mark: i64) -> Vec<(i64, Value)> {
    let feed = json!({"kind": "feed", "after": mark, "limit": 1000}).to_string();
    let answer = server.ask("POST", &format!("{OWN}/reads"), &feed);
    assert_eq!(answer.status, 200, "{}", answer.text);
    let rows = answer.json()["rows"].as_array().unwrap().clone();
    let said = |row: &Value| (row["tt"].as_i64().unwrap(), row["meta"].clone());
    rows.iter().map(said).collect()
}

#[test]
fn metadata_of_each_way_to_write_stands_in_the_records() {
    let server = server();
    let mut mark = said_after(&server, i64::MIN).last().unwrap().0;
    let mut recorded = 0;
    for (nth, (method, path, body)) in writes().into_iter().enumerate() {
        let meta = json!({"nth": nth, "who": "\u{e9}"});
        let sent = meta.to_string().replace('\u{e9}', "\\u00e9");
        let answer = say(&server, &sent, method, &path, &body.to_string());
        assert!(answer.status.is_success(), "{path}: {}", answer.text);
        let expected = body.get("meta").unwrap_or(&meta);
        let records = said_after(&server, mark);
        recorded += usize::from(!records.is_empty());
        for (at, said) in records {
            assert_eq!(said, *expected, "{method} {path} {body}");
            mark = at;
        }
    }
    // Some write what is there already, and make no commit.
    assert!(recorded >= 24, "{recorded}");
    // The next one says nothing, on the same connection or another.
    let silent = server.ask("PATCH", &format!("{ROWS}/a"), r#"{"data":{"n":77}}"#);
    assert_eq!(silent.status, 200, "{}", silent.text);
    assert_eq!(said_after(&server, mark)[0].1, Value::Null);
}

#[test]
fn metadata_of_a_staged_transaction_is_that_of_its_commit() {
    let server = server();
    let begun = server.ask("POST", "/v1/tablesdb/transactions", "{}").json();
    let path = format!(
        "/v1/tablesdb/transactions/{}",
        begun["$id"].as_str().unwrap()
    );
    let staged = json!({"operations": [{"action": "update", "databaseId": "d", "tableId": "t",
        "rowId": "a", "data": {"n": 41}}]});
    let answer = say(
        &server,
        r#"{"at":"stage"}"#,
        "POST",
        &format!("{path}/operations"),
        &staged.to_string(),
    );
    assert_eq!(answer.status, 201, "{}", answer.text);
    let mark = said_after(&server, i64::MIN).last().unwrap().0;
    let answer = say(
        &server,
        r#"{"at":"commit"}"#,
        "PATCH",
        &path,
        r#"{"commit":true}"#,
    );
    assert_eq!(answer.status, 200, "{}", answer.text);
    let said: Vec<Value> = said_after(&server, mark)
        .into_iter()
        .map(|(_, said)| said)
        .collect();
    assert_eq!(said, [json!({"at": "commit"})]);
}

#[test]
fn bad_metadata_is_refused_by_name_and_nothing_is_written() {
    let server = server();
    let before = server.ask("GET", ROWS, "").json();
    let body = r#"{"data":{"n":99}}"#;
    let path = format!("{ROWS}/a");
    let long = format!(r#"{{"x":"{}"}}"#, "x".repeat(1_024 - 7));
    let deep = format!(r#"{{"x":{}{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
    for meta in [
        "",
        "x",
        "[1]",
        "7",
        "null",
        r#"{"a":1"#,
        r#"{"a":"é"}"#,
        &long,
        &deep,
    ] {
        let refused = say(&server, meta, "PATCH", &path, body);
        assert_eq!(
            refused.refusal(),
            "400 general_argument_invalid",
            "{meta:.40}"
        );
        assert!(refused.text.contains("X-Tidemark-Meta"), "{}", refused.text);
    }
    let twice = [
        ("x-appwrite-project", PROJECT),
        ("x-appwrite-key", KEY),
        ("x-tidemark-meta", "{}"),
        ("x-tidemark-meta", "{}"),
    ];
    let refused = server.ask_with(&twice, "PATCH", &path, body);
    assert_eq!(refused.refusal(), "400 general_argument_invalid");
    let guest = [("x-appwrite-project", PROJECT), ("x-tidemark-meta", "{}")];
    let refused = server.ask_with(&guest, "PATCH", &path, body);
    assert_eq!(refused.refusal(), "401 general_unauthorized_scope");
    assert_eq!(server.ask("GET", ROWS, "").json(), before);
    let longest = format!(r#"{{"x":"{}"}}"#, "x".repeat(1_024 - 8));
    assert_eq!(longest.len(), 1_024);
    assert_eq!(say(&server, &longest, "PATCH", &path, body).status, 200);
}

#[test]
fn requests_that_make_no_commit_ignore_metadata() {
    let server = server();
    for (method, path, body, status) in [
        ("GET", format!("{ROWS}/a"), "", 200),
        ("POST", format!("{ROWS}/query"), r#"{"queries":[]}"#, 200),
        ("POST", format!("{OWN}/reads"), r#"{"kind":"feed"}"#, 200),
    ] {
        let answer = say(&server, "no JSON", method, &path, body);
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
    }
}

#[test]
fn commits_are_found_by_their_author_and_metadata() {
    let server = server();
    let start = said_after(&server, i64::MIN).last().unwrap().0;
    let metas = [
        r#"{"why":"a","n":1}"#,
        r#"{"n":2,"why":"b"}"#,
        r#"{"why":"a","n":3}"#,
        "{}",
    ];
    for (nth, meta) in metas.into_iter().enumerate() {
        let body = json!({"data": {"n": 100 + nth}}).to_string();
        let answer = say(&server, meta, "PATCH", &format!("{ROWS}/a"), &body);
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    let other = server.ask_as(
        Some(ROWS_KEY),
        "PATCH",
        &format!("{ROWS}/a"),
        r#"{"data":{"n":5}}"#,
    );
    assert_eq!(other.status, 200, "{}", other.text);
    let find = |wanted: Value| {
        let mut feed = json!({"kind": "feed", "after": start});
        feed.as_object_mut()
            .unwrap()
            .extend(wanted.as_object().unwrap().clone());
        server.ask("POST", &format!("{OWN}/reads"), &feed.to_string())
    };
    let numbers = |wanted: Value| {
        let rows = find(wanted).json()["rows"].as_array().unwrap().clone();
        rows.iter()
            .map(|row| row["meta"]["n"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(json!({"meta": {"why": "a"}})), [1, 3]);
    assert_eq!(numbers(json!({"meta": {"why": "a"}, "limit": 1})), [1]);
    assert_eq!(numbers(json!({"meta": {"why": "a", "n": 3}})), [3]);
    assert_eq!(numbers(json!({"meta": {"why": "z"}})), [Value::Null; 0]);
    assert_eq!(numbers(json!({"meta": {"why": null}})), [Value::Null; 0]);
    let all = find(json!({})).json()["rows"].as_array().unwrap().clone();
    assert_eq!(all.len(), 5);
    let author = all[4]["user"].as_str().unwrap();
    assert_ne!(all[0]["user"], author);
    let found = find(json!({ "user": author })).json();
    assert_eq!(found["rows"], json!([all[4]]));
    assert_eq!(
        numbers(json!({"user": author, "meta": {"why": "a"}})),
        [Value::Null; 0]
    );
    let many: serde_json::Map<String, Value> = (0..17).map(|n| (n.to_string(), json!(n))).collect();
    for wrong in [
        json!({"meta": 7}),
        json!({"user": 7}),
        json!({ "meta": many }),
        json!({"meta": {"why": ["a"]}}),
        json!({"meta": {"why": {"n": 1}}}),
    ] {
        assert_eq!(
            find(wrong.clone()).refusal(),
            "400 general_argument_invalid",
            "{wrong}"
        );
    }
}
