//! A project that is full: whatever adds bytes to it is refused, whatever makes room is done.

use engine::Quotas;
use serde_json::json;

use crate::fixture::{Answer, KEY, PROJECT, QUOTAS, TestServer};

const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";
const BESIDE: &str = "/v1/tablesdb/d/tables/beside/rows";
const OWN: &str = "/v1/tidemark/databases/d";
const BYTES_MAX: u64 = 20_000;
/// What a version of [`insert`] counts: its text, a number, and what stands beside them.
const VERSION_BYTES: u64 = 1_000 + 8 + 100;

fn server() -> TestServer {
    let server = TestServer::start_within(Quotas {
        project_bytes: BYTES_MAX,
        ..QUOTAS
    });
    let made = server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    assert_eq!(made.status, 201, "{}", made.text);
    for id in ["t", "beside"] {
        let table = json!({"tableId": id, "name": "T", "columns": [
            {"key": "n", "type": "integer"}, {"key": "s", "type": "longtext"}]});
        let made = server.ask("POST", "/v1/tablesdb/d/tables", &table.to_string());
        assert_eq!(made.status, 201, "{}", made.text);
    }
    server
}

fn text() -> String {
    "x".repeat(1_000)
}

fn insert(server: &TestServer, rows: &str, id: &str) -> Answer {
    let row = json!({"rowId": id, "data": {"n": 1, "s": text()}});
    server.ask("POST", rows, &row.to_string())
}

#[track_caller]
fn is_full(refused: &Answer, what: &str) {
    assert_eq!(refused.refusal(), "507 general_quota_exceeded", "{what}");
    let (held, max) = (" bytes; it stores ", BYTES_MAX.to_string());
    assert!(refused.text.contains(held), "{what}: {}", refused.text);
    assert!(refused.text.contains(&max), "{what}: {}", refused.text);
}

/// Inserts rows until no more is taken: how many were.
fn fill(server: &TestServer, rows: &str) -> u64 {
    for nth in 0..100 {
        let made = insert(server, rows, &format!("r{nth}"));
        if made.status != 201 {
            is_full(&made, "insert");
            return nth;
        }
    }
    panic!("nothing was refused");
}

fn bytes(server: &TestServer) -> u64 {
    let taken = server.engine.taken();
    assert_eq!(taken.project_bytes_max, BYTES_MAX);
    assert_eq!(taken.project_bytes[0].0.as_str(), PROJECT);
    taken.project_bytes[0].1
}

fn transact(server: &TestServer, ops: &serde_json::Value) -> Answer {
    let path = format!("{OWN}/transactions");
    server.ask("POST", &path, &json!({"ops": ops}).to_string())
}

fn erase(server: &TestServer, ids: &[&str]) {
    let ops = ids
        .iter()
        .map(|id| json!({"op": "erase", "table": "t", "id": id}));
    let erased = transact(server, &ops.collect());
    assert_eq!(erased.status, 201, "{}", erased.text);
}

/// A transaction that inserts a row, which is staged.
fn staged(server: &TestServer) -> String {
    let opened = server.ask("POST", "/v1/tablesdb/transactions", "{}").json();
    let path = format!(
        "/v1/tablesdb/transactions/{}",
        opened["$id"].as_str().unwrap()
    );
    let row = json!({"action": "create", "databaseId": "d", "tableId": "t", "rowId": "staged",
        "data": {"n": 1, "s": text()}});
    let operations = json!({"operations": [row]}).to_string();
    let staged = server.ask("POST", &format!("{path}/operations"), &operations);
    assert_eq!(staged.status, 201, "{}", staged.text);
    path
}

#[test]
fn full_project_refuses_every_write_that_adds_bytes() {
    let server = server();
    let count = fill(&server, ROWS);
    assert_eq!(count, BYTES_MAX / VERSION_BYTES);
    assert_eq!(bytes(&server), count * VERSION_BYTES);
    let before = server.ask("GET", ROWS, "").text;
    let row = format!("{ROWS}/r0");
    let many = json!({"rows": [{"$id": "x", "s": text()}, {"$id": "y", "n": 1}]});
    let period =
        json!({"data": {"s": text(), "$validFrom": "2020-01-01", "$validTo": "2021-01-01"}});
    let scheduled = json!({"data": {"s": "later", "$validFrom": "2100-01-01"}});
    let put = json!({"ops": [{"op": "put", "table": "t", "id": "z", "doc": {"s": text()}}]});
    for (method, path, body) in [
        ("POST", BESIDE, json!({"rowId": "r", "data": {"s": text()}})),
        ("POST", ROWS, many.clone()),
        ("PUT", ROWS, many),
        ("PUT", &format!("{ROWS}/z"), json!({"data": {"s": text()}})),
        ("PATCH", &row, json!({"data": {"n": 2}})),
        ("PUT", &row, period),
        ("PATCH", &row, scheduled),
        ("PATCH", &format!("{row}/n/increment"), json!({"value": 1})),
        ("PATCH", ROWS, json!({"data": {"n": 2}})),
        ("POST", &format!("{OWN}/transactions"), put),
    ] {
        let refused = server.ask(method, path, &body.to_string());
        is_full(&refused, &format!("{method} {path} {body}"));
    }
    assert_eq!(server.ask("GET", ROWS, "").text, before);
    assert_eq!(bytes(&server), count * VERSION_BYTES);
    assert_eq!(server.engine.taken().project_bytes_refused, 11);
    // It is as full after a restart.
    let server = server.restart();
    is_full(&insert(&server, BESIDE, "r"), "after a restart");
}

#[test]
fn full_project_refuses_encrypted_values_too() {
    let server = server();
    let hidden = json!({"key": "hidden", "required": false, "encrypt": true});
    let path = "/v1/tablesdb/d/tables/t/columns/longtext";
    server.make("POST", path, &hidden);
    fill(&server, ROWS);
    let hidden = json!({"data": {"n": 2, "hidden": "y".repeat(900)}});
    let refused = server.ask("PATCH", &format!("{ROWS}/r0"), &hidden.to_string());
    is_full(&refused, "an encrypted value");
}

#[test]
fn deleted_rows_keep_their_bytes_and_erased_rows_free_them() {
    let server = server();
    fill(&server, ROWS);
    let path = staged(&server);
    let commit = || server.ask("PATCH", &path, r#"{"commit":true}"#);
    is_full(&commit(), "commit");
    let deleted = server.ask("DELETE", &format!("{ROWS}/r0"), "");
    assert_eq!(deleted.status, 204, "{}", deleted.text);
    is_full(&insert(&server, ROWS, "new"), "its past is there");
    let held = bytes(&server);
    erase(&server, &["r0"]);
    assert_eq!(bytes(&server), held - VERSION_BYTES);
    assert_eq!(insert(&server, ROWS, "new").status, 201);
    is_full(&insert(&server, ROWS, "newer"), "full again");
    erase(&server, &["r1"]);
    let committed = commit();
    assert_eq!(committed.status, 200, "{}", committed.text);
    assert_eq!(bytes(&server), held);
}

#[test]
fn a_table_that_is_deleted_or_lets_go_of_its_past_makes_room() {
    let server = server();
    let count = fill(&server, BESIDE);
    is_full(&insert(&server, ROWS, "r"), "of one project");
    let dropped = server.ask("DELETE", "/v1/tablesdb/d/tables/beside", "");
    assert_eq!(dropped.status, 204, "{}", dropped.text);
    assert_eq!(fill(&server, ROWS), count);
    // Deleted rows are past; without it there is room, as soon as it is let go of.
    let deleted = server.ask("DELETE", ROWS, "{}");
    assert_eq!(deleted.status, 200, "{}", deleted.text);
    is_full(&insert(&server, ROWS, "new"), "past");
    let kept = server.ask(
        "PATCH",
        &format!("{OWN}/tables/t/options"),
        r#"{"history":"none"}"#,
    );
    assert_eq!(kept.status, 200, "{}", kept.text);
    while insert(&server, ROWS, "new").status == 507 {
        std::thread::yield_now();
    }
    while bytes(&server) > VERSION_BYTES {
        std::thread::yield_now();
    }
    assert_eq!(bytes(&server), VERSION_BYTES);
}

fn once(server: &TestServer, key: &str, body: &serde_json::Value) -> Answer {
    let headers = [
        ("x-appwrite-project", PROJECT),
        ("x-appwrite-key", KEY),
        ("idempotency-key", key),
    ];
    server.ask_with(&headers, "POST", ROWS, &body.to_string())
}

#[test]
fn a_request_that_has_run_is_answered_so_in_a_full_project() {
    for quotas in [
        Quotas {
            project_rows: 1,
            ..QUOTAS
        },
        Quotas {
            project_bytes: 150,
            ..QUOTAS
        },
    ] {
        // No answer is kept.
        let server = TestServer::start_within(Quotas {
            key_answers_bytes: 0,
            ..quotas
        });
        let table = r#"{"tableId":"t","name":"T","columns":[{"key":"n","type":"integer"}]}"#;
        server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
        assert_eq!(
            server.ask("POST", "/v1/tablesdb/d/tables", table).status,
            201
        );
        let row = |id: &str| json!({"rowId": id, "data": {"n": 1}});
        assert_eq!(once(&server, "k1", &row("a")).status, 201);
        let again = once(&server, "k1", &row("a"));
        assert_eq!(again.refusal(), "409 general_idempotency_key_reused");
        let other = once(&server, "k1", &row("b"));
        assert_eq!(other.refusal(), "409 general_idempotency_key_reused");
        for _ in 0..2 {
            let full = once(&server, "k2", &row("b"));
            assert_eq!(full.refusal(), "507 general_quota_exceeded");
        }
        let taken = server.engine.taken();
        assert_eq!(taken.rows_refused + taken.project_bytes_refused, 2);
    }
}
