//! The same work by hand-written statements: `crates/store/examples/bare` as a child that is given
//! one task a line and answers each by a line of JSON.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use measure::tasks::TaskChild;
use serde_json::{Value, json};

use super::drive::Driven;
use super::objects::Op;
use crate::run::Sample;

/// Starts it on new databases in `folder`, or in a database of a server.
///
/// # Errors
/// When it does not start, or is another program.
pub fn start(program: &Path, folder: &Path, database: Option<&str>) -> Result<TaskChild> {
    let mut command = Command::new(program);
    command.arg("bitemporal");
    match database {
        Some(url) => command.env("TIDEMARK_DATABASE", url),
        None => command
            .env_remove("TIDEMARK_DATABASE")
            .arg("--folder")
            .arg(folder),
    };
    TaskChild::start(command)
}

/// One run of so many clients, each with so many objects; of the operations it knows.
///
/// # Errors
/// When it fails, or its answer is of another form.
pub fn run(
    child: &mut TaskChild,
    number: u64,
    clients: u32,
    objects: u32,
) -> Result<Vec<(Op, Driven)>> {
    let task = json!({ "run": number, "clients": clients, "objects": objects });
    let answer = child.ask(&task)?;
    let measured = Op::ALL.iter().filter(|op| !answer[op.key()].is_null());
    measured
        .map(|op| {
            let driven = driven(&answer[op.key()]);
            Ok((*op, driven.with_context(|| op.key())?))
        })
        .collect()
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
        spent: None,
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
