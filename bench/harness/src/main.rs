//! Measures Tidemark beside its floors and writes the reports under `bench/results`.
//!
//! Stands beside the product: it starts the real binary as a child, opens the engine in its own
//! process, and may use any room; no room uses it.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod aim;
mod bare;
mod beside;
mod big;
mod big_table;
mod builds;
mod catalog;
mod change;
mod clients;
mod cold;
mod contrast;
mod crowd;
mod database;
mod distinct;
mod exact;
mod expect;
mod fair;
mod figure;
mod figures;
mod floor;
mod inserts;
mod lend;
mod lists;
mod memory;
mod mixed;
mod new_rows;
mod nginx;
mod on_database;
mod peers;
mod plan;
mod pocketbase;
mod reads;
mod report;
mod run;
mod starts;
mod surroundings;
mod trace;
mod traffic;
mod watched;
mod ways;
mod workload;
mod writers;

/// The server's own allocator, so that the engine costs here what it costs there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Tidemark beside its floors
#[derive(Parser)]
#[command(name = "harness", max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Take the figures of docs/performance.md: throughput, lists, inserts, start
    Figures(figures::Arguments),
    Big(big::Arguments),
    Builds(builds::Arguments),
    Fair(fair::Arguments),
    Memory(memory::Arguments),
    Exact(exact::Arguments),
    Mixed(mixed::Arguments),
    Writers(writers::Arguments),
    Peers(peers::Arguments),
    Watched(watched::Arguments),
    Beside(beside::Arguments),
    Lend(lend::LendArguments),
}

fn main() -> ExitCode {
    let run = match Cli::parse().command {
        Command::Figures(arguments) => figures::run(&arguments),
        Command::Big(arguments) => big::run(&arguments),
        Command::Builds(arguments) => builds::run(&arguments),
        Command::Fair(arguments) => fair::run(&arguments),
        Command::Memory(arguments) => memory::run(&arguments),
        Command::Exact(arguments) => exact::run(&arguments),
        Command::Mixed(arguments) => mixed::run(&arguments),
        Command::Writers(arguments) => writers::run(&arguments),
        Command::Peers(arguments) => peers::run(&arguments),
        Command::Watched(arguments) => watched::run(&arguments),
        Command::Beside(arguments) => beside::run(&arguments),
        Command::Lend(arguments) => lend::run(&arguments),
    };
    match run {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
