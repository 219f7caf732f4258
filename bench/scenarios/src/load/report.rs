//! The load test's report in Markdown, and its run for the page.

use anyhow::{Context, Result};
use measure::machine::{self, Machine};
use measure::markdown::{hundredths, or_dash, table, whole};
use measure::percentile::median;
use model::calendar::iso_ms;
use serde_json::json;

use super::columns::{self, columns};
use super::executions;
use super::figure::Figure;
use super::load_function::LoadFunction;
use super::measured::{Blend, Cell, ColumnKey, Measured, MeasuredStore, Paced};
use super::request_kind::{PACE_MAX, RequestKind};
use super::rows::{BODIES, BUNCH, ROWS};
use super::separated;
use super::{CONNECTIONS, Options};
use crate::report_head::{Pairs, ReportHead, mode};
use crate::run::{Counting, Group, Role, Run, Series, Table, Timeline, milli};

const TITLE: &str = "Load test";
const METHOD: &str = "\
     The published load test in a fixed form: one row is added, one row of 10,000 is read, 25 \
     rows are fetched, a function that returns JSON is executed, and one that fetches 25 rows by \
     the API. Everything is measured in several passes, so that each figure is taken again \
     minutes later: a machine that others share is faster or slower for minutes. Each pass of a \
     figure is a slice of the server and one, half as long, of a static responder, which answers \
     with the same bytes on the same cores, and of reads one of a lean responder: the same body \
     with a short head. Of functions it is one of a process of node:http that calls the same \
     handler. Rates and percentiles are those of all passes; A/A is the rate of the \
     fastest pass to that of the slowest. The server begins every column of every pass on a \
     fresh copy of one seeded data directory; with its store in PostgreSQL only adding does. \
     The load generator is oha; every sample is one of its requests, and percentiles are by \
     nearest rank of all. Each connection sends its next request when the last is answered (a \
     closed loop): while an answer is slow, the requests \
     that would have waited behind it are never sent and do not count (coordinated omission). \
     The series “paced” avoids that: requests are due at a fixed rate, and each latency begins \
     when its request was due. The rate is the same in every pass and every run (1,000 a second \
     of adding, 500 of fetching not from the cache, 5,000 of reading and of fetching, 200 of \
     executing), halved as often as it is more than half of what the server has answered in the \
     first pass. CPU and memory are those of the server with all processes that it has started. \
     The server is bound to its cores; the generator has the others, or shares them where there \
     are none, which makes every rate a lower bound. Lists and changes at once are sent by as \
     many clients, each a thread of this program: in each pass a slice with the cache, one \
     without and one of the responder, each server on a fresh copy.";

/// A finished run.
pub struct Report<'a> {
    /// What was asked for.
    pub options: &'a Options,
    /// The load generator, as it names itself.
    pub oha: &'a str,
    /// Functions that could not be executed, and why.
    pub missing: &'a [(LoadFunction, String)],
    /// What is known of the cores of the database, where one was named.
    pub database_cores: Option<&'static str>,
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
            columns: Some(columns(self.options, self.measured)),
            ..self.head().run(self.tables(), self.groups()?)
        })
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = executions::tables(self.measured);
        tables.extend(separated::table(self.measured));
        tables
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
            "{}\n\n## At a fixed rate\n\n{}",
            columns::section(self.options, self.measured),
            self.paced(),
        );
        let summary = format!("{}\n", self.summary());
        self.head().markdown(Vec::new(), &summary, &rest)
    }

    /// The tables of figures, of functions and of mixes.
    pub fn summary(&self) -> String {
        let head = "request|cores|connections|requests/s|A/A|floor/s|to floor|to lean|p50 µs|p90 µs\
                    |p99 µs|p99.9 µs|errors|CPU µs|memory MiB|wrk/s";
        let on_rows = self.measured.on_directories();
        let on_rows = on_rows.filter(|cell| cell.kind.function().is_none());
        let rows = on_rows.filter_map(|cell| {
            let (ours, floor) = (&cell.ours.whole, &cell.floor.whole);
            let mut row = vec![
                cell.kind.title(),
                cell.cores.to_string(),
                cell.connections.to_string(),
                whole(ours.per_s()),
                or_dash(cell.ours.again(), 2),
                whole(floor.per_s()),
                hundredths(ours.per_s() / floor.per_s()),
                or_dash(cell.to_lean(), 2),
            ];
            row.extend(ours.points()?.map(whole));
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
        let blends = table(head, rows.collect());
        let tables = Table::sections(&self.tables());
        format!("{figures}\n{others}{blends}\n{tables}")
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
                row.extend(theirs.points()?.map(whole));
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
            "Rows added, read and fetched, functions executed; connections: {}; {} cores of \
             {}{mode}.",
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
            functions_path,
            sdks,
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
        if functions_path.is_some() {
            let node = sdks.node.as_ref().map_or("fetch", |_| "node-appwrite");
            let python = sdks.python.as_ref().map_or("urllib", |_| "appwrite");
            pairs.push(("client_in_functions", json!(format!("{node}, {python}"))));
            let missing = self.missing.iter();
            let missing = missing.map(|(handler, why)| format!("{}: {why}", handler.id()));
            let missing: Vec<String> = missing.collect();
            pairs.push(("functions_left_out", json!(missing)));
        }
        if let Some(cores) = self.database_cores {
            pairs.push(("cores_of_the_database", json!(cores)));
        }
        pairs.extend(machine::identity(binary));
        pairs
    }

    /// Groups, those at the connections of the table on the most cores first.
    fn groups(&self) -> Result<Vec<Group>> {
        let cells = self.measured.on_directories();
        let shown = cells.filter(|cell| cell.kind != RequestKind::FetchUncached);
        let mut shown: Vec<&Cell> = shown.collect();
        shown.sort_by_key(|cell| (cell.connections != CONNECTIONS, usize::MAX - cell.cores));
        let mut groups = Vec::new();
        for cell in shown {
            groups.push(self.group(cell)?);
        }
        for blend in &self.measured.blends {
            groups.push(blend_group(blend)?);
        }
        Ok(groups)
    }

    /// The lists of the same cores, store and connections that did not come from the cache.
    fn uncached(&self, cell: &Cell) -> Option<&Cell> {
        let kind = RequestKind::FetchUncached;
        let key = ColumnKey { kind, ..cell.key() };
        let found = self.measured.cell(key, cell.connections);
        found.filter(|_| cell.kind == RequestKind::Fetch)
    }

    fn group(&self, cell: &Cell) -> Result<Group> {
        let series =
            |named: (&str, &str, Role), figure: &Figure| series(named, cell.connections, figure);
        let mut all = vec![series(("tidemark", "Tidemark", Role::Subject), &cell.ours)?];
        if let Some(uncached) = self.uncached(cell) {
            let named = ("uncached", "Tidemark, not from the cache", Role::Reference);
            all.push(series(named, &uncached.ours)?);
        }
        let floor_title = cell.kind.floor_title();
        all.push(series(("floor", floor_title, Role::Floor), &cell.floor)?);
        if cell.to_lean().is_some() {
            all.push(series(("lean", "lean floor", Role::Floor), &cell.lean)?);
        }
        for ((idx, figure), (name, _)) in cell.beside.iter().enumerate().zip(&self.options.beside) {
            let key = format!("beside_{idx}");
            all.push(series((&key, name, Role::Other), figure)?);
        }
        if let Some(paced) = &cell.paced {
            let Paced { per_s, ours, floor } = paced;
            let floor_paced = format!("{floor_title}, paced");
            for (named, figure) in [
                (("paced", "Tidemark, paced", Role::Other), ours),
                (("paced_floor", &floor_paced, Role::Floor), floor),
            ] {
                let mut series = series(named, figure)?;
                series.asked_per_s = Some(*per_s);
                all.push(series);
            }
        }
        if let Some(there) = self.measured.of_store(cell, MeasuredStore::Database) {
            let named = ("postgres", "Tidemark on PostgreSQL", Role::Other);
            all.push(series(named, &there.ours)?);
            if let Some(uncached) = self.uncached(there) {
                let title = "Tidemark on PostgreSQL, not from the cache";
                let named = ("postgres_uncached", title, Role::Other);
                all.push(series(named, &uncached.ours)?);
            }
        }
        let (kind, cores, connections) = (cell.kind, cell.cores, cell.connections);
        let plural = |count: u32| if count == 1 { "" } else { "s" };
        Ok(Group {
            key: format!("{}_{connections}_{cores}", kind.key()),
            title: format!(
                "{}, {connections} connection{}, {cores} core{}",
                kind.title(),
                plural(connections),
                plural(cores as u32)
            ),
            connections,
            cores: Some(cores as u32),
            series: all,
        })
    }

    fn paced(&self) -> String {
        let rows = self.measured.cells.iter().flat_map(|cell| {
            let figures = cell.paced.iter().flat_map(|paced| {
                let Paced { per_s, ours, floor } = paced;
                let floor_title = cell.kind.floor_title();
                [("Tidemark", per_s, ours), (floor_title, per_s, floor)]
            });
            figures.filter_map(|(name, per_s, figure)| {
                let share = &figure.whole;
                let mut row = vec![
                    cell.key().title(),
                    cell.cores.to_string(),
                    name.to_owned(),
                    whole(*per_s),
                    whole(share.per_s()),
                ];
                row.extend(share.points()?.map(whole));
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
            row.extend(share.points()?.map(whole));
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

    use super::super::SdkFolders;
    use super::super::bad_functions::BesideBad;
    use super::super::figure::Share;
    use super::*;
    use crate::prices;
    use crate::run::Sample;
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
                backends_us: Some((count * 30) as f64),
                memory_mib: Some(64.0),
                ..Share::default()
            });
        }
        figure
    }

    fn cell(key: ColumnKey, connections: u32) -> Cell {
        let ColumnKey { kind, store, cores } = key;
        Cell {
            kind,
            store,
            cores,
            connections,
            ours: match kind {
                _ if store == MeasuredStore::Database => figure(10_000, 125, 1.0),
                RequestKind::FetchUncached => figure(10_000, 200, 1.25),
                _ => figure(10_000, 100, 1.25),
            },
            floor: figure(5_000, 50, 1.0),
            lean: match kind {
                RequestKind::Add => Figure::default(),
                _ => figure(5_000, 40, 1.0),
            },
            beside: match kind {
                RequestKind::Fetch if store == MeasuredStore::Directory => {
                    vec![figure(1_000, 400, 1.0)]
                }
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
            for kind in RequestKind::ON_ROWS {
                for store in [MeasuredStore::Directory, MeasuredStore::Database] {
                    if (store, cores) != (MeasuredStore::Database, 2) {
                        let key = ColumnKey { kind, store, cores };
                        cells.extend([1, 32].map(|connections| cell(key, connections)));
                    }
                }
            }
        }
        Measured {
            cells,
            cold: Vec::new(),
            beside_bad: BesideBad::default(),
            is_separated: true,
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
            functions_path: None,
            sdks: SdkFolders::default(),
            database: None,
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
            missing: &[],
            database_cores: Some("1"),
            measured: &measured,
        };
        let text = report.render();
        for part in [
            "| read one row | 2 | 32 | 11111 | 1.25 | 20000 | 0.56 | 0.44 | 103 | 106 | 106 | 106 | 0 | 20.0 | 64 | – |\n",
            "| Rival | 2 | 32 | 2500 | 1.00 | 2.22 | 403 |",
            "| 90 to 10 | Tidemark | 2000 | 1.00 | 85.0 % | 503 | 506 | 506 | 506 | 0 | 60.0 | 70 |\n",
            "| 90 to 10 | Tidemark, list cache off | 2000 | 1.00 | 0.0 % | 503 |",
            "| 90 to 10 | static floor | 2000 | 1.00 | – | 503 |",
            "| Tidemark, 2 cores, 32 connections | 11111 | 11111 | 11111 | – | – | 3.85 | – | 0.000116 |\n",
            "| Tidemark, 1 core, 1 connection | 11111 | 11111 | 11111 | – | – | – | – | – |\n",
            "| published, 2 cores / 2 GB | 170 | 427 | 241 | 106 | 80 | 3.85 | 0.003760 | 0.004594 |\n",
            "| read one row | 1 | Tidemark | 7000 | 7143 |",
            "| read one row | 1 | static floor | 7000 | 7692 |",
            "| Tidemark on PostgreSQL, 1 core and 1 of the database, 32 connections | 8000 | 8000 | 8000 | – | – | 9.85 | – | 0.000410 |\n",
            "| read one row | 1 | 32 | 8000 | 1.00 | 11111 | 0.72 | 0.40 | 128 | 131 | 131 | 131 | 0 | 20.0 | 30.0 | 20.0 |\n",
            "| read one row, on PostgreSQL | 1 | Tidemark | 7000 | 7143 |",
            "\ncores_of_the_database: \"1\"\n",
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
            missing: &[],
            database_cores: Some("1"),
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
                "lean",
                "beside_0",
                "paced",
                "paced_floor"
            ]
        );
        let separated = keys(&run.groups[5]);
        assert_eq!(separated[7..], ["postgres", "postgres_uncached"]);
        let json = serde_json::to_string(&run).unwrap();
        assert!(json.len() < 900_000, "{} bytes", json.len());
    }
}
