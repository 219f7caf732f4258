//! Any texts as queries: answered or refused, alike by both ways to send them.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::json;

use crate::fixture::with_client;
use testing::{Credentials, RawAnswer};

/// How queries may be refused.
const REFUSALS: [&str; 5] = [
    "general_query_invalid",
    "general_argument_invalid",
    "general_cursor_not_found",
    "general_feature_unsupported",
    "database_query_order_null",
];
const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";

/// Lines are the texts of one request.
pub fn check(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let texts: Vec<&str> = text.split('\n').collect();
    let in_line: Vec<String> = texts
        .iter()
        .enumerate()
        .map(|(place, text)| {
            let text = utf8_percent_encode(text, NON_ALPHANUMERIC);
            format!("queries[{place}]={text}")
        })
        .collect();
    let path = format!("{ROWS}?{}", in_line.join("&"));
    let body = json!({"queries": texts}).to_string();
    with_client(|client| {
        let by_line = client.ask(Credentials::Key, "GET", &path, b"");
        let by_body = client.ask(
            Credentials::Key,
            "POST",
            &format!("{ROWS}/query"),
            body.as_bytes(),
        );
        demand(&by_line);
        let is_random = text.contains("Random");
        assert!(
            is_random || by_line.text == by_body.text,
            "two answers: {} and {}",
            by_line.text,
            by_body.text
        );
        // A guest sees the same rows by another way: the table's grant.
        let by_guest = client.ask(Credentials::Guest, "GET", &path, b"");
        assert!(
            is_random || by_line.text == by_guest.text,
            "a guest gets {}",
            by_guest.text
        );
    });
}

/// Demands an answer or one of [`REFUSALS`].
pub fn demand(answer: &RawAnswer) {
    let json = answer.json();
    let kind = json["type"].as_str().unwrap_or_default();
    let is_refused = answer.status == 400 && REFUSALS.contains(&kind);
    assert!(
        is_refused || answer.status == 200,
        "{} {}",
        answer.status,
        answer.text
    );
    if answer.status == 200 {
        let rows = json["rows"].as_array().expect("a list holds rows");
        let total = json["total"].as_u64().expect("a total is a number");
        assert!(rows.len() as u64 <= total, "{}", answer.text);
    }
}
