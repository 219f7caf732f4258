//! `tidemark bench hostile --quick`: strangers send the worst of every kind to a server with its
//! defaults, and nothing but successes and typed refusals comes back. Times are reported, and
//! judged elsewhere: other programs share this machine.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use testing::send_signal;
use tests::bench_run::{count_runs, only_run, said};
use tests::binary;

/// What a busy machine may cause: a request by key that had no answer within the few seconds that
/// a quick run waits.
const NOT_SERVED: &str = "a key was not served";

fn bench(words: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(binary().unwrap());
    command.args(["bench", "hostile", "--quick"]).args(words);
    command.arg("--scratch").arg(folder);
    command.arg("--out").arg(folder.join("results"));
    command
}

fn rows<'a>(run: &'a Value, title: &str) -> &'a [Value] {
    let tables = run["tables"].as_array().unwrap();
    let table = tables.iter().find(|table| table["title"] == *title);
    let table = table.unwrap_or_else(|| panic!("no table {title}"));
    table["rows"].as_array().unwrap()
}

fn run(folder: &Path) -> Value {
    only_run(&folder.join("results")).1
}

#[test]
fn strangers_get_typed_refusals_and_the_server_keeps_its_memory_and_answers() {
    let folder = tempfile::tempdir().unwrap();
    let kinds = "cheap,regex,words,tests,nesting,orders,unread,abandoned,drip,bodies,arrays,rows,\
                 bulk,staged,batch,streams,ttl,cursors,past,related,pipelined,mutilated,idle,drawn,\
                 worst";
    // A build without optimisation makes and sends answers slowly, so more of them are held at once:
    // 1,063 MiB were seen, and 569 in the end. The defaults are for the release build.
    let bounds = ["--ceiling", "1536", "--rest-ceiling", "1024"];
    let words = [&["--kind", kinds], &bounds[..]].concat();
    let output = bench(&words, folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let run = run(folder.path());
    let found = rows(&run, "Findings").iter();
    let found: Vec<&Value> = found
        .filter(|row| !row[1].as_str().unwrap().starts_with(NOT_SERVED))
        .collect();
    assert!(found.is_empty(), "{found:#?}");
    let targets = rows(&run, "Targets");
    for what in ["most memory of the server", "memory at rest in the end"] {
        let memory = targets.iter().find(|row| row[0] == what);
        assert_eq!(memory.unwrap()[3], "yes", "{memory:?}");
    }
    // Each kind was tried, and strangers were answered.
    let attacked = rows(&run, "What came back to strangers").iter();
    let attacked: Vec<&str> = attacked.map(|row| row[0].as_str().unwrap()).collect();
    for kind in kinds.split(',') {
        assert!(attacked.contains(&kind), "{kind}");
    }
}

#[test]
fn findings_end_with_a_failure_only_where_that_is_asked_for() {
    for (more, wanted) in [(None, Some(0)), (Some("--strict"), Some(1))] {
        let folder = tempfile::tempdir().unwrap();
        let words = ["--kind", "idle", "--strangers", "1", "--ceiling", "1"];
        let words = words.into_iter().chain(["--rest-ceiling", "1"]);
        let words: Vec<&str> = words.chain(more).collect();
        let output = bench(&words, folder.path()).output().unwrap();
        assert_eq!(output.status.code(), wanted, "{}", said(&output));
        let run = run(folder.path());
        let found = rows(&run, "Findings").iter();
        let found: Vec<&str> = found.map(|row| row[1].as_str().unwrap()).collect();
        for end in ["MiB of memory", "MiB of memory at rest"] {
            assert!(found.iter().any(|what| what.ends_with(end)), "{run}");
        }
    }
}

#[test]
fn report_shows_beside_each_attack_how_late_this_machine_wakes_a_thread() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["--kind", "cheap", "--strangers", "1"];
    let output = bench(&words, folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let run = run(folder.path());
    let tables = run["tables"].as_array().unwrap();
    let kinds = tables
        .iter()
        .find(|one| one["title"] == "By kind of attack");
    let heads = kinds.unwrap()["heads"].as_array().unwrap();
    let wakings = heads.iter().position(|head| head == "wakings p99 ms");
    let rows = rows(&run, "By kind of attack");
    assert_eq!(rows.len(), 2, "quiet and cheap");
    for row in rows {
        let late: f64 = row[wakings.unwrap()].as_str().unwrap().parse().unwrap();
        assert!(late > 0.0, "{row}");
    }
}

#[test]
fn a_run_that_is_stopped_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = bench(&[], folder.path());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let is_begun = || {
        let mut entries = fs::read_dir(folder.path()).unwrap();
        entries.any(|entry| {
            let name = entry.unwrap().file_name();
            name.to_string_lossy().starts_with("bench-")
        })
    };
    while !is_begun() {
        assert_eq!(child.try_wait().unwrap(), None, "it ended too early");
        std::thread::sleep(Duration::from_millis(20));
    }
    send_signal(child.id(), "INT").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let told = said(&output);
    assert!(
        told.contains("stopped by SIGINT: nothing is reported"),
        "{told}"
    );
    assert!(!is_begun(), "{told}");
    let reported = count_runs(&folder.path().join("results"));
    assert_eq!(reported, 0, "{told}");
}
