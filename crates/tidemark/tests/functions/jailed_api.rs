//! The API inside the jail: what an execution reaches there, by which key, and for how long.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testing::{Credentials, RawClient};

use super::fixture::{Host, NODE, PYTHON, can};

/// The machine may be busy building.
const END_MAX: Duration = Duration::from_mins(3);

/// Does what each step of its body says, and answers with the status and the error type of each.
/// `{own}` and `{kept}` in a key are the key of this execution and that of an earlier one.
const NODE_CALLER: &str = "
let kept = ''
module.exports = async ({ req, res }) => {
  const own = req.headers['x-appwrite-key']
  const answers = []
  for (const step of req.bodyJson.steps) {
    const headers = { 'x-appwrite-project': step.project ?? 'default' }
    const key = (step.key ?? '{own}').replace('{own}', own).replace('{kept}', kept)
    if (key !== '') headers['x-appwrite-key'] = key
    if (step.project === '') delete headers['x-appwrite-project']
    if (step.body) headers['content-type'] = 'application/json'
    const endpoint = process.env.APPWRITE_FUNCTION_API_ENDPOINT.replace('/v1', '')
    const body = step.body && JSON.stringify(step.body)
    const answer = await fetch(endpoint + step.path, { method: step.method ?? 'GET', headers, body })
    const text = await answer.text()
    const type = answer.ok ? '' : ` ${JSON.parse(text).type}`
    answers.push(answer.status + type)
  }
  if (req.bodyJson.keep) kept = own
  return res.json({ answers, own })
}";

const PYTHON_CALLER: &str = "
import json, os, urllib.error, urllib.request

def main(context):
    req, answers = context.req, []
    own = req.headers['x-appwrite-key']
    endpoint = os.environ['APPWRITE_FUNCTION_API_ENDPOINT'].replace('/v1', '')
    for step in req.body_json['steps']:
        headers = {'x-appwrite-project': 'default', 'x-appwrite-key': own}
        body = None
        if 'body' in step:
            headers['content-type'] = 'application/json'
            body = json.dumps(step['body']).encode()
        asked = urllib.request.Request(
            endpoint + step['path'], body, headers, method=step.get('method', 'GET'))
        try:
            with urllib.request.urlopen(asked) as answer:
                answers.append(str(answer.status))
        except urllib.error.HTTPError as refused:
            answers.append(f'{refused.code} ' + json.loads(refused.read())['type'])
    return context.res.json({'answers': answers, 'own': own})
";

const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";

/// A server with a table, whose functions have one process each.
pub fn start() -> Host {
    // What a process keeps from one execution to the next, every one sees.
    let host = Host::new(&["--functions-processes-max=1"]);
    let table = json!({
        "tableId": "t", "name": "T", "permissions": ["read(\"any\")", "create(\"any\")"],
        "columns": [{"key": "n", "type": "integer"}],
    });
    for (path, body) in [
        ("/v1/tablesdb", json!({"databaseId": "d", "name": "D"})),
        ("/v1/tablesdb/d/tables", table),
    ] {
        let made = host.ask_at("POST", path, &body);
        assert_eq!(made.status, 201, "{made:?}");
    }
    host
}

fn with_function(id: &str, host: Host) -> Host {
    host.create(id, NODE, &json!({"scopes": ["rows.read", "rows.write"]}));
    host.deploy(id, &[("main.js", NODE_CALLER)], "");
    host
}

/// What the steps come to, and the key of their execution.
#[track_caller]
fn call(host: &Host, function: &str, steps: &[Value]) -> (Vec<String>, String) {
    let body = json!({"steps": steps, "keep": true}).to_string();
    let execution = host.executed(function, &json!({"body": body}));
    let answer = execution["responseBody"].as_str().unwrap();
    let answer: Value = serde_json::from_str(answer).unwrap_or_else(|_| panic!("{execution}"));
    let own = answer["own"].as_str().unwrap().to_owned();
    // It is for the handler alone.
    assert!(!execution["requestHeaders"].to_string().contains(&own));
    let answers = answer["answers"].as_array().unwrap().iter();
    let answers = answers.map(|one| one.as_str().unwrap().to_owned());
    (answers.collect(), own)
}

fn row(id: &str) -> Value {
    json!({"method": "POST", "path": ROWS, "body": {"rowId": id, "data": {"n": 1}}})
}

#[test]
fn function_reads_and_writes_rows_by_its_scopes() {
    if !can() {
        return;
    }
    let host = start();
    let scopes = json!({"scopes": ["rows.read", "rows.write"]});
    for (id, runtime, file, code) in [
        ("node", NODE, "main.js", NODE_CALLER),
        ("python", PYTHON, "main.py", PYTHON_CALLER),
    ] {
        host.create(id, runtime, &scopes);
        host.deploy(id, &[(file, code)], "");
        let read = json!({"path": format!("{ROWS}/{id}")});
        let list = json!({"path": ROWS});
        let beyond = json!({"method": "DELETE", "path": "/v1/tablesdb/d"});
        let steps = [row(id), read.clone(), list, beyond];
        let (answers, _) = call(&host, id, &steps);
        let wanted = ["201", "200", "200", "401 general_unauthorized_scope"];
        assert_eq!(answers, wanted, "{id}");
        let commits = json!({"kind": "feed", "user": format!("function:{id}:1")});
        let found = host.ask_at("POST", "/v1/tidemark/databases/d/reads", &commits);
        assert_eq!(
            found.json()["rows"].as_array().map(Vec::len),
            Some(1),
            "{found:?}"
        );
        // The scopes are those of now.
        host.make("PUT", &format!("/{id}"), &json!({"scopes": ["rows.read"]}));
        let (answers, _) = call(&host, id, &[row("late"), read]);
        assert_eq!(answers, ["401 general_unauthorized_scope", "200"], "{id}");
    }
}

#[test]
fn key_of_an_execution_counts_on_its_connections_and_while_it_runs() {
    if !can() {
        return;
    }
    let host = with_function("b", with_function("a", start()));
    let steps = |key: &str| [json!({"path": ROWS, "key": key})];
    let (answers, first) = call(&host, "a", &steps("{own}"));
    assert_eq!(answers, ["200"]);
    assert!(first.starts_with("ephemeral_"), "{first}");
    let (answers, _) = call(&host, "a", &steps("{kept}"));
    assert_eq!(answers, ["401 project_key_expired"], "it has ended");
    let unknown = ["401 general_unauthorized_scope"];
    let (answers, _) = call(&host, "b", &steps(&first));
    assert_eq!(answers, unknown, "it is of another deployment");
    for forged in ["{own}A", "ephemeral_", "ephemeral_AAAA", "no key at all"] {
        let (answers, _) = call(&host, "a", &steps(forged));
        assert_eq!(answers, unknown, "{forged}");
    }
    // A new deployment of the same function is another one.
    host.deploy("a", &[("main.js", NODE_CALLER)], "");
    assert_eq!(call(&host, "a", &steps(&first)).0, unknown);
    // From outside of jails it is no key, also while its execution runs.
    let code = "
let key = ''
let over = false
module.exports = async ({ req, res }) => {
  if (req.path === '/end') over = true
  if (req.path === '/ask') return res.text(key)
  key = req.headers['x-appwrite-key']
  while (!over) await new Promise((resume) => setTimeout(resume, 5))
  return res.empty()
}";
    host.create("w", NODE, &json!({"scopes": ["rows.read"]}));
    host.deploy("w", &[("main.js", code)], "");
    std::thread::scope(|threads| {
        threads.spawn(|| host.executed("w", &json!({"path": "/wait"})));
        let key = loop {
            let found = host.executed("w", &json!({"path": "/ask"}));
            let key = found["responseBody"].as_str().unwrap().to_owned();
            if !key.is_empty() {
                break key;
            }
        };
        let outside = host.ask_by(&key, "GET", ROWS);
        assert_eq!(outside.outcome(), unknown[0], "{outside:?}");
        host.executed("w", &json!({"path": "/end"}));
    });
}

#[test]
fn function_reaches_its_own_project_and_the_api_alone() {
    if !can() {
        return;
    }
    let host = with_function("a", start());
    let key = host.key();
    let steps = [
        json!({"path": ROWS, "project": "other"}),
        json!({"path": format!("{ROWS}?project=other")}),
        json!({"path": "/"}),
        json!({"path": "/v1"}),
        json!({"path": "/v2/x"}),
        // The project is that of the connection.
        json!({"path": ROWS, "project": ""}),
        // Other keys, and none, count as anywhere.
        json!({"path": "/v1/tablesdb", "key": key}),
        json!({"path": ROWS, "key": ""}),
        json!({"path": "/v1/tablesdb", "key": ""}),
        json!({"path": ROWS, "key": key, "project": "other"}),
    ];
    let (answers, _) = call(&host, "a", &steps);
    let wanted = [
        "404 project_not_found",
        "404 project_not_found",
        "404 general_route_not_found",
        "404 general_route_not_found",
        "404 general_route_not_found",
        "200",
        "200",
        "200",
        "401 general_unauthorized_scope",
        "404 project_not_found",
    ];
    assert_eq!(answers, wanted);
    // What they write is of the function all the same.
    let mut by_key = row("by-key");
    by_key["key"] = json!(key);
    let mut by_none = row("by-none");
    by_none["key"] = json!("");
    assert_eq!(call(&host, "a", &[by_key, by_none]).0, ["201", "201"]);
    let found = host.ask_at(
        "POST",
        "/v1/tidemark/databases/d/reads",
        &json!({"kind": "feed"}),
    );
    let found = found.json();
    let rows = found["rows"].as_array().unwrap();
    let last: Vec<&str> = rows[rows.len() - 2..]
        .iter()
        .map(|one| one["user"].as_str().unwrap_or_default())
        .collect();
    assert!(
        last[0].starts_with("key:") && last[0].ends_with(":function:a:1"),
        "{last:?}"
    );
    assert_eq!(last[1], "function:a:1");
}

#[test]
fn stream_by_the_key_of_an_execution_ends_with_it() {
    if !can() {
        return;
    }
    let code = "
const http = require('node:http')
let stream, lines
module.exports = async ({ req, res }) => {
  const line = `${JSON.stringify({ tableId: 't', ids: ['x'] })}\\n`
  if (req.path === '/open') {
    const headers = { 'x-appwrite-project': 'default', 'content-type': 'application/x-ndjson',
      'x-appwrite-key': req.headers['x-appwrite-key'] }
    const url = 'http://127.0.0.1:8280/v1/tidemark/databases/d/batch/reads'
    stream = http.request(url, { method: 'POST', headers })
    stream.write(line)
    const answer = await new Promise((resume, fail) => stream.on('response', resume).on('error', fail))
    lines = require('node:readline').createInterface(answer)[Symbol.asyncIterator]()
  } else {
    stream.write(line)
  }
  return res.text((await lines.next()).value ?? '')
}";
    let host = start();
    host.create("s", NODE, &json!({"scopes": ["rows.read"]}));
    host.deploy("s", &[("main.js", code)], "");
    let answer = |path: &str| {
        let execution = host.executed("s", &json!({"path": path}));
        assert_eq!(execution["status"], "completed", "{execution}");
        execution["responseBody"].as_str().unwrap().to_owned()
    };
    let first = answer("/open");
    assert!(!first.is_empty() && !first.contains("error"), "{first}");
    let last = answer("/on");
    assert!(last.contains("project_key_expired"), "{last}");
}

/// Writes row after row, each by a connection of its own, long enough for a server to be stopped
/// meanwhile. Its status is 200 and the number of its start.
const WRITER: &str = "
const http = require('node:http')
module.exports = async ({ req, res }) => {
  const headers = { 'x-appwrite-project': 'default', 'content-type': 'application/json',
    'x-appwrite-key': req.headers['x-appwrite-key'] }
  const path = '/v1/tablesdb/d/tables/t/rows'
  for (let nth = 0; nth < 40; nth++) {
    const status = await new Promise((resume, fail) => {
      const options = { host: '127.0.0.1', port: 8280, path, method: 'POST', headers, agent: false }
      const asked = http.request(options, (answer) => {
        answer.resume().on('end', () => resume(answer.statusCode))
      })
      asked.on('error', fail)
      asked.end(JSON.stringify({ rowId: `${req.bodyText}${nth}`, data: { n: nth } }))
    })
    if (status !== 201) return res.text(`${nth}: ${status}`, 500)
    await new Promise((resume) => setTimeout(resume, 50))
  }
  return res.text('', 200 + Number(req.headers['x-tidemark-attempt']))
}";

#[test]
fn function_reaches_the_api_until_its_executions_have_ended() {
    if !can() {
        return;
    }
    let mut host = Host::new(&["--drain-limit-ms=120000"]);
    let table = json!({
        "tableId": "t", "name": "T", "columns": [{"key": "n", "type": "integer"}],
    });
    let database = json!({"databaseId": "d", "name": "D"});
    for (path, body) in [("/v1/tablesdb", database), ("/v1/tablesdb/d/tables", table)] {
        assert_eq!(host.ask_at("POST", path, &body).status, 201);
    }
    let definition = json!({"scopes": ["rows.write"], "timeout": 900});
    host.create("w", NODE, &definition);
    host.deploy("w", &[("main.js", WRITER)], "");
    let queued = host.execute("w", &json!({"async": true, "body": "queued"}));
    assert_eq!(queued.status, 202, "{queued:?}");
    let mut client = RawClient::new(host.port(), "default", host.key());
    let waiting = std::thread::spawn(move || {
        let body = json!({"body": "waiting"}).to_string();
        let path = "/v1/functions/w/executions";
        client.ask(Credentials::Key, "POST", path, body.as_bytes())
    });
    let begun = Instant::now();
    for row in ["queued0", "waiting0"] {
        while host
            .ask_at("GET", &format!("{ROWS}/{row}"), &Value::Null)
            .status
            != 200
        {
            assert!(begun.elapsed() < END_MAX, "{}", host.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    host.stop();
    let answer = waiting.join().unwrap();
    assert_eq!(answer.status, 201, "{answer:?}\n{}", host.log());
    let answer = answer.json();
    assert_eq!(answer["responseStatusCode"], 201, "{answer}");
    host.start();
    let path = format!("/w/executions/{}", queued.json()["$id"].as_str().unwrap());
    let ended = loop {
        let found = host.make("GET", &path, &Value::Null);
        if ["completed", "failed"].contains(&found["status"].as_str().unwrap()) {
            break found;
        }
        assert!(begun.elapsed() < END_MAX, "{found}\n{}", host.log());
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(
        ended["responseStatusCode"], 201,
        "its first start ended: {ended}"
    );
}
