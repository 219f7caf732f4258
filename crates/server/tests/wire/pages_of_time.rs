//! Reads along an axis in pages, their filters, and the cursors that lead from one page to the
//! next.

use serde_json::{Value, json};

use crate::fixture::{Answer, TestServer};
use crate::relationships::server;

const BASE: &str = "/v1/tidemark/databases/d";

fn read(server: &TestServer, read: &Value) -> Answer {
    server.ask("POST", &format!("{BASE}/reads"), &read.to_string())
}

#[track_caller]
fn answer(server: &TestServer, asked: &Value) -> Value {
    let answer = read(server, asked);
    assert_eq!(answer.status, 200, "{asked}: {}", answer.text);
    answer.json()
}

fn with(asked: &Value, members: Value) -> Value {
    let mut asked = asked.clone();
    asked
        .as_object_mut()
        .unwrap()
        .extend(members.as_object().unwrap().clone());
    asked
}

#[track_caller]
fn write(server: &TestServer, ops: &[Value]) {
    let made = server.ask(
        "POST",
        &format!("{BASE}/transactions"),
        &json!({"ops": ops}).to_string(),
    );
    assert_eq!(made.status, 201, "{}", made.text);
}

fn put(table: &str, id: &str, (from, to): (i64, i64), doc: Value) -> Value {
    json!({"op": "put", "table": table, "id": id, "doc": doc, "valid_from": from, "valid_to": to})
}

/// Rows of `a` in pieces of 10 that touch or leave gaps, with values that repeat; each links to a
/// row of `b`, whose pieces lie across. Some pieces were corrected, others are gone.
fn furnish(server: &TestServer) {
    let column = r#"{"key":"k","size":36,"required":false}"#;
    let made = server.ask("POST", "/v1/tablesdb/d/tables/a/columns/string", column);
    assert_eq!(made.status, 202, "{}", made.text);
    let mut ops = Vec::new();
    for row in 0..5 {
        for nth in (0..12).filter(|nth| (nth + row) % 5 != 0) {
            let period = (100 + nth * 10, 110 + nth * 10);
            let doc = json!({"n": nth / 3, "k": (row % 3).to_string()});
            ops.push(put("a", &row.to_string(), period, doc));
        }
    }
    for row in 0..3 {
        for nth in 0..6 {
            let period = (95 + nth * 25, 120 + nth * 25);
            ops.push(put("b", &row.to_string(), period, json!({"n": nth * 10})));
        }
    }
    write(server, &ops);
    for row in 0..5 {
        let corrected = put("a", &row.to_string(), (135, 145), json!({"n": 1, "k": "1"}));
        let gone = json!({"op": "delete", "table": "a", "id": row.to_string(),
            "valid_from": 172, "valid_to": 175});
        write(server, &[corrected, gone]);
    }
    // The last piece of a row has no end.
    write(
        server,
        &[
            json!({"op": "put", "table": "a", "id": "2", "doc": {"n": 7, "k": "2"},
        "valid_from": 230}),
        ],
    );
}

/// A read of each kind and form that is answered in pages.
fn reads() -> Vec<Value> {
    let period = json!([105, 190]);
    let history = json!({"kind": "history", "table": "a", "id": "2", "axis": "valid"});
    let mut reads = vec![
        history.clone(),
        with(&history, json!({"coalesce": true})),
        with(&history, json!({"axis": "system", "vt": 140})),
        with(&history, json!({"axis": "both"})),
        json!({"kind": "period", "table": "a", "relation": "overlaps", "period": period}),
        json!({"kind": "period", "table": "a", "relation": "succeeds", "period": [100, 130]}),
        json!({"kind": "period", "table": "a", "id": "2", "relation": "overlaps",
            "period": period}),
        json!({"kind": "allen", "table": "a", "id": "2", "period": period}),
        json!({"kind": "join", "left": "a", "right": "b", "on": "k"}),
        json!({"kind": "join", "left": "a", "right": "b", "on": "k", "id": "2"}),
        json!({"kind": "join", "left": "a", "right": "b", "on": "k", "right_where": {"n": 10}}),
        json!({"kind": "timeline", "table": "a", "fn": "sum", "column": "n", "period": [90, null]}),
        json!({"kind": "timeline", "table": "a", "id": "2", "fn": "count", "period": [90, 300]}),
    ];
    for nth in 0..reads.len() {
        reads.push(with(&reads[nth], json!({"where": {"n": 1}})));
        if !["timeline"].contains(&reads[nth]["kind"].as_str().unwrap())
            && reads[nth]["axis"] != "system"
        {
            reads.push(with(&reads[nth], json!({"valid": [112, 187]})));
        }
    }
    reads
}

/// All pages of a read, with something done between each two of them.
#[track_caller]
fn paged(
    server: &TestServer,
    asked: &Value,
    limit: usize,
    mut between: impl FnMut(),
) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut asked = with(asked, json!({ "limit": limit }));
    loop {
        let page = answer(server, &asked);
        let found = page["rows"].as_array().unwrap();
        assert!(found.len() <= limit, "{asked}");
        rows.extend(found.iter().cloned());
        if page["cursor"].is_null() {
            return rows;
        }
        assert_eq!(found.len(), limit, "{asked}");
        asked["cursor"] = page["cursor"].clone();
        between();
    }
}

#[test]
fn pages_are_the_answer_without_pages_while_others_write() {
    let server = server();
    furnish(&server);
    let mut nth = 0;
    for asked in reads() {
        let whole = answer(&server, &asked);
        assert!(whole.get("cursor").is_none(), "{whole}");
        let rows = whole["rows"].as_array().unwrap();
        let at = with(&asked, json!({"tt": whole["tt"], "vt": whole["vt"]}));
        for limit in [1, 3, rows.len().max(1), 1_000] {
            // At the coordinates of the answer, while rows come, change and go.
            let mut writes = 0;
            let pages = paged(&server, &at, limit, || {
                writes += 1;
                if writes > 3 {
                    return;
                }
                nth += 1;
                let row = if nth % 7 == 0 { 2 } else { nth % 2 };
                let period = (100 + nth % 40, 141 + nth % 90);
                write(
                    &server,
                    &[
                        put(
                            "a",
                            &row.to_string(),
                            period,
                            json!({"n": nth % 4, "k": "0"}),
                        ),
                        json!({"op": "delete", "table": "b", "id": "1",
                            "valid_from": 100 + nth % 40, "valid_to": 150}),
                        put(
                            "a",
                            &format!("x{}", nth % 3),
                            period,
                            json!({"n": 1, "k": "1"}),
                        ),
                    ],
                );
            });
            assert_eq!(&pages, rows, "{asked} by {limit}");
        }
    }
    assert!(nth > 100, "{nth}");
}

#[test]
fn pages_go_on_at_the_coordinates_of_the_first() {
    let server = server();
    furnish(&server);
    for asked in reads() {
        let asked = with(&asked, json!({"limit": 1}));
        let first = answer(&server, &asked);
        if first["cursor"].is_null() {
            continue;
        }
        let next = with(&asked, json!({"cursor": first["cursor"]}));
        let before = answer(&server, &next);
        assert_eq!(before["tt"], first["tt"], "{asked}");
        let at = json!({"tt": first["tt"], "vt": first["vt"]});
        assert_eq!(answer(&server, &with(&next, at)), before, "{asked}");
        write(
            &server,
            &[put("a", "2", (0, 900), json!({"n": 1, "k": "1"}))],
        );
        assert_eq!(answer(&server, &next), before, "{asked}");
    }
}

#[test]
fn rows_that_are_filtered_are_those_with_the_values() {
    let server = server();
    furnish(&server);
    let count = |asked: Value| answer(&server, &asked)["rows"].as_array().unwrap().len();
    let history = json!({"kind": "history", "table": "a", "id": "2", "axis": "valid"});
    let all = answer(&server, &history)["rows"]
        .as_array()
        .unwrap()
        .clone();
    let ones: Vec<&Value> = all.iter().filter(|row| row["doc"]["n"] == 1).collect();
    assert!(!ones.is_empty() && ones.len() < all.len());
    let found = answer(&server, &with(&history, json!({"where": {"n": 1}})));
    assert_eq!(
        found["rows"].as_array().unwrap().iter().collect::<Vec<_>>(),
        ones
    );
    let joined = |members: Value| {
        let join = json!({"kind": "join", "left": "a", "right": "b", "on": "k"});
        count(with(&join, members))
    };
    let of_rows: usize = (0..5)
        .map(|row| joined(json!({"id": row.to_string()})))
        .sum();
    assert_eq!(joined(json!({})), of_rows);
    let of_values: usize = (0..6)
        .map(|n| joined(json!({"right_where": {"n": n * 10}})))
        .sum();
    assert_eq!(joined(json!({})), of_values);
    assert_eq!(joined(json!({"right_where": {"n": 11}})), 0);
    let timeline = json!({"kind": "timeline", "table": "a", "id": "2", "fn": "count",
        "where": {"n": 7}, "period": [90, 300]});
    let steps = json!([{"from": 90, "to": 230, "value": 0}, {"from": 230, "to": 300, "value": 1}]);
    assert_eq!(answer(&server, &timeline)["rows"], steps);
}

/// A read that has a second page, and the cursor of its first.
fn first_page(server: &TestServer) -> (Value, String) {
    let asked = json!({"kind": "period", "table": "a", "relation": "overlaps", "period": [0, 900],
        "limit": 2});
    let cursor = answer(server, &asked)["cursor"]
        .as_str()
        .unwrap()
        .to_owned();
    (asked, cursor)
}

/// What is said of the cursor of this read, which must be refused.
#[track_caller]
fn refused_cursor(server: &TestServer, asked: &Value) -> String {
    let answer = read(server, asked);
    let text = &answer.text;
    assert_eq!(answer.refusal(), "400 general_argument_invalid", "{text}");
    assert!(text.contains("cursor"), "{text}");
    answer.json()["message"].as_str().unwrap().to_owned()
}

#[test]
fn cursors_that_no_answer_gave_are_refused_by_name() {
    let server = server();
    furnish(&server);
    let (asked, cursor) = first_page(&server);
    let refused = |read_of: &Value, members| refused_cursor(&server, &with(read_of, members));
    let mut turned = cursor.clone().into_bytes();
    for place in 0..turned.len() {
        let digit = turned[place];
        turned[place] = if digit == b'0' { b'1' } else { b'0' };
        let text = String::from_utf8(turned.clone()).unwrap();
        let message = refused(&asked, json!({ "cursor": text }));
        assert!(
            message.contains("no") && !message.contains(&text),
            "{message}"
        );
        turned[place] = digit;
    }
    let long = "a".repeat(500_000);
    for broken in [
        "",
        "x",
        "0",
        "é",
        &cursor[2..],
        &cursor[..cursor.len() - 2],
        &long,
    ] {
        let message = refused(&asked, json!({ "cursor": broken }));
        assert!(message.len() < 500, "{message}");
    }
    refused(&asked, json!({"cursor": 7}));
    refused(&asked, json!({"cursor": [cursor]}));
}

#[test]
fn cursors_belong_to_the_read_that_gave_them() {
    let server = server();
    furnish(&server);
    let (asked, cursor) = first_page(&server);
    let refused = |read_of: &Value, members| refused_cursor(&server, &with(read_of, members));
    // Of another read, or other coordinates.
    for other in [
        json!({"period": [0, 901]}),
        json!({"relation": "contains"}),
        json!({"table": "b"}),
        json!({"id": "2"}),
        json!({"where": {"n": 1}}),
        json!({"valid": [0, 900]}),
    ] {
        let message = refused(&with(&asked, other), json!({"cursor": cursor}));
        assert!(message.contains("another read"), "{message}");
    }
    let allen = json!({"kind": "allen", "table": "a", "id": "2", "period": [0, 900]});
    refused(&allen, json!({"cursor": cursor}));
    for other in [json!({"tt": 1}), json!({"vt": 1})] {
        let message = refused(&with(&asked, other), json!({"cursor": cursor}));
        assert!(message.contains("other coordinates"), "{message}");
    }
    // The members may come in another order, the page be of another size, and null is absent.
    let same = format!(
        r#"{{"cursor":"{cursor}","period":[0,900],"limit":5,"id":null,"kind":"period",
            "relation":"overlaps","table":"a"}}"#
    );
    let same = server.ask("POST", &format!("{BASE}/reads"), &same);
    assert_eq!(same.status, 200, "{}", same.text);
    for limit in [json!(0), json!(-1), json!(100_001), json!("x"), json!(1.5)] {
        let answer = read(&server, &with(&asked, json!({ "limit": limit })));
        assert_eq!(answer.refusal(), "400 general_argument_invalid", "{limit}");
        assert!(answer.text.contains("limit"), "{}", answer.text);
    }
    // Reads that are not answered in pages know no cursor.
    let scan = json!({"kind": "scan", "table": "a", "cursor": cursor});
    assert!(read(&server, &scan).text.contains("no member `cursor`"));
}

#[test]
fn pages_lead_through_more_pieces_than_one_request_looks_at() {
    let server = server();
    // A left piece whose right row is not there costs a look-up.
    let column = r#"{"key":"k","size":36,"required":false}"#;
    server.ask("POST", "/v1/tablesdb/d/tables/a/columns/string", column);
    for part in 0..10 {
        let piece = |nth: i64| {
            let at = part * 1_000 + nth;
            let doc = json!({"n": 1, "k": if at == 9_600 { "there" } else { "away" }});
            put("a", "1", (at * 10, at * 10 + 5), doc)
        };
        write(&server, &(0..1_000).map(piece).collect::<Vec<_>>());
    }
    write(
        &server,
        &[put("b", "there", (0, 1_000_000), json!({"n": 5}))],
    );
    let mut asked = json!({"kind": "join", "left": "a", "right": "b", "on": "k", "limit": 5});
    let (mut rows, mut pages) = (0, 0);
    loop {
        let page = answer(&server, &asked);
        rows += page["rows"].as_array().unwrap().len();
        pages += 1;
        if page["cursor"].is_null() {
            break;
        }
        asked["cursor"] = page["cursor"].clone();
    }
    assert_eq!(rows, 1);
    assert!((2..=4).contains(&pages), "{pages}");
}

#[test]
fn aggregates_say_what_they_cannot_gather() {
    let server = server();
    let columns = [
        (
            "string",
            r#"{"key":"s","size":36,"required":false}"#,
            "texts",
        ),
        (
            "string",
            r#"{"key":"l","size":36,"required":false,"array":true}"#,
            "arrays",
        ),
        (
            "datetime",
            r#"{"key":"d","required":false}"#,
            "dates and times",
        ),
        ("boolean", r#"{"key":"b","required":false}"#, "booleans"),
    ];
    for (kind, column, _) in columns {
        let made = server.ask(
            "POST",
            &format!("/v1/tablesdb/d/tables/a/columns/{kind}"),
            column,
        );
        assert_eq!(made.status, 202, "{}", made.text);
    }
    let doc = json!({"n": 3, "s": "x", "l": ["x"], "d": "2026-01-01T00:00:00Z", "b": true});
    write(&server, &[put("a", "1", (0, 4_000_000_000_000_000), doc)]);
    for read_of in [
        json!({"kind": "aggregate", "table": "a"}),
        json!({"kind": "timeline", "table": "a", "period": [0, 10]}),
    ] {
        for (_, column, what) in columns {
            let key = serde_json::from_str::<Value>(column).unwrap()["key"].clone();
            for name in ["sum", "min", "max", "avg"] {
                let asked = with(&read_of, json!({"fn": name, "column": key}));
                let refused = read(&server, &asked);
                assert_eq!(refused.refusal(), "400 general_argument_invalid", "{asked}");
                let message = refused.json()["message"].as_str().unwrap().to_owned();
                for part in [what, name, key.as_str().unwrap()] {
                    assert!(message.contains(part), "{message}");
                }
            }
            let asked = with(&read_of, json!({"fn": "count", "column": key}));
            let counted = answer(&server, &asked)["rows"].clone();
            let count = counted.pointer("/0/value").unwrap_or(&counted);
            assert_eq!(*count, 1, "{asked}");
        }
        let sum = with(&read_of, json!({"fn": "sum", "column": "n"}));
        assert_eq!(read(&server, &sum).status, 200);
    }
}

/// The same read by our own names.
fn in_our_words(asked: &Value) -> Value {
    let own = |name: &str| {
        match name {
            "table" => "tableId",
            "id" => "rowId",
            "vt" => "validAt",
            "tt" => "asOf",
            "valid" => "validBetween",
            "right_where" => "rightWhere",
            same => same,
        }
        .to_owned()
    };
    let members = asked.as_object().unwrap().iter();
    Value::Object(
        members
            .map(|(name, json)| (own(name), json.clone()))
            .collect(),
    )
}

#[test]
fn pages_in_our_words_go_on_in_them() {
    let server = server();
    furnish(&server);
    for asked in reads() {
        let mark = answer(&server, &asked)["tt"].clone();
        let ours = in_our_words(&with(&asked, json!({ "tt": mark })));
        let whole = answer(&server, &ours);
        assert!(whole["asOf"].is_string(), "{ours}");
        let text = whole["rows"].to_string();
        for word in ["valid_from", "sys_from", "doc", "id", "from", "origin"] {
            assert!(!text.contains(&format!("\"{word}\"")), "{ours}: {text}");
        }
        let mut rows = Vec::new();
        let mut next = with(&ours, json!({"limit": 2}));
        loop {
            let page = answer(&server, &next);
            assert!(page["asOf"].is_string() && page.get("tt").is_none());
            rows.extend(page["rows"].as_array().unwrap().iter().cloned());
            if page["cursor"].is_null() {
                break;
            }
            // The cursor holds these, and whose words the answer is in.
            let members = next.as_object_mut().unwrap();
            members.remove("asOf");
            members.remove("validAt");
            next["cursor"] = page["cursor"].clone();
        }
        assert_eq!(json!(rows), whole["rows"], "{ours}");
    }
}

#[test]
fn a_cursor_leads_on_by_either_name() {
    let server = server();
    furnish(&server);
    let join = json!({"kind": "join", "left": "a", "right": "b", "on": "k", "id": "2",
        "right_where": {"n": 20}, "valid": [100, 400], "limit": 1});
    let first = answer(&server, &join);
    let join = with(&join, json!({"cursor": first["cursor"]}));
    let second = answer(&server, &join)["rows"][0].clone();
    let ours = answer(&server, &in_our_words(&join))["rows"][0].clone();
    assert_eq!(ours["leftData"], second["left_doc"]);
    assert_eq!(ours["rightData"], second["right_doc"]);
    assert_ne!(second, first["rows"][0]);
    let both = with(&join, json!({"rightWhere": {"n": 20}, "cursor": null}));
    let refused = read(&server, &both);
    assert_eq!(refused.refusal(), "400 general_argument_invalid");
    let message = refused.json()["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("`rightWhere` says the same as `right_where`"),
        "{message}"
    );
}
