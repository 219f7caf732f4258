//! Databases, tables, columns and indexes, by the words of both families.

use crate::fixture::{Answer, ROWS_KEY, TestServer};
use serde_json::{Value, json};

const TABLE: &str = r#"{
    "tableId": "t", "name": "T", "permissions": ["read(\"any\")"], "rowSecurity": true,
    "columns": [
        {"key": "name", "type": "varchar", "size": 64, "required": true},
        {"key": "n", "type": "integer", "min": 0, "max": 9, "default": 5}
    ],
    "indexes": [{"key": "i", "type": "key", "attributes": ["name"], "orders": ["desc"]}]
}"#;

fn server() -> TestServer {
    let server = TestServer::start();
    let made = server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    assert_eq!(made.status, 201, "{}", made.text);
    server
}

fn ids(list: &Value, key: &str) -> Vec<String> {
    let items = list[key].as_array().unwrap().iter();
    items
        .map(|item| item["$id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn both_families_see_one_database() {
    let server = server();
    let made = server.ask(
        "POST",
        "/v1/databases",
        r#"{"databaseId":"unique()","name":"Older"}"#,
    );
    assert_eq!(made.json()["type"], "legacy");
    let id = made.json()["$id"].as_str().unwrap().to_owned();
    assert_eq!(id.len(), 20);
    for family in ["tablesdb", "databases"] {
        let list = server.ask("GET", &format!("/v1/{family}"), "").json();
        assert_eq!(list["total"], 2);
        assert_eq!(ids(&list, "databases"), ["d".to_owned(), id.clone()]);
        let got = server.ask("GET", &format!("/v1/{family}/{id}"), "");
        assert_eq!(got.json(), made.json());
    }
    let page = server.ask(
        "GET",
        r#"/v1/tablesdb?queries[0]={"method":"limit","values":[1]}&total=false"#
            .replace('"', "%22")
            .replace('{', "%7B")
            .replace('}', "%7D")
            .as_str(),
        "",
    );
    assert_eq!(
        (&page.json()["total"], ids(&page.json(), "databases").len()),
        (&json!(0), 1)
    );
}

#[test]
fn a_database_is_changed_and_deleted() {
    let server = server();
    let changed = server.ask("PUT", "/v1/tablesdb/d", r#"{"name":"New","enabled":false}"#);
    assert_eq!(
        (&changed.json()["name"], &changed.json()["enabled"]),
        (&json!("New"), &json!(false))
    );
    let kept = server.ask("PUT", "/v1/databases/d", "");
    assert_eq!(kept.json()["name"], "New");
    let gone = server.ask("DELETE", "/v1/tablesdb/d", "{}");
    assert_eq!((gone.status.as_u16(), gone.text.as_str()), (204, ""));
    assert!(gone.header("content-type").starts_with("text/plain"));
    assert_eq!(
        server.ask("GET", "/v1/tablesdb/d", "").refusal(),
        "404 database_not_found"
    );
}

#[test]
fn a_table_reads_alike_in_both_families_but_for_the_words() {
    let server = server();
    let made = server.ask("POST", "/v1/tablesdb/d/tables", TABLE);
    assert_eq!(made.status, 201, "{}", made.text);
    let tables = server.ask("GET", "/v1/tablesdb/d/tables/t", "").json();
    assert_eq!(tables, made.json());
    assert_eq!(tables["rowSecurity"], true);
    assert_eq!(tables["columns"][1]["default"], 5);
    assert_eq!(tables["indexes"][0]["columns"], json!(["name"]));
    assert_eq!(tables["indexes"][0]["orders"], json!(["DESC"]));
    let older = server
        .ask("GET", "/v1/databases/d/collections/t", "")
        .json();
    assert_eq!(older["documentSecurity"], true);
    assert_eq!(older["attributes"], tables["columns"]);
    assert_eq!(older["indexes"][0]["attributes"], json!(["name"]));
    assert_eq!(older.get("columns"), None);
    let list = server.ask("GET", "/v1/databases/d/collections", "").json();
    assert_eq!(
        (&list["total"], ids(&list, "collections")),
        (&json!(1), vec!["t".to_owned()])
    );
}

#[test]
fn the_older_family_creates_by_its_own_words() {
    let server = server();
    let body = TABLE
        .replace("tableId", "collectionId")
        .replace("rowSecurity", "documentSecurity")
        .replace("\"columns\"", "\"attributes\"");
    let made = server.ask("POST", "/v1/databases/d/collections", &body);
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(made.json()["documentSecurity"], true);
    assert_eq!(made.json()["attributes"].as_array().unwrap().len(), 2);
    let missing = server.ask("POST", "/v1/databases/d/collections", r#"{"name":"T"}"#);
    assert_eq!(
        missing.json()["message"],
        "Param \"collectionId\" is not optional."
    );
    let exists = server.ask("POST", "/v1/databases/d/collections", &body);
    assert_eq!(exists.refusal(), "409 collection_already_exists");
}

#[test]
fn omitted_settings_stay_also_when_a_table_is_purged() {
    let server = server();
    server.ask("POST", "/v1/tablesdb/d/tables", TABLE);
    let off = server
        .ask("PUT", "/v1/tablesdb/d/tables/t", r#"{"enabled":false}"#)
        .json();
    let purged = server
        .ask("PUT", "/v1/tablesdb/d/tables/t", r#"{"purge":true}"#)
        .json();
    for key in ["name", "enabled", "rowSecurity", "$permissions"] {
        assert_eq!(purged[key], off[key], "{key}");
    }
    assert_eq!(
        (&off["enabled"], &off["rowSecurity"]),
        (&json!(false), &json!(true))
    );
    let older = "/v1/databases/d/collections/t";
    let open = server
        .ask(
            "PUT",
            older,
            r#"{"documentSecurity":false,"permissions":[]}"#,
        )
        .json();
    assert_eq!(
        (&open["documentSecurity"], &open["$permissions"]),
        (&json!(false), &json!([]))
    );
    assert_eq!(server.ask("DELETE", older, "{}").status, 204);
    assert_eq!(
        server.ask("GET", older, "").refusal(),
        "404 collection_not_found"
    );
}

#[test]
fn columns_and_indexes_are_listed_and_found() {
    let server = server();
    let table = server.ask("POST", "/v1/tablesdb/d/tables", TABLE).json();
    for (base, columns, not_found) in [
        (
            "/v1/tablesdb/d/tables/t",
            "columns",
            ["column_not_found", "column_index_not_found"],
        ),
        (
            "/v1/databases/d/collections/t",
            "attributes",
            ["attribute_not_found", "index_not_found"],
        ),
    ] {
        let list = server.ask("GET", &format!("{base}/{columns}"), "").json();
        assert_eq!(
            (&list["total"], &list[columns]),
            (&json!(2), &table["columns"])
        );
        let one = server.ask("GET", &format!("{base}/{columns}/n"), "").json();
        assert_eq!(one, table["columns"][1]);
        let indexes = server.ask("GET", &format!("{base}/indexes"), "").json();
        assert_eq!(
            (&indexes["total"], &indexes["indexes"][0]["key"]),
            (&json!(1), &json!("i"))
        );
        let one = server.ask("GET", &format!("{base}/indexes/i"), "").json();
        assert_eq!(one, indexes["indexes"][0]);
        let [column, index] = not_found;
        let answer = server.ask("GET", &format!("{base}/{columns}/z"), "");
        assert_eq!(answer.refusal(), format!("404 {column}"));
        let answer = server.ask("GET", &format!("{base}/indexes/z"), "");
        assert_eq!(answer.refusal(), format!("404 {index}"));
    }
}

/// Bodies of a creation of a database, and of a table, with how their refusals begin.
#[rustfmt::skip]
const REFUSED_DATABASES: &[(&str, &str)] = &[
    ("{}", "Param \"databaseId\" is not optional."),
    (r#"{"databaseId":"x"}"#, "Param \"name\" is not optional."),
    (r#"{"databaseId":5,"name":"x"}"#, "Invalid `databaseId` param: "),
    (r#"{"databaseId":"-x","name":"x"}"#, "Invalid `databaseId` param: "),
    (r#"{"databaseId":"x","name":"x","enabled":"maybe"}"#, "Invalid `enabled` param: "),
];
#[rustfmt::skip]
const REFUSED_TABLES: &[(&str, &str)] = &[
    (r#"{"name":"x"}"#, "Param \"tableId\" is not optional."),
    (r#"{"tableId":"x","name":"x","columns":[{"type":"integer"}]}"#,
        "Invalid `columns` param: `key` is missing."),
    (r#"{"tableId":"x","name":"x","permissions":"any"}"#, "Invalid `permissions` param: "),
    (r#"{"tableId":"x","name":"x","permissions":["any"]}"#, "Invalid `permissions` param: "),
];

#[track_caller]
fn check_message(answer: &Answer, begins: &str) {
    assert_eq!(
        answer.refusal(),
        "400 general_argument_invalid",
        "{}",
        answer.text
    );
    let json = answer.json();
    let said = json["message"].as_str().unwrap();
    assert!(said.starts_with(begins), "{said}");
}

#[test]
fn parameters_are_named_when_they_are_refused() {
    let server = server();
    for (body, begins) in REFUSED_DATABASES {
        check_message(&server.ask("POST", "/v1/tablesdb", body), begins);
    }
    for (body, begins) in REFUSED_TABLES {
        check_message(&server.ask("POST", "/v1/tablesdb/d/tables", body), begins);
    }
    for (query, begins) in [
        ("total=maybe", "Invalid `total` param: "),
        ("queries=x", "Invalid `queries` param: "),
        ("search=%ff", "Invalid `search` param: "),
    ] {
        check_message(
            &server.ask("GET", &format!("/v1/tablesdb?{query}"), ""),
            begins,
        );
    }
}

#[test]
fn a_key_does_what_its_scopes_say() {
    let server = server();
    for (method, path) in [
        ("POST", "/v1/tablesdb"),
        ("GET", "/v1/tablesdb/d"),
        ("GET", "/v1/tablesdb/d/tables"),
        ("PUT", "/v1/tablesdb/d/tables/t"),
    ] {
        let answer = server.ask_as(
            Some(ROWS_KEY),
            method,
            path,
            r#"{"databaseId":"x","name":"x"}"#,
        );
        assert_eq!(
            answer.refusal(),
            "401 general_unauthorized_scope",
            "{method} {path}"
        );
    }
}

#[test]
fn no_database_is_called_like_a_route_beside_it() {
    let server = TestServer::start();
    for path in ["/v1/tablesdb", "/v1/databases"] {
        let body = r#"{"databaseId":"transactions","name":"T"}"#;
        let refused = server.ask("POST", path, body);
        assert_eq!(refused.refusal(), "400 general_argument_invalid");
        let says = ["`databaseId`", "`transactions` is the name of a route"];
        assert!(
            says.iter().all(|part| refused.text.contains(part)),
            "{}",
            refused.text
        );
        let near = r#"{"databaseId":"Transactions","name":"T"}"#;
        assert!(server.ask("POST", path, near).status.as_u16() < 410);
    }
    // The route itself is untouched.
    assert_eq!(
        server.ask("GET", "/v1/tablesdb/transactions", "").json()["total"],
        0
    );
}
