//! The caller's own project and its keys.

use model::Scope;
use serde_json::json;

use super::fixture::{KEY, PROJECT, ROWS_KEY, TestServer};

const KEYS: &str = "/v1/project/keys";

/// Ids of the keys that these queries list, or the refusal.
fn ids(server: &TestServer, queries: &[serde_json::Value]) -> String {
    let query = |(nth, query): (usize, &serde_json::Value)| {
        let text = query.to_string().replace('"', "%22");
        let text = text.replace('{', "%7B").replace('}', "%7D");
        format!("queries[{nth}]={text}")
    };
    let texts: Vec<String> = queries.iter().enumerate().map(query).collect();
    let listed = server.ask("GET", &format!("{KEYS}?{}", texts.join("&")), "");
    if listed.status != 200 {
        return listed.refusal();
    }
    let listed = listed.json();
    let keys = listed["keys"].as_array().expect("a list of keys");
    let ids: Vec<&str> = keys
        .iter()
        .map(|key| key["$id"].as_str().unwrap())
        .collect();
    format!("{}: {}", listed["total"], ids.join(","))
}

#[test]
fn a_project_is_read_by_keys_of_that_scope() {
    let server = TestServer::start();
    server.replace_key("rows", ROWS_KEY, &[Scope::ProjectRead]);
    let project = server.ask_as(Some(ROWS_KEY), "GET", "/v1/project", "");
    assert_eq!(project.status, 200, "{}", project.text);
    let project = project.json();
    assert_eq!(project["$id"], PROJECT);
    assert_eq!(project["name"], "P");
    assert_eq!(project["status"], "active");
    assert_eq!(project["$createdAt"], project["$updatedAt"]);
    let services = project["services"].as_array().unwrap();
    assert!(services.contains(&json!({"$id": "tablesdb", "enabled": true})));
    assert_eq!(
        project["devKeys"],
        json!([]),
        "what there is none of is empty"
    );
    for method in ["PUT", "DELETE"] {
        let answer = server.ask(method, "/v1/project", "{}");
        assert_eq!(answer.refusal(), "405 general_not_implemented", "{method}");
    }
}

#[test]
fn keys_are_shown_without_their_secrets() {
    let server = TestServer::start();
    let key = server.ask("GET", "/v1/project/keys/rows", "");
    let shown = key.json();
    assert_eq!(shown["$id"], "rows");
    assert_eq!(shown["scopes"], json!(["rows.read", "rows.write"]));
    assert_eq!(shown["secret"], "");
    assert_eq!(shown["expire"], "", "it never expires");
    let listed = server.ask("GET", KEYS, "");
    assert_eq!(listed.json()["total"], 2);
    for text in [&key.text, &listed.text] {
        for secret in [KEY, ROWS_KEY] {
            assert!(!text.contains(secret), "{text}");
        }
    }
    let absent = server.ask("GET", "/v1/project/keys/nobody", "");
    assert_eq!(absent.refusal(), "404 key_not_found");
}

#[test]
fn keys_are_listed_by_queries_as_other_containers_are() {
    let server = TestServer::start();
    server.replace_key("rows", ROWS_KEY, &[Scope::RowsRead, Scope::KeysRead]);
    let cases = [
        (vec![], "2: all,rows"),
        (vec![json!({"method": "limit", "values": [1]})], "2: all"),
        (
            vec![json!({"method": "cursorAfter", "values": ["all"]})],
            "2: rows",
        ),
        (
            vec![json!({"method": "orderDesc", "attribute": "$sequence"})],
            "2: rows,all",
        ),
        (
            vec![json!({"method": "contains", "attribute": "scopes", "values": ["users.read"]})],
            "1: all",
        ),
        (
            vec![json!({"method": "equal", "attribute": "$id", "values": ["rows"]})],
            "1: rows",
        ),
        (
            vec![json!({"method": "isNotNull", "attribute": "expire"})],
            "0: ",
        ),
        (
            vec![json!({"method": "equal", "attribute": "secret", "values": ["x"]})],
            "400 general_query_invalid",
        ),
        (
            vec![json!({"method": "cursorAfter", "values": ["nobody"]})],
            "400 general_cursor_not_found",
        ),
    ];
    for (queries, wanted) in cases {
        assert_eq!(ids(&server, &queries), wanted, "{queries:?}");
    }
}

#[test]
fn a_key_is_revoked_over_the_wire_and_none_is_made_or_widened() {
    let server = TestServer::start();
    let new = r#"{"keyId":"new","name":"N","scopes":["rows.read"]}"#;
    for (method, path) in [
        ("POST", KEYS),
        ("POST", "/v1/project/keys/ephemeral"),
        ("PUT", "/v1/project/keys/rows"),
    ] {
        let refused = server.ask(method, path, new);
        assert_eq!(refused.refusal(), "403 key_creation_denied", "{path}");
        assert!(refused.text.contains("tidemark key create"));
    }
    assert_eq!(ids(&server, &[]), "2: all,rows");
    let gone = server.ask("DELETE", "/v1/project/keys/rows", "");
    assert_eq!(gone.status, 204, "{}", gone.text);
    assert_eq!(ids(&server, &[]), "1: all");
    let refused = server.ask_as(Some(ROWS_KEY), "GET", "/v1/health", "");
    assert_eq!(refused.refusal(), "401 general_unauthorized_scope");
    let again = server.ask("DELETE", "/v1/project/keys/rows", "");
    assert_eq!(again.refusal(), "404 key_not_found");
}

#[test]
fn guests_and_keys_of_other_scopes_learn_nothing_of_project_and_keys() {
    let server = TestServer::start();
    for (method, path) in [
        ("GET", "/v1/project"),
        ("GET", KEYS),
        ("POST", KEYS),
        ("POST", "/v1/project/keys/ephemeral"),
        ("GET", "/v1/project/keys/rows"),
        ("GET", "/v1/project/keys/nobody"),
        ("PUT", "/v1/project/keys/rows"),
        ("DELETE", "/v1/project/keys/rows"),
    ] {
        for who in [None, Some(ROWS_KEY)] {
            let refused = server.ask_as(who, method, path, "{}").refusal();
            assert_eq!(refused, "401 general_unauthorized_scope", "{method} {path}");
        }
    }
    assert_eq!(ids(&server, &[]), "2: all,rows");
}
