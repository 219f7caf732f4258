//! Counts the tests in what test runners print.

/// Whose closing lines to look for.
#[derive(Clone, Copy, PartialEq)]
pub enum Runner {
    /// A step without tests, such as a build.
    None,
    /// `test result: ok. 3 passed; 0 failed; …`, one for each test binary.
    Cargo,
    /// `===== 1 failed, 3 passed in 0.12s =====`; the tests of PHP close in the same way.
    Pytest,
    /// `--- PASS: TestName (0.01s)`, one for each test; those inside another are indented.
    Go,
    /// `# pass 3` and `# fail 0`, or the same after an `ℹ`.
    Node,
}

/// Tests that ran, over all the steps so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed, and steps that failed without naming a test.
    pub failed: u64,
}

impl Tally {
    /// Adds what one line of a runner's output says; most lines say nothing.
    pub fn read(&mut self, runner: Runner, line: &str) {
        match runner {
            Runner::None => {}
            Runner::Cargo => {
                if let Some(result) = line.trim().strip_prefix("test result: ") {
                    self.add_pairs(result);
                }
            }
            Runner::Pytest => {
                let result = line.trim().trim_matches('=').trim();
                if result.contains(" in ") && starts_with_digit(result) {
                    self.add_pairs(result);
                }
            }
            Runner::Go => {
                self.passed += u64::from(line.starts_with("--- PASS: "));
                self.failed += u64::from(line.starts_with("--- FAIL: "));
            }
            Runner::Node => {
                let result = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ "));
                let Some((word, count)) = result.and_then(|result| result.split_once(' ')) else {
                    return;
                };
                let count = count.trim().parse().unwrap_or(0);
                match word {
                    "pass" => self.passed += count,
                    "fail" => self.failed += count,
                    _ => {}
                }
            }
        }
    }

    /// Reads `3 passed` and `1 failed` out of a line, whatever stands around them.
    fn add_pairs(&mut self, result: &str) {
        let words: Vec<&str> = result
            .split([' ', ',', ';'])
            .filter(|word| !word.is_empty())
            .collect();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<u64>() else {
                continue;
            };
            match pair[1] {
                "passed" => self.passed += count,
                // Pytest counts broken set-up and collection apart from failures.
                "failed" | "error" | "errors" => self.failed += count,
                _ => {}
            }
        }
    }
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(runner: Runner, output: &str, passed: u64, failed: u64) {
        let mut tally = Tally::default();
        for line in output.lines() {
            tally.read(runner, line);
        }
        assert_eq!(tally, Tally { passed, failed });
    }

    #[test]
    fn cargo_binaries_are_summed() {
        let output = "\
running 2 tests
test a ... ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: FAILED. 5 passed; 3 failed; 0 ignored; 0 measured; 9 filtered out; finished in 1s";
        check(Runner::Cargo, output, 7, 3);
    }

    #[test]
    fn pytest_says_it_with_and_without_a_frame() {
        check(
            Runner::Pytest,
            "==== 1 failed, 3 passed, 2 warnings in 0.12s ====",
            3,
            1,
        );
        check(Runner::Pytest, "12 passed in 3.40s", 12, 0);
        check(Runner::Pytest, "===== 2 errors in 0.10s =====", 0, 2);
        check(Runner::Pytest, "tests/a.py::test_3 passed in 1s", 0, 0);
    }

    #[test]
    fn node_reports_as_tap_and_as_spec() {
        check(
            Runner::Node,
            "# tests 4\n# pass 3\n# fail 1\n# skipped 0",
            3,
            1,
        );
        check(Runner::Node, "ℹ tests 4\nℹ pass 4\nℹ fail 0", 4, 0);
    }

    #[test]
    fn go_tests_are_counted_without_those_inside_them() {
        let output = "\
=== RUN   TestA
--- PASS: TestA (0.01s)
    --- PASS: TestA/one (0.00s)
--- FAIL: TestB (0.02s)
--- SKIP: TestC (0.00s)
FAIL\ttidemark\t0.1s";
        check(Runner::Go, output, 1, 1);
    }

    #[test]
    fn a_step_without_tests_counts_nothing() {
        check(Runner::None, "test result: ok. 2 passed; 0 failed", 0, 0);
    }
}
