//! Reads at fixed coordinates: their headers, and the options of tables.

use serde_json::{Value, json};

use crate::fixture::{Answer, Connection, KEY, PROJECT, TestServer};

const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";
const OPTIONS: &str = "/v1/tidemark/databases/d/tables/t/options";

fn server() -> TestServer {
    let server = TestServer::start();
    server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    let table = r#"{
        "tableId": "t", "name": "T", "rowSecurity": true,
        "columns": [{"key": "n", "type": "integer"}]
    }"#;
    let made = server.ask("POST", "/v1/tablesdb/d/tables", table);
    assert_eq!(made.status, 201, "{}", made.text);
    server
}

/// A row that everybody may read, and the instant of its commit.
fn create(server: &TestServer) -> String {
    let row = r#"{"rowId":"a","data":{"n":1},"permissions":["read(\"any\")"]}"#;
    assert_eq!(server.ask("POST", ROWS, row).status, 201);
    let shown = server.ask(
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

fn with(server: &TestServer, header: (&str, &str), target: &str) -> Answer {
    let headers = [
        ("x-appwrite-project", PROJECT),
        ("x-appwrite-key", KEY),
        header,
    ];
    server.ask_with(&headers, "GET", target, "")
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
    let server = server();
    let then = create(&server);
    let list = format!("{ROWS}?{}", query("asOf", json!([then])));
    let row = format!("{ROWS}/a?{}", query("asOf", json!([then])));
    for target in [&list, &row] {
        let first = server.ask("GET", target, "");
        assert_eq!(told(&first), ("miss", "private, no-cache"));
        assert!(first.header("x-appwrite-cache").is_empty());
        let second = server.ask("GET", target, "");
        assert_eq!(told(&second), ("hit", "private, no-cache"));
        assert_eq!(second.text, first.text);
        let tag = first.header("etag");
        assert_eq!(second.header("etag"), tag);
        let held = with(&server, ("if-none-match", tag), target);
        assert_eq!((held.status.as_u16(), held.text.as_str()), (304, ""));
        assert!(held.header("x-tidemark-cache").starts_with("hit"));
        let bypass = with(&server, ("x-tidemark-cache", "bypass"), target);
        assert_eq!(told(&bypass).0, "bypass");
        assert_eq!(
            (bypass.text.as_str(), bypass.header("etag")),
            (first.text.as_str(), tag)
        );
    }
    let older = server.ask(
        "GET",
        &list.replace(
            "tablesdb/d/tables/t/rows",
            "databases/d/collections/t/documents",
        ),
        "",
    );
    assert_eq!(told(&older).0, "miss", "in other words");
    let posted = json!({"queries": [json!({"method": "asOf", "values": [then]}).to_string()]});
    let posted = server.ask("POST", &format!("{ROWS}/query"), &posted.to_string());
    assert_eq!(told(&posted), ("hit", "private, no-cache"));
    // The past is judged by today: what was held is not what is seen any more.
    let tag = server.ask("GET", &list, "").header("etag").to_owned();
    let closed = server.ask("PATCH", &format!("{ROWS}/a"), r#"{"permissions":[]}"#);
    assert_eq!(closed.status, 200, "{}", closed.text);
    let fresh = with(&server, ("if-none-match", &tag), &list);
    assert_eq!(told(&fresh).0, "miss");
    assert_ne!(fresh.header("etag"), tag);
}

#[test]
fn an_owner_may_spare_clients_the_question() {
    let server = server();
    let then = create(&server);
    let list = format!("{ROWS}?{}", query("asOf", json!([then])));
    let shown = server.ask("GET", OPTIONS, "");
    let all = json!({"pinnedMaxAge": 0, "history": "keep", "past": "keys", "ttlMax": 86_400,
        "keptFrom": null});
    assert_eq!(shown.json(), all);
    let set = server.ask("PATCH", OPTIONS, r#"{"pinnedMaxAge":600}"#);
    assert_eq!(set.status, 200, "{}", set.text);
    assert_eq!(set.json()["pinnedMaxAge"], 600);
    assert_eq!(set.json()["history"], "keep");
    let immutable = "private, max-age=600, immutable";
    let first = server.ask("GET", &list, "");
    assert_eq!(told(&first).1, immutable);
    let held = with(&server, ("if-none-match", first.header("etag")), &list);
    assert_eq!(
        (held.status.as_u16(), held.header("cache-control")),
        (304, immutable)
    );
    for now in [
        "",
        &query("validAt", json!([then])),
        &query("versions", json!([])),
    ] {
        let answer = server.ask("GET", &format!("{ROWS}?{now}"), "");
        assert_eq!(told(&answer).1, "private, no-cache", "{now}");
    }
    let day = server.ask("PATCH", OPTIONS, r#"{"history":"days(1)"}"#);
    assert_eq!(day.json()["pinnedMaxAge"], 600);
    assert!(
        day.json()["keptFrom"].as_str().unwrap().ends_with("+00:00"),
        "{}",
        day.text
    );
    let below = server.ask(
        "GET",
        &format!("{ROWS}?{}", query("asOf", json!(["2001-01-01"]))),
        "",
    );
    assert_eq!(below.refusal(), "410 history_gone");
    assert_eq!(below.header("cache-control"), "private, no-cache");
    let pieces = r#"{"kind":"get","table":"t","id":"a","tt":5}"#;
    let pieces = server.ask("POST", "/v1/tidemark/databases/d/reads", pieces);
    assert_eq!(pieces.refusal(), "410 history_gone");
    let kept = server.ask("GET", &list, "");
    assert_eq!(kept.status, 200, "{}", kept.text);
}

#[test]
fn options_and_grants_of_then_that_cannot_be_are_refused() {
    let server = server();
    let then = create(&server);
    for wrong in [
        r#"{"pinnedMaxAge":-1}"#,
        r#"{"pinnedMaxAge":31536001}"#,
        r#"{"pinnedMaxAge":"soon"}"#,
        r#"{"ttlMax":-1}"#,
        r#"{"ttlMax":86401}"#,
        r#"{"ttlMax":"long"}"#,
        r#"{"history":"forever"}"#,
        r#"{"history":"days(0)"}"#,
        r#"{"history":7}"#,
    ] {
        let refused = server.ask("PATCH", OPTIONS, wrong);
        assert_eq!(refused.refusal(), "400 general_argument_invalid", "{wrong}");
    }
    let absent = OPTIONS.replace("/t/", "/x/");
    assert_eq!(
        server.ask("GET", &absent, "").refusal(),
        "404 table_not_found"
    );
    assert_eq!(
        server.ask("PATCH", &absent, "{}").refusal(),
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
        assert_eq!(
            server.ask("GET", &target, "").refusal(),
            refusal,
            "{target}"
        );
    }
    for target in [format!("{ROWS}?{as_of}"), format!("{ROWS}/a?{as_of}")] {
        for judged in ["now", "as-of"] {
            let answer = server.ask("GET", &format!("{target}&permissions={judged}"), "");
            assert_eq!(answer.status, 200, "{}", answer.text);
        }
    }
}

const AS_KEY: [(&str, &str); 2] = [("x-appwrite-project", PROJECT), ("x-appwrite-key", KEY)];
const AS_GUEST: [(&str, &str); 1] = [("x-appwrite-project", PROJECT)];

/// Asks so often that the thread of this connection knows the question, each time beside one that
/// goes the long way, and gives the status.
#[track_caller]
fn repeat(connection: &mut Connection<'_>, caller: &[(&str, &str)], target: &str) -> u16 {
    let long = [caller, &[("x-tidemark-min-mark", "0")]].concat();
    let long = [&long[..], &[("x-tidemark-cache", "bypass")]].concat();
    let mut status = 0;
    for _ in 0..4 {
        let answer = connection.ask(caller, "GET", target, "").unwrap();
        let expected = connection.ask(&long, "GET", target, "").unwrap();
        let said = |answer: &Answer| {
            let names = answer.headers.keys().map(ToString::to_string);
            let mut names: Vec<String> = names.collect();
            names.sort_unstable();
            let values = ["etag", "content-type", "vary", "cache-control"];
            let values = values.map(|name| answer.header(name).to_owned());
            (answer.status.as_u16(), answer.text.clone(), names, values)
        };
        assert_eq!(said(&answer), said(&expected), "{target}");
        status = answer.status.as_u16();
    }
    status
}

#[test]
fn rows_of_the_past_are_the_same_however_often_they_are_asked_for() {
    let server = server();
    let then = create(&server);
    let opened = server.ask("PATCH", OPTIONS, r#"{"past":"now"}"#);
    assert_eq!(opened.status, 200, "{}", opened.text);
    let open = r#"{"rowId":"b","data":{"n":2},"permissions":["read(\"any\")"]}"#;
    assert_eq!(server.ask("POST", ROWS, open).status, 201);
    let hidden = r#"{"rowId":"c","data":{"n":3},"permissions":[]}"#;
    assert_eq!(server.ask("POST", ROWS, hidden).status, 201);
    let changed = server.ask("PATCH", &format!("{ROWS}/b"), r#"{"data":{"n":20}}"#);
    assert_eq!(changed.status, 200, "{}", changed.text);
    let mark = changed.header("x-tidemark-mark").parse::<i64>().unwrap();
    let before = query("asOf", json!([mark - 1]));
    let mut connection = server.connect();
    let row = |id: &str, queries: &[&str]| format!("{ROWS}/{id}?{}", queries.join("&"));
    let select = query("select", json!(["n"]));
    let ask = |connection: &mut Connection<'_>| {
        let mut statuses = Vec::new();
        for id in ["a", "b", "c", "nobody", "not%20an%20id"] {
            for queries in [
                &[&before[..]][..],
                &[&before, &select],
                &[&query("asOf", json!([then]))],
            ] {
                for caller in [&AS_KEY[..], &AS_GUEST] {
                    statuses.push(repeat(connection, caller, &row(id, queries)));
                }
            }
        }
        statuses
    };
    assert_eq!(
        ask(&mut connection),
        [
            [200, 200, 200, 200, 200, 200],
            [200, 200, 200, 200, 404, 404],
            [200, 404, 200, 404, 404, 404],
            [404, 404, 404, 404, 404, 404],
            [400, 400, 400, 400, 400, 400],
        ]
        .concat()
    );
    let shown = connection
        .ask(&AS_KEY, "GET", &row("b", &[&before]), "")
        .unwrap();
    assert_eq!(shown.json()["n"], 2);
    // Grants, names, and what is there at all are those of today.
    let closed = server.ask("PATCH", &format!("{ROWS}/b"), r#"{"permissions":[]}"#);
    assert_eq!(closed.status, 200, "{}", closed.text);
    assert_eq!(ask(&mut connection)[6..10], [200, 404, 200, 404]);
    let column = r#"{"key":"m","required":false,"default":7}"#;
    let columns = "/v1/tablesdb/d/tables/t/columns";
    let made = server.ask("POST", &format!("{columns}/integer"), column);
    assert_eq!(made.status, 202, "{}", made.text);
    assert_eq!(ask(&mut connection)[6..10], [200, 404, 200, 404]);
    let erase = json!({"ops": [{"op": "erase", "table": "t", "id": "b"}]}).to_string();
    let erased = server.ask("POST", "/v1/tidemark/databases/d/transactions", &erase);
    assert_eq!(erased.status, 201, "{}", erased.text);
    assert_eq!(ask(&mut connection)[6..10], [404; 4]);
}
