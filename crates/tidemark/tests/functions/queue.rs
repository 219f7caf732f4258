//! Executions for which no caller waits: accepted, started again after a crash, ended once.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testing::Credentials;

use super::fixture::{Host, NODE, can};

/// Answers with the number of its start as a part of the status. `/wait` takes until it is stopped.
const HANDLER: &str = "
module.exports = async ({ req, res, log }) => {
  log(`${req.headers['x-appwrite-execution-id']} ${req.bodyText}`)
  if (req.path === '/wait') await new Promise(() => {})
  await new Promise((resume) => setTimeout(resume, 20))
  return res.text('answered', 200 + Number(req.headers['x-tidemark-attempt']), { 'x-own': 'a' })
}";

/// The machine may be busy building.
const END_MAX: Duration = Duration::from_mins(3);

fn start() -> Host {
    let host = Host::new(&[]);
    host.create("f", NODE, &json!({"execute": ["any"], "timeout": 900}));
    host.deploy("f", &[("main.js", HANDLER)], "");
    host
}

#[track_caller]
fn queue(host: &Host, body: &Value) -> Value {
    let answer = host.execute("f", body);
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.json()
}

fn shown(host: &Host, id: &Value) -> Value {
    let path = format!("/f/executions/{}", id.as_str().unwrap());
    host.make("GET", &path, &Value::Null)
}

/// Waits until an execution has this status.
#[track_caller]
fn wait(host: &Host, id: &Value, status: &str) -> Value {
    let begun = Instant::now();
    loop {
        let found = shown(host, id);
        if found["status"] == status {
            return found;
        }
        assert!(begun.elapsed() < END_MAX, "{found}\n{}", host.log());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn queued_execution_is_accepted_and_its_end_is_shown() {
    if !can() {
        return;
    }
    let host = start();
    let asked = json!({
        "async": true, "body": "x", "path": "/a?b=c", "method": "PUT",
        "headers": {"content-type": "text/x", "x-other": "y"},
    });
    let accepted = queue(&host, &asked);
    assert_eq!(accepted["status"], "waiting", "{accepted}");
    assert_eq!(accepted["trigger"], "http");
    assert_eq!(accepted["responseStatusCode"], 0);
    let ended = wait(&host, &accepted["$id"], "completed");
    assert_eq!(ended["responseStatusCode"], 201, "{ended}");
    assert_eq!(ended["requestPath"], "/a?b=c");
    assert_eq!(ended["responseBody"], "");
    let id = accepted["$id"].as_str().unwrap();
    assert_eq!(ended["logs"], format!("{id} x\n"));
    assert_eq!(ended["$createdAt"], accepted["$createdAt"]);
    let names = |headers: &Value| -> Vec<String> {
        let headers = headers.as_array().unwrap().iter();
        let mut names: Vec<String> = headers
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort_unstable();
        names
    };
    let wanted = ["content-type", "x-appwrite-client-ip"];
    assert_eq!(names(&ended["requestHeaders"]), wanted, "{ended}");
    assert!(!ended["responseHeaders"].to_string().contains("x-own"));
    let listed = host.make("GET", "/f/executions", &Value::Null);
    assert_eq!(listed["total"], 1);
    // Guests queue as they execute, and see nothing of it.
    let body = json!({"async": true});
    let guest = host.ask_as(Credentials::Guest, "POST", "/f/executions", &body);
    assert_eq!(guest.status, 202, "{guest:?}");
    assert_eq!(
        wait(&host, &guest.json()["$id"], "completed")["trigger"],
        "http"
    );
}

#[test]
fn queued_execution_is_refused_for_what_it_asks() {
    if !can() {
        return;
    }
    let host = start();
    for (body, part) in [
        (json!({"scheduledAt": "2099-01-01T00:00:00.000Z"}), "async"),
        (json!({"async": true, "scheduledAt": "tomorrow"}), "date"),
        (json!({"async": true, "scheduledAt": ""}), "date"),
        (json!({"async": true, "scheduledAt": 5}), "scheduledAt"),
        (
            json!({"async": true, "scheduledAt": "2020-01-01T00:00:00.000Z"}),
            "minute",
        ),
        (
            json!({"async": true, "scheduledAt": "9".repeat(100_000)}),
            "date",
        ),
    ] {
        let refused = host.execute("f", &body);
        let wanted = "400 general_argument_invalid";
        assert_eq!(refused.outcome(), wanted, "{}", refused.text);
        assert!(refused.text.contains(part), "{part}: {}", refused.text);
    }
    let later = queue(
        &host,
        &json!({"async": true, "scheduledAt": "2099-01-01T00:00:00.000+00:00"}),
    );
    assert_eq!(later["status"], "scheduled");
    assert_eq!(later["scheduledAt"], "2099-01-01T00:00:00.000+00:00");
    let path = format!("/f/executions/{}", later["$id"].as_str().unwrap());
    assert_eq!(host.ask("DELETE", &path, &Value::Null).status, 204);
    let gone = host.ask("GET", &path, &Value::Null);
    assert_eq!(gone.outcome(), "404 execution_not_found");
    let runs = queue(&host, &json!({"async": true, "path": "/wait"}));
    wait(&host, &runs["$id"], "processing");
    let path = format!("/f/executions/{}", runs["$id"].as_str().unwrap());
    let refused = host.ask("DELETE", &path, &Value::Null);
    assert_eq!(refused.outcome(), "400 execution_in_progress");
}

#[test]
fn queued_execution_goes_back_at_an_orderly_end() {
    if !can() {
        return;
    }
    let mut host = start();
    let runs = queue(&host, &json!({"async": true, "path": "/wait"}));
    wait(&host, &runs["$id"], "processing");
    // The next start answers.
    let code = HANDLER.replace("await new Promise(() => {})", "{}");
    host.deploy("f", &[("main.js", &code)], "");
    host.stop();
    host.start();
    let ended = wait(&host, &runs["$id"], "completed");
    assert_eq!(
        ended["responseStatusCode"], 202,
        "it was started twice: {ended}"
    );
}

#[test]
fn queued_executions_survive_kills_and_start_three_times_at_most() {
    if !can() {
        return;
    }
    let is_night = std::env::var("TIDEMARK_LANE").is_ok_and(|lane| lane == "night");
    let count = if is_night { 1_000 } else { 200 };
    let mut host = start();
    let mut ids = Vec::new();
    for nth in 0..count {
        let accepted = queue(&host, &json!({"async": true, "body": nth.to_string()}));
        ids.push(accepted["$id"].clone());
    }
    for _ in 0..5 {
        host.kill();
        host.start();
        // Some run when the next kill comes.
        let listed = host.make("GET", "/f/executions", &Value::Null);
        assert_eq!(listed["total"], json!(count));
    }
    for id in ids {
        let begun = Instant::now();
        let ended = loop {
            let found = shown(&host, &id);
            if ["completed", "failed"].contains(&found["status"].as_str().unwrap()) {
                break found;
            }
            assert!(begun.elapsed() < END_MAX, "{found}\n{}", host.log());
            std::thread::sleep(Duration::from_millis(20));
        };
        let status = ended["responseStatusCode"].as_i64().unwrap();
        let is_told = ended["errors"].as_str().unwrap().contains("three times");
        assert!((201..=203).contains(&status) || is_told, "{ended}");
    }
    let listed = host.make("GET", "/f/executions", &Value::Null);
    assert_eq!(listed["total"], json!(count), "each has one record");
}
