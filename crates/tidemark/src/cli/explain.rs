//! `tidemark explain`: how the rows of a list are found.

use anyhow::Result;
use clap::Args;
use client::Client;
use hyper::Method;
use serde_json::Value;
use transfer::remote::segment;

use super::connection::with_access;
use super::{Outside, runtime, say, say_json};
use crate::config::ConnectionArgs;

/// The options of `tidemark explain`.
#[derive(Args)]
#[command(after_help = "Example:
  tidemark explain shop books \\
    '{\"method\":\"equal\",\"attribute\":\"genre\",\"values\":[\"novel\"]}' \\
    '{\"method\":\"orderDesc\",\"attribute\":\"year\"}'")]
pub struct ExplainArgs {
    /// The database's id
    database: String,
    /// The table's id
    table: String,
    /// A query of the list in JSON, as in `queries[]`; may be given several times
    #[arg(value_name = "QUERY")]
    queries: Vec<String>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// Which server, and the right to use it.
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// # Errors
/// When the server cannot be reached or refuses the list.
pub fn run(args: &ExplainArgs, outside: &Outside) -> Result<()> {
    let queries = args.queries.iter();
    let queries = queries.map(|query| format!("queries%5B%5D={}", segment(query)));
    let route = format!(
        "/tidemark/databases/{}/tables/{}/explain?{}",
        segment(&args.database),
        segment(&args.table),
        queries.collect::<Vec<_>>().join("&")
    );
    let lender = ("tidemark explain", &*outside.clock);
    let answer = with_access(&args.connection, lender, |access| {
        runtime()?.block_on(async {
            let mut client = Client::connect(&access.endpoint).await?;
            let answer = client.call(access, Method::GET, &route, None).await?;
            answer.accepted("explaining the list")
        })
    })?;
    if args.json {
        return say_json(&answer);
    }
    say(&described(&answer))
}

fn described(answer: &Value) -> String {
    let word = |name: &str| answer[name].as_str();
    let index = match (word("index"), answer["inOrder"] == true) {
        (Some(key), true) => format!("`{key}`, which gives the rows in their order"),
        (Some(key), false) => format!("`{key}`"),
        (None, _) => "none is named; the plan says what the database chooses".to_owned(),
    };
    let wanted = match word("wantedIndex") {
        Some(columns) => format!("one over ({columns}) would lead to these rows"),
        None => "no other would help".to_owned(),
    };
    let plan = answer["plan"].as_array().into_iter().flatten();
    let steps: Vec<&str> = plan.filter_map(Value::as_str).collect();
    let plan = if steps.is_empty() {
        "not made: the statement is longer than 8 KiB".to_owned()
    } else {
        steps.join("\n        ")
    };
    let query = word("query").filter(|query| !query.is_empty());
    let query = query.unwrap_or("all rows");
    format!("query   {query}\nindex   {index}\nbetter  {wanted}\nplan    {plan}\n")
}
