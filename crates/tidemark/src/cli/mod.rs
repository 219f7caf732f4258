//! The command line: one file for each command, each thin over the room that does the work.

use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use engine::Clock;
use server::rng::Rng;

use self::command::Command;

pub mod bench;
mod bootstrap;
pub mod command;
mod connection;
mod doctor;
pub mod explain;
mod export;
pub mod function;
mod import;
mod jail;
pub mod key;
mod licenses;
mod log;
pub mod maintain;
pub mod moving;
pub mod options;
pub mod past;
pub mod project;
pub mod schema;
pub mod seed;
pub mod serve;
mod signals;
mod table;
pub mod top;
mod whole_file;

/// How long standard error may take to be written when the process ends.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// What every command is given from outside.
#[derive(Clone)]
pub struct Outside {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The source of ids and secrets.
    pub rng: Rng,
    /// Gives memory that a thread does not use back to the system; all of it when it is quiet.
    pub collect: fn(bool),
}

/// Reads the command line and does what it says.
///
/// The exit code is 0 on success, 1 when the command failed (the reason stands in one line on
/// standard error), 2 when the command line was not understood, 3 when an export lacks damaged rows
/// and is whole otherwise.
pub fn main(clock: Arc<dyn Clock>, rng: Rng, collect: fn(bool)) -> ExitCode {
    if let Some(setup) = jail::setup(crate::config::words().into_iter().skip(1)) {
        return jail::run(&setup);
    }
    let outside = Outside {
        clock,
        rng,
        collect,
    };
    let done = command::read().and_then(|cli| run(cli.command, outside));
    match done {
        Ok(code) => code,
        Err(error) => {
            let line = format!("error: {}\n", one_line(&error));
            // A server ends also where standard error is full or gone.
            within(LAST_WORDS, move || {
                drop(io::stderr().write_all(line.as_bytes()));
            });
            ExitCode::FAILURE
        }
    }
}

/// Has this done, but waits no longer for it: the process ends with it undone.
fn within(limit: Duration, work: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let working = thread::Builder::new().spawn(move || {
        work();
        // The receiver may be gone.
        let _ = done.send(());
    });
    if working.is_ok() {
        let _ = ended.recv_timeout(limit);
    }
}

fn run(command: Command, outside: Outside) -> Result<ExitCode> {
    match command {
        Command::Serve(args) => {
            let Outside { clock, rng, .. } = outside.clone();
            return serve::run(args.check(clock, rng)?, outside);
        }
        Command::Project(command) => project::run(command, outside)?,
        Command::Key(command) => key::run(command, outside)?,
        Command::Doctor(args) => return doctor::run(&args, outside),
        Command::Export(args) => return export::run(args.check()?, outside),
        Command::Import(args) => return import::run(args.check()?, outside),
        Command::Move(args) => moving::run(&args)?,
        Command::Maintain(args) => maintain::run(&args)?,
        Command::Options(args) => options::run(&args, &outside)?,
        Command::Explain(args) => explain::run(&args, &outside)?,
        Command::Schema(command) => return schema::run(command, &outside),
        Command::Function(command) => return function::run(command, &outside),
        Command::History(args) => past::history(&args, outside)?,
        Command::Erase(args) => past::erase(&args, outside)?,
        Command::Licenses => licenses::run()?,
        Command::Seed(command) => seed::run(command, &outside)?,
        Command::Top(args) => top::run(&args)?,
        Command::Bench(command) => bench::run(command, &outside)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The error and its causes in one line. A cause that its effect repeats is left out, and parts
/// that end as sentences lose their full stop before a colon.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for part in error.chain().map(ToString::to_string) {
        let part = part.trim_end().trim_end_matches('.').replace('\n', " ");
        if line.is_empty() {
            line = part;
        } else if !line.contains(&part) {
            line = format!("{line}: {part}");
        }
    }
    let end = if line.ends_with('?') { "" } else { "." };
    line + end
}

/// A runtime for commands that talk: one thread is enough.
fn runtime() -> Result<tokio::runtime::Runtime> {
    let builder = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    builder.context("cannot start the asynchronous runtime")
}

/// Writes to standard output. A reader that has gone, as after `| head`, is no failure.
fn say(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// Writes JSON, indented for people, to standard output.
fn say_json(value: &serde_json::Value) -> Result<()> {
    say(&format!("{value:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_and_its_causes_make_one_line() {
        let error = anyhow::anyhow!("The disk is full.").context("cannot open a\ndirectory");
        assert_eq!(
            one_line(&error),
            "cannot open a directory: The disk is full."
        );
        assert_eq!(one_line(&anyhow::anyhow!("no key")), "no key.");
        let repeated = anyhow::anyhow!("refused").context("cannot connect: refused. Is it there?");
        assert_eq!(one_line(&repeated), "cannot connect: refused. Is it there?");
    }
}
