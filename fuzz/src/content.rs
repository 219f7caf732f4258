//! Any bytes as the content of a row: refused, or kept so that it reads back and may be written
//! again without a change.

use serde_json::{Map, Value, json};

use crate::fixture::with_client;
use testing::{Credentials, RawClient};

const ROWS: &str = "/v1/tablesdb/d/tables/w/rows";

/// The bytes stand behind `"data":`; they may end that object and bring members of their own.
pub fn check(bytes: &[u8]) {
    let mut body = br#"{"rowId":"unique()","data":"#.to_vec();
    body.extend_from_slice(bytes);
    body.push(b'}');
    with_client(|client| {
        let made = client.ask(Credentials::Key, "POST", ROWS, &body);
        match made.status {
            400 | 404 | 409 => {
                assert!(made.json()["type"].is_string(), "{}", made.text);
            }
            201 => {
                let made = made.json();
                let many = made["rows"].as_array().cloned();
                for row in many.unwrap_or_else(|| vec![made]) {
                    check_kept(client, &row);
                }
            }
            other => panic!("{other} {}", made.text),
        }
        let left = client.ask(Credentials::Key, "GET", ROWS, b"").json();
        assert_eq!(left["total"], 0, "{left}");
    });
}

fn check_kept(client: &mut RawClient, row: &Value) {
    let path = format!("{ROWS}/{}", row["$id"].as_str().expect("a row has an id"));
    let read = client.ask(Credentials::Key, "GET", &path, b"");
    assert_eq!((read.status, &read.json()), (200, row));
    // An array that was not given is answered as an empty one, and is not one.
    let of_the_row =
        |(key, value): &(&String, &Value)| !key.starts_with('$') && **value != json!([]);
    let members = row.as_object().expect("a row is an object").iter();
    let content: Map<String, Value> = members
        .filter(of_the_row)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let again = json!({ "data": content }).to_string();
    let kept = client.ask(Credentials::Key, "PATCH", &path, again.as_bytes());
    assert_eq!(
        (kept.status, &kept.json()),
        (200, row),
        "what was read cannot be written"
    );
    assert_eq!(
        client.ask(Credentials::Key, "DELETE", &path, b"").status,
        204
    );
}
