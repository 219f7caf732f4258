//! What a newcomer types, as it is printed.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::dev::{Dev, stop};
use super::process::{self, Folder, text};
use super::{alter, done, has_jail, runtime_of, search_path};

/// What the guide says of functions.
const GUIDE: &str = include_str!("../../../../docs/guides/functions.md");

/// What a shell does with these lines, where `tidemark` uses the data of the folder.
fn bash(folder: &Folder, script: &str) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_tidemark")).parent().unwrap();
    Command::new("bash")
        .args(["-e", "-o", "pipefail", "-c", script])
        .current_dir(folder.join("."))
        .env_clear()
        .env("PATH", format!("{}:/usr/bin:/bin", binary.display()))
        .env("TIDEMARK_DATA", folder.data())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// What a newcomer types first: a new function, served while it is changed, then sent and run.
#[test]
fn session_of_a_newcomer_ends_with_a_function_that_runs() {
    if !has_jail() {
        return;
    }
    for (language, file) in [("node", "index.mjs"), ("python", "main.py")] {
        let folder = Folder::new();
        let _server = process::start_with(&folder, &[("PATH", &search_path())]);
        let runtime = runtime_of(language);
        let made = format!("tidemark function init hello --runtime {runtime} && cd hello");
        done(&bash(&folder, &made));
        let dev = Dev::start(&folder, &[]);
        dev.get_until("world");
        alter(&folder.join("hello").join(file), "world", "moon");
        dev.get_until("moon");
        stop(dev, &folder.join("hello").display().to_string());
        let run = "cd hello
tidemark function deploy && tidemark function run hello --body '{\"n\":1}'";
        let said = done(&bash(&folder, run));
        assert!(
            said.ends_with(r#"{"hello":"moon","given":{"n":1}}"#),
            "{said}"
        );
    }
}

/// The guide's commands, as printed, but for those of `dev`, which go on until they are stopped.
#[test]
fn guide_of_functions_runs_as_printed() {
    if !has_jail() {
        return;
    }
    let folder = Folder::new();
    let _server = process::start_with(&folder, &[("PATH", &search_path())]);
    let blocks = GUIDE.split("```sh\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().unwrap());
    let blocks = blocks.filter(|block| !block.contains("function dev"));
    let script: String = blocks.collect();
    let printed = script.replace("node-20.0", &runtime_of("node"));
    let output = bash(&folder, &printed);
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}{errors}");
    for part in [
        "is built and active",
        r#"{"hello":"world","given":{"n":1}}"#,
        "TOKEN   (secret)",
        "Deleted variable `REGION`",
        "Deleted function `hello`.",
    ] {
        assert!(said.contains(part), "`{part}` is not in {said}{errors}");
    }
    assert!(!said.contains("a safe place"), "{said}");
}
