//! A function that logs all it can: what of that its records keep.

use std::ops::Range;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::fixture::{Host, PYTHON, can};
use super::jailed_api;

/// Logs as many bytes as a handler may, says so by a row, and ends when there is the row `go`: so
/// all end at once, however long their logs have taken.
const HANDLER: &str = "
import json, os, time, urllib.error, urllib.request

ROWS = os.environ['APPWRITE_FUNCTION_API_ENDPOINT'] + '/tablesdb/d/tables/t/rows'

def ask(context, url, row=None):
    headers = {'x-appwrite-project': 'default', 'content-type': 'application/json'}
    headers['x-appwrite-key'] = context.req.headers['x-appwrite-key']
    body = None if row is None else json.dumps({'rowId': row, 'data': {'n': 1}}).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code

def main(context):
    context.log('\u{1d11e}' * 999_999)
    id = context.req.headers['x-appwrite-execution-id']
    made = ask(context, ROWS, id)
    if made != 201:
        raise RuntimeError(f'a row is refused with {made}')
    while ask(context, ROWS + '/go') != 200:
        time.sleep(0.1)
    return context.res.empty()
";
/// Letters of four bytes, and the end of the line.
const LOG_BYTES: usize = 4 * 999_999 + 1;
/// What a record keeps however much its function logs.
const FREE_BYTES: usize = 1_024;
/// What a function may bring at once, and in each second.
const AT_ONCE_BYTES: usize = 32 << 20;
const BYTES_A_SECOND: usize = 1 << 20;
/// Executions whose logs have room in memory at once: of the first deployment half of what there
/// is for all, of the second half of the rest.
const EXECUTIONS: [usize; 2] = [8, 4];
const ROWS: &str = "/v1/tablesdb/d/tables/t/rows";
/// The machine may be busy building.
const END_MAX: Duration = Duration::from_mins(5);
/// From the instant that a record carries until what it may bring is judged, at most.
const JUDGED_AFTER_MS: usize = 5_000;
const DAY_MS: usize = 86_400_000;

#[track_caller]
fn wait(host: &Host, what: &str, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < END_MAX, "{what}\n{}", host.log());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Lets executions of what is deployed log all they can; they end later.
fn fill(host: &Host, count: usize, ids: &mut Vec<String>) {
    for _ in 0..count {
        let accepted = host.execute("f", &json!({"async": true}));
        assert_eq!(accepted.status, 202, "{accepted:?}");
        ids.push(accepted.json()["$id"].as_str().unwrap().to_owned());
    }
    wait(host, "not all have logged", || {
        let rows = host.ask_at("GET", ROWS, &Value::Null);
        rows.json()["total"] == json!(ids.len())
    });
}

/// How many logs are whole at most that end over so long: each second makes room for a quarter of
/// another one.
fn whole_max(span_ms: usize) -> usize {
    let refilled = BYTES_A_SECOND * (span_ms + JUDGED_AFTER_MS) / 1_000;
    (AT_ONCE_BYTES + refilled) / (LOG_BYTES - FREE_BYTES)
}

/// From the first of these instants to the last.
fn span_ms(mut instants: Vec<String>) -> usize {
    instants.sort();
    let of_day = |instant: &str| {
        let number = |at: Range<usize>| instant[at].parse::<usize>().unwrap();
        let seconds = (number(11..13) * 60 + number(14..16)) * 60 + number(17..19);
        seconds * 1_000 + number(20..23)
    };
    let [first, last] = [&instants[0], &instants[instants.len() - 1]].map(|at| of_day(at));
    (last + DAY_MS - first) % DAY_MS
}

#[test]
fn records_of_a_function_that_logs_all_it_can_are_cut() {
    if !can() {
        return;
    }
    let host = jailed_api::start();
    let options = json!({"scopes": ["rows.read", "rows.write"], "timeout": 900});
    host.create("f", PYTHON, &options);
    let mut ids = Vec::new();
    // What one deployment holds is no more than a function may bring at once.
    for count in EXECUTIONS {
        host.deploy("f", &[("main.py", HANDLER)], "");
        fill(&host, count, &mut ids);
    }
    let made = host.ask_at("POST", ROWS, &json!({"rowId": "go", "data": {"n": 1}}));
    assert_eq!(made.status, 201, "{made:?}");
    let (mut whole, mut ends) = (0, Vec::new());
    for id in &ids {
        let mut record = Value::Null;
        wait(&host, id, || {
            record = host.make("GET", &format!("/f/executions/{id}"), &Value::Null);
            record["status"] != "waiting" && record["status"] != "processing"
        });
        assert_eq!(record["status"], "completed", "{}", record["errors"]);
        ends.push(record["$updatedAt"].as_str().unwrap().to_owned());
        let logs = record["logs"].as_str().unwrap();
        let Some((warning, rest)) = logs.split_once('\n').filter(|(_, rest)| !rest.is_empty())
        else {
            assert_eq!(logs.len(), LOG_BYTES);
            whole += 1;
            continue;
        };
        let words = "[WARNING] Logs truncated in this record: the function logs more than 1 MiB a \
                     second";
        assert_eq!(warning, words);
        // The end of the line and as many whole letters as fit into 1,024 bytes with it.
        assert_eq!(rest.len(), 255 * 4 + 1);
    }
    let most = whole_max(span_ms(ends));
    assert!((8..=most).contains(&whole), "{whole} whole, of {most}");
}
