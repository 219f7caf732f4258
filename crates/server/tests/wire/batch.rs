//! Many reads and many writes in one request, and requests that are sent again.

use model::Timestamp;
use model::calendar::iso_us;
use serde_json::{Value, json};

use crate::fixture::{Answer, KEY, PROJECT, TestServer};

const READS: &str = "/v1/tidemark/databases/d/batch/reads";
const WRITES: &str = "/v1/tidemark/databases/d/batch/writes";
const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";

fn server() -> TestServer {
    let server = TestServer::start();
    server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    for (table, permissions) in [("t", r#"["read(\"any\")"]"#), ("hidden", "[]")] {
        let body = format!(
            r#"{{"tableId":"{table}","name":"T","permissions":{permissions},
                "columns":[{{"key":"n","type":"integer"}},
                    {{"key":"code","type":"varchar","size":20}}],
                "indexes":[{{"key":"one_code","type":"unique","attributes":["code"]}},
                    {{"key":"pair","type":"unique","attributes":["n","code"]}},
                    {{"key":"by_n","type":"key","attributes":["n"]}}]}}"#
        );
        let made = server.ask("POST", "/v1/tablesdb/d/tables", &body);
        assert_eq!(made.status, 201, "{}", made.text);
        let rows = json!({"rows": [
            {"$id": "a", "n": 1, "code": "ca"}, {"$id": "b", "n": 2, "code": "cb"},
        ]});
        let path = format!("/v1/tablesdb/d/tables/{table}/rows");
        assert_eq!(server.ask("POST", &path, &rows.to_string()).status, 201);
    }
    server
}

fn reads(server: &TestServer, parts: Value) -> Answer {
    server.ask("POST", READS, &json!({"reads": parts}).to_string())
}

fn writes(server: &TestServer, key: Option<&str>, body: Value) -> Answer {
    let mut headers = vec![("x-appwrite-project", PROJECT), ("x-appwrite-key", KEY)];
    headers.extend(key.map(|key| ("idempotency-key", key)));
    server.ask_with(&headers, "POST", WRITES, &body.to_string())
}

fn create(id: &str, code: &str) -> Value {
    json!({"action": "create", "tableId": "t", "rowId": id, "data": {"code": code}})
}

/// The ids of the rows of each part; the type of a refusal in the place of a part.
fn shown(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text);
    let json = answer.json();
    let part = |part: &Value| match part["rows"].as_array() {
        Some(rows) => rows.iter().map(|row| row["$id"].clone()).collect(),
        None => part["error"]["type"].clone(),
    };
    json["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(part)
        .collect()
}

#[test]
fn rows_are_read_by_ids_and_by_keys_in_the_order_asked_for() {
    let server = server();
    let answer = reads(
        &server,
        json!([
            {"tableId": "t", "ids": ["b", "none", "a", "b"]},
            {"tableId": "t", "index": "one_code", "keys": ["cb", ["ca"], "cx"]},
            {"tableId": "t", "index": "pair", "keys": [[2, "cb"], [1, "cb"]]},
            {"tableId": "hidden", "ids": ["a"]},
        ]),
    );
    let wanted = json!([["b", null, "a", "b"], ["b", "a", null], ["b", null], ["a"]]);
    assert_eq!(shown(&answer), wanted);
    let json = answer.json();
    let one = server.ask("GET", &format!("{ROWS}/b"), "").json();
    assert_eq!(json["results"][0]["rows"][0], one);
    assert!(json["mark"].as_i64().unwrap() > 0);
    let select = r#"{"method":"select","values":["n"]}"#;
    let part = json!([{"tableId": "t", "ids": ["a"], "queries": [select]}]);
    let selected = reads(&server, part).json();
    let wanted = json!({"$databaseId": "d", "$tableId": "t", "n": 1});
    assert_eq!(selected["results"][0]["rows"][0], wanted);
}

#[test]
fn fault_in_one_part_leaves_the_others_alone() {
    let server = server();
    let answer = reads(
        &server,
        json!([
            {"tableId": "none", "ids": ["a"]},
            {"tableId": "t", "index": "none", "keys": ["ca"]},
            {"tableId": "t", "index": "by_n", "keys": [1]},
            {"tableId": "t", "index": "pair", "keys": [1]},
            {"tableId": "t", "index": "one_code", "keys": [5]},
            {"tableId": "t", "ids": ["a"], "queries": ["x"]},
            {"tableId": "t", "ids": ["a"]},
        ]),
    );
    let wanted = json!([
        "table_not_found",
        "column_index_not_found",
        "index_invalid",
        "general_argument_invalid",
        "row_invalid_structure",
        "general_query_invalid",
        ["a"],
    ]);
    assert_eq!(shown(&answer), wanted);
    let none = reads(&server, json!([{"tableId": "none", "ids": ["a"]}]));
    assert_eq!(shown(&none), json!(["table_not_found"]));
}

#[test]
fn a_guest_reads_what_it_may() {
    let server = server();
    let body = json!({"reads": [
        {"tableId": "t", "ids": ["a"]}, {"tableId": "hidden", "ids": ["a", "b"]},
        {"tableId": "hidden", "index": "one_code", "keys": ["ca"]},
    ]});
    let answer = server.ask_as(None, "POST", READS, &body.to_string());
    assert_eq!(shown(&answer), json!([["a"], [null, null], [null]]));
    let body = json!({"operations": [create("x", "x")]}).to_string();
    let refused = server.ask_as(None, "POST", WRITES, &body);
    assert_eq!(refused.refusal(), "401 user_unauthorized");
}

#[test]
fn a_batch_has_one_mark_or_no_effect() {
    let server = server();
    let done = writes(
        &server,
        None,
        json!({"operations": [
            create("x", "x"),
            {"action": "increment", "tableId": "t", "rowId": "a", "data": {"column": "n"}},
            {"action": "delete", "tableId": "hidden", "rowId": "a"},
        ]}),
    );
    let json = done.json();
    let marks: Vec<&Value> = json["results"].as_array().unwrap().iter().collect();
    assert!(
        marks.len() == 3 && marks.iter().all(|mark| *mark == marks[0]),
        "{json}"
    );
    let refused = writes(
        &server,
        None,
        json!({"operations": [create("y", "y"), create("z", "x")]}),
    );
    assert_eq!(refused.refusal(), "409 row_unique_constraint_violation");
    assert_eq!(server.ask("GET", ROWS, "").json()["total"], 3);
}

#[test]
fn operations_each_on_its_own_are_answered_one_by_one() {
    let server = server();
    let mut operations: Vec<Value> = (0..250)
        .map(|n| create(&format!("r{n}"), &format!("c{n}")))
        .collect();
    operations[7] = create("r7", "ca");
    operations[8] = json!({"action": "update", "tableId": "t", "rowId": "a", "data": {"n": 1}});
    operations[9] = json!({"action": "delete", "tableId": "none", "rowId": "a"});
    let done = writes(
        &server,
        None,
        json!({"operations": operations, "atomic": false}),
    );
    assert_eq!(done.status, 200, "{}", done.text);
    let results = done.json()["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), 250);
    let error = |nth: usize| results[nth]["error"]["type"].clone();
    assert_eq!(error(7), "row_unique_constraint_violation");
    assert_eq!(results[8], json!({"mark": null}), "it changed nothing");
    assert_eq!(error(9), "table_not_found");
    let marks: Vec<i64> = results
        .iter()
        .filter_map(|one| one["mark"].as_i64())
        .collect();
    assert_eq!(marks.len(), 247);
    assert!(marks.is_sorted_by(|one, next| one < next), "marks rise");
    assert_eq!(server.ask("GET", ROWS, "").json()["total"], 249);
}

#[test]
fn the_same_key_gives_the_same_mark() {
    let server = server();
    for (key, is_atomic) in [("one", true), ("two", false)] {
        let operations = json!([
            create(key, key),
            {"action": "update", "tableId": "t", "rowId": "a", "data": {"n": 1}},
        ]);
        let body = json!({"operations": operations, "atomic": is_atomic});
        let first = writes(&server, Some(key), body.clone());
        assert_eq!(first.status, 200, "{}", first.text);
        let again = writes(&server, Some(key), body.clone());
        assert_eq!((first.text, first.status), (again.text, again.status));
        // Whatever the row is by now.
        server.ask("DELETE", &format!("{ROWS}/{key}"), "");
        let again = writes(&server, Some(key), body.clone()).json();
        assert_eq!(again["results"][0]["mark"], first_mark(&again));
        assert_eq!(server.ask("GET", &format!("{ROWS}/{key}"), "").status, 404);
        let mut other = body;
        other["operations"][0]["data"]["n"] = json!(5);
        let reused = writes(&server, Some(key), other).text;
        assert!(
            reused.contains("general_idempotency_key_reused"),
            "{reused}"
        );
    }
    // Of another caller the key is another one.
    let body = json!({"operations": [create("one", "one")]}).to_string();
    let headers = [("x-appwrite-project", PROJECT), ("idempotency-key", "one")];
    let guest = server.ask_with(&headers, "POST", WRITES, &body);
    assert_eq!(guest.refusal(), "401 user_unauthorized");
    for wrong in ["", "a b", &"x".repeat(129)] {
        let refused = writes(
            &server,
            Some(wrong),
            json!({"operations": [create("z", "z")]}),
        );
        assert_eq!(refused.refusal(), "400 general_argument_invalid", "{wrong}");
    }
}

fn first_mark(answer: &Value) -> Value {
    let mark = answer["results"][0]["mark"].clone();
    assert!(mark.is_i64(), "{answer}");
    mark
}

#[test]
fn refused_batch_can_be_sent_again_under_its_key() {
    let server = server();
    let body = json!({"operations": [create("x", "ca")]});
    let refused = writes(&server, Some("k"), body.clone());
    assert_eq!(refused.refusal(), "409 row_unique_constraint_violation");
    server.ask("DELETE", &format!("{ROWS}/a"), "");
    assert_eq!(writes(&server, Some("k"), body).status, 200);
}

#[test]
fn a_key_is_kept_for_an_hour() {
    let server = server();
    let change =
        json!({"action": "increment", "tableId": "t", "rowId": "a", "data": {"column": "n"}});
    let body = json!({"operations": [change]});
    let n = || server.ask("GET", &format!("{ROWS}/a"), "").json()["n"].clone();
    for (skip_s, wanted) in [(0, 2), (3_500, 2), (200, 3), (0, 3)] {
        server.skip_s(skip_s);
        assert_eq!(writes(&server, Some("k"), body.clone()).status, 200);
        assert_eq!(n(), wanted, "after {skip_s} s");
    }
}

/// A part that reads `a` and `b` at these times.
fn part(times: Value) -> Value {
    with(json!({"tableId": "t", "ids": ["a", "b"]}), &times)
}

/// A part that reads the row with this code.
fn by_key(key: &str, times: Value) -> Value {
    with(
        json!({"tableId": "t", "index": "one_code", "keys": [key]}),
        &times,
    )
}

fn with(mut part: Value, more: &Value) -> Value {
    let more = more.as_object().unwrap().clone();
    part.as_object_mut().unwrap().extend(more);
    part
}

#[test]
fn each_part_is_read_at_its_own_time() {
    let server = server();
    let row = format!("{ROWS}/a");
    let mark = |answer: &Answer| -> i64 { answer.header("x-tidemark-mark").parse().unwrap() };
    let first = mark(&server.ask("PATCH", &row, r#"{"data":{"n":10}}"#));
    let second = mark(&server.ask("PATCH", &row, r#"{"data":{"n":20,"code":"newer"}}"#));
    let later = r#"{"data":{"n":30,"$validFrom":"2100-01-01T00:00:00Z"}}"#;
    assert_eq!(server.ask("PATCH", &row, later).status, 200);
    server.ask("DELETE", &format!("{ROWS}/b"), "");
    let parts = json!([
        part(json!({})),
        part(json!({"asOf": first})),
        part(json!({"asOf": second, "validAt": second})),
        part(json!({"validAt": "2100-06-01"})),
        part(json!({"asOf": first - 1_000_000_000, "validAt": "min"})),
        by_key("ca", json!({"asOf": first})),
        by_key("ca", json!({})),
        by_key("newer", json!({"validAt": "2100-06-01"})),
        part(json!({"asOf": "9000-01-01"})),
    ]);
    let answer = reads(&server, parts);
    assert_eq!(answer.status, 200, "{}", answer.text);
    let results = answer.json()["results"].as_array().unwrap().clone();
    let shown = |nth: usize| -> Vec<Value> {
        let rows = results[nth]["rows"].as_array().unwrap();
        rows.iter().map(|row| row["n"].clone()).collect()
    };
    assert_eq!(shown(0), [json!(20), Value::Null]);
    assert_eq!(shown(1), [json!(10), json!(2)]);
    assert_eq!(shown(2), [json!(20), json!(2)]);
    assert_eq!(shown(3), [json!(30), Value::Null]);
    assert_eq!(shown(4), [Value::Null, Value::Null]);
    assert_eq!(shown(5), [json!(10)]);
    assert_eq!(shown(6), [Value::Null]);
    assert_eq!(shown(7), [json!(30)]);
    assert_eq!(results[8]["error"]["type"], "future_tt");
    assert_eq!(
        (&results[1]["asOf"], &results[1]["validAt"]),
        (
            &json!(iso_us(Timestamp(first))),
            &json!(iso_us(Timestamp(first)))
        )
    );
    assert!(results[0].get("asOf").is_none(), "{}", results[0]);
    assert_eq!(
        results[3]["rows"][0]["$validFrom"],
        "2100-01-01T00:00:00.000000+00:00"
    );
    // What is given back is answered again, whatever has happened since.
    let again = json!([
        part(json!({"asOf": results[3]["asOf"], "validAt": results[3]["validAt"]})),
        part(json!({"asOf": results[4]["asOf"], "validAt": results[4]["validAt"]})),
    ]);
    server.ask("DELETE", &row, "");
    let again = reads(&server, again).json();
    assert_eq!(again["results"][0], results[3]);
    assert_eq!(again["results"][1], results[4]);
    // As the routes of rows show it.
    let query =
        format!("queries[0]=%7B%22method%22%3A%22asOf%22%2C%22values%22%3A%5B{first}%5D%7D");
    let one = server.ask("GET", &format!("{row}?{query}"), "").json();
    assert_eq!(results[1]["rows"][0], one);
    let guest = json!({"reads": [{"tableId": "hidden", "ids": ["a"], "asOf": first}]});
    let guest = server.ask_as(None, "POST", READS, &guest.to_string());
    assert_eq!(guest.json()["results"][0]["rows"], json!([null]));
}
