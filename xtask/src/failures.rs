//! What a lane repeats at its end: which tests failed, and why.
//!
//! The log of CI is cut to its last pages, and a failure of an early step stands far above them.

use crate::tally::Runner;

/// Most lines that are kept of one step; a panic with its backtrace is some 20.
const LINES_MAX: usize = 60;

/// The failures in one step's output, as lines to print again.
#[derive(Default)]
pub struct Failures {
    lines: Vec<String>,
    /// True within Cargo's section of what the failed tests printed.
    in_section: bool,
    left_out: usize,
}

impl Failures {
    /// Keeps one line of a runner's output if it tells of a failure.
    pub fn read(&mut self, runner: Runner, line: &str) {
        let keep = match runner {
            Runner::None => false,
            Runner::Cargo => self.is_in_section_of_cargo(line),
            Runner::Pytest => line.starts_with("FAILED ") || line.starts_with("ERROR "),
            Runner::Go => line.trim_start().starts_with("--- FAIL: "),
            Runner::Node => {
                let line = line.trim_start();
                line.starts_with("not ok ") || line.starts_with("✖ ")
            }
        };
        if !keep || line.is_empty() {
            return;
        }
        if self.lines.len() < LINES_MAX {
            self.lines.push(line.to_owned());
        } else {
            self.left_out += 1;
        }
    }

    /// Cargo prints `failures:`, the output of each failed test, `failures:` and their names; the
    /// line with the result ends both.
    fn is_in_section_of_cargo(&mut self, line: &str) -> bool {
        if line == "failures:" {
            self.in_section = true;
            return false;
        }
        self.in_section &= !line.starts_with("test result: ");
        self.in_section
    }

    /// True when nothing was kept.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Prints what was kept, indented.
    pub fn print(&self) {
        for line in &self.lines {
            println!("    {line}");
        }
        if self.left_out > 0 {
            println!("    … {} more lines above", self.left_out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(runner: Runner, output: &str) -> Vec<String> {
        let mut failures = Failures::default();
        for line in output.lines() {
            failures.read(runner, line);
        }
        failures.lines
    }

    #[test]
    fn cargo_failures_are_kept_with_their_message() {
        let output = "\
test a ... ok
test b ... FAILED

failures:

---- b stdout ----
thread 'b' panicked at src/b.rs:3:5:
3 is not 4

failures:
    b

test result: FAILED. 1 passed; 1 failed; 0 ignored
     Running tests/next.rs
test c ... ok";
        let expected = [
            "---- b stdout ----",
            "thread 'b' panicked at src/b.rs:3:5:",
            "3 is not 4",
            "    b",
        ];
        assert_eq!(kept(Runner::Cargo, output), expected);
    }

    #[test]
    fn names_of_failed_tests_are_kept_for_every_runner() {
        let pytest = "a.py .F\nFAILED a.py::test_b - assert 1 == 2\n1 failed in 0.1s";
        assert_eq!(
            kept(Runner::Pytest, pytest),
            ["FAILED a.py::test_b - assert 1 == 2"]
        );
        let node = "ok 1 - a\nnot ok 2 - b\n# fail 1";
        assert_eq!(kept(Runner::Node, node), ["not ok 2 - b"]);
        let go = "--- PASS: TestA (0.01s)\n--- FAIL: TestB (0.02s)";
        assert_eq!(kept(Runner::Go, go), ["--- FAIL: TestB (0.02s)"]);
    }

    #[test]
    fn lines_are_bounded() {
        let mut failures = Failures::default();
        for _ in 0..LINES_MAX + 5 {
            failures.read(Runner::Node, "not ok 1 - a");
        }
        assert_eq!((failures.lines.len(), failures.left_out), (LINES_MAX, 5));
    }
}
