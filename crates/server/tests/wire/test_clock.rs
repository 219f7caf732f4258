//! Servers whose clock is set by their clients: what each request's clock is, and what a reset and
//! a refusal leave behind.

use serde_json::{Value, json};

use crate::fixture::{Answer, KEY, PROJECT, TestServer};

const OWN: &str = "/v1/tidemark/databases/cases";
const RESET: &str = "/v1/tidemark/test/reset";
/// The last instant that a clock may show, in the year 9999.
const LATEST: i64 = 253_402_300_799_999_999;

/// Asks with this clock; without one the request says nothing of it.
fn ask(server: &TestServer, clock: Option<i64>, path: &str, body: &Value) -> Answer {
    let clock = clock.map(|clock| clock.to_string());
    let mut headers = vec![("x-appwrite-project", PROJECT), ("x-appwrite-key", KEY)];
    headers.extend(clock.as_deref().map(|clock| ("x-tidemark-clock", clock)));
    server.ask_with(&headers, "POST", path, &body.to_string())
}

fn tables() -> Value {
    json!({"tables": {
        "t": {"columns": {"n": "integer"}, "unique": [["n"]]},
        "u": {"columns": {"t": "string"}, "refs": [{"column": "t", "table": "t"}]},
    }})
}

#[track_caller]
fn reset(server: &TestServer, clock: Option<i64>) {
    let done = ask(server, clock, RESET, &tables());
    assert_eq!(done.status, 200, "{clock:?}: {}", done.text);
    assert_eq!(done.json(), json!({"horizon": 0}));
    assert_eq!(horizon(server), 0, "{clock:?}");
}

fn horizon(server: &TestServer) -> i64 {
    let status = server.ask("GET", "/v1/tidemark/status", "").json();
    status["horizon"].as_i64().unwrap()
}

fn transact(server: &TestServer, clock: Option<i64>, op: &Value) -> Answer {
    ask(
        server,
        clock,
        &format!("{OWN}/transactions"),
        &json!({"ops": [op]}),
    )
}

fn insert(id: &str, n: i64) -> Value {
    json!({"op": "insert", "table": "t", "id": id, "doc": {"n": n}})
}

#[track_caller]
fn mark(answer: &Answer) -> i64 {
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.json()["tt"].as_i64().unwrap()
}

fn read(server: &TestServer, clock: Option<i64>) -> Value {
    let scan = json!({"kind": "scan", "table": "t"});
    let answer = ask(server, clock, &format!("{OWN}/reads"), &scan);
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

#[test]
fn a_reset_begins_at_0_whatever_the_clock_showed() {
    let server = TestServer::start_with_test_clock();
    for clock in [None, Some(7), Some(-5), Some(1_000), Some(LATEST)] {
        reset(&server, clock);
        // The first instant is free: what the reset itself committed is forgotten.
        assert_eq!(
            mark(&transact(&server, Some(1), &insert("a", 1))),
            1,
            "{clock:?}"
        );
        reset(&server, clock);
        // Without a clock it shows the horizon, so the first commit is the next instant.
        assert_eq!(
            mark(&transact(&server, None, &insert("a", 1))),
            1,
            "{clock:?}"
        );
        assert_eq!(
            mark(&transact(&server, None, &insert("b", 2))),
            2,
            "{clock:?}"
        );
        let now = read(&server, None);
        assert_eq!(
            (&now["tt"], &now["vt"]),
            (&json!(2), &json!(2)),
            "{clock:?}"
        );
        // Whatever was read or beaten before, the next reset forgets it.
        let beaten = ask(
            &server,
            Some(LATEST),
            &format!("{OWN}/heartbeat"),
            &json!({}),
        );
        assert_eq!(beaten.json(), json!({ "horizon": LATEST }), "{clock:?}");
    }
}

#[test]
fn a_refused_transaction_leaves_horizon_and_marks_where_they_were() {
    let server = TestServer::start_with_test_clock();
    reset(&server, None);
    assert_eq!(mark(&transact(&server, Some(100), &insert("a", 1))), 100);
    let absent = json!({"op": "assert", "table": "t", "id": "x", "exists": true});
    let dangling = json!({"op": "insert", "table": "u", "id": "1", "doc": {"t": "gone"}});
    let misspelt = json!({"op": "insert", "table": "t", "id": "z", "doc": {"m": 1}});
    let nowhere = json!({"op": "insert", "table": "none", "id": "z", "doc": {}});
    let empty = json!({"op": "put", "table": "t", "id": "a", "doc": {"n": 3}, "valid_from": 9,
        "valid_to": 9});
    for refused in [
        insert("a", 2),
        insert("b", 1),
        absent,
        dangling,
        misspelt,
        nowhere,
        empty,
    ] {
        for clock in [Some(500), Some(LATEST), None] {
            let answer = transact(&server, clock, &refused);
            assert!(
                answer.status.is_client_error(),
                "{refused}: {}",
                answer.text
            );
            assert_eq!(horizon(&server), 100, "{refused} at {clock:?}");
            // The clock of the refused request was its own.
            let now = read(&server, None);
            assert_eq!(
                (&now["tt"], &now["vt"]),
                (&json!(100), &json!(100)),
                "{refused}"
            );
        }
    }
    assert_eq!(mark(&transact(&server, Some(101), &insert("b", 2))), 101);
    assert_eq!(
        read(&server, Some(101))["rows"].as_array().unwrap().len(),
        2
    );
    let future = json!({"kind": "scan", "table": "t", "tt": 102});
    let answer = ask(&server, None, &format!("{OWN}/reads"), &future);
    assert_eq!(answer.refusal(), "400 future_tt");
    assert_eq!(horizon(&server), 101);
}

#[test]
fn a_refused_request_with_rows_due_at_its_clock_moves_no_later_mark() {
    let server = TestServer::start_with_test_clock();
    let scheduled = json!({"op": "insert", "table": "t", "id": "later", "doc": {"n": 9},
        "valid_from": 5_000});
    let requests: [(&str, Value, &str); 4] = [
        (
            "transactions",
            json!({"ops": [insert("a", 2)]}),
            "409 exists",
        ),
        (
            "transactions",
            json!({"ops": [insert("b", 9)]}),
            "409 unique_violation",
        ),
        (
            "reads",
            json!({"kind": "scan", "table": "t", "tt": 100}),
            "200",
        ),
        (
            "reads",
            json!({"kind": "scan", "table": "t", "tt": 9_001}),
            "400 future_tt",
        ),
    ];
    for (path, body, expected) in requests {
        reset(&server, None);
        assert_eq!(mark(&transact(&server, Some(90), &scheduled)), 90);
        assert_eq!(mark(&transact(&server, Some(100), &insert("a", 1))), 100);
        let answer = ask(&server, Some(9_000), &format!("{OWN}/{path}"), &body);
        assert_eq!(answer.refusal(), expected, "{}", answer.text);
        assert_eq!(horizon(&server), 100, "{body}");
        assert_eq!(
            mark(&transact(&server, Some(101), &insert("c", 3))),
            101,
            "{body}"
        );
        let ids = |clock| {
            let rows = read(&server, Some(clock))["rows"].clone();
            let ids = rows.as_array().unwrap().iter().map(|row| row["id"].clone());
            ids.collect::<Vec<_>>()
        };
        assert_eq!(ids(102), ["a", "c"], "{body}");
        assert_eq!(ids(6_000), ["a", "c", "later"], "{body}");
    }
}

#[test]
fn a_reset_that_is_refused_changes_nothing() {
    let server = TestServer::start_with_test_clock();
    reset(&server, None);
    assert_eq!(mark(&transact(&server, Some(100), &insert("a", 1))), 100);
    let before = read(&server, None);
    for wrong in [
        json!({"tables": {"t": {"columns": {"n": "number"}}}}),
        json!({"tables": {"t": {}, "é": {}}}),
        json!({"tables": {"t": 7}}),
        json!({"tables": {"t": {"columns": {}, "uniq": []}}}),
        json!({"tables": 7}),
    ] {
        let refused = ask(&server, None, RESET, &wrong);
        assert_eq!(
            refused.refusal(),
            "400 general_argument_invalid",
            "{wrong}: {}",
            refused.text
        );
        assert_eq!(read(&server, None), before, "{wrong}");
    }
}
