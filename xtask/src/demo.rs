//! `cargo xtask demo`: the published benchmark on this machine, from nothing to its table.

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use testing::ChildServer;

use crate::checkout::Checkout;
use crate::install::{self, Packages};
use crate::live;
use crate::{bench, prerequisite};

/// From a fresh machine to the TTL benchmark's table: build, serve, seed, measure, stop.
///
/// Needs Rust, a C compiler and Node 20 or later. Everything it writes lies below target/demo
/// and is made anew each time: the data directory, the server's log, the report.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Timed calls in each of the three phases; the published run has 100000. The default
    /// keeps seeding and measuring together under a minute.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(10..))]
    iterations: u32,
}

/// Phases take turns this often, so that a machine that drifts drifts for all of them.
const ROUNDS: &str = "10";
const BENCH: Packages = Packages::Npm("bench/ttl");

/// # Errors
/// Whatever step fails, with what it said.
pub fn run(checkout: &Checkout, arguments: &Arguments) -> Result<ExitCode> {
    let missing = [prerequisite::to_build(), prerequisite::for_node()].concat();
    if !missing.is_empty() {
        return Ok(prerequisite::refuse(
            &missing,
            "install these and start again",
        ));
    }
    let mut steps = Steps {
        start: Instant::now(),
        count: 0,
    };
    let folder = checkout.target()?.join("demo");

    steps.say("building the release binary (the first time takes minutes)");
    must(checkout.build_release())?;

    steps.say("installing the official SDK into bench/ttl");
    if !install::run_all(BENCH.install(checkout)?)? {
        bail!("`npm ci` in bench/ttl failed");
    }

    steps.say(&format!(
        "starting the server on {}",
        checkout.shown(&folder.join("data"))
    ));
    let server = live::start(checkout.command(checkout.binary()?), &folder)?;
    println!("         it answers at {}", server.endpoint);

    let measured = measure(checkout, arguments, &server, &mut steps);
    if measured.is_err() {
        println!("         the server's log ends:\n{}", server.log_tail());
    }
    measured?;

    steps.say("stopping the server");
    server.stop()?;
    steps.say("done");
    Ok(ExitCode::SUCCESS)
}

fn measure(
    checkout: &Checkout,
    arguments: &Arguments,
    server: &ChildServer,
    steps: &mut Steps,
) -> Result<()> {
    steps.say("seeding the catalog of 10,000 products, with its index");
    must(bench::seed(checkout, server)?)?;

    let iterations = arguments.iterations;
    steps.say(&format!(
        "running the benchmark through the SDK, {iterations} calls a phase"
    ));
    let mut measuring = checkout.command("node");
    measuring
        .current_dir(checkout.root.join(BENCH.folder()))
        .arg("bench.js");
    live::lend(server, &mut measuring)?;
    measuring
        .env("ITERATIONS", iterations.to_string())
        .env("ROUNDS", ROUNDS);
    measuring.env(
        "RESULTS_DIR",
        checkout.target()?.join("demo").join("results"),
    );
    measuring.env(live::BINARY_VARIABLE, checkout.binary()?);
    must(measuring)
}

/// Says what is going on, and when.
struct Steps {
    start: Instant,
    count: u32,
}

impl Steps {
    fn say(&mut self, what: &str) {
        self.count += 1;
        println!(
            "{:>6.1} s {}. {what}",
            self.start.elapsed().as_secs_f64(),
            self.count
        );
    }
}

/// # Errors
/// When the program does not start or ends with another status than 0.
fn must(mut command: Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command
        .status()
        .with_context(|| format!("{program} does not start"))?;
    if !status.success() {
        let arguments: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy())
            .collect();
        bail!("`{program} {}` ended with {status}", arguments.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_named_with_its_status() {
        let mut command = Command::new("sh");
        command.args(["-c", "exit 4"]);
        let message = must(command).unwrap_err().to_string();
        assert_eq!(message, "`sh -c exit 4` ended with exit status: 4");
    }
}
