//! Answers about a past from which rows were erased since say so.

use serde_json::{Value, json};

use crate::fixture::TestServer;
use crate::relationships::{relate, server};

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
        // What was ever known of a row was known before the erasure, too.
        let looks_back = read["kind"] == "history" && read["table"] == "a";
        let wanted = if looks_back { json!(true) } else { Value::Null };
        assert_eq!(erased(&server, &read), wanted, "{read}");
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

fn encoded(query: &Value) -> String {
    let text = query.to_string();
    percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// A request for rows, and the header of its answer about an erased past.
#[track_caller]
fn headed(server: &TestServer, target: &str, queries: &[Value], status: u16) -> String {
    let queries = queries
        .iter()
        .map(|query| format!("queries[]={}", encoded(query)));
    let queries: Vec<String> = queries.collect();
    let target = format!("{target}?{}", queries.join("&"));
    let answer = server.ask("GET", &target, "");
    assert_eq!(answer.status, status, "{target}: {}", answer.text);
    answer.header("x-tidemark-erased").to_owned()
}

fn method(name: &str, values: &Value) -> Value {
    json!({"method": name, "values": values})
}

const ROWS: &str = "/v1/tablesdb/d/tables/a/rows";

fn as_of(mark: i64) -> Value {
    method("asOf", &json!([mark]))
}

fn of_row(id: &str) -> String {
    format!("{ROWS}/{id}")
}

/// Every way to look at what was known at a mark.
fn looking_back(mark: i64) -> [Vec<Value>; 6] {
    [
        vec![as_of(mark)],
        vec![as_of(mark), method("validAt", &json!([mark]))],
        vec![as_of(mark), method("validBetween", &json!([0, null]))],
        vec![as_of(mark), method("versions", &json!([]))],
        vec![method("systemBetween", &json!([mark, null]))],
        vec![as_of(mark), method("select", &json!(["n", "k.*"]))],
    ]
}

/// A server with a row in its table `a`, the mark at which another one was there as well, and that
/// of the erasure of the latter. Before it no answer said anything.
fn with_erased() -> (TestServer, i64, i64) {
    let server = server();
    relate(&server, "manyToOne", &json!({}));
    transact(&server, put("a", "gone"));
    transact(&server, put("b", "1"));
    let then = transact(&server, put("a", "1"));
    for queries in looking_back(then) {
        // The second answer comes from the cache.
        for _ in 0..2 {
            let said = headed(&server, ROWS, &queries, 200);
            assert_eq!(said, "", "{queries:?}");
        }
    }
    assert_eq!(headed(&server, &of_row("1"), &[as_of(then)], 200), "");
    let erased = transact(&server, json!({"op": "erase", "table": "a", "id": "gone"}));
    (server, then, erased)
}

#[test]
fn lists_and_rows_of_an_erased_past_say_so_by_a_header_also_from_the_cache() {
    let (server, then, _) = with_erased();
    for rows in [ROWS, "/v1/databases/d/collections/a/documents"] {
        for queries in looking_back(then) {
            for _ in 0..2 {
                let said = headed(&server, rows, &queries, 200);
                assert_eq!(said, "true", "{rows} {queries:?}");
            }
        }
    }
    let then = as_of(then);
    for (id, status) in [("1", 200), ("1", 200), ("gone", 404)] {
        let said = headed(&server, &of_row(id), std::slice::from_ref(&then), status);
        assert_eq!(said, "true", "{id}");
    }
    let staged = server.ask("POST", "/v1/tablesdb/transactions", "{}").json();
    let staged = staged["$id"].as_str().unwrap();
    let inside = format!("{ROWS}?queries[]={}&transactionId={staged}", encoded(&then));
    let answer = server.ask("GET", &inside, "");
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.header("x-tidemark-erased"), "true");
}

#[test]
fn lists_and_rows_that_look_no_further_back_than_an_erasure_do_not_speak_of_it() {
    let (server, then, erased) = with_erased();
    for queries in [
        vec![],
        vec![as_of(erased)],
        vec![method("validAt", &json!([then]))],
        vec![method("systemBetween", &json!([erased, null]))],
    ] {
        let said = headed(&server, ROWS, &queries, 200);
        assert_eq!(said, "", "{queries:?}");
    }
    for (id, queries, status) in [
        ("1", vec![], 200),
        ("gone", vec![], 404),
        ("gone", vec![as_of(erased)], 404),
    ] {
        assert_eq!(headed(&server, &of_row(id), &queries, status), "", "{id}");
    }
    // All that was ever known was known before it, too.
    let versions = [method("versions", &json!([]))];
    assert_eq!(headed(&server, ROWS, &versions, 200), "true");
}

#[test]
fn lists_with_related_rows_say_that_those_were_erased() {
    let server = server();
    relate(&server, "manyToOne", &json!({}));
    transact(&server, put("b", "1"));
    let then = transact(&server, put("a", "1"));
    transact(&server, json!({"op": "erase", "table": "b", "id": "1"}));
    let rows = "/v1/tablesdb/d/tables/a/rows";
    let as_of = method("asOf", &json!([then]));
    let related = method("select", &json!(["n", "k.*"]));
    assert_eq!(headed(&server, rows, std::slice::from_ref(&as_of), 200), "");
    assert_eq!(headed(&server, rows, &[as_of, related], 200), "true");
}

#[test]
fn parts_of_a_batch_that_name_an_erased_past_say_so() {
    let server = server();
    transact(&server, put("a", "gone"));
    transact(&server, put("a", "1"));
    let then = transact(&server, put("b", "1"));
    let part = |table: &str, more: Value| {
        let mut part = json!({"tableId": table, "ids": ["1", "gone"]});
        part.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        part
    };
    let parts = json!({"reads": [
        part("a", json!({})),
        part("a", json!({"asOf": then})),
        part("b", json!({"asOf": then})),
        part("a", json!({"validAt": then})),
    ]});
    let said = || {
        let answer = server.ask("POST", &format!("{BASE}/batch/reads"), &parts.to_string());
        assert_eq!(answer.status, 200, "{}", answer.text);
        let results = answer.json()["results"].as_array().unwrap().clone();
        results
            .iter()
            .map(|part| part["erased"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(said(), [Value::Null, Value::Null, Value::Null, Value::Null]);
    transact(&server, json!({"op": "erase", "table": "a", "id": "gone"}));
    assert_eq!(said(), [Value::Null, json!(true), Value::Null, Value::Null]);
}
