//! Changes of databases, tables, columns and indexes in the records of commits.

use serde_json::{Value, json};

use crate::fixture::{Answer, KEY, PROJECT, TestServer};

const OWN: &str = "/v1/tidemark/databases/d";

fn say(server: &TestServer, meta: &str, method: &str, path: &str, body: &str) -> Answer {
    let headers = [
        ("x-appwrite-project", PROJECT),
        ("x-appwrite-key", KEY),
        ("x-tidemark-meta", meta),
    ];
    server.ask_with(&headers, method, path, body)
}

#[track_caller]
fn feed(server: &TestServer, wanted: &Value) -> Vec<Value> {
    let mut asked = json!({"kind": "feed", "limit": 1000});
    let members = asked.as_object_mut().unwrap();
    members.extend(wanted.as_object().unwrap().clone());
    let answer = server.ask("POST", &format!("{OWN}/reads"), &asked.to_string());
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()["rows"].as_array().unwrap().clone()
}

/// Each change of the schema that a route makes, and what its record says.
fn changes() -> Vec<(&'static str, String, Value, Value)> {
    let tables = "/v1/tablesdb/d/tables";
    let of_t = |rest: &str| format!("{tables}/t/{rest}");
    let table = |id: &str| json!({"tableId": id, "name": id});
    let change = |act: &str| json!([{"act": act, "table": "t"}]);
    let of_key = |act: &str, key: &str| json!([{"act": act, "table": "t", "key": key}]);
    let text = json!({"key": "s", "size": 36, "required": false});
    let longer = json!({"size": 40, "required": false, "default": null, "newKey": "title"});
    let index = json!({"key": "by_n", "type": "key", "columns": ["n"]});
    let relationship = json!({"relatedTableId": "u", "type": "manyToOne", "key": "link"});
    let constraints = json!({"unique": [["n"]]});
    vec![
        (
            "POST",
            "/v1/tablesdb".to_owned(),
            json!({"databaseId": "d", "name": "D"}),
            json!([{"act": "database_created"}]),
        ),
        (
            "PUT",
            "/v1/tablesdb/d".to_owned(),
            json!({"name": "E"}),
            json!([{"act": "database_updated"}]),
        ),
        (
            "POST",
            tables.to_owned(),
            table("t"),
            change("table_created"),
        ),
        (
            "POST",
            tables.to_owned(),
            table("u"),
            json!([{"act": "table_created", "table": "u"}]),
        ),
        (
            "PUT",
            format!("{tables}/t"),
            json!({"name": "T"}),
            change("table_updated"),
        ),
        (
            "POST",
            of_t("columns/integer"),
            json!({"key": "n", "required": false}),
            of_key("column_created", "n"),
        ),
        (
            "POST",
            of_t("columns/string"),
            text,
            of_key("column_created", "s"),
        ),
        (
            "PATCH",
            of_t("columns/string/s"),
            longer,
            of_key("column_updated", "title"),
        ),
        (
            "POST",
            of_t("indexes"),
            index,
            of_key("index_created", "by_n"),
        ),
        (
            "DELETE",
            of_t("indexes/by_n"),
            json!({}),
            of_key("index_deleted", "by_n"),
        ),
        (
            "POST",
            of_t("columns/relationship"),
            relationship,
            of_key("relationship_created", "link"),
        ),
        (
            "PATCH",
            of_t("columns/link/relationship"),
            json!({"onDelete": "cascade"}),
            of_key("relationship_updated", "link"),
        ),
        (
            "DELETE",
            of_t("columns/link"),
            json!({}),
            of_key("column_deleted", "link"),
        ),
        (
            "PUT",
            format!("{OWN}/tables/t/constraints"),
            constraints,
            change("constraints_changed"),
        ),
        (
            "PATCH",
            format!("{OWN}/tables/t/options"),
            json!({"pinnedMaxAge": 9}),
            change("options_changed"),
        ),
        (
            "DELETE",
            of_t("columns/title"),
            json!({}),
            of_key("column_deleted", "title"),
        ),
        (
            "DELETE",
            format!("{tables}/t"),
            json!({}),
            change("table_deleted"),
        ),
    ]
}

#[test]
fn each_change_of_the_schema_stands_in_the_feed_with_author_and_metadata() {
    let server = TestServer::start();
    let mut made = Vec::new();
    for (nth, (method, path, body, _)) in changes().into_iter().enumerate() {
        let meta = json!({"nth": nth, "why": if nth % 2 == 0 { "even" } else { "odd" }});
        let answer = say(&server, &meta.to_string(), method, &path, &body.to_string());
        assert!(
            answer.status.is_success(),
            "{method} {path}: {}",
            answer.text
        );
        made.push(meta);
    }
    let records = feed(&server, &json!({}));
    assert_eq!(records.len(), made.len(), "{records:?}");
    for ((record, meta), (method, path, _, schema)) in records.iter().zip(&made).zip(changes()) {
        assert_eq!(record["meta"], *meta, "{method} {path}");
        assert_eq!(record["schema"], schema, "{method} {path}");
        assert!(
            record["user"].as_str().unwrap().starts_with("key:"),
            "{record}"
        );
        assert_eq!(record["changes"], json!([]), "{record}");
        let mut by_mark = json!({"kind": "tx", "tt": record["tt"]});
        let found = server.ask("POST", &format!("{OWN}/reads"), &by_mark.to_string());
        assert_eq!(found.json()["rows"]["schema"], schema, "{by_mark}");
        by_mark["tt"] = json!(record["tt"].as_i64().unwrap() - 1);
        let none = server.ask("POST", &format!("{OWN}/reads"), &by_mark.to_string());
        assert_eq!(none.json()["rows"], Value::Null, "{by_mark}");
    }
    let odd = feed(&server, &json!({"meta": {"why": "odd"}}));
    assert_eq!(odd.len(), made.len() / 2);
    let user = records[0]["user"].clone();
    assert_eq!(feed(&server, &json!({ "user": user })), records);
    assert_eq!(
        feed(&server, &json!({"user": "key:other"})),
        Vec::<Value>::new()
    );
}

#[test]
fn changes_of_nothing_and_of_other_databases_are_not_in_the_feed() {
    let server = TestServer::start_with_row();
    let before = feed(&server, &json!({}));
    let same = server.ask("PUT", "/v1/tablesdb/d/tables/t", r#"{"name":"T"}"#);
    assert_eq!(same.status, 200, "{}", same.text);
    let refused = server.ask("DELETE", "/v1/tablesdb/d/tables/t/columns/none", "");
    assert_eq!(refused.status, 404, "{}", refused.text);
    for (path, body) in [
        ("/v1/tablesdb", r#"{"databaseId":"e","name":"E"}"#),
        ("/v1/tablesdb/e/tables", r#"{"tableId":"t","name":"T"}"#),
    ] {
        let made = server.ask("POST", path, body);
        assert_eq!(made.status, 201, "{}", made.text);
    }
    assert_eq!(feed(&server, &json!({})), before);
    // A database that is made again under its id has a feed of its own.
    assert_eq!(server.ask("DELETE", "/v1/tablesdb/d", "").status, 204);
    let again = r#"{"databaseId":"d","name":"D"}"#;
    assert_eq!(server.ask("POST", "/v1/tablesdb", again).status, 201);
    assert_eq!(feed(&server, &json!({})).len(), 1);
}

#[test]
fn metadata_of_a_change_of_the_schema_is_held_to_the_rules_of_all_commits() {
    let server = TestServer::start_with_row();
    let before = feed(&server, &json!({}));
    for (method, path, body, _) in changes().into_iter().skip(1) {
        for meta in [
            "",
            "x",
            "[1]",
            &format!(r#"{{"x":"{}"}}"#, "x".repeat(1_024)),
        ] {
            let refused = say(&server, meta, method, &path, &body.to_string());
            assert_eq!(
                refused.refusal(),
                "400 general_argument_invalid",
                "{method} {path}"
            );
            assert!(refused.text.contains("X-Tidemark-Meta"), "{}", refused.text);
        }
    }
    assert_eq!(feed(&server, &json!({})), before);
}
