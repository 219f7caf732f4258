//! Processes that leave the group of a function's process, where no namespace ends them.

use std::fs;
use std::time::{Duration, Instant};

use functions::RunCause;
use functions::jail::JailLevel;

use super::{Host, can, is_open, run, turn};

/// Starts a program in a group of its own, whose parent ends; or ends by itself. In Node, which is
/// where others may enter it.
const CODE: &str = "
const { spawnSync } = require('node:child_process')
const leave = 'unless (fork) { setpgrp(0, 0); exec(\"/bin/sleep\", $ARGV[0]) }'
module.exports = ({ req, res }) => {
  const seconds = req.path.slice(1)
  if (seconds === 'end') process.exit(3)
  spawnSync('/usr/bin/perl', ['-e', leave, seconds], { stdio: 'ignore' })
  return res.empty()
}";

/// Processes that have not ended, whose command line holds a text.
fn living(part: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let has_part = |process: &fs::DirEntry| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(part)
    };
    processes.filter(has_part).count()
}

#[track_caller]
fn wait_for(part: &str) {
    let begun = Instant::now();
    while living(part) == 0 {
        assert!(
            begun.elapsed() < Duration::from_mins(1),
            "no process `{part}`"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn reduced_jail_leaves_no_process_behind() {
    let _turn = turn();
    if !can(JailLevel::Reduced, None) {
        return;
    }
    let host = Host::new();
    fs::write(host.path("code/leaves.js"), CODE).unwrap();
    let executor = host.executor(JailLevel::Reduced);
    if !is_open(&executor, "node") {
        eprintln!("skipped: Node stands in a folder that others may not enter");
        return;
    }
    let leave = |path: &str| run(&executor, host.work(&executor, "node", "leaves.js", path));
    // No other program sleeps so long, nor one of another run of this test.
    let seconds = |digit: u32| format!("{digit}{:07}", std::process::id());
    let [first, second] = [1, 2].map(seconds);
    let outcome = leave(&format!("/{first}"));
    assert_eq!(outcome.response.status, 204, "{}", outcome.errors);
    wait_for(&first);
    let outcome = leave("/end");
    assert_eq!(outcome.cause, RunCause::ProcessEnded, "{}", outcome.errors);
    assert_eq!(living(&first), 0, "its process ended by itself");
    let outcome = leave(&format!("/{second}"));
    assert_eq!(outcome.response.status, 204, "{}", outcome.errors);
    wait_for(&second);
    executor.shut_down(Duration::ZERO);
    assert_eq!(living(&second), 0, "its process was killed");
}
