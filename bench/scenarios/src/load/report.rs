//! The load test's report in Markdown, and its run for the page.

use anyhow::{Context, Result};
use measure::machine::{self, Machine};
use measure::markdown::{or_dash, table};
use measure::percentile::{Sorted, median};
use model::calendar::iso_ms;
use serde_json::json;

use super::figure::Figure;
use super::measured::{Blend, Cell, Measured, Paced};
use super::{Act, BODIES, BUNCH, CONNECTIONS, Options, PACE_MAX, ROWS};
use crate::published;
use crate::report_head::{Pairs, ReportHead, mode};
use crate::run::{
    Columns, Counting, Group, Role, Row, Run, Sample, Series, Source, Timeline, milli,
};

const TITLE: &str = "Load test";
const METHOD: &str = "\
     The published load test in a fixed form: one row is added, one row of 10,000 is read, 25 \
     rows are fetched. Everything is measured in several passes, so that each figure is taken \
     again minutes later: a machine that others share is faster or slower for minutes. Each pass \
     of a figure is a slice of the server and one, half as long, of a static responder, which \
     answers with the same bytes on the same cores. Rates and percentiles are those of all \
     passes; A/A is the rate of the fastest pass to that of the slowest. The server begins every \
     column of every pass on a fresh copy of one seeded data directory. The load generator is \
     oha; every sample is one of its requests, and percentiles are by nearest rank of all. Each \
     connection sends its next request when the last is answered (a closed loop): while an answer \
     is slow, the requests that would have waited behind it are never sent and do not count \
     (coordinated omission). The series “paced” avoids that: requests are due at a fixed rate, \
     and each latency begins when its request was due. The rate is the same in every pass and \
     every run (1,000 a second of adding, 500 of fetching not from the cache, 5,000 of reading \
     and of fetching), halved as often as it is more than half of what the server has answered in \
     the first pass. CPU and memory are those of the server with all processes that it has \
     started. The server is bound to its cores; the generator has the others, or shares \
     them where there are none, which makes every rate a lower bound. Lists and changes at once \
     are sent by as many clients, each a thread of this program: in each pass a slice with the cache, one without and one of \
     the responder, each server on a fresh copy.";
/// The published test has none of these.
const NOTE: &str = "\
     Price is the month's price over the sum of the rates, as the published test reckons it; with \
     functions left empty only the sum of the first three columns compares. Ours are rates at the \
     connections that the row names, in a closed loop; those of the published test are not stated. \
     Fetching is ours from the exact list cache. Another machine, and hardware of 2023";

/// A finished run.
pub struct Report<'a> {
    /// What was asked for.
    pub options: &'a Options,
    /// The load generator, as it names itself.
    pub oha: &'a str,
    /// What was measured.
    pub measured: &'a Measured,
}

impl Report<'_> {
    /// The run as page and programs read it.
    ///
    /// # Errors
    /// When a series has no samples.
    pub fn run(&self) -> Result<Run> {
        Ok(Run {
            prices: Some(self.options.prices.clone()),
            columns: Some(self.columns()),
            ..self.head().run(Vec::new(), self.groups()?)
        })
    }

    fn head(&self) -> ReportHead {
        ReportHead {
            kind: "load",
            title: TITLE,
            lead: self.lead(),
            method: METHOD,
            started: iso_ms(self.options.started),
            machine: machine::facts(),
            parameters: self.parameters(),
        }
    }

    /// The report; page and samples stand beside it.
    pub fn render(&self) -> String {
        let rest = format!(
            "## Beside the published test\n\n{}\n{NOTE}: {}.\n\n## At a fixed rate\n\n{}",
            self.columns_table(),
            published::LOAD_IN,
            self.paced(),
        );
        let summary = format!("{}\n", self.summary());
        self.head().markdown(Vec::new(), &summary, &rest)
    }

    /// The tables of figures and of mixes.
    pub fn summary(&self) -> String {
        let head = "request|cores|connections|requests/s|A/A|floor/s|to floor|p50 µs|p90 µs|p99 µs\
                    |p99.9 µs|errors|CPU µs|memory MiB|wrk/s";
        let rows = self.measured.cells.iter().filter_map(|cell| {
            let (ours, floor) = (&cell.ours.whole, &cell.floor.whole);
            let mut row = vec![
                cell.act.title().to_owned(),
                cell.cores.to_string(),
                cell.connections.to_string(),
                whole(ours.per_s()),
                or_dash(cell.ours.again(), 2),
                whole(floor.per_s()),
                hundredths(ours.per_s() / floor.per_s()),
            ];
            row.extend(points(&ours.samples)?.map(whole));
            row.push(ours.errors.to_string());
            row.push(or_dash(ours.cpu_each(), 1));
            row.push(or_dash(ours.memory_mib, 0));
            row.push(or_dash(median(cell.opinions.iter().copied()), 0));
            Some(row)
        });
        let figures = table(head, rows.collect());
        let others = self.others();
        let head = "lists to changes|server|requests/s|A/A|from the cache|p50 µs|p90 µs|p99 µs\
                    |p99.9 µs|errors|CPU µs|memory MiB";
        let rows = self.measured.blends.iter().flat_map(blend_rows);
        format!("{figures}\n{others}{}", table(head, rows.collect()))
    }

    /// Nothing where the run had no other systems. They are taken to have no cache, so ours is what
    /// does not come from one.
    fn others(&self) -> String {
        if self.options.beside.is_empty() {
            return String::new();
        }
        let rows = self.measured.cells.iter().flat_map(|cell| {
            let pairs = cell.beside.iter().zip(&self.options.beside);
            let ours = self.uncached(cell);
            pairs.filter_map(move |(figure, (name, _))| {
                let theirs = &figure.whole;
                let mut row = vec![name.clone(), cell.cores.to_string()];
                row.push(cell.connections.to_string());
                row.push(whole(theirs.per_s()));
                row.push(or_dash(figure.again(), 2));
                row.push(hundredths(ours?.ours.whole.per_s() / theirs.per_s()));
                row.extend(points(&theirs.samples)?.map(whole));
                row.push(theirs.errors.to_string());
                Some(row)
            })
        });
        let head = "beside, fetching 25|our cores|connections|requests/s|A/A\
                    |ours, not cached, to theirs|p50 µs|p90 µs|p99 µs|p99.9 µs|errors";
        format!("{}\n", table(head, rows.collect()))
    }

    fn lead(&self) -> String {
        let machine = Machine::here();
        let mode = mode(self.options.is_quick);
        format!(
            "Rows added, read and fetched; connections: {}; {} cores of {}{mode}.",
            list(&self.options.connections),
            machine.cores,
            machine.cpu
        )
    }

    fn parameters(&self) -> Pairs {
        let Options {
            connections,
            cores,
            passes,
            warmup,
            duration,
            is_quick,
            binary,
            ..
        } = self.options;
        let mut pairs = vec![
            ("mode", json!(if *is_quick { "quick" } else { "full" })),
            ("binary", json!(machine::binary())),
            ("generator", json!(self.oha)),
            ("rows", json!(ROWS)),
            ("bodies_added", json!(BODIES)),
            ("rows_fetched", json!(BUNCH)),
            ("connections", json!(list(connections))),
            ("cores_of_the_server", json!(list(cores))),
            ("passes", json!(passes)),
            ("warmup_s", json!(warmup.as_secs_f64())),
            ("duration_s", json!(duration.as_secs_f64())),
            ("paced_at_most", json!(PACE_MAX)),
            ("durability", json!("full")),
            ("index", json!(true)),
        ];
        pairs.extend(machine::identity(binary));
        pairs
    }

    /// Groups, those at the connections of the table on the most cores first.
    fn groups(&self) -> Result<Vec<Group>> {
        let cells = &self.measured.cells;
        let shown = cells.iter().filter(|cell| cell.act != Act::FetchUncached);
        let mut shown: Vec<&Cell> = shown.collect();
        shown.sort_by_key(|cell| (cell.connections != CONNECTIONS, usize::MAX - cell.cores));
        let mut groups = Vec::new();
        for cell in shown {
            groups.push(self.group(cell, self.uncached(cell))?);
        }
        for blend in &self.measured.blends {
            groups.push(blend_group(blend)?);
        }
        Ok(groups)
    }

    /// The lists of the same cores and connections that did not come from the cache.
    fn uncached(&self, cell: &Cell) -> Option<&Cell> {
        let mut cells = self.measured.cells.iter();
        cells.find(|other| {
            let same = (other.cores, other.connections) == (cell.cores, cell.connections);
            cell.act == Act::Fetch && other.act == Act::FetchUncached && same
        })
    }

    fn group(&self, cell: &Cell, uncached: Option<&Cell>) -> Result<Group> {
        let series =
            |named: (&str, &str, Role), figure: &Figure| series(named, cell.connections, figure);
        let mut all = vec![series(("tidemark", "Tidemark", Role::Subject), &cell.ours)?];
        if let Some(uncached) = uncached {
            let named = ("uncached", "Tidemark, not from the cache", Role::Reference);
            all.push(series(named, &uncached.ours)?);
        }
        all.push(series(("floor", "static floor", Role::Floor), &cell.floor)?);
        for ((idx, figure), (name, _)) in cell.beside.iter().enumerate().zip(&self.options.beside) {
            let key = format!("beside_{idx}");
            all.push(series((&key, name, Role::Other), figure)?);
        }
        if let Some(paced) = &cell.paced {
            let Paced { per_s, ours, floor } = paced;
            for (named, figure) in [
                (("paced", "Tidemark, paced", Role::Other), ours),
                (("paced_floor", "static floor, paced", Role::Floor), floor),
            ] {
                let mut series = series(named, figure)?;
                series.asked_per_s = Some(*per_s);
                all.push(series);
            }
        }
        let (act, cores, connections) = (cell.act, cell.cores, cell.connections);
        let plural = |count: u32| if count == 1 { "" } else { "s" };
        Ok(Group {
            key: format!("{}_{connections}_{cores}", act.key()),
            title: format!(
                "{}, {connections} connection{}, {cores} core{}",
                act.title(),
                plural(connections),
                plural(cores as u32)
            ),
            connections,
            cores: Some(cores as u32),
            series: all,
        })
    }

    /// One row for each number of cores and connections, then the published ones.
    fn columns(&self) -> Columns {
        let cells = &self.measured.cells;
        let mut rows = Vec::new();
        for cores in &self.options.cores {
            for connections in &self.options.connections {
                let rate = |act: Act| {
                    let cell = cells.iter().find(|cell| {
                        (cell.act, cell.cores, cell.connections) == (act, *cores, *connections)
                    });
                    cell.map(|cell| milli(cell.ours.whole.per_s()))
                };
                let servers = &self.options.prices.servers;
                let server = servers.iter().find(|one| one.cores as usize == *cores);
                let plural = |count: usize| if count == 1 { "" } else { "s" };
                rows.push(Row {
                    name: format!(
                        "Tidemark, {cores} core{}, {connections} connection{}",
                        plural(*cores),
                        plural(*connections as usize)
                    ),
                    source: Source::Measured,
                    rates: vec![
                        rate(Act::Add),
                        rate(Act::Read),
                        rate(Act::Fetch),
                        None,
                        None,
                    ],
                    monthly: server.map(|server| server.monthly),
                    currency: server.map(|server| server.currency.clone()),
                });
            }
        }
        rows.extend(published::load());
        Columns {
            titles: published::COLUMNS.map(str::to_owned).to_vec(),
            shared: vec![0, 1, 2],
            rows,
            note: format!("{NOTE}: {}.", published::LOAD_IN),
        }
    }

    fn columns_table(&self) -> String {
        let rows = self.columns().rows.into_iter().map(|row| {
            let rates = row.rates.iter();
            let mut cells = vec![row.name.clone()];
            cells.extend(rates.map(|rate| or_dash(*rate, 0)));
            cells.push(or_dash(row.monthly, 2));
            let price = |taken: &[Option<f64>]| {
                let sum: Option<f64> = taken.iter().copied().sum();
                or_dash(row.monthly.zip(sum).map(|(month, sum)| month / sum), 6)
            };
            cells.push(price(&row.rates));
            cells.push(price(&row.rates[..3]));
            cells
        });
        let head = "requests/s|Adding|Reading|Fetching|E1|E2|EUR a month\
                    |EUR per request/s, all five|EUR per request/s, first three";
        table(head, rows.collect())
    }

    fn paced(&self) -> String {
        let rows = self.measured.cells.iter().flat_map(|cell| {
            let figures = cell.paced.iter().flat_map(|paced| {
                let Paced { per_s, ours, floor } = paced;
                [("Tidemark", per_s, ours), ("static floor", per_s, floor)]
            });
            figures.filter_map(|(name, per_s, figure)| {
                let share = &figure.whole;
                let mut row = vec![
                    cell.act.title().to_owned(),
                    cell.cores.to_string(),
                    name.to_owned(),
                    whole(*per_s),
                    whole(share.per_s()),
                ];
                row.extend(points(&share.samples)?.map(whole));
                row.push(share.errors.to_string());
                Some(row)
            })
        });
        let head = "request|cores|server|wanted/s|answered/s|p50 µs|p90 µs|p99 µs|p99.9 µs|errors";
        table(head, rows.collect())
    }
}

fn list<T: ToString>(numbers: &[T]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    numbers.join(", ")
}

fn whole(number: f64) -> String {
    format!("{number:.0}")
}

fn hundredths(number: f64) -> String {
    format!("{number:.2}")
}

/// p50, p90, p99 and p99.9 in microseconds.
fn points(samples: &[Sample]) -> Option<[f64; 4]> {
    let sorted = Sorted::new(samples.iter().map(|sample| sample.took))?;
    Some([500, 900, 990, 999].map(|at| sorted.at(at).as_secs_f64() * 1e6))
}

/// The servers of a blend, named for programs and for people.
fn blended(blend: &Blend) -> [((&'static str, &'static str, Role), &Figure); 3] {
    let off = "Tidemark, list cache off";
    [
        (("tidemark", "Tidemark", Role::Subject), &blend.on),
        (("uncached", off, Role::Reference), &blend.off),
        (("floor", "static floor", Role::Floor), &blend.floor),
    ]
}

/// The responder has no cache: of it none is reported.
fn hits_percent(role: Role, figure: &Figure) -> Option<f64> {
    let hits = figure.whole.hits_percent();
    hits.filter(|_| role != Role::Floor)
}

/// A line for each server of a blend.
fn blend_rows(blend: &Blend) -> Vec<Vec<String>> {
    let rows = blended(blend)
        .into_iter()
        .filter_map(|((_, title, role), figure)| {
            let share = &figure.whole;
            let mut row = vec![
                format!("{} to {}", blend.reads_percent, 100 - blend.reads_percent),
                title.to_owned(),
                whole(share.per_s()),
                or_dash(figure.again(), 2),
                hits_percent(role, figure).map_or("–".to_owned(), |hits| format!("{hits:.1} %")),
            ];
            row.extend(points(&share.samples)?.map(whole));
            row.push(share.errors.to_string());
            row.push(or_dash(share.cpu_each(), 1));
            row.push(or_dash(share.memory_mib, 0));
            Some(row)
        });
    rows.collect()
}

/// A series of load without pauses, with as many samples as a page of many series bears.
fn series(named: (&str, &str, Role), connections: u32, figure: &Figure) -> Result<Series> {
    let (share, again) = (&figure.whole, figure.again());
    let samples = &share.samples;
    let series = Series::one_of_many(named, connections, share.wall, samples, again);
    let series = series.with_context(|| format!("{}: no samples", named.1))?;
    Ok(Series {
        timeline: Timeline::of(samples, Counting::OverTime),
        passes: figure.passes.clone(),
        errors: Some(share.errors),
        cpu_us: share.cpu_each().map(milli),
        memory_mib: share.memory_mib.map(milli),
        ..series
    })
}

fn blend_group(blend: &Blend) -> Result<Group> {
    let of = |(named, figure): ((_, _, Role), &Figure)| {
        let mut series = series(named, CONNECTIONS, figure)?;
        series.hits_percent = hits_percent(named.2, figure).map(milli);
        anyhow::Ok(series)
    };
    let all: Result<Vec<Series>> = blended(blend).into_iter().map(of).collect();
    let reads = blend.reads_percent;
    Ok(Group {
        key: format!("mixed_{reads}"),
        title: format!(
            "{reads} lists to {} changes, {CONNECTIONS} connections",
            100 - reads
        ),
        connections: CONNECTIONS,
        cores: None,
        series: all?,
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use std::time::Duration;

    use super::super::figure::Share;
    use super::*;
    use crate::prices;
    use measure::early_end::EarlyEnd;
    use model::Timestamp;

    /// Two passes, the second `again` times as fast as the first; most requests take `took_us`.
    fn figure(count: u64, took_us: u64, again: f64) -> Figure {
        let sample = |n| Sample {
            ended: Duration::from_micros((n + 1) * took_us),
            took: Duration::from_micros(took_us + n % 7),
        };
        let samples: Vec<Sample> = (0..count).map(sample).collect();
        let wall = samples.last().unwrap().ended;
        let mut figure = Figure::default();
        for wall in [wall, wall.div_f64(again)] {
            figure.add(Share {
                samples: samples.clone(),
                wall,
                cpu_us: Some((count * 20) as f64),
                memory_mib: Some(64.0),
                ..Share::default()
            });
        }
        figure
    }

    fn cell(act: Act, cores: usize, connections: u32) -> Cell {
        Cell {
            act,
            cores,
            connections,
            ours: match act {
                Act::FetchUncached => figure(10_000, 200, 1.25),
                _ => figure(10_000, 100, 1.25),
            },
            floor: figure(5_000, 50, 1.0),
            beside: match act {
                Act::Fetch => vec![figure(1_000, 400, 1.0)],
                _ => Vec::new(),
            },
            paced: (connections == CONNECTIONS).then(|| Paced {
                per_s: 7_000.0,
                ours: figure(4_000, 140, 1.0),
                floor: figure(2_000, 130, 1.0),
            }),
            opinions: Vec::new(),
        }
    }

    fn mixed(hits: [u64; 2]) -> Figure {
        let mut figure = Figure::default();
        for hits in hits {
            figure.add(Share {
                lists: 900,
                hits,
                cpu_us: Some(60_000.0),
                memory_mib: Some(70.0),
                ..self::figure(500, 500, 1.0).whole
            });
        }
        figure
    }

    fn measured() -> Measured {
        let mut cells = Vec::new();
        for cores in [1, 2] {
            for act in Act::ALL {
                cells.extend([1, 32].map(|connections| cell(act, cores, connections)));
            }
        }
        Measured {
            cells,
            blends: vec![Blend {
                reads_percent: 90,
                on: mixed([810, 720]),
                off: mixed([0, 0]),
                floor: mixed([0, 0]),
            }],
        }
    }

    fn options() -> Options {
        Options {
            binary: PathBuf::new(),
            oha: PathBuf::new(),
            connections: vec![1, 32],
            cores: vec![1, 2],
            passes: 2,
            warmup: Duration::ZERO,
            duration: Duration::from_secs(1),
            is_quick: true,
            prices: prices::read(None).unwrap(),
            beside: vec![("Rival".to_owned(), "http://127.0.0.1:9/list".to_owned())],
            scratch: PathBuf::new(),
            out: PathBuf::new(),
            started: Timestamp(0),
            stop: EarlyEnd::default(),
        }
    }

    #[test]
    fn figures_stand_beside_the_floor_and_the_published_test() {
        let (options, measured) = (options(), measured());
        let report = Report {
            options: &options,
            oha: "oha 1",
            measured: &measured,
        };
        let text = report.render();
        for part in [
            "| read one row | 2 | 32 | 11111 | 1.25 | 20000 | 0.56 | 103 | 106 | 106 | 106 | 0 | 20.0 | 64 | – |\n",
            "| Rival | 2 | 32 | 2500 | 1.00 | 2.22 | 403 |",
            "| 90 to 10 | Tidemark | 2000 | 1.00 | 85.0 % | 503 | 506 | 506 | 506 | 0 | 60.0 | 70 |\n",
            "| 90 to 10 | Tidemark, list cache off | 2000 | 1.00 | 0.0 % | 503 |",
            "| 90 to 10 | static floor | 2000 | 1.00 | – | 503 |",
            "| Tidemark, 2 cores, 32 connections | 11111 | 11111 | 11111 | – | – | 3.85 | – | 0.000116 |\n",
            "| Tidemark, 1 core, 1 connection | 11111 | 11111 | 11111 | – | – | – | – | – |\n",
            "| published, 2 cores / 2 GB | 170 | 427 | 241 | 106 | 80 | 3.85 | 0.003760 | 0.004594 |\n",
            "| read one row | 1 | Tidemark | 7000 | 7143 |",
            "| read one row | 1 | static floor | 7000 | 7692 |",
            "\ngenerator: \"oha 1\"\n",
        ] {
            assert!(text.contains(part), "{part}\n--- is not in\n{text}");
        }
    }

    #[test]
    fn the_page_begins_with_the_row_of_the_table_and_holds_every_figure() {
        let (options, measured) = (options(), measured());
        let report = Report {
            options: &options,
            oha: "oha 1",
            measured: &measured,
        };
        let run = report.run().unwrap();
        let keys: Vec<&str> = run.groups.iter().map(|group| group.key.as_str()).collect();
        let wanted = [
            "add_32_2",
            "read_32_2",
            "fetch_32_2",
            "add_32_1",
            "read_32_1",
            "fetch_32_1",
            "add_1_2",
            "read_1_2",
            "fetch_1_2",
            "add_1_1",
            "read_1_1",
            "fetch_1_1",
            "mixed_90",
        ];
        assert_eq!(keys, wanted);
        let keys = |group: &Group| -> Vec<String> {
            group
                .series
                .iter()
                .map(|series| series.key.clone())
                .collect()
        };
        assert_eq!(
            keys(&run.groups[2]),
            [
                "tidemark",
                "uncached",
                "floor",
                "beside_0",
                "paced",
                "paced_floor"
            ]
        );
        let json = serde_json::to_string(&run).unwrap();
        assert!(json.len() < 900_000, "{} bytes", json.len());
    }
}
