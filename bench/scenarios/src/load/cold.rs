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

/// All cold starts of one handler.
pub struct ColdStart {
    /// Which.
    pub handler: LoadFunction,
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
            ours: Vec::new(),
            bare: Vec::new(),
        }
    }

    /// Adds `count` of each, in turns.
    ///
    /// # Errors
    /// When a server or an interpreter fails, an answer is wrong, or no process was started.
    pub fn add(
        &mut self,
        deployed: &DeployedFunctions<'_>,
        cores: &Cores,
        count: u32,
    ) -> Result<()> {
        let handler = self.handler;
        let server = deployed.serve(handler, cores, &[])?;
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

fn processes(server: &LiveServer) -> Result<HashSet<u32>> {
    let tree = server.process().tree()?;
    Ok(tree.into_iter().map(|process| process.0).collect())
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
