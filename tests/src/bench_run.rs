//! Runs of `tidemark bench`: the program's words, and the report that it leaves.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the binary to its end, with these words and paths behind them.
pub fn tidemark(words: &str, paths: &[&Path]) -> Output {
    let mut command = Command::new(crate::binary().unwrap());
    command.args(words.split(' ')).args(paths);
    command.output().unwrap()
}

/// What a program wrote: its output, then its complaints.
pub fn said(output: &Output) -> String {
    let [out, complaint] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{complaint}")
}

/// The folder and the report of the only run below `results`.
pub fn only_run(results: &Path) -> (PathBuf, Value) {
    let entries = std::fs::read_dir(results).unwrap();
    let found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let [only] = found.as_slice() else {
        panic!("one folder, not {found:?}")
    };
    let text = std::fs::read_to_string(only.join("run.json")).unwrap();
    (only.clone(), serde_json::from_str(&text).unwrap())
}

/// How many runs are reported below `results`, which need not be there.
pub fn count_runs(results: &Path) -> usize {
    std::fs::read_dir(results).map_or(0, Iterator::count)
}

/// Runs `words` with each of the further ones: every run is refused, with
/// a text that holds what stands beside them, and reports nothing.
#[track_caller]
pub fn assert_refused(words: &str, cases: &[(&str, &str)]) {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results");
    for (further, wanted) in cases {
        let output = tidemark(&format!("{words} {further} --out"), &[&results]);
        let text = said(&output);
        assert!(
            !output.status.success() && text.contains(wanted),
            "{further}: {text}"
        );
    }
    assert_eq!(
        count_runs(&results),
        0,
        "nothing was measured, nothing is reported"
    );
}
