//! Related rows that are selected inside a transaction are those that its commit would leave.

use crate::fixture::{Answer, TestServer};
use crate::relationships::{ROOTS, made, relate, related_server, server};
use serde_json::{Value, json};

fn open(server: &TestServer) -> String {
    let made = server.ask("POST", "/v1/tablesdb/transactions", "{}");
    made.json()["$id"].as_str().unwrap().to_owned()
}

fn stage(server: &TestServer, id: &str, operations: Value) {
    let path = format!("/v1/tablesdb/transactions/{id}/operations");
    let staged = server.ask(
        "POST",
        &path,
        &json!({"operations": operations}).to_string(),
    );
    assert_eq!(staged.status, 201, "{}", staged.text);
}

fn op(action: &str, table: &str, row: &str, data: Value) -> Value {
    json!({"action": action, "databaseId": "d", "tableId": table, "rowId": row, "data": data})
}

/// Rows of `table` in either family, with everything that is related, inside a transaction or not.
fn read(server: &TestServer, root: &str, row: &str, transaction: &str) -> Answer {
    let query = r#"{"method":"select","values":["*","k.*"]}"#;
    let query = percent_encoding::utf8_percent_encode(query, percent_encoding::NON_ALPHANUMERIC);
    server.ask(
        "GET",
        &format!("{root}{row}?queries[0]={query}&transactionId={transaction}"),
        "",
    )
}

#[test]
fn related_rows_are_as_the_commit_would_leave_them() {
    let server = related_server();
    made(&server, "a", "a2", &json!({"n": 2}));
    let id = open(&server);
    let inside = |root: &str, row: &str| read(&server, root, row, &id).json();
    for (root, rows) in ROOTS {
        // Before anything is staged it is what everybody sees.
        assert_eq!(inside(root, "")[rows][0]["k"]["n"], 1);
    }
    stage(
        &server,
        &id,
        json!([
            op("update", "b", "b1", json!({"n": 10})),
            op("update", "a", "a2", json!({"k": {"$id": "b3", "n": 30}})),
            op("create", "a", "a3", json!({"n": 3, "k": "b2"})),
        ]),
    );
    for (root, rows) in ROOTS {
        let list = inside(root, "");
        let shown: Vec<_> = list[rows]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| &row["k"]["n"])
            .collect();
        assert_eq!(shown, [10, 30, 2], "{list}");
        assert_eq!(list["total"], 3);
        assert_eq!(inside(root, "/a2")["k"]["$id"], "b3");
        let outside = read(&server, root, "", "").json();
        let shown: Vec<_> = outside[rows]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| &row["k"]["n"])
            .collect();
        assert_eq!(shown, [&json!(1), &Value::Null], "{outside}");
    }
    // From the other end, two levels deep.
    let query = r#"{"method":"select","values":["n","as.n","as.k.n"]}"#;
    let query = percent_encoding::utf8_percent_encode(query, percent_encoding::NON_ALPHANUMERIC);
    let path = format!("/v1/tablesdb/d/tables/b/rows/b3?queries[0]={query}&transactionId={id}");
    let b3 = server.ask("GET", &path, "").json();
    assert_eq!(
        (&b3["as"][0]["n"], &b3["as"][0]["k"]["n"]),
        (&json!(2), &json!(30)),
        "{b3}"
    );
    let path = format!("/v1/tablesdb/transactions/{id}");
    assert_eq!(server.ask("PATCH", &path, r#"{"commit":true}"#).status, 200);
    assert_eq!(read(&server, ROOTS[0].0, "/a2", "").json()["k"]["n"], 30);
}

#[test]
fn related_rows_inside_have_the_limits_of_those_outside() {
    let server = server();
    relate(
        &server,
        "oneToMany",
        &json!({"twoWay": true, "twoWayKey": "as"}),
    );
    made(
        &server,
        "a",
        "a1",
        &json!({"n": 1, "k": [{"$id": "b1", "n": 2}]}),
    );
    let id = open(&server);
    stage(
        &server,
        &id,
        json!([op("update", "b", "b1", json!({"n": 3}))]),
    );
    let ask = |path: &str, select: Value| {
        let query = json!({"method": "select", "values": select}).to_string();
        let query =
            percent_encoding::utf8_percent_encode(&query, percent_encoding::NON_ALPHANUMERIC);
        server.ask(
            "GET",
            &format!("{path}?queries[0]={query}&transactionId={id}"),
            "",
        )
    };
    let root = ROOTS[0].0;
    assert_eq!(ask(root, json!(["k.n"])).json()["rows"][0]["k"][0]["n"], 3);
    let deep = ask(root, json!(["k.as.k.as.n"]));
    assert_eq!(deep.refusal(), "400 general_query_invalid");
    let missing = ask(&format!("{root}/none"), json!(["k.n"]));
    assert_eq!(missing.refusal(), "404 row_not_found");
    let gone = format!(
        "{root}?queries[0]=%7B%22method%22:%22select%22,%22values%22:[%22k.n%22]%7D&transactionId=none"
    );
    assert_eq!(
        server.ask("GET", &gone, "").refusal(),
        "404 transaction_not_found"
    );
}
