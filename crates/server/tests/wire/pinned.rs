//! Reads at fixed coordinates: their headers, and the options of tables.

use serde_json::{Value, json};

use crate::site::{Answer, KEY, PROJECT, Site};

const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";
const OPTIONS: &str = "/v1/tidemark/databases/d/tables/t/options";

fn site() -> Site {
    let site = Site::start();
    site.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    let table = r#"{
        "tableId": "t", "name": "T", "rowSecurity": true,
        "columns": [{"key": "n", "type": "integer"}]
    }"#;
    let made = site.ask("POST", "/v1/tablesdb/d/tables", table);
    assert_eq!(made.status, 201, "{}", made.text);
    site
}

/// A row that everybody may read, and the instant of its commit.
fn create(site: &Site) -> String {
    let row = r#"{"rowId":"a","data":{"n":1},"permissions":["read(\"any\")"]}"#;
    assert_eq!(site.ask("POST", ROWS, row).status, 201);
    let shown = site.ask(
        "GET",
        &format!("{ROWS}?{}", query("versions", json!([]))),
        "",
    );
    shown.json()["rows"][0]["$systemFrom"]
        .as_str()
        .unwrap()
        .to_owned()
}

fn query(method: &str, values: Value) -> String {
    let text = json!({"method": method, "values": values}).to_string();
    let text = percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC);
    format!("queries[]={text}")
}

fn with(site: &Site, header: (&str, &str), target: &str) -> Answer {
    let headers = [
        ("x-appwrite-project", PROJECT),
        ("x-appwrite-key", KEY),
        header,
    ];
    site.ask_with(&headers, "GET", target, "")
}

#[track_caller]
fn told(answer: &Answer) -> (&str, &str) {
    assert_eq!(answer.status, 200, "{}", answer.text);
    let outcome = answer.header("x-tidemark-cache");
    let outcome = outcome.split(';').next().unwrap();
    (outcome, answer.header("cache-control"))
}

#[test]
fn pinned_lists_and_rows_are_cached_and_may_be_held() {
    let site = site();
    let then = create(&site);
    let list = format!("{ROWS}?{}", query("asOf", json!([then])));
    let row = format!("{ROWS}/a?{}", query("asOf", json!([then])));
    for target in [&list, &row] {
        let first = site.ask("GET", target, "");
        assert_eq!(told(&first), ("miss", "private, no-cache"));
        assert!(first.header("x-appwrite-cache").is_empty());
        let second = site.ask("GET", target, "");
        assert_eq!(told(&second), ("hit", "private, no-cache"));
        assert_eq!(second.text, first.text);
        let tag = first.header("etag");
        assert_eq!(second.header("etag"), tag);
        let held = with(&site, ("if-none-match", tag), target);
        assert_eq!((held.status.as_u16(), held.text.as_str()), (304, ""));
        assert!(held.header("x-tidemark-cache").starts_with("hit"));
        let bypass = with(&site, ("x-tidemark-cache", "bypass"), target);
        assert_eq!(told(&bypass).0, "bypass");
        assert_eq!(
            (bypass.text.as_str(), bypass.header("etag")),
            (first.text.as_str(), tag)
        );
    }
    let older = site.ask(
        "GET",
        &list.replace(
            "tablesdb/d/tables/t/rows",
            "databases/d/collections/t/documents",
        ),
        "",
    );
    assert_eq!(told(&older).0, "miss", "in other words");
    let posted = json!({"queries": [json!({"method": "asOf", "values": [then]}).to_string()]});
    let posted = site.ask("POST", &format!("{ROWS}/query"), &posted.to_string());
    assert_eq!(told(&posted), ("hit", "private, no-cache"));
    // The past is judged by today: what was held is not what is seen any more.
    let tag = site.ask("GET", &list, "").header("etag").to_owned();
    let closed = site.ask("PATCH", &format!("{ROWS}/a"), r#"{"permissions":[]}"#);
    assert_eq!(closed.status, 200, "{}", closed.text);
    let fresh = with(&site, ("if-none-match", &tag), &list);
    assert_eq!(told(&fresh).0, "miss");
    assert_ne!(fresh.header("etag"), tag);
}

#[test]
fn an_owner_may_spare_clients_the_question() {
    let site = site();
    let then = create(&site);
    let list = format!("{ROWS}?{}", query("asOf", json!([then])));
    let shown = site.ask("GET", OPTIONS, "");
    let all = json!({"pinnedMaxAge": 0, "history": "keep", "keptFrom": null});
    assert_eq!(shown.json(), all);
    let set = site.ask("PATCH", OPTIONS, r#"{"pinnedMaxAge":600}"#);
    assert_eq!(set.status, 200, "{}", set.text);
    assert_eq!(set.json()["pinnedMaxAge"], 600);
    assert_eq!(set.json()["history"], "keep");
    let immutable = "private, max-age=600, immutable";
    let first = site.ask("GET", &list, "");
    assert_eq!(told(&first).1, immutable);
    let held = with(&site, ("if-none-match", first.header("etag")), &list);
    assert_eq!(
        (held.status.as_u16(), held.header("cache-control")),
        (304, immutable)
    );
    for now in [
        "",
        &query("validAt", json!([then])),
        &query("versions", json!([])),
    ] {
        let answer = site.ask("GET", &format!("{ROWS}?{now}"), "");
        assert_eq!(told(&answer).1, "private, no-cache", "{now}");
    }
    let day = site.ask("PATCH", OPTIONS, r#"{"history":"days(1)"}"#);
    assert_eq!(day.json()["pinnedMaxAge"], 600);
    assert!(
        day.json()["keptFrom"].as_str().unwrap().ends_with("+00:00"),
        "{}",
        day.text
    );
    let below = site.ask(
        "GET",
        &format!("{ROWS}?{}", query("asOf", json!(["2001-01-01"]))),
        "",
    );
    assert_eq!(below.refusal(), "410 history_gone");
    assert_eq!(below.header("cache-control"), "private, no-cache");
    let pieces = r#"{"kind":"get","table":"t","id":"a","tt":5}"#;
    let pieces = site.ask("POST", "/v1/tidemark/databases/d/reads", pieces);
    assert_eq!(pieces.refusal(), "410 history_gone");
    let kept = site.ask("GET", &list, "");
    assert_eq!(kept.status, 200, "{}", kept.text);
}

#[test]
fn options_and_grants_of_then_that_cannot_be_are_refused() {
    let site = site();
    let then = create(&site);
    for wrong in [
        r#"{"pinnedMaxAge":-1}"#,
        r#"{"pinnedMaxAge":31536001}"#,
        r#"{"pinnedMaxAge":"soon"}"#,
        r#"{"history":"forever"}"#,
        r#"{"history":"days(0)"}"#,
        r#"{"history":7}"#,
    ] {
        let refused = site.ask("PATCH", OPTIONS, wrong);
        assert_eq!(refused.refusal(), "400 general_argument_invalid", "{wrong}");
    }
    let absent = OPTIONS.replace("/t/", "/x/");
    assert_eq!(
        site.ask("GET", &absent, "").refusal(),
        "404 table_not_found"
    );
    assert_eq!(
        site.ask("PATCH", &absent, "{}").refusal(),
        "404 table_not_found"
    );
    let as_of = query("asOf", json!([then]));
    for (target, refusal) in [
        (
            format!("{ROWS}?{as_of}&permissions=then"),
            "400 general_argument_invalid",
        ),
        (
            format!("{ROWS}?permissions=as-of"),
            "400 general_argument_invalid",
        ),
        (
            format!("{ROWS}/a?permissions=as-of"),
            "400 general_argument_invalid",
        ),
        (
            format!("{ROWS}?{as_of}&permissions=as-of&transactionId=x"),
            "400 general_argument_invalid",
        ),
        (
            format!("{ROWS}/a?{as_of}&permissions=as-of&transactionId=x"),
            "400 general_argument_invalid",
        ),
    ] {
        assert_eq!(site.ask("GET", &target, "").refusal(), refusal, "{target}");
    }
    for target in [format!("{ROWS}?{as_of}"), format!("{ROWS}/a?{as_of}")] {
        for judged in ["now", "as-of"] {
            let answer = site.ask("GET", &format!("{target}&permissions={judged}"), "");
            assert_eq!(answer.status, 200, "{}", answer.text);
        }
    }
}
