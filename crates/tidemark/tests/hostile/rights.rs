//! What a guest learns of what is hidden from him: nothing, by whatever way he asks.

use super::fixture::Fixture;
use testing::{Credentials, RawAnswer};

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

/// A table whose rows alone grant, with an order over numbers and words, whose past is open.
fn furnish_alone(fixture: &mut Fixture) {
    let database = r#"{"databaseId":"rights","name":"R"}"#;
    fixture.make("POST", "/v1/tablesdb", database);
    let table = r#"{"tableId":"t","name":"T","rowSecurity":true,"columns":[
        {"key":"n","type":"integer"},{"key":"w","type":"varchar","size":20},
        {"key":"story","type":"varchar","size":99}],
        "indexes":[{"key":"words","type":"fulltext","attributes":["story"]}]}"#;
    fixture.make("POST", "/v1/tablesdb/rights/tables", table);
    open_past(fixture, "now");
}

/// The same, with the ladder.
fn furnish(fixture: &mut Fixture) {
    furnish_alone(fixture);
    for rung in 0..RUNGS {
        let n = rung * 1_024 / RUNGS;
        let w = char::from(b'a' + u8::try_from(rung * 26 / RUNGS).unwrap());
        let body = format!(
            r#"{{"rowId":"r{rung}","data":{{"n":{n},"w":"{w}","story":"once upon a time"}},
                "permissions":["read(\"any\")"]}}"#
        );
        fixture.make("POST", ROWS, &body);
    }
}

/// Lets others than keys look at the past by this rule.
fn open_past(fixture: &mut Fixture, past: &str) {
    let options = "/v1/tidemark/databases/rights/tables/t/options";
    let body = format!(r#"{{"past":"{past}"}}"#);
    fixture.make("PATCH", options, &body);
}

/// The hidden row again: shown at first, then hidden.
fn hide(fixture: &mut Fixture, (n, w): (i64, &str)) -> String {
    let body = format!(
        r#"{{"rowId":"{HIDDEN}","data":{{"n":{n},"w":"{w}","story":"once a secret"}},
            "permissions":["read(\"any\")"]}}"#
    );
    fixture.make("POST", ROWS, &body);
    let path = format!("{ROWS}/{HIDDEN}");
    fixture.make("PATCH", &path, r#"{"permissions":[]}"#);
    let versions = [method("versions", "", ""), method("limit", "", "99")];
    let versions = format!("{ROWS}?{}", parameters(&versions));
    let listed = fixture.make("GET", &versions, "").json();
    let rows = listed["rows"].as_array().unwrap();
    let hidden = rows.iter().find(|row| row["$id"] == HIDDEN);
    let hidden = hidden.expect("a key sees it");
    hidden["$version"].as_str().unwrap().to_owned()
}

/// Every way to ask for the rows beside the row of this id, or, of a list of versions, beside its
/// version.
fn ways(fixture: &mut Fixture, id: &str, version: &str) -> Vec<(String, RawAnswer)> {
    let mut answers = Vec::new();
    let made = fixture.client.ask(
        Credentials::Guest,
        "POST",
        "/v1/tablesdb/transactions",
        b"{}",
    );
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
                    let answer = fixture.client.ask(Credentials::Guest, "GET", &path, b"");
                    answers.push((path, answer));
                }
                let body = serde_json::json!({ "queries": queries }).to_string();
                let path = format!("{ROWS}/query");
                let answer = fixture
                    .client
                    .ask(Credentials::Guest, "POST", &path, body.as_bytes());
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
    let mut fixture = Fixture::new();
    furnish(&mut fixture);
    let far = parameters(&[method("limit", "", "5000")]);
    let all = format!("{ROWS}?{far}");
    let seen = fixture
        .client
        .ask(Credentials::Guest, "GET", &all, b"")
        .json();
    assert_eq!(seen["total"], RUNGS, "the ladder alone is seen");
    for secret in SECRETS {
        let version = hide(&mut fixture, secret);
        let of_absent = version.replace(HIDDEN, ABSENT);
        let hidden = ways(&mut fixture, HIDDEN, &version);
        let absent = ways(&mut fixture, ABSENT, &of_absent);
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
        fixture.make("DELETE", &format!("{ROWS}/{HIDDEN}"), "");
    }
    fixture.end();
}

/// Ways to look at other times, and what a guest gets by each as the table's option `past` is
/// `keys`, `both` and `now`: the numbers of the rows, or a refusal. A key always gets the last.
///
/// `p` was a draft with 1, was published with 2 and then got 3; `g`, with 9, was public and is
/// deleted. `{1}`, `{2}` and `{3}` are the marks at which `p` got its numbers; `g` was there at `{3}`.
const PAST: [(&str, [&str; 3]); 10] = [
    ("asOf {1}", ["no", "", "1"]),
    ("asOf {2}", ["no", "2", "2"]),
    ("asOf {3}", ["no", "3", "3,9"]),
    ("validAt {1}", ["no", "", "1"]),
    ("validAt {2}", ["no", "2", "2"]),
    ("validAt {3}", ["no", "3", "3,9"]),
    ("validAt \"2999-01-01\"", ["no", "3", "3"]),
    ("validBetween {3},null", ["no", "no", "3,9"]),
    ("asOf {3} validAt {2}", ["no", "no", "2"]),
    ("versions", ["no", "no", "1,1,2,2,3,9,9"]),
];

fn mark_of(answer: &RawAnswer) -> i64 {
    let marks = answer.head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("x-tidemark-mark")
            .then(|| value.trim().parse().unwrap())
    });
    marks.expect("a write names its mark")
}

/// Plays the story and says at which marks `p` got its numbers.
fn publish(fixture: &mut Fixture) -> [i64; 3] {
    let path = format!("{ROWS}/p");
    let draft = r#"{"rowId":"p","data":{"n":1},"permissions":[]}"#;
    let first = mark_of(&fixture.make("POST", ROWS, draft));
    let published = r#"{"data":{"n":2},"permissions":["read(\"any\")"]}"#;
    let second = mark_of(&fixture.make("PATCH", &path, published));
    let public = r#"{"rowId":"g","data":{"n":9},"permissions":["read(\"any\")"]}"#;
    fixture.make("POST", ROWS, public);
    let third = mark_of(&fixture.make("PATCH", &path, r#"{"data":{"n":3}}"#));
    fixture.make("DELETE", &format!("{ROWS}/g"), "");
    [first, second, third]
}

/// The queries of a way, `asOf 5 validAt 7` say.
fn queries_of(way: &str, marks: [i64; 3]) -> Vec<String> {
    let mut queries = Vec::new();
    let mut words = way.split(' ');
    while let Some(name) = words.next() {
        let mut values = match name {
            "versions" => String::new(),
            _ => words.next().expect("a method has values").to_owned(),
        };
        for (nth, mark) in marks.iter().enumerate() {
            values = values.replace(&format!("{{{}}}", nth + 1), &mark.to_string());
        }
        queries.push(method(name, "", &values));
    }
    queries
}

/// An answer in the words of the table; the rows of either family.
fn in_words(answer: &RawAnswer) -> String {
    match answer.outcome().as_str() {
        "200" => {
            let list = answer.json();
            let rows = list["rows"].as_array().or(list["documents"].as_array());
            let numbers = rows.expect("rows").iter().map(|row| row["n"].to_string());
            let mut numbers: Vec<String> = numbers.collect();
            numbers.sort();
            numbers.join(",")
        }
        "401 user_unauthorized" => "no".to_owned(),
        other => other.to_owned(),
    }
}

#[test]
fn the_past_is_shown_as_its_owner_says() {
    let mut fixture = Fixture::new();
    furnish_alone(&mut fixture);
    let marks = publish(&mut fixture);
    let made = fixture.client.ask(
        Credentials::Guest,
        "POST",
        "/v1/tablesdb/transactions",
        b"{}",
    );
    let transaction = made.json()["$id"].as_str().unwrap().to_owned();
    // The last one again, and then the first: a change holds at once, for what is kept as well.
    for (column, past) in [
        (2, "now"),
        (1, "both"),
        (0, "keys"),
        (2, "now"),
        (0, "keys"),
    ] {
        open_past(&mut fixture, past);
        for (way, wanted) in PAST {
            let queries = queries_of(way, marks);
            let texts = parameters(&queries);
            let documents = "/v1/databases/rights/collections/t/documents";
            let body = serde_json::json!({ "queries": queries }).to_string();
            let mut asked = vec![
                ("GET", format!("{ROWS}?{texts}"), ""),
                ("GET", format!("{ROWS}?{texts}"), ""),
                ("GET", format!("{ROWS}?{texts}&ttl=60"), ""),
                ("GET", format!("{documents}?{texts}"), ""),
                ("POST", format!("{ROWS}/query"), body.as_str()),
            ];
            if way.contains("asOf") {
                asked.push((
                    "GET",
                    format!("{ROWS}?{texts}&transactionId={transaction}"),
                    "",
                ));
            }
            for (method, path, body) in asked {
                let guest = fixture
                    .client
                    .ask(Credentials::Guest, method, &path, body.as_bytes());
                assert_eq!(in_words(&guest), wanted[column], "{past} {path} {guest:?}");
                if !path.contains("transactionId") {
                    let key = fixture
                        .client
                        .ask(Credentials::Key, method, &path, body.as_bytes());
                    assert_eq!(in_words(&key), wanted[2], "{past} {path} {key:?}");
                }
            }
        }
        one_row_and_batches(&mut fixture, past, marks);
    }
    fixture.end();
}

fn one_row_and_batches(fixture: &mut Fixture, past: &str, [first, second, third]: [i64; 3]) {
    let opens = past == "now";
    for (mark, by_both) in [
        (first, "404 row_not_found"),
        (second, "200"),
        (third, "200"),
    ] {
        let texts = parameters(&[method("asOf", "", &mark.to_string())]);
        let path = format!("{ROWS}/p?{texts}");
        // Again: what was answered once is answered by a shorter way.
        for _ in 0..3 {
            let guest = fixture.client.ask(Credentials::Guest, "GET", &path, b"");
            let wanted = match past {
                "keys" => "401 user_unauthorized",
                "both" => by_both,
                _ => "200",
            };
            assert_eq!(guest.outcome(), wanted, "{past} {path}");
        }
        let read = format!(r#"{{"reads":[{{"tableId":"t","ids":["p"],"asOf":{mark}}}]}}"#);
        let path = "/v1/tidemark/databases/rights/batch/reads";
        let guest = fixture
            .client
            .ask(Credentials::Guest, "POST", path, read.as_bytes());
        let result = &guest.json()["results"][0];
        assert_eq!(result["rows"].is_array(), opens, "{past} {guest:?}");
        assert_eq!(
            result["error"]["type"] == "user_unauthorized",
            !opens,
            "{result}"
        );
    }
}
