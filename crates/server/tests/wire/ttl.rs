//! Lists within a `ttl`, after a reader lost the right to a row that they show: age is what a
//! reader chooses, access is not.

use serde_json::{Value, json};

use crate::fixture::{Answer, Connection, KEY, PROJECT, TestServer};

const TABLE: &str = "/v1/tablesdb/d/tables/t";
const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";
const DOCUMENTS: &str = "/v1/databases/d/collections/t/documents";
const OPTIONS: &str = "/v1/tidemark/databases/d/tables/t/options";
const AS_GUEST: [(&str, &str); 1] = [("x-appwrite-project", PROJECT)];
const AS_KEY: [(&str, &str); 2] = [("x-appwrite-project", PROJECT), ("x-appwrite-key", KEY)];
const SECRET: &str = "what was shown once";
/// A miss fills the cache, a hit makes the thread remember the request, the next one uses that.
const TIMES: usize = 4;

/// A table whose rows alone grant, with one row that everybody may read and another such.
fn server() -> TestServer {
    let table = json!({
        "tableId": "t", "name": "T", "rowSecurity": true,
        "columns": [{"key": "n", "type": "integer"}, {"key": "s", "type": "text"}],
    });
    let server = TestServer::start_with_table(&table);
    for (id, n, s) in [("a", 1, SECRET), ("b", 2, "the other")] {
        let row = json!({"rowId": id, "data": {"n": n, "s": s},
            "permissions": ["read(\"any\")"]});
        server.make("POST", ROWS, &row);
    }
    server
}

/// A list of rows with this `n` at most, in either family.
fn list(of: &str, n: i64) -> String {
    let query = json!({"method": "lessThanEqual", "attribute": "n", "values": [n]});
    let query = query.to_string().replace('"', "%22").replace('{', "%7B");
    let query = query.replace('}', "%7D").replace('[', "%5B");
    format!("{of}?ttl=600&queries[0]={}", query.replace(']', "%5D"))
}

fn others() -> String {
    let query = r#"{"method":"equal","attribute":"n","values":[2]}"#;
    let query = query.replace('"', "%22").replace('{', "%7B");
    let query = query.replace('}', "%7D").replace('[', "%5B");
    format!("{ROWS}?ttl=600&queries[0]={}", query.replace(']', "%5D"))
}

/// Two readers on connections whose thread has learnt what they ask for.
struct Readers<'a> {
    guest: Connection<'a>,
    key: Connection<'a>,
}

impl Readers<'_> {
    fn new(server: &TestServer) -> Readers<'_> {
        let mut readers = Readers {
            guest: server.connect(),
            key: server.connect(),
        };
        for _ in 0..TIMES {
            for path in [list(ROWS, 1), list(DOCUMENTS, 1), others()] {
                for answer in readers.ask(&path) {
                    assert_eq!(answer.status, 200, "{}", answer.text);
                }
            }
        }
        for answer in readers.ask(&list(ROWS, 1)) {
            assert_eq!(cache(&answer), "hit");
            assert!(answer.text.contains(SECRET), "{}", answer.text);
        }
        readers
    }

    /// What the guest and the key are answered.
    fn ask(&mut self, path: &str) -> [Answer; 2] {
        let guest = self.guest.ask(&AS_GUEST, "GET", path, "").unwrap();
        [guest, self.key.ask(&AS_KEY, "GET", path, "").unwrap()]
    }
}

fn cache(answer: &Answer) -> &str {
    answer.header("x-appwrite-cache")
}

/// Takes the row `a` from readers.
struct Taking {
    name: &'static str,
    take: fn(&TestServer),
    /// Whether the key loses it, too.
    of_all: bool,
}

fn hide(server: &TestServer) {
    let row = format!("{ROWS}/a");
    server.make("PATCH", &row, &json!({"permissions": []}));
}

fn commit(server: &TestServer, operation: &Value) {
    let transactions = "/v1/tablesdb/transactions";
    let opened = server.make("POST", transactions, &json!({})).json();
    let path = format!("{transactions}/{}", opened["$id"].as_str().unwrap());
    let staged = json!({ "operations": [operation] });
    server.make("POST", &format!("{path}/operations"), &staged);
    server.make("PATCH", &path, &json!({"commit": true}));
}

const TAKINGS: &[Taking] = &[
    Taking {
        name: "a grant is taken away",
        take: hide,
        of_all: false,
    },
    Taking {
        name: "the row is deleted",
        take: |server| {
            server.make("DELETE", &format!("{ROWS}/a"), &Value::Null);
        },
        of_all: true,
    },
    Taking {
        name: "it is deleted as a document",
        take: |server| {
            server.make("DELETE", &format!("{DOCUMENTS}/a"), &Value::Null);
        },
        of_all: true,
    },
    Taking {
        name: "it is put with other grants",
        take: |server| {
            let row = json!({"data": {"n": 1, "s": SECRET}, "permissions": ["read(\"user:u\")"]});
            server.make("PUT", &format!("{ROWS}/a"), &row);
        },
        of_all: false,
    },
    Taking {
        name: "it is altered, then hidden",
        take: |server| {
            let text = json!({"data": {"s": "another text"}});
            server.make("PATCH", &format!("{ROWS}/a"), &text);
            hide(server);
        },
        of_all: false,
    },
    Taking {
        name: "rows that match are deleted",
        take: |server| {
            let query = r#"{"method":"equal","attribute":"n","values":[1]}"#;
            server.make("DELETE", ROWS, &json!({ "queries": [query] }));
        },
        of_all: true,
    },
    Taking {
        name: "a transaction deletes it",
        take: |server| {
            let operation = json!({"databaseId": "d", "tableId": "t", "action": "delete",
                "rowId": "a"});
            commit(server, &operation);
        },
        of_all: true,
    },
    Taking {
        name: "a transaction deletes what matches",
        take: |server| {
            let query = r#"{"method":"equal","attribute":"n","values":[1]}"#;
            let operation = json!({"databaseId": "d", "tableId": "t", "action": "bulkDelete",
                "data": {"queries": [query]}});
            commit(server, &operation);
        },
        of_all: true,
    },
    Taking {
        name: "the table stands behind rows, and its rows grant nothing",
        take: |server| {
            let open = json!({"name": "T", "permissions": ["read(\"any\")"], "rowSecurity": true});
            server.make("PUT", TABLE, &open);
            hide(server);
            let closed = json!({"name": "T", "permissions": [], "rowSecurity": true});
            server.make("PUT", TABLE, &closed);
        },
        of_all: false,
    },
];

#[test]
fn revoked_row_leaves_every_list_within_its_ttl() {
    for Taking { name, take, of_all } in TAKINGS {
        let server = server();
        let mut readers = Readers::new(&server);
        let [first, _] = readers.ask(&list(ROWS, 1));
        let tag = first.header("etag").to_owned();
        take(&server);
        for path in [list(ROWS, 1), list(DOCUMENTS, 1)] {
            let [guest, key] = readers.ask(&path);
            assert!(!guest.text.contains(SECRET), "{name}: {}", guest.text);
            assert_eq!((cache(&guest), &guest.json()["total"]), ("miss", &json!(0)));
            assert_eq!(key.text.contains(SECRET), !of_all, "{name}: {}", key.text);
            assert!(!of_all || cache(&key) == "miss", "{name}");
        }
        let held = [&AS_GUEST[..], &[("if-none-match", tag.as_str())]].concat();
        let path = list(ROWS, 1);
        let again = readers.guest.ask(&held, "GET", &path, "").unwrap();
        assert_eq!(
            (again.status.as_u16(), cache(&again)),
            (200, "hit"),
            "{name}"
        );
        assert!(!again.text.contains(SECRET), "{name}: {}", again.text);
        let told = again.header("x-tidemark-cache");
        assert!(told.ends_with("stale=false"), "{name}: {told}");
    }
}

#[test]
fn lists_that_do_not_show_the_row_stay() {
    for Taking { name, take, .. } in &TAKINGS[..TAKINGS.len() - 1] {
        let server = server();
        let mut readers = Readers::new(&server);
        take(&server);
        for answer in readers.ask(&others()) {
            assert_eq!(cache(&answer), "hit", "{name}");
        }
    }
}

#[test]
fn more_rows_than_are_told_one_by_one_take_their_lists() {
    let server = server();
    for from in (3..1_203).step_by(100) {
        let rows: Vec<Value> = (from..from + 100)
            .map(|n| json!({"$id": format!("r{n}"), "n": n, "$permissions": ["read(\"any\")"]}))
            .collect();
        server.make("POST", ROWS, &json!({ "rows": rows }));
    }
    let mut readers = Readers::new(&server);
    server.make("DELETE", ROWS, &json!({"queries": []}));
    for path in [list(ROWS, 1), others()] {
        for answer in readers.ask(&path) {
            let told = (cache(&answer), answer.json()["total"].clone());
            assert_eq!(told, ("miss", json!(0)), "{}", answer.text);
        }
    }
}

#[test]
fn related_rows_that_are_hidden_are_shown_by_no_list_within_a_ttl() {
    let server = server();
    let books = json!({"tableId": "books", "name": "B", "permissions": ["read(\"any\")"]});
    server.make("POST", "/v1/tablesdb/d/tables", &books);
    let link = json!({"relatedTableId": "t", "type": "manyToOne", "key": "of"});
    let columns = "/v1/tablesdb/d/tables/books/columns/relationship";
    server.make("POST", columns, &link);
    let rows = "/v1/tablesdb/d/tables/books/rows";
    server.make("POST", rows, &json!({"rowId": "x", "data": {"of": "a"}}));
    let path = format!(
        "{rows}?ttl=600&queries[0]=%7B%22method%22:%22select%22,%22values%22:\
         %5B%22*%22,%22of.*%22%5D%7D"
    );
    let mut guest = server.connect();
    for _ in 0..TIMES {
        let shown = guest.ask(&AS_GUEST, "GET", &path, "").unwrap();
        assert!(shown.text.contains(SECRET), "{}", shown.text);
    }
    hide(&server);
    let after = guest.ask(&AS_GUEST, "GET", &path, "").unwrap();
    assert_eq!(after.status, 200);
    assert!(!after.text.contains(SECRET), "{}", after.text);
}

#[test]
fn a_tables_owner_bounds_the_age_of_its_lists() {
    let server = server();
    let mut readers = Readers::new(&server);
    let set = |ttl_max: u32| server.make("PATCH", OPTIONS, &json!({ "ttlMax": ttl_max }));
    assert_eq!(set(30).json()["ttlMax"], 30);
    let row = format!("{ROWS}/a");
    server.make("PATCH", &row, &json!({"data": {"s": "a newer text"}}));
    server.skip_s(31);
    // Older than the bound, and younger than what is asked for.
    for answer in readers.ask(&list(ROWS, 1)) {
        assert!(answer.text.contains("a newer text"), "{}", answer.text);
    }
    server.make("PATCH", &row, &json!({"data": {"s": "the newest"}}));
    server.skip_s(20);
    for answer in readers.ask(&list(ROWS, 1)) {
        assert_eq!((cache(&answer), answer.status.as_u16()), ("hit", 200));
        assert!(answer.text.contains("a newer text"), "{}", answer.text);
    }
    assert_eq!(set(0).json()["ttlMax"], 0);
    for _ in 0..TIMES {
        for answer in readers.ask(&list(ROWS, 1)) {
            assert_eq!((cache(&answer), answer.status.as_u16()), ("", 200));
            assert!(answer.text.contains("the newest"), "{}", answer.text);
        }
    }
    // What is accepted at most is another's business than what may be asked for.
    let refused = server.ask("GET", &format!("{ROWS}?ttl=86401"), "");
    assert_eq!(refused.refusal(), "400 general_argument_invalid");
    let many = server.ask(
        "POST",
        &format!("{ROWS}/query"),
        r#"{"queries":[],"ttl":600}"#,
    );
    assert_eq!((many.status.as_u16(), cache(&many)), (200, ""));
}
