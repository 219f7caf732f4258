//! Clients that ask at once, each one request after the other, and what each answer took.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use measure::connection::Connection;
use measure::costs::Spent;
use measure::threads::together;

use crate::run::Sample;

/// Each object that is answered has it once.
const MARK_OF_AN_OBJECT: &[u8] = b"\"code\":\"";

/// A request that stands ready.
pub struct Call {
    /// Its bytes.
    pub request: Vec<u8>,
    /// Objects that its answer must hold.
    pub objects: u32,
}

/// What the clients saw.
#[derive(Clone, Debug, Default)]
pub struct Driven {
    /// By client, each in the order of its requests; counted from the common beginning.
    pub samples: Vec<Vec<Sample>>,
    /// Objects of each client.
    pub objects: u32,
    /// From the common beginning to the last answer.
    pub wall: Duration,
    /// What the server's side has spent meanwhile, where that was counted.
    pub spent: Option<Spent>,
}

impl Driven {
    /// What one client saw, beside no server.
    pub fn of_one(samples: Vec<Sample>, objects: u32, wall: Duration) -> Driven {
        Driven {
            samples: vec![samples],
            objects,
            wall,
            spent: None,
        }
    }
}

/// Sends the calls of each client over its connection.
///
/// # Errors
/// When a connection breaks, the server refuses, or an answer lacks objects.
pub fn drive(connections: &mut [Connection], calls: &[Vec<Call>]) -> Result<Driven> {
    let gate = Barrier::new(connections.len());
    let pairs = connections.iter_mut().zip(calls);
    let gate = &gate;
    let done = together(pairs.map(|(connection, calls)| || ask_all(connection, calls, gate)))?;
    let ended = done
        .iter()
        .filter_map(|samples| samples.iter().map(|sample| sample.ended).max());
    let objects = calls.first().context("a client")?.iter();
    Ok(Driven {
        wall: ended.max().unwrap_or_default(),
        objects: objects.map(|call| call.objects).sum(),
        samples: done,
        spent: None,
    })
}

fn ask_all(connection: &mut Connection, calls: &[Call], gate: &Barrier) -> Result<Vec<Sample>> {
    let mut samples = Vec::with_capacity(calls.len());
    gate.wait();
    let origin = Instant::now();
    for call in calls {
        let before = Instant::now();
        let answer = connection.accepted(&call.request)?;
        let after = Instant::now();
        samples.push(Sample {
            ended: after - origin,
            took: after - before,
        });
        let objects = count(answer.body, MARK_OF_AN_OBJECT);
        ensure!(
            objects == call.objects as usize,
            "{objects} objects came, {} are there",
            call.objects
        );
    }
    Ok(samples)
}

/// How often `wanted` stands in `body`.
fn count(body: &[u8], wanted: &[u8]) -> usize {
    let starts = body
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == wanted[0]);
    starts
        .filter(|(place, _)| body[*place..].starts_with(wanted))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_counted_by_their_keys() {
        let body = br#"{"rows":[{"$id":"a","code":"1"},{"code":"2","x":"code"},null]}"#;
        assert_eq!(count(body, MARK_OF_AN_OBJECT), 2);
        assert_eq!(count(b"", MARK_OF_AN_OBJECT), 0);
    }
}
