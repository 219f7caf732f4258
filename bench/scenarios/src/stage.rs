//! What is measured, as children of this program: servers on copies of one seeded data directory,
//! and static responders.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::connection::Access;
use super::cores::Cores;

/// A start takes a fraction of a second; a loaded machine may take a hundred times as long.
const READY_MAX: Duration = Duration::from_secs(30);
/// Finishing what is under way.
const STOP_MAX: Duration = Duration::from_secs(30);
/// How often a starting or ending program is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// What the kernel counts processor time in, for every program: hundredths of a second
/// (proc(5), `/proc/pid/stat`; `USER_HZ` is 100 on every platform Rust's tier 1 has).
const TICK_US: f64 = 10_000.0;

/// The binary, a folder for data directories, and the one all others are copied from.
pub struct Stage {
    binary: PathBuf,
    folder: TempDir,
}

/// A running server of ours.
pub struct Server {
    child: Child,
    log: PathBuf,
    /// `127.0.0.1:port`
    pub address: SocketAddr,
    /// The project's id.
    pub project: String,
    /// The secret of a key with every scope.
    pub key: String,
}

/// A running static responder.
pub struct Responder {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Stage {
    /// A folder below `scratch` without a data directory; removed with the stage.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn empty(binary: &Path, scratch: &Path) -> Result<Stage> {
        let folder = tempfile::Builder::new()
            .prefix("bench-")
            .tempdir_in(scratch);
        let folder = folder.with_context(|| format!("no folder below {}", scratch.display()))?;
        Ok(Stage {
            binary: binary.to_owned(),
            folder,
        })
    }

    /// Makes a data directory with the indexed catalog of `rows` rows below `scratch`.
    ///
    /// # Errors
    /// When a folder cannot be made, or seeding fails.
    pub fn set(binary: &Path, scratch: &Path, rows: u32, all: &Cores) -> Result<Stage> {
        let stage = Stage::empty(binary, scratch)?;
        let server = stage.start("seeded", all, &[])?;
        let mut seed = stage.command();
        seed.args(["seed", "catalog", "--index", "--rows", &rows.to_string()]);
        seed.env("APPWRITE_ENDPOINT", format!("http://{}/v1", server.address));
        seed.env("APPWRITE_PROJECT_ID", &server.project);
        seed.env("APPWRITE_API_KEY", &server.key);
        let output = seed.output().context("seeding does not start")?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "seeding: {complaint}");
        server.stop()?;
        Ok(stage)
    }

    /// The folder for whatever else a run writes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A server on a copy of the seeded data directory: what an earlier one has written is gone.
    ///
    /// # Errors
    /// When the copy fails, or the server does not answer.
    pub fn fresh(&self, cores: &Cores, settings: &[&str]) -> Result<Server> {
        let (from, to) = (self.folder().join("seeded"), self.folder().join("fresh"));
        let cannot = || format!("{} cannot be copied", from.display());
        if to.exists() {
            fs::remove_dir_all(&to).with_context(cannot)?;
        }
        fs::create_dir_all(&to).with_context(cannot)?;
        for entry in fs::read_dir(&from).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            // A socket is nothing a store needs.
            if entry.file_type().with_context(cannot)?.is_file() {
                fs::copy(entry.path(), to.join(entry.file_name())).with_context(cannot)?;
            }
        }
        self.start("fresh", cores, settings)
    }

    /// A server on the data directory `name`, which is made if absent.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn start(&self, name: &str, cores: &Cores, settings: &[&str]) -> Result<Server> {
        let at = |end: &str| self.folder().join(format!("{name}{end}"));
        let (log, bootstrap) = (at(".log"), at(".bootstrap"));
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        // The file of an earlier start must not be taken for this one's.
        drop(fs::remove_file(&bootstrap));
        let mut command = self.command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(at("")).arg("--bootstrap-file").arg(&bootstrap);
        command.args(settings).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        let mut server = Server {
            child: cores.spawn(&mut command)?,
            log,
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            project: String::new(),
            key: String::new(),
        };
        server.wait(&bootstrap)?;
        Ok(server)
    }

    /// A static responder that repeats what `url` answers with these headers.
    ///
    /// # Errors
    /// When it does not start.
    pub fn responder(&self, cores: &Cores, url: &str, headers: &[String]) -> Result<Responder> {
        let mut command = self.command();
        command.args(["bench", "floor", "--listen", "127.0.0.1:0", "--from", url]);
        for header in headers {
            command.args(["--header", header]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = cores.spawn(&mut command)?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.and_then(|address| address.parse().ok());
        let Some(address) = address else {
            drop(child.kill());
            drop(child.wait());
            bail!("the static responder says `{}`", line.trim());
        };
        Ok(Responder { child, address })
    }

    /// This program, without the variables that would set another project, key or limit.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command.env_clear();
        command
    }
}

impl Server {
    /// Its file of access, with the port that it was given, appears when it answers.
    fn wait(&mut self, bootstrap: &Path) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < READY_MAX {
            let written: Value = serde_json::from_slice(&fs::read(bootstrap).unwrap_or_default())
                .unwrap_or_default();
            let field = |name: &str| written[name].as_str().map(str::to_owned);
            let told = field("endpoint")
                .zip(field("projectId"))
                .zip(field("apiKey"));
            if let Some(((endpoint, project), key)) = told {
                let address = endpoint
                    .trim_start_matches("http://")
                    .trim_end_matches("/v1");
                self.address = address.parse().with_context(|| endpoint.clone())?;
                (self.project, self.key) = (project, key);
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended at start ({status}):\n{}", self.told());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        bail!("the server does not answer:\n{}", self.told())
    }

    /// What it has logged.
    pub fn told(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its process.
    pub fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// How to reach it.
    pub fn access(&self) -> Access {
        Access {
            address: self.address,
            project: self.project.clone(),
            key: self.key.clone(),
        }
    }

    /// The headers that let a request in.
    pub fn headers(&self) -> [String; 2] {
        self.access().headers()
    }

    /// Asks it to end in order, and waits until it has.
    ///
    /// # Errors
    /// When it does not end in time, or not with success.
    pub fn stop(mut self) -> Result<()> {
        let pid = Pid::from_raw(self.child.id() as i32).context("it has no number")?;
        kill_process(pid, Signal::TERM).context("the server is gone")?;
        let start = Instant::now();
        while start.elapsed() < STOP_MAX {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("the server ended badly ({status}):\n{}", self.told()),
                None => std::thread::sleep(LOOK_EVERY),
            }
        }
        bail!(
            "the server still runs {} s after SIGTERM",
            STOP_MAX.as_secs()
        )
    }
}

impl Responder {
    /// Its process.
    pub fn process(&self) -> Process {
        Process(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After `stop` both do nothing.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        // It keeps nothing that an orderly end would save.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A process, by its number.
#[derive(Clone, Copy, Debug)]
pub struct Process(pub u32);

impl Process {
    /// Processor time it has used so far, user and system, in microseconds; a multiple of 10,000.
    ///
    /// # Errors
    /// When it is gone.
    pub fn cpu_us(self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).context("it is gone")?;
        let ticks = cpu_ticks(&stat).context("/proc/…/stat is not understood")?;
        Ok(ticks * TICK_US)
    }

    /// The most memory it has had in use so far, or since [`Process::forget_peak`], in MiB.
    ///
    /// # Errors
    /// When it is gone.
    pub fn peak_mib(self) -> Result<f64> {
        self.memory_mib("VmHWM:")
    }

    /// The memory it has in use, in MiB.
    ///
    /// # Errors
    /// When it is gone.
    pub fn resident_mib(self) -> Result<f64> {
        self.memory_mib("VmRSS:")
    }

    /// Lets the most it has had in use begin at what it has now (proc(5), `/proc/pid/clear_refs`).
    ///
    /// # Errors
    /// When it is gone, or the kernel was built without this.
    pub fn forget_peak(self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.0);
        fs::write(&path, "5").with_context(|| path)
    }

    fn memory_mib(self, name: &str) -> Result<f64> {
        let path = format!("/proc/{}/status", self.0);
        let status = fs::read_to_string(path).context("it is gone")?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kib.map(|kib| kib / 1_024.0)
            .with_context(|| format!("/proc/…/status names no {name}"))
    }
}

/// The 14th and 15th field of `/proc/pid/stat`; the second is a name that may hold blanks.
fn cpu_ticks(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |idx: usize| fields.get(idx)?.parse::<f64>().ok();
    Some(ticks(11)? + ticks(12)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "12 (a) b) c) S 1 1 1 0 -1 4194304 90 0 0 0 7 5 0 0 20 0";
        assert_eq!(cpu_ticks(stat), Some(12.0));
        assert_eq!(cpu_ticks("12 a S 1"), None);
        let own = Process(std::process::id());
        assert!(own.cpu_us().unwrap() >= 0.0);
        assert!(own.peak_mib().unwrap() > 0.5 && own.resident_mib().unwrap() > 0.5);
        assert!(Process(u32::MAX).cpu_us().is_err());
    }
}
