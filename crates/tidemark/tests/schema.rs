//! `tidemark schema`: pull, diff, push and types against a server that runs.

mod process;

use std::fs;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use process::{Folder, assert_refused, on, text, tidemark};
use serde_json::{Value, json};
use testing::ChildServer;

const ORDERS: &str = "/tablesdb/shop/tables/orders";

fn call(server: &ChildServer, method: &str, route: &str, body: &Value) {
    let answer = server.call(method, route, body);
    assert!(
        answer["code"].is_null(),
        "{method} {route} {body}: {answer}"
    );
}

/// A database with every type of column, a relationship in the middle, options and constraints.
fn shop(folder: &Folder) -> ChildServer {
    let server = process::start(folder);
    let post = |route: &str, body: Value| call(&server, "POST", route, &body);
    post("/tablesdb", json!({"databaseId": "shop", "name": "Shop"}));
    let tables = "/tablesdb/shop/tables";
    post(
        tables,
        json!({"tableId": "people", "name": "People", "columns": [
            {"key": "mail", "type": "email", "required": true},
            {"key": "age", "type": "integer", "min": 0, "max": 150}]}),
    );
    post(
        tables,
        json!({"tableId": "orders", "name": "Orders", "permissions": ["read(\"any\")"],
            "rowSecurity": true, "columns": [
            {"key": "number", "type": "bigint", "required": true},
            {"key": "note", "type": "varchar", "size": 40, "default": "none"},
            {"key": "state", "type": "enum", "elements": ["new", "paid"], "array": true},
            {"key": "at", "type": "datetime", "default": "2020-02-03T04:05:06.789Z"},
            {"key": "site", "type": "url"}, {"key": "ip", "type": "ip"},
            {"key": "sum", "type": "float", "max": 1e6, "default": 2},
            {"key": "secret", "type": "string", "size": 200, "encrypt": true},
            {"key": "paid", "type": "boolean", "default": false},
            {"key": "long", "type": "longtext"}, {"key": "medium", "type": "mediumtext"},
            {"key": "person", "type": "varchar", "size": 36}]}),
    );
    post(
        &format!("{ORDERS}/columns/relationship"),
        json!({"relatedTableId": "people", "type": "manyToOne", "twoWay": true, "key": "buyer",
            "twoWayKey": "orders", "onDelete": "restrict"}),
    );
    post(
        &format!("{ORDERS}/columns/text"),
        json!({"key": "last", "required": false}),
    );
    post(
        &format!("{ORDERS}/indexes"),
        json!({"key": "by_number", "type": "unique", "columns": ["number"], "orders": ["DESC"]}),
    );
    post(
        &format!("{ORDERS}/indexes"),
        json!({"key": "words", "type": "fulltext", "columns": ["long"]}),
    );
    let own = "/tidemark/databases/shop/tables";
    call(
        &server,
        "PATCH",
        &format!("{own}/orders/options"),
        &json!({"history": "days(30)", "ttlMax": 60, "past": "both", "pinnedMaxAge": 5}),
    );
    call(
        &server,
        "PUT",
        &format!("{own}/people/constraints"),
        &json!({"unique": [["mail"]], "refs": []}),
    );
    call(
        &server,
        "PUT",
        &format!("{own}/orders/constraints"),
        &json!({"unique": [], "refs": [{"column": "person", "table": "people"}]}),
    );
    server
}

/// A second database, closed to callers without a key: relationships of every kind, within one
/// table too, and more columns than one call creates.
fn add_wide(server: &ChildServer) {
    let post = |route: &str, body: Value| call(server, "POST", route, &body);
    post(
        "/tablesdb",
        json!({"databaseId": "wide", "name": "Wide \"one\"", "enabled": false}),
    );
    let tables = "/tablesdb/wide/tables";
    let columns: Vec<Value> = (0..100)
        .map(|nth| json!({"key": format!("c{nth}"), "type": "varchar", "size": 900}))
        .collect();
    post(
        tables,
        json!({"tableId": "z", "name": "Z", "enabled": false, "columns": columns, "indexes": [
            {"key": "some", "type": "key", "attributes": ["c1", "c0"], "orders": ["ASC", "DESC"],
             "lengths": [100, 100]}]}),
    );
    post(
        &format!("{tables}/z/columns/boolean"),
        json!({"key": "c100", "required": false, "array": true}),
    );
    post(tables, json!({"tableId": "a", "name": "A", "columns": []}));
    for (nth, (related, kind, on_delete)) in [
        ("z", "oneToOne", "setNull"),
        ("z", "oneToMany", "cascade"),
        ("a", "manyToOne", "restrict"),
        ("a", "manyToMany", "cascade"),
    ]
    .into_iter()
    .enumerate()
    {
        let two_way = nth % 2 == 1;
        post(
            &format!("{tables}/a/columns/relationship"),
            json!({"relatedTableId": related, "type": kind, "key": format!("r{nth}"),
                "twoWay": two_way, "twoWayKey": format!("back{nth}"), "onDelete": on_delete}),
        );
    }
}

fn schema(folder: &Folder, words: &str) -> Output {
    let file = folder.join("schema.json");
    let words = format!("schema {words} --file {}", file.display());
    if words.starts_with("schema types") {
        // It takes no server.
        return tidemark(&words).output().unwrap();
    }
    on(folder, &words)
}

#[track_caller]
fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn read(folder: &Folder) -> String {
    fs::read_to_string(folder.join("schema.json")).unwrap()
}

#[track_caller]
fn edit(folder: &Folder, from: &str, to: &str) {
    let before = read(folder);
    let after = before.replacen(from, to, 1);
    assert_ne!(before, after, "`{from}` is not in the file");
    fs::write(folder.join("schema.json"), after).unwrap();
}

#[test]
fn schema_pushed_to_an_empty_server_is_pulled_from_it_equal() {
    let (one, other) = (Folder::new(), Folder::new());
    let server = shop(&one);
    add_wide(&server);
    let printed = done(&schema(&one, "pull"));
    let begins = printed.starts_with("Wrote 4 tables of 2 databases to ");
    assert!(begins, "{printed}");
    assert_eq!(done(&schema(&one, "diff --exit-code")), "");
    let pulled = read(&one);
    for line in [
        r#"{"key":"sum","type":"float","max":1000000.0,"default":2.0}"#,
        r#""options": {"history":"days(30)","past":"both","pinnedMaxAge":5,"ttlMax":60}"#,
        r#""constraints": {"unique":[],"refs":[{"column":"person","table":"people"}]}"#,
        r#"{"key":"some","type":"key","columns":["c1","c0"],"orders":["ASC","DESC"],"lengths":[100,100]}"#,
    ] {
        assert!(pulled.contains(line), "{line} is not in {pulled}");
    }

    let empty = process::start(&other);
    fs::write(other.join("schema.json"), &pulled).unwrap();
    let dry = done(&schema(&other, "push --dry-run"));
    assert!(dry.starts_with("+ database shop\n"), "{dry}");
    let different = schema(&other, "diff --exit-code");
    assert_refused(&different, 1, "");
    assert_eq!(text(&different.stdout), dry);
    done(&schema(&other, "push"));
    let again = done(&schema(&other, "push"));
    assert_eq!(again, "The server has the schema of the file already.\n");
    done(&schema(&other, "pull"));
    assert_eq!(read(&other), pulled);

    // Of several databases those are read again that the file has.
    done(&schema(&other, "pull --database wide"));
    done(&schema(&other, "pull"));
    assert!(!read(&other).contains("\"shop\""), "{}", read(&other));
    empty.stop().unwrap();
    server.stop().unwrap();
}

/// Writes rows into a table until it is stopped.
struct Writing {
    server: Arc<ChildServer>,
    ended: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Writing {
    fn start(server: ChildServer) -> Writing {
        let server = Arc::new(server);
        let ended = Arc::new(AtomicBool::new(false));
        let written = Arc::new(AtomicU64::new(0));
        let thread = {
            let (server, ended, written) = (server.clone(), ended.clone(), written.clone());
            thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let number = written.load(Ordering::Relaxed) + 1;
                    let row = json!({"rowId": format!("r{number}"), "data": {"number": number}});
                    let made = server.call("POST", &format!("{ORDERS}/rows"), &row);
                    assert_eq!(made["number"], number, "{made}");
                    written.store(number, Ordering::Relaxed);
                }
            })
        };
        Writing {
            server,
            ended,
            written,
            thread,
        }
    }

    /// Waits for some more rows, which a failed writer never writes.
    fn more(&self) {
        let now = self.written.load(Ordering::Relaxed);
        while self.written.load(Ordering::Relaxed) < now + 5 {
            assert!(!self.thread.is_finished(), "the writer has failed");
            thread::yield_now();
        }
    }

    /// Stops, and checks that all rows are there.
    fn end(self) {
        self.ended.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        let rows = self
            .server
            .call("GET", &format!("{ORDERS}/rows"), &json!({}));
        assert_eq!(rows["total"], self.written.load(Ordering::Relaxed));
    }
}

const NOTE: &str = r#"{"key":"note","type":"varchar","size":40,"default":"none"}"#;
const LONGER_NOTE: &str = r#"{"key":"note","type":"varchar","size":80,"default":"-"},
    {"key":"weight","type":"integer","min":0}"#;

#[test]
fn push_under_writes_changes_columns_and_keeps_rows() {
    let folder = Folder::new();
    let writing = Writing::start(shop(&folder));
    done(&schema(&folder, "pull"));
    writing.more();
    edit(&folder, NOTE, LONGER_NOTE);
    edit(
        &folder,
        r#"{"key":"by_number""#,
        r#"{"key":"by_weight","type":"key","columns":["weight","number"]}, {"key":"by_number""#,
    );
    assert_eq!(done(&schema(&folder, "push")), "Made 3 changes.\n");
    writing.more();
    // A column that is gone is refused as a loss, and taken as a rename.
    edit(
        &folder,
        r#"{"key":"weight","type":"integer","min":0}"#,
        r#"{"key":"grams","type":"integer"}"#,
    );
    edit(&folder, r#"["weight","number"]"#, r#"["grams","number"]"#);
    let refused = schema(&folder, "push");
    assert_refused(
        &refused,
        1,
        "- column shop/orders/weight   ! loses its values",
    );
    assert_refused(&refused, 1, "nothing was changed");
    let rename = "push --rename shop/orders/weight=grams";
    assert_eq!(done(&schema(&folder, rename)), "Made 2 changes.\n");
    writing.more();
    let again = done(&schema(&folder, rename));
    assert_eq!(again, "The server has the schema of the file already.\n");
    let shown = writing
        .server
        .call("GET", &format!("{ORDERS}/columns/grams"), &json!({}));
    assert_eq!(shown["min"], i64::MIN, "{shown}");
    writing.end();
}

#[test]
fn push_under_writes_says_what_the_server_refuses_and_how_far_it_came() {
    let folder = Folder::new();
    let writing = Writing::start(shop(&folder));
    done(&schema(&folder, "pull"));
    writing.more();
    let long = writing.server.call(
        "PATCH",
        &format!("{ORDERS}/rows/r1"),
        &json!({"data": {"note": "more than two"}}),
    );
    assert_eq!(long["note"], "more than two", "{long}");
    edit(&folder, r#""size":40,"default":"none""#, r#""size":2"#);
    edit(&folder, r#""name": "Orders""#, r#""name": "Sales""#);
    let before = done(&schema(&folder, "diff"));
    let refused = schema(&folder, "push");
    assert_refused(&refused, 1, "column_invalid_resize");
    assert_refused(&refused, 1, "~ column shop/orders/note: ");
    assert_refused(&refused, 1, "0 of 2 changes are done");
    assert_eq!(done(&schema(&folder, "diff")), before);
    writing.more();
    // Two rows with equal values: the index cannot be built, and is left to be made again.
    edit(&folder, r#""size":2"#, r#""size":80"#);
    let unique = r#"{"key":"one","type":"unique","columns":["paid"]}, {"key":"by_number""#;
    edit(&folder, r#"{"key":"by_number""#, unique);
    let refused = schema(&folder, "push");
    assert_refused(&refused, 1, "the index `one` cannot be built");
    assert_eq!(
        done(&schema(&folder, "diff")),
        "- index shop/orders/one\n+ index shop/orders/one unique (paid)\n"
    );
    writing.more();
    // What is lost goes when it is asked for, and rows stay.
    edit(&folder, unique, r#"{"key":"by_number""#);
    edit(
        &folder,
        r#""size":80},"#,
        r#""size":80},{"key":"x","type":"text"},"#,
    );
    edit(
        &folder,
        r#"{"key":"sum","type":"float","max":1000000.0,"default":2.0},"#,
        "",
    );
    edit(
        &folder,
        r#""history":"days(30)""#,
        r#""history":"days(29)""#,
    );
    let refused = schema(&folder, "push");
    for loss in [
        "- column shop/orders/sum   ! loses its values",
        "~ options shop/orders: history \"days(30)\" -> \"days(29)\"   ! loses older versions",
    ] {
        assert_refused(&refused, 1, loss);
    }
    assert_eq!(
        done(&schema(&folder, "push --allow-data-loss")),
        "Made 4 changes.\n"
    );
    assert_eq!(done(&schema(&folder, "diff")), "");
    writing.end();
}

#[test]
fn push_replaces_tables_and_columns_that_others_depend_on() {
    let folder = Folder::new();
    let server = shop(&folder);
    done(&schema(&folder, "pull"));
    // A column with a rule and an index gets another type, and a relationship another kind.
    edit(
        &folder,
        r#"{"key":"mail","type":"email","required":true}"#,
        r#"{"key":"mail","type":"varchar","size":50}"#,
    );
    edit(
        &folder,
        r#""relationType":"manyToOne""#,
        r#""relationType":"manyToMany""#,
    );
    edit(
        &folder,
        r#"{"key":"number","type":"bigint","required":true}"#,
        r#"{"key":"number","type":"integer"}"#,
    );
    let refused = schema(&folder, "push");
    for loss in [
        "people/mail   ! loses its values",
        "orders/buyer   ! loses its links",
    ] {
        assert_refused(&refused, 1, &format!("- column shop/{loss}"));
    }
    done(&schema(&folder, "push --allow-data-loss"));
    assert_eq!(done(&schema(&folder, "diff")), "");
    // All tables are deleted, though they relate to one another.
    fs::write(
        folder.join("schema.json"),
        r#"{"format": "tidemark-schema-1", "databases": [{"id": "shop", "name": "Empty"}]}"#,
    )
    .unwrap();
    assert_refused(
        &schema(&folder, "push"),
        1,
        "- table shop/people   ! loses its rows, with the values of age, mail",
    );
    done(&schema(&folder, "push --allow-data-loss"));
    let tables = server.call("GET", "/tablesdb/shop/tables", &json!({}));
    assert_eq!(tables["total"], 0, "{tables}");
    server.stop().unwrap();
}

#[test]
fn schema_commands_refuse_what_they_cannot_use() {
    let folder = Folder::new();
    assert_refused(
        &schema(&folder, "types go"),
        1,
        "`tidemark schema pull` writes it",
    );
    let server = process::start(&folder);
    assert_refused(
        &schema(&folder, "pull --database none"),
        1,
        "has no database `none`",
    );
    let write = |databases: &str| {
        let text = format!(r#"{{"format": "tidemark-schema-1", "databases": [{databases}]}}"#);
        fs::write(folder.join("schema.json"), text).unwrap();
    };
    write("{}");
    assert_refused(
        &schema(&folder, "push"),
        1,
        "schema.json: missing field `id` at line 1",
    );
    write("");
    assert_refused(&schema(&folder, "push"), 1, "the file names no database");
    write(
        r#"{"id": "d", "name": "D", "tables": [{"id": "t", "name": "T", "columns": [
        {"key": "a", "type": "color"}]}]}"#,
    );
    for command in ["push", "diff", "pull", "types python"] {
        assert_refused(
            &schema(&folder, command),
            1,
            "schema.json: database `d`: table `t`: column `a`: `type` is `color`; expected one of",
        );
    }
    assert_refused(
        &schema(&folder, "push --rename a=b"),
        2,
        "DATABASE/TABLE/COLUMN=NEW",
    );
    write(r#"{"id": "d", "name": "D"}"#);
    assert_refused(
        &schema(&folder, "push --rename d/t/a=b"),
        1,
        "--rename: the server has no database `d`",
    );
    server.stop().unwrap();
}
