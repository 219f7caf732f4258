//! Transactions of the case language on tables with relationships, and refusals that name the
//! part of the request that they are about.

use crate::fixture::{Answer, TestServer};
use crate::relationships::{relate, server};
use serde_json::{Value, json};

const BASE: &str = "/v1/tidemark/databases/d";

fn transact(server: &TestServer, ops: &Value) -> Answer {
    let body = json!({ "ops": ops }).to_string();
    server.ask("POST", &format!("{BASE}/transactions"), &body)
}

#[track_caller]
fn taken(server: &TestServer, ops: &Value) -> Value {
    let answer = transact(server, ops);
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.json()
}

/// The type of the refusal, and the index of the operation it names.
#[track_caller]
fn refused(server: &TestServer, ops: &Value) -> (String, Option<u64>) {
    let answer = transact(server, ops);
    let index = answer.json()["index"].as_u64();
    if let Some(index) = index {
        let names = format!("`ops[{index}]`: ");
        assert!(answer.text.contains(&names), "{}", answer.text);
    }
    (answer.refusal(), index)
}

fn op(op: &str, row: &str, doc: Value, period: (Value, Value)) -> Value {
    let (table, id) = row.split_once('/').unwrap();
    let mut made = json!({"op": op, "table": table, "id": id, "valid_to": period.1});
    if !doc.is_null() {
        made["doc"] = doc;
    }
    if !period.0.is_null() {
        made["valid_from"] = period.0;
    }
    made
}

fn put(row: &str, doc: Value, from: i64, to: i64) -> Value {
    op("put", row, doc, (json!(from), json!(to)))
}

fn delete(row: &str, from: i64, to: i64) -> Value {
    op("delete", row, Value::Null, (json!(from), json!(to)))
}

/// The pieces of a row as it is known now: from, to, and what it holds in `k`.
#[track_caller]
fn pieces(server: &TestServer, row: &str) -> Value {
    let (table, id) = row.split_once('/').unwrap();
    let read = json!({"kind": "history", "axis": "valid", "table": table, "id": id});
    let answer = server.ask("POST", &format!("{BASE}/reads"), &read.to_string());
    assert_eq!(answer.status, 200, "{}", answer.text);
    let rows = answer.json()["rows"].as_array().unwrap().clone();
    let piece = |piece: &Value| json!([piece["valid_from"], piece["valid_to"], piece["doc"]["k"]]);
    rows.iter().map(piece).collect()
}

fn related(kind: &str, on_delete: &str) -> TestServer {
    let server = server();
    let more = json!({"twoWay": true, "twoWayKey": "as", "onDelete": on_delete});
    relate(&server, kind, &more);
    server
}

#[test]
fn links_are_written_over_a_period_in_any_order() {
    let server = related("manyToOne", "setNull");
    // The row that is linked to comes later in the same transaction.
    taken(
        &server,
        &json!([
            put("a/1", json!({"n": 1, "k": "x"}), 10, 40),
            put("b/x", json!({"n": 7}), 10, 50),
        ]),
    );
    assert_eq!(pieces(&server, "a/1"), json!([[10, 40, "x"]]));
    let ordinary = server.ask(
        "GET",
        "/v1/tablesdb/d/tables/a/rows?queries[0]=%7B%22method%22:%22validAt%22,%22values%22:[20]%7D",
        "",
    );
    assert_eq!(ordinary.json()["rows"][0]["$id"], "1", "{}", ordinary.text);
    // A merge leaves the link, a put takes it, and null takes it as well.
    taken(
        &server,
        &json!([
            op("update", "a/1", json!({"n": 2}), (json!(15), json!(20))),
            put("a/1", json!({"n": 3}), 20, 25),
            op("patch", "a/1", json!({"k": null}), (json!(30), json!(35))),
        ]),
    );
    assert_eq!(
        pieces(&server, "a/1"),
        json!([
            [10, 15, "x"],
            [15, 20, "x"],
            [20, 25, null],
            [25, 30, "x"],
            [30, 35, null],
            [35, 40, "x"],
        ])
    );
    // From the other end, with a row written inside; a list is all there is in the period.
    taken(
        &server,
        &json!([put(
            "b/y",
            json!({"as": ["1", {"$id": "2", "n": 5}]}),
            10,
            20
        )]),
    );
    assert_eq!(pieces(&server, "a/2"), json!([[10, 20, "y"]]));
    assert_eq!(pieces(&server, "a/1")[0], json!([10, 15, "y"]));
    assert_eq!(pieces(&server, "a/1")[3], json!([25, 30, "x"]));
    taken(&server, &json!([put("b/y", json!({"as": []}), 12, 14)]));
    assert_eq!(
        pieces(&server, "a/2"),
        json!([[10, 12, "y"], [12, 14, null], [14, 20, "y"]])
    );
}

fn claim(k: Value, at: i64) -> Value {
    let equals = json!({ "k": k });
    json!({"op": "assert", "table": "a", "id": "1", "vt": at, "equals": equals})
}

#[test]
fn claims_and_filters_may_be_about_links() {
    let server = related("manyToOne", "setNull");
    taken(
        &server,
        &json!([
            put("b/x", json!({"n": 7}), 10, 50),
            put("a/1", json!({"n": 1, "k": "x"}), 10, 40),
            claim(json!("x"), 39),
        ]),
    );
    let wrong = json!([claim(json!("x"), 10), claim(json!("y"), 10)]);
    assert_eq!(
        refused(&server, &wrong),
        ("409 assert_failed".to_owned(), Some(1))
    );
    let others = json!([{"op": "assert", "table": "b", "id": "x", "equals": {"as": ["1"]}}]);
    assert_eq!(
        refused(&server, &others),
        ("400 relationship_value_invalid".to_owned(), Some(0))
    );
    let scan = json!({"kind": "scan", "table": "a", "where": {"k": "x"}, "vt": 20});
    let found = server.ask("POST", &format!("{BASE}/reads"), &scan.to_string());
    assert_eq!(found.json()["rows"], json!([{"id": "1", "n": 1, "k": "x"}]));
    let join = json!({"kind": "join", "left": "a", "right": "b", "on": "k"});
    let found = server.ask("POST", &format!("{BASE}/reads"), &join.to_string());
    assert_eq!(found.json()["rows"][0]["valid_to"], 40, "{}", found.text);
}

#[test]
fn a_link_needs_its_row_throughout() {
    let server = related("manyToOne", "setNull");
    taken(&server, &json!([put("b/x", json!({"n": 7}), 10, 50)]));
    for (from, to) in [(9, 50), (10, 51), (60, 70)] {
        let ops = json!([
            put("b/other", json!({"n": 1}), 1, 2),
            put("a/1", json!({"k": "x"}), from, to),
        ]);
        assert_eq!(
            refused(&server, &ops),
            ("409 ref_violation".to_owned(), Some(1))
        );
    }
    let ops = json!([put("a/1", json!({"k": "never"}), 10, 20)]);
    assert_eq!(
        refused(&server, &ops),
        ("409 ref_violation".to_owned(), Some(0))
    );
    let ops = json!([put("a/1", json!({"k": 7}), 10, 20)]);
    assert_eq!(
        refused(&server, &ops),
        ("400 relationship_value_invalid".to_owned(), Some(0))
    );
    taken(&server, &json!([put("a/1", json!({"k": "x"}), 10, 50)]));
}

#[test]
fn a_deletion_over_a_period_does_what_the_relationship_says() {
    let filled = |on_delete: &str| {
        let server = related("manyToOne", on_delete);
        taken(
            &server,
            &json!([
                put("b/x", json!({"n": 1}), 10, 50),
                put("b/y", json!({"n": 2}), 10, 50),
                put("a/1", json!({"k": "x"}), 10, 30),
                put("a/1", json!({"k": "y"}), 30, 50),
                put("a/2", json!({"k": "x"}), 20, 40),
            ]),
        );
        server
    };
    let server = filled("setNull");
    taken(&server, &json!([delete("b/x", 25, 45)]));
    assert_eq!(
        pieces(&server, "b/x"),
        json!([[10, 25, null], [45, 50, null]])
    );
    assert_eq!(
        pieces(&server, "a/1"),
        json!([[10, 25, "x"], [25, 30, null], [30, 50, "y"]])
    );
    assert_eq!(
        pieces(&server, "a/2"),
        json!([[20, 25, "x"], [25, 40, null]])
    );

    let server = filled("cascade");
    taken(&server, &json!([delete("b/x", 25, 45)]));
    assert_eq!(
        pieces(&server, "a/1"),
        json!([[10, 25, "x"], [30, 50, "y"]])
    );
    assert_eq!(pieces(&server, "a/2"), json!([[20, 25, "x"]]));

    let server = filled("restrict");
    let ops = json!([delete("b/x", 45, 50), delete("b/x", 39, 45)]);
    assert_eq!(
        refused(&server, &ops),
        ("403 row_delete_restricted".to_owned(), Some(1))
    );
    taken(&server, &json!([delete("b/x", 40, 50)]));
    // What lets go of it first, in the same transaction, holds it no more.
    taken(
        &server,
        &json!([delete("a/2", 20, 40), delete("b/x", 30, 40)]),
    );
    assert_eq!(pieces(&server, "a/2"), json!([]));
}

#[test]
fn an_erasure_counts_as_a_deletion_for_all_time() {
    let server = related("oneToOne", "cascade");
    taken(
        &server,
        &json!([
            put("b/x", json!({"n": 1}), 10, 50),
            put("a/1", json!({"k": "x"}), 10, 30),
            put("a/2", json!({"k": "x"}), 30, 50),
        ]),
    );
    let clash = json!([put("a/3", json!({"k": "x"}), 29, 30)]);
    assert_eq!(
        refused(&server, &clash),
        ("409 unique_violation".to_owned(), Some(0))
    );
    // Of a pair either takes the other, over the time they were one: the second half of b/x goes
    // with a/2, and the first with a/1.
    taken(&server, &json!([{"op": "erase", "table": "a", "id": "2"}]));
    assert_eq!(pieces(&server, "b/x"), json!([[10, 30, null]]));
    taken(&server, &json!([{"op": "erase", "table": "b", "id": "x"}]));
    assert_eq!(pieces(&server, "a/1"), json!([]));
    let server = related("manyToMany", "setNull");
    taken(
        &server,
        &json!([
            put("b/x", json!({"n": 1}), 10, 50),
            put("b/y", json!({"n": 1}), 10, 50),
            put("a/1", json!({"k": ["x", "y"]}), 10, 50),
            {"op": "erase", "table": "b", "id": "x"},
        ]),
    );
    assert_eq!(pieces(&server, "a/1"), json!([[10, 50, ["y"]]]));
}

#[test]
fn refusals_name_the_operation() {
    let server = related("manyToOne", "restrict");
    let good = || put("b/x", json!({"n": 1}), 10, 20);
    let bad = |more: Value| {
        let mut op = good();
        let more = more.as_object().unwrap().clone();
        op.as_object_mut().unwrap().extend(more);
        if op["op"] == "assert" {
            let others = ["doc", "valid_from", "valid_to"];
            op.as_object_mut()
                .unwrap()
                .retain(|key, _| !others.contains(&key.as_str()));
        }
        refused(&server, &json!([good(), op, good()]))
    };
    for (more, refusal) in [
        (json!({"op": "fly"}), "400 general_argument_invalid"),
        (json!({"id": "?"}), "400 general_argument_invalid"),
        (json!({"table": "none"}), "404 table_not_found"),
        (json!({"op": "insert"}), "409 exists"),
        (json!({"doc": {"x": 1}}), "400 row_invalid_structure"),
        (json!({"doc": {"n": "1"}}), "400 row_invalid_structure"),
        (json!({"valid_from": 20}), "400 invalid_range"),
        (
            json!({"valid_from": "2026"}),
            "400 general_argument_invalid",
        ),
        (json!({"valid_to": "12"}), "400 general_argument_invalid"),
        (
            json!({"valid_to": 253_402_300_800_000_000_i64}),
            "400 general_argument_invalid",
        ),
        (
            json!({"op": "assert", "exists": false, "vt": 15}),
            "409 assert_failed",
        ),
    ] {
        assert_eq!(bad(more.clone()), (refusal.to_owned(), Some(1)), "{more}");
    }
    let words = transact(&server, &json!([put("b/x", json!({"n": 1}), 10, 5)]));
    assert!(words.text.contains("`ops[0]`: "), "{}", words.text);
    let reads = json!({"reads": [
        {"kind": "get", "table": "b", "id": "x"},
        {"kind": "get", "table": "b", "id": "x", "vt": "2026"},
    ]});
    let answer = server.ask("POST", &format!("{BASE}/reads"), &reads.to_string());
    assert_eq!(answer.json()["index"], 1, "{}", answer.text);
    assert!(
        answer.text.contains("a year or microseconds"),
        "{}",
        answer.text
    );
}

#[test]
fn a_swap_that_fails_names_who_broke_the_key() {
    let server = server();
    let path = format!("{BASE}/tables/a/constraints");
    let unique = json!({"unique": [["n"]]}).to_string();
    assert_eq!(server.ask("PUT", &path, &unique).status, 200);
    let row =
        |id: &str, n: i64, from: i64, to: i64| put(&format!("a/{id}"), json!({"n": n}), from, to);
    taken(&server, &json!([row("1", 1, 10, 50), row("2", 2, 10, 50)]));
    taken(&server, &json!([row("1", 2, 20, 30), row("2", 1, 20, 30)]));
    let ops = json!([row("9", 9, 1, 2), row("1", 2, 30, 40), row("2", 1, 30, 39)]);
    assert_eq!(
        refused(&server, &ops),
        ("409 unique_violation".to_owned(), Some(1))
    );
}

#[test]
fn table_that_others_refer_to_is_not_deleted() {
    const TABLES: &str = "/v1/tablesdb/d/tables";
    const COLLECTIONS: &str = "/v1/databases/d/collections";
    let server = server();
    let constrain = |table: &str, refs: Value| {
        let path = format!("{BASE}/tables/{table}/constraints");
        let body = json!({ "refs": refs }).to_string();
        assert_eq!(server.ask("PUT", &path, &body).status, 200);
    };
    let delete = |family: &str, table: &str| server.ask("DELETE", &format!("{family}/{table}"), "");
    for table in ["a", "b"] {
        let path = format!("{TABLES}/{table}/columns/string");
        let made = server.ask("POST", &path, r#"{"key":"k","size":36,"required":false}"#);
        assert_eq!(made.status, 202, "{}", made.text);
    }
    constrain("a", json!([{"column": "k", "table": "b"}]));
    constrain("b", json!([{"column": "k", "table": "b"}]));
    let kept = delete(TABLES, "b");
    assert_eq!(kept.refusal(), "409 table_referenced");
    let message = kept.json()["message"].to_string();
    assert!(
        message.starts_with("\"Table `b` is referred to by the constraints of `a`."),
        "{message}"
    );
    let kept = delete(COLLECTIONS, "b");
    assert_eq!(kept.refusal(), "409 collection_referenced");
    // Nothing of it ended: the reference is judged as before.
    let row = put("a/1", json!({"k": "missing"}), 10, 50);
    let judged = refused(&server, &json!([row]));
    assert_eq!(judged, ("409 ref_violation".to_owned(), Some(0)));
    constrain("a", json!([]));
    assert_eq!(
        delete(TABLES, "b").status,
        204,
        "its own reference goes with it"
    );
    assert_eq!(delete(TABLES, "a").status, 204);
}

#[test]
fn refusals_name_periods_in_calendar_time() {
    let server = server();
    let path = format!("{BASE}/tables/a/constraints");
    let unique = json!({"unique": [["n"]]}).to_string();
    assert_eq!(server.ask("PUT", &path, &unique).status, 200);
    let message = |ops: &Value| {
        let json = transact(&server, ops).json();
        let message = json["message"].as_str().unwrap().to_owned();
        (json["type"].as_str().unwrap().to_owned(), message)
    };
    taken(&server, &json!([put("a/1", json!({"n": 1}), 10, 50)]));
    let (kind, text) = message(&json!([put("a/2", json!({"n": 1}), 20, 60)]));
    assert_eq!(kind, "unique_violation");
    let period = "from 1970-01-01T00:00:00.000020+00:00 to 1970-01-01T00:00:00.000050+00:00";
    assert_eq!(
        text,
        format!("`ops[0]`: Row `1` has the same values in `n` {period}.")
    );
    // The beginning of time ends nothing, whatever the table keeps.
    for from in [json!(1), json!("min")] {
        let ends_at_once = op("put", "a/2", json!({"n": 2}), (from.clone(), json!("min")));
        let (kind, text) = message(&json!([ends_at_once]));
        assert_eq!(kind, "invalid_range", "{from}");
        assert!(
            text.contains(" to the beginning of time holds no instant"),
            "{text}"
        );
    }
}

#[test]
fn reference_by_a_deleted_column_keeps_no_table() {
    let server = server();
    let columns = "/v1/tablesdb/d/tables/a/columns";
    let made = server.ask(
        "POST",
        &format!("{columns}/string"),
        r#"{"key":"k","size":36,"required":false}"#,
    );
    assert_eq!(made.status, 202, "{}", made.text);
    let refs = json!({"refs": [{"column": "k", "table": "b"}]}).to_string();
    let path = format!("{BASE}/tables/a/constraints");
    assert_eq!(server.ask("PUT", &path, &refs).status, 200);
    let gone = server.ask("DELETE", &format!("{columns}/k"), "");
    assert_eq!(gone.status, 204, "{}", gone.text);
    let gone = server.ask("DELETE", "/v1/tablesdb/d/tables/b", "");
    assert_eq!(gone.status, 204, "{}", gone.text);
}
