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

/// A change of the schema that a route makes, and what its record says.
type Change = (&'static str, String, Value, Value);

const TABLES: &str = "/v1/tablesdb/d/tables";

fn of_t(rest: &str) -> String {
    format!("{TABLES}/t/{rest}")
}

fn of_key(act: &str, key: &str) -> Value {
    json!([{"act": act, "table": "t", "key": key}])
}

fn changes() -> Vec<Change> {
    let mut all = changes_of_tables();
    all.extend(changes_of_columns());
    all.extend(last_changes());
    all
}

fn changes_of_tables() -> Vec<Change> {
    let table = |id: &str| json!({"tableId": id, "name": id});
    let act = |act: &str, table: &str| json!([{"act": act, "table": table}]);
    let (databases, tables) = ("/v1/tablesdb".to_owned(), TABLES.to_owned());
    let database = json!({"databaseId": "d", "name": "D"});
    let made = json!([{"act": "database_created"}]);
    let renamed = json!([{"act": "database_updated"}]);
    vec![
        ("POST", databases, database, made),
        (
            "PUT",
            "/v1/tablesdb/d".to_owned(),
            json!({"name": "E"}),
            renamed,
        ),
        (
            "POST",
            tables.clone(),
            table("t"),
            act("table_created", "t"),
        ),
        ("POST", tables, table("u"), act("table_created", "u")),
        (
            "PUT",
            format!("{TABLES}/t"),
            json!({"name": "T"}),
            act("table_updated", "t"),
        ),
    ]
}

fn changes_of_columns() -> Vec<Change> {
    let number = json!({"key": "n", "required": false});
    let text = json!({"key": "s", "size": 36, "required": false});
    let longer = json!({"size": 40, "required": false, "default": null, "newKey": "title"});
    let index = json!({"key": "by_n", "type": "key", "columns": ["n"]});
    let link = json!({"relatedTableId": "u", "type": "manyToOne", "key": "link"});
    let cascade = json!({"onDelete": "cascade"});
    let [related, tied] = ["relationship_created", "relationship_updated"];
    let [indexed, unindexed] = ["index_created", "index_deleted"];
    vec![
        (
            "POST",
            of_t("columns/integer"),
            number,
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
        ("POST", of_t("indexes"), index, of_key(indexed, "by_n")),
        (
            "DELETE",
            of_t("indexes/by_n"),
            json!({}),
            of_key(unindexed, "by_n"),
        ),
        (
            "POST",
            of_t("columns/relationship"),
            link,
            of_key(related, "link"),
        ),
        (
            "PATCH",
            of_t("columns/link/relationship"),
            cascade,
            of_key(tied, "link"),
        ),
        (
            "DELETE",
            of_t("columns/link"),
            json!({}),
            of_key("column_deleted", "link"),
        ),
    ]
}

fn last_changes() -> Vec<Change> {
    let of_table = |act: &str| json!([{"act": act, "table": "t"}]);
    let (unique, options) = (json!({"unique": [["n"]]}), json!({"pinnedMaxAge": 9}));
    let own = |rest: &str| format!("{OWN}/tables/t/{rest}");
    vec![
        (
            "PUT",
            own("constraints"),
            unique,
            of_table("constraints_changed"),
        ),
        (
            "PATCH",
            own("options"),
            options,
            of_table("options_changed"),
        ),
        (
            "DELETE",
            of_t("columns/title"),
            json!({}),
            of_key("column_deleted", "title"),
        ),
        (
            "DELETE",
            format!("{TABLES}/t"),
            json!({}),
            of_table("table_deleted"),
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
