//! What a caller is told who may write a row and may not read it: its id, and what was sent.

use serde_json::{Value, json};

use crate::site::{Answer, PROJECT, Site};

const GUEST: [(&str, &str); 1] = [("x-appwrite-project", PROJECT)];
const ROW: &str = "/v1/tablesdb/d/tables/t/rows/r";

/// A row of a table whose rows anybody may write, with this grant of its own.
fn site(row_security: bool, grant: &str) -> Site {
    let site = Site::start();
    let table = json!({"tableId": "t", "name": "T", "rowSecurity": row_security,
        "permissions": ["create(\"any\")", "update(\"any\")"],
        "columns": [{"key": "n", "type": "integer"}, {"key": "s", "type": "text"}]});
    let row = json!({"rowId": "r", "data": {"n": 41, "s": "hidden"}, "permissions": [grant]});
    for (path, body) in [
        ("/v1/tablesdb", json!({"databaseId": "d", "name": "D"})),
        ("/v1/tablesdb/d/tables", table),
        ("/v1/tablesdb/d/tables/t/rows", row),
    ] {
        let made = site.ask("POST", path, &body.to_string());
        assert_eq!(made.status, 201, "{}", made.text);
    }
    // A guest names other times, too.
    let options = "/v1/tidemark/databases/d/tables/t/options";
    let opened = site.ask("PATCH", options, r#"{"past":"now"}"#);
    assert_eq!(opened.status, 200, "{}", opened.text);
    site
}

fn ask(site: &Site, method: &str, path: &str, body: &Value) -> Answer {
    site.ask_with(&GUEST, method, path, &body.to_string())
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
    let site = site(false, "read(\"any\")");
    let sent = json!({"data": {"n": 5}});
    let plus = json!({"data": {"n": r#"{"method":"increment","values":[1]}"#}});
    let over = json!({"data": {"n": 6, "$validFrom": "2020-01-01T00:00:00Z",
        "$validTo": "2020-02-01T00:00:00Z"}});
    let count = format!("{ROW}/n/increment");
    let older = ROW
        .replace("tablesdb", "databases")
        .replace("tables/", "collections/");
    let older = older.replace("rows", "documents");
    for (method, path, body, wanted) in [
        ("PATCH", ROW, &sent, json!({"$id": "r", "n": 5})),
        ("PUT", ROW, &sent, json!({"$id": "r", "n": 5})),
        ("PATCH", &older, &sent, json!({"$id": "r", "n": 5})),
        ("PATCH", ROW, &plus, json!({"$id": "r"})),
        ("PATCH", &count, &json!({}), json!({"$id": "r"})),
        ("PUT", ROW, &over, json!({"$id": "r", "n": 6})),
    ] {
        check_hidden(&ask(&site, method, path, body), &wanted);
    }
    let made = json!({"rowId": "mine", "data": {"n": 1}});
    let made = ask(&site, "POST", "/v1/tablesdb/d/tables/t/rows", &made);
    assert_eq!(made.json()["n"], 1, "whoever makes a row knows it");
    let whole = site.ask("PATCH", ROW, &sent.to_string()).json();
    assert_eq!(whole["s"], "hidden", "a key sees all");
}

#[test]
fn a_staged_change_of_a_row_that_is_hidden_answers_what_was_sent() {
    let site = site(false, "read(\"any\")");
    let made = ask(&site, "POST", "/v1/tablesdb/transactions", &json!({}));
    let id = made.json()["$id"].clone();
    let sent = json!({"data": {"n": 5}, "transactionId": id});
    check_hidden(
        &ask(&site, "PATCH", ROW, &sent),
        &json!({"$id": "r", "n": 5}),
    );
    let count = json!({"transactionId": id});
    let counted = ask(&site, "PATCH", &format!("{ROW}/n/increment"), &count);
    check_hidden(&counted, &json!({"$id": "r"}));
}

#[test]
fn a_row_that_grants_reading_is_answered_whole() {
    let site = site(true, "read(\"any\")");
    let whole = ask(&site, "PATCH", ROW, &json!({"data": {"n": 5}})).json();
    assert_eq!((&whole["n"], &whole["s"]), (&json!(5), &json!("hidden")));
    let other = json!({"data": {"n": 5}, "permissions": []});
    let changed = site.ask("PATCH", ROW, &other.to_string());
    assert_eq!(changed.status, 200, "{}", changed.text);
    let hidden = ask(&site, "PATCH", ROW, &json!({"data": {"n": 6}}));
    check_hidden(&hidden, &json!({"$id": "r", "n": 6}));
}
