//! Starts the built binary for tests, and reads what it prints.

// Each test file uses the part it needs.
#![allow(dead_code)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

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

/// The binary with these words, which hold no spaces.
pub fn tidemark(words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemark"));
    // Variables of whoever runs the tests must not decide them.
    command
        .env_clear()
        .args(words.split(' '))
        .stdin(Stdio::null());
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

/// Sends a signal by name; the standard library can only kill.
pub fn send_signal(process: u32, name: &str) {
    let kill = format!("kill -{name} {process}");
    assert!(
        Command::new("sh")
            .args(["-c", &kill])
            .status()
            .unwrap()
            .success()
    );
}

/// A running server, and what it printed at its start.
pub struct Running {
    pub child: Child,
    pub endpoint: String,
    pub projects: Vec<String>,
    pub key: Option<String>,
    pub metrics: Option<String>,
    log: Option<BufReader<ChildStderr>>,
}

impl Running {
    pub fn start(folder: &Folder) -> Running {
        Running::start_with(folder, &[])
    }

    pub fn start_with(folder: &Folder, env: &[(&str, &str)]) -> Running {
        Running::launch(folder, env, Stdio::null())
    }

    pub fn launch(folder: &Folder, env: &[(&str, &str)], log: Stdio) -> Running {
        let mut command = tidemark("serve --listen 127.0.0.1:0 --data");
        command.arg(folder.data()).envs(env.iter().copied());
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let log = child.stderr.take().map(BufReader::new);
        let mut banner = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut running = Running {
            child,
            endpoint: String::new(),
            projects: Vec::new(),
            key: None,
            metrics: None,
            log,
        };
        let first = banner
            .next()
            .expect("the server prints before it ends")
            .unwrap();
        assert!(first.starts_with("Tidemark "), "{first}");
        banner.next().unwrap().unwrap();
        for line in banner
            .map_while(Result::ok)
            .take_while(|line| line.starts_with("  "))
        {
            match (line[2..13].trim_end(), line[13..].trim_start()) {
                ("endpoint", endpoint) => endpoint.clone_into(&mut running.endpoint),
                ("project id", project) => running.projects.push(project.to_owned()),
                ("metrics", url) => running.metrics = Some(url.to_owned()),
                ("API key", key) => running.key = Some(key.to_owned()),
                (other, _) => panic!("unknown line `{other}`"),
            }
        }
        running
    }

    pub fn port(&self) -> u16 {
        self.endpoint
            .split([':', '/'])
            .find_map(|part| part.parse().ok())
            .unwrap()
    }

    pub fn signal(&self, name: &str) {
        send_signal(self.child.id(), name);
    }

    /// Goes away as a reader of the log.
    pub fn break_log(&mut self) {
        self.log = None;
    }

    /// Reads log lines until one holds `part`.
    pub fn read_log_until(&mut self, part: &str) {
        self.log_line_with(part);
    }

    /// The next log line that holds `part`.
    pub fn log_line_with(&mut self, part: &str) -> String {
        let log = self.log.as_mut().expect("launched with a log");
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            assert!(
                log.read_line(&mut line).unwrap() > 0,
                "the log ended without `{part}`"
            );
        }
        line
    }

    /// Asks it to end, as an operator does, and returns its exit code.
    pub fn stop(mut self) -> Option<i32> {
        self.signal("TERM");
        self.child.wait().unwrap().code()
    }

    /// Calls a route with the key of the first start, and expects that it succeeds.
    #[track_caller]
    pub fn call(&self, method: &str, route: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        let key = self.key.as_deref().expect("the first start prints a key");
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        write!(
            stream,
            "{method} /v1{route} HTTP/1.1\r\nHost: t\r\nX-Appwrite-Project: default\r\n\
             X-Appwrite-Key: {key}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 2"), "{method} {route}: {answer}");
        serde_json::from_str(body).unwrap_or_default()
    }

    /// The status of a listing of databases.
    pub fn status_as(&self, project: &str, key: Option<&str>) -> u16 {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        let key = key
            .map(|key| format!("X-Appwrite-Key: {key}\r\n"))
            .unwrap_or_default();
        write!(
            stream,
            "GET /v1/tablesdb HTTP/1.1\r\nHost: t\r\nX-Appwrite-Project: {project}\r\n{key}\
             Connection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A test that failed half way must not leave its server behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
