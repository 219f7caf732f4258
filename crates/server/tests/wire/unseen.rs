//! The answer to a caller who may write a row and may not read it: its id, and what was sent.

use serde_json::{Value, json};

use crate::fixture::{Answer, PROJECT, TestServer};

const GUEST: [(&str, &str); 1] = [("x-appwrite-project", PROJECT)];
const ROW: &str = "/v1/tablesdb/d/tables/t/rows/r";

/// A row of a table whose rows any caller may write, with this grant of its own.
fn server(row_security: bool, grant: &str) -> TestServer {
    let server = TestServer::start();
    let table = json!({"tableId": "t", "name": "T", "rowSecurity": row_security,
        "permissions": ["create(\"any\")", "update(\"any\")"],
        "columns": [{"key": "n", "type": "integer"}, {"key": "s", "type": "text"}]});
    let row = json!({"rowId": "r", "data": {"n": 41, "s": "hidden"}, "permissions": [grant]});
    for (path, body) in [
        ("/v1/tablesdb", json!({"databaseId": "d", "name": "D"})),
        ("/v1/tablesdb/d/tables", table),
        ("/v1/tablesdb/d/tables/t/rows", row),
    ] {
        let made = server.ask("POST", path, &body.to_string());
        assert_eq!(made.status, 201, "{}", made.text);
    }
    // A guest names other times, too.
    let options = "/v1/tidemark/databases/d/tables/t/options";
    let opened = server.ask("PATCH", options, r#"{"past":"now"}"#);
    assert_eq!(opened.status, 200, "{}", opened.text);
    server
}

fn ask(server: &TestServer, method: &str, path: &str, body: &Value) -> Answer {
    server.ask_with(&GUEST, method, path, &body.to_string())
}

#[track_caller]
fn check_hidden(answer: &Answer, wanted: &Value) {
    assert!(answer.status.is_success(), "{}", answer.text);
    let mut shown = answer.json();
    let members = shown.as_object_mut().unwrap();
    for place in ["$databaseId", "$tableId", "$collectionId"] {
        members.remove(place);
    }
    assert_eq!(&shown, wanted);
}

#[test]
fn a_change_of_a_row_that_is_hidden_answers_what_was_sent() {
    let server = server(false, "read(\"any\")");
    let sent = json!({"data": {"n": 5}});
    let over = json!({"data": {"n": 6, "$validFrom": "2020-01-01T00:00:00Z",
        "$validTo": "2020-02-01T00:00:00Z"}});
    let older = ROW
        .replace("tablesdb", "databases")
        .replace("tables/", "collections/");
    let older = older.replace("rows", "documents");
    for (method, path, body, wanted) in [
        ("PATCH", ROW, &sent, json!({"$id": "r", "n": 5})),
        ("PUT", ROW, &sent, json!({"$id": "r", "n": 5})),
        ("PATCH", &older, &sent, json!({"$id": "r", "n": 5})),
        ("PUT", ROW, &over, json!({"$id": "r", "n": 6})),
    ] {
        check_hidden(&ask(&server, method, path, body), &wanted);
    }
    let made = json!({"rowId": "mine", "data": {"n": 1}});
    let made = ask(&server, "POST", "/v1/tablesdb/d/tables/t/rows", &made);
    assert_eq!(made.json()["n"], 1, "whoever makes a row knows it");
    let whole = server.ask("PATCH", ROW, &sent.to_string()).json();
    assert_eq!(whole["s"], "hidden", "a key sees all");
}

#[test]
fn a_staged_change_of_a_row_that_is_hidden_answers_what_was_sent() {
    let server = server(false, "read(\"any\")");
    let made = ask(&server, "POST", "/v1/tablesdb/transactions", &json!({}));
    let id = made.json()["$id"].clone();
    let sent = json!({"data": {"n": 5}, "transactionId": id});
    check_hidden(
        &ask(&server, "PATCH", ROW, &sent),
        &json!({"$id": "r", "n": 5}),
    );
}

#[track_caller]
fn check_refused(answer: &Answer) {
    let refusal = answer.json();
    let typed = (answer.status.as_u16(), &refusal["type"]);
    assert_eq!(typed, (401, &json!("user_unauthorized")), "{}", answer.text);
}

#[test]
fn an_operator_on_a_row_that_is_hidden_is_refused_whatever_it_holds() {
    let server = server(false, "read(\"any\")");
    let count = format!("{ROW}/n/increment");
    // The number is 41: one of the two bounds would be passed.
    let operate = |values: &str| {
        let text = format!(r#"{{"method":"increment","values":{values}}}"#);
        json!({"data": {"n": text}})
    };
    for (method, path, body) in [
        ("PATCH", &*count, json!({"value": 1, "max": 41})),
        ("PATCH", &count, json!({"value": 1, "max": 42})),
        ("PATCH", &count, json!({"value": i64::MAX - 40})),
        ("PATCH", &count, json!({"value": i64::MAX - 42})),
        ("PATCH", ROW, operate("[1,41]")),
        ("PATCH", ROW, operate("[1,42]")),
        ("PUT", ROW, operate("[1]")),
    ] {
        check_refused(&ask(&server, method, path, &body));
    }
    let text = r#"{"method":"stringReplace","values":["hid","x"]}"#;
    check_refused(&ask(&server, "PATCH", ROW, &json!({"data": {"s": text}})));
    let held = server.ask("GET", ROW, "").json();
    assert_eq!((&held["n"], &held["s"]), (&json!(41), &json!("hidden")));
    // An operator on a row that is not there yet has nothing to tell.
    let other = ROW.replace("rows/r", "rows/mine");
    let made = ask(&server, "PUT", &other, &operate("[2]"));
    check_hidden(&made, &json!({"$id": "mine"}));
    assert_eq!(server.ask("GET", &other, "").json()["n"], 2);
}

#[test]
fn a_staged_operator_on_a_row_that_is_hidden_is_not_committed() {
    let server = server(false, "read(\"any\")");
    let count = format!("{ROW}/n/increment");
    let made = ask(&server, "POST", "/v1/tablesdb/transactions", &json!({}));
    let id = made.json()["$id"].as_str().unwrap().to_owned();
    for max in [41, 42] {
        let sent = json!({"value": 1, "max": max, "transactionId": id});
        check_refused(&ask(&server, "PATCH", &count, &sent));
    }
    let text = r#"{"method":"increment","values":[1,41]}"#;
    let sent = json!({"data": {"n": text}, "transactionId": id});
    let staged = ask(&server, "PATCH", ROW, &sent);
    if staged.status.is_success() {
        let path = format!("/v1/tablesdb/transactions/{id}");
        check_refused(&ask(&server, "PATCH", &path, &json!({"commit": true})));
    } else {
        check_refused(&staged);
    }
    assert_eq!(server.ask("GET", ROW, "").json()["n"], 41);
}

#[test]
fn a_row_that_grants_reading_and_changing_may_be_counted() {
    let server = server(true, "read(\"any\")");
    let count = format!("{ROW}/n/increment");
    let counted = ask(&server, "PATCH", &count, &json!({"max": 42}));
    assert_eq!(counted.json()["n"], 42, "{}", counted.text);
    let closed = server.ask("PATCH", ROW, &json!({"permissions": []}).to_string());
    assert_eq!(closed.status, 200, "{}", closed.text);
    check_refused(&ask(&server, "PATCH", &count, &json!({"max": 99})));
}

#[test]
fn a_row_that_grants_reading_is_answered_whole() {
    let server = server(true, "read(\"any\")");
    let whole = ask(&server, "PATCH", ROW, &json!({"data": {"n": 5}})).json();
    assert_eq!((&whole["n"], &whole["s"]), (&json!(5), &json!("hidden")));
    let other = json!({"data": {"n": 5}, "permissions": []});
    let changed = server.ask("PATCH", ROW, &other.to_string());
    assert_eq!(changed.status, 200, "{}", changed.text);
    let hidden = ask(&server, "PATCH", ROW, &json!({"data": {"n": 6}}));
    check_hidden(&hidden, &json!({"$id": "r", "n": 6}));
}
