//! The built binary as an operator meets it: files, exit codes, words on the terminal.

mod process;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use process::{Folder, assert_refused, json_of, on, text, tidemark};
use serde_json::{Value, json};
use testing::{ChildServer, ServerLog, send_signal};

#[test]
fn every_command_explains_itself_with_an_example() {
    for command in [
        "--help",
        "serve --help",
        "project create --help",
        "project list --help",
        "project delete --help",
        "key create --help",
        "key list --help",
        "key revoke --help",
        "export --help",
        "import --help",
        "history --help",
        "erase --help",
        "doctor --help",
        "seed catalog --help",
        "bench ttl --help",
        "bench load --help",
        "bench compare --help",
        "bench gallery --help",
        "bench floor --help",
    ] {
        let output = tidemark(command).output().unwrap();
        let help = text(&output.stdout);
        assert!(output.status.success(), "{command:?}");
        assert!(help.contains("Usage: tidemark"), "{command:?}: {help}");
        let example = help.contains("\nExample") || help.contains("\nA first session:");
        assert!(example, "{command:?}: {help}");
    }
    let version = tidemark("--version").output().unwrap();
    assert_eq!(
        text(&version.stdout),
        concat!("tidemark ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn licenses_are_printed_with_those_of_the_libraries() {
    let output = tidemark("licenses").output().unwrap();
    assert!(output.status.success());
    let printed = text(&output.stdout);
    for expected in [
        "Copyright (c) The Tidemark developers",
        "Apache License",
        "hyper ",
        "mimalloc (C library): MIT",
        "uPlot",
    ] {
        assert!(printed.contains(expected), "{expected} is missing");
    }
}

#[test]
fn help_never_shows_the_secret_that_the_environment_holds() {
    let mut command = tidemark("serve --help");
    let output = command
        .env("TIDEMARK_API_KEY", "a-secret-to-keep-quiet")
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(!text(&output.stdout).contains("a-secret-to-keep-quiet"));
}

#[test]
fn exit_code_is_2_for_bad_arguments_and_1_for_failures() {
    assert_refused(&tidemark("serve --bogus").output().unwrap(), 2, "--bogus");
    let folder = Folder::new();
    let output = on(&folder, "serve --listen 8280");
    assert_refused(&output, 2, "such as 127.0.0.1:8280");
    let output = on(&folder, "serve --api-key short");
    assert_refused(&output, 1, "error: TIDEMARK_API_KEY cannot be used");
    let output = on(&folder, "key list");
    assert_refused(&output, 1, "there is no data directory");
    let output = tidemark("seed catalog").output().unwrap();
    assert_refused(&output, 1, "no API key is given");
    assert_eq!(text(&output.stderr).lines().count(), 1, "one plain line");
}

#[test]
fn the_first_start_shows_project_and_key_once_and_they_open_the_door() {
    let folder = Folder::new();
    let first = process::start(&folder);
    let key = first.key.clone().expect("the first start shows a key");
    assert_eq!(first.projects, ["default"]);
    assert!(
        key.starts_with("standard_") && key.len() == 9 + 256,
        "{key}"
    );
    assert_eq!(first.status_as("default", Some(&key)), 200);
    assert_eq!(first.status_as("default", None), 401);
    first.stop().unwrap();

    let later = process::start(&folder);
    assert_eq!(
        (later.projects.as_slice(), &later.key),
        (&["default".to_owned()][..], &None)
    );
    assert_eq!(later.status_as("default", Some(&key)), 200);
    let stored = fs::read_dir(folder.data()).unwrap();
    for file in stored
        .map(|file| file.unwrap().path())
        .filter(|path| path.is_file())
    {
        let bytes = fs::read(&file).unwrap();
        let holds = bytes
            .windows(key.len())
            .any(|window| window == key.as_bytes());
        assert!(!holds, "{} holds the secret", file.display());
    }
}

#[test]
fn the_bootstrap_file_says_how_to_connect_to_its_owner_only() {
    let folder = Folder::new();
    let path = folder.bootstrap();
    let file = [("TIDEMARK_BOOTSTRAP_FILE", path.to_str().unwrap())];
    let first = process::start_with(&folder, &file);
    // The banner comes first, the file after it: the next accepted request proves both.
    let key = first.key.clone().unwrap();
    assert_eq!(first.status_as("default", Some(&key)), 200);
    let written = folder.read_bootstrap();
    let wanted = json!({ "endpoint": first.endpoint, "projectId": "default", "apiKey": key });
    assert_eq!(written, wanted);
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    first.stop().unwrap();

    let again = process::start_with(&folder, &file);
    assert_eq!(again.status_as("default", Some(&key)), 200);
    assert_eq!(
        folder.read_bootstrap()["apiKey"],
        json!(key),
        "a file that opens is kept"
    );
    assert_eq!(folder.read_bootstrap()["endpoint"], json!(again.endpoint));
    again.stop().unwrap();
}

#[test]
fn a_lost_bootstrap_file_gets_a_new_key_and_the_former_of_that_file_is_revoked() {
    let folder = Folder::new();
    process::start(&folder).stop().unwrap();
    let path = folder.bootstrap();
    let file = [("TIDEMARK_BOOTSTRAP_FILE", path.to_str().unwrap())];
    let mut keys: Vec<String> = Vec::new();
    for _ in 0..2 {
        let server = process::start_with(&folder, &file);
        assert_eq!(server.status_as("default", None), 401);
        let key = folder.read_bootstrap()["apiKey"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(server.status_as("default", Some(&key)), 200);
        for former in &keys {
            assert_eq!(server.status_as("default", Some(former)), 401);
        }
        keys.push(key);
        server.stop().unwrap();
        fs::remove_file(&path).unwrap();
    }
    let listed = json_of(&on(&folder, "key list --json"));
    let names: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["First start", "bootstrap"]);
}

#[test]
fn the_environments_project_and_key_are_the_same_on_every_start() {
    let folder = Folder::new();
    let key = "a-secret-of-our-own";
    let env = [("TIDEMARK_PROJECT_ID", "shop"), ("TIDEMARK_API_KEY", key)];
    for _ in 0..2 {
        let server = process::start_with(&folder, &env);
        assert_eq!(
            (server.projects.as_slice(), &server.key),
            (&["shop".to_owned()][..], &None)
        );
        assert_eq!(server.status_as("shop", Some(key)), 200);
        server.stop().unwrap();
    }
    let keys = json_of(&on(&folder, "key list --project shop --json"));
    assert_eq!(keys.as_array().unwrap().len(), 1);

    let env = [
        ("TIDEMARK_PROJECT_ID", "shop"),
        ("TIDEMARK_API_KEY", "another-secret-of-ours"),
    ];
    let server = process::start_with(&folder, &env);
    assert_eq!(
        server.status_as("shop", Some(key)),
        401,
        "the former is revoked"
    );
    assert_eq!(
        server.status_as("shop", Some("another-secret-of-ours")),
        200
    );
}

#[test]
fn a_secret_opens_one_project_only() {
    let folder = Folder::new();
    let env = [
        ("TIDEMARK_PROJECT_ID", "shop"),
        ("TIDEMARK_API_KEY", "a-secret-of-our-own"),
    ];
    process::start_with(&folder, &env).stop().unwrap();
    let mut command = tidemark("serve --listen 127.0.0.1:0 --project-id other --data");
    command
        .env("TIDEMARK_API_KEY", "a-secret-of-our-own")
        .arg(folder.data());
    assert_refused(
        &command.output().unwrap(),
        1,
        "TIDEMARK_API_KEY opens another project already",
    );
}

#[test]
fn requests_are_logged_when_the_level_says_so() {
    let folder = Folder::new();
    let env = [("TIDEMARK_LOG_LEVEL", "info,access=debug")];
    let mut server = process::launch(&folder, &env, ServerLog::Piped);
    assert_eq!(server.status_as("default", None), 401);
    server.log_line_with("/v1/tablesdb");
}

/// The whole life of projects and keys; the same offline and through a running server.
fn administer(folder: &Folder) {
    let made = json_of(&on(folder, "project create shop --name Shop --json"));
    assert_eq!(
        (&made["id"], &made["name"]),
        (&json!("shop"), &json!("Shop"))
    );
    assert_refused(&on(folder, "project create shop"), 1, "already exists");
    assert_refused(&on(folder, "project create _x"), 1, "the project id `_x`");
    assert_refused(&on(folder, "project create console"), 1, "reserved");

    let create = "key create --project shop --name ci --scopes rows.read,documents.write --json";
    let key = json_of(&on(folder, &format!("{create} --expire 2999-01-01")));
    assert_eq!(key["scopes"], json!(["rows.read", "rows.write"]));
    assert_eq!(key["expire"], json!("2999-01-01T00:00:00.000+00:00"));
    assert!(key["secret"].as_str().unwrap().starts_with("standard_"));
    let refused = on(folder, "key create --project shop --scopes rows");
    assert_refused(&refused, 1, "No scope `rows`. There are: databases.read");
    let refused = on(folder, "key create --project none");
    assert_refused(&refused, 1, "No project `none`");

    let keys = json_of(&on(folder, "key list --project shop --json"));
    let mut shown = key.clone();
    shown.as_object_mut().unwrap().remove("secret");
    assert_eq!(keys, json!([shown]), "listed without its secret");
    let id = key["id"].as_str().unwrap();
    assert!(
        on(folder, &format!("key revoke {id} --project shop"))
            .status
            .success()
    );
    assert_refused(
        &on(folder, &format!("key revoke {id} --project shop")),
        1,
        "No key",
    );

    let table = text(&on(folder, "project list").stdout);
    assert!(table.starts_with("ID "), "{table}");
    assert!(
        table.lines().any(|line| line.starts_with("shop ")),
        "{table}"
    );
    assert!(on(folder, "project delete shop").status.success());
    assert_refused(&on(folder, "project delete shop"), 1, "No project `shop`");
}

#[test]
fn projects_and_keys_are_administered_in_the_directory_itself() {
    administer(&Folder::new());
}

#[test]
fn projects_and_keys_are_administered_through_the_running_server() {
    let folder = Folder::new();
    let server = process::start(&folder);
    let socket = folder.data().join("admin.sock");
    assert_eq!(
        fs::metadata(&socket).unwrap().permissions().mode() & 0o777,
        0o600
    );
    administer(&folder);
    server.stop().unwrap();
    assert!(!socket.exists(), "an orderly end leaves no socket");
    assert!(!folder.data().join("admin.token").exists());
}

#[test]
fn a_key_made_while_the_server_runs_opens_at_once_and_a_revoked_one_fails_at_once() {
    let folder = Folder::new();
    let server = process::start(&folder);
    let key = json_of(&on(&folder, "key create --json"));
    let (id, secret) = (key["id"].as_str().unwrap(), key["secret"].as_str().unwrap());
    assert_eq!(server.status_as("default", Some(secret)), 200);
    assert!(on(&folder, &format!("key revoke {id}")).status.success());
    assert_eq!(server.status_as("default", Some(secret)), 401);
}

#[test]
fn a_second_server_on_the_same_directory_is_refused() {
    let folder = Folder::new();
    let server = process::start(&folder);
    let second = on(&folder, "serve --listen 127.0.0.1:0");
    assert_refused(&second, 1, "Another process holds the data directory");
    let key = server.key.clone();
    assert_eq!(
        server.status_as("default", key.as_deref()),
        200,
        "the first is not disturbed"
    );
    assert!(
        on(&folder, "project list").status.success(),
        "nor its socket"
    );
}

#[test]
fn a_taken_port_is_named_and_no_key_is_made_unseen() {
    let folder = Folder::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = on(&folder, &format!("serve --listen {address}"));
    assert_refused(&output, 1, &format!("cannot listen on {address}"));
    assert_refused(&output, 1, "choose another port with --listen");
    drop(taken);
    assert!(
        process::start(&folder).key.is_some(),
        "the next start is still the first"
    );
}

#[test]
fn a_directory_that_cannot_be_one_is_named() {
    let folder = Folder::new();
    fs::write(folder.data(), "a file").unwrap();
    let output = on(&folder, "serve --listen 127.0.0.1:0");
    assert_refused(&output, 1, "cannot open the data directory");
}

#[test]
fn acknowledged_writes_outlive_an_orderly_end_and_a_sudden_one() {
    let folder = Folder::new();
    let server = process::start(&folder);
    assert!(on(&folder, "project create before-term").status.success());
    server.stop().unwrap();

    let mut server = process::start(&folder);
    assert!(on(&folder, "project create before-kill").status.success());
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    assert!(
        folder.data().join("admin.sock").exists(),
        "left behind, and no obstacle"
    );
    let listed = json_of(&on(&folder, "project list --json"));
    let ids: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|project| project["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["default", "before-term", "before-kill"]);
    process::start(&folder).stop().unwrap();
}

#[test]
fn an_interrupt_ends_it_in_order_too() {
    let folder = Folder::new();
    let mut server = process::start(&folder);
    server.signal("INT").unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn trades_and_dangers_are_said_at_start() {
    let folder = Folder::new();
    let mut command = tidemark("serve --listen 0.0.0.0:0 --durability normal");
    command
        .args(["--log-format", "json", "--data"])
        .arg(folder.data());
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut banner = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.starts_with("  endpoint") {
        line.clear();
        assert!(
            banner.read_line(&mut line).unwrap() > 0,
            "the server ended early"
        );
    }
    assert!(
        line.contains("http://127.0.0.1:"),
        "an address that clients can use: {line}"
    );
    send_signal(child.id(), "TERM").unwrap();
    let output = child.wait_with_output().unwrap();
    let log = text(&output.stderr);
    let warnings: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).expect("every line is JSON"))
        .filter(|line: &Value| line["level"] == "WARN")
        .collect();
    let said = |part: &str| {
        warnings
            .iter()
            .any(|line| line["message"].as_str().unwrap().contains(part))
    };
    assert!(said("a power cut may take the last milliseconds"), "{log}");
    assert!(said("without TLS"), "{log}");
}

/// A server with a request in work: its head is taken, its body is awaited.
fn with_a_request_in_work(folder: &Folder) -> (ChildServer, TcpStream, &'static str) {
    let env = [("TIDEMARK_API_KEY", "a-secret-of-our-own")];
    let server = process::launch(folder, &env, ServerLog::Piped);
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    let body = r#"{"databaseId":"late","name":"Late"}"#;
    write!(
        stream,
        "POST /v1/tablesdb HTTP/1.1\r\nHost: t\r\nX-Appwrite-Project: default\r\n\
         X-Appwrite-Key: a-secret-of-our-own\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    )
    .unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    (server, stream, body)
}

#[test]
fn a_request_in_work_is_finished_before_the_end() {
    let folder = Folder::new();
    let (mut server, mut stream, body) = with_a_request_in_work(&folder);
    server.signal("TERM").unwrap();
    server.log_line_with("stopping");
    stream.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let listed = json_of(&on(&folder, "project list --json"));
    assert_eq!(
        listed[0]["databases"],
        json!(1),
        "what was acknowledged is kept"
    );
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = Folder::new();
    let (mut server, _stream, _) = with_a_request_in_work(&folder);
    server.signal("TERM").unwrap();
    server.log_line_with("stopping");
    server.signal("INT").unwrap();
    assert_eq!(server.child.wait().unwrap().code(), Some(130));
}
