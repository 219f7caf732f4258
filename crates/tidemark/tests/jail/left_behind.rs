//! Processes that leave the group of a function's process, where no namespace ends them.

use std::fs;
use std::time::Duration;

use functions::RunCause;
use functions::jail::JailLevel;

use super::{Host, can, is_open, run, turn};

/// Starts a program in a group of its own, whose parent ends, and goes on or ends by itself.
const CODE: &str = "
import os

def main(context):
    path, seconds = context.req.path, context.req.query['seconds']
    ends, held = os.pipe()
    if os.fork() == 0:
        os.setpgid(0, 0)
        if os.fork() == 0:
            os.execv('/bin/sleep', ['sleep', seconds])
        os._exit(0)
    os.close(held)
    os.wait()
    os.read(ends, 1)  # The program closes the other end when it begins.
    if path == '/end':
        os._exit(3)
    return context.res.empty()
";

/// Processes that have not ended, whose command line holds a text.
fn living(part: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let has_part = |process: &fs::DirEntry| {
        let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(part)
    };
    processes.filter(has_part).count()
}

#[test]
fn reduced_jail_leaves_no_process_behind() {
    let _turn = turn();
    if !can(JailLevel::Reduced, None) {
        return;
    }
    let host = Host::new();
    fs::write(host.path("code/leaves.py"), CODE).unwrap();
    let executor = host.executor(JailLevel::Reduced);
    if !is_open(&executor, "python") {
        eprintln!("skipped: Python stands in a folder that others may not enter");
        return;
    }
    let leave = |path: &str| run(&executor, host.work(&executor, "python", "leaves.py", path));
    // No other program sleeps so long.
    let outcome = leave("/stay?seconds=54322");
    assert_eq!(outcome.response.status, 204, "{}", outcome.errors);
    assert!(living("54322") > 0, "while its process is there");
    // Its run ends once all has ended.
    let outcome = leave("/end?seconds=54323");
    assert_eq!(outcome.cause, RunCause::ProcessEnded, "{}", outcome.errors);
    assert_eq!(
        (living("54322"), living("54323")),
        (0, 0),
        "it ended by itself"
    );
    let outcome = leave("/stay?seconds=54324");
    assert_eq!(outcome.response.status, 204, "{}", outcome.errors);
    assert!(living("54324") > 0);
    executor.shut_down(Duration::ZERO);
    assert_eq!(living("54324"), 0, "it was killed");
}
