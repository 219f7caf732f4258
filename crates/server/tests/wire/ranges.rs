//! Writes over valid periods where many are written together: in transactions of clients, in
//! changes of all rows that match, in both families; and the rows that they are related to.

use crate::fixture::{Answer, ROWS_KEY, TestServer};
use crate::transactions::{FAMILIES, Family, ask_inside, refused, server};
use serde_json::{Value, json};

fn year(year: i64) -> String {
    format!("{year}-01-01T00:00:00.000000+00:00")
}

fn encode(query: &Value) -> String {
    let text = query.to_string();
    percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn listed(server: &TestServer, family: Family, queries: &[Value]) -> Answer {
    let pairs = queries.iter().enumerate();
    let pairs = pairs.map(|(nth, query)| format!("queries%5B{nth}%5D={}", encode(query)));
    let path = format!("{}?{}", family.table, pairs.collect::<Vec<_>>().join("&"));
    server.ask("GET", &path, "")
}

/// Ids and `n` of what is valid at the beginning of a year, by id.
#[track_caller]
fn valid_in(server: &TestServer, family: Family, at: i64) -> Vec<(String, Value)> {
    let queries = [
        json!({"method": "validAt", "values": [year(at)]}),
        json!({"method": "orderAsc", "attribute": "$id"}),
    ];
    let answer = listed(server, family, &queries);
    assert_eq!(answer.status, 200, "{}", answer.text);
    let json = answer.json();
    let rows = json[family.rows].as_array().unwrap().iter();
    rows.map(|row| (row["$id"].as_str().unwrap().to_owned(), row["n"].clone()))
        .collect()
}

/// A refusal of the newer family in the words of this one.
#[track_caller]
fn refused_in(family: Family, answer: &Answer, refusal: &str) {
    refused(
        answer,
        &refusal.replace(" row_", &format!(" {}_", family.of)),
    );
}

fn of(pairs: &[(&str, i64)]) -> Vec<(String, Value)> {
    let pair = |(id, n): &(&str, i64)| ((*id).to_owned(), json!(n));
    pairs.iter().map(pair).collect()
}

/// Every action with data, each over a period.
fn every_action(family: Family) -> Value {
    let (y30, y40, y50) = (year(2130), year(2140), year(2150));
    json!([
        family.op(
            "create",
            "x",
            json!({"n": 10, "$validFrom": y30, "$validTo": y40})
        ),
        family.op(
            "update",
            "x",
            json!({"n": 11, "$validFrom": year(2135), "$validTo": "next"})
        ),
        family.op(
            "update",
            "a",
            json!({"n": 5, "$validFrom": y30, "$validTo": y40})
        ),
        family.op("upsert", "b", json!({"n": 6, "$validFrom": y40})),
        family.op(
            "upsert",
            "y",
            json!({"n": 7, "$validFrom": y40, "$validTo": y50})
        ),
        family.op(
            "bulkCreate",
            "",
            json!([{"$id": "m", "n": 8, "$validFrom": y50}, {"$id": "o", "n": 9}])
        ),
        family.op(
            "bulkUpsert",
            "",
            json!([{"$id": "m", "n": 80, "$validFrom": y40, "$validTo": y50}])
        ),
        family.op(
            "bulkUpdate",
            "",
            json!({
                "queries": [r#"{"method":"equal","attribute":"$id","values":["c","o"]}"#],
                "data": {"n": 90, "$validFrom": y30, "$validTo": y50},
            })
        ),
    ])
}

#[test]
fn a_period_stands_in_every_operation_with_data() {
    for family in FAMILIES {
        let server = server();
        let id = family.open(&server, Some(ROWS_KEY));
        let staged = family.stage(&server, &id, every_action(family));
        assert_eq!(staged.status, 201, "{}", staged.text);
        assert_eq!(
            valid_in(&server, family, 2135),
            of(&[("a", 1), ("b", 2), ("c", 3)])
        );
        let committed = family.end(&server, &id, "commit");
        assert_eq!(committed.status, 200, "{}", committed.text);
        let at = |year| valid_in(&server, family, year);
        assert_eq!(at(2129), of(&[("a", 1), ("b", 2), ("c", 3), ("o", 9)]));
        assert_eq!(
            at(2130),
            of(&[("a", 5), ("b", 2), ("c", 90), ("o", 90), ("x", 10)])
        );
        assert_eq!(
            at(2135),
            of(&[("a", 5), ("b", 2), ("c", 90), ("o", 90), ("x", 11)])
        );
        let y40 = [
            ("a", 1),
            ("b", 6),
            ("c", 90),
            ("m", 80),
            ("o", 90),
            ("y", 7),
        ];
        assert_eq!(at(2140), of(&y40));
        assert_eq!(
            at(2150),
            of(&[("a", 1), ("b", 6), ("c", 3), ("m", 8), ("o", 9)])
        );
        // One commit, one mark.
        let versions = listed(&server, family, &[json!({"method": "versions"})]).json();
        let mut marks: Vec<String> = versions[family.rows]
            .as_array()
            .unwrap()
            .iter()
            .filter(|row| row["$id"] != "a" && row["$id"] != "b" && row["$id"] != "c")
            .map(|row| row["$systemFrom"].to_string())
            .collect();
        marks.dedup();
        assert_eq!(marks.len(), 1, "{versions}");
    }
}

#[test]
fn staged_write_over_a_period_is_answered_as_committed() {
    for family in FAMILIES {
        let server = server();
        let id = family.open(&server, Some(ROWS_KEY));
        let ask = |method, path: &str, body| ask_inside(&server, &id, method, path, body);
        let data = json!({"n": 1, "$validFrom": year(2130), "$validTo": year(2131)});
        let made = ask(
            "POST",
            family.table,
            json!({family.row_id: "x", "data": data}),
        );
        assert_eq!(made.status, 201, "{}", made.text);
        assert_eq!(made.json()["$validTo"], year(2131));
        let row = format!("{}/x", family.table);
        let again = json!({"data": {"n": 1, "$validFrom": year(2130)}});
        let same = ask("PATCH", &row, again);
        assert_eq!(
            (same.status.as_u16(), &same.json()["$validFrom"]),
            (200, &json!(year(2130)))
        );
        // It is not there in that period, nor now, and "soon" is no instant.
        let patch = |data: Value| ask("PATCH", &row, json!({"data": data}));
        refused_in(
            family,
            &patch(json!({"n": 1, "$validFrom": year(2140)})),
            "404 row_not_found",
        );
        refused_in(family, &patch(json!({"n": 1})), "404 row_not_found");
        let sent = patch(json!({"n": 4, "$validFrom": "soon"}));
        assert_eq!((sent.status.as_u16(), &sent.json()["n"]), (200, &json!(4)));
        refused_in(
            family,
            &family.end(&server, &id, "commit"),
            "400 row_invalid_structure",
        );
        assert_eq!(
            valid_in(&server, family, 2130),
            of(&[("a", 1), ("b", 2), ("c", 3)])
        );
    }
}

/// What a transaction sees of its own writes is what is valid now.
#[test]
fn a_period_that_holds_now_shows_inside() {
    for family in FAMILIES {
        let server = server();
        let id = family.open(&server, Some(ROWS_KEY));
        let staged = family.stage(
            &server,
            &id,
            json!([
                family.op(
                    "update",
                    "a",
                    json!({"n": 100, "$validFrom": year(1970), "$validTo": year(2130)})
                ),
                family.op("update", "b", json!({"n": 100, "$validFrom": year(2130)})),
                family.op(
                    "create",
                    "x",
                    json!({"n": 100, "$validFrom": "min", "$validTo": year(2000)})
                ),
            ]),
        );
        assert_eq!(staged.status, 201, "{}", staged.text);
        let inside = server
            .ask("GET", &format!("{}?transactionId={id}", family.table), "")
            .json();
        let shown = inside[family.rows].as_array().unwrap().iter();
        let shown: Vec<_> = shown.map(|row| row["n"].clone()).collect();
        assert_eq!(shown, [json!(100), json!(2), json!(3)]);
        assert_eq!(family.end(&server, &id, "rollback").status, 200);
        assert_eq!(valid_in(&server, family, 1990), []);
    }
}

#[test]
fn any_change_of_the_row_since_is_a_conflict() {
    for family in FAMILIES {
        let row = format!("{}/a", family.table);
        let over = |from: i64, n: i64| {
            let (from, to) = (year(from), year(from + 1));
            json!({"n": n, "$validFrom": from, "$validTo": to})
        };
        for (change, conflicts) in [
            (json!({"data": over(2150, 2)}), true),
            (json!({"data": over(1990, 2)}), false),
            (json!({"data": {"n": 9}}), true),
            (json!({"permissions": ["read(\"any\")"], "data": {}}), true),
        ] {
            let server = server();
            let id = family.open(&server, Some(ROWS_KEY));
            let mine = json!([
                family.op("update", "a", over(2130, 50)),
                family.op("update", "a", over(2131, 51)),
                family.op("increment", "b", json!({"column": "n"})),
            ]);
            assert_eq!(family.stage(&server, &id, mine).status, 201);
            server.ask("PATCH", &row, &change.to_string());
            server.ask("PATCH", &format!("{}/b/n/increment", family.table), "{}");
            let committed = family.end(&server, &id, "commit");
            if conflicts {
                refused_in(family, &committed, "409 transaction_conflict");
                assert_ne!(valid_in(&server, family, 2130)[0].1, json!(50));
            } else {
                // The row is not there then, so nothing was changed.
                assert_eq!(committed.status, 200, "{}", committed.text);
                assert_eq!(
                    valid_in(&server, family, 2131),
                    of(&[("a", 51), ("b", 4), ("c", 3)])
                );
            }
        }
    }
}

#[test]
fn a_row_to_be_created_over_a_period_must_not_be_there_in_it() {
    for family in FAMILIES {
        let server = server();
        for (from, to, refusal) in [
            (2130, 2140, "409 transaction_conflict"),
            (2141, 2150, "200"),
        ] {
            let id = family.open(&server, Some(ROWS_KEY));
            let data = json!({"n": 1, "$validFrom": year(from), "$validTo": year(to)});
            let staged = family.stage(&server, &id, json!([family.op("create", "x", data)]));
            assert_eq!(staged.status, 201, "{}", staged.text);
            let other = json!({"n": 2, "$validFrom": year(2139), "$validTo": year(2141)});
            let body = json!({family.row_id: "x", "data": other}).to_string();
            server.ask("POST", family.table, &body);
            refused_in(family, &family.end(&server, &id, "commit"), refusal);
        }
    }
}

#[test]
fn a_period_without_an_instant_ends_the_transaction() {
    for family in FAMILIES {
        let server = server();
        let id = family.open(&server, Some(ROWS_KEY));
        let empty = json!({"n": 1, "$validFrom": year(2130), "$validTo": year(2130)});
        let staged = family.stage(
            &server,
            &id,
            json!([
                family.op("update", "b", json!({"n": 50})),
                family.op("update", "a", empty),
            ]),
        );
        assert_eq!(staged.status, 201, "{}", staged.text);
        refused_in(
            family,
            &family.end(&server, &id, "commit"),
            "400 invalid_range",
        );
        assert_eq!(
            valid_in(&server, family, 2130),
            of(&[("a", 1), ("b", 2), ("c", 3)])
        );
    }
}

#[test]
fn unique_values_are_handed_over_inside_a_transaction() {
    for family in FAMILIES {
        let server = server();
        let over = |code: &str| json!({"code": code, "$validFrom": year(2130)});
        for (both, refusal) in [
            (false, "409 row_unique_constraint_violation"),
            (true, "200"),
        ] {
            let id = family.open(&server, Some(ROWS_KEY));
            let mut swap = vec![family.op("update", "a", over("b"))];
            swap.extend(both.then(|| family.op("update", "b", over("a"))));
            assert_eq!(family.stage(&server, &id, json!(swap)).status, 201);
            refused_in(family, &family.end(&server, &id, "commit"), refusal);
        }
    }
}

#[test]
fn all_rows_that_match_are_changed_over_a_period() {
    for family in FAMILIES {
        let server = server();
        let late = json!({"n": 4, "$validTo": year(2120)});
        let body = json!({family.row_id: "d", "data": late}).to_string();
        assert_eq!(server.ask("POST", family.table, &body).status, 201);
        let query = r#"{"method":"greaterThan","attribute":"n","values":[1]}"#;
        let data = json!({"n": 50, "$validFrom": year(2130), "$validTo": year(2140)});
        let body = json!({"data": data, "queries": [query]}).to_string();
        let changed = server.ask("PATCH", family.table, &body);
        assert_eq!(changed.status, 200, "{}", changed.text);
        let json = changed.json();
        assert_eq!(json["total"], 3);
        let rows = json[family.rows].as_array().unwrap();
        let shown: Vec<_> = rows
            .iter()
            .map(|row| (&row["n"], &row["$validTo"]))
            .collect();
        let to = json!(year(2140));
        // The last one has ended by then.
        assert_eq!(
            shown,
            [
                (&json!(50), &to),
                (&json!(50), &to),
                (&json!(4), &Value::Null)
            ]
        );
        assert_eq!(
            valid_in(&server, family, 2135),
            of(&[("a", 1), ("b", 50), ("c", 50)])
        );
        assert_eq!(
            valid_in(&server, family, 2140),
            of(&[("a", 1), ("b", 2), ("c", 3)])
        );
        // What is so already is not written again.
        let again = server.ask("PATCH", family.table, &body);
        assert_eq!(again.json()["total"], 3, "{}", again.text);
        let versions = listed(&server, family, &[json!({"method": "versions"})]).json();
        assert_eq!(versions["total"], 10, "{versions}");
        for (data, refusal) in [
            (
                json!({"n": 1, "$validFrom": year(2140), "$validTo": year(2130)}),
                "400 invalid_range",
            ),
            (
                json!({"n": 1, "$validFrom": "soon"}),
                "400 row_invalid_structure",
            ),
            (
                json!({"n": 5000, "$validFrom": year(2140)}),
                "400 row_invalid_structure",
            ),
            (
                json!({"code": "k", "$validFrom": year(2140)}),
                "409 row_unique_constraint_violation",
            ),
        ] {
            let body = json!({"data": data}).to_string();
            refused_in(family, &server.ask("PATCH", family.table, &body), refusal);
        }
        assert_eq!(
            valid_in(&server, family, 2150),
            of(&[("a", 1), ("b", 2), ("c", 3)])
        );
    }
}

/// An answer to a change is a row, also where nothing changed.
#[test]
fn a_change_that_changes_nothing_answers_the_piece_it_met() {
    for family in FAMILIES {
        let server = server();
        let row = format!("{}/a", family.table);
        let patch = |body: Value| server.ask("PATCH", &row, &body.to_string());
        let data = json!({"n": 1, "$validFrom": year(2130), "$validTo": year(2131)});
        let same = patch(json!({"data": data}));
        assert_eq!(
            (same.status.as_u16(), &same.json()["$validTo"]),
            (200, &Value::Null)
        );
        let granted = patch(json!({"data": data, "permissions": ["read(\"any\")"]}));
        assert_eq!(
            granted.json()["$permissions"],
            json!(["read(\"any\")"]),
            "{}",
            granted.text
        );
        // A row that ends, and gets other permissions with its change.
        assert_eq!(
            patch(json!({"data": {"n": 2, "$validTo": year(2130)}})).status,
            200
        );
        let both = patch(json!({"data": {"n": 3}, "permissions": []}));
        assert_eq!(
            (both.status.as_u16(), &both.json()["n"]),
            (200, &json!(3)),
            "{}",
            both.text
        );
        assert_eq!(both.json()["$permissions"], json!([]));
    }
}

#[test]
fn the_batch_route_takes_periods_too() {
    let server = server();
    let over = |n: i64| json!({"n": n, "$validFrom": year(2130)});
    for (atomic, n) in [(true, 50), (false, 60)] {
        let operations = ["a", "b"]
            .map(|row| json!({"action": "update", "tableId": "t", "rowId": row, "data": over(n)}));
        let body = json!({"operations": operations, "atomic": atomic}).to_string();
        let done = server.ask("POST", "/v1/tidemark/databases/d/batch/writes", &body);
        assert_eq!(done.status, 200, "{}", done.text);
        assert_eq!(
            valid_in(&server, FAMILIES[0], 2131),
            of(&[("a", n), ("b", n), ("c", 3)])
        );
    }
    assert_eq!(
        valid_in(&server, FAMILIES[0], 2129),
        of(&[("a", 1), ("b", 2), ("c", 3)])
    );
}
