//! The worked cases of the bitemporal specification, and further ones, over HTTP as written.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::fixture::{Answer, KEY, PROJECT, TestServer};

/// Asks at this instant of the server's clock; without one it shows the horizon.
fn ask(
    server: &TestServer,
    clock: Option<&Value>,
    method: &str,
    path: &str,
    body: &Value,
) -> Answer {
    let clock = clock.map(Value::to_string);
    let mut headers = vec![("x-appwrite-project", PROJECT), ("x-appwrite-key", KEY)];
    headers.extend(clock.as_deref().map(|clock| ("x-tidemark-clock", clock)));
    server.ask_with(&headers, method, path, &body.to_string())
}

/// The tables of a case with the columns that its documents have.
fn tables(case: &Value) -> Value {
    let mut tables: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for step in case["steps"].as_array().unwrap() {
        for op in step["tx"]["ops"].as_array().unwrap_or(&Vec::new()) {
            let columns = tables
                .entry(op["table"].as_str().unwrap().into())
                .or_default();
            for part in ["doc", "equals"] {
                for (key, value) in op[part].as_object().unwrap_or(&Map::new()) {
                    let kind = match value {
                        Value::Number(number) if number.is_f64() => "float",
                        Value::Number(_) => "integer",
                        Value::Bool(_) => "boolean",
                        _ => "string",
                    };
                    let is_float = columns.get(key).is_some_and(|known| known == "float");
                    if !value.is_null() && !is_float {
                        columns.insert(key.clone(), json!(kind));
                    } else if !columns.contains_key(key) && value.is_null() {
                        columns.insert(key.clone(), json!("string"));
                    }
                }
            }
        }
    }
    let mut made = case["tables"].clone();
    for (name, table) in made.as_object_mut().unwrap() {
        table["columns"] = json!(tables.remove(name).unwrap_or_default());
    }
    json!({ "tables": made })
}

/// Without members that are null: a column without a value may be shown or left out.
fn bare(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(key, value)| (key.clone(), bare(value)))
                    .collect(),
            )
        }
        Value::Array(elements) => elements.iter().map(bare).collect(),
        // 21 and 21.0 are one number.
        Value::Number(number) => json!(number.as_f64()),
        other => other.clone(),
    }
}

fn play(server: &TestServer, step: &Value) -> Result<(), String> {
    let base = "/v1/tidemark/databases/cases";
    let expect = &step["expect"];
    let (answer, member) = if let Some(tx) = step.get("tx") {
        let body = json!({"ops": tx["ops"], "meta": tx.get("meta")});
        let path = format!("{base}/transactions");
        (ask(server, tx.get("clock"), "POST", &path, &body), "tt")
    } else if let Some(beat) = step.get("heartbeat") {
        let path = format!("{base}/heartbeat");
        (
            ask(server, beat.get("clock"), "POST", &path, &json!({})),
            "horizon",
        )
    } else {
        let read = &step["read"];
        let path = format!("{base}/reads");
        (ask(server, read.get("clock"), "POST", &path, read), "rows")
    };
    let found = answer.json();
    if let Some(code) = expect.get("error") {
        return if found.get("type") == Some(code) {
            Ok(())
        } else {
            Err(format!("expected {code}, got {}", answer.text))
        };
    }
    let agrees = found.get(member).map(bare) == expect.get(member).map(bare);
    if answer.status.is_success() && agrees {
        return Ok(());
    }
    Err(format!("expected {expect}, got {}", answer.text))
}

fn play_all(server: &TestServer, file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let cases: Value = serde_json::from_str(&text).unwrap();
    let mut failed = Vec::new();
    for case in cases["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let made = ask(
            server,
            None,
            "POST",
            "/v1/tidemark/test/reset",
            &tables(case),
        );
        assert_eq!(made.status, 200, "{name}: {}", made.text);
        let steps = case["steps"].as_array().unwrap();
        let fault = steps.iter().enumerate().find_map(|(nth, step)| {
            let fault = play(server, step).err()?;
            Some(format!("{name}, step {nth}: {fault}\n  {step}"))
        });
        failed.extend(fault);
    }
    failed
}

#[test]
fn every_case_is_answered_as_written() {
    let server = TestServer::start_with_test_clock();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "json"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let failed: Vec<String> = files
        .iter()
        .flat_map(|file| play_all(&server, file))
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

const BASE: &str = "/v1/tidemark/databases/d";

fn with_table() -> TestServer {
    let server = TestServer::start();
    server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    let table = r#"{"tableId":"t","name":"T","columns":[{"key":"n","type":"integer"},
        {"key":"tags","type":"text","array":true}]}"#;
    server.ask("POST", "/v1/tablesdb/d/tables", table);
    server
}

#[test]
fn transactions_that_cannot_be_are_refused() {
    let server = with_table();
    let path = format!("{BASE}/transactions");
    let guest = server.ask_as(None, "POST", &path, r#"{"ops":[]}"#);
    assert_eq!(guest.refusal(), "401 general_unauthorized_scope");
    let none = server.ask("POST", &path, r#"{"ops":[]}"#);
    assert_eq!(none.refusal(), "400 general_argument_invalid");
    let op = |op: &str, more: Value| {
        let mut made = json!({"op": op, "table": "t", "id": "a", "doc": {"n": 1}});
        for (key, value) in more.as_object().unwrap() {
            made[key] = value.clone();
        }
        if op == "assert" {
            made.as_object_mut().unwrap().remove("doc");
        }
        made
    };
    for (op, refusal) in [
        (op("fly", json!({})), "400 general_argument_invalid"),
        (op("put", json!({"table": "x"})), "404 table_not_found"),
        (
            op("put", json!({"id": "?"})),
            "400 general_argument_invalid",
        ),
        (
            op("put", json!({"doc": {"x": 1}})),
            "400 row_invalid_structure",
        ),
        (
            op("put", json!({"doc": {"n": "one"}})),
            "400 row_invalid_structure",
        ),
        (
            op("put", json!({"valid_from": "soon"})),
            "400 general_argument_invalid",
        ),
        (
            op("put", json!({"valid_from": 5, "valid_to": 5})),
            "400 invalid_range",
        ),
        (op("assert", json!({})), "400 general_argument_invalid"),
        (op("assert", json!({"exists": true})), "409 assert_failed"),
    ] {
        let body = json!({ "ops": [op] }).to_string();
        assert_eq!(
            server.ask("POST", &path, &body).refusal(),
            refusal,
            "{body}"
        );
    }
}

#[test]
fn reads_that_cannot_be_are_refused() {
    let server = with_table();
    let path = format!("{BASE}/reads");
    for (body, refusal) in [
        (json!({}), "400 general_argument_invalid"),
        (json!({"kind": "guess"}), "400 general_argument_invalid"),
        (
            json!({"kind": "get", "table": "t"}),
            "400 general_argument_invalid",
        ),
        (
            json!({"kind": "get", "table": "x", "id": "a"}),
            "404 table_not_found",
        ),
        (
            json!({"kind": "get", "table": "t", "id": "a", "tt": i64::MAX - 1}),
            "400 future_tt",
        ),
        (
            json!({"kind": "timeline", "table": "t", "fn": "count", "period": [5, 5]}),
            "400 invalid_range",
        ),
        (
            json!({"kind": "aggregate", "table": "t", "fn": "sum"}),
            "400 general_argument_invalid",
        ),
        (
            json!({"kind": "scan", "table": "t", "limit": 0}),
            "400 general_argument_invalid",
        ),
    ] {
        let refused = server.ask("POST", &path, &body.to_string());
        assert_eq!(refused.refusal(), refusal, "{body}");
    }
}

#[test]
fn constraints_are_declared_for_plain_columns_only() {
    let server = with_table();
    let path = format!("{BASE}/tables/t/constraints");
    let constrain = |body: Value| server.ask("PUT", &path, &body.to_string()).refusal();
    assert_eq!(constrain(json!({"unique": [["n"]]})), "200");
    assert_eq!(
        constrain(json!({"unique": [[]]})),
        "400 general_argument_invalid"
    );
    assert_eq!(
        constrain(json!({"unique": [["tags"]]})),
        "400 general_argument_invalid"
    );
    assert_eq!(
        constrain(json!({"unique": "n"})),
        "400 general_argument_invalid"
    );
    let refs = json!({"refs": [{"column": "n", "table": "t"}]});
    assert_eq!(constrain(refs), "400 general_argument_invalid");
    let twice = json!({"unique": [["n"], ["n"]]});
    assert_eq!(constrain(twice), "400 general_argument_invalid");
    let twice = json!({"unique": [["n", "n"]]});
    assert_eq!(constrain(twice), "400 general_argument_invalid");
    let many = json!({"refs": vec![json!({"column": "n", "table": "t"}); 21]});
    assert_eq!(constrain(many), "400 general_argument_invalid");
}

#[test]
fn records_of_commits_are_those_of_the_database() {
    let server = with_table();
    server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"e","name":"E"}"#);
    server.ask(
        "POST",
        "/v1/tablesdb/e/tables",
        r#"{"tableId":"t","name":"T"}"#,
    );
    let commit = |database: &str, id: &str| {
        let path = format!("/v1/tidemark/databases/{database}/transactions");
        let ops = json!([{"op": "put", "table": "t", "id": id, "doc": {}}]);
        let body = json!({"ops": ops, "meta": {"why": id}}).to_string();
        server.ask("POST", &path, &body).json()["tt"].clone()
    };
    let made = commit("d", "made");
    let theirs = commit("e", "theirs");
    let ours = commit("d", "ours");
    let row = r#"{"rowId":"plain","data":{"n":1}}"#;
    server.ask("POST", "/v1/tablesdb/d/tables/t/rows", row);
    let read = |read: Value| {
        let path = format!("{BASE}/reads");
        server.ask("POST", &path, &read.to_string()).json()["rows"].clone()
    };
    // Others' commits do not count towards the limit either.
    let feed = read(json!({"kind": "feed", "after": made, "limit": 1}));
    assert_eq!(feed[0]["tt"], ours);
    assert_eq!(feed[0]["meta"]["why"], "ours");
    let feed = read(json!({"kind": "feed", "after": made}));
    let changes: Vec<&Value> = feed.as_array().unwrap().iter().collect();
    assert_eq!(changes.len(), 2, "{feed}");
    assert_eq!(feed[1]["changes"], json!([["t", "plain"]]));
    assert_eq!(read(json!({"kind": "tx", "tt": theirs})), Value::Null);
}

#[test]
fn a_join_ends_where_it_has_too_many_pairs() {
    let server = with_table();
    let column = r#"{"key":"link","size":36,"required":false}"#;
    server.ask("POST", "/v1/tablesdb/d/tables/t/columns/string", column);
    let mut ops: Vec<Value> = (0..400)
        .map(|n| {
            let doc = json!({"link": "one"});
            json!({"op": "put", "table": "t", "id": format!("l{n}"), "doc": doc, "valid_from": 0})
        })
        .collect();
    ops.extend((0..300).map(|n| {
        let (from, to) = (n * 10, n * 10 + 10);
        json!({"op": "put", "table": "t", "id": "one", "doc": {"n": n},
            "valid_from": from, "valid_to": to})
    }));
    let made = server.ask(
        "POST",
        &format!("{BASE}/transactions"),
        &json!({ "ops": ops }).to_string(),
    );
    assert_eq!(made.status, 201, "{}", made.text);
    let join = |more: Value| {
        let mut read = json!({"kind": "join", "left": "t", "right": "t", "on": "link"});
        read["tt"] = more;
        server.ask("POST", &format!("{BASE}/reads"), &read.to_string())
    };
    let refused = join(Value::Null);
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(refused.text.contains("100000"), "{}", refused.text);
    let guest = server.ask_as(None, "POST", &format!("{BASE}/reads"), r#"{"kind":"feed"}"#);
    assert_eq!(guest.refusal(), "401 general_unauthorized_scope");
}

#[test]
fn a_server_says_what_it_is_and_is_not_reset() {
    let server = with_table();
    let reset = server.ask("POST", "/v1/tidemark/test/reset", "{}");
    assert_eq!(reset.refusal(), "404 general_route_not_found");
    let status = server.ask("GET", "/v1/tidemark/status", "").json();
    assert_eq!(status["role"], "both");
    assert!(status["horizon"].as_i64() >= status["mark"].as_i64());
    let beat = server.ask("POST", &format!("{BASE}/heartbeat"), "").json();
    assert!(beat["horizon"].as_i64() >= status["horizon"].as_i64());
}
