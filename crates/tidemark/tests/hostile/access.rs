//! Who may do what to rows: the server against the table written by hand in `access.txt`.

use super::fixture::Fixture;
use testing::{Credentials, RawAnswer};

const TABLE: &str = include_str!("access.txt");

const TABLE_PATH: &str = "/v1/tablesdb/access/tables/t";

/// The axes of the table, in the order of its columns, and every value of each. Users come as
/// further values of `caller`.
const AXES: [(&str, &[&str]); 5] = [
    ("caller", &["guest", "key"]),
    ("enabled", &["nothing", "database", "table"]),
    ("security", &["off", "on"]),
    ("table", &["none", "read", "create", "update", "delete"]),
    ("row", &["none", "read", "update", "delete"]),
];

/// One value of each axis.
type Case = [&'static str; AXES.len()];

/// A line of the table.
struct Line {
    axes: Vec<&'static str>,
    answers: Vec<&'static str>,
}

impl Line {
    fn read(line: &'static str) -> Line {
        let (axes, answers) = line.split_once('|').expect("a bar parts axes and answers");
        let words = |text: &'static str| text.split_whitespace().collect();
        let line = Line {
            axes: words(axes),
            answers: words(answers),
        };
        assert_eq!(line.axes.len(), AXES.len(), "{axes}");
        line
    }

    fn speaks_of(&self, case: &Case) -> bool {
        let fits = |(mine, its): (&&str, &&str)| *mine == "*" || mine == its;
        self.axes.iter().zip(case).all(fits)
    }
}

/// The verbs, as the head of the table names them, and the lines below it.
fn read_table() -> (Vec<&'static str>, Vec<Line>) {
    let lines = TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut lines = lines.map(Line::read);
    let head = lines.next().expect("a head");
    assert_eq!(head.axes, AXES.map(|(name, _)| name));
    let lines: Vec<Line> = lines.collect();
    for line in &lines {
        assert_eq!(line.answers.len(), head.answers.len(), "{:?}", line.axes);
        for (value, (name, known)) in line.axes.iter().zip(AXES) {
            assert!(
                *value == "*" || known.contains(value),
                "{name} is never {value}"
            );
        }
    }
    (head.answers, lines)
}

fn every_case() -> Vec<Case> {
    let mut cases: Vec<Case> = vec![[""; AXES.len()]];
    for (place, (_, values)) in AXES.iter().enumerate() {
        let with = |case: &Case| {
            let case = *case;
            values.iter().map(move |value| {
                let mut case = case;
                case[place] = value;
                case
            })
        };
        cases = cases.iter().flat_map(with).collect();
    }
    cases
}

/// The JSON list of the one grant that `any` has.
fn grants(action: &str) -> String {
    match action {
        "none" => "[]".to_owned(),
        action => format!(r#"["{action}(\"any\")"]"#),
    }
}

/// The table of a case, fresh, with the row `r`.
fn set(fixture: &mut Fixture, case: &Case) {
    let [_, enabled, security, table, row] = *case;
    let body = format!(
        r#"{{"tableId":"t","name":"T","permissions":{},"rowSecurity":{},"enabled":{},
            "columns":[{{"key":"n","type":"integer"}}]}}"#,
        grants(table),
        security == "on",
        enabled != "table",
    );
    fixture.make("POST", "/v1/tablesdb/access/tables", &body);
    let body = format!(
        r#"{{"rowId":"r","data":{{"n":1}},"permissions":{}}}"#,
        grants(row)
    );
    fixture.make("POST", "/v1/tablesdb/access/tables/t/rows", &body);
    let body = format!(r#"{{"enabled":{}}}"#, enabled != "database");
    fixture.make("PUT", "/v1/tablesdb/access", &body);
}

fn caller(case: &Case) -> Credentials {
    match case[0] {
        "guest" => Credentials::Guest,
        "key" => Credentials::Key,
        other => panic!("no caller is called {other}"),
    }
}

/// What the caller of the case gets for this verb, inside a transaction if there is one.
fn ask(fixture: &mut Fixture, case: &Case, verb: &str, transaction: Option<&str>) -> RawAnswer {
    let who = caller(case);
    let rows = "/v1/tablesdb/access/tables/t/rows";
    let (name, row) = match verb.strip_suffix('0') {
        Some(name) => (name, format!("{rows}/absent")),
        None => (verb, format!("{rows}/r")),
    };
    let one = r#"{"data":{"n":2}}"#;
    let counted = format!("{row}/n/increment");
    let (method, path, body) = match name {
        "list" => ("GET", rows, ""),
        "get" => ("GET", &*row, ""),
        "make" => ("POST", rows, r#"{"rowId":"new","data":{"n":2}}"#),
        "change" => ("PATCH", &*row, one),
        "put" => ("PUT", &*row, one),
        "drop" => ("DELETE", &*row, ""),
        "count" => ("PATCH", &*counted, "{}"),
        "makes" => ("POST", rows, r#"{"rows":[{"$id":"new","n":2}]}"#),
        "puts" => ("PUT", rows, r#"{"rows":[{"$id":"new","n":2}]}"#),
        "changes" => ("PATCH", rows, one),
        "drops" => ("DELETE", rows, "{}"),
        other => panic!("no verb is called {other}"),
    };
    let Some(id) = transaction else {
        return fixture.client.ask(who, method, path, body.as_bytes());
    };
    if method == "GET" {
        let path = format!("{path}?transactionId={id}");
        return fixture.client.ask(who, method, &path, b"");
    }
    let rest = body.strip_prefix('{').unwrap_or("}");
    let comma = if rest == "}" { "" } else { "," };
    let body = format!(r#"{{"transactionId":"{id}"{comma}{rest}"#);
    fixture.client.ask(who, method, path, body.as_bytes())
}

/// An answer in the words of the table.
fn in_words(verb: &str, answer: &RawAnswer) -> String {
    match answer.outcome().as_str() {
        "200" if verb == "list" => {
            let list = answer.json();
            let rows = list["rows"].as_array().unwrap().len();
            assert_eq!(list["total"], rows, "the total counts what may be seen");
            rows.to_string()
        }
        "200" | "201" | "204" => "ok".to_owned(),
        "401 user_unauthorized" => "no".to_owned(),
        "401 general_unauthorized_scope" => "key".to_owned(),
        "404 column_not_found" => "c404".to_owned(),
        "404 row_not_found" => "r404".to_owned(),
        "404 database_not_found" => "d404".to_owned(),
        "404 table_not_found" => "t404".to_owned(),
        other => other.to_owned(),
    }
}

/// What the row `r` and the absent one hold afterwards: a refusal must not have written.
fn written(fixture: &mut Fixture) -> (i64, usize) {
    let list = fixture
        .make("GET", "/v1/tablesdb/access/tables/t/rows", "")
        .json();
    let rows = list["rows"].as_array().unwrap();
    let own = rows.iter().find(|row| row["$id"] == "r");
    (own.map_or(0, |row| row["n"].as_i64().unwrap()), rows.len())
}

#[test]
fn every_combination_is_answered_as_the_table_says() {
    let (verbs, lines) = read_table();
    let mut fixture = Fixture::new();
    fixture.make(
        "POST",
        "/v1/tablesdb",
        r#"{"databaseId":"access","name":"A"}"#,
    );
    let mut wrong = Vec::new();
    for case in every_case() {
        let spoken: Vec<&Line> = lines.iter().filter(|line| line.speaks_of(&case)).collect();
        assert_eq!(spoken.len(), 1, "lines that speak of {case:?}");
        set(&mut fixture, &case);
        let before = written(&mut fixture);
        for (verb, wanted) in verbs.iter().zip(&spoken[0].answers) {
            let answer = ask(&mut fixture, &case, verb, None);
            let got = in_words(verb, &answer);
            if got != *wanted {
                wrong.push(format!("{case:?} {verb}: {got} instead of {wanted}"));
            }
            let may_write = *wanted == "ok" && !verb.starts_with("get");
            let wrote = written(&mut fixture) != before;
            assert_eq!(wrote, may_write, "{case:?} {verb}: {answer:?}");
            if wrote {
                fixture.make("DELETE", TABLE_PATH, "");
                set(&mut fixture, &case);
            }
        }
        fixture.make("DELETE", TABLE_PATH, "");
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    fixture.end();
}

/// Staging is judged by the same grants, and writes nothing.
#[test]
fn every_combination_is_answered_alike_inside_a_transaction() {
    let (verbs, lines) = read_table();
    let mut fixture = Fixture::new();
    fixture.make(
        "POST",
        "/v1/tablesdb",
        r#"{"databaseId":"access","name":"A"}"#,
    );
    // No caller opens a transaction who may write nowhere.
    let open = r#"{"tableId":"open","name":"O","permissions":["create(\"any\")"]}"#;
    fixture.make("POST", "/v1/tablesdb/d/tables", open);
    let mut wrong = Vec::new();
    for case in every_case() {
        let line = lines.iter().find(|line| line.speaks_of(&case));
        let line = line.expect("a line speaks of each case");
        set(&mut fixture, &case);
        let before = written(&mut fixture);
        for (verb, wanted) in verbs.iter().zip(&line.answers) {
            let path = "/v1/tablesdb/transactions";
            let made = fixture.client.ask(caller(&case), "POST", path, b"{}");
            let id = made.json()["$id"].as_str().unwrap().to_owned();
            let answer = ask(&mut fixture, &case, verb, Some(&id));
            let got = in_words(verb, &answer);
            if got != *wanted {
                wrong.push(format!("{case:?} {verb}: {got} instead of {wanted}"));
            }
            fixture.make("DELETE", &format!("{path}/{id}"), "");
        }
        assert_eq!(written(&mut fixture), before, "{case:?}");
        fixture.make("DELETE", TABLE_PATH, "");
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    fixture.end();
}
