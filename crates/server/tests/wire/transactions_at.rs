//! Reads at other times inside a transaction: of what it would leave at another valid time, and of
//! what was known before.

use crate::fixture::{Answer, TestServer};
use crate::transactions::{FAMILIES, Family, refused, server};
use serde_json::{Value, json};

fn queries(texts: &[Value]) -> String {
    let text = |(nth, text): (usize, &Value)| {
        let text = text.to_string();
        let text = percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC);
        format!("queries[{nth}]={text}")
    };
    let texts: Vec<String> = texts.iter().enumerate().map(text).collect();
    texts.join("&")
}

fn at(method: &str, values: Value) -> Value {
    json!({"method": method, "values": values})
}

/// A read of the rows, or of one of them.
fn read(
    server: &TestServer,
    words: Family,
    row: &str,
    texts: &[Value],
    transaction: &str,
) -> Answer {
    let path = format!(
        "{}{row}?{}&transactionId={transaction}",
        words.table,
        queries(texts)
    );
    server.ask("GET", &path, "")
}

/// Ids and `n` of a list.
#[track_caller]
fn shown(words: Family, list: &Answer) -> Vec<String> {
    assert_eq!(list.status, 200, "{}", list.text);
    let json = list.json();
    let rows = json[words.rows].as_array().unwrap();
    assert_eq!(json["total"], rows.len());
    let shown = |row: &Value| format!("{}={}", row["$id"].as_str().unwrap(), row["n"]);
    rows.iter().map(shown).collect()
}

const THEN: &str = "2100-06-01T00:00:00Z";

/// A transaction that changes row `a` for the year 2100, `b` from now on, and makes `d` for 2100.
fn staged(server: &TestServer, words: Family) -> String {
    let id = words.open(server, None);
    let year = |mut data: Value| {
        data["$validFrom"] = json!("2100-01-01T00:00:00Z");
        data["$validTo"] = json!("2101-01-01T00:00:00Z");
        data
    };
    let operations = json!([
        words.op("update", "a", year(json!({"n": 11}))),
        words.op("update", "b", json!({"n": 22})),
        words.op("create", "d", year(json!({"n": 44}))),
    ]);
    let taken = words.stage(server, &id, operations);
    assert_eq!(taken.status, 201, "{}", taken.text);
    id
}

#[test]
fn another_valid_time_is_read_as_the_commit_would_leave_it() {
    for words in FAMILIES {
        let server = server();
        let id = staged(&server, words);
        let then = at("validAt", json!([THEN]));
        let list = read(&server, words, "", std::slice::from_ref(&then), &id);
        assert_eq!(shown(words, &list), ["a=11", "b=22", "c=3", "d=44"]);
        let found = list.json()[words.rows][0].clone();
        assert_eq!(found["$validFrom"], "2100-01-01T00:00:00.000000+00:00");
        assert_eq!(found["$validTo"], "2101-01-01T00:00:00.000000+00:00");
        let many = json!({"method": "greaterThan", "attribute": "n", "values": [10]});
        let falling = json!({"method": "orderDesc", "attribute": "n"});
        let list = read(&server, words, "", &[then.clone(), many, falling], &id);
        assert_eq!(shown(words, &list), ["d=44", "b=22", "a=11"]);

        let now = read(&server, words, "", &[], &id);
        assert_eq!(shown(words, &now), ["a=1", "b=22", "c=3"]);
        let outside = read(&server, words, "", std::slice::from_ref(&then), "");
        assert_eq!(shown(words, &outside), ["a=1", "b=2", "c=3"]);

        let row = read(&server, words, "/d", std::slice::from_ref(&then), &id);
        assert_eq!(row.json()["n"], 44, "{}", row.text);
        let gone = at("validAt", json!(["2101-01-01"]));
        let row = read(&server, words, "/d", &[gone], &id);
        refused(&row, &format!("404 {}_not_found", words.of));

        let both = at("validBetween", json!(["2099-01-01", null]));
        let equal = json!({"method": "equal", "attribute": "$id", "values": ["a"]});
        let list = read(&server, words, "", &[both, equal], &id);
        assert_eq!(shown(words, &list), ["a=1", "a=11", "a=1"]);

        assert_eq!(words.end(&server, &id, "commit").status, 200);
        let list = read(&server, words, "", &[then], "");
        assert_eq!(shown(words, &list), ["a=11", "b=22", "c=3", "d=44"]);
    }
}

#[test]
fn reads_of_the_past_ignore_staged_writes() {
    for words in FAMILIES {
        let server = server();
        let base = "/v1/tidemark/databases/d/heartbeat";
        let known = server.ask("POST", base, "").json()["horizon"].clone();
        let id = staged(&server, words);
        let then = at("asOf", json!([known]));
        let list = read(&server, words, "", std::slice::from_ref(&then), &id);
        assert_eq!(shown(words, &list), ["a=1", "b=2", "c=3"]);
        let both = [then.clone(), at("validAt", json!([THEN]))];
        let list = read(&server, words, "", &both, &id);
        assert_eq!(shown(words, &list), ["a=1", "b=2", "c=3"]);
        let row = read(&server, words, "/b", std::slice::from_ref(&then), &id);
        assert_eq!(row.json()["n"], 2, "{}", row.text);
        let versions = [then.clone(), at("versions", json!([]))];
        let list = read(&server, words, "", &versions, &id);
        assert_eq!(shown(words, &list), ["a=1", "b=2", "c=3"]);

        for method in [
            at("versions", json!([])),
            at("systemBetween", json!([THEN, null])),
        ] {
            let list = read(&server, words, "", &[method], &id);
            refused(&list, "400 general_query_invalid");
            assert!(list.text.contains("needs `asOf`"), "{}", list.text);
        }
        let future = at("asOf", json!([i64::MAX - 1]));
        let list = read(&server, words, "", &[future], &id);
        refused(&list, "400 future_tt");
        let none = read(&server, words, "", std::slice::from_ref(&then), "none");
        refused(&none, "404 transaction_not_found");
        assert_eq!(words.end(&server, &id, "rollback").status, 200);
        for time in [then, at("validAt", json!([THEN]))] {
            let ended = read(&server, words, "", &[time], &id);
            refused(&ended, "400 transaction_not_ready");
        }
    }
}
