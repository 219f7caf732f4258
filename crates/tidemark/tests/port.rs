//! Exports and imports through the built binary: what goes out comes back in, byte for byte.

mod process;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use process::{Folder, assert_refused, json_of, on, text, tidemark};
use serde_json::{Value, json};
use testing::{ChildServer, damage_behind};

/// Every kind of column, alone and as a list, and both kinds of index.
fn kinds() -> Value {
    json!({
        "tableId": "kinds", "name": "Kinds", "rowSecurity": true,
        "permissions": ["read(\"any\")", "create(\"users\")", "delete(\"team:red/owner\")"],
        "columns": [
            {"key": "s", "type": "string", "size": 1_000_000, "required": true},
            {"key": "v", "type": "varchar", "size": 20, "default": "thë default"},
            {"key": "t", "type": "text"},
            {"key": "mt", "type": "mediumtext"},
            {"key": "lt", "type": "longtext"},
            {"key": "em", "type": "email"},
            {"key": "ur", "type": "url"},
            {"key": "ip", "type": "ip"},
            {"key": "en", "type": "enum", "elements": ["z", "a", "m"], "default": "m"},
            {"key": "i", "type": "integer", "min": -5, "max": 5},
            {"key": "b", "type": "bigint"},
            {"key": "f", "type": "float", "min": -1.5},
            {"key": "o", "type": "boolean", "default": false},
            {"key": "d", "type": "datetime"},
            {"key": "vs", "type": "varchar", "size": 20, "array": true},
            {"key": "is", "type": "integer", "array": true},
            {"key": "fs", "type": "float", "array": true},
            {"key": "os", "type": "boolean", "array": true},
            {"key": "ds", "type": "datetime", "array": true},
        ],
        "indexes": [
            {"key": "by_em", "type": "unique", "attributes": ["em"]},
            {"key": "by_more", "type": "key", "attributes": ["v", "i", "$createdAt"],
             "orders": ["DESC", "ASC", "DESC"], "lengths": [10, null, null]},
            {"key": "words", "type": "fulltext", "attributes": ["t"]},
        ],
    })
}

/// A row with a value in every column of [`kinds`].
fn full() -> Value {
    json!({
        "$createdAt": "1999-12-31T23:59:59.999+00:00", "$updatedAt": "2020-02-29T12:00:00.001Z",
        "s": "ü\u{1F600}\"\\\n\r\n\t,;\u{7f}", "v": "", "t": "\"quoted\"", "mt": "=1+1",
        "lt": " x ", "em": "a@example.com", "ur": "https://example.com/?a=b&c", "ip": "::1",
        "en": "a", "i": -5, "b": -9_223_372_036_854_775_808_i64, "f": 0.1, "o": true,
        "d": "2026-01-31T10:00:00.123+02:00",
        "vs": ["", "a,b", "\"", "null"], "is": [0, -1], "fs": [4.0, 1e300, 5e-324], "os": [true],
        "ds": ["2026-01-31T10:00:00Z"],
    })
}

/// A table of every kind, and one that is closed and has rows for several pages.
fn fill(server: &ChildServer) {
    server.call(
        "POST",
        "/tablesdb",
        &json!({"databaseId": "shop", "name": "The \"shop\" – ü"}),
    );
    server.call("POST", "/tablesdb/shop/tables", &kinds());
    let options = "/tidemark/databases/shop/tables/kinds/options";
    let bounded = json!({"history": "days(30)", "pinnedMaxAge": 60, "ttlMax": 0});
    server.call("PATCH", options, &bounded);
    let rows = "/tablesdb/shop/tables/kinds/rows";
    let permissions = json!([
        "read(\"user:ann\")",
        "update(\"team:red\")",
        "delete(\"user:ann\")"
    ]);
    let row = json!({"rowId": "full", "data": full(), "permissions": permissions});
    server.call("POST", rows, &row);
    server.call(
        "POST",
        rows,
        &json!({"rowId": "empty", "data": {"s": "", "v": null, "vs": []}}),
    );
    let large = "é\n".repeat(150_000);
    server.call(
        "POST",
        rows,
        &json!({"rowId": "large", "data": {"s": large}}),
    );
    server.call("POST", rows, &json!({"rowId": "gone", "data": {"s": "x"}}));
    server.call("DELETE", &format!("{rows}/gone"), &json!({}));
    server.call("PATCH", &format!("{rows}/full"), &json!({"data": {"i": 5}}));
    let many = json!({
        "tableId": "many", "name": "Many", "enabled": false,
        "columns": [{"key": "n", "type": "integer", "required": true}],
    });
    server.call("POST", "/tablesdb/shop/tables", &many);
    for start in (0..1_200).step_by(100) {
        let row = |n: i32| json!({"$id": format!("r{}", (n * 7_919) % 1_200), "n": n});
        let rows: Vec<Value> = (start..start + 100).map(row).collect();
        server.call(
            "POST",
            "/tablesdb/shop/tables/many/rows",
            &json!({ "rows": rows }),
        );
    }
}

fn with(folder: &Folder, words: &str, file: &Path) -> Output {
    tidemark(words)
        .arg("--data")
        .arg(folder.data())
        .arg(file)
        .output()
        .unwrap()
}

#[track_caller]
fn export(folder: &Folder, words: &str) -> Vec<u8> {
    let output = on(folder, format!("export shop {words}").trim());
    assert!(output.status.success(), "{}", text(&output.stderr));
    output.stdout
}

/// A new data directory with the default project.
fn empty() -> Folder {
    let folder = Folder::new();
    json_of(&on(&folder, "project create default --json"));
    folder
}

/// The lines that define tables, without rows.
fn schema_of(export: &[u8]) -> String {
    let lines = std::str::from_utf8(export).unwrap().lines();
    let kept = lines.take_while(|line| !line.starts_with("{\"rows\""));
    let kept: Vec<&str> = kept.chain(["{\"end\":{\"rows\":0}}\n"]).collect();
    kept.join("\n")
}

#[test]
fn an_export_of_an_import_of_an_export_is_the_same_bytes() {
    let folder = Folder::new();
    let server = process::start(&folder);
    fill(&server);
    let first = export(&folder, "");
    server.stop().unwrap();
    assert_eq!(export(&folder, ""), first, "also without a server");

    let copy = empty();
    let file = folder.join("shop.jsonl");
    fs::write(&file, &first).unwrap();
    let output = with(&copy, "import", &file);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("Imported 1203 rows into 2 tables of database shop"));
    assert_eq!(export(&copy, ""), first);

    let lines: Vec<&str> = std::str::from_utf8(&first).unwrap().lines().collect();
    assert_eq!(lines.len(), 1 + 1 + 2 + 2 + 1_203 + 1);
    assert_eq!(lines[0], r#"{"tidemark":"export","version":1}"#);
    let kinds: Value = serde_json::from_str(lines[2]).unwrap();
    let told = (&kinds["table"]["history"], &kinds["table"]["pinnedMaxAge"]);
    assert_eq!(told, (&json!("days(30)"), &json!(60)));
    let past = &kinds["table"]["past"];
    assert_eq!(past, "keys", "another server may open it by default");
    assert_eq!(kinds["table"]["ttlMax"], 0);
    let full: Value = serde_json::from_str(lines[5]).unwrap();
    assert_eq!(full["$createdAt"], "1999-12-31T23:59:59.999+00:00");
    assert_eq!((&full["i"], &full["b"]), (&json!(5), &json!(i64::MIN)));
    let empty_row: Value = serde_json::from_str(lines[6]).unwrap();
    assert_eq!(
        (&empty_row["vs"], &empty_row["is"]),
        (&json!([]), &Value::Null)
    );

    let found = "/tablesdb/shop/tables/kinds/rows?queries%5B0%5D=%7B%22method%22%3A%22search%22%2C\
                 %22attribute%22%3A%22t%22%2C%22values%22%3A%5B%22quoted%22%5D%7D";
    let env = [("TIDEMARK_API_KEY", "a-secret-of-our-own")];
    let mut server = process::start_with(&copy, &env);
    server.key = Some("a-secret-of-our-own".to_owned());
    assert_eq!(
        server.call("GET", found, &Value::Null)["total"],
        1,
        "the words are indexed, too"
    );
    server.stop().unwrap();
    let mut doctor = tidemark("doctor --data");
    let doctor = doctor
        .arg(copy.data())
        .env("TIDEMARK_LISTEN", "127.0.0.1:0")
        .output()
        .unwrap();
    assert!(doctor.status.success(), "{}", text(&doctor.stdout));

    // Nothing is written again by an import that finds everything there.
    let output = with(&copy, "import --resume", &file);
    assert!(text(&output.stdout).contains("\n1203 rows were there already.\n"));
    assert_eq!(export(&copy, ""), first);
}

#[test]
fn a_table_travels_as_csv_into_a_running_server() {
    let folder = Folder::new();
    let server = process::start(&folder);
    fill(&server);
    let lines = export(&folder, "");
    let copy = Folder::new();
    let _target = process::start(&copy);
    let schema = folder.join("schema.jsonl");
    fs::write(&schema, schema_of(&lines)).unwrap();
    assert!(with(&copy, "import", &schema).status.success());

    for table in ["kinds", "many"] {
        let file = folder.join(&format!("{table}.csv"));
        let csv = export(&folder, &format!("--table {table} --format csv"));
        fs::write(&file, &csv).unwrap();
        let output = with(
            &copy,
            &format!("import --database shop --table {table}"),
            &file,
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(export(&copy, &format!("--table {table} --format csv")), csv);
    }
    assert_eq!(export(&copy, ""), lines, "CSV loses nothing");
    let csv = text(&export(&folder, "--table many --format csv"));
    assert!(
        csv.starts_with("$id,$createdAt,$updatedAt,$permissions,n\r\nr0,"),
        "{csv}"
    );
}

#[test]
fn an_output_file_appears_whole_and_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = empty();
    let file = folder.join("out.jsonl");
    let command = format!("export shop --output {}", file.display());
    assert_refused(&on(&folder, &command), 1, "No database `shop`");
    assert!(!file.exists());
    let server = process::start_with(&folder, &[("TIDEMARK_API_KEY", "a-secret-of-our-own")]);
    let mut server = server;
    server.key = Some("a-secret-of-our-own".to_owned());
    fill(&server);
    let output = on(&folder, &command);
    assert!(text(&output.stderr).contains("Exported 1203 rows of 2 tables, as of mark "));
    assert_eq!(fs::read(&file).unwrap(), export(&folder, ""));
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let names = fs::read_dir(folder.join("")).unwrap();
    let left = names.filter(|name| {
        let name = name.as_ref().unwrap().file_name();
        name.to_string_lossy().contains("unfinished")
    });
    assert_eq!(left.count(), 0);
    assert_refused(&on(&folder, "export shop --format csv"), 1, "--table");
    assert_refused(&on(&folder, "export shop --table x"), 1, "No table `x`");
    let directory = with(&folder, "import", &folder.join(""));
    assert_refused(&directory, 1, "is a directory, not an export");
}

#[test]
fn a_broken_import_says_what_was_done_and_goes_on_after_it_was_mended() {
    let folder = Folder::new();
    let server = process::start(&folder);
    fill(&server);
    let good = text(&export(&folder, ""));
    let broken = good.replacen("\"n\":700}", "\"n\":\"many\"}", 1);
    let line = broken
        .lines()
        .position(|line| line.contains("\"n\":\"many\"}"))
        .unwrap()
        + 1;
    let file = folder.join("shop.jsonl");
    fs::write(&file, broken).unwrap();

    let copy = empty();
    let output = with(&copy, "import", &file);
    assert_refused(&output, 1, &format!("line {line}: "));
    assert_refused(
        &output,
        1,
        "Before it 703 rows had come into database `shop` and stay",
    );
    assert_refused(&output, 1, "\"n\" has invalid value");
    let refused = with(&copy, "import", &file);
    assert_refused(&refused, 1, "a database `shop` exists already");
    let refused = with(&copy, "import --project other", &file);
    assert_refused(&refused, 1, "No project `other`");

    fs::write(&file, &good).unwrap();
    let output = with(&copy, "import --resume", &file);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&export(&copy, "")), good);

    let cut = &good[..good.len() - 200];
    fs::write(&file, cut).unwrap();
    let output = with(&copy, "import --database other", &file);
    assert_refused(&output, 1, "line ");
    fs::write(&file, good.rsplit_once("{\"end\"").unwrap().0).unwrap();
    let output = with(&copy, "import --database third", &file);
    assert_refused(&output, 1, "the file ends before the export does");
}

#[test]
fn an_unfinished_import_is_closed_to_callers_without_a_key() {
    let copy = Folder::new();
    let server = process::start(&copy);
    let file = copy.join("broken.jsonl");
    let lines = [
        r#"{"tidemark":"export","version":1}"#,
        r#"{"database":{"enabled":true,"id":"d","name":"D"}}"#,
    ];
    fs::write(&file, lines.join("\n")).unwrap();
    assert_refused(&with(&copy, "import", &file), 1, "the file ends before");
    assert_eq!(
        server.call("GET", "/tablesdb/d", &Value::Null)["enabled"],
        false
    );
    let end = r#"{"end":{"rows":0}}"#;
    fs::write(&file, [lines[0], lines[1], end].join("\n")).unwrap();
    assert!(with(&copy, "import --resume", &file).status.success());
    assert_eq!(
        server.call("GET", "/tablesdb/d", &Value::Null)["enabled"],
        true
    );
}

#[test]
fn files_that_are_no_export_are_told_by_line_and_column() {
    let folder = empty();
    let refuse = |words: &str, content: &str, part: &str| {
        let mut command = tidemark(words);
        command.arg("--data").arg(folder.data());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(content.as_bytes())
            .unwrap();
        assert_refused(&child.wait_with_output().unwrap(), 1, part);
    };
    refuse("import -", "", "line 1: the file ends before");
    refuse("import -", "name,age\n", "line 1: this is no JSON");
    refuse(
        "import -",
        r#"{"$id":"a"}"#,
        "line 1: an export begins with its header",
    );
    refuse(
        "import -",
        r#"{"tidemark":"export","version":9}"#,
        "line 1: the export has format version 9",
    );
    let schema = concat!(
        "{\"tidemark\":\"export\",\"version\":1}\n",
        "{\"database\":{\"enabled\":true,\"id\":\"d\",\"name\":\"D\"}}\n",
        "{\"table\":{\"id\":\"t\",\"name\":\"T\",\"permissions\":[],\"columns\":[",
        "{\"key\":\"n\",\"type\":\"integer\",\"max\":9}]}}\n",
        "{\"rows\":\"t\"}\n{\"end\":{\"rows\":0}}\n",
    );
    let file = folder.join("schema.jsonl");
    fs::write(&file, schema).unwrap();
    assert!(with(&folder, "import", &file).status.success());
    let csv = "import --format csv --database d --table t -";
    refuse(
        csv,
        "n\n1\nx\n",
        "line 3, column `n`: expected a 64-bit integer, got `x`",
    );
    refuse(csv, "n\n1\n10\n", "line 3: Invalid document structure");
    refuse(csv, "$id,m\n", "the table has no column `m`");
    refuse(
        csv,
        "n\n1,2\n",
        "line 2: 2 fields, but the first line names 1 column",
    );
    refuse(
        "import --format csv --database d --table u -",
        "n\n",
        "No table `u`",
    );
    refuse(
        "import --format csv --database d --table t --resume -",
        "n\n1\n",
        "`$id`",
    );
}

/// One row of two values, of which the first was written wrong.
fn with_a_past(folder: &Folder) -> ChildServer {
    let server = process::start(folder);
    server.call(
        "POST",
        "/tablesdb",
        &json!({"databaseId": "d", "name": "D"}),
    );
    let table = json!({
        "tableId": "t", "name": "T",
        "columns": [{"key": "s", "type": "varchar", "size": 20}],
    });
    server.call("POST", "/tablesdb/d/tables", &table);
    let rows = "/tablesdb/d/tables/t/rows";
    let row = json!({"rowId": "r", "data": {"s": "first"}});
    server.call("POST", rows, &row);
    server.call(
        "PATCH",
        &format!("{rows}/r"),
        &json!({"data": {"s": "second"}}),
    );
    server
}

/// What each version says, with where it ends on either axis.
fn versions(folder: &Folder) -> Vec<(String, bool, bool)> {
    let found = json_of(&on(folder, "history d t r --json"));
    let versions = found["versions"].as_array().unwrap().iter();
    let version = |version: &Value| {
        let text = version["doc"]["s"].as_str().unwrap().to_owned();
        (
            text,
            version["valid_to"].is_null(),
            version["sys_to"].is_null(),
        )
    };
    versions.map(version).collect()
}

fn erase_with_its_past(folder: &Folder) {
    let mut known = versions(folder);
    known.sort();
    // The first was open until the second was known.
    let version = |text: &str, is_open, is_known| (text.to_owned(), is_open, is_known);
    assert_eq!(
        known,
        [
            version("first", false, true),
            version("first", true, false),
            version("second", true, true)
        ]
    );
    let shown = on(folder, "history d t r");
    let shown = text(&shown.stdout);
    assert!(shown.starts_with("VALID FROM"), "{shown}");
    assert!(shown.contains(r#"{"s":"first"}"#), "{shown}");
    assert_eq!(shown.lines().count(), 4, "{shown}");

    assert_refused(
        &on(folder, "erase d t r"),
        1,
        "row r of d/t has 3 versions; nothing was erased. --yes erases",
    );
    assert_eq!(versions(folder).len(), 3);
    let erased = on(folder, "erase d t r --yes");
    assert_eq!(
        text(&erased.stdout),
        "Erased row r of d/t with 3 versions.\n"
    );
    for command in ["history d t r", "erase d t r --yes"] {
        assert_refused(&on(folder, command), 1, "row r of d/t has no version");
    }
    assert_refused(&on(folder, "history d x r"), 1, "x");
    assert_refused(&on(folder, "history d t r --project none"), 1, "none");
}

/// Rows `r`, `s` and `whole` of `d/t`, and one of `d/u`; encrypted values of the first two are
/// damaged.
fn with_damage() -> Folder {
    let folder = Folder::new();
    let server = process::start(&folder);
    let database = json!({"databaseId": "d", "name": "D"});
    server.call("POST", "/tablesdb", &database);
    let table = json!({"tableId": "t", "name": "T", "columns": [
        {"key": "near", "type": "varchar", "size": 20},
        {"key": "ssn", "type": "text", "encrypt": true},
    ]});
    server.call("POST", "/tablesdb/d/tables", &table);
    for id in ["r", "whole", "s"] {
        let data = json!({"near": format!("near {id}"), "ssn": "quicksilver"});
        let row = json!({"rowId": id, "data": data});
        server.call("POST", "/tablesdb/d/tables/t/rows", &row);
    }
    let later = json!({"tableId": "u", "name": "U", "columns": [{"key": "n", "type": "integer"}]});
    server.call("POST", "/tablesdb/d/tables", &later);
    let row = json!({"rowId": "later", "data": {"n": 1}});
    server.call("POST", "/tablesdb/d/tables/u/rows", &row);
    server.stop().unwrap();
    for id in ["r", "s"] {
        damage_behind(&folder.data(), &format!("near {id}"));
    }
    folder
}

#[test]
fn damaged_rows_are_left_out_of_an_export_and_named() {
    let folder = with_damage();
    let file = folder.join("d.jsonl");
    let check = |words: &str| {
        let done = on(&folder, &format!("{words} --output {}", file.display()));
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(3), "{said}");
        let named = said.lines().take(2).collect::<Vec<_>>();
        let name =
            |id: &str| format!("Left out row {id} of d/t: an encrypted value of it is damaged.");
        assert_eq!(named, [name("r"), name("s")]);
        assert!(
            said.ends_with("The export lacks 2 damaged rows, named above.\n"),
            "{said}"
        );
        fs::read_to_string(&file).unwrap()
    };
    let offline = check("export d");
    for part in [
        r#""$id":"whole""#,
        r#""$id":"later""#,
        r#"{"end":{"rows":2}}"#,
    ] {
        assert!(offline.contains(part), "{offline}");
    }
    for part in [r#""$id":"r""#, r#""$id":"s""#] {
        assert!(!offline.contains(part), "{offline}");
    }
    let records = check("export d --table t --format csv");
    assert_eq!(records.lines().count(), 2, "{records}");
    assert!(records.contains("near whole,quicksilver"), "{records}");
    let server = process::start(&folder);
    assert_eq!(check("export d"), offline);
    server.stop().unwrap();

    let copy = Folder::new();
    process::start(&copy).stop().unwrap();
    check("export d");
    let read = on(&copy, &format!("import {}", file.display()));
    assert!(read.status.success(), "{}", text(&read.stderr));
    assert!(text(&on(&folder, "export d --table u").stdout).contains(r#""$id":"later""#));
}

#[test]
fn a_row_with_a_damaged_value_is_shown_and_erased_with_a_server_and_without() {
    let folder = with_damage();
    let erase = |id: &str| {
        let shown = on(&folder, &format!("history d t {id}"));
        let shown = text(&shown.stdout);
        let lacks = format!(r#"{{"near":"near {id}"}} (damaged: ssn)"#);
        assert!(shown.contains(&lacks), "{shown}");
        let erased = on(&folder, &format!("erase d t {id} --yes"));
        let wanted = format!("Erased row {id} of d/t with 1 version.\n");
        assert_eq!(text(&erased.stdout), wanted, "{}", text(&erased.stderr));
    };
    erase("r");
    let server = process::start(&folder);
    erase("s");
    server.stop().unwrap();
}

#[test]
fn a_row_and_its_past_are_shown_and_erased_through_the_running_server() {
    let folder = Folder::new();
    let server = with_a_past(&folder);
    erase_with_its_past(&folder);
    let left = server.call("GET", "/tablesdb/d/tables/t/rows", &Value::Null);
    assert_eq!(left["total"], 0);
    server.stop().unwrap();
}

#[test]
fn a_row_and_its_past_are_shown_and_erased_in_the_directory_itself() {
    let folder = Folder::new();
    with_a_past(&folder).stop().unwrap();
    erase_with_its_past(&folder);
}
