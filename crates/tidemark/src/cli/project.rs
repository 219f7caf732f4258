//! `tidemark project`: through the running server, or in the store itself.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use model::ProjectId;
use serde_json::Value;

use super::{Outside, runtime, say, say_json, table};
use crate::admin::act::{Act, ProjectRecord};
use crate::admin::client::Administration;
use crate::config::StoreArgs;

/// Create, list and delete projects.
#[derive(Subcommand)]
pub enum ProjectCommand {
    /// Create a project
    #[command(
        after_help = "Example:\n  tidemark project create shop --name 'The shop'\n  \
                            tidemark key create --project shop"
    )]
    Create {
        /// Its id: 1 to 36 of A-Z a-z 0-9 _ . - and not one of the last three first; drawn when
        /// none is given
        id: Option<String>,
        /// Display name [default: its id]
        #[arg(long)]
        name: Option<String>,
        /// Where, and how to answer.
        #[command(flatten)]
        how: HowArgs,
    },
    /// List all projects
    #[command(after_help = "Example:\n  tidemark project list --json")]
    List {
        /// Where, and how to answer.
        #[command(flatten)]
        how: HowArgs,
    },
    /// Delete a project with its keys, databases and rows
    #[command(alias = "revoke")]
    #[command(after_help = "Example:\n  tidemark project delete shop --yes")]
    Delete {
        /// Its id
        id: String,
        /// Do not ask for confirmation. Without a terminal nothing is asked
        #[arg(long, short)]
        yes: bool,
        /// Where, and how to answer.
        #[command(flatten)]
        how: HowArgs,
    },
}

/// Where, and how to answer.
#[derive(Args, Clone)]
pub struct HowArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When the data directory cannot be reached, or the act is refused.
pub fn run(command: ProjectCommand, outside: Outside) -> Result<()> {
    match command {
        ProjectCommand::Create { id, name, how } => {
            let id = id.as_deref().map(checked).transpose()?;
            let made = perform(&how, outside, Act::CreateProject { id, name })?;
            how.answer(&made, |made| {
                let project: ProjectRecord = read(made)?;
                Ok(format!(
                    "Created project {} ({}).\n",
                    project.id, project.name
                ))
            })
        }
        ProjectCommand::List { how } => {
            let found = perform(&how, outside, Act::ListProjects)?;
            how.answer(&found, |found| {
                Ok(listed(&read::<Vec<ProjectRecord>>(found)?))
            })
        }
        ProjectCommand::Delete { id, yes, how } => {
            let id = checked(&id)?;
            if !yes {
                let question = format!("Delete project {id} with its keys, databases and rows?");
                confirm(&question, "deleted")?;
            }
            let done = perform(&how, outside, Act::DeleteProject { id: id.clone() })?;
            how.answer(&done, |_| Ok(format!("Deleted project {id}.\n")))
        }
    }
}

fn checked(id: &str) -> Result<ProjectId> {
    ProjectId::new(id).map_err(|error| anyhow!("the project id `{id}` cannot be used: {error}"))
}

fn listed(projects: &[ProjectRecord]) -> String {
    let row = |project: &ProjectRecord| {
        let databases = project.databases.to_string();
        vec![
            project.id.clone(),
            project.name.clone(),
            databases,
            taken(project.rows, project.rows_max),
            taken(project.bytes, project.bytes_max),
            project.created_at.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = projects.iter().map(row).collect();
    let head = ["ID", "NAME", "DATABASES", "ROWS", "BYTES", "CREATED"];
    table::render(&head, &rows)
}

/// How much there is, and may be where that is bounded; a dash where it is not counted.
fn taken(held: Option<u64>, max: Option<u64>) -> String {
    match (held, max) {
        (Some(held), Some(max)) => format!("{held} of {max}"),
        (Some(held), None) => held.to_string(),
        (None, _) => "-".to_owned(),
    }
}

/// Asks the person at the terminal; where there is none, the author of the script has decided.
///
/// # Errors
/// When the answer is not yes: nothing was `done`.
pub fn confirm(question: &str, done: &str) -> Result<()> {
    if !io::stdin().is_terminal() {
        return Ok(());
    }
    eprint!("{question} [y/N] ");
    io::stderr().flush()?;
    let mut reply = String::new();
    io::stdin().read_line(&mut reply)?;
    if matches!(reply.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    bail!("nothing was {done}")
}

/// Does one act, through the running server or in the store.
///
/// # Errors
/// When the store cannot be reached, or the act is refused.
pub fn perform(how: &HowArgs, outside: Outside, act: Act) -> Result<Value> {
    let create = matches!(act, Act::CreateProject { .. });
    let site = how.store.check()?;
    let Outside { clock, rng, .. } = outside;
    runtime()?.block_on(async {
        let mut administration = Administration::open(&site, clock, rng, create).await?;
        let done = administration.perform(act).await;
        administration.close()?;
        done
    })
}

/// # Errors
/// When the server is of another version and answers in another shape.
pub fn read<T: for<'de> serde::Deserialize<'de>>(answer: &Value) -> Result<T> {
    T::deserialize(answer).context("the running server answered in another shape; is it older?")
}

impl HowArgs {
    /// Prints an answer as JSON, or in the words of `text`.
    ///
    /// # Errors
    /// Those of `text`, and when standard output cannot be written.
    pub fn answer(
        &self,
        answer: &Value,
        text: impl FnOnce(&Value) -> Result<String>,
    ) -> Result<()> {
        if self.json {
            say_json(answer)
        } else {
            say(&text(answer)?)
        }
    }
}
