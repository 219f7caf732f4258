//! The server that all targets of a process share, and the table they ask.

use std::cell::RefCell;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::{Arc, OnceLock};

use clap::Parser as _;
use engine::Clock;
use tidemark::cli::command::{Cli, Command};
use tidemark::cli::{Outside, serve};

use testing::{Credentials, RawClient, WallClock};

pub const PROJECT: &str = "p";
pub const KEY: &str = "standard_0123456789abcdef";
/// The rows of table `t`; their order by `n` and by `s` has ties and nulls in it.
pub const ROWS: usize = 12;

fn rng(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has a source of chance");
}

thread_local! {
    static CLIENT: RefCell<RawClient> = RefCell::new(RawClient::new(port(), PROJECT, KEY));
}

/// Lends this thread's connection to the server.
pub fn with_client<T>(act: impl FnOnce(&mut RawClient) -> T) -> T {
    CLIENT.with_borrow_mut(act)
}

/// The port of the server, which the first call starts.
pub fn port() -> u16 {
    static PORT: OnceLock<u16> = OnceLock::new();
    *PORT.get_or_init(|| {
        let port = start();
        furnish(&mut RawClient::new(port, PROJECT, KEY));
        port
    })
}

/// The archive of the deployment at this path, which is no text.
pub fn download(path: &str) -> Vec<u8> {
    let path = format!("{path}/download");
    let more = "Connection: close\r\n";
    let request = with_client(|client| client.head(Credentials::Key, "GET", &path, more));
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port())).expect("it listens");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let (head, body) = answer.split_at(end.expect("an answer has a head") + 4);
    let head = String::from_utf8_lossy(head).to_lowercase();
    assert!(head.starts_with("http/1.1 200"), "{head}");
    let length = format!("content-length: {}\r\n", body.len());
    assert!(head.contains(&length), "{head}");
    body.to_vec()
}

/// Starts the server as its command line would, so that every limit is the one in use.
fn start() -> u16 {
    let directory = tempfile::tempdir().expect("a folder can be made").keep();
    let bootstrap = directory.join("bootstrap.json");
    let data = directory.join("data");
    let words = [
        "tidemark",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--log-level",
        "off",
        // Deployments are kept; this program is no launcher of jails.
        "--functions",
        "off",
    ];
    let own = [
        "--durability",
        "normal",
        "--project-id",
        PROJECT,
        "--api-key",
        KEY,
    ];
    let mut command: Vec<String> = words
        .iter()
        .chain(&own)
        .map(|word| (*word).into())
        .collect();
    for (option, path) in [("--data", &data), ("--bootstrap-file", &bootstrap)] {
        command.extend([option.into(), path.display().to_string()]);
    }
    let Command::Serve(args) = Cli::parse_from(command).command else {
        unreachable!("the words say serve");
    };
    let clock: Arc<dyn Clock> = WallClock::start();
    let setup = args
        .check(clock.clone(), rng)
        .expect("the options are legal");
    let outside = Outside {
        clock,
        rng,
        collect: |_| {},
    };
    std::thread::spawn(move || serve::run(setup, outside));
    loop {
        // The file appears whole: it is renamed into place.
        if let Ok(text) = std::fs::read(&bootstrap) {
            let written: serde_json::Value =
                serde_json::from_slice(&text).expect("the bootstrap file is JSON");
            let endpoint = written["endpoint"].as_str().expect("it names the endpoint");
            let authority = format!("http://{}:", Ipv4Addr::LOCALHOST);
            let port = endpoint
                .trim_start_matches(&authority)
                .trim_end_matches("/v1");
            return port.parse().expect("an endpoint holds a port");
        }
        std::thread::yield_now();
    }
}

fn furnish(client: &mut RawClient) {
    let mut make = |path: &str, body: &str| {
        let answer = client.ask(Credentials::Key, "POST", path, body.as_bytes());
        assert_eq!(answer.status, 201, "{path}: {}", answer.text);
    };
    for function in ["f", "g"] {
        let body = format!(
            r#"{{"functionId":"{function}","name":"F","runtime":"node-20.0","entrypoint":"m.js"}}"#
        );
        make("/v1/functions", &body);
    }
    make("/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    for table in ["t", "w", "c"] {
        let body = format!(
            r#"{{"tableId":"{table}","name":"T","permissions":["read(\"any\")"],"columns":[
                {{"key":"n","type":"integer"}},{{"key":"i","type":"integer","max":9}},
                {{"key":"f","type":"float"}},{{"key":"b","type":"boolean"}},
                {{"key":"s","type":"varchar","size":64}},{{"key":"at","type":"datetime"}},
                {{"key":"mail","type":"email"}},{{"key":"site","type":"url"}},
                {{"key":"ip","type":"ip"}},{{"key":"e","type":"enum","elements":["a","b"]}},
                {{"key":"tags","type":"varchar","size":9,"array":true}},
                {{"key":"ns","type":"integer","array":true}},{{"key":"long","type":"text"}}],
              "indexes":[{{"key":"by_n","type":"key","attributes":["n"]}},
                {{"key":"by_s","type":"key","attributes":["s","n"],"orders":["DESC","ASC"]}},
                {{"key":"words","type":"fulltext","attributes":["long"]}}]}}"#
        );
        make("/v1/tablesdb/d/tables", &body);
    }
    for place in 0..ROWS {
        let (n, s) = (place % 4, ["a", "B", "%_\\", "é😀"][place % 4]);
        let e = ["a", "b"][place % 2];
        let row = serde_json::json!({"rowId": format!("r{place}"), "data": {
            "n": n, "f": place as f64 / 2.0, "b": place % 2 == 0, "s": s, "e": e, "long": format!("red fox's {place} é_x {s}"),
            "at": format!("2026-01-{:02}T00:00:00Z", place + 1), "tags": ["x", s], "ns": [n, 7],
        }});
        make("/v1/tablesdb/d/tables/t/rows", &row.to_string());
    }
}
