//! The real binary as a child: servers on data directories of their own.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::connection::{Access, Connection};
use crate::cores::Cores;
use crate::costs::{Backends, Costs};
use crate::process::{ChildProgram, ProcessNumber};

/// A start takes a fraction of a second; a loaded machine may take a hundred times as long.
const READY_MAX: Duration = Duration::from_secs(30);
/// How often a starting server is asked: the resolution of the time to its first answer.
const ASK_EVERY: Duration = Duration::from_micros(500);

/// What the server reads which database has its store from: not from the command line, which other
/// users of the machine may read.
const DATABASE_VARIABLE: &str = "TIDEMARK_DATABASE";

/// Where a server keeps its store.
#[derive(Clone, Copy, Debug)]
pub struct StoreHome<'a> {
    /// The data directory; made if absent. Files that a start needs besides stand next to it,
    /// named after it.
    pub data: &'a Path,
    /// The URL of the database that has the store, if one has.
    pub database: Option<&'a str>,
}

/// A running server. Dropped without [`LiveServer::stop`], it is killed.
pub struct LiveServer {
    running: ChildProgram,
    backends: Option<Backends>,
    log: PathBuf,
    /// How to reach it.
    pub access: Access,
    /// From just before its process was made to its first answer.
    pub first_answer: Duration,
}

impl<'a> From<&'a Path> for StoreHome<'a> {
    fn from(data: &'a Path) -> StoreHome<'a> {
        let database = None;
        StoreHome { data, database }
    }
}

impl LiveServer {
    /// Starts `command`, the binary without arguments, on these cores alone or on those of this
    /// program, and waits for its first answer.
    ///
    /// # Errors
    /// When it ends, or does not answer within [`READY_MAX`].
    pub fn begin(
        mut command: Command,
        cores: Option<&Cores>,
        home: StoreHome<'_>,
        settings: &[&str],
    ) -> Result<LiveServer> {
        let StoreHome { data, database } = home;
        let (log, bootstrap) = (data.with_extension("log"), data.with_extension("bootstrap"));
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        let address = free_address()?;
        command.args(["serve", "--listen", &address.to_string()]);
        command.arg("--data").arg(data).arg("--bootstrap-file");
        command.arg(&bootstrap).args(settings);
        command.stdout(output.try_clone()?).stderr(output);
        command.envs(database.map(|url| (DATABASE_VARIABLE, url)));
        let start = Instant::now();
        let mut live = LiveServer {
            running: ChildProgram::spawn(&mut command, cores)?,
            backends: database.and_then(Backends::of),
            log,
            access: Access::new(address, "", ""),
            first_answer: Duration::ZERO,
        };
        live.wait_for_answer(start)?;
        live.first_answer = start.elapsed();
        live.read_access(&bootstrap)?;
        Ok(live)
    }

    /// Asks until it answers. Which version is public (wire protocol, 6.6), so no key is needed.
    fn wait_for_answer(&mut self, start: Instant) -> Result<()> {
        let question = self.access.request("GET", "/health/version", "");
        while start.elapsed() < READY_MAX {
            if let Ok(mut connection) = Connection::open(self.access.address)
                && let Ok(answer) = connection.ask(&question)
            {
                if answer.status == 200 {
                    return Ok(());
                }
                bail!("/health/version answers with status {}", answer.status);
            }
            self.fail_if_ended()?;
            std::thread::sleep(ASK_EVERY);
        }
        let (seconds, log) = (READY_MAX.as_secs(), log_tail(&self.log));
        bail!("no answer in {seconds} s; its log ends:\n{log}")
    }

    fn read_access(&mut self, bootstrap: &Path) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < READY_MAX {
            let written = fs::read(bootstrap).unwrap_or_default();
            let written: serde_json::Value = serde_json::from_slice(&written).unwrap_or_default();
            let field = |name: &str| written[name].as_str().map(str::to_owned);
            let endpoint = self.access.url("");
            // The file of an earlier start stands there until this one has written its own.
            if field("endpoint").is_some_and(|found| found == endpoint)
                && let (Some(project), Some(key)) = (field("projectId"), field("apiKey"))
            {
                (self.access.project, self.access.key) = (project, key);
                return Ok(());
            }
            self.fail_if_ended()?;
            std::thread::sleep(ASK_EVERY);
        }
        bail!("{} was not written for this start", bootstrap.display())
    }

    fn fail_if_ended(&mut self) -> Result<()> {
        self.running.fail_if_ended(|| log_tail(&self.log))
    }

    /// Fills it with the catalog by `tidemark seed`, a `command` that has no arguments yet; says
    /// how long that took.
    ///
    /// # Errors
    /// When seeding does not start or fails.
    pub fn seed(&self, mut command: Command, rows: u32, indexed: bool) -> Result<Duration> {
        command.args(["seed", "catalog", "--rows", &rows.to_string()]);
        command.args(indexed.then_some("--index"));
        let start = Instant::now();
        self.command(command).context("seeding")?;
        Ok(start.elapsed())
    }

    /// Runs a command of `tidemark` that speaks to this server to its end.
    ///
    /// # Errors
    /// When it does not start or fails; the text holds what it said.
    pub fn command(&self, mut command: Command) -> Result<()> {
        command.env("APPWRITE_ENDPOINT", self.access.url(""));
        command.env("APPWRITE_PROJECT_ID", &self.access.project);
        command.env("APPWRITE_API_KEY", &self.access.key);
        let output = command.output().context("it does not start")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{complaint}");
        Ok(())
    }

    /// Its process.
    pub fn process(&self) -> ProcessNumber {
        self.running.process()
    }

    /// What works for its answers: it, and the database that has its store.
    pub fn costs(&self) -> Costs {
        Costs::of(vec![self.process()]).beside(self.backends)
    }

    /// Asks it to end in order, and waits until it has.
    ///
    /// # Errors
    /// Those of [`ChildProgram::stop`].
    pub fn stop(mut self) -> Result<()> {
        self.running.stop(|| log_tail(&self.log))
    }

    /// As [`LiveServer::stop`]; what it has logged.
    ///
    /// # Errors
    /// As [`LiveServer::stop`], and when the log cannot be read.
    pub fn stop_and_tell(self) -> Result<String> {
        let log = self.log.clone();
        self.stop()?;
        fs::read_to_string(&log).with_context(|| log.display().to_string())
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

fn log_tail(log: &Path) -> String {
    let log = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// A port no server listens on. Known beforehand, because a server that says its own port says it
/// some time after its first answer is possible.
///
/// # Errors
/// When the system has none.
pub fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?)
}
