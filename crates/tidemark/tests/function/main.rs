//! `tidemark function`: from a new folder to deployments, variables and the end of a function.

mod deploy;
mod dev;
#[path = "../process/mod.rs"]
mod process;
mod resources;
mod session;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use testing::ChildServer;

use process::{Folder, text, tidemark};

/// Runs `tidemark function` with these words in the folder `hello`, on the server's directory.
fn function(folder: &Folder, words: &[&str]) -> Output {
    command(folder, words).output().unwrap()
}

fn command(folder: &Folder, words: &[&str]) -> Command {
    let mut command = tidemark("function");
    command.args(words).arg("--data").arg(folder.data());
    command.current_dir(folder.join("hello"));
    command
}

#[track_caller]
fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A server, and a new function in the folder `hello`.
fn hello(folder: &Folder) -> ChildServer {
    init(folder, "hello --runtime node-20.0");
    process::start(folder)
}

#[track_caller]
fn init(folder: &Folder, words: &str) -> String {
    let mut command = tidemark(&format!("function init {words}"));
    done(&command.current_dir(folder.join(".")).output().unwrap())
}

fn alter(path: &Path, from: &str, to: &str) {
    let before = fs::read_to_string(path).unwrap();
    assert!(before.contains(from), "{before}");
    fs::write(path, before.replace(from, to)).unwrap();
}

/// Whether there can be a full jail here; `TIDEMARK_JAIL=required` makes a failure of it.
fn has_jail() -> bool {
    let program = Path::new(env!("CARGO_BIN_EXE_tidemark"));
    let tried = functions::jail::attempt::try_jail(program, functions::jail::JailLevel::Full);
    let is_required = std::env::var_os("TIDEMARK_JAIL").is_some_and(|word| word == "required");
    if let Err(why) = &tried {
        assert!(!is_required, "no jail `full`: {why}");
        eprintln!("skipped: no jail `full` here: {why}");
    }
    tried.is_ok()
}

/// The first runtime of this machine in a language.
fn runtime_of(language: &str) -> String {
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let installed = functions::InstalledRuntimes::find(&search_path, &[]);
    let mut found = installed.found().iter();
    let found = found.find(|runtime| runtime.name == language);
    found
        .unwrap_or_else(|| panic!("{language}: {installed:?}"))
        .ids[0]
        .clone()
}

fn search_path() -> String {
    std::env::var("PATH").unwrap_or_default()
}

/// A server that finds the interpreters of this machine, and a new function for one of them.
fn running(folder: &Folder, language: &str) -> ChildServer {
    init(folder, &format!("hello --runtime {}", runtime_of(language)));
    process::start_with(folder, &[("PATH", &search_path())])
}
