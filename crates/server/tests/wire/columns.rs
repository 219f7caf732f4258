//! Columns and indexes that come, change and go, by the words of both families.

use crate::fixture::{ROWS_KEY, TestServer};
use serde_json::{Value, json};

const TABLE: &str = "/v1/tablesdb/d/tables/t";
const OLDER: &str = "/v1/databases/d/collections/t";

/// A server with the table `t`, its column `n` and the row `old`.
fn server() -> TestServer {
    let server = TestServer::start();
    let table = r#"{"tableId":"t","name":"T","columns":[{"key":"n","type":"integer"}]}"#;
    let row = r#"{"rowId":"old","data":{"n":1}}"#;
    for (path, body) in [
        ("/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#),
        ("/v1/tablesdb/d/tables", table),
        ("/v1/tablesdb/d/tables/t/rows", row),
    ] {
        let made = server.ask("POST", path, body);
        assert_eq!(made.status, 201, "{}", made.text);
    }
    server
}

fn with(mut body: Value, more: &Value) -> String {
    let members = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(members);
    body.to_string()
}

/// Adds a column that must be taken.
#[track_caller]
fn add(server: &TestServer, kind: &str, key: &str, more: &Value) -> Value {
    let body = with(json!({"key": key, "required": false}), more);
    let made = server.ask("POST", &format!("{TABLE}/columns/{kind}"), &body);
    assert_eq!(made.status, 202, "{}", made.text);
    let got = server.ask("GET", &format!("{TABLE}/columns/{key}"), "");
    assert_eq!(got.json(), made.json());
    made.json()
}

/// Each kind of column: what more its creation says, what its answer then says, a change of it,
/// what the answer says after that, a value that it takes, and one that it does not.
#[rustfmt::skip]
fn kinds() -> Vec<(&'static str, Value, Value, Value, Value, Value, Value)> {
    let (none, text) = (|| json!({}), |size: i64| "x".repeat(size as usize));
    let format = |format: &str| json!({"type": "string", "format": format});
    vec![
        ("varchar", json!({"size": 5, "default": "abc"}),
            json!({"type": "varchar", "size": 5, "default": "abc", "encrypt": false}),
            json!({"default": "abcdefg", "size": 7}), json!({"size": 7, "default": "abcdefg"}),
            json!("1234567"), json!("12345678")),
        ("string", json!({"size": 300}), json!({"type": "string", "size": 300}),
            json!({"default": null, "size": 2}), json!({"size": 2}), json!("ab"), json!("abc")),
        ("text", none(), json!({"type": "text", "encrypt": false}),
            json!({"default": "x"}), json!({"default": "x"}),
            json!(text(65_535)), json!(text(65_536))),
        ("mediumtext", none(), json!({"type": "mediumtext"}),
            json!({"default": null}), none(), json!(text(70_000)), json!(1)),
        ("longtext", none(), json!({"type": "longtext"}),
            json!({"default": null}), none(), json!(text(70_000)), json!(false)),
        ("integer", json!({"min": 0, "max": 9, "default": 5}),
            json!({"type": "integer", "min": 0, "max": 9, "default": 5}),
            json!({"default": null, "max": 20}), json!({"min": 0, "max": 20, "default": null}),
            json!(20), json!(21)),
        ("bigint", none(), json!({"type": "bigint", "min": i64::MIN, "max": i64::MAX}),
            json!({"default": 7, "min": 1}), json!({"min": 1, "max": i64::MAX, "default": 7}),
            json!(i64::MAX), json!(0)),
        ("float", json!({"min": -0.5}), json!({"type": "double", "min": -0.5, "max": f64::MAX}),
            json!({"default": 0.25, "max": 0.5}), json!({"min": -0.5, "max": 0.5, "default": 0.25}),
            json!(-0.5), json!(0.75)),
        ("boolean", json!({"default": true}), json!({"type": "boolean", "default": true}),
            json!({"default": false}), json!({"default": false}), json!(true), json!("true")),
        ("email", none(), format("email"), json!({"default": "a@example.com"}),
            json!({"default": "a@example.com"}), json!("b@example.com"), json!("b")),
        ("url", none(), format("url"), json!({"default": null}), none(),
            json!("https://example.com/"), json!("example")),
        ("ip", none(), format("ip"), json!({"default": "::1"}), json!({"default": "::1"}),
            json!("127.0.0.1"), json!("localhost")),
        ("enum", json!({"elements": ["a", "b"], "default": "b"}),
            json!({"type": "string", "format": "enum", "elements": ["a", "b"], "default": "b"}),
            json!({"default": "c", "elements": ["a", "c"]}),
            json!({"elements": ["a", "c"], "default": "c"}), json!("c"), json!("b")),
        ("datetime", none(), json!({"type": "datetime", "format": ""}),
            json!({"default": "2026-01-31T10:00:00.000+00:00"}),
            json!({"default": "2026-01-31T10:00:00.000+00:00"}),
            json!("2026-02-01T00:00:00.000+00:00"), json!("tomorrow")),
    ]
}

#[track_caller]
fn check_members(got: &Value, wanted: &Value) {
    for (key, value) in wanted.as_object().unwrap() {
        assert_eq!(&got[key], value, "{key} of {got}");
    }
}

#[test]
fn every_kind_of_column_lives_its_life() {
    let server = server();
    for (kind, more, made, change, changed, fits, unfit) in kinds() {
        let column = add(&server, kind, "k", &more);
        let shared = json!({
            "key": "k", "status": "available", "error": "", "required": false, "array": false,
            "description": "",
        });
        check_members(&column, &shared);
        check_members(&column, &made);
        let rows = format!("{TABLE}/rows");
        let old = server.ask("GET", &format!("{rows}/old"), "").json();
        assert_eq!((&old["n"], &old["k"]), (&json!(1), &Value::Null), "{kind}");
        let path = format!("{TABLE}/columns/{kind}/k");
        let body = with(json!({"required": false, "newKey": "renamed"}), &change);
        let answer = server.ask("PATCH", &path, &body);
        assert_eq!(answer.status, 200, "{kind}: {}", answer.text);
        assert_eq!(answer.json()["key"], "renamed");
        check_members(&answer.json(), &changed);
        assert_eq!(
            server
                .ask("GET", &format!("{TABLE}/columns/k"), "")
                .refusal(),
            "404 column_not_found"
        );
        let row = |value: &Value| json!({"rowId": "new", "data": {"renamed": value}}).to_string();
        let refused = server.ask("POST", &rows, &row(&unfit));
        assert_eq!(refused.refusal(), "400 row_invalid_structure", "{kind}");
        let taken = server.ask("POST", &rows, &row(&fits));
        assert_eq!(taken.json()["renamed"], fits, "{kind}: {}", taken.text);
        let listed = server.ask("GET", &rows, "").json();
        assert_eq!(listed["rows"][0]["renamed"], Value::Null, "{kind}");
        assert_eq!(listed["rows"][1]["renamed"], fits, "{kind}");
        let gone = server.ask("DELETE", &format!("{TABLE}/columns/renamed"), "{}");
        assert_eq!(gone.status, 204, "{kind}: {}", gone.text);
        let left = server.ask("GET", &format!("{rows}/new"), "").json();
        assert_eq!(
            (left.get("renamed"), &left["n"]),
            (None, &Value::Null),
            "{kind}"
        );
        assert_eq!(
            server.ask("DELETE", &format!("{rows}/new"), "{}").status,
            204
        );
    }
}

#[test]
fn the_older_family_does_the_same_by_its_words() {
    let server = server();
    let made = server.ask(
        "POST",
        &format!("{OLDER}/attributes/string"),
        r#"{"key":"s","size":10,"required":true}"#,
    );
    assert_eq!(
        (made.status.as_u16(), &made.json()["required"]),
        (202, &json!(true))
    );
    let changed = server.ask(
        "PATCH",
        &format!("{OLDER}/attributes/string/s"),
        r#"{"required":false,"default":"x","newKey":"t"}"#,
    );
    check_members(
        &changed.json(),
        &json!({"key": "t", "default": "x", "size": 10}),
    );
    let index = r#"{"key":"i","type":"key","attributes":["t"],"orders":["desc"]}"#;
    let made = server.ask("POST", &format!("{OLDER}/indexes"), index);
    assert_eq!(made.status, 202, "{}", made.text);
    check_members(
        &made.json(),
        &json!({"status": "available", "attributes": ["t"], "orders": ["DESC"]}),
    );
    for (method, path, body, refusal) in [
        ("DELETE", "attributes/t", "{}", "409 index_dependency"),
        (
            "POST",
            "attributes/string",
            r#"{"key":"N","size":1,"required":false}"#,
            "409 attribute_already_exists",
        ),
        (
            "PATCH",
            "attributes/float/t",
            r#"{"required":false,"default":null}"#,
            "400 attribute_type_invalid",
        ),
        ("DELETE", "attributes/z", "{}", "404 attribute_not_found"),
        ("DELETE", "indexes/z", "{}", "404 index_not_found"),
        (
            "POST",
            "indexes",
            r#"{"key":"j","type":"key"}"#,
            "400 general_argument_invalid",
        ),
    ] {
        let answer = server.ask(method, &format!("{OLDER}/{path}"), body);
        assert_eq!(answer.refusal(), refusal, "{method} {path}");
    }
    assert_eq!(
        server
            .ask("DELETE", &format!("{OLDER}/indexes/i"), "{}")
            .status,
        204
    );
    assert_eq!(
        server
            .ask("DELETE", &format!("{OLDER}/attributes/t"), "{}")
            .status,
        204
    );
}

#[test]
fn a_required_column_finds_rows_without_a_value() {
    let server = server();
    let body = r#"{"key":"must","required":true,"size":9,"description":"why"}"#;
    let made = server.ask("POST", &format!("{TABLE}/columns/varchar"), body);
    assert_eq!(made.status, 202, "{}", made.text);
    let rows = format!("{TABLE}/rows");
    assert_eq!(
        server.ask("GET", &format!("{rows}/old"), "").json()["must"],
        Value::Null
    );
    let answer = server.ask("POST", &rows, r#"{"rowId":"b","data":{"n":2}}"#);
    assert_eq!(answer.refusal(), "400 row_invalid_structure");
    let changed = server.ask("PATCH", &format!("{rows}/old"), r#"{"data":{"n":3}}"#);
    assert_eq!(
        (&changed.json()["n"], &changed.json()["must"]),
        (&json!(3), &Value::Null)
    );
}

#[test]
fn a_text_column_is_not_cut_below_its_rows() {
    let server = server();
    add(&server, "varchar", "s", &json!({"size": 10}));
    let row = r#"{"data":{"s":"äöü45"}}"#;
    assert_eq!(
        server
            .ask("PATCH", &format!("{TABLE}/rows/old"), row)
            .status,
        200
    );
    let resize = |size: i64| {
        let body = json!({"required": false, "default": null, "size": size}).to_string();
        server.ask("PATCH", &format!("{TABLE}/columns/varchar/s"), &body)
    };
    assert_eq!(resize(4).refusal(), "400 column_invalid_resize");
    assert_eq!(resize(5).json()["size"], 5);
    // Of an array each element counts.
    let tags = r#"{"key":"tags","required":false,"size":9,"array":true}"#;
    let made = server.ask("POST", &format!("{TABLE}/columns/varchar"), tags);
    assert_eq!(made.status, 202, "{}", made.text);
    let row = r#"{"data":{"tags":["","äöü","b"]}}"#;
    server.ask("PATCH", &format!("{TABLE}/rows/old"), row);
    let resize = |size: i64| {
        let body = json!({"required": false, "default": null, "size": size}).to_string();
        server.ask("PATCH", &format!("{TABLE}/columns/varchar/tags"), &body)
    };
    let refused = resize(2);
    assert_eq!(refused.refusal(), "400 column_invalid_resize");
    let said = "Column `tags`: a row holds more than 2 characters.";
    assert_eq!(refused.json()["message"], said);
    assert_eq!(resize(3).json()["size"], 3);
}

/// Creations of a column, by kind and body, with their refusals.
#[rustfmt::skip]
const REFUSED_COLUMNS: &[(&str, &str, &str)] = &[
    ("integer", r#"{"required":false}"#, "400 general_argument_invalid"),
    ("integer", r#"{"key":"k"}"#, "400 general_argument_invalid"),
    ("integer", r#"{"key":"a b","required":false}"#, "400 general_argument_invalid"),
    ("integer", r#"{"key":"k","required":"maybe"}"#, "400 general_argument_invalid"),
    ("integer", r#"{"key":"k","required":false,"min":2,"max":1}"#, "400 column_value_invalid"),
    ("integer", r#"{"key":"k","required":false,"min":"x"}"#, "400 column_value_invalid"),
    ("integer", r#"{"key":"k","required":false,"max":5,"default":6}"#, "400 column_value_invalid"),
    ("integer", r#"{"key":"k","required":true,"default":6}"#, "400 column_default_unsupported"),
    ("integer", r#"{"key":"k","required":false,"array":true,"default":6}"#, "400 column_default_unsupported"),
    ("integer", r#"{"key":"N","required":false}"#, "409 column_already_exists"),
    ("varchar", r#"{"key":"k","required":false}"#, "400 general_argument_invalid"),
    ("varchar", r#"{"key":"k","required":false,"size":0}"#, "400 general_argument_invalid"),
    ("varchar", r#"{"key":"k","required":false,"size":16382}"#, "400 general_argument_invalid"),
    ("varchar", r#"{"key":"k","required":false,"size":2,"default":"abc"}"#, "400 column_value_invalid"),
    ("integer", r#"{"key":"k","required":false,"encrypt":true}"#, "400 general_argument_invalid"),
    ("enum", r#"{"key":"k","required":false}"#, "400 general_argument_invalid"),
    ("enum", r#"{"key":"k","required":false,"elements":["a"],"default":"b"}"#, "400 column_value_invalid"),
    ("text", r#"{"key":"k","required":false,"description":5}"#, "400 general_argument_invalid"),
    ("colour", r#"{"key":"k","required":false}"#, "405 general_not_implemented"),
];

/// Changes of the column `n`, by kind, key and body, with their refusals.
#[rustfmt::skip]
const REFUSED_CHANGES: &[(&str, &str, &str)] = &[
    ("integer/n", r#"{"default":null}"#, "400 general_argument_invalid"),
    ("integer/n", r#"{"required":false}"#, "400 general_argument_invalid"),
    ("integer/n", r#"{"required":true,"default":1}"#, "400 column_default_unsupported"),
    ("integer/n", r#"{"required":false,"default":"x"}"#, "400 column_value_invalid"),
    ("integer/n", r#"{"required":false,"default":null,"min":2,"max":1}"#, "400 column_value_invalid"),
    ("integer/n", r#"{"required":false,"default":null,"newKey":"_"}"#, "400 general_argument_invalid"),
    ("integer/n", r#"{"required":false,"default":null,"newKey":"OTHER"}"#, "409 column_already_exists"),
    ("integer/z", r#"{"required":false,"default":null}"#, "404 column_not_found"),
    ("float/n", r#"{"required":false,"default":null}"#, "400 column_type_invalid"),
];

#[rustfmt::skip]
const REFUSED_INDEXES: &[(&str, &str)] = &[
    (r#"{"type":"key","columns":["n"]}"#, "400 general_argument_invalid"),
    (r#"{"key":"i","columns":["n"]}"#, "400 general_argument_invalid"),
    (r#"{"key":"i","type":"key"}"#, "400 general_argument_invalid"),
    (r#"{"key":"i","type":"hash","columns":["n"]}"#, "400 general_argument_invalid"),
    (r#"{"key":"i","type":"fulltext","columns":["n"]}"#, "400 column_index_invalid"),
    (r#"{"key":"i","type":"spatial","columns":["n"]}"#, "400 general_feature_unsupported"),
    (r#"{"key":"i","type":"key","columns":[]}"#, "400 column_index_invalid"),
    (r#"{"key":"i","type":"key","columns":["z"]}"#, "400 column_unknown"),
    (r#"{"key":"i","type":"key","columns":["many"]}"#, "400 index_invalid"),
    (r#"{"key":"i","type":"key","columns":["n","n"]}"#, "400 column_index_invalid"),
    (r#"{"key":"i","type":"key","columns":["n"],"lengths":[5]}"#, "400 column_index_invalid"),
    (r#"{"key":"i","type":"key","columns":["n"],"orders":["UP"]}"#, "400 column_index_invalid"),
    (r#"{"key":"i","type":"key","columns":["n"],"orders":[1]}"#, "400 general_argument_invalid"),
    (r#"{"key":"i","type":"key","columns":["other"]}"#, "400 column_index_invalid"),
    (r#"{"key":"taken","type":"key","columns":["n"]}"#, "409 column_index_already_exists"),
];

#[test]
fn refused_column_change_changes_nothing() {
    let server = server();
    add(&server, "varchar", "other", &json!({"size": 1000}));
    add(&server, "integer", "many", &json!({"array": true}));
    let index = r#"{"key":"taken","type":"key","columns":["n"]}"#;
    assert_eq!(
        server
            .ask("POST", &format!("{TABLE}/indexes"), index)
            .status,
        202
    );
    let before = server.ask("GET", TABLE, "").text;
    for (kind, body, refusal) in REFUSED_COLUMNS {
        let answer = server.ask("POST", &format!("{TABLE}/columns/{kind}"), body);
        assert_eq!(answer.refusal(), *refusal, "{kind} {body}: {}", answer.text);
    }
    for (path, body, refusal) in REFUSED_CHANGES {
        let answer = server.ask("PATCH", &format!("{TABLE}/columns/{path}"), body);
        assert_eq!(answer.refusal(), *refusal, "{path} {body}: {}", answer.text);
    }
    for (body, refusal) in REFUSED_INDEXES {
        let answer = server.ask("POST", &format!("{TABLE}/indexes"), body);
        assert_eq!(answer.refusal(), *refusal, "{body}: {}", answer.text);
    }
    for (path, refusal) in [
        ("columns/n", "409 column_index_dependency"),
        ("columns/z", "404 column_not_found"),
        ("indexes/z", "404 column_index_not_found"),
    ] {
        let answer = server.ask("DELETE", &format!("{TABLE}/{path}"), "{}");
        assert_eq!(answer.refusal(), refusal, "{path}");
    }
    assert_eq!(server.ask("GET", TABLE, "").text, before);
}

#[test]
fn schemas_are_changed_by_keys_with_the_scope() {
    let server = server();
    let column = r#"{"key":"k","required":false}"#;
    let change = r#"{"required":false,"default":null}"#;
    let index = r#"{"key":"i","type":"key","columns":["n"]}"#;
    for (method, path, body) in [
        ("GET", "columns", ""),
        ("GET", "columns/n", ""),
        ("POST", "columns/integer", column),
        ("PATCH", "columns/integer/n", change),
        ("DELETE", "columns/n", "{}"),
        ("GET", "indexes", ""),
        ("POST", "indexes", index),
        ("GET", "indexes/i", ""),
        ("DELETE", "indexes/i", "{}"),
    ] {
        for key in [None, Some(ROWS_KEY)] {
            let answer = server.ask_as(key, method, &format!("{TABLE}/{path}"), body);
            assert_eq!(
                answer.refusal(),
                "401 general_unauthorized_scope",
                "{method} {path}"
            );
        }
    }
}

#[test]
fn a_unique_index_over_equal_values_is_there_and_failed() {
    let server = server();
    let row = r#"{"rowId":"twin","data":{"n":1}}"#;
    server.ask("POST", &format!("{TABLE}/rows"), row);
    let index = r#"{"key":"one","type":"unique","columns":["n"]}"#;
    let made = server.ask("POST", &format!("{TABLE}/indexes"), index);
    assert_eq!(
        (made.status.as_u16(), &made.json()["status"]),
        (202, &json!("failed"))
    );
    let said = made.json()["error"].as_str().unwrap().to_owned();
    assert!(said.contains("equal values"), "{said}");
    let path = format!("{TABLE}/indexes/one");
    assert_eq!(server.ask("GET", &path, "").json(), made.json());
    assert_eq!(server.ask("DELETE", &path, "{}").status, 204);
    assert_eq!(
        server
            .ask("DELETE", &format!("{TABLE}/rows/twin"), "{}")
            .status,
        204
    );
    let made = server.ask("POST", &format!("{TABLE}/indexes"), index);
    assert_eq!(made.json()["status"], "available");
    let twin = server.ask("POST", &format!("{TABLE}/rows"), row);
    assert_eq!(twin.refusal(), "409 row_unique_constraint_violation");
}

/// A list's query string.
fn queries(queries: &[Value]) -> String {
    let parts = queries.iter().enumerate().map(|(nth, query)| {
        let text = query.to_string();
        let coded: Vec<String> = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let coded = coded.concat();
        format!("queries[{nth}]={coded}")
    });
    parts.collect::<Vec<_>>().join("&")
}

/// Lists with the key of their items and a query, and which items the page then holds.
#[rustfmt::skip]
fn lists() -> Vec<([&'static str; 3], Value, Value)> {
    const TABLES: [&str; 3] = ["/v1/tablesdb/d/tables", "tables", "$id"];
    const COLLECTIONS: [&str; 3] = ["/v1/databases/d/collections", "collections", "$id"];
    const COLUMNS: [&str; 3] = ["/v1/tablesdb/d/tables/t/columns", "columns", "key"];
    const ATTRIBUTES: [&str; 3] = [
        "/v1/databases/d/collections/t/attributes", "attributes", "key",
    ];
    const INDEXES: [&str; 3] = ["/v1/tablesdb/d/tables/t/indexes", "indexes", "key"];
    let ask = |method: &str, of: &str, value: Value| {
        json!({"method": method, "attribute": of, "values": [value]})
    };
    let descending = json!({"method": "orderDesc", "attribute": "name"});
    let sized = json!({"method": "isNotNull", "attribute": "size"});
    vec![
        (TABLES, ask("equal", "rowSecurity", json!(true)), json!(["u", "v"])),
        (COLLECTIONS, ask("equal", "documentSecurity", json!(false)), json!(["t"])),
        (TABLES, ask("equal", "name", json!("T")), json!(["t", "v"])),
        (TABLES, descending, json!(["u", "t", "v"])),
        (["/v1/tablesdb", "databases", "$id"], ask("contains", "name", json!("D")), json!(["d"])),
        (COLUMNS, ask("equal", "type", json!("integer")), json!(["n"])),
        (ATTRIBUTES, sized, json!(["s"])),
        (INDEXES, ask("equal", "status", json!("available")), json!(["i"])),
        (INDEXES, ask("contains", "attributes", json!("n")), json!([])),
    ]
}

/// A server with two tables more, and with a text column and an index in the first.
fn furnished() -> TestServer {
    let server = server();
    for (id, name) in [("u", "Über"), ("v", "T")] {
        let body = json!({"tableId": id, "name": name, "rowSecurity": true}).to_string();
        assert_eq!(
            server.ask("POST", "/v1/tablesdb/d/tables", &body).status,
            201
        );
    }
    add(&server, "varchar", "s", &json!({"size": 9}));
    let index = r#"{"key":"i","type":"key","columns":["s"]}"#;
    server.ask("POST", &format!("{TABLE}/indexes"), index);
    server
}

#[test]
fn containers_are_listed_by_query() {
    let server = furnished();
    for ([path, list, id], asked, expected) in lists() {
        let asked = queries(&[asked]);
        let answer = server.ask("GET", &format!("{path}?{asked}"), "").json();
        let items = answer[list].as_array().unwrap().iter();
        let found: Vec<&Value> = items.map(|item| &item[id]).collect();
        assert_eq!(json!(found), expected, "{path} {answer}");
        assert_eq!(answer["total"], found.len());
        let uncounted = server.ask("GET", &format!("{path}?{asked}&total=false"), "");
        assert_eq!(uncounted.json()["total"], 0);
    }
    let found = server
        .ask("GET", "/v1/tablesdb/d/tables?search=%C3%BCBER", "")
        .json();
    assert_eq!(
        (&found["total"], &found["tables"][0]["$id"]),
        (&json!(1), &json!("u"))
    );
}

#[test]
fn lists_refuse_unknown_attributes_and_cursors() {
    let server = server();
    let unknown = json!({"method": "equal", "attribute": "colour", "values": ["red"]});
    let nowhere = json!({"method": "cursorAfter", "values": ["nowhere"]});
    for path in ["/v1/tablesdb", "/v1/tablesdb/d/tables/t/columns"] {
        for (asked, refusal) in [
            (&unknown, "400 general_query_invalid"),
            (&nowhere, "400 general_cursor_not_found"),
        ] {
            let asked = queries(std::slice::from_ref(asked));
            let answer = server.ask("GET", &format!("{path}?{asked}"), "");
            assert_eq!(answer.refusal(), refusal, "{path}");
        }
    }
}

#[test]
fn a_column_without_a_sign_takes_no_number_below_zero() {
    let server = server();
    for (way, kind) in [
        ("inline", "integer"),
        ("inline", "bigint"),
        ("alone", "integer"),
    ] {
        let table = format!("{way}_{kind}");
        let unsigned = json!({"key": "u", "type": kind, "required": false, "signed": false});
        let inline = if way == "inline" {
            vec![unsigned.clone()]
        } else {
            Vec::new()
        };
        let body = json!({"tableId": table, "name": "T", "columns": inline});
        let made = server.ask("POST", "/v1/tablesdb/d/tables", &body.to_string());
        assert_eq!(made.status, 201, "{}", made.text);
        let path = format!("/v1/tablesdb/d/tables/{table}");
        if way == "alone" {
            let made = server.ask(
                "POST",
                &format!("{path}/columns/{kind}"),
                &unsigned.to_string(),
            );
            assert_eq!(made.status, 202, "{}", made.text);
        }
        let column = server.ask("GET", &format!("{path}/columns/u"), "").json();
        assert_eq!(column["min"], 0, "{way} {column}");
        for (n, status) in [(-1, 400), (0, 201), (7, 201)] {
            let row = json!({"rowId": "unique()", "data": {"u": n}}).to_string();
            let made = server.ask("POST", &format!("{path}/rows"), &row);
            assert_eq!(made.status, status, "{way} {n}: {}", made.text);
        }
    }
}

#[test]
fn a_column_can_be_without_a_sign_where_it_holds_integers() {
    let server = server();
    for (definition, is_taken) in [
        (
            json!({"key": "x", "type": "integer", "signed": false, "min": 5}),
            true,
        ),
        (
            json!({"key": "x", "type": "integer", "signed": true, "min": -5}),
            true,
        ),
        (
            json!({"key": "x", "type": "integer", "signed": false, "min": -5}),
            false,
        ),
        (
            json!({"key": "x", "type": "double", "signed": false}),
            false,
        ),
        (
            json!({"key": "x", "type": "boolean", "signed": false}),
            false,
        ),
        (
            json!({"key": "x", "type": "integer", "signed": "no"}),
            false,
        ),
    ] {
        let body = json!({"tableId": "unique()", "name": "T", "columns": [definition]});
        let made = server.ask("POST", "/v1/tablesdb/d/tables", &body.to_string());
        if is_taken {
            assert_eq!(made.status, 201, "{definition} {}", made.text);
        } else {
            assert_eq!(
                made.refusal(),
                "400 general_argument_invalid",
                "{definition}"
            );
            assert!(made.text.contains("signed"), "{}", made.text);
        }
    }
}
