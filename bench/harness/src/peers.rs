//! `harness peers`: the same list from another product, in the same rounds.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use measure::connection::Connection;
use measure::live::LiveServer;
use measure::wrk::Wrk;
use scenarios::answer;
use serde_json::json;

use crate::aim::Aim;
use crate::catalog;
use crate::expect;
use crate::figure::{Figure, Goal, Round, Slice};
use crate::floor::{FloorRound, Floors, LEAN, STATIC};
use crate::pocketbase::{self, Peer};
use crate::run::{Run, RunArgs};
use crate::surroundings;
use crate::ways::{Sizes, WAYS, Way};

/// Measure the published list beside PocketBase
///
/// Both hold the same 10,000 rows with the same index, both are asked without a key, and both
/// answers are compared with the generator. Each is measured in turns with a static responder that
/// gives its own answer, and a lean one that gives its body. PocketBase has no cache of lists, so
/// the server that has none stands beside it; the exact hit is compared with its responders alone.
/// PocketBase is fetched and built by Go on the first run, into a folder `peers` beside the binary.
#[derive(clap::Args)]
#[command(after_help = "Example:
  cargo build --release -p tidemark
  cargo run --release -p harness -- peers --quick")]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgs,
    /// PocketBase, built already [default: Go builds it]
    #[arg(long, value_name = "FILE")]
    pocketbase: Option<PathBuf>,
}

// A peer that answers seventy lists a second is heard for long enough.
const FULL: Sizes = Sizes {
    rounds: 3,
    wrk_s: 12,
    sequential_ms: 2_000,
};
const QUICK: Sizes = Sizes {
    rounds: 1,
    wrk_s: 10,
    sequential_ms: 200,
};

/// # Errors
/// When the stage cannot be set, or the report not be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let sizes = arguments.run.sizes(FULL, QUICK, |sizes| &mut sizes.rounds);
    let own = vec![
        ("rows", json!(expect::ROWS)),
        ("pocketbase", json!(pocketbase::VERSION)),
    ];
    let own = [own, sizes.parameters()].concat();
    let mut run = Run::begin("peers", &arguments.run, own)?;
    let wrk = Wrk::find(run.scratch.path())?;
    let program = match &arguments.pocketbase {
        Some(program) => program.clone(),
        None => pocketbase::build(&run.binary.with_file_name("peers"))?,
    };
    let seeded = catalog::seeded(&run.binary, &run.scratch, expect::ROWS, &[])?;
    let on = surroundings::serve(&run.binary, &run.scratch.copy(&seeded, "on")?)?;
    let off = run.scratch.copy(&seeded, "off")?;
    let off = surroundings::serve_with(&run.binary, &off, &["--list-cache=off"])?;
    let peer = Peer::start(&program, &run.scratch.at("pocketbase"))?;
    eprintln!("loading {} rows into PocketBase …", expect::ROWS);
    peer.seed(expect::ROWS)?;
    run.take("the list of each", |run| {
        let subjects = [
            Subject::of(run, "cached", "Tidemark", ours(&on, "hit")?)?,
            Subject::of(
                run,
                "uncached",
                "Tidemark, list cache off",
                ours(&off, "bypass")?,
            )?,
            Subject::of(run, "pocketbase", "PocketBase", theirs(&peer, true)?)?,
            Subject::of(
                run,
                "pocketbase_no_total",
                "PocketBase, no total",
                theirs(&peer, false)?,
            )?,
        ];
        let taken = measure(&subjects, &wrk, &sizes)?;
        must_say(&on, "hit").context("after measuring")?;
        Ok(taken)
    });
    on.stop()?;
    off.stop()?;
    run.finish()
}

/// The published list of a Tidemark server, asked without a key.
fn ours(server: &LiveServer, wanted: &str) -> Result<Aim> {
    let route = answer::route(None);
    let mut connection = Connection::open(server.access.address)?;
    expect::check_list(&mut connection, &server.access, &route)?;
    must_say(server, wanted)?;
    let mut aim = Aim::at(&server.access, &route, server.costs());
    aim.headers
        .retain(|line| !line.starts_with("X-Appwrite-Key"));
    ensure!(aim.headers.len() == 1, "the project is named, and no key");
    Ok(aim)
}

/// A list comes from the cache, or from a server that has none.
fn must_say(server: &LiveServer, wanted: &str) -> Result<()> {
    let mut connection = Connection::open(server.access.address)?;
    let answer = connection.call(&server.access, "GET", &answer::route(None), "")?;
    let said = answer.header("x-tidemark-cache").unwrap_or_default();
    ensure!(
        said.starts_with(wanted),
        "x-tidemark-cache says `{said}` where `{wanted}` is due"
    );
    Ok(())
}

fn theirs(peer: &Peer, has_total: bool) -> Result<Aim> {
    let aim = peer.list(has_total);
    pocketbase::check(&aim, expect::ROWS)?;
    Ok(aim)
}

/// A server with the responders that give its answer.
struct Subject {
    key: &'static str,
    title: &'static str,
    aim: Aim,
    floors: Floors,
}

impl Subject {
    fn of(run: &Run, key: &'static str, title: &'static str, aim: Aim) -> Result<Subject> {
        let floors = Floors::beside(&run.binary, &aim).context(title)?;
        Ok(Subject {
            key,
            title,
            aim,
            floors,
        })
    }
}

fn measure(subjects: &[Subject; 4], wrk: &Wrk, sizes: &Sizes) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for way in WAYS {
        let ask = |aim: &Aim| sizes.ask(way, aim, wrk);
        let mut rounds: [Vec<FloorRound>; 4] = Default::default();
        way.awake(|| {
            for number in 0..sizes.rounds {
                for (subject, rounds) in subjects.iter().zip(&mut rounds) {
                    rounds.push(subject.floors.round(number, &subject.aim, ask)?);
                }
            }
            Ok(())
        })?;
        let titles = subjects
            .each_ref()
            .map(|subject| (subject.key, subject.title));
        figures.extend(figures_of(way, titles, rounds)?);
    }
    Ok(figures)
}

/// Each beside its floors, then ours, not cached, beside theirs. Nothing is to be reached.
fn figures_of(
    way: Way,
    titles: [(&str, &str); 4],
    rounds: [Vec<FloorRound>; 4],
) -> Result<Vec<Figure>> {
    let figure = |key: &str, title: &str, floor, rounds| {
        way.figure(key, title, floor, Goal::Reported, rounds)
    };
    let [_, uncached, theirs, _] = &rounds;
    let direct = uncached.iter().zip(theirs).map(|(ours, theirs)| Round {
        floor: Some(both(theirs)),
        ..ours.to_same()
    });
    let direct = figure(
        "uncached_to_pocketbase",
        "Tidemark, list cache off, to PocketBase with total",
        "PocketBase",
        direct.collect(),
    );
    let mut figures = Vec::new();
    for ((key, title), rounds) in titles.into_iter().zip(rounds) {
        let floors = [
            (
                FloorRound::to_same as fn(&FloorRound) -> Round,
                STATIC,
                "",
                "",
            ),
            (
                FloorRound::to_lean,
                LEAN,
                "_lean",
                ", to the lean responder",
            ),
        ];
        for (to_floor, floor, key_end, title_end) in floors {
            let rounds = rounds.iter().map(to_floor).collect();
            let (key, title) = (format!("{key}{key_end}"), format!("{title}{title_end}"));
            let own = figure(&key, &title, floor, rounds);
            let cpu = own
                .by_processor(Goal::Reported)
                .context("no processor time")?;
            figures.extend([own, cpu]);
        }
    }
    figures.push(direct);
    Ok(figures)
}

/// Both slices of a subject as one.
fn both(round: &FloorRound) -> Slice {
    let mut slice = round.first.clone();
    slice.value = f64::midpoint(slice.value, round.second.value);
    slice
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::PROCESSOR;

    #[test]
    fn each_has_its_floors_and_ours_stands_beside_theirs() {
        let slice = |value: f64| Slice::noted(value, vec![(PROCESSOR, value)]);
        let round = |value: f64| {
            vec![FloorRound {
                first: slice(value),
                same: slice(100.0),
                lean: slice(200.0),
                second: slice(3.0 * value),
            }]
        };
        let titles = [("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")];
        let rounds = [40.0, 20.0, 10.0, 5.0].map(round);
        let figures = figures_of(Way::Many, titles, rounds).unwrap();
        let ratio = |figure: &Figure| (figure.key.clone(), figure.ratio().unwrap().median);
        let ratios: Vec<(String, f64)> = figures.iter().map(ratio).collect();
        let wanted = [
            ("a_wrk", 0.8),
            ("a_wrk_cpu", 0.8),
            ("a_lean_wrk", 0.4),
            ("a_lean_wrk_cpu", 0.4),
            ("b_wrk", 0.4),
            ("b_wrk_cpu", 0.4),
            ("b_lean_wrk", 0.2),
            ("b_lean_wrk_cpu", 0.2),
            ("c_wrk", 0.2),
            ("c_wrk_cpu", 0.2),
            ("c_lean_wrk", 0.1),
            ("c_lean_wrk_cpu", 0.1),
            ("d_wrk", 0.1),
            ("d_wrk_cpu", 0.1),
            ("d_lean_wrk", 0.05),
            ("d_lean_wrk_cpu", 0.05),
            ("uncached_to_pocketbase_wrk", 2.0),
        ];
        assert_eq!(ratios, wanted.map(|(key, ratio)| (key.to_owned(), ratio)));
    }
}
