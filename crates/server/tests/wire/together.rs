//! Operations that need each other: judged when all of them are done, and shown so inside a
//! transaction; constraints over valid time by one, with what breaks them.

use serde_json::{Value, json};

use crate::fixture::TestServer;
use crate::transactions::{ROWS, TABLES, refused, server};

const OWN: &str = "/v1/tidemark/databases/d";

/// Ids and codes of all rows, inside a transaction or outside.
fn codes(server: &TestServer, transaction: Option<&str>) -> Vec<(String, String)> {
    let inside = transaction.map(|id| format!("?transactionId={id}"));
    let path = format!("{ROWS}{}", inside.unwrap_or_default());
    let list = server.ask("GET", &path, "");
    assert_eq!(list.status, 200, "{}", list.text);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let list = list.json();
    let rows = list["rows"].as_array().unwrap().iter();
    let mut found: Vec<_> = rows
        .map(|row| (text(&row["$id"]), text(&row["code"])))
        .collect();
    found.sort();
    found
}

fn of(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let pairs = pairs.iter();
    pairs
        .map(|(id, code)| ((*id).to_owned(), (*code).to_owned()))
        .collect()
}

fn transact(server: &TestServer, ops: &Value) -> crate::fixture::Answer {
    let path = format!("{OWN}/transactions");
    server.ask("POST", &path, &json!({ "ops": ops }).to_string())
}

fn patch(id: &str, code: &str) -> Value {
    json!({"op": "patch", "table": "t", "id": id, "doc": {"code": code}})
}

#[test]
fn unique_values_change_places_in_every_kind_of_batch() {
    let server = server();
    let done = transact(&server, &json!([patch("a", "b"), patch("b", "a")]));
    assert_eq!(done.status, 201, "{}", done.text);
    assert_eq!(
        codes(&server, None),
        of(&[("a", "b"), ("b", "a"), ("c", "c")])
    );
    let rows = json!({"rows": [
        {"$id": "a", "code": "c"}, {"$id": "b", "code": "b"}, {"$id": "c", "code": "a"},
    ]});
    let done = server.ask("PUT", ROWS, &rows.to_string());
    assert_eq!(done.status, 200, "{}", done.text);
    assert_eq!(
        codes(&server, None),
        of(&[("a", "c"), ("b", "b"), ("c", "a")])
    );
    let operations = json!({"operations": [
        {"action": "update", "tableId": "t", "rowId": "a", "data": {"code": "a"}},
        {"action": "update", "tableId": "t", "rowId": "c", "data": {"code": "c"}},
    ]});
    let path = format!("{OWN}/batch/writes");
    let done = server.ask("POST", &path, &operations.to_string());
    assert_eq!(done.status, 200, "{}", done.text);
    assert_eq!(
        codes(&server, None),
        of(&[("a", "a"), ("b", "b"), ("c", "c")])
    );
    // Each on its own, the first one stands in the way of nothing and is refused.
    let mut alone = operations;
    alone["operations"][0]["data"]["code"] = json!("c");
    alone["operations"][1]["data"]["code"] = json!("a");
    alone["atomic"] = json!(false);
    let done = server.ask("POST", &path, &alone.to_string()).json();
    for result in done["results"].as_array().unwrap() {
        assert_eq!(result["error"]["type"], "row_unique_constraint_violation");
    }
}

#[test]
fn a_duplicate_is_refused_with_index_row_and_period_to_keys_alone() {
    let server = server();
    let twice = transact(&server, &json!([patch("a", "b"), patch("b", "c")]));
    refused(&twice, "409 unique_violation");
    let message = twice.json()["message"].as_str().unwrap().to_owned();
    for named in ["`ops[1]`", "`one_code`", "row `c`", "from "] {
        assert!(message.contains(named), "{named}: {message}");
    }
    let row = json!({"rowId": "d", "data": {"code": "c"}}).to_string();
    let stranger = server.ask_as(None, "POST", ROWS, &row);
    refused(&stranger, "409 row_unique_constraint_violation");
    assert!(!stranger.text.contains("`c`"), "{}", stranger.text);
    assert_eq!(
        codes(&server, None),
        of(&[("a", "a"), ("b", "b"), ("c", "c")])
    );
}

#[test]
fn reads_inside_show_operations_that_need_each_other() {
    let server = server();
    let id = TABLES.open(&server, None.or(Some(crate::fixture::ROWS_KEY)));
    let staged = [
        // Taken before it is given up, and then changed.
        TABLES.op("create", "d", json!({"code": "a", "n": 4})),
        TABLES.op("delete", "a", Value::Null),
        TABLES.op("update", "b", json!({"code": "c"})),
        TABLES.op("update", "c", json!({"code": "b"})),
        TABLES.op("update", "d", json!({"n": 5})),
    ];
    for operation in staged {
        let answer = TABLES.stage(&server, &id, json!([operation]));
        assert_eq!(answer.status, 201, "{}", answer.text);
    }
    let left = of(&[("b", "c"), ("c", "b"), ("d", "a")]);
    assert_eq!(codes(&server, Some(&id)), left);
    assert_eq!(
        codes(&server, None),
        of(&[("a", "a"), ("b", "b"), ("c", "c")])
    );
    let one = server.ask("GET", &format!("{ROWS}/d?transactionId={id}"), "");
    assert_eq!(one.json()["n"], 5, "{}", one.text);
    // What cannot be committed shows nothing, and leaves the others alone.
    let bad = TABLES.op("update", "b", json!({"code": "a"}));
    assert_eq!(TABLES.stage(&server, &id, json!([bad])).status, 201);
    let shown = codes(&server, Some(&id));
    assert_eq!(
        shown.iter().filter(|(_, code)| code == "a").count(),
        1,
        "{shown:?}"
    );
    let id = TABLES.open(&server, Some(crate::fixture::ROWS_KEY));
    let staged = json!([
        TABLES.op("update", "b", json!({"code": "c"})),
        TABLES.op("update", "c", json!({"code": "b"})),
    ]);
    assert_eq!(TABLES.stage(&server, &id, staged).status, 201);
    let inside = codes(&server, Some(&id));
    assert_eq!(TABLES.end(&server, &id, "commit").status, 200);
    assert_eq!(codes(&server, None), inside);
}

/// A table `holders` whose column `to` refers to rows of `t`.
fn with_holders() -> TestServer {
    let server = server();
    let table = json!({"tableId": "holders", "name": "Holders", "permissions": [],
        "columns": [{"key": "to", "type": "varchar", "size": 36}]});
    let made = server.ask("POST", "/v1/tablesdb/d/tables", &table.to_string());
    assert_eq!(made.status, 201, "{}", made.text);
    server
}

const HOLDERS: &str = "/v1/tidemark/databases/d/tables/holders/constraints";

#[test]
fn reads_inside_show_references_and_what_they_lead_to() {
    let server = with_holders();
    let refs = json!({"refs": [{"column": "to", "table": "t"}]});
    assert_eq!(server.ask("POST", HOLDERS, &refs.to_string()).status, 200);
    let ids = |path: &str| {
        let list = server.ask("GET", path, "").json();
        let rows = list["rows"].as_array().unwrap().iter();
        let mut ids: Vec<String> = rows
            .map(|row| row["$id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    };
    let op = |table: &str, action: &str, row: &str, data: Value| {
        let mut op = TABLES.op(action, row, data);
        op["tableId"] = json!(table);
        op
    };
    let id = TABLES.open(&server, Some(crate::fixture::ROWS_KEY));
    let first = json!([
        op("holders", "create", "h", json!({"to": "new"})),
        op("t", "create", "new", json!({"n": 1})),
    ]);
    let staged = TABLES.stage(&server, &id, first);
    assert_eq!(staged.status, 201, "{}", staged.text);
    let holders = "/v1/tablesdb/d/tables/holders/rows";
    let inside = format!("?transactionId={id}");
    assert_eq!(ids(&format!("{holders}{inside}")), ["h"]);
    assert_eq!(ids(&format!("{ROWS}{inside}")), ["a", "b", "c", "new"]);
    let ended = TABLES.end(&server, &id, "commit");
    assert_eq!(ended.status, 200, "{}", ended.text);
    assert_eq!(ids(holders), ["h"]);
    // The other way round: the reference goes, and then its target.
    let id = TABLES.open(&server, Some(crate::fixture::ROWS_KEY));
    let second = json!([
        op("t", "delete", "new", Value::Null),
        op("holders", "update", "h", json!({"to": null})),
    ]);
    let staged = TABLES.stage(&server, &id, second);
    assert_eq!(staged.status, 201, "{}", staged.text);
    assert_eq!(ids(&format!("{ROWS}?transactionId={id}")), ["a", "b", "c"]);
    let ended = TABLES.end(&server, &id, "commit");
    assert_eq!(ended.status, 200, "{}", ended.text);
    assert_eq!(ids(ROWS), ["a", "b", "c"]);
}

#[test]
fn constraints_are_shown_added_and_removed_one_by_one() {
    let server = with_holders();
    let path = format!("{OWN}/tables/t/constraints");
    let ask = |method: &str, body: Value| server.ask(method, &path, &body.to_string());
    let shown = |server: &TestServer| server.ask("GET", &path, "").json();
    assert_eq!(shown(&server), json!({"unique": [], "refs": []}));
    let code = json!({"unique": [["code"]]});
    let added = ask("POST", code.clone());
    assert_eq!(added.status, 200, "{}", added.text);
    assert_eq!(added.json(), json!({"unique": [["code"]], "refs": []}));
    refused(&ask("POST", code.clone()), "409 constraint_already_exists");
    let pair = json!({"unique": [["n", "code"]], "refs": [{"column": "name", "table": "holders"}]});
    refused(&ask("DELETE", pair), "404 constraint_not_found");
    assert_eq!(ask("POST", json!({"unique": [["n", "code"]]})).status, 200);
    let all = json!({"unique": [["code"], ["n", "code"]], "refs": []});
    assert_eq!(shown(&server), all);
    assert_eq!(
        ask("DELETE", code).json(),
        json!({"unique": [["n", "code"]], "refs": []})
    );
    refused(
        &ask("POST", json!({"uniq": []})),
        "400 general_argument_invalid",
    );
    // No more than so many, one by one either.
    for n in 0..25 {
        let column = json!({"key": format!("k{n}"), "required": false});
        let columns = "/v1/tablesdb/d/tables/t/columns/integer";
        assert_eq!(server.ask("POST", columns, &column.to_string()).status, 202);
        let added = ask("POST", json!({"unique": [[format!("k{n}")]]}));
        let expected = if n < 19 {
            "200"
        } else {
            "400 general_argument_invalid"
        };
        assert_eq!(added.refusal(), expected, "{n}");
    }
    // Those without a key, or with one for rows alone, see and change nothing.
    for key in [None, Some(crate::fixture::ROWS_KEY)] {
        for method in ["GET", "POST", "DELETE", "PUT"] {
            let body = if method == "GET" { "" } else { "{}" };
            let answer = server.ask_as(key, method, &path, body);
            assert_eq!(answer.status, 401, "{method} {}", answer.text);
        }
    }
}

#[test]
fn violations_of_a_constraint_are_listed_within_bounds() {
    let server = with_holders();
    for n in 0..130 {
        let row = json!({"rowId": format!("h{n}"), "data": {"to": format!("gone{}", n / 2)}});
        let made = server.ask(
            "POST",
            "/v1/tablesdb/d/tables/holders/rows",
            &row.to_string(),
        );
        assert_eq!(made.status, 201, "{}", made.text);
    }
    let refs = json!({"refs": [{"column": "to", "table": "t"}]});
    let kept = server.ask("POST", HOLDERS, &refs.to_string());
    refused(&kept, "409 ref_violation");
    let body = kept.json();
    let violations = body["violations"].as_array().unwrap();
    assert_eq!((violations.len(), &body["more"]), (100, &json!(true)));
    assert_eq!(violations[0]["against"], "gone0");
    assert_eq!(violations[0]["valid_to"], Value::Null);
    assert!(violations[0]["valid_from"].is_i64(), "{}", violations[0]);
    assert!(kept.text.len() < 20_000, "{}", kept.text.len());
    let unique = json!({"unique": [["to"]]});
    let kept = server.ask("POST", HOLDERS, &unique.to_string());
    refused(&kept, "409 unique_violation");
    let body = kept.json();
    let violations = body["violations"].as_array().unwrap();
    assert_eq!((violations.len(), &body["more"]), (65, &json!(false)));
    let pair = (&violations[0]["row"], &violations[0]["against"]);
    assert_eq!(pair, (&json!("h1"), &json!("h0")));
    let none = json!({"unique": [], "refs": []});
    assert_eq!(server.ask("GET", HOLDERS, "").json(), none);
}
