//! Lists that one thread answers repeatedly: whatever it remembers, the answer is the one
//! that a first request would get.

use crate::fixture::{Answer, Connection, KEY, PROJECT, ROWS_KEY, TestServer};

const TABLE: &str = "/v1/tablesdb/d/tables/t";
const LIST: &str = "/v1/tablesdb/d/tables/t/rows?ttl=600&queries%5B0%5D=%7B%22method%22%3A%22limit\
                    %22%2C%22values%22%3A%5B5%5D%7D";
const AS_GUEST: [(&str, &str); 1] = [("x-appwrite-project", PROJECT)];
const AS_KEY: [(&str, &str); 2] = [("x-appwrite-project", PROJECT), ("x-appwrite-key", KEY)];
const AS_ROWS_KEY: [(&str, &str); 2] = [
    ("x-appwrite-project", PROJECT),
    ("x-appwrite-key", ROWS_KEY),
];
/// A miss fills the cache, a hit makes the thread remember the request, the next two use that and
/// make their bytes known, the last ones use those.
const TIMES: usize = 7;

fn server() -> TestServer {
    let server = TestServer::start();
    let table = r#"{"tableId":"t","name":"T","permissions":["read(\"any\")"],
        "columns":[{"key":"n","type":"integer"}]}"#;
    for (path, body) in [
        ("/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#),
        ("/v1/tablesdb/d/tables", table),
        (
            "/v1/tablesdb/d/tables/t/rows",
            r#"{"rowId":"r","data":{"n":1}}"#,
        ),
    ] {
        let made = server.ask("POST", path, body);
        assert_eq!(made.status, 201, "{}", made.text);
    }
    server
}

/// Asks until the thread of this connection knows the request.
#[track_caller]
fn repeat(connection: &mut Connection<'_>, headers: &[(&str, &str)]) -> Answer {
    let mut latest = None;
    for _ in 0..TIMES {
        let answer = connection.ask(headers, "GET", LIST, "").unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text);
        latest = Some(answer);
    }
    latest.expect("it was asked more than once")
}

#[test]
fn every_header_is_there_each_time_and_each_request_has_its_own_name() {
    let server = server();
    let mut connection = server.connect();
    let first = connection.ask(&AS_KEY, "GET", LIST, "").unwrap();
    assert_eq!(first.header("x-appwrite-cache"), "miss");
    let mut ids = vec![first.header("x-request-id").to_owned()];
    for _ in 0..TIMES {
        let again = connection.ask(&AS_KEY, "GET", LIST, "").unwrap();
        assert_eq!((again.status.as_u16(), &again.text), (200, &first.text));
        assert_eq!(again.header("x-appwrite-cache"), "hit");
        assert!(again.header("x-tidemark-cache").starts_with("hit; mark="));
        let listed = |answer: &Answer| {
            let names = answer.headers.keys().map(ToString::to_string);
            let mut names: Vec<String> = names.collect();
            names.sort_unstable();
            names
        };
        assert_eq!(listed(&again), listed(&first));
        for name in ["etag", "vary", "cache-control", "content-type"] {
            assert_eq!(again.header(name), first.header(name), "{name}");
        }
        ids.push(again.header("x-request-id").to_owned());
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), TIMES + 1);
    let named = [&AS_KEY[..], &[("x-request-id", "mine")]].concat();
    let answer = connection.ask(&named, "GET", LIST, "").unwrap();
    assert_eq!(answer.header("x-request-id"), "mine");
}

#[test]
fn repeated_answer_is_revalidated_and_head_has_no_body() {
    let server = server();
    let mut connection = server.connect();
    let answer = repeat(&mut connection, &AS_KEY);
    let tag = answer.header("etag");
    let holding = [&AS_KEY[..], &[("if-none-match", tag)]].concat();
    let kept = connection.ask(&holding, "GET", LIST, "").unwrap();
    assert_eq!((kept.status.as_u16(), kept.text.as_str()), (304, ""));
    for (name, value) in [("etag", tag), ("content-type", ""), ("content-length", "")] {
        assert_eq!(kept.header(name), value, "{name}");
    }
    let other = [&AS_KEY[..], &[("if-none-match", "\"x\"")]].concat();
    let sent = connection.ask(&other, "GET", LIST, "").unwrap();
    assert_eq!((sent.status.as_u16(), &sent.text), (200, &answer.text));
    let head = connection.ask(&AS_KEY, "HEAD", LIST, "").unwrap();
    assert_eq!((head.status.as_u16(), head.text.as_str()), (200, ""));
    let length = answer.text.len().to_string();
    assert_eq!(head.header("content-length"), length);
}

#[test]
fn pages_are_judged_each_time() {
    let server = server();
    let mut connection = server.connect();
    repeat(&mut connection, &AS_GUEST);
    for (origin, status, allowed) in [
        ("https://app.example.com", 200, "https://app.example.com"),
        ("https://elsewhere.net", 403, ""),
        ("http://localhost:3000", 200, "http://localhost:3000"),
    ] {
        let headers = [&AS_GUEST[..], &[("origin", origin)]].concat();
        let answer = connection.ask(&headers, "GET", LIST, "").unwrap();
        let told = answer.header("access-control-allow-origin");
        assert_eq!((answer.status.as_u16(), told), (status, allowed));
    }
    let plain = connection.ask(&AS_GUEST, "GET", LIST, "").unwrap();
    assert_eq!(plain.header("access-control-allow-origin"), "");
}

#[test]
fn callers_do_not_get_each_others_answers() {
    let server = server();
    let secret = r#"{"rowId":"s","data":{"n":2},"permissions":[]}"#;
    let only_rows = r#"{"name":"T","permissions":[],"rowSecurity":true}"#;
    assert_eq!(server.ask("PUT", TABLE, only_rows).status, 200);
    let rows = format!("{TABLE}/rows");
    assert_eq!(server.ask("POST", &rows, secret).status, 201);
    let mut connection = server.connect();
    let total = |answer: Answer| answer.json()["total"].as_u64();
    for _ in 0..TIMES {
        let mut ask = |headers: &[(&str, &str)]| connection.ask(headers, "GET", LIST, "").unwrap();
        assert_eq!(total(ask(&AS_KEY)), Some(2));
        assert_eq!(total(ask(&AS_GUEST)), Some(0));
        assert_eq!(total(ask(&AS_ROWS_KEY)), Some(2));
        let unknown = [&AS_GUEST[..], &[("x-appwrite-key", "standard_kez")]].concat();
        assert_eq!(ask(&unknown).refusal(), "401 general_unauthorized_scope");
        let empty = [&AS_GUEST[..], &[("x-appwrite-key", "")]].concat();
        assert_eq!(total(ask(&empty)), Some(0), "an empty key is none");
        let token = [&AS_KEY[..], &[("x-appwrite-jwt", "x")]].concat();
        assert_eq!(ask(&token).status, 401);
        let elsewhere = [("x-appwrite-project", "q"), ("x-appwrite-key", KEY)];
        assert_eq!(ask(&elsewhere).status, 404);
    }
}

#[test]
fn a_revoked_key_fails_from_the_next_request_on() {
    let server = server();
    let mut connection = server.connect();
    repeat(&mut connection, &AS_ROWS_KEY);
    server.revoke("rows");
    // The table is open to guests; a key that was revoked is none.
    let refused = connection.ask(&AS_ROWS_KEY, "GET", LIST, "").unwrap();
    assert_eq!(refused.refusal(), "401 general_unauthorized_scope");
    repeat(&mut connection, &AS_GUEST);
    repeat(&mut connection, &AS_KEY);
}

#[test]
fn a_change_of_the_table_counts_from_the_next_request_on() {
    let server = server();
    let mut connection = server.connect();
    for (change, refusal) in [
        (r#"{"name":"T","permissions":[]}"#, "401 user_unauthorized"),
        (
            r#"{"name":"T","permissions":["read(\"any\")"],"enabled":false}"#,
            "404 table_not_found",
        ),
    ] {
        repeat(&mut connection, &AS_GUEST);
        assert_eq!(server.ask("PUT", TABLE, change).status, 200);
        let refused = connection.ask(&AS_GUEST, "GET", LIST, "").unwrap();
        assert_eq!(refused.refusal(), refusal);
        let open = r#"{"name":"T","permissions":["read(\"any\")"],"enabled":true}"#;
        assert_eq!(server.ask("PUT", TABLE, open).status, 200);
    }
    repeat(&mut connection, &AS_GUEST);
    let column = r#"{"key":"m","required":false}"#;
    let columns = format!("{TABLE}/columns/integer");
    assert_eq!(server.ask("POST", &columns, column).status, 202);
    let wider = connection.ask(&AS_GUEST, "GET", LIST, "").unwrap();
    assert_eq!(wider.header("x-appwrite-cache"), "miss");
    assert!(wider.text.contains("\"m\":null"), "{}", wider.text);
    repeat(&mut connection, &AS_GUEST);
    assert_eq!(server.ask("DELETE", TABLE, "").status, 204);
    let gone = connection.ask(&AS_GUEST, "GET", LIST, "").unwrap();
    assert_eq!(gone.refusal(), "404 table_not_found");
}

#[test]
fn a_purge_counts_from_the_next_request_on() {
    let server = server();
    let mut connection = server.connect();
    let before = repeat(&mut connection, &AS_KEY);
    let rows = format!("{TABLE}/rows");
    let more = r#"{"rowId":"s","data":{"n":2}}"#;
    assert_eq!(server.ask("POST", &rows, more).status, 201);
    let older = connection.ask(&AS_KEY, "GET", LIST, "").unwrap();
    assert_eq!(older.text, before.text, "up to its age");
    let purged = server.ask("PUT", TABLE, r#"{"name":"T","purge":true}"#);
    assert_eq!(purged.status, 200, "{}", purged.text);
    for cached in ["miss", "hit", "hit", "hit"] {
        let fresh = connection.ask(&AS_KEY, "GET", LIST, "").unwrap();
        assert_eq!(fresh.header("x-appwrite-cache"), cached);
        assert_eq!(fresh.json()["total"], 2);
    }
}

#[test]
fn without_a_ttl_every_write_counts_from_the_next_request_on() {
    let server = server();
    let mut connection = server.connect();
    let list = &LIST.replace("ttl=600&", "");
    assert_ne!(list, LIST);
    for n in 2..6 {
        let change = format!(r#"{{"data":{{"n":{n}}}}}"#);
        assert_eq!(server.ask("PATCH", ROW, &change).status, 200);
        for outcome in ["miss", "hit", "hit", "hit"] {
            let answer = connection.ask(&AS_KEY, "GET", list, "").unwrap();
            let told = answer.header("x-tidemark-cache");
            assert!(told.starts_with(&format!("{outcome}; mark=")), "{told}");
            assert_eq!(answer.json()["rows"][0]["n"], n);
        }
        let bypassing = [&AS_KEY[..], &[("x-tidemark-cache", "bypass")]].concat();
        let answer = connection.ask(&bypassing, "GET", list, "").unwrap();
        assert!(answer.header("x-tidemark-cache").starts_with("bypass;"));
    }
    let rows = format!("{TABLE}/rows");
    for _ in 0..TIMES {
        let all = connection.ask(&AS_KEY, "GET", &rows, "").unwrap();
        assert_eq!(all.json()["total"], 1, "without any query as well");
    }
}

const ROW: &str = "/v1/tablesdb/d/tables/t/rows/r";

/// Reads the row until the thread of this connection knows its table.
#[track_caller]
fn repeat_row(connection: &mut Connection<'_>, headers: &[(&str, &str)], n: u64) {
    for _ in 0..TIMES {
        let answer = connection.ask(headers, "GET", ROW, "").unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.json()["n"], n);
    }
}

#[test]
fn a_row_is_read_anew_each_time() {
    let server = server();
    let mut connection = server.connect();
    for n in 1..4 {
        repeat_row(&mut connection, &AS_KEY, n);
        let change = format!(r#"{{"data":{{"n":{}}}}}"#, n + 1);
        assert_eq!(server.ask("PATCH", ROW, &change).status, 200);
    }
    let answer = connection.ask(&AS_KEY, "GET", ROW, "").unwrap();
    assert!(
        answer
            .header("content-type")
            .starts_with("application/json"),
        "{answer:?}"
    );
    let holding = [&AS_KEY[..], &[("if-none-match", answer.header("etag"))]].concat();
    let kept = connection.ask(&holding, "GET", ROW, "").unwrap();
    assert_eq!((kept.status.as_u16(), kept.text.as_str()), (304, ""));
    let other_words = "/v1/databases/d/collections/t/documents/r";
    for _ in 0..TIMES {
        let row = connection.ask(&AS_KEY, "GET", other_words, "").unwrap();
        assert_eq!(row.json()["$collectionId"], "t");
    }
    for (path, refusal) in [
        ("/v1/tablesdb/d/tables/t/rows/none", "404 row_not_found"),
        (
            "/v1/tablesdb/d/tables/t/rows/",
            "404 general_route_not_found",
        ),
        (
            "/v1/tablesdb/d/tables/t/rows/.",
            "400 general_argument_invalid",
        ),
        (
            "/v1/tablesdb/d/tables/t/rows/r?queries[0]=x",
            "400 general_query_invalid",
        ),
    ] {
        let refused = connection.ask(&AS_KEY, "GET", path, "").unwrap();
        assert_eq!(refused.refusal(), refusal, "{path}");
    }
    let encoded = "/v1/tablesdb/d/tables/t/rows/%72";
    let row = connection.ask(&AS_KEY, "GET", encoded, "").unwrap();
    assert_eq!(row.json()["$id"], "r");
    assert_eq!(server.ask("DELETE", ROW, "").status, 204);
    let gone = connection.ask(&AS_KEY, "GET", ROW, "").unwrap();
    assert_eq!(gone.refusal(), "404 row_not_found");
}

#[test]
fn permissions_of_a_row_are_checked_each_time() {
    let server = server();
    let mut connection = server.connect();
    repeat_row(&mut connection, &AS_GUEST, 1);
    repeat_row(&mut connection, &AS_ROWS_KEY, 1);
    let by_row = r#"{"name":"T","permissions":[],"rowSecurity":true}"#;
    assert_eq!(server.ask("PUT", TABLE, by_row).status, 200);
    let hidden = connection.ask(&AS_GUEST, "GET", ROW, "").unwrap();
    assert_eq!(hidden.refusal(), "404 row_not_found");
    let open = r#"{"permissions":["read(\"any\")"]}"#;
    assert_eq!(server.ask("PATCH", ROW, open).status, 200);
    repeat_row(&mut connection, &AS_GUEST, 1);
    assert_eq!(
        server.ask("PATCH", ROW, r#"{"permissions":[]}"#).status,
        200
    );
    let hidden = connection.ask(&AS_GUEST, "GET", ROW, "").unwrap();
    assert_eq!(hidden.refusal(), "404 row_not_found");
    repeat_row(&mut connection, &AS_ROWS_KEY, 1);
    let column = r#"{"key":"m","required":false}"#;
    let columns = format!("{TABLE}/columns/integer");
    assert_eq!(server.ask("POST", &columns, column).status, 202);
    let wider = connection.ask(&AS_ROWS_KEY, "GET", ROW, "").unwrap();
    assert!(wider.text.contains("\"m\":null"), "{}", wider.text);
    server.revoke("rows");
    let revoked = connection.ask(&AS_ROWS_KEY, "GET", ROW, "").unwrap();
    assert_eq!(revoked.refusal(), "401 general_unauthorized_scope");
}
