//! The project's only task runner: `cargo xtask <command>`.
//!
//! Tools of other languages (npm, pytest) are started from here, so that a person and CI type
//! the same words. Each command lives in the file of its name.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod checkout;
mod counts;
mod demo;
mod deny;
mod dist;
mod docs;
mod drop_in;
mod failures;
mod fast;
mod full;
mod fuzz;
mod install;
mod interleavings;
mod lane;
mod live;
mod night;
mod notices;
mod on_database;
mod php_deb;
mod php_ext;
mod prerequisite;
mod prose;
mod python_cache;
mod servers_on_database;
mod tally;
mod tidy;
mod wheels;

const AFTER_HELP: &str = "\
Which one do I want?
  while working        cargo xtask fast
  before handing in    cargo xtask full --install
  to see it run        cargo xtask demo
  to read the docs     cargo xtask docs --install

Exit status: 0 all is well, 1 something failed, 2 something is missing on this machine
(nothing was run; the message says what to install) or the command line was wrong.";

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about, after_help = AFTER_HELP)]
#[command(about = "Checks, tests, benchmarks and the demonstration, under one name")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Tidy(tidy::Arguments),
    Fast(fast::Arguments),
    Full(full::Arguments),
    Night(night::Arguments),
    Bench(bench::Arguments),
    Demo(demo::Arguments),
    Dist(dist::Destination),
    Docs(docs::DocsArguments),
    Notices(notices::NoticesArguments),
    PhpExt(php_ext::PhpExtArguments),
    Wheels(wheels::WheelArguments),
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    let ended = checkout::Checkout::find().and_then(|checkout| match command {
        Command::Tidy(arguments) => tidy::run(&checkout, &arguments),
        Command::Fast(arguments) => fast::run(&checkout, &arguments),
        Command::Full(arguments) => full::run(&checkout, &arguments),
        Command::Night(arguments) => night::run(&checkout, &arguments),
        Command::Bench(arguments) => bench::run(&checkout, &arguments),
        Command::Demo(arguments) => demo::run(&checkout, &arguments),
        Command::Dist(arguments) => dist::run(&checkout, &arguments).map(|()| ExitCode::SUCCESS),
        Command::Docs(arguments) => docs::run(&checkout, &arguments),
        Command::Notices(arguments) => notices::run(&checkout, &arguments),
        Command::PhpExt(arguments) => php_ext::run(&checkout, &arguments),
        Command::Wheels(arguments) => wheels::run(&checkout, &arguments),
    });
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
