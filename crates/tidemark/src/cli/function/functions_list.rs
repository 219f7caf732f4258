//! `tidemark function list` and `delete`.

use anyhow::{Result, bail};
use clap::Args;
use hyper::Method;
use serde_json::Value;

use super::routes::{FunctionRoutes, is_missing, missing, route_of, text};
use super::{Outside, need_consent, runtime, say, say_json, table, with_server};
use crate::config::ConnectionArgs;

/// The options of `tidemark function list`.
#[derive(Args)]
pub struct FunctionListArgs {
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// Which server, and the right to use it.
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// The options of `tidemark function delete`.
#[derive(Args)]
pub struct FunctionDeleteArgs {
    /// The function's id
    id: String,
    /// Delete without asking
    #[arg(long)]
    yes: bool,
    /// Which server, and the right to use it.
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// # Errors
/// When the server cannot be reached or refuses.
pub fn list(args: &FunctionListArgs, outside: &Outside) -> Result<()> {
    let found = with_server(&args.connection, outside, |access| {
        runtime()?.block_on(async {
            let mut routes = FunctionRoutes::connect(access).await?;
            routes.every("/functions", "functions").await
        })
    })?;
    if args.json {
        return say_json(&Value::Array(found));
    }
    if found.is_empty() {
        eprintln!("The project has no function; `tidemark function init NAME` begins one.");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = found.iter().map(row).collect();
    let head = ["ID", "RUNTIME", "DEPLOYMENT", "LATEST", "SCHEDULE", "NAME"];
    say(&table::render(&head, &rows))
}

fn row(function: &Value) -> Vec<String> {
    let or_dash = |text: &str| if text.is_empty() { "-" } else { text }.to_owned();
    let state = if function["enabled"] == false {
        " (disabled)"
    } else {
        ""
    };
    vec![
        text(function, "$id").to_owned(),
        text(function, "runtime").to_owned(),
        or_dash(text(function, "deploymentId")),
        or_dash(text(function, "latestDeploymentStatus")),
        or_dash(text(function, "schedule")),
        super::log_text::harmless(text(function, "name")) + state,
    ]
}

/// # Errors
/// When the function is not there, is not meant, or the server refuses.
pub fn delete(args: &FunctionDeleteArgs, outside: &Outside) -> Result<()> {
    let id = &args.id;
    with_server(&args.connection, outside, |access| {
        let runtime = runtime()?;
        let mut routes = runtime.block_on(FunctionRoutes::connect(access))?;
        runtime.block_on(routes.existing(id))?;
        let question =
            format!("Delete function `{id}` with its deployments, variables and records?");
        need_consent(args.yes, &question, &format!("function `{id}`"))?;
        // The server may have let go of a connection that waited for a person.
        let mut routes = runtime.block_on(FunctionRoutes::connect(access))?;
        let route = route_of(id, "");
        let answer = runtime.block_on(routes.send(Method::DELETE, &route, None))?;
        if is_missing(&answer) {
            bail!("{}", missing(id));
        }
        answer.accepted(&format!("deleting function `{id}`"))
    })?;
    say(&format!("Deleted function `{id}`.\n"))
}
