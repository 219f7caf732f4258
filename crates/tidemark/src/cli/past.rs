//! `tidemark history` and `tidemark erase`: the past of one row, shown and erased.

use std::io::{self, IsTerminal as _};

use anyhow::{Result, bail};
use clap::Args;
use model::calendar::iso_ms;
use model::{Timestamp, counted};
use serde_json::{Value, json};
use transfer::port_request::{PortRequest, RowHistory, TablePath, Version};
use transfer::target::Target;

use super::project::confirm;
use super::{Outside, runtime, say, say_json, table};
use crate::admin::client::Administration;
use crate::config::{ProjectArgs, StoreArgs};

/// A row.
#[derive(Args, Clone)]
pub struct RowArgs {
    /// The database's id
    database: String,
    /// The table's id
    table: String,
    /// The row's id
    row: String,
    #[command(flatten)]
    project: ProjectArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// The options of `tidemark history`.
#[derive(Args)]
#[command(
    after_help = "A version is a line: valid from one time to another, and known so from one \
time to another.\n`-` stands for no beginning or no end.\n\nExamples:\n  \
tidemark history shop products p1\n  tidemark history shop products p1 --json"
)]
pub struct HistoryArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Answer in JSON, with marks and times in microseconds
    #[arg(long)]
    json: bool,
}

/// The options of `tidemark erase`.
#[derive(Args)]
#[command(after_help = "Examples:\n  tidemark erase shop customers c1\n  \
tidemark erase shop customers c1 --yes")]
pub struct EraseArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Do not ask for confirmation. Without it and without a terminal nothing is erased
    #[arg(long, short)]
    yes: bool,
}

impl RowArgs {
    fn path(&self, target: &Target) -> TablePath {
        target.path(&self.database, &self.table)
    }

    fn name(&self) -> String {
        format!("row {} of {}/{}", self.row, self.database, self.table)
    }

    async fn open(&self, outside: Outside) -> Result<Target> {
        let project = self.project.check()?;
        let site = self.store.check()?;
        let Outside { clock, rng, .. } = outside;
        let store = Administration::open(&site, clock, rng, false).await?;
        Ok(Target::new(store.into(), project.to_string()))
    }

    /// What is known of the row.
    async fn history(&self, target: &mut Target) -> Result<RowHistory> {
        let ask = PortRequest::RowHistory {
            path: self.path(target),
            row: self.row.clone(),
        };
        target.read(&ask).await
    }

    fn need_versions(&self, history: &RowHistory) -> Result<()> {
        if history.versions.is_empty() {
            bail!(
                "{} has no version: it never was, its table has let go of it, or it was erased",
                self.name()
            );
        }
        Ok(())
    }
}

/// # Errors
/// When the data directory cannot be reached, or nothing is known of the row.
pub fn history(args: &HistoryArgs, outside: Outside) -> Result<()> {
    let found = runtime()?.block_on(async {
        let mut target = args.row.open(outside).await?;
        let found = args.row.history(&mut target).await;
        target.close()?;
        found
    })?;
    args.row.need_versions(&found)?;
    if args.json {
        return say_json(&json!(found));
    }
    let rows: Vec<Vec<String>> = found.versions.iter().map(line).collect();
    let head = ["VALID FROM", "VALID TO", "KNOWN FROM", "KNOWN TO", "VALUES"];
    say(&table::render(&head, &rows))
}

fn line(version: &Version) -> Vec<String> {
    let instant = |us: Option<i64>| us.map_or_else(|| "-".to_owned(), |us| iso_ms(Timestamp(us)));
    vec![
        instant(version.valid_from.as_i64()),
        instant(version.valid_to),
        instant(Some(version.sys_from)),
        instant(version.sys_to),
        match version.damaged.as_slice() {
            [] => version.doc.to_string(),
            damaged => format!("{} (damaged: {})", version.doc, damaged.join(", ")),
        },
    ]
}

/// # Errors
/// When the data directory cannot be reached, nothing is known of the row, it is not meant, or it
/// cannot be erased.
pub fn erase(args: &EraseArgs, outside: Outside) -> Result<()> {
    let erased = runtime()?.block_on(async {
        let mut target = args.row.open(outside).await?;
        let erased = erase_from(&mut target, args).await;
        target.close()?;
        erased
    })?;
    say(&erased)
}

async fn erase_from(target: &mut Target, args: &EraseArgs) -> Result<String> {
    let name = args.row.name();
    let history = args.row.history(target).await?;
    args.row.need_versions(&history)?;
    let versions = counted(history.versions.len() as u64, "version");
    if !args.yes {
        if !io::stdin().is_terminal() {
            bail!("{name} has {versions}; nothing was erased. --yes erases it without asking");
        }
        confirm(
            &format!("Erase {name} with {versions}, for ever?"),
            "erased",
        )?;
    }
    let ask = PortRequest::EraseRow {
        path: args.row.path(target),
        row: args.row.row.clone(),
    };
    let was_there: Value = target.read(&ask).await?;
    if was_there != json!(true) {
        bail!("{name} was gone before it could be erased");
    }
    Ok(format!("Erased {name} with {versions}.\n"))
}
