//! Reads that take long: the same answers from threads of their own, and 503 when too many wait.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::fixture::{KEY, PROJECT, TestServer};
use engine::LongReads;

const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";
const HEADERS: [(&str, &str); 2] = [("x-appwrite-project", PROJECT), ("x-appwrite-key", KEY)];
/// `contains` on an unindexed column: every row is looked at.
const SCAN: &str = "queries%5B0%5D=%7B%22method%22%3A%22contains%22%2C%22attribute%22%3A%22name%22\
    %2C%22values%22%3A%5B%22nobody%22%5D%7D";

/// Six clients at a queue for one have met it full long before so many requests.
const ASKED_MAX: u32 = 20_000;

fn server(long_reads: LongReads) -> TestServer {
    let server = TestServer::start_reading(long_reads);
    server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    let table = r#"{"tableId":"t","name":"T","permissions":["read(\"any\")"],
        "columns":[{"key":"name","type":"varchar","size":200}]}"#;
    server.ask("POST", "/v1/tablesdb/d/tables", table);
    for batch in 0..20 {
        let row = |n| format!(r#"{{"$id":"r{batch}-{n}","name":"{}"}}"#, "x".repeat(150));
        let rows: Vec<String> = (0..100).map(row).collect();
        let made = server.ask("POST", ROWS, &format!(r#"{{"rows":[{}]}}"#, rows.join(",")));
        assert_eq!(made.status, 201, "{}", made.text);
    }
    server
}

#[test]
fn a_long_list_is_answered_in_its_turn() {
    let server = server(LongReads {
        after_us: 0,
        threads: 1,
        waiting_max: 10,
    });
    for ttl in ["", "&ttl=60"] {
        let none = server.ask("GET", &format!("{ROWS}?{SCAN}{ttl}"), "");
        assert_eq!(none.text, r#"{"total":0,"rows":[]}"#);
        assert!(none.header("x-tidemark-cache").starts_with("miss; "));
    }
    let total = server.ask("GET", ROWS, "").json()["total"].clone();
    assert_eq!(total, 2_000);
    let row = server.ask("GET", &format!("{ROWS}/r7-7"), "");
    assert_eq!(row.status, 200, "{}", row.text);
}

#[test]
fn too_many_long_lists_are_refused_and_points_are_answered() {
    let server = server(LongReads {
        after_us: 0,
        threads: 1,
        waiting_max: 1,
    });
    let path = format!("{ROWS}?{SCAN}");
    let (refused, asked) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        // Each asks again and again until one of them has met a full queue.
        for _ in 0..6 {
            scope.spawn(|| {
                let client = Client::connect(&server);
                while !refused.load(Ordering::Relaxed) {
                    assert!(asked.fetch_add(1, Ordering::Relaxed) < ASKED_MAX);
                    let answer = client.ask(&path);
                    if answer.starts_with("HTTP/1.1 503 ") {
                        refused.store(true, Ordering::Relaxed);
                        assert!(answer.contains("general_service_unavailable"), "{answer}");
                        assert!(answer.contains("retry-after: 1\r\n"), "{answer}");
                        assert!(
                            answer.contains("Too many long queries: 1 may wait"),
                            "{answer}"
                        );
                    } else {
                        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
                    }
                }
            });
        }
        let mut points = server.connect();
        while !refused.load(Ordering::Relaxed) && asked.load(Ordering::Relaxed) < ASKED_MAX {
            let answer = points
                .ask(&HEADERS, "GET", &format!("{ROWS}/r3-3"), "")
                .unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text);
        }
    });
    assert_eq!(
        server.ask("GET", &path, "").status,
        200,
        "later there is room again"
    );
}

#[test]
fn large_rows_are_encoded_apart_where_they_are_written_and_selected() {
    let server = TestServer::start();
    server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    let table = r#"{"tableId":"t","name":"T","columns":[{"key":"s","type":"longtext"}]}"#;
    server.ask("POST", "/v1/tablesdb/d/tables", table);
    let taken = || server.engine.store_counts().long_reads.taken;
    for (bytes, apart) in [(100_000, 0), (300_000, 1)] {
        let text = "x".repeat(bytes);
        let before = taken();
        let row = format!(r#"{{"rowId":"r{bytes}","data":{{"s":"{text}"}}}}"#);
        let made = server.ask("POST", ROWS, &row);
        assert_eq!((made.status.as_u16(), taken() - before), (201, apart));
        assert_eq!(made.json()["s"], text);
        let path = format!("{ROWS}/r{bytes}");
        let whole = server.ask("GET", &path, "");
        assert_eq!(whole.json()["s"], text);
        assert_eq!(taken() - before, apart, "what is kept is only copied");
        let select =
            "queries%5B0%5D=%7B%22method%22%3A%22select%22%2C%22values%22%3A%5B%22s%22%5D%7D";
        let selected = server.ask("GET", &format!("{path}?{select}"), "");
        assert_eq!(selected.json()["s"], text);
        assert_eq!(taken() - before, 2 * apart);
    }
}

/// Asks on a connection of its own each time, from any thread.
struct Client(std::net::SocketAddr);

impl Client {
    fn connect(server: &TestServer) -> Client {
        Client(server.address)
    }

    fn ask(&self, path: &str) -> String {
        use std::io::{Read, Write};
        let mut stream = std::net::TcpStream::connect(self.0).unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             x-appwrite-project: {PROJECT}\r\nx-appwrite-key: {KEY}\r\n\
             x-tidemark-cache: bypass\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}
