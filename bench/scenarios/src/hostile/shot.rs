//! What strangers send, by kind of attack.

use std::fmt::Display;
use std::sync::Arc;

use measure::connection::Access;
use measure::draw::Draw;
use serde_json::{Value, json};

use super::query::{Candidate, expression};
use super::scene::{DATABASE, INBOX, LINKED, OPEN, SECURED, content, row_id, rows_route};
use super::wire::Reply;
use crate::seed;

/// Requests that one write to a connection holds.
const PIPELINED: usize = 64;
/// A body that takes a large share of the memory for bodies: most of what one may have.
const LARGE_BODY_BYTES: usize = 16 << 20;
/// Of a body that is all small arrays or objects.
const ARRAYS_BYTES: usize = 4 << 20;
/// A slow body comes to so much at once: more than bodies get for nothing.
const DRIPPED_BYTES: usize = 64 << 10;
/// The longest line of a stream that the server takes.
const LINE_IDS: u32 = 1_000;

/// A kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "`description` says what each does")]
pub enum Kind {
    Cheap,
    Regex,
    Words,
    Tests,
    Nesting,
    Orders,
    Unread,
    Abandoned,
    Drip,
    Bodies,
    Arrays,
    Rows,
    Bulk,
    Staged,
    Batch,
    Streams,
    Ttl,
    Cursors,
    Past,
    Related,
    Pipelined,
    Mutilated,
    Idle,
    Drawn,
    Worst,
}

/// How a request is sent, and its answer taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Whole, and its answer is read.
    Plain,
    /// So many of them at once.
    Pipelined(usize),
    /// Whole, and its answer is never read.
    Unread,
    /// Whole, and the connection is closed at once.
    Abandoned,
    /// So many bytes at once, the others one by one.
    Drip {
        /// How many.
        at_once: usize,
    },
    /// Bytes that may be no request.
    Broken,
    /// A connection on which nothing is sent.
    Idle,
}

impl Manner {
    /// Whether the server may end the connection without an answer: it was misused, or the
    /// refusal was on its way while the body was still coming.
    pub fn may_be_closed(self) -> bool {
        matches!(
            self,
            Manner::Unread | Manner::Drip { .. } | Manner::Broken | Manner::Idle
        )
    }
}

/// One request.
#[derive(Clone, Debug)]
pub struct Shot {
    /// Its bytes.
    pub bytes: Arc<Vec<u8>>,
    /// How it is sent.
    pub manner: Manner,
}

impl Kind {
    /// All, in the order in which they are tried.
    pub const ALL: [Kind; 25] = [
        Kind::Cheap,
        Kind::Regex,
        Kind::Words,
        Kind::Tests,
        Kind::Nesting,
        Kind::Orders,
        Kind::Unread,
        Kind::Abandoned,
        Kind::Drip,
        Kind::Bodies,
        Kind::Arrays,
        Kind::Rows,
        Kind::Bulk,
        Kind::Staged,
        Kind::Batch,
        Kind::Streams,
        Kind::Ttl,
        Kind::Cursors,
        Kind::Past,
        Kind::Related,
        Kind::Pipelined,
        Kind::Mutilated,
        Kind::Idle,
        Kind::Drawn,
        Kind::Worst,
    ];

    /// Its name for programs, and what it does.
    pub fn description(self) -> (&'static str, &'static str) {
        match self {
            Kind::Cheap => (
                "cheap",
                "single rows as fast as they are answered: what the others share is the processors",
            ),
            Kind::Regex => ("regex", "expressions that are slow to compile or to match"),
            Kind::Words => (
                "words",
                "searches for beginnings of one letter, and parts of texts",
            ),
            Kind::Tests => (
                "tests",
                "lists of as many tests and values as a query may hold",
            ),
            Kind::Nesting => (
                "nesting",
                "`or` and `and` inside each other as deep as may be",
            ),
            Kind::Orders => ("orders", "orders by large texts and by chance, far offsets"),
            Kind::Unread => ("unread", "lists of 10,000 rows whose answers are not read"),
            Kind::Abandoned => ("abandoned", "costly lists whose clients go at once"),
            Kind::Drip => ("drip", "bodies that come byte by byte"),
            Kind::Bodies => ("bodies", "bodies of 16 MiB, many at once"),
            Kind::Arrays => (
                "arrays",
                "bodies of 4 MiB that are all small arrays or objects, which take 40 times that",
            ),
            Kind::Rows => ("rows", "rows that strangers create, change and delete"),
            Kind::Bulk => ("bulk", "changes of all rows, which strangers may not make"),
            Kind::Staged => (
                "staged",
                "transactions with costly operations and reads inside",
            ),
            Kind::Batch => (
                "batch",
                "batches that ask for the largest row a thousand times",
            ),
            Kind::Streams => ("streams", "streams of reads that are not read"),
            Kind::Ttl => ("ttl", "lists with `ttl`, each with a key of its own"),
            Kind::Cursors => ("cursors", "cursors at rows that are hidden, absent or odd"),
            Kind::Past => (
                "past",
                "lists as of the past, of all versions, over periods",
            ),
            Kind::Related => ("related", "related rows, three levels deep"),
            Kind::Pipelined => ("pipelined", "64 requests at once on each connection"),
            Kind::Mutilated => ("mutilated", "requests with bytes changed, cut and doubled"),
            Kind::Idle => ("idle", "connections without a request, up to the limit"),
            Kind::Drawn => (
                "drawn",
                "lists drawn by chance from the whole query language",
            ),
            Kind::Worst => ("worst", "the costliest lists that the search has found"),
        }
    }

    /// Its name for programs.
    pub fn name(self) -> &'static str {
        self.description().0
    }

    /// Requests of one client at most, where each leaves something on the disk or in memory.
    pub fn requests_max(self) -> usize {
        match self {
            Kind::Unread | Kind::Streams | Kind::Arrays => 4,
            Kind::Bodies => 8,
            Kind::Rows | Kind::Staged => 400,
            _ => 100_000,
        }
    }
}

/// What one client sends, one request after the other.
pub struct Sender<'a> {
    kind: Kind,
    access: &'a Access,
    /// The lists that the search has found.
    worst: &'a [Candidate],
    /// A body that is made once for all clients.
    large: Arc<Vec<u8>>,
    rows: u32,
    draw: Draw,
    sent: u64,
    transaction: Option<String>,
}

/// The bytes of a large body's request, made once.
pub fn large(access: &Access) -> Arc<Vec<u8>> {
    let text = "x".repeat(LARGE_BODY_BYTES);
    let body = json!({ "rowId": "unique()", "data": { "body": text, "n": "none" } });
    Arc::new(request(
        access,
        "POST",
        &rows_route(INBOX),
        &body.to_string(),
    ))
}

/// The bytes of a stranger's request: who knows the project's id and nothing else.
pub fn request(access: &Access, method: &str, route: &str, body: &str) -> Vec<u8> {
    let Access {
        address, project, ..
    } = access;
    let head = format!(
        "{method} /v1{route} HTTP/1.1\r\nHost: {address}\r\nX-Appwrite-Project: {project}\r\n"
    );
    let length = body.len();
    let rest = match body {
        "" => "\r\n".to_owned(),
        _ => format!("Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"),
    };
    (head + &rest).into_bytes()
}

impl<'a> Sender<'a> {
    /// The sender of one client.
    pub fn new(
        (kind, access): (Kind, &'a Access),
        worst: &'a [Candidate],
        large: &Arc<Vec<u8>>,
        (rows, seed): (u32, u64),
    ) -> Sender<'a> {
        Sender {
            kind,
            access,
            worst,
            large: large.clone(),
            rows,
            draw: Draw(seed),
            sent: 0,
            transaction: None,
        }
    }

    fn ask(&self, method: &str, route: &str, body: impl Display) -> Vec<u8> {
        request(self.access, method, route, &body.to_string())
    }

    /// The next request; `last` is the answer to the one before, if one came.
    pub fn next(&mut self, last: Option<&Reply>) -> Shot {
        self.sent += 1;
        let manner = match self.kind {
            Kind::Unread | Kind::Streams => Manner::Unread,
            Kind::Abandoned => Manner::Abandoned,
            Kind::Drip => Manner::Drip {
                at_once: DRIPPED_BYTES,
            },
            Kind::Pipelined => Manner::Pipelined(PIPELINED),
            Kind::Mutilated => Manner::Broken,
            Kind::Idle => Manner::Idle,
            _ => Manner::Plain,
        };
        let bytes = match self.kind {
            Kind::Bodies | Kind::Drip => self.large.clone(),
            Kind::Idle => Arc::default(),
            Kind::Pipelined => Arc::new((0..PIPELINED).flat_map(|_| self.any(last)).collect()),
            Kind::Mutilated => {
                let bytes = self.any(last);
                Arc::new(mutilated(bytes, &mut self.draw))
            }
            _ => Arc::new(self.of(self.kind, last)),
        };
        Shot { bytes, manner }
    }

    /// A request of any other kind, or a plain one.
    fn any(&mut self, last: Option<&Reply>) -> Vec<u8> {
        let kinds = [
            Kind::Tests,
            Kind::Rows,
            Kind::Bulk,
            Kind::Batch,
            Kind::Cursors,
            Kind::Past,
            Kind::Related,
            Kind::Drawn,
        ];
        let kind = self.draw.pick(&kinds);
        self.of(kind, last)
    }

    fn of(&mut self, kind: Kind, last: Option<&Reply>) -> Vec<u8> {
        match kind {
            Kind::Cheap => {
                // A small row.
                let row = row_id(1 + self.draw.below(40) as u32);
                self.ask("GET", &format!("{}/{row}", rows_route(OPEN)), "")
            }
            Kind::Arrays => self.arrays(),
            Kind::Rows => self.row(),
            Kind::Bulk => self.bulk(),
            Kind::Staged => self.staged(last),
            Kind::Batch => self.batch(),
            Kind::Streams => self.stream(),
            Kind::Past if self.draw.below(4) == 0 => self.at_times(),
            Kind::Worst if !self.worst.is_empty() => {
                let worst = self.worst[self.draw.place(self.worst)].clone();
                self.listing(&worst)
            }
            Kind::Tests if self.draw.below(4) == 0 => {
                // By the address, whose length the head's limit bounds.
                let route = seed::list_route_of(&rows_route(OPEN), &self.queries(kind)[..9]);
                self.ask("GET", &route, "")
            }
            _ => {
                let candidate = self.candidate(kind);
                self.listing(&candidate)
            }
        }
    }

    fn listing(&self, candidate: &Candidate) -> Vec<u8> {
        let route = format!("{}/query", rows_route(candidate.table));
        self.ask("POST", &route, candidate.body())
    }

    fn candidate(&mut self, kind: Kind) -> Candidate {
        if matches!(kind, Kind::Drawn | Kind::Worst) {
            return Candidate::draw(&mut self.draw);
        }
        let table = match kind {
            Kind::Related => LINKED,
            Kind::Cursors => self.draw.pick(&[OPEN, SECURED]),
            _ => OPEN,
        };
        Candidate {
            table,
            queries: self.queries(kind),
            total: self.draw.below(2) == 0,
            ttl_s: if kind == Kind::Ttl { 86_400 } else { 0 },
        }
    }

    fn queries(&mut self, kind: Kind) -> Vec<Value> {
        let draw = &mut self.draw;
        match kind {
            Kind::Regex => regexes(draw),
            Kind::Words => words(draw),
            Kind::Tests => tests_and_values(draw),
            Kind::Nesting => vec![nested(draw, 0), nested(draw, 0)],
            Kind::Orders => orders(draw),
            Kind::Unread => vec![one("limit", "", json!([10_000 - draw.below(100)]))],
            Kind::Abandoned => {
                let what = draw.any().to_string();
                vec![
                    one("contains", "body", json!([what])),
                    one("orderDesc", "f", json!([])),
                ]
            }
            Kind::Ttl => vec![
                one("notEqual", "n", json!([draw.any() as i64])),
                one("limit", "", json!([100 + draw.below(400)])),
            ],
            Kind::Cursors => {
                let id = match draw.below(4) {
                    0 => format!("none{}", draw.any()),
                    _ => row_id(draw.below(u64::from(self.rows)) as u32),
                };
                let order = draw.pick(&["body", "title", "n", "f", "$updatedAt"]);
                let cursor = draw.pick(&["cursorAfter", "cursorBefore"]);
                vec![
                    one("orderAsc", order, json!([])),
                    one(cursor, "", json!([id])),
                ]
            }
            Kind::Past => past(draw),
            Kind::Related => {
                let deep = ["*", "author.*", "author.books.*", "author.books.author.*"];
                vec![
                    one("select", "", json!(deep)),
                    one("limit", "", json!([draw.below(101)])),
                ]
            }
            _ => Vec::new(),
        }
    }

    fn row(&mut self) -> Vec<u8> {
        let rows = rows_route(INBOX);
        let id = format!("g{}", self.draw.below(200));
        let data = content(self.draw.below(60) as u32, &mut self.draw);
        let one = format!("{rows}/{id}");
        let grants = ["read(\"any\")", "update(\"any\")", "delete(\"any\")"];
        match self.draw.below(5) {
            0 => self.ask("DELETE", &one, ""),
            1 => self.ask("PATCH", &one, json!({ "data": data })),
            2 => {
                let body = json!({ "data": { "m": 1 }, "permissions": grants });
                self.ask("PUT", &one, body)
            }
            3 => self.ask("PATCH", &format!("{one}/m/increment"), "{\"value\":1}"),
            _ => {
                let body = json!({ "rowId": id, "data": data });
                self.ask("POST", &rows, body)
            }
        }
    }

    /// In a body, or in the text that stands for a row's content.
    fn arrays(&mut self) -> Vec<u8> {
        let unit = self.draw.pick(&["[0],", "{\"\":0},", "0,", "[],"]);
        let all = format!("[{}0]", unit.repeat(ARRAYS_BYTES / unit.len()));
        let rows = rows_route(INBOX);
        match self.draw.below(3) {
            0 => {
                let data = format!("{{\"tags\":{all}}}");
                let row = json!({ "rowId": "unique()", "data": data }).to_string();
                self.ask("POST", &rows, &row)
            }
            1 => self.ask("POST", &rows, format!("{{\"rows\":{all}}}")),
            _ => {
                let route = format!("{}/query", rows_route(OPEN));
                self.ask("POST", &route, format!("{{\"queries\":{all}}}"))
            }
        }
    }

    fn bulk(&mut self) -> Vec<u8> {
        let rows = rows_route(INBOX);
        let texts: Vec<String> = regexes(&mut self.draw)
            .iter()
            .map(Value::to_string)
            .collect();
        let change = json!({ "data": { "m": 7 }, "queries": texts }).to_string();
        match self.draw.below(5) {
            0 => self.ask("PATCH", &rows, &change),
            1 => self.ask("DELETE", &rows, &change),
            2 => {
                let all: Vec<Value> = (0..100).map(|nth| content(nth, &mut self.draw)).collect();
                self.ask("POST", &rows, json!({ "rows": all }))
            }
            3 => {
                let route = format!("/tidemark/databases/{DATABASE}/transactions");
                let ops = json!([{ "op": "erase", "table": OPEN, "id": row_id(0) }]);
                self.ask("POST", &route, json!({ "ops": ops }))
            }
            _ => {
                let route = format!("/tidemark/databases/{DATABASE}/batch/writes");
                let operation = |nth: u64| {
                    json!({
                        "action": "create", "tableId": INBOX, "rowId": format!("b{nth}"),
                        "data": { "n": nth },
                    })
                };
                let all: Vec<Value> = (0..1_000).map(operation).collect();
                let body = json!({ "operations": all, "atomic": self.draw.below(2) == 0 });
                self.ask("POST", &route, body)
            }
        }
    }

    /// Opens a transaction, stages, reads inside and gives it up, again and again.
    fn staged(&mut self, last: Option<&Reply>) -> Vec<u8> {
        let route = "/tablesdb/transactions";
        let opened = last.and_then(|reply| {
            let body: Value = serde_json::from_slice(&reply.body).ok()?;
            body["expiresAt"].as_str()?;
            body["$id"].as_str().map(str::to_owned)
        });
        self.transaction = opened.or(self.transaction.take());
        let Some(id) = &self.transaction else {
            return self.ask("POST", route, "{\"ttl\":60}");
        };
        let operations = format!("{route}/{id}/operations");
        match self.sent % 8 {
            0 => {
                let body = "{\"rollback\":true}";
                let ended = self.ask("PATCH", &format!("{route}/{id}"), body);
                self.transaction = None;
                ended
            }
            step @ (1 | 2) => {
                let operation = |nth: u64| {
                    json!({
                        "action": "create", "databaseId": DATABASE, "tableId": INBOX,
                        "rowId": format!("s{step}-{nth}"), "data": { "title": "x".repeat(200) },
                    })
                };
                let all: Vec<Value> = (0..40).map(operation).collect();
                let body = json!({ "operations": all }).to_string();
                self.ask("POST", &operations, &body)
            }
            3 => {
                let texts: Vec<String> = regexes(&mut self.draw)
                    .iter()
                    .map(Value::to_string)
                    .collect();
                let operation = json!({
                    "action": "bulkUpdate", "databaseId": DATABASE, "tableId": OPEN,
                    "data": { "queries": texts, "data": { "m": 1 } },
                });
                let body = json!({ "operations": [operation] }).to_string();
                self.ask("POST", &operations, &body)
            }
            _ => {
                let kind = self.draw.pick(&[Kind::Regex, Kind::Orders, Kind::Words]);
                let id = id.clone();
                let queries = self.queries(kind);
                let few = &queries[..queries.len().min(9)];
                let route = seed::list_route_of(&rows_route(OPEN), few);
                let inside = format!("{route}&transactionId={id}");
                self.ask("GET", &inside, "")
            }
        }
    }

    fn batch(&mut self) -> Vec<u8> {
        let largest = self.draw.below(2) == 0;
        let id = |draw: &mut Draw| {
            if largest {
                row_id(0)
            } else {
                row_id(draw.below(2_000) as u32)
            }
        };
        let part = |draw: &mut Draw| {
            let ids: Vec<String> = (0..10).map(|_| id(draw)).collect();
            json!({ "tableId": OPEN, "ids": ids })
        };
        let parts: Vec<Value> = (0..100).map(|_| part(&mut self.draw)).collect();
        let route = format!("/tidemark/databases/{DATABASE}/batch/reads");
        self.ask("POST", &route, json!({ "reads": parts }))
    }

    /// Lines without an end.
    fn stream(&mut self) -> Vec<u8> {
        let Access {
            address, project, ..
        } = self.access;
        let ids: Vec<String> = (0..LINE_IDS).map(|_| row_id(0)).collect();
        let line = format!("{}\n", json!({ "tableId": OPEN, "ids": ids }));
        let mut bytes = format!(
            "POST /v1/tidemark/databases/{DATABASE}/batch/reads HTTP/1.1\r\nHost: {address}\r\n\
             X-Appwrite-Project: {project}\r\nContent-Type: application/x-ndjson\r\n\
             Content-Length: {}\r\n\r\n",
            line.len() * 1_000
        )
        .into_bytes();
        bytes.extend_from_slice(line.repeat(10).as_bytes());
        bytes
    }

    /// The reads for which the query language has no words; they take a key.
    fn at_times(&mut self) -> Vec<u8> {
        let route = format!("/tidemark/databases/{DATABASE}/reads");
        let always = json!(["min", null]);
        let read = match self.draw.below(5) {
            0 => json!({"kind": "join", "left": OPEN, "right": OPEN, "on": "m"}),
            1 => json!({"kind": "timeline", "table": OPEN, "fn": "count", "period": always}),
            2 => json!({"kind": "diff", "table": OPEN, "from": {"vt": 0}, "to": {}}),
            3 => json!({"kind": "feed", "limit": 1_000}),
            _ => json!({"kind": "history", "table": OPEN, "id": row_id(0), "axis": "both"}),
        };
        self.ask("POST", &route, read.to_string())
    }
}

fn one(method: &str, attribute: &str, values: Value) -> Value {
    json!({ "method": method, "attribute": attribute, "values": values })
}

/// Searches for what nearly every text holds.
fn words(draw: &mut Draw) -> Vec<Value> {
    let letter = draw.pick(&["a", "b", "c", "é", "z a b c"]);
    let method = draw.pick(&["search", "search", "contains", "endsWith"]);
    let attribute = if method == "search" { "words" } else { "body" };
    let order = draw.pick(&["title", "n"]);
    vec![
        one(method, attribute, json!([letter])),
        one("orderDesc", order, json!([])),
    ]
}

/// As many tests as a query may hold, no two lists alike.
fn tests_and_values(draw: &mut Draw) -> Vec<Value> {
    let test = |nth: usize| {
        let column = ["n", "m", "f", "title"][nth % 4];
        let values: Vec<u64> = (0..5).map(|_| draw.below(1 << 40)).collect();
        if column != "title" {
            return one("equal", column, json!(values));
        }
        let method = draw.pick(&["equal", "notEqual", "contains"]);
        let texts: Vec<String> = values.iter().map(u64::to_string).collect();
        one(method, column, json!(texts))
    };
    (0..99).map(test).collect()
}

/// Orders that no index has.
fn orders(draw: &mut Draw) -> Vec<Value> {
    let first = match draw.below(3) {
        0 => one("orderRandom", "", json!([])),
        _ => one("orderAsc", draw.pick(&["body", "title", "tags"]), json!([])),
    };
    let offset = one("offset", "", json!([draw.below(5_000)]));
    let limit = one("limit", "", json!([1 + draw.below(100)]));
    vec![first, offset, limit]
}

/// Other times than now.
fn past(draw: &mut Draw) -> Vec<Value> {
    let when = draw.pick(&["2026-05-01", "min", "1999-01-01"]);
    let time = match draw.below(3) {
        0 => one("versions", "", json!([])),
        1 => one("validBetween", "", json!([when, null])),
        _ => one("asOf", "", json!([when])),
    };
    let limit = one("limit", "", json!([1 + draw.below(5_000)]));
    vec![time, one("orderDesc", "title", json!([])), limit]
}

/// Expressions that are slow to match, and many that are slow to compile.
fn regexes(draw: &mut Draw) -> Vec<Value> {
    let one = |expression: String, attribute: &str| one("regex", attribute, json!([expression]));
    match draw.below(3) {
        0 => {
            let count = 1 << draw.below(15);
            vec![one(format!("[ab]*a[ab]{{{count}}}c"), "body")]
        }
        1 => (0..99)
            .map(|_| one(format!(r"\pL{{{}}}", 100 + draw.below(900)), "title"))
            .collect(),
        _ => vec![one(
            expression(draw),
            draw.pick(&["body", "words", "title"]),
        )],
    }
}

/// As deep as the language allows, and as broad as a text allows.
fn nested(draw: &mut Draw, depth: u32) -> Value {
    let leaf = json!({ "method": "equal", "attribute": "n", "values": [draw.below(99)] });
    if depth == 16 {
        return leaf;
    }
    let method = if depth.is_multiple_of(2) { "or" } else { "and" };
    json!({ "method": method, "values": [nested(draw, depth + 1), leaf] })
}

/// Some bytes changed, cut away or doubled.
fn mutilated(mut bytes: Vec<u8>, draw: &mut Draw) -> Vec<u8> {
    for _ in 0..=draw.below(4) {
        // Heads are short, and so would hardly ever be hit.
        let within = draw.pick(&[40, 300, bytes.len() as u64]);
        let at = draw.below(within.min(bytes.len() as u64).max(1)) as usize;
        match draw.below(5) {
            0 => bytes.truncate(at.max(1)),
            1 => {
                let end = bytes.len().min(at + 50);
                let twice = bytes[at..end].to_vec();
                bytes.splice(at..at, twice);
            }
            2 => drop(bytes.remove(at)),
            _ => bytes[at] = draw.any() as u8,
        }
        if bytes.is_empty() {
            return vec![0];
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access() -> Access {
        Access::new(([127, 0, 0, 1], 80), "p", "secret-of-the-key")
    }

    #[test]
    fn every_kind_sends_the_same_for_the_same_seed_and_never_the_key() {
        let access = access();
        let large = Arc::new(b"large".to_vec());
        let worst = [Candidate::draw(&mut Draw(1))];
        for kind in Kind::ALL {
            let sent = |seed| -> Vec<Vec<u8>> {
                let mut sender = Sender::new((kind, &access), &worst, &large, (2_000, seed));
                let count = kind.requests_max().min(40);
                let shots = (0..count).map(|_| sender.next(None).bytes.to_vec());
                shots.collect()
            };
            let shots = sent(3);
            assert_eq!(shots, sent(3), "{}", kind.name());
            for bytes in shots {
                // Bodies have megabytes: the search of the standard library is optimised.
                let holds = String::from_utf8_lossy(&bytes).contains("secret");
                assert!(!holds, "{}", kind.name());
            }
        }
        let mut names = Kind::ALL.map(Kind::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Kind::ALL.len());
    }

    #[test]
    fn a_transaction_is_used_by_its_id_and_given_up() {
        let access = access();
        let large = Arc::default();
        let mut sender = Sender::new((Kind::Staged, &access), &[], &large, (10, 3));
        let opened = Reply {
            status: 201,
            body: br#"{"$id":"t7","expiresAt":"later"}"#.to_vec(),
            bytes: 0,
        };
        let text = |shot: Shot| String::from_utf8(shot.bytes.to_vec()).unwrap();
        assert!(text(sender.next(None)).starts_with("POST /v1/tablesdb/transactions HTTP"));
        let rest: Vec<String> = (0..7).map(|_| text(sender.next(Some(&opened)))).collect();
        assert!(rest.iter().all(|sent| sent.contains("t7")), "{rest:?}");
        assert!(rest[6].contains("rollback"), "{}", rest[6]);
        assert!(!text(sender.next(None)).contains("t7"));
    }
}
