//! Related rows at other times than now, in both families, and their limits.

use crate::fixture::{Answer, TestServer};
use crate::relationships::{ROOTS, made, relate, related_server, server};
use serde_json::{Value, json};

fn path(root: &str, texts: &[Value]) -> String {
    let text = |text: &Value| {
        let text = text.to_string();
        let text = percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC);
        format!("queries[]={text}")
    };
    let texts: Vec<String> = texts.iter().map(text).collect();
    format!("{root}?{}", texts.join("&"))
}

fn select(names: &[&str]) -> Value {
    json!({"method": "select", "values": names})
}

fn at(method: &str, instant: &Value) -> Value {
    json!({"method": method, "values": [instant]})
}

fn ask(server: &TestServer, root: &str, texts: &[Value]) -> Answer {
    server.ask("GET", &path(root, texts), "")
}

/// The instant of the last commit.
fn now(server: &TestServer) -> Value {
    let status = server.ask("GET", "/v1/tidemark/status", "");
    status.json()["mark"].clone()
}

#[test]
fn related_rows_are_shown_as_they_were_then() {
    let server = related_server();
    let then = now(&server);
    server.make(
        "PATCH",
        "/v1/tablesdb/d/tables/b/rows/b1",
        &json!({"data": {"n": 10}}),
    );
    server.make(
        "PATCH",
        "/v1/tablesdb/d/tables/a/rows/a1",
        &json!({"data": {"k": "b2"}}),
    );
    let related = select(&["n", "k.n", "k.as.n"]);
    for (root, rows) in ROOTS {
        let list = ask(&server, root, &[related.clone(), at("asOf", &then)]);
        assert_eq!(list.status, 200, "{}", list.text);
        // An erasure in another table would alter it, so no cache keeps it.
        let outcome = list.header("x-tidemark-cache");
        assert!(outcome.starts_with("bypass"), "{outcome}");
        let row = &list.json()[rows][0];
        assert_eq!((&row["n"], &row["k"]["n"]), (&json!(1), &json!(1)), "{row}");
        assert_eq!(row["k"]["as"][0]["n"], 1);
        for shown in [row, &row["k"], &row["k"]["as"][0]] {
            assert!(shown["$validFrom"].is_string(), "{shown}");
            assert_eq!(shown["$validTo"], Value::Null, "it tells no future");
        }
        let one = ask(
            &server,
            &format!("{root}/a1"),
            &[related.clone(), at("asOf", &then)],
        );
        assert_eq!(&one.json(), row);
        let row = &ask(&server, root, std::slice::from_ref(&related)).json()[rows][0];
        assert_eq!(row["k"]["n"], 2, "{row}");
        let by_link = json!({"method": "equal", "attribute": "k", "values": ["b1"]});
        let found = |texts: &[Value]| ask(&server, root, texts).json()["total"].clone();
        assert_eq!(found(&[by_link.clone(), at("asOf", &then)]), 1);
        assert_eq!(found(std::slice::from_ref(&by_link)), 0);
        let versions = json!({"method": "versions", "values": []});
        assert_eq!(
            found(&[by_link, versions.clone()]),
            2,
            "and what is left of it"
        );
        let refused = ask(&server, root, &[related.clone(), versions]);
        assert_eq!(
            refused.refusal(),
            "400 general_query_invalid",
            "{}",
            refused.text
        );
        assert!(refused.text.contains("at one instant"), "{}", refused.text);
    }
}

/// Rows of `a` and `b`, each linked to all of the others.
const EACH: usize = 60;

#[test]
fn related_rows_of_the_past_are_no_way_to_fill_the_memory() {
    let server = server();
    let two_way = json!({"twoWay": true, "twoWayKey": "as"});
    relate(&server, "manyToMany", &two_way);
    let ids: Vec<String> = (0..EACH).map(|n| format!("b{n}")).collect();
    let rows: Vec<Value> = ids.iter().map(|id| json!({"$id": id, "n": 1})).collect();
    made(&server, "a", "a0", &json!({"n": 1, "k": rows}));
    for n in 1..EACH {
        made(&server, "a", &format!("a{n}"), &json!({"n": 1, "k": ids}));
    }
    let then = now(&server);
    made(&server, "a", "later", &json!({"n": 1}));
    let root = ROOTS[0].0;
    let limit = json!({"method": "limit", "values": [EACH]});
    // Each row is held once, and would be written 60 x 60 x 60 x 60 times.
    let deep = select(&["*", "k.*", "k.as.*", "k.as.k.*"]);
    let of_now = ask(&server, root, &[deep.clone(), limit.clone()]);
    let times = [at("asOf", &then), at("validAt", &then)];
    for time in &times {
        let refused = ask(&server, root, &[deep.clone(), limit.clone(), time.clone()]);
        assert_eq!(refused.refusal(), of_now.refusal(), "as for now");
        assert!(refused.status.is_client_error(), "{}", refused.text);
    }
    // As wide as it may be, and one wider; one level too deep.
    for time in &times {
        let refused = |names: &[&str], why: &str| {
            let refused = ask(&server, root, &[select(names), time.clone()]);
            assert_eq!(refused.refusal(), "400 general_query_invalid");
            assert!(refused.text.contains(why), "{}", refused.text);
        };
        refused(&["k.as.k.as.n"], "3 levels deep");
        refused(&["k.nothing"], "Attribute not found");
        refused(&["k.as.$validFrom"], "$validFrom");
        // Without a key nothing of it is looked for.
        let path = path(root, &[deep.clone(), time.clone()]);
        let guest = server.ask_as(None, "GET", &path, "");
        assert_eq!(guest.refusal(), "401 user_unauthorized", "{}", guest.text);
    }
    let one = json!({"method": "equal", "attribute": "$id", "values": ["a7"]});
    let narrow = ask(
        &server,
        root,
        &[select(&["n", "k.n"]), one, times[0].clone()],
    );
    let shown = narrow.json();
    assert_eq!(shown["rows"][0]["k"].as_array().unwrap().len(), EACH);
}
