//! `tidemark maintain`: what an operator has done when it suits.

use anyhow::{Result, bail};
use clap::Args;
use engine::maintain_database;

use super::say;
use crate::config::{NamedDatabase, StoreArgs};

/// The options of `tidemark maintain`, as typed.
#[derive(Args)]
#[command(after_help = "Example:
  tidemark maintain --database \"$DATABASE_URL\"")]
pub struct MaintainArgs {
    #[command(flatten)]
    store: StoreArgs,
}

/// # Errors
/// When the database cannot be reached, holds no store, or has tables that could not be rewritten.
pub fn run(args: &MaintainArgs) -> Result<()> {
    let site = args.store.check()?;
    let Some(NamedDatabase { url, password_file }) = site.database else {
        let directory = site.directory.display();
        return say(&format!(
            "Nothing to do: a store in a data directory clears erased rows away by itself \
             ({directory}).\n"
        ));
    };
    let mut begins = |table: &str| eprintln!("Rewriting {table} …");
    let maintained = maintain_database(&url, password_file.as_deref(), &mut begins)?;
    if !maintained.left.is_empty() {
        bail!(
            "bytes of erased rows may be left in {}: others used these tables all the time, or a \
             session, a slot or a standby holds an old snapshot. `tidemark doctor` names it; then \
             run this again",
            maintained.left.join(", ")
        );
    }
    if maintained.rewritten.is_empty() {
        return say("Nothing to do: no table of the store holds bytes of erased rows.\n");
    }
    say(&format!(
        "Rewritten: {}. WAL and backups from before hold bytes of erased rows as long as you keep \
         them.\n",
        maintained.rewritten.join(", ")
    ))
}
