//! The built server as a child process: started, called, signalled and stopped, and what it
//! printed at its start.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::raw_client::{Credentials, RawClient};

/// A server answers within 300 ms; a machine busy building may take 200 times as long.
const READY_MAX: Duration = Duration::from_mins(1);
/// A server that stops finishes what is under way; no request of a test takes this long.
const STOP_MAX: Duration = Duration::from_mins(1);
/// How often the wait for the end looks again.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// How much of a log an error quotes.
const LOG_TAIL_LINES: usize = 20;
/// How wide the banner's labels are, with the indentation before them.
const LABEL_END: usize = 13;

/// Where the log of a [`ChildServer`] goes.
#[derive(Clone, Copy, Debug)]
pub enum ServerLog<'a> {
    /// It is not read.
    Discarded,
    /// The test reads it, line by line: [`ChildServer::log_line_with`].
    Piped,
    /// A new file; its end is quoted when the server does not start or stop.
    File(&'a Path),
}

/// A running server and what its banner said. Dropped, it is killed.
#[derive(Debug)]
pub struct ChildServer {
    /// The process.
    pub child: Child,
    /// Such as `http://127.0.0.1:41234/v1`.
    pub endpoint: String,
    /// The ids of the projects.
    pub projects: Vec<String>,
    /// The key that a first start makes, unless it was given one; never print it.
    pub key: Option<String>,
    /// The address of the metrics, where they are on.
    pub metrics: Option<String>,
    pipe: Option<BufReader<ChildStderr>>,
    log: Option<PathBuf>,
}

/// Lets `program` serve the directory `data` on a free port of this machine.
pub fn serve(mut program: Command, data: &Path) -> Command {
    program
        .args(["serve", "--listen", "127.0.0.1:0", "--data"])
        .arg(data);
    program
}

/// Sends a signal by its name; the standard library can only kill.
pub fn send_signal(process: u32, name: &str) -> Result<()> {
    // The shell's own `kill` is there on the barest machine.
    let script = format!("kill -{name} {process}");
    let status = Command::new("sh").args(["-c", &script]).status();
    let status = status.context("sh does not start")?;
    ensure!(status.success(), "`{script}` ended with {status}");
    Ok(())
}

impl ChildServer {
    /// Starts the server and waits until it accepts connections.
    ///
    /// # Errors
    /// When it ends or stays silent; the end of its log is quoted.
    pub fn start(mut command: Command, log: ServerLog<'_>) -> Result<ChildServer> {
        let (stderr, path) = match log {
            ServerLog::Discarded => (Stdio::null(), None),
            ServerLog::Piped => (Stdio::piped(), None),
            ServerLog::File(path) => (File::create(path)?.into(), Some(path.to_owned())),
        };
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr);
        let mut child = command.spawn().context("the server does not start")?;
        let stdout = child.stdout.take().expect("it was asked for");
        let pipe = child.stderr.take().map(BufReader::new);
        let mut server = ChildServer {
            child,
            endpoint: String::new(),
            projects: Vec::new(),
            key: None,
            metrics: None,
            pipe,
            log: path,
        };
        server.read_banner(&lines_of(stdout))?;
        Ok(server)
    }

    /// Reads lines up to the first that is not indented, the two of the title apart.
    fn read_banner(&mut self, lines: &Receiver<String>) -> Result<()> {
        let start = Instant::now();
        for number in 0.. {
            let line = match lines.recv_timeout(READY_MAX.saturating_sub(start.elapsed())) {
                Ok(line) => line,
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.wait()?;
                    return Err(self.failed(&format!("ended at start ({status})")));
                }
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = READY_MAX.as_secs();
                    return Err(self.failed(&format!("is not ready after {seconds} s")));
                }
            };
            match number {
                0 => ensure!(line.starts_with("Tidemark "), "not a banner: {line}"),
                1 => {}
                _ if line.starts_with("  ") => self.read_banner_line(&line)?,
                _ => break,
            }
        }
        ensure!(!self.endpoint.is_empty(), "the banner names no endpoint");
        Ok(())
    }

    fn read_banner_line(&mut self, line: &str) -> Result<()> {
        let parts = line.split_at_checked(LABEL_END);
        let (label, value) = parts.with_context(|| format!("a short line: `{line}`"))?;
        let value = value.trim().to_owned();
        match label.trim() {
            "endpoint" => self.endpoint = value,
            "project id" => self.projects.push(value),
            "metrics" => self.metrics = Some(value),
            "API key" => self.key = Some(value),
            _ => bail!("the banner has an unknown line: `{line}`"),
        }
        Ok(())
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        let mut parts = self.endpoint.split([':', '/']);
        let port = parts.find_map(|part| part.parse().ok());
        port.expect("an endpoint holds a port")
    }

    /// Sends it a signal by its name, such as `TERM`.
    pub fn signal(&self, name: &str) -> Result<()> {
        send_signal(self.child.id(), name)
    }

    /// Asks it to end, as an operator does.
    ///
    /// # Errors
    /// When it does not end soon, or with another status than 0; the end of its log is quoted.
    pub fn stop(mut self) -> Result<()> {
        self.signal("TERM")?;
        let status = self.wait()?;
        if !status.success() {
            return Err(self.failed(&format!("ended badly ({status})")));
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<ExitStatus> {
        let start = Instant::now();
        while start.elapsed() < STOP_MAX {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let seconds = STOP_MAX.as_secs();
        Err(self.failed(&format!("still runs after {seconds} s")))
    }

    /// The next line of a piped log that holds `part`.
    pub fn log_line_with(&mut self, part: &str) -> String {
        let log = self.pipe.as_mut().expect("started with a piped log");
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            let count = log.read_line(&mut line).expect("a log is text");
            assert!(count > 0, "the log ended without `{part}`");
        }
        line
    }

    /// What is left of a piped log, to its end.
    #[track_caller]
    pub fn rest_of_log(&mut self) -> String {
        let log = self.pipe.as_mut().expect("started with a piped log");
        let mut rest = String::new();
        log.read_to_string(&mut rest).expect("a log is text");
        rest
    }

    /// Closes the reading end of a piped log.
    pub fn break_log(&mut self) {
        self.pipe = None;
    }

    /// The last lines of a log that goes to a file.
    pub fn log_tail(&self) -> String {
        let text = self.log.as_ref().map(std::fs::read_to_string);
        text.map_or_else(String::new, |text| tail(&text.unwrap_or_default()))
    }

    fn failed(&self, how: &str) -> anyhow::Error {
        anyhow::anyhow!("the server {how}; its log ends:\n{}", self.log_tail())
    }

    /// Calls a route below `/v1` of the project `default` with the server's key, and expects that
    /// it succeeds.
    #[track_caller]
    pub fn call(&self, method: &str, route: &str, body: &Value) -> Value {
        let key = self.key.as_deref().expect("a first start prints its key");
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let mut client = RawClient::new(self.port(), "default", key);
        let path = format!("/v1{route}");
        let answer = client.ask(Credentials::Key, method, &path, body.as_bytes());
        let ok = (200..300).contains(&answer.status);
        assert!(ok, "{method} {route}: {answer:?}");
        answer.json()
    }

    /// The status of a list of databases.
    pub fn status_as(&self, project: &str, key: Option<&str>) -> u16 {
        let credentials = match key {
            Some(_) => Credentials::Key,
            None => Credentials::Guest,
        };
        let mut client = RawClient::new(self.port(), project, key.unwrap_or_default());
        client.ask(credentials, "GET", "/v1/tablesdb", b"").status
    }
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        // Has no effect on a process that ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of the child's output. They are read to the end, for a server must not find its
/// output closed.
fn lines_of(stdout: ChildStdout) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    lines
}

/// The last lines of a log, indented.
fn tail(text: &str) -> String {
    let mut lines = VecDeque::new();
    for line in text.lines() {
        lines.push_back(format!("    {line}"));
        if lines.len() > LOG_TAIL_LINES {
            lines.pop_front();
        }
    }
    match lines.make_contiguous() {
        [] => "    (it is empty)".to_owned(),
        lines => lines.join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prints a banner, then waits for SIGTERM and ends with `$status`.
    const SERVES: &str = r#"
        trap 'kill $!; exit $status' TERM
        echo "Tidemark 0"; echo
        echo "  endpoint    http://127.0.0.1:7/v1"
        echo "  project id  p"
        echo "  API key     k"
        echo
        echo "listening on $3" >&2
        sleep 100 >/dev/null 2>&1 & wait"#;

    /// Runs `script` in the server's place: its arguments are the server's.
    fn start(script: &str) -> Result<ChildServer> {
        let folder = tempfile::tempdir()?;
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "server"]);
        let command = serve(shell, &folder.path().join("data"));
        // The folder is kept, as its log is read later.
        ChildServer::start(command, ServerLog::File(&folder.keep().join("log")))
    }

    #[test]
    fn banner_says_where_the_server_is_and_with_which_key() {
        let server = start(&format!("status=0\n{SERVES}")).unwrap();
        assert_eq!(
            (server.endpoint.as_str(), server.port()),
            ("http://127.0.0.1:7/v1", 7)
        );
        assert_eq!(
            (server.projects.as_slice(), server.key.as_deref()),
            (&["p".to_owned()][..], Some("k"))
        );
        assert_eq!(server.metrics, None);
        server.stop().unwrap();
    }

    #[test]
    fn banner_with_an_unknown_line_is_refused() {
        let error = start("echo Tidemark 0; echo; echo '  secret    1'; sleep 9").unwrap_err();
        let message = error.to_string();
        assert_eq!(message, "the banner has an unknown line: `  secret    1`");
    }

    #[test]
    fn server_that_ends_badly_is_reported_with_its_log() {
        let server = start(&format!("status=3\n{SERVES}")).unwrap();
        let message = server.stop().unwrap_err().to_string();
        let wanted =
            "the server ended badly (exit status: 3); its log ends:\n    listening on 127.0.0.1:0";
        assert_eq!(message, wanted);
    }

    #[test]
    fn server_that_ends_at_start_is_reported_with_its_log() {
        let message = start("echo no room left >&2; exit 1")
            .unwrap_err()
            .to_string();
        let wanted = "the server ended at start (exit status: 1); its log ends:\n    no room left";
        assert_eq!(message, wanted);
    }

    #[test]
    fn log_tail_is_the_last_lines() {
        let lines: Vec<String> = (0..=LOG_TAIL_LINES).map(|line| line.to_string()).collect();
        let shown = tail(&lines.join("\n"));
        assert!(shown.starts_with("    1\n    2\n"), "{shown}");
        assert_eq!(tail("a"), "    a");
        assert_eq!(tail(""), "    (it is empty)");
    }
}
