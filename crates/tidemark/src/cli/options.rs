//! `tidemark options`: what the owner of a table decided about its past and its lists.

use anyhow::{Result, ensure};
use clap::Args;
use client::Client;
use hyper::Method;
use serde_json::{Map, Value};
use transfer::remote::segment;
use transfer::schema_file::plan::keeps_less;

use super::connection::with_access;
use super::{Outside, runtime, say, say_json};
use crate::config::ConnectionArgs;

/// The options of `tidemark options`.
#[derive(Args)]
#[command(after_help = "Examples:
  tidemark options shop orders
  tidemark options shop orders --history 'days(30)' --allow-data-loss
  tidemark options shop orders --ttl-max 60 --past both")]
pub struct OptionsArgs {
    /// The database's id
    database: String,
    /// The table's id
    table: String,
    /// How much of its past the table keeps: keep, days(N) or none
    #[arg(long)]
    history: Option<String>,
    /// Who may look at the past without an API key: keys (no one), both or now
    #[arg(long)]
    past: Option<String>,
    /// Seconds for which clients may keep answers that never change
    #[arg(long, value_name = "SECONDS")]
    pinned_max_age: Option<i64>,
    /// Greatest age in seconds of cached lists; 0: every list is exact
    #[arg(long, value_name = "SECONDS")]
    ttl_max: Option<i64>,
    /// Set a history that keeps less than before: older versions of rows are removed for good
    #[arg(long)]
    allow_data_loss: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// Which server, and the right to use it.
    #[command(flatten)]
    connection: ConnectionArgs,
}

impl OptionsArgs {
    /// What is to be changed, by its names on the wire.
    fn change(&self) -> Map<String, Value> {
        let texts = [("history", &self.history), ("past", &self.past)];
        let texts = texts.map(|(name, text)| (name, text.as_deref().map(Value::from)));
        let numbers = [
            ("pinnedMaxAge", self.pinned_max_age),
            ("ttlMax", self.ttl_max),
        ];
        let numbers = numbers.map(|(name, number)| (name, number.map(Value::from)));
        let given = texts.into_iter().chain(numbers);
        given
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
    }
}

/// # Errors
/// When the server cannot be reached or refuses a value, or versions of rows would be lost.
pub fn run(args: &OptionsArgs, outside: &Outside) -> Result<()> {
    let route = format!(
        "/tidemark/databases/{}/tables/{}/options",
        segment(&args.database),
        segment(&args.table)
    );
    let change = args.change();
    let lender = ("tidemark options", &*outside.clock);
    let shown = with_access(&args.connection, lender, |access| {
        runtime()?.block_on(async {
            let mut client = Client::connect(&access.endpoint).await?;
            let answer = client.call(access, Method::GET, &route, None).await?;
            let known = answer.accepted("reading the options")?;
            if change.is_empty() {
                return Ok(known);
            }
            if !args.allow_data_loss {
                refuse_loss(&known, &change)?;
            }
            let body = Value::Object(change).to_string();
            let answer = client
                .call(access, Method::PATCH, &route, Some(body))
                .await?;
            answer.accepted("setting the options")
        })
    })?;
    if args.json {
        return say_json(&shown);
    }
    say(&described(&shown))
}

fn refuse_loss(known: &Value, change: &Map<String, Value>) -> Result<()> {
    let before = known["history"].as_str().unwrap_or_default();
    let after = change.get("history").and_then(Value::as_str);
    ensure!(
        !after.is_some_and(|after| keeps_less(before, after)),
        "nothing was changed, because older versions of rows would be lost: history {before} -> \
         {}. Use --allow-data-loss",
        after.unwrap_or_default()
    );
    Ok(())
}

fn described(options: &Value) -> String {
    let line = |(name, meaning): &(&str, &str)| match &options[*name] {
        Value::String(text) => format!("{name:13} {text:24} {meaning}\n"),
        other => format!("{name:13} {:24} {meaning}\n", other.to_string()),
    };
    let lines = MEANINGS.iter().map(line).collect::<Vec<_>>();
    lines.concat()
}

/// The options, in the words of the page of time.
const MEANINGS: [(&str, &str); 5] = [
    ("history", "how much of its past the table keeps"),
    ("past", "who may look at it without an API key"),
    (
        "pinnedMaxAge",
        "seconds for which clients may keep answers that never change",
    ),
    ("ttlMax", "greatest age in seconds of cached lists"),
    ("keptFrom", "nothing below can be read; null if all is kept"),
];
