//! The feed and the difference of two times, of one row or table alone.

use serde_json::{Value, json};

use crate::fixture::TestServer;
use crate::relationships::server;

const BASE: &str = "/v1/tidemark/databases/d";

#[track_caller]
fn transact(server: &TestServer, ops: &Value) -> i64 {
    let path = format!("{BASE}/transactions");
    let made = server.ask("POST", &path, &json!({"ops": ops}).to_string());
    assert_eq!(made.status, 201, "{}", made.text);
    made.json()["tt"].as_i64().unwrap()
}

fn put(table: &str, id: &str, n: i64) -> Value {
    json!({"op": "put", "table": table, "id": id, "doc": {"n": n}})
}

#[track_caller]
fn rows(server: &TestServer, read: &Value) -> Vec<Value> {
    let answer = server.ask("POST", &format!("{BASE}/reads"), &read.to_string());
    assert_eq!(answer.status, 200, "{read}: {}", answer.text);
    answer.json()["rows"].as_array().unwrap().clone()
}

#[test]
fn feed_is_filtered_by_a_table_and_by_a_row() {
    let server = server();
    let both = transact(&server, &json!([put("a", "1", 1), put("b", "1", 1)]));
    let other = transact(&server, &json!([put("a", "2", 1)]));
    let again = transact(&server, &json!([put("a", "1", 2)]));
    transact(&server, &json!([put("b", "2", 1)]));
    let marks = |read: Value| {
        let mut read = read;
        read["kind"] = json!("feed");
        let rows = rows(&server, &read);
        rows.iter()
            .map(|row| row["tt"].as_i64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(marks(json!({"table": "a", "id": "1"})), [both, again]);
    assert_eq!(marks(json!({"table": "a"})), [both, other, again]);
    assert_eq!(marks(json!({"table": "a", "id": "1", "limit": 1})), [both]);
    assert_eq!(
        marks(json!({"table": "a", "id": "1", "after": both})),
        [again]
    );
    assert_eq!(marks(json!({"table": "a", "id": "never"})), [0; 0]);
    // A record stays whole.
    let first = rows(
        &server,
        &json!({"kind": "feed", "tableId": "a", "rowId": "1", "limit": 1}),
    );
    let changes = first[0]["changes"].as_array().unwrap();
    assert_eq!(changes.len(), 2);
    for (read, status, part) in [
        (json!({"kind": "feed", "id": "1"}), 400, "table"),
        (json!({"kind": "feed", "table": "nowhere"}), 404, "nowhere"),
        (
            json!({"kind": "feed", "table": "a", "id": "no id!"}),
            400,
            "id",
        ),
    ] {
        let answer = server.ask("POST", &format!("{BASE}/reads"), &read.to_string());
        assert_eq!(answer.status, status, "{}", answer.text);
        assert!(answer.text.contains(part), "{}", answer.text);
    }
}

#[test]
fn diff_is_of_one_row_where_one_is_named() {
    let server = server();
    let from = transact(&server, &json!([put("a", "1", 1), put("a", "2", 1)]));
    transact(&server, &json!([put("a", "1", 2), put("a", "2", 2)]));
    let diff = |id: &str| {
        let diff = json!({"kind": "diff", "table": "a", "id": id, "from": {"tt": from}, "to": {}});
        rows(&server, &diff)
    };
    let shown = diff("1");
    assert_eq!(shown.len(), 1);
    assert_eq!(
        (&shown[0]["id"], &shown[0]["after"]["n"]),
        (&json!("1"), &json!(2))
    );
    assert_eq!(diff("never"), [Value::Null; 0]);
}
