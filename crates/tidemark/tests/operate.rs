//! The built binary as its operator meets it: settings, `doctor`, and starts that fail.

mod process;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;

use process::{Folder, assert_refused, json_of, on, text, tidemark};
use serde_json::{Value, json};
use testing::{ChildServer, ServerLog, damage_behind};

fn doctor(folder: &Folder, words: &str, env: &[(&str, &str)]) -> (Option<i32>, Value) {
    let output = tidemark(format!("doctor --json {words}").trim())
        .arg("--data")
        .arg(folder.data())
        .envs(env.iter().copied())
        .output()
        .unwrap();
    let found = serde_json::from_slice(&output.stdout);
    let found: Value = found.unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
    assert_eq!(found["healthy"], output.status.success());
    (output.status.code(), found)
}

fn finding<'a>(found: &'a Value, check: &str) -> &'a Value {
    let findings = found["findings"].as_array().unwrap();
    let one = findings.iter().find(|one| one["check"] == check);
    one.unwrap_or_else(|| panic!("no finding `{check}` in {found:#}"))
}

#[track_caller]
fn check(found: &Value, what: &str, health: &str, part: &str) {
    let one = finding(found, what);
    assert_eq!(one["health"], health, "{one:#}");
    let (said, advice) = (one["found"].as_str().unwrap(), one["advice"].as_str());
    assert!(said.contains(part), "`{part}` is not in: {said}");
    let needs_advice = matches!(health, "warning" | "bad");
    assert_eq!(advice.is_some(), needs_advice, "{one:#}");
}

/// A port that is free now.
fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_what_is_built_in() {
    let folder = Folder::new();
    json_of(&on(&folder, "project create default --json"));
    let file = folder.data().join("tidemark.toml");
    fs::write(
        &file,
        "threads = 2\npage-rows-max = 7\nlist-cache = \"64MiB\"\n",
    )
    .unwrap();
    let env = [("TIDEMARK_PAGE_ROWS_MAX", "8"), ("TIDEMARK_TOTAL_CAP", "9")];
    let (_, found) = doctor(&folder, "--no-check", &env);
    let said = finding(&found, "settings")["found"]
        .as_str()
        .unwrap()
        .to_owned();
    for part in [
        "threads=2 (file)",
        "list-cache=64MiB (file)",
        "page-rows-max=8 (variable)",
        "total-cap=9 (variable)",
    ] {
        assert!(said.contains(part), "`{part}` is not in: {said}");
    }

    // A server takes them; a port that is held shows which one it took.
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().to_string();
    let other = folder.join("other.toml");
    let data = folder.data();
    fs::write(
        &other,
        format!("listen = \"{taken}\"\ndata = \"{}\"\n", data.display()),
    )
    .unwrap();
    let serve = format!("serve --config {}", other.display());
    assert_refused(
        &tidemark(&serve).output().unwrap(),
        1,
        &format!("cannot listen on {taken}"),
    );
    let mut command = tidemark(&serve);
    let output = command.env("TIDEMARK_LISTEN", "nonsense").output().unwrap();
    assert_refused(&output, 2, "such as 127.0.0.1:8280");
}

#[test]
fn a_file_that_is_not_understood_stops_the_start_and_the_doctor() {
    let folder = Folder::new();
    json_of(&on(&folder, "project create default --json"));
    let file = folder.data().join("tidemark.toml");
    let refuse = |content: &str, part: &str| {
        fs::write(&file, content).unwrap();
        for command in ["serve --listen 127.0.0.1:0", "doctor"] {
            let output = on(&folder, command);
            assert_refused(&output, 1, part);
            assert_refused(&output, 1, "tidemark.toml");
            assert_eq!(text(&output.stderr).lines().count(), 1, "one plain line");
        }
    };
    refuse("durabilty = \"full\"", "The nearest is `durability`");
    refuse("durability = \"max\"", "`durability`: invalid value 'max'");
    refuse("listen = ", "line 1: ");
    refuse(
        "data = \"elsewhere\"",
        "`data` cannot stand in the file of the data directory",
    );
    let output = tidemark("serve --config no-such-file.toml")
        .output()
        .unwrap();
    assert_refused(
        &output,
        1,
        "there is no configuration file no-such-file.toml",
    );
}

#[test]
fn the_doctor_finds_a_new_and_a_served_directory_healthy() {
    let folder = Folder::new();
    let listen = [("TIDEMARK_LISTEN", &*free_port())];
    let (code, found) = doctor(&folder, "", &listen);
    assert_eq!(code, Some(0), "{found:#}");
    check(&found, "directory", "ok", "is not there; a start makes it");
    check(&found, "format", "ok", "Nothing is stored yet");
    assert!(!folder.data().exists(), "looking makes nothing");

    let server = process::start(&folder);
    let (code, found) = doctor(&folder, "", &listen);
    assert_eq!(code, Some(0), "{found:#}");
    check(&found, "directory", "ok", "is this user's, mode 700");
    check(&found, "server", "ok", "serve");
    check(&found, "format", "ok", "today's");
    check(&found, "integrity", "ok", "Every page was read");
    check(&found, "clock", "ok", "the last commit was at");
    check(
        &found,
        "versions",
        "ok",
        concat!("Tidemark ", env!("CARGO_PKG_VERSION")),
    );
    check(&found, "kernel", "ok", "landlock");
    // The tests hand on no search path.
    check(
        &found,
        "runtimes",
        "skipped",
        "`node` is not on the search path",
    );
    let jail = finding(&found, "jail")["found"].as_str().unwrap();
    assert!(jail.contains("of level `full` can be made"), "{jail}");
    let durability = finding(&found, "durability")["found"].as_str().unwrap();
    assert!(durability.contains("survives a power cut") && durability.contains(" us here"));
    server.stop().unwrap();
    let names = fs::read_dir(folder.data()).unwrap();
    let probes = names.filter(|name| {
        let name = name.as_ref().unwrap().file_name();
        name.to_string_lossy().contains("probe")
    });
    assert_eq!(probes.count(), 0);

    let output = on(&folder, "doctor --no-check");
    let said = text(&output.stdout);
    assert!(said.contains("skipped  integrity"), "{said}");
}

#[test]
fn the_doctor_says_what_is_wrong_and_what_to_do() {
    let folder = Folder::new();
    fs::write(folder.data(), "a file").unwrap();
    let (code, found) = doctor(&folder, "", &[]);
    assert_eq!(code, Some(1));
    check(&found, "directory", "bad", "is a file, not a directory");
    fs::remove_file(folder.data()).unwrap();

    fs::create_dir(folder.data()).unwrap();
    let other = "another program's file, as long as a page of the database is. ".repeat(99);
    fs::write(folder.data().join("tidemark.db"), other).unwrap();
    let (code, found) = doctor(&folder, "", &[]);
    assert_eq!(code, Some(1));
    check(&found, "format", "bad", "");
    fs::remove_dir_all(folder.data()).unwrap();

    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap().to_string();
    let file = folder.join("open.toml");
    fs::write(&file, "api-key = \"0123456789abcdef\"").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let words = format!("--config {}", file.display());
    let (code, found) = doctor(&folder, &words, &[("TIDEMARK_LISTEN", &address)]);
    assert_eq!(code, Some(1));
    check(
        &found,
        "port",
        "bad",
        &format!("Process {} (", std::process::id()),
    );
    check(&found, "settings", "warning", "others may read it");
    assert!(!found.to_string().contains("0123456789abcdef"));
}

#[test]
fn a_newer_format_is_refused_with_what_to_use() {
    let folder = Folder::new();
    json_of(&on(&folder, "project create default --json"));
    // The format stands at byte 60 of the file (SQLite manual, "Database File Format", 1.3).
    let file = folder.data().join("tidemark.db");
    let mut bytes = fs::read(&file).unwrap();
    bytes[60..64].copy_from_slice(&99_u32.to_be_bytes());
    fs::write(&file, bytes).unwrap();
    let output = on(&folder, "serve --listen 127.0.0.1:0");
    assert_refused(&output, 1, "has format 99");
    assert_refused(&output, 1, "Use a newer Tidemark");
    let (code, found) = doctor(&folder, "", &[]);
    assert_eq!(code, Some(1));
    check(&found, "format", "bad", "has format 99");
}

#[test]
fn the_key_of_encrypted_columns_is_needed_and_looked_at() {
    let folder = Folder::new();
    let listen = [("TIDEMARK_LISTEN", &*free_port())];
    let server = process::start(&folder);
    let (_, found) = doctor(&folder, "--no-check", &listen);
    check(&found, "key", "ok", "Nothing is encrypted");
    let database = json!({"databaseId": "d", "name": "D"});
    server.call("POST", "/tablesdb", &database);
    let columns = json!([{"key": "near", "type": "text"},
        {"key": "k", "type": "text", "encrypt": true}]);
    let table = json!({"tableId": "t", "name": "T", "columns": columns});
    server.call("POST", "/tablesdb/d/tables", &table);
    for id in ["a", "b"] {
        let data = json!({"near": format!("near {id}"), "k": "quicksilver"});
        let row = json!({"rowId": id, "data": data});
        server.call("POST", "/tablesdb/d/tables/t/rows", &row);
    }
    server.stop().unwrap();
    let file = folder.data().join("tidemark.key");
    let (_, found) = doctor(&folder, "--no-check", &listen);
    check(&found, "key", "ok", "is there");
    let key = fs::read(&file).unwrap();
    for (other, part) in [(None, "is not there"), (Some("x"), "does not hold the key")] {
        match other {
            None => fs::remove_file(&file).unwrap(),
            Some(other) => fs::write(&file, other).unwrap(),
        }
        let output = on(&folder, "serve --listen 127.0.0.1:0");
        assert_refused(&output, 1, part);
        assert_refused(&output, 1, "tidemark.key");
        let (code, found) = doctor(&folder, "--no-check", &listen);
        assert_eq!(code, Some(1));
        check(&found, "key", "bad", part);
    }
    fs::write(&file, key).unwrap();
    let (_, found) = doctor(&folder, "", &listen);
    check(
        &found,
        "encrypted",
        "ok",
        "Every encrypted value was opened",
    );
    damage_behind(&folder.data(), "near b");
    let (_, found) = doctor(&folder, "--no-check", &listen);
    check(&found, "encrypted", "skipped", "Not asked for");
    let (code, found) = doctor(&folder, "", &listen);
    assert_eq!(code, Some(1));
    // As it is now, and the version that says so.
    let said = "2 encrypted values of 1 row cannot be opened, now or in the past: \
                `b` of default/d/t.";
    check(&found, "encrypted", "bad", said);
    process::start(&folder).stop().unwrap();
}

#[test]
fn holder_of_a_port_or_a_directory_is_named() {
    let folder = Folder::new();
    let server = process::start(&folder);
    let second = on(&folder, "serve --listen 127.0.0.1:0");
    assert_refused(&second, 1, "Another process holds the data directory");
    assert_refused(
        &second,
        1,
        &format!("It is Process {} (tidemark)", server.child.id()),
    );
    let other = Folder::new();
    let second = on(
        &other,
        &format!("serve --listen 127.0.0.1:{}", server.port()),
    );
    assert_refused(
        &second,
        1,
        &format!("Process {} (tidemark) listens there", server.child.id()),
    );
    let listen = format!("127.0.0.1:{}", server.port());
    let (code, found) = doctor(&folder, "--no-check", &[("TIDEMARK_LISTEN", &listen)]);
    assert_eq!(code, Some(0), "{found:#}");
    check(&found, "port", "ok", "is held by this server");
    check(
        &found,
        "server",
        "ok",
        &format!("Process {} (tidemark) serves it", server.child.id()),
    );
}

#[test]
fn a_directory_that_cannot_be_made_is_named_with_where_to_look() {
    let output = tidemark("serve --listen 127.0.0.1:0 --data /proc/tidemark")
        .output()
        .unwrap();
    assert_refused(&output, 1, "cannot open the data directory /proc/tidemark");
    assert_refused(&output, 1, "`tidemark doctor` looks closer");
    assert_eq!(json!(text(&output.stdout)), json!(""));
}

#[test]
fn a_second_server_is_refused_when_the_file_of_the_lock_is_gone() {
    let folder = Folder::new();
    let server = process::start(&folder);
    fs::remove_file(folder.data().join("lock")).unwrap();
    let second = on(&folder, "serve --listen 127.0.0.1:0");
    let holder = format!("It is Process {} (tidemark)", server.child.id());
    assert_refused(&second, 1, &holder);
}

#[test]
fn files_of_a_server_belong_to_its_owner_in_any_directory() {
    let folder = Folder::new();
    fs::create_dir(folder.data()).unwrap();
    let open = |path: &std::path::Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    open(&folder.data(), 0o755);
    let _server = process::start(&folder);
    let files: Vec<_> = fs::read_dir(folder.data())
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(files.iter().any(|file| file.file_name() == "admin.sock"));
    for file in &files {
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", file.file_name());
    }
    let listen = [("TIDEMARK_LISTEN", &*free_port())];
    let judge = |health: &str, part: &str| {
        let (_, found) = doctor(&folder, "--no-check", &listen);
        check(&found, "permissions", health, part);
    };
    judge("warning", "others may look into");
    open(&folder.data(), 0o700);
    judge("ok", "Only the owner");
    for name in ["admin.sock", "tidemark.db"] {
        open(&folder.data().join(name), 0o644);
        judge("warning", name);
        open(&folder.data().join(name), 0o600);
    }
    open(&folder.data(), 0o777);
    judge("bad", "mode 777");
}

#[test]
fn a_server_that_lost_commits_or_its_database_starts_when_it_is_told_to() {
    let folder = Folder::new();
    process::start(&folder).stop().unwrap();
    let at = |name: &str| folder.data().join(name);
    let database = fs::read(at("tidemark.db")).unwrap();
    json_of(&on(&folder, "project create another --json"));
    let refused = |part: &str, checked: &str| {
        for command in ["serve --listen 127.0.0.1:0", "project list"] {
            let output = on(&folder, command);
            assert_refused(&output, 1, part);
            assert_refused(&output, 1, "--accept-loss");
        }
        let (code, found) = doctor(&folder, "--no-check", &[]);
        assert_eq!(code, Some(1), "{found:#}");
        check(&found, checked, "bad", part);
    };
    fs::write(at("tidemark.db"), &database).unwrap();
    refused("Commits are missing", "commits");
    let told = [("TIDEMARK_ACCEPT_LOSS", "true")];
    process::start_with(&folder, &told).stop().unwrap();
    let listed = json_of(&on(&folder, "project list --json"));
    assert!(!listed.to_string().contains("another"), "{listed}");

    fs::remove_file(at("tidemark.db")).unwrap();
    refused("tidemark.db is missing or empty", "format");
    assert!(!at("tidemark.db").exists(), "none was begun");
    process::start_with(&folder, &told).stop().unwrap();
    process::start(&folder).stop().unwrap();
}

#[test]
fn signals_that_are_not_about_the_end_do_not_end_it() {
    let folder = Folder::new();
    let mut server = process::launch(&folder, &[], ServerLog::Piped);
    for name in ["HUP", "USR1", "USR2", "ALRM"] {
        server.signal(name).unwrap();
        server.log_line_with(&format!("SIG{name}"));
    }
    assert_eq!(server.status_as("default", server.key.as_deref()), 200);
    server.stop().unwrap();
}

/// Sends the head of a creation of a database, and waits until it is in work: its body of so many
/// bytes is asked for.
fn hold(server: &ChildServer, body_bytes: usize) -> TcpStream {
    let mut held = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    write!(
        held,
        "POST /v1/tablesdb HTTP/1.1\r\nHost: t\r\nX-Appwrite-Project: default\r\n\
         X-Appwrite-Key: {}\r\nContent-Type: application/json\r\n\
         Content-Length: {body_bytes}\r\nExpect: 100-continue\r\n\r\n",
        server.key.as_deref().unwrap()
    )
    .unwrap();
    held.read_exact(&mut [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()])
        .unwrap();
    held
}

/// What the address for metrics shows.
fn metrics(server: &ChildServer) -> String {
    let address = server.metrics.as_deref().unwrap();
    let address = address
        .trim_start_matches("http://")
        .trim_end_matches("/metrics");
    let mut stream = TcpStream::connect(address).unwrap();
    let head = "GET /metrics HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    std::io::read_to_string(stream).unwrap()
}

/// The writer can be broken from outside in debug builds alone.
#[cfg(debug_assertions)]
#[test]
fn a_fault_of_the_writer_ends_the_server_and_is_told_everywhere() {
    let folder = Folder::new();
    let env = [
        ("TIDEMARK_TEST_CLOCK", "true"),
        ("TIDEMARK_METRICS_LISTEN", "127.0.0.1:0"),
    ];
    let mut server = process::launch(&folder, &env, ServerLog::Piped);
    let body = r#"{"databaseId":"d","name":"D"}"#;
    let mut held = hold(&server, body.len());
    let mut broken = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    write!(
        broken,
        "POST /v1/tablesdb HTTP/1.1\r\nHost: t\r\nX-Appwrite-Project: default\r\n\
         X-Appwrite-Key: {}\r\nX-Tidemark-Clock: break-writer\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        server.key.as_deref().unwrap(),
        body.len()
    )
    .unwrap();
    let answer = std::io::read_to_string(broken).unwrap();
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    assert!(answer.contains("write_outcome_unknown"), "{answer}");
    server.log_line_with("a test breaks the writer");
    server.log_line_with("nothing is written any more");
    let shown = metrics(&server);
    for line in [
        "tidemark_writer_stopped 1\n",
        "tidemark_writer_panics_total 1\n",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
    held.write_all(body.as_bytes()).unwrap();
    let answer = std::io::read_to_string(held).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert_eq!(server.child.wait().unwrap().code(), Some(1));
    let told = text(&on(&folder, "doctor").stdout);
    assert!(told.contains("The writer broke down"), "{told}");
    process::start_with(&folder, &env).stop().unwrap();
    let told = text(&on(&folder, "doctor").stdout);
    assert!(!told.contains("The writer broke down"), "{told}");
}

#[test]
fn a_request_that_does_not_end_is_cut_off_in_time_to_close_in_order() {
    let folder = Folder::new();
    let env = [("TIDEMARK_DRAIN_LIMIT_MS", "2000")];
    let mut server = process::launch(&folder, &env, ServerLog::Piped);
    let held = hold(&server, 100);
    server.signal("TERM").unwrap();
    server.log_line_with("requests ran longer than stopping may take");
    server.log_line_with("stopped");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    drop(held);
}

/// Closing waits up to five seconds for a collector of traces that does not answer.
#[test]
fn requests_that_still_run_at_the_limit_are_cut_off() {
    let folder = Folder::new();
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", collector.local_addr().unwrap());
    let env = [
        ("TIDEMARK_OTLP_ENDPOINT", endpoint.as_str()),
        ("TIDEMARK_OTLP_ONE_OF", "1"),
        ("TIDEMARK_DRAIN_LIMIT_MS", "0"),
    ];
    let mut server = process::launch(&folder, &env, ServerLog::Piped);
    assert_eq!(server.status_as("default", server.key.as_deref()), 200);
    server.signal("TERM").unwrap();
    server.log_line_with("stopped at the limit");
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
    process::start(&folder)
        .stop()
        .expect("the files are in order");
}

const EACH_REQUEST: (&str, &str) = ("TIDEMARK_LOG_LEVEL", "info,access=debug");

#[test]
fn a_log_that_nobody_reads_holds_up_neither_requests_nor_the_end() {
    let folder = Folder::new();
    let mut server = process::launch(&folder, &[EACH_REQUEST], ServerLog::Piped);
    let key = server.key.clone();
    // A pipe holds 64 KiB, which are some 300 lines.
    for _ in 0..1_000 {
        assert_eq!(server.status_as("default", key.as_deref()), 200);
    }
    server.signal("TERM").unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn lines_that_cannot_be_written_are_counted_and_cost_no_request() {
    let folder = Folder::new();
    let env = [EACH_REQUEST, ("TIDEMARK_METRICS_LISTEN", "127.0.0.1:0")];
    let mut server = process::launch(&folder, &env, ServerLog::Piped);
    server.break_log();
    let key = server.key.clone();
    loop {
        assert_eq!(server.status_as("default", key.as_deref()), 200);
        let text = metrics(&server);
        let lost = text
            .lines()
            .find(|line| line.starts_with("tidemark_log_lines_lost_total"));
        if !lost.expect("it is counted").ends_with(" 0") {
            break;
        }
    }
    server.stop().unwrap();
}

#[test]
fn quotas_that_are_near_show_in_the_doctor_and_in_the_list_of_projects() {
    let folder = Folder::new();
    json_of(&on(&folder, "project create default --json"));
    let (_, found) = doctor(&folder, "--no-check", &[]);
    check(&found, "quotas", "ok", "Neither bytes nor rows are bounded");
    let bounded = [
        ("TIDEMARK_DATA_MAX", "4KiB"),
        ("TIDEMARK_PROJECT_ROWS", "10"),
        ("TIDEMARK_PROJECT_BYTES", "1KiB"),
    ];
    let (code, found) = doctor(&folder, "--no-check", &bounded);
    assert_eq!(code, Some(0), "{found:#}");
    check(&found, "quotas", "warning", "of 4096 bytes are stored");
    check(
        &found,
        "quotas",
        "warning",
        "No project has 80 % of its 10 rows",
    );
    check(
        &found,
        "quotas",
        "warning",
        "No project has 80 % of its 1024 bytes",
    );
    let listed = json_of(&on(&folder, "project list --json"));
    assert_eq!(
        listed[0]["rowsMax"],
        Value::Null,
        "without a server nothing is bounded"
    );
    assert_eq!(listed[0]["bytes"], 0, "they are counted all the same");
    let quotas = "project-rows = 10\nproject-bytes = \"1MiB\"\n";
    fs::write(folder.data().join("tidemark.toml"), quotas).unwrap();
    let _server = process::start(&folder);
    let listed = json_of(&on(&folder, "project list --json"));
    assert_eq!(
        (&listed[0]["rows"], &listed[0]["rowsMax"]),
        (&json!(0), &json!(10))
    );
    assert_eq!(
        (&listed[0]["bytes"], &listed[0]["bytesMax"]),
        (&json!(0), &json!(1 << 20))
    );
    let table = on(&folder, "project list");
    let table = text(&table.stdout);
    assert!(
        table.contains("0 of 10 ") && table.contains("0 of 1048576"),
        "{table}"
    );
}
