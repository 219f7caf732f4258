//! The same work by hand-written statements: `crates/store/examples/bare` as a child that is given
//! one task a line and answers each by a line of JSON.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::drive::Driven;
use super::objects::Op;
use crate::run::Sample;

/// The running child; it ends when its input does.
pub struct Bare {
    child: Child,
    tasks: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// What it runs on, in its own words.
    pub name: String,
}

impl Bare {
    /// Starts it on new databases in `folder`.
    ///
    /// # Errors
    /// When it does not start, or is another program.
    pub fn start(program: &Path, folder: &Path) -> Result<Bare> {
        let mut command = Command::new(program);
        command.args(["bitemporal", "--folder"]).arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn();
        let mut child = child.with_context(|| format!("{} does not start", program.display()))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (tasks, answers) = pipes.context("it has no pipes")?;
        let mut bare = Bare {
            child,
            tasks: Some(tasks),
            answers: BufReader::new(answers),
            name: String::new(),
        };
        let hello = bare.hear()?;
        let name = hello["name"]
            .as_str()
            .context("it does not say what it is")?;
        name.clone_into(&mut bare.name);
        Ok(bare)
    }

    /// One run of so many clients, each with so many objects; of the operations it knows.
    ///
    /// # Errors
    /// When it fails, or its answer is of another form.
    pub fn run(&mut self, number: u64, clients: u32, objects: u32) -> Result<Vec<(Op, Driven)>> {
        let task = json!({ "run": number, "clients": clients, "objects": objects });
        let answer = self.ask(&task)?;
        let measured = Op::ALL.iter().filter(|op| !answer[op.key()].is_null());
        measured
            .map(|op| {
                let driven = driven(&answer[op.key()]);
                Ok((*op, driven.with_context(|| op.key())?))
            })
            .collect()
    }

    /// Any task, as its text says.
    ///
    /// # Errors
    /// When it fails.
    pub fn ask(&mut self, task: &Value) -> Result<Value> {
        let tasks = self.tasks.as_mut().context("it is at its end")?;
        writeln!(tasks, "{task}").context("it is gone")?;
        self.hear().with_context(|| format!("the task {task}"))
    }

    fn hear(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.is_empty() {
            bail!("the program of hand-written statements has ended");
        }
        serde_json::from_str(&line).with_context(|| format!("it says `{}`", line.trim()))
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // The end of its input is what it waits for.
        drop(self.tasks.take());
        drop(self.child.wait());
    }
}

/// `{"objects": of each client, "wall_ns", "samples_ns": [[…], …]}`
fn driven(answer: &Value) -> Result<Driven> {
    let wall = answer["wall_ns"].as_u64().context("no `wall_ns`")?;
    let objects = answer["objects"].as_u64().context("no `objects`")?;
    let clients = answer["samples_ns"].as_array().context("no `samples_ns`")?;
    let samples: Result<Vec<Vec<Sample>>> = clients.iter().map(samples).collect();
    let driven = Driven {
        samples: samples?,
        objects: u32::try_from(objects)?,
        wall: Duration::from_nanos(wall),
    };
    ensure!(!driven.samples.is_empty(), "it told of no client");
    Ok(driven)
}

/// Latencies in nanoseconds, one after the other.
///
/// # Errors
/// When it is no list of numbers, or an empty one.
pub fn samples(answer: &Value) -> Result<Vec<Sample>> {
    let list = answer.as_array().context("no list of latencies")?;
    let mut ended = Duration::ZERO;
    let mut samples = Vec::with_capacity(list.len());
    for number in list {
        let took = Duration::from_nanos(number.as_u64().context("a latency is no number")?);
        ended += took;
        samples.push(Sample { ended, took });
    }
    ensure!(!samples.is_empty(), "an empty list of latencies");
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_follow_one_another() {
        let answer = json!({ "wall_ns": 900, "objects": 2, "samples_ns": [[100, 300], [700]] });
        let driven = driven(&answer).unwrap();
        let ns = Duration::from_nanos;
        assert_eq!((driven.wall, driven.objects), (ns(900), 2));
        let ends: Vec<Duration> = driven.samples[0].iter().map(|one| one.ended).collect();
        assert_eq!(ends, [ns(100), ns(400)]);
        for wrong in [
            json!({}),
            json!({ "wall_ns": 1, "objects": 1, "samples_ns": [] }),
            json!({ "wall_ns": 1, "objects": 1, "samples_ns": [[]] }),
            json!({ "wall_ns": 1, "objects": 1, "samples_ns": [["x"]] }),
        ] {
            assert!(super::driven(&wrong).is_err(), "{wrong}");
        }
    }
}
