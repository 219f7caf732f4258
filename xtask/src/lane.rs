//! A lane: steps run one after the other, or two rows of them at once, each with its seconds, and
//! one closing line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::panic;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::failures::Failures;
use crate::tally::{Runner, Tally};

/// Tests with a long size read this; `night` is its only value.
pub const LANE_VARIABLE: &str = "TIDEMARK_LANE";

/// How long a command goes without a line before it is looked at.
const TICK: Duration = Duration::from_millis(250);
/// How long output is read after the command has ended: a process that it left behind may hold
/// its standard output open for ever.
const DRAIN: Duration = Duration::from_secs(5);

/// How a step ended.
#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Passed,
    Failed,
    /// Not started, because a step it builds on failed. Counts as a failure.
    NotRun,
    /// Not started, because the lane's time was over. Counts as a failure.
    TooLate,
}

struct Done {
    name: String,
    outcome: Outcome,
    seconds: f64,
    failures: Failures,
}

/// The steps run so far. A failing step does not stop the lane: whoever waits for CI wants to
/// see everything that is wrong at once.
#[derive(Default)]
pub struct Lane {
    done: Vec<Done>,
    tally: Tally,
    /// When it stops what runs and starts nothing more; never if there is none.
    deadline: Option<Instant>,
    /// Takes what the steps print, in place of the terminal.
    log: Option<Arc<File>>,
}

impl Lane {
    /// A lane that ends by itself: a step that hangs is named, and what ran before it is shown,
    /// where CI would end it from outside and show neither.
    pub fn within(time: Duration) -> Lane {
        Lane {
            deadline: Some(Instant::now() + time),
            ..Lane::default()
        }
    }

    /// Runs one command; counts its tests when `runner` can be read. True when it succeeded.
    pub fn run(&mut self, name: &str, runner: Runner, command: &mut Command) -> bool {
        let (deadline, log) = (self.deadline, self.log.clone());
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.leave_out(name, Outcome::TooLate);
            return false;
        }
        self.step_with_failures(name, |tally, failures| {
            if let Some(log) = &log {
                command.stdout(log.try_clone()?).stderr(log.try_clone()?);
            }
            if runner == Runner::None {
                return run_silent(command, deadline);
            }
            let before = *tally;
            let passed = run_counting(command, deadline, |line| {
                print_to(log.as_deref(), line);
                let line = line.trim_end();
                tally.read(runner, line);
                failures.read(runner, line);
            })?;
            if passed && *tally == before {
                bail!("it ended well but ran no test");
            }
            Ok(passed)
        })
    }

    /// Runs one step inside this process; the tally it is given is the whole lane's.
    pub fn step(&mut self, name: &str, act: impl FnOnce(&mut Tally) -> Result<bool>) -> bool {
        self.step_with_failures(name, |tally, _| act(tally))
    }

    /// Runs two rows of steps at once, each in its order. What the second one prints goes to `log`
    /// and is shown when both have ended.
    ///
    /// # Errors
    /// Those of either; when the log cannot be written.
    pub fn beside(
        &mut self,
        log: &Path,
        first: impl FnOnce(&mut Lane) -> Result<()>,
        second: impl FnOnce(&mut Lane) -> Result<()> + Send,
    ) -> Result<()> {
        let file = File::create(log).with_context(|| log.display().to_string())?;
        let mut other = Lane {
            deadline: self.deadline,
            log: Some(Arc::new(file)),
            ..Lane::default()
        };
        let (first, second) = thread::scope(|scope| {
            let second = scope.spawn(|| second(&mut other));
            (first(self), second.join())
        });
        io::copy(&mut File::open(log)?, &mut io::stdout())?;
        self.tally.passed += other.tally.passed;
        self.tally.failed += other.tally.failed;
        self.done.append(&mut other.done);
        first?;
        second.unwrap_or_else(|panic| panic::resume_unwind(panic))
    }

    fn step_with_failures(
        &mut self,
        name: &str,
        act: impl FnOnce(&mut Tally, &mut Failures) -> Result<bool>,
    ) -> bool {
        self.print(&format!("\n== {name}\n"));
        let mut failures = Failures::default();
        let start = Instant::now();
        let failed_before = self.tally.failed;
        let passed = act(&mut self.tally, &mut failures).unwrap_or_else(|error| {
            self.print(&format!("error: {error:#}\n"));
            false
        });
        if !passed && self.tally.failed == failed_before {
            // A build or a linter names no test, yet the closing line must not say "0 failed".
            self.tally.failed += 1;
        }
        let outcome = if passed {
            Outcome::Passed
        } else {
            Outcome::Failed
        };
        self.close(name, outcome, start.elapsed().as_secs_f64(), failures);
        passed
    }

    /// Records a step that could not be tried, so that its absence is seen.
    pub fn not_run(&mut self, name: &str) {
        self.leave_out(name, Outcome::NotRun);
    }

    fn leave_out(&mut self, name: &str, outcome: Outcome) {
        self.print(&format!("\n== {name}\n"));
        self.tally.failed += 1;
        self.close(name, outcome, 0.0, Failures::default());
    }

    fn close(&mut self, name: &str, outcome: Outcome, seconds: f64, failures: Failures) {
        let done = Done {
            name: name.to_owned(),
            outcome,
            seconds,
            failures,
        };
        self.print(&format!("== {}\n", describe(&done)));
        self.done.push(done);
    }

    fn print(&self, text: &str) {
        print_to(self.log.as_deref(), text);
    }

    /// Prints what failed, the table of steps and, last, `N passed, N failed`.
    pub fn finish(self) -> ExitCode {
        for done in self.done.iter().filter(|done| !done.failures.is_empty()) {
            println!("\n{} failed in:", done.name);
            done.failures.print();
        }
        println!();
        for done in &self.done {
            println!("{}", describe(done));
        }
        println!("{} passed, {} failed", self.tally.passed, self.tally.failed);
        let well = self.tally.failed == 0 && self.done.iter().all(|d| d.outcome == Outcome::Passed);
        if well {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

fn describe(done: &Done) -> String {
    let word = match done.outcome {
        Outcome::Passed => "ok",
        Outcome::Failed => "FAILED",
        Outcome::NotRun => "NOT RUN (a step it needs failed)",
        Outcome::TooLate => "NOT RUN (the time of all steps was over)",
    };
    format!("{:>7.1} s  {}: {word}", done.seconds, done.name)
}

/// A log that takes no more is on a disk that has other troubles: the step goes on.
fn print_to(log: Option<&File>, text: &str) {
    match log {
        Some(mut log) => {
            let _ = log.write_all(text.as_bytes());
        }
        None => print!("{text}"),
    }
}

fn start(command: &mut Command) -> Result<Child> {
    let program = command.get_program().to_string_lossy().into_owned();
    command
        .spawn()
        .with_context(|| format!("{program} does not start"))
}

/// Runs a command whose output nobody reads.
fn run_silent(command: &mut Command, deadline: Option<Instant>) -> Result<bool> {
    let mut child = start(command)?;
    if deadline.is_none() {
        return Ok(child.wait()?.success());
    }
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        stop_if_late(&mut child, deadline)?;
        thread::sleep(TICK);
    }
}

/// Passes the command's output on to `read`, line by line, each with its end; standard error goes
/// straight through.
fn run_counting(
    command: &mut Command,
    deadline: Option<Instant>,
    mut read: impl FnMut(&str),
) -> Result<bool> {
    let mut child = start(command.stdout(Stdio::piped()))?;
    let output = child.stdout.take();
    let lines = lines_of(output.expect("stdout was piped two lines above"));
    let mut ended = None;
    loop {
        match lines.recv_timeout(TICK) {
            Ok(line) => {
                // A test may print anything.
                read(&String::from_utf8_lossy(&line));
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {}
        }
        stop_if_late(&mut child, deadline)?;
        if ended.is_none() && child.try_wait()?.is_some() {
            ended = Some(Instant::now());
        }
        if ended.is_some_and(|ended| ended.elapsed() >= DRAIN) {
            eprintln!("warning: it ended, and left a process behind that holds its output");
            break;
        }
    }
    Ok(child.wait()?.success())
}

/// The lines of an output, each with its end, read by a thread that ends with it.
fn lines_of(output: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::sync_channel(1024);
    thread::spawn(move || {
        let mut reader = BufReader::new(output);
        loop {
            let mut line = Vec::new();
            match reader.read_until(b'\n', &mut line) {
                Ok(1..) if sender.send(line).is_ok() => {}
                _ => return,
            }
        }
    });
    receiver
}

/// # Errors
/// When the time is over; the command has ended then. What it started may go on.
fn stop_if_late(child: &mut Child, deadline: Option<Instant>) -> Result<()> {
    if deadline.is_none_or(|deadline| Instant::now() < deadline) {
        return Ok(());
    }
    child.kill()?;
    child.wait()?;
    bail!("it was stopped: the time of all steps is over");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn tests_are_counted_from_the_output() {
        let mut lane = Lane::default();
        let script = "echo 'test result: ok. 4 passed; 0 failed;'";
        assert!(lane.run("suite", Runner::Cargo, &mut shell(script)));
        assert_eq!(
            lane.tally,
            Tally {
                passed: 4,
                failed: 0
            }
        );
        assert_eq!(lane.finish(), ExitCode::SUCCESS);
    }

    #[test]
    fn a_failing_step_without_tests_counts_as_one_failure() {
        let mut lane = Lane::default();
        assert!(!lane.run("build", Runner::None, &mut shell("exit 3")));
        assert!(lane.run("next", Runner::None, &mut shell("exit 0")));
        assert_eq!(
            lane.tally,
            Tally {
                passed: 0,
                failed: 1
            }
        );
        assert_eq!(lane.finish(), ExitCode::FAILURE);
    }

    #[test]
    fn failed_tests_are_not_counted_twice() {
        let mut lane = Lane::default();
        let script = "echo 'test result: FAILED. 4 passed; 2 failed;'; exit 1";
        lane.run("suite", Runner::Cargo, &mut shell(script));
        assert_eq!(
            lane.tally,
            Tally {
                passed: 4,
                failed: 2
            }
        );
    }

    #[test]
    fn a_suite_that_runs_no_test_fails() {
        let mut lane = Lane::default();
        assert!(!lane.run(
            "suite",
            Runner::Pytest,
            &mut shell("echo no tests ran in 0.01s")
        ));
        assert_eq!(
            lane.tally,
            Tally {
                passed: 0,
                failed: 1
            }
        );
    }

    #[test]
    fn a_program_that_is_absent_fails_the_step() {
        let mut lane = Lane::default();
        let mut absent = Command::new("no-program-has-this-name");
        assert!(!lane.run("absent", Runner::Node, &mut absent));
        lane.not_run("what follows");
        assert_eq!(
            lane.tally,
            Tally {
                passed: 0,
                failed: 2
            }
        );
    }
    #[test]
    fn a_step_ends_though_a_process_it_left_behind_holds_its_output() {
        let mut lane = Lane::default();
        let script = "sleep 600 & echo $! >&2; echo 'test result: ok. 4 passed; 0 failed;'";
        let mut command = shell(script);
        let (reader, writer) = std::io::pipe().unwrap();
        assert!(lane.run("suite", Runner::Cargo, command.stderr(writer)));
        let mut pid = String::new();
        BufReader::new(reader).read_line(&mut pid).unwrap();
        assert!(shell(&format!("kill {pid}")).status().unwrap().success());
        assert_eq!(lane.tally.passed, 4);
    }

    #[test]
    fn rows_beside_each_other_are_one_lane() {
        let mut lane = Lane::default();
        let log = std::env::temp_dir().join(format!("xtask-lane-{}", std::process::id()));
        // Each ends only when the other has begun.
        let (reader, writer) = io::pipe().unwrap();
        let mut reads = shell("read line; echo \"test result: ok. 4 passed; $line failed;\"");
        reads.stdin(reader);
        let mut prints = shell("echo 2; echo to the log >&2");
        prints.stdout(writer);
        let rows = lane.beside(
            &log,
            |lane| {
                lane.run("reads", Runner::Cargo, &mut reads);
                Ok(())
            },
            |lane| {
                let said = shell("echo 1 passed in 1s; echo to the log >&2");
                lane.run("says", Runner::Pytest, &mut { said });
                lane.step("prints", |_| Ok(prints.status()?.success()));
                lane.not_run("others");
                Ok(())
            },
        );
        rows.unwrap();
        let logged = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(&log).unwrap();
        let expected = [
            "== says",
            "1 passed in 1s",
            "to the log",
            "== prints",
            "== others",
        ];
        assert!(
            expected.iter().all(|line| logged.contains(line)),
            "{logged}"
        );
        let tally = Tally {
            passed: 5,
            failed: 3,
        };
        assert_eq!(lane.tally, tally);
        let names: Vec<&str> = lane.done.iter().map(|done| &*done.name).collect();
        assert_eq!(names, ["reads", "says", "prints", "others"]);
        assert_eq!(lane.finish(), ExitCode::FAILURE);
    }

    #[test]
    fn a_step_that_hangs_ends_with_the_time_of_its_lane() {
        let mut lane = Lane::within(Duration::from_millis(10));
        let hangs = "echo 'test result: ok. 4 passed; 0 failed;'; exec sleep 600";
        assert!(!lane.run("suite", Runner::Cargo, &mut shell(hangs)));
        assert!(!lane.run("build", Runner::None, &mut shell("exit 0")));
        assert!(lane.done[1].outcome == Outcome::TooLate);
        assert_eq!(lane.finish(), ExitCode::FAILURE);
    }

    #[test]
    fn a_build_that_hangs_ends_with_the_time_of_its_lane() {
        let mut lane = Lane::within(Duration::from_millis(10));
        assert!(!lane.run("build", Runner::None, &mut shell("exec sleep 600")));
        assert_eq!(lane.finish(), ExitCode::FAILURE);
    }
}
