//! Any walk over a list by cursors: each page is the slice of the whole list beside its cursor.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::fixture::{ROWS, with_client};
use crate::query_text::demand;
use testing::{Credentials, RawAnswer};

/// What rows are ordered by.
const ORDERS: [&str; 8] = ["n", "s", "f", "b", "at", "$id", "$sequence", "$createdAt"];

/// Bytes: how many orders (0 to 3) with a byte each, the cursor's row and side, the limit. What
/// is left is a cursor of the client's own making.
pub fn check(bytes: &[u8]) {
    let mut bytes = bytes.iter().copied();
    let mut next = |bound: usize| usize::from(bytes.next().unwrap_or(0)) % bound;
    let mut queries: Vec<Value> = Vec::new();
    for _ in 0..next(4) {
        let method = ["orderAsc", "orderDesc"][next(2)];
        queries.push(json!({"method": method, "attribute": ORDERS[next(ORDERS.len())]}));
    }
    if next(4) == 0 {
        queries.push(json!({"method": "greaterThan", "attribute": "n", "values": [next(4)]}));
    }
    let is_after = next(2) == 0;
    let (row, limit) = (next(ROWS + 1), next(ROWS) + 1);
    let own: Vec<u8> = bytes.collect();
    let method = ["cursorBefore", "cursorAfter"][usize::from(is_after)];
    if !own.is_empty() {
        let cursor = json!({"method": method, "values": [String::from_utf8_lossy(&own)]});
        demand(&list(&queries, &[cursor], limit));
        return;
    }
    let id = format!("r{row}");
    let page = list(
        &queries,
        &[json!({"method": method, "values": [id]})],
        limit,
    );
    let whole = list(&queries, &[], 100);
    assert_eq!(whole.status, 200, "{}", whole.text);
    check_slice(&page, &whole, &id, is_after, limit);
}

fn check_slice(page: &RawAnswer, whole: &RawAnswer, id: &str, is_after: bool, limit: usize) {
    let Some(at) = ids(whole).iter().position(|known| known == id) else {
        // The cursor's row is none, or the filter hides it: then no slice of the list says what
        // stands beside it.
        return demand(page);
    };
    assert_eq!(page.status, 200, "{}", page.text);
    let whole = ids(whole);
    let slice = if is_after {
        &whole[at + 1..whole.len().min(at + 1 + limit)]
    } else {
        &whole[at.saturating_sub(limit)..at]
    };
    assert_eq!(ids(page), slice, "beside {id} in {whole:?}");
}

fn ids(answer: &RawAnswer) -> Vec<String> {
    let json = answer.json();
    let rows = json["rows"].as_array().expect("a list holds rows").iter();
    rows.map(|row| row["$id"].as_str().expect("a row has an id").to_owned())
        .collect()
}

fn list(queries: &[Value], cursor: &[Value], limit: usize) -> RawAnswer {
    let limit = json!({"method": "limit", "values": [limit]});
    let all = queries.iter().chain(cursor).chain([&limit]).enumerate();
    let words: Vec<String> = all
        .map(|(place, query)| {
            let text = query.to_string();
            format!(
                "queries[{place}]={}",
                utf8_percent_encode(&text, NON_ALPHANUMERIC)
            )
        })
        .collect();
    let path = format!("/v1/tablesdb/d/tables/t/rows?{}", words.join("&"));
    with_client(|client| client.ask(Credentials::Key, "GET", &path, b""))
}
