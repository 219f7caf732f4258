//! One vocabulary on the routes of our own: names and instants, as the caller wants them.

use model::calendar::iso_us;
use model::{Mark, Timestamp};
use serde_json::{Value, json};

use crate::fixture::{Answer, KEY, PROJECT, TestServer};

const BASE: &str = "/v1/tidemark/databases/d";
const SPRING: &str = "2020-03-01T00:00:00.000000+00:00";
const SUMMER: &str = "2020-06-01T00:00:00.000000+00:00";

/// Microseconds of [`SPRING`] and [`SUMMER`].
const SPRING_US: i64 = 1_583_020_800_000_000;
const SUMMER_US: i64 = 1_590_969_600_000_000;

fn server() -> TestServer {
    let server = TestServer::start();
    server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    for table in ["t", "u"] {
        let columns = r#"[{"key":"n","type":"integer"},{"key":"u","type":"text"}]"#;
        let table = format!(r#"{{"tableId":"{table}","name":"T","columns":{columns}}}"#);
        let made = server.ask("POST", "/v1/tablesdb/d/tables", &table);
        assert_eq!(made.status, 201, "{}", made.text);
    }
    server
}

/// Asks for instants in this form.
fn ask_in(server: &TestServer, form: &str, method: &str, path: &str, body: &Value) -> Answer {
    let accept = format!("application/json; times={form}");
    let headers = [
        ("x-appwrite-project", PROJECT),
        ("x-appwrite-key", KEY),
        ("accept", accept.as_str()),
    ];
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    server.ask_with(&headers, method, &format!("{BASE}/{path}"), &body)
}

fn post(server: &TestServer, path: &str, body: &Value) -> Value {
    let answer = server.ask("POST", &format!("{BASE}/{path}"), &body.to_string());
    assert!(answer.status.is_success(), "{body}: {}", answer.text);
    answer.json()
}

/// Two pieces of a row, and a row that it refers to.
fn fill(server: &TestServer) -> i64 {
    let ops = json!([
        {"op": "put", "tableId": "t", "rowId": "a", "data": {"n": 1, "u": "b"},
            "$validFrom": SPRING, "$validTo": SUMMER_US},
        {"op": "put", "tableId": "t", "rowId": "a", "data": {"n": 2, "u": "b"},
            "$validFrom": SUMMER},
        {"op": "put", "tableId": "u", "rowId": "b", "data": {"n": 3}, "$validFrom": "min"},
    ]);
    let body = json!({"ops": ops, "meta": {"why": "test"}}).to_string();
    let done = server.ask("POST", &format!("{BASE}/transactions"), &body);
    assert_eq!(done.status, 201, "{}", done.text);
    let mark: i64 = done.header("x-tidemark-mark").parse().unwrap();
    let rows = json!([
        {"tableId": "t", "rowId": "a", "affected": 1},
        {"tableId": "t", "rowId": "a", "affected": 1},
        {"tableId": "u", "rowId": "b", "affected": 1},
    ]);
    assert_eq!(
        done.json(),
        json!({"$systemFrom": iso_us(Timestamp(mark)), "rows": rows})
    );
    mark
}

#[test]
fn reads_in_our_words_are_answered_in_them() {
    let server = server();
    let mark = fill(&server);
    let known = iso_us(Mark(mark).timestamp());
    let first = json!({"$validFrom": SPRING, "$validTo": SUMMER, "data": {"n": 1, "u": "b"}});
    let second = json!({"$validFrom": SUMMER, "$validTo": null, "data": {"n": 2, "u": "b"}});
    let known_so = |piece: &Value| {
        let mut piece = piece.clone();
        piece["$systemFrom"] = json!(known);
        piece["$origin"] = json!(known);
        piece
    };
    let rectangle = |piece: &Value| {
        let mut piece = known_so(piece);
        piece["$systemTo"] = Value::Null;
        piece
    };
    let row = json!({"tableId": "t", "rowId": "a", "asOf": mark});
    for (kind, more, rows) in [
        ("get", json!({"validAt": SPRING}), json!({"n": 1, "u": "b"})),
        ("get", json!({"full": true}), known_so(&second)),
        ("history", json!({"axis": "valid"}), json!([first, second])),
        (
            "history",
            json!({"axis": "valid", "validBetween": ["min", SUMMER_US]}),
            json!([first]),
        ),
        (
            "history",
            json!({"axis": "system", "validAt": SPRING}),
            json!([{"$systemFrom": known, "$systemTo": null, "$origin": known,
                "data": {"n": 1, "u": "b"}}]),
        ),
        (
            "history",
            json!({"axis": "both"}),
            json!([rectangle(&first), rectangle(&second)]),
        ),
        (
            "period",
            json!({"relation": "precedes", "period": [SUMMER, null]}),
            json!([{"$id": "a", "$validFrom": SPRING, "$validTo": SUMMER}]),
        ),
        (
            "allen",
            json!({"period": [SUMMER, null]}),
            json!([
                {"$validFrom": SPRING, "$validTo": SUMMER, "relation": "meets"},
                {"$validFrom": SUMMER, "$validTo": null, "relation": "equals"},
            ]),
        ),
        ("stableUntil", json!({"validAt": SPRING}), json!(SUMMER)),
    ] {
        let read = merged(&json!({"kind": kind}), &merged(&row, &more));
        let answer = post(&server, "reads", &read);
        assert_eq!(answer["rows"], rows, "{read}");
        assert_eq!(answer["asOf"], known, "{read}");
        assert!(answer["validAt"].is_string(), "{answer}");
        assert!(
            answer.get("tt").is_none() && answer.get("vt").is_none(),
            "{answer}"
        );
    }
}

#[test]
fn reads_of_tables_are_answered_in_our_words_too() {
    let server = server();
    let mark = fill(&server);
    let known = iso_us(Mark(mark).timestamp());
    let of_table = json!({"tableId": "t", "asOf": known, "validAt": SPRING_US});
    let of_rows = [
        ("scan", json!({}), json!([{"$id": "a", "n": 1, "u": "b"}])),
        (
            "timeline",
            json!({"fn": "sum", "column": "n", "period": [SPRING, null], "validAt": null}),
            json!([
                {"$validFrom": SPRING, "$validTo": SUMMER, "value": 1},
                {"$validFrom": SUMMER, "$validTo": null, "value": 2},
            ]),
        ),
        (
            "diff",
            json!({"from": {"asOf": mark, "validAt": SPRING}, "to": {"asOf": known}}),
            json!([{"$id": "a", "before": {"n": 1, "u": "b"}, "after": {"n": 2, "u": "b"}}]),
        ),
    ];
    for (kind, more, rows) in of_rows {
        let read = merged(&json!({"kind": kind}), &merged(&of_table, &more));
        assert_eq!(post(&server, "reads", &read)["rows"], rows, "{read}");
    }
    let join = json!({"kind": "join", "left": "t", "right": "u", "on": "u", "asOf": mark,
        "validBetween": [SPRING, SUMMER]});
    let pair = json!({"left": "a", "right": "b", "$validFrom": SPRING, "$validTo": SUMMER,
        "leftData": {"n": 1, "u": "b"}, "rightData": {"n": 3}});
    assert_eq!(post(&server, "reads", &join)["rows"], json!([pair]));
}

fn merged(one: &Value, other: &Value) -> Value {
    let mut merged = one.clone();
    let more = other.as_object().unwrap().clone();
    merged.as_object_mut().unwrap().extend(more);
    merged
}

#[test]
fn records_of_commits_are_told_in_our_words() {
    let server = server();
    let mark = fill(&server);
    let changes = json!([{"tableId": "t", "rowId": "a"}, {"tableId": "u", "rowId": "b"}]);
    let record =
        |mark: Value| json!({"$systemFrom": mark, "meta": {"why": "test"}, "changes": changes});
    let known = json!(iso_us(Timestamp(mark)));
    let found = post(&server, "reads", &json!({"kind": "tx", "asOf": mark}));
    assert_eq!(found["rows"], record(known.clone()));
    // A feed that names nothing else gets the form that its `Accept` names.
    let feed = json!({"kind": "feed", "after": iso_us(Timestamp(mark - 1))});
    let told = ask_in(&server, "integer", "POST", "reads", &feed).json();
    let mut first = told["rows"][0].clone();
    first.as_object_mut().unwrap().remove("user");
    assert_eq!(first, record(json!(mark)));
    let all = ask_in(&server, "iso", "POST", "reads", &json!({"kind": "feed"})).json();
    let created = json!([{"act": "table_created", "tableId": "t"}]);
    let mut records = all["rows"].as_array().unwrap().iter();
    assert!(records.any(|record| record["schema"] == created), "{all}");
    let as_written = post(&server, "reads", &feed);
    assert_eq!(as_written["rows"][0]["tt"], mark);
    assert_eq!(
        as_written["rows"][0]["changes"],
        json!([["t", "a"], ["u", "b"]])
    );
}

#[test]
fn instants_are_written_as_accept_says() {
    let server = server();
    let mark = fill(&server);
    let known = iso_us(Timestamp(mark));
    // The case language as it is written, unless a form is asked for.
    let read = json!({"kind": "history", "table": "t", "id": "a", "axis": "valid", "tt": known});
    let plain = post(&server, "reads", &read);
    assert_eq!(plain["rows"][0]["valid_from"], SPRING_US);
    assert_eq!(plain["tt"], mark);
    let integers = ask_in(&server, "integer", "POST", "reads", &read).json();
    assert_eq!(integers["rows"][0]["$validFrom"], SPRING_US);
    assert_eq!(integers["rows"][0]["$validTo"], SUMMER_US);
    assert_eq!(integers["asOf"], mark);
    let texts = ask_in(&server, "iso", "POST", "reads", &read).json();
    assert_eq!(texts["rows"][0]["$validFrom"], SPRING);
    assert_eq!(texts["asOf"], known.as_str());
    // Batches tell where they read, and so do their rows.
    let batch = json!({"reads": [{"tableId": "t", "ids": ["a"], "asOf": mark, "validAt": SPRING}]});
    let texts = post(&server, "batch/reads", &batch)["results"][0].clone();
    assert_eq!(
        (&texts["asOf"], &texts["validAt"]),
        (&json!(known), &json!(SPRING))
    );
    assert_eq!(texts["rows"][0]["$validTo"], SUMMER);
    let integers = ask_in(&server, "integer", "POST", "batch/reads", &batch).json();
    let integers = &integers["results"][0];
    assert_eq!(
        (&integers["asOf"], &integers["validAt"]),
        (&json!(mark), &json!(SPRING_US))
    );
    assert_eq!(integers["rows"][0]["$validFrom"], SPRING_US);
    assert_eq!(integers["rows"][0]["$systemFrom"], mark);
    // Marks are integers unless texts are asked for.
    let beat = post(&server, "heartbeat", &json!({}))["horizon"].clone();
    assert!(beat.is_i64(), "{beat}");
    let beat = ask_in(&server, "iso", "POST", "heartbeat", &Value::Null).json();
    assert!(
        beat["horizon"]
            .as_str()
            .is_some_and(|at| at.ends_with("+00:00")),
        "{beat}"
    );
    // What a table has kept from.
    let options = "tables/t/options";
    let set = ask_in(
        &server,
        "iso",
        "PATCH",
        options,
        &json!({"history": "days(7)"}),
    )
    .json();
    assert!(set["keptFrom"].is_string(), "{set}");
    let shown = ask_in(&server, "integer", "GET", options, &Value::Null).json();
    assert!(shown["keptFrom"].is_i64(), "{shown}");
    let refused = ask_in(&server, "unix", "POST", "reads", &read);
    assert_eq!(refused.refusal(), "400 general_argument_invalid");
    assert!(
        refused.text.contains("`iso` or `integer`, got `unix`"),
        "{}",
        refused.text
    );
}

#[test]
fn a_member_is_sent_by_one_of_its_names() {
    let server = server();
    let mark = fill(&server);
    // Both vocabularies at once, as long as nothing is said twice.
    let mixed = json!({"kind": "get", "table": "t", "id": "a", "asOf": mark, "vt": SPRING});
    assert_eq!(post(&server, "reads", &mixed)["rows"]["n"], 1);
    let refusal = |path: &str, body: &Value| {
        let refused = server.ask("POST", &format!("{BASE}/{path}"), &body.to_string());
        assert_eq!(refused.refusal(), "400 general_argument_invalid", "{body}");
        refused.json()["message"].as_str().unwrap().to_owned()
    };
    let get = json!({"kind": "get", "tableId": "t", "rowId": "a"});
    for (more, named) in [
        (json!({"table": "t"}), "`tableId` says the same as `table`"),
        (
            json!({"asOf": mark, "tt": mark}),
            "`asOf` says the same as `tt`",
        ),
        (json!({"validAt": "soon"}), "`validAt`"),
        (json!({"validFrom": SPRING}), "no member `validFrom`"),
    ] {
        let message = refusal("reads", &merged(&get, &more));
        assert!(message.contains(named), "{more}: {message}");
    }
    let put = json!({"op": "put", "tableId": "t", "rowId": "a", "data": {}});
    for (more, named) in [
        (
            json!({"$validFrom": 5, "valid_from": 5}),
            "says the same as `valid_from`",
        ),
        (json!({"doc": {}}), "`data` says the same as `doc`"),
        (json!({"$validTo": "later"}), "`$validTo`"),
        (json!({"$validfrom": 5}), "Is `$validFrom` meant?"),
    ] {
        let message = refusal("transactions", &json!({"ops": [merged(&put, &more)]}));
        assert!(message.contains(named), "{more}: {message}");
    }
}

#[test]
fn messages_name_instants_as_texts() {
    let server = server();
    let mark = fill(&server);
    let late = mark + 3_600_000_000;
    let get = json!({"kind": "get", "table": "t", "id": "a", "tt": late});
    let refused = server.ask("POST", &format!("{BASE}/reads"), &get.to_string());
    assert_eq!(refused.refusal(), "400 future_tt");
    assert!(
        refused.text.contains(&iso_us(Timestamp(late))),
        "{}",
        refused.text
    );
    assert!(
        !refused.text.contains(&late.to_string()),
        "{}",
        refused.text
    );
}

#[test]
fn values_are_written_alike_on_all_routes() {
    let server = server();
    // In the order of their keys, in which reads over time show them.
    let columns = json!([
        {"key": "a", "type": "boolean"},
        {"key": "b", "type": "bigint"},
        {"key": "c", "type": "double"},
        {"key": "d", "type": "double", "array": true},
        {"key": "e", "type": "datetime"},
        {"key": "f", "type": "datetime", "array": true},
        {"key": "g", "type": "text"},
        {"key": "h", "type": "text", "array": true},
    ]);
    let table = json!({"tableId": "all", "name": "All", "columns": columns}).to_string();
    let made = server.ask("POST", "/v1/tablesdb/d/tables", &table);
    assert_eq!(made.status, 201, "{}", made.text);
    let values = concat!(
        r#""a":true,"b":-9223372036854775807,"c":1e+300,"d":[1.0,-2.5,1e-7,0.1],"#,
        r#""e":"2024-02-03T04:05:06.789+00:00","f":["0001-01-01T00:00:00.000+00:00"],"#,
        r#""g":"q\"\\\n\u0001</é😀","h":["",","]"#,
    );
    let row = format!(r#"{{"rowId":"r","data":{{{values}}}}}"#);
    let made = server.ask("POST", "/v1/tablesdb/d/tables/all/rows", &row);
    assert_eq!(made.status, 201, "{}", made.text);
    let (_, shown) = made.text.split_once(r#""$tableId":"all","#).unwrap();
    let read = json!({"kind": "get", "table": "all", "id": "r"}).to_string();
    let read = server.ask("POST", &format!("{BASE}/reads"), &read);
    let rows = format!(r#"{{"rows":{{{shown},"stableUntil":null,"#);
    assert!(read.text.starts_with(&rows), "{}\n{shown}", read.text);
    assert_eq!(shown, format!("{values}}}"));
}
