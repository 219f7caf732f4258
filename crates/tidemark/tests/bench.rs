//! Seeding and measuring with the built binary, against a server of the same build.

mod process;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use process::{Folder, assert_refused, text, tidemark};
use serde_json::Value;
use testing::{ChildServer, send_signal};

const KEY: &str = "a-secret-of-our-own";

fn serve(folder: &Folder) -> ChildServer {
    process::start_with(folder, &[("TIDEMARK_API_KEY", KEY)])
}

/// A command that reaches the server by the variables of the official SDK's examples.
fn against(server: &ChildServer, words: &str) -> Command {
    let mut command = tidemark(words);
    command
        .env("APPWRITE_ENDPOINT", &server.endpoint)
        .env("APPWRITE_PROJECT_ID", "default");
    command.env("APPWRITE_API_KEY", KEY);
    command
}

#[track_caller]
fn said(server: &ChildServer, words: &str) -> String {
    let output = against(server, words).output().unwrap();
    assert!(output.status.success(), "{words}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn seeding_builds_once_and_again_only_when_something_else_is_wanted() {
    let folder = Folder::new();
    let server = serve(&folder);
    let seed = |words: &str| said(&server, &format!("seed catalog --rows {words}"));
    assert!(seed("230").starts_with("Built 230 rows in bench_db/products, without index"));
    assert!(seed("230").starts_with("Complete already: 230 rows"));
    assert!(
        seed("230 --index").starts_with("Built 230 rows"),
        "the index was missing"
    );
    assert!(seed("230 --index").starts_with("Complete already"));
    assert!(
        seed("100 --index").starts_with("Built 100 rows"),
        "130 were too many"
    );
    assert!(
        seed("101 --index").starts_with("Built 101 rows"),
        "one was missing"
    );
}

#[test]
fn seeding_without_a_key_uses_the_server_of_the_data_directory() {
    let folder = Folder::new();
    let refused = process::on(&folder, "seed catalog --rows 5");
    assert_refused(&refused, 1, "no server runs on the data directory");
    let server = serve(&folder);
    let seeded = process::on(&folder, "seed catalog --rows 5");
    assert!(seeded.status.success(), "{}", text(&seeded.stderr));
    assert!(text(&seeded.stdout).starts_with("Built 5 rows"));
    // Its key has gone with it.
    let keys = text(&process::on(&folder, "key list").stdout);
    assert!(!keys.contains("tidemark seed"), "{keys}");
    // A key of this server is not sent to another one.
    let elsewhere = process::on(&folder, "seed catalog --endpoint http://127.0.0.1:9/v1");
    assert_refused(&elsewhere, 1, "no API key is given for 127.0.0.1:9");
    drop(server);
}

#[test]
fn the_benchmark_checks_measures_and_reports() {
    let folder = Folder::new();
    let server = serve(&folder);
    said(&server, "seed catalog --rows 600");
    let out = folder.join("results");
    let bench = |rows: &str| {
        let mut command = against(&server, "bench ttl --iterations 40 --warmup 1");
        command
            .args(["--rounds", "4", "--rows", rows, "--out"])
            .arg(&out);
        command.output().unwrap()
    };
    assert_refused(
        &bench("300"),
        1,
        "gave a wrong answer, so nothing is measured: ",
    );
    let reported = fs::read_dir(&out).unwrap().count();
    assert_eq!(reported, 0, "nothing was measured, nothing is reported");

    let output = bench("600");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut folders: Vec<_> = fs::read_dir(&out)
        .unwrap()
        .map(|folder| folder.unwrap().path())
        .collect();
    let folder = folders.pop().unwrap();
    assert!(folders.is_empty() && folder.to_string_lossy().ends_with("Z-ttl"));
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let raw: Value = serde_json::from_str(&read("run.json")).unwrap();
    let series = raw["groups"][0]["series"].as_array().unwrap();
    for (series, key) in series
        .iter()
        .zip(["uncached", "exact", "ttl", "floor", "lean"])
    {
        assert_eq!(
            (&series["key"], &series["count"]),
            (&key.into(), &40.into())
        );
        let codes = series["samples"]["codes"].as_str().unwrap();
        assert_eq!(codes.len(), 80, "two letters a sample: {key}");
    }
    let parameters = &raw["parameters"];
    // Purged after the check: the first of the warm-up calls fills the cache again.
    assert_eq!(
        (&parameters["ttl_hits"], &parameters["ttl_misses"]),
        (&40.into(), &0.into())
    );
    // Nothing was written meanwhile, so the list stays in the cache; what bypasses it counts not.
    assert_eq!(
        (&parameters["exact_hits"], &parameters["exact_misses"]),
        (&40.into(), &0.into())
    );
    assert_eq!(series[0]["hits_percent"], Value::Null);
    assert_eq!(
        (&parameters["index"], &parameters["rows"]),
        (&false.into(), &600.into())
    );
    let report = read("report.md");
    assert!(read("report.html").contains("\"format\":\"tidemark.run/1\""));
    assert!(report.starts_with("---\nstarted: \"20"), "{report}");
    assert!(
        report.contains("\n## Beside the published results\n"),
        "{report}"
    );
    assert!(
        text(&output.stdout).contains("| floor |"),
        "the summary is shown"
    );
}

#[test]
fn the_floor_repeats_one_answer_byte_for_byte() {
    let folder = Folder::new();
    let server = serve(&folder);
    let from = format!("{}/health/version", server.endpoint);
    let mut command = tidemark(&format!("bench floor --threads 2 --from {from}"));
    command.args(["--header", "X-Appwrite-Project: default"]);
    let mut floor = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(floor.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line
        .trim_end()
        .strip_prefix("listening on http://")
        .expect(&line);

    let ask = |address: &str, route: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "GET {route} HTTP/1.1\r\nHost: t\r\nX-Appwrite-Project: default\r\n"
        )
        .unwrap();
        stream.write_all(b"Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let shape = |answer: &str| {
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let mut names: Vec<String> = head
            .lines()
            .skip(1)
            .map(|line| line.split(':').next().unwrap().to_ascii_lowercase())
            .collect();
        names.sort();
        (
            head.lines().next().unwrap().to_owned(),
            names,
            head.len(),
            body.to_owned(),
        )
    };
    let server_address = format!("127.0.0.1:{}", server.port());
    let original = shape(&ask(&server_address, "/v1/health/version"));
    assert_eq!(shape(&ask(address, "/v1/any/other")), original);
    send_signal(floor.id(), "TERM").unwrap();
    assert!(floor.wait().unwrap().success());
}
