//! Answers that a client holds already: `ETag`, `If-None-Match`, 304.

use crate::fixture::{Answer, KEY, PROJECT, TestServer};

const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";
const HEADERS: [(&str, &str); 2] = [("x-appwrite-project", PROJECT), ("x-appwrite-key", KEY)];

fn ask_holding(server: &TestServer, tag: &str, method: &str, path: &str) -> Answer {
    let headers = [&HEADERS[..], &[("if-none-match", tag)]].concat();
    server.ask_with(&headers, method, path, "")
}

#[track_caller]
fn check_held(server: &TestServer, path: &str) {
    let first = server.ask("GET", path, "");
    assert_eq!(first.status, 200, "{path}: {}", first.text);
    let tag = first.header("etag");
    assert!(tag.starts_with('"') && tag.ends_with('"'), "{path}: {tag}");
    assert_eq!(server.ask("GET", path, "").header("etag"), tag, "{path}");
    for held in [tag, &format!("W/{tag}"), &format!("\"x\", {tag}"), "*"] {
        let kept = ask_holding(server, held, "GET", path);
        assert_eq!(
            (kept.status.as_u16(), kept.text.as_str()),
            (304, ""),
            "{path} {held}"
        );
        for name in ["etag", "cache-control", "vary"] {
            assert_eq!(kept.header(name), first.header(name), "{path} {name}");
        }
        for name in ["content-type", "content-length", "transfer-encoding"] {
            assert_eq!(kept.header(name), "", "{path} {name}");
        }
    }
    for other in ["\"x\"", "", "nonsense", &tag.replace('"', "")] {
        let fresh = ask_holding(server, other, "GET", path);
        assert_eq!(
            (fresh.status.as_u16(), &fresh.text),
            (200, &first.text),
            "{path} {other}"
        );
    }
    let head = ask_holding(server, "\"x\"", "HEAD", path);
    assert_eq!(
        (head.status.as_u16(), head.text.as_str()),
        (200, ""),
        "{path}"
    );
    assert_eq!(
        head.header("content-length"),
        first.text.len().to_string(),
        "{path}"
    );
    assert_eq!(head.header("etag"), tag, "{path}");
    assert_eq!(ask_holding(server, tag, "HEAD", path).status, 304, "{path}");
}

#[test]
fn answers_to_all_reads_can_be_revalidated() {
    let server = TestServer::start_with_row();
    for path in [
        ROWS,
        "/v1/tablesdb/d/tables/t/rows?ttl=60",
        "/v1/tablesdb/d/tables/t/rows?total=false",
        "/v1/tablesdb/d/tables/t/rows/r",
        "/v1/tablesdb",
        "/v1/tablesdb/d",
        "/v1/tablesdb/d/tables",
        "/v1/tablesdb/d/tables/t",
        "/v1/tablesdb/d/tables/t/columns",
        "/v1/tablesdb/d/tables/t/columns/n",
        "/v1/tablesdb/d/tables/t/indexes",
        "/v1/tablesdb/d/tables/t/indexes/i",
        "/v1/databases/d/collections/t/documents",
        "/v1/databases/d/collections/t/documents/r",
    ] {
        check_held(&server, path);
    }
}

#[test]
fn a_tag_follows_the_body_and_nothing_else() {
    let server = TestServer::start_with_row();
    let tag = |path: &str| server.ask("GET", path, "").header("etag").to_owned();
    let row = format!("{ROWS}/r");
    let (list, one) = (tag(ROWS), tag(&row));
    assert_ne!(
        tag("/v1/databases/d/collections/t/documents"),
        list,
        "other words"
    );
    assert_ne!(tag(&format!("{ROWS}?total=false")), list, "another total");
    assert_eq!(tag(&format!("{ROWS}?ttl=60")), list, "whoever answers");
    // The mark moves on, the rows do not.
    server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"e","name":"E"}"#);
    assert_eq!((tag(ROWS), tag(&row)), (list.clone(), one.clone()));
    server.ask("PATCH", &row, r#"{"data":{"n":2}}"#);
    let (changed_list, changed_one) = (tag(ROWS), tag(&row));
    assert!(changed_list != list && changed_one != one);
    assert_eq!(ask_holding(&server, &list, "GET", ROWS).status, 200);
    assert_eq!(ask_holding(&server, &changed_list, "GET", ROWS).status, 304);
}

#[test]
fn a_held_list_still_says_what_the_caches_did() {
    let server = TestServer::start_with_row();
    let path = format!("{ROWS}?ttl=60");
    let tag = server.ask("GET", &path, "").header("etag").to_owned();
    let kept = ask_holding(&server, &tag, "GET", &path);
    assert_eq!(
        (kept.status.as_u16(), kept.header("x-appwrite-cache")),
        (304, "hit")
    );
    assert!(kept.header("x-tidemark-cache").starts_with("hit; mark="));
}

#[test]
fn a_page_learns_of_304_as_of_every_answer() {
    let server = TestServer::start_with_row();
    let page = ("origin", "https://app.example.com");
    let headers = [
        ("x-appwrite-project", PROJECT),
        page,
        ("if-none-match", "*"),
    ];
    let kept = server.ask_with(&headers, "GET", ROWS, "");
    assert_eq!(kept.status, 304);
    assert_eq!(kept.header("access-control-allow-origin"), page.1);
    assert_eq!(kept.header("access-control-allow-credentials"), "true");
    let exposed = kept.header("access-control-expose-headers");
    for name in [
        "ETag",
        "X-Appwrite-Cache",
        "X-Tidemark-Cache",
        "Retry-After",
    ] {
        assert!(exposed.split(", ").any(|other| other == name), "{name}");
    }
    let preflight = server.ask_with(&[page], "OPTIONS", ROWS, "");
    let allowed = preflight.header("access-control-allow-headers");
    for name in ["If-None-Match", "X-Tidemark-Cache", "X-Tidemark-Min-Mark"] {
        assert!(allowed.split(", ").any(|other| other == name), "{name}");
    }
}

#[test]
fn answers_that_cannot_repeat_have_no_tag() {
    let server = TestServer::start_with_row();
    let query = format!("{ROWS}/query");
    for (method, path, body) in [
        ("GET", "/v1/ping", ""),
        ("GET", "/v1/health", ""),
        ("GET", "/v1/health/version", ""),
        ("GET", "/versions", ""),
        ("POST", query.as_str(), r#"{"queries":[]}"#),
        (
            "PATCH",
            "/v1/tablesdb/d/tables/t/rows/r",
            r#"{"data":{"n":3}}"#,
        ),
    ] {
        let headers = [&HEADERS[..], &[("if-none-match", "*")]].concat();
        let answer = server.ask_with(&headers, method, path, body);
        assert_eq!(
            (answer.status.as_u16(), answer.header("etag")),
            (200, ""),
            "{method} {path}"
        );
    }
    let missing = ask_holding(&server, "*", "GET", "/v1/tablesdb/d/tables/t/rows/none");
    assert_eq!(missing.refusal(), "404 row_not_found");
    assert_eq!(missing.header("etag"), "");
}
