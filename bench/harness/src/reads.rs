//! Reads over HTTP beside a static responder of the same bytes and a lean one of the same body.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use measure::connection::{Access, Connection};
use measure::live::LiveServer;
use measure::wrk::Wrk;
use scenarios::answer;

use crate::aim::Aim;
use crate::expect;
use crate::figure::{Figure, Goal, Round};
use crate::floor::{FloorRound, Floors, LEAN, STATIC};
use crate::plan::Plan;
use crate::ways::{Sizes, WAYS, Way};

/// What is read: a list that the cache holds, by either of its rules, or one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Subject {
    Exact,
    Ttl,
    Point,
}

/// The reader's `ttl`, in seconds: the longest there is, so that no slice sees a refill.
const TTL_S: u32 = 86_400;

/// The figures of the TTL hit and the point read, by one connection and by wrk; the goals of
/// requests a second are those of the issue that asked for these figures.
///
/// # Errors
/// When an answer is wrong, or something cannot be measured.
pub fn figures(binary: &Path, server: &LiveServer, wrk: &Wrk, plan: &Plan) -> Result<Vec<Figure>> {
    let sizes = Sizes {
        rounds: plan.rounds,
        wrk_s: plan.wrk_s,
        sequential_ms: plan.sequential_ms,
    };
    let mut figures = Vec::new();
    for (subject, goal) in [(Subject::Ttl, 0.6), (Subject::Point, 0.4)] {
        subject.check(&server.access)?;
        let aim = Aim::at(&server.access, &subject.route(), server.costs());
        let floors = Floors::beside(binary, &aim)?;
        for way in WAYS {
            let ask = |aim: &Aim| sizes.ask(way, aim, wrk);
            let rounds = (0..sizes.rounds).map(|number| floors.round(number, &aim, ask));
            let rounds = rounds.collect::<Result<Vec<FloorRound>>>()?;
            let goal = match way {
                Way::One => Goal::Reported,
                Way::Many => Goal::AtLeast(goal),
            };
            let same = rounds.iter().map(FloorRound::to_same).collect();
            figures.push(way.figure(subject.key(), subject.title(), STATIC, goal, same));
            figures.extend(subject.to_lean(way, &rounds)?);
        }
        subject.check(&server.access)?;
    }
    figures.push(unchanged(server, wrk, &sizes)?);
    Ok(figures)
}

/// A 304 beside the hit that it stands for.
fn unchanged(server: &LiveServer, wrk: &Wrk, sizes: &Sizes) -> Result<Figure> {
    let hit = Aim::at(&server.access, &Subject::Exact.route(), server.costs());
    Subject::Exact.check(&server.access)?;
    let mut connection = Connection::open(hit.address)?;
    let answer = connection.accepted(&hit.request())?;
    let tag = answer.header("etag").context("a list has no ETag")?;
    let mut conditional = hit.clone();
    conditional.headers.push(format!("If-None-Match: {tag}"));
    let status = connection.ask(&conditional.request())?.status;
    ensure!(status == 304, "status {status} where a 304 is due");
    let ask = |aim: &Aim| sizes.ask(Way::Many, aim, wrk);
    let round = |_| {
        Ok(Round::of(
            ask(&conditional)?,
            ask(&hit)?,
            ask(&conditional)?,
        ))
    };
    let rounds = (0..sizes.rounds).map(round).collect::<Result<_>>()?;
    let goal = Goal::AtLeast(1.0);
    Ok(Way::Many.figure(
        "unchanged",
        "list of 25, 304",
        "its exact hit",
        goal,
        rounds,
    ))
}

impl Subject {
    /// What the keys of its figures begin with.
    pub fn key(self) -> &'static str {
        match self {
            Subject::Exact => "exact_hit",
            Subject::Ttl => "ttl_hit",
            Subject::Point => "point_read",
        }
    }

    /// As a report says it.
    pub fn title(self) -> &'static str {
        match self {
            Subject::Exact => "list of 25, exact hit",
            Subject::Ttl => "list of 25, TTL hit",
            Subject::Point => "point read",
        }
    }

    /// The same rounds, held against the lean responder: the value and, under load, processor
    /// time. The goals are those of the issue that asked for that responder.
    ///
    /// # Errors
    /// When processor time was not taken.
    pub fn to_lean(self, way: Way, rounds: &[FloorRound]) -> Result<Vec<Figure>> {
        let (goal, goal_cpu) = match (self, way) {
            (Subject::Point, Way::One) => (Goal::Reported, Goal::Reported),
            (Subject::Point, Way::Many) => (Goal::AtLeast(0.75), Goal::AtMost(1.6)),
            // 0.92 of its requests a second: one request after the other takes 1/0.92 of its time.
            (_, Way::One) => (Goal::AtMost(1.09), Goal::Reported),
            (_, Way::Many) => (Goal::AtLeast(0.92), Goal::AtMost(1.15)),
        };
        let (key, title) = (format!("{}_lean", self.key()), self.title());
        let title = format!("{title}, to the lean responder");
        let rounds = rounds.iter().map(FloorRound::to_lean).collect();
        let own = way.figure(&key, &title, LEAN, goal, rounds);
        if way == Way::One {
            return Ok(vec![own]);
        }
        let cpu = own.by_processor(goal_cpu).context("no processor time")?;
        Ok(vec![own, cpu])
    }

    /// Where it is asked for.
    pub fn route(self) -> String {
        match self {
            Subject::Exact => answer::route(None),
            Subject::Ttl => answer::route(Some(TTL_S)),
            Subject::Point => expect::point_route(),
        }
    }

    /// The body is right, and a list comes from the cache that it should come from.
    ///
    /// # Errors
    /// When either is not so.
    pub fn check(self, access: &Access) -> Result<()> {
        let mut connection = Connection::open(access.address)?;
        let (header, route) = match self {
            Subject::Point => return expect::check_row(&mut connection, access, expect::POINT),
            Subject::Exact => ("x-tidemark-cache", self.route()),
            Subject::Ttl => ("x-appwrite-cache", self.route()),
        };
        expect::check_list(&mut connection, access, &route)?;
        let answer = connection.call(access, "GET", &route, "")?;
        let cached = answer.header(header).unwrap_or_default();
        ensure!(
            cached.starts_with("hit"),
            "{header} says `{cached}` where a hit is due"
        );
        Ok(())
    }
}
