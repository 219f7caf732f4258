//! What is seen of functions from outside: metrics, and `tidemark top`.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use testing::Credentials;

use super::fixture::{BINARY, Host, NODE, PYTHON, can};

const NODE_CODE: &str = "
module.exports = ({ req, res }) => {
  if (req.path === '/exit') process.exit(3)
  if (req.path === '/loop') for (;;) {}
  return res.text('', Number(req.path.slice(1)) || 200)
}";
const PYTHON_CODE: &str = "def main(context):\n    return context.res.text('')\n";
/// Levels are looked at ten times a second; the machine may be busy building.
const SOON: Duration = Duration::from_mins(1);

/// The metrics as they are now: a text is given out for half a second.
pub fn metrics(host: &Host) -> String {
    let url = host.metrics();
    let address = url.trim_start_matches("http://");
    let address = address.trim_end_matches("/metrics");
    let mut stream = TcpStream::connect(address).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Waits until the metrics hold each of these lines.
#[track_caller]
pub fn until_shown(host: &Host, lines: &[&str]) {
    let begun = Instant::now();
    loop {
        let text = metrics(host);
        let missing = lines
            .iter()
            .find(|line| !text.lines().any(|shown| shown == **line));
        let Some(missing) = missing else { return };
        assert!(begun.elapsed() < SOON, "`{missing}` is not in\n{text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn metrics_tell_of_executions_processes_builds_and_records() {
    if !can() {
        return;
    }
    let host = Host::new(&[
        "--metrics-listen=127.0.0.1:0",
        "--functions-processes-max=1",
        "--functions-idle-s=1",
        "--functions-spare-s=0",
    ]);
    host.create("js", NODE, &json!({"timeout": 2}));
    host.create("py", PYTHON, &json!({}));
    host.deploy("js", &[("main.js", NODE_CODE)], "");
    host.deploy("py", &[("main.py", PYTHON_CODE)], "");
    let failed = host.send("py", &[("main.py", PYTHON_CODE)], "exit 1");
    assert_eq!(
        host.wait("py", &failed, &["ready", "failed"])["status"],
        "failed"
    );
    for path in ["/200", "/404", "/503", "/exit", "/loop", "/200"] {
        host.executed("js", &json!({"path": path}));
    }
    host.executed("py", &json!({}));
    let runs = |labels: &str| format!("tidemark_function_executions_total{{{labels}}}");
    let node = r#"runtime="node-20.0",trigger="http""#;
    until_shown(
        &host,
        &[
            &(runs(&format!(r#"{node},status="completed",cause="answered""#)) + " 3"),
            &(runs(&format!(r#"{node},status="failed",cause="answered""#)) + " 1"),
            &(runs(&format!(r#"{node},status="failed",cause="timed_out""#)) + " 1"),
            r#"tidemark_function_builds_total{status="ready"} 2"#,
            r#"tidemark_function_builds_total{status="failed"} 1"#,
            "tidemark_function_build_duration_seconds_count 3",
            "tidemark_execution_records_waiting 0",
            "tidemark_execution_records_delay_seconds_count 7",
            "tidemark_execution_records_lost_total 0",
            "tidemark_executions_waiting 0",
            "tidemark_event_lag_seconds 0",
            "tidemark_event_projects_waiting 0",
            "tidemark_function_connections_refused_total 0",
            r#"tidemark_function_duration_seconds_count{runtime="python-3.11",start="cold"} 1"#,
            r#"tidemark_function_process_starts_total{runtime="python-3.11"} 1"#,
            r#"tidemark_function_start_pauses_total{runtime="python-3.11"} 0"#,
            // Without work a process ends.
            r#"tidemark_function_process_ends_total{runtime="python-3.11",cause="retired"} 1"#,
            r#"tidemark_function_processes{runtime="node-20.0"} 0"#,
            r#"tidemark_function_memory_bytes{runtime="node-20.0"} 0"#,
            r#"tidemark_function_process_ends_total{runtime="node-20.0",cause="blocked"} 1"#,
        ],
    );
    let text = metrics(&host);
    // No label says a function's name.
    let of_functions = text
        .lines()
        .filter(|line| line.starts_with("tidemark_function"));
    for line in of_functions {
        assert!(
            !line.contains("\"js\"") && !line.contains("\"py\""),
            "{line}"
        );
    }
}

#[test]
fn metrics_tell_of_what_is_held_and_refused() {
    if !can() {
        return;
    }
    let host = Host::new(&[
        "--metrics-listen=127.0.0.1:0",
        "--functions-idle-s=600",
        "--functions-spare-s=0",
        "--guest-executions=0",
    ]);
    host.create("js", NODE, &json!({"execute": ["any"]}));
    host.deploy("js", &[("main.js", NODE_CODE)], "");
    host.executed("js", &json!({}));
    for _ in 0..3 {
        let refused = host.ask_as(Credentials::Guest, "POST", "/js/executions", &json!({}));
        assert_eq!(refused.status, 429, "{refused:?}");
    }
    until_shown(
        &host,
        &[
            r#"tidemark_function_processes{runtime="node-20.0"} 1"#,
            r#"tidemark_quota_refusals_total{quota="guest-executions"} 3"#,
        ],
    );
    let memory = r#"tidemark_function_memory_bytes{runtime="node-20.0"} "#;
    let begun = Instant::now();
    let held = || {
        let text = metrics(&host);
        let mut values = text.lines().filter_map(|line| line.strip_prefix(memory));
        values.next().map_or(0, |value| value.parse().unwrap())
    };
    while held() < 1_000_000_u64 {
        assert!(begun.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn top_names_the_busiest_functions() {
    if !can() {
        return;
    }
    // One process whatever the machine does: no spare where code takes long to load, no second one
    // where the first does not begin in time, and none that ends of idleness.
    let host = Host::new(&[
        "--functions-spare-s=0",
        "--functions-processes-max=1",
        "--functions-idle-s=600",
    ]);
    host.create("often", NODE, &json!({}));
    host.deploy("often", &[("main.js", NODE_CODE)], "");
    for _ in 0..3 {
        host.executed("often", &json!({}));
    }
    let parts = ["BUSY", "default/often", "processes 1"];
    let begun = Instant::now();
    loop {
        let mut top = Command::new(BINARY);
        top.args(["top", "--once", "--interval-ms=0", "--data"]);
        let said = top.arg(host.data()).output().unwrap();
        let text = String::from_utf8_lossy(&said.stdout);
        // Processes are counted by the executor at its next look at them, and a server that has no
        // processor for two seconds is given up.
        let missing = parts.iter().find(|part| !text.contains(**part));
        if said.status.success() && missing.is_none() {
            return;
        }
        assert!(begun.elapsed() < SOON, "{missing:?} is not in\n{said:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn metrics_tell_of_connections_that_functions_are_refused() {
    const CODE: &str = "
const { connect } = require('node:net')
module.exports = async () => {
  // As many as one process may have open beside its own, and twice the bound of a deployment.
  for (let nth = 0; nth < 180; nth += 1) connect(8280, '127.0.0.1').on('error', () => {})
  await new Promise(() => {})
}";
    if !can() {
        return;
    }
    let host = Host::new(&[
        "--metrics-listen=127.0.0.1:0",
        "--functions-processes-max=3",
    ]);
    host.create("js", NODE, &json!({"timeout": 600}));
    let alone = json!({"concurrency": 1});
    let set = host.ask_at("PATCH", "/v1/tidemark/functions/js/options", &alone);
    assert_eq!(set.status, 200, "{set:?}");
    host.deploy("js", &[("main.js", CODE)], "");
    for _ in 0..3 {
        let queued = host.execute("js", &json!({"async": true}));
        assert_eq!(queued.status, 202, "{queued:?}");
    }
    let name = "tidemark_function_connections_refused_total ";
    let begun = Instant::now();
    let refused = || {
        let text = metrics(&host);
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name));
        values.next().map_or(0, |value| value.parse().unwrap())
    };
    // 540 are made, and 256 are taken.
    while refused() < 284_u64 {
        assert!(begun.elapsed() < SOON, "{}\n{}", refused(), host.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}
