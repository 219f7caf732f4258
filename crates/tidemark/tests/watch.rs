//! The built binary as an operator watches it: metrics at an address of their own, slow queries in
//! the log, traces.

mod process;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use process::{Folder, assert_refused, on, text, tidemark};
use prost::Message as _;
use serde_json::{Value, json};
use testing::{ChildServer, ServerLog};

const ROWS: &str = "/tablesdb/d/tables/t/rows";

/// Database `d` with table `t`, and some rows.
fn furnish(server: &ChildServer, rows: usize) {
    server.call(
        "POST",
        "/tablesdb",
        &json!({"databaseId": "d", "name": "D"}),
    );
    let table = json!({
        "tableId": "t", "name": "T", "permissions": ["read(\"any\")"],
        "columns": [{"key": "genre", "type": "varchar", "size": 100},
                    {"key": "title", "type": "varchar", "size": 100},
                    {"key": "year", "type": "integer"}],
    });
    server.call("POST", "/tablesdb/d/tables", &table);
    for first in (0..rows).step_by(100) {
        let row = |n: usize| {
            let title = format!("book {n}");
            json!({"$id": format!("r{n}"), "genre": "g", "title": title, "year": n})
        };
        let rows: Vec<Value> = (first..rows.min(first + 100)).map(row).collect();
        server.call("POST", ROWS, &json!({ "rows": rows }));
    }
}

/// Sends a head and reads the answer to its end.
fn exchange(mut stream: impl std::io::Read + std::io::Write, line: &str) -> String {
    let (line, header) = line.split_once('|').unwrap_or((line, "X-None: none"));
    write!(
        stream,
        "{line} HTTP/1.1\r\nHost: t\r\n{header}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn at_metrics(server: &ChildServer, line: &str) -> String {
    let url = server.metrics.as_deref().expect("the banner names it");
    let authority = url
        .trim_start_matches("http://")
        .trim_end_matches("/metrics");
    exchange(TcpStream::connect(authority).unwrap(), line)
}

/// The names of a process's threads.
fn threads_of(process: u32) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let name = |thread: std::fs::DirEntry| {
        let name = std::fs::read_to_string(thread.path().join("comm"));
        name.unwrap_or_default().trim().to_owned()
    };
    threads.flatten().map(name).collect()
}

#[test]
fn metrics_have_an_address_of_their_own_and_only_if_it_is_wanted() {
    let folder = Folder::new();
    let wanted = [("TIDEMARK_METRICS_LISTEN", "127.0.0.1:0")];
    let server = process::start_with(&folder, &wanted);
    furnish(&server, 1);
    let classic = at_metrics(&server, "GET /metrics");
    assert!(classic.starts_with("HTTP/1.1 200"), "{classic}");
    assert!(
        classic.contains("content-type: text/plain; version=0.0.4"),
        "{classic}"
    );
    let openly = "GET /metrics|Accept: application/openmetrics-text;version=1.0.0";
    let answer = at_metrics(&server, openly);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        answer.contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{answer}"
    );
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    let created = "tidemark_http_requests_total{method=\"POST\",route=\"/v1/tablesdb\",\
                   status=\"201\"} 1\n";
    assert!(
        answer.contains(created) && classic.contains(created),
        "{answer}"
    );
    assert!(
        threads_of(server.child.id()).contains(&"metrics".to_owned()),
        "readers have a thread of their own"
    );
    let head = at_metrics(&server, "HEAD /metrics");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"));
    let other = at_metrics(&server, "POST /metrics");
    assert!(other.starts_with("HTTP/1.1 405") && other.contains("allow: GET, HEAD"));
    assert!(at_metrics(&server, "GET /").starts_with("HTTP/1.1 404"));
    // The port of applications does not show them to any client.
    let stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    assert!(exchange(stream, "GET /metrics").starts_with("HTTP/1.1 404"));
    // Who may administer may look without a setting, and who may only connect may not.
    let connected = || UnixStream::connect(folder.data().join("admin.sock")).unwrap();
    let token = std::fs::read_to_string(folder.data().join("admin.token")).unwrap();
    let authorized = |token: &str| format!("GET /metrics|Authorization: Bearer {token}");
    for request in ["GET /metrics".to_owned(), authorized("00"), authorized("")] {
        let refused = exchange(connected(), &request);
        assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
        assert!(
            refused.contains("admin.token") && !refused.contains(created),
            "{refused}"
        );
    }
    assert!(exchange(connected(), &authorized(token.trim())).contains(created));
    server.stop().unwrap();
    let server = process::start(&folder);
    assert_eq!(server.metrics, None);
    server.stop().unwrap();
}

#[test]
fn an_address_that_is_taken_stops_the_start_and_is_named() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let start = |words: &str| {
        let mut command = tidemark("serve --listen 127.0.0.1:0");
        command.args(words.split(' ')).arg("--data");
        command.arg(folder.data()).output().unwrap()
    };
    let refused = start(&format!("--metrics-listen {address}"));
    assert_refused(&refused, 1, &format!("cannot show metrics at {address}"));
    let refused = start("--metrics-listen 8281");
    assert_refused(&refused, 2, "such as 127.0.0.1:8280");
}

#[test]
fn a_slow_query_is_logged_with_its_plan_and_the_index_that_would_help() {
    let folder = Folder::new();
    let env = [
        ("TIDEMARK_SLOW_QUERY_MS", "1"),
        ("TIDEMARK_LOG_FORMAT", "json"),
        ("TIDEMARK_TOTAL_CAP", "0"),
    ];
    let mut server = process::launch(&folder, &env, ServerLog::Piped);
    furnish(&server, 5_000);
    // Each row is tested twice by a function of ours, which takes milliseconds on any machine.
    let queries = [
        r#"{"method":"regex","attribute":"title","values":["secret$"]}"#,
        r#"{"method":"equal","attribute":"genre","values":["g"]}"#,
        r#"{"method":"orderDesc","attribute":"year"}"#,
    ];
    server.call(
        "POST",
        "/tablesdb/d/tables/t/rows/query",
        &json!({ "queries": queries }),
    );
    // Its end ends the log, too, should the line be missing.
    server.signal("TERM").unwrap();
    let line = server.log_line_with("a slow query");
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["target"], "slow");
    assert_eq!(
        (&line["database"], &line["table"]),
        (&json!("d"), &json!("t"))
    );
    let shape = r#"equal("genre") regex("title") orderDesc("year")"#;
    assert_eq!(line["query"], shape);
    assert_eq!((&line["limit"], &line["rows"]), (&json!(25), &json!(0)));
    assert_eq!(line["index"], "genre, year DESC");
    assert!(line["ms"].as_u64() >= Some(1), "{line}");
    assert!(line["plan"].as_str().unwrap().contains("SCAN"), "{line}");
    assert!(line["scanned"].as_u64() >= Some(5_000), "{line}");
    assert!(!line.to_string().contains("secret"), "{line}");
}

#[test]
fn a_refused_origin_is_logged_once_with_the_setting_that_allows_it() {
    let folder = Folder::new();
    let env = [("TIDEMARK_LOG_FORMAT", "json")];
    let mut server = process::launch(&folder, &env, ServerLog::Piped);
    let authority = server.endpoint.trim_start_matches("http://").to_owned();
    let authority = authority.trim_end_matches("/v1");
    // More than a line in ten seconds would let any page fill the log.
    let long = format!("https://{}.example", "a".repeat(2_000));
    for origin in ["https://shop.example:8443", "https://other.example", &long] {
        let stream = TcpStream::connect(authority).unwrap();
        let answer = exchange(stream, &format!("GET /v1/ping|Origin: {origin}"));
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    }
    server.signal("TERM").unwrap();
    let line = server.log_line_with("web page");
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["origin"], "https://shop.example:8443");
    let message = line["message"].as_str().unwrap();
    assert!(message.contains("--cors-origin=shop.example"), "{message}");
    let rest = server.rest_of_log();
    assert!(!rest.contains("web page"), "{rest}");
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Lists rows in the words of this family, as part of this trace.
fn list_within(server: &ChildServer, rows: &str, traceparent: &str) {
    let key = server.key.as_deref().unwrap();
    let line = format!(
        "GET /v1{rows} HTTP/1.1\r\nHost: t\r\nX-Appwrite-Project: default\r\nX-Appwrite-Key: {key}\
         \r\ntraceparent: {traceparent}\r\nConnection: close\r\n\r\n"
    );
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    stream.write_all(line.as_bytes()).unwrap();
    let answer = std::io::read_to_string(stream).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Takes batches of spans, as a collector does, until one is empty; gives the spans. Each batch
/// must come with this header.
fn collector(header: &'static str) -> (String, JoinHandle<Vec<Span>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let taking = std::thread::spawn(move || {
        let mut spans = Vec::new();
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (line, head, body) = take_request(&mut stream);
            if body.is_empty() {
                break;
            }
            assert!(head.iter().any(|line| line == header), "{head:?}");
            let strange = head.iter().find(|line| line.contains("stray"));
            assert_eq!(strange, None, "no variable but ours is read");
            assert_eq!(line, "POST /v1/traces HTTP/1.1");
            let batch = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
            for of_resource in batch.resource_spans {
                let resource = of_resource.resource.unwrap();
                let name = resource.attributes.iter().find(|a| a.key == "service.name");
                assert!(format!("{name:?}").contains("tidemark"), "{resource:?}");
                assert!(!format!("{resource:?}").contains("stray"), "{resource:?}");
                let scopes = of_resource.scope_spans.into_iter();
                spans.extend(scopes.flat_map(|scope| scope.spans));
            }
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
        spans
    });
    (address, taking)
}

/// The first line of a request, its head in small letters, and its body.
fn take_request(stream: &mut BufReader<TcpStream>) -> (String, Vec<String>, Vec<u8>) {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_ascii_lowercase());
    }
    let length = head
        .iter()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    let line = head.first().cloned().unwrap_or_default();
    let line = line.replace("post", "POST").replace("http", "HTTP");
    (line, head, body)
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digit = |value| char::from_digit(u32::from(value), 16).expect("half a byte");
    digits.map(digit).collect()
}

#[test]
fn requests_of_a_trace_reach_the_collector_and_the_log() {
    let folder = Folder::new();
    let (address, taking) = collector("x-tenant: a");
    let endpoint = format!("http://{address}/v1/traces");
    let env = [
        ("TIDEMARK_OTLP_ENDPOINT", endpoint.as_str()),
        ("TIDEMARK_OTLP_HEADERS", "x-tenant=a"),
        ("TIDEMARK_OTLP_ONE_OF", "0"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-stray=1"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_RESOURCE_ATTRIBUTES", "stray=1"),
        ("OTEL_SERVICE_NAME", "stray"),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "0"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "1"),
        ("OTEL_TRACES_SAMPLER", "always_off"),
        ("TIDEMARK_LOG_FORMAT", "json"),
        ("TIDEMARK_LOG_LEVEL", "info,access=debug"),
    ];
    let mut server = process::launch(&folder, &env, ServerLog::Piped);
    furnish(&server, 1);
    let older = "/databases/d/collections/t/documents";
    let sampled = format!("00-{TRACE}-{PARENT}-01");
    list_within(&server, ROWS, &sampled);
    let line = server.log_line_with("\"trace_id\"");
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&line["trace_id"], &line["parent_id"]),
        (&json!(TRACE), &json!(PARENT))
    );
    // The third one is answered at once.
    list_within(&server, ROWS, &sampled);
    list_within(&server, ROWS, &sampled);
    list_within(&server, older, &sampled);
    list_within(&server, older, &format!("00-{TRACE}-{PARENT}-00"));
    list_within(&server, older, "00-nonsense-01");
    let span_id = line["span_id"].as_str().unwrap().to_owned();
    server
        .stop()
        .expect("and what waits is sent before the end");
    // An empty request ends the collector.
    let mut end = TcpStream::connect(address).unwrap();
    end.write_all(b"POST / HTTP/1.1\r\n\r\n").unwrap();
    let spans = taking.join().unwrap();
    assert_eq!(spans.len(), 4, "{spans:?}");
    for span in &spans {
        assert_eq!(hex(&span.trace_id), TRACE);
        assert_eq!(hex(&span.parent_span_id), PARENT);
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    }
    assert_eq!(hex(&spans[0].span_id), span_id);
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    let rows = "GET /v1/tablesdb/{database}/tables/{table}/rows";
    assert_eq!(names[..3], [rows; 3]);
    assert_eq!(
        names[3],
        "GET /v1/databases/{database}/collections/{table}/documents"
    );
    let attributes = format!("{:?}", spans[3].attributes);
    assert!(
        attributes.contains("http.response.status_code"),
        "{attributes}"
    );
}

#[test]
fn a_collector_that_is_gone_holds_up_nobody() {
    let folder = Folder::new();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    let env = [
        ("TIDEMARK_OTLP_ENDPOINT", endpoint.as_str()),
        ("TIDEMARK_OTLP_ONE_OF", "1"),
    ];
    let mut server = process::launch(&folder, &env, ServerLog::Piped);
    furnish(&server, 1);
    server.signal("TERM").unwrap();
    server.log_line_with("traces cannot be sent; they are lost");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let refused = tidemark("serve --otlp-endpoint collector:4318 --data")
        .arg(folder.data())
        .output()
        .unwrap();
    assert_refused(
        &refused,
        1,
        "--otlp-endpoint: `collector:4318` is not of the form http://host:port or https://host,",
    );
}

/// Asks without a key by a method of its own, as part of a trace that is sampled.
fn ask_strangely(server: &ChildServer, times: usize) {
    let (method, state) = ("X".repeat(20_000), "b".repeat(20_000));
    let sampled = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a={state}");
    let line = format!("{method} /v1/nowhere HTTP/1.1\r\nHost: t\r\n{sampled}\r\n");
    for _ in 0..times {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        let head = format!("{line}Connection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let answer = std::io::read_to_string(stream).unwrap();
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
}

#[test]
fn hostile_input_stays_small_in_spans_and_in_the_log() {
    let folder = Folder::new();
    let (address, taking) = collector("content-type: application/x-protobuf");
    let endpoint = format!("http://{address}");
    let env = [
        ("TIDEMARK_OTLP_ENDPOINT", endpoint.as_str()),
        ("TIDEMARK_OTLP_ONE_OF", "0"),
        ("TIDEMARK_LOG_LEVEL", "info,access=debug"),
    ];
    let mut server = process::launch(&folder, &env, ServerLog::Piped);
    ask_strangely(&server, 2);
    let line = server.log_line_with("_OTHER");
    assert!(line.len() < 1_000, "{line}");
    server.stop().unwrap();
    let mut end = TcpStream::connect(address).unwrap();
    end.write_all(b"POST / HTTP/1.1\r\n\r\n").unwrap();
    let spans = taking.join().unwrap();
    assert_eq!(spans.len(), 2);
    for span in spans {
        assert_eq!(span.name, "HTTP");
        assert!(span.encoded_len() < 1_000, "{}", span.encoded_len());
        assert!(format!("{:?}", span.attributes).contains("_OTHER"));
    }
}

#[test]
fn callers_that_ask_for_traces_are_not_heard_where_they_should_not_be() {
    let folder = Folder::new();
    let (address, taking) = collector("content-type: application/x-protobuf");
    let endpoint = format!("http://{address}");
    let env = [
        ("TIDEMARK_OTLP_ENDPOINT", endpoint.as_str()),
        ("TIDEMARK_OTLP_ONE_OF", "4"),
        ("TIDEMARK_OTLP_IGNORE_CALLERS", "true"),
    ];
    let server = process::start_with(&folder, &env);
    ask_strangely(&server, 8);
    server.stop().unwrap();
    let mut end = TcpStream::connect(address).unwrap();
    end.write_all(b"POST / HTTP/1.1\r\n\r\n").unwrap();
    let spans = taking.join().unwrap();
    assert_eq!(spans.len(), 2, "one of four, whatever the flag says");
    assert_eq!(
        hex(&spans[0].trace_id),
        TRACE,
        "and still of its caller's trace"
    );
}

/// Asks for the list of all rows so often, on one connection.
fn list_often(server: &ChildServer, times: usize) {
    let key = server.key.as_deref().unwrap();
    let line = format!(
        "GET /v1{ROWS} HTTP/1.1\r\nHost: t\r\nX-Appwrite-Project: default\r\n\
         X-Appwrite-Key: {key}\r\n"
    );
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    for nth in 1..=times {
        let end = if nth == times {
            "Connection: close\r\n\r\n"
        } else {
            "\r\n"
        };
        stream.write_all(format!("{line}{end}").as_bytes()).unwrap();
    }
    let answers = std::io::read_to_string(stream).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200").count(), times);
}

#[test]
fn top_shows_routes_queries_and_hits() {
    let folder = Folder::new();
    let none = on(&folder, "top --once");
    assert_refused(&none, 1, "no server runs on the data directory");
    let server = process::start(&folder);
    furnish(&server, 1);
    // The first look has answers timed.
    assert!(on(&folder, "top --once --interval-ms 0").status.success());
    list_often(&server, 200);
    // Standard output is no terminal here, which is as good as --once. What a thread answers at
    // once it reports twice a second.
    let look = || {
        let shown = on(&folder, "top --interval-ms 0");
        assert!(shown.status.success(), "{}", text(&shown.stderr));
        text(&shown.stdout)
    };
    let is_reported = |frame: &String| {
        let mut lines = frame.lines();
        lines.any(|line| line.contains("default/d/t all rows") && line.contains("99.5 %"))
    };
    let frame = (0..1_000).map(|_| look()).find(is_reported);
    let frame = frame.expect("twice a second");
    assert!(frame.starts_with("tidemark "), "{frame}");
    let line = |part: &str| {
        let found = frame.lines().find(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("`{part}` is not in\n{frame}"))
    };
    assert!(line("lists ").contains("hits 99.5 %"), "{frame}");
    let route = line("GET /v1/tablesdb/{database}/tables/{table}/rows");
    assert!(route.contains("µs") || route.contains("ms"), "{frame}");
    assert!(frame.contains("HOTTEST QUERIES") && frame.contains("SLOWEST QUERIES"));
    server.stop().unwrap();
}
