//! Writes that carry an `Idempotency-Key`: done once, and answered alike each time.

use engine::Quotas;
use model::Scope;
use serde_json::{Value, json};

use crate::fixture::{Answer, KEY, PROJECT, QUOTAS, ROWS_KEY, TestServer};

const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";
const DOCUMENTS: &str = "/v1/databases/d/collections/t/documents";
const OWN: &str = "/v1/tidemark/databases/d";

pub fn server() -> TestServer {
    furnish(TestServer::start())
}

fn keeping(key_answers_bytes: u64) -> TestServer {
    furnish(TestServer::start_within(Quotas {
        key_answers_bytes,
        ..QUOTAS
    }))
}

fn furnish(server: TestServer) -> TestServer {
    let table = r#"{"tableId":"t","name":"T",
        "permissions":["read(\"any\")","create(\"any\")","update(\"any\")"],
        "columns":[{"key":"n","type":"integer"},{"key":"s","type":"longtext"}]}"#;
    for (path, body) in [
        ("/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#),
        ("/v1/tablesdb/d/tables", table),
    ] {
        let made = server.ask("POST", path, body);
        assert_eq!(made.status, 201, "{}", made.text);
    }
    for (id, n) in [("a", 1), ("b", 2), ("c", 3)] {
        let row = json!({"rowId": id, "data": {"n": n}});
        let made = server.ask("POST", ROWS, &row.to_string());
        assert_eq!(made.status, 201, "{}", made.text);
    }
    server
}

fn ask_once(server: &TestServer, key: &str, method: &str, path: &str, body: &str) -> Answer {
    let headers = [
        ("x-appwrite-project", PROJECT),
        ("x-appwrite-key", KEY),
        ("idempotency-key", key),
    ];
    server.ask_with(&headers, method, path, body)
}

fn rows(server: &TestServer) -> Value {
    server.ask("GET", ROWS, "").json()
}

/// Every way to write rows, in words of each family where it has them.
pub fn writes() -> Vec<(&'static str, String, Value)> {
    let mut writes = Vec::new();
    for (rows, id, many) in [
        (ROWS, "rowId", "rows"),
        (DOCUMENTS, "documentId", "documents"),
    ] {
        let (a, new) = (format!("{rows}/a"), format!("new_{id}"));
        let put = format!("{rows}/put_{id}");
        writes.extend([
            ("POST", rows.to_owned(), json!({id: new, "data": {"n": 5}})),
            (
                "POST",
                rows.to_owned(),
                json!({id: "unique()", "data": {"n": 5}}),
            ),
            ("POST", rows.to_owned(), json!({many: [{"n": 6}, {"n": 7}]})),
            ("PATCH", a.clone(), json!({"data": {"n": 8}})),
            ("PATCH", a.clone(), json!({"data": {"n": 8}})),
            (
                "PATCH",
                a.clone(),
                json!({"data": {"s": "é", "$validFrom": "2100-01-01"}}),
            ),
            ("PUT", put, json!({"data": {"n": 9}})),
            (
                "PUT",
                rows.to_owned(),
                json!({many: [{"$id": "a", "n": 10}, {"n": 11}]}),
            ),
            (
                "PATCH",
                rows.to_owned(),
                json!({"data": {"n": r#"{"method":"increment"}"#}}),
            ),
            ("PATCH", format!("{a}/n/increment"), json!({"value": 4})),
            ("PATCH", format!("{a}/n/decrement"), json!({})),
            ("DELETE", format!("{rows}/{new}"), json!({})),
            (
                "DELETE",
                rows.to_owned(),
                json!({"queries": [
                r#"{"method":"equal","attribute":"n","values":[7,8]}"#]}),
            ),
        ]);
    }
    let put = json!({"op": "put", "table": "t", "id": "b", "doc": {"n": 1}});
    let count =
        json!({"action": "increment", "tableId": "t", "rowId": "b", "data": {"column": "n"}});
    writes.extend([
        (
            "POST",
            format!("{OWN}/transactions"),
            json!({"ops": [put], "meta": {"why": "x"}}),
        ),
        (
            "POST",
            format!("{OWN}/batch/writes"),
            json!({"operations": [count]}),
        ),
        (
            "POST",
            format!("{OWN}/batch/writes"),
            json!({"operations": [count], "atomic": false}),
        ),
    ]);
    writes
}

/// What of an answer must be the same.
fn shown(answer: &Answer) -> (u16, String, String) {
    assert!(
        answer.status.is_success(),
        "{} {}",
        answer.status,
        answer.text
    );
    let mark = answer.header("x-tidemark-mark").to_owned();
    (answer.status.as_u16(), answer.text.clone(), mark)
}

#[test]
fn every_write_of_rows_is_done_once_also_across_a_restart() {
    let mut server = server();
    let mut first = Vec::new();
    for (nth, (method, path, body)) in writes().into_iter().enumerate() {
        let (key, body) = (format!("key-{nth}"), body.to_string());
        let answer = shown(&ask_once(&server, &key, method, &path, &body));
        let after = rows(&server);
        let again = shown(&ask_once(&server, &key, method, &path, &body));
        assert_eq!(again, answer, "{method} {path} {body}");
        assert_eq!(rows(&server), after, "{method} {path} {body}");
        first.push((key, method, path, body, answer));
    }
    let held = rows(&server);
    server = server.restart();
    for (key, method, path, body, answer) in &first {
        let again = shown(&ask_once(&server, key, method, path, body));
        assert_eq!(again, *answer, "{method} {path} {body}");
        for other in [format!("{body} "), body.replacen('{', r#"{"more":1,"#, 1)] {
            let reused = ask_once(&server, key, method, path, &other);
            assert_eq!(reused.refusal(), "409 general_idempotency_key_reused");
        }
    }
    assert_eq!(rows(&server), held);
}

#[test]
fn an_answer_under_a_key_is_the_one_without_it() {
    let server = server();
    for (method, path, body) in writes() {
        // Ids and times differ from one request to the next.
        if method == "POST" || body.to_string().contains("$validFrom") {
            continue;
        }
        let body = body.to_string();
        let keyed = ask_once(
            &server,
            &format!("{method}{path}").replace('/', "-"),
            method,
            &path,
            &body,
        );
        let plain = server.ask(method, &path, &body);
        if plain.status == 404 {
            continue;
        }
        let names = |answer: &Answer| {
            let mut names: Vec<_> = answer.headers.keys().map(ToString::to_string).collect();
            names.sort();
            names
        };
        assert_eq!(
            (keyed.status, names(&keyed)),
            (plain.status, names(&plain)),
            "{method} {path}"
        );
        let members = |answer: &Answer| -> Vec<String> {
            let json = answer.json();
            json.as_object()
                .map(|all| all.keys().cloned().collect())
                .unwrap_or_default()
        };
        assert_eq!(members(&keyed), members(&plain), "{method} {path}");
    }
}

#[test]
fn a_transaction_is_committed_once_under_a_key() {
    let server = server();
    let made = server.ask("POST", "/v1/tablesdb/transactions", "{}").json();
    let path = format!(
        "/v1/tablesdb/transactions/{}",
        made["$id"].as_str().unwrap()
    );
    let op = json!({"operations": [{"action": "increment", "databaseId": "d", "tableId": "t",
        "rowId": "a", "data": {"column": "n"}}]});
    let staged = server.ask("POST", &format!("{path}/operations"), &op.to_string());
    assert_eq!(staged.status, 201, "{}", staged.text);
    let commit = r#"{"commit":true}"#;
    let first = shown(&ask_once(&server, "k", "PATCH", &path, commit));
    assert_eq!(
        shown(&ask_once(&server, "k", "PATCH", &path, commit)),
        first
    );
    let plain = server.ask("PATCH", &path, commit);
    assert_eq!(plain.refusal(), "400 transaction_not_ready");
    let server = server.restart();
    assert_eq!(
        shown(&ask_once(&server, "k", "PATCH", &path, commit)),
        first
    );
    assert_eq!(server.ask("GET", &format!("{ROWS}/a"), "").json()["n"], 2);
}

#[test]
fn staged_write_takes_no_idempotency_key() {
    let server = server();
    let made = server.ask("POST", "/v1/tablesdb/transactions", "{}").json();
    let id = made["$id"].as_str().unwrap();
    let op = json!({"operations": [{"action": "delete", "databaseId": "d", "tableId": "t",
        "rowId": "a"}]});
    let path = format!("/v1/tablesdb/transactions/{id}/operations");
    let row = json!({"data": {"n": 1}, "transactionId": id});
    for (method, path, body) in [
        ("POST", path.as_str(), op),
        ("PATCH", &format!("{ROWS}/a"), row.clone()),
        ("PATCH", ROWS, row),
    ] {
        let refused = ask_once(&server, "k", method, path, &body.to_string());
        assert_eq!(refused.refusal(), "400 general_argument_invalid", "{path}");
        assert!(refused.text.contains("Idempotency-Key"), "{}", refused.text);
    }
    let left = server
        .ask("GET", &format!("/v1/tablesdb/transactions/{id}"), "")
        .json();
    assert_eq!(left["operations"], 0);
}

#[test]
fn refused_write_can_be_tried_again_and_keys_end_after_an_hour() {
    let server = server();
    let count = format!("{ROWS}/none/n/increment");
    let refused = ask_once(&server, "k", "PATCH", &count, "{}");
    assert_eq!(refused.refusal(), "404 column_not_found");
    server.ask("POST", ROWS, r#"{"rowId":"none","data":{"n":0}}"#);
    for (skip_s, wanted) in [(0, 1), (3_500, 1), (200, 2), (0, 2)] {
        server.skip_s(skip_s);
        ask_once(&server, "k", "PATCH", &count, "{}");
        let n = server.ask("GET", &format!("{ROWS}/none"), "").json()["n"].clone();
        assert_eq!(n, wanted, "after {skip_s} s");
    }
    for wrong in ["", "a b", &"x".repeat(129)] {
        let refused = ask_once(&server, wrong, "PATCH", &count, "{}");
        assert_eq!(refused.refusal(), "400 general_argument_invalid", "{wrong}");
    }
    // The keys of guests are their own.
    let headers = [("x-appwrite-project", PROJECT), ("idempotency-key", "k")];
    let guest = server.ask_with(&headers, "PATCH", &count, r#"{"value":5}"#);
    assert_eq!(guest.json()["n"], 7, "{}", guest.text);
}

#[test]
fn many_that_send_one_request_at_once_do_it_once() {
    let server = server();
    let address = server.address;
    let ask = move || {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let request = format!(
            "PATCH {ROWS}/a/n/increment HTTP/1.1\r\nHost: t\r\nX-Appwrite-Project: {PROJECT}\r\n\
             X-Appwrite-Key: {KEY}\r\nIdempotency-Key: one\r\nConnection: close\r\n\
             Content-Length: 2\r\n\r\n{{}}"
        );
        std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        body.to_owned()
    };
    let asking: Vec<_> = (0..16).map(|_| std::thread::spawn(ask)).collect();
    let answers: Vec<String> = asking.into_iter().map(|one| one.join().unwrap()).collect();
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{answers:?}"
    );
    assert_eq!(server.ask("GET", &format!("{ROWS}/a"), "").json()["n"], 2);
}

#[test]
fn a_bulk_write_under_a_key_is_one_commit() {
    let server = server();
    for first in (0..10_000).step_by(100) {
        let rows: Vec<Value> = (first..first + 100).map(|n| json!({"n": n})).collect();
        let made = server.ask("POST", ROWS, &json!({"rows": rows}).to_string());
        assert_eq!(made.status, 201, "{}", made.text);
    }
    let all = json!({"data": {"s": "x"}}).to_string();
    let refused = ask_once(&server, "k", "PATCH", ROWS, &all);
    assert_eq!(refused.refusal(), "400 general_bad_request", "10,003 rows");
    let most = json!({"data": {"s": "x"}, "queries": [
        r#"{"method":"greaterThan","attribute":"n","values":[4]}"#]});
    let done = ask_once(&server, "k", "PATCH", ROWS, &most.to_string());
    assert_eq!(done.json()["total"], 9_995, "{}", done.text);
    let again = ask_once(&server, "k", "PATCH", ROWS, &most.to_string());
    assert_eq!(shown(&again), shown(&done));
}

#[test]
fn an_answer_that_is_too_large_is_refused_before_anything_is_done() {
    let server = server();
    let long = "x".repeat(600_000);
    let row = json!({"data": {"s": long}}).to_string();
    assert_eq!(
        ask_once(&server, "k", "PATCH", &format!("{ROWS}/a"), &row).status,
        200
    );
    server.ask("PATCH", &format!("{ROWS}/b"), &row);
    let both = json!({"data": {"n": 77}}).to_string();
    let refused = ask_once(&server, "l", "PATCH", ROWS, &both);
    assert_eq!(refused.refusal(), "400 general_argument_invalid");
    assert!(refused.text.contains("1048576"), "{}", refused.text);
    assert_eq!(server.ask("GET", &format!("{ROWS}/c"), "").json()["n"], 3);
}

/// Sets the text of row `a`, under this key of a request.
fn set_text(server: &TestServer, secret: &str, key: &str) -> Answer {
    let body = json!({"data": {"s": format!("{key} {}", "x".repeat(800))}}).to_string();
    let headers = [
        ("x-appwrite-project", PROJECT),
        ("x-appwrite-key", secret),
        ("idempotency-key", key),
    ];
    server.ask_with(&headers, "PATCH", &format!("{ROWS}/a"), &body)
}

/// Says by its error that it was done and is not done again.
#[track_caller]
fn is_gone(server: &TestServer, key: &str) {
    let before = server.ask("GET", &format!("{ROWS}/a"), "").text;
    let again = set_text(server, KEY, key);
    assert_eq!(again.refusal(), "409 general_idempotency_key_reused");
    assert!(again.text.contains("has had its effect"), "{}", again.text);
    assert!(again.text.contains("no longer kept"), "{}", again.text);
    assert_eq!(server.ask("GET", &format!("{ROWS}/a"), "").text, before);
}

#[test]
fn the_oldest_answers_of_a_key_give_way_and_their_requests_are_not_done_again() {
    // Each answer has 900 to 1,200 bytes: there is room for two.
    let server = keeping(2_500);
    let of_other = shown(&set_text(&server, ROWS_KEY, "k1"));
    let first: Vec<_> = ["k1", "k2", "k3"]
        .map(|key| set_text(&server, KEY, key))
        .into();
    assert!(first.iter().all(|answer| answer.status == 200));
    is_gone(&server, "k1");
    let kept = |server: &TestServer, key| shown(&set_text(server, KEY, key));
    assert_eq!(kept(&server, "k2"), shown(&first[1]));
    assert_eq!(kept(&server, "k3"), shown(&first[2]));
    // What stands for the key is known after a restart, too.
    let server = server.restart();
    is_gone(&server, "k1");
    assert_eq!(kept(&server, "k2"), shown(&first[1]));
    let fourth = shown(&set_text(&server, KEY, "k4"));
    is_gone(&server, "k1");
    is_gone(&server, "k2");
    assert_eq!(kept(&server, "k3"), shown(&first[2]));
    assert_eq!(kept(&server, "k4"), fourth);
    let other = shown(&set_text(&server, ROWS_KEY, "k1"));
    assert_eq!(other, of_other, "another key has its own bytes");
}

#[test]
fn an_answer_without_room_is_given_once() {
    let server = keeping(500);
    for key in ["k1", "k2"] {
        let done = set_text(&server, KEY, key);
        assert_eq!(done.status, 200, "{}", done.text);
        is_gone(&server, key);
    }
    // A small one has room.
    let path = format!("{ROWS}/c");
    let done = ask_once(&server, "k3", "DELETE", &path, "");
    assert_eq!(done.status, 204);
    assert_eq!(
        shown(&ask_once(&server, "k3", "DELETE", &path, "")),
        shown(&done)
    );
}

#[test]
fn an_erased_row_is_not_shown_by_a_kept_answer() {
    let server = server();
    let secret = r#"{"data":{"s":"a secret"}}"#;
    let row = format!("{ROWS}/a");
    let first = ask_once(&server, "k", "PATCH", &row, secret);
    assert!(first.text.contains("a secret"));
    // One that changes nothing is kept as well.
    ask_once(&server, "l", "PATCH", &row, secret);
    let other = shown(&ask_once(
        &server,
        "m",
        "PATCH",
        &format!("{ROWS}/b"),
        secret,
    ));
    let erase = json!({"ops": [{"op": "erase", "table": "t", "id": "a"}]}).to_string();
    assert_eq!(
        server
            .ask("POST", &format!("{OWN}/transactions"), &erase)
            .status,
        201
    );
    for key in ["k", "l"] {
        let again = ask_once(&server, key, "PATCH", &row, secret);
        assert_eq!(again.refusal(), "409 general_idempotency_key_reused");
        assert!(again.text.contains("erased"), "{}", again.text);
    }
    let again = ask_once(&server, "m", "PATCH", &format!("{ROWS}/b"), secret);
    assert_eq!(shown(&again), other);
}

#[test]
fn a_kept_answer_is_refused_to_a_key_that_lost_its_scope_and_to_its_successor() {
    let server = server();
    let count = |server: &TestServer| {
        let headers = [
            ("x-appwrite-project", PROJECT),
            ("x-appwrite-key", ROWS_KEY),
            ("idempotency-key", "k"),
        ];
        server.ask_with(&headers, "PATCH", &format!("{ROWS}/a/n/increment"), "{}")
    };
    assert_eq!(count(&server).json()["n"], 2);
    assert_eq!(count(&server).json()["n"], 2);
    server.replace_key("rows", ROWS_KEY, &[Scope::RowsRead]);
    let refused = count(&server);
    assert_eq!(refused.refusal(), "401 general_unauthorized_scope");
    // A later key of the same id and secret is another key.
    server.replace_key("rows", ROWS_KEY, &[Scope::RowsWrite]);
    assert_eq!(count(&server).json()["n"], 3);
}
