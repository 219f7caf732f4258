//! What a guest learns of what is hidden from him: nothing, by whatever way he asks.

use super::asking::{Answer, Who};
use super::world::World;

const ROWS: &str = "/v1/tablesdb/rights/tables/t/rows";

/// The hidden row, and one that is not there: of the same length, so that answers compare.
const HIDDEN: &str = "hidden";
const ABSENT: &str = "absent";

/// What a row holds that a guest would like to know.
const SECRETS: [(i64, &str); 3] = [(3, "aardvark"), (511, "marmot"), (1_020, "zebra")];

/// A ladder of rows that a guest sees, for finding out between which two rungs a row stands.
const RUNGS: i64 = 32;

fn method(name: &str, attribute: &str, values: &str) -> String {
    let attribute = match attribute {
        "" => String::new(),
        named => format!(r#""attribute":"{named}","#),
    };
    format!(r#"{{"method":"{name}",{attribute}"values":[{values}]}}"#)
}

/// Queries as parameters of a path.
fn parameters(queries: &[String]) -> String {
    let one = |(place, query): (usize, &String)| {
        let query = query
            .replace('"', "%22")
            .replace(' ', "%20")
            .replace('{', "%7B")
            .replace('}', "%7D");
        format!("queries[{place}]={query}")
    };
    let each: Vec<String> = queries.iter().enumerate().map(one).collect();
    each.join("&")
}

/// A table whose rows alone grant, with an order over numbers and words, and the ladder.
fn furnish(world: &mut World) {
    let database = r#"{"databaseId":"rights","name":"R"}"#;
    world.make("POST", "/v1/tablesdb", database);
    let table = r#"{"tableId":"t","name":"T","rowSecurity":true,"columns":[
        {"key":"n","type":"integer"},{"key":"w","type":"varchar","size":20},
        {"key":"story","type":"varchar","size":99}],
        "indexes":[{"key":"words","type":"fulltext","attributes":["story"]}]}"#;
    world.make("POST", "/v1/tablesdb/rights/tables", table);
    for rung in 0..RUNGS {
        let n = rung * 1_024 / RUNGS;
        let w = char::from(b'a' + u8::try_from(rung * 26 / RUNGS).unwrap());
        let body = format!(
            r#"{{"rowId":"r{rung}","data":{{"n":{n},"w":"{w}","story":"once upon a time"}},
                "permissions":["read(\"any\")"]}}"#
        );
        world.make("POST", ROWS, &body);
    }
}

/// The hidden row anew: shown at first, then hidden.
fn hide(world: &mut World, (n, w): (i64, &str)) -> String {
    let body = format!(
        r#"{{"rowId":"{HIDDEN}","data":{{"n":{n},"w":"{w}","story":"once a secret"}},
            "permissions":["read(\"any\")"]}}"#
    );
    world.make("POST", ROWS, &body);
    let path = format!("{ROWS}/{HIDDEN}");
    world.make("PATCH", &path, r#"{"permissions":[]}"#);
    let versions = [method("versions", "", ""), method("limit", "", "99")];
    let versions = format!("{ROWS}?{}", parameters(&versions));
    let listed = world.make("GET", &versions, "").json();
    let rows = listed["rows"].as_array().unwrap();
    let hidden = rows.iter().find(|row| row["$id"] == HIDDEN);
    let hidden = hidden.expect("a key sees it");
    hidden["$version"].as_str().unwrap().to_owned()
}

/// Every way to ask for the rows beside the row of this id, or, of a list of versions, beside its
/// version.
fn ways(world: &mut World, id: &str, version: &str) -> Vec<(String, Answer)> {
    let mut answers = Vec::new();
    let made = world
        .client
        .ask(Who::Guest, "POST", "/v1/tablesdb/transactions", b"{}");
    let transaction = made.json()["$id"].as_str().unwrap().to_owned();
    let orders = [
        vec![],
        vec![method("orderAsc", "n", "")],
        vec![method("orderDesc", "w", ""), method("orderAsc", "n", "")],
        vec![
            method("search", "story", r#""once""#),
            method("orderAsc", "w", ""),
        ],
        vec![
            method("greaterThan", "n", "5"),
            method("orderDesc", "n", ""),
        ],
        vec![method("orderAsc", "$createdAt", "")],
    ];
    let now = r#""2999-01-01""#;
    let times: [&[String]; 4] = [
        &[],
        &[method("validAt", "", now)],
        &[method("validBetween", "", r#""min",null"#)],
        &[method("versions", "", "")],
    ];
    for order in &orders {
        for (nth, time) in times.iter().enumerate() {
            for side in ["cursorAfter", "cursorBefore"] {
                let named = if nth < 2 { id } else { version };
                let mut queries = order.clone();
                queries.extend_from_slice(time);
                queries.push(method(side, "", &format!(r#""{named}""#)));
                let texts = parameters(&queries);
                let documents = "/v1/databases/rights/collections/t/documents";
                let paths = [
                    format!("{ROWS}?{texts}"),
                    format!("{ROWS}?{texts}&total=false"),
                    format!("{ROWS}?{texts}&ttl=60"),
                    format!("{ROWS}?{texts}&transactionId={transaction}"),
                    format!("{documents}?{texts}"),
                ];
                for path in paths {
                    let answer = world.client.ask(Who::Guest, "GET", &path, b"");
                    answers.push((path, answer));
                }
                let body = serde_json::json!({ "queries": queries }).to_string();
                let path = format!("{ROWS}/query");
                let answer = world.client.ask(Who::Guest, "POST", &path, body.as_bytes());
                answers.push((body, answer));
            }
        }
    }
    answers
}

/// Whatever the hidden row holds, and though it was once shown, each way answers as if no row of
/// its id had ever been.
#[test]
fn a_cursor_on_a_hidden_row_is_answered_as_one_on_no_row() {
    let mut world = World::new();
    furnish(&mut world);
    let far = parameters(&[method("limit", "", "5000")]);
    let all = format!("{ROWS}?{far}");
    let seen = world.client.ask(Who::Guest, "GET", &all, b"").json();
    assert_eq!(seen["total"], RUNGS, "the ladder alone is seen");
    for secret in SECRETS {
        let version = hide(&mut world, secret);
        let of_absent = version.replace(HIDDEN, ABSENT);
        let hidden = ways(&mut world, HIDDEN, &version);
        let absent = ways(&mut world, ABSENT, &of_absent);
        let mut refused = 0;
        for ((path, hidden), (_, absent)) in hidden.iter().zip(&absent) {
            let text = hidden.text.replace(HIDDEN, ABSENT);
            assert_eq!(
                (hidden.status, &text),
                (absent.status, &absent.text),
                "{path}"
            );
            refused += usize::from(hidden.outcome() == "400 general_cursor_not_found");
        }
        assert!(
            refused * 2 > hidden.len(),
            "{refused} of {} are refused",
            hidden.len()
        );
        world.make("DELETE", &format!("{ROWS}/{HIDDEN}"), "");
    }
    world.end();
}
