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
            json!({"kind": "timeline", "table": "t", "periods": {}}),
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

/// Three rows: one that ends, one that began long ago, one from now on.
fn with_ends() -> TestServer {
    let server = server();
    let ends = json!({"n": 1, "$validFrom": "2001-01-01", "$validTo": "2100-01-01"});
    assert_eq!(create(&server, "ends", ends).status, 201);
    let old = json!({"n": 2, "$validFrom": "min"});
    assert_eq!(create(&server, "old", old).status, 201);
    assert_eq!(create(&server, "new", json!({"n": 3})).status, 201);
    server
}

fn about(name: &str, field: &str, values: Value) -> Value {
    json!({"method": name, "attribute": field, "values": values})
}

#[test]
fn ends_of_rows_are_filtered_and_ordered_by() {
    let server = with_ends();
    let ids = |queries: &[Value]| -> Vec<Value> {
        let rows = shown(&listed(&server, queries), &["$id"]);
        rows.into_iter().map(|row| row[0].clone()).collect()
    };
    let known = listed(&server, &[method("validAt", json!(["2050-01-01"]))]);
    let since = known.json()["rows"][1]["$systemFrom"].clone();
    for (query, rows) in [
        (about("isNull", "$validTo", json!([])), vec!["old", "new"]),
        (about("isNotNull", "$validTo", json!([])), vec!["ends"]),
        (
            about("lessThan", "$validTo", json!(["2100-01-02"])),
            vec!["ends"],
        ),
        // No end is later than every instant.
        (
            about("greaterThan", "$validTo", json!(["2100-01-01"])),
            vec!["old", "new"],
        ),
        (
            about("equal", "$validTo", json!([4_102_444_800_000_000_i64])),
            vec!["ends"],
        ),
        (about("equal", "$validFrom", json!(["min"])), vec!["old"]),
        (
            about("between", "$validFrom", json!(["2000-12-31", "2001-01-02"])),
            vec!["ends"],
        ),
        (
            about("greaterThan", "$systemFrom", json!([since])),
            vec!["new"],
        ),
        (
            about("orderAsc", "$validFrom", json!([])),
            vec!["old", "ends", "new"],
        ),
        (
            about("orderDesc", "$systemFrom", json!([])),
            vec!["new", "old", "ends"],
        ),
        (
            about("orderAsc", "$validTo", json!([])),
            vec!["ends", "old", "new"],
        ),
    ] {
        assert_eq!(ids(std::slice::from_ref(&query)), rows, "{query}");
        // As known and valid now, the same.
        let both = [query.clone(), method("validAt", json!(["2050-01-01"]))];
        assert_eq!(ids(&both), rows, "{query}");
    }
}

#[test]
fn ends_of_rows_are_paged_by_and_shown() {
    let server = with_ends();
    let after = method("cursorAfter", json!(["ends"]));
    let order = about("orderDesc", "$validFrom", json!([]));
    let beyond = listed(&server, &[order, after]);
    assert_eq!(shown(&beyond, &["$id"]), [json!(["old"])]);
    // What such a list looks at it shows.
    let row = listed(&server, &[about("isNotNull", "$validTo", json!([]))]);
    let members = ["n", "$validFrom", "$validTo"];
    assert_eq!(
        shown(&row, &members),
        [json!([
            1,
            "2001-01-01T00:00:00.000000+00:00",
            "2100-01-01T00:00:00.000000+00:00"
        ])]
    );
    let chosen = listed(&server, &[method("select", json!(["n", "$validTo"]))]);
    assert_eq!(shown(&chosen, &["n", "$validTo"])[1], json!([2, null]));
    for (wrong, why) in [
        (
            about("equal", "$validFrom", json!(["2026"])),
            "microseconds",
        ),
        (about("equal", "$validTo", json!([null])), "got null"),
        (about("isNull", "$systemTo", json!([])), "not found"),
        (about("contains", "$validTo", json!(["2"])), "Cannot use"),
    ] {
        let refused = listed(&server, &[wrong]);
        assert_eq!(refused.refusal(), "400 general_query_invalid");
        assert!(refused.text.contains(why), "{}", refused.text);
    }
}

#[test]
fn a_list_by_ends_is_exact_when_an_end_moves() {
    let server = with_ends();
    let open = about("isNull", "$validTo", json!([]));
    let ids = || {
        let answer = listed(&server, std::slice::from_ref(&open));
        let is_hit = answer.header("x-tidemark-cache").starts_with("hit");
        (shown(&answer, &["$id"]), is_hit)
    };
    assert_eq!(ids(), (vec![json!(["old"]), json!(["new"])], false));
    assert_eq!(ids(), (vec![json!(["old"]), json!(["new"])], true));
    // Not a value changes, only the end.
    let path = format!("{ROWS}/old");
    let end = server.ask("PATCH", &path, r#"{"data":{"$validTo":"2100-01-01"}}"#);
    assert_eq!(end.status, 200, "{}", end.text);
    assert_eq!(ids(), (vec![json!(["new"])], false));
    assert_eq!(ids(), (vec![json!(["new"])], true));
    let again = server.ask("PATCH", &path, r#"{"data":{"$validTo":null}}"#);
    assert_eq!(again.status, 200, "{}", again.text);
    assert_eq!(ids().0, [json!(["old"]), json!(["new"])]);
}

#[test]
fn changes_are_what_began_or_ceased_to_be_known() {
    let server = with_ends();
    let mark = |answer: &Answer| -> i64 { answer.header("x-tidemark-mark").parse().unwrap() };
    let changed = |from: Value, to: Value, more: &[Value]| {
        let mut queries = vec![method("systemBetween", json!([from, to]))];
        queries.extend_from_slice(more);
        shown(&listed(&server, &queries), &["$id", "n"])
    };
    let patch = |n: i64| {
        let data = json!({"data": {"n": n}}).to_string();
        mark(&server.ask("PATCH", &format!("{ROWS}/new"), &data))
    };
    let first = patch(4);
    let second = patch(5);
    // What was believed until then, what remains of it, and what replaced it.
    let of_first = vec![json!(["new", 3]), json!(["new", 3]), json!(["new", 4])];
    assert_eq!(changed(json!(first), json!(second), &[]), of_first);
    let began = about("greaterThanEqual", "$systemFrom", json!([first]));
    let of_now = about("equal", "n", json!([4]));
    assert_eq!(
        changed(json!(first), json!(second), &[began, of_now]),
        [json!(["new", 4])]
    );
    server.ask("DELETE", &format!("{ROWS}/old"), "");
    let gone = changed(json!(second + 1), Value::Null, &[]);
    // The belief that it lasts ended, and what it was until now is known since.
    assert_eq!(gone, [json!(["old", 2]), json!(["old", 2])]);
    // As known before the deletion nothing of it was over.
    let then = method("asOf", json!([second]));
    assert!(changed(json!(second + 1), Value::Null, &[then]).is_empty());
    let row = format!("{ROWS}/new?queries%5B0%5D={}", {
        let query = method("systemBetween", json!([first, null])).to_string();
        percent_encoding::utf8_percent_encode(&query, percent_encoding::NON_ALPHANUMERIC)
            .to_string()
    });
    assert_eq!(
        server.ask("GET", &row, "").refusal(),
        "400 general_query_invalid"
    );
    let twice = method("systemBetween", json!([second, first]));
    let refused = listed(&server, &[twice]);
    assert_eq!(refused.refusal(), "400 general_query_invalid");
}

#[test]
fn ends_are_times_that_guests_need_leave_to_ask_for() {
    let server = with_ends();
    let open = r#"{"name":"T","permissions":["read(\"any\")"]}"#;
    let opened = server.ask("PUT", "/v1/tablesdb/d/tables/t", open);
    assert_eq!(opened.status, 200, "{}", opened.text);
    let asks = [
        about("lessThan", "$validTo", json!(["2100-01-02"])),
        about("orderAsc", "$validFrom", json!([])),
        method("select", json!(["$validTo"])),
        method("systemBetween", json!(["min", null])),
    ];
    let statuses = || {
        asks.iter()
            .map(|query| {
                let query = query.to_string();
                let query = percent_encoding::utf8_percent_encode(
                    &query,
                    percent_encoding::NON_ALPHANUMERIC,
                );
                let path = format!("{ROWS}?queries%5B0%5D={query}");
                server.ask_as(None, "GET", &path, "").status.as_u16()
            })
            .collect::<Vec<u16>>()
    };
    assert_eq!(statuses(), [401; 4]);
    let options = "/v1/tidemark/databases/d/tables/t/options";
    server.ask("PATCH", options, r#"{"past":"both"}"#);
    assert_eq!(statuses(), [200, 200, 200, 401]);
    server.ask("PATCH", options, r#"{"past":"now"}"#);
    assert_eq!(statuses(), [200; 4]);
    // Lists of containers have no such ends.
    let tables = format!("/v1/tablesdb/d/tables?queries%5B0%5D={}", {
        let query = about("isNull", "$validTo", json!([])).to_string();
        percent_encoding::utf8_percent_encode(&query, percent_encoding::NON_ALPHANUMERIC)
            .to_string()
    });
    assert_eq!(
        server.ask("GET", &tables, "").refusal(),
        "400 general_query_invalid"
    );
}
