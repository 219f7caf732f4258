//! `cargo xtask demo`: the published benchmark on this machine, from nothing to its table.

use std::io::IsTerminal as _;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use testing::ChildServer;

use crate::checkout::Checkout;
use crate::install::{self, Packages};
use crate::live;
use crate::{bench, prerequisite};

/// From a fresh machine to the TTL benchmark's table: build, serve, seed, measure.
///
/// Needs Rust, a C compiler and Node 20 or later. In a terminal the server then stays up until
/// Enter is pressed, with commands to try on it. Everything is written below target/demo, which
/// each run empties first: the data directory, the server's log, the report.
///
/// The binary is built without link-time optimisation, in half the time. To measure, build it
/// with `cargo build --release -p tidemark`, or use `cargo xtask bench`.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Timed calls in each phase; the published run has 100000. With the default, all but the
    /// build takes about 20 s.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(10..))]
    iterations: u32,
    /// Stop the server after the table, in a terminal too.
    #[arg(long)]
    stop: bool,
}

/// Phases take turns this often, so that a machine that drifts drifts for all of them.
const ROUNDS: &str = "10";
/// A row of the catalog.
const FIRST_ROW: &str = "product-00000";
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
    let checkout = &checkout.building_fast();
    let mut steps = Steps {
        start: Instant::now(),
        count: 0,
    };
    let folder = checkout.target()?.join("demo");

    steps.say("building the release binary (the first time takes minutes)");
    must(checkout.build_release())?;

    if !BENCH.are_present(checkout)? {
        steps.say("installing the official SDK into bench/ttl");
        if !install::run_all(BENCH.install(checkout)?)? {
            bail!("`npm ci` in bench/ttl failed");
        }
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

    if !arguments.stop && std::io::stdin().is_terminal() {
        steps.say("the server stays up; try in another terminal:");
        println!("{}", commands(checkout, &server)?);
        println!("Press Enter to stop the server.");
        std::io::stdin().read_line(&mut String::new())?;
    }
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

/// Three commands for the server that stays up: a list and its cache, a row's past, the load.
fn commands(checkout: &Checkout, server: &ChildServer) -> Result<String> {
    let endpoint = &server.endpoint;
    let project = server.projects.first();
    let project = project.context("the server has no project")?;
    let binary = checkout.shown(&checkout.binary()?);
    let data = checkout.shown(&checkout.target()?.join("demo").join("data"));
    Ok(format!(
        "
  # one list, twice: the first is read, the second comes from the exact cache
  for i in 1 2; do
    curl -s -o /dev/null -D - -H 'X-Appwrite-Project: {project}' -G \\
      '{endpoint}/tablesdb/bench_db/tables/products/rows' \\
      --data-urlencode 'queries[]={{\"method\":\"limit\",\"values\":[3]}}' | grep -i x-tidemark
  done
  # every version of a row, and when it was known
  {binary} history bench_db products {FIRST_ROW} --project {project} --data {data}
  # rates, hits, the slowest queries
  {binary} top --data {data}
"
    ))
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
