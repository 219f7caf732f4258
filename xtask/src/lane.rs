//! A lane: steps run one after the other, each with its seconds, and one closing line.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::failures::Failures;
use crate::tally::{Runner, Tally};

/// Tests with a long size read this; `night` is its only value.
pub const LANE_VARIABLE: &str = "TIDEMARK_LANE";

/// How a step ended.
#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Passed,
    Failed,
    /// Not started, because a step it builds on failed. Counts as a failure.
    NotRun,
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
}

impl Lane {
    /// Runs one command; counts its tests when `runner` can be read. True when it succeeded.
    pub fn run(&mut self, name: &str, runner: Runner, command: &mut Command) -> bool {
        self.step_with_failures(name, |tally, failures| {
            if runner == Runner::None {
                let status = command.status();
                let program = command.get_program().to_string_lossy();
                return Ok(status
                    .with_context(|| format!("{program} does not start"))?
                    .success());
            }
            let before = *tally;
            let passed = run_counting(runner, command, tally, failures)?;
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

    fn step_with_failures(
        &mut self,
        name: &str,
        act: impl FnOnce(&mut Tally, &mut Failures) -> Result<bool>,
    ) -> bool {
        println!("\n== {name}");
        let mut failures = Failures::default();
        let start = Instant::now();
        let failed_before = self.tally.failed;
        let passed = act(&mut self.tally, &mut failures).unwrap_or_else(|error| {
            eprintln!("error: {error:#}");
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
        println!("\n== {name}");
        self.tally.failed += 1;
        self.close(name, Outcome::NotRun, 0.0, Failures::default());
    }

    fn close(&mut self, name: &str, outcome: Outcome, seconds: f64, failures: Failures) {
        let done = Done {
            name: name.to_owned(),
            outcome,
            seconds,
            failures,
        };
        println!("== {}", describe(&done));
        self.done.push(done);
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
    };
    format!("{:>7.1} s  {}: {word}", done.seconds, done.name)
}

/// Passes the command's output on line by line while counting; standard error goes straight
/// through.
fn run_counting(
    runner: Runner,
    command: &mut Command,
    tally: &mut Tally,
    failures: &mut Failures,
) -> Result<bool> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{program} does not start"))?;
    let output = child
        .stdout
        .take()
        .expect("stdout was piped two lines above");
    let mut reader = BufReader::new(output);
    let mut line = Vec::new();
    // Bytes until here, as a test may print anything.
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        tally.read(runner, text.trim_end());
        failures.read(runner, text.trim_end());
        line.clear();
    }
    Ok(child.wait()?.success())
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
}
