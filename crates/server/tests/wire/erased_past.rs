//! Answers about a past from which rows were erased since say so.

use serde_json::{Value, json};

use crate::fixture::TestServer;
use crate::relationships::server;

const BASE: &str = "/v1/tidemark/databases/d";

#[track_caller]
fn transact(server: &TestServer, op: Value) -> i64 {
    let path = format!("{BASE}/transactions");
    let made = server.ask("POST", &path, &json!({"ops": [op]}).to_string());
    assert_eq!(made.status, 201, "{}", made.text);
    made.json()["tt"].as_i64().unwrap()
}

fn put(table: &str, id: &str) -> Value {
    json!({"op": "put", "table": table, "id": id, "doc": {"n": 1}})
}

#[track_caller]
fn erased(server: &TestServer, read: &Value) -> Value {
    let answer = server.ask("POST", &format!("{BASE}/reads"), &read.to_string());
    assert_eq!(answer.status, 200, "{read}: {}", answer.text);
    answer.json()["erased"].clone()
}

/// A read of each kind, of a table at a mark.
fn of(table: &str, tt: i64) -> [Value; 8] {
    let period = json!([0, null]);
    [
        json!({"kind": "get", "table": table, "id": "1", "tt": tt}),
        json!({"kind": "scan", "table": table, "tt": tt}),
        json!({"kind": "aggregate", "table": table, "fn": "count", "tt": tt}),
        json!({"kind": "history", "table": table, "id": "1", "axis": "both", "tt": tt}),
        json!({"kind": "period", "table": table, "relation": "overlaps", "period": period,
            "tt": tt, "limit": 1}),
        json!({"kind": "join", "left": "b", "right": table, "on": "k", "tt": tt}),
        json!({"kind": "timeline", "table": table, "fn": "count", "period": period, "tt": tt}),
        json!({"kind": "diff", "table": table, "from": {"tt": tt}, "to": {"tt": tt}}),
    ]
}

#[test]
fn answers_of_an_erased_past_say_so_and_others_do_not() {
    let server = server();
    transact(&server, put("a", "gone"));
    transact(&server, put("b", "1"));
    let before = transact(&server, put("a", "1"));
    let column = r#"{"key":"k","size":36,"required":false}"#;
    server.ask("POST", "/v1/tablesdb/d/tables/b/columns/string", column);
    let later = transact(&server, put("c", "1"));
    for read in of("a", later)
        .iter()
        .chain(&[json!({"kind": "tx", "tt": before})])
    {
        assert_eq!(erased(&server, read), Value::Null, "{read}");
    }
    let erase = |table: &str, id: &str| json!({"op": "erase", "table": table, "id": id});
    // Of a row that never was there is nothing to say.
    transact(&server, erase("a", "never"));
    assert_eq!(erased(&server, &of("a", later)[1]), Value::Null);
    let mark = transact(&server, erase("a", "gone"));
    for read in of("a", later) {
        assert_eq!(erased(&server, &read), json!(true), "{read}");
    }
    for read in of("a", mark)
        .into_iter()
        .chain(of("b", later).into_iter().take(5))
    {
        assert_eq!(erased(&server, &read), Value::Null, "{read}");
    }
    assert_eq!(
        erased(
            &server,
            &json!({"kind": "diff", "table": "a", "from": {"tt": later},
        "to": {"tt": mark}})
        ),
        json!(true)
    );
    assert_eq!(
        erased(&server, &json!({"kind": "tx", "tt": before})),
        json!(true)
    );
    assert_eq!(
        erased(&server, &json!({"kind": "tx", "tt": mark})),
        Value::Null
    );
    assert_eq!(erased(&server, &json!({"kind": "feed"})), json!(true));
    let in_our_words = json!({"kind": "feed", "asOf": mark});
    assert_eq!(erased(&server, &in_our_words), json!(true));
    assert_eq!(
        erased(&server, &json!({"kind": "feed", "after": later})),
        json!(true)
    );
    assert_eq!(
        erased(&server, &json!({"kind": "feed", "after": mark - 1})),
        Value::Null
    );
    // A table that is made again under its id has no such past.
    assert_eq!(
        server.ask("DELETE", "/v1/tablesdb/d/tables/a", "").status,
        204
    );
    let again = r#"{"tableId":"a","name":"a","columns":[{"key":"n","type":"integer"}]}"#;
    assert_eq!(
        server.ask("POST", "/v1/tablesdb/d/tables", again).status,
        201
    );
    assert_eq!(erased(&server, &of("a", later)[1]), Value::Null);
}
