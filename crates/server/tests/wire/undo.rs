//! What an author did is undone: rows become again what they were, unless others changed them.

use serde_json::{Value, json};

use crate::fixture::{Answer, KEY, PROJECT, ROWS_KEY, TestServer};

const BASE: &str = "/v1/tidemark/databases/d";
const UNDO: &str = "/v1/tidemark/databases/d/undo";
const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";

/// A server with the table `t`, whose rows carry grants.
fn server() -> TestServer {
    let server = TestServer::start();
    server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    let table = json!({
        "tableId": "t", "name": "T", "rowSecurity": true,
        "columns": [{"key": "n", "type": "integer"}, {"key": "s", "type": "string", "size": 9}],
    });
    let made = server.ask("POST", "/v1/tablesdb/d/tables", &table.to_string());
    assert_eq!(made.status, 201, "{}", made.text);
    server
}

/// A request with the key of the author whose commits are undone.
#[track_caller]
pub fn theirs(server: &TestServer, method: &str, path: &str, body: &Value) -> Answer {
    let headers = [
        ("x-appwrite-project", PROJECT),
        ("x-appwrite-key", ROWS_KEY),
    ];
    let answer = server.ask_with(&headers, method, path, &body.to_string());
    assert!(answer.status.is_success(), "{path}: {}", answer.text);
    answer
}

#[track_caller]
pub fn ours(server: &TestServer, method: &str, path: &str, body: &Value) -> Answer {
    let answer = server.ask(method, path, &body.to_string());
    assert!(answer.status.is_success(), "{path}: {}", answer.text);
    answer
}

/// A request of ours with one more header.
fn ours_with(
    server: &TestServer,
    header: (&str, &str),
    (method, path): (&str, &str),
    body: &Value,
) -> Answer {
    let headers = [
        ("x-appwrite-project", PROJECT),
        ("x-appwrite-key", KEY),
        header,
    ];
    server.ask_with(&headers, method, path, &body.to_string())
}

/// The mark that everything so far is known at.
pub fn now(server: &TestServer) -> i64 {
    let horizon = server.ask("POST", &format!("{BASE}/heartbeat"), "");
    horizon.json()["horizon"].as_i64().unwrap()
}

/// Who made the last commit.
pub fn author(server: &TestServer, after: i64) -> String {
    let feed = json!({"kind": "feed", "after": after});
    let feed = ours(server, "POST", &format!("{BASE}/reads"), &feed).json();
    let last = feed["rows"].as_array().unwrap().last().unwrap();
    last["user"].as_str().unwrap().to_owned()
}

pub fn undo(server: &TestServer, body: &Value) -> Answer {
    server.ask("POST", UNDO, &body.to_string())
}

/// Every piece of every row as it is known now, with its grants.
fn known(server: &TestServer) -> Vec<Value> {
    let queries = json!({"queries": [
        json!({"method": "validBetween", "values": ["min", null]}).to_string(),
    ]});
    let list = ours(server, "POST", &format!("{ROWS}/query"), &queries).json();
    let rows = list["rows"].as_array().unwrap().iter();
    let shown = ["$id", "$permissions", "$validFrom", "$validTo", "n", "s"];
    let row = |row: &Value| shown.map(|name| row[name].clone()).into_iter().collect();
    rows.map(row).collect()
}

/// The same without regard to where a piece was cut in two that say the same.
fn joined(server: &TestServer) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for row in known(server) {
        if let Some(last) = joined.last_mut()
            && [0, 1, 4, 5].iter().all(|at| last[at] == row[at])
            && last[3] == row[2]
        {
            last[3] = row[3].clone();
            continue;
        }
        joined.push(row);
    }
    joined
}

fn row(id: &str) -> String {
    format!("{ROWS}/{id}")
}

/// Data that the other author merges into a row.
#[track_caller]
fn their_change(server: &TestServer, id: &str, data: Value) {
    theirs(server, "PATCH", &row(id), &json!({ "data": data }));
}

/// The same by us.
#[track_caller]
fn our_change(server: &TestServer, id: &str, data: Value) {
    ours(server, "PATCH", &row(id), &json!({ "data": data }));
}

/// Rows of ours, and the mark after them.
fn begun(server: &TestServer) -> i64 {
    for id in ["changed", "ended", "gone", "planned"] {
        let data = json!({"rowId": id, "data": {"n": 1, "s": "old"},
            "permissions": ["read(\"any\")"]});
        ours(server, "POST", ROWS, &data);
    }
    let later = json!({"n": 2, "$validFrom": "2100-01-01"});
    our_change(server, "planned", later);
    now(server)
}

/// Every kind of change by the other author.
fn disturbed(server: &TestServer) {
    their_change(server, "changed", json!({"n": 9}));
    their_change(server, "changed", json!({"s": "new"}));
    their_change(server, "ended", json!({"$validTo": "2100-01-01"}));
    theirs(server, "DELETE", &row("gone"), &json!({}));
    let later = json!({"n": 3, "$validFrom": "2099-01-01", "$validTo": "2101-01-01"});
    their_change(server, "planned", later);
    theirs(
        server,
        "POST",
        ROWS,
        &json!({"rowId": "new", "data": {"n": 9}}),
    );
}

#[test]
fn undo_makes_rows_again_what_they_were_and_keeps_what_was_done_as_a_past() {
    let server = server();
    let after = begun(&server);
    let before = joined(&server);
    disturbed(&server);
    let user = author(&server, after);
    let during = joined(&server);
    assert_ne!(before, during);
    let asked = json!({"after": after, "user": user});
    let mut dry = asked.clone();
    dry["dryRun"] = json!(true);
    let tried = undo(&server, &dry);
    assert_eq!(
        (tried.status.as_u16(), joined(&server)),
        (200, during.clone())
    );
    assert_eq!(tried.json()["$systemFrom"], Value::Null);
    assert_eq!(tried.json()["commits"], 6);
    let done_at = now(&server);
    let why = ("x-tidemark-meta", r#"{"why":"nonsense"}"#);
    let done = ours_with(&server, why, ("POST", UNDO), &asked);
    assert_eq!(done.status, 201, "{}", done.text);
    assert_eq!(done.json()["rows"], tried.json()["rows"]);
    let changes = |id: &str| {
        let rows = done.json()["rows"].as_array().unwrap().clone();
        rows.iter().find(|row| row["rowId"] == id).unwrap()["changes"].clone()
    };
    assert_eq!(changes("new").as_array().unwrap().len(), 1);
    assert_eq!(changes("new")[0]["data"], Value::Null);
    assert_eq!(
        changes("ended")[0]["$validFrom"],
        "2100-01-01T00:00:00.000000+00:00"
    );
    assert_eq!(changes("ended")[0]["data"], json!({"n": 1, "s": "old"}));
    assert_eq!(changes("planned").as_array().unwrap().len(), 2);
    assert_eq!(
        joined(&server),
        before,
        "grants of the row that came back included"
    );
    // It is a commit as any other: what was done stays readable, and who undid it.
    let queries = json!({"queries": [
        json!({"method": "asOf", "values": [done_at]}).to_string(),
    ]});
    let then = ours(&server, "POST", &format!("{ROWS}/query"), &queries).json();
    let then = then["rows"].as_array().unwrap().clone();
    assert!(then.iter().any(|row| row["$id"] == "new" && row["n"] == 9));
    let feed = json!({"kind": "feed", "after": done_at, "meta": {"why": "nonsense"}});
    let feed = ours(&server, "POST", &format!("{BASE}/reads"), &feed).json();
    assert_eq!(feed["rows"][0]["changes"].as_array().unwrap().len(), 5);
    // Once more there is something of another commit in the way.
    let again = undo(&server, &asked);
    assert_eq!(again.status, 409, "{}", again.text);
}

#[test]
fn undo_of_rows_that_others_changed_is_refused_and_names_them() {
    let (server, after, user) = changed();
    their_change(&server, "planned", json!({"n": 9}));
    their_change(&server, "ended", json!({"n": 9}));
    // Of one row since, of another between two commits of theirs.
    our_change(&server, "changed", json!({"s": "x"}));
    our_change(&server, "planned", json!({"s": "x"}));
    their_change(&server, "planned", json!({"n": 8}));
    let before = known(&server);
    for dry in [true, false] {
        let refused = undo(
            &server,
            &json!({"after": after, "user": user, "dryRun": dry}),
        );
        assert_eq!(refused.status, 409, "{}", refused.text);
        assert_eq!(refused.json()["type"], "row_update_conflict");
        let message = refused.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("`t/changed`, `t/planned`"), "{message}");
        assert!(!message.contains("ended"), "{message}");
    }
    assert_eq!(known(&server), before);
}

#[test]
fn undo_is_of_the_commits_that_are_named_and_no_others() {
    let server = server();
    let after = begun(&server);
    let run = ("x-tidemark-meta", r#"{"run":7}"#);
    let change = json!({"data": {"n": 5}});
    ours_with(&server, run, ("PATCH", &row("changed")), &change);
    let until = now(&server);
    ours_with(&server, run, ("PATCH", &row("gone")), &change);
    our_change(&server, "ended", json!({"n": 6}));
    let asked = json!({"after": after, "until": until, "meta": {"run": 7}});
    let done = undo(&server, &asked);
    assert_eq!(
        (done.status.as_u16(), &done.json()["commits"]),
        (201, &json!(1)),
        "{}",
        done.text
    );
    assert_eq!(done.json()["rows"].as_array().unwrap().len(), 1);
    let n = |id: &str| ours(&server, "GET", &row(id), &json!({})).json()["n"].clone();
    assert_eq!(
        [n("changed"), n("gone"), n("ended")],
        [json!(1), json!(5), json!(6)]
    );
    // Where nothing is found, nothing is committed.
    let mark = now(&server);
    let nothing = undo(&server, &json!({"after": after, "meta": {"run": 8}}));
    assert_eq!(
        (nothing.status.as_u16(), &nothing.json()["commits"]),
        (200, &json!(0))
    );
    let feed = json!({"kind": "feed", "after": mark});
    let feed = ours(&server, "POST", &format!("{BASE}/reads"), &feed).json();
    assert_eq!(feed["rows"], json!([]));
}

#[test]
fn undo_writes_the_columns_of_today() {
    let server = server();
    let after = begun(&server);
    their_change(&server, "changed", json!({"n": 9, "s": "new"}));
    let user = author(&server, after);
    let columns = "/v1/tablesdb/d/tables/t/columns";
    ours(&server, "DELETE", &format!("{columns}/s"), &json!({}));
    let renamed = json!({"required": false, "default": null, "newKey": "number"});
    ours(&server, "PATCH", &format!("{columns}/integer/n"), &renamed);
    let added = json!({"key": "more", "required": false, "default": 4});
    ours(&server, "POST", &format!("{columns}/integer"), &added);
    let done = undo(&server, &json!({"after": after, "user": user}));
    assert_eq!(done.status, 201, "{}", done.text);
    let row = ours(&server, "GET", &row("changed"), &json!({})).json();
    assert_eq!((&row["number"], &row["n"]), (&json!(1), &Value::Null));
}

/// A server where the other author has changed a row after a mark.
fn changed() -> (TestServer, i64, String) {
    let server = server();
    let after = begun(&server);
    their_change(&server, "changed", json!({"n": 9}));
    let user = author(&server, after);
    (server, after, user)
}

#[track_caller]
fn refused(server: &TestServer, body: &Value, status: u16, part: &str) {
    let answer = undo(server, body);
    assert_eq!(answer.status, status, "{body}: {}", answer.text);
    assert!(answer.text.contains(part), "{body}: {}", answer.text);
}

#[test]
fn undo_refuses_what_it_does_not_understand_and_who_may_not() {
    let (server, after, user) = changed();
    for (body, part) in [
        (json!({"user": user}), "after"),
        (json!({"after": after}), "by `meta`"),
        (json!({"after": after, "user": user, "until": 0}), "`until`"),
        (json!({"after": i64::MAX, "user": user}), "future_tt"),
        (json!({"after": "2026", "user": user}), "`after`"),
        (json!({"after": after, "meta": {"a": {}}}), "`a` must be"),
        (json!({"after": after, "user": user, "before": 1}), "before"),
        (
            json!({"after": after, "user": user, "until": i64::MAX}),
            "future_tt",
        ),
    ] {
        refused(&server, &body, 400, part);
    }
    let guest = [("x-appwrite-project", PROJECT)];
    let body = json!({"after": after, "user": user}).to_string();
    let answer = server.ask_with(&guest, "POST", UNDO, &body);
    assert_eq!(answer.status, 401, "{}", answer.text);
}

#[test]
fn undo_is_of_a_thousand_rows_at_most() {
    let (server, after, user) = changed();
    let many = |from: usize, to: usize| {
        let op = |n: usize| {
            json!({"op": "put", "tableId": "t", "rowId": format!("r{n}"),
            "data": {"n": 1}})
        };
        let ops: Vec<Value> = (from..to).map(op).collect();
        theirs(
            &server,
            "POST",
            &format!("{BASE}/transactions"),
            &json!({"ops": ops}),
        );
    };
    many(0, 999);
    let asked = json!({"after": after, "user": user, "dryRun": true});
    let rows = undo(&server, &asked).json()["rows"].clone();
    assert_eq!(rows.as_array().map(Vec::len), Some(1_000));
    many(999, 1_000);
    refused(&server, &asked, 400, "1000 rows");
}

#[test]
fn undo_refuses_what_is_forgotten() {
    let (server, after, user) = changed();
    let options = format!("{BASE}/tables/t/options");
    ours(&server, "PATCH", &options, &json!({"history": "none"}));
    refused(
        &server,
        &json!({"after": after, "user": user}),
        410,
        "history_gone",
    );
}

#[test]
fn undo_gives_rows_the_grants_that_these_commits_took() {
    let server = server();
    let after = begun(&server);
    let before = joined(&server);
    let granted = |permissions: &[&str]| json!({"permissions": permissions});
    theirs(&server, "PATCH", &row("changed"), &granted(&[]));
    let both = json!({"data": {"n": 9}, "permissions": ["update(\"any\")"]});
    theirs(&server, "PATCH", &row("ended"), &both);
    theirs(
        &server,
        "PATCH",
        &row("planned"),
        &granted(&["delete(\"any\")"]),
    );
    theirs(&server, "DELETE", &row("gone"), &json!({}));
    let user = author(&server, after);
    let during = known(&server);
    let asked = json!({"after": after, "user": user});
    let mut dry = asked.clone();
    dry["dryRun"] = json!(true);
    let tried = undo(&server, &dry).json()["rows"].clone();
    assert_eq!(known(&server), during);
    let old = json!(["read(\"any\")"]);
    let shown = tried.as_array().unwrap().iter();
    let shown = shown.map(|row| (row["rowId"].as_str().unwrap(), &row["$permissions"]));
    // Those of a row that goes stay known, as it was there.
    let stays = Value::Null;
    let ids = ["changed", "ended", "gone", "planned"];
    let wanted = ids.map(|id| (id, if id == "gone" { &stays } else { &old }));
    assert!(shown.eq(wanted), "{tried}");
    assert_eq!(tried[0]["changes"], json!([]));
    let done = undo(&server, &asked);
    assert_eq!(done.status, 201, "{}", done.text);
    assert_eq!(done.json()["rows"], tried);
    assert_eq!(joined(&server), before);
}

#[test]
fn undo_gives_back_the_grants_of_a_row_that_is_not_there_now() {
    let server = server();
    let read = json!(["read(\"any\")"]);
    let to_come = json!({"n": 1, "$validFrom": "2100-01-01"});
    let is_over = json!({"n": 1, "$validFrom": "2000-01-01", "$validTo": "2001-01-01"});
    let made = [("to-come", &to_come), ("over", &is_over)];
    for (id, data) in made {
        let body = json!({"rowId": id, "data": data, "permissions": read});
        ours(&server, "POST", ROWS, &body);
    }
    let (after, before) = (now(&server), known(&server));
    for (nth, (id, data)) in made.into_iter().enumerate() {
        // With the content that it has, so that nothing else is changed.
        let body = json!({"data": data, "permissions": []});
        let answer = theirs(&server, "PATCH", &row(id), &body);
        assert_eq!(answer.json()["$permissions"], json!([]), "{id}");
        let known = known(&server);
        let shown = known.iter().find(|row| row[0] == id).unwrap();
        assert_eq!(shown[1], json!([]), "the answer is what is known");
        // It is a commit, with a record that names the row.
        let feed = json!({"kind": "feed", "after": after});
        let feed = ours(&server, "POST", &format!("{BASE}/reads"), &feed).json();
        let commits = feed["rows"].as_array().unwrap();
        let changes = &commits.last().unwrap()["changes"];
        assert_eq!(
            (commits.len(), &changes[0]),
            (nth + 1, &json!(["t", id])),
            "{feed}"
        );
    }
    let user = author(&server, after);
    let done = undo(&server, &json!({"after": after, "user": user}));
    assert_eq!(done.status, 201, "{}", done.text);
    assert_eq!(done.json()["rows"][0]["changes"], json!([]));
    assert_eq!(known(&server), before);
}

#[test]
fn undo_leaves_the_grants_that_others_gave() {
    let server = server();
    let after = begun(&server);
    let granted = |permissions: &[&str]| json!({"permissions": permissions});
    their_change(&server, "changed", json!({"n": 9}));
    let user = author(&server, after);
    // Theirs changed nothing of the grants.
    ours(
        &server,
        "PATCH",
        &row("changed"),
        &granted(&["update(\"any\")"]),
    );
    let asked = json!({"after": after, "user": user});
    let done = undo(&server, &asked);
    assert_eq!(done.status, 201, "{}", done.text);
    assert_eq!(done.json()["rows"][0]["$permissions"], Value::Null);
    let changed = ours(&server, "GET", &row("changed"), &json!({})).json();
    assert_eq!(changed["$permissions"], json!(["update(\"any\")"]));
    assert_eq!(changed["n"], 1);
    // Both did.
    let after = now(&server);
    theirs(&server, "PATCH", &row("ended"), &granted(&[]));
    ours(
        &server,
        "PATCH",
        &row("ended"),
        &granted(&["update(\"any\")"]),
    );
    theirs(&server, "PATCH", &row("planned"), &granted(&[]));
    ours(
        &server,
        "PATCH",
        &row("planned"),
        &granted(&["update(\"any\")"]),
    );
    theirs(
        &server,
        "PATCH",
        &row("planned"),
        &granted(&["delete(\"any\")"]),
    );
    // Others took back what they did.
    theirs(&server, "PATCH", &row("gone"), &granted(&[]));
    ours(&server, "PATCH", &row("gone"), &granted(&["read(\"any\")"]));
    let asked = json!({"after": after, "user": user});
    refused(&server, &asked, 409, "`t/ended`, `t/planned` since");
}

#[test]
fn undo_says_in_a_dry_run_what_would_be_refused() {
    let server = server();
    let index = json!({"key": "by_s", "type": "unique", "columns": ["s"]});
    let indexes = "/v1/tablesdb/d/tables/t/indexes";
    ours(&server, "POST", indexes, &index);
    let write = |id: &str, data: &Value| {
        let body = json!({"rowId": id, "data": data});
        ours(&server, "POST", ROWS, &body);
    };
    write("a", &json!({"s": "x", "n": 1}));
    write("b", &json!({"s": "y", "n": 1}));
    let refs = json!({"tableId": "u", "name": "U",
        "columns": [{"key": "to", "type": "string", "size": 9}]});
    ours(&server, "POST", "/v1/tablesdb/d/tables", &refs);
    let constraints = format!("{BASE}/tables/u/constraints");
    let reference = json!({"refs": [{"column": "to", "table": "t"}]});
    ours(&server, "POST", &constraints, &reference);
    let after = now(&server);
    their_change(&server, "a", json!({"s": "z"}));
    let user = author(&server, after);
    let later = now(&server);
    theirs(
        &server,
        "POST",
        ROWS,
        &json!({"rowId": "c", "data": {"n": 1}}),
    );
    // What was free has been taken, and what was made is referred to.
    our_change(&server, "b", json!({"s": "x"}));
    let held = json!({"rowId": "r", "data": {"to": "c"}});
    ours(&server, "POST", "/v1/tablesdb/d/tables/u/rows", &held);
    let before = known(&server);
    for dry in [true, false] {
        let asked = json!({"after": after, "until": later, "user": user, "dryRun": dry});
        refused(&server, &asked, 409, "Row `t/a`: ");
        refused(&server, &asked, 409, "unique_violation");
        refused(&server, &asked, 409, "It is row `b`");
        let asked = json!({"after": later, "user": user, "dryRun": dry});
        refused(&server, &asked, 409, "Row `t/c`: ");
        refused(&server, &asked, 409, "ref_violation");
    }
    assert_eq!(known(&server), before);
}

#[test]
fn undo_swaps_unique_values_back() {
    let server = server();
    let index = json!({"key": "by_s", "type": "unique", "columns": ["s"]});
    ours(&server, "POST", "/v1/tablesdb/d/tables/t/indexes", &index);
    for (id, s) in [("a", "x"), ("b", "y")] {
        ours(
            &server,
            "POST",
            ROWS,
            &json!({"rowId": id, "data": {"s": s}}),
        );
    }
    let after = now(&server);
    let swap = json!({"ops": [
        {"op": "update", "tableId": "t", "rowId": "a", "data": {"s": "y"}},
        {"op": "update", "tableId": "t", "rowId": "b", "data": {"s": "x"}},
    ]});
    theirs(&server, "POST", &format!("{BASE}/transactions"), &swap);
    let user = author(&server, after);
    let done = undo(&server, &json!({"after": after, "user": user}));
    assert_eq!(done.status, 201, "{}", done.text);
    let s = |id: &str| ours(&server, "GET", &row(id), &json!({})).json()["s"].clone();
    assert_eq!([s("a"), s("b")], [json!("x"), json!("y")]);
}

#[test]
fn undo_is_done_once_under_a_key() {
    let (server, after, user) = changed();
    let asked = json!({"after": after, "user": user});
    let once = |body: &Value| ours_with(&server, ("idempotency-key", "u1"), ("POST", UNDO), body);
    let mut dry = asked.clone();
    dry["dryRun"] = json!(true);
    assert_eq!(once(&dry).status, 200, "a dry run keeps no answer");
    let done = once(&asked);
    assert_eq!(done.status, 201, "{}", done.text);
    let written = now(&server);
    let again = once(&asked);
    assert_eq!((again.status, &again.text), (done.status, &done.text));
    let mark = |answer: &Answer| answer.header("x-tidemark-mark").to_owned();
    assert_ne!(mark(&done), "");
    assert_eq!(mark(&again), mark(&done));
    let feed = json!({"kind": "feed", "after": written});
    let feed = ours(&server, "POST", &format!("{BASE}/reads"), &feed).json();
    assert_eq!(feed["rows"], json!([]));
    let other = json!({"after": 0, "user": user});
    assert_eq!(
        once(&other).json()["type"],
        "general_idempotency_key_reused"
    );
}
