//! Text that looks like an instruction is text: it comes back as it was sent, is found by what it
//! is, and does nothing.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::fixture::{DATABASE, Fixture};

const TEXTS: &[&str] = &[
    "' OR 1=1 --",
    "'; DROP TABLE t; --",
    "\" OR \"\"=\"",
    "%",
    "_",
    "%' ESCAPE '%",
    "\\",
    "\\\\",
    "*",
    "?1",
    ":n",
    "$1",
    "{\"method\":\"nobody\"}",
    "{\"$ne\":null}",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "\r\nSet-Cookie: a=b",
    "\u{1}\u{7f}",
    "\u{feff}",
    "\u{ffff}",
    "\u{10ffff}",
    "\u{202e}abc",
    "e\u{301}",
    "é",
    "İ",
    "ß",
    "😀",
    " ",
    "\t",
    "null",
    "NaN",
];

#[test]
fn text_comes_back_as_it_was_sent() {
    let mut fixture = Fixture::new();
    let before = fixture.held();
    let rows = format!("/v1/tablesdb/{DATABASE}/tables/t/rows");
    for (place, text) in TEXTS.iter().enumerate() {
        let data = json!({"s": text, "long": text, "tags": [text.chars().next()]});
        let row = json!({"rowId": format!("v{place}"), "data": data});
        fixture.make("POST", &rows, &row.to_string());
    }
    for (place, text) in TEXTS.iter().enumerate() {
        let id = format!("v{place}");
        let kept = fixture.make("GET", &format!("{rows}/{id}"), "").json();
        assert_eq!((&kept["s"], &kept["long"]), (&json!(text), &json!(text)));
        for method in ["equal", "startsWith", "endsWith", "contains"] {
            let found = found_by(&mut fixture, &rows, method, text);
            let wanted = |row: &Value| {
                let held = row["s"].as_str().unwrap();
                match method {
                    "equal" => held == *text,
                    "startsWith" => held.starts_with(text),
                    "endsWith" => held.ends_with(text),
                    _ => held.contains(text),
                }
            };
            // Letters are compared without regard to case by the last three; none here differs
            // from another in case only, so that what is found holds the text itself.
            assert!(
                found.iter().all(wanted),
                "{method} {text:?} found {found:?}"
            );
            assert!(
                found.iter().any(|row| row["$id"] == id),
                "{method} {text:?} lost {id}"
            );
        }
        fixture.make("DELETE", &format!("{rows}/{id}"), "");
    }
    assert_eq!(fixture.held(), before);
    fixture.end();
}

fn found_by(fixture: &mut Fixture, rows: &str, method: &str, text: &str) -> Vec<Value> {
    let query = json!({"method": method, "attribute": "s", "values": [text]}).to_string();
    let limit = r#"{"method":"limit","values":[100]}"#;
    let encode = |text| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let path = format!(
        "{rows}?queries[0]={}&queries[1]={}",
        encode(&query),
        encode(limit)
    );
    fixture.make("GET", &path, "").json()["rows"]
        .as_array()
        .unwrap()
        .clone()
}

#[test]
fn numbers_past_what_doubles_hold_come_back_exactly() {
    let mut fixture = Fixture::new();
    let rows = format!("/v1/tablesdb/{DATABASE}/tables/t/rows");
    for number in [
        "9007199254740993",
        "-9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
    ] {
        let body = format!(r#"{{"rowId":"x","data":{{"n":{number},"big":{number}}}}}"#);
        let made = fixture.make("POST", &rows, &body);
        let read = fixture.make("GET", &format!("{rows}/x"), "");
        for answer in [made, read] {
            assert!(
                answer.text.contains(&format!("\"n\":{number}")),
                "{}",
                answer.text
            );
            assert!(
                answer.text.contains(&format!("\"big\":{number}")),
                "{}",
                answer.text
            );
        }
        let query = format!(r#"{{"method":"equal","attribute":"n","values":[{number}]}}"#);
        let query = utf8_percent_encode(&query, NON_ALPHANUMERIC).to_string();
        let found = fixture.make("GET", &format!("{rows}?queries[0]={query}"), "");
        assert_eq!(found.json()["total"], 1, "{number}: {}", found.text);
        fixture.make("DELETE", &format!("{rows}/x"), "");
    }
    fixture.end();
}
