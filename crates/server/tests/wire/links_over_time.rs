//! Links over valid periods: given with a row's other content, taken, judged, and what becomes of
//! them when rows go.

use crate::fixture::{Answer, TestServer};
use crate::relationships::{made, relate, server};
use model::Timestamp;
use model::calendar::iso_us;
use serde_json::{Value, json};
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// An instant of the hour to come, which stands for a year: `year(2130)` is in half an hour. (A
/// clock that runs ahead by more is taken for a wrong one.)
fn year(year: i64) -> String {
    static SINCE_US: LazyLock<i64> = LazyLock::new(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        now.as_micros() as i64
    });
    iso_us(Timestamp(*SINCE_US + (year - 2100) * 60_000_000))
}

/// Puts the clock forward to that year.
fn skip_to(server: &TestServer, year: i64) {
    server.skip_s((year - 2100) * 60);
}

/// The routes of rows in either family, and the words of the body.
const FAMILIES: [(&str, &str, &str, &str); 2] = [
    ("/v1/tablesdb/d/tables", "rows", "rowId", "row"),
    (
        "/v1/databases/d/collections",
        "documents",
        "documentId",
        "document",
    ),
];

#[derive(Clone, Copy)]
struct Asked<'s> {
    server: &'s TestServer,
    words: (&'static str, &'static str, &'static str, &'static str),
}

impl Asked<'_> {
    fn rows(&self, table: &str) -> String {
        format!("{}/{table}/{}", self.words.0, self.words.1)
    }

    fn create(&self, table: &str, id: &str, data: Value) -> Answer {
        let body = json!({self.words.2: id, "data": data}).to_string();
        self.server.ask("POST", &self.rows(table), &body)
    }

    fn update(&self, table: &str, id: &str, data: Value) -> Answer {
        let path = format!("{}/{id}", self.rows(table));
        self.server
            .ask("PATCH", &path, &json!({"data": data}).to_string())
    }

    fn delete(&self, table: &str, id: &str) -> Answer {
        self.server
            .ask("DELETE", &format!("{}/{id}", self.rows(table)), "")
    }

    /// Of each piece of `table` that is known now: its id, and the years it is valid from and to.
    fn pieces(&self, table: &str) -> Vec<String> {
        let query = json!({"method": "validBetween", "values": ["min", null]}).to_string();
        let query =
            percent_encoding::utf8_percent_encode(&query, percent_encoding::NON_ALPHANUMERIC);
        let path = format!("{}?queries[0]={query}", self.rows(table));
        let list = self.server.ask("GET", &path, "");
        assert_eq!(list.status, 200, "{}", list.text);
        let of = |instant: &Value| match instant.as_str() {
            None => "on".to_owned(),
            Some(text) => (2101..2160)
                .find(|at| year(*at) == text)
                .map_or("now".to_owned(), |year| year.to_string()),
        };
        let json = list.json();
        let pieces = json[self.words.1].as_array().unwrap().iter();
        let piece = |row: &Value| {
            let (from, to) = (of(&row["$validFrom"]), of(&row["$validTo"]));
            format!("{} {from}-{to}", row["$id"].as_str().unwrap())
        };
        // What ended before now is no matter here.
        let pieces = pieces.map(piece);
        pieces.filter(|piece| !piece.ends_with("now-now")).collect()
    }

    /// The rows of `table` that hold a link to `id` in `column` now.
    fn linked(&self, table: &str, column: &str, id: &str) -> Vec<String> {
        let query = json!({"method": "equal", "attribute": column, "values": [id]}).to_string();
        let query =
            percent_encoding::utf8_percent_encode(&query, percent_encoding::NON_ALPHANUMERIC);
        let list = self.server.ask(
            "GET",
            &format!("{}?queries[0]={query}", self.rows(table)),
            "",
        );
        assert_eq!(list.status, 200, "{}", list.text);
        let json = list.json();
        let rows = json[self.words.1].as_array().unwrap().iter();
        rows.map(|row| row["$id"].as_str().unwrap().to_owned())
            .collect()
    }

    /// What `row` of `table` is related to through `k` now, by id.
    fn related(&self, table: &str, row: &str, key: &str) -> Value {
        let query = json!({"method": "select", "values": ["*", format!("{key}.*")]}).to_string();
        let query =
            percent_encoding::utf8_percent_encode(&query, percent_encoding::NON_ALPHANUMERIC);
        let path = format!("{}/{row}?queries[0]={query}", self.rows(table));
        let found = self.server.ask("GET", &path, "");
        match &found.json()[key] {
            Value::Array(rows) => rows.iter().map(|row| row["$id"].clone()).collect(),
            one => one["$id"].clone(),
        }
    }
}

/// In each family, with table `a` related to `b` by `k`.
fn in_both(kind: &str, more: &Value, test: impl Fn(Asked<'_>)) {
    for words in FAMILIES {
        let server = server();
        relate(&server, kind, more);
        test(Asked {
            server: &server,
            words,
        });
    }
}

#[track_caller]
fn taken(answer: &Answer) -> Value {
    assert!(answer.status.is_success(), "{}", answer.text);
    answer.json()
}

#[track_caller]
fn refused(answer: &Answer, refusal: &str) {
    assert_eq!(
        answer.refusal().replace("document_", "row_"),
        refusal,
        "{}",
        answer.text
    );
}

/// Content that is valid from the beginning of one year to that of another.
fn during(from: i64, to: i64, mut data: Value) -> Value {
    data["$validFrom"] = json!(year(from));
    data["$validTo"] = json!(year(to));
    data
}

fn two_way() -> Value {
    json!({"twoWay": true, "twoWayKey": "as", "onDelete": "setNull"})
}

#[test]
fn columns_that_are_no_links_are_written_over_any_period() {
    in_both("manyToOne", &two_way(), |asked| {
        made(asked.server, "b", "b1", &json!({"n": 1}));
        made(asked.server, "a", "a1", &json!({"n": 1, "k": "b1"}));
        let data = json!({"n": 2, "$validFrom": year(2130), "$validTo": year(2140)});
        let changed = taken(&asked.update("a", "a1", data));
        assert_eq!(
            (&changed["n"], &changed["$validTo"]),
            (&json!(2), &json!(year(2140)))
        );
        assert_eq!(
            asked.pieces("a"),
            ["a1 now-2130", "a1 2130-2140", "a1 2140-on"]
        );
        assert_eq!(asked.related("a", "a1", "k"), "b1");
        assert_eq!(asked.related("b", "b1", "as"), json!(["a1"]));
    });
}

#[test]
fn a_link_over_a_period_needs_its_row_throughout() {
    in_both("manyToOne", &two_way(), |asked| {
        taken(&asked.create("b", "b1", during(2130, 2140, json!({"n": 1}))));
        taken(&asked.create("b", "b1", during(2140, 2150, json!({"n": 2}))));
        let link = |from: i64, to: i64| during(from, to, json!({"n": 1, "k": "b1"}));
        refused(
            &asked.create(
                "a",
                "a1",
                json!({"n": 1, "k": "none", "$validFrom": year(2130)}),
            ),
            "400 relationship_value_invalid",
        );
        // Now it is not there at all.
        refused(
            &asked.create("a", "a1", json!({"n": 1, "k": "b1"})),
            "400 relationship_value_invalid",
        );
        refused(
            &asked.create("a", "a1", link(2129, 2135)),
            "409 ref_violation",
        );
        refused(
            &asked.create("a", "a1", link(2135, 2151)),
            "409 ref_violation",
        );
        taken(&asked.create("a", "a1", link(2131, 2149)));
        refused(
            &asked.update("a", "a1", json!({"k": "b2", "$validFrom": year(2131)})),
            "400 relationship_value_invalid",
        );
        // A link from now on to a row that ends.
        taken(&asked.create("b", "b2", json!({"n": 1, "$validTo": year(2130)})));
        refused(
            &asked.create("a", "a2", json!({"n": 1, "k": "b2"})),
            "409 ref_violation",
        );
        taken(&asked.create(
            "a",
            "a2",
            json!({"n": 1, "k": "b2", "$validTo": year(2130)}),
        ));
        assert_eq!(asked.related("a", "a2", "k"), "b2");
    });
}

#[test]
fn rows_inside_rows_are_written_over_the_same_period() {
    in_both("manyToOne", &two_way(), |asked| {
        let inner = json!({"$id": "b1", "n": 5});
        let data = json!({"n": 1, "k": inner, "$validFrom": year(2130), "$validTo": year(2140)});
        taken(&asked.create("a", "a1", data));
        assert_eq!(asked.pieces("b"), ["b1 2130-2140"]);
        let own = json!({"$id": "b2", "n": 5, "$validFrom": year(2120)});
        let data = json!({"n": 1, "k": own, "$validFrom": year(2130), "$validTo": year(2140)});
        taken(&asked.create("a", "a2", data));
        assert_eq!(asked.pieces("b"), ["b1 2130-2140", "b2 2120-on"]);
        let short = json!({"$id": "b3", "n": 5, "$validFrom": year(2130), "$validTo": year(2131)});
        let data = json!({"n": 1, "k": short, "$validFrom": year(2130)});
        refused(&asked.create("a", "a3", data), "409 ref_violation");
        assert_eq!(asked.pieces("b").len(), 2);
    });
}

#[test]
fn links_that_other_rows_hold_are_turned_piece_by_piece() {
    in_both("oneToMany", &two_way(), |asked| {
        for id in ["b1", "b2", "b3"] {
            made(asked.server, "b", id, &json!({"n": 1}));
        }
        made(asked.server, "a", "a1", &json!({"n": 1, "k": ["b1", "b2"]}));
        made(asked.server, "a", "a2", &json!({"n": 2, "k": []}));
        // In that decade `a2` has b2 and b3, and then no longer.
        let data = json!({"k": ["b2", "b3"], "$validFrom": year(2130), "$validTo": year(2140)});
        taken(&asked.update("a", "a2", data));
        assert_eq!(
            asked.pieces("b"),
            [
                "b1 now-on",
                "b2 now-2130",
                "b2 2130-2140",
                "b2 2140-on",
                "b3 now-2130",
                "b3 2130-2140",
                "b3 2140-on"
            ]
        );
        assert_eq!(asked.related("a", "a1", "k"), json!(["b1", "b2"]));
        assert_eq!(asked.related("a", "a2", "k"), json!([]));
        skip_to(asked.server, 2132);
        assert_eq!(asked.related("a", "a1", "k"), json!(["b1"]));
        assert_eq!(asked.related("a", "a2", "k"), json!(["b2", "b3"]));
        refused(
            &asked.update("a", "a2", json!({"k": ["none"], "$validFrom": year(2150)})),
            "400 relationship_value_invalid",
        );
    });
}

#[test]
fn a_list_of_links_changes_over_a_period() {
    in_both("manyToMany", &two_way(), |asked| {
        for id in ["b1", "b2"] {
            made(asked.server, "b", id, &json!({"n": 1}));
        }
        made(asked.server, "a", "a1", &json!({"n": 1, "k": ["b1"]}));
        let data = json!({"k": ["b1", "b2"], "$validFrom": year(2130)});
        taken(&asked.update("a", "a1", data));
        // Without b1 each of the pieces has what is left of its own list.
        assert_eq!(asked.delete("b", "b1").status, 204);
        assert_eq!(asked.related("a", "a1", "k"), json!([]));
        skip_to(asked.server, 2132);
        assert_eq!(asked.related("a", "a1", "k"), json!(["b2"]));
        assert_eq!(asked.related("b", "b2", "as"), json!(["a1"]));
    });
}

#[test]
fn a_pair_is_one_pair_at_every_instant() {
    in_both("oneToOne", &two_way(), |asked| {
        for id in ["b1", "b2"] {
            made(asked.server, "b", id, &json!({"n": 1}));
        }
        made(asked.server, "a", "a1", &json!({"n": 1, "k": "b1"}));
        made(asked.server, "a", "a2", &json!({"n": 2}));
        let over = |link: Value, from: i64| json!({"k": link, "$validFrom": year(from)});
        refused(
            &asked.update("a", "a2", over(json!("b1"), 2130)),
            "409 row_unique_constraint_violation",
        );
        taken(&asked.update("a", "a1", over(Value::Null, 2130)));
        refused(
            &asked.update("a", "a2", over(json!("b1"), 2129)),
            "409 row_unique_constraint_violation",
        );
        taken(&asked.update("a", "a2", over(json!("b1"), 2130)));
        assert_eq!(asked.linked("a", "k", "b1"), ["a1"]);
        skip_to(asked.server, 2132);
        assert_eq!(asked.linked("a", "k", "b1"), ["a2"]);
    });
}

#[test]
fn deletions_look_at_what_is_yet_to_begin() {
    let more = |on_delete: &str| json!({"twoWay": true, "twoWayKey": "as", "onDelete": on_delete});
    let scheduled = |asked: Asked<'_>| {
        for id in ["b1", "b2"] {
            made(asked.server, "b", id, &json!({"n": 1}));
        }
        made(asked.server, "a", "a1", &json!({"n": 1, "k": "b2"}));
        taken(&asked.update(
            "a",
            "a1",
            json!({"k": "b1", "$validFrom": year(2130), "$validTo": year(2140)}),
        ));
        taken(&asked.create(
            "a",
            "a2",
            json!({"n": 2, "k": "b1", "$validFrom": year(2130)}),
        ));
    };
    in_both("manyToOne", &more("restrict"), |asked| {
        scheduled(asked);
        refused(&asked.delete("b", "b1"), "403 row_delete_restricted");
        assert_eq!(asked.delete("a", "a2").status, 204);
        refused(&asked.delete("b", "b1"), "403 row_delete_restricted");
        assert_eq!(
            asked.pieces("a"),
            ["a1 now-2130", "a1 2130-2140", "a1 2140-on"]
        );
    });
    in_both("manyToOne", &more("cascade"), |asked| {
        scheduled(asked);
        assert_eq!(asked.delete("b", "b1").status, 204);
        assert_eq!(asked.pieces("a"), ["a1 now-2130", "a1 2140-on"]);
        assert_eq!(asked.related("a", "a1", "k"), "b2");
    });
    in_both("manyToOne", &more("setNull"), |asked| {
        scheduled(asked);
        assert_eq!(asked.delete("b", "b1").status, 204);
        assert_eq!(
            asked.pieces("a"),
            ["a1 now-2130", "a1 2130-2140", "a1 2140-on", "a2 2130-on"]
        );
        assert_eq!(asked.related("a", "a1", "k"), "b2");
        skip_to(asked.server, 2132);
        assert_eq!(asked.related("a", "a1", "k"), Value::Null);
        // A row that is only scheduled goes with its links.
        taken(&asked.create("b", "b3", json!({"n": 1, "$validFrom": year(2150)})));
        taken(&asked.create(
            "a",
            "a3",
            json!({"n": 1, "k": "b3", "$validFrom": year(2150)}),
        ));
        assert_eq!(asked.delete("b", "b3").status, 204);
        skip_to(asked.server, 2120);
        assert_eq!(asked.related("a", "a3", "k"), Value::Null);
    });
}

#[test]
fn links_over_periods_stand_in_transactions() {
    in_both("manyToOne", &two_way(), |asked| {
        let root = if asked.words.1 == "rows" {
            "/v1/tablesdb"
        } else {
            "/v1/databases"
        };
        let opened = asked
            .server
            .ask("POST", &format!("{root}/transactions"), "{}")
            .json();
        let path = format!("{root}/transactions/{}", opened["$id"].as_str().unwrap());
        let op = |table: &str, row: &str, data: Value| {
            let mut op = json!({"action": "create", "databaseId": "d", "data": data});
            (op["tableId"], op["rowId"]) = (json!(table), json!(row));
            op
        };
        let operations = json!([
            op("b", "b1", json!({"n": 1, "$validFrom": year(2130)})),
            op(
                "a",
                "a1",
                json!({"n": 1, "k": "b1", "$validFrom": year(2131)})
            ),
        ]);
        taken(&asked.server.ask(
            "POST",
            &format!("{path}/operations"),
            &json!({"operations": operations}).to_string(),
        ));
        taken(&asked.server.ask("PATCH", &path, r#"{"commit":true}"#));
        assert_eq!(asked.pieces("a"), ["a1 2131-on"]);
        skip_to(asked.server, 2132);
        assert_eq!(asked.related("a", "a1", "k"), "b1");
    });
}
