//! Transactions: staged in both families and by every route, read inside, committed whole or not
//! at all.

use crate::fixture::{Answer, ROWS_KEY, TestServer};
use serde_json::{Value, json};

/// A route family and its words.
#[derive(Clone, Copy)]
pub struct Family {
    root: &'static str,
    pub table: &'static str,
    pub rows: &'static str,
    pub table_id: &'static str,
    pub row_id: &'static str,
    pub of: &'static str,
}

pub const TABLES: Family = Family {
    root: "/v1/tablesdb",
    table: "/v1/tablesdb/d/tables/t/rows",
    rows: "rows",
    table_id: "tableId",
    row_id: "rowId",
    of: "row",
};
const DOCUMENTS: Family = Family {
    root: "/v1/databases",
    table: "/v1/databases/d/collections/t/documents",
    rows: "documents",
    table_id: "collectionId",
    row_id: "documentId",
    of: "document",
};
pub const FAMILIES: [Family; 2] = [TABLES, DOCUMENTS];
pub const ROWS: &str = TABLES.table;

pub fn server() -> TestServer {
    let server = TestServer::start();
    furnish(&server);
    server
}

pub fn furnish(server: &TestServer) {
    server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    let table = r#"{
        "tableId": "t", "name": "T", "permissions": ["read(\"any\")", "create(\"any\")"],
        "rowSecurity": true,
        "columns": [
            {"key": "name", "type": "varchar", "size": 20},
            {"key": "n", "type": "integer", "max": 1000},
            {"key": "code", "type": "varchar", "size": 20},
            {"key": "tags", "type": "varchar", "size": 5, "array": true}
        ],
        "indexes": [{"key": "one_code", "type": "unique", "attributes": ["code"]},
            {"key": "words", "type": "fulltext", "attributes": ["name"]}]
    }"#;
    let made = server.ask("POST", "/v1/tablesdb/d/tables", table);
    assert_eq!(made.status, 201, "{}", made.text);
    for (id, n) in [("a", 1), ("b", 2), ("c", 3)] {
        let row = json!({"rowId": id, "data": {"n": n, "code": id, "name": format!("row {id}")}});
        let made = server.ask("POST", ROWS, &row.to_string());
        assert_eq!(made.status, 201, "{}", made.text);
    }
}

impl Family {
    fn transactions(&self) -> String {
        format!("{}/transactions", self.root)
    }

    pub fn open(&self, server: &TestServer, key: Option<&str>) -> String {
        let made = server.ask_as(key, "POST", &self.transactions(), "{}");
        assert_eq!(made.status, 201, "{}", made.text);
        made.json()["$id"].as_str().unwrap().to_owned()
    }

    pub fn operations(&self, id: &str) -> String {
        format!("{}/{id}/operations", self.transactions())
    }

    /// An operation on the table `t`.
    pub fn op(&self, action: &str, row: &str, data: Value) -> Value {
        let mut op = json!({"action": action, "databaseId": "d", self.table_id: "t"});
        if !row.is_empty() {
            op[self.row_id] = json!(row);
        }
        if !data.is_null() {
            op["data"] = data;
        }
        op
    }

    pub fn stage(&self, server: &TestServer, id: &str, operations: Value) -> Answer {
        let body = json!({"operations": operations}).to_string();
        server.ask("POST", &self.operations(id), &body)
    }

    pub fn end(&self, server: &TestServer, id: &str, how: &str) -> Answer {
        let path = format!("{}/{id}", self.transactions());
        server.ask("PATCH", &path, &json!({how: true}).to_string())
    }

    fn get(&self, server: &TestServer, id: &str) -> Answer {
        server.ask("GET", &format!("{}/{id}", self.transactions()), "")
    }
}

#[track_caller]
pub fn refused(answer: &Answer, refusal: &str) {
    assert_eq!(answer.refusal(), refusal, "{}", answer.text);
}

/// Ids and `n` of all rows, as the caller sees them.
fn rows(server: &TestServer, transaction: &str) -> Vec<(String, Value)> {
    let order = r#"{"method":"orderAsc","attribute":"$id"}"#;
    let order = percent_encoding::utf8_percent_encode(order, percent_encoding::NON_ALPHANUMERIC);
    let path = format!("{ROWS}?queries[0]={order}&transactionId={transaction}");
    let list = server.ask("GET", &path, "");
    assert_eq!(list.status, 200, "{}", list.text);
    let list = list.json();
    let found = list["rows"].as_array().unwrap().iter();
    let found: Vec<_> = found
        .map(|row| (row["$id"].as_str().unwrap().to_owned(), row["n"].clone()))
        .collect();
    assert_eq!(list["total"], found.len());
    found
}

fn of(pairs: &[(&str, i64)]) -> Vec<(String, Value)> {
    let pairs = pairs.iter();
    pairs.map(|(id, n)| ((*id).to_owned(), json!(n))).collect()
}

const BEFORE: [(&str, i64); 3] = [("a", 1), ("b", 2), ("c", 3)];

#[test]
fn a_transaction_is_made_found_listed_and_deleted() {
    for family in FAMILIES {
        let server = server();
        let path = family.transactions();
        let made = server.ask("POST", &path, r#"{"ttl":60}"#);
        assert_eq!(made.status, 201);
        let json = made.json();
        assert_eq!(
            (&json["status"], &json["operations"]),
            (&json!("pending"), &json!(0))
        );
        let id = json["$id"].as_str().unwrap();
        assert_eq!(id.len(), 36);
        for key in ["$createdAt", "$updatedAt", "expiresAt"] {
            assert!(json[key].as_str().unwrap().ends_with("+00:00"), "{key}");
        }
        assert_eq!(family.get(&server, id).json(), json);
        let other = family.open(&server, Some(ROWS_KEY));
        let listed = server.ask("GET", &path, "").json();
        assert_eq!(
            (&listed["total"], &listed["transactions"][0]),
            (&json!(2), &json)
        );
        let last = r#"{"method":"orderDesc","attribute":"$createdAt"}"#;
        let last = percent_encoding::utf8_percent_encode(last, percent_encoding::NON_ALPHANUMERIC);
        let listed = server.ask("GET", &format!("{path}?queries[0]={last}&total=false"), "");
        assert_eq!(listed.json()["transactions"][0]["$id"], json!(other));
        assert_eq!(
            server.ask("DELETE", &format!("{path}/{id}"), "{}").status,
            204
        );
        refused(&family.get(&server, id), "404 transaction_not_found");
        let again = server.ask("DELETE", &format!("{path}/{id}"), "{}");
        refused(&again, "404 transaction_not_found");
    }
}

/// Every action, on rows of its own as far as the others leave it.
fn every_action(family: Family) -> Value {
    let equal = |n: i64| json!({"method": "equal", "attribute": "n", "values": [n]}).to_string();
    let add_four = r#"{"method":"increment","values":[4]}"#;
    json!([
        family.op(
            "create",
            "x",
            json!({"n": 10, "$permissions": ["read(\"any\")"]})
        ),
        family.op("update", "x", json!({"n": 11})),
        family.op("update", "a", json!({"name": "A", "n": add_four})),
        family.op("upsert", "y", json!({"n": 20})),
        family.op("upsert", "b", json!({"n": 21})),
        family.op("increment", "x", json!({"column": "n"})),
        family.op(
            "decrement",
            "x",
            json!({"attribute": "n", "value": 3, "min": 0})
        ),
        family.op("delete", "c", Value::Null),
        family.op(
            "bulkCreate",
            "",
            json!([{"$id": "m1", "n": 100}, {"$id": "m2", "n": 100}])
        ),
        family.op(
            "bulkUpsert",
            "",
            json!([{"$id": "m1", "n": 101}, {"$id": "m3", "n": 102}])
        ),
        family.op(
            "bulkUpdate",
            "",
            json!({"queries": [equal(20)], "data": {"n": 22}})
        ),
        family.op("bulkDelete", "", json!({"queries": [equal(100)]})),
    ])
}

#[test]
fn every_action_is_staged_and_committed_in_order() {
    for family in FAMILIES {
        let server = server();
        let id = family.open(&server, Some(ROWS_KEY));
        let staged = family.stage(&server, &id, every_action(family));
        assert_eq!(staged.status, 201, "{}", staged.text);
        assert_eq!(staged.json()["operations"], 12);
        let after = of(&[
            ("a", 5),
            ("b", 21),
            ("m1", 101),
            ("m3", 102),
            ("x", 9),
            ("y", 22),
        ]);
        assert_eq!(rows(&server, &id), after, "inside");
        assert_eq!(rows(&server, ""), of(&BEFORE), "outside");
        let committed = family.end(&server, &id, "commit");
        assert_eq!(committed.status, 200, "{}", committed.text);
        assert_eq!(committed.json()["status"], "committed");
        assert_eq!(rows(&server, ""), after);
        let x = server.ask("GET", &format!("{ROWS}/x"), "").json();
        assert_eq!(x["$permissions"], json!(["read(\"any\")"]));
        assert_eq!(family.get(&server, &id).json()["status"], "committed");
        for how in ["commit", "rollback"] {
            refused(&family.end(&server, &id, how), "400 transaction_not_ready");
        }
        let more = family.stage(&server, &id, json!([family.op("delete", "x", Value::Null)]));
        refused(&more, "400 general_bad_request");
    }
}

/// Asks a route of rows inside a transaction.
pub fn ask_inside(
    server: &TestServer,
    id: &str,
    method: &str,
    path: &str,
    mut body: Value,
) -> Answer {
    body["transactionId"] = json!(id);
    server.ask(method, path, &body.to_string())
}

#[test]
fn the_routes_of_one_row_stage_and_answer_what_would_be() {
    for family in FAMILIES {
        let server = server();
        let id = family.open(&server, Some(ROWS_KEY));
        let path = family.table;
        let ask = |method, path: &str, body| ask_inside(&server, &id, method, path, body);
        let new = json!({"n": 1, "code": "x"});
        let made = ask("POST", path, json!({family.row_id: "x", "data": new}));
        assert_eq!(made.status, 201, "{}", made.text);
        let json = made.json();
        let shown = ["$id", "$sequence", "n", "tags"].map(|key| json[key].clone());
        assert_eq!(shown, [json!("x"), json!("4"), json!(1), json!([])]);
        #[rustfmt::skip]
        let cases = [
            ("PATCH", "x", json!({"data": {"n": 2}}), 200, "code", json!("x")),
            ("PUT", "y", json!({"data": {"n": 7}}), 201, "n", json!(7)),
            ("PATCH", "x/n/increment", json!({"value": 5}), 200, "n", json!(7)),
            ("PATCH", "x/n/decrement", json!({}), 200, "n", json!(6)),
            ("DELETE", "a", json!({}), 204, "n", Value::Null),
        ];
        for (method, row, body, status, key, value) in cases {
            let answer = ask(method, &format!("{path}/{row}"), body);
            let got = (answer.status.as_u16(), answer.json()[key].clone());
            assert_eq!(got, (status, value), "{method} {row} {}", answer.text);
        }
        let missing = format!("404 {}_not_found", family.of);
        for unseen in [format!("a?transactionId={id}"), "x".to_owned()] {
            refused(
                &server.ask("GET", &format!("{path}/{unseen}"), ""),
                &missing,
            );
        }
        assert_eq!(family.get(&server, &id).json()["operations"], 6);
        assert_eq!(family.end(&server, &id, "commit").status, 200);
        assert_eq!(
            rows(&server, ""),
            of(&[("b", 2), ("c", 3), ("x", 6), ("y", 7)])
        );
    }
}

#[test]
fn the_routes_of_many_rows_stage_and_answer_how_many() {
    for family in FAMILIES {
        let server = server();
        let id = family.open(&server, Some(ROWS_KEY));
        let path = family.table;
        let two = json!({"method": "equal", "attribute": "n", "values": [2]}).to_string();
        for (method, body, total) in [
            (
                "POST",
                json!({family.rows: [{"$id": "m1", "n": 1}, {"n": 2}]}),
                2,
            ),
            ("PUT", json!({family.rows: [{"$id": "m1", "n": 9}]}), 1),
            ("PATCH", json!({"data": {"name": "all"}}), 0),
            ("DELETE", json!({"queries": [two]}), 0),
        ] {
            let answer = ask_inside(&server, &id, method, path, body);
            assert_eq!(answer.status, 200, "{}", answer.text);
            assert_eq!(answer.json(), json!({"total": total, family.rows: []}));
        }
        // Read inside, one by one and by a query in a body.
        let inside = format!("{path}/m1?transactionId={id}");
        assert_eq!(server.ask("GET", &inside, "").json()["name"], "all");
        let wanted = json!({"method": "search", "attribute": "name", "values": ["all"]});
        let wanted = json!({"queries": [wanted.to_string()]});
        let found = ask_inside(&server, &id, "POST", &format!("{path}/query"), wanted);
        assert_eq!(found.json()["total"], 3, "{}", found.text);
        assert_eq!(found.header("x-appwrite-cache"), "");
        assert!(found.header("x-tidemark-cache").starts_with("bypass; "));
        assert_eq!(family.get(&server, &id).json()["operations"], 4);
        assert_eq!(family.end(&server, &id, "commit").status, 200);
        assert_eq!(rows(&server, ""), of(&[("a", 1), ("c", 3), ("m1", 9)]));
    }
}

#[test]
fn a_rollback_leaves_nothing() {
    let server = server();
    let id = TABLES.open(&server, Some(ROWS_KEY));
    TABLES.stage(&server, &id, json!([TABLES.op("delete", "a", Value::Null)]));
    let ended = TABLES.end(&server, &id, "rollback");
    assert_eq!(
        (ended.status.as_u16(), &ended.json()["status"]),
        (200, &json!("failed"))
    );
    assert_eq!(rows(&server, ""), of(&BEFORE));
    let inside = format!("{ROWS}?transactionId={id}");
    refused(&server.ask("GET", &inside, ""), "400 transaction_not_ready");
    for body in [
        "{}",
        r#"{"commit":true,"rollback":true}"#,
        r#"{"commit":false}"#,
    ] {
        let path = format!("/v1/tablesdb/transactions/{id}");
        refused(&server.ask("PATCH", &path, body), "400 general_bad_request");
    }
}

/// What another client does between staging and commit, and what that makes of the commit.
type Conflict = (&'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const CONFLICTS: &[Conflict] = &[
    // The staged operation, another client's request, its body, the answer to the commit.
    (r#"{"action":"update","rowId":"a","data":{"n":5}}"#, "PATCH /a", r#"{"data":{"n":6}}"#, "409 transaction_conflict"),
    (r#"{"action":"update","rowId":"a","data":{"n":5}}"#, "PATCH /a", r#"{"permissions":["read(\"any\")"]}"#, "409 transaction_conflict"),
    (r#"{"action":"update","rowId":"a","data":{"n":5}}"#, "PATCH /a", r#"{"data":{"n":1}}"#, "200"),
    (r#"{"action":"update","rowId":"a","data":{"n":5}}"#, "PATCH /b", r#"{"data":{"n":6}}"#, "200"),
    (r#"{"action":"update","rowId":"a","data":{"n":5}}"#, "DELETE /a", "{}", "404 row_not_found"),
    (r#"{"action":"upsert","rowId":"a","data":{"n":5}}"#, "PATCH /a", r#"{"data":{"n":6}}"#, "409 transaction_conflict"),
    (r#"{"action":"upsert","rowId":"x","data":{"n":5}}"#, "PUT /x", r#"{"data":{"n":6}}"#, "409 transaction_conflict"),
    (r#"{"action":"delete","rowId":"a"}"#, "PATCH /a", r#"{"data":{"n":6}}"#, "409 transaction_conflict"),
    (r#"{"action":"delete","rowId":"a"}"#, "DELETE /a", "{}", "404 row_not_found"),
    (r#"{"action":"create","rowId":"x","data":{"n":5}}"#, "PUT /x", r#"{"data":{"n":6}}"#, "409 transaction_conflict"),
    (r#"{"action":"create","rowId":"a","data":{"n":5}}"#, "PATCH /b", r#"{"data":{"n":6}}"#, "409 transaction_conflict"),
    (r#"{"action":"create","rowId":"x","data":{"code":"z"}}"#, "PATCH /b", r#"{"data":{"code":"z"}}"#, "409 row_unique_constraint_violation"),
    (r#"{"action":"create","rowId":"x","data":{"n":"text"}}"#, "PATCH /b", r#"{"data":{"n":6}}"#, "400 row_invalid_structure"),
    (r#"{"action":"update","rowId":"a","data":{"colour":1}}"#, "PATCH /b", r#"{"data":{"n":6}}"#, "400 row_invalid_structure"),
    (r#"{"action":"increment","rowId":"a","data":{"column":"n"}}"#, "PATCH /a", r#"{"data":{"n":6}}"#, "200"),
    (r#"{"action":"increment","rowId":"a","data":{"column":"n"}}"#, "PATCH /a", r#"{"data":{"n":1000}}"#, "400 row_invalid_structure"),
    (r#"{"action":"increment","rowId":"a","data":{"column":"n","max":6}}"#, "PATCH /a", r#"{"data":{"n":6}}"#, "400 column_limit_exceeded"),
    (r#"{"action":"increment","rowId":"a","data":{"column":"n"}}"#, "DELETE /a", "{}", "404 row_not_found"),
    (r#"{"action":"bulkUpdate","data":{"data":{"name":"x"}}}"#, "PATCH /c", r#"{"data":{"n":6}}"#, "409 transaction_conflict"),
    (r#"{"action":"bulkUpdate","data":{"data":{"name":"x"}}}"#, "DELETE /c", "{}", "200"),
    (r#"{"action":"bulkDelete","data":{}}"#, "PATCH /c", r#"{"data":{"n":6}}"#, "409 transaction_conflict"),
    (r#"{"action":"bulkUpsert","data":[{"$id":"a","n":5}]}"#, "PATCH /a", r#"{"data":{"n":6}}"#, "409 transaction_conflict"),
    (r#"{"action":"bulkCreate","data":[{"$id":"x","n":5}]}"#, "PUT /x", r#"{"data":{"n":6}}"#, "409 transaction_conflict"),
];

#[test]
fn conflicts_are_found_at_the_commit() {
    let server = server();
    let restore = || {
        server.ask("DELETE", ROWS, "{}");
        for (id, n) in BEFORE {
            let body = json!({"data": {"n": n, "code": id, "name": null}, "permissions": []});
            let put = server.ask("PUT", &format!("{ROWS}/{id}"), &body.to_string());
            assert_eq!(put.status, 200, "{}", put.text);
        }
    };
    for (operation, request, body, wanted) in CONFLICTS {
        restore();
        let id = TABLES.open(&server, Some(ROWS_KEY));
        let mut operation: Value = serde_json::from_str(operation).unwrap();
        operation["databaseId"] = json!("d");
        operation["tableId"] = json!("t");
        // A second one that could be done: it must not be, where the first one cannot.
        let other = TABLES.op("create", "beside", json!({"n": 0}));
        let staged = TABLES.stage(&server, &id, json!([other, operation]));
        assert_eq!(staged.status, 201, "{operation} {}", staged.text);
        let (method, row) = request.split_once(' ').unwrap();
        let done = server.ask(method, &format!("{ROWS}{row}"), body);
        assert!(done.status.is_success(), "{request} {}", done.text);
        let before = rows(&server, "");
        let committed = TABLES.end(&server, &id, "commit");
        assert_eq!(
            committed.refusal(),
            *wanted,
            "{operation} {request} {body} {}",
            committed.text
        );
        let status = TABLES.get(&server, &id).json()["status"].clone();
        if *wanted == "200" {
            assert_eq!(status, "committed");
        } else {
            assert_eq!(
                (status, rows(&server, "")),
                (json!("failed"), before),
                "{operation}"
            );
        }
    }
}

#[test]
fn two_transactions_that_count_one_row_both_count() {
    let server = server();
    let [one, two] = [(); 2].map(|()| TABLES.open(&server, Some(ROWS_KEY)));
    for (id, by) in [(&one, 10), (&two, 5)] {
        let op = TABLES.op("increment", "a", json!({"column": "n", "value": by}));
        assert_eq!(TABLES.stage(&server, id, json!([op])).status, 201);
    }
    for id in [&one, &two] {
        assert_eq!(TABLES.end(&server, id, "commit").status, 200);
    }
    assert_eq!(rows(&server, "")[0], ("a".to_owned(), json!(16)));
}

#[test]
fn an_operation_that_comes_after_a_count_conflicts_all_the_same() {
    let server = server();
    let id = TABLES.open(&server, Some(ROWS_KEY));
    let count = TABLES.op("increment", "a", json!({"column": "n"}));
    let update = TABLES.op("update", "a", json!({"name": "x"}));
    assert_eq!(
        TABLES.stage(&server, &id, json!([count, update])).status,
        201
    );
    server.ask("PATCH", &format!("{ROWS}/a"), r#"{"data":{"name":"y"}}"#);
    refused(
        &TABLES.end(&server, &id, "commit"),
        "409 transaction_conflict",
    );
}

#[test]
fn the_row_of_an_operation_must_be_there_when_it_is_staged() {
    let server = server();
    let id = TABLES.open(&server, Some(ROWS_KEY));
    for op in [
        TABLES.op("update", "x", json!({"n": 1})),
        TABLES.op("update", "x", json!({"n": "text"})),
        TABLES.op("delete", "x", Value::Null),
        TABLES.op("increment", "x", json!({"column": "n"})),
    ] {
        let staged = TABLES.stage(&server, &id, json!([op]));
        refused(&staged, "404 row_not_found");
    }
    let body = json!({"transactionId": id}).to_string();
    let path = format!("{ROWS}/x/n/increment");
    refused(&server.ask("PATCH", &path, &body), "404 column_not_found");
    // Of several none is staged if one is refused.
    let made = TABLES.op("create", "x", json!({"n": 1}));
    let missing = TABLES.op("delete", "z", Value::Null);
    refused(
        &TABLES.stage(&server, &id, json!([made, missing])),
        "404 row_not_found",
    );
    assert_eq!(TABLES.get(&server, &id).json()["operations"], 0);
    // What the transaction makes is there, and what it deletes is not.
    let update = TABLES.op("update", "x", json!({"n": 2}));
    assert_eq!(
        TABLES.stage(&server, &id, json!([made, update])).status,
        201
    );
    let gone = TABLES.op("delete", "x", Value::Null);
    assert_eq!(TABLES.stage(&server, &id, json!([gone])).status, 201);
    refused(
        &TABLES.stage(&server, &id, json!([update])),
        "404 row_not_found",
    );
}

#[test]
fn staged_row_is_answered_as_it_was_sent() {
    let server = server();
    let id = TABLES.open(&server, Some(ROWS_KEY));
    let body = json!({"rowId": "a", "data": {"n": "text", "colour": "\"\\é"}, "transactionId": id});
    let staged = server.ask("POST", ROWS, &body.to_string());
    assert_eq!(staged.status, 201, "{}", staged.text);
    let json = staged.json();
    for (key, value) in [
        ("$id", json!("a")),
        ("$sequence", json!("0")),
        ("$permissions", json!([])),
        ("$tableId", json!("t")),
        ("n", json!("text")),
        ("colour", json!("\"\\é")),
        ("name", Value::Null),
        ("tags", json!([])),
    ] {
        assert_eq!(json[key], value, "{key}");
    }
}

#[test]
fn an_open_transaction_ends_with_its_time() {
    let server = server();
    let id = TABLES.open(&server, Some(ROWS_KEY));
    let op = json!([TABLES.op("delete", "a", Value::Null)]);
    assert_eq!(TABLES.stage(&server, &id, op.clone()).status, 201);
    server.skip_s(299);
    assert_eq!(rows(&server, &id).len(), 2);
    server.skip_s(2);
    assert_eq!(TABLES.get(&server, &id).json()["status"], "failed");
    for how in ["commit", "rollback"] {
        refused(&TABLES.end(&server, &id, how), "410 transaction_expired");
    }
    refused(&TABLES.stage(&server, &id, op), "410 transaction_expired");
    let inside = format!("{ROWS}?transactionId={id}");
    refused(&server.ask("GET", &inside, ""), "410 transaction_expired");
    let body = json!({"data": {"n": 1}, "transactionId": id}).to_string();
    let path = format!("{ROWS}/a");
    refused(
        &server.ask("PATCH", &path, &body),
        "410 transaction_expired",
    );
    assert_eq!(rows(&server, ""), of(&BEFORE));
    // An hour later it is removed when the next one is made.
    server.skip_s(3_590);
    TABLES.open(&server, Some(ROWS_KEY));
    assert_eq!(TABLES.get(&server, &id).status, 200);
    server.skip_s(20);
    TABLES.open(&server, Some(ROWS_KEY));
    refused(&TABLES.get(&server, &id), "404 transaction_not_found");
}

#[test]
fn a_transaction_has_a_hundred_operations_and_lives_an_hour_at_most() {
    let server = server();
    for (ttl, wanted) in [
        ("59", "400"),
        ("60", "201"),
        ("3600", "201"),
        ("3601", "400"),
    ] {
        let made = server.ask(
            "POST",
            "/v1/tablesdb/transactions",
            &format!(r#"{{"ttl":{ttl}}}"#),
        );
        assert_eq!(made.status.as_str(), wanted, "{}", made.text);
    }
    let id = TABLES.open(&server, Some(ROWS_KEY));
    let op = |n: usize| TABLES.op("create", &format!("x{n}"), json!({"n": n}));
    let many = |count: usize| Value::Array((0..count).map(op).collect());
    let limit = "400 transaction_limit_exceeded";
    refused(&TABLES.stage(&server, &id, many(101)), limit);
    assert_eq!(TABLES.stage(&server, &id, many(99)).status, 201);
    refused(
        &TABLES.stage(&server, &id, json!([op(100), op(101)])),
        limit,
    );
    assert_eq!(TABLES.stage(&server, &id, json!([op(100)])).status, 201);
    refused(&TABLES.stage(&server, &id, json!([op(101)])), limit);
    let body = json!({"data": {"n": 1}, "transactionId": id}).to_string();
    refused(&server.ask("PATCH", &format!("{ROWS}/a"), &body), limit);
    assert_eq!(TABLES.get(&server, &id).json()["operations"], 100);
    assert_eq!(TABLES.end(&server, &id, "commit").status, 200);
    assert_eq!(server.ask("GET", ROWS, "").json()["total"], 103);
}

#[test]
fn a_commit_changes_ten_thousand_rows_and_no_more() {
    let server = server();
    let commit = |count: usize| {
        let id = TABLES.open(&server, Some(ROWS_KEY));
        let rows = |from: usize, to: usize| {
            let row = |n: usize| json!({"$id": format!("r{n}")});
            Value::Array((from..to).map(row).collect())
        };
        // The table has three rows, and each operation puts a hundred.
        for from in (3..count).step_by(100) {
            let op = TABLES.op("bulkUpsert", "", rows(from, count.min(from + 100)));
            assert_eq!(TABLES.stage(&server, &id, json!([op])).status, 201);
        }
        let all = TABLES.op("bulkUpdate", "", json!({"data": {"name": "all"}}));
        let staged = TABLES.stage(&server, &id, json!([all]));
        (
            staged.refusal(),
            TABLES.end(&server, &id, "commit").refusal(),
        )
    };
    assert_eq!(commit(9_800), ("201".to_owned(), "200".to_owned()));
    let more = |from: usize| {
        let row = |n: usize| json!({"$id": format!("s{n}")});
        let body = json!({"rows": (from..from + 100).map(row).collect::<Vec<_>>()});
        assert_eq!(server.ask("POST", ROWS, &body.to_string()).status, 201);
    };
    for from in [0, 100, 200] {
        more(from);
    }
    let id = TABLES.open(&server, Some(ROWS_KEY));
    let all = TABLES.op("bulkDelete", "", json!({}));
    assert_eq!(TABLES.stage(&server, &id, json!([all])).status, 201);
    let refusal = TABLES.end(&server, &id, "commit");
    refused(&refusal, "400 transaction_limit_exceeded");
    assert_eq!(TABLES.get(&server, &id).json()["status"], "failed");
}

/// Bodies of `operations` that cannot be meant.
#[rustfmt::skip]
const BAD_OPERATIONS: &[(&str, &str)] = &[
    ("{}", "400 general_argument_invalid"),
    (r#"{"operations":[]}"#, "400 general_argument_invalid"),
    (r#"{"operations":{}}"#, "400 general_argument_invalid"),
    (r#"{"operations":[5]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":"x","databaseId":"d","tableId":"t","rowId":"a","data":{}}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":5,"databaseId":"d","tableId":"t","rowId":"a","data":{}}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":"create","tableId":"t","rowId":"x","data":{"n":1}}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":"create","databaseId":"d","rowId":"x","data":{"n":1}}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":"create","databaseId":"d","tableId":"t","data":{"n":1}}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":"create","databaseId":"d","tableId":"t","rowId":"-x","data":{"n":1}}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":"create","databaseId":"d","tableId":"t","rowId":"x"}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":"create","databaseId":"d","tableId":"t","rowId":"x","data":[1]}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":"create","databaseId":"d","tableId":"t","rowId":"x","data":{}}]}"#, "400 row_missing_data"),
    (r#"{"operations":[{"action":"create","databaseId":"d","tableId":"t","rowId":"x","data":{"n":1,"$permissions":5}}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":"create","databaseId":"d","tableId":"t","rowId":"x","data":{"n":1,"$permissions":["x"]}}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":"create","databaseId":"z","tableId":"t","rowId":"x","data":{"n":1}}]}"#, "404 database_not_found"),
    (r#"{"operations":[{"action":"create","databaseId":"d","tableId":"z","rowId":"x","data":{"n":1}}]}"#, "404 table_not_found"),
    (r#"{"operations":[{"action":"update","databaseId":"d","tableId":"t","rowId":"a","data":{}}]}"#, "400 row_missing_payload"),
    (r#"{"operations":[{"action":"increment","databaseId":"d","tableId":"t","rowId":"a","data":{}}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":"increment","databaseId":"d","tableId":"t","rowId":"a","data":{"column":"z"}}]}"#, "404 column_not_found"),
    (r#"{"operations":[{"action":"increment","databaseId":"d","tableId":"t","rowId":"a","data":{"column":"name"}}]}"#, "400 attribute_type_invalid"),
    (r#"{"operations":[{"action":"increment","databaseId":"d","tableId":"t","rowId":"a","data":{"column":"n","value":0}}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":"increment","databaseId":"d","tableId":"t","rowId":"a","data":{"column":"n","max":1}}]}"#, "400 column_limit_exceeded"),
    (r#"{"operations":[{"action":"bulkCreate","databaseId":"d","tableId":"t","data":[]}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":"bulkCreate","databaseId":"d","tableId":"t","data":{"n":1}}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":"bulkCreate","databaseId":"d","tableId":"t","data":[1]}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":"bulkUpdate","databaseId":"d","tableId":"t","data":{"data":{}}}]}"#, "400 row_missing_payload"),
    (r#"{"operations":[{"action":"bulkUpdate","databaseId":"d","tableId":"t","data":{"queries":["x"],"data":{"n":1}}}]}"#, "400 general_query_invalid"),
    (r#"{"operations":[{"action":"bulkDelete","databaseId":"d","tableId":"t","data":{"queries":[5]}}]}"#, "400 general_argument_invalid"),
    (r#"{"operations":[{"action":"bulkDelete","databaseId":"d","tableId":"t"}]}"#, "400 general_argument_invalid"),
];

#[test]
fn operations_that_cannot_be_meant_are_refused() {
    let server = server();
    let id = TABLES.open(&server, Some(ROWS_KEY));
    for (body, refusal) in BAD_OPERATIONS {
        let answer = server.ask("POST", &TABLES.operations(&id), body);
        assert_eq!(answer.refusal(), *refusal, "{body} {}", answer.text);
        let legacy = body
            .replace("tableId", "collectionId")
            .replace("rowId", "documentId");
        let legacy_refusal = refusal
            .replace("table_", "collection_")
            .replace("row_", "document_")
            .replace("column_", "attribute_");
        let answer = server.ask("POST", &DOCUMENTS.operations(&id), &legacy);
        assert_eq!(answer.refusal(), legacy_refusal, "{legacy} {}", answer.text);
    }
    assert_eq!(TABLES.get(&server, &id).json()["operations"], 0);
}

#[test]
fn a_list_that_was_cached_is_exact_after_a_commit() {
    let server = server();
    let list = || server.ask("GET", ROWS, "");
    list();
    assert!(list().header("x-tidemark-cache").starts_with("hit"));
    let id = TABLES.open(&server, Some(ROWS_KEY));
    let ops = json!([
        TABLES.op("update", "a", json!({"n": 7})),
        TABLES.op("create", "x", json!({"n": 8})),
    ]);
    TABLES.stage(&server, &id, ops);
    assert!(
        list().header("x-tidemark-cache").starts_with("hit"),
        "staging alters nothing"
    );
    let mark = |answer: &Answer| -> i64 {
        let told = answer.header("x-tidemark-cache").to_owned();
        let mark = told
            .split("mark=")
            .nth(1)
            .unwrap()
            .split(';')
            .next()
            .unwrap();
        mark.parse().unwrap()
    };
    let before = mark(&list());
    assert_eq!(TABLES.end(&server, &id, "commit").status, 200);
    let after = list();
    assert!(after.header("x-tidemark-cache").starts_with("miss"));
    assert_eq!(
        (&after.json()["total"], &after.json()["rows"][0]["n"]),
        (&json!(4), &json!(7))
    );
    assert!(mark(&after) > before);
    // Both changes have one mark.
    let stamps =
        |id: &str| server.ask("GET", &format!("{ROWS}/{id}"), "").json()["$updatedAt"].clone();
    assert_eq!(stamps("a"), stamps("x"));
}
