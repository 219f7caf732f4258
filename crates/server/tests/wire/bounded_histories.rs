//! Reads along an axis that are bounded to a period, where tables keep all of their past and where
//! they forget it.

use serde_json::{Value, json};

use crate::fixture::{Answer, TestServer};
use crate::relationships::server;

const BASE: &str = "/v1/tidemark/databases/d";

fn read(server: &TestServer, read: &Value) -> Answer {
    server.ask("POST", &format!("{BASE}/reads"), &read.to_string())
}

#[track_caller]
fn rows(server: &TestServer, asked: &Value) -> Vec<Value> {
    let answer = read(server, asked);
    assert_eq!(answer.status, 200, "{asked}: {}", answer.text);
    answer.json()["rows"].as_array().unwrap().clone()
}

/// Rows `1` of tables `a` and `b` in five pieces, one for each `step` from `start`; `a` links to `b`.
fn furnish(server: &TestServer, start: i64, step: i64) {
    let column = r#"{"key":"k","size":36,"required":false}"#;
    let made = server.ask("POST", "/v1/tablesdb/d/tables/a/columns/string", column);
    assert_eq!(made.status, 202, "{}", made.text);
    let mut ops = Vec::new();
    for nth in 0..5 {
        let (from, to) = (start + nth * step, start + (nth + 1) * step);
        let period = json!({"id": "1", "op": "put", "valid_from": from, "valid_to": to});
        for (table, doc) in [
            ("a", json!({"n": nth, "k": "1"})),
            ("b", json!({"n": nth * 10})),
        ] {
            let mut op = period.clone();
            op["table"] = json!(table);
            op["doc"] = doc;
            ops.push(op);
        }
    }
    let body = json!({ "ops": ops }).to_string();
    let made = server.ask("POST", &format!("{BASE}/transactions"), &body);
    assert_eq!(made.status, 201, "{}", made.text);
}

/// One read of each kind that looks along valid time, of all of time.
fn reads(overlapped: &Value) -> [Value; 5] {
    [
        json!({"kind": "history", "table": "a", "id": "1", "axis": "valid"}),
        json!({"kind": "history", "table": "a", "id": "1", "axis": "both"}),
        json!({"kind": "period", "table": "a", "relation": "overlaps", "period": overlapped}),
        json!({"kind": "allen", "table": "a", "id": "1", "period": overlapped}),
        json!({"kind": "join", "left": "a", "right": "b", "on": "k"}),
    ]
}

/// From when and until when a row of an answer is valid.
fn valid(row: &Value) -> (i64, i64) {
    let of = |name: &str, nth: usize| row.get(name).unwrap_or(&row[nth]).as_i64().unwrap();
    (of("valid_from", 0), of("valid_to", 1))
}

#[test]
fn bounded_reads_show_what_meets_the_period_of_an_unbounded_one() {
    let server = server();
    furnish(&server, 100, 10);
    for unbounded in reads(&json!([90, 200])) {
        let all = rows(&server, &unbounded);
        assert_eq!(all.len(), 5, "{unbounded}");
        for (from, to) in [
            (0, 99),
            (0, 101),
            (110, 120),
            (115, 131),
            (149, 150),
            (150, 900),
        ] {
            let mut bounded = unbounded.clone();
            bounded["valid"] = json!([from, to]);
            let meets = |row: &&Value| valid(row).0 < to && from < valid(row).1;
            let expected: Vec<Value> = all.iter().filter(meets).cloned().collect();
            assert_eq!(rows(&server, &bounded), expected, "{bounded}");
        }
        let mut open = unbounded.clone();
        open["valid"] = json!(["min", null]);
        assert_eq!(rows(&server, &open), all, "{open}");
    }
}

#[test]
fn tables_that_forget_are_read_from_their_line_on() {
    let server = server();
    let status = server.ask("GET", "/v1/tidemark/status", "").json();
    let now = status["horizon"].as_i64().unwrap();
    let hour = 3_600_000_000;
    furnish(&server, now - 2 * hour, hour / 2);
    for table in ["a", "b"] {
        let path = format!("{BASE}/tables/{table}/options");
        let kept = server.ask("PATCH", &path, r#"{"history":"days(1)"}"#);
        assert_eq!(kept.status, 200, "{}", kept.text);
    }
    let overlapped = json!([now - 3 * hour, now + 3 * hour]);
    let day = 24 * hour;
    for unbounded in reads(&overlapped) {
        let gone = read(&server, &unbounded);
        assert_eq!(gone.refusal(), "410 history_gone", "{unbounded}");
        assert!(
            gone.text.contains("`valid` bounds a history"),
            "{}",
            gone.text
        );
        let mut bounded = unbounded.clone();
        bounded["valid"] = json!([now - 3 * hour, null]);
        assert_eq!(rows(&server, &bounded).len(), 5, "{bounded}");
        bounded["valid"] = json!([now - 2 * day, null]);
        assert_eq!(
            read(&server, &bounded).refusal(),
            "410 history_gone",
            "{bounded}"
        );
    }
    let timeline = |from: i64| {
        let period = json!([from, now + hour]);
        let sum = json!({"kind": "timeline", "table": "a", "fn": "count", "period": period});
        read(&server, &sum).refusal()
    };
    assert_eq!(timeline(now - 3 * hour), "200");
    assert_eq!(timeline(now - 2 * day), "410 history_gone");
    let along_system =
        |vt: i64| json!({"kind": "history", "table": "a", "id": "1", "axis": "system", "vt": vt});
    assert_eq!(rows(&server, &along_system(now - hour)).len(), 1);
    let below = read(&server, &along_system(now - 2 * day));
    assert_eq!(below.refusal(), "410 history_gone");
}

#[test]
fn bounds_that_mean_nothing_are_refused_by_name() {
    let server = server();
    let history = |axis: &str, valid: Value| {
        let asked =
            json!({"kind": "history", "table": "a", "id": "1", "axis": axis, "valid": valid});
        let answer = read(&server, &asked);
        let message = answer.json()["message"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        (answer.refusal(), message)
    };
    for (axis, bound, refusal) in [
        ("system", json!([1, 2]), "400 general_argument_invalid"),
        ("valid", json!(7), "400 general_argument_invalid"),
        ("valid", json!([1]), "400 general_argument_invalid"),
        (
            "both",
            json!(["soon", null]),
            "400 general_argument_invalid",
        ),
    ] {
        let (refused, message) = history(axis, bound);
        assert_eq!(refused, refusal, "{message}");
        assert!(message.contains("`valid`"), "{message}");
    }
    assert_eq!(history("valid", json!([5, 5])).0, "400 invalid_range");
}
