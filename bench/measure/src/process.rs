//! Programs as children, and what the kernel says of any process.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::sched_setaffinity;

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

/// What a program and all that descend from it cost, from its beginning on.
pub struct Meter {
    process: ProcessNumber,
    before_us: f64,
}

/// What was measured of it.
#[derive(Clone, Copy, Debug)]
pub struct TreeCost {
    /// Processor time, in microseconds.
    pub cpu_us: f64,
    /// Memory, in MiB: the most of the program itself since its start, and what those that descend
    /// from it hold at the end.
    pub memory_mib: f64,
}

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

impl Meter {
    /// Begins to count.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn begin(process: ProcessNumber) -> Result<Meter> {
        Ok(Meter {
            process,
            before_us: process.tree_cpu_us()?,
        })
    }

    /// What has come together so far.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn cost(&self) -> Result<TreeCost> {
        Ok(TreeCost {
            cpu_us: self.process.tree_cpu_us()? - self.before_us,
            memory_mib: self.process.tree_peak_bytes()? / MIB,
        })
    }
}

impl ProcessNumber {
    /// Processor time it has used so far, user and system, in microseconds; a multiple of 10,000.
    ///
    /// # Errors
    /// When it is gone.
    pub fn cpu_us(self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0)).context("it is gone")?;
        stat_sum(&stat, 2)
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

    /// The cores that it may use.
    ///
    /// # Errors
    /// When it is gone.
    pub fn cores(self) -> Result<Cores> {
        Cores::read(Some(self.pid()?))
    }

    /// Lets it use these cores alone, a process of one thread, with all that it starts from now
    /// on. One that is gone needs none.
    ///
    /// # Errors
    /// When the kernel refuses, as it does for another user's process.
    pub fn bind(self, cores: &Cores) -> Result<()> {
        match sched_setaffinity(Some(self.pid()?), &cores.set()) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => {
                Err(error).with_context(|| format!("process {} cannot be bound to cores", self.0))
            }
        }
    }

    fn pid(self) -> Result<Pid> {
        Pid::from_raw(self.0 as i32).context("0 is no process")
    }

    /// Itself and all that descend from it: what works for a program which divides its work.
    ///
    /// # Errors
    /// When the list of processes cannot be read.
    pub fn tree(self) -> Result<Vec<ProcessNumber>> {
        let mut parents = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let entry = entry?;
            let Ok(number) = entry.file_name().to_string_lossy().parse::<u32>() else {
                continue;
            };
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            parents.extend(parent(&stat).map(|parent| (number, parent)));
        }
        let mut tree = vec![self];
        let mut place = 0;
        while let Some(ProcessNumber(one)) = tree.get(place).copied() {
            let children = parents.iter().filter(|(_, parent)| *parent == one);
            tree.extend(children.map(|(number, _)| ProcessNumber(*number)));
            place += 1;
        }
        Ok(tree)
    }

    /// Processor time that it and all that descend from it have used so far, in microseconds. Those
    /// that have ended count once their parent has waited for them.
    ///
    /// # Errors
    /// When it is gone.
    pub(crate) fn tree_cpu_us(self) -> Result<f64> {
        self.cpu_us()?;
        let used = self.tree()?.into_iter().map(|process| {
            // One that ends meanwhile counts with its parent.
            let stat = fs::read_to_string(format!("/proc/{}/stat", process.0)).unwrap_or_default();
            stat_sum(&stat, 4).unwrap_or_default() * TICK_US
        });
        Ok(used.sum())
    }

    /// The most memory it has had in use so far, and what those that descend from it hold now, in
    /// bytes. Of these, pages that several share count once (`Pss` of proc_pid_smaps(5)).
    ///
    /// # Errors
    /// When it is gone.
    fn tree_peak_bytes(self) -> Result<f64> {
        let descendants = self.tree()?.into_iter().skip(1);
        let held = descendants.filter_map(|process| {
            let rollup = format!("/proc/{}/smaps_rollup", process.0);
            let shared = fs::read_to_string(rollup).ok();
            let shared = shared.and_then(|text| status_kib(&text, "Pss"));
            // Another user's process shows its resident pages alone.
            let resident = || process.resident_bytes().ok();
            shared.map(|kib| kib * 1_024.0).or_else(resident)
        });
        Ok(self.peak_bytes()? + held.sum::<f64>())
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

/// Ticks of processor time, the sum of `count` fields from 14 on: 14 and 15 are its own, user and
/// system, 16 and 17 those of children that were waited for. The second field, the program's name,
/// may hold spaces and parentheses.
fn stat_sum(stat: &str, count: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().skip(11).take(count).collect();
    let ticks = fields.iter().map(|field| field.parse::<f64>());
    let sum = ticks.sum::<Result<f64, _>>().ok()?;
    (fields.len() == count).then_some(sum)
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
    use std::io::{BufRead, BufReader};

    use super::*;

    #[test]
    fn processor_time_is_read_behind_any_name() {
        let stat = "17 (a ) b) S 1 17 17 0 -1 4194304 9 0 0 0 250 50 7 7 20 0 3 0 100 1 1";
        assert_eq!(stat_sum(stat, 2), Some(300.0));
        assert_eq!(stat_sum(stat, 4), Some(314.0));
        assert_eq!(stat_sum("17 (a) S 1", 2), None);
        let own = ProcessNumber(std::process::id());
        assert!(own.cpu_us().unwrap() >= 0.0);
    }

    #[test]
    fn a_thread_is_found_by_its_name() {
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
        assert_eq!(run_ns("123713484 110157995 301\n"), Some(123_713_484.0));
    }

    #[test]
    fn a_tree_holds_grandchildren_and_the_time_of_those_that_ended() {
        assert_eq!(parent("17 (a ) b) S 12 17"), Some(12));
        let burn = "n=0; while [ $n -lt 100000 ]; do n=$((n + 1)); done";
        let script = format!("sh -c '{burn}'; sh -c 'echo ready; sleep 60 & wait'; true");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).stdout(Stdio::piped());
        let mut top = ChildProgram::spawn(&mut command, None).unwrap();
        let output = top.0.stdout.take().unwrap();
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).unwrap();
        let process = top.process();
        // The last shell starts `sleep` after its word.
        while process.tree().unwrap().len() < 3 {
            std::thread::yield_now();
        }
        let [tree, own] = [process.tree_cpu_us(), process.cpu_us()].map(Result::unwrap);
        assert!(tree >= own + TICK_US, "{tree} {own}");
        let [peak, alone] = [process.tree_peak_bytes(), process.peak_bytes()].map(Result::unwrap);
        assert!(peak > alone, "{peak} {alone}");
        for descendant in process.tree().unwrap().into_iter().skip(1) {
            let pid = Pid::from_raw(descendant.0 as i32).unwrap();
            kill_process(pid, Signal::KILL).unwrap();
        }
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
