//! Encrypted columns: nothing of their values rests readable whatever writes them, those who may
//! read get them, and nothing can be looked for in them.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use server::telemetry::metric::{Value as Metered, metrics};
use testing::{damage_behind, traces};

use crate::fixture::{Answer, KEY, PROJECT, TestServer};

const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";
const TRANSACTIONS: &str = "/v1/tablesdb/transactions";
const OWN: &str = "/v1/tidemark/databases/d";

/// What stands in every encrypted value, and in none other.
const SECRET: &str = "quicksilver";

fn server() -> TestServer {
    let table = json!({"tableId": "t", "name": "T", "permissions": ["read(\"any\")"],
    "columns": [
        {"key": "ssn", "type": "varchar", "size": 200, "encrypt": true},
        {"key": "tags", "type": "text", "array": true, "encrypt": true},
        {"key": "n", "type": "integer"},
        {"key": "plain", "type": "varchar", "size": 64},
    ]});
    TestServer::start_with_table(&table)
}

fn once(server: &TestServer, key: &str, method: &str, path: &str, body: &Value) -> Answer {
    let headers = [
        ("x-appwrite-project", PROJECT),
        ("x-appwrite-key", KEY),
        ("idempotency-key", key),
    ];
    server.ask_with(&headers, method, path, &body.to_string())
}

/// A value of its own for each place that it is written in.
fn secret(place: &str) -> String {
    format!("{SECRET} of {place}")
}

fn data(id: &str) -> Value {
    json!({"ssn": secret(id), "tags": [secret(id), "b"], "n": 1, "plain": "ordinary words"})
}

fn row(id: &str) -> Value {
    let mut row = data(id);
    row["$id"] = json!(id);
    row
}

fn asked(path: &str, queries: &[Value]) -> String {
    let one = |query: &Value| {
        let text = query.to_string();
        format!("queries[]={}", utf8_percent_encode(&text, NON_ALPHANUMERIC))
    };
    let texts: Vec<String> = queries.iter().map(one).collect();
    format!("{path}?{}", texts.join("&"))
}

fn stage(server: &TestServer, operations: &Value) -> String {
    let id = server
        .make("POST", TRANSACTIONS, &json!({"ttl": 3600}))
        .json();
    let id = id["$id"].as_str().unwrap().to_owned();
    let path = format!("{TRANSACTIONS}/{id}/operations");
    server.make("POST", &path, &json!({"operations": operations}));
    id
}

fn op(action: &str, id: Option<&str>, data: &Value) -> Value {
    json!({"action": action, "databaseId": "d", "tableId": "t", "rowId": id, "data": data})
}

/// Writes by every route; the id of a transaction that stays open.
fn write_everywhere(server: &TestServer) -> String {
    server.make("POST", ROWS, &json!({"rowId": "a", "data": data("a")}));
    server.make("POST", ROWS, &json!({"rows": [row("b"), row("c")]}));
    let a = format!("{ROWS}/a");
    server.make("PATCH", &a, &json!({"data": {"ssn": secret("a again")}}));
    let append = json!({"method": "arrayAppend", "values": [secret("an operator")]});
    server.make("PATCH", &a, &json!({"data": {"tags": append.to_string()}}));
    let past = json!({"ssn": secret("the past"), "$validFrom": "2001-01-01"});
    server.make("PATCH", &a, &json!({"data": past}));
    let later = json!({"ssn": secret("times to come"), "$validFrom": "2999-01-01"});
    server.make("PATCH", &a, &json!({"data": later}));
    server.make("PUT", &format!("{ROWS}/d"), &json!({"data": data("d")}));
    server.make("PUT", ROWS, &json!({"rows": [row("d"), row("e")]}));
    let all = json!({"data": {"ssn": secret("all")},
        "queries": [r#"{"method":"equal","attribute":"$id","values":["e"]}"#]});
    server.make("PATCH", ROWS, &all);
    write_under_keys(server);
    let committed = stage(
        server,
        &json!([
            op("create", Some("i"), &data("i")),
            op("bulkCreate", None, &json!([row("j"), row("k")])),
        ]),
    );
    let path = format!("{TRANSACTIONS}/{committed}");
    server.make("PATCH", &path, &json!({"commit": true}));
    server.make("DELETE", &format!("{ROWS}/c"), &json!({}));
    stage(
        server,
        &json!([
            op("create", Some("staged"), &data("staged")),
            op("update", Some("b"), &json!({"ssn": secret("b staged")})),
        ]),
    )
}

/// Writes whose answers are kept, and one that says why it is.
fn write_under_keys(server: &TestServer) {
    for _ in 0..2 {
        let body = json!({"rowId": "f", "data": data("f")});
        let answer = once(server, "key-f", "POST", ROWS, &body);
        assert_eq!(answer.status, 201, "{}", answer.text);
        assert_eq!(answer.json()["ssn"], secret("f"));
    }
    let writes = json!({"atomic": true, "operations": [
        {"action": "create", "tableId": "t", "rowId": "g", "data": data("g")}]});
    let answer = once(
        server,
        "key-g",
        "POST",
        &format!("{OWN}/batch/writes"),
        &writes,
    );
    assert_eq!(answer.status, 200, "{}", answer.text);
    let noted = json!({"meta": {"why": secret("a note")},
        "ops": [{"op": "put", "table": "t", "id": "h", "doc": data("h")}]});
    server.make("POST", &format!("{OWN}/transactions"), &noted);
}

/// What each reader gets, of a server that has written [`write_everywhere`].
fn read_everywhere(server: &TestServer, transaction: &str) {
    let one = |path: &str| {
        let answer = server.ask("GET", path, "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        answer.json()
    };
    let a = one(&format!("{ROWS}/a"));
    assert_eq!(a["tags"], json!([secret("a"), "b", secret("an operator")]));
    for id in ["b", "d", "f", "g", "h", "i", "j", "k"] {
        let got = one(&format!("{ROWS}/{id}"));
        assert_eq!(
            (&got["ssn"], &got["tags"]),
            (&json!(secret(id)), &data(id)["tags"])
        );
    }
    assert_eq!(one(&format!("{ROWS}/e"))["ssn"], secret("all"));
    let guest = server.ask_as(None, "GET", &format!("{ROWS}/b"), "").json();
    assert_eq!(
        guest["ssn"],
        secret("b"),
        "who may read the row reads the value"
    );

    let staged = one(&format!("{ROWS}/staged?transactionId={transaction}"));
    assert_eq!(staged["ssn"], secret("staged"));
    let staged = one(&format!("{ROWS}/b?transactionId={transaction}"));
    assert_eq!(staged["ssn"], secret("b staged"));

    read_lists(server);
    read_by_own_routes(server);
    let body = json!({"rowId": "f", "data": data("f")});
    let again = once(server, "key-f", "POST", ROWS, &body);
    assert_eq!(again.json()["ssn"], secret("f"), "{}", again.text);
    let other = json!({"rowId": "f", "data": data("other")});
    let other = once(server, "key-f", "POST", ROWS, &other);
    assert_eq!(other.refusal(), "409 general_idempotency_key_reused");
}

fn read_lists(server: &TestServer) {
    let one = |path: &str| {
        let answer = server.ask("GET", path, "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        answer.json()
    };
    let method = |name: &str, values: Value| json!({"method": name, "values": values});
    let of = |id: &str| json!({"method": "equal", "attribute": "$id", "values": [id]});
    let listed = |queries: &[Value]| one(&asked(ROWS, queries))["rows"].clone();
    for ttl in ["", "&ttl=60", "&ttl=60"] {
        let path = asked(ROWS, &[of("b")]) + ttl;
        assert_eq!(one(&path)["rows"][0]["ssn"], secret("b"), "{ttl}");
    }
    let selected = listed(&[of("d"), method("select", json!(["ssn"]))]);
    assert_eq!(selected[0]["ssn"], secret("d"));
    let then = listed(&[of("a"), method("validAt", json!(["2998-12-31"]))]);
    assert_eq!(then[0]["ssn"], secret("the past"));
    let then = listed(&[of("a"), method("validAt", json!(["2999-01-02"]))]);
    assert_eq!(then[0]["ssn"], secret("times to come"));
    let versions = listed(&[of("a"), method("versions", json!([]))]);
    let said = versions.to_string();
    for place in ["a", "a again", "the past", "times to come"] {
        let wanted = json!(secret(place)).to_string();
        assert!(said.contains(&wanted), "{place}: {said}");
    }
}

fn read_by_own_routes(server: &TestServer) {
    let reads = json!({"reads": [{"tableId": "t", "ids": ["k"]}]});
    let batch = server
        .make("POST", &format!("{OWN}/batch/reads"), &reads)
        .json();
    assert_eq!(batch["results"][0]["rows"][0]["ssn"], secret("k"));
    let own = |body: Value| {
        let read = server.make("POST", &format!("{OWN}/reads"), &body).json();
        read["rows"].to_string()
    };
    let history = |axis: &str| json!({"kind": "history", "table": "t", "id": "a", "axis": axis});
    for (read, place) in [
        (json!({"kind": "get", "table": "t", "id": "b"}), "b"),
        (json!({"kind": "scan", "table": "t"}), "k"),
        (history("both"), "a again"),
        (history("valid"), "the past"),
        (
            json!({"kind": "diff", "table": "t", "from": {"vt": 0}, "to": {}}),
            "b",
        ),
        (json!({"kind": "feed", "limit": 100}), "a note"),
    ] {
        let (said, wanted) = (own(read.clone()), json!(secret(place)).to_string());
        assert!(said.contains(&wanted), "{read}: {said}");
    }
}

#[test]
fn encrypted_value_is_unreadable_on_disk_however_it_is_written() {
    let server = server();
    let transaction = write_everywhere(&server);
    let none = Vec::<String>::new();
    assert_eq!(traces(server.directory(), SECRET), none);
    let others = traces(server.directory(), "ordinary words");
    assert!(
        !others.is_empty(),
        "what is not encrypted is found, so it is looked for rightly"
    );
    read_everywhere(&server, &transaction);
    assert_eq!(traces(server.directory(), SECRET), none);
    let server = server.restart();
    assert_eq!(traces(server.directory(), SECRET), none);
    read_everywhere(&server, &transaction);
    let path = format!("{TRANSACTIONS}/{transaction}");
    server.make("PATCH", &path, &json!({"commit": true}));
    let staged = server.ask("GET", &format!("{ROWS}/staged"), "").json();
    assert_eq!(staged["ssn"], secret("staged"));
    assert_eq!(traces(server.directory(), SECRET), none);
}

#[test]
fn staged_plaintext_is_encrypted_once_there_is_a_key() {
    let plain = json!({"tableId": "t", "name": "T",
        "columns": [{"key": "n", "type": "integer"}]});
    let server = TestServer::start_with_table(&plain);
    // Content is judged by the commit: it may be for a column that is yet to come.
    let early = json!({"n": 1, "ssn": secret("early")});
    let transaction = stage(&server, &json!([op("create", Some("early"), &early)]));
    assert!(!traces(server.directory(), SECRET).is_empty());
    let column = json!({"key": "ssn", "size": 200, "required": false, "encrypt": true});
    let path = "/v1/tablesdb/d/tables/t/columns/varchar";
    server.make("POST", path, &column);
    let path = format!("{TRANSACTIONS}/{transaction}");
    let found = server.ask("GET", &path, "").json();
    assert_eq!(found["status"], "failed", "{found}");
    let sealed = stage(&server, &json!([op("create", Some("late"), &early)]));
    let another = json!({"key": "other", "size": 200, "required": false, "encrypt": true});
    server.make("POST", "/v1/tablesdb/d/tables/t/columns/varchar", &another);
    // The log is cut behind the back of requests, and by the end of the server at the latest.
    let server = server.restart();
    assert_eq!(traces(server.directory(), SECRET), Vec::<String>::new());
    let path = format!("{TRANSACTIONS}/{sealed}");
    server.make("PATCH", &path, &json!({"commit": true}));
    let late = server.ask("GET", &format!("{ROWS}/late"), "").json();
    assert_eq!(late["ssn"], secret("early"));
}

/// Three rows; of `b` what is encrypted is damaged as it is now, and not as it was at first.
fn damaged() -> TestServer {
    let table = json!({"tableId": "t", "name": "T", "columns": [
        {"key": "plain", "type": "varchar", "size": 64},
        {"key": "ssn", "type": "varchar", "size": 200, "encrypt": true},
    ]});
    let server = TestServer::start_with_table(&table);
    for id in ["a", "b", "c"] {
        let data = json!({"plain": format!("near {id}"), "ssn": secret(id)});
        server.make("POST", ROWS, &json!({"rowId": id, "data": data}));
    }
    let change = json!({"data": {"plain": "near b now"}});
    server.make("PATCH", &format!("{ROWS}/b"), &change);
    server.restart_after(|directory| damage_behind(directory, "near b now"))
}

#[test]
fn a_damaged_row_is_named_and_can_be_passed_by() {
    let server = damaged();
    let method = |name: &str, values: Value| json!({"method": name, "values": values});
    let whole = server.ask("GET", ROWS, "");
    let alone = server.ask("GET", &format!("{ROWS}/b"), "");
    let versions = server.ask("GET", &asked(ROWS, &[method("versions", json!([]))]), "");
    let scan = json!({"kind": "scan", "table": "t"});
    let scan = server.ask("POST", &format!("{OWN}/reads"), &scan.to_string());
    for refused in [whole, alone, versions, scan] {
        assert_eq!(refused.refusal(), "500 encrypted_value_invalid");
        assert!(refused.text.contains("row `b`"), "{}", refused.text);
    }
    let but_b = json!({"method": "notEqual", "attribute": "$id", "values": ["b"]});
    for (query, rows) in [(but_b, 2), (method("select", json!(["plain"])), 3)] {
        let listed = server.ask("GET", &asked(ROWS, &[query]), "");
        assert_eq!(listed.json()["total"], rows, "{}", listed.text);
    }
    let near_b = json!({"method": "equal", "attribute": "plain", "values": ["near b now"]});
    let body = json!({"queries": [near_b.to_string()]});
    let deleted = server.ask("DELETE", ROWS, &body.to_string());
    assert_eq!(deleted.json(), json!({"total": 1, "rows": []}));
    assert_eq!(server.ask("GET", ROWS, "").json()["total"], 2);
    let met = metrics(&server.watch().look());
    let met = met
        .iter()
        .find(|one| one.name == "tidemark_encrypted_damaged_total");
    assert!(
        matches!(met.unwrap().samples[0].1, Metered::Whole(1..)),
        "what was met is counted"
    );
}

#[test]
fn a_damaged_row_is_mended_by_a_new_value() {
    let mut server = damaged();
    let b = format!("{ROWS}/b");
    let whole = json!({"data": {"plain": "mended", "ssn": secret("put")}});
    for (method, change) in [
        ("PATCH", json!({"data": {"ssn": secret("patched")}})),
        ("PUT", whole),
    ] {
        let select = json!({"method": "select", "values": ["plain"]});
        let lacking = asked(ROWS, &[select]);
        assert_eq!(server.ask("GET", &lacking, "").json()["total"], 3);
        let other = json!({"data": {"plain": "other"}}).to_string();
        let refused = server.ask("PATCH", &b, &other);
        assert_eq!(refused.refusal(), "500 encrypted_value_invalid");
        assert!(refused.text.contains("row `b`"), "{}", refused.text);
        let mended = server.make(method, &b, &change).json();
        for (key, value) in change["data"].as_object().unwrap() {
            assert_eq!(mended[key], *value, "{mended}");
        }
        assert_eq!(server.ask("GET", ROWS, "").json()["rows"][1], mended);
        let listed = server.ask("GET", &lacking, "").json();
        assert_eq!(listed["rows"][1]["plain"], mended["plain"], "{listed}");
        server = server.restart_after(|directory| damage_behind(directory, "near b now"));
        let read = server.ask("GET", &b, "");
        let is_now = mended["plain"] == "near b now";
        assert_eq!(read.status, if is_now { 500 } else { 200 }, "{}", read.text);
    }
}

#[test]
fn the_history_of_a_damaged_row_marks_what_it_lacks() {
    let server = damaged();
    for axis in ["both", "valid", "system"] {
        let read = json!({"kind": "history", "table": "t", "id": "b", "axis": axis,
            "coalesce": true});
        let found = server.make("POST", &format!("{OWN}/reads"), &read).json();
        let versions = found["rows"].as_array().unwrap();
        let is_now = |version: &&Value| version["doc"]["plain"] == "near b now";
        let (now, before): (Vec<&Value>, Vec<&Value>) = versions.iter().partition(is_now);
        assert!(!now.is_empty(), "{axis}: {found}");
        for version in now {
            assert_eq!(version["damaged"], json!(["ssn"]), "{axis}: {found}");
            assert_eq!(version["doc"], json!({"plain": "near b now"}), "{axis}");
        }
        for version in before {
            assert_eq!(version["doc"]["ssn"], secret("b"), "{axis}: {found}");
            assert!(version.get("damaged").is_none(), "{axis}: {found}");
        }
    }
}

#[test]
fn related_rows_show_their_encrypted_values() {
    let server = server();
    server.make(
        "POST",
        "/v1/tablesdb/d/tables",
        &json!({"tableId": "p", "name": "P"}),
    );
    let relation = json!({"relatedTableId": "t", "type": "manyToOne", "key": "of"});
    let path = "/v1/tablesdb/d/tables/p/columns/relationship";
    server.make("POST", path, &relation);
    server.make("POST", ROWS, &json!({"rowId": "a", "data": data("a")}));
    let path = "/v1/tablesdb/d/tables/p/rows";
    server.make("POST", path, &json!({"rowId": "p", "data": {"of": "a"}}));
    let select = json!({"method": "select", "values": ["*", "of.*"]});
    for path in [
        asked(path, std::slice::from_ref(&select)),
        asked(&format!("{path}/p"), &[select]),
    ] {
        let answer = server.ask("GET", &path, "");
        let wanted = json!(secret("a")).to_string();
        assert!(answer.text.contains(&wanted), "{}", answer.text);
    }
    assert_eq!(traces(server.directory(), SECRET), Vec::<String>::new());
}

/// Every way to look for something in an encrypted column.
fn forbidden() -> Vec<Value> {
    const METHODS: [&str; 11] = [
        "equal",
        "notEqual",
        "lessThan",
        "greaterThanEqual",
        "startsWith",
        "endsWith",
        "contains",
        "notContains",
        "search",
        "notSearch",
        "regex",
    ];
    let test = |method: &str, attribute: &str, values: Value| {
        let query = json!({"method": method, "attribute": attribute, "values": values});
        query
    };
    let mut queries: Vec<Value> = METHODS.map(|name| test(name, "ssn", json!(["q"]))).to_vec();
    queries.push(test("between", "ssn", json!(["a", "z"])));
    for name in ["isNull", "isNotNull", "orderAsc", "orderDesc"] {
        queries.push(test(name, "ssn", json!([])));
    }
    for name in ["contains", "containsAll", "notContains"] {
        queries.push(test(name, "tags", json!(["b"])));
    }
    let inner = [
        test("equal", "n", json!([1])),
        test("equal", "ssn", json!(["q"])),
    ];
    for name in ["or", "and"] {
        queries.push(json!({"method": name, "values": inner}));
    }
    queries
}

#[test]
fn encrypted_column_cannot_be_searched() {
    let server = server();
    let a = json!({"rowId": "a", "data": data("a")});
    server.make("POST", ROWS, &a);
    for query in &forbidden() {
        let versions = json!({"method": "versions"});
        let aged = asked(ROWS, std::slice::from_ref(query)) + "&ttl=60";
        let cursor = json!({"method": "cursorAfter", "values": ["a"]});
        let body = json!({"queries": [query.to_string()]});
        let change = json!({"data": {"n": 2}, "queries": [query.to_string()]});
        for refused in [
            server.ask("GET", &asked(ROWS, std::slice::from_ref(query)), ""),
            server.ask("GET", &asked(ROWS, &[query.clone(), cursor]), ""),
            server.ask("GET", &asked(ROWS, &[query.clone(), versions]), ""),
            server.ask("GET", &aged, ""),
            server.ask("POST", &format!("{ROWS}/query"), &body.to_string()),
            server.ask("PATCH", ROWS, &change.to_string()),
            server.ask("DELETE", ROWS, &body.to_string()),
        ] {
            assert_eq!(refused.refusal(), "400 general_query_invalid", "{query}");
            let said = refused.json()["message"].as_str().unwrap().to_owned();
            assert!(said.contains("encrypted attribute"), "{query}: {said}");
        }
    }
    let row = server.ask("GET", &format!("{ROWS}/a"), "").json();
    assert_eq!(row["n"], 1, "nothing was changed");
}

#[test]
fn reads_at_given_times_look_for_nothing_in_an_encrypted_column() {
    let server = server();
    let own = |body: Value| server.ask("POST", &format!("{OWN}/reads"), &body.to_string());
    let period = json!(["2001-01-01", null]);
    for read in [
        json!({"kind": "scan", "table": "t", "where": {"ssn": "q"}}),
        json!({"kind": "scan", "table": "t", "where": {"ssn": null}}),
        json!({"kind": "scan", "table": "t", "order": "ssn"}),
        json!({"kind": "scan", "table": "t", "order": "-ssn"}),
        json!({"kind": "aggregate", "table": "t", "fn": "max", "column": "ssn"}),
        json!({"kind": "aggregate", "table": "t", "fn": "count", "where": {"ssn": "q"}}),
        json!({"kind": "timeline", "table": "t", "fn": "count", "column": "ssn",
            "period": period}),
        json!({"kind": "join", "left": "t", "right": "t", "on": "ssn"}),
    ] {
        let refused = own(read.clone());
        let said = refused.text.as_str();
        assert_eq!(
            refused.refusal(),
            "400 general_query_invalid",
            "{read}: {said}"
        );
        assert!(said.contains("encrypted attribute: ssn"), "{read}: {said}");
    }
    server.make("POST", ROWS, &json!({"rowId": "r", "data": data("r")}));
    // A write that holds only if a guess is right would tell whether it is.
    for guess in [secret("r"), secret("other")] {
        let claim = json!({"ops": [{"op": "assert", "table": "t", "id": "r",
            "equals": {"ssn": guess}}]});
        let path = format!("{OWN}/transactions");
        let refused = server.ask("POST", &path, &claim.to_string());
        let said = refused.text.as_str();
        assert_eq!(refused.refusal(), "400 general_query_invalid", "{said}");
    }
}

#[test]
fn every_text_can_be_encrypted_and_the_flag_is_shown_and_stays() {
    let server = server();
    let columns = "/v1/tablesdb/d/tables/t/columns";
    for kind in ["varchar", "string", "text", "mediumtext", "longtext"] {
        let key = format!("an_{kind}");
        let body = json!({"key": key, "required": false, "size": 150, "encrypt": true});
        let column = server.make("POST", &format!("{columns}/{kind}"), &body);
        assert_eq!(column.json()["encrypt"], true, "{kind}");
        let change = json!({"required": false, "default": null, "newKey": format!("{key}_2")});
        let changed = server.make("PATCH", &format!("{columns}/{kind}/{key}"), &change);
        assert_eq!(changed.json()["encrypt"], true, "{kind}");
    }
    let plain = server.ask("GET", &format!("{columns}/plain"), "").json();
    assert_eq!(plain["encrypt"], false);
    let server = server.restart();
    let kept = server
        .ask("GET", &format!("{columns}/an_text_2"), "")
        .json();
    assert_eq!(kept["encrypt"], true);

    let small = json!({"key": "k", "required": false, "size": 149, "encrypt": true});
    let refused = server.ask("POST", &format!("{columns}/string"), &small.to_string());
    assert_eq!(refused.refusal(), "400 general_argument_invalid");
    assert!(refused.text.contains("150"), "{}", refused.text);
    let number = json!({"key": "k", "required": false, "encrypt": true});
    let refused = server.ask("POST", &format!("{columns}/integer"), &number.to_string());
    assert_eq!(refused.refusal(), "400 general_argument_invalid");
    let shorter = json!({"required": false, "default": null, "size": 100});
    let refused = server.ask(
        "PATCH",
        &format!("{columns}/varchar/ssn"),
        &shorter.to_string(),
    );
    assert_eq!(refused.refusal(), "400 column_invalid_resize");
}

#[test]
fn an_encrypted_column_stands_in_no_index_and_no_constraint() {
    let server = server();
    for kind in ["key", "unique", "fulltext"] {
        let index = json!({"key": "i", "type": kind, "columns": ["ssn"]});
        let path = "/v1/tablesdb/d/tables/t/indexes";
        let refused = server.ask("POST", path, &index.to_string());
        assert_eq!(refused.refusal(), "400 index_invalid", "{kind}");
        assert!(refused.text.contains("`ssn`"), "{}", refused.text);
        let table = json!({"tableId": "u", "name": "U",
            "columns": [{"key": "k", "type": "text", "encrypt": true}],
            "indexes": [{"key": "i", "type": kind, "attributes": ["k"]}]});
        let refused = server.ask("POST", "/v1/tablesdb/d/tables", &table.to_string());
        assert_eq!(refused.refusal(), "400 index_invalid", "{kind}");
    }
    let path = format!("{OWN}/tables/t/constraints");
    for constraints in [
        json!({"unique": [["ssn"]]}),
        json!({"refs": [{"column": "ssn", "table": "t"}]}),
    ] {
        let refused = server.ask("PUT", &path, &constraints.to_string());
        assert_eq!(refused.refusal(), "400 general_argument_invalid");
        assert!(refused.text.contains("encrypted"), "{}", refused.text);
    }
}
