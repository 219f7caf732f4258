//! The search for what costs the server most: lists drawn by chance are asked one at a time, and
//! the costliest changed a little and asked again.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use anyhow::Result;
use measure::draw::Draw;

use super::attack::Arena;
use super::judge::Tally;
use super::query::Candidate;
use super::scene::rows_route;
use super::shot::{Manner, request};
use super::wire::{Seen, Wire};

/// The costliest that are kept, changed, and sent by the attack `worst`.
const KEPT: usize = 8;
/// Of so many steps one begins again, so that no hill is the only one.
const ANEW_EVERY: u64 = 4;
const NAME: &str = "search";
/// No other client asks from here.
const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 2, 0, 1);

/// A list and what it cost.
#[derive(Clone, Debug)]
pub struct Cost {
    /// The list.
    pub candidate: Candidate,
    /// The longer of its answer's time and the server's processor time for it.
    pub time: Duration,
    /// Bytes of the answer.
    pub bytes: u64,
    /// What came back.
    pub answer: String,
}

/// What the search has seen.
#[derive(Default)]
pub struct Found {
    /// The costliest, in that order.
    pub worst: Vec<Cost>,
    /// Lists that were asked.
    pub steps: u64,
    /// What came back.
    pub tally: Tally,
}

/// Asks `steps` lists, or as many as fit into `lasting`.
///
/// # Errors
/// When the server is gone, or takes no connection.
pub fn search(arena: &Arena<'_>, steps: u64, lasting: Duration) -> Result<Found> {
    let begun = Instant::now();
    let mut draw = Draw(arena.seed);
    let mut found = Found::default();
    let mut wire = None;
    while found.steps < steps && begun.elapsed() < lasting && arena.stop.check().is_ok() {
        found.steps += 1;
        let other = Candidate::draw(&mut draw);
        let candidate = if found.worst.is_empty() || found.steps.is_multiple_of(ANEW_EVERY) {
            other
        } else {
            found.worst[draw.place(&found.worst)]
                .candidate
                .changed(&other, &mut draw)
        };
        let cost = ask(arena, &mut wire, candidate, &mut found.tally)?;
        keep(&mut found.worst, cost);
    }
    Ok(found)
}

/// Keeps the costliest.
fn keep(worst: &mut Vec<Cost>, cost: Cost) {
    let is_known = |known: &Cost| known.candidate == cost.candidate;
    if worst.iter().any(is_known) {
        return;
    }
    let place = worst.partition_point(|known| known.time >= cost.time);
    worst.insert(place, cost);
    worst.truncate(KEPT);
}

fn ask(
    arena: &Arena<'_>,
    wire: &mut Option<Wire>,
    candidate: Candidate,
    tally: &mut Tally,
) -> Result<Cost> {
    let route = format!("{}/query", rows_route(candidate.table));
    let bytes = request(arena.access, "POST", &route, &candidate.body());
    let mut open = match wire.take() {
        Some(wire) => wire,
        None => Wire::open(arena.access.address, SOURCE)?,
    };
    let used = arena.process.cpu_us()?;
    let begun = Instant::now();
    let until = begun + arena.plan.answer;
    open.send(&bytes, until);
    let seen = open.answer(until);
    let took = begun.elapsed();
    let used = Duration::from_secs_f64((arena.process.cpu_us()? - used).max(0.0) / 1e6);
    tally.add(NAME, Manner::Plain, (&seen, took), &bytes);
    let (answer, bytes) = match &seen {
        Seen::Answer(reply) => (reply.status.to_string(), reply.bytes),
        _ => ("none".to_owned(), 0),
    };
    if matches!(seen, Seen::Answer(_)) && !open.is_last {
        *wire = Some(open);
    } else {
        // What is still under way would be counted for the next one.
        drop(open);
        arena.rest()?;
    }
    Ok(Cost {
        candidate,
        time: took.max(used),
        bytes,
        answer,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_costliest_are_kept_in_order_and_once() {
        let mut worst = Vec::new();
        let mut draw = Draw(5);
        let candidates: Vec<Candidate> = (0..20).map(|_| Candidate::draw(&mut draw)).collect();
        for (nth, candidate) in candidates.iter().chain(&candidates[..3]).enumerate() {
            let time = Duration::from_millis((nth as u64 * 7) % 20);
            keep(
                &mut worst,
                Cost {
                    candidate: candidate.clone(),
                    time,
                    bytes: 0,
                    answer: String::new(),
                },
            );
        }
        let costs: Vec<u128> = worst.iter().map(|cost| cost.time.as_millis()).collect();
        assert_eq!(costs, [19, 18, 17, 16, 15, 14, 13, 12]);
    }
}
