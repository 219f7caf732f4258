//! Any bytes as the change of a row: refused, and the row stays as it was, or done, and the row
//! reads as the answer said.

use serde_json::Value;

use crate::fixture::with_client;
use testing::{Credentials, RawClient};

const ROWS: &str = "/v1/tablesdb/d/tables/c/rows";
const ROW: &str = "/v1/tablesdb/d/tables/c/rows/r";
/// What every input begins with: each column holds something that an operator can work on.
const BEGIN: &[u8] = br#"{"rowId":"r","data":{"n":5,"i":1,"f":0.5,"b":true,"s":"abc",
    "at":"2026-01-31T10:00:00Z","e":"a","tags":["a","b","a"],"ns":[1,2,3,2]}}"#;

/// The bytes stand behind `"data":`; they may end that object and bring members of their own.
pub fn check(bytes: &[u8]) {
    let mut body = br#"{"data":"#.to_vec();
    body.extend_from_slice(bytes);
    body.push(b'}');
    with_client(|client| {
        let made = client.ask(Credentials::Key, "POST", ROWS, BEGIN);
        assert_eq!(made.status, 201, "{}", made.text);
        let changed = client.ask(Credentials::Key, "PATCH", ROW, &body);
        let wanted = match changed.status {
            200 => &changed,
            400 | 404 | 409 => &made,
            other => panic!("{other} {}", changed.text),
        };
        let read = client.ask(Credentials::Key, "GET", ROW, b"");
        assert_eq!(
            (read.status, &read.text),
            (200, &wanted.text),
            "{}",
            changed.text
        );
        check_found(client, &read.json());
        assert_eq!(client.ask(Credentials::Key, "DELETE", ROW, b"").status, 204);
    });
}

/// Demands that a list finds the row by what it reads as: rows and indexes hold the same.
fn check_found(client: &mut RawClient, row: &Value) {
    let Some(n) = row["n"].as_i64() else { return };
    let query = format!(r#"{{"method":"equal","attribute":"n","values":[{n}]}}"#);
    let path = format!("{ROWS}?queries[0]={}", query.replace('"', "%22"));
    let found = client.ask(Credentials::Key, "GET", &path, b"").json();
    assert_eq!(&found["rows"][0], row);
}
