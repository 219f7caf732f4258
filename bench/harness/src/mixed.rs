//! `harness mixed`: reads and writes at once, with the list cache and without.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use measure::live::LiveServer;
use serde_json::json;

use crate::catalog;
use crate::clients::{self, Answers, Observed};
use crate::database::{LentDatabase, LentDatabaseArgs};
use crate::figure::{Figure, Goal, Round, Slice, points};
use crate::run::{Run, RunArgs};
use crate::surroundings::ServerSite;
use crate::trace::{Drawing, Part};
use crate::workload::{self, Mixed};

/// Measure reads and writes at once, with the list cache and without
///
/// Does the trace of bench/workloads/mixed.toml, 90 reads to 10 writes and 50 to 50, against a
/// server with its defaults and one with `--list-cache=off`, and compares hits with those of an
/// ideal cache.
#[derive(clap::Args)]
#[command(after_help = "Example:
  cargo build --release -p tidemark
  cargo run --release -p harness -- mixed --quick")]
pub struct Arguments {
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    database: LentDatabaseArgs,
    /// Requests of each client in a slice [default: 1500, with --quick 100]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    requests: Option<u32>,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    rounds: u32,
    requests: u32,
    /// Fewer hits that fresh reads have confirmed prove nothing.
    confirmed_min: f64,
}

const FULL: Sizes = Sizes {
    rounds: 3,
    requests: 1_500,
    confirmed_min: 1_000.0,
};
const QUICK: Sizes = Sizes {
    rounds: 1,
    requests: 100,
    confirmed_min: 1.0,
};
const OFF: &str = "--list-cache=off";
/// One of so many hits is compared with a fresh read.
const AUDIT_HITS: &str = "--audit-hits=8";

/// A share of reads, and what is held against the targets there.
#[derive(Clone, Copy, Debug)]
struct Mix {
    read_percent: u32,
    /// Requests a second, to those without the cache.
    rate: Goal,
    /// Processor time of the server per list, to that without the cache.
    cpu: Goal,
    /// Hits, to those of an ideal cache.
    hits: Goal,
}

const MIXES: [Mix; 2] = [
    Mix {
        read_percent: 90,
        rate: Goal::Reported,
        cpu: Goal::AtMost(0.1),
        hits: Goal::AtLeast(0.95),
    },
    Mix {
        read_percent: 50,
        rate: Goal::AtLeast(0.95),
        cpu: Goal::Reported,
        hits: Goal::Reported,
    },
];

/// # Errors
/// When the stage cannot be set, or the report not be written.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let workload = workload::mixed()?;
    let mut sizes = arguments.run.sizes(FULL, QUICK, |sizes| &mut sizes.rounds);
    sizes.requests = arguments.requests.unwrap_or(sizes.requests);
    let own = vec![
        ("workload", json!("bench/workloads/mixed.toml")),
        ("seed", json!(workload.seed)),
        ("rows", json!(workload.rows)),
        ("lists", json!(workload.lists.len())),
        ("zipf_exponent", json!(workload.zipf_exponent)),
        ("connections", json!(workload.connections)),
        ("durability", json!(workload.durability)),
        ("requests_of_each", json!(sizes.requests)),
        ("rounds", json!(sizes.rounds)),
    ];
    let mut run = Run::begin("mixed", &arguments.run, own)?;
    let database = arguments.database.open(&mut run)?;
    let seeded = catalog::seeded(&run.binary, &run.scratch, workload.rows, &workload.indexes)?;
    let places = [
        Some(MixedPlace::Directory(&seeded)),
        database.as_ref().map(MixedPlace::Database),
    ];
    for home in places.into_iter().flatten() {
        let stage = Stage {
            workload: &workload,
            drawing: Drawing::new(&workload),
            home,
            sizes,
        };
        for mix in MIXES {
            run.take(&home.title(&mix.title()), |run| stage.measure(run, mix));
        }
        run.take(&home.title("hit audit"), |run| stage.audit_hits(run));
    }
    run.finish()
}

/// Where the servers of a stage keep their stores.
#[derive(Clone, Copy)]
enum MixedPlace<'a> {
    /// In copies of this data directory.
    Directory(&'a Path),
    /// In schemas of their own.
    Database(&'a LentDatabase),
}

impl MixedPlace<'_> {
    fn key(self, key: &str) -> String {
        match self {
            MixedPlace::Directory(_) => key.to_owned(),
            MixedPlace::Database(_) => format!("{key}_postgres"),
        }
    }

    fn title(self, title: &str) -> String {
        match self {
            MixedPlace::Directory(_) => title.to_owned(),
            MixedPlace::Database(_) => format!("on PostgreSQL, {title}"),
        }
    }
}

struct Stage<'a> {
    workload: &'a Mixed,
    drawing: Drawing<'a>,
    home: MixedPlace<'a>,
    sizes: Sizes,
}

/// A server and the answers that it gave.
struct Served {
    server: LiveServer,
    answers: Answers,
}

/// One round. Both servers do both halves, so that they hold the same rows after it.
#[derive(Clone, Debug)]
struct Turn {
    first: Observed,
    /// Both halves without the cache.
    off: Observed,
    second: Observed,
}

impl Stage<'_> {
    fn measure(&self, run: &Run, mix: Mix) -> Result<Vec<Figure>> {
        let mut on = self.serve(run, "on", &[])?;
        let mut off = self.serve(run, "off", &[OFF])?;
        let mut turns = Vec::new();
        for round in 0..self.sizes.rounds {
            let first = self.part(&mut on, mix, 2 * round)?;
            let without = self.part(&mut off, mix, 2 * round)?;
            let without = without.and(&self.part(&mut off, mix, 2 * round + 1)?);
            let second = self.part(&mut on, mix, 2 * round + 1)?;
            turns.push(Turn {
                first,
                off: without,
                second,
            });
        }
        on.server.stop()?;
        off.server.stop()?;
        Ok(mix.figures(self.home, &turns))
    }

    /// Both mixes once more, on one server that compares hits with fresh reads.
    fn audit_hits(&self, run: &Run) -> Result<Vec<Figure>> {
        let mut served = self.serve(run, "audit", &[AUDIT_HITS])?;
        for number in 0..2 * self.sizes.rounds {
            self.part(&mut served, MIXES[number as usize % MIXES.len()], number)?;
        }
        let log = served.server.stop_and_tell()?;
        let [same, different, overtaken, dropped] =
            compared(&log).context("nothing was compared")?;
        let confirmed_min = self.sizes.confirmed_min;
        ensure!(
            same >= confirmed_min,
            "{same} hits were confirmed, {overtaken} overtaken and {dropped} not compared; fewer \
             than {confirmed_min} prove nothing"
        );
        let none = Goal::AtMost(0.0);
        let counts = [
            (
                "different",
                "hits that a fresh read contradicts",
                none,
                different,
            ),
            (
                "same",
                "hits that a fresh read confirms",
                Goal::Reported,
                same,
            ),
            (
                "overtaken",
                "hits altered before the read was over",
                Goal::Reported,
                overtaken,
            ),
            (
                "dropped",
                "hits not compared, because others were",
                Goal::Reported,
                dropped,
            ),
        ];
        let figures = counts.map(|(key, title, goal, value)| {
            let key = self.home.key(&format!("audit_{key}"));
            let title = self.home.title(&format!("hit audit: {title}"));
            Figure::plain(key, title, "hits", goal, vec![value])
        });
        Ok(figures.into())
    }

    /// A server on a copy of the catalog that has answered each list once.
    fn serve(&self, run: &Run, name: &str, settings: &[&str]) -> Result<Served> {
        let site = match self.home {
            MixedPlace::Directory(seeded) => ServerSite::from(run.scratch.copy(seeded, name)?),
            MixedPlace::Database(database) => {
                let site = database.site(&run.scratch, name);
                let Mixed { rows, indexes, .. } = self.workload;
                catalog::furnish(&run.binary, &site, *rows, indexes)?;
                site
            }
        };
        let durability = format!("--durability={}", self.workload.durability);
        let settings = [&[durability.as_str()], settings].concat();
        let server = site.serve(&run.binary, &settings)?;
        let mut answers = Answers::default();
        clients::warm(&server.access, self.workload, &mut answers)?;
        Ok(Served { server, answers })
    }

    fn part(&self, served: &mut Served, mix: Mix, number: u32) -> Result<Observed> {
        let part = Part {
            number,
            read_percent: mix.read_percent,
            length: self.sizes.requests,
        };
        let Served { server, answers } = served;
        clients::run(server, self.workload, &self.drawing, part, answers)
    }
}

impl Mix {
    fn title(self) -> String {
        let Mix { read_percent, .. } = self;
        format!("{read_percent} reads to {} writes", 100 - read_percent)
    }

    fn figures(self, home: MixedPlace<'_>, turns: &[Turn]) -> Vec<Figure> {
        let figure = |(key, title, unit): (&str, &str, _), goal, floor, rounds| Figure {
            key: home.key(&format!("mixed_{}_{key}", self.read_percent)),
            title: home.title(&format!("{}: {title}", self.title())),
            unit,
            goal,
            floor,
            rounds,
        };
        let beside = |named, goal, value: fn(&Observed) -> f64| {
            let rounds = turns.iter().map(|turn| turn.beside(value));
            figure(named, goal, "without the list cache", rounds.collect())
        };
        let ideal = |named, goal, same, new| {
            let rounds = turns.iter().map(|turn| turn.beside_ideal(new));
            figure(named, goal, same, rounds.collect())
        };
        let (reported, bodies, rows) = (
            Goal::Reported,
            "an ideal cache, same answers",
            "an ideal cache, same rows",
        );
        let reads = "the same without the writer's thread";
        let writer = "CPU of the writer's thread per write";
        let counting = "the same, totals kept by counting";
        let backends = ("cpu_backends", "CPU of PostgreSQL per request", "µs");
        let backends = turns[0]
            .has_backends()
            .then(|| beside(backends, reported, cpu_of_backends));
        let own = vec![
            beside(
                ("rate", "requests", "requests/s"),
                self.rate,
                Observed::per_s,
            ),
            beside(("cpu", "CPU of the server per list", "µs"), self.cpu, cpu),
            beside(("cpu_reads", reads, "µs"), reported, cpu_of_reads),
            beside(("cpu_writer", writer, "µs"), reported, cpu_of_writer),
            ideal(("hits", "hits of lists", "%"), self.hits, bodies, |seen| {
                seen.new_answers
            }),
            ideal(("hits_rows", counting, "%"), reported, rows, |seen| {
                seen.new_rows
            }),
        ];
        own.into_iter().chain(backends).collect()
    }
}

/// The counts of the last line of a log that tells of comparisons: same, different, overtaken,
/// dropped.
fn compared(log: &str) -> Option<[f64; 4]> {
    let reports = |line: &&str| line.contains("compared cached lists with fresh reads");
    let line = log.lines().rfind(reports)?;
    let count = |name: &str| {
        let mut words = line.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    Some([
        count("same")?,
        count("different")?,
        count("overtaken")?,
        count("dropped")?,
    ])
}

fn cpu(seen: &Observed) -> f64 {
    seen.cpu_us / seen.reads
}

fn cpu_of_reads(seen: &Observed) -> f64 {
    (seen.cpu_us - seen.writer_us) / seen.reads
}

fn cpu_of_writer(seen: &Observed) -> f64 {
    seen.writer_us / seen.writes
}

fn cpu_of_backends(seen: &Observed) -> f64 {
    seen.backends_us / (seen.reads + seen.writes)
}

fn percent(part: f64, of: f64) -> f64 {
    100.0 * part / of
}

impl Turn {
    /// Whether the processor time of a database was counted.
    fn has_backends(&self) -> bool {
        self.off.backends_us > 0.0
    }

    fn beside(&self, value: fn(&Observed) -> f64) -> Round {
        let slice = |seen: &Observed| Slice::noted(value(seen), notes(seen));
        Round::of(slice(&self.first), slice(&self.off), slice(&self.second))
    }

    /// Hits of the server with the cache, to those that its own answers allow: of what was `new`
    /// each must be computed once, and nothing else.
    fn beside_ideal(&self, new: fn(&Observed) -> f64) -> Round {
        let slice = |value| Slice::of(value);
        let both = self.first.clone().and(&self.second);
        let hits = |seen: &Observed| slice(percent(seen.hits, seen.reads));
        Round::of(
            hits(&self.first),
            slice(percent(both.reads - new(&both), both.reads)),
            hits(&self.second),
        )
    }
}

/// What a reader of the report wants to see beside each value.
fn notes(seen: &Observed) -> Vec<(&'static str, f64)> {
    let mut notes = vec![
        ("hits %", percent(seen.hits, seen.reads)),
        ("new answers %", percent(seen.new_answers, seen.reads)),
    ];
    let names = [
        ["read p50 µs", "read p99 µs"],
        ["write p50 µs", "write p99 µs"],
    ];
    for (samples, names) in [&seen.reads_ns, &seen.writes_ns].into_iter().zip(names) {
        let points = points(samples);
        let wanted = [0, 2].map(|at| points.get(at).map_or(f64::NAN, |(_, us)| *us));
        notes.extend(names.into_iter().zip(wanted));
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn seen(hits: f64, new_answers: f64, cpu_us: f64) -> Observed {
        Observed {
            lasted: Duration::from_secs(1),
            reads: 90.0,
            writes: 10.0,
            hits,
            new_answers,
            new_rows: new_answers / 2.0,
            cpu_us,
            backends_us: 0.0,
            writer_us: 900.0,
            reads_ns: vec![1_000],
            writes_ns: vec![2_000],
        }
    }

    #[test]
    fn comparisons_are_read_from_the_log() {
        let log = "INFO listening\nINFO compared cached lists with fresh reads same=12 \
                   different=0 overtaken=3 dropped=7\nINFO stopped\n";
        assert_eq!(compared(log), Some([12.0, 0.0, 3.0, 7.0]));
        assert_eq!(compared("INFO stopped\n"), None);
    }

    #[test]
    fn a_turn_is_judged_by_the_server_without_the_cache_and_by_the_ideal_one() {
        let without = seen(0.0, 9.0, 18_000.0).and(&seen(0.0, 9.0, 18_000.0));
        let turn = Turn {
            first: seen(81.0, 0.0, 5_400.0),
            off: without,
            second: seen(72.0, 18.0, 6_300.0),
        };
        let figures = MIXES[0].figures(MixedPlace::Directory(Path::new("d")), &[turn]);
        let ratios: Vec<String> = figures
            .iter()
            .map(|figure| format!("{:.3}", figure.ratio().unwrap().median))
            .collect();
        // Rate; 60 and 70 to 200 µs a list; 50 and 60 to 190; 90 to 90; 85 of 90 %; of 95 %.
        assert_eq!(
            ratios,
            ["1.000", "0.325", "0.289", "1.000", "0.944", "0.895"]
        );
        let met: Vec<Option<bool>> = figures.iter().map(Figure::is_met).collect();
        assert_eq!(met, [None, Some(false), None, None, Some(false), None]);
        assert_eq!(figures[4].key, "mixed_90_hits");
    }
}
