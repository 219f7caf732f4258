//! The API inside a jail: reached there, and nothing else of the host with it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use functions::jail::JailLevel;
use functions::{ApiConnection, Executor, InstalledRuntimes};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{Host, LANGUAGES, can, run};

/// Answers each connection with the deployment that it comes from, and counts them at the end.
pub fn answer_all(mut connections: mpsc::Receiver<ApiConnection>) -> usize {
    let mut count = 0;
    while let Some(connection) = connections.blocking_recv() {
        count += 1;
        connection.stream.set_nonblocking(false).unwrap();
        answer(connection.stream, &connection.deployment);
    }
    count
}

fn answer(mut stream: TcpStream, deployment: &str) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert_eq!(first, "GET /v1/health HTTP/1.1");
    for line in lines.map_while(Result::ok) {
        if line.is_empty() {
            break;
        }
    }
    let length = deployment.len();
    let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream
        .write_all(format!("{head}{deployment}").as_bytes())
        .unwrap();
}

#[test]
fn api_is_reached_from_a_full_jail_and_nothing_else_is() {
    if !can(JailLevel::Full, None) {
        return;
    }
    let host = Host::new();
    let (sender, connections) = mpsc::channel(1);
    let answering = thread::spawn(move || answer_all(connections));
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let runtimes = InstalledRuntimes::find(&search_path, &[]);
    let settings = host.settings(JailLevel::Full);
    let executor = Executor::with_api(settings, runtimes, Some(sender)).unwrap();
    for (language, ending) in LANGUAGES {
        let file = format!("api.{ending}");
        let outcome = run(&executor, host.work(&executor, language, &file, "/"));
        assert_eq!(
            outcome.response.status, 200,
            "{language}: {}",
            outcome.errors
        );
        let found: Value = serde_json::from_slice(&outcome.response.body).unwrap();
        // The deployment of the test is called as its file is.
        assert_eq!(found["api"], file, "{found}");
        assert_eq!(found["again"], file, "{found}");
        for refused in ["host", "next", "listen"] {
            assert_eq!(found[refused], "EACCES", "{language}: {refused}: {found}");
        }
    }
    executor.shut_down(Duration::ZERO);
    drop(executor);
    // Its end shows that no listener has outlived its process.
    assert_eq!(answering.join().unwrap(), 4);
}

#[test]
fn escape_is_no_easier_where_there_is_an_api() {
    if !can(JailLevel::Full, None) {
        return;
    }
    let host = Host::new();
    let (sender, _connections) = mpsc::channel(1);
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let runtimes = InstalledRuntimes::find(&search_path, &[]);
    let settings = host.settings(JailLevel::Full);
    let executor = Executor::with_api(settings, runtimes, Some(sender)).unwrap();
    for (language, ending) in LANGUAGES {
        let work = host.work(&executor, language, &format!("escape.{ending}"), "/full");
        let outcome = run(&executor, work);
        assert_eq!(
            outcome.response.status, 200,
            "{language}: {}",
            outcome.errors
        );
        let found = serde_json::from_slice(&outcome.response.body).unwrap();
        super::check_common(language, &found);
    }
}
