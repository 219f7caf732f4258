//! The report in Markdown, and the run for the page.

use measure::machine;
use measure::markdown::{heads, or_dash};
use measure::percentile::{Sorted, ratio};
use model::calendar::iso_ms;
use serde_json::json;

use super::attack::Attacked;
use super::judge::Finding;
use super::keys::{CLIENTS, Load, READS_PER_S, Served, WRITES_PER_S};
use super::{Kind, Measured, Options};
use crate::report_head::{Pairs, ReportHead, mode};
use crate::run::{Group, Role, Run, Series, Table, milli, us};

const TITLE: &str = "Strangers who send the worst";
const METHOD: &str = "\
     One server with its defaults on a new data directory: tables that strangers may read and add \
     to, rows of every size, words, a table whose rows show themselves to some, a relationship. \
     Each kind of attack is one slice: so many strangers, who know the project's id and have no \
     key, each from an address of its own and each sending its next request when the last is \
     answered. Meanwhile single rows are read and written by key at a fixed rate; a request counts \
     from the instant at which it was due, so that one that stands still is felt by all behind it. \
     Before each slice the same load runs alone; its slices together are what an attack is \
     compared with, and A/A is the 99th percentile of every second of them to that of the others. \
     Percentiles are by nearest rank. Memory is the most resident memory of the slice, and that \
     when the server had come to rest. Wakings are how late a thread wakes that only sleeps, \
     beside the same load: what this machine adds by itself. Strangers run at the lowest \
     priority, because they would be other machines, and still share the cores with the server: \
     ratios are upper bounds. The \
     search asks lists drawn by chance one at a time, and changes the costliest a little; the \
     worst it finds are an attack of their own. A finding is what is neither a success, nor 304, \
     nor a refusal that names its type; a request of its kind is kept beside the report.";
/// The 99th percentile under attack to that without, at most.
const RATIO_MAX: f64 = 3.0;
/// Signs of a request that the report shows.
const SHOWN_MAX: usize = 240;
const NAMES: [&str; 2] = ["reads", "writes"];

/// A finished run.
pub struct Report<'a> {
    /// What was asked for.
    pub options: &'a Options,
    /// What was seen.
    pub measured: &'a Measured,
}

impl Finding {
    /// The file beside the report that holds its request.
    pub fn file(&self, number: usize) -> String {
        format!("finding-{number:02}-{}.http", self.kind)
    }
}

impl Report<'_> {
    /// The run as page and programs read it.
    pub fn run(&self) -> Run {
        self.head().run(self.tables(), self.groups())
    }

    /// The report; page, samples and requests stand beside it.
    pub fn render(&self) -> String {
        self.head().markdown(Vec::new(), "", &self.summary())
    }

    fn head(&self) -> ReportHead {
        ReportHead {
            kind: "hostile",
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
        let findings = self.measured.findings().count();
        let (kinds, strangers) = (self.measured.attacked.len(), self.options.strangers);
        let mode = mode(self.options.is_quick);
        let wanted = self.options.kinds.len();
        format!(
            "{kinds} of {wanted} kinds of attack, by {strangers} strangers; {findings} \
             findings{mode}."
        )
    }

    fn parameters(&self) -> Pairs {
        let (options, measured) = (self.options, self.measured);
        let kinds: Vec<&str> = options.kinds.iter().map(|kind| kind.name()).collect();
        let mut command = format!("tidemark bench hostile --seed {}", options.seed);
        if options.is_quick {
            command += " --quick";
        }
        if kinds.len() < Kind::ALL.len() {
            command += " --kind ";
            command += &kinds.join(",");
        }
        let mut all = vec![
            ("command", json!(command)),
            ("binary", json!(machine::binary())),
            ("kinds", json!(kinds.join(", "))),
            ("seed", json!(options.seed)),
            ("strangers", json!(options.strangers)),
            ("rows", json!(measured.rows)),
            ("attack_s", json!(measured.plan.attack.as_secs_f64())),
            ("quiet_s", json!(measured.plan.quiet.as_secs_f64())),
            ("reads_per_s", json!(READS_PER_S * f64::from(CLIENTS))),
            ("writes_per_s", json!(WRITES_PER_S * f64::from(CLIENTS))),
            ("ceiling_mib", json!(options.ceiling_mib)),
            ("rest_ceiling_mib", json!(options.rest_ceiling_mib)),
            ("searched", json!(measured.found.steps)),
        ];
        all.extend(machine::identity(&options.binary));
        all
    }

    fn tables(&self) -> Vec<Table> {
        vec![
            self.targets(),
            self.kinds(),
            self.answers(),
            self.worst(),
            self.findings(),
        ]
    }

    fn targets(&self) -> Table {
        let mut rows = Vec::new();
        for (act, name) in NAMES.iter().enumerate() {
            let worst = self.worst_ratio(act);
            rows.push(target(
                &format!("p99 of {name} by key, the worst kind to quiet"),
                format!("≤ {RATIO_MAX:.0}x"),
                worst.map(|(kind, ratio)| (format!("{ratio:.2}x, {kind}"), ratio <= RATIO_MAX)),
            ));
        }
        let attacked = &self.measured.attacked;
        let most = |of: fn(&Attacked) -> f64| attacked.iter().map(of).fold(0.0, f64::max);
        let ceiling = f64::from(self.options.ceiling_mib);
        let peak = most(|one| one.peak_mib);
        let is_met = peak <= ceiling;
        let shown = Some((format!("{peak:.0} MiB"), is_met));
        rows.push(target(MEMORY, format!("≤ {ceiling:.0} MiB"), shown));
        let wanted = f64::from(self.options.rest_ceiling_mib);
        let end = self.measured.end_mib;
        let shown = Some((format!("{end:.0} MiB"), end <= wanted));
        rows.push(target(REST, format!("≤ {wanted:.0} MiB"), shown));
        let count = self.measured.findings().count();
        let shown = Some((count.to_string(), count == 0));
        rows.push(target("findings", "0".to_owned(), shown));
        let noise = [0, 1].map(|act| two(self.noise(act)));
        Table {
            title: "Targets".to_owned(),
            heads: heads("what|target|measured|met"),
            rows,
            note: format!(
                "A/A of quiet: reads {}, writes {}. At the beginning the server took {:.0} MiB; \
                 at rest after an attack at most {:.0} MiB.",
                noise[0],
                noise[1],
                self.measured.begin_mib,
                most(|one| one.rest_mib),
            ),
        }
    }

    fn kinds(&self) -> Table {
        let quiet = [0, 1].map(|act| self.quiet(act, |_| true));
        let woken = |served: &Served| two(at_ms(served, 990));
        let points = |served: &Served, of: &Served| {
            let [p50, p99] = [500, 990].map(|at| two(at_ms(served, at)));
            [p50, p99, two(p99_ratio(served, of))]
        };
        let mut first = vec!["quiet".to_owned()];
        first.extend(quiet.iter().flat_map(|served| points(served, served)));
        first.push(woken(&self.pooled(|_| true, |load| &load.woken)));
        first.extend(["", "", "", "", ""].map(str::to_owned));
        let mut rows = vec![first];
        for one in &self.measured.attacked {
            let mut row = vec![one.kind.name().to_owned()];
            let acts = one.load.served.iter().zip(&quiet);
            row.extend(acts.flat_map(|(served, quiet)| points(served, quiet)));
            row.push(woken(&one.load.woken));
            let rest = one.rest.map(|rest| rest.as_secs_f64());
            row.push(format!("{:.0}", one.peak_mib));
            row.push(format!("{:.0}", one.rest_mib));
            row.push(rest.map_or("not yet".to_owned(), |rest| format!("{rest:.1}")));
            row.push(format!("{:.1}", one.cpu_s));
            row.push(format!("{:.2}", one.tally.longest.as_secs_f64()));
            rows.push(row);
        }
        let described: Vec<String> = self
            .measured
            .attacked
            .iter()
            .map(|one| one.kind.description())
            .map(|(name, what)| format!("*{name}*: {what}"))
            .collect();
        Table {
            title: "By kind of attack".to_owned(),
            heads: heads(
                "kind|reads p50 ms|reads p99 ms|to quiet|writes p50 ms|writes p99 ms|to quiet\
                 |wakings p99 ms|peak MiB|at rest MiB|at rest after s|server CPU s\
                 |longest answer s",
            ),
            rows,
            note: format!(
                "*wakings*: how late a thread woke that only sleeps: each request waits for three \
                 such wakings, whatever the server does. {}.",
                described.join("; ")
            ),
        }
    }

    fn answers(&self) -> Table {
        let row = |name: &str, answers: &std::collections::BTreeMap<String, u64>| {
            let words = answers
                .iter()
                .map(|(word, count)| format!("{word}: {count}"));
            vec![name.to_owned(), words.collect::<Vec<_>>().join(", ")]
        };
        let attacked = self.measured.attacked.iter();
        let mut rows: Vec<Vec<String>> = attacked
            .map(|one| row(one.kind.name(), &one.tally.answers))
            .collect();
        if self.measured.found.steps > 0 {
            rows.push(row("search", &self.measured.found.tally.answers));
        }
        Table {
            title: "What came back to strangers".to_owned(),
            heads: heads("kind|answers"),
            rows,
            note: "*left*: the stranger went while it waited, at the end of the slice; *held*: a \
                   connection that was kept open and not read."
                .to_owned(),
        }
    }

    fn worst(&self) -> Table {
        let rows = self.measured.found.worst.iter().map(|cost| {
            vec![
                format!("{:.1}", cost.time.as_secs_f64() * 1e3),
                cost.answer.clone(),
                cost.bytes.to_string(),
                cost.candidate.table.to_owned(),
                code(&cost.candidate.body()),
            ]
        });
        Table {
            title: "The costliest lists that were found".to_owned(),
            heads: heads("cost ms|status|bytes|table|body of rows/query, from its beginning"),
            rows: rows.collect(),
            note: format!(
                "Of {} lists, each asked alone. The cost is the answer's time or the server's \
                 processor time, whichever is more.",
                self.measured.found.steps
            ),
        }
    }

    fn findings(&self) -> Table {
        let rows = self
            .measured
            .findings()
            .enumerate()
            .map(|(number, finding)| {
                let file = if finding.request.is_empty() {
                    String::new()
                } else {
                    finding.file(number)
                };
                vec![
                    finding.kind.to_owned(),
                    finding.what.replace(['|', '\n', '\r'], " "),
                    finding.count.to_string(),
                    file,
                    code(&String::from_utf8_lossy(&finding.request)),
                ]
            });
        Table {
            title: FINDINGS.to_owned(),
            heads: heads("kind|what|how often|request|from its beginning"),
            rows: rows.collect(),
            note: "A file holds the bytes of one such request: start a server with \
                   `--project-id hostile`, and `nc 127.0.0.1 8280 < FILE` sends it again."
                .to_owned(),
        }
    }

    /// The slices without an attack that `choose` takes by their number, together.
    fn quiet(&self, act: usize, choose: fn(usize) -> bool) -> Served {
        self.pooled(choose, |load| &load.served[act])
    }

    fn pooled(&self, choose: fn(usize) -> bool, of: impl Fn(&Load) -> &Served) -> Served {
        let mut all = Served::default();
        let slices = self.measured.quiet.iter().enumerate();
        for (_, slice) in slices.filter(|(number, _)| choose(*number)) {
            all.add(of(slice));
        }
        all
    }

    fn noise(&self, act: usize) -> Option<f64> {
        let [even, odd] = [
            |nth: usize| nth.is_multiple_of(2),
            |nth: usize| !nth.is_multiple_of(2),
        ]
        .map(|choose| self.quiet(act, choose));
        p99_ratio(&odd, &even)
    }

    fn worst_ratio(&self, act: usize) -> Option<(&'static str, f64)> {
        let quiet = self.quiet(act, |_| true);
        let attacked = self.measured.attacked.iter();
        // What takes nothing but the processors is what the others are compared with.
        let worse = attacked.filter(|one| one.kind != Kind::Cheap);
        let ratios = worse.filter_map(|one| {
            let ratio = p99_ratio(&one.load.served[act], &quiet)?;
            Some((one.kind.name(), ratio))
        });
        ratios.max_by(|(_, one), (_, other)| one.total_cmp(other))
    }

    fn groups(&self) -> Vec<Group> {
        let group = |(act, name): (usize, &&str)| {
            let quiet = self.quiet(act, |_| true);
            let again = self.noise(act);
            let mut all: Vec<Series> = series(("quiet", Role::Reference), act, &quiet, again)
                .into_iter()
                .collect();
            let attacked = self.measured.attacked.iter().filter_map(|one| {
                let named = (one.kind.name(), Role::Subject);
                let mut series = series(named, act, &one.load.served[act], None)?;
                series.memory_mib = Some(milli(one.peak_mib));
                Some(series)
            });
            all.extend(attacked);
            Group {
                key: (*name).to_owned(),
                title: format!("{name} by key while strangers attack"),
                connections: CLIENTS,
                cores: None,
                series: all,
            }
        };
        let groups = NAMES.iter().enumerate().map(group);
        groups.filter(|group| !group.series.is_empty()).collect()
    }
}

/// The row of the memory target; a test reads it.
const MEMORY: &str = "most memory of the server";
/// The row of memory in the end; a test reads it.
const REST: &str = "memory at rest in the end";
/// The table of findings; a test reads it.
const FINDINGS: &str = "Findings";

fn target(what: &str, wanted: String, got: Option<(String, bool)>) -> Vec<String> {
    let (got, word) = match got {
        Some((got, true)) => (got, "yes"),
        Some((got, false)) => (got, "no"),
        None => ("not measured".to_owned(), "–"),
    };
    vec![what.to_owned(), wanted, got, word.to_owned()]
}

fn series(
    (name, role): (&str, Role),
    act: usize,
    served: &Served,
    again: Option<f64>,
) -> Option<Series> {
    // What rested between its requests is in no race and no price: so says its key.
    let key = format!("paced_{name}");
    let named = (key.as_str(), name, role);
    let mut series = Series::one_of_many(named, CLIENTS, served.wall, &served.samples, again)?;
    series.asked_per_s = Some(f64::from(CLIENTS) * [READS_PER_S, WRITES_PER_S][act]);
    series.errors = Some(served.refused.len() as u64);
    series.timeline = None;
    Some(series)
}

fn sorted(served: &Served) -> Option<Sorted> {
    Sorted::new(served.samples.iter().map(|sample| sample.took))
}

fn at_ms(served: &Served, per_mille: u64) -> Option<f64> {
    Some(us(sorted(served)?.at(per_mille)) / 1e3)
}

fn p99_ratio(served: &Served, quiet: &Served) -> Option<f64> {
    Some(ratio(sorted(served)?.at(990), sorted(quiet)?.at(990)))
}

/// The beginning of a text, as it may stand in a table.
fn code(text: &str) -> String {
    let sign = |sign: char| match sign {
        '|' | '`' | '\n' | '\r' => ' ',
        sign if sign.is_control() => '·',
        sign => sign,
    };
    let shown: String = text.chars().take(SHOWN_MAX).map(sign).collect();
    if shown.is_empty() {
        shown
    } else {
        format!("`{shown}`")
    }
}

fn two(number: Option<f64>) -> String {
    or_dash(number, 2)
}
