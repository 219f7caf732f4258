//! `tidemark function logs`: the records of what was run.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use client::Access;
use serde_json::{Value, json};

use super::function_file::id_or_folder;
use super::log_text::{GrowingLog, harmless, marked, outside_runs};
use super::routes::{FunctionRoutes, is_missing, missing, route_of, text, with_queries};
use super::{Outside, runtime, say, say_json, with_server};
use crate::config::ConnectionArgs;
use transfer::remote::segment;

/// How often new records are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Records of one look: the most that every server of the protocol gives.
const PAGE_MAX: u32 = 100;

/// The options of `tidemark function logs`.
#[derive(Args)]
pub struct FunctionLogsArgs {
    /// The function's id [default: that of function.toml in this folder]
    id: Option<String>,
    /// Go on with runs as they end, until Ctrl-C
    #[arg(long, short, conflicts_with_all = ["execution", "json"])]
    follow: bool,
    /// How many runs
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(PAGE_MAX)))]
    limit: u32,
    /// This run alone
    #[arg(long, value_name = "ID")]
    execution: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// Which server, and the right to use it.
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// # Errors
/// When the server cannot be reached or refuses.
pub fn run(args: &FunctionLogsArgs, outside: &Outside) -> Result<()> {
    let id = id_or_folder(args.id.as_ref())?;
    with_server(&args.connection, outside, |access| {
        runtime()?.block_on(async {
            tokio::select! {
                // Here and not by the signal, so that a key made for the command is revoked.
                stopped = tokio::signal::ctrl_c() => Ok(stopped?),
                shown = show(access, args, &id) => shown,
            }
        })
    })
}

async fn show(access: &Access, args: &FunctionLogsArgs, id: &str) -> Result<()> {
    let mut routes = FunctionRoutes::connect(access).await?;
    if let Some(execution) = &args.execution {
        let route = route_of(id, &format!("/executions/{}", segment(execution)));
        let what = format!("reading execution `{}`", harmless(execution));
        let record = routes.read(&route, &what).await?;
        return if args.json {
            say_json(&record)
        } else {
            say(&line(&record))
        };
    }
    let mut records = last(&mut routes, id, args.limit).await?;
    records.reverse();
    if args.json {
        return say_json(&Value::Array(records));
    }
    if args.follow {
        return follow(&mut routes, id, records).await;
    }
    if records.is_empty() {
        eprintln!("No run of `{id}` is recorded.");
    }
    let output = output(&mut routes, id).await?;
    say(&(records.iter().map(line).collect::<String>() + &outside_runs(&output)))
}

/// What processes wrote outside of any run; nothing where the server has no route for it.
async fn output(routes: &mut FunctionRoutes<'_>, id: &str) -> Result<String> {
    let route = format!("/tidemark/functions/{}/output", segment(id));
    let answer = routes.get(&route).await?;
    if !answer.status.is_success() {
        return Ok(String::new());
    }
    let shown = answer.accepted("reading what processes wrote")?;
    Ok(text(&shown, "output").to_owned())
}

/// The last records, the newest first.
async fn last(routes: &mut FunctionRoutes<'_>, id: &str, limit: u32) -> Result<Vec<Value>> {
    let queries = [
        json!({"method": "orderDesc", "attribute": "$createdAt"}),
        json!({"method": "limit", "values": [limit]}),
    ];
    let route = with_queries(&route_of(id, "/executions"), &queries);
    let answer = routes.get(&route).await?;
    if is_missing(&answer) {
        bail!("{}", missing(id));
    }
    match answer.accepted("listing executions")?["executions"].take() {
        Value::Array(records) => Ok(records),
        _ => bail!("the server's list of executions has no `executions`"),
    }
}

async fn follow(routes: &mut FunctionRoutes<'_>, id: &str, first: Vec<Value>) -> Result<()> {
    let (mut seen, mut written) = (Followed::default(), GrowingLog::default());
    let mut records = first;
    loop {
        let news = written.news(&output(routes, id).await?);
        say(&(seen.shown(&records) + &outside_runs(&news)))?;
        tokio::time::sleep(LOOK_EVERY).await;
        records = last(routes, id, PAGE_MAX).await?;
        records.reverse();
    }
}

/// What was shown of the records that the last look found.
#[derive(Default)]
struct Followed {
    ids: HashSet<String>,
    is_begun: bool,
}

impl Followed {
    /// The records that ended since the last look, the oldest first.
    fn shown(&mut self, records: &[Value]) -> String {
        let mut shown = String::new();
        let is_known = |record: &Value| self.ids.contains(text(record, "$id"));
        let is_full = records.len() == PAGE_MAX as usize;
        if self.is_begun && is_full && !records.iter().any(is_known) {
            shown += "  … more runs than one look finds; some are not shown\n";
        }
        let is_ended = |record: &&Value| matches!(text(record, "status"), "completed" | "failed");
        let ended = records.iter().filter(is_ended);
        for record in ended.clone().filter(|record| !is_known(record)) {
            shown += &line(record);
        }
        self.ids = ended.map(|record| text(record, "$id").to_owned()).collect();
        self.is_begun = true;
        shown
    }
}

/// One run in a line, and what it logged below.
fn line(record: &Value) -> String {
    let head = format!(
        "{}  {}  {}  {} {}  {:.3} s  {}  {}",
        text(record, "$createdAt"),
        text(record, "status"),
        record["responseStatusCode"],
        text(record, "requestMethod"),
        text(record, "requestPath"),
        record["duration"].as_f64().unwrap_or_default(),
        text(record, "trigger"),
        text(record, "$id"),
    );
    let (log, errors) = (text(record, "logs"), text(record, "errors"));
    harmless(&head) + "\n" + &marked("log", log) + &marked("error", errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u32, status: &str) -> Value {
        json!({"$id": id.to_string(), "$createdAt": "then", "status": status,
            "responseStatusCode": 200, "requestMethod": "GET", "requestPath": "/\u{1b}",
            "duration": 0.5, "trigger": "http", "logs": "one\n", "errors": ""})
    }

    #[test]
    fn a_record_is_one_line_and_its_logs() {
        let shown = "then  completed  200  GET /\\u{1b}  0.500 s  http  7\n  log | one\n";
        assert_eq!(line(&record(7, "completed")), shown);
    }

    #[test]
    fn a_run_is_shown_once_when_it_has_ended() {
        let mut seen = Followed::default();
        let count = |shown: String| shown.matches("GET").count();
        let first = [record(1, "completed"), record(2, "processing")];
        assert_eq!(count(seen.shown(&first)), 1);
        assert_eq!(count(seen.shown(&first)), 0);
        let later = [
            record(1, "completed"),
            record(2, "failed"),
            record(3, "waiting"),
        ];
        assert_eq!(count(seen.shown(&later)), 1);
        let many: Vec<Value> = (10..110).map(|id| record(id, "completed")).collect();
        let shown = seen.shown(&many);
        assert!(shown.contains("some are not shown"), "{shown}");
        assert_eq!(count(shown), 100);
    }
}
