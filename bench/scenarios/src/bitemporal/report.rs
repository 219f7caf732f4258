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
use super::{Crowd, Measured, Options};
use crate::report_head::{Pairs, ReportHead, mode};
use crate::run::{Group, Role, Run, Series, Table, milli};

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
        let bare = measured.bare.as_deref().unwrap_or("not measured here");
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
            ("hand_written", json!(bare)),
            ("postgresql", json!("not measured here: no such store yet")),
            ("file_system", json!(measured.file_system)),
            ("kept_awake", json!(measured.is_kept_awake)),
        ];
        let syncs = measured.crowds.iter().flat_map(|crowd| &crowd.syncs);
        if let Some(sync) = median(syncs.copied()) {
            all.push(("sync_p50_us", json!(milli(us(sync)))));
        }
        all
    }

    fn tables(&self) -> Vec<Table> {
        let mut all = vec![self.targets()];
        all.extend(self.measured.crowds.iter().map(|crowd| self.beside(crowd)));
        all.push(self.figures());
        all.push(self.of_deep());
        all.push(self.of_change());
        all
    }

    fn targets(&self) -> Table {
        let row = |target: Target| {
            let word = target.word().to_owned();
            vec![target.what, target.wanted, target.got, word]
        };
        let syncs = self.measured.crowds.iter().filter_map(|crowd| {
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

    /// Ours and the hand-written statements beside what was published.
    fn beside(&self, crowd: &Crowd) -> Table {
        let published = published();
        let own = |name: String, pick: fn(&Crowd, Op) -> &Tally| {
            let cells = COLUMNS.map(|op| {
                let tally = pick(crowd, op);
                let rates = tally.each().zip(tally.at(990));
                rates.map_or(String::new(), |(rate, p99)| {
                    format!("{rate:.0} ({:.2})", us(p99) / 1e3)
                })
            });
            [vec![name], cells.to_vec()].concat()
        };
        let mut rows = vec![own("Tidemark, measured".to_owned(), |crowd, op| {
            crowd.of(op).0
        })];
        if let Some(bare) = &self.measured.bare {
            rows.push(own(format!("{bare}, measured"), |crowd, op| crowd.of(op).1));
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

    fn figures(&self) -> Table {
        let rows = self.measured.crowds.iter().flat_map(|crowd| {
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
            title: "Every operation".to_owned(),
            heads: heads(
                "operation|clients|objects/s, each|objects/s, all|p50 µs|p90 µs|p99 µs|p99.9 µs\
                 |A/A|hand-written, each|hand-written, p99 µs",
            ),
            rows: rows.collect(),
            note: "A request of a batch holds 100 objects, one that reads all holds all."
                .to_owned(),
        }
    }

    fn of_deep(&self) -> Table {
        let deep = &self.measured.deep;
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
        rows.push(cells("one row, now, inside the process", now, None));
        rows.push(cells(
            "one row, as of the past, inside the process",
            past,
            None,
        ));
        let plain = deep.plain_bytes.map_or(String::new(), |plain| {
            format!(" A plain table of the same rows takes {:.1} MB.", mb(plain))
        });
        Table {
            title: format!(
                "{} rows of {} versions",
                self.options.rows, self.options.versions
            ),
            heads: heads("read|rows/s|p50 µs|p90 µs|p99 µs|A/A|hand-written, p50 µs"),
            rows,
            note: format!(
                "The database takes {:.1} MB.{plain} While the versions were made, {:.0} rows were \
                 changed a second, 100 a request.",
                mb(deep.bytes),
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
        for crowd in &self.measured.crowds {
            for op in Op::ALL {
                let (ours, bare) = crowd.of(op);
                let named = ("tidemark", "Tidemark", Role::Subject);
                let mut all = vec![series(named, crowd.clients, ours)?];
                if let (Some(name), false) = (&self.measured.bare, bare.samples.is_empty()) {
                    let named = ("bare", name.as_str(), Role::Reference);
                    all.push(series(named, crowd.clients, bare)?);
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
        let deep = &self.measured.deep;
        let mut all = Vec::new();
        for (place, read) in reads.iter().enumerate() {
            let role = match (place, read) {
                (0, _) => Role::Reference,
                (_, Read::PointAsOf | Read::ListAsOf) => Role::Subject,
                _ => Role::Other,
            };
            let tally = deep.of(*read).context("a read is missing")?;
            all.push(series((read.key(), read.title(), role), 1, tally)?);
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
