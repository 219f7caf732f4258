//! Records of executions: kept, listed, let go of, and there after a crash.

use std::time::Duration;

use serde_json::{Value, json};
use testing::Credentials;

use super::fixture::{Host, NODE, PYTHON, can};
use super::metrics::until_shown;

const HANDLER: &str = "
module.exports = ({ req, res, log }) => {
  log(req.bodyText)
  return res.text('answered', Number(req.path.slice(1)) || 200, { 'x-own': 'yes' })
}";

fn start(flags: &[&str]) -> Host {
    let host = Host::new(flags);
    host.create("f", NODE, &json!({"execute": ["any"]}));
    host.deploy("f", &[("main.js", HANDLER)], "");
    host
}

/// The ids that a list with these queries shows, and its total.
fn listed(host: &Host, queries: &[Value]) -> (u64, Vec<String>) {
    let texts = queries.iter().map(|query| {
        let text = query.to_string();
        let coded =
            percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC);
        format!("queries[]={coded}")
    });
    let texts: Vec<String> = texts.collect();
    let path = format!("/f/executions?{}", texts.join("&"));
    let found = host.make("GET", &path, &Value::Null);
    let ids = found["executions"].as_array().unwrap().iter();
    let ids = ids.map(|one| one["$id"].as_str().unwrap().to_owned());
    (found["total"].as_u64().unwrap(), ids.collect())
}

fn execute(host: &Host, body: &str, path: &str) -> String {
    let execution = host.executed("f", &json!({"body": body, "path": path}));
    execution["$id"].as_str().unwrap().to_owned()
}

#[test]
fn records_are_listed_shown_and_deleted_by_keys_alone() {
    if !can() {
        return;
    }
    let host = start(&[]);
    let good = execute(&host, "one", "/201");
    let bad = execute(&host, "two", "/503");
    assert_eq!(listed(&host, &[]), (2, vec![good.clone(), bad.clone()]));
    let newest = json!({"method": "orderDesc", "attribute": "$createdAt"});
    let one = json!({"method": "limit", "values": [1]});
    assert_eq!(listed(&host, &[newest, one]), (2, vec![bad.clone()]));
    let failed = json!({"method": "equal", "attribute": "status", "values": ["failed"]});
    assert_eq!(listed(&host, &[failed]), (1, vec![bad.clone()]));
    let below = json!({"method": "lessThan", "attribute": "responseStatusCode", "values": [500]});
    assert_eq!(listed(&host, &[below]), (1, vec![good.clone()]));
    let path = format!("/f/executions/{good}");
    let record = host.make("GET", &path, &Value::Null);
    assert_eq!(record["logs"], "one\n", "{record}");
    assert_eq!(record["responseBody"], "", "{record}");
    assert_eq!(record["responseStatusCode"], 201, "{record}");
    let kept = json!([{"name": "content-type", "value": "text/plain; charset=utf-8"}]);
    assert_eq!(record["responseHeaders"], kept, "{record}");
    let client = json!([{"name": "x-appwrite-client-ip", "value": "127.0.0.1"}]);
    assert_eq!(record["requestHeaders"], client, "{record}");
    let guest = |path: &str| host.ask_as(Credentials::Guest, "GET", path, &Value::Null);
    assert_eq!(guest("/f/executions").json()["total"], 0);
    assert_eq!(guest(&path).outcome(), "404 execution_not_found");
    host.make("PUT", "/f", &json!({"execute": []}));
    assert_eq!(guest("/f/executions").outcome(), "401 user_unauthorized");
    host.make("DELETE", &path, &Value::Null);
    for method in ["GET", "DELETE"] {
        let gone = host.ask(method, &path, &Value::Null);
        assert_eq!(gone.outcome(), "404 execution_not_found", "{method}");
    }
    assert_eq!(listed(&host, &[]), (1, vec![bad]));
    // Another function of this id has none of them.
    host.make("DELETE", "/f", &Value::Null);
    host.create("f", NODE, &json!({}));
    assert_eq!(listed(&host, &[]), (0, vec![]));
}

#[test]
fn records_are_kept_within_the_options_of_their_function() {
    if !can() {
        return;
    }
    let host = start(&[]);
    for nth in 0..6 {
        execute(&host, &nth.to_string(), "/");
    }
    let options = "/v1/tidemark/functions/f/options";
    let limits = json!({"recordsMax": 2});
    assert_eq!(host.ask_at("PATCH", options, &limits).status, 200);
    let last: Vec<String> = (0..3).map(|_| execute(&host, "x", "/")).collect();
    assert_eq!(listed(&host, &[]), (2, last[1..].to_vec()));
    let limits = json!({"recordsMax": 1_000, "recordsBytesMax": 1_048_576});
    assert_eq!(host.ask_at("PATCH", options, &limits).status, 200);
    let large = "y".repeat(400_000);
    let last: Vec<String> = (0..4).map(|_| execute(&host, &large, "/")).collect();
    assert_eq!(listed(&host, &[]).1, last[2..].to_vec());
}

#[test]
fn records_outlive_a_crash_as_it_is_promised() {
    if !can() {
        return;
    }
    let mut host = start(&[]);
    let id = execute(&host, "one", "/");
    // Once it was read, or after a moment, it is stored.
    assert_eq!(listed(&host, &[]), (1, vec![id.clone()]));
    host.kill();
    host.start();
    assert_eq!(listed(&host, &[]), (1, vec![id.clone()]));
    let second = execute(&host, "two", "/");
    std::thread::sleep(Duration::from_secs(1));
    host.kill();
    host.start();
    assert_eq!(listed(&host, &[]), (2, vec![id.clone(), second.clone()]));
    // An orderly end loses none.
    let third = execute(&host, "three", "/");
    host.stop();
    host.start();
    assert_eq!(listed(&host, &[]), (3, vec![id, second, third]));

    let mut durable = start(&["--execution-records=durable"]);
    let ids: Vec<String> = (0..5).map(|_| execute(&durable, "x", "/")).collect();
    durable.kill();
    durable.start();
    assert_eq!(listed(&durable, &[]), (5, ids));
}

#[test]
fn output_outside_of_executions_is_shown_with_what_was_refused() {
    if !can() {
        return;
    }
    let host = Host::new(&[
        "--metrics-listen=127.0.0.1:0",
        "--functions-idle-s=1",
        "--functions-spare-s=0",
    ]);
    let route = "/v1/tidemark/functions/o/output";
    let read = || host.ask_at("GET", route, &Value::Null).json();
    let none = json!({"deploymentId": "", "output": ""});
    for (language, runtime, file, code) in [
        (
            "node",
            NODE,
            "main.js",
            "const net = require('node:net')
module.exports = async ({ res }) => {
  setTimeout(() => require('node:fs').writeSync(1, 'afterwards\\n'), 300)
  return res.text(await new Promise((resolve) => {
    net.connect(80, '10.255.255.1').on('error', (error) => resolve(error.code))
  }))
}",
        ),
        (
            "python",
            PYTHON,
            "main.py",
            "import errno, os, socket, threading
def main(context):
    threading.Timer(0.3, os.write, (1, b'afterwards\\n')).start()
    try:
        socket.create_connection(('10.255.255.1', 80))
    except OSError as error:
        return context.res.text(errno.errorcode[error.errno])
",
        ),
    ] {
        host.create("o", runtime, &json!({"timeout": 60}));
        assert_eq!(read(), none, "{language}");
        let options = "/v1/tidemark/functions/o/options";
        let outside = host.ask_at("PATCH", options, &json!({"network": "outside"}));
        assert_eq!(outside.status, 200, "{outside:?}");
        let deployment = host.deploy("o", &[(file, code)], "");
        assert_eq!(host.executed("o", &json!({}))["responseBody"], "EACCES");
        let refused = "may not make: 1, the last one to 10.255.255.1:80.";
        let begun = std::time::Instant::now();
        let written = loop {
            let shown = read();
            let output = shown["output"].as_str().unwrap();
            if output.contains("afterwards") && output.contains(refused) {
                break shown;
            }
            assert!(begun.elapsed() < Duration::from_mins(1), "{shown}");
            std::thread::sleep(Duration::from_millis(50));
        };
        assert_eq!(written["deploymentId"], json!(deployment), "{language}");
        // Also once its process is gone.
        let none_left = format!("tidemark_function_processes{{runtime=\"{runtime}\"}} 0");
        until_shown(&host, &[&none_left]);
        assert_eq!(read(), written, "{language}");
        host.make("DELETE", "/o", &Value::Null);
    }
}
