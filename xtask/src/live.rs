//! A running server of our own, for the demonstration and the benchmarks.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Names the released binary to every test suite and benchmark.
pub const BINARY_VARIABLE: &str = "TIDEMARK_BIN";

/// A server answers within 300 ms; a loaded machine may take a hundred times as long.
const READY_MAX: Duration = Duration::from_secs(30);
/// Shutting down finishes what is under way; no request of ours takes this long.
const STOP_MAX: Duration = Duration::from_secs(30);
/// How often the two waits above look again.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const LOG_TAIL_LINES: usize = 20;

/// Where the server is and how to be let in.
#[derive(Debug, PartialEq)]
pub struct Access {
    /// Such as `http://127.0.0.1:41234/v1`.
    pub endpoint: String,
    /// The project made at the first start.
    pub project: String,
    /// A key with every scope; never print it.
    pub key: String,
}

impl Access {
    /// Reads what `--bootstrap-file` wrote; `None` while the text is not whole.
    fn parse(text: &str) -> Option<Access> {
        let written: serde_json::Value = serde_json::from_str(text).ok()?;
        let field = |name: &str| written.get(name)?.as_str().map(str::to_owned);
        let (endpoint, project) = (field("endpoint")?, field("projectId")?);
        Some(Access {
            endpoint,
            project,
            key: field("apiKey")?,
        })
    }

    /// Gives the access to a child by the variables the official SDK's examples use, because
    /// arguments are readable by every user of the machine.
    pub fn lend(&self, command: &mut Command) {
        command.env("APPWRITE_ENDPOINT", &self.endpoint);
        command.env("APPWRITE_PROJECT_ID", &self.project);
        command.env("APPWRITE_API_KEY", &self.key);
    }
}

/// The server as a child process. Dropped without [`Live::stop`], it is killed; a Ctrl-C in the
/// terminal reaches it directly, as it stays in this program's process group.
pub struct Live {
    child: Child,
    log: PathBuf,
    /// How to reach it.
    pub access: Access,
}

impl Live {
    /// Starts the server's `program` on a new data directory below `folder`, which is emptied
    /// first, and a free port; waits until it accepts connections.
    ///
    /// # Errors
    /// When the server ends or stays silent for [`READY_MAX`]; the end of its log is shown.
    pub fn start(mut program: Command, folder: &Path) -> Result<Live> {
        if folder.exists() {
            let cannot = || format!("{} cannot be emptied", folder.display());
            std::fs::remove_dir_all(folder).with_context(cannot)?;
        }
        std::fs::create_dir_all(folder)?;
        let log = folder.join("server.log");
        let bootstrap = folder.join("bootstrap.json");
        let file = File::create(&log)?;
        program
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(folder.join("data"));
        program.arg("--bootstrap-file").arg(&bootstrap);
        program
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let child = program.spawn().context("the server does not start")?;
        let unknown = Access {
            endpoint: String::new(),
            project: String::new(),
            key: String::new(),
        };
        let mut live = Live {
            child,
            log,
            access: unknown,
        };
        live.access = live.wait_until_ready(&bootstrap)?;
        Ok(live)
    }

    fn wait_until_ready(&mut self, bootstrap: &Path) -> Result<Access> {
        let start = Instant::now();
        loop {
            let written = std::fs::read_to_string(bootstrap).unwrap_or_default();
            if let Some(access) = Access::parse(&written) {
                return Ok(access);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!(
                    "the server ended at start ({status}); its log ends:\n{}",
                    self.log_tail()
                );
            }
            if start.elapsed() > READY_MAX {
                let seconds = READY_MAX.as_secs();
                bail!(
                    "the server is not ready after {seconds} s; its log ends:\n{}",
                    self.log_tail()
                );
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Asks the server to finish what it acknowledged and end.
    ///
    /// # Errors
    /// When it does not end within [`STOP_MAX`], or with another status than 0.
    pub fn stop(mut self) -> Result<()> {
        // The standard library can only kill, and a killed server proves nothing; the shell's
        // own `kill` is there on the barest machine.
        let script = format!("kill -TERM {}", self.child.id());
        Command::new("sh")
            .args(["-c", &script])
            .status()
            .context("sh does not start")?;
        let status = self.wait_until_ended()?;
        if !status.success() {
            bail!(
                "the server ended badly ({status}); its log ends:\n{}",
                self.log_tail()
            );
        }
        Ok(())
    }

    fn wait_until_ended(&mut self) -> Result<ExitStatus> {
        let start = Instant::now();
        while start.elapsed() < STOP_MAX {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let seconds = STOP_MAX.as_secs();
        bail!(
            "the server still runs {seconds} s after SIGTERM; its log ends:\n{}",
            self.log_tail()
        )
    }

    /// The last lines the server wrote, for a person who must find out why.
    pub fn log_tail(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        tail(&log, LOG_TAIL_LINES)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // After `stop` both do nothing; otherwise the failure that led here is already reported.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tail(text: &str, lines_max: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let start = lines.len().saturating_sub(lines_max);
    if lines.is_empty() {
        return "    (it is empty)".to_owned();
    }
    let indented: Vec<String> = lines[start..]
        .iter()
        .map(|line| format!("    {line}"))
        .collect();
    indented.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_is_read_only_when_the_file_is_whole() {
        let whole = r#"{"endpoint":"http://127.0.0.1:5/v1","projectId":"p","apiKey":"k"}"#;
        let access = Access::parse(whole).unwrap();
        assert_eq!((access.project.as_str(), access.key.as_str()), ("p", "k"));
        assert_eq!(access.endpoint, "http://127.0.0.1:5/v1");
        for part in ["", &whole[..30], r#"{"endpoint":"e","projectId":"p"}"#] {
            assert_eq!(Access::parse(part), None, "{part}");
        }
    }

    #[test]
    fn the_tail_of_a_log_is_its_last_lines() {
        assert_eq!(tail("a\nb\nc\n", 2), "    b\n    c");
        assert_eq!(tail("a", 20), "    a");
        assert_eq!(tail("", 20), "    (it is empty)");
    }

    /// Runs `script` in the server's place: its arguments are the server's.
    fn check(name: &str, script: &str, act: impl FnOnce(Result<Live>)) {
        let folder = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "server"]);
        act(Live::start(shell, &folder));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// Writes the bootstrap file, then waits for SIGTERM and ends with `$status`.
    const SERVES: &str = r#"
        trap 'kill $!; exit $status' TERM
        echo "serving on $3"
        echo '{"endpoint":"http://e/v1","projectId":"p","apiKey":"k"}' > "$7"
        sleep 100 & wait"#;

    #[test]
    fn a_server_is_started_and_stopped() {
        check("stops", &format!("status=0\n{SERVES}"), |live| {
            let live = live.unwrap();
            assert_eq!(live.access.endpoint, "http://e/v1");
            assert_eq!(live.log_tail(), "    serving on 127.0.0.1:0");
            live.stop().unwrap();
        });
    }

    #[test]
    fn a_server_that_ends_badly_is_reported() {
        check("badly", &format!("status=3\n{SERVES}"), |live| {
            let message = live.unwrap().stop().unwrap_err().to_string();
            assert!(
                message.starts_with("the server ended badly (exit status: 3)"),
                "{message}"
            );
        });
    }

    #[test]
    fn a_server_that_ends_at_once_is_reported_with_its_log() {
        check("dies", "echo no room left; exit 1", |live| {
            let message = live.err().expect("this one never serves").to_string();
            assert!(
                message.starts_with("the server ended at start (exit status: 1)"),
                "{message}"
            );
            assert!(message.ends_with("    no room left"), "{message}");
        });
    }
}
