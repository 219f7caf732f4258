//! Rows: their life, their lists, the cache header, their refusals.

use crate::fixture::{Answer, KEY, PROJECT, TestServer};
use serde_json::{Value, json};

const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";
const DOCUMENTS: &str = "/v1/databases/d/collections/t/documents";

fn server() -> TestServer {
    let server = TestServer::start();
    server.hold_ages();
    server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    let table = r#"{
        "tableId": "t", "name": "T", "permissions": ["read(\"any\")", "create(\"any\")"],
        "columns": [
            {"key": "name", "type": "varchar", "size": 64, "required": true},
            {"key": "n", "type": "integer"},
            {"key": "price", "type": "double"},
            {"key": "tags", "type": "text", "array": true},
            {"key": "at", "type": "datetime"}
        ]
    }"#;
    let made = server.ask("POST", "/v1/tablesdb/d/tables", table);
    assert_eq!(made.status, 201, "{}", made.text);
    server
}

fn create(server: &TestServer, id: &str, n: i64) -> Answer {
    let made = server.ask(
        "POST",
        ROWS,
        &format!(r#"{{"rowId":"{id}","data":{{"name":"x","n":{n}}}}}"#),
    );
    assert_eq!(made.status, 201, "{}", made.text);
    made
}

/// A list's path with these query texts and parameters.
fn listing(base: &str, queries: &[&str], more: &str) -> String {
    let encode = |text: &str| {
        percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
    };
    let pairs = queries.iter().enumerate();
    let pairs = pairs.map(|(nth, query)| format!("queries%5B{nth}%5D={}", encode(query)));
    format!("{base}?{}&{more}", pairs.collect::<Vec<_>>().join("&"))
}

fn ids(answer: &Answer, key: &str) -> Vec<String> {
    let json = answer.json();
    let rows = json[key]
        .as_array()
        .unwrap_or_else(|| panic!("{}", answer.text))
        .iter();
    rows.map(|row| row["$id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_row_carries_system_fields_nulls_and_empty_arrays() {
    let server = server();
    let data = r#"{"rowId":"r","data":{"name":"\"Ä\"","price":0.1,"at":"2026-01-02T03:04:05Z"},
        "permissions":["read(\"any\")","write(\"users\")"]}"#;
    let made = server.ask("POST", ROWS, data);
    assert_eq!(made.status, 201, "{}", made.text);
    let row = made.json();
    assert_eq!(row["$id"], "r");
    assert!(row["$sequence"].is_string());
    assert_eq!(row["$permissions"].as_array().unwrap().len(), 3);
    assert_eq!(
        (&row["$databaseId"], &row["$tableId"]),
        (&json!("d"), &json!("t"))
    );
    assert_eq!(
        (&row["name"], &row["price"]),
        (&json!("\"Ä\""), &json!(0.1))
    );
    assert_eq!((&row["n"], &row["tags"]), (&Value::Null, &json!([])));
    assert_eq!(row["at"], "2026-01-02T03:04:05.000+00:00");
    assert_eq!(server.ask("GET", &format!("{ROWS}/r"), "").json(), row);
    let older = server.ask("GET", &format!("{DOCUMENTS}/r"), "").json();
    assert_eq!(
        (&older["$collectionId"], older.get("$tableId")),
        (&json!("t"), None)
    );
    let list = server.ask("GET", ROWS, "").json();
    assert_eq!(list, json!({"total": 1, "rows": [row]}));
}

#[test]
fn a_row_lives_by_the_words_of_the_older_family() {
    let server = server();
    let made = server.ask(
        "POST",
        DOCUMENTS,
        r#"{"documentId":"r","data":{"name":"a"}}"#,
    );
    assert_eq!(made.status, 201, "{}", made.text);
    let path = format!("{DOCUMENTS}/r");
    assert_eq!(
        server.ask("PATCH", &path, r#"{"data":{"n":1}}"#).json()["n"],
        1
    );
    assert_eq!(
        server.ask("PUT", &path, r#"{"data":{"n":2}}"#).json()["name"],
        "a"
    );
    let many = server.ask(
        "POST",
        DOCUMENTS,
        r#"{"documents":[{"$id":"s","name":"b"}]}"#,
    );
    assert_eq!(
        (many.status.as_u16(), ids(&many, "documents")),
        (201, vec!["s".into()])
    );
    let query = r#"{"queries":["{\"method\":\"orderDesc\",\"attribute\":\"$id\"}"]}"#;
    let list = server.ask("POST", &format!("{DOCUMENTS}/query"), query);
    assert_eq!(ids(&list, "documents"), ["s", "r"]);
    assert_eq!(server.ask("DELETE", &path, "{}").status, 204);
    assert_eq!(
        server.ask("GET", &path, "").refusal(),
        "404 document_not_found"
    );
}

#[test]
fn update_merges_and_upsert_creates_or_merges() {
    let server = server();
    create(&server, "r", 1);
    let path = format!("{ROWS}/r");
    let changed = server.ask("PATCH", &path, r#"{"data":"{\"n\":2}"}"#);
    assert_eq!(
        (changed.status.as_u16(), &changed.json()["n"]),
        (200, &json!(2))
    );
    let granted = server.ask("PATCH", &path, r#"{"permissions":["read(\"any\")"]}"#);
    assert_eq!(granted.json()["$permissions"], json!(["read(\"any\")"]));
    let made = server.ask("PUT", &format!("{ROWS}/new"), r#"{"data":{"name":"y"}}"#);
    assert_eq!(
        (made.status.as_u16(), &made.json()["name"]),
        (200, &json!("y"))
    );
    assert_eq!(
        server.ask("PATCH", &path, "{}").refusal(),
        "400 row_missing_payload"
    );
    assert_eq!(
        server.ask("PUT", &path, r#"{"data":{}}"#).refusal(),
        "400 row_missing_payload"
    );
}

#[test]
fn deleting_answers_without_json_and_reads_a_body() {
    let server = server();
    create(&server, "r", 1);
    let gone = server.ask("DELETE", &format!("{ROWS}/r"), "{}");
    assert_eq!((gone.status.as_u16(), gone.text.as_str()), (204, ""));
    assert_eq!(gone.header("content-type"), "text/plain; charset=UTF-8");
    assert_eq!(
        server.ask("DELETE", &format!("{ROWS}/r"), "").refusal(),
        "404 row_not_found"
    );
}

#[test]
fn many_rows_are_made_together_and_named_where_they_have_no_id() {
    let server = server();
    let made = server.ask(
        "POST",
        ROWS,
        r#"{"rows":[{"$id":"a","name":"x","$permissions":["read(\"any\")"]},{"name":"y"},{"$id":"unique()","name":"z"}]}"#,
    );
    assert_eq!(made.status, 201, "{}", made.text);
    let ids = ids(&made, "rows");
    assert_eq!(
        (made.json()["total"].as_i64(), ids[0].as_str()),
        (Some(3), "a")
    );
    assert!(ids[1].len() == 20 && ids[2].len() == 20 && ids[1] != ids[2]);
    assert_eq!(
        made.json()["rows"][0]["$permissions"],
        json!(["read(\"any\")"])
    );
}

/// Bodies of a creation, with their refusals.
#[rustfmt::skip]
const REFUSED_CREATIONS: &[(&str, &str)] = &[
    ("{}", "400 row_missing_data"),
    ("", "400 row_missing_data"),
    (r#"{"rowId":"x"}"#, "400 row_missing_data"),
    (r#"{"rowId":"x","data":{}}"#, "400 row_missing_data"),
    (r#"{"data":{"name":"x"}}"#, "400 row_missing_data"),
    (r#"{"rows":[]}"#, "400 row_missing_data"),
    (r#"{"rowId":"x","data":{"name":"x"},"rows":[{"name":"y"}]}"#, "400 general_bad_request"),
    (r#"{"rowId":"x","rows":[{"name":"y"}]}"#, "400 general_bad_request"),
    (r#"{"permissions":[],"rows":[{"name":"y"}]}"#, "400 general_bad_request"),
    (r#"{"rowId":"x","data":[1]}"#, "400 general_argument_invalid"),
    (r#"{"rowId":"x","data":"{"}"#, "400 general_argument_invalid"),
    (r#"{"rowId":"-x","data":{"name":"x"}}"#, "400 general_argument_invalid"),
    (r#"{"rowId":7,"data":{"name":"x"}}"#, "400 general_argument_invalid"),
    (r#"{"rows":[5]}"#, "400 general_argument_invalid"),
    (r#"{"rows":[{"$id":5,"name":"x"}]}"#, "400 general_argument_invalid"),
    (r#"{"rowId":"x","data":{"colour":1}}"#, "400 row_invalid_structure"),
    (r#"{"rowId":"x","data":{"name":"x"},"transactionId":"t"}"#, "404 transaction_not_found"),
];

#[test]
fn a_creation_is_one_row_or_many() {
    let server = server();
    for (body, refusal) in REFUSED_CREATIONS {
        let answer = server.ask("POST", ROWS, body);
        assert_eq!(answer.refusal(), *refusal, "{body} {}", answer.text);
    }
}

#[test]
fn a_hundred_rows_are_made_at_once_and_one_more_is_not() {
    let server = server();
    let ask = |count: usize| {
        let row = |n| format!(r#"{{"$id":"b{n}","name":"x"}}"#);
        let rows = (0..count).map(row).collect::<Vec<_>>().join(",");
        server
            .ask("POST", ROWS, &format!(r#"{{"rows":[{rows}]}}"#))
            .refusal()
    };
    assert_eq!(ask(101), "400 general_argument_invalid");
    assert_eq!(ask(100), "201");
    assert_eq!(ask(100), "409 row_already_exists");
}

#[test]
fn a_guest_makes_one_row_but_not_many() {
    let server = server();
    let many = server.ask_as(None, "POST", ROWS, r#"{"rows":[{"name":"x"}]}"#);
    assert_eq!(many.refusal(), "401 general_unauthorized_scope");
    let body = r#"{"rowId":"unique()","data":{"name":"x"}}"#;
    let one = server.ask_as(None, "POST", ROWS, body);
    assert_eq!(one.status, 201, "{}", one.text);
    assert_eq!(one.json()["$id"].as_str().unwrap().len(), 20);
}

#[test]
fn integers_are_neither_rounded_nor_quoted() {
    let server = server();
    for (sent, refusal) in [
        ("9223372036854775807", "201"),
        ("-9223372036854775808", "201"),
        ("9223372036854775808", "400 row_invalid_structure"),
        ("12345678901234567890123", "400 row_invalid_structure"),
        ("1.0", "400 row_invalid_structure"),
    ] {
        let body = format!(r#"{{"rowId":"unique()","data":{{"name":"x","n":{sent}}}}}"#);
        let answer = server.ask("POST", ROWS, &body);
        assert_eq!(answer.refusal(), refusal, "{sent} {}", answer.text);
        if refusal == "201" {
            assert!(
                answer.text.contains(&format!(r#""n":{sent}"#)),
                "{}",
                answer.text
            );
        }
    }
}

#[test]
fn lists_filter_order_page_select_and_count() {
    let server = server();
    for n in 0..5 {
        create(&server, &format!("r{n}"), n);
    }
    let above = r#"{"method":"greaterThan","attribute":"n","values":[1]}"#;
    let down = r#"{"method":"orderDesc","attribute":"n"}"#;
    let two = r#"{"method":"limit","values":[2]}"#;
    let after = r#"{"method":"cursorAfter","values":["r4"]}"#;
    let list = server.ask("GET", &listing(ROWS, &[above, down, two], ""), "");
    assert_eq!(
        (ids(&list, "rows"), &list.json()["total"]),
        (vec!["r4".into(), "r3".into()], &json!(3))
    );
    let list = server.ask("GET", &listing(ROWS, &[above, down, after], "total=0"), "");
    assert_eq!(
        (ids(&list, "rows"), &list.json()["total"]),
        (vec!["r3".into(), "r2".into()], &json!(0))
    );
    let select = r#"{"method":"select","values":["n"]}"#;
    let list = server
        .ask("GET", &listing(ROWS, &[select, two], ""), "")
        .json();
    assert_eq!(
        list["rows"][1],
        json!({"$databaseId":"d","$tableId":"t","n":1})
    );
    let one = server
        .ask("GET", &listing(&format!("{ROWS}/r3"), &[select], ""), "")
        .json();
    assert_eq!(one, json!({"$databaseId":"d","$tableId":"t","n":3}));
}

#[test]
fn a_list_that_cannot_be_answered_says_why() {
    let server = server();
    let equal = r#"{"method":"equal","attribute":"colour","values":["red"]}"#;
    for (path, refusal) in [
        (
            listing(ROWS, &["nonsense"], ""),
            "400 general_query_invalid",
        ),
        (listing(ROWS, &[equal], ""), "400 general_query_invalid"),
        (
            listing(ROWS, &[r#"{"method":"cursorAfter","values":["z"]}"#], ""),
            "400 general_cursor_not_found",
        ),
        (listing(ROWS, &[], "ttl=-1"), "400 general_argument_invalid"),
        (
            listing(ROWS, &[], "ttl=86401"),
            "400 general_argument_invalid",
        ),
        (listing(ROWS, &[], "ttl=x"), "400 general_argument_invalid"),
        (
            listing(ROWS, &[], "total=x"),
            "400 general_argument_invalid",
        ),
        (
            listing(ROWS, &[equal; 101], ""),
            "400 general_argument_invalid",
        ),
        (
            listing(ROWS, &[], "transactionId=t"),
            "404 transaction_not_found",
        ),
        ("/v1/tablesdb/d/tables/z/rows".into(), "404 table_not_found"),
        (
            "/v1/databases/d/collections/z/documents".into(),
            "404 collection_not_found",
        ),
        (
            "/v1/tablesdb/z/tables/t/rows".into(),
            "404 database_not_found",
        ),
    ] {
        let answer = server.ask("GET", &path, "");
        assert_eq!(
            answer.refusal(),
            refusal,
            "{path:.200} {:.200}",
            answer.text
        );
    }
    let said = server
        .ask("GET", &listing(ROWS, &["nonsense"], ""), "")
        .json();
    assert_eq!(said["message"], "Invalid query: Syntax error");
    let detail = said["detail"].as_str().unwrap();
    let place = "`queries[0]` is not JSON: expected ident at line 1, column 2.";
    assert!(detail.starts_with(place), "{detail}");
}

fn cache(answer: &Answer) -> &str {
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.header("x-appwrite-cache")
}

/// What the header says, without the mark.
fn told(answer: &Answer) -> String {
    let header = answer.header("x-tidemark-cache");
    let parts: Vec<&str> = header.split("; ").collect();
    let mark = parts[1].strip_prefix("mark=").unwrap();
    assert!(mark.parse::<i64>().unwrap() > 0, "{header}");
    [&parts[..1], &parts[2..]].concat().join("; ")
}

#[test]
fn a_list_without_ttl_is_cached_and_never_old() {
    let server = server();
    create(&server, "r", 1);
    let get = || server.ask("GET", &listing(ROWS, &[], ""), "");
    let (first, second) = (get(), get());
    assert_eq!([told(&first), told(&second)], ["miss; age=0", "hit; age=0"]);
    assert_eq!((&first.text, cache(&second)), (&second.text, ""));
    assert_eq!(first.header("etag"), second.header("etag"));
    let uncounted = server.ask("GET", &listing(ROWS, &[], "total=false"), "");
    assert_eq!(told(&uncounted), "hit; age=0");
    assert_eq!(uncounted.json()["total"], 0);
    let by_body = server.ask("POST", &format!("{ROWS}/query"), r#"{"queries":[]}"#);
    assert_eq!(
        (told(&by_body), by_body.text),
        ("hit; age=0".into(), second.text)
    );
    create(&server, "s", 2);
    let third = get();
    assert_eq!(
        (told(&third), ids(&third, "rows").len()),
        ("miss; age=0".into(), 2)
    );
    let random = [r#"{"method":"orderRandom"}"#];
    for _ in 0..2 {
        let answer = server.ask("GET", &listing(ROWS, &random, ""), "");
        assert_eq!(told(&answer), "bypass; age=0");
    }
}

#[test]
fn a_key_may_ask_around_the_cache_and_a_guest_may_not() {
    let server = server();
    create(&server, "r", 1);
    server.ask("GET", ROWS, "");
    let ask = |more: &[(&str, &str)], path: &str| {
        let mut headers = vec![("x-appwrite-project", PROJECT)];
        headers.extend_from_slice(more);
        server.ask_with(&headers, "GET", path, "")
    };
    let around = ("x-tidemark-cache", "bypass");
    let key = ("x-appwrite-key", KEY);
    let within_ttl = listing(ROWS, &[], "ttl=60");
    assert_eq!(told(&ask(&[key, around], ROWS)), "bypass; age=0");
    assert_eq!(told(&ask(&[key, around], &within_ttl)), "bypass; age=0");
    assert_eq!(told(&ask(&[key], ROWS)), "hit; age=0");
    assert_eq!(told(&ask(&[around], ROWS)), "hit; age=0");
    assert_eq!(
        told(&ask(&[key, ("x-tidemark-cache", "x")], ROWS)),
        "hit; age=0"
    );
    assert_eq!(
        told(&ask(&[key, ("cache-control", "no-cache")], ROWS)),
        "hit; age=0"
    );
}

#[test]
fn an_answer_within_a_ttl_says_whether_it_may_be_old() {
    let server = server();
    create(&server, "r", 1);
    let path = listing(ROWS, &[], "ttl=60");
    let get = || told(&server.ask("GET", &path, ""));
    assert_eq!(get(), "miss; age=0; stale=false");
    assert_eq!(get(), "hit; age=0; stale=false");
    create(&server, "s", 2);
    assert_eq!(get(), "hit; age=0; stale=true");
    let other = r#"{"method":"equal","attribute":"n","values":[7]}"#;
    let other = listing(ROWS, &[other], "ttl=60");
    server.ask("GET", &other, "");
    create(&server, "t", 3);
    assert_eq!(
        told(&server.ask("GET", &other, "")),
        "hit; age=0; stale=false"
    );
}

#[test]
fn the_cache_header_follows_the_readers_ttl() {
    let server = server();
    create(&server, "r", 1);
    let path = |more: &str| listing(ROWS, &[], more);
    assert_eq!(cache(&server.ask("GET", &path("ttl=0"), "")), "");
    let first = server.ask("GET", &path("ttl=60"), "");
    let second = server.ask("GET", &path("ttl=60"), "");
    assert_eq!((cache(&first), cache(&second)), ("miss", "hit"));
    assert_eq!(first.text, second.text);
    assert!(second.header("x-tidemark-cache").starts_with("hit; mark="));
    let uncounted = server.ask("GET", &path("ttl=60&total=false"), "");
    assert_eq!(
        (cache(&uncounted), &uncounted.json()["total"]),
        ("hit", &json!(0))
    );
    let select = r#"{"method":"select","values":["name"]}"#;
    assert_eq!(
        cache(&server.ask("GET", &listing(ROWS, &[select], "ttl=60"), "")),
        "miss"
    );
    let body = r#"{"queries":[],"ttl":60}"#;
    assert_eq!(
        cache(&server.ask("POST", &format!("{ROWS}/query"), body)),
        "hit"
    );
}

#[test]
fn a_cached_list_outlives_writes_and_updates_and_ends_with_a_purge() {
    let server = server();
    create(&server, "r", 1);
    let path = listing(ROWS, &[], "ttl=60");
    assert_eq!(cache(&server.ask("GET", &path, "")), "miss");
    create(&server, "s", 2);
    let kept = server.ask("GET", &path, "");
    assert_eq!((cache(&kept), ids(&kept, "rows").len()), ("hit", 1));
    server.ask("PUT", "/v1/tablesdb/d/tables/t", r#"{"name":"Other"}"#);
    assert_eq!(cache(&server.ask("GET", &path, "")), "hit");
    server.ask("PUT", "/v1/tablesdb/d/tables/t", r#"{"purge":true}"#);
    let fresh = server.ask("GET", &path, "");
    assert_eq!((cache(&fresh), ids(&fresh, "rows").len()), ("miss", 2));
}

#[test]
fn the_families_do_not_share_bytes() {
    let server = server();
    create(&server, "r", 1);
    server.ask("GET", &listing(ROWS, &[], "ttl=60"), "");
    let older = server.ask("GET", &listing(DOCUMENTS, &[], "ttl=60"), "");
    assert_eq!(older.json()["documents"][0]["$collectionId"], "t");
    assert_eq!(older.json().get("rows"), None);
}

#[test]
fn a_head_of_a_list_has_the_length_of_its_body() {
    let server = server();
    create(&server, "r", 1);
    let get = server.ask("GET", ROWS, "");
    let head = server.ask("HEAD", ROWS, "");
    assert_eq!(head.header("content-length"), get.text.len().to_string());
    assert_eq!(head.text, "");
}
