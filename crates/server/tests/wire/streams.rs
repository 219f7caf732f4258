//! Batches as lines of JSON, both ways at once.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use model::Timestamp;
use model::calendar::iso_us;
use serde_json::{Value, json};

use crate::fixture::{KEY, LIMITS, PROJECT, ROWS_KEY, TestServer};
use server::serve::Limits;

const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";

fn server() -> TestServer {
    furnish(TestServer::start())
}

fn furnish(server: TestServer) -> TestServer {
    let table = r#"{"tableId":"t","name":"T","permissions":["read(\"any\")","delete(\"any\")"],
        "columns":[{"key":"n","type":"integer"},{"key":"s","type":"text"}],
        "indexes":[{"key":"one_n","type":"unique","attributes":["n"]}]}"#;
    for (path, body) in [
        ("/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#),
        ("/v1/tablesdb/d/tables", table),
    ] {
        let made = server.ask("POST", path, body);
        assert_eq!(made.status, 201, "{}", made.text);
    }
    server
}

/// A stream of lines in chunks, and of the lines that answer them.
struct Stream {
    out: TcpStream,
    answers: BufReader<TcpStream>,
    head: String,
}

impl Stream {
    fn open(server: &TestServer, what: &str, key: bool) -> Stream {
        Stream::open_by(server, what, key.then_some(KEY))
    }

    fn open_by(server: &TestServer, what: &str, key: Option<&str>) -> Stream {
        let secret = key.map_or(String::new(), |key| format!("X-Appwrite-Key: {key}\r\n"));
        Stream::open_with(server, what, &secret)
    }

    /// A guest at this address, as the proxy before the server says.
    fn open_from(server: &TestServer, what: &str, address: &str) -> Stream {
        Stream::open_with(server, what, &format!("X-Forwarded-For: {address}\r\n"))
    }

    /// With these lines in its head, too.
    fn open_with(server: &TestServer, what: &str, headers: &str) -> Stream {
        let mut out = TcpStream::connect(server.address).unwrap();
        write!(
            out,
            "POST /v1/tidemark/databases/d/batch/{what} HTTP/1.1\r\nHost: t\r\n{headers}\
             X-Appwrite-Project: {PROJECT}\r\nContent-Type: application/x-ndjson\r\n\
             Transfer-Encoding: chunked\r\n\r\n"
        )
        .unwrap();
        let answers = BufReader::new(out.try_clone().unwrap());
        let head = String::new();
        Stream { out, answers, head }
    }

    fn send(&mut self, text: &str) {
        // One write: the second of two would wait for the answer to the first, some 40 ms.
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.out.write_all(chunk.as_bytes()).unwrap();
    }

    fn end(&mut self) {
        self.out.write_all(b"0\r\n\r\n").unwrap();
    }

    fn read_head(&mut self) {
        while !self.head.ends_with("\r\n\r\n") {
            assert!(self.answers.read_line(&mut self.head).unwrap() > 0);
        }
    }

    /// A line of the answer; `None` at its end.
    fn line(&mut self) -> Option<Value> {
        self.read_head();
        let mut line = String::new();
        // Sizes of chunks stand on lines of their own.
        while !line.starts_with('{') {
            line.clear();
            // A server that cannot read on may also end the connection.
            if self.answers.read_line(&mut line).unwrap_or(0) == 0 {
                return None;
            }
        }
        Some(serde_json::from_str(&line).unwrap())
    }

    fn rest(mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.line()).collect()
    }
}

fn create(n: i64) -> String {
    let row = json!({"action": "create", "tableId": "t", "rowId": format!("r{n}"),
        "data": {"n": n}});
    format!("{row}\n")
}

#[test]
fn stream_in_very_many_pieces_ends_with_a_refusal() {
    let server = server();
    let mut stream = Stream::open(&server, "reads", true);
    // Lines as short as they can be, each a piece of its own.
    let line = "{\"tableId\":\"t\",\"ids\":[\"r\"]}\n";
    for _ in 0..1_500 {
        stream.send(line);
        let answer = stream.line().unwrap();
        assert!(answer.get("error").is_none(), "{answer}");
    }
    // A line that never ends, byte by byte.
    let bytes = "1\r\nx\r\n".repeat(4_000);
    stream.out.write_all(bytes.as_bytes()).unwrap();
    let last = stream.line().unwrap();
    assert_eq!(last["error"]["type"], "general_bad_request", "{last}");
    let message = last["error"]["message"].as_str().unwrap();
    assert!(message.contains("too many pieces"), "{message}");
    assert!(stream.line().is_none());
}

#[test]
fn each_line_is_answered_before_the_next_is_sent() {
    let server = server();
    let mut stream = Stream::open(&server, "writes", true);
    let mut marks = Vec::new();
    for n in 0..20 {
        stream.send(&create(n));
        marks.push(stream.line().unwrap()["mark"].as_i64().unwrap());
    }
    assert!(marks.is_sorted_by(|one, next| one < next));
    // A line may come in pieces.
    let line = create(20);
    stream.send(&line[..10]);
    stream.send(&line[10..]);
    assert!(stream.line().unwrap()["mark"].is_i64());
    stream.send(&create(20));
    let refused = stream.line().unwrap();
    assert_eq!(refused["error"]["type"], "row_already_exists");
    stream.end();
    let head = stream.head.to_ascii_lowercase();
    assert!(
        head.contains("content-type: application/x-ndjson"),
        "{head}"
    );
    assert!(head.contains("connection: close"), "{head}");
    assert_eq!(stream.rest(), [Value::Null; 0]);
    assert_eq!(server.ask("GET", ROWS, "").json()["total"], 21);

    let mut stream = Stream::open(&server, "reads", true);
    for n in 0..20 {
        let line = json!({"tableId": "t", "ids": [format!("r{n}"), "none"]});
        stream.send(&format!("{line}\n"));
        let found = stream.line().unwrap();
        assert_eq!(found["rows"][0]["n"], n);
        assert_eq!(found["rows"][1], Value::Null);
        assert!(found["mark"].is_i64());
    }
    let line = json!({"tableId": "t", "index": "one_n", "keys": [3], "asOf": marks[2]});
    stream.send(&line.to_string());
    stream.end();
    let rest = stream.rest();
    assert_eq!(rest[0]["rows"], json!([null]), "the last line needs no end");
    assert_eq!(rest[0]["asOf"], iso_us(Timestamp(marks[2])));
}

#[test]
fn more_is_streamed_than_one_request_may_hold() {
    let server = server();
    let mut stream = Stream::open(&server, "writes", true);
    let lines: Vec<String> = (0..3_000).map(create).collect();
    let mut sending = Stream {
        out: stream.out.try_clone().unwrap(),
        answers: BufReader::new(stream.out.try_clone().unwrap()),
        head: String::new(),
    };
    let sent = std::thread::spawn(move || {
        for several in lines.chunks(500) {
            sending.send(&several.concat());
        }
        sending.end();
    });
    for nth in 0..3_000 {
        let line = stream.line().unwrap();
        assert!(line["mark"].is_i64(), "{nth}: {line}");
    }
    sent.join().unwrap();
    assert_eq!(stream.line(), None);
    let all = server
        .ask("GET", "/v1/tablesdb/d/tables/t/rows?total=true", "")
        .json();
    assert_eq!(all["total"], 3_000);
    let mut stream = Stream::open(&server, "reads", true);
    let ids: Vec<String> = (0..600).map(|n| format!("r{n}")).collect();
    let line = json!({"tableId": "t", "ids": ids}).to_string() + "\n";
    stream.send(&line.repeat(5));
    stream.end();
    let found = stream.rest();
    assert_eq!(found.len(), 5);
    assert!(
        found
            .iter()
            .all(|one| one["rows"].as_array().unwrap().len() == 600)
    );
}

#[test]
fn fault_in_one_line_leaves_the_others_alone() {
    let server = server();
    server.ask("POST", ROWS, r#"{"rowId":"r1","data":{"n":1}}"#);
    let mut stream = Stream::open(&server, "reads", true);
    let too_many: Vec<String> = (0..1_001).map(|n| format!("r{n}")).collect();
    let too_many = json!({"tableId": "t", "ids": too_many}).to_string();
    for line in [
        "x",
        "[1]",
        "{}",
        r#"{"tableId":"none","ids":["a"]}"#,
        r#"{"tableId":"t","ids":[]}"#,
        &too_many,
        r#"{"tableId":"t","ids":["r1"],"asOf":"x"}"#,
        "",
        r#"{"tableId":"t","ids":["r1"]}"#,
    ] {
        stream.send(&format!("{line}\n"));
    }
    stream.end();
    let types: Vec<Value> = stream
        .rest()
        .iter()
        .map(|one| one["error"]["type"].clone())
        .collect();
    let bad = json!("general_bad_request");
    let wrong = json!("general_argument_invalid");
    let wanted = [
        bad.clone(),
        bad,
        wrong.clone(),
        json!("table_not_found"),
        wrong.clone(),
        wrong.clone(),
        wrong,
        Value::Null,
    ];
    assert_eq!(types, wanted);
    let mut stream = Stream::open(&server, "writes", false);
    stream.send(&create(5));
    stream.send("{\"action\":\"fly\",\"tableId\":\"t\"}\n");
    stream.end();
    let types: Vec<Value> = stream
        .rest()
        .iter()
        .map(|one| one["error"]["type"].clone())
        .collect();
    assert_eq!(
        types,
        [
            json!("user_unauthorized"),
            json!("general_argument_invalid")
        ]
    );
}

#[test]
fn a_stream_that_cannot_go_on_says_why() {
    let server = server();
    let mut stream = Stream::open(&server, "writes", true);
    stream.send(&create(1));
    assert!(stream.line().unwrap()["mark"].is_i64());
    stream.send(&"x".repeat(700_000));
    stream.send(&"x".repeat(700_000));
    let last = stream.line().unwrap();
    assert_eq!(last["error"]["type"], "general_payload_too_large");

    let mut stream = Stream::open(&server, "writes", true);
    stream.send(&create(2));
    assert!(stream.line().unwrap()["mark"].is_i64());
    stream.out.write_all(b"zz\r\n").unwrap();
    let last = stream.line();
    assert!(
        last.as_ref()
            .is_none_or(|last| last["error"]["type"] == "general_bad_request"),
        "{last:?}"
    );

    for (headers, wanted) in [
        (
            "X-Appwrite-Key: x\r\nX-Appwrite-Project: none\r\n".to_owned(),
            "404",
        ),
        (
            format!(
                "X-Appwrite-Project: {PROJECT}\r\nX-Appwrite-Key: {KEY}\r\n\
                 Idempotency-Key: k\r\n"
            ),
            "400",
        ),
    ] {
        let mut out = TcpStream::connect(server.address).unwrap();
        write!(
            out,
            "POST /v1/tidemark/databases/d/batch/writes HTTP/1.1\r\nHost: t\r\n{headers}\
             Content-Type: application/x-ndjson\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        out.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {wanted}")),
            "{answer}"
        );
    }
}

#[test]
fn streams_have_a_greatest_number() {
    let server = server();
    let mut open: Vec<Stream> = (0..64)
        .map(|_| Stream::open(&server, "writes", true))
        .collect();
    for stream in &mut open {
        stream.send("{}\n");
        assert!(stream.line().unwrap()["error"].is_object());
    }
    let mut one_more = Stream::open(&server, "writes", true);
    one_more.read_head();
    assert!(
        one_more.head.starts_with("HTTP/1.1 503"),
        "{}",
        one_more.head
    );
    for mut stream in open {
        stream.end();
        assert_eq!(stream.rest(), [Value::Null; 0]);
    }
    let mut again = Stream::open(&server, "writes", true);
    again.send(&create(1));
    assert!(again.line().unwrap()["mark"].is_i64());
}

#[test]
fn a_key_that_is_revoked_reads_and_writes_no_further_line() {
    let server = server();
    let read = r#"{"tableId":"t","ids":["r1"]}"#.to_owned()
        + "
";
    let mut open = [("reads", read.clone()), ("writes", create(1))].map(|(what, line)| {
        let mut stream = Stream::open_by(&server, what, Some(ROWS_KEY));
        stream.send(&line);
        let answered = stream.line().unwrap();
        assert!(answered["mark"].is_i64(), "{answered}");
        stream
    });
    server.revoke("rows");
    open[0].send(&read);
    open[1].send(&create(2));
    for mut stream in open {
        let last = stream.line().unwrap();
        assert_eq!(last["error"]["type"], "general_unauthorized_scope");
        stream.end();
        assert_eq!(stream.rest(), [Value::Null; 0]);
    }
    let read = server.ask("GET", &format!("{ROWS}/r2"), "");
    assert_eq!(read.refusal(), "404 row_not_found", "the line was not done");
    // A stream of a key that is gone begins nothing.
    let mut stream = Stream::open_by(&server, "reads", Some(ROWS_KEY));
    stream.read_head();
    assert!(stream.head.starts_with("HTTP/1.1 401"), "{}", stream.head);
}

#[test]
fn a_stream_has_a_longest_life() {
    let server = furnish(TestServer::start_with(Limits {
        stream_ms: 1,
        ..LIMITS
    }));
    let mut stream = Stream::open(&server, "writes", true);
    // Nothing is sent; the stream says by itself that it is over.
    let last = stream.line().unwrap();
    assert_eq!(last["error"]["type"], "general_request_timeout");
    let said = last["error"]["message"].as_str().unwrap();
    assert!(said.contains("1 ms"), "{said}");
    stream.end();
    assert_eq!(stream.rest(), [Value::Null; 0]);
}

/// Opens one that answers; the status line and the reason of one that is refused.
fn opened(server: &TestServer, address: &str) -> Result<Stream, String> {
    let mut stream = Stream::open_from(server, "reads", address);
    stream.read_head();
    if stream.head.starts_with("HTTP/1.1 200 ") {
        return Ok(stream);
    }
    let line = stream.line().expect("a refusal has a body");
    Err(format!("{} {}", &stream.head[9..12], line["message"]))
}

#[test]
fn streams_of_guests_take_no_place_of_a_key() {
    let server = furnish(TestServer::start_behind_a_proxy());
    let address = |nth: usize| format!("192.0.2.{}", nth / 4);
    let mut open: Vec<Stream> = (0..16)
        .map(|nth| opened(&server, &address(nth)).unwrap())
        .collect();
    for stream in &mut open {
        stream.send("{}\n");
        assert!(stream.line().unwrap()["error"].is_object());
    }
    let refused = opened(&server, "192.0.2.99").err().unwrap();
    assert!(refused.starts_with("503 "), "{refused}");
    assert!(refused.contains("At most 16 streams without"), "{refused}");
    let mut keyed = Stream::open(&server, "writes", true);
    keyed.send(&create(1));
    assert!(keyed.line().unwrap()["mark"].is_i64());
    let closed = r#"{"name":"T","permissions":["read(\"any\")"]}"#;
    assert_eq!(
        server.ask("PUT", "/v1/tablesdb/d/tables/t", closed).status,
        200
    );
    let mut refused = Stream::open(&server, "writes", false);
    refused.read_head();
    assert!(refused.head.starts_with("HTTP/1.1 401"), "{}", refused.head);
}

#[test]
fn an_address_has_a_quarter_of_the_streams_of_guests() {
    let server = furnish(TestServer::start_behind_a_proxy());
    // All of a network of 64 bits is one address.
    let host = |nth: usize| format!("2001:db8:1:2::{nth:x}");
    let open: Vec<Stream> = (0..4)
        .map(|nth| opened(&server, &host(nth)).unwrap())
        .collect();
    let refused = opened(&server, &host(9)).err().unwrap();
    assert!(refused.starts_with("503 "), "{refused}");
    assert!(refused.contains("At most 4 streams"), "{refused}");
    assert!(refused.contains("from one address"), "{refused}");
    // Others have places, and who names another client before the proxy does is not believed.
    let other = opened(&server, "2001:db8:1:3::1").unwrap();
    let forged = format!("198.51.100.7, {}", host(10));
    assert!(opened(&server, &forged).is_err());
    for mut stream in open.into_iter().chain([other]) {
        stream.end();
        assert_eq!(stream.rest(), [Value::Null; 0]);
    }
    assert!(
        opened(&server, &host(9)).is_ok(),
        "an ended one leaves its place"
    );
}

/// Two streams that have answered a line each, of reads and of writes.
fn answering(server: &TestServer, key: Option<&str>, read: &str, write: &str) -> [Stream; 2] {
    [("reads", read), ("writes", write)].map(|(what, line)| {
        let mut stream = Stream::open_by(server, what, key);
        stream.send(line);
        let answered = stream.line().unwrap();
        assert!(answered["mark"].is_i64(), "{answered}");
        stream
    })
}

const READ: &str = "{\"tableId\":\"t\",\"ids\":[\"r1\"]}\n";

#[test]
fn a_key_that_expires_reads_and_writes_no_further_line() {
    let server = server();
    server.create_key_for("short", "standard_short", 3_600);
    let streams = answering(&server, Some("standard_short"), READ, &create(1));
    server.skip_s(3_601);
    for (mut stream, line) in streams.into_iter().zip([READ.to_owned(), create(2)]) {
        stream.send(&line);
        let last = stream.line().unwrap();
        assert_eq!(last["error"]["code"], 401, "{last}");
        assert_eq!(last["error"]["type"], "project_key_expired");
        stream.end();
        assert_eq!(stream.rest(), [Value::Null; 0]);
    }
    let read = server.ask("GET", &format!("{ROWS}/r2"), "");
    assert_eq!(read.refusal(), "404 row_not_found", "the line was not done");
}

/// Changes grants and row security of the table.
fn set_table(server: &TestServer, grants: &str, row_security: bool) {
    let body = format!(r#"{{"name":"T","permissions":{grants},"rowSecurity":{row_security}}}"#);
    let set = server.ask("PUT", "/v1/tablesdb/d/tables/t", &body);
    assert_eq!(set.status, 200, "{}", set.text);
}

const OPEN: &str = r#"["read(\"any\")","create(\"any\")"]"#;

#[test]
fn a_grant_that_is_taken_away_ends_with_the_next_group() {
    let server = server();
    set_table(&server, OPEN, false);
    let [mut reads, mut writes] = answering(&server, None, READ, &create(1));
    reads.send(READ);
    assert_eq!(reads.line().unwrap()["rows"][0]["n"], 1);
    set_table(&server, "[]", false);
    reads.send(READ);
    let found = reads.line().unwrap();
    assert_eq!(found["rows"], json!([null]), "{found}");
    writes.send(&create(2));
    let line = writes.line().unwrap();
    assert_eq!(line["error"]["type"], "user_unauthorized", "{line}");
    let read = server.ask("GET", &format!("{ROWS}/r2"), "");
    assert_eq!(read.refusal(), "404 row_not_found", "the line was not done");
    // Given again, the streams that are still open have it again.
    set_table(&server, OPEN, false);
    reads.send(READ);
    assert_eq!(reads.line().unwrap()["rows"][0]["n"], 1);
    writes.send(&create(2));
    assert!(writes.line().unwrap()["mark"].is_i64());
}

#[test]
fn row_security_that_is_switched_on_filters_the_next_group() {
    let server = server();
    set_table(&server, OPEN, false);
    let row = r#"{"rowId":"r9","data":{"n":9},"permissions":["read(\"any\")"]}"#;
    assert_eq!(server.ask("POST", ROWS, row).status, 201);
    let [mut reads, _writes] = answering(&server, None, READ, &create(1));
    let both = "{\"tableId\":\"t\",\"ids\":[\"r1\",\"r9\"]}\n";
    reads.send(both);
    let found = reads.line().unwrap();
    assert_eq!(
        (&found["rows"][0]["n"], &found["rows"][1]["n"]),
        (&json!(1), &json!(9))
    );
    set_table(&server, r#"["create(\"any\")"]"#, true);
    reads.send(both);
    let found = reads.line().unwrap();
    assert_eq!(found["rows"][0], Value::Null, "{found}");
    assert_eq!(found["rows"][1]["n"], 9, "{found}");
}

#[test]
fn a_row_permission_that_is_revoked_hides_the_row_from_the_next_group() {
    let server = server();
    set_table(&server, r#"["create(\"any\")"]"#, true);
    let row = r#"{"rowId":"r1","data":{"n":1},
        "permissions":["read(\"any\")","update(\"any\")"]}"#;
    assert_eq!(server.ask("POST", ROWS, row).status, 201);
    let update = |n: i64| {
        let line = json!({"action": "update", "tableId": "t", "rowId": "r1", "data": {"n": n}});
        format!("{line}\n")
    };
    let [mut reads, mut writes] = answering(&server, None, READ, &update(2));
    reads.send(READ);
    assert_eq!(reads.line().unwrap()["rows"][0]["n"], 2);
    let path = format!("{ROWS}/r1");
    assert_eq!(
        server.ask("PATCH", &path, r#"{"permissions":[]}"#).status,
        200
    );
    reads.send(READ);
    let found = reads.line().unwrap();
    assert_eq!(found["rows"], json!([null]), "{found}");
    writes.send(&update(3));
    let line = writes.line().unwrap();
    assert!(line["error"].is_object(), "{line}");
    assert_eq!(
        server.ask("GET", &path, "").json()["n"],
        2,
        "the line was not done"
    );
}

#[test]
fn a_stream_ends_with_its_server() {
    let mut server = server();
    let mut stream = Stream::open(&server, "writes", true);
    stream.send(&create(1));
    assert!(stream.line().unwrap()["mark"].is_i64());
    let waiting = std::thread::spawn(move || {
        let last = stream.line();
        stream.end();
        (last, stream.rest())
    });
    assert_eq!(server.stop().unfinished, 0);
    let (last, rest) = waiting.join().unwrap();
    assert_eq!(
        last.unwrap()["error"]["type"],
        "general_service_unavailable"
    );
    assert_eq!(rest, [Value::Null; 0]);
}

#[test]
fn metadata_of_a_stream_is_that_of_each_line_also_after_a_change_of_the_schema() {
    let server = server();
    let headers = format!("X-Appwrite-Key: {KEY}\r\nX-Tidemark-Meta: {{\"why\":\"load\"}}\r\n");
    let mut stream = Stream::open_with(&server, "writes", &headers);
    let mut marks = Vec::new();
    for n in 0..4 {
        stream.send(&create(n));
        marks.push(stream.line().unwrap()["mark"].as_i64().unwrap());
        // The caller of the stream is looked up again under the new catalogue.
        let column = json!({"key": format!("c{n}"), "required": false}).to_string();
        let path = "/v1/tablesdb/d/tables/t/columns/boolean";
        assert_eq!(server.ask("POST", path, &column).status, 202);
    }
    stream.end();
    let feed = json!({"kind": "feed", "after": marks[0] - 1}).to_string();
    let records = server.ask("POST", "/v1/tidemark/databases/d/reads", &feed);
    let records = records.json()["rows"].as_array().unwrap().clone();
    let said = |mark: &i64| {
        let record = records.iter().find(|record| record["tt"] == *mark);
        record.unwrap()["meta"].clone()
    };
    let said: Vec<Value> = marks.iter().map(said).collect();
    assert_eq!(said, vec![json!({"why": "load"}); 4]);
}
