//! A spare process is shut in as any other, and out of reach of the one that works.

use std::fs;
use std::time::{Duration, Instant};

use functions::Executor;
use functions::jail::JailLevel;
use serde_json::Value;

use super::{Host, InstalledRuntimes, LANGUAGES, can, check_common, run, turn};

/// The machine may be busy.
const PATIENCE: Duration = Duration::from_mins(1);

/// Tells what it finds in its jail, leaves something there, and kills whatever it can.
const PYTHON: &str = "
import json, os, signal, time
time.sleep(0.3)

def main(context):
    others = [int(name) for name in os.listdir('/proc') if name.isdigit()]
    others = [pid for pid in others if pid != os.getpid()]
    def attempt(action):
        try:
            action()
            return 'done'
        except OSError as error:
            return type(error).__name__
    found = {
        'left': os.listdir('/tmp'),
        'others': others,
        'kill all': attempt(lambda: os.kill(-1, signal.SIGKILL)),
        'memory': [attempt(lambda: open(f'/proc/{pid}/mem', 'r+b')) for pid in others],
    }
    open('/tmp/left', 'w').write('by an earlier run')
    if context.req.path == '/exit':
        os._exit(3)
    return context.res.text(json.dumps(found))
";
const NODE: &str = "
const fs = require('node:fs')
Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300)

module.exports = ({ req, res }) => {
  const pids = fs.readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name)).map(Number)
  const others = pids.filter((pid) => pid !== process.pid)
  const attempt = (action) => {
    try {
      action()
      return 'done'
    } catch (error) {
      return error.code
    }
  }
  const found = {
    left: fs.readdirSync('/tmp'),
    others,
    'kill all': attempt(() => process.kill(-1, 'SIGKILL')),
    memory: others.map((pid) => attempt(() => fs.openSync(`/proc/${pid}/mem`, 'r+'))),
  }
  fs.writeFileSync('/tmp/left', 'by an earlier run')
  if (req.path === '/exit') process.exit(3)
  return res.text(JSON.stringify(found))
}
";

fn executor(host: &Host) -> Executor {
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let mut settings = host.settings(JailLevel::Full);
    settings.spare_idle_max = PATIENCE;
    Executor::new(settings, InstalledRuntimes::find(&search_path, &[])).unwrap()
}

/// The process id of the one spare, once its code is loaded.
#[track_caller]
fn spare(executor: &Executor) -> u32 {
    let begun = Instant::now();
    loop {
        let reports = executor.report();
        let mut processes = reports.iter().flat_map(|report| &report.processes);
        if let Some(spare) = processes.find(|process| process.is_spare && process.is_ready) {
            return spare.pid;
        }
        assert!(begun.elapsed() < PATIENCE, "{reports:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn spare_is_out_of_reach_of_a_hostile_handler() {
    if !can(JailLevel::Full, None) {
        return;
    }
    for (language, ending) in LANGUAGES {
        let host = Host::new();
        let executor = executor(&host);
        let file = format!("searching.{ending}");
        let code = if language == "node" { NODE } else { PYTHON };
        fs::write(host.path("code").join(&file), code).unwrap();
        let ask = |path| run(&executor, host.work(&executor, language, &file, path));
        for start in 0..3 {
            let kept = (start > 0).then(|| spare(&executor));
            let outcome = ask("/");
            assert_eq!(outcome.is_cold, start == 0, "{language}");
            let body = &outcome.response.body;
            let found: Value = serde_json::from_slice(body)
                .unwrap_or_else(|_| panic!("{language}: {}", outcome.errors));
            // Nothing of the run before, though each leaves a file.
            assert_eq!(found["left"], serde_json::json!([]), "{language}");
            // The first process of its own jail is all that it sees beside itself.
            assert_eq!(found["others"], serde_json::json!([1]), "{language}");
            assert_ne!(found["memory"][0], "done", "{language}: {found}");
            let next = spare(&executor);
            assert_ne!(kept, Some(next), "{language}");
            assert_eq!(ask("/exit").response.status, 500, "{language}");
            assert_eq!(spare(&executor), next, "{language}: it was ended");
        }
    }
}

#[test]
fn spare_has_the_fences_of_any_process() {
    let _turn = turn();
    if !can(JailLevel::Full, None) {
        return;
    }
    for (language, ending) in LANGUAGES {
        let host = Host::new();
        let executor = executor(&host);
        let escape = host.path("code").join(format!("escape.{ending}"));
        let waits = match language {
            "node" => "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300)\n",
            _ => "__import__('time').sleep(0.3)\n",
        };
        let code = waits.to_owned() + &fs::read_to_string(&escape).unwrap();
        fs::write(&escape, code).unwrap();
        let file = format!("escape.{ending}");
        // A path that it does not know: nothing is tried, and its code is loaded.
        run(&executor, host.work(&executor, language, &file, "/nothing"));
        spare(&executor);
        executor_ends_its_first(&executor);
        let outcome = run(&executor, host.work(&executor, language, &file, "/full"));
        assert_eq!(
            outcome.response.status, 200,
            "{language}: {}",
            outcome.errors
        );
        assert!(!outcome.is_cold, "{language}");
        let found: Value = serde_json::from_slice(&outcome.response.body).unwrap();
        check_common(language, &found);
        assert_eq!(found["fill"], "ENOSPC", "{language}");
        assert_eq!(found["processes"], true, "{language}");
    }
}

/// Kills the process that works, and waits until it is gone.
fn executor_ends_its_first(executor: &Executor) {
    let working = || {
        let reports = executor.report();
        let mut processes = reports.into_iter().flat_map(|report| report.processes);
        processes
            .find(|process| !process.is_spare)
            .map(|process| process.pid)
    };
    let first = working().unwrap();
    let pid = rustix::process::Pid::from_raw(first as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let begun = Instant::now();
    while working() == Some(first) {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(10));
    }
}
