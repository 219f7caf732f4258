//! `tidemark bench bitemporal`, with a stand-in for the hand-written statements: what it tells is
//! known beforehand, so what the report must say of it is known too.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;
use tests::bench_run::{assert_refused, only_run, said, tidemark};

/// Answers each run with 20 objects of 1 ms, batches of 2 ms, and each task of deep rows with
/// points of 5 and 6 µs, and a plain table of a megabyte.
const STAND_IN: &str = r#"#!/bin/sh
[ "$1" = bitemporal ] && [ "$2" = --folder ] && [ -d "$3" ] || exit 3
ones=1000000
for n in 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do ones="$ones,1000000"; done
one="{\"objects\":20,\"wall_ns\":20000000,\"samples_ns\":[[$ones]]}"
batch='{"objects":20,"wall_ns":2000000,"samples_ns":[[2000000]]}'
echo '{"name":"a stand-in"}'
while read -r task; do
  case "$task" in
    *deep*) echo '{"point_now":[5000],"point_as_of":[6000],"plain_bytes":1000000}' ;;
    *) echo "{\"write_one\":$one,\"write_batch\":$batch,\"by_id\":$one}" ;;
  esac
done
"#;

#[test]
fn every_figure_and_every_target_is_in_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let stand_in = folder.path().join("bare");
    fs::write(&stand_in, STAND_IN).unwrap();
    fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
    let out = folder.path().join("results");
    let words = "bench bitemporal --quick --objects 20 --runs 2 --warmup 0 --rows 100 \
                 --versions 3 --clients 1,8 --scratch";
    let (bare, to) = (Path::new("--bare"), Path::new("--out"));
    let output = tidemark(words, &[folder.path(), bare, &stand_in, to, &out]);
    assert!(output.status.success(), "{}", said(&output));

    let (folder, run) = only_run(&out);
    let groups = run["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 2 * 7 + 3);
    for clients in [1_u64, 8] {
        let group = |key: &str| {
            let key = format!("{key}_{clients}");
            groups.iter().find(|group| group["key"] == *key).unwrap()
        };
        let counted = |key: &str| group(key)["series"][0]["count"].as_u64().unwrap();
        let wanted = [("write_one", 20), ("write_batch", 1), ("read_all", 1)];
        for (key, each) in wanted {
            assert_eq!(counted(key), 2 * clients * each, "{key}, {clients}");
        }
        for key in ["read_batch", "by_key", "by_key_list", "by_id"] {
            assert!(counted(key) >= 2 * clients, "{key}");
        }
        let bare = &group("write_one")["series"][1];
        assert_eq!(
            (&bare["title"], &bare["count"], &bare["points_us"]["p99"]),
            (&"a stand-in".into(), &40.into(), &1_000.0.into())
        );
        assert_eq!(bare["noise"]["again"].as_f64(), Some(1.0));
    }
    rows_are_right(&run);
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.len() < 1_000_000 && page.contains("\"kind\":\"bitemporal\""));
    let text = fs::read_to_string(folder.join("report.md")).unwrap();
    for part in [
        "\npostgresql: \"not measured here",
        "## Targets\n",
        "## 100 rows of 3 versions\n",
        "## A change of a row, with history and without\n",
    ] {
        assert!(text.contains(part), "{part}");
    }
}

fn rows_are_right(run: &Value) {
    let tables = run["tables"].as_array().unwrap();
    let row = |title: &str, first: &str| -> Vec<String> {
        let table = tables.iter().find(|table| table["title"] == *title);
        let table = table.unwrap_or_else(|| panic!("no table {title}"));
        let rows = table["rows"].as_array().unwrap();
        let found = rows.iter().find(|row| row[0].as_str().unwrap() == first);
        let found = found.unwrap_or_else(|| panic!("{first} is not in {table}"));
        let cells = found.as_array().unwrap().iter();
        cells
            .map(|cell| cell.as_str().unwrap().to_owned())
            .collect()
    };
    // 20 objects in 20 ms, 20 in 2 ms.
    let one = "Beside the published figures, 1 client";
    let stand_in = row(one, "a stand-in, measured");
    assert_eq!(stand_in[1..3], ["1000 (1.00)", "10000 (2.00)"]);
    assert_eq!(stand_in[6], "1000 (1.00)");
    let published = row(one, "TwiceDB, as published, quoted");
    assert_eq!(published[1..3], ["> 90 (< 300)", "> 200 (< 600)"]);
    let eight = row(
        "Beside the published figures, 8 clients",
        "TwiceDB, as published, quoted",
    );
    assert_eq!(eight[6], "> 1,000 (< 10)");
    let deep = row("100 rows of 3 versions", "one row, as of the past");
    assert_eq!(deep[6], "6.0");

    for what in [
        "write one by one, 1 client",
        "write one by one, each of 8 clients to one alone",
        "read by unique key, as a list, 8 clients in all",
        "one row as of the past to one of now, over HTTP, p50",
        "the same inside the process, p50",
        "25 rows of now, 3 versions a row to one, p50",
        "25 rows as of the past, 100 versions a row, p50",
        "bytes, to 4 plain tables with the same indexes",
        "a change, CPU of the server, to one without history",
    ] {
        let target = row("Targets", what);
        assert!(["yes", "no"].contains(&target[3].as_str()), "{target:?}");
    }
    let absent = row("Targets", "PostgreSQL behind it");
    assert_eq!(absent[3], "–");
    assert!(absent[2].starts_with("not measured here"), "{absent:?}");
    let few = row("Targets", "25 rows as of the past, 3 versions a row, p50");
    assert!(
        few[2].starts_with("not measured here"),
        "the target is of 5: {few:?}"
    );
}

#[test]
fn a_run_that_cannot_begin_says_why_and_reports_nothing() {
    let cases = [
        (
            "--bare no-such-file",
            "--bare no-such-file: there is no such file; cargo build",
        ),
        (
            "--bare /bin/true",
            "the program of hand-written statements has ended",
        ),
        ("--clients 1,1", "--clients names 1 twice"),
        ("--clients 65", "65 is not in 1..=64"),
        ("--objects 0", "0 is not in 1..=10000"),
        ("--versions 1", "1 is not in 2..=100"),
        ("--rows 24", "--rows"),
        (
            "--database postgres://u@h/d?schema=s",
            "--database names a schema; a benchmark makes its own",
        ),
        (
            "--database mysql://u:secret@h/d",
            "the URL of the database cannot be used",
        ),
        ("--scratch no-such-folder", "no folder below no-such-folder"),
    ];
    assert_refused("bench bitemporal --quick", &cases);
}
