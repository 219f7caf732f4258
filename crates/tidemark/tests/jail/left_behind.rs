//! What a function's process leaves behind, where no namespace ends it.

use std::fs;
use std::time::{Duration, Instant};

use functions::RunCause;
use functions::jail::JailLevel;

use super::{Host, can, is_open, run, turn};

/// Starts a program that asks for a group of its own, and whose parent ends; a chain of processes,
/// each of which starts the next one and ends; or processes that start others as long as they can.
/// Or it ends by itself.
const CODE: &str = "
const { spawnSync } = require('node:child_process')
const start = {
  group: 'unless (fork) { setpgrp(0, 0); exec(\"/bin/sleep\", $ARGV[0]) }',
  chain: 'use POSIX (); exit if fork; while (time < $^T + 120) { my $next = fork; ' +
    'next unless defined $next; POSIX::_exit(0) if $next; setpgrp(0, 0) }',
  bomb: 'exit if fork; while (time < $^T + 120) { setpgrp(0, 0); ' +
    'select(undef, undef, undef, 0.001) unless defined fork }',
}
module.exports = ({ req, res }) => {
  const [, what, seconds] = req.path.split('/')
  if (what === 'end') process.exit(3)
  spawnSync('/usr/bin/perl', ['-e', start[what], seconds], { stdio: 'ignore' })
  return res.empty()
}";
/// Looks in a row that must find none: one may come to a process of a chain when that has ended.
const LOOKS: usize = 100;

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

/// They are killed before the end of their function is reported, and may take a moment to end.
#[track_caller]
fn assert_end(part: &str) {
    let begun = Instant::now();
    while (0..LOOKS).any(|_| living(part) > 0) {
        assert!(begun.elapsed() < Duration::from_mins(1), "`{part}` goes on");
    }
}

/// No other program has this argument, nor one of another run of these tests.
fn mark(digit: usize) -> String {
    format!("{digit}{:07}", std::process::id())
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
    let begin = |what: &str, mark: &str| {
        let outcome = leave(&format!("/{what}/{mark}"));
        assert_eq!(outcome.response.status, 204, "{}", outcome.errors);
        wait_for(mark);
    };
    for (digit, what) in ["group", "chain", "bomb"].into_iter().enumerate() {
        let mark = mark(digit + 1);
        begin(what, &mark);
        let outcome = leave("/end");
        assert_eq!(outcome.cause, RunCause::ProcessEnded, "{}", outcome.errors);
        assert_end(&mark);
    }
    let mark = mark(9);
    begin("chain", &mark);
    executor.shut_down(Duration::ZERO);
    assert_end(&mark);
}
