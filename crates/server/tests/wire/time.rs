//! Valid ranges in row data and reads at other times, as any client of the protocol sends them.

use serde_json::{Value, json};

use crate::fixture::{Answer, TestServer};

const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";

fn server() -> TestServer {
    let server = TestServer::start();
    server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    let table = r#"{
        "tableId": "t", "name": "T",
        "columns": [{"key": "n", "type": "integer"}]
    }"#;
    let made = server.ask("POST", "/v1/tablesdb/d/tables", table);
    assert_eq!(made.status, 201, "{}", made.text);
    server
}

fn listed(server: &TestServer, queries: &[Value]) -> Answer {
    let encode = |text: &Value| {
        let text = text.to_string();
        percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC).to_string()
    };
    let pairs = queries.iter().enumerate();
    let pairs = pairs.map(|(nth, query)| format!("queries%5B{nth}%5D={}", encode(query)));
    server.ask(
        "GET",
        &format!("{ROWS}?{}", pairs.collect::<Vec<_>>().join("&")),
        "",
    )
}

fn method(name: &str, values: Value) -> Value {
    json!({"method": name, "values": values})
}

/// The rows of an answer, each by these members.
fn shown(answer: &Answer, members: &[&str]) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    let json = answer.json();
    let rows = json["rows"].as_array().unwrap().iter();
    rows.map(|row| members.iter().map(|member| row[*member].clone()).collect())
        .collect()
}

fn create(server: &TestServer, id: &str, data: Value) -> Answer {
    server.ask(
        "POST",
        ROWS,
        &json!({"rowId": id, "data": data}).to_string(),
    )
}

#[test]
fn a_row_may_be_valid_over_any_period() {
    let server = server();
    let (from, to) = (
        "2001-01-01T00:00:00.000000+00:00",
        "2002-01-01T00:00:00.000001+00:00",
    );
    let made = create(
        &server,
        "a",
        json!({"n": 1, "$validFrom": from, "$validTo": to}),
    );
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(made.json()["$validFrom"], from);
    assert_eq!(made.json()["$validTo"], to);
    assert!(
        made.json()["$version"]
            .as_str()
            .unwrap()
            .starts_with("a@978307200000000@")
    );
    // Over today: it is in no ordinary list, and ordinary answers say nothing of time.
    assert_eq!(listed(&server, &[]).json()["total"], 0);
    let made = create(&server, "b", json!({"n": 2}));
    assert!(made.json().get("$validFrom").is_none());
    let then = listed(&server, &[method("validAt", json!([from]))]);
    let expected = json!(["a", 1, from, to]);
    assert_eq!(
        shown(&then, &["$id", "n", "$validFrom", "$validTo"]),
        [expected]
    );
    assert_eq!(
        listed(&server, &[method("validAt", json!([to]))]).json()["total"],
        0
    );
    let one = server.ask(
        "GET",
        &format!(
            "{ROWS}/a?queries[]=%7B%22method%22:%22validAt%22,%22values%22:[978307200000000]%7D"
        ),
        "",
    );
    assert_eq!(one.json()["n"], 1, "{}", one.text);
    let now = server.ask("GET", &format!("{ROWS}/a"), "");
    assert_eq!(now.refusal(), "404 row_not_found");
}

#[test]
fn versions_are_listed_with_their_times_and_paged_by_their_names() {
    let server = server();
    let year = |year: i64| format!("{year}-01-01T00:00:00.000000+00:00");
    create(&server, "a", json!({"n": 1, "$validFrom": year(2001)}));
    let patch = |data: Value| {
        let body = json!({ "data": data }).to_string();
        let changed = server.ask("PATCH", &format!("{ROWS}/a"), &body);
        assert_eq!(changed.status, 200, "{}", changed.text);
        changed
    };
    patch(json!({"n": 2, "$validFrom": year(2003), "$validTo": year(2005)}));
    let members = ["n", "$validFrom", "$validTo"];
    let pieces = listed(&server, &[method("validBetween", json!(["min", null]))]);
    let expected = [
        json!([1, year(2001), year(2003)]),
        json!([2, year(2003), year(2005)]),
        json!([1, year(2005), null]),
    ];
    assert_eq!(shown(&pieces, &members), expected);
    let versions = json!({"method": "versions"});
    let all = listed(&server, std::slice::from_ref(&versions));
    assert_eq!(all.json()["total"], 4);
    let names: Vec<Value> = shown(&all, &["$version"])
        .into_iter()
        .map(|v| v[0].clone())
        .collect();
    let ended: Vec<bool> = shown(&all, &["$systemTo"])
        .iter()
        .map(|to| !to[0].is_null())
        .collect();
    assert_eq!(ended, [true, false, false, false]);
    let mut paged = Vec::new();
    let mut queries = vec![versions.clone(), method("limit", json!([1]))];
    while paged.len() < 10 {
        let page = listed(&server, &queries);
        let Some(name) = shown(&page, &["$version"]).pop() else {
            break;
        };
        queries.truncate(2);
        queries.push(method("cursorAfter", name.clone()));
        paged.push(name[0].clone());
    }
    assert_eq!(paged, names);
    let ambiguous = listed(&server, &[versions, method("cursorAfter", json!(["a"]))]);
    assert_eq!(ambiguous.refusal(), "400 general_query_invalid");
}

#[test]
fn an_answer_named_by_its_times_never_changes() {
    let server = server();
    create(&server, "a", json!({"n": 1}));
    let before = listed(&server, &[method("validAt", json!(["2100-01-01"]))]);
    let mark = before.json()["rows"][0]["$systemFrom"].clone();
    let pinned = [method("asOf", json!([mark]))];
    let first = listed(&server, &pinned);
    assert_eq!(shown(&first, &["n"]), [json!([1])]);
    server.ask("PATCH", &format!("{ROWS}/a"), r#"{"data":{"n":2}}"#);
    server.ask("DELETE", &format!("{ROWS}/a"), "");
    assert_eq!(listed(&server, &pinned).text, first.text);
    assert_eq!(listed(&server, &[]).json()["total"], 0);
}

#[test]
fn times_that_cannot_be_are_refused() {
    let server = server();
    let refused = |data: Value| create(&server, "x", data).refusal();
    assert_eq!(
        refused(json!({"n": 1, "$validFrom": 9, "$validTo": 9})),
        "400 invalid_range"
    );
    for (key, value) in [
        ("$validFrom", json!("soon")),
        ("$validFrom", json!(1.5)),
        ("$validFrom", json!("next")),
        ("$validTo", json!([])),
    ] {
        assert_eq!(
            refused(json!({"n": 1, key: value})),
            "400 row_invalid_structure"
        );
    }
    for query in [
        method("asOf", json!([])),
        method("asOf", json!(["soon"])),
        method("validAt", json!([1, 2])),
        method("validBetween", json!([2, 1])),
        method("versions", json!([1])),
    ] {
        assert_eq!(
            listed(&server, &[query]).refusal(),
            "400 general_query_invalid"
        );
    }
    let future = listed(&server, &[method("asOf", json!(["2100-01-01"]))]);
    assert_eq!(future.refusal(), "400 future_tt");
    let twice = [method("asOf", json!([1])), method("asOf", json!([2]))];
    assert_eq!(
        listed(&server, &twice).refusal(),
        "400 general_query_invalid"
    );
    let many = r#"{"data":{"n":1,"$validFrom":5}}"#;
    let absent = server.ask("PATCH", &format!("{ROWS}/x"), many);
    assert_eq!(absent.refusal(), "404 row_not_found");
    let containers = server.ask(
        "GET",
        "/v1/tablesdb?queries[]=%7B%22method%22:%22versions%22%7D",
        "",
    );
    assert_eq!(containers.refusal(), "400 general_query_invalid");
}

#[test]
fn a_difference_across_a_change_of_columns_goes_by_column() {
    let server = server();
    create(&server, "a", json!({"n": 1}));
    create(&server, "b", json!({"n": 2}));
    let reads = "/v1/tidemark/databases/d/reads";
    let own = |read: Value| {
        let answer = server.ask("POST", reads, &read.to_string());
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()
    };
    let now = || own(json!({"kind": "get", "table": "t", "id": "a"}))["tt"].clone();
    let differing = |from: &Value| {
        let (from, to) = (json!({ "tt": from }), json!({}));
        let rows = own(json!({"kind": "diff", "table": "t", "from": from, "to": to}));
        let ids = rows["rows"].as_array().unwrap().iter();
        ids.map(|row| row["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let columns = "/v1/tablesdb/d/tables/t/columns";
    let column = |key: &str| {
        let body = json!({"key": key, "required": false}).to_string();
        let made = server.ask("POST", &format!("{columns}/integer"), &body);
        assert_eq!(made.status, 202, "{}", made.text);
    };
    let start = now();
    column("m");
    assert_eq!(differing(&start), [""; 0], "nothing is in the new column");
    let change = json!({"data": {"m": 5}}).to_string();
    server.ask("PATCH", "/v1/tablesdb/d/tables/t/rows/a", &change);
    assert_eq!(differing(&start), ["a"]);
    // A column goes and another one comes to its place, with nothing in it.
    let filled = now();
    let gone = server.ask("DELETE", &format!("{columns}/m"), "");
    assert_eq!(gone.status, 204, "{}", gone.text);
    column("o");
    assert_eq!(differing(&filled), ["a"]);
    assert_eq!(differing(&start), [""; 0]);
}

#[test]
fn a_member_that_no_route_of_time_has_is_refused_with_the_nearest_one() {
    let server = server();
    let own = "/v1/tidemark/databases/d";
    let table = format!("{own}/tables/t");
    let (transactions, reads) = (format!("{own}/transactions"), format!("{own}/reads"));
    let constraints = format!("{table}/constraints");
    let options = format!("{table}/options");
    let op = |members: Value| {
        let mut op = json!({"op": "put", "table": "t", "id": "a"});
        let members = members.as_object().unwrap().clone();
        op.as_object_mut().unwrap().extend(members);
        json!({ "ops": [op] })
    };
    for (method, path, body, wanted) in [
        (
            "POST",
            &transactions,
            op(json!({"validFrom": 5})),
            "valid_from",
        ),
        ("POST", &transactions, op(json!({"docs": {}})), "doc"),
        (
            "POST",
            &transactions,
            json!({"ops": [], "minmark": 5}),
            "minMark",
        ),
        (
            "POST",
            &reads,
            json!({"kind": "timeline", "table": "t", "where": {}}),
            "period",
        ),
        (
            "POST",
            &reads,
            json!({"kind": "get", "table": "t", "id": "a", "TT": 5}),
            "tt",
        ),
        (
            "POST",
            &reads,
            json!({"kind": "diff", "table": "t", "from": {"mark": 5}}),
            "vt",
        ),
        ("PUT", &constraints, json!({"uniq": [["n"]]}), "unique"),
        ("PATCH", &options, json!({"ttl_max": 5}), "ttlMax"),
    ] {
        let answer = server.ask(method, path, &body.to_string());
        assert_eq!(answer.refusal(), "400 general_argument_invalid", "{body}");
        let wanted = format!("`{wanted}`");
        assert!(answer.text.contains(&wanted), "{body}: {}", answer.text);
    }
    // What was shown may be sent back.
    let shown = server.ask("GET", &options, "").text;
    assert_eq!(server.ask("PATCH", &options, &shown).status, 200);
}
