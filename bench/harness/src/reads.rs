//! Reads over HTTP beside a static responder of the same bytes.

use std::path::Path;

use anyhow::{Result, ensure};
use measure::connection::{Access, Connection};
use measure::live::LiveServer;
use scenarios::answer;

use crate::aim::Aim;
use crate::expect;
use crate::figure::{Figure, Goal, Round, Slice};
use crate::floor::Floor;
use crate::plan::Plan;
use crate::wrk::Wrk;

/// What is read: the cached list, or one row.
#[derive(Clone, Copy, PartialEq)]
enum Subject {
    Hit,
    Point,
}

/// The reader's `ttl`, in seconds: the longest there is, so that no slice sees a refill.
const TTL_S: u32 = 86_400;
/// What the static responder is called in reports.
pub const FLOOR: &str = "static responder, same bytes";

/// The figures of both subjects, by wrk and by one connection.
///
/// # Errors
/// When an answer is wrong, or something cannot be measured.
pub fn figures(binary: &Path, server: &LiveServer, wrk: &Wrk, plan: &Plan) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for subject in [Subject::Hit, Subject::Point] {
        let route = subject.route();
        subject.check(&server.access)?;
        let aim = Aim::at(&server.access, &route, server.process());
        let floor = Floor::beside(binary, &aim)?;
        let targets = [aim, floor.aim.clone()];
        // One connection first: it warms up what both ways of asking use.
        let slice_ms = plan.sequential_ms;
        let rounds = turns(plan.rounds, &targets, |target| target.one_by_one(slice_ms))?;
        figures.push(subject.figure("sequential", "p50 µs", Goal::Told, rounds));
        let rounds = turns(plan.rounds, &targets, |target| target.load(wrk, plan.wrk_s))?;
        figures.push(subject.figure("wrk", "requests/s", subject.goal(), rounds));
        subject.check(&server.access)?;
    }
    Ok(figures)
}

/// The subject, its floor, the subject again, round after round.
fn turns(
    rounds: usize,
    [subject, floor]: &[Aim; 2],
    measure: impl Fn(&Aim) -> Result<Slice>,
) -> Result<Vec<Round>> {
    let round = |_| {
        Ok(Round {
            first: measure(subject)?,
            floor: Some(measure(floor)?),
            second: Some(measure(subject)?),
        })
    };
    (0..rounds).map(round).collect()
}

impl Subject {
    fn route(self) -> String {
        match self {
            Subject::Hit => answer::route(Some(TTL_S)),
            Subject::Point => expect::point_route(),
        }
    }

    /// As the issue that asked for these figures states it.
    fn goal(self) -> Goal {
        match self {
            Subject::Hit => Goal::AtLeast(0.6),
            Subject::Point => Goal::AtLeast(0.4),
        }
    }

    fn figure(self, how: &str, unit: &'static str, goal: Goal, rounds: Vec<Round>) -> Figure {
        let (key, what) = match self {
            Subject::Hit => ("ttl_hit", "list of 25, TTL hit"),
            Subject::Point => ("point_read", "point read"),
        };
        let by = match how {
            "wrk" => "wrk, 32 connections",
            _ => "one connection, one request after the other",
        };
        Figure {
            key: format!("{key}_{how}"),
            title: format!("{what}: {by}"),
            unit,
            goal,
            floor: FLOOR,
            rounds,
        }
    }

    /// The body is right, and a list that should come from the cache does.
    fn check(self, access: &Access) -> Result<()> {
        let mut connection = Connection::open(access.address)?;
        if self == Subject::Point {
            return expect::check_row(&mut connection, access, expect::POINT);
        }
        let route = self.route();
        expect::check_list(&mut connection, access, &route)?;
        let answer = connection.accepted(&access.request("GET", &route, ""))?;
        let cached = answer.header("x-appwrite-cache");
        ensure!(
            cached == Some("hit"),
            "X-Appwrite-Cache says {cached:?} where a hit is due"
        );
        Ok(())
    }
}
