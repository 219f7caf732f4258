//! Executions: what a handler sees, what its caller gets, and what bad handlers come to.

use std::time::Duration;

use serde_json::{Value, json};
use testing::Credentials;

use super::fixture::{Host, NODE, PYTHON, can};

const NODE_ECHO: &str = "
module.exports = async ({ req, res, log, error }) => {
  log('seen'); error('warned')
  return res.json({
    body: req.bodyText, path: req.path, query: req.queryString, method: req.method,
    headers: req.headers, id: process.env.APPWRITE_FUNCTION_ID,
    deployment: process.env.APPWRITE_FUNCTION_DEPLOYMENT,
    project: process.env.APPWRITE_FUNCTION_PROJECT_ID, secret: process.env.SECRET ?? null,
    path_of_server: process.env.TIDEMARK_API_KEY ?? null,
  }, 202, { 'x-own': 'yes' })
}";

const PYTHON_ECHO: &str = "
import os
def main(context):
    req = context.req
    context.log('seen')
    context.error('warned')
    return context.res.json({
        'body': req.body_text, 'path': req.path, 'query': req.query_string,
        'method': req.method, 'headers': req.headers, 'id': os.environ['APPWRITE_FUNCTION_ID'],
        'deployment': os.environ['APPWRITE_FUNCTION_DEPLOYMENT'],
        'project': os.environ['APPWRITE_FUNCTION_PROJECT_ID'],
        'secret': os.environ.get('SECRET'), 'path_of_server': os.environ.get('TIDEMARK_API_KEY'),
    }, 202, {'x-own': 'yes'})
";

fn seen(execution: &Value) -> Value {
    let body = execution["responseBody"].as_str().unwrap();
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{execution}"))
}

/// Whether the members of an object have these values.
#[track_caller]
fn check_members(about: &str, object: &Value, wanted: &Value) {
    for (member, wanted) in wanted.as_object().unwrap() {
        assert_eq!(object[member], *wanted, "{about} {member}: {object}");
    }
}

#[test]
fn an_execution_reaches_the_handler_and_comes_back() {
    if !can() {
        return;
    }
    let host = Host::new(&[]);
    for (id, runtime, file, code) in [
        ("n", NODE, "main.js", NODE_ECHO),
        ("p", PYTHON, "main.py", PYTHON_ECHO),
    ] {
        host.create(id, runtime, &json!({}));
        let deployment = host.deploy(id, &[(file, code)], "");
        let headers = json!({
            "X-One": "1", "x-appwrite-user-id": "forged", "Content-Type": "text/x",
        });
        let asked = json!({
            "body": "héllo", "path": "/a/b?c=d%20e", "method": "PUT", "headers": headers,
        });
        let answer = host.execute(id, &asked);
        assert_eq!(answer.status, 201, "{answer:?}\n{}", host.log());
        let execution = answer.json();
        let named = execution["$id"].as_str().unwrap();
        let named = format!("x-appwrite-execution-id: {named}");
        let head = answer.head.to_lowercase();
        assert!(head.contains(&named), "{head}");
        let shown = json!({
            "functionId": id, "resourceId": id, "resourceType": "functions",
            "deploymentId": deployment, "trigger": "http", "status": "completed",
            "requestMethod": "PUT", "requestPath": "/a/b?c=d%20e", "responseStatusCode": 202,
            "$permissions": [], "scheduledAt": null, "logs": "seen\n", "errors": "warned\n",
        });
        check_members(id, &execution, &shown);
        // None at all if the server reads of beginning and end at once.
        assert!(
            execution["duration"].as_f64().unwrap() >= 0.0,
            "{execution}"
        );
        let own = json!({"name": "x-own", "value": "yes"});
        let headers = execution["responseHeaders"].as_array().unwrap();
        assert!(headers.contains(&own), "{execution}");
        let seen = seen(&execution);
        let wanted = json!({
            "body": "héllo", "path": "/a/b", "query": "c=d%20e", "method": "PUT", "id": id,
            "deployment": deployment, "project": "default", "path_of_server": null,
        });
        check_members(id, &seen, &wanted);
        let wanted = json!({
            "x-one": "1", "content-type": "text/x", "x-appwrite-user-id": "",
            "x-appwrite-trigger": "http", "x-appwrite-execution-id": execution["$id"],
            "x-appwrite-client-ip": "127.0.0.1", "x-tidemark-attempt": "1",
        });
        check_members(id, &seen["headers"], &wanted);
    }
    let runtimes = host.make("GET", "/runtimes", &Value::Null).to_string();
    assert!(
        runtimes.contains(NODE) && runtimes.contains(PYTHON),
        "{runtimes}"
    );
}

#[test]
fn an_execution_has_variables_and_nobody_else_sees_the_secret_ones() {
    if !can() {
        return;
    }
    let mut host = Host::new(&[]);
    host.create("f", NODE, &json!({"logging": true}));
    host.deploy("f", &[("main.js", NODE_ECHO)], "");
    let secret = || seen(&host.executed("f", &json!({})))["secret"].clone();
    assert_eq!(secret(), Value::Null);
    let first = "a secret that is nowhere else";
    let variable = json!({"variableId": "v", "key": "SECRET", "value": first});
    host.make("POST", "/f/variables", &variable);
    // A change is seen by the next execution: processes of before are retired.
    assert_eq!(secret(), json!(first));
    host.make("PUT", "/f/variables/v", &json!({"value": "another secret"}));
    assert_eq!(secret(), json!("another secret"));
    host.make("DELETE", "/f/variables/v", &Value::Null);
    assert_eq!(secret(), Value::Null);
    host.make("POST", "/f/variables", &variable);
    let shown = host.make("GET", "/f", &Value::Null).to_string();
    assert!(!shown.contains(first), "{shown}");
    assert!(!host.log().contains(first));
    // Nor is it in the arguments or the environment of a process, which others may read.
    assert_eq!(secret(), json!(first));
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        for file in ["cmdline", "environ"] {
            let bytes = std::fs::read(process.path().join(file)).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(first), "{:?}", process.path());
        }
    }
    host.stop();
    host.start();
    assert_eq!(seen(&host.executed("f", &json!({})))["secret"], first);
}

/// Bodies with a value that is none, and what the refusal says.
fn wrong_bodies() -> Vec<(Value, &'static str)> {
    let many: serde_json::Map<_, _> = (0..101).map(|nth| (format!("h{nth}"), json!(""))).collect();
    vec![
        (json!({"body": 5}), "body"),
        (json!({"body": {"a": 1}}), "body"),
        (json!({"body": "x".repeat(10_485_761)}), "10485760"),
        (json!({"async": "maybe"}), "async"),
        (json!({"path": 1}), "path"),
        (json!({"path": "/".repeat(2_049)}), "2048"),
        (json!({"path": "/a\r\nb"}), "path"),
        (json!({"method": "TRACE"}), "GET, POST"),
        (json!({"method": "get"}), "method"),
        (json!({"headers": ["a"]}), "headers"),
        (json!({"headers": {"a": 1}}), "text"),
        (json!({"headers": {"": "x"}}), "headers"),
        (json!({"headers": {"a b": "x"}}), "headers"),
        (json!({"headers": {"a": "x\r\ny: z"}}), "headers"),
        (json!({"headers": {"a": "x\u{0}"}}), "headers"),
        (json!({"headers": {"a": "x".repeat(16_384)}}), "16384"),
        (json!({"headers": many}), "100"),
    ]
}

#[test]
fn an_execution_is_refused_for_what_it_asks() {
    if !can() {
        return;
    }
    let host = Host::new(&[]);
    host.create("f", NODE, &json!({}));
    host.deploy("f", &[("main.js", NODE_ECHO)], "");
    for (body, part) in wrong_bodies() {
        let refused = host.execute("f", &body);
        let shown: String = body.to_string().chars().take(80).collect();
        let wanted = "400 general_argument_invalid";
        assert_eq!(refused.outcome(), wanted, "{shown}: {}", refused.text);
        assert!(refused.text.contains(part), "{shown}: {}", refused.text);
    }
    // At the limits, and what stands for nothing.
    for body in [
        json!({"body": null, "path": null, "method": null, "headers": null, "async": false}),
        json!({"headers": []}),
        json!({"path": ""}),
        json!({"path": format!("/{}", "é".repeat(2_047))}),
        json!({"headers": {"a": "\"".repeat(16_383)}}),
        json!({"method": "HEAD", "body": "x"}),
    ] {
        let shown: String = body.to_string().chars().take(80).collect();
        let execution = host.executed("f", &body);
        assert_eq!(execution["responseStatusCode"], 202, "{shown}: {execution}");
    }
    assert_eq!(
        seen(&host.executed("f", &json!({"path": "a"})))["path"],
        "/a"
    );
}

#[test]
fn an_execution_carries_large_bodies_both_ways() {
    if !can() {
        return;
    }
    let host = Host::new(&[]);
    let node = "module.exports = ({ req, res }) => res.binary(req.bodyBinary)";
    let python = "def main(context):\n    return context.res.binary(context.req.body_binary)\n";
    for (id, runtime, file, code) in [
        ("n", NODE, "main.js", node),
        ("p", PYTHON, "main.py", python),
    ] {
        host.create(id, runtime, &json!({}));
        host.deploy(id, &[(file, code)], "");
        let body: String = "0123456789abcdé".chars().cycle().take(9_000_000).collect();
        let execution = host.executed(id, &json!({"body": body}));
        assert!(execution["responseBody"] == body, "{id}");
    }
    // Bytes that are no text are shown as such.
    let bytes = "module.exports = ({ res }) => res.binary(Buffer.from([0x61, 0xff, 0x62]))";
    host.deploy("n", &[("main.js", bytes)], "");
    let execution = host.executed("n", &json!({}));
    assert_eq!(execution["responseBody"], "a\u{fffd}b");
}

#[test]
fn an_execution_is_answered_as_a_form_where_bytes_are_wanted() {
    if !can() {
        return;
    }
    let host = Host::new(&[]);
    host.create("f", NODE, &json!({}));
    // Any bytes, among them what looks like a boundary.
    let code =
        "module.exports = ({ res, log }) => { log('--x\\r\\n'); return res.binary(Buffer.from(
        [0, 0xff, 13, 10, 45, 45, 120, 45, 45, 13, 10, 0]), 202, { 'x-own': 'yes' }) }";
    host.deploy("f", &[("main.js", code)], "");
    let answer = host.raw(
        "POST",
        "/f/executions",
        "Accept: multipart/form-data\r\n",
        b"{}",
    );
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = answer.split_at(end.unwrap() + 4);
    let head = String::from_utf8_lossy(head);
    assert!(head.starts_with("HTTP/1.1 201"), "{head}");
    let kind = "content-type: multipart/form-data; boundary=";
    let boundary = head.lines().find_map(|line| line.strip_prefix(kind));
    let boundary = format!("--{}", boundary.unwrap());
    let shown = String::from_utf8_lossy(body);
    let part = |name: &str| {
        let begin =
            format!("{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
        let find = |bytes: &[u8], part: &str| {
            let mut windows = bytes.windows(part.len());
            windows.position(|window| window == part.as_bytes())
        };
        let at = find(body, &begin).unwrap_or_else(|| panic!("no {name} in {shown}"));
        let rest = &body[at + begin.len()..];
        rest[..find(rest, &format!("\r\n{boundary}")).unwrap()].to_vec()
    };
    assert_eq!(part("responseBody"), b"\0\xff\r\n--x--\r\n\0");
    assert_eq!(part("responseStatusCode"), b"202");
    assert_eq!(part("status"), b"completed");
    assert_eq!(part("logs"), b"--x\r\n\n");
    assert_eq!(part("scheduledAt"), b"");
    let headers: Value = serde_json::from_slice(&part("responseHeaders")).unwrap();
    let own = json!({"name": "x-own", "value": "yes"});
    assert!(headers.as_array().unwrap().contains(&own), "{headers}");
    assert!(
        body.ends_with(format!("{boundary}--\r\n").as_bytes()),
        "{shown}"
    );
}

#[test]
fn an_execution_of_a_guest_needs_a_role_and_shows_no_logs() {
    if !can() {
        return;
    }
    let host = Host::new(&[]);
    host.create("f", NODE, &json!({"execute": ["guests"]}));
    let code = "module.exports = ({ req, res, log }) => {
        log('inner'); throw new Error(req.bodyText) }";
    host.deploy("f", &[("main.js", code)], "");
    let guest = |body: &Value| host.ask_as(Credentials::Guest, "POST", "/f/executions", body);
    let answer = guest(&json!({"body": "boom"}));
    assert_eq!(answer.status, 201, "{answer:?}");
    let execution = answer.json();
    assert_eq!(execution["status"], "failed");
    assert_eq!(execution["responseStatusCode"], 500);
    assert_eq!(
        (&execution["logs"], &execution["errors"]),
        (&json!(""), &json!(""))
    );
    let with_key = host.executed("f", &json!({"body": "boom"}));
    assert_eq!(with_key["logs"], "inner\n", "{with_key}");
    let errors = with_key["errors"].as_str().unwrap();
    assert!(errors.contains("boom"), "{errors}");
    host.make("PUT", "/f", &json!({"execute": ["users"]}));
    assert_eq!(guest(&json!({})).outcome(), "401 user_unauthorized");
    // Without a right a large body is not even read.
    let large = json!({"body": "x".repeat(1_000_000)});
    assert_eq!(guest(&large).outcome(), "401 user_unauthorized");
    host.make("PUT", "/f", &json!({"execute": ["any"], "logging": false}));
    assert_eq!(guest(&json!({"body": "x"})).status, 201);
    let quiet = host.executed("f", &json!({"body": "boom"}));
    assert_eq!((&quiet["logs"], &quiet["errors"]), (&json!(""), &json!("")));
}

/// A handler that does what its path says.
const NODE_BAD: &str = "
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
module.exports = async ({ req, res, log }) => {
  switch (req.path) {
    case '/loop': for (;;) {}
    case '/await': await wait(3600_000); return res.empty()
    case '/exit': process.exit(3)
    case '/nothing': return
    case '/status': return res.text('', 199)
    case '/header': return res.text('', 200, { 'a b': 'c' })
    case '/large': return res.text('x'.repeat(10485761))
    case '/flood': for (let n = 0; n < 4000; n++) log('y'.repeat(1000)); return res.text('ok')
    case '/memory': { const all = []; for (;;) all.push(Buffer.alloc(1 << 24, 1)) }
    default: return res.text('fine')
  }
}";

const PYTHON_BAD: &str = "
import asyncio, os, time
async def forever():
    await asyncio.Event().wait()
def memory():
    all = []
    while True:
        all.append(bytearray(b'1') * (1 << 24))
def loop():
    while True:
        pass
def flood(log):
    for _ in range(4000):
        log('y' * 1000)
def main(context):
    res, path = context.res, context.req.path
    if path == '/loop': loop()
    if path == '/await': return forever()
    if path == '/exit': os._exit(3)
    if path == '/nothing': return
    if path == '/status': return res.text('', 199)
    if path == '/header': return res.text('', 200, {'a b': 'c'})
    if path == '/large': return res.text('x' * 10485761)
    if path == '/memory': memory()
    if path == '/flood':
        flood(context.log)
        return res.text('ok')
    return res.text('fine')
";

#[test]
fn an_execution_by_a_bad_handler_ends_as_it_is_written() {
    if !can() {
        return;
    }
    let host = Host::new(&["--functions-processes-max=1"]);
    let small = json!({"timeout": 2, "runtimeSpecification": "s-1vcpu-256mb"});
    for (language, runtime, file, code) in [
        ("node", NODE, "main.js", NODE_BAD),
        ("python", PYTHON, "main.py", PYTHON_BAD),
    ] {
        let (bad, good) = (format!("bad-{language}"), format!("good-{language}"));
        host.create(&bad, runtime, &small);
        host.create(&good, runtime, &json!({}));
        for id in [&bad, &good] {
            host.deploy(id, &[(file, code)], "");
        }
        ends_of_bad_handlers(&host, &bad, &good);
        // Within 256 MiB Node may end for want of memory before it has sent so much.
        host.make("PUT", &format!("/{good}"), &json!({"timeout": 60}));
        let flood = host.executed(&good, &json!({"path": "/flood"}));
        assert_eq!(flood["responseBody"], "ok", "{}", flood["errors"]);
        let logs = flood["logs"].as_str().unwrap();
        assert!(logs.starts_with("[WARNING] Logs truncated"));
        assert!(logs.chars().count() <= 1_000_000);
    }
}

fn ends_of_bad_handlers(host: &Host, bad: &str, good: &str) {
    let fine = |id: &str| assert_eq!(host.executed(id, &json!({}))["responseBody"], "fine");
    fine(good);
    for (path, words) in [
        ("/loop", "Execution timed out."),
        ("/await", "Execution timed out."),
        (
            "/exit",
            "The process ended (exit code 3).|it closed its socket",
        ),
        ("/nothing", "Return statement missing."),
        ("/status", "The response has the status 199"),
        ("/header", "The response has a header that is none"),
        ("/large", "the limit is 10485760 bytes."),
        ("/memory", "The function ran out of memory (256 MiB)."),
    ] {
        let about = format!("{bad} {path}");
        // A slow machine takes a while to fill memory.
        let timeout = if path == "/memory" { 60 } else { 2 };
        host.make("PUT", &format!("/{bad}"), &json!({"timeout": timeout}));
        let execution = host.executed(bad, &json!({"path": path}));
        assert_eq!(execution["status"], "failed", "{about}: {execution}");
        assert_eq!(execution["responseStatusCode"], 500, "{about}");
        assert_eq!(execution["responseBody"], "", "{about}");
        let errors = execution["errors"].as_str().unwrap();
        let has = words.split('|').any(|words| errors.contains(words));
        assert!(has, "{about}: {errors}");
        // Others lose nothing, and it works again itself.
        fine(good);
        fine(bad);
    }
}

#[test]
fn an_execution_waits_no_longer_than_a_caller_may() {
    if !can() {
        return;
    }
    let host = Host::new(&[]);
    host.create("f", NODE, &json!({"timeout": 900, "execute": ["any"]}));
    host.deploy("f", &[("main.js", NODE_BAD)], "");
    let late = host.execute("f", &json!({"path": "/await"}));
    assert_eq!(
        late.outcome(),
        "408 function_synchronous_timeout",
        "{late:?}"
    );
    assert_eq!(host.executed("f", &json!({}))["responseBody"], "fine");
}

#[test]
fn an_execution_is_of_the_deployment_that_is_active() {
    if !can() {
        return;
    }
    let host = Host::new(&["--functions-idle-s=2"]);
    host.create("f", PYTHON, &json!({}));
    let code = |text: &str| format!("def main(context):\n    return context.res.text('{text}')\n");
    let first = host.deploy("f", &[("main.py", &code("first"))], "");
    assert_eq!(host.executed("f", &json!({}))["responseBody"], "first");
    let second = host.deploy("f", &[("main.py", &code("second"))], "");
    assert_eq!(host.executed("f", &json!({}))["responseBody"], "second");
    host.make("PATCH", "/f/deployment", &json!({"deploymentId": first}));
    let execution = host.executed("f", &json!({}));
    assert_eq!(execution["responseBody"], "first");
    assert_eq!(execution["deploymentId"], json!(first));
    let code_folder = host.data().join("functions/now/code");
    let unpacked = || std::fs::read_dir(&code_folder).unwrap().count();
    let until = |count: usize| {
        let begun = std::time::Instant::now();
        while unpacked() != count {
            assert!(begun.elapsed() < Duration::from_mins(1), "{}", unpacked());
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    // What is not active has no folder, once its processes are gone.
    until(1);
    host.make("DELETE", &format!("/f/deployments/{first}"), &Value::Null);
    assert_eq!(
        host.execute("f", &json!({})).outcome(),
        "404 deployment_not_found"
    );
    until(0);
    host.make("PATCH", "/f/deployment", &json!({"deploymentId": second}));
    assert_eq!(host.executed("f", &json!({}))["responseBody"], "second");
    host.make("DELETE", "/f", &Value::Null);
    assert_eq!(
        host.execute("f", &json!({})).outcome(),
        "404 function_not_found"
    );
    until(0);
}

#[test]
fn an_execution_where_functions_are_not_executed_says_why() {
    for (flag, why) in [
        ("--functions=off", "switched off by the setting `functions`"),
        ("--test-clock", "where requests set the clock"),
    ] {
        let host = Host::new(&[flag]);
        host.create("f", NODE, &json!({"execute": ["any"]}));
        host.make("POST", "/f/variables", &json!({"key": "A", "value": "b"}));
        host.send("f", &[("main.js", NODE_ECHO)], "");
        for body in [json!({}), json!({"async": true})] {
            let refused = host.execute("f", &body);
            assert_eq!(refused.outcome(), "404 function_runtime_unsupported");
            assert!(refused.text.contains(why), "{refused:?}");
        }
        // A guest who may not execute it learns no more than elsewhere.
        host.create("closed", NODE, &Value::Null);
        let path = "/closed/executions";
        let refused = host.ask_as(Credentials::Guest, "POST", path, &json!({}));
        assert_eq!(refused.outcome(), "401 user_unauthorized");
        let listed = host.make("GET", "/f/executions", &Value::Null);
        assert_eq!(listed["total"], 0);
    }
}

#[test]
fn an_execution_without_what_it_takes_says_what_is_missing() {
    let off = Host::new(&["--functions=off"]);
    off.create("f", NODE, &json!({}));
    let id = off.send("f", &[("main.js", NODE_ECHO)], "");
    // Deployments are kept.
    assert_eq!(off.wait("f", &id, &["waiting"])["status"], "waiting");
    assert_eq!(off.make("GET", "/runtimes", &Value::Null)["total"], 0);
    if !can() {
        return;
    }
    let host = Host::new(&[]);
    // Known to the protocol, and not on this machine.
    host.create("f", "python-3.8", &json!({}));
    host.deploy("f", &[("main.py", PYTHON_ECHO)], "");
    let refused = host.execute("f", &json!({}));
    assert_eq!(refused.outcome(), "404 function_runtime_unsupported");
    assert!(
        refused.text.contains("not on this host"),
        "{}",
        refused.text
    );
}
