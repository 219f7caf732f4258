//! The report in Markdown, and the run for the page.

use std::time::Duration;

use anyhow::{Context, Result};
use measure::machine::{self, Machine};
use measure::markdown::{heads, or_dash};
use measure::percentile::median;
use model::calendar::iso_ms;
use serde_json::json;

use super::change::Changed;
use super::deep::{Deep, Read};
use super::figure::Tally;
use super::objects::Op;
use super::published::{COLUMNS, published};
use super::target::{Target, targets};
use super::{Crowd, Measured, Options, StoreSide};
use crate::report_head::{Pairs, ReportHead, mode};
use crate::run::{Group, Role, Run, Series, Table, milli};

/// What titles of a store in a database end in.
const ON_POSTGRES: &str = ", on PostgreSQL";
const TITLE: &str = "Two time axes: the published workload";
const METHOD: &str = "\
     The workload that TwiceDB publishes. In each run every client writes so many new objects \
     one by one, as many in batches of 100, and reads the latter back: in one query, in batches \
     of 100 unique keys, one by one by a unique key (by the route for batches, and as the list \
     that any SDK asks, past the cache) and by id. Each object has a unique key and some 120 \
     bytes; keys, ids and lists are asked for once, so no answer comes from a cache. Clients \
     are threads with a connection each that is kept alive; each sends its next request when \
     the last is answered (a closed loop: coordinated omission, as published), and all begin \
     each operation together. Every answer must hold its objects. Objects a second of a client \
     are its objects over the sum of its latencies; figures are medians of all clients of all \
     runs; percentiles are by nearest rank of all requests of all runs; A/A is the rate of \
     every second run to that of the others. The server runs with its defaults, so a write is \
     answered when the disk has it. In turns with each run the same is done by hand-written \
     statements on the same layout in one process, without HTTP: one transaction and one sync \
     for each write, clients taking turns at one connection that writes; with several clients \
     each writes its share of the objects one by one. Syncs (4 KiB appended, then synced) are \
     timed beside each run. Then rows with many versions, all valid from their commit on, a new \
     price each: read by one client, lists with X-Tidemark-Cache: bypass, every list compared \
     with its definition before and after. Client and server share the machine; rates are lower \
     bounds.";
/// A finished run.
pub struct Report<'a> {
    /// What was asked for.
    pub options: &'a Options,
    /// What was measured.
    pub measured: &'a Measured,
}

impl Report<'_> {
    /// The run as page and programs read it.
    ///
    /// # Errors
    /// When a series has no samples.
    pub fn run(&self) -> Result<Run> {
        Ok(self.head().run(self.tables(), self.groups()?))
    }

    /// The report; page and samples stand beside it.
    pub fn render(&self) -> String {
        self.head().markdown(Vec::new(), "", &self.summary())
    }

    fn head(&self) -> ReportHead {
        ReportHead {
            kind: "bitemporal",
            title: TITLE,
            lead: self.lead(),
            method: METHOD,
            started: iso_ms(self.options.started),
            machine: machine::facts(),
            parameters: self.parameters(),
        }
    }

    /// The tables, for the terminal.
    pub fn summary(&self) -> String {
        Table::sections(&self.tables())
    }

    fn lead(&self) -> String {
        let all = targets(self.options, self.measured);
        let count = |is_met| all.iter().filter(|one| one.is_met == Some(is_met)).count();
        let machine = Machine::here();
        let mode = mode(self.options.is_quick);
        format!(
            "{} new objects a client, {} runs; {} of {} measured targets met; \
             {} cores of {}{mode}.",
            self.options.objects,
            self.options.runs,
            count(true),
            count(true) + count(false),
            machine.cores,
            machine.cpu
        )
    }

    fn parameters(&self) -> Pairs {
        let (options, measured) = (self.options, self.measured);
        let clients: Vec<String> = options.clients.iter().map(u32::to_string).collect();
        let bare = |side: &StoreSide| side.bare.clone();
        let absent = || "not measured here".to_owned();
        let postgres = match &measured.database {
            Some(side) => bare(side).unwrap_or_else(|| "measured".to_owned()),
            None => "not measured here: see --database".to_owned(),
        };
        let mut all = vec![
            (
                "mode",
                json!(if options.is_quick { "quick" } else { "full" }),
            ),
            ("binary", json!(machine::binary())),
            ("objects", json!(options.objects)),
            ("runs", json!(options.runs)),
            ("warmups", json!(options.warmups)),
            ("clients", json!(clients.join(", "))),
            ("rows", json!(options.rows)),
            ("versions", json!(options.versions)),
            ("durability", json!("full")),
            (
                "hand_written",
                json!(bare(&measured.directory).unwrap_or_else(absent)),
            ),
            ("postgresql", json!(postgres)),
            ("file_system", json!(measured.file_system)),
            ("kept_awake", json!(measured.is_kept_awake)),
        ];
        let syncs = measured.directory.crowds.iter();
        let syncs = syncs.flat_map(|crowd| &crowd.syncs);
        if let Some(sync) = median(syncs.copied()) {
            all.push(("sync_p50_us", json!(milli(us(sync)))));
        }
        all
    }

    fn tables(&self) -> Vec<Table> {
        let mut all = vec![self.targets()];
        let Measured {
            directory,
            database,
            ..
        } = self.measured;
        let crowds = directory.crowds.iter().enumerate();
        all.extend(crowds.map(|(place, crowd)| self.beside(place, crowd)));
        all.push(figures(directory, ""));
        all.extend(database.iter().map(|side| figures(side, ON_POSTGRES)));
        all.extend(database.iter().map(|side| processor(directory, side)));
        all.push(self.of_deep(&directory.deep, ""));
        all.extend(
            database
                .iter()
                .map(|side| self.of_deep(&side.deep, ON_POSTGRES)),
        );
        all.push(self.of_change());
        all
    }

    fn targets(&self) -> Table {
        let row = |target: Target| {
            let word = target.word().to_owned();
            vec![target.what, target.wanted, target.got, word]
        };
        let syncs = self.measured.directory.crowds.iter().filter_map(|crowd| {
            let sync = crowd.sync()?;
            Some(format!("{:.2} ms beside {}", us(sync) / 1e3, people(crowd)))
        });
        let syncs: Vec<String> = syncs.collect();
        Table {
            title: "Targets".to_owned(),
            heads: heads("what|target|measured|met"),
            rows: targets(self.options, self.measured)
                .into_iter()
                .map(row)
                .collect(),
            note: format!(
                "Those of writes one by one follow from s, the median time of a sync in the same \
                 minutes: 0.8 / s and 3 s + 5 ms alone, 4 s + 10 ms for eight. Here s is {}.",
                syncs.join(", ")
            ),
        }
    }

    /// Ours and the hand-written statements beside what was published; the crowd at this place.
    fn beside(&self, place: usize, crowd: &Crowd) -> Table {
        let published = published();
        let own = |name: String, crowd: &Crowd, pick: fn(&Crowd, Op) -> &Tally| {
            let cells = COLUMNS.map(|op| {
                let tally = pick(crowd, op);
                let rates = tally.each().zip(tally.at(990));
                rates.map_or(String::new(), |(rate, p99)| {
                    format!("{rate:.0} ({:.2})", us(p99) / 1e3)
                })
            });
            [vec![name], cells.to_vec()].concat()
        };
        let mut rows = Vec::new();
        let sides = [
            (Some(&self.measured.directory), ""),
            (self.measured.database.as_ref(), ON_POSTGRES),
        ];
        for (side, place_of_store) in sides {
            let Some(side) = side else { continue };
            let crowd = &side.crowds[place];
            let name = format!("Tidemark{place_of_store}, measured");
            rows.push(own(name, crowd, |crowd, op| crowd.of(op).0));
            if let Some(bare) = &side.bare {
                let name = format!("{bare}, measured");
                rows.push(own(name, crowd, |crowd, op| crowd.of(op).1));
            }
        }
        let quoted = published.systems.into_iter();
        let quoted = quoted.filter(|system| system.clients == crowd.clients);
        rows.extend(quoted.map(|system| {
            let name = format!("{}, quoted", system.name);
            [vec![name], system.cells].concat()
        }));
        Table {
            title: format!("Beside the published figures, {}", people(crowd)),
            heads: [vec!["system".to_owned()], published.heads].concat(),
            rows,
            note: format!(
                "Objects a second that each client saw; in parentheses the 99th percentile of a \
                 request in milliseconds. By key: by the route for batches. Quoted: {}.",
                published.source
            ),
        }
    }

    fn of_deep(&self, deep: &Deep, place: &str) -> Table {
        let cells = |name: &str, tally: &Tally, bare: Option<&Tally>| {
            let mut row = vec![name.to_owned(), shown(tally.each())];
            row.extend([500, 900, 990].map(|at| tenths(tally.at(at).map(us))));
            row.push(ratio(tally.again()));
            row.push(tenths(bare.and_then(|bare| bare.at(500)).map(us)));
            row
        };
        let mut rows: Vec<Vec<String>> = Read::ALL
            .into_iter()
            .zip(&deep.ours)
            .map(|(read, tally)| cells(read.title(), tally, bare_of(deep, read)))
            .collect();
        let [now, past] = &deep.inside;
        let inside = [
            ("one row, now, inside the process", now),
            ("one row, as of the past, inside the process", past),
        ];
        let inside = inside.iter().filter(|(_, tally)| !tally.samples.is_empty());
        rows.extend(inside.map(|(name, tally)| cells(name, tally, None)));
        let plain = deep.plain_bytes.map_or(String::new(), |plain| {
            format!("A plain table of the same rows takes {:.1} MB. ", mb(plain))
        });
        let bytes = deep.bytes.map_or(String::new(), |bytes| {
            format!("The database takes {:.1} MB. ", mb(bytes))
        });
        Table {
            title: format!(
                "{} rows of {} versions{place}",
                self.options.rows, self.options.versions
            ),
            heads: heads("read|rows/s|p50 µs|p90 µs|p99 µs|A/A|hand-written, p50 µs"),
            rows,
            note: format!(
                "{bytes}{plain}While the versions were made, {:.0} rows were changed a second, 100 \
                 a request.",
                deep.changes_per_s
            ),
        }
    }

    fn of_change(&self) -> Table {
        let change = &self.measured.change;
        let cells = |name: &str, changed: &Changed| {
            let mut row = vec![name.to_owned(), tenths(changed.cpu())];
            row.extend([ratio(changed.spread()), shown(changed.tally.each())]);
            row.extend([500, 990].map(|at| tenths(changed.tally.at(at).map(us))));
            row
        };
        Table {
            title: "A change of a row, with history and without".to_owned(),
            heads: heads("table|CPU µs a change|greatest to least turn|changes/s|p50 µs|p99 µs"),
            rows: vec![
                cells("history: keep", &change.kept),
                cells("history: none", &change.none),
            ],
            note: "One client changes the price of one row after the other, both tables in turns; \
                   the price has an index. CPU is that of the whole server, HTTP included, by the \
                   kernel's count in hundredths of a second, the median of all turns."
                .to_owned(),
        }
    }

    fn groups(&self) -> Result<Vec<Group>> {
        let mut groups = Vec::new();
        let Measured {
            directory,
            database,
            ..
        } = self.measured;
        for (place, crowd) in directory.crowds.iter().enumerate() {
            for op in Op::ALL {
                let (ours, bare) = crowd.of(op);
                let named = ("tidemark", "Tidemark", Role::Subject);
                let mut all = vec![series(named, crowd.clients, ours)?];
                if let (Some(name), false) = (&directory.bare, bare.samples.is_empty()) {
                    let named = ("bare", name.as_str(), Role::Reference);
                    all.push(series(named, crowd.clients, bare)?);
                }
                if let Some(side) = database {
                    let (there, bare) = side.crowds[place].of(op);
                    let named = ("postgres", "Tidemark on PostgreSQL", Role::Other);
                    all.push(series(named, crowd.clients, there)?);
                    if let (Some(name), false) = (&side.bare, bare.samples.is_empty()) {
                        let named = ("bare_postgres", name.as_str(), Role::Other);
                        all.push(series(named, crowd.clients, bare)?);
                    }
                }
                groups.push(Group {
                    key: format!("{}_{}", op.key(), crowd.clients),
                    title: format!("{}, {}", op.title(), people(crowd)),
                    connections: crowd.clients,
                    cores: None,
                    series: all,
                });
            }
        }
        let reads = [
            (
                "points",
                "one row",
                [Read::PointNow, Read::PointAsOf].as_slice(),
            ),
            (
                "lists",
                "25 rows",
                [
                    Read::ListPlain,
                    Read::ListNow,
                    Read::ListAsOf,
                    Read::ListLong,
                ]
                .as_slice(),
            ),
        ];
        for (key, title, reads) in reads {
            groups.push(self.of_reads(key, title, reads)?);
        }
        let change = &self.measured.change;
        let without = ("none", "without history", Role::Reference);
        let with = ("kept", "with history", Role::Subject);
        groups.push(Group {
            key: "change".to_owned(),
            title: "a change of a row".to_owned(),
            connections: 1,
            cores: None,
            series: vec![
                series(without, 1, &change.none.tally)?,
                series(with, 1, &change.kept.tally)?,
            ],
        });
        Ok(groups)
    }

    /// The first one is what the others are compared with.
    fn of_reads(&self, key: &str, title: &str, reads: &[Read]) -> Result<Group> {
        let deep = &self.measured.directory.deep;
        let mut all = Vec::new();
        for (place, read) in reads.iter().enumerate() {
            let role = match (place, read) {
                (0, _) => Role::Reference,
                (_, Read::PointAsOf | Read::ListAsOf) => Role::Subject,
                _ => Role::Other,
            };
            let tally = deep.of(*read).context("a read is missing")?;
            all.push(series((read.key(), read.title(), role), 1, tally)?);
            let there = self.measured.database.as_ref();
            if let Some(tally) = there.and_then(|side| side.deep.of(*read)) {
                let (key, title) = (read.key(), read.title());
                let named = (format!("postgres_{key}"), format!("{title}{ON_POSTGRES}"));
                all.push(series((&named.0, &named.1, Role::Other), 1, tally)?);
            }
            if let Some(bare) = bare_of(deep, *read) {
                let named = format!("{}, hand-written", read.title());
                let key = format!("bare_{}", read.key());
                all.push(series((&key, &named, Role::Other), 1, bare)?);
            }
        }
        Ok(Group {
            key: key.to_owned(),
            title: format!(
                "{title} of {} with {} versions each",
                self.options.rows, self.options.versions
            ),
            connections: 1,
            cores: None,
            series: all,
        })
    }
}

/// Every operation on one side.
fn figures(side: &StoreSide, place: &str) -> Table {
    let rows = side.crowds.iter().flat_map(|crowd| {
        Op::ALL.into_iter().map(move |op| {
            let (ours, bare) = crowd.of(op);
            let mut row = vec![op.title().to_owned(), crowd.clients.to_string()];
            row.extend([shown(ours.each()), shown(ours.all())]);
            row.extend([500, 900, 990, 999].map(|at| shown(ours.at(at).map(us))));
            row.push(ratio(ours.again()));
            row.extend([shown(bare.each()), shown(bare.at(990).map(us))]);
            row
        })
    });
    Table {
        title: format!("Every operation{place}"),
        heads: heads(
            "operation|clients|objects/s, each|objects/s, all|p50 µs|p90 µs|p99 µs|p99.9 µs\
             |A/A|hand-written, each|hand-written, p99 µs",
        ),
        rows: rows.collect(),
        note: "A request of a batch holds 100 objects, one that reads all holds all.".to_owned(),
    }
}

/// What an object costs on both sides.
fn processor(directory: &StoreSide, database: &StoreSide) -> Table {
    let pairs = directory.crowds.iter().zip(&database.crowds);
    let rows = pairs.flat_map(|(here, there)| {
        Op::ALL.into_iter().map(move |op| {
            let (own, _) = here.of(op).0.cpu();
            let (node, backends) = there.of(op).0.cpu();
            let both = node.zip(backends).map(|(node, backends)| node + backends);
            let mut row = vec![op.title().to_owned(), here.clients.to_string()];
            row.extend([own, node, backends].map(tenths));
            // Of a run as short as a trial, the kernel may have counted nothing.
            let counted = own.filter(|own| *own > 0.0);
            row.push(ratio(both.zip(counted).map(|(both, own)| both / own)));
            row
        })
    });
    Table {
        title: "Processor time of an object".to_owned(),
        heads: heads(
            "operation|clients|data directory, µs|on PostgreSQL: node, µs\
             |on PostgreSQL: backends, µs|both to the directory",
        ),
        rows: rows.collect(),
        note: "By the kernel's count in hundredths of a second, over all timed runs. Backends are \
               all processes of PostgreSQL's server, where it runs on this machine and is reached \
               by its socket."
            .to_owned(),
    }
}

fn bare_of(deep: &Deep, read: Read) -> Option<&Tally> {
    let found = deep.bare.iter().find(|(known, _)| *known == read);
    found.map(|(_, tally)| tally)
}

fn series(named: (&str, &str, Role), clients: u32, tally: &Tally) -> Result<Series> {
    let (wall, again) = (tally.wall, tally.again());
    let series = Series::one_of_many(named, clients, wall, &tally.samples, again);
    let mut series = series.with_context(|| format!("{}: no samples", named.1))?;
    // The first refused answer ends a run, so whatever is reported had none.
    series.errors = Some(0);
    Ok(series)
}

fn people(crowd: &Crowd) -> String {
    match crowd.clients {
        1 => "1 client".to_owned(),
        clients => format!("{clients} clients"),
    }
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

fn shown(number: Option<f64>) -> String {
    or_dash(number, 0)
}

fn tenths(number: Option<f64>) -> String {
    or_dash(number, 1)
}

fn ratio(number: Option<f64>) -> String {
    or_dash(number, 2)
}
