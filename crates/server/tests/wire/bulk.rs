//! Many rows at once, counting columns, operators, and rows that another writer has changed.

use crate::fixture::{Answer, KEY, PROJECT, ROWS_KEY, TestServer};
use serde_json::{Value, json};

const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";
const DOCUMENTS: &str = "/v1/databases/d/collections/t/documents";

fn server() -> TestServer {
    let server = TestServer::start();
    server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    let table = r#"{
        "tableId": "t", "name": "T", "permissions": ["read(\"any\")", "create(\"any\")"],
        "rowSecurity": true,
        "columns": [
            {"key": "name", "type": "varchar", "size": 20, "required": true},
            {"key": "n", "type": "integer"},
            {"key": "small", "type": "integer", "min": -5, "max": 10, "default": 3},
            {"key": "price", "type": "double"},
            {"key": "done", "type": "boolean"},
            {"key": "code", "type": "varchar", "size": 20},
            {"key": "tags", "type": "varchar", "size": 5, "array": true},
            {"key": "at", "type": "datetime"}
        ],
        "indexes": [{"key": "one_code", "type": "unique", "attributes": ["code"]},
            {"key": "words", "type": "fulltext", "attributes": ["name"]}]
    }"#;
    let made = server.ask("POST", "/v1/tablesdb/d/tables", table);
    assert_eq!(made.status, 201, "{}", made.text);
    server
}

/// Rows `r0`, `r1` … with `n` from 0 on.
fn site_with(rows: usize) -> TestServer {
    let server = server();
    let row = |n| json!({"$id": format!("r{n}"), "name": format!("row {n}"), "n": n});
    for from in (0..rows).step_by(100) {
        let some: Vec<Value> = (from..rows.min(from + 100)).map(row).collect();
        let made = server.ask("POST", ROWS, &json!({"rows": some}).to_string());
        assert_eq!(made.status, 201, "{}", made.text);
    }
    server
}

fn query(method: &str, attribute: &str, values: &Value) -> String {
    json!({"method": method, "attribute": attribute, "values": values}).to_string()
}

#[track_caller]
fn ids(answer: &Answer, key: &str) -> Vec<String> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    let json = answer.json();
    let rows = json[key].as_array().unwrap().iter();
    rows.map(|row| row["$id"].as_str().unwrap().to_owned())
        .collect()
}

fn get(server: &TestServer, id: &str) -> Value {
    server.ask("GET", &format!("{ROWS}/{id}"), "").json()
}

fn operator(method: &str, values: &Value) -> String {
    json!({"method": method, "values": values}).to_string()
}

#[track_caller]
fn refused(answer: &Answer, refusal: &str, fragment: &str) {
    assert_eq!(answer.refusal(), refusal, "{}", answer.text);
    let said = answer.json()["message"].as_str().unwrap().to_owned();
    assert!(said.contains(fragment), "{said}");
}

#[test]
fn an_update_of_many_changes_what_matches_and_says_how_many() {
    let server = site_with(5);
    let body = json!({
        "data": {"price": 2.5, "$permissions": ["read(\"any\")"]},
        "queries": [query("greaterThan", "n", &json!([2]))],
    });
    let changed = server.ask("PATCH", ROWS, &body.to_string());
    assert_eq!(ids(&changed, "rows"), ["r3", "r4"]);
    let json = changed.json();
    assert_eq!(
        (&json["total"], &json["rows"][1]["price"]),
        (&json!(2), &json!(2.5))
    );
    assert_eq!(json["rows"][0]["$permissions"], json!(["read(\"any\")"]));
    assert_eq!(get(&server, "r3"), json["rows"][0]);
    assert_eq!(get(&server, "r2")["price"], Value::Null);
    // No queries: every row. `data` may come as a text.
    let all = server.ask("PATCH", ROWS, r#"{"data":"{\"done\":true}"}"#);
    assert_eq!(all.json()["total"], 5);
    assert_eq!(get(&server, "r0")["done"], true);
}

#[test]
fn a_deletion_of_many_shows_the_rows_as_they_were() {
    let server = site_with(5);
    let order = json!({"method": "orderDesc", "attribute": "n"}).to_string();
    let two = json!({"method": "limit", "values": [2]}).to_string();
    let body = json!({"queries": [order, two]}).to_string();
    let gone = server.ask("DELETE", ROWS, &body);
    assert_eq!(ids(&gone, "rows"), ["r4", "r3"]);
    assert_eq!(gone.json()["rows"][0]["n"], 4);
    assert_eq!(gone.json()["rows"][0]["tags"], json!([]));
    assert_eq!(
        ids(&server.ask("GET", ROWS, ""), "rows"),
        ["r0", "r1", "r2"]
    );
    let rest = server.ask("DELETE", ROWS, "{}");
    assert_eq!(rest.json()["total"], 3);
    let none = server.ask("DELETE", ROWS, "");
    assert_eq!(none.json(), json!({"total": 0, "rows": []}));
}

#[test]
fn queries_of_the_query_string_bound_a_deletion_too() {
    let server = site_with(3);
    let query = query("equal", "n", &json!([1]));
    let encoded = percent_encoding::utf8_percent_encode(&query, percent_encoding::NON_ALPHANUMERIC);
    let gone = server.ask("DELETE", &format!("{ROWS}?queries[0]={encoded}"), "{}");
    assert_eq!(ids(&gone, "rows"), ["r1"]);
}

#[test]
fn words_choose_rows_and_follow_what_is_done_to_them() {
    let server = site_with(12);
    let one = json!({"queries": [query("search", "name", &json!(["1"]))]});
    let mut body = one.clone();
    body["data"] = json!({"name": operator("stringReplace", &json!(["row", "line"]))});
    let changed = server.ask("PATCH", ROWS, &body.to_string());
    // One digit is a whole word.
    assert_eq!(ids(&changed, "rows"), ["r1"]);
    let lines = json!({"queries": [query("search", "name", &json!(["line"]))]});
    let gone = server.ask("DELETE", ROWS, &lines.to_string());
    assert_eq!(ids(&gone, "rows"), ["r1"]);
    assert_eq!(
        server.ask("DELETE", ROWS, &one.to_string()).json()["total"],
        0
    );
}

#[test]
fn a_hundred_rows_are_shown_and_all_are_counted() {
    let server = site_with(250);
    let changed = server.ask("PATCH", ROWS, r#"{"data":{"done":true}}"#);
    assert_eq!(changed.json()["total"], 250);
    let shown = ids(&changed, "rows");
    assert_eq!((shown.len(), shown[99].as_str()), (100, "r99"));
    let gone = server.ask("DELETE", ROWS, "{}");
    assert_eq!(gone.json()["total"], 250);
    assert_eq!(ids(&gone, "rows").len(), 100);
}

#[test]
fn slices_reach_every_row_once() {
    let server = site_with(2_300);
    let more = json!({"data": {"n": operator("increment", &json!([1]))}}).to_string();
    let changed = server.ask("PATCH", ROWS, &more);
    assert_eq!(changed.json()["total"], 2_300, "{:.300}", changed.text);
    for n in [0, 999, 1_000, 1_001, 2_000, 2_299] {
        assert_eq!(get(&server, &format!("r{n}"))["n"], n + 1);
    }
    // An offset and a limit count over slices.
    let body = json!({
        "data": {"price": 1},
        "queries": [
            json!({"method": "offset", "values": [200]}).to_string(),
            json!({"method": "limit", "values": [1_500]}).to_string(),
        ],
    });
    let some = server.ask("PATCH", ROWS, &body.to_string());
    assert_eq!(some.json()["total"], 1_500);
    for (n, price) in [(199, Value::Null), (200, json!(1.0)), (1_699, json!(1.0))] {
        assert_eq!(get(&server, &format!("r{n}"))["price"], price);
    }
    assert_eq!(get(&server, "r1700")["price"], Value::Null);
    // A slice that fails says what was done before it.
    let body = r#"{"data":{"small":"{\"method\":\"increment\",\"values\":[5]}"}}"#;
    server.ask("PATCH", &format!("{ROWS}/r1500"), r#"{"data":{"small":9}}"#);
    let stopped = server.ask("PATCH", ROWS, body);
    refused(
        &stopped,
        "400 row_invalid_structure",
        "Before that, 1000 rows were changed.",
    );
    assert_eq!(
        ["r999", "r1000", "r1500"].map(|id| get(&server, id)["small"].as_i64().unwrap()),
        [8, 3, 9]
    );
}

#[test]
fn an_upsert_of_many_creates_merges_and_names() {
    let server = site_with(2);
    let body = json!({"rows": [
        {"$id": "r1", "n": operator("increment", &json!([10]))},
        {"$id": "new", "name": "x", "small": operator("increment", &json!([4])),
            "n": operator("increment", &json!([2])), "$permissions": ["read(\"any\")"]},
        {"name": "y"},
    ]});
    let put = server.ask("PUT", ROWS, &body.to_string());
    let shown = ids(&put, "rows");
    assert_eq!((&*shown[0], &*shown[1], shown[2].len()), ("r1", "new", 20));
    let json = put.json();
    assert_eq!(json["total"], 3);
    assert_eq!(
        (&json["rows"][0]["n"], &json["rows"][0]["name"]),
        (&json!(11), &json!("row 1"))
    );
    // An operator on a new row goes on from the default, or else from nothing.
    assert_eq!(
        (&json["rows"][1]["small"], &json["rows"][1]["n"]),
        (&json!(7), &json!(2))
    );
    assert_eq!(json["rows"][1]["$permissions"], json!(["read(\"any\")"]));
    assert_eq!(get(&server, "new"), json["rows"][1]);
    // All or none.
    let body = r#"{"rows":[{"$id":"r0","n":50},{"$id":"bad","n":1}]}"#;
    let refusal = server.ask("PUT", ROWS, body);
    refused(&refusal, "400 row_invalid_structure", "\"name\"");
    assert_eq!(get(&server, "r0")["n"], 0);
}

/// Method, body, refusal.
#[rustfmt::skip]
const REFUSED: &[(&str, &str, &str)] = &[
    ("PUT", "{}", "400 general_argument_invalid"),
    ("PUT", r#"{"rows":[]}"#, "400 general_argument_invalid"),
    ("PUT", r#"{"rows":{}}"#, "400 general_argument_invalid"),
    ("PUT", r#"{"rows":[5]}"#, "400 general_argument_invalid"),
    ("PUT", r#"{"rows":[{"$id":5,"name":"x"}]}"#, "400 general_argument_invalid"),
    ("PUT", r#"{"rows":[{"$id":"a","name":"x"},{"$id":"a","name":"y"}]}"#, "409 row_already_exists"),
    ("PUT", r#"{"rows":[{"$id":"a","name":"x","code":"c"},{"$id":"b","name":"y","code":"c"}]}"#, "409 row_unique_constraint_violation"),
    ("PUT", r#"{"rows":[{"$id":"a","colour":1}]}"#, "400 row_invalid_structure"),
    ("PUT", r#"{"rows":[{"$id":"a","name":"x","$permissions":["create(\"any\")"]}]}"#, "400 general_argument_invalid"),
    ("PUT", r#"{"rows":[{"$id":"a","name":"x"}],"transactionId":"t"}"#, "404 transaction_not_found"),
    ("PATCH", "{}", "400 row_missing_payload"),
    ("PATCH", r#"{"data":{}}"#, "400 row_missing_payload"),
    ("PATCH", r#"{"data":[1]}"#, "400 general_argument_invalid"),
    ("PATCH", r#"{"data":{"colour":1}}"#, "400 row_invalid_structure"),
    ("PATCH", r#"{"data":{"n":"5"}}"#, "400 row_invalid_structure"),
    ("PATCH", r#"{"data":{"name":null}}"#, "400 row_invalid_structure"),
    ("PATCH", r#"{"data":{"code":"same"}}"#, "409 row_unique_constraint_violation"),
    ("PATCH", r#"{"data":{"n":1},"queries":["x"]}"#, "400 general_query_invalid"),
    ("PATCH", r#"{"data":{"n":1},"queries":"x"}"#, "400 general_argument_invalid"),
    ("PATCH", r#"{"data":{"n":1},"queries":["{\"method\":\"equal\",\"attribute\":\"x\",\"values\":[1]}"]}"#, "400 general_query_invalid"),
    ("PATCH", r#"{"data":{"n":1},"queries":["{\"method\":\"cursorAfter\",\"values\":[\"z\"]}"]}"#, "400 general_cursor_not_found"),
    ("PATCH", r#"{"data":{"n":1},"transactionId":"t"}"#, "404 transaction_not_found"),
    ("DELETE", r#"{"queries":["{\"method\":\"nothing\"}"]}"#, "400 general_query_invalid"),
    ("DELETE", r#"{"queries":[5]}"#, "400 general_argument_invalid"),
    ("DELETE", r#"{"transactionId":"t"}"#, "404 transaction_not_found"),
    ("DELETE", "[", "400 general_bad_request"),
];

#[test]
fn refused_bulk_write_changes_nothing() {
    let server = site_with(2);
    let before = server.ask("GET", ROWS, "").text;
    for (method, body, refusal) in REFUSED {
        let answer = server.ask(method, ROWS, body);
        assert_eq!(
            answer.refusal(),
            *refusal,
            "{method} {body} {}",
            answer.text
        );
    }
    let many: Vec<Value> = (0..101).map(|_| json!({"name": "x"})).collect();
    let many = json!({"rows": many}).to_string();
    assert_eq!(
        server.ask("PUT", ROWS, &many).refusal(),
        "400 general_argument_invalid"
    );
    let limit = json!({"method": "limit", "values": [1]}).to_string();
    let many = json!({"data": {"n": 1}, "queries": vec![limit; 101]}).to_string();
    assert_eq!(
        server.ask("PATCH", ROWS, &many).refusal(),
        "400 general_argument_invalid"
    );
    assert_eq!(server.ask("GET", ROWS, "").text, before);
}

#[test]
fn many_rows_are_for_keys_only() {
    let server = site_with(1);
    let bodies = [
        ("PUT", r#"{"rows":[{"name":"x"}]}"#),
        ("PATCH", r#"{"data":{"n":1}}"#),
        ("DELETE", "{}"),
    ];
    for (method, body) in bodies {
        for path in [ROWS, DOCUMENTS] {
            let guest = server.ask_as(None, method, path, body);
            assert_eq!(
                guest.refusal(),
                "401 general_unauthorized_scope",
                "{method}"
            );
        }
        let key = server.ask_as(Some(ROWS_KEY), method, ROWS, body);
        assert_eq!(key.status, 200, "{}", key.text);
    }
}

#[test]
fn the_older_family_writes_many_in_its_own_words() {
    let server = site_with(1);
    let put = r#"{"documents":[{"$id":"a","name":"x"}]}"#;
    let put = server.ask("PUT", DOCUMENTS, put);
    assert_eq!(ids(&put, "documents"), ["a"]);
    assert_eq!(put.json()["documents"][0]["$collectionId"], "t");
    let changed = server.ask("PATCH", DOCUMENTS, r#"{"data":{"n":7}}"#);
    assert_eq!(ids(&changed, "documents"), ["r0", "a"]);
    let counted = server.ask("PATCH", &format!("{DOCUMENTS}/a/n/increment"), "{}");
    assert_eq!(counted.json()["n"], 8);
    let over = server.ask(
        "PATCH",
        &format!("{DOCUMENTS}/a/n/increment"),
        r#"{"max":8}"#,
    );
    assert_eq!(over.refusal(), "400 attribute_limit_exceeded");
    let none = server.ask("PATCH", &format!("{DOCUMENTS}/a/x/increment"), "");
    assert_eq!(none.refusal(), "404 attribute_not_found");
    let gone = server.ask("DELETE", DOCUMENTS, "{}");
    assert_eq!(gone.json()["total"], 2);
    let missing = server.ask("PATCH", DOCUMENTS, "{}");
    assert_eq!(missing.refusal(), "400 document_missing_payload");
}

fn count(server: &TestServer, what: &str, body: &str) -> Answer {
    server.ask("PATCH", &format!("{ROWS}/{what}"), body)
}

/// What is counted, body, refusal, a part of the message.
#[rustfmt::skip]
const UNCOUNTED: &[(&str, &str, &str, &str)] = &[
    ("r1/n/increment", r#"{"max":6}"#, "400 column_limit_exceeded", "maximum of 6"),
    ("r1/n/decrement", r#"{"min":6}"#, "400 column_limit_exceeded", "minimum of 6"),
    ("r1/small/increment", r#"{"value":8}"#, "400 column_limit_exceeded", "from -5 to 10"),
    ("r1/n/increment", r#"{"value":9223372036854775807}"#, "400 column_limit_exceeded", "64 bits"),
    ("r1/name/increment", "{}", "400 attribute_type_invalid", "`name`"),
    ("r1/tags/increment", "{}", "400 attribute_type_invalid", "`tags`"),
    ("r1/at/decrement", "{}", "400 attribute_type_invalid", "`at`"),
    ("r1/none/increment", "{}", "404 column_not_found", "`none`"),
    ("r9/n/increment", "{}", "404 column_not_found", "`r9`"),
    ("-/n/increment", "{}", "400 general_argument_invalid", "`rowId`"),
    ("r1/n/increment", r#"{"value":0}"#, "400 general_argument_invalid", "`value`"),
    ("r1/n/increment", r#"{"value":-1}"#, "400 general_argument_invalid", "`value`"),
    ("r1/n/increment", r#"{"value":"1"}"#, "400 general_argument_invalid", "`value`"),
    ("r1/n/increment", r#"{"value":0.5}"#, "400 general_argument_invalid", "`value`"),
    ("r1/n/increment", r#"{"value":18446744073709551615}"#, "400 general_argument_invalid", "`value`"),
    ("r1/n/increment", r#"{"max":"x"}"#, "400 general_argument_invalid", "`max`"),
    ("r1/n/decrement", r#"{"min":[]}"#, "400 general_argument_invalid", "`min`"),
    ("r1/n/increment", r#"{"transactionId":"t"}"#, "404 transaction_not_found", "`t`"),
];

#[test]
fn columns_are_counted_up_and_down() {
    let server = site_with(2);
    let up = count(&server, "r1/n/increment", "");
    assert_eq!((up.status.as_u16(), &up.json()["n"]), (200, &json!(2)));
    assert_eq!(
        count(&server, "r1/n/increment", r#"{"value":8,"max":10}"#).json()["n"],
        10
    );
    assert_eq!(
        count(&server, "r1/n/decrement", r#"{"value":3,"min":7}"#).json()["n"],
        7
    );
    assert_eq!(count(&server, "r1/n/decrement", "{}").json()["n"], 6);
    assert_eq!(
        count(&server, "r1/price/increment", r#"{"value":0.5}"#).json()["price"],
        0.5
    );
    assert_eq!(get(&server, "r1")["n"], 6);
    for (what, body, refusal, fragment) in UNCOUNTED {
        refused(&count(&server, what, body), refusal, fragment);
    }
    assert_eq!(get(&server, "r1")["n"], 6);
}

#[test]
fn guests_count_where_the_row_lets_them() {
    let server = site_with(1);
    let path = format!("{ROWS}/r0/n/increment");
    let guest = |path: &str| server.ask_as(None, "PATCH", path, "{}");
    assert_eq!(guest(&path).refusal(), "401 user_unauthorized");
    assert_eq!(
        guest(&format!("{ROWS}/none/n/increment")).refusal(),
        "404 column_not_found"
    );
    let body = r#"{"permissions":["update(\"any\")"]}"#;
    server.ask("PATCH", &format!("{ROWS}/r0"), body);
    assert_eq!(guest(&path).json()["n"], 1);
}

#[test]
fn operators_are_applied_to_the_row_that_is_there() {
    let server = site_with(1);
    let path = format!("{ROWS}/r0");
    let data = json!({"data": {
        "n": operator("increment", &json!([5, 3])),
        "price": operator("power", &json!([2])),
        "done": operator("toggle", &json!([])),
        "name": operator("stringConcat", &json!(["!"])),
        "tags": operator("arrayAppend", &json!(["a", "b", "a"])),
        "at": operator("dateSetNow", &json!([])),
    }});
    let row = server.ask("PATCH", &path, &data.to_string());
    assert_eq!(row.status, 200, "{}", row.text);
    let row = row.json();
    assert_eq!((&row["n"], &row["price"]), (&json!(3), &json!(0.0)));
    assert_eq!(
        (&row["done"], &row["name"]),
        (&json!(true), &json!("row 0!"))
    );
    assert_eq!(row["tags"], json!(["a", "b", "a"]));
    assert_eq!(row["at"], row["$updatedAt"]);
    assert_eq!(get(&server, "r0"), row);
    let bulk = json!({"data": {"tags": operator("arrayUnique", &json!([]))}});
    let changed = server.ask("PATCH", ROWS, &bulk.to_string());
    assert_eq!(changed.json()["rows"][0]["tags"], json!(["a", "b"]));
    for (column, text) in [
        ("n", operator("multiply", &json!([i64::MAX]))),
        ("n", operator("divide", &json!([0]))),
        ("n", operator("toggle", &json!([]))),
        ("n", operator("increment", &json!(["1"]))),
        ("small", operator("increment", &json!([100]))),
        ("price", operator("stringConcat", &json!(["x"]))),
        ("name", operator("stringConcat", &json!(["x".repeat(20)]))),
        ("tags", operator("arrayAppend", &json!(["too long"]))),
        ("tags", operator("arrayInsert", &json!([9, "x"]))),
        ("at", operator("dateAddDays", &json!([i64::MAX]))),
    ] {
        for (method, path) in [("PATCH", path.as_str()), ("PUT", &path), ("PATCH", ROWS)] {
            let answer = server.ask(method, path, &json!({"data": {column: text}}).to_string());
            refused(
                &answer,
                "400 row_invalid_structure",
                &format!("\"{column}\""),
            );
        }
    }
    // In a new row such a text is content like any other, and no number.
    let body = json!({"rowId": "made", "data": {"name": "x", "n": operator("toggle", &json!([]))}});
    let made = server.ask("POST", ROWS, &body.to_string());
    refused(
        &made,
        "400 row_invalid_structure",
        "64-bit integer, got string",
    );
}

fn ask_since(server: &TestServer, since: &str, method: &str, path: &str, body: &str) -> Answer {
    let headers = [
        ("x-appwrite-project", PROJECT),
        ("x-appwrite-key", KEY),
        ("x-appwrite-timestamp", since),
    ];
    server.ask_with(&headers, method, path, body)
}

#[test]
fn a_row_that_changed_since_is_left_alone() {
    let server = site_with(2);
    let (path, past) = (format!("{ROWS}/r0"), "2020-01-01T00:00:00.000+00:00");
    let all = [
        ("PATCH", path.clone(), r#"{"data":{"n":5}}"#),
        ("PUT", path.clone(), r#"{"data":{"n":6}}"#),
        ("PATCH", format!("{path}/n/increment"), "{}"),
        ("PATCH", ROWS.to_owned(), r#"{"data":{"n":7}}"#),
        ("PUT", ROWS.to_owned(), r#"{"rows":[{"$id":"r0","n":8}]}"#),
        ("DELETE", path.clone(), "{}"),
        ("DELETE", ROWS.to_owned(), "{}"),
    ];
    for (method, path, body) in &all {
        let stale = ask_since(&server, past, method, path, body);
        refused(&stale, "409 row_update_conflict", "`r0`");
        let broken = ask_since(&server, "yesterday", method, path, body);
        refused(
            &broken,
            "400 general_argument_invalid",
            "X-Appwrite-Timestamp",
        );
    }
    let older = ask_since(&server, past, "PATCH", &format!("{DOCUMENTS}/r0"), all[0].2);
    assert_eq!(older.refusal(), "409 document_update_conflict");
    assert_eq!(get(&server, "r0")["n"], 0);
    for (method, path, body) in &all[..6] {
        // As the row itself says it.
        let list = server.ask("GET", ROWS, "").json();
        let updated = |row: &Value| row["$updatedAt"].as_str().unwrap().to_owned();
        let latest = list["rows"].as_array().unwrap().iter().map(updated).max();
        let answer = ask_since(&server, &latest.unwrap(), method, path, body);
        assert!(
            answer.status.is_success(),
            "{method} {path} {}",
            answer.text
        );
    }
    // Who reads, or creates, names no row to be changed.
    assert_eq!(ask_since(&server, past, "GET", ROWS, "").status, 200);
    let body = r#"{"rowId":"c","data":{"name":"x"}}"#;
    assert_eq!(ask_since(&server, past, "POST", ROWS, body).status, 201);
}

#[test]
fn stamps_are_for_keys() {
    let server = site_with(1);
    let old = "2020-01-02T03:04:05.678+00:00";
    let data = json!({"$createdAt": old, "$updatedAt": old, "n": 9, "$sequence": "7"});
    let bulk = server.ask("PATCH", ROWS, &json!({"data": data}).to_string());
    let row = &bulk.json()["rows"][0];
    assert_eq!(
        (&row["$createdAt"], &row["$updatedAt"]),
        (&json!(old), &json!(old))
    );
    assert_eq!(row["$sequence"], "1");
    let body = json!({"rowId": "g", "data": {"name": "x", "$createdAt": old}});
    let guest = server.ask_as(None, "POST", ROWS, &body.to_string()).json();
    assert!(guest["$createdAt"].as_str().unwrap() > old, "{guest}");
}

#[test]
fn queries_in_a_body_answer_as_those_of_a_query_string() {
    let server = site_with(3);
    let ask = |path: &str, body: &Value| server.ask("POST", path, &body.to_string());
    let above = query("greaterThan", "n", &json!([0]));
    let (rows, documents) = (format!("{ROWS}/query"), format!("{DOCUMENTS}/query"));
    let list = ask(&rows, &json!({"queries": [above]}));
    assert_eq!(
        (ids(&list, "rows"), &list.json()["total"]),
        (vec!["r1".into(), "r2".into()], &json!(2))
    );
    let list = ask(
        &documents,
        &json!({"queries": [above], "total": false, "ttl": 5}),
    );
    assert_eq!(
        (ids(&list, "documents").len(), &list.json()["total"]),
        (2, &json!(0))
    );
    assert_eq!(list.header("x-appwrite-cache"), "miss");
    let guest = server.ask_as(None, "POST", &rows, "{}");
    assert_eq!(guest.json()["total"], 3);
}

#[test]
fn queries_in_a_body_have_the_same_limits() {
    let server = site_with(1);
    let rows = format!("{ROWS}/query");
    let ask = |path: &str, body: &Value| server.ask("POST", path, &body.to_string());
    let above = query("greaterThan", "n", &json!([0]));
    let values: Vec<i64> = (0..501).collect();
    for (body, refusal, fragment) in [
        (
            json!({"queries": [query("equal", "n", &json!(values))]}),
            "400 general_query_invalid",
            "greater than 500 values",
        ),
        (
            json!({"queries": vec![above.clone(); 101]}),
            "400 general_argument_invalid",
            "100 queries",
        ),
        (
            json!({"queries": [" ".repeat(4_097)]}),
            "400 general_argument_invalid",
            "4096 characters",
        ),
        (
            json!({"queries": "x"}),
            "400 general_argument_invalid",
            "`queries`",
        ),
        (
            json!({"ttl": 86_401}),
            "400 general_argument_invalid",
            "`ttl`",
        ),
        (
            json!({"total": "maybe"}),
            "400 general_argument_invalid",
            "`total`",
        ),
        (
            json!({"transactionId": "t"}),
            "404 transaction_not_found",
            "`t`",
        ),
    ] {
        refused(&ask(&rows, &body), refusal, fragment);
    }
}

#[test]
fn numbers_in_queries_are_exact() {
    let server = site_with(1);
    let rows = format!("{ROWS}/query");
    // Numbers beyond 2^53 are compared exactly, those beyond 64 bits are refused.
    server.ask(
        "PATCH",
        &format!("{ROWS}/r0"),
        r#"{"data":{"n":9007199254740993}}"#,
    );
    for (n, found) in [("9007199254740993", 1), ("9007199254740992", 0)] {
        let body = format!(
            r#"{{"queries":["{{\"method\":\"equal\",\"attribute\":\"n\",\"values\":[{n}]}}"]}}"#
        );
        assert_eq!(
            server.ask("POST", &rows, &body).json()["total"],
            found,
            "{n}"
        );
    }
    let body = r#"{"queries":["{\"method\":\"equal\",\"attribute\":\"n\",\"values\":[9223372036854775808]}"]}"#;
    refused(
        &server.ask("POST", &rows, body),
        "400 general_query_invalid",
        "Invalid query",
    );
}
