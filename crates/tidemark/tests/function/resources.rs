//! `function variable`, `list`, `delete` and `logs`.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::process::{Folder, assert_refused, json_of, text, tidemark};
use super::{command, done, function, has_jail, hello, running};

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
    // Of a name that stands twice the last value counts.
    let said = done(&variable(&["set", "REGION=us", "REGION=eu=1", "LEVEL=2"]));
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
    // Other clients take other names; no terminal is to obey them.
    let odd = json!({"key": "\u{1b}[2J\n", "value": "1", "secret": false});
    server.call("POST", "/functions/hello/variables", &odd);
    let listed = done(&variable(&["list"]));
    assert!(listed.contains("\\u{1b}[2J\\n"), "{listed}");
    assert!(!listed.contains('\u{1b}'), "{listed:?}");
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

#[test]
fn logs_are_followed_as_runs_end() {
    if !has_jail() {
        return;
    }
    let folder = Folder::new();
    let _server = running(&folder, "node");
    done(&function(&folder, &["deploy"]));
    let run = |path: &str| function(&folder, &["run", "--path", path, "--body", "{}"]);
    done(&run("/before"));
    let mut follow = command(&folder, &["logs", "--follow"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let (said, lines) = channel();
    let stdout = BufReader::new(follow.stdout.take().unwrap());
    let reading = thread::spawn(move || {
        for line in stdout.lines().map_while(Result::ok) {
            let _ = said.send(line);
        }
    });
    let until = |part: &str| {
        // The machine may be busy.
        let next = || lines.recv_timeout(Duration::from_mins(1)).unwrap();
        while !next().contains(part) {}
    };
    until("  log | POST /before");
    done(&run("/after"));
    until("  log | POST /after");
    testing::send_signal(follow.id(), "INT").unwrap();
    assert!(follow.wait().unwrap().success());
    reading.join().unwrap();
    assert_eq!(lines.try_iter().count(), 0, "each run is shown once");
}
