//! `tidemark seed`.

use std::time::Instant;

use anyhow::Result;
use clap::Subcommand;
use model::counted;
use scenarios::seed::{Outcome, Wanted, catalog, table};

use super::connection::{need_server, with_access};
use super::{Outside, runtime, say};
use crate::config::{ConnectionArgs, DatabaseArgs};

/// Fill a table with example data.
#[derive(Subcommand)]
pub enum SeedCommand {
    /// Build the product catalog of the list benchmark: table `products` in database `bench_db`
    ///
    /// Fifteen columns; every value follows from the row's number, so each run makes the same
    /// rows. Works over HTTP, on every compatible server. A table with exactly these rows is left
    /// as it is; any other table of this name is deleted and created again.
    #[command(after_help = "Examples:
  tidemark seed catalog --rows 10000 --index      the server that runs on ./tidemark-data
  TIDEMARK_API_KEY=… tidemark seed catalog --endpoint http://db.example/v1 --project shop")]
    Catalog {
        /// Number of rows
        #[arg(long, value_name = "N", default_value_t = 10_000)]
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        rows: u32,
        /// With an index over category, reviewCount and rating; the published table has none
        #[arg(long)]
        index: bool,
        /// Which server, and the right to use it.
        #[command(flatten)]
        connection: ConnectionArgs,
        /// Where the store of that server is.
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

/// # Errors
/// When the server cannot be reached or refuses.
pub fn run(command: SeedCommand, outside: &Outside) -> Result<()> {
    let SeedCommand::Catalog {
        rows,
        index,
        connection,
        database,
    } = command;
    need_server(&connection, &database)?;
    let began = Instant::now();
    let wanted = Wanted {
        rows,
        indexed: index,
    };
    let lender = ("tidemark seed", &*outside.clock);
    let outcome = with_access(&connection, lender, |access| {
        runtime()?.block_on(catalog(access, wanted))
    })?;
    let what = format!(
        "{} in {}/{}, {} index",
        counted(u64::from(rows), "row"),
        table::DATABASE,
        table::TABLE,
        if index { "with" } else { "without" }
    );
    match outcome {
        Outcome::Complete => say(&format!("Complete already: {what}.\n")),
        Outcome::Built => say(&format!(
            "Built {what}, in {:.1} s.\n",
            began.elapsed().as_secs_f64()
        )),
    }
}
