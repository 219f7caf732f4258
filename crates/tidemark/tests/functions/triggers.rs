//! Executions that no caller asks for: by changes of rows, and by the clock.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::fixture::{Host, NODE, can};
use super::metrics::{metrics, until_shown};

const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";
/// A minute may just have begun, and the machine may be busy building.
const END_MAX: Duration = Duration::from_mins(4);

/// Logs what it is given. With `again` in its row it writes another one, which has it, too.
const HANDLER: &str = "
module.exports = async ({ req, res, log }) => {
  const row = req.bodyText === '' ? {} : req.bodyJson
  const { 'x-appwrite-trigger': trigger, 'x-appwrite-event': event } = req.headers
  log(JSON.stringify({ trigger, event, row, method: req.method, path: req.path }))
  if (row.again) {
    const headers = { 'content-type': 'application/json',
      'x-appwrite-project': 'default', 'x-appwrite-key': req.headers['x-appwrite-key'] }
    const data = { again: true, n: row.n + 1 }
    const body = JSON.stringify({ rowId: `again${data.n}`, data })
    const url = process.env.APPWRITE_FUNCTION_API_ENDPOINT + '/tablesdb/d/tables/t/rows'
    const made = await fetch(url, { method: 'POST', headers, body })
    if (made.status !== 201) throw new Error(await made.text())
  }
  return res.empty()
}";

fn start(definition: &Value) -> Host {
    let host = Host::new(&["--metrics-listen=127.0.0.1:0"]);
    furnish(&host, definition, HANDLER);
    host
}

fn furnish(host: &Host, definition: &Value, handler: &str) {
    let table = json!({
        "tableId": "t", "name": "T",
        "columns": [{"key": "n", "type": "integer"}, {"key": "again", "type": "boolean"}],
    });
    for (path, body) in [
        ("/v1/tablesdb", json!({"databaseId": "d", "name": "D"})),
        ("/v1/tablesdb/d/tables", table),
    ] {
        let made = host.ask_at("POST", path, &body);
        assert_eq!(made.status, 201, "{made:?}");
    }
    host.create("f", NODE, definition);
    host.deploy("f", &[("main.js", handler)], "");
}

fn write(host: &Host, id: &str, data: &Value) {
    let made = host.ask_at("POST", ROWS, &json!({"rowId": id, "data": data}));
    assert_eq!(made.status, 201, "{made:?}");
}

/// Waits until so many executions have ended, which are then all there are; what they logged.
#[track_caller]
fn ended(host: &Host, count: usize) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let limit = "queries[]=%7B%22method%22%3A%22limit%22%2C%22values%22%3A%5B500%5D%7D";
        let listed = host.make("GET", &format!("/f/executions?{limit}"), &Value::Null);
        let all = listed["executions"].as_array().unwrap();
        let is_over =
            |one: &&Value| ["completed", "failed"].contains(&one["status"].as_str().unwrap());
        assert!(all.len() <= count, "{listed}");
        if all.iter().filter(is_over).count() == count {
            return all.clone();
        }
        assert!(begun.elapsed() < END_MAX, "{listed}\n{}", host.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn logged(execution: &Value) -> Value {
    let logs = execution["logs"].as_str().unwrap();
    serde_json::from_str(logs.trim_end()).unwrap_or_else(|_| panic!("{execution}"))
}

#[test]
fn event_brings_the_row_and_a_loop_of_events_ends() {
    if !can() {
        return;
    }
    let events = json!([
        "databases.d.tables.t.rows.*.create",
        "databases.d.tables.t.rows.*.delete"
    ]);
    let host = start(&json!({"events": events, "scopes": ["rows.write"]}));
    write(&host, "one", &json!({"n": 7}));
    let seen = logged(&ended(&host, 1)[0]);
    let wanted = json!({"trigger": "event", "method": "POST", "path": "/",
        "event": "databases.d.tables.t.rows.one.create"});
    for (member, wanted) in wanted.as_object().unwrap() {
        assert_eq!(seen[member], *wanted, "{member}: {seen}");
    }
    let row = &seen["row"];
    assert_eq!(
        (&row["$id"], &row["n"]),
        (&json!("one"), &json!(7)),
        "{row}"
    );
    assert_eq!(
        (&row["$tableId"], &row["$databaseId"]),
        (&json!("t"), &json!("d"))
    );
    let gone = host.ask_at("DELETE", &format!("{ROWS}/one"), &json!({}));
    assert_eq!(gone.status, 204, "{gone:?}");
    let seen = logged(&ended(&host, 2)[1]);
    assert_eq!(seen["event"], "databases.d.tables.t.rows.one.delete");
    assert_eq!(seen["row"]["n"], 7, "as it was last: {seen}");
    // Six run, at the depths 0 to 5, and the seventh is refused.
    write(&host, "again0", &json!({"n": 0, "again": true}));
    let all = ended(&host, 9);
    let failed: Vec<&Value> = all.iter().filter(|one| one["status"] == "failed").collect();
    assert_eq!(failed.len(), 1, "{all:?}");
    assert!(
        failed[0]["errors"].as_str().unwrap().contains("five times"),
        "{}",
        failed[0]
    );
    assert_eq!(failed[0]["trigger"], "event");
}

#[test]
fn events_of_acknowledged_commits_outlive_a_kill() {
    const COUNT: usize = 40;
    if !can() {
        return;
    }
    let mut host = start(&json!({"events": ["databases.*.tables.*.rows.*.create"]}));
    for nth in 0..COUNT {
        write(&host, &format!("r{nth}"), &json!({"n": nth}));
        if nth % 13 == 12 {
            host.kill();
            host.start();
        }
    }
    host.kill();
    host.start();
    let all = ended(&host, COUNT);
    let mut rows: Vec<i64> = all
        .iter()
        .filter(|one| one["status"] == "completed")
        .map(|one| logged(one)["row"]["n"].as_i64().unwrap())
        .collect();
    rows.sort_unstable();
    rows.dedup();
    let given_up = all.iter().filter(|one| one["status"] == "failed").count();
    assert_eq!(rows.len() + given_up, COUNT, "each row has one execution");
}

#[test]
fn schedule_executes_a_function_by_the_clock() {
    if !can() {
        return;
    }
    let host = start(&json!({"schedule": "* * * * *"}));
    let begun = Instant::now();
    let first = loop {
        let listed = host.make("GET", "/f/executions", &Value::Null);
        if let Some(one) = listed["executions"].as_array().unwrap().first()
            && one["status"] == "completed"
        {
            break one.clone();
        }
        assert!(begun.elapsed() < END_MAX, "{listed}\n{}", host.log());
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(first["trigger"], "schedule");
    let seen = logged(&first);
    let wanted = json!({"trigger": "schedule", "row": {}, "method": "POST", "path": "/"});
    assert_eq!(seen, wanted);
}

#[test]
fn events_of_a_project_go_on_while_the_queue_of_another_is_full() {
    const SLEEPER: &str = "module.exports = () => new Promise(() => {})";
    /// More than wait of one project.
    const COUNT: usize = 10_200;
    if !can() {
        return;
    }
    let events = json!({"events": ["databases.*.tables.*.rows.*.create"], "timeout": 900});
    let mut host = Host::new(&["--metrics-listen=127.0.0.1:0"]);
    furnish(&host, &events, SLEEPER);
    for part in 0..COUNT / 100 {
        let row = |nth| json!({"$id": format!("r{part}-{nth}"), "n": nth});
        let rows: Vec<Value> = (0..100).map(row).collect();
        let made = host.ask_at("POST", ROWS, &json!({"rows": rows}));
        assert_eq!(made.status, 201, "{made:?}");
    }
    until_shown(&host, &["tidemark_event_projects_waiting 1"]);
    let full = host.key().to_owned();
    host.enter_new_project("other");
    furnish(&host, &events, HANDLER);
    for nth in 0..3 {
        write(&host, &format!("r{nth}"), &json!({"n": nth}));
    }
    let first = ended(&host, 3);
    assert!(first.iter().all(|one| one["status"] == "completed"));
    let lag = |host: &Host| -> f64 {
        let text = metrics(host);
        let name = "tidemark_event_lag_seconds ";
        let mut values = text.lines().filter_map(|line| line.strip_prefix(name));
        values.next().unwrap().parse().unwrap()
    };
    assert!(lag(&host) > 0.0);
    host.kill();
    host.start();
    write(&host, "later", &json!({"n": 3}));
    assert_eq!(ended(&host, 4).len(), 4);
    until_shown(&host, &["tidemark_event_projects_waiting 1"]);
    // Its queue goes with the function, and no one listens to the rest.
    host.enter("default", &full);
    host.make("DELETE", "/f", &Value::Null);
    let shown = [
        "tidemark_event_projects_waiting 0",
        "tidemark_event_lag_seconds 0",
    ];
    until_shown(&host, &shown);
}
