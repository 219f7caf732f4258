//! The history of a store through the built binary: what goes out comes back in, at all coordinates;
//! what is cut off, altered or foreign is refused as a whole.

mod process;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use process::{Folder, assert_refused, on, text, tidemark};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use testing::{ChildServer, damage_behind};

const TABLES: &str = "/tablesdb/shop/tables";
const OURS: &str = "/tidemark/databases/shop";
/// A part of a file, what is said of it when it is altered, and how.
type Case = (&'static str, &'static str, fn(&mut Value));
/// What the guide says of copies.
const GUIDE: &str = include_str!("../../../docs/guides/copying.md");

fn put(server: &ChildServer, table: &str, id: &str, data: &Value) {
    let row = json!({"rowId": id, "data": data});
    server.call("POST", &format!("{TABLES}/{table}/rows"), &row);
}

fn patch(server: &ChildServer, table: &str, id: &str, data: &Value) {
    let route = format!("{TABLES}/{table}/rows/{id}");
    server.call("PATCH", &route, &json!({ "data": data }));
}

fn make_tables(server: &ChildServer) {
    let database = json!({"databaseId": "shop", "name": "The \"shop\" – ü"});
    server.call("POST", "/tablesdb", &database);
    let suppliers = json!({"tableId": "suppliers", "name": "Suppliers",
        "columns": [{"key": "name", "type": "varchar", "size": 40}]});
    server.call("POST", TABLES, &suppliers);
    let prices = json!({
        "tableId": "prices", "name": "Prices", "rowSecurity": true,
        "permissions": ["read(\"any\")", "create(\"users\")"],
        "columns": [
            {"key": "code", "type": "varchar", "size": 20},
            {"key": "amount", "type": "float"},
            {"key": "many", "type": "datetime", "array": true},
            {"key": "open", "type": "boolean"},
            {"key": "secret", "type": "text", "encrypt": true},
            {"key": "secrets", "type": "varchar", "size": 30, "array": true, "encrypt": true},
            {"key": "words", "type": "longtext"},
        ],
        "indexes": [
            {"key": "by_code", "type": "unique", "attributes": ["code"]},
            {"key": "by_amount", "type": "key", "attributes": ["amount", "$createdAt"]},
            {"key": "by_words", "type": "fulltext", "attributes": ["words"]},
        ],
    });
    server.call("POST", TABLES, &prices);
    for (key, kind) in [("supplier", "manyToOne"), ("others", "manyToMany")] {
        let link = json!({"relatedTableId": "suppliers", "type": kind, "twoWay": true,
            "key": key, "twoWayKey": format!("{key}_of"), "onDelete": "setNull"});
        let route = format!("{TABLES}/prices/columns/relationship");
        server.call("POST", &route, &link);
    }
    let over_time = json!({"unique": [["code"]], "refs": []});
    server.call(
        "PUT",
        &format!("{OURS}/tables/prices/constraints"),
        &over_time,
    );
    let log = json!({"tableId": "log", "name": "Log",
        "columns": [{"key": "n", "type": "integer"}]});
    server.call("POST", TABLES, &log);
}

/// Rows that change, are scheduled, hidden, erased and large.
fn write_rows(server: &ChildServer) {
    for id in ["s1", "s2"] {
        put(
            server,
            "suppliers",
            id,
            &json!({"name": format!("name of {id}")}),
        );
    }
    let content = json!({"code": "a", "amount": 0.1, "many": ["2026-01-31T10:00:00.123Z"],
        "open": true, "secret": "quicksilver", "secrets": ["x", ""], "words": "pale ink",
        "supplier": "s1", "others": ["s1", "s2"]});
    let row = json!({"rowId": "p1", "data": content,
        "permissions": ["update(\"user:zoe\")", "read(\"user:ann\")", "read(\"any\")"]});
    server.call("POST", &format!("{TABLES}/prices/rows"), &row);
    patch(
        server,
        "prices",
        "p1",
        &json!({"amount": 1e300, "secret": "mercury"}),
    );
    let later = json!({"amount": 5e-324, "$validFrom": "2090-01-01", "$validTo": "2091-01-01"});
    patch(server, "prices", "p1", &later);
    let earlier = json!({"code": "b", "amount": -1.5, "$validFrom": "2001-01-01",
        "$validTo": "2002-01-01"});
    put(server, "prices", "p2", &earlier);
    put(
        server,
        "prices",
        "planned",
        &json!({"code": "c", "$validFrom": "2095-06-01"}),
    );
    put(
        server,
        "prices",
        "large",
        &json!({"code": "d", "words": "é ink\n".repeat(20_000)}),
    );
    put(
        server,
        "prices",
        "gone",
        &json!({"code": "e", "supplier": "s2"}),
    );
    server.call("DELETE", &format!("{TABLES}/prices/rows/gone"), &json!({}));
    put(server, "prices", "erased", &json!({"code": "forgotten"}));
    let erasing = json!({"ops": [{"op": "erase", "table": "prices", "id": "erased"}],
        "meta": {"why": "a wish"}});
    server.call("POST", &format!("{OURS}/transactions"), &erasing);
    let grants = json!({"permissions": ["read(\"user:ann\")"]});
    server.call("PATCH", &format!("{TABLES}/prices/rows/large"), &grants);
}

/// Columns that are renamed, dropped and added; tables that forget, or are gone.
fn change_schema(server: &ChildServer) {
    let columns = format!("{TABLES}/prices/columns");
    let renamed = json!({"required": false, "default": null, "newKey": "price"});
    server.call("PATCH", &format!("{columns}/float/amount"), &renamed);
    server.call("DELETE", &format!("{columns}/open"), &json!({}));
    let added = json!({"key": "open", "required": false, "size": 9});
    server.call("POST", &format!("{columns}/varchar"), &added);
    patch(
        server,
        "prices",
        "p1",
        &json!({"open": "yes", "price": 2.0}),
    );
    let forgets = json!({"history": "days(30)", "past": "both"});
    server.call("PATCH", &format!("{OURS}/tables/log/options"), &forgets);
    for n in 0..3 {
        put(server, "log", &format!("n{n}"), &json!({"n": n}));
    }
    let gone = json!({"tableId": "gone", "name": "Gone",
        "columns": [{"key": "n", "type": "integer"}]});
    server.call("POST", TABLES, &gone);
    put(server, "gone", "g", &json!({"n": 1}));
    server.call("DELETE", &format!("{TABLES}/gone"), &json!({}));
    let renamed = json!({"name": "Prices of all", "permissions": ["read(\"users\")"],
        "rowSecurity": true});
    server.call("PUT", &format!("{TABLES}/prices"), &renamed);
}

fn fill(server: &ChildServer) {
    make_tables(server);
    write_rows(server);
    change_schema(server);
}

fn rows(table: &str, queries: &[Value]) -> String {
    let queries: Vec<String> = queries
        .iter()
        .enumerate()
        .map(|(nth, query)| {
            let query = query.to_string();
            let query = utf8_percent_encode(&query, NON_ALPHANUMERIC);
            format!("queries%5B{nth}%5D={query}")
        })
        .collect();
    format!("{TABLES}/{table}/rows?{}", queries.join("&"))
}

fn method(name: &str, values: Value) -> Value {
    json!({"method": name, "values": values})
}

/// All that can be read at the marks that rows carry, and at instants around those.
fn answers(server: &ChildServer, marks: &BTreeSet<i64>) -> Vec<(String, Value)> {
    let mut answers = Vec::new();
    let mut ask = |route: String| {
        let answer = server.call("GET", &route, &Value::Null);
        answers.push((route, answer));
    };
    let limit = method("limit", json!([100]));
    let instants = ["2001-06-01", "2090-06-01", "2095-07-01"].map(|at| json!(at));
    for table in ["prices", "suppliers"] {
        ask(rows(table, &[limit.clone(), method("versions", json!([]))]));
        ask(rows(table, std::slice::from_ref(&limit)));
        for mark in marks {
            let as_of = method("asOf", json!([mark]));
            ask(rows(table, &[limit.clone(), as_of.clone()]));
            let others = marks.iter().step_by(5).map(|mark| json!(mark));
            for at in others.chain(instants.iter().cloned()) {
                let valid = method("validAt", json!([at]));
                ask(rows(table, &[limit.clone(), as_of.clone(), valid]));
            }
        }
    }
    for route in [
        format!("{TABLES}/prices"),
        format!("{OURS}/tables/log/options"),
        rows("log", std::slice::from_ref(&limit)),
        rows(
            "prices",
            &[json!({"method": "search", "attribute": "words", "values": ["ink"]})],
        ),
    ] {
        ask(route);
    }
    let read = json!({"reads": [
        {"kind": "feed", "after": 0, "limit": 1_000, "vt": 0, "tt": marks.last()},
        {"kind": "history", "table": "prices", "id": "p1", "axis": "both", "vt": 0,
         "tt": marks.last()},
    ]});
    let told = server.call("POST", &format!("{OURS}/reads"), &read);
    answers.push(("reads".to_owned(), told));
    answers
}

/// The marks of all commits of the database.
fn marks(server: &ChildServer) -> BTreeSet<i64> {
    let read = json!({"kind": "feed", "after": 0, "limit": 1_000});
    let told = server.call("POST", &format!("{OURS}/reads"), &read);
    let records = told["rows"].as_array().unwrap().iter();
    records
        .map(|record| record["tt"].as_i64().unwrap())
        .collect()
}

fn export(folder: &Folder) -> PathBuf {
    let file = folder.join("history.jsonl");
    let output = on(
        folder,
        &format!("export --history --output {}", file.display()),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    file
}

fn import(folder: &Folder, file: &Path) -> Output {
    on(folder, &format!("import --history {}", file.display()))
}

/// A server on the data of this folder, in which `key` is known.
fn start(folder: &Folder, key: Option<&String>) -> ChildServer {
    let mut server = process::start(folder);
    server.key = server.key.take().or_else(|| key.cloned());
    server
}

/// The first place at which two answers differ, without their large texts.
fn difference(one: &Value, other: &Value) -> Option<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) if one.len() == other.len() => {
            one.iter().find_map(|(name, member)| {
                let found = difference(member, other.get(name).unwrap_or(&Value::Null))?;
                Some(format!("{name}: {found}"))
            })
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let mut pairs = one.iter().zip(other);
            pairs.find_map(|(one, other)| difference(one, other))
        }
        _ if one != other => {
            let (one, other) = (one.to_string(), other.to_string());
            Some(format!("{one:.300} / {other:.300}"))
        }
        _ => None,
    }
}

#[test]
fn history_that_is_imported_answers_at_all_coordinates_as_before() {
    let folder = Folder::new();
    let server = process::start(&folder);
    let key = server.key.clone();
    fill(&server);
    let marks = marks(&server);
    assert!(marks.len() > 12, "{marks:?}");
    let before = answers(&server, &marks);
    // Beside the server that runs.
    let beside = fs::read_to_string(export(&folder)).unwrap();
    server.stop().unwrap();
    let file = export(&folder);
    let first = fs::read_to_string(&file).unwrap();
    assert_eq!(beside.lines().count(), first.lines().count());
    assert!(!first.contains("forgotten"), "an erased row is not in it");
    assert!(first.contains("mercury") && first.contains("quicksilver"));

    let copy = Folder::new();
    let output = import(&copy, &file);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(
        said.starts_with("Imported ") && said.contains(" in 3 tables and "),
        "{said}"
    );
    assert_eq!(fs::read_to_string(export(&copy)).unwrap(), first);
    assert!(!copy.data().join("import.unfinished").exists());
    let database = fs::read(copy.data().join("tidemark.db")).unwrap();
    let holds = |part: &[u8]| database.windows(part.len()).any(|bytes| bytes == part);
    assert!(
        holds(b"pale ink") && !holds(b"quicksilver"),
        "it is encrypted again"
    );

    let server = start(&copy, key.as_ref());
    for ((route, before), (_, after)) in before.iter().zip(answers(&server, &marks)) {
        assert_eq!(difference(before, &after), None, "{route}");
    }
    println!("{} answers are equal", before.len());
    put(&server, "suppliers", "s3", &json!({"name": "new"}));
    let next = *self::marks(&server).last().unwrap();
    assert!(next > *marks.last().unwrap(), "{next}");
    server.stop().unwrap();
    let doctor = tidemark("doctor --data")
        .arg(copy.data())
        .env("TIDEMARK_LISTEN", "127.0.0.1:0")
        .output()
        .unwrap();
    assert!(doctor.status.success(), "{}", text(&doctor.stdout));
    assert_refused(&import(&copy, &file), 1, "into an empty store only");
}

/// A small history, its lines, and a folder that none was imported into.
fn small() -> (Vec<String>, Folder) {
    let folder = Folder::new();
    let server = process::start(&folder);
    server.call(
        "POST",
        "/tablesdb",
        &json!({"databaseId": "shop", "name": "Shop"}),
    );
    let table = json!({"tableId": "t", "name": "T",
        "columns": [{"key": "n", "type": "integer"}, {"key": "s", "type": "varchar", "size": 9}],
        "indexes": [{"key": "by_s", "type": "unique", "attributes": ["s"]}]});
    server.call("POST", TABLES, &table);
    for id in ["one", "two"] {
        put(&server, "t", id, &json!({"n": 7, "s": id}));
    }
    server.stop().unwrap();
    let lines = fs::read_to_string(export(&folder)).unwrap();
    (lines.lines().map(str::to_owned).collect(), Folder::new())
}

fn refused(folder: &Folder, lines: &[String], part: &str) {
    let file = folder.join("altered.jsonl");
    let text = lines.iter().map(|line| format!("{line}\n"));
    let text: String = text.collect();
    fs::write(&file, text).unwrap();
    let output = import(folder, &file);
    assert_refused(&output, 1, part);
    assert_refused(&output, 1, "nothing was imported");
    let left: Vec<_> = fs::read_dir(folder.data())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["lock"], "{part}");
}

/// The lines with an end that fits them.
fn signed(lines: &[String]) -> Vec<String> {
    let mut lines = lines[..lines.len() - 1].to_vec();
    let text = lines.iter().map(|line| format!("{line}\n"));
    let text: String = text.collect();
    let sum = digest(&SHA256, text.as_bytes());
    let digits = sum.as_ref().iter().map(|byte| format!("{byte:02x}"));
    let sum: String = digits.collect();
    lines.push(json!({"end": {"lines": lines.len(), "sha256": sum}}).to_string());
    lines
}

/// With the line of this part replaced by what `change` makes of it.
fn changed(lines: &[String], part: &str, change: impl Fn(&mut Value)) -> (usize, Vec<String>) {
    let mut lines = lines.to_vec();
    let start = format!("{{\"{part}\":");
    let at = lines
        .iter()
        .rposition(|line| line.starts_with(&start))
        .unwrap();
    let mut line: Value = serde_json::from_str(&lines[at]).unwrap();
    change(&mut line[part]);
    lines[at] = line.to_string();
    (at + 1, lines)
}

#[test]
fn truncated_and_foreign_files_are_refused_as_a_whole() {
    let (lines, folder) = small();
    let last = lines.len();
    let cut = &lines[..last - 1];
    refused(
        &folder,
        cut,
        &format!("line {last}: the file ends before the history does"),
    );
    let mut half = lines[..last / 2].to_vec();
    half.last_mut().unwrap().truncate(9);
    refused(
        &folder,
        &half,
        &format!("line {}: this is no JSON", last / 2),
    );
    let mut without = lines.clone();
    without.remove(last - 2);
    refused(
        &folder,
        &without,
        "the file was altered, or parts of it are missing",
    );
    let mut more = lines.clone();
    more.push("{}".to_owned());
    refused(&folder, &more, "something follows the end");
    let header = |header: &str| {
        let mut lines = lines.clone();
        header.clone_into(&mut lines[0]);
        lines
    };
    let newer = header("{\"tidemark\":\"history\",\"version\":2}");
    refused(&folder, &newer, "Use a newer Tidemark");
    let other = header("{\"tidemark\":\"export\",\"version\":1}");
    refused(&folder, &other, "Import it without --history");
    refused(
        &folder,
        &header("{\"other\":1}"),
        "not the history of a store",
    );
    refused(&folder, &header("PK"), "line 1: this is no JSON");
    refused(&folder, &[], "the file ends before the history does");

    let file = folder.join("right.jsonl");
    fs::write(&file, lines.join("\n") + "\n").unwrap();
    let output = on(&folder, &format!("import {}", file.display()));
    assert_refused(&output, 1, "Import it with --history");
    let words = format!("import --history {} --resume", file.display());
    assert_refused(&on(&folder, &words), 2, "--resume");
    assert_refused(&on(&folder, "export shop --history"), 2, "--history");
}

#[test]
fn damaged_line_names_its_number_and_field() {
    let (lines, folder) = small();
    let cases: [Case; 13] = [
        ("version", "`knownFrom` is a text; a mark is meant", |v| {
            v["knownFrom"] = json!("x");
        }),
        ("version", "`knownFrom` is 9", |v| {
            v["knownFrom"] = json!(i64::MAX - 9);
        }),
        ("version", "`validTo` is not after", |v| {
            v["validTo"] = v["validFrom"].clone();
        }),
        ("version", "`goneAt` is not after", |v| {
            v["goneAt"] = v["knownFrom"].clone();
        }),
        ("version", "`cutTo` does not lie within", |v| {
            v["cutTo"] = v["validFrom"].clone();
        }),
        ("version", "`values.1` is a text; Int is meant", |v| {
            v["values"]["1"] = json!("7");
        }),
        ("version", "`values.9` names no column", |v| {
            v["values"]["9"] = json!(7);
        }),
        ("version", "`values` is a list; an object", |v| {
            v["values"] = json!([]);
        }),
        ("version", "`id` is none", |v| v["id"] = json!("a b")),
        ("version", "`table` is 99, and no table", |v| {
            v["table"] = json!(99);
        }),
        ("version", "`more` is no member", |v| v["more"] = json!(1)),
        ("commit", "`number` is missing", |v| {
            drop(v.as_object_mut().unwrap().remove("number"));
        }),
        ("key", "`sha256` is a text; a digest", |v| {
            v["sha256"] = json!("ff");
        }),
    ];
    for (part, why, change) in cases {
        let (number, altered) = changed(&lines, part, change);
        refused(&folder, &altered, &format!("line {number}: {why}"));
    }
    // One letter of content: every line can be read, and the digest tells.
    let (_, altered) = changed(&lines, "version", |v| v["values"]["2"] = json!("twp"));
    refused(&folder, &altered, "`sha256` is");
}

#[test]
fn lines_that_contradict_one_another_make_no_store() {
    let (lines, folder) = small();
    let cases: [Case; 7] = [
        ("version", "row `one` of table `t` has two values", |v| {
            v["id"] = json!("one");
            v["sequence"] = json!(1);
            let from = v["validFrom"].as_i64().unwrap();
            v["validFrom"] = json!(from + 1);
        }),
        ("version", "has the `$sequence` of another row", |v| {
            v["sequence"] = json!(1);
        }),
        ("version", "a value that is unique", |v| {
            v["values"]["2"] = json!("one");
        }),
        ("commit", "do not follow those of the commit before", |v| {
            v["number"] = json!(99);
        }),
        ("store", "was given already", |v| v["nextTable"] = json!(1)),
        ("database", "that is not there", |v| {
            v["id"] = json!("other");
        }),
        ("column", "unknown kind of column", |v| {
            v["type"] = json!("colour");
        }),
    ];
    for (part, why, change) in cases {
        let (_, altered) = changed(&lines, part, change);
        let file = folder.join("altered.jsonl");
        fs::write(&file, signed(&altered).join("\n") + "\n").unwrap();
        assert_refused(&import(&folder, &file), 1, why);
        assert!(!folder.data().join("tidemark.db").exists(), "{why}");
    }
    let mut late = lines.clone();
    let at = late.iter().position(|line| line.starts_with("{\"key\":"));
    let key = late.remove(at.unwrap());
    late.insert(lines.len() - 2, key);
    refused(&folder, &signed(&late), "comes too late");
}

/// Feeds half of a history to an import and ends it as a power cut does.
#[test]
fn import_that_is_killed_leaves_a_directory_that_says_so() {
    let (lines, folder) = small();
    let half = lines[..lines.len() / 2].join("\n");
    let mut child = tidemark("import --history - --data")
        .arg(folder.data())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(half.as_bytes()).unwrap();
    let unfinished = folder.data().join("import.unfinished");
    let begun = Instant::now();
    while !unfinished.join("tidemark.db").exists() {
        assert!(
            begun.elapsed() < Duration::from_mins(1),
            "the import does not begin"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drop(stdin);
    assert!(unfinished.exists() && !folder.data().join("tidemark.db").exists());
    let output = on(&folder, "serve --listen 127.0.0.1:0");
    assert_refused(&output, 1, "An import of a history did not end here");
    assert!(
        !folder.data().join("tidemark.db").exists(),
        "nothing was begun"
    );

    let file = folder.join("right.jsonl");
    fs::write(&file, lines.join("\n") + "\n").unwrap();
    let output = import(&folder, &file);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!unfinished.exists());
    assert_eq!(
        fs::read_to_string(export(&folder)).unwrap().lines().count(),
        lines.len()
    );
}

#[test]
fn directory_that_holds_something_is_left_as_it_is() {
    let (lines, folder) = small();
    let file = folder.join("right.jsonl");
    fs::write(&file, lines.join("\n") + "\n").unwrap();
    fs::create_dir(folder.data()).unwrap();
    let key = folder.data().join("tidemark.key");
    fs::write(&key, "another store's").unwrap();
    assert_refused(&import(&folder, &file), 1, "is the key of another store");
    assert_eq!(fs::read_to_string(&key).unwrap(), "another store's");
    fs::remove_file(&key).unwrap();
    let server = process::start(&folder);
    assert_refused(
        &import(&folder, &file),
        1,
        "Another process holds the data directory",
    );
    server.stop().unwrap();
    assert_refused(
        &import(&folder, &file),
        1,
        "It holds commits".trim_start_matches("It "),
    );
    let nowhere = Folder::new();
    assert_refused(
        &on(&nowhere, "export --history"),
        1,
        "there is no database in",
    );
}

#[test]
fn history_with_a_damaged_value_is_not_exported() {
    let folder = Folder::new();
    let server = process::start(&folder);
    server.call(
        "POST",
        "/tablesdb",
        &json!({"databaseId": "shop", "name": "Shop"}),
    );
    let table = json!({"tableId": "t", "name": "T", "columns": [
        {"key": "near", "type": "varchar", "size": 20},
        {"key": "ssn", "type": "text", "encrypt": true}]});
    server.call("POST", TABLES, &table);
    for id in ["r", "whole"] {
        put(
            &server,
            "t",
            id,
            &json!({"near": format!("near {id}"), "ssn": "quicksilver"}),
        );
    }
    server.stop().unwrap();
    damage_behind(&folder.data(), "near r");
    let file = folder.join("history.jsonl");
    let words = format!("export --history --output {}", file.display());
    assert_refused(
        &on(&folder, &words),
        1,
        "row `r` is damaged, and a history lacks nothing",
    );
    assert!(!file.exists());
    assert!(on(&folder, "erase shop t r --yes").status.success());
    assert!(
        fs::read_to_string(export(&folder))
            .unwrap()
            .contains("near whole")
    );
}

/// Every command of the guide, in its order, with a folder of the test's own for `/srv`.
#[test]
fn commands_of_the_guide_do_what_it_says() {
    let folder = Folder::new();
    let server = process::start(&folder);
    fill(&server);
    server.stop().unwrap();
    let srv = folder.join("srv");
    fs::create_dir(&srv).unwrap();
    fs::rename(folder.data(), srv.join("tidemark")).unwrap();
    let blocks = GUIDE.split("```sh\n").skip(1);
    let script: String = blocks
        .map(|block| block.split("```").next().unwrap())
        .collect();
    assert!(
        script.contains("export --history") && script.contains("cp -a"),
        "{script}"
    );
    let binary = Path::new(env!("CARGO_BIN_EXE_tidemark")).parent().unwrap();
    let output = Command::new("bash")
        .args(["-e", "-o", "pipefail", "-c"])
        .arg(script.replace("/srv/", &format!("{}/", srv.display())))
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", binary.display()))
        .env("TIDEMARK_LISTEN", "127.0.0.1:0")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}{errors}");
    for directory in ["copy", "new"] {
        assert!(
            srv.join(directory).join("tidemark.db").exists(),
            "{directory}"
        );
    }
}
