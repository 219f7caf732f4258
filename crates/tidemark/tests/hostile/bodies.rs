//! Every route that reads a body, called with every wrong body.

use server::http::wire::error::Kind;

use super::bad_values;
use super::fixture::{DATABASE, Fixture};
use super::known_route::{KnownRoute, all};
use super::routes::{Need, Open};
use testing::{Credentials, RawAnswer};

/// The refusals that were not as documented; all of them are shown at once.
#[derive(Default)]
pub struct Wrong(Vec<String>);

impl Wrong {
    /// Whether `answer` refuses as one of `kinds`, in the words of the route's family.
    pub fn check(&mut self, known: &KnownRoute, what: &str, answer: &RawAnswer, kinds: &[Kind]) {
        let family = known.route.family;
        let words = |kind: &Kind| format!("{} {}", kind.status().as_u16(), kind.name(family));
        let wanted: Vec<String> = kinds.iter().map(words).collect();
        let outcome = answer.outcome();
        if !wanted.contains(&outcome) {
            self.note(
                known,
                what,
                &format!("{outcome} instead of {}", wanted.join(" or ")),
                answer,
            );
        }
    }

    pub fn note(&mut self, known: &KnownRoute, what: &str, outcome: &str, answer: &RawAnswer) {
        let (method, pattern) = (&known.route.method, &known.route.pattern);
        let what: String = what.chars().take(200).collect();
        let said: String = answer.text.chars().take(200).collect();
        self.0
            .push(format!("{method} {pattern}: {what}: {outcome}\n    {said}"));
    }

    pub fn finish(self) {
        assert!(
            self.0.is_empty(),
            "{} wrong:\n{}",
            self.0.len(),
            self.0.join("\n")
        );
    }
}

/// The routes that refuse members they do not know: a misspelt one would change what is meant.
const STRICT: &[&str] = &[
    "/v1/tidemark/databases/{database}/transactions",
    "/v1/tidemark/databases/{database}/reads",
    "/constraints",
    "/options",
    "/undo",
];

/// What a route that is not built says to whatever is sent.
pub const NOT_BUILT: &[Kind] = &[Kind::NotImplemented];

/// Asks each route of the router that `wanted` picks; at the end nothing may have changed, and
/// the log may not speak of a failure.
pub fn for_each_route(
    wanted: impl Fn(&KnownRoute) -> bool,
    mut ask: impl FnMut(&mut Fixture, &KnownRoute, &mut Wrong),
) {
    let mut fixture = Fixture::new();
    let mut wrong = Wrong::default();
    let before = fixture.held();
    for known in all().iter().filter(|known| wanted(known)) {
        ask(&mut fixture, known, &mut wrong);
        let after = fixture.held();
        let (method, pattern) = (&known.route.method, &known.route.pattern);
        if before != after {
            wrong.finish();
            let changed = after.lines().filter(|line| !before.contains(line));
            let changed: Vec<&str> = changed.map(|line| &line[..line.len().min(500)]).collect();
            panic!("{method} {pattern} changed what it refused: {changed:#?}");
        }
    }
    wrong.finish();
    fixture.end();
}

fn reads_a_body(known: &KnownRoute) -> bool {
    known.spec.is_some_and(|spec| spec.body.is_some())
}

fn send(fixture: &mut Fixture, known: &KnownRoute, body: &[u8]) -> RawAnswer {
    let path = known.path(DATABASE);
    fixture
        .client
        .ask(Credentials::Key, known.route.method.as_str(), &path, body)
}

/// The one that `kinds` names, unless the route refuses everything.
fn or_not_built<'k>(known: &KnownRoute, kinds: &'k [Kind]) -> &'k [Kind] {
    if known.is_refused() { NOT_BUILT } else { kinds }
}

#[test]
fn every_member_with_every_wrong_value() {
    for_each_route(reads_a_body, |fixture, known, wrong| {
        for field in known.fields() {
            for bad in bad_values::values(field.takes) {
                let absent = (field.name == "rows" && known.route.method == "POST").then_some([
                    "rowId",
                    "data",
                    "permissions",
                ]);
                let body = match absent {
                    None => known.body(Some((field.name, &bad.json)), None),
                    Some(_) => format!("{{\"{}\":{}}}", known.word("rows"), bad.json),
                };
                let answer = send(fixture, known, body.as_bytes());
                wrong.check(known, &body, &answer, or_not_built(known, bad.refused));
            }
        }
    });
}

#[test]
fn every_member_that_must_be_there_left_out_or_null() {
    for_each_route(reads_a_body, |fixture, known, wrong| {
        for field in known.fields().iter().filter(|field| field.need != Need::No) {
            let kinds: &[Kind] = match field.name {
                "rows" => &[Kind::ArgumentInvalid, Kind::RowMissingData],
                // Null is no column.
                "columns" => &[Kind::ArgumentInvalid, Kind::ColumnIndexInvalid],
                _ => &[Kind::ArgumentInvalid],
            };
            let mut bodies = vec![known.body(None, Some(field.name))];
            if field.need == Need::Value {
                bodies.push(known.body(Some((field.name, "null")), None));
            }
            for body in bodies {
                let answer = send(fixture, known, body.as_bytes());
                wrong.check(known, &body, &answer, or_not_built(known, kinds));
            }
        }
    });
}

/// Bodies that are no JSON object, by what is wrong with them.
fn broken_bodies() -> Vec<(&'static str, Vec<u8>)> {
    let mut bodies: Vec<(&str, Vec<u8>)> = [
        ("an array", "[1]"),
        ("a number", "5"),
        ("a text", "\"a\""),
        ("null", "null"),
        ("false", "false"),
        ("an open object", "{"),
        ("an open text", "{\"a\":\"b"),
        ("a colon too few", "{\"a\" 5}"),
        ("a comma too many", "{\"a\":5,}"),
        ("two objects", "{}{}"),
        ("a tail", "{} x"),
        ("a form", "a=5&b=6"),
        ("XML", "<a>5</a>"),
        ("a comment", "{/* */}"),
        ("single quotes", "{'a':5}"),
        ("a bare name", "{a:5}"),
        ("a control character", "{\"a\":\"\n\"}"),
        ("half a pair", "{\"a\":\"\\ud83d\"}"),
        ("the other half", "{\"\\udc00\":5}"),
        ("a number beyond the doubles", "{\"a\":1e999}"),
        ("an escape that is none", "{\"a\":\"\\x41\"}"),
    ]
    .map(|(what, body)| (what, body.as_bytes().to_vec()))
    .into();
    bodies.push(("NUL", b"\0".to_vec()));
    bodies.push(("NUL after it", b"{}\0".to_vec()));
    bodies.push(("bytes that are no UTF-8", b"{\"a\":\"\xff\xfe\"}".to_vec()));
    bodies.push(("an overlong encoding", b"{\"a\":\"\xc0\xaf\"}".to_vec()));
    bodies.push(("UTF-16", b"\xff\xfe{\0}\0".to_vec()));
    bodies.push(("gzip", b"\x1f\x8b\x08\x00\x00\x00\x00\x00".to_vec()));
    bodies.push(("deep arrays", deep("[", "]")));
    bodies.push(("deep objects", deep("{\"a\":", "}")));
    bodies.push(("arrays without an end", "[".repeat(500_000).into_bytes()));
    bodies
}

fn deep(open: &str, close: &str) -> Vec<u8> {
    format!(
        "{{\"a\":{}5{}}}",
        open.repeat(100_000),
        close.repeat(100_000)
    )
    .into_bytes()
}

#[test]
fn every_body_that_is_no_object() {
    let bodies = broken_bodies();
    for_each_route(reads_a_body, |fixture, known, wrong| {
        for (what, body) in &bodies {
            let answer = send(fixture, known, body);
            wrong.check(
                known,
                what,
                &answer,
                or_not_built(known, &[Kind::BadRequest]),
            );
        }
    });
}

#[test]
fn a_body_that_is_no_json_is_refused_by_its_type_or_by_what_it_is() {
    const TYPE: &[Kind] = &[Kind::UnsupportedMediaType];
    const BODY: &[Kind] = &[Kind::BadRequest];
    let multipart = "--x\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nN\r\n--x--\r\n";
    for_each_route(reads_a_body, |fixture, known, wrong| {
        for (content_type, body, kinds) in [
            (
                Some("application/x-www-form-urlencoded"),
                "name=N&databaseId=new",
                TYPE,
            ),
            (Some("multipart/form-data; boundary=x"), multipart, TYPE),
            (Some("text/plain"), "{}", TYPE),
            (Some("application/json"), "name=N", BODY),
            (Some("nonsense\u{80}"), "x", TYPE),
            (
                Some("application/json\r\nContent-Encoding: gzip"),
                "{}",
                TYPE,
            ),
            (None, "x", BODY),
        ] {
            let path = known.path(DATABASE);
            let method = known.route.method.as_str();
            let answer = fixture.client.ask_typed(
                Credentials::Key,
                method,
                &path,
                content_type,
                body.as_bytes(),
            );
            let what = format!("{content_type:?}");
            wrong.check(known, &what, &answer, or_not_built(known, kinds));
        }
    });
}

#[test]
fn a_body_beyond_the_limit_is_refused_before_it_is_read() {
    for_each_route(reads_a_body, |fixture, known, wrong| {
        let path = known.path(DATABASE);
        let method = known.route.method.as_str();
        for length in ["99999999999", "18446744073709551615"] {
            let extra = format!("Content-Length: {length}\r\n");
            let head = fixture.client.head(Credentials::Key, method, &path, &extra);
            let answer = fixture
                .client
                .send_and_end(head.as_bytes())
                .expect("an answer");
            // hyper itself refuses a length beyond what it counts.
            if answer.status == 431 && answer.text.is_empty() {
                continue;
            }
            wrong.check(
                known,
                length,
                &answer,
                or_not_built(known, &[Kind::PayloadTooLarge]),
            );
        }
    });
}

#[test]
fn a_body_that_is_really_too_large_is_refused() {
    let mut fixture = Fixture::new();
    let before = fixture.held();
    let body = format!(
        r#"{{"rowId":"x","data":{{"long":"{}"}}}}"#,
        "x".repeat(21 << 20)
    );
    let path = format!("/v1/tablesdb/{DATABASE}/tables/t/rows");
    assert_eq!(
        fixture.ask("POST", &path, &body).outcome(),
        "413 general_payload_too_large"
    );
    assert_eq!(fixture.held(), before);
    fixture.end();
}

#[test]
fn a_body_that_breaks_off_changes_nothing() {
    for_each_route(reads_a_body, |fixture, known, wrong| {
        let path = known.path(DATABASE);
        let method = known.route.method.as_str();
        let body = known.body(None, None);
        let length = format!("Content-Length: {}\r\n", body.len() + 1);
        let chunked = "Transfer-Encoding: chunked\r\n";
        let chunk = format!("{:x}\r\n{body}\r\n", body.len());
        for (extra, sent) in [
            (length.as_str(), body.as_str()),
            (&length, ""),
            (&length, &body[..1]),
            (chunked, &chunk),
            (chunked, &chunk[..chunk.len() - 3]),
            (chunked, "zz\r\n{}\r\n0\r\n\r\n"),
            (chunked, "fffffffffffffffff\r\n{}"),
            (chunked, "-2\r\n{}\r\n0\r\n\r\n"),
        ] {
            let head = fixture.client.head(Credentials::Key, method, &path, extra);
            // A connection that is closed without an answer is one, too.
            if let Some(answer) = fixture
                .client
                .send_and_end(format!("{head}{sent}").as_bytes())
            {
                let what = format!("{extra} {sent}");
                wrong.check(
                    known,
                    &what,
                    &answer,
                    or_not_built(known, &[Kind::BadRequest]),
                );
            }
        }
    });
}

#[test]
fn of_members_sent_twice_the_last_counts() {
    for_each_route(reads_a_body, |fixture, known, wrong| {
        for field in known
            .fields()
            .iter()
            .filter(|field| !field.right.is_empty())
        {
            let Some(bad) = bad_values::values(field.takes)
                .into_iter()
                .find(|bad| !bad.refused.contains(&Kind::BadRequest))
            else {
                continue;
            };
            let right = known.body(None, None);
            let inner = &right[..right.len() - 1];
            let body = format!("{inner},\"{}\":{}}}", known.word(field.name), bad.json);
            let answer = send(fixture, known, body.as_bytes());
            wrong.check(known, &body, &answer, or_not_built(known, bad.refused));
        }
    });
}

/// Without this, a call that is refused for something else would look well tested.
#[test]
fn a_right_call_is_taken_and_unknown_members_are_ignored_or_refused() {
    let mut fixture = Fixture::new();
    let mut wrong = Wrong::default();
    for (place, known) in all().iter().enumerate() {
        let (Some(spec), false) = (known.spec, known.is_refused()) else {
            continue;
        };
        let database = format!("v{place}");
        fixture.furnish(&database);
        let extra = r#"{"nobody":{"knows":["this",9007199254740993]},"#;
        let mut body = known
            .body(None, None)
            .replacen('{', extra, 1)
            .replace(",}", "}");
        if known.route.pattern == "/v1/tablesdb" || known.route.pattern == "/v1/databases" {
            body = body.replace("\"new\"", &format!("\"new{place}\""));
        }
        if spec.body.is_none() {
            body = String::new();
        }
        let path = format!("{}?nobody=knows&this[]=%00", known.path(&database));
        let who = if spec.open == Open::All {
            Credentials::None
        } else {
            Credentials::Key
        };
        let method = known.route.method.as_str();
        let is_strict = |end: &&str| known.route.pattern.ends_with(end) && !body.is_empty();
        if STRICT.iter().any(is_strict) {
            let answer = fixture.client.ask(who, method, &path, body.as_bytes());
            wrong.check(known, &body, &answer, &[Kind::ArgumentInvalid]);
            body = known.body(None, None);
        }
        if method == "DELETE" && known.route.pattern.ends_with("/constraints") {
            // What is to be removed must be there.
            let declared = fixture.client.ask(who, "POST", &path, body.as_bytes());
            assert!(declared.status < 300, "{}", declared.outcome());
        }
        let answer = fixture.client.ask(who, method, &path, body.as_bytes());
        if answer.status >= 300 {
            wrong.note(known, &body, &answer.outcome(), &answer);
        }
    }
    wrong.finish();
    fixture.end();
}
