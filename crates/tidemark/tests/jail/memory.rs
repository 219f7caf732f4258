//! What a warm process holds, next to a bare server of the same language, and what its jail adds.
//!
//! `cargo test --release -p tidemark --test jail memory -- --nocapture` prints the figures; those
//! of the two processes that make the jail are larger in other builds.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use functions::jail::JailLevel;
use functions::{Executor, InstalledRuntimes};
use testing::{ChildServer, ServerLog, serve};

use super::{BINARY, Host, can, run};

/// Of what the bare server holds.
const WARM_PERCENT_MAX: u64 = 125;
/// What the first process of a jail holds at most, next to the server that has started it, which is
/// the same program. Builds without optimisation have more code.
const FIRST_KIB_MAX: Option<u64> = if cfg!(debug_assertions) {
    None
} else {
    Some(3 * 1024)
};
/// An idle process ends within the idle time; the machine may be busy.
const END_MAX: Duration = Duration::from_mins(1);

const NODE_SERVER: &str = "
const server = require('node:http').createServer((req, res) => res.end('{}'))
server.listen(0, '127.0.0.1', () => console.log('ready'))";
const PYTHON_SERVER: &str = "
import asyncio, json, http
async def answer(reader, writer):
    writer.close()
async def main():
    async with await asyncio.start_server(answer, '127.0.0.1', 0) as server:
        print('ready', flush=True)
        await server.serve_forever()
asyncio.run(main())";

/// Pages that several processes share count in part for each (proc_pid_smaps(5)). `None` where
/// this user may not look: the launcher and the first process of a jail give nothing away but to
/// root.
fn proportional_kib(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    Some(kib(&text, "Pss:"))
}

/// As far as the kernel says it, and this user may look.
fn huge_kib(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"));
    text.map_or(0, |text| kib(&text, "AnonHugePages:"))
}

/// Which any user may read. Shared pages count for each.
fn resident_kib(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    kib(&text, "VmRSS:")
}

fn kib(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.trim().strip_suffix("kB"));
    number.unwrap().trim().parse().unwrap()
}

fn child_of(pid: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.trim().parse().expect("one child")
}

/// A server of the interpreter alone, killed when this is dropped.
struct BareServer(Child);

impl BareServer {
    fn start(runtimes: &InstalledRuntimes, language: &str) -> BareServer {
        let mut found = runtimes.found().iter();
        let runtime = found.find(|runtime| runtime.name == language).unwrap();
        let (flag, code) = match language {
            "node" => ("-e", NODE_SERVER),
            _ => ("-c", PYTHON_SERVER),
        };
        let mut command = Command::new(&runtime.program);
        command.args([flag, code]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        BareServer(child)
    }
}

impl Drop for BareServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server of the same program: the executor is in the process of the test, which shares no page
/// of the program with the jail.
fn start_server(host: &Host) -> ChildServer {
    let mut program = Command::new(BINARY);
    program.env_clear();
    let server = serve(program, &host.path("data"));
    ChildServer::start(server, ServerLog::Discarded).unwrap()
}

#[test]
fn memory_of_a_warm_process_is_that_of_its_interpreter() {
    if !can(JailLevel::Full, None) {
        return;
    }
    let host = Host::new();
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let runtimes = InstalledRuntimes::find(&search_path, &[]);
    let mut settings = host.settings(JailLevel::Full);
    settings.idle_max = Duration::from_secs(1);
    let executor = Executor::new(settings, runtimes.clone()).unwrap();
    let _server = start_server(&host);
    let reported = || executor.report();
    let files = [
        (
            "node",
            "warm.js",
            "module.exports = ({ res }) => res.json({})",
        ),
        (
            "python",
            "warm.py",
            "def main(context):\n    return context.res.json({})\n",
        ),
    ];
    let mut passed = Vec::new();
    for (language, file, code) in files {
        fs::write(host.path("code").join(file), code).unwrap();
        let bare = BareServer::start(&runtimes, language);
        for _ in 0..10 {
            let outcome = run(&executor, host.work(&executor, language, file, "/"));
            assert_eq!(outcome.response.status, 200, "{}", outcome.errors);
        }
        let reports = reported();
        let report = reports.iter().find(|report| report.id == file).unwrap();
        let launcher = report.processes[0].pid;
        let first = child_of(launcher);
        let warm = child_of(first);
        let both = [warm, bare.0.id()];
        let status = fs::read_to_string(format!("/proc/{warm}/status")).unwrap();
        // As far as the kernel says it: proc_pid_status(5).
        assert!(!status.contains("THP_enabled:\t0"), "{language}: {status}");
        assert_eq!([launcher, first].map(huge_kib), [0, 0], "{language}");
        let [launcher, first] = [launcher, first].map(proportional_kib);
        if first > FIRST_KIB_MAX && FIRST_KIB_MAX.is_some() {
            passed.push(format!("{language}: first process {first:?} KiB"));
        }
        let ([warm, bare], what) = match both.map(proportional_kib) {
            [Some(warm), Some(bare)] => ([warm, bare], "proportional"),
            _ => (both.map(resident_kib), "resident"),
        };
        eprintln!(
            "{language}, {what}: warm {warm} KiB, bare {bare} KiB, launcher {launcher:?} KiB, \
             first process {first:?} KiB"
        );
        if warm * 100 > bare * WARM_PERCENT_MAX {
            passed.push(format!("{language}: {warm} KiB of {bare} KiB"));
        }
    }
    let begun = Instant::now();
    while reported().iter().any(|report| !report.processes.is_empty()) {
        assert!(
            begun.elapsed() < END_MAX,
            "processes are left: {:?}",
            reported()
        );
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(passed.is_empty(), "over the bars: {passed:?}");
}
