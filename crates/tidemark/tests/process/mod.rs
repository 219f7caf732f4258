//! Runs the built binary for tests, as a server or to its end, and reads what it prints.

// Each test file uses the part it needs.
#![allow(dead_code)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use testing::{ChildServer, ServerLog, serve};

/// A folder of one test's own, removed at its end.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn data(&self) -> PathBuf {
        self.join("data")
    }

    pub fn bootstrap(&self) -> PathBuf {
        self.join("bootstrap.json")
    }

    pub fn read_bootstrap(&self) -> Value {
        serde_json::from_slice(&fs::read(self.bootstrap()).unwrap()).unwrap()
    }
}

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemark"));
    // The variables of the shell that runs the tests must not decide them.
    command.env_clear();
    command
}

/// The binary with these words, which hold no spaces.
pub fn tidemark(words: &str) -> Command {
    let mut command = program();
    command.args(words.split(' ')).stdin(Stdio::null());
    command
}

/// Runs a command on a data directory to its end.
pub fn on(folder: &Folder, words: &str) -> Output {
    tidemark(words)
        .arg("--data")
        .arg(folder.data())
        .output()
        .unwrap()
}

pub fn json_of(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
pub fn assert_refused(output: &Output, code: i32, part: &str) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(message.contains(part), "`{part}` is not in: {message}");
}

/// A server on the data of this folder.
pub fn start(folder: &Folder) -> ChildServer {
    start_with(folder, &[])
}

/// As [`start`], with these variables.
pub fn start_with(folder: &Folder, env: &[(&str, &str)]) -> ChildServer {
    launch(folder, env, ServerLog::Discarded)
}

/// As [`start_with`], and its log goes there.
pub fn launch(folder: &Folder, env: &[(&str, &str)], log: ServerLog<'_>) -> ChildServer {
    let mut command = serve(program(), &folder.data());
    command.envs(env.iter().copied());
    ChildServer::start(command, log).unwrap()
}
