//! `tidemark bench load` and what reads its run, with stand-ins for the load generator. One lists
//! what is known beforehand, so what the report must say is known too; one sends requests.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use testing::send_signal;
use testing_postgres::Cluster;
use tests::bench_run::{assert_refused, count_runs, only_run, said, tidemark};
use tests::binary;

/// Answers of each slice; the hundredth part takes ten times as long as the others.
const ANSWERS: usize = 400;

/// Lists answers of 1 ms one after the other, every hundredth of 10 ms, and the last one refused.
const STAND_IN: &str = r#"#!/bin/sh
[ "$1" = "--version" ] && echo "oha 0.0.1" && exit 0
while [ $# -gt 1 ]; do
  [ "$1" = "-o" ] && out="$2"
  shift
done
echo "request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status" > "$out"
awk 'BEGIN {
  start = 0.25
  for (n = 1; n <= 400; n++) {
    took = n % 100 ? 0.001 : 0.01
    printf "%.6f,0,0,0,%.6f,10,200\n", start, took
    start += took
  }
  printf "%.6f,0,0,0,0.001,10,503\n", start
}' >> "$out"
"#;

#[test]
fn the_report_says_what_the_generator_listed() {
    let folder = tempfile::tempdir().unwrap();
    let stand_in = folder.path().join("oha");
    fs::write(&stand_in, STAND_IN).unwrap();
    fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
    let results = folder.path().join("results");
    let words = "bench load --no-functions --duration 1 --passes 2 --warmup 0 --connections 1 \
                 --cores 1 --scratch";
    let run = |out: &Path| {
        let oha = Path::new("--oha");
        let paths = [folder.path(), oha, &stand_in, Path::new("--out"), out];
        tidemark(words, &paths)
    };
    let output = run(&results);
    assert!(output.status.success(), "{}", said(&output));
    let (only, run) = only_run(&results);
    let keys: Vec<&str> = run["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["key"].as_str().unwrap())
        .collect();
    assert_eq!(
        keys,
        ["add_1_1", "read_1_1", "fetch_1_1", "mixed_90", "mixed_50"]
    );
    // Two passes of the server: counted here from what the stand-in lists.
    let mut took: Vec<f64> = (1..=ANSWERS)
        .flat_map(|n| [if n % 100 == 0 { 10_000.0 } else { 1_000.0 }; 2])
        .collect();
    took.sort_by(f64::total_cmp);
    let add = &run["groups"][0]["series"][0];
    assert_eq!(
        (&add["count"], &add["errors"]),
        (&took.len().into(), &2.into())
    );
    for (point, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
        let wanted = took[(share * took.len() as f64).ceil() as usize - 1];
        assert_eq!(add["points_us"][point].as_f64(), Some(wanted), "{point}");
    }
    let wall_ms = add["wall_ms"].as_f64().unwrap();
    assert!(
        (wall_ms - took.iter().sum::<f64>() / 1e3).abs() < 0.1,
        "{wall_ms}"
    );
    passes_are_alike(add);
    mixes_are_real(&run);
    let page = fs::read_to_string(only.join("report.html")).unwrap();
    assert!(page.len() < 1_000_000 && page.contains("\"kind\":\"load\""));

    let same = tidemark("bench compare", &[&only, &only.join("run.json")]);
    assert!(said(&same).contains("| the same |"), "{}", said(&same));
    let gallery = tidemark("bench gallery", &[&results]);
    assert!(
        said(&gallery).contains("1 pages drawn"),
        "{}",
        said(&gallery)
    );
    assert!(results.join("index.html").is_file());
}

/// By a stand-in that sends what oha would send, over one connection. Where there is a core for a
/// database, there are servers with their stores in one, too.
#[test]
fn functions_stand_in_the_report_warm_and_cold_and_on_both_databases() {
    let cores = std::thread::available_parallelism().unwrap().get();
    let cluster = Cluster::shared().unwrap();
    let url = cluster.url("postgres");
    let database = (cores > 1).then(|| format!("--database {url} "));
    let folder = tempfile::tempdir().unwrap();
    let stand_in = folder.path().join("oha");
    fs::write(&stand_in, include_str!("load/oha.py")).unwrap();
    fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
    let results = folder.path().join("results");
    let words = format!(
        "bench load --quick --duration 1 --passes 1 --warmup 0 --connections 1 --cores 1 \
         {}--scratch",
        database.as_deref().unwrap_or_default()
    );
    let (oha, out) = (Path::new("--oha"), Path::new("--out"));
    let output = tidemark(&words, &[folder.path(), oha, &stand_in, out, &results]);
    assert!(output.status.success(), "{}", said(&output));
    let (only, run) = only_run(&results);
    let groups = run["groups"].as_array().unwrap();
    for key in [
        "e1_node_1_1",
        "e1_python_1_1",
        "e1_node_durable_1_1",
        "e2_node_1_1",
        "e2_python_1_1",
    ] {
        let group = groups.iter().find(|group| group["key"] == key);
        let group = group.unwrap_or_else(|| panic!("{key}: {}", said(&output)));
        let [ours, bare] = [0, 1].map(|place| &group["series"][place]);
        assert_eq!(bare["title"], "bare Node");
        for series in [ours, bare] {
            assert_eq!(series["errors"], 0, "{key}");
            // The kernel counts hundredths of a second, so that a few answers may cost none.
            assert!(series["cpu_us"].as_f64() >= Some(0.0), "{key}");
        }
        // The server's own process is smaller than that with an interpreter.
        let alone = &groups[0]["series"][0]["memory_mib"];
        assert!(
            ours["memory_mib"].as_f64() > alone.as_f64(),
            "{key}: {ours}"
        );
    }
    every_column_has_a_rate(&run["columns"]["rows"][0]);
    let titles = run["tables"].as_array().unwrap();
    let titles: Vec<&Value> = titles.iter().map(|table| &table["title"]).collect();
    if database.is_some() {
        assert_eq!(titles.len(), 4);
        both_databases_stand_in_the_table(&run);
    }
    let wanted = [
        "Functions",
        "Cold starts of functions",
        "Beside bad functions",
    ];
    assert_eq!(titles[..3], wanted);
    let report = fs::read_to_string(only.join("report.md")).unwrap();
    for row in [
        "| E1: function that returns JSON, Python | 1 | 1 |",
        "| E1: function that returns JSON, Node | 2 |",
        "| E2: function that fetches 25 rows, Python | 2 |",
        "| Tidemark, 1 core, 1 connection, functions in Python |",
    ] {
        assert!(report.contains(row), "{row}: {report}");
    }
}

/// A row of the published table.
fn every_column_has_a_rate(row: &Value) {
    let rates = row["rates"].as_array().unwrap();
    assert_eq!(rates.len(), 5);
    assert!(rates.iter().all(|rate| rate.as_f64() > Some(0.0)), "{row}");
}

/// Of the database on a server of its own beside the data directory.
fn both_databases_stand_in_the_table(run: &Value) {
    for (group, key) in [(0, "add_1_1"), (1, "read_1_1"), (2, "fetch_1_1")] {
        let group = &run["groups"][group];
        let series = group["series"].as_array().unwrap().iter();
        let there = series.into_iter().find(|one| one["key"] == "postgres");
        assert_eq!(
            (&group["key"], &there.unwrap()["errors"]),
            (&key.into(), &0.into())
        );
    }
    let rows = run["columns"]["rows"].as_array().unwrap();
    let name = "Tidemark on PostgreSQL, 1 core and 1 of the database, 1 connection";
    let row = rows.iter().find(|row| row["name"] == name).unwrap();
    every_column_has_a_rate(row);
    assert_eq!(row["monthly"].as_f64(), Some(9.85));
    let tables = run["tables"].as_array().unwrap();
    let separated = tables.last().unwrap()["rows"].as_array().unwrap();
    let titles: Vec<&Value> = separated.iter().map(|row| &row[0]).collect();
    assert_eq!(titles.len(), 9, "{titles:?}");
    // Errors, and that processes of the database were found and counted.
    for row in separated {
        assert_eq!(row[12], "0", "{row}");
        assert_ne!(row[14], "–", "{row}");
    }
    let cores = &run["parameters"]["cores_of_the_database"];
    assert_eq!(cores, "1, the node's not among them");
}

/// Each pass has seen the stand-in's one list.
fn passes_are_alike(series: &Value) {
    assert_eq!(series["noise"]["again"].as_f64(), Some(1.0));
    let passes = series["passes"].as_array().unwrap();
    assert_eq!(passes.len(), 2);
    assert!(passes.iter().all(|pass| pass["count"] == ANSWERS));
}

/// The built-in client read a server of its own.
fn mixes_are_real(run: &Value) {
    for group in &run["groups"].as_array().unwrap()[3..] {
        let [on, off, floor] = [0, 1, 2].map(|place| &group["series"][place]);
        for series in [on, off, floor] {
            assert_eq!(series["errors"], 0, "{}", series["key"]);
        }
        assert!(on["hits_percent"].as_f64() > Some(5.0), "{}", group["key"]);
        assert_eq!(off["hits_percent"].as_f64(), Some(0.0));
        assert_eq!(floor["hits_percent"], Value::Null, "it has no cache");
        assert!(on["memory_mib"].as_f64() > Some(5.0));
    }
}

#[test]
fn a_run_that_cannot_begin_says_why_and_reports_nothing() {
    let cases = [
        (
            "--oha no-such-oha",
            "oha, the load generator, is not installed",
        ),
        (
            "--cores 100000",
            "100000 cores are wanted, this program may use",
        ),
        ("--prices no-such.toml", "the price file no-such.toml"),
        (
            "--sdk /tmp",
            "--sdk /tmp: it holds no package node-appwrite",
        ),
        ("--sdk /tmp --no-functions", "cannot be used with"),
        ("--database mysql://h/d", "postgres://"),
        (
            "--database postgres://h/d?schema=s",
            "--database names a schema; a benchmark makes its own",
        ),
        ("--connections 0", "--connections"),
        ("--connections 32,1,32", "--connections names 32 twice"),
        ("--cores 1,1", "--cores names 1 twice"),
        ("--passes 0", "--passes"),
        (
            "--duration 1 --passes 11",
            "11 passes (--passes) leave each of them less than 100 ms of the 1 s of a figure",
        ),
    ];
    assert_refused("bench load", &cases);
}

#[test]
fn a_run_that_is_stopped_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let [scratch, out] = ["scratch", "results"].map(|name| folder.path().join(name));
    fs::create_dir(&scratch).unwrap();
    let stand_in = folder.path().join("oha");
    let asked = folder.path().join("asked");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo oha 0.0.1 && exit 0\n\
         : > {}\nexec sleep 600\n",
        asked.display()
    );
    fs::write(&stand_in, script).unwrap();
    fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(binary().unwrap());
    command.args(["bench", "load", "--no-functions", "--quick", "--scratch"]);
    command.arg(&scratch).arg("--oha").arg(&stand_in);
    command.arg("--out").arg(&out);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    while !asked.exists() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended too early");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(fs::read_dir(&scratch).unwrap().count() > 0, "it is at work");
    send_signal(child.id(), "INT").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let told = said(&output);
    assert!(
        told.contains("stopped by SIGINT: nothing is reported"),
        "{told}"
    );
    assert_eq!((count_runs(&scratch), count_runs(&out)), (0, 0), "{told}");
}
