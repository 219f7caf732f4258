//! How a list is found, over the wire.

use serde_json::{Value, json};

use crate::fixture::{Answer, PROJECT, TestServer};

const EXPLAIN: &str = "/v1/tidemark/databases/d/tables/t/explain";

fn server() -> TestServer {
    let table = json!({"tableId": "t", "name": "T", "permissions": ["read(\"any\")"],
        "columns": [{"key": "genre", "type": "varchar", "size": 40},
            {"key": "year", "type": "integer"}],
        "indexes": [{"key": "by_year", "type": "key", "attributes": ["year"]}]});
    TestServer::start_with_table(&table)
}

fn route(queries: &[Value]) -> String {
    let queries = queries.iter().map(|query| {
        let query = query.to_string().replace('"', "%22").replace('#', "%23");
        format!("queries[]={query}")
    });
    format!("{EXPLAIN}?{}", queries.collect::<Vec<_>>().join("&"))
}

fn explain(server: &TestServer, queries: &[Value]) -> Answer {
    server.ask("GET", &route(queries), "")
}

fn genre() -> Value {
    json!({"method": "equal", "attribute": "genre", "values": ["novel"]})
}

fn latest() -> Value {
    json!({"method": "orderDesc", "attribute": "year"})
}

#[test]
fn explanation_names_the_index_that_would_help_until_it_is_there() {
    let server = server();
    let found = explain(&server, &[genre(), latest()]).json();
    assert_eq!(found["query"], r#"equal("genre") orderDesc("year")"#);
    assert_eq!(found["wantedIndex"], "genre, year DESC");
    let found = explain(&server, &[latest()]).json();
    assert_eq!(
        (&found["index"], &found["inOrder"], &found["wantedIndex"]),
        (&json!("by_year"), &json!(true), &Value::Null),
        "{found}"
    );
    let plan = found["plan"].to_string();
    assert!(plan.to_lowercase().contains("using "), "{plan}");
    assert!(plan.contains("by_year"), "{plan}");
    let index = json!({"key": "both", "type": "key", "columns": ["genre", "year"],
        "orders": ["ASC", "DESC"]});
    server.make("POST", "/v1/tablesdb/d/tables/t/indexes", &index);
    let found = explain(&server, &[genre(), latest()]).json();
    assert_eq!(
        (&found["index"], &found["wantedIndex"]),
        (&json!("both"), &Value::Null),
        "{found}"
    );
    assert!(!found.to_string().contains("novel"), "{found}");
}

#[test]
fn explanation_is_refused_to_guests_and_of_what_cannot_be_listed() {
    let server = server();
    let guest = [("x-appwrite-project", PROJECT)];
    let refused = server.ask_with(&guest, "GET", EXPLAIN, "");
    assert_eq!(refused.refusal(), "401 general_unauthorized_scope");
    for (query, refusal) in [
        (
            json!({"method": "equal", "attribute": "none", "values": [1]}),
            "400 general_query_invalid",
        ),
        (json!({"method": "nearest"}), "400 general_query_invalid"),
        (
            json!({"method": "asOf", "values": ["2020-01-01"]}),
            "400 general_argument_invalid",
        ),
    ] {
        let refused = explain(&server, std::slice::from_ref(&query));
        assert_eq!(refused.refusal(), refusal, "{query}: {}", refused.text);
    }
    let none = EXPLAIN.replace("/t/", "/none/");
    assert_eq!(
        server.ask("GET", &none, "").refusal(),
        "404 table_not_found"
    );
}

#[test]
fn explanation_of_the_longest_query_is_bounded() {
    let server = server();
    let words: Vec<String> = (0..500).map(|nth| format!("{nth}")).collect();
    let several = json!({"method": "equal", "attribute": "genre", "values": words});
    let found = explain(&server, &[several]);
    assert_eq!(found.status, 200, "{}", found.text);
    assert!(found.text.len() < 10_000, "{}", found.text.len());
}
