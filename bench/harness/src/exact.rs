//! `harness exact`: cached lists and single rows beside a static responder and a static file.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use measure::live::LiveServer;
use measure::wrk::Wrk;
use serde_json::json;

use crate::aim::Aim;
use crate::figure::{Figure, Goal, Round, Slice};
use crate::floor::Floor;
use crate::reads::{FLOOR, Subject};
use crate::run::{Run, RunArgs};
use crate::ways::{Sizes, WAYS, Way};
use crate::{catalog, expect, nginx, surroundings};

/// Measure an exact hit, a TTL hit and a point read beside a static responder and nginx
///
/// Each round is the subject, the static responder with the same bytes, nginx with the same body
/// as a file, and the subject again: once over one connection, once by wrk over 32.
#[derive(clap::Args)]
#[command(after_help = "Example:
  apt-get install -y wrk nginx-light
  cargo build --release -p tidemark
  cargo run --release -p harness -- exact --quick")]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgs,
}

const FULL: Sizes = Sizes {
    rounds: 5,
    wrk_s: 5,
    sequential_ms: 2_000,
};
const QUICK: Sizes = Sizes {
    rounds: 2,
    wrk_s: 1,
    sequential_ms: 100,
};
/// # Errors
/// When the stage cannot be set, or the report not be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let sizes = arguments.run.sizes(FULL, QUICK, |sizes| &mut sizes.rounds);
    let nginx = nginx::find()?;
    let own = vec![
        ("rows", json!(expect::ROWS)),
        ("nginx", json!(nginx.version)),
    ];
    let own = [own, sizes.parameters()].concat();
    let mut run = Run::begin("exact", &arguments.run, own)?;
    let wrk = Wrk::find(run.scratch.path())?;
    let server = surroundings::serve(&run.binary, &run.scratch.at("exact"))?;
    catalog::seed(&run.binary, &server, expect::ROWS, true)?;
    for subject in [Subject::Exact, Subject::Ttl, Subject::Point] {
        run.take(subject.title(), |run| {
            let stage = Stage {
                run,
                wrk: &wrk,
                nginx: &nginx,
                server: &server,
                sizes,
            };
            stage.measure(subject)
        });
    }
    server.stop()?;
    run.finish()
}

struct Stage<'a> {
    run: &'a Run,
    wrk: &'a Wrk,
    nginx: &'a nginx::Found,
    server: &'a LiveServer,
    sizes: Sizes,
}

/// One round: the subject, who stands beside it, the subject again.
#[derive(Clone, Debug)]
struct Beside {
    first: Slice,
    floor: Slice,
    file: Slice,
    second: Slice,
}

impl Stage<'_> {
    fn measure(&self, subject: Subject) -> Result<Vec<Figure>> {
        let access = &self.server.access;
        subject.check(access)?;
        let aim = Aim::at(access, &subject.route(), self.server.process());
        let floor = Floor::beside(&self.run.binary, &aim)?;
        let file = self.nginx.serve(&self.folder(subject), &aim)?;
        let mut figures = Vec::new();
        for way in WAYS {
            let ask = |aim: &Aim| self.sizes.ask(way, aim, self.wrk);
            let round = |number: u32| {
                let first = ask(&aim)?;
                // Each of the two is next to either slice of the subject as often as the other.
                let mut others = [&floor.aim, &file.aim];
                others.rotate_left(number as usize % 2);
                let mut others = [ask(others[0])?, ask(others[1])?];
                others.rotate_left(number as usize % 2);
                let [floor, file] = others;
                let second = ask(&aim)?;
                Ok(Beside {
                    first,
                    floor,
                    file,
                    second,
                })
            };
            let rounds = || (0..self.sizes.rounds).map(round).collect::<Result<_>>();
            let rounds: Vec<Beside> = way.awake(rounds)?;
            figures.extend(subject.figures(way, &rounds)?);
        }
        subject.check(access).context("after measuring")?;
        Ok(figures)
    }

    fn folder(&self, subject: Subject) -> PathBuf {
        self.run.scratch.at(&format!("nginx-{}", subject.key()))
    }
}

impl Subject {
    fn file(self) -> &'static str {
        match self {
            Subject::Exact => "nginx, list of 25 as a file",
            Subject::Ttl => "nginx, list of 25 as a file, beside the TTL hit",
            Subject::Point => "nginx, row as a file",
        }
    }

    /// What the value, and the processor time of 32 connections, must reach of the static
    /// responder's; as the issue that asked for these figures states it.
    fn goals(self, way: Way) -> [Goal; 2] {
        match (self, way) {
            (Subject::Point, Way::One) => [Goal::Reported; 2],
            (Subject::Point, Way::Many) => [Goal::AtLeast(0.6), Goal::Reported],
            (_, Way::One) => [Goal::AtMost(1.15), Goal::Reported],
            (_, Way::Many) => [Goal::AtLeast(0.85), Goal::AtMost(1.3)],
        }
    }

    fn figures(self, way: Way, rounds: &[Beside]) -> Result<Vec<Figure>> {
        let [goal, goal_cpu] = self.goals(way);
        let figure = |who: &str, title: &str, floor: &'static str, goal: Goal, rounds| {
            way.figure(&format!("{}{who}", self.key()), title, floor, goal, rounds)
        };
        let title = self.title();
        let own = figure("", title, FLOOR, goal, beside(rounds, |round| &round.floor));
        let file = |round: &Beside| Round {
            first: round.file.clone(),
            floor: Some(round.floor.clone()),
            second: None,
        };
        let file: Vec<Round> = rounds.iter().map(file).collect();
        let file = figure("_file", self.file(), FLOOR, Goal::Reported, file);
        let to_file = beside(rounds, |round| &round.file);
        let title = format!("{title}, to the file");
        let to_file = figure("_to_file", &title, "nginx", Goal::Reported, to_file);
        if way == Way::One {
            return Ok(vec![own, file, to_file]);
        }
        let cpu = own.by_processor(goal_cpu).context("no processor time")?;
        let cpu_file = file
            .by_processor(Goal::Reported)
            .context("no processor time")?;
        Ok(vec![own, file, to_file, cpu, cpu_file])
    }
}

/// The subject with one of those beside it as its floor.
fn beside(rounds: &[Beside], floor: fn(&Beside) -> &Slice) -> Vec<Round> {
    let round = |round: &Beside| {
        Round::of(
            round.first.clone(),
            floor(round).clone(),
            round.second.clone(),
        )
    };
    rounds.iter().map(round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::PROCESSOR;

    fn slice(value: f64, cpu_us: f64) -> Slice {
        Slice::noted(value, vec![(PROCESSOR, cpu_us)])
    }

    fn round() -> Beside {
        Beside {
            first: slice(80.0, 12.0),
            floor: slice(100.0, 10.0),
            file: slice(60.0, 20.0),
            second: slice(100.0, 14.0),
        }
    }

    #[test]
    fn a_round_is_judged_by_the_responder_and_told_beside_the_file() {
        let figures = Subject::Exact.figures(Way::Many, &[round()]).unwrap();
        let shown = |figure: &Figure| {
            let ratio = figure.ratio().unwrap().median;
            (figure.key.clone(), ratio, figure.is_met())
        };
        let found: Vec<_> = figures.iter().map(shown).collect();
        let wanted = [
            ("exact_hit_wrk", 0.9, Some(true)),
            ("exact_hit_file_wrk", 0.6, None),
            ("exact_hit_to_file_wrk", 1.5, None),
            ("exact_hit_wrk_cpu", 1.3, Some(true)),
            ("exact_hit_file_wrk_cpu", 2.0, None),
        ];
        let wanted = wanted.map(|(key, ratio, met)| (key.to_owned(), ratio, met));
        assert_eq!(found, wanted);
    }

    #[test]
    fn one_connection_is_judged_by_its_latency_alone() {
        let figures = Subject::Ttl.figures(Way::One, &[round()]).unwrap();
        assert_eq!(figures.len(), 3);
        assert_eq!(figures[0].unit, "p50 µs");
        assert_eq!(figures[0].goal, Goal::AtMost(1.15));
    }
}
