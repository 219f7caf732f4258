//! `tidemark import --from-appwrite`: from one server into another, with a proxy between them
//! that counts, refuses and interrupts.

mod process;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use process::{Folder, assert_refused, json_of, on, text, tidemark};
use serde_json::{Value, json};
use testing::ChildServer;

/// What the proxy answers by itself; `None` lets the request through.
type Rule = Box<dyn FnMut(&str) -> Option<&'static str> + Send>;

/// Stands between the copy and its source.
struct Proxy {
    port: u16,
    /// The targets of all requests, in order.
    seen: Arc<Mutex<Vec<String>>>,
    rule: Arc<Mutex<Rule>>,
}

impl Proxy {
    fn before(server: &ChildServer) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Proxy {
            port: listener.local_addr().unwrap().port(),
            seen: Arc::default(),
            rule: Arc::new(Mutex::new(Box::new(|_| None))),
        };
        let (seen, rule, upstream) = (proxy.seen.clone(), proxy.rule.clone(), server.port());
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                serve(stream, upstream, &seen, &rule);
            }
        });
        proxy
    }

    fn set(&self, rule: impl FnMut(&str) -> Option<&'static str> + Send + 'static) {
        *self.rule.lock().unwrap() = Box::new(rule);
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

/// One request and its answer; then the connection is closed, as some servers do.
fn serve(mut stream: TcpStream, upstream: u16, seen: &Mutex<Vec<String>>, rule: &Mutex<Rule>) {
    let mut head = String::new();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    while !head.ends_with("\r\n\r\n") {
        if lines.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let target = head.split(' ').nth(1).unwrap().to_owned();
    seen.lock().unwrap().push(target.clone());
    let own = (rule.lock().unwrap())(&target);
    if let Some(answer) = own {
        let _ = stream.write_all(answer.as_bytes());
        return;
    }
    let mut source = TcpStream::connect(("127.0.0.1", upstream)).unwrap();
    let head = head.replacen("\r\n", "\r\nConnection: close\r\n", 1);
    source.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    source.read_to_end(&mut answer).unwrap();
    // A server that was killed does not listen any more.
    let _ = stream.write_all(&answer);
}

const NO_ROUTE: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 34\r\nConnection: close\r\n\r\n\
    {\"type\":\"general_route_not_found\"}";
const BUSY: &str = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 0\r\n\
    Connection: close\r\n\r\n";
const BROKEN: &str = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{";

/// 450 rows in one table, all kinds of values in another, and a second database.
fn source(folder: &Folder) -> ChildServer {
    let server = process::start(folder);
    server.call(
        "POST",
        "/tablesdb",
        &json!({"databaseId": "shop", "name": "Shop"}),
    );
    server.call(
        "POST",
        "/tablesdb",
        &json!({"databaseId": "closed", "name": "C", "enabled": false}),
    );
    let table = json!({
        "tableId": "products", "name": "Products", "rowSecurity": true,
        "permissions": ["read(\"any\")"],
        "columns": [
            {"key": "name", "type": "varchar", "size": 50, "required": true},
            {"key": "price", "type": "float"},
            {"key": "at", "type": "datetime"},
            {"key": "kind", "type": "enum", "elements": ["a", "b"]},
            {"key": "tags", "type": "varchar", "size": 9, "array": true},
        ],
        "indexes": [{"key": "by_name", "type": "unique", "attributes": ["name"]}],
    });
    server.call("POST", "/tablesdb/shop/tables", &table);
    let options = "/tidemark/databases/shop/tables/products/options";
    let bounded = json!({"history": "days(30)", "pinnedMaxAge": 60, "ttlMax": 0});
    server.call("PATCH", options, &bounded);
    let empty = json!({"tableId": "empty", "name": "E", "columns": []});
    server.call("POST", "/tablesdb/shop/tables", &empty);
    for start in [0, 100, 200, 300, 400] {
        let row = |n: i32| {
            json!({"$id": format!("p{n}"), "name": format!("Nº {n}"), "price": f64::from(n) / 4.0,
                   "at": "2026-01-31T10:00:00.5Z", "kind": if n % 2 == 0 { "a" } else { "b" },
                   "tags": ["x", "y"], "$permissions": ["read(\"user:u\")"],
                   "$createdAt": "2020-01-01T00:00:00.000+00:00"})
        };
        let rows: Vec<Value> = (start..450.min(start + 100)).map(row).collect();
        let route = "/tablesdb/shop/tables/products/rows";
        server.call("POST", route, &json!({ "rows": rows }));
    }
    server
}

fn target() -> Folder {
    let folder = Folder::new();
    json_of(&on(&folder, "project create default --json"));
    folder
}

fn copy(folder: &Folder, port: u16, key: &str) -> Command {
    let words = format!(
        "import --from-appwrite http://127.0.0.1:{port}/v1 --project default --key {key} --data"
    );
    let mut command = tidemark(&words);
    command.arg(folder.data());
    command
}

fn export(folder: &Folder, database: &str) -> String {
    let output = on(folder, &format!("export {database}"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn rows_requests(seen: &[String]) -> usize {
    let of_rows = |target: &&String| {
        target.contains("/products/rows") || target.contains("/products/documents")
    };
    seen.iter().filter(of_rows).count()
}

/// Starts a copy and kills it while it waits for the third page of rows, which never arrives.
fn kill_at_the_third_page(here: &Folder, proxy: &Proxy, key: &str) {
    let child: Arc<Mutex<Option<Child>>> = Arc::default();
    let victim = child.clone();
    let mut pages = 0;
    proxy.set(move |target| {
        pages += usize::from(target.contains("/products/rows"));
        (pages == 3).then(|| {
            let mut victim = victim.lock().unwrap();
            let victim = victim.as_mut().expect("it asks, so it was started");
            victim.kill().unwrap();
            BROKEN
        })
    });
    {
        let mut slot = child.lock().unwrap();
        let mut command = copy(here, proxy.port, key);
        let started = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        *slot = Some(started.unwrap());
    }
    // Not under the lock for long: the proxy takes it to kill.
    loop {
        let ended = child.lock().unwrap().as_mut().unwrap().try_wait().unwrap();
        if let Some(status) = ended {
            assert!(!status.success());
            return;
        }
        thread::yield_now();
    }
}

#[test]
fn a_copy_that_was_killed_goes_on_where_it_was_and_both_sides_compare_equal() {
    let (there, here) = (Folder::new(), target());
    let server = source(&there);
    let key = server.key.clone().unwrap();
    let proxy = Proxy::before(&server);
    kill_at_the_third_page(&here, &proxy, &key);
    assert!(here.data().join("import.state").exists());
    assert_eq!(rows_requests(&proxy.taken()), 3);

    proxy.set(|_| None);
    let output = copy(&here, proxy.port, &key).output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("Going on with a copy"));
    assert!(said.contains("Copied 250 rows; here already: 0,"), "{said}");
    let products = said
        .lines()
        .find(|line| line.starts_with("shop/products"))
        .unwrap();
    let columns: Vec<&str> = products.split_whitespace().collect();
    assert_eq!(
        (columns[1], columns[2], columns[5]),
        ("450", "450", "equal")
    );
    assert_eq!(columns[3], columns[4]);
    // 250 rows and the empty page; then the comparison reads all five pages and the empty one.
    let seen = proxy.taken();
    assert_eq!(rows_requests(&seen), 4 + 6);
    let first = seen
        .iter()
        .find(|target| target.contains("/products/rows"))
        .unwrap();
    assert!(
        first.contains("cursorAfter") && first.contains("p199"),
        "{first}"
    );

    for database in ["shop", "closed"] {
        assert_eq!(export(&here, database), export(&there, database));
    }
    let arrived = export(&here, "shop");
    assert!(arrived.contains(r#""history":"days(30)""#), "{arrived}");
    assert!(!here.data().join("import.state").exists());
}

#[test]
fn a_server_with_the_older_routes_that_is_busy_and_breaks_off_is_copied_too() {
    let (there, here) = (Folder::new(), target());
    let server = source(&there);
    let proxy = Proxy::before(&server);
    let mut count = 0;
    proxy.set(move |target| {
        if target.starts_with("/v1/tablesdb") {
            return Some(NO_ROUTE);
        }
        count += 1;
        match count {
            3 => Some(BUSY),
            5 => Some(BROKEN),
            _ => None,
        }
    });
    let _running = process::start(&here);
    let output = copy(&here, proxy.port, server.key.as_deref().unwrap())
        .args(["--database", "shop"])
        .output()
        .unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.contains("Copied 450 rows"), "{said}");
    assert_eq!(export(&here, "shop"), export(&there, "shop"));
    assert!(
        !on(&here, "export closed").status.success(),
        "only what was asked for"
    );
    assert!(
        proxy
            .taken()
            .iter()
            .any(|target| target.contains("/collections/products/documents"))
    );
}

#[test]
fn a_difference_is_shown_and_is_exit_code_1() {
    let (there, here) = (Folder::new(), target());
    let server = source(&there);
    let key = server.key.clone().unwrap();
    assert!(copy(&here, server.port(), &key).status().unwrap().success());

    // One row more here, one changed there: the second run mends what it may.
    let mine = process::start_with(&here, &[("TIDEMARK_API_KEY", "a-secret-of-our-own")]);
    let mut mine = mine;
    mine.key = Some("a-secret-of-our-own".to_owned());
    let rows = "/tablesdb/shop/tables/products/rows";
    mine.call(
        "POST",
        rows,
        &json!({"rowId": "mine", "data": {"name": "mine"}}),
    );
    server.call(
        "PATCH",
        &format!("{rows}/p7"),
        &json!({"data": {"price": 1}}),
    );
    let output = copy(&here, server.port(), &key).output().unwrap();
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("here already: 449, brought up to date: 1."),
        "{said}"
    );
    let products = said
        .lines()
        .find(|line| line.starts_with("shop/products"))
        .unwrap();
    assert!(
        products.contains("450") && products.contains("451"),
        "{said}"
    );
    assert!(products.contains("DIFFERENT"), "{said}");

    mine.call("DELETE", &format!("{rows}/mine"), &json!({}));
    assert!(copy(&here, server.port(), &key).status().unwrap().success());
}

#[test]
fn reason_that_keeps_a_copy_from_beginning_is_named() {
    let (there, here) = (Folder::new(), target());
    let server = source(&there);
    let refused = copy(&here, server.port(), "no-such-key").output().unwrap();
    assert_refused(&refused, 1, "general_unauthorized_scope");
    let key = server.key.clone().unwrap();
    let refused = copy(&here, server.port(), &key)
        .args(["--database", "x"])
        .output();
    assert_refused(
        &refused.unwrap(),
        1,
        "the source has no database `x`. It has shop, closed",
    );
    let refused = copy(&here, server.port(), &key)
        .args(["--into", "none"])
        .output();
    assert_refused(&refused.unwrap(), 1, "No project `none`");
    let nameless = on(
        &here,
        "import --from-appwrite http://127.0.0.1:1/v1 --key k",
    );
    assert_refused(&nameless, 1, "with --project");
    let both = on(&here, "import file --from-appwrite http://127.0.0.1:1/v1");
    assert_refused(&both, 2, "cannot be used with");
    assert_refused(&on(&here, "import"), 2, "required");
}
