//! What an author did to related rows is undone, unless rows of others hold links to them.

use serde_json::{Value, json};

use crate::fixture::TestServer;
use crate::undo::{author, now, ours, theirs, undo};

const ROWS: &str = "/v1/tablesdb/d/tables";

/// Books, which hold links to one author each, and to any number of tags.
fn library(on_delete: &str) -> TestServer {
    let server = TestServer::start();
    server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    for id in ["books", "authors", "tags"] {
        let table = json!({"tableId": id, "name": id,
            "columns": [{"key": "name", "type": "string", "size": 9}]});
        ours(&server, "POST", ROWS, &table);
    }
    for (to, kind, key) in [
        ("authors", "manyToOne", "author"),
        ("tags", "manyToMany", "tags"),
    ] {
        let relation = json!({"relatedTableId": to, "type": kind, "key": key, "twoWay": true,
            "twoWayKey": "books", "onDelete": on_delete});
        let path = format!("{ROWS}/books/columns/relationship");
        ours(&server, "POST", &path, &relation);
    }
    for (table, id) in [
        ("authors", "ann"),
        ("authors", "bob"),
        ("tags", "old"),
        ("tags", "new"),
    ] {
        write(ours, &server, table, id, &json!({"name": id}));
    }
    write(
        ours,
        &server,
        "books",
        "b1",
        &json!({"author": "ann", "tags": ["old", "new"]}),
    );
    write(
        ours,
        &server,
        "books",
        "b2",
        &json!({"author": "bob", "tags": ["new"]}),
    );
    server
}

type Ask = fn(&TestServer, &str, &str, &Value) -> crate::fixture::Answer;

fn write(ask: Ask, server: &TestServer, table: &str, id: &str, data: &Value) {
    let body = json!({"rowId": id, "data": data});
    ask(server, "POST", &format!("{ROWS}/{table}/rows"), &body);
}

fn row(table: &str, id: &str) -> String {
    format!("{ROWS}/{table}/rows/{id}")
}

/// All rows with their links, from both ends.
fn linked(server: &TestServer) -> Vec<Value> {
    let mut all = Vec::new();
    for (table, links) in [
        ("books", ["author.$id", "tags.$id"]),
        ("authors", ["$updatedAt", "books.$id"]),
        ("tags", ["$updatedAt", "books.$id"]),
    ] {
        let select = json!({"method": "select", "values": ["$id", "name", links[0], links[1]]});
        let queries = json!({"queries": [select.to_string()]});
        let path = format!("{ROWS}/{table}/rows/query");
        let rows = ours(server, "POST", &path, &queries).json()["rows"].clone();
        for row in rows.as_array().unwrap() {
            let ids = |value: &Value| match value {
                Value::Array(rows) => {
                    let mut ids: Vec<String> =
                        rows.iter().map(|row| row["$id"].to_string()).collect();
                    ids.sort();
                    json!(ids)
                }
                one => one["$id"].clone(),
            };
            let shown = [&row["author"], &row["tags"], &row["books"]].map(ids);
            all.push(json!([table, row["$id"], row["name"], shown]));
        }
    }
    all
}

#[track_caller]
fn undone(server: &TestServer, after: i64) {
    let user = author(server, after);
    let mut asked = json!({"after": after, "user": user, "dryRun": true});
    let tried = undo(server, &asked);
    assert_eq!(tried.status, 200, "{}", tried.text);
    asked["dryRun"] = json!(false);
    let done = undo(server, &asked);
    assert_eq!(done.status, 201, "{}", done.text);
    assert_eq!(done.json()["rows"], tried.json()["rows"]);
}

#[test]
fn undo_gives_links_back_that_were_changed() {
    let server = library("setNull");
    let (after, before) = (now(&server), linked(&server));
    let turned = json!({"data": {"author": "bob", "tags": ["new"]}});
    theirs(&server, "PATCH", &row("books", "b1"), &turned);
    // From the other end.
    let given = json!({"data": {"books": ["b1", "b2"]}});
    theirs(&server, "PATCH", &row("tags", "old"), &given);
    let with_new = json!({"data": {"author": {"$id": "eve", "name": "eve"}}});
    theirs(&server, "PATCH", &row("books", "b2"), &with_new);
    assert_ne!(linked(&server), before);
    undone(&server, after);
    assert_eq!(linked(&server), before);
}

#[test]
fn undo_brings_back_rows_that_went_and_the_links_to_them() {
    for on_delete in ["setNull", "cascade"] {
        let server = library(on_delete);
        let (after, before) = (now(&server), linked(&server));
        theirs(&server, "DELETE", &row("authors", "ann"), &json!({}));
        // The book goes with its author, and its tags with the book.
        if on_delete == "setNull" {
            theirs(&server, "DELETE", &row("tags", "new"), &json!({}));
        }
        assert_ne!(linked(&server), before);
        undone(&server, after);
        assert_eq!(linked(&server), before, "{on_delete}");
    }
}

#[test]
fn undo_takes_rows_away_that_link_to_each_other() {
    for on_delete in ["restrict", "cascade", "setNull"] {
        let server = library(on_delete);
        let (after, before) = (now(&server), linked(&server));
        write(theirs, &server, "authors", "zoe", &json!({"name": "zoe"}));
        let book = json!({"author": "zoe", "tags": ["old", {"$id": "t3", "name": "t3"}]});
        write(theirs, &server, "books", "a0", &book);
        undone(&server, after);
        assert_eq!(linked(&server), before, "{on_delete}");
    }
}

#[test]
fn undo_never_takes_a_row_that_others_link_to() {
    for on_delete in ["restrict", "cascade", "setNull"] {
        let server = library(on_delete);
        let after = now(&server);
        write(theirs, &server, "authors", "zoe", &json!({"name": "zoe"}));
        write(theirs, &server, "tags", "t3", &json!({"name": "t3"}));
        let user = author(&server, after);
        write(ours, &server, "books", "b3", &json!({"author": "zoe"}));
        let before = linked(&server);
        let asked = json!({"after": after, "user": user});
        for dry in [true, false] {
            let asked = json!({"after": after, "user": user, "dryRun": dry});
            let refused = undo(&server, &asked);
            assert_eq!(refused.status, 403, "{on_delete}: {}", refused.text);
            let message = refused.json()["message"].to_string();
            assert!(message.contains("Row `authors/zoe`: "), "{message}");
            assert!(message.contains("table `books`"), "{message}");
        }
        assert_eq!(linked(&server), before, "{on_delete}");
        // A link in the past is none now, but it was one then.
        let end = json!({"data": {"author": null}});
        ours(&server, "PATCH", &row("books", "b3"), &end);
        assert_eq!(undo(&server, &asked).status, 403, "{on_delete}");
    }
}

#[test]
fn undo_refuses_a_link_to_a_row_that_others_deleted() {
    let server = library("setNull");
    let after = now(&server);
    theirs(
        &server,
        "PATCH",
        &row("books", "b1"),
        &json!({"data": {"author": "bob"}}),
    );
    let user = author(&server, after);
    ours(&server, "DELETE", &row("authors", "ann"), &json!({}));
    let before = linked(&server);
    for dry in [true, false] {
        let asked = json!({"after": after, "user": user, "dryRun": dry});
        let refused = undo(&server, &asked);
        assert_eq!(refused.status, 409, "{}", refused.text);
        assert_eq!(refused.json()["type"], "ref_violation");
        let message = refused.json()["message"].to_string();
        assert!(message.contains("Row `books/b1`: "), "{message}");
        assert!(message.contains("row `ann`"), "{message}");
    }
    assert_eq!(linked(&server), before);
}
