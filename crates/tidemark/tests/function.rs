//! `tidemark function`: from a new folder to deployments, variables and the end of a function.

mod process;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use process::{Folder, assert_refused, json_of, text, tidemark};
use serde_json::{Value, json};
use testing::ChildServer;

/// Runs `tidemark function` with these words in the folder `hello`, on the server's directory.
fn function(folder: &Folder, words: &[&str]) -> Output {
    command(folder, words).output().unwrap()
}

fn command(folder: &Folder, words: &[&str]) -> std::process::Command {
    let mut command = tidemark("function");
    command.args(words).arg("--data").arg(folder.data());
    command.current_dir(folder.join("hello"));
    command
}

#[track_caller]
fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A server, and a new function in the folder `hello`.
fn hello(folder: &Folder) -> ChildServer {
    init(folder, "hello --runtime node-20.0");
    process::start(folder)
}

#[track_caller]
fn init(folder: &Folder, words: &str) -> String {
    let mut command = tidemark(&format!("function init {words}"));
    done(&command.current_dir(folder.join(".")).output().unwrap())
}

fn alter(path: &Path, from: &str, to: &str) {
    let before = fs::read_to_string(path).unwrap();
    assert!(before.contains(from), "{before}");
    fs::write(path, before.replace(from, to)).unwrap();
}

#[test]
fn init_writes_files_and_overwrites_none() {
    let folder = Folder::new();
    let said = init(&folder, "hello --runtime python-3.11");
    assert!(
        said.contains("function.toml, main.py, .gitignore"),
        "{said}"
    );
    let refused = |words: &str, part: &str| {
        let mut command = tidemark(&format!("function init {words}"));
        let output = command.current_dir(folder.join(".")).output().unwrap();
        assert_refused(&output, 1, part);
    };
    refused(
        "hello --runtime node-22",
        "hello/function.toml is there already, and nothing was written",
    );
    assert!(!folder.join("hello/index.mjs").exists());
    refused("other --runtime ruby-3.3", "the runtimes are node-14.5,");
    refused("_other --runtime node-22", "cannot be called `_other`");
    assert!(!folder.join("other").exists());
    init(&folder, "other --folder hello/deep/er --runtime node-22");
    let written = fs::read_to_string(folder.join("hello/deep/er/function.toml")).unwrap();
    assert!(written.contains("id = \"other\"") && written.contains("\"index.mjs\""));
}

#[test]
fn deploy_makes_the_function_and_changes_what_differs() {
    let folder = Folder::new();
    let server = hello(&folder);
    let output = function(&folder, &["deploy", "--no-wait"]);
    assert!(done(&output).contains("of `hello`"));
    let errors = text(&output.stderr);
    assert!(errors.contains("Packed 4 files"), "{errors}");
    assert!(
        errors.contains("Created function `hello` for node-20.0."),
        "{errors}"
    );
    let made = server.call("GET", "/functions/hello", &Value::Null);
    assert_eq!(made["entrypoint"], "index.mjs");
    assert_eq!(made["timeout"], 15);

    // What the file does not name stays.
    server.call(
        "PUT",
        "/functions/hello",
        &json!({"deploymentRetention": 3, "timeout": 10}),
    );
    let file = folder.join("hello/function.toml");
    alter(&file, "execute = []", "execute = [\"users\", \"any\"]");
    let output = function(&folder, &["deploy", "--no-wait", "--no-activate"]);
    done(&output);
    let errors = text(&output.stderr);
    let changed = "Changed function `hello`:\n  ~ execute: [] -> [\"users\",\"any\"]\n  \
                   ~ timeout: 10 -> 15\n";
    assert!(errors.contains(changed), "{errors}");
    let output = function(&folder, &["deploy", "--no-wait"]);
    done(&output);
    assert!(
        !text(&output.stderr).contains("Changed"),
        "{}",
        text(&output.stderr)
    );
    let made = server.call("GET", "/functions/hello", &Value::Null);
    assert_eq!(made["deploymentRetention"], 3);
    let deployments = server.call("GET", "/functions/hello/deployments", &Value::Null);
    assert_eq!(deployments["total"], 3);
    let activated = deployments["deployments"].as_array().unwrap().iter();
    assert_eq!(activated.filter(|one| one["activate"] == true).count(), 2);
}

#[test]
fn deploy_of_a_folder_that_cannot_be_sent_changes_nothing() {
    let folder = Folder::new();
    let server = hello(&folder);
    let refused = |part: &str| {
        let output = function(&folder, &["deploy", "--no-wait"]);
        assert_refused(&output, 1, part);
    };
    let file = folder.join("hello/function.toml");
    alter(&file, "timeout = 15", "timeot = 15");
    refused("unknown field `timeot`");
    alter(&file, "timeot = 15", "timeout = 15");
    alter(&file, "\"index.mjs\"", "\"main.mjs\"");
    refused("`entrypoint` names `main.mjs`, and the folder has no such file");
    alter(&file, "\"main.mjs\"", "\"index.mjs\"");
    let left_out = folder.join("hello/.gitignore");
    let before = fs::read_to_string(&left_out).unwrap();
    fs::write(&left_out, "*.mjs\n").unwrap();
    refused("the entrypoint `index.mjs` is left out by .gitignore");
    fs::write(&left_out, before).unwrap();
    let link = folder.join("hello/out");
    std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
    refused("`out` is a link to /etc/passwd, which leads out of the folder");
    fs::remove_file(&link).unwrap();
    alter(&file, "runtime = \"node-20.0\"", "runtime = \"node-1\"");
    refused("creating function `hello`: the server refused:");
    let all = server.call("GET", "/functions", &Value::Null);
    assert_eq!(all["total"], 0);
    let elsewhere = function(&folder, &["deploy", "..", "--no-wait"]);
    assert_refused(
        &elsewhere,
        1,
        "`tidemark function init NAME` makes a folder",
    );
}

#[test]
fn deploy_says_when_the_server_lacks_the_runtime() {
    let folder = Folder::new();
    init(&folder, "hello --runtime node-14.5");
    let server = process::start(&folder);
    let part = "is sent and cannot be built: the server has no runtime `node-14.5`, it has";
    assert_refused(&function(&folder, &["deploy"]), 1, part);
    let deployments = server.call("GET", "/functions/hello/deployments", &Value::Null);
    assert_eq!(deployments["total"], 1);
}

#[test]
fn deploy_sends_a_large_archive_in_parts() {
    let folder = Folder::new();
    let server = hello(&folder);
    let noise: Vec<u8> = (0..12_000_000_u64 / 8)
        .flat_map(|nth| {
            nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
                .to_le_bytes()
        })
        .collect();
    fs::write(folder.join("hello/noise"), noise).unwrap();
    done(&function(&folder, &["deploy", "--no-wait"]));
    let deployments = server.call("GET", "/functions/hello/deployments", &Value::Null);
    let sent = &deployments["deployments"][0];
    assert!(
        sent["sourceSize"].as_u64().unwrap() > 2 * 5_242_880,
        "{sent}"
    );
    assert_eq!(sent["chunksTotal"], sent["chunksUploaded"], "{sent}");
    let noise = vec![7; 251_000_000];
    fs::write(folder.join("hello/noise"), noise).unwrap();
    let output = function(&folder, &["deploy", "--no-wait"]);
    let part = "250000000 bytes before compression); its largest files are noise (251000 KB)";
    assert_refused(&output, 1, part);
}

#[test]
fn variables_are_set_listed_and_deleted() {
    let folder = Folder::new();
    let server = hello(&folder);
    let variable = |words: &[&str]| function(&folder, &[&["variable"], words].concat());
    assert_refused(
        &variable(&["list"]),
        1,
        "the project has no function `hello`",
    );
    done(&function(&folder, &["deploy", "--no-wait"]));
    fs::write(
        folder.join("hello/.env"),
        "# secrets\nTOKEN='t0ken'\nLEVEL=1\n",
    )
    .unwrap();
    let said = done(&variable(&["set", "--from-file", ".env", "--secret"]));
    assert_eq!(said, "Created secret `TOKEN`.\nCreated secret `LEVEL`.\n");
    let said = done(&variable(&["set", "REGION=eu=1", "LEVEL=2"]));
    assert_eq!(said, "Created `REGION`.\nChanged secret `LEVEL`.\n");
    let mut child = command(&folder, &["variable", "set", "PIPED", "--secret"]);
    child.stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = child.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"from a pipe\n")
        .unwrap();
    assert!(child.wait().unwrap().success());
    let listed = done(&variable(&["list"]));
    let wanted = "NAME    VALUE\nTOKEN   (secret)\nLEVEL   (secret)\nREGION  eu=1\n\
                  PIPED   (secret)\n";
    assert_eq!(listed, wanted);
    let listed = json_of(&variable(&["list", "--json"]));
    assert!(!listed.to_string().contains("t0ken"), "{listed}");

    assert_refused(&variable(&["set", "1A=2"]), 1, "`1A` cannot be the name");
    assert_refused(&variable(&["set", "A", "B"]), 1, "one variable only");
    let long = format!("A={}", "x".repeat(8_193));
    assert_refused(
        &variable(&["set", &long]),
        1,
        "has 8193 characters; the most are 8192",
    );
    assert_refused(&variable(&["set"]), 2, "NAME=VALUE");
    let refusal = "nothing was deleted; --yes deletes variable `REGION` without asking";
    assert_refused(&variable(&["delete", "REGION"]), 1, refusal);
    assert_refused(
        &variable(&["delete", "NONE", "--yes"]),
        1,
        "it has 4 variables",
    );
    done(&variable(&["delete", "REGION", "--yes"]));
    let left = server.call("GET", "/functions/hello/variables", &Value::Null);
    assert_eq!(left["total"], 3);
}

#[test]
fn function_is_listed_and_deleted_when_that_is_meant() {
    let folder = Folder::new();
    let server = hello(&folder);
    let output = function(&folder, &["list"]);
    assert_eq!(done(&output), "");
    assert!(text(&output.stderr).contains("`tidemark function init NAME`"));
    done(&function(
        &folder,
        &["deploy", "--no-wait", "--no-activate"],
    ));
    for nth in 0..101 {
        let body = json!({"functionId": format!("f{nth:03}"), "name": "F\u{1b}[2J",
            "runtime": "node-22", "enabled": false, "schedule": "0 3 * * *"});
        server.call("POST", "/functions", &body);
    }
    let listed = done(&function(&folder, &["list"]));
    assert_eq!(listed.lines().count(), 103, "{listed}");
    let line = listed
        .lines()
        .find(|line| line.starts_with("f100 "))
        .unwrap();
    assert!(line.contains("0 3 * * *  F\\u{1b}[2J (disabled)"), "{line}");
    let listed = json_of(&function(&folder, &["list", "--json"]));
    assert_eq!(listed.as_array().unwrap().len(), 102);

    assert_refused(
        &function(&folder, &["delete", "none", "--yes"]),
        1,
        "no function `none`",
    );
    let refusal = "nothing was deleted; --yes deletes function `hello` without asking";
    assert_refused(&function(&folder, &["delete", "hello"]), 1, refusal);
    done(&function(&folder, &["delete", "hello", "--yes"]));
    let again = function(&folder, &["run", "hello"]);
    assert_refused(&again, 1, "the project has no function `hello`");
    let elsewhere = tidemark("function logs").current_dir("/").output().unwrap();
    assert_refused(
        &elsewhere,
        1,
        "no function is named, and this folder has no function.toml",
    );
}
