//! Programs as children, and what the kernel says of any process.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::cores::Cores;

/// Finishing what is under way.
const STOP_MAX: Duration = Duration::from_secs(30);
/// How often an ending program is looked at.
const LOOK_EVERY: Duration = Duration::from_micros(500);
/// What the kernel counts processor time in, for every program: hundredths of a second
/// (proc(5), `/proc/pid/stat`; `USER_HZ` is 100 on every platform Rust's tier 1 has).
const TICK_US: f64 = 10_000.0;
/// How long a process must do next to nothing to count as settled. Upkeep that goes on in the
/// background pauses for less.
const SETTLE_STEP: Duration = Duration::from_millis(500);
/// Next to nothing: 4 % of one core in that time.
const SETTLED_US: f64 = 20_000.0;
/// Bytes of a MiB.
pub const MIB: f64 = 1_048_576.0;

/// A process, by its number.
#[derive(Clone, Copy, Debug)]
pub struct ProcessNumber(pub u32);

/// A running child, killed when dropped.
pub struct ChildProgram(pub Child);

/// `program` with no variable at all.
pub fn cleared(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null());
    command
}

impl ChildProgram {
    /// Starts it on these cores alone, or on those of this program.
    ///
    /// # Errors
    /// When it does not start, or the kernel refuses the cores.
    pub fn spawn(command: &mut Command, cores: Option<&Cores>) -> Result<ChildProgram> {
        if let Some(cores) = cores {
            return Ok(ChildProgram(cores.spawn(command)?));
        }
        let started = command.spawn();
        let failed = || format!("{} does not start", command.get_program().display());
        Ok(ChildProgram(started.with_context(failed)?))
    }

    /// Its process.
    pub fn process(&self) -> ProcessNumber {
        ProcessNumber(self.0.id())
    }

    /// # Errors
    /// When it has ended, or is gone; `log` is what it said.
    pub fn fail_if_ended(&mut self, log: impl FnOnce() -> String) -> Result<()> {
        match self.0.try_wait()? {
            Some(status) => bail!("it ended at start ({status}); its log ends:\n{}", log()),
            None => Ok(()),
        }
    }

    /// Asks it to end in order.
    ///
    /// # Errors
    /// When it is gone.
    pub fn terminate(&self) -> Result<()> {
        let pid = Pid::from_raw(self.0.id() as i32).context("it has no number")?;
        kill_process(pid, Signal::TERM).context("it is gone")
    }

    /// Asks it to end in order, and waits until it has.
    ///
    /// # Errors
    /// When it does not end within [`STOP_MAX`], or not with success; `log` is what it said.
    pub fn stop(&mut self, log: impl FnOnce() -> String) -> Result<()> {
        self.terminate()?;
        let start = Instant::now();
        while start.elapsed() < STOP_MAX {
            match self.0.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("it ended badly ({status}):\n{}", log()),
                None => std::thread::sleep(LOOK_EVERY),
            }
        }
        bail!("it still runs {} s after SIGTERM", STOP_MAX.as_secs())
    }
}

impl Drop for ChildProgram {
    fn drop(&mut self) {
        // After `stop` both do nothing.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl ProcessNumber {
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
    pub fn family(self) -> Result<Vec<ProcessNumber>> {
        let mut family = vec![self];
        for entry in fs::read_dir("/proc")? {
            let entry = entry?;
            let Ok(number) = entry.file_name().to_string_lossy().parse() else {
                continue;
            };
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            if parent(&stat) == Some(self.0) {
                family.push(ProcessNumber(number));
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

    /// The most memory it has had in use so far, or since [`ProcessNumber::forget_peak`], in bytes.
    ///
    /// # Errors
    /// When it is gone.
    pub fn peak_bytes(self) -> Result<f64> {
        self.status_bytes("VmHWM")
    }

    /// Lets the most it has had in use begin at what it has now (proc(5), `/proc/pid/clear_refs`).
    ///
    /// # Errors
    /// When it is gone, or the kernel was built without this.
    pub fn forget_peak(self) -> Result<()> {
        let path = format!("/proc/{}/clear_refs", self.0);
        fs::write(&path, "5").with_context(|| path)
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
        let own = ProcessNumber(std::process::id());
        assert!(own.cpu_us().unwrap() >= 0.0);
    }

    #[test]
    fn a_thread_is_found_by_its_name_and_a_child_by_its_parent() {
        let own = ProcessNumber(std::process::id());
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
        let own = ProcessNumber(std::process::id());
        let (now, peak) = (own.resident_bytes().unwrap(), own.peak_bytes().unwrap());
        assert!(now > 0.0 && peak > 0.0);
    }
}
