//! The real binary as a child: servers on data directories of their own.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::connection::{Access, Connection};

/// A start takes a fraction of a second; a loaded machine may take a hundred times as long.
const READY_MAX: Duration = Duration::from_secs(30);
/// Finishing what is under way.
const STOP_MAX: Duration = Duration::from_secs(30);
/// How often a starting server is asked: the resolution of the time to its first answer.
const ASK_EVERY: Duration = Duration::from_micros(500);
/// What the kernel counts processor time in, for every program: hundredths of a second
/// (proc(5), `/proc/pid/stat`; `USER_HZ` is 100 on every platform Rust's tier 1 has).
const TICK_US: f64 = 10_000.0;
/// How long a process must do next to nothing to count as settled. Upkeep that goes on in the
/// background pauses for less.
const SETTLE_STEP: Duration = Duration::from_millis(500);
/// Next to nothing: 4 % of one core in that time.
const SETTLED_US: f64 = 20_000.0;

/// A running server. Dropped without [`Live::stop`], it is killed.
pub struct Live {
    child: Child,
    log: PathBuf,
    /// How to reach it.
    pub access: Access,
    /// From just before its process was made to its first answer.
    pub first_answer: Duration,
}

impl Live {
    /// Starts `binary` on the data directory `data`, which is made if absent; waits for its
    /// first answer. Files it needs besides stand next to `data`, named after it.
    ///
    /// # Errors
    /// When it ends, or does not answer within [`READY_MAX`].
    pub fn start(binary: &Path, data: &Path) -> Result<Live> {
        Live::start_with(binary, data, &[])
    }

    /// As [`Live::start`], with these settings beside the defaults.
    ///
    /// # Errors
    /// As [`Live::start`].
    pub fn start_with(binary: &Path, data: &Path, settings: &[&str]) -> Result<Live> {
        let (log, bootstrap) = (data.with_extension("log"), data.with_extension("bootstrap"));
        let output = File::create(&log).with_context(|| log.display().to_string())?;
        let address = free_address()?;
        let mut command = without_surroundings(binary);
        command.args(["serve", "--listen", &address.to_string()]);
        command
            .arg("--data")
            .arg(data)
            .arg("--bootstrap-file")
            .arg(&bootstrap)
            .args(settings);
        command.stdout(output.try_clone()?).stderr(output);
        let start = Instant::now();
        let child = command
            .spawn()
            .with_context(|| format!("{} starts not", binary.display()))?;
        let access = Access {
            address,
            project: String::new(),
            key: String::new(),
        };
        let mut live = Live {
            child,
            log,
            access,
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
        bail!(
            "no answer in {} s; its log ends:\n{}",
            READY_MAX.as_secs(),
            self.log_tail()
        )
    }

    fn read_access(&mut self, bootstrap: &Path) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < READY_MAX {
            let written = fs::read(bootstrap).unwrap_or_default();
            let written: serde_json::Value = serde_json::from_slice(&written).unwrap_or_default();
            let field = |name: &str| written[name].as_str().map(str::to_owned);
            let endpoint = format!("http://{}/v1", self.access.address);
            // The file of an earlier start stands there until this one has written its own.
            if field("endpoint").is_some_and(|told| told == endpoint)
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
        if let Some(status) = self.child.try_wait()? {
            bail!(
                "it ended at start ({status}); its log ends:\n{}",
                self.log_tail()
            );
        }
        Ok(())
    }

    /// Its process.
    pub fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Asks it to end in order, and waits until it has.
    ///
    /// # Errors
    /// When it does not end within [`STOP_MAX`], or not with success.
    pub fn stop(mut self) -> Result<()> {
        // The standard library can only kill.
        let script = format!("kill -TERM {}", self.child.id());
        Command::new("sh")
            .args(["-c", &script])
            .status()
            .context("sh does not start")?;
        let start = Instant::now();
        while start.elapsed() < STOP_MAX {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("it ended badly ({status}):\n{}", self.log_tail()),
                None => std::thread::sleep(ASK_EVERY),
            }
        }
        bail!("it still runs {} s after SIGTERM", STOP_MAX.as_secs())
    }

    /// As [`Live::stop`]; what it has logged.
    ///
    /// # Errors
    /// As [`Live::stop`], and when the log cannot be read.
    pub fn stop_and_tell(self) -> Result<String> {
        let log = self.log.clone();
        self.stop()?;
        fs::read_to_string(&log).with_context(|| log.display().to_string())
    }

    fn log_tail(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // After `stop` both do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `program` without the variables that would set another project, key or limit.
pub fn without_surroundings(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("TIDEMARK_") || text.starts_with("APPWRITE_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// A port nobody listens on. Known beforehand, because a server that says its own port says it
/// some time after its first answer is possible.
///
/// # Errors
/// When the system has none.
pub fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?)
}

/// A process, by its number.
#[derive(Clone, Copy)]
pub struct Process(pub u32);

impl Process {
    /// Processor time it has used so far, user and system, in microseconds; a multiple of 10,000.
    ///
    /// # Errors
    /// When it is gone.
    pub fn cpu_us(self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).context("it is gone")?;
        cpu_ticks(&stat)
            .map(|ticks| ticks * TICK_US)
            .context("/proc/…/stat is not understood")
    }

    /// Processor time that its threads of this name have used so far, in microseconds, to the
    /// nanosecond: a single thread's share of a slice may be a few hundredths of a second.
    ///
    /// # Errors
    /// When there is no such thread, or the kernel counts no times of the scheduler.
    pub fn thread_us(self, name: &str) -> Result<f64> {
        let tasks = format!("/proc/{}/task", self.0);
        let mut times = Vec::new();
        for task in fs::read_dir(tasks).context("it is gone")? {
            let task = task?.path();
            // A thread may end while it is looked at.
            let called = fs::read_to_string(task.join("comm")).unwrap_or_default();
            if called.trim_end() == name {
                let times_ns = fs::read_to_string(task.join("schedstat"))?;
                times.push(run_ns(&times_ns).context("/proc/…/schedstat is not understood")?);
            }
        }
        ensure!(!times.is_empty(), "it has no thread called {name}");
        Ok(times.iter().sum::<f64>() / 1e3)
    }

    /// Itself and its children: all that works for a program which divides its work.
    ///
    /// # Errors
    /// When the list of processes cannot be read.
    pub fn family(self) -> Result<Vec<Process>> {
        let mut family = vec![self];
        for entry in fs::read_dir("/proc")? {
            let entry = entry?;
            let Ok(number) = entry.file_name().to_string_lossy().parse() else {
                continue;
            };
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            if parent(&stat) == Some(self.0) {
                family.push(Process(number));
            }
        }
        Ok(family)
    }

    /// Memory it has in use, in bytes.
    ///
    /// # Errors
    /// When it is gone.
    pub fn resident_bytes(self) -> Result<f64> {
        self.status_bytes("VmRSS")
    }

    /// The most memory it has had in use so far, in bytes.
    ///
    /// # Errors
    /// When it is gone.
    pub fn peak_bytes(self) -> Result<f64> {
        self.status_bytes("VmHWM")
    }

    fn status_bytes(self, name: &str) -> Result<f64> {
        let path = format!("/proc/{}/status", self.0);
        let status = fs::read_to_string(path).context("it is gone")?;
        status_kib(&status, name)
            .map(|kib| kib * 1_024.0)
            .with_context(|| format!("/proc/…/status names no {name}"))
    }

    /// Waits until it does next to nothing, for at most `patience`; says how long that took.
    ///
    /// # Errors
    /// When it is gone.
    pub fn settle(self, patience: Duration) -> Result<Duration> {
        let start = Instant::now();
        while start.elapsed() < patience {
            let before_us = self.cpu_us()?;
            std::thread::sleep(SETTLE_STEP);
            if self.cpu_us()? - before_us <= SETTLED_US {
                break;
            }
        }
        Ok(start.elapsed())
    }
}

/// Fields 14 and 15; the second one, the program's name, may hold spaces and parentheses.
fn cpu_ticks(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let (user, system) = (fields.next()?, fields.next()?);
    Some(user.parse::<f64>().ok()? + system.parse::<f64>().ok()?)
}

/// Field 4.
fn parent(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

/// The first number of `schedstat`: time spent on a processor.
fn run_ns(schedstat: &str) -> Option<f64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

fn status_kib(status: &str, name: &str) -> Option<f64> {
    let mut fields = status.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(field, _)| *field == name)?;
    value.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "17 (a ) b) S 1 17 17 0 -1 4194304 9 0 0 0 250 50 7 7 20 0 3 0 100 1 1";
        assert_eq!(cpu_ticks(stat), Some(300.0));
        assert_eq!(cpu_ticks("17 (a) S 1"), None);
        let own = Process(std::process::id());
        assert!(own.cpu_us().unwrap() >= 0.0);
    }

    #[test]
    fn a_thread_is_found_by_its_name_and_a_child_by_its_parent() {
        let own = Process(std::process::id());
        let worker = std::thread::Builder::new().name("counted".into());
        let (send, wait) = std::sync::mpsc::channel::<()>();
        let worker = worker.spawn(move || wait.recv()).unwrap();
        // A thread names itself when it begins to run.
        while own.thread_us("counted").is_err() {
            std::thread::yield_now();
        }
        assert!(own.thread_us("counted").unwrap() > 0.0);
        assert!(own.thread_us("nobody").is_err());
        drop(send);
        assert!(worker.join().unwrap().is_err());
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let family: Vec<u32> = own
            .family()
            .unwrap()
            .iter()
            .map(|member| member.0)
            .collect();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(
            family.contains(&own.0) && family.contains(&child.id()),
            "{family:?}"
        );
        assert_eq!(parent("17 (a ) b) S 12 17"), Some(12));
        assert_eq!(run_ns("123713484 110157995 301\n"), Some(123_713_484.0));
    }

    #[test]
    fn resident_memory_is_read_in_kib() {
        let status = "VmPeak:\t  900 kB\nVmHWM:\t 700 kB\nVmRSS:\t   512 kB\nRssAnon:\t 1 kB\n";
        let read = ["VmRSS", "VmHWM", "Rss"].map(|name| status_kib(status, name));
        assert_eq!(read, [Some(512.0), Some(700.0), None]);
        let own = Process(std::process::id());
        let (now, peak) = (own.resident_bytes().unwrap(), own.peak_bytes().unwrap());
        assert!(now > 0.0 && peak > 0.0);
    }
}
