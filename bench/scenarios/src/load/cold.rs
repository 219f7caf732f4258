//! Cold starts: an execution that begins with a new process, beside the bare interpreter that does
//! the same.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use measure::connection::Connection;
use measure::cores::Cores;
use measure::live::LiveServer;
use measure::process::ChildProgram;
use measure::responder::Responder;
use serde_json::json;

use super::deployed::{DeployedFunctions, execute};
use super::load_function::{CALL, FunctionLanguage, LoadFunction};

/// What is changed to make the next execution begin with a new process: a process keeps the
/// variables that it was started with.
const VARIABLE: &str = "bench";

/// Processes of functions end so long after their last request where their spare is to answer.
const IDLE: &str = "--functions-idle-s=1";
const NO_SPARE: &str = "--functions-spare-s=0";
/// A server whose processes have not changed for so long has ended what it ends, and its spare has
/// loaded its code.
const STILL: Duration = Duration::from_millis(1_500);
/// A spare that has not come by then does not come: the code loads quickly.
const SPARE_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// All cold starts of one handler.
pub struct ColdStart {
    /// Which.
    pub handler: LoadFunction,
    /// Whether a spare answers, and not a process that is started.
    is_from_spare: bool,
    /// From the request to the answer of the execution.
    pub ours: Vec<Duration>,
    /// From the start of the interpreter to the answer of the handler.
    pub bare: Vec<Duration>,
}

impl ColdStart {
    /// None yet.
    pub fn of(handler: LoadFunction) -> ColdStart {
        ColdStart {
            handler,
            is_from_spare: false,
            ours: Vec::new(),
            bare: Vec::new(),
        }
    }

    /// None yet, of those that a spare answers.
    pub fn from_spare(handler: LoadFunction) -> ColdStart {
        ColdStart {
            is_from_spare: true,
            ..ColdStart::of(handler)
        }
    }

    /// Its name for people.
    pub fn title(&self) -> String {
        let how = if self.is_from_spare {
            ", from the spare"
        } else {
            ""
        };
        self.handler.title().to_owned() + how
    }

    /// Adds `count` of each, in turns.
    ///
    /// # Errors
    /// When a server or an interpreter fails, an answer is wrong, or the answer came of another
    /// process than it should.
    pub fn add(
        &mut self,
        deployed: &DeployedFunctions<'_>,
        cores: &Cores,
        count: u32,
    ) -> Result<()> {
        if self.is_from_spare {
            self.add_from_spare(deployed, cores, count)
        } else {
            self.add_started(deployed, cores, count)
        }
    }

    fn add_from_spare(
        &mut self,
        deployed: &DeployedFunctions<'_>,
        cores: &Cores,
        count: u32,
    ) -> Result<()> {
        let handler = self.handler;
        let server = deployed.serve(handler, cores, &[IDLE])?;
        let mut connection = Connection::open(server.access.address)?;
        let mut worked = processes(&server)?;
        for _ in 0..count {
            let Some(spare) = until_spare(&server, &worked)? else {
                break;
            };
            let start = Instant::now();
            execute(&server.access, &mut connection, handler)?;
            let took = start.elapsed();
            let is_new = processes(&server)?.difference(&spare).next().is_some();
            ensure!(!is_new, "a process was started");
            self.ours.push(took);
            self.bare.push(bare(deployed, handler, cores, &server)?);
            worked = spare;
        }
        server.stop()
    }

    fn add_started(
        &mut self,
        deployed: &DeployedFunctions<'_>,
        cores: &Cores,
        count: u32,
    ) -> Result<()> {
        let handler = self.handler;
        let server = deployed.serve(handler, cores, &[NO_SPARE])?;
        let mut connection = Connection::open(server.access.address)?;
        let variables = format!("/functions/{}/variables", handler.id());
        let body = json!({ "variableId": VARIABLE, "key": "BENCH", "value": "0" });
        connection.call(&server.access, "POST", &variables, body)?;
        let variable = format!("{variables}/{VARIABLE}");
        for number in 1..=count {
            let body = json!({ "key": "BENCH", "value": number.to_string() });
            connection.call(&server.access, "PUT", &variable, body)?;
            let before = processes(&server)?;
            let start = Instant::now();
            execute(&server.access, &mut connection, handler)?;
            self.ours.push(start.elapsed());
            let is_new = processes(&server)?.difference(&before).next().is_some();
            ensure!(is_new, "no process was started");
            self.bare.push(bare(deployed, handler, cores, &server)?);
        }
        server.stop()
    }
}

/// Those that the server has started.
fn processes(server: &LiveServer) -> Result<HashSet<u32>> {
    let tree = server.process().tree()?.into_iter();
    let own = server.process().0;
    Ok(tree
        .map(|process| process.0)
        .filter(|number| *number != own)
        .collect())
}

/// Waits until what has `worked` has ended and others are there that stay the same; `None` where
/// none come.
fn until_spare(server: &LiveServer, worked: &HashSet<u32>) -> Result<Option<HashSet<u32>>> {
    let begun = Instant::now();
    let (mut seen, mut since) = (HashSet::new(), Instant::now());
    while begun.elapsed() < SPARE_MAX {
        std::thread::sleep(LOOK_EVERY);
        let now = processes(server)?;
        if now != seen {
            (seen, since) = (now, Instant::now());
        } else if !seen.is_empty() && seen.is_disjoint(worked) && since.elapsed() >= STILL {
            return Ok(Some(seen));
        }
    }
    Ok(None)
}

/// Starts an interpreter without a server, and has it call the handler once; how long that took.
fn bare(
    deployed: &DeployedFunctions<'_>,
    handler: LoadFunction,
    cores: &Cores,
    server: &LiveServer,
) -> Result<Duration> {
    let mut command = deployed.bare(handler, &server.access);
    let start = Instant::now();
    match handler.language() {
        FunctionLanguage::Node => {
            let node = Responder::begin(command, Some(cores))?;
            let mut connection = Connection::open(node.address)?;
            let length = CALL.len();
            let head = format!("POST / HTTP/1.1\r\nHost: bare\r\nContent-Length: {length}\r\n\r\n");
            let answer = connection.accepted((head + CALL).as_bytes())?;
            let took = start.elapsed();
            handler.check(&String::from_utf8_lossy(answer.body))?;
            Ok(took)
        }
        FunctionLanguage::Python => {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut python = ChildProgram::spawn(&mut command, Some(cores))?;
            let input = python.0.stdin.take().context("it has no standard input")?;
            (&input).write_all(CALL.as_bytes())?;
            drop(input);
            let output = python
                .0
                .stdout
                .take()
                .context("it has no standard output")?;
            let mut answer = String::new();
            BufReader::new(output).read_line(&mut answer)?;
            let took = start.elapsed();
            handler.check(&answer)?;
            Ok(took)
        }
    }
}
