//! `tidemark bench ttl`: the published workload through the built-in client.
//!
//! Three phases take turns in slices: the list without `ttl`, with it, and the same bytes from
//! a static responder in this process. Turns, so that a machine that drifts drifts for all.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hyper::Method;
use indicatif::{ProgressBar, ProgressStyle};
use model::Timestamp;
use model::calendar::iso_ms;
use serde_json::{Value, json};

use super::answer::{self, Expected};
use super::floor;
use super::machine::{self, Machine};
use super::phase::Phase;
use super::report::{Report, render};
use crate::client::{Access, Answer, Client, Endpoint};
use crate::seed::table;

/// The `ttl` of the second phase, in seconds, as published.
pub const TTL_S: u32 = 300;
/// Connections of the run, by position: to the server, and to the static responder.
const SERVER: usize = 0;
const FLOOR: usize = 1;

/// What to measure, and where the report goes.
#[derive(Clone)]
pub struct Options {
    /// The server.
    pub access: Access,
    /// Timed calls of each phase.
    pub iterations: usize,
    /// Untimed calls of each phase before the first timed one.
    pub warmup: usize,
    /// How many slices each phase is cut into.
    pub rounds: usize,
    /// Rows of the catalog the table was seeded with.
    pub rows: u32,
    /// The folder of reports; created if absent.
    pub out: PathBuf,
    /// When the run began; names the report.
    pub started: Timestamp,
}

/// What was written.
pub struct Written {
    /// The summary, for the terminal.
    pub summary: String,
    /// The report.
    pub path: PathBuf,
}

/// Checks the server's answers, measures, checks again, writes report and raw samples.
///
/// # Errors
/// When the server cannot be reached or refuses, when an answer is not the one the generator
/// demands, or when the report cannot be written.
pub async fn run(options: &Options) -> Result<Written> {
    let expected = Expected::over(options.rows);
    let mut server = Client::connect(&options.access.endpoint).await?;
    let subject = Subject::ask(&mut server, &options.access).await?;
    expected.check(&subject.plain.body, "the server")?;
    let floor_at = floor::start(([127, 0, 0, 1], 0).into(), &subject.plain, 1)
        .context("the static responder cannot start")?;
    let floor_endpoint = options.access.endpoint.at(floor_at);
    let mut clients = [server, Client::connect(&floor_endpoint).await?];
    let mut phases = phases(&options.access, &floor_endpoint)?;
    for phase in &mut phases {
        let body = &phase.ask(&mut clients[phase.client_idx]).await?.body;
        expected.check(body, "the server")?;
    }
    // The check has filled the cache; the second phase begins with an empty one, as published.
    purge(&mut clients[SERVER], &options.access).await?;
    measure(&mut phases, &mut clients, options).await?;
    for phase in &phases {
        expected.check(
            phase.last_body(),
            &format!("{} (after timing)", phase.title),
        )?;
    }
    let report = Report {
        parameters: parameters(options, &subject, &phases),
        phases: &phases,
    };
    write(&options.out, &stem(options.started), &report)
}

fn phases(access: &Access, floor: &Endpoint) -> Result<[Phase; 3]> {
    let floor = Access {
        endpoint: floor.clone(),
        ..access.clone()
    };
    let list = |access: &Access, ttl_s| access.request(Method::GET, &answer::route(ttl_s), None);
    Ok([
        Phase::new("no_ttl", "no ttl".into(), SERVER, list(access, None)?),
        Phase::new(
            "ttl",
            format!("ttl {TTL_S}"),
            SERVER,
            list(access, Some(TTL_S))?,
        ),
        Phase::new("floor", "floor".into(), FLOOR, list(&floor, None)?),
    ])
}

async fn purge(client: &mut Client, access: &Access) -> Result<()> {
    let body = Some(json!({ "purge": true }).to_string());
    let answer = client
        .call(access, Method::PUT, &table::table_route(), body)
        .await?;
    answer
        .accepted("emptying the table's cached lists")
        .map(|_| ())
}

async fn measure(
    phases: &mut [Phase; 3],
    clients: &mut [Client; 2],
    options: &Options,
) -> Result<()> {
    for phase in &mut *phases {
        for _ in 0..options.warmup {
            phase.ask(&mut clients[phase.client_idx]).await?;
        }
        phase.samples.reserve(options.iterations);
    }
    let bar = progress(options.iterations * phases.len());
    for round in 0..options.rounds {
        let slice = (round + 1) * options.iterations / options.rounds
            - round * options.iterations / options.rounds;
        for turn in 0..phases.len() {
            // Another one begins in each round, so that none always follows the same one.
            let phase = &mut phases[(round + turn) % 3];
            phase.measure(&mut clients[phase.client_idx], slice).await?;
            bar.inc(slice as u64);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn progress(calls: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} calls, {eta} left")
        .expect("the template is constant");
    ProgressBar::new(calls as u64).with_style(style)
}

/// What the report says of the server under measurement.
struct Subject {
    /// The plain list, as the static responder will repeat it.
    plain: Answer,
    version: String,
    indexed: bool,
}

impl Subject {
    async fn ask(client: &mut Client, access: &Access) -> Result<Subject> {
        let version = client
            .call(access, Method::GET, "/health/version", None)
            .await?;
        let version = version.accepted("asking for the server's version");
        let version = version
            .ok()
            .and_then(|body| body["version"].as_str().map(str::to_owned));
        let plain = client
            .call(access, Method::GET, &answer::route(None), None)
            .await?;
        plain.accepted("reading the list; `tidemark seed catalog` makes its table")?;
        let table = client
            .call(access, Method::GET, &table::table_route(), None)
            .await?;
        let table = table.accepted("reading the table's definition")?;
        let mut indexes = table["indexes"].as_array().into_iter().flatten();
        let has_index = indexes.any(|index| index["key"] == table::INDEX);
        Ok(Subject {
            plain,
            version: version.unwrap_or_else(|| "unknown".into()),
            indexed: has_index,
        })
    }
}

fn parameters(
    options: &Options,
    subject: &Subject,
    phases: &[Phase; 3],
) -> Vec<(&'static str, Value)> {
    let machine = Machine::here();
    let header = subject
        .plain
        .headers
        .get("server")
        .and_then(|name| name.to_str().ok());
    vec![
        ("started", json!(iso_ms(options.started))),
        (
            "client",
            json!("built in, one kept-alive connection, answers read but not parsed"),
        ),
        ("binary", json!(machine::binary())),
        ("endpoint", json!(options.access.endpoint.to_string())),
        ("server", json!(header.unwrap_or("not sent"))),
        ("server_version", json!(subject.version)),
        ("iterations", json!(options.iterations)),
        ("rounds", json!(options.rounds)),
        ("warmup", json!(options.warmup)),
        ("rows", json!(options.rows)),
        ("index", json!(subject.indexed)),
        ("ttl_s", json!(TTL_S)),
        ("body_bytes", json!(subject.plain.body.len())),
        ("ttl_hits", json!(phases[1].hits)),
        ("ttl_misses", json!(phases[1].misses)),
        (
            "floor",
            json!("hyper, one thread of the client's process, the same bytes and headers"),
        ),
        ("cpu", json!(machine.cpu)),
        ("cores", json!(machine.cores)),
        ("memory_mib", json!(machine.memory_mib)),
        ("kernel", json!(machine.kernel)),
    ]
}

/// `2026-11-21T12-00-00Z`: a file name on every system, and in the order of time.
fn stem(started: Timestamp) -> String {
    format!("{}Z", iso_ms(started)[..19].replace(':', "-"))
}

fn write(out: &Path, stem: &str, report: &Report<'_>) -> Result<Written> {
    let cannot = || format!("cannot write the report below {}", out.display());
    std::fs::create_dir_all(out).with_context(cannot)?;
    let samples = format!("{stem}.json");
    std::fs::write(out.join(&samples), report.raw()).with_context(cannot)?;
    let path = out.join(format!("{stem}.md"));
    std::fs::write(&path, render(report, &samples)?).with_context(cannot)?;
    Ok(Written {
        summary: report.summary()?,
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_named_by_the_second_they_began() {
        let started = model::calendar::parse_iso("2026-11-21T12:34:56.789Z").unwrap();
        assert_eq!(stem(started), "2026-11-21T12-34-56Z");
    }
}
