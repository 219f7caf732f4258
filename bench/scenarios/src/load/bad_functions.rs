//! What bad functions cost others: reads of rows, executions of another function and builds, at
//! the same rates with and without functions beside them that loop, fork, and take all they can.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use measure::connection::{Access, Connection};
use measure::cores::Cores;
use measure::live::LiveServer;
use measure::markdown::{hundredths, or_dash};
use measure::percentile::Sorted;

use super::deployed::{DeployedFunctions, route};
use super::load_function::{CALL, FunctionLanguage, LoadFunction};
use crate::run::Table;
use crate::seed::generator::row_id;
use crate::seed::table::rows_route;

/// What bad functions do, by the path of the request that executes them.
const ACTS: [&str; 6] = ["loop", "memory", "fork", "flood", "fill", "leave"];
/// Clients that execute each bad function, one request after the other.
const ATTACKERS: usize = 2;
/// The function that others execute, and the one that is built.
const EXECUTED: LoadFunction = LoadFunction::JsonNode;
const BUILT: LoadFunction = LoadFunction::JsonPython;
/// Rows that are read.
const ROWS_READ: u32 = 1_000;
/// Of the 99th percentile beside bad functions to that without.
const RATIO_MAX: f64 = 3.0;
/// Milliseconds are shown to so many places.
const PLACES: usize = 2;
const METHOD: &str = "\
    Rows are read and another function is executed at a fixed rate, each request counted from the \
    instant at which it was due, and a third one is deployed again and again, its build included: \
    first alone, then beside bad functions in Node and Python, which loop, take memory, fork, \
    flood their output, fill their disk and exit, over two clients each, one request after the \
    other. All passes together. Lost is what was not answered with success.";

/// What goes on undisturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UndisturbedAct {
    Read,
    Execute,
    Build,
}

impl UndisturbedAct {
    const ALL: [UndisturbedAct; 3] = [
        UndisturbedAct::Read,
        UndisturbedAct::Execute,
        UndisturbedAct::Build,
    ];

    fn title(self) -> &'static str {
        match self {
            UndisturbedAct::Read => "read one row",
            UndisturbedAct::Execute => "execute another function",
            UndisturbedAct::Build => "deploy and build a function",
        }
    }

    /// Requests a second that are due; none where the next one follows the last.
    fn per_s(self) -> Option<f64> {
        match self {
            UndisturbedAct::Read => Some(200.0),
            UndisturbedAct::Execute => Some(50.0),
            UndisturbedAct::Build => None,
        }
    }
}

/// What was seen of one act.
#[derive(Default)]
struct ActsSeen {
    took: Vec<Duration>,
    lost: Vec<String>,
}

impl ActsSeen {
    fn add(&mut self, other: ActsSeen) {
        self.took.extend(other.took);
        self.lost.extend(other.lost);
    }
}

/// All acts, in the order of [`UndisturbedAct::ALL`].
#[derive(Default)]
pub struct BesideBad {
    quiet: [ActsSeen; 3],
    beside: [ActsSeen; 3],
}

impl BesideBad {
    /// Measures once more, `lasting` without bad functions and as long beside them.
    ///
    /// # Errors
    /// When a server fails, or bad functions cannot be deployed.
    pub fn add(
        &mut self,
        deployed: &DeployedFunctions<'_>,
        cores: &Cores,
        lasting: Duration,
    ) -> Result<()> {
        if ![EXECUTED, BUILT]
            .iter()
            .all(|one| deployed.handlers.contains(one))
        {
            return Ok(());
        }
        let server = deployed.serve(EXECUTED, cores, &[])?;
        let bad = deploy(deployed, &server)?;
        for (sum, bad) in [(&mut self.quiet, &[][..]), (&mut self.beside, &bad[..])] {
            for (all, seen) in sum.iter_mut().zip(slice(deployed, &server, bad, lasting)) {
                all.add(seen);
            }
        }
        server.stop()
    }

    /// The table; none where nothing was measured.
    pub fn table(&self) -> Option<Table> {
        let pairs = self.quiet.iter().zip(&self.beside);
        let rows = UndisturbedAct::ALL.iter().zip(pairs).filter_map(row);
        let rows: Vec<Vec<String>> = rows.collect();
        (!rows.is_empty()).then(|| Table {
            title: "Beside bad functions".to_owned(),
            heads: measure::markdown::heads(
                "act|alone|beside|p50 ms alone|p50 ms beside|p99 ms alone|p99 ms beside|to alone\
                 |at most|lost alone|lost beside",
            ),
            rows,
            note: METHOD.to_owned(),
        })
    }
}

fn row((act, (quiet, beside)): (&UndisturbedAct, (&ActsSeen, &ActsSeen))) -> Option<Vec<String>> {
    let sorted = [quiet, beside].map(|seen| Sorted::new(seen.took.iter().copied()));
    let [Some(alone), Some(disturbed)] = sorted else {
        return None;
    };
    let ms = |took: Duration| took.as_secs_f64() * 1e3;
    let p99 = [&alone, &disturbed].map(|sorted| ms(sorted.at(990)));
    let mut row = vec![act.title().to_owned()];
    row.extend([quiet, beside].map(|seen| seen.took.len().to_string()));
    row.extend([&alone, &disturbed].map(|sorted| or_dash(Some(ms(sorted.median())), PLACES)));
    row.extend(p99.map(|p99| or_dash(Some(p99), PLACES)));
    row.push(hundredths(p99[1] / p99[0]));
    row.push(hundredths(RATIO_MAX));
    row.extend([quiet, beside].map(|seen| seen.lost.len().to_string()));
    Some(row)
}

/// Deploys the bad functions; their ids.
fn deploy(deployed: &DeployedFunctions<'_>, server: &LiveServer) -> Result<Vec<String>> {
    let mut connection = Connection::open(server.access.address)?;
    let code = [
        (
            FunctionLanguage::Node,
            include_str!("../../../load/bad.mjs"),
        ),
        (
            FunctionLanguage::Python,
            include_str!("../../../load/bad.py"),
        ),
    ];
    let mut ids = Vec::new();
    for (language, code) in code {
        let id = format!("bad-{}", language.ending());
        let folder = deployed.code_folder(&id);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(language.entrypoint()), code)?;
        let runtime = language.runtime(&server.access, &mut connection)?;
        let settings = format!(
            "id = \"{id}\"\nruntime = \"{runtime}\"\nentrypoint = \"{}\"\ntimeout = 1\n",
            language.entrypoint()
        );
        fs::write(folder.join("function.toml"), settings)?;
        deployed.send_folder(server, &folder)?;
        ids.push(id);
    }
    Ok(ids)
}

/// All acts at once, beside clients that execute the `bad` functions.
fn slice(
    deployed: &DeployedFunctions<'_>,
    server: &LiveServer,
    bad: &[String],
    lasting: Duration,
) -> [ActsSeen; 3] {
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        for id in bad.iter().flat_map(|id| [id; ATTACKERS]) {
            scope.spawn(move || attack(&server.access, id, is_over));
        }
        let acts = UndisturbedAct::ALL.map(|act| {
            scope.spawn(move || match act.per_s() {
                Some(per_s) => paced(&server.access, act, per_s, lasting),
                None => builds(deployed, server, lasting),
            })
        });
        let seen = acts.map(|act| {
            // A panic is a fault of this program and goes on.
            act.join()
                .unwrap_or_else(|why| std::panic::resume_unwind(why))
        });
        is_over.store(true, Ordering::Relaxed);
        seen
    })
}

/// Executes a bad function with one act after the other; how it ends is its own affair.
fn attack(access: &Access, id: &str, is_over: &AtomicBool) {
    let route = format!("/functions/{id}/executions");
    let mut connection = None;
    for act in ACTS.iter().cycle() {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let body = format!("{{\"path\":\"/{act}\"}}");
        let request = access.request("POST", &route, &body);
        if ask(&mut connection, access, &request).is_err() {
            connection = None;
        }
    }
}

fn paced(access: &Access, act: UndisturbedAct, per_s: f64, lasting: Duration) -> ActsSeen {
    let mut seen = ActsSeen::default();
    let (origin, mut connection) = (Instant::now(), None);
    for nth in 0_u32.. {
        let due = Duration::from_secs_f64(f64::from(nth) / per_s);
        if due >= lasting {
            break;
        }
        thread::sleep((origin + due).saturating_duration_since(Instant::now()));
        let request = match act {
            UndisturbedAct::Read => {
                let route = format!("{}/{}", rows_route(), row_id(nth * 7 % ROWS_READ));
                access.request("GET", &route, "")
            }
            _ => access.request("POST", &route(EXECUTED), CALL),
        };
        let answered = ask(&mut connection, access, &request);
        let is_right = answered.and_then(|body| match act {
            UndisturbedAct::Execute => check_execution(&body),
            _ => Ok(()),
        });
        match is_right {
            Ok(()) => seen.took.push(origin.elapsed().saturating_sub(due)),
            Err(error) => {
                seen.lost.push(format!("{error:#}"));
                connection = None;
            }
        }
    }
    report_lost(act, &seen);
    seen
}

fn check_execution(body: &str) -> Result<()> {
    let execution: serde_json::Value = serde_json::from_str(body)?;
    EXECUTED.check(execution["responseBody"].as_str().unwrap_or_default())
}

fn builds(deployed: &DeployedFunctions<'_>, server: &LiveServer, lasting: Duration) -> ActsSeen {
    let mut seen = ActsSeen::default();
    let (origin, folder) = (Instant::now(), deployed.code_folder(BUILT.id()));
    while origin.elapsed() < lasting {
        let begun = Instant::now();
        match deployed.send_folder(server, &folder) {
            Ok(()) => seen.took.push(begun.elapsed()),
            Err(error) => seen.lost.push(format!("{error:#}")),
        }
    }
    report_lost(UndisturbedAct::Build, &seen);
    seen
}

/// The first of what was lost, for the one who runs it.
fn report_lost(act: UndisturbedAct, seen: &ActsSeen) {
    if let Some(first) = seen.lost.first() {
        eprintln!("{}: {} lost: {first}", act.title(), seen.lost.len());
    }
}

fn ask(connection: &mut Option<Connection>, access: &Access, request: &[u8]) -> Result<String> {
    if connection.is_none() {
        *connection = Some(Connection::open(access.address)?);
    }
    let connection = connection
        .as_mut()
        .ok_or_else(|| anyhow::anyhow!("no connection"))?;
    let answer = connection.accepted(request)?;
    Ok(String::from_utf8_lossy(answer.body).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(ms: &[u64], lost: usize) -> ActsSeen {
        ActsSeen {
            took: ms.iter().copied().map(Duration::from_millis).collect(),
            lost: vec!["status 500".to_owned(); lost],
        }
    }

    #[test]
    fn table_compares_the_same_act_alone_and_beside() {
        let mut measured = BesideBad::default();
        assert!(measured.table().is_none());
        measured.quiet[0].add(seen(&[1, 2], 0));
        measured.quiet[0].add(seen(&[3], 0));
        measured.beside[0].add(seen(&[2, 4, 6], 1));
        let table = measured.table().unwrap();
        let row = "read one row|3|3|2.00|4.00|3.00|6.00|2.00|3.00|0|1";
        assert_eq!(table.rows, [row.split('|').collect::<Vec<_>>()]);
        assert_eq!(table.heads.len(), table.rows[0].len());
    }
}
