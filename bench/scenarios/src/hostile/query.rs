//! Lists drawn by chance: every method over every kind of column, with values of odd sizes. What
//! costs much is changed a little and tried again ([`super::search`]).

use measure::draw::Draw;
use serde_json::{Value, json};

use super::scene::{COLUMNS, MOODS, READ, WORDS, row_id};

/// Every method of the query language, and one that is none.
const METHODS: [&str; 36] = [
    "equal",
    "notEqual",
    "lessThan",
    "lessThanEqual",
    "greaterThan",
    "greaterThanEqual",
    "between",
    "notBetween",
    "isNull",
    "isNotNull",
    "startsWith",
    "notStartsWith",
    "endsWith",
    "notEndsWith",
    "contains",
    "containsAny",
    "containsAll",
    "notContains",
    "search",
    "notSearch",
    "regex",
    "or",
    "and",
    "orderAsc",
    "orderDesc",
    "orderRandom",
    "limit",
    "offset",
    "cursorAfter",
    "cursorBefore",
    "select",
    "asOf",
    "validAt",
    "validBetween",
    "versions",
    "distinct",
];
/// Attributes beside the columns.
const OTHERS: [&str; 8] = [
    "$id",
    "$sequence",
    "$createdAt",
    "$updatedAt",
    "$permissions",
    "author",
    "author.title",
    "none",
];
/// Parts of expressions.
const PARTS: [&str; 12] = [
    "a",
    "b",
    ".",
    "[ab]",
    "[^a]",
    r"\w",
    r"\pL",
    "(?:a|b|ab)",
    "^",
    "$",
    "é",
    "(?i)b",
];
/// How often.
const TIMES: [&str; 8] = ["", "*", "+", "?", "{9}", "{99}", "{1,999}", "{5000}"];
/// Texts that mean something to some parser.
const ODD: [&str; 9] = ["", "%", "_", "*", "\"a", "'", "\u{0}", "a b", "null"];
/// Queries of one candidate; a request may hold 100.
const QUERIES_MAX: usize = 110;
/// Values of one query are not doubled beyond this; the server takes 500.
const VALUES_MAX: usize = 600;
const NESTING_MAX: u32 = 4;

/// A list that a stranger might ask for.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Which table.
    pub table: &'static str,
    /// The queries, as objects.
    pub queries: Vec<Value>,
    /// Whether the matches are to be counted.
    pub total: bool,
    /// The age that will do, in seconds; 0 for none.
    pub ttl_s: u64,
}

impl Candidate {
    /// One drawn by chance.
    pub fn draw(draw: &mut Draw) -> Candidate {
        let count = 1 + draw.below(6);
        Candidate {
            table: draw.pick(&READ),
            queries: (0..count).map(|_| query(draw, 0)).collect(),
            total: draw.below(3) > 0,
            ttl_s: 0,
        }
    }

    /// This one, changed a little; `other` may lend it a query.
    #[must_use]
    pub fn changed(&self, other: &Candidate, draw: &mut Draw) -> Candidate {
        let mut changed = self.clone();
        let queries = &mut changed.queries;
        let at = draw.below(queries.len().max(1) as u64) as usize;
        match draw.below(9) {
            0 => queries.push(query(draw, 0)),
            1 => queries.extend(queries.clone()),
            2 if queries.len() > 1 => drop(queries.swap_remove(at)),
            3 => queries.extend(other.queries.first().cloned()),
            4 => changed.total = !changed.total,
            5 => changed.table = draw.pick(&READ),
            6 if at < queries.len() => {
                let method = draw.pick(&["or", "and"]);
                let inner = [queries[at].clone(), query(draw, 1)];
                queries[at] = json!({ "method": method, "values": inner });
            }
            7 if at < queries.len() => queries[at] = query(draw, 0),
            _ => {
                if let Some(query) = queries.get_mut(at) {
                    enlarge(query, draw);
                }
            }
        }
        changed.queries.truncate(QUERIES_MAX);
        changed
    }

    /// The body of `POST …/rows/query`.
    pub fn body(&self) -> String {
        let texts: Vec<String> = self.queries.iter().map(Value::to_string).collect();
        let mut body = json!({ "queries": texts, "total": self.total });
        if self.ttl_s > 0 {
            body["ttl"] = json!(self.ttl_s);
        }
        body.to_string()
    }
}

/// More values, or a longer one.
fn enlarge(query: &mut Value, draw: &mut Draw) {
    let Some(values) = query["values"].as_array_mut() else {
        return;
    };
    let at = draw.below(values.len().max(1) as u64) as usize;
    let longer = match values.get(at) {
        Some(Value::String(text)) if draw.below(2) == 0 => {
            let (more, times) = (draw.pick(&PARTS), draw.pick(&TIMES));
            json!(match draw.below(3) {
                0 => format!("{text}{text}"),
                1 => format!("{text}{more}{times}"),
                _ => format!("(?:{text}){times}"),
            })
        }
        Some(Value::Number(number)) if draw.below(2) == 0 => {
            json!(number.as_i64().map_or(7, |n| n.saturating_mul(9)))
        }
        _ if values.len() < VALUES_MAX => return values.extend(values.clone()),
        _ => return,
    };
    values[at] = longer;
}

/// A query inside `depth` others.
fn query(draw: &mut Draw, depth: u32) -> Value {
    let method = draw.pick(&METHODS);
    let attribute = fitting(method, draw);
    let values: Vec<Value> = match method {
        "or" | "and" if depth < NESTING_MAX => {
            let count = 1 + draw.below(4);
            (0..count).map(|_| query(draw, depth + 1)).collect()
        }
        "limit" => vec![json!(draw.pick(&[0_i64, 1, 25, 5_000, 10_000, 10_001, -1]))],
        "offset" => vec![json!(draw.pick(&[0_i64, 1, 999, 5_000, 1 << 40]))],
        "cursorAfter" | "cursorBefore" => vec![json!(row_id(draw.below(3_000) as u32))],
        "select" => (0..=draw.below(4)).map(|_| selected(draw)).collect(),
        "asOf" | "validAt" => vec![instant(draw)],
        "validBetween" => vec![instant(draw), instant(draw)],
        "versions" | "orderRandom" | "isNull" | "isNotNull" => Vec::new(),
        "regex" => vec![json!(expression(draw))],
        "between" | "notBetween" => vec![value(attribute, draw), value(attribute, draw)],
        _ => {
            let count = draw.pick(&[1, 1, 1, 2, 20, 100, 500]);
            (0..count).map(|_| value(attribute, draw)).collect()
        }
    };
    json!({ "method": method, "attribute": attribute, "values": values })
}

/// An attribute that the method takes, mostly: what is refused at once finds no cost.
fn fitting(method: &str, draw: &mut Draw) -> &'static str {
    let is_of_text = method.ends_with("With") || method.contains("ontains") || method == "regex";
    match method {
        _ if draw.below(8) == 0 => attribute(draw),
        "search" | "notSearch" => "words",
        _ if is_of_text => draw.pick(&["title", "words", "body", "tags"]),
        _ => draw.pick(&COLUMNS).0,
    }
}

fn attribute(draw: &mut Draw) -> &'static str {
    if draw.below(5) == 0 {
        draw.pick(&OTHERS)
    } else {
        draw.pick(&COLUMNS).0
    }
}

fn selected(draw: &mut Draw) -> Value {
    let deep = ["*", "author.*", "author.books.*", "author.books.author.*"];
    match draw.below(2) {
        0 => json!(draw.pick(&deep)),
        _ => json!(attribute(draw)),
    }
}

fn instant(draw: &mut Draw) -> Value {
    match draw.below(5) {
        0 => json!("2026-05-01"),
        1 => json!("min"),
        2 => json!(draw.any() as i64),
        3 => json!("2999-12-31T23:59:59Z"),
        _ => Value::Null,
    }
}

/// A value that fits the column, fifteen times of sixteen.
fn value(attribute: &str, draw: &mut Draw) -> Value {
    let kind = COLUMNS.iter().find(|(key, _)| *key == attribute);
    let kind = kind.map_or("text", |(_, kind)| kind);
    match (draw.below(16), kind) {
        (0, _) => odd(draw),
        (_, "integer") => json!(draw.below(2_000)),
        (_, "double") => json!(draw.below(100_000) as f64 / 7.0),
        (_, "boolean") => json!(draw.below(2) == 0),
        (_, "datetime") => json!(format!("2026-01-{:02}T00:00:00.000Z", 1 + draw.below(28))),
        (_, "enum") => json!(draw.pick(&MOODS)),
        _ => json!(text(draw)),
    }
}

fn odd(draw: &mut Draw) -> Value {
    match draw.below(7) {
        0 => json!(draw.pick(&ODD)),
        1 => json!(i64::MAX),
        2 => json!(-0.0),
        3 => json!(1e308),
        4 => Value::Null,
        5 => json!([draw.pick(&WORDS)]),
        _ => json!(expression(draw)),
    }
}

fn text(draw: &mut Draw) -> String {
    match draw.below(4) {
        0 => draw.pick(&["a", "b", "e", "ab"]).to_owned(),
        1 => draw.pick(&WORDS).to_owned(),
        2 => draw
            .pick(&["a", "ba", "é"])
            .repeat(draw.pick(&[9, 99, 999, 4_000])),
        _ => {
            let count = 1 + draw.below(60);
            let words: Vec<&str> = (0..count).map(|_| draw.pick(&WORDS)).collect();
            words.join(" ")
        }
    }
}

/// A regular expression.
pub fn expression(draw: &mut Draw) -> String {
    let count = 1 + draw.below(6);
    let parts = (0..count).map(|_| format!("{}{}", draw.pick(&PARTS), draw.pick(&TIMES)));
    let whole: String = parts.collect();
    match draw.below(3) {
        0 => format!("(?:{whole}){}", draw.pick(&TIMES)),
        1 => format!("[ab]*a[ab]{{{}}}c|{whole}", 1 << draw.below(15)),
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_lists_and_all_methods_come_up() {
        let drawn = |seed| {
            let mut draw = Draw(seed);
            let mut all = vec![Candidate::draw(&mut draw)];
            for _ in 0..2_000 {
                let other = Candidate::draw(&mut draw);
                let last = all.last().expect("there is one").clone();
                all.push(last.changed(&other, &mut draw));
                all.push(other);
            }
            all
        };
        let first = drawn(7);
        assert_eq!(first, drawn(7));
        assert_ne!(first, drawn(8));
        let mut methods = BTreeSet::new();
        for candidate in &first {
            assert!(candidate.queries.len() <= QUERIES_MAX);
            let named = candidate
                .queries
                .iter()
                .map(|query| query["method"].clone());
            methods.extend(named.map(|name| name.as_str().unwrap_or_default().to_owned()));
            let body: Value = serde_json::from_str(&candidate.body()).unwrap();
            assert!(body["queries"].is_array());
        }
        assert_eq!(methods.len(), METHODS.len());
    }
}
