//! The built server with functions, and what an operator does with them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use functions::archive::ArchiveBounds;
use functions::jail::JailLevel;
use functions::jail::attempt::try_jail;
use functions::pack::pack;
use serde_json::{Value, json};
use tempfile::TempDir;

use testing::{ChildServer, Credentials, RawAnswer, RawClient, ServerLog, serve};

pub const BINARY: &str = env!("CARGO_BIN_EXE_tidemark");
/// A build ends within seconds; the machine may be busy building.
const BUILD_MAX: Duration = Duration::from_mins(3);

/// The runtimes of this machine; both must be there, as for the other tests.
pub const NODE: &str = "node-20.0";
pub const PYTHON: &str = "python-3.11";

/// False where the kernel makes no jail for this user, which a test says and then ends; with
/// `TIDEMARK_JAIL=required` that counts as failed.
pub fn can() -> bool {
    let Err(why) = try_jail(Path::new(BINARY), JailLevel::Full) else {
        return true;
    };
    let is_required = std::env::var_os("TIDEMARK_JAIL").is_some_and(|value| value == "required");
    assert!(!is_required, "no jail can be made: {why}");
    eprintln!("not tested, because no jail can be made: {why}");
    false
}

/// A server and its data.
pub struct Host {
    folder: TempDir,
    server: Option<ChildServer>,
    project: String,
    key: String,
    flags: Vec<String>,
}

impl Host {
    pub fn new(flags: &[&str]) -> Host {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut host = Host {
            folder: tempfile::tempdir().unwrap(),
            server: None,
            project: "default".to_owned(),
            key: String::new(),
            flags,
        };
        host.start();
        host.key = host.server().key.clone().unwrap();
        host
    }

    /// Makes a project, in which everything is done from here on.
    pub fn enter_new_project(&mut self, id: &str) {
        let on_data = |arguments: &[&str]| -> Value {
            let mut command = Command::new(BINARY);
            command.args(arguments).args(["--json", "--data"]);
            let said = command.arg(self.data()).output().unwrap();
            assert!(said.status.success(), "{said:?}");
            serde_json::from_slice(&said.stdout).unwrap()
        };
        on_data(&["project", "create", id]);
        let key = on_data(&["key", "create", "--project", id]);
        self.enter(id, key["secret"].as_str().unwrap());
    }

    /// Lets everything be done in this project from here on.
    pub fn enter(&mut self, project: &str, key: &str) {
        project.clone_into(&mut self.project);
        key.clone_into(&mut self.key);
    }

    pub fn start(&mut self) {
        let mut program = Command::new(BINARY);
        // The interpreters are found by it, and nothing else of this environment is for a server.
        let path = std::env::var_os("PATH").unwrap_or_default();
        program.env_clear().env("PATH", path);
        let mut command = serve(program, &self.data());
        command.args(&self.flags);
        let log = self.folder.path().join("log");
        let server = ChildServer::start(command, ServerLog::File(&log)).unwrap();
        self.server = Some(server);
    }

    pub fn stop(&mut self) {
        self.server.take().unwrap().stop().unwrap();
    }

    /// As `kill -9` does it.
    pub fn kill(&mut self) {
        drop(self.server.take());
    }

    pub fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    fn server(&self) -> &ChildServer {
        self.server.as_ref().expect("it runs")
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    /// Asks by another key, by a path that is not below that of functions.
    pub fn ask_by(&self, key: &str, method: &str, path: &str) -> RawAnswer {
        let mut client = RawClient::new(self.port(), "default", key);
        client.ask(Credentials::Key, method, path, b"")
    }

    /// Where metrics are read, with `--metrics-listen`.
    pub fn metrics(&self) -> &str {
        self.server()
            .metrics
            .as_deref()
            .expect("the banner names it")
    }

    pub fn port(&self) -> u16 {
        self.server().port()
    }

    fn client(&self) -> RawClient {
        RawClient::new(self.port(), &self.project, &self.key)
    }

    pub fn ask_as(
        &self,
        credentials: Credentials,
        method: &str,
        path: &str,
        body: &Value,
    ) -> RawAnswer {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let path = format!("/v1/functions{path}");
        self.client()
            .ask(credentials, method, &path, body.as_bytes())
    }

    pub fn ask(&self, method: &str, path: &str, body: &Value) -> RawAnswer {
        self.ask_as(Credentials::Key, method, path, body)
    }

    /// As [`Host::ask`] with these headers besides; the whole answer, which may be no text.
    pub fn raw(&self, method: &str, path: &str, more: &str, body: &[u8]) -> Vec<u8> {
        let path = format!("/v1/functions{path}");
        let more = format!(
            "Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n{more}",
            body.len()
        );
        let head = self.client().head(Credentials::Key, method, &path, &more);
        let mut stream = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    /// Asks by a path that is not below that of functions.
    pub fn ask_at(&self, method: &str, path: &str, body: &Value) -> RawAnswer {
        let body = body.to_string();
        self.client()
            .ask(Credentials::Key, method, path, body.as_bytes())
    }

    #[track_caller]
    pub fn make(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = self.ask(method, path, body);
        let is_made = (200..300).contains(&answer.status);
        assert!(is_made, "{method} {path}: {answer:?}");
        answer.json()
    }

    /// Creates a function; `more` is added to its definition.
    pub fn create(&self, id: &str, runtime: &str, more: &Value) {
        let mut body = json!({"functionId": id, "name": id, "runtime": runtime});
        for (name, value) in more.as_object().into_iter().flatten() {
            body[name] = value.clone();
        }
        self.make("POST", "", &body);
    }

    /// Sends these files as a deployment that becomes active; its id.
    pub fn send(&self, function: &str, files: &[(&str, &str)], commands: &str) -> String {
        const BOUNDARY: &str = "----of-a-test";
        let archive = packed(files);
        let mut body = Vec::new();
        let entrypoint = files[0].0;
        for (name, text) in [
            ("activate", "true"),
            ("entrypoint", entrypoint),
            ("commands", commands),
        ] {
            let part = format!(
                "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{text}\r\n"
            );
            body.extend_from_slice(part.as_bytes());
        }
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"code\"; \
             filename=\"code.tar.gz\"\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(&archive);
        body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
        let kind = format!("multipart/form-data; boundary={BOUNDARY}");
        let path = format!("/v1/functions/{function}/deployments");
        let mut client = self.client();
        let sent = client.ask_typed(Credentials::Key, "POST", &path, Some(&kind), &body);
        assert_eq!(sent.status, 202, "{sent:?}");
        sent.json()["$id"].as_str().unwrap().to_owned()
    }

    /// Waits until a deployment has one of these states.
    #[track_caller]
    pub fn wait(&self, function: &str, deployment: &str, states: &[&str]) -> Value {
        let begun = Instant::now();
        loop {
            let path = format!("/{function}/deployments/{deployment}");
            let found = self.make("GET", &path, &Value::Null);
            if states.contains(&found["status"].as_str().unwrap()) {
                return found;
            }
            assert!(begun.elapsed() < BUILD_MAX, "{found}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Sends a deployment and waits until it is active.
    #[track_caller]
    pub fn deploy(&self, function: &str, files: &[(&str, &str)], commands: &str) -> String {
        let id = self.send(function, files, commands);
        let built = self.wait(function, &id, &["ready", "failed"]);
        assert_eq!(built["status"], "ready", "{built}");
        id
    }

    pub fn execute(&self, function: &str, body: &Value) -> RawAnswer {
        self.ask("POST", &format!("/{function}/executions"), body)
    }

    /// Executes a function; the execution as it is shown.
    #[track_caller]
    pub fn executed(&self, function: &str, body: &Value) -> Value {
        let answer = self.execute(function, body);
        assert_eq!(answer.status, 201, "{answer:?}\n{}", self.log());
        answer.json()
    }
}

fn packed(files: &[(&str, &str)]) -> Vec<u8> {
    let code = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let place = code.path().join(name);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, content).unwrap();
    }
    let mut archive = Vec::new();
    let bounds = ArchiveBounds {
        bytes_max: 100_000_000,
        entries_max: 10_000,
        path_bytes_max: 1_024,
        ratio_max: 1,
    };
    pack(code.path(), &mut archive, bounds).unwrap();
    archive
}
