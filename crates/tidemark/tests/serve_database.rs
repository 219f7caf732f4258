//! `tidemark serve --database`: the server with its store in PostgreSQL.

mod process;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use process::{assert_refused, text, tidemark};
use serde_json::{Value, json};
use testing::{ChildServer, Credentials, RawAnswer, RawClient, ServerLog};
use testing_postgres::{Cluster, Relay};

/// A server that has lost its database for good ends the test.
const GOES_ON_IN: Duration = Duration::from_mins(1);

/// It stands in no text that is shown.
const PASSWORD: &str = "hunter2hunter2";

struct Place {
    cluster: Arc<Cluster>,
    folder: tempfile::TempDir,
    url: String,
}

impl Place {
    fn new(database: &str) -> Place {
        let cluster = Cluster::shared().unwrap();
        let made = format!("CREATE DATABASE {database}");
        cluster.run_sql("postgres", &[&made]).unwrap();
        Place {
            url: with_password(&cluster.url(database)),
            cluster,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    /// By the variable.
    fn start(&self) -> ChildServer {
        let mut serve = serve_from(&self.data());
        serve.env("TIDEMARK_DATABASE", &self.url);
        let log = self.folder.path().join("log");
        let server = ChildServer::start(serve, ServerLog::File(&log)).unwrap();
        assert!(!fs::read_to_string(log).unwrap().contains(PASSWORD));
        server
    }
}

fn serve_from(data: &Path) -> Command {
    let mut serve = tidemark("serve --listen 127.0.0.1:0");
    serve.arg("--data").arg(data);
    serve
}

fn with_password(url: &str) -> String {
    url.replacen("//tidemark@", &format!("//tidemark:{PASSWORD}@"), 1)
}

/// Makes a table and lists its rows, of which there is one.
fn furnish(server: &ChildServer) {
    let call = |route: &str, body: Value| server.call("POST", route, &body);
    call("/tablesdb", json!({"databaseId": "shop", "name": "Shop"}));
    let tables = "/tablesdb/shop/tables";
    call(tables, json!({"tableId": "items", "name": "Items"}));
    let column = json!({"key": "n", "required": false});
    call("/tablesdb/shop/tables/items/columns/integer", column);
    add_row(server, "a", 1);
    assert_eq!(totals(server), [1, 1]);
}

const ROWS: &str = "/tablesdb/shop/tables/items/rows";

fn add_row(server: &ChildServer, id: &str, n: i64) {
    let row = json!({"rowId": id, "data": {"n": n}});
    server.call("POST", ROWS, &row);
}

/// As [`ChildServer::call`], whatever the answer.
fn ask(server: &ChildServer, method: &str, route: &str, body: &Value) -> RawAnswer {
    let key = server.key.as_deref().unwrap();
    let mut client = RawClient::new(server.port(), "default", key);
    let body = body.to_string();
    client.ask(
        Credentials::Key,
        method,
        &format!("/v1{route}"),
        body.as_bytes(),
    )
}

/// Of a list that is read twice.
fn totals(server: &ChildServer) -> [u64; 2] {
    [(); 2].map(|()| {
        let list = server.call("GET", ROWS, &Value::Null);
        list["total"].as_u64().unwrap()
    })
}

#[test]
fn a_server_keeps_its_store_in_a_database_over_starts() {
    let place = Place::new("serves");
    let server = place.start();
    furnish(&server);
    add_row(&server, "b", 2);
    assert_eq!(totals(&server), [2, 2]);
    // What would be: a transaction that is read inside.
    let transaction = server.call("POST", "/tablesdb/transactions", &json!({"ttl": 300}));
    let id = transaction["$id"].as_str().unwrap().to_owned();
    let staged = json!({"rowId": "c", "data": {"n": 3}, "transactionId": id});
    server.call("POST", ROWS, &staged);
    let inside = server.call("GET", &format!("{ROWS}?transactionId={id}"), &Value::Null);
    assert_eq!(inside["total"], 3);
    assert_eq!(totals(&server), [2, 2]);
    let commit = format!("/tablesdb/transactions/{id}");
    server.call("PATCH", &commit, &json!({"commit": true}));
    assert_eq!(totals(&server), [3, 3]);
    let key = server.key.clone();
    server.stop().unwrap();

    let mut server = place.start();
    assert_eq!(server.key, None);
    server.key = key;
    assert_eq!(totals(&server), [3, 3]);
    let held = "SELECT count(*) FROM tidemark.t1";
    assert_eq!(place.cluster.run_sql("serves", &[held]).unwrap(), "3\n");
    server.stop().unwrap();
}

#[test]
fn a_second_server_and_what_needs_a_directory_are_refused() {
    let place = Place::new("held");
    let server = place.start();
    // A node of another machine, by the flag.
    let other = place.folder.path().join("other");
    let mut second = serve_from(&other);
    second.arg("--database").arg(&place.url);
    let output = second.output().unwrap();
    let said = text(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.contains("Another process holds the database held") && said.contains("connected from"),
        "{said}"
    );
    assert!(!said.contains(PASSWORD), "{said}");
    // One of this machine, on another database.
    let mut second = serve_from(&place.data());
    second.env("TIDEMARK_DATABASE", place.cluster.url("postgres"));
    let output = second.output().unwrap();
    assert_refused(&output, 1, "Another process holds the data directory");
    server.stop().unwrap();
    let data = place.data();
    let alone = |words: &str| {
        let mut command = tidemark(words);
        command.arg("--data").arg(&data);
        command
    };
    for words in ["project list", "serve --listen 127.0.0.1:0"] {
        assert_refused(
            &alone(words).output().unwrap(),
            1,
            "is in the database held",
        );
    }
    // And a directory with a store of its own is taken for no other.
    let own = place.folder.path().join("own");
    let started = ChildServer::start(serve_from(&own), ServerLog::Discarded).unwrap();
    started.stop().unwrap();
    let mut beside = serve_from(&own);
    beside.env("TIDEMARK_DATABASE", &place.url);
    assert_refused(&beside.output().unwrap(), 1, "has a store of its own");
}

#[test]
fn a_directory_stays_next_to_its_database_until_the_file_that_names_it_is_gone() {
    let place = Place::new("named");
    place.start().stop().unwrap();
    let other = format!("{}&schema=other", place.url);
    let start = || {
        let mut serve = serve_from(&place.data());
        serve.env("TIDEMARK_DATABASE", &other);
        serve
    };
    let output = start().output().unwrap();
    assert_refused(&output, 1, "is in the database named at");
    let said = text(&output.stderr);
    assert!(said.contains("remove the file tidemark.database"), "{said}");
    let made = "SELECT count(*) FROM pg_namespace WHERE nspname = 'other'";
    assert_eq!(place.cluster.run_sql("named", &[made]).unwrap(), "0\n");
    // The first one is served as before.
    place.start().stop().unwrap();
    fs::remove_file(place.data().join("tidemark.database")).unwrap();
    let server = ChildServer::start(start(), ServerLog::Discarded).unwrap();
    furnish(&server);
    server.stop().unwrap();
}

#[test]
fn a_first_start_says_in_one_sentence_what_is_missing() {
    let place = Place::new("lacks");
    let refused = |url: &str, part: &str| {
        let mut serve = serve_from(&place.data());
        serve.env("TIDEMARK_DATABASE", url);
        let output = serve.output().unwrap();
        let said = text(&output.stderr);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains(part), "`{part}` is not in: {said}");
        assert!(!said.contains(PASSWORD), "{said}");
    };
    refused(&place.url.replace("/lacks", "/absent"), "CREATE DATABASE");
    refused("mysql://u@h/d", "the URL of the database cannot be used");
    let made = [
        "CREATE ROLE guest LOGIN",
        "CREATE SCHEMA other",
        "CREATE TABLE other.t (n int)",
    ];
    place.cluster.run_sql("lacks", &made).unwrap();
    let guest = place.url.replacen("//tidemark:", "//guest:", 1);
    refused(&guest, "CREATE");
    refused(&format!("{}&schema=other", place.url), "other");
    // A URL with which nothing was opened binds the directory to nothing.
    let started = ChildServer::start(serve_from(&place.data()), ServerLog::Discarded).unwrap();
    started.stop().unwrap();
    fs::remove_dir_all(place.data()).unwrap();
    // By the file, which others may not read then.
    fs::create_dir_all(place.data()).unwrap();
    let file = place.data().join("tidemark.toml");
    fs::write(&file, format!("database = \"{}\"\n", place.url)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let server = ChildServer::start(serve_from(&place.data()), ServerLog::Discarded).unwrap();
    furnish(&server);
    server.stop().unwrap();
}

#[test]
fn health_says_when_the_database_is_gone_and_writes_go_on_when_it_is_back() {
    let place = Place::new("goes");
    let relay = Relay::start(&place.cluster).unwrap();
    let mut serve = serve_from(&place.data());
    serve.env("TIDEMARK_DATABASE", with_password(&relay.url("goes")));
    let server = ChildServer::start(serve, ServerLog::Discarded).unwrap();
    furnish(&server);
    let status = |server: &ChildServer| {
        let health = server.call("GET", "/health", &Value::Null);
        health["status"].as_str().unwrap().to_owned()
    };
    assert_eq!(status(&server), "pass");
    relay.cut();
    let add = |id: &str| {
        let row = json!({"rowId": id, "data": {"n": 9}});
        ask(&server, "POST", ROWS, &row).status
    };
    let read = ask(&server, "GET", &format!("{ROWS}/absent"), &json!({}));
    assert_eq!(read.status, 503, "{read:?}");
    assert_eq!(add("lost"), 503);
    assert_eq!(status(&server), "fail");
    relay.go_on();
    let began = Instant::now();
    let mut written = 0;
    while written != 201 {
        assert!(
            began.elapsed() < GOES_ON_IN,
            "the last answer was {written}"
        );
        written = add("back");
    }
    while totals(&server) != [2, 2] {
        assert!(began.elapsed() < GOES_ON_IN, "reads do not go on");
    }
    assert_eq!(status(&server), "pass");
    server.stop().unwrap();
}

#[test]
fn an_encrypted_column_is_kept() {
    let place = Place::new("seals");
    let server = place.start();
    furnish(&server);
    let column = json!({"key": "secret", "required": false, "encrypt": true});
    server.call("POST", "/tablesdb/shop/tables/items/columns/text", &column);
    let row = json!({"rowId": "s", "data": {"n": 1, "secret": "of one"}});
    server.call("POST", ROWS, &row);
    let key = server.key.clone();
    server.stop().unwrap();
    let mut server = place.start();
    server.key = key;
    let read = server.call("GET", &format!("{ROWS}/s"), &Value::Null);
    assert_eq!(read["secret"], "of one");
    server.stop().unwrap();
}

/// The value of a series without labels.
#[track_caller]
fn metric(text: &str, name: &str) -> u64 {
    let mut lines = text.lines();
    let found = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    found.unwrap_or_else(|| panic!("`{name}` is not in\n{text}"))
}

#[test]
fn metrics_show_connections_and_what_commits_take() {
    let place = Place::new("counted");
    let mut serve = serve_from(&place.data());
    serve.env("TIDEMARK_DATABASE", &place.url);
    serve.args(["--metrics-listen", "127.0.0.1:0"]);
    let server = ChildServer::start(serve, ServerLog::Discarded).unwrap();
    furnish(&server);
    let text = scraped(server.metrics.as_deref().unwrap());
    let value = |name: &str| metric(&text, name);
    let open = value("tidemark_database_connections");
    let (busy, most) = (
        value("tidemark_database_connections_busy"),
        value("tidemark_database_connections_max"),
    );
    assert!(open >= 2, "the writer's, and one for reads: {open}");
    assert!(busy <= open && open <= most, "{busy} {open} {most}");
    let commits = value("tidemark_commits_total");
    assert!(commits > 0);
    let histograms = ["round_trips", "held_rows", "held_bytes"].map(|of| {
        let name = format!("tidemark_commit_{of}");
        let count = value(&format!("{name}_count"));
        assert!(count >= commits, "{name}: {count} of {commits}");
        (count, value(&format!("{name}_sum")))
    });
    let [(groups, trips), (_, rows), (_, bytes)] = histograms;
    assert!(
        trips >= 2 * groups,
        "{trips} round trips of {groups} groups"
    );
    assert!(rows > 0 && bytes > rows, "{rows} rows of {bytes} bytes");
    assert_eq!(value("tidemark_commit_unknown_total"), 0);
    server.stop().unwrap();
}

/// What stands at an address of metrics.
fn scraped(url: &str) -> String {
    let address = url.strip_prefix("http://").unwrap();
    let (address, path) = address.split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Whenever a commit of rows ends, this happens in it.
fn at_commit(place: &Place, database: &str, act: &str) {
    let function = format!(
        "CREATE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN {act}; RETURN NULL; END $$"
    );
    let trigger = "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON tx \
                   DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION act()";
    let all = ["SET search_path = tidemark", &function, trigger];
    place.cluster.run_sql(database, &all).unwrap();
}

/// A write of which the database says nothing for so long that its client is answered without.
fn meet_unknown(database: &str, act: &str, is_stored: bool) {
    let place = Place::new(database);
    let relay = Relay::start(&place.cluster).unwrap();
    let mut serve = serve_from(&place.data());
    serve.env("TIDEMARK_DATABASE", relay.url(database));
    serve.args(["--metrics-listen", "127.0.0.1:0"]);
    let server = ChildServer::start(serve, ServerLog::Discarded).unwrap();
    furnish(&server);
    at_commit(&place, database, act);
    // The store is not taken again, so that it is not found out.
    relay.take_no_more();
    let unknown = ask(
        &server,
        "POST",
        ROWS,
        &json!({"rowId": "x", "data": {"n": 2}}),
    );
    assert_eq!(unknown.outcome(), "503 commit_unknown", "{unknown:?}");
    let mark = unknown.json()["mark"].clone();
    assert!(mark.is_number(), "{mark}");
    let drop = "DROP FUNCTION tidemark.act() CASCADE";
    place.cluster.run_sql(database, &[drop]).unwrap();
    relay.go_on();
    let began = Instant::now();
    let later = json!({"rowId": "y", "data": {"n": 3}});
    while ask(&server, "POST", ROWS, &later).status != 201 {
        assert!(began.elapsed() < GOES_ON_IN, "writes do not go on");
    }
    // By the mark, by the row, and in the lists.
    let read = json!({"kind": "tx", "asOf": mark});
    let record = server.call("POST", "/tidemark/databases/shop/reads", &read);
    assert_eq!(!record["rows"].is_null(), is_stored, "{record}");
    let row = ask(&server, "GET", &format!("{ROWS}/x"), &json!({}));
    assert_eq!(row.status, if is_stored { 200 } else { 404 }, "{row:?}");
    assert_eq!(totals(&server), [2 + u64::from(is_stored); 2]);
    let text = scraped(server.metrics.as_deref().unwrap());
    assert_eq!(metric(&text, "tidemark_commit_unknown_total"), 1);
    server.stop().unwrap();
}

#[test]
fn a_write_that_is_stored_and_was_not_acknowledged_is_found_by_its_mark() {
    meet_unknown("unknown_done", "RAISE WARNING 'not replicated'", true);
}

#[test]
fn a_write_of_which_nothing_is_known_and_that_is_not_stored_is_not_found_by_its_mark() {
    let end = "PERFORM pg_terminate_backend(pg_backend_pid())";
    meet_unknown("unknown_gone", end, false);
}
