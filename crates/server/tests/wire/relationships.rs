//! Relationships, by the words of both families: their columns, links in rows, related rows in
//! answers, and what deletions do.

use crate::fixture::{Answer, ROWS_KEY, TestServer};
use serde_json::{Value, json};

const DATABASE: &str = "/v1/tablesdb/d";

/// A server with the tables `a`, `b` and `c`, each with a column `n`, which everybody may do
/// everything with.
pub fn server() -> TestServer {
    let server = TestServer::start();
    let made = server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    assert_eq!(made.status, 201, "{}", made.text);
    for table in ["a", "b", "c"] {
        let body = json!({
            "tableId": table, "name": table, "columns": [{"key": "n", "type": "integer"}],
            "permissions": ["read(\"any\")", "create(\"any\")", "write(\"any\")"],
        });
        let made = server.ask("POST", &format!("{DATABASE}/tables"), &body.to_string());
        assert_eq!(made.status, 201, "{}", made.text);
    }
    server
}

/// Relates table `a` to table `b` by the column `k`, with more of the definition.
#[track_caller]
pub fn relate(server: &TestServer, kind: &str, more: &Value) -> Value {
    relate_tables(server, ("a", "k", "b"), kind, more)
}

#[track_caller]
fn relate_tables(
    server: &TestServer,
    (table, key, related): (&str, &str, &str),
    kind: &str,
    more: &Value,
) -> Value {
    let mut body = json!({"relatedTableId": related, "type": kind, "key": key});
    let more = more.as_object().unwrap().clone();
    body.as_object_mut().unwrap().extend(more);
    let path = format!("{DATABASE}/tables/{table}/columns/relationship");
    let made = server.ask("POST", &path, &body.to_string());
    assert_eq!(made.status, 202, "{}", made.text);
    made.json()
}

fn rows(table: &str) -> String {
    format!("{DATABASE}/tables/{table}/rows")
}

fn create(server: &TestServer, table: &str, id: &str, data: &Value) -> Answer {
    let body = json!({"rowId": id, "data": data}).to_string();
    server.ask("POST", &rows(table), &body)
}

/// The list of table `a` in each family, and what its rows are called.
pub const ROOTS: [(&str, &str); 2] = [
    ("/v1/tablesdb/d/tables/a/rows", "rows"),
    ("/v1/databases/d/collections/a/documents", "documents"),
];

/// A server whose row `a1` leads to `b1`, and where no row leads to `b2`.
pub fn related_server() -> TestServer {
    let server = server();
    relate(
        &server,
        "manyToOne",
        &json!({"twoWay": true, "twoWayKey": "as"}),
    );
    made(&server, "b", "b1", &json!({"n": 1}));
    made(&server, "b", "b2", &json!({"n": 2}));
    made(&server, "a", "a1", &json!({"n": 1, "k": "b1"}));
    server
}

/// Creates a row that must be taken.
#[track_caller]
pub fn made(server: &TestServer, table: &str, id: &str, data: &Value) -> Value {
    let made = create(server, table, id, data);
    assert_eq!(made.status, 201, "{}", made.text);
    made.json()
}

fn update(server: &TestServer, table: &str, id: &str, data: &Value) -> Answer {
    let body = json!({"data": data}).to_string();
    server.ask("PATCH", &format!("{}/{id}", rows(table)), &body)
}

#[track_caller]
fn updated(server: &TestServer, table: &str, id: &str, data: &Value) -> Value {
    let made = update(server, table, id, data);
    assert_eq!(made.status, 200, "{}", made.text);
    made.json()
}

fn delete(server: &TestServer, table: &str, id: &str) -> Answer {
    server.ask("DELETE", &format!("{}/{id}", rows(table)), "")
}

fn query(method: &str, attribute: Option<&str>, values: &Value) -> String {
    let mut query = json!({"method": method, "values": values});
    if let Some(attribute) = attribute {
        query["attribute"] = json!(attribute);
    }
    query.to_string().replace('"', "%22").replace(' ', "%20")
}

fn select(names: &[&str]) -> String {
    query("select", None, &json!(names))
}

/// A row with what is selected of it.
#[track_caller]
fn shown(server: &TestServer, table: &str, id: &str, names: &[&str]) -> Value {
    let path = format!("{}/{id}?queries[0]={}", rows(table), select(names));
    let got = server.ask("GET", &path, "");
    assert_eq!(got.status, 200, "{}", got.text);
    got.json()
}

/// The ids of the rows that a row is related to by `key`.
#[track_caller]
fn related(server: &TestServer, table: &str, id: &str, key: &str) -> Value {
    let row = shown(server, table, id, &["$id", &format!("{key}.$id")]);
    match &row[key] {
        Value::Array(rows) => rows.iter().map(|row| row["$id"].clone()).collect(),
        Value::Null => Value::Null,
        row => row["$id"].clone(),
    }
}

fn ids(answer: &Value) -> Vec<String> {
    let rows = answer["rows"].as_array().unwrap();
    let id = |row: &Value| row["$id"].as_str().unwrap().to_owned();
    rows.iter().map(id).collect()
}

#[test]
fn a_relationship_is_a_column_of_both_tables_or_of_one() {
    let server = server();
    let column = relate(
        &server,
        "manyToOne",
        &json!({"twoWay": true, "twoWayKey": "back"}),
    );
    let wanted = json!({
        "key": "k", "type": "relationship", "status": "available", "required": false,
        "array": false, "relatedTable": "b", "relationType": "manyToOne", "twoWay": true,
        "twoWayKey": "back", "onDelete": "restrict", "side": "parent",
    });
    for (key, value) in wanted.as_object().unwrap() {
        assert_eq!(&column[key], value, "{key} of {column}");
    }
    let back = server
        .ask("GET", &format!("{DATABASE}/tables/b/columns/back"), "")
        .json();
    assert_eq!(
        (&back["side"], &back["relatedTable"], &back["twoWayKey"]),
        (&json!("child"), &json!("a"), &json!("k"))
    );
    let older = server
        .ask("GET", "/v1/databases/d/collections/b/attributes/back", "")
        .json();
    assert_eq!(older["relatedCollection"], "a");
    // One way: the other table knows nothing of it.
    let path = "/v1/databases/d/collections/b/attributes/relationship";
    let one_way = r#"{"relatedCollectionId":"c","type":"oneToMany","onDelete":"cascade"}"#;
    let made = server.ask("POST", path, one_way);
    assert_eq!(
        (made.status.as_u16(), &made.json()["key"]),
        (202, &json!("c"))
    );
    let columns = server
        .ask("GET", &format!("{DATABASE}/tables/c"), "")
        .json();
    assert_eq!(columns["columns"].as_array().unwrap().len(), 1);
    assert_eq!(columns["indexes"], json!([]));
    let hidden = server.ask("GET", &format!("{DATABASE}/tables/c/columns/b"), "");
    assert_eq!(hidden.refusal(), "404 column_not_found");
    // A column may have the key that the hidden one has.
    let body = r#"{"key":"b","required":false}"#;
    let path = format!("{DATABASE}/tables/c/columns/boolean");
    assert_eq!(server.ask("POST", &path, body).status, 202);
}

#[test]
fn definitions_that_cannot_be_are_refused_by_name() {
    let server = server();
    relate(
        &server,
        "oneToOne",
        &json!({"twoWay": true, "twoWayKey": "back"}),
    );
    for (body, refusal) in [
        (json!({"type": "oneToOne"}), "400 general_argument_invalid"),
        (
            json!({"relatedTableId": "b"}),
            "400 general_argument_invalid",
        ),
        (
            json!({"relatedTableId": "b", "type": "many"}),
            "400 general_argument_invalid",
        ),
        (
            json!({"relatedTableId": 5, "type": "oneToOne"}),
            "400 general_argument_invalid",
        ),
        (
            json!({"relatedTableId": "b", "type": "oneToOne", "onDelete": "x"}),
            "400 general_argument_invalid",
        ),
        (
            json!({"relatedTableId": "b", "type": "oneToOne", "key": "no no"}),
            "400 general_argument_invalid",
        ),
        (
            json!({"relatedTableId": "x", "type": "oneToOne"}),
            "404 table_not_found",
        ),
        (
            json!({"relatedTableId": "b", "type": "oneToOne", "key": "K"}),
            "409 column_already_exists",
        ),
        (
            json!({"relatedTableId": "b", "type": "oneToOne", "key": "f", "twoWay": true,
            "twoWayKey": "BACK"}),
            "409 column_already_exists",
        ),
        (
            json!({"relatedTableId": "a", "type": "oneToOne", "twoWay": true}),
            "409 column_already_exists",
        ),
    ] {
        let path = format!("{DATABASE}/tables/a/columns/relationship");
        let refused = server.ask("POST", &path, &body.to_string());
        assert_eq!(refused.refusal(), refusal, "{body}: {}", refused.text);
    }
    let index = r#"{"key":"i","type":"key","columns":["k"]}"#;
    let refused = server.ask("POST", &format!("{DATABASE}/tables/a/indexes"), index);
    assert_eq!(refused.refusal(), "400 column_type_invalid");
    let inline = r#"{"tableId":"t","name":"T","columns":[{"key":"r","type":"relationship"}]}"#;
    let refused = server.ask("POST", &format!("{DATABASE}/tables"), inline);
    assert_eq!(refused.refusal(), "400 general_argument_invalid");
    let guest = server.ask_as(
        None,
        "POST",
        &format!("{DATABASE}/tables/a/columns/relationship"),
        "{\"relatedTableId\":\"b\",\"type\":\"oneToOne\",\"key\":\"z\"}",
    );
    assert_eq!(guest.refusal(), "401 general_unauthorized_scope");
}

#[test]
fn both_spellings_of_the_update_change_both_ends() {
    let server = server();
    relate(
        &server,
        "oneToMany",
        &json!({"twoWay": true, "twoWayKey": "back"}),
    );
    made(&server, "b", "b1", &json!({"n": 1}));
    made(&server, "a", "a1", &json!({"k": ["b1"]}));
    let node = format!("{DATABASE}/tables/a/columns/k/relationship");
    let changed = server.ask("PATCH", &node, r#"{"onDelete":"cascade","newKey":"kids"}"#);
    assert_eq!(changed.status, 200, "{}", changed.text);
    assert_eq!(
        (&changed.json()["key"], &changed.json()["onDelete"]),
        (&json!("kids"), &json!("cascade"))
    );
    let python = format!("{DATABASE}/tables/b/columns/relationship/back");
    let changed = server.ask("PATCH", &python, r#"{"onDelete":"setNull"}"#);
    assert_eq!(changed.json()["twoWayKey"], "kids");
    let older = "/v1/databases/d/collections/a/attributes/relationship/kids";
    let changed = server.ask("PATCH", older, "{}").json();
    assert_eq!(
        (&changed["onDelete"], &changed["relatedCollection"]),
        (&json!("setNull"), &json!("b"))
    );
    assert_eq!(related(&server, "a", "a1", "kids"), json!(["b1"]));
    for (path, body, refusal) in [
        (
            "kids/relationship",
            r#"{"newKey":"n"}"#,
            "409 column_already_exists",
        ),
        (
            "kids/relationship",
            r#"{"onDelete":"never"}"#,
            "400 general_argument_invalid",
        ),
        ("n/relationship", "{}", "400 column_type_invalid"),
        ("none/relationship", "{}", "404 column_not_found"),
        (
            "integer/kids",
            r#"{"required":false,"default":null}"#,
            "400 column_type_invalid",
        ),
    ] {
        let path = format!("{DATABASE}/tables/a/columns/{path}");
        assert_eq!(
            server.ask("PATCH", &path, body).refusal(),
            refusal,
            "{path}"
        );
    }
}

/// Each type, with the links that `a1` is given, and what then leads back to it from `b1`.
fn types() -> [(&'static str, Value, Value); 4] {
    [
        ("oneToOne", json!("b1"), json!("a1")),
        ("manyToOne", json!("b1"), json!(["a1"])),
        ("oneToMany", json!(["b1", "b2"]), json!("a1")),
        ("manyToMany", json!(["b2", "b1"]), json!(["a1"])),
    ]
}

/// Nothing, as a value of that shape.
fn none_like(value: &Value) -> Value {
    if value.is_array() {
        json!([])
    } else {
        json!(null)
    }
}

/// A server where `a1` has these links, and `b1`, `b2` and `b3` are there.
fn two_way_site(kind: &str, links: &Value) -> TestServer {
    let server = server();
    let more = json!({"twoWay": true, "twoWayKey": "back"});
    relate(&server, kind, &more);
    for id in ["b1", "b2", "b3"] {
        made(&server, "b", id, &json!({"n": 1}));
    }
    let row = made(&server, "a", "a1", &json!({"n": 1, "k": links}));
    assert!(row["k"].is_object() || row["k"].is_array(), "{kind}: {row}");
    server
}

#[test]
fn links_are_the_same_from_both_ends() {
    for (kind, links, back) in types() {
        let server = two_way_site(kind, &links);
        assert_eq!(related(&server, "a", "a1", "k"), links, "{kind}");
        assert_eq!(related(&server, "b", "b1", "back"), back, "{kind}");
        // Nothing is embedded that was not asked for.
        let plain = server.ask("GET", &format!("{}/a1", rows("a")), "").json();
        assert_eq!((plain.get("k"), &plain["n"]), (None, &json!(1)), "{kind}");
        // What is not named stays; what is named is all there is.
        updated(&server, "a", "a1", &json!({"n": 2}));
        assert_eq!(related(&server, "a", "a1", "k"), links, "{kind}");
        updated(&server, "a", "a1", &json!({"k": null}));
        assert_eq!(
            related(&server, "a", "a1", "k"),
            none_like(&links),
            "{kind}"
        );
        let left = related(&server, "b", "b1", "back");
        assert_eq!(left, none_like(&back), "{kind}");
    }
}

#[test]
fn links_are_given_from_the_other_end() {
    for (kind, links, back) in types() {
        let server = two_way_site(kind, &links);
        let to_a1 = match back {
            Value::Array(_) => json!(["a1"]),
            _ => json!("a1"),
        };
        let given = update(&server, "b", "b3", &json!({"back": to_a1})).refusal();
        if kind == "oneToOne" {
            assert_eq!(given, "409 row_unique_constraint_violation");
            updated(&server, "a", "a1", &json!({"k": null}));
            updated(&server, "b", "b3", &json!({"back": "a1"}));
        } else {
            assert_eq!(given, "200", "{kind}");
        }
        let expected = match kind {
            "oneToMany" => json!(["b1", "b2", "b3"]),
            "manyToMany" => json!(["b2", "b1", "b3"]),
            _ => json!("b3"),
        };
        assert_eq!(related(&server, "a", "a1", "k"), expected, "{kind}");
        let left = related(&server, "b", "b1", "back");
        let is_kept = kind.ends_with("ToMany");
        let expected = if is_kept { back } else { none_like(&back) };
        assert_eq!(left, expected, "{kind}");
    }
}

#[test]
fn one_to_one_is_kept() {
    let server = server();
    relate(&server, "oneToOne", &json!({}));
    made(&server, "b", "b1", &json!({"n": 1}));
    made(&server, "a", "a1", &json!({"k": "b1"}));
    let second = create(&server, "a", "a2", &json!({"k": "b1"}));
    assert_eq!(second.refusal(), "409 row_unique_constraint_violation");
    made(&server, "a", "a2", &json!({"n": 1, "k": null}));
    made(&server, "a", "a3", &json!({"n": 1, "k": null}));
}

#[test]
fn rows_are_written_inside_rows_three_levels_deep() {
    let server = server();
    relate(
        &server,
        "oneToMany",
        &json!({"twoWay": true, "twoWayKey": "back"}),
    );
    relate_tables(&server, ("b", "next", "c"), "manyToOne", &json!({}));
    relate_tables(&server, ("c", "also", "a"), "oneToOne", &json!({}));
    let data = json!({"n": 1, "k": [
        {"$id": "b1", "n": 2, "next": {"$id": "c1", "n": 3, "also": {"$id": "a2", "n": 4}}},
        {"n": 5, "$permissions": ["read(\"any\")"]},
    ]});
    let row = made(&server, "a", "a1", &data);
    assert_eq!(row["k"][0]["next"]["also"]["n"], 4, "{row}");
    let unnamed = row["k"][1]["$id"].as_str().unwrap();
    let got = shown(&server, "b", unnamed, &["*", "back.n"]);
    assert_eq!((&got["n"], &got["back"]["n"]), (&json!(5), &json!(1)));
    assert_eq!(got["$permissions"], json!(["read(\"any\")"]));
    // An object with an id of a row that is there changes it; what was read can be sent back.
    let read = shown(&server, "a", "a1", &["*", "k.*", "k.next.*"]);
    let mut again = json!({"k": read["k"]});
    again["k"][0]["n"] = json!(20);
    again["k"][0]["next"]["n"] = json!(30);
    updated(&server, "a", "a1", &again);
    assert_eq!(shown(&server, "b", "b1", &["n", "next.n"])["next"]["n"], 30);
    assert_eq!(shown(&server, "b", "b1", &["n"])["n"], 20);
    // All or nothing.
    let refused = create(
        &server,
        "a",
        "a9",
        &json!({"k": [{"$id": "b8", "n": "no"}]}),
    );
    assert_eq!(refused.refusal(), "400 row_invalid_structure");
    let refused = create(&server, "a", "a1", &json!({"k": [{"$id": "b8", "n": 1}]}));
    assert_eq!(refused.refusal(), "409 row_already_exists");
    let absent = server.ask("GET", &format!("{}/b8", rows("b")), "");
    assert_eq!(absent.refusal(), "404 row_not_found");
    let mut deep = json!({"n": 1});
    for key in ["k", "also", "next", "k"] {
        deep = json!({"n": 1, key: if key == "k" { json!([deep]) } else { deep }});
    }
    let refused = create(&server, "a", "a9", &deep);
    assert_eq!(
        refused.refusal(),
        "400 relationship_value_invalid",
        "{deep}"
    );
}

#[test]
fn values_that_are_no_links_are_refused() {
    let server = server();
    relate(
        &server,
        "manyToOne",
        &json!({"twoWay": true, "twoWayKey": "back"}),
    );
    made(&server, "b", "b1", &json!({"n": 1}));
    for (table, key, value) in [
        ("a", "k", json!(5)),
        ("a", "k", json!(true)),
        ("a", "k", json!(["b1"])),
        ("a", "k", json!("no id")),
        ("a", "k", json!("")),
        ("a", "k", json!("absent")),
        ("a", "k", json!({"$id": 5})),
        ("a", "k", json!({"$id": "absent"})),
        ("a", "k", json!("{\"method\":\"toggle\"}")),
        ("b", "back", json!("a1")),
        ("b", "back", json!([["a1"]])),
        ("b", "back", json!([null])),
        ("b", "back", json!(["absent"])),
    ] {
        let refused = create(&server, table, "x", &json!({"n": 1, key: value}));
        assert_eq!(
            refused.refusal(),
            "400 relationship_value_invalid",
            "{value}"
        );
        assert!(refused.text.contains(key), "{}", refused.text);
    }
    let same = made(&server, "b", "b2", &json!({"n": 1, "back": []}));
    assert_eq!(same["back"], json!([]));
}

/// Type, behaviour, the table whose row is deleted, the answer, and what is left of `a1` and `b1`.
type Deletion = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    [&'static str; 2],
);

const GONE: &str = "404 row_not_found";
const RESTRICTED: &str = "403 row_delete_restricted";

#[rustfmt::skip]
const DELETIONS: [Deletion; 16] = [
    ("oneToOne", "restrict", "a", RESTRICTED, ["200", "200"]),
    ("oneToOne", "restrict", "b", "204", ["200", GONE]),
    ("oneToOne", "cascade", "a", "204", [GONE, GONE]),
    ("oneToOne", "setNull", "a", "204", [GONE, "200"]),
    ("manyToOne", "restrict", "a", "204", [GONE, "200"]),
    ("manyToOne", "restrict", "b", RESTRICTED, ["200", "200"]),
    ("manyToOne", "cascade", "b", "204", [GONE, GONE]),
    ("manyToOne", "setNull", "b", "204", ["200", GONE]),
    ("oneToMany", "restrict", "a", RESTRICTED, ["200", "200"]),
    ("oneToMany", "cascade", "a", "204", [GONE, GONE]),
    ("oneToMany", "cascade", "b", "204", ["200", GONE]),
    ("oneToMany", "setNull", "a", "204", [GONE, "200"]),
    ("manyToMany", "restrict", "a", RESTRICTED, ["200", "200"]),
    ("manyToMany", "cascade", "a", "204", [GONE, GONE]),
    ("manyToMany", "cascade", "b", "204", ["200", GONE]),
    ("manyToMany", "setNull", "b", "204", ["200", GONE]),
];

#[test]
fn deletions_do_what_the_relationship_says() {
    for (kind, on_delete, table, refusal, left) in DELETIONS {
        for two_way in [false, true] {
            let server = server();
            let more = json!({"twoWay": two_way, "twoWayKey": "back", "onDelete": on_delete});
            relate(&server, kind, &more);
            made(&server, "b", "b1", &json!({"n": 1}));
            let is_list = kind.ends_with("Many");
            let link = if is_list { json!(["b1"]) } else { json!("b1") };
            made(&server, "a", "a1", &json!({"k": link}));
            let case = format!("{kind} {on_delete} of {table}, two ways: {two_way}");
            let deleted = delete(&server, table, &format!("{table}1"));
            assert_eq!(deleted.refusal(), refusal, "{case}: {}", deleted.text);
            let got = ["a", "b"].map(|table| {
                let row = server.ask("GET", &format!("{}/{table}1", rows(table)), "");
                row.refusal()
            });
            assert_eq!(got, left, "{case}");
            if left == ["200", GONE] {
                let none = if is_list { json!([]) } else { json!(null) };
                assert_eq!(related(&server, "a", "a1", "k"), none, "{case}");
            }
        }
    }
}

#[test]
fn a_chain_of_rows_goes_in_one_commit_or_not_at_all() {
    let server = server();
    let more = json!({"twoWay": true, "twoWayKey": "up", "onDelete": "cascade"});
    relate_tables(&server, ("a", "down", "a"), "oneToMany", &more);
    made(&server, "a", "r0", &json!({"n": 0}));
    for n in 1..50 {
        made(
            &server,
            "a",
            &format!("r{n}"),
            &json!({"up": format!("r{}", n - 1)}),
        );
    }
    // A circle ends, too.
    updated(&server, "a", "r0", &json!({"up": "r49"}));
    assert_eq!(delete(&server, "a", "r7").status, 204);
    let left = server.ask("GET", &rows("a"), "").json();
    assert_eq!(left["total"], 0);
    let restrict = json!({"onDelete": "restrict"});
    relate_tables(&server, ("a", "held", "b"), "oneToOne", &restrict);
    made(
        &server,
        "a",
        "s1",
        &json!({"n": 1, "held": {"$id": "b1", "n": 1}}),
    );
    made(&server, "a", "s0", &json!({"down": ["s1"]}));
    assert_eq!(
        delete(&server, "a", "s0").refusal(),
        "403 row_delete_restricted"
    );
    assert_eq!(related(&server, "a", "s0", "down"), json!(["s1"]));
}

/// Of table `a` rows `a1` and `a2` with links to `b1`, some to `c1` and `c2`, and `a3` with none.
fn linked_site() -> TestServer {
    let server = server();
    relate(
        &server,
        "manyToOne",
        &json!({"twoWay": true, "twoWayKey": "back"}),
    );
    relate_tables(&server, ("a", "tags", "c"), "manyToMany", &json!({}));
    for id in ["c1", "c2"] {
        made(&server, "c", id, &json!({"n": 9}));
    }
    made(&server, "b", "b1", &json!({"n": 7}));
    let first = json!({"n": 1, "k": "b1", "tags": ["c2", "c1"]});
    made(&server, "a", "a1", &first);
    made(
        &server,
        "a",
        "a2",
        &json!({"n": 2, "k": "b1", "tags": ["c1"]}),
    );
    made(&server, "a", "a3", &json!({"n": 3}));
    server
}

fn list(server: &TestServer, query: &str) -> Answer {
    let path = format!("{}?ttl=60&queries[0]={query}", rows("a"));
    server.ask("GET", &path, "")
}

#[test]
fn lists_embed_what_is_selected() {
    let server = linked_site();
    let all = list(&server, &select(&["*", "k.*", "k.back.n", "tags.$id"]));
    assert_eq!(all.header("x-appwrite-cache"), "", "never from the cache");
    let all = all.json();
    assert_eq!(all["total"], 3);
    let row = &all["rows"][0];
    assert_eq!((&row["n"], &row["k"]["n"]), (&json!(1), &json!(7)));
    assert_eq!(row["k"]["$tableId"], "b");
    assert_eq!(row["k"]["back"].as_array().unwrap().len(), 2);
    assert_eq!(row["k"]["back"][1]["n"], 2);
    assert!(row["k"]["back"][1].get("$id").is_none(), "{row}");
    let tag = &row["tags"][0];
    assert_eq!((&tag["$id"], tag.get("n")), (&json!("c2"), None));
    let row = &all["rows"][2];
    assert_eq!((&row["k"], &row["tags"]), (&json!(null), &json!([])));
    // Only what is named, of the row itself, too.
    let some = list(&server, &select(&["k.n"])).json();
    let row = some["rows"][0].as_object().unwrap();
    assert!(
        !row.contains_key("n") && !row.contains_key("$id"),
        "{row:?}"
    );
}

#[test]
fn lists_filter_by_links() {
    let server = linked_site();
    let by = |method: &str, key: &str, ids: &[&str]| query(method, Some(key), &json!(ids));
    for (query, found) in [
        (by("equal", "k", &["b1"]), vec!["a1", "a2"]),
        (by("contains", "k", &["b1", "b2"]), vec!["a1", "a2"]),
        (by("contains", "k", &["b"]), vec![]),
        (by("isNull", "k", &[]), vec!["a3"]),
        (by("isNotNull", "k", &[]), vec!["a1", "a2"]),
        (by("contains", "tags", &["c2"]), vec!["a1"]),
        (by("equal", "tags", &["c1"]), vec!["a1", "a2"]),
        (by("containsAll", "tags", &["c1", "c2"]), vec!["a1"]),
        (by("isNull", "tags", &[]), vec!["a3"]),
    ] {
        let got = list(&server, &query);
        assert_eq!(got.status, 200, "{query}: {}", got.text);
        assert_eq!(got.header("x-appwrite-cache"), "", "{query}");
        assert_eq!(ids(&got.json()), found, "{query}");
    }
}

#[test]
fn unsupported_relationship_queries_are_refused() {
    let server = linked_site();
    for query in [
        query("startsWith", Some("k"), &json!(["b"])),
        query("greaterThan", Some("k"), &json!(["b"])),
        query("equal", Some("k"), &json!([5])),
        query("orderAsc", Some("k"), &json!([])),
        select(&["k.none"]),
        select(&["n.x"]),
        select(&["k.back.k.back.n"]),
    ] {
        let refused = list(&server, &query);
        assert_eq!(refused.refusal(), "400 general_query_invalid", "{query}");
    }
    let equal = query("equal", Some("back"), &json!(["a1"]));
    let back = format!("{}?queries[0]={equal}", rows("b"));
    let refused = server.ask("GET", &back, "");
    assert_eq!(refused.refusal(), "400 general_query_invalid");
}

#[test]
fn related_rows_need_permissions_of_their_own() {
    let server = server();
    relate(
        &server,
        "manyToOne",
        &json!({"twoWay": true, "twoWayKey": "back"}),
    );
    let private = json!({"permissions": [], "rowSecurity": true}).to_string();
    let table = format!("{DATABASE}/tables/b");
    assert_eq!(server.ask("PUT", &table, &private).status, 200);
    let body = json!({"rowId": "open", "data": {"n": 1}, "permissions": ["read(\"any\")"]});
    assert_eq!(
        server.ask("POST", &rows("b"), &body.to_string()).status,
        201
    );
    made(&server, "b", "closed", &json!({"n": 2}));
    made(&server, "a", "a1", &json!({"k": "open"}));
    made(&server, "a", "a2", &json!({"k": "closed"}));
    let path = format!("{}?queries[0]={}", rows("a"), select(&["*", "k.*"]));
    let seen = server.ask_as(None, "GET", &path, "").json();
    assert_eq!(
        (&seen["rows"][0]["k"]["n"], &seen["rows"][1]["k"]),
        (&json!(1), &json!(null))
    );
    let as_guest = |id: &str, data: Value| {
        let body = json!({"rowId": id, "data": data}).to_string();
        server.ask_as(None, "POST", &rows("a"), &body).refusal()
    };
    assert_eq!(as_guest("g1", json!({"k": "open"})), "201");
    // What a caller may not read is no more there than what is not.
    let closed = as_guest("g2", json!({"k": "closed"}));
    assert_eq!(closed, "400 relationship_value_invalid");
    let change = json!({"k": {"$id": "open", "n": 5}});
    assert_eq!(as_guest("g2", change), "401 user_unauthorized");
    let fresh = json!({"k": {"$id": "fresh", "n": 5}});
    assert_eq!(as_guest("g2", fresh), "401 user_unauthorized");
    // A link that another row holds is that row's content.
    let locked = json!({"permissions": ["read(\"any\")"]}).to_string();
    assert_eq!(
        server
            .ask("PUT", &format!("{DATABASE}/tables/a"), &locked)
            .status,
        200
    );
    let open = json!({"permissions": ["read(\"any\")", "write(\"any\")"]}).to_string();
    assert_eq!(server.ask("PUT", &table, &open).status, 200);
    let path = format!("{}/open", rows("b"));
    let body = json!({"data": {"back": []}}).to_string();
    let refused = server.ask_as(None, "PATCH", &path, &body);
    assert_eq!(refused.refusal(), "401 user_unauthorized");
    assert_eq!(related(&server, "a", "a1", "k"), json!("open"));
}

#[test]
fn bulk_writes_know_no_relationships() {
    let server = server();
    relate(&server, "oneToMany", &json!({"onDelete": "cascade"}));
    let path = rows("a");
    for (method, body) in [
        ("POST", r#"{"rows":[{"$id":"a1","n":1}]}"#),
        ("PUT", r#"{"rows":[{"$id":"a1","n":1}]}"#),
        ("PATCH", r#"{"data":{"n":1}}"#),
        ("DELETE", "{}"),
    ] {
        let refused = server.ask(method, &path, body);
        assert_eq!(refused.refusal(), "400 general_bad_request", "{method}");
    }
    // The other table shows no relationship, so its rows are written in bulk.
    let many = r#"{"rows":[{"$id":"b1","n":1},{"$id":"b2","n":2}]}"#;
    assert_eq!(server.ask("POST", &rows("b"), many).status, 201);
    made(&server, "a", "a1", &json!({"k": ["b1", "b2"]}));
    let first = json!({"queries": [r#"{"method":"equal","attribute":"n","values":[1]}"#]});
    let gone = server.ask("DELETE", &rows("b"), &first.to_string());
    assert_eq!(gone.json()["total"], 1, "{}", gone.text);
    assert_eq!(related(&server, "a", "a1", "k"), json!(["b2"]));
}

#[test]
fn a_relationship_goes_with_either_column_and_with_either_table() {
    let server = server();
    for kind in ["oneToOne", "manyToOne", "oneToMany", "manyToMany"] {
        for (table, column) in [("a", "k"), ("b", "back")] {
            relate(&server, kind, &json!({"twoWay": true, "twoWayKey": "back"}));
            let link = if kind.ends_with("Many") {
                json!(["b1"])
            } else {
                json!("b1")
            };
            made(&server, "b", "b1", &json!({"n": 1}));
            made(&server, "a", "a1", &json!({"n": 1, "k": link}));
            let path = format!("{DATABASE}/tables/{table}/columns/{column}");
            assert_eq!(server.ask("DELETE", &path, "").status, 204, "{kind}");
            for path in ["a/columns/k", "b/columns/back"] {
                let gone = server.ask("GET", &format!("{DATABASE}/tables/{path}"), "");
                assert_eq!(gone.refusal(), "404 column_not_found", "{kind} {path}");
            }
            // Nothing holds the rows any more.
            assert_eq!(delete(&server, "b", "b1").status, 204, "{kind}");
            assert_eq!(delete(&server, "a", "a1").status, 204, "{kind}");
        }
    }
    relate(
        &server,
        "manyToMany",
        &json!({"twoWay": true, "twoWayKey": "back"}),
    );
    relate_tables(&server, ("b", "more", "a"), "oneToMany", &json!({}));
    made(&server, "b", "b1", &json!({"n": 1}));
    made(&server, "a", "a1", &json!({"n": 1, "k": ["b1"]}));
    assert_eq!(
        server
            .ask("DELETE", &format!("{DATABASE}/tables/b"), "")
            .status,
        204
    );
    let columns = server
        .ask("GET", &format!("{DATABASE}/tables/a/columns"), "")
        .json();
    assert_eq!(columns["total"], 1, "{columns}");
    updated(&server, "a", "a1", &json!({"n": 2}));
    assert_eq!(delete(&server, "a", "a1").status, 204);
}

#[test]
fn a_key_needs_the_scope_of_columns() {
    let server = server();
    let path = format!("{DATABASE}/tables/a/columns/relationship");
    let body = r#"{"relatedTableId":"b","type":"oneToOne"}"#;
    let refused = server.ask_as(Some(ROWS_KEY), "POST", &path, body);
    assert_eq!(refused.refusal(), "401 general_unauthorized_scope");
}
