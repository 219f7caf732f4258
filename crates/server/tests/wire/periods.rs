//! Ending, extending and moving rows, and deleting them over a period: each act on each route, in
//! both families. docs/reference/time.md holds the same table.

use crate::fixture::{Answer, ROWS_KEY, TestServer};
use crate::transactions::{FAMILIES, Family, refused, server};
use serde_json::{Value, json};

fn year(year: i64) -> String {
    format!("{year}-01-01T00:00:00.000000+00:00")
}

fn encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// What one route does with a row.
#[derive(Clone, Copy, Debug)]
enum Route {
    Single,
    Bulk,
    Staged,
    StagedBulk,
}

const ROUTES: [Route; 4] = [Route::Single, Route::Bulk, Route::Staged, Route::StagedBulk];

/// A server, a family of routes, and one of its routes.
struct Caller<'s> {
    server: &'s TestServer,
    family: Family,
    route: Route,
}

impl Caller<'_> {
    fn row(&self, id: &str) -> String {
        format!("{}/{id}", self.family.table)
    }

    /// Updates the row `id`.
    fn update(&self, id: &str, data: &Value) -> Answer {
        match self.route {
            Route::Single => {
                let body = json!({ "data": data }).to_string();
                self.server.ask("PATCH", &self.row(id), &body)
            }
            Route::Bulk => {
                let body = json!({"data": data, "queries": [equal(id)]}).to_string();
                self.server.ask("PATCH", self.family.table, &body)
            }
            Route::Staged => self.commit(self.family.op("update", id, data.clone())),
            Route::StagedBulk => {
                let data = json!({"queries": [equal(id)], "data": data});
                self.commit(self.family.op("bulkUpdate", "", data))
            }
        }
    }

    /// Deletes the row `id` over a period.
    fn delete(&self, id: &str, period: &Value) -> Answer {
        match self.route {
            Route::Single => self
                .server
                .ask("DELETE", &self.row(id), &period.to_string()),
            Route::Bulk => {
                let mut body = period.clone();
                body["queries"] = json!([equal(id)]);
                self.server
                    .ask("DELETE", self.family.table, &body.to_string())
            }
            Route::Staged => self.commit(self.family.op("delete", id, period.clone())),
            Route::StagedBulk => {
                let mut data = period.clone();
                data["queries"] = json!([equal(id)]);
                self.commit(self.family.op("bulkDelete", "", data))
            }
        }
    }

    fn commit(&self, op: Value) -> Answer {
        let id = self.family.open(self.server, Some(ROWS_KEY));
        let staged = self.family.stage(self.server, &id, json!([op]));
        if staged.status != 201 {
            return staged;
        }
        self.family.end(self.server, &id, "commit")
    }

    fn create(&self, id: &str, data: &Value) {
        let body = json!({self.family.row_id: id, "data": data}).to_string();
        let made = self.server.ask("POST", self.family.table, &body);
        assert_eq!(made.status, 201, "{}", made.text);
    }

    /// The value of `n` at the beginning of each of these years; null where the row is absent.
    fn values(&self, id: &str, years: impl IntoIterator<Item = i64>) -> Vec<Value> {
        let value = |at| {
            let at = json!({"method": "validAt", "values": [year(at)]}).to_string();
            let path = format!("{}?queries%5B0%5D={}", self.row(id), encode(&at));
            self.server.ask("GET", &path, "").json()["n"].clone()
        };
        years.into_iter().map(value).collect()
    }
}

fn equal(id: &str) -> String {
    json!({"method": "equal", "attribute": "$id", "values": [id]}).to_string()
}

/// Runs `test` on every route of both families, in a database of its own each time.
fn on_every_route(test: impl Fn(&Caller<'_>)) {
    for family in FAMILIES {
        for route in ROUTES {
            let server = server();
            let (server, caller) = (&server, &route);
            println!("{} {caller:?}", family.table);
            test(&Caller {
                server,
                family,
                route,
            });
        }
    }
}

#[track_caller]
fn done(answer: &Answer) {
    assert!(answer.status.is_success(), "{}", answer.text);
}

#[test]
fn an_end_alone_ends_and_extends_a_row() {
    on_every_route(|caller| {
        caller.create("x", &json!({"n": 1}));
        done(&caller.update("x", &json!({"$validTo": year(2100)})));
        assert_eq!(caller.values("x", [2099, 2100]), [json!(1), Value::Null]);
        done(&caller.update("x", &json!({"$validTo": year(2110)})));
        assert_eq!(caller.values("x", [2109, 2110]), [json!(1), Value::Null]);
        done(&caller.update("x", &json!({"$validTo": null})));
        assert_eq!(caller.values("x", [2500]), [json!(1)]);
    });
}

#[test]
fn an_end_alone_keeps_the_changes_before_it() {
    on_every_route(|caller| {
        caller.create("x", &json!({"n": 1}));
        done(&caller.update("x", &json!({"n": 2, "$validFrom": year(2100)})));
        done(&caller.update("x", &json!({"$validTo": year(2110)})));
        let values = caller.values("x", [2099, 2100, 2110]);
        assert_eq!(values, [json!(1), json!(2), Value::Null]);
        // What goes on is what was there at the end.
        done(&caller.update("x", &json!({"$validTo": year(2120)})));
        assert_eq!(caller.values("x", [2099, 2119]), [json!(1), json!(2)]);
    });
}

#[test]
fn an_extension_replaces_what_was_scheduled_unless_it_stops_at_next() {
    on_every_route(|caller| {
        for (id, to, later) in [("o", json!(year(2150)), 1), ("x", json!("next"), 3)] {
            caller.create(id, &json!({"n": 1, "$validTo": year(2100)}));
            caller.create(id, &json!({"n": 3, "$validFrom": year(2130)}));
            done(&caller.update(id, &json!({ "$validTo": to })));
            let values = caller.values(id, [2100, 2129, 2130, 2149, 2151]);
            let wanted = [1, 1, later, later, 3].map(|n| json!(n));
            assert_eq!(values, wanted, "{id}");
        }
    });
}

#[test]
fn a_beginning_alone_moves_it() {
    on_every_route(|caller| {
        caller.create("x", &json!({"n": 1, "$validFrom": year(1990)}));
        done(&caller.update("x", &json!({"$validFrom": year(2000)})));
        assert_eq!(caller.values("x", [1999, 2000]), [Value::Null, json!(1)]);
        done(&caller.update("x", &json!({"$validFrom": year(1980)})));
        assert_eq!(caller.values("x", [1979, 1980]), [Value::Null, json!(1)]);
        done(&caller.update("x", &json!({"$validFrom": "min"})));
        assert_eq!(caller.values("x", [1000]), [json!(1)]);
    });
}

#[test]
fn a_row_that_is_only_scheduled_begins_and_ends_at_other_times() {
    let server = server();
    for (family, route) in [(FAMILIES[0], Route::Single), (FAMILIES[1], Route::Staged)] {
        let server = &server;
        let caller = Caller {
            server,
            family,
            route,
        };
        let id = format!("{route:?}");
        let period = json!({"n": 1, "$validFrom": year(2100), "$validTo": year(2200)});
        caller.create(&id, &period);
        done(&caller.update(&id, &json!({"$validFrom": year(2110)})));
        done(&caller.update(&id, &json!({"$validTo": year(2190)})));
        let values = caller.values(&id, [2109, 2110, 2189, 2190]);
        assert_eq!(values, [Value::Null, json!(1), json!(1), Value::Null]);
    }
}

#[test]
fn a_deletion_takes_a_period_from_body_and_query() {
    on_every_route(|caller| {
        caller.create("x", &json!({"n": 1}));
        let period = json!({"$validFrom": year(2100), "$validTo": year(2110)});
        done(&caller.delete("x", &period));
        let values = caller.values("x", [2099, 2100, 2109, 2110]);
        assert_eq!(values, [json!(1), Value::Null, Value::Null, json!(1)]);
        if let Route::Single = caller.route {
            let from = encode(&year(2105));
            let path = format!("{}?%24validFrom={from}", caller.row("x"));
            done(&caller.server.ask("DELETE", &path, ""));
            assert_eq!(caller.values("x", [2099, 2110]), [json!(1), Value::Null]);
        }
        done(&caller.delete("x", &json!({})));
        assert_eq!(caller.values("x", [2099]), [Value::Null]);
    });
}

#[test]
fn an_update_answers_with_the_piece_at_the_end_that_moved() {
    let server = server();
    let server = &server;
    for (family, id) in FAMILIES.into_iter().zip(["x", "y"]) {
        let route = Route::Single;
        let caller = Caller {
            server,
            family,
            route,
        };
        caller.create(id, &json!({"n": 1, "$validFrom": year(2000)}));
        let shown = |data: Value| {
            let row = caller.update(id, &data).json();
            (
                row["n"].clone(),
                row["$validFrom"].clone(),
                row["$validTo"].clone(),
            )
        };
        let ended = (json!(1), json!(year(2000)), json!(year(2100)));
        assert_eq!(shown(json!({"$validTo": year(2100)})), ended);
        assert_eq!(
            shown(json!({"$validTo": year(2100)})),
            ended,
            "nothing is left to do"
        );
        let extended = (json!(1), json!(year(2000)), Value::Null);
        assert_eq!(shown(json!({"$validTo": null})), extended);
        let moved = (json!(1), json!(year(2010)), Value::Null);
        assert_eq!(shown(json!({"$validFrom": year(2010)})), moved);
    }
}

#[test]
fn a_period_that_nothing_would_look_at_is_refused() {
    let server = server();
    let (from, to) = (year(2100), year(2110));
    let refuse = |method: &str, path: &str, body: Value, kind: &str| {
        let answer = server.ask(method, path, &body.to_string());
        refused(&answer, kind);
        answer.text
    };
    for family in FAMILIES {
        let rows = family.table;
        let row = format!("{rows}/a");
        let both = json!({"data": {"$validFrom": from, "$validTo": to}});
        let structure = format!("400 {}_invalid_structure", family.of);
        let text = refuse("PATCH", &row, both.clone(), &structure);
        assert!(text.contains("both ends are named"), "{text}");
        refuse("PATCH", rows, both.clone(), &structure);
        let nothing = json!({"data": {"$validFrom": null}});
        refuse("PATCH", &row, nothing, &structure);
        let invalid = "400 general_argument_invalid";
        let text = refuse("PUT", &row, both, invalid);
        assert!(text.contains("needs content"), "{text}");
        let beside = json!({"$validTo": to, "data": {"n": 1}});
        for (method, path) in [("PATCH", &*row), ("PUT", &row), ("PATCH", rows)] {
            let text = refuse(method, path, beside.clone(), invalid);
            assert!(text.contains("a member of `data`"), "{text}");
        }
        let count = format!("{row}/n/increment");
        refuse("PATCH", &count, json!({"$validTo": to}), invalid);
        let in_query = format!("{row}?%24validTo=next");
        refuse("PATCH", &in_query, json!({"data": {"n": 1}}), invalid);
        refuse("DELETE", &row, json!({"$validTo": "soon"}), &structure);
        let before = json!({"data": {"$validTo": year(1970)}});
        refuse("PATCH", &row, before, "400 invalid_range");
    }
}

#[test]
fn an_upsert_without_a_period_fills_what_is_open_later() {
    let server = server();
    let server = &server;
    for (family, id) in FAMILIES.into_iter().zip(["x", "y"]) {
        let route = Route::Single;
        let caller = Caller {
            server,
            family,
            route,
        };
        caller.create(id, &json!({"n": 1, "$validTo": year(2100)}));
        let body = json!({"data": {"n": 2}}).to_string();
        done(&server.ask("PUT", &caller.row(id), &body));
        assert_eq!(caller.values(id, [2099, 2100]), [json!(2), json!(2)]);
    }
}
