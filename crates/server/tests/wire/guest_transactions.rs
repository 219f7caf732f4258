//! Transactions of guests: what they may take beside keys, and the bounds of both.

use engine::{Quotas, TransactionsBound};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use crate::fixture::{KEY, ROWS_KEY, TestServer};
use crate::transactions::{ROWS, TABLES, furnish, refused, server};

#[test]
fn guests_leave_room_for_keys() {
    let server = server();
    let open = |key: Option<&str>| {
        let made = server.ask_as(key, "POST", "/v1/tablesdb/transactions", "{}");
        made.refusal()
    };
    for _ in 0..500 {
        assert_eq!(open(None), "201");
    }
    assert_eq!(open(None), "429 general_rate_limit_exceeded");
    assert_eq!(open(Some(KEY)), "201");
}

/// A read inside a transaction runs on the thread that writes.
#[test]
fn a_guest_may_neither_match_patterns_nor_search_where_others_write() {
    let server = server();
    let options = "/v1/tidemark/databases/d/tables/t/options";
    let opened = server.ask("PATCH", options, r#"{"past":"now"}"#);
    assert_eq!(opened.status, 200, "{}", opened.text);
    let of_texts = [
        r#"{"method":"regex","attribute":"$id","values":["^a"]}"#,
        r#"{"method":"search","attribute":"name","values":["ab"]}"#,
        r#"{"method":"or","values":[{"method":"notSearch","attribute":"name","values":["a"]},
            {"method":"isNull","attribute":"name"}]}"#,
    ]
    .map(|query| utf8_percent_encode(query, NON_ALPHANUMERIC));
    let valid_at = utf8_percent_encode(
        r#"{"method":"validAt","values":["2030-01-01T00:00:00Z"]}"#,
        NON_ALPHANUMERIC,
    );
    for (key, expected) in [
        (None, "400 general_query_invalid"),
        (Some(crate::fixture::KEY), "200"),
    ] {
        let id = TABLES.open(&server, key);
        let staged = json!({"operations": [TABLES.op("create", "abc", json!({"n": 1}))]});
        let staged = server.ask_as(key, "POST", &TABLES.operations(&id), &staged.to_string());
        assert_eq!(staged.refusal(), "201", "{}", staged.text);
        let each = of_texts.iter().flat_map(|query| {
            [
                format!("queries[0]={query}"),
                format!("queries[0]={query}&queries[1]={valid_at}"),
            ]
        });
        for queries in each {
            let path = format!("{ROWS}?transactionId={id}&{queries}");
            let listed = server.ask_as(key, "GET", &path, "");
            assert_eq!(listed.refusal(), expected, "{}", listed.text);
        }
    }
}

#[test]
fn guests_and_keys_do_not_meet_in_a_transaction() {
    let server = server();
    let of_key = TABLES.open(&server, Some(ROWS_KEY));
    let of_guest = TABLES.open(&server, None);
    let path = |id: &str| format!("/v1/tablesdb/transactions/{id}");
    let not_found = "404 transaction_not_found";
    let op = |action: &str, row: &str| {
        let data = json!({"n": 1, "$createdAt": "2000-01-01T00:00:00.000+00:00"});
        json!({"operations": [TABLES.op(action, row, data)]}).to_string()
    };
    let guest = |method: &str, path: &str, body: &str| server.ask_as(None, method, path, body);
    refused(&guest("GET", &path(&of_key), ""), not_found);
    refused(
        &guest("PATCH", &path(&of_key), r#"{"commit":true}"#),
        not_found,
    );
    refused(&guest("DELETE", &path(&of_key), ""), not_found);
    refused(
        &guest("POST", &TABLES.operations(&of_key), &op("create", "x")),
        not_found,
    );
    refused(
        &guest("GET", &format!("{ROWS}?transactionId={of_key}"), ""),
        not_found,
    );
    assert_eq!(guest("GET", &path(&of_guest), "").status, 200);
    // Guests are not distinguished, so a list would show one what another does.
    let listed = guest("GET", "/v1/tablesdb/transactions", "").json();
    assert_eq!(listed, json!({"total": 0, "transactions": []}));
    let listed = server.ask("GET", "/v1/tablesdb/transactions", "").json();
    assert_eq!(listed["total"], 2);
    // A guest may create rows here, not change them, and not many.
    let operations = TABLES.operations(&of_guest);
    assert_eq!(guest("POST", &operations, &op("create", "x")).status, 201);
    refused(
        &guest("POST", &operations, &op("update", "a")),
        "401 user_unauthorized",
    );
    refused(
        &guest("POST", &operations, &op("delete", "a")),
        "401 user_unauthorized",
    );
    refused(
        &guest("POST", &operations, &op("upsert", "a")),
        "401 user_unauthorized",
    );
    let many = json!({"operations": [TABLES.op("bulkDelete", "", json!({}))]}).to_string();
    refused(
        &guest("POST", &operations, &many),
        "401 general_unauthorized_scope",
    );
    // What a key adds to it is done with a key's rights, and a guest's is not.
    assert_eq!(
        server.ask("POST", &operations, &op("update", "a")).status,
        201
    );
    assert_eq!(
        guest("PATCH", &path(&of_guest), r#"{"commit":true}"#).status,
        200
    );
    let x = server.ask("GET", &format!("{ROWS}/x"), "").json();
    assert!(
        !x["$createdAt"].as_str().unwrap().starts_with("2000"),
        "{x}"
    );
    let a = server.ask("GET", &format!("{ROWS}/a"), "").json();
    assert!(a["$createdAt"].as_str().unwrap().starts_with("2000"), "{a}");
}

#[test]
fn a_transaction_is_opened_by_callers_who_may_write_somewhere() {
    let server = TestServer::start();
    let open = |key: Option<&str>| {
        let made = server.ask_as(key, "POST", "/v1/tablesdb/transactions", "{}");
        made.refusal()
    };
    let table = |change: &str| {
        let changed = server.ask("PUT", "/v1/tablesdb/d/tables/t", change);
        assert_eq!(changed.status, 200, "{}", changed.text);
    };
    assert_eq!(open(None), "401 user_unauthorized");
    for (path, body) in [
        ("/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#),
        (
            "/v1/tablesdb/d/tables",
            r#"{"tableId":"t","name":"T","permissions":["read(\"any\")"]}"#,
        ),
    ] {
        assert_eq!(server.ask("POST", path, body).status, 201);
    }
    assert_eq!(open(None), "401 user_unauthorized");
    for grant in ["create", "update", "delete"] {
        table(&format!(r#"{{"permissions":["{grant}(\"guests\")"]}}"#));
        assert_eq!(open(None), "201", "{grant}");
    }
    table(r#"{"enabled":false}"#);
    assert_eq!(open(None), "401 user_unauthorized");
    // Of a table that leaves it to its rows, one may grant it.
    table(r#"{"enabled":true,"permissions":[],"rowSecurity":true}"#);
    assert_eq!(open(None), "201");
    assert_eq!(open(Some(ROWS_KEY)), "201");
    server.replace_key("rows", ROWS_KEY, &[model::Scope::RowsRead]);
    assert_eq!(open(Some(ROWS_KEY)), "401 general_unauthorized_scope");
}

#[test]
fn each_address_and_each_key_has_a_bound_of_open_transactions_and_their_bytes() {
    let bound = |open, bytes| TransactionsBound { open, bytes };
    let server = TestServer::start_within(Quotas {
        guest_transactions: bound(2, 1_000),
        key_transactions: bound(3, 2_000),
        ..Quotas::NONE
    });
    furnish(&server);
    let full = "429 general_rate_limit_exceeded";
    for (key, open_max, bytes_max) in [
        (None, 2, 1_000),
        (Some(KEY), 3, 2_000),
        (Some(ROWS_KEY), 3, 2_000),
    ] {
        let ids: Vec<String> = (0..open_max).map(|_| TABLES.open(&server, key)).collect();
        let refused = server.ask_as(key, "POST", "/v1/tablesdb/transactions", "{}");
        assert_eq!(refused.refusal(), full, "{key:?}");
        assert_eq!(refused.header("retry-after"), "1");
        let said = format!("can have {open_max} open transactions of a project; {open_max} are");
        assert!(refused.text.contains(&said), "{}", refused.text);
        let stage = |id: &str, bytes: usize| {
            let row = json!({"name": "x".repeat(bytes)});
            let body = json!({"operations": [TABLES.op("create", "x", row)]});
            server.ask_as(key, "POST", &TABLES.operations(id), &body.to_string())
        };
        assert_eq!(stage(&ids[0], bytes_max - 400).status, 201, "{key:?}");
        let refused = stage(&ids[1], 400);
        assert_eq!(refused.refusal(), full, "{key:?}");
        let said = format!("can hold {bytes_max} bytes of operations");
        assert!(refused.text.contains(&said), "{}", refused.text);
        // What has ended leaves room.
        let path = format!("/v1/tablesdb/transactions/{}", ids[0]);
        let ended = server.ask_as(key, "PATCH", &path, r#"{"rollback":true}"#);
        assert_eq!(ended.status, 200, "{}", ended.text);
        assert_eq!(stage(&ids[1], 400).status, 201, "{key:?}");
        TABLES.open(&server, key);
    }
}
