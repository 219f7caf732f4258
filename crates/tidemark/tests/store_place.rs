//! Commands on a store in PostgreSQL, with its server and without one; and moving a store there.

mod process;

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use process::{assert_refused, json_of, text, tidemark};
use serde_json::{Value, json};
use testing::{ChildServer, Credentials, RawClient, ServerLog};
use testing_postgres::{Cluster, ClusterSettings, Programs};

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
        let url = cluster.url(database);
        Place {
            url: url.replacen("//tidemark@", &format!("//tidemark:{PASSWORD}@"), 1),
            cluster,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// On this directory, with the database by the variable.
    fn on(&self, directory: &str, words: &str) -> Command {
        let mut command = tidemark(words);
        command.arg("--data").arg(self.path(directory));
        command.env("TIDEMARK_DATABASE", &self.url);
        command
    }

    /// Lets the directory `d` say where its store is.
    fn write_file(&self) {
        fs::create_dir(self.path("d")).unwrap();
        let file = self.path("d/tidemark.toml");
        fs::write(&file, format!("database = \"{}\"\n", self.url)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// On that directory.
    fn by_file(&self, words: &str) -> Command {
        let mut command = tidemark(words);
        command.arg("--data").arg(self.path("d"));
        command
    }

    fn serve(&self, directory: &str) -> ChildServer {
        let serve = self.on(directory, "serve --listen 127.0.0.1:0");
        ChildServer::start(serve, ServerLog::Discarded).unwrap()
    }
}

/// `tidemark move`.
fn move_store(from: &str, to: &str) -> Output {
    let output = tidemark("move")
        .args(["--from", from, "--to", to])
        .output()
        .unwrap();
    let said = text(&output.stderr) + &text(&output.stdout);
    assert!(!said.contains(PASSWORD), "{said}");
    output
}

fn run(mut command: Command) -> Output {
    let output = command.output().unwrap();
    let said = text(&output.stderr) + &text(&output.stdout);
    assert!(!said.contains(PASSWORD), "{said}");
    output
}

fn word(path: &Path) -> &str {
    path.to_str().unwrap()
}

const ROWS: &str = "/tablesdb/shop/tables/items/rows";

/// Makes a table of two rows, of which one was changed and is linked to nothing.
fn furnish(server: &ChildServer) {
    let call = |method: &str, route: &str, body: Value| server.call(method, route, &body);
    call(
        "POST",
        "/tablesdb",
        json!({"databaseId": "shop", "name": "Shop"}),
    );
    let tables = "/tablesdb/shop/tables";
    call("POST", tables, json!({"tableId": "items", "name": "Items"}));
    let column = json!({"key": "n", "required": false});
    call("POST", &format!("{tables}/items/columns/integer"), column);
    for (id, n) in [("a", 1), ("b", 2)] {
        call("POST", ROWS, json!({"rowId": id, "data": {"n": n}}));
    }
    call("PATCH", &format!("{ROWS}/a"), json!({"data": {"n": 10}}));
}

/// What is read of the rows, now and of the past, from the server on this directory, and the
/// `ETag` of the list.
fn read(server: &ChildServer, directory: &Path) -> Value {
    let mut client = RawClient::new(server.port(), "default", server.key.as_deref().unwrap());
    let answer = client.ask(Credentials::Key, "GET", &format!("/v1{ROWS}"), b"");
    let mut list = answer.json();
    let is_tag = |line: &&str| line.to_ascii_lowercase().starts_with("etag:");
    let tag = answer.head.lines().find(is_tag);
    list["tag"] = json!(tag.expect("a list has an ETag"));
    let mut history = tidemark("history shop items a --json");
    history.arg("--data").arg(directory);
    list["history"] = json_of(&run(history))["versions"].take();
    list
}

#[test]
fn commands_open_the_store_in_a_database_where_no_server_runs() {
    let place = Place::new("commands");
    // A URL that was mistyped makes nothing.
    let refused = run(place.on("d", "project list"));
    assert_refused(&refused, 1, "there is no store in the database commands");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'tidemark'";
    assert_eq!(
        place.cluster.run_sql("commands", &[schemas]).unwrap(),
        "0\n"
    );
    let created = run(place.on("d", "project create default --json"));
    assert_eq!(json_of(&created)["id"], "default");
    let key = run(place.on("d", "key create --name ci --json"));
    let secret = json_of(&key)["secret"].as_str().unwrap().to_owned();
    let listed = json_of(&run(place.on("d", "key list --json")));
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert!(!place.path("d").exists(), "nothing is kept beside it yet");
    // The key opens what a server has there, by the file of its directory.
    place.write_file();
    let by_file = |words: &str| place.by_file(words);
    let mut serve = by_file("serve --listen 127.0.0.1:0");
    serve.env("TIDEMARK_API_KEY", &secret);
    let mut server = ChildServer::start(serve, ServerLog::Discarded).unwrap();
    server.key = Some(secret);
    furnish(&server);
    // With the server: by its socket, whatever names the database.
    let projects = json_of(&run(by_file("project list --json")));
    assert_eq!(projects[0]["id"], "default", "{projects}");
    let seeded = run(by_file("seed catalog --rows 5"));
    assert!(seeded.status.success(), "{}", text(&seeded.stderr));
    let top = run(by_file("top --once --interval-ms 0"));
    assert!(top.status.success(), "{}", text(&top.stderr));
    // From elsewhere: the one who holds it is named.
    for words in [
        "key list",
        "export shop",
        "top --once",
        "seed catalog --rows 5",
    ] {
        assert_refused(&run(place.on("other", words)), 1, "connected from");
    }
    server.stop().unwrap();
    commands_alone(&place);
}

/// Without a server, on a database with two rows that the file of the directory names.
fn commands_alone(place: &Place) {
    let by_file = |words: &str| place.by_file(words);
    let exported = place.path("shop.jsonl");
    let export = by_file(&format!("export shop --output {}", word(&exported)));
    let export = run(export);
    assert!(export.status.success(), "{}", text(&export.stderr));
    assert!(
        text(&export.stderr).contains("2 rows"),
        "{}",
        text(&export.stderr)
    );
    let import = format!("import {} --database copy", word(&exported));
    let imported = run(by_file(&import));
    assert!(
        text(&imported.stdout).contains("Imported 2 rows"),
        "{}",
        text(&imported.stderr)
    );
    let history = run(by_file("history copy items a --json"));
    assert_eq!(json_of(&history)["versions"].as_array().unwrap().len(), 1);
    for words in ["top --once", "seed catalog --rows 5"] {
        assert_refused(
            &run(by_file(words)),
            1,
            "no server has the store in the database",
        );
    }
    let refused = run(by_file("import --history no.jsonl"));
    assert_refused(&refused, 1, "`tidemark move`");
    let history = format!("import --history no.jsonl --database {}", place.url);
    assert_refused(&run(by_file(&history)), 1, "`tidemark move`");
    let id = format!("import {} --database {}", word(&exported), place.url);
    assert_refused(&run(by_file(&id)), 1, "with --store");
}

#[test]
fn the_file_names_the_passwords_of_a_database_that_the_variable_names() {
    let place = Place::new("passwords");
    fs::create_dir(place.path("d")).unwrap();
    let absent = "password-file = \"/absent/passwords\"\n";
    fs::write(place.path("d/tidemark.toml"), absent).unwrap();
    let url = place.cluster.url("passwords");
    for words in ["project list", "export shop"] {
        let mut command = place.by_file(words);
        command.env("TIDEMARK_DATABASE", &url);
        assert_refused(&run(command), 1, "the password file /absent/passwords");
        let mut command = place.by_file(words);
        command.env("TIDEMARK_DATABASE", &url);
        command.env("TIDEMARK_PASSWORD_FILE", "/other/passwords");
        assert_refused(&run(command), 1, "the password file /other/passwords");
    }
}

#[test]
fn the_doctor_of_a_directory_looks_at_the_database_that_its_file_names() {
    let place = Place::new("doctor");
    place.write_file();
    let doctor = run(place.by_file("doctor --json"));
    let found: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let checks = found["findings"].as_array().unwrap();
    let has = |name: &str| checks.iter().any(|one| one["check"] == name);
    assert!(
        has("settings") && has("encoding") && has("open files"),
        "{found:#}"
    );
    assert!(!has("integrity"), "{found:#}");
}

#[test]
fn a_history_is_exported_from_a_database_as_from_the_directory_that_it_came_from() {
    let place = Place::new("exports");
    let directory = place.path("data");
    let mut serve = tidemark("serve --listen 127.0.0.1:0");
    serve.arg("--data").arg(&directory);
    let server = ChildServer::start(serve, ServerLog::Discarded).unwrap();
    furnish(&server);
    let sealed = json!({"tableId": "sealed", "name": "Sealed",
        "columns": [{"key": "secret", "type": "text", "encrypt": true}]});
    server.call("POST", "/tablesdb/shop/tables", &sealed);
    let row = json!({"rowId": "r", "data": {"secret": "quicksilver"}});
    server.call("POST", "/tablesdb/shop/tables/sealed/rows", &row);
    server.stop().unwrap();
    let export = |mut command: Command| {
        let file = place.path("history.jsonl");
        command.arg("--output").arg(&file);
        let exported = run(command);
        assert!(exported.status.success(), "{}", text(&exported.stderr));
        fs::read_to_string(&file).unwrap()
    };
    let mut alone = tidemark("export --history");
    alone.arg("--data").arg(&directory);
    let wanted = export(alone);
    assert!(wanted.contains("quicksilver"), "{wanted}");
    let none = run(place.on("data", "export --history"));
    assert_refused(&none, 1, "holds no store");
    let moved = move_store(word(&directory), &place.url);
    assert!(moved.status.success(), "{}", text(&moved.stderr));
    assert_eq!(export(place.on("data", "export --history")), wanted);
    // Beside a server, which reserves marks ahead: the second line says so, and the last one is the
    // hash of all.
    let server = place.serve("data");
    let beside = export(place.on("data", "export --history"));
    let parts = |text: &str| {
        let lines: Vec<String> = text.lines().skip(2).map(str::to_owned).collect();
        lines[..lines.len() - 1].to_vec()
    };
    assert_eq!(parts(&beside), parts(&wanted));
    server.stop().unwrap();
    assert!(!directory.join("export.unfinished").exists());
    fs::remove_file(directory.join("tidemark.key")).unwrap();
    let keyless = run(place.on("data", "export --history"));
    assert_refused(&keyless, 1, "tidemark.key is not there");
}

#[test]
fn bytes_of_erased_rows_are_cleared_away_by_a_command() {
    let place = Place::new("maintains");
    let none = run(place.on("data", "maintain"));
    assert_refused(&none, 1, "holds no store");
    let server = place.serve("data");
    furnish(&server);
    let said = |words: &str| {
        let done = run(place.on("data", words));
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stdout)
    };
    assert!(said("maintain").contains("Nothing to do"));
    said("erase shop items b --yes");
    // The server's own snapshots pass by themselves.
    let rewritten = (0..100).find_map(|_| {
        let done = run(place.on("data", "maintain"));
        if !done.status.success() {
            assert_refused(&done, 1, "run this again");
            return None;
        }
        Some(text(&done.stdout))
    });
    assert!(rewritten.unwrap().contains("WAL and backups"));
    assert!(said("maintain").contains("Nothing to do"));
    server.stop().unwrap();
    let mut in_file = tidemark("maintain");
    in_file.arg("--data").arg(place.path("other"));
    let nothing = run(in_file);
    assert!(text(&nothing.stdout).contains("by itself"), "{nothing:?}");
}

#[test]
fn a_store_is_moved_into_a_database_and_back() {
    let place = Place::new("moves");
    let (directory, other) = (place.path("data"), place.path("other"));
    let alone = |directory: &Path| {
        let mut serve = tidemark("serve --listen 127.0.0.1:0");
        serve.arg("--data").arg(directory);
        ChildServer::start(serve, ServerLog::Discarded).unwrap()
    };
    let server = alone(&directory);
    furnish(&server);
    let (key, before) = (server.key.clone(), read(&server, &directory));
    let refused = move_store(word(&directory), &place.url);
    assert_refused(&refused, 1, "is in use by");
    server.stop().unwrap();
    let moved = move_store(word(&directory), &place.url);
    assert!(moved.status.success(), "{}", text(&moved.stderr));
    let said = text(&moved.stdout);
    assert!(
        said.contains("and compared each") && said.contains("is sealed"),
        "{said}"
    );
    // The directory is sealed, and is what is kept beside the database.
    let mut serve = tidemark("serve --listen 127.0.0.1:0");
    serve.arg("--data").arg(&directory);
    assert_refused(&run(serve), 1, "is in the database moves");
    let mut server = place.serve("data");
    server.key.clone_from(&key);
    assert_eq!(read(&server, &directory), before);
    server.call("POST", ROWS, &json!({"rowId": "c", "data": {"n": 3}}));
    let changed = read(&server, &directory);
    let refused = move_store(&place.url, word(&other));
    assert_refused(&refused, 1, "connected from");
    server.stop().unwrap();
    let moved = move_store(&place.url, word(&other));
    assert!(moved.status.success(), "{}", text(&moved.stderr));
    let refused = run(place.on("data", "serve --listen 127.0.0.1:0"));
    assert_refused(&refused, 1, "was moved into a data directory");
    let mut server = alone(&other);
    server.key = key;
    assert_eq!(read(&server, &other), changed);
    server.stop().unwrap();
    assert!(other.join("served").exists());
    assert_refused(&move_store("a", "b"), 1, "both of these are directories");
}

/// The blocks of the guide that lead from nothing to the first row.
fn first_session() -> Vec<&'static str> {
    let page = include_str!("../../../docs/guides/postgresql.md");
    let section = page
        .split("\n## ")
        .find(|section| section.starts_with("From nothing"));
    let blocks = section.unwrap().split("```sh\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap())
        .collect()
}

/// A server of PostgreSQL as its package leaves it: the user `postgres` may do everything through
/// the socket, all others need their passwords. Its owner has another name than in other tests,
/// for the newcomer takes that one.
fn installed(port: u16) -> Cluster {
    let settings = ClusterSettings {
        syncs: true,
        port: Some(port),
        ..ClusterSettings::default()
    };
    let cluster = Cluster::start(&settings).unwrap();
    let rules = "local all all trust\nhost all all localhost scram-sha-256\n";
    fs::write(cluster.socket_folder().join("data/pg_hba.conf"), rules).unwrap();
    let make = [
        "CREATE ROLE postgres SUPERUSER LOGIN",
        "SELECT pg_reload_conf()",
    ];
    cluster.run_sql("postgres", &make).unwrap();
    let mut rename = Command::new(Programs::find().unwrap().path("psql"));
    rename.args(["--no-psqlrc", "--username", "postgres", "--host"]);
    rename.arg(cluster.socket_folder());
    rename.args(["--port", &port.to_string(), "--dbname", "postgres"]);
    rename.args(["--command", "ALTER ROLE tidemark RENAME TO installer"]);
    assert!(rename.stdout(Stdio::null()).status().unwrap().success());
    cluster
}

/// A shell in which the package is installed already, and `sudo` asks for nothing.
fn shell(folder: &Path, cluster: &Cluster, port: u16) -> Command {
    let programs = folder.join("bin");
    fs::create_dir(&programs).unwrap();
    let createuser = PathBuf::from(Programs::find().unwrap().path("createuser"));
    let sudo = format!(
        "#!/bin/sh\n[ \"$1 $2\" != 'apt-get install' ] || exit 0\n\
         [ \"$1 $2\" = '-u postgres' ] && shift 2\n\
         exec env PGHOST={} PGPORT={port} PGUSER=postgres PATH={}:$PATH \"$@\"\n",
        cluster.socket_folder().display(),
        createuser.parent().unwrap().display(),
    );
    fs::write(programs.join("sudo"), sudo).unwrap();
    fs::set_permissions(programs.join("sudo"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink(env!("CARGO_BIN_EXE_tidemark"), programs.join("tidemark")).unwrap();
    // Without a terminal, passwords come from the standard input.
    let mut shell = Command::new("setsid");
    shell.args(["--wait", "sh", "-euc"]).current_dir(folder);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display());
    shell.env_clear().env("PATH", path).env("HOME", folder);
    shell
}

#[test]
fn a_newcomer_comes_from_nothing_to_the_first_row() {
    let folder = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let cluster = installed(port);
    let blocks = first_session();
    let [there, first_row] = &blocks[..] else {
        panic!("{blocks:?}");
    };
    let there = there.replace("@localhost/", &format!("@localhost:{port}/"));
    let (before, last_line) = there.split_once("tidemark serve").unwrap();
    assert_eq!(last_line.lines().count(), 1, "{last_line}");
    let mut session = shell(folder.path(), &cluster, port);
    session.arg(before).stdin(Stdio::piped());
    session.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut session = session.spawn().unwrap();
    let mut typed = session.stdin.take().unwrap();
    typed.write_all(b"PASSWORD\nPASSWORD\n").unwrap();
    drop(typed);
    let output = session.wait_with_output().unwrap();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let url = before.split('\'').nth(1).unwrap();
    let mut serve = tidemark("serve");
    serve.env("TIDEMARK_LISTEN", "127.0.0.1:0");
    serve.env("TIDEMARK_DATABASE", url).current_dir(&folder);
    let server = ChildServer::start(serve, ServerLog::Discarded).unwrap();
    assert_eq!(server.projects, ["default"]);
    let address = format!("127.0.0.1:{}", server.port());
    let mut asks = Command::new("sh");
    asks.args(["-euc", &first_row.replace("127.0.0.1:8280", &address)]);
    let asked = asks
        .env("KEY", server.key.as_deref().unwrap())
        .output()
        .unwrap();
    let said = text(&asked.stdout) + &text(&asked.stderr);
    assert!(asked.status.success(), "{said}");
    let row: Value = serde_json::from_str(text(&asked.stdout).lines().last().unwrap()).unwrap();
    assert_eq!(
        (&row["$id"], &row["n"]),
        (&json!("first"), &json!(1)),
        "{said}"
    );
    server.stop().unwrap();
}
