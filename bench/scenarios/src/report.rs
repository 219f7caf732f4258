//! The list benchmark's report in Markdown, and its run for the page.

use std::time::Duration;

use anyhow::{Context, Result};
use measure::markdown::{or_dash, table};
use measure::percentile::{POINTS, Sorted, odd_to_even, ratio, second_to_first};
use serde_json::{Value, json};

use super::phase::Phase;
use super::published;
use super::report_head::{Pairs, ReportHead};
use super::run::{Group, Prices, Run, Series};

const TITLE: &str = "TTL list cache, built-in client";
const METHOD: &str = "\
     The published list of 25 rows, asked for again and again; each connection sends its next \
     request when the last is answered (a closed loop, as published). Latencies are therefore \
     those of requests that were sent: while an answer is slow the requests that would have waited \
     behind it are never sent, and do not count (coordinated omission). The phases took turns in \
     slices. Before and after timing, every column of the page and the total were equal to the \
     answer computed from the catalog's definition. The floor answers from memory with the bytes \
     and headers of the server's own answer: the share of client, network and HTTP library in \
     every sample. The lean floor answers with the same body and a short head. Percentiles are by \
     nearest rank, of all samples. Samples in this file are within 0.16 % of the measured ones.";

/// Phases by the first server and its floors.
pub const OWN_PHASES: usize = 5;

/// A finished run: five phases, in the order uncached, exact, ttl, floor, lean floor.
pub struct Report<'a> {
    /// Everything a reader needs to repeat the run, in the order shown.
    pub parameters: Pairs,
    /// Where it ran, in the order shown.
    pub machine: Pairs,
    /// Servers to reckon prices with.
    pub prices: Prices,
    /// Connections of each phase.
    pub connections: u32,
    /// What was measured.
    pub phases: &'a [Phase; OWN_PHASES],
    /// The first three by a second server, whose store is in PostgreSQL, where there is one.
    pub further: &'a [Phase],
}

impl Report<'_> {
    /// The run as page and programs read it, with the published figures beside.
    ///
    /// # Errors
    /// When a phase has no samples.
    pub fn run(&self) -> Result<Run> {
        let phases = self.phases.iter().chain(self.further);
        let series = phases.map(|phase| self.series(phase));
        let mut series = series.collect::<Result<Vec<Series>>>()?;
        series.extend(published::list().map(|series| Series {
            // The page compares with our own list without a cache unless asked otherwise.
            role: super::run::Role::Other,
            ..series
        }));
        let connections = self.connections;
        let groups = vec![Group {
            key: "list".to_owned(),
            title: "list of 25 rows".to_owned(),
            connections,
            cores: None,
            series,
        }];
        Ok(Run {
            prices: Some(self.prices.clone()),
            ..self.head().run(Vec::new(), groups)
        })
    }

    fn head(&self) -> ReportHead {
        let started = self.parameters.iter().find(|(key, _)| *key == "started");
        let started = started.and_then(|(_, value)| value.as_str());
        ReportHead {
            kind: "ttl",
            title: TITLE,
            lead: self.lead(),
            method: METHOD,
            started: started.unwrap_or_default().to_owned(),
            machine: self.machine.clone(),
            parameters: self.parameters.clone(),
        }
    }

    fn lead(&self) -> String {
        let of = |wanted: &str| {
            let pairs = self.machine.iter().chain(&self.parameters);
            let found = pairs.into_iter().find(|(key, _)| *key == wanted);
            found.map_or(String::new(), |(_, value)| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            })
        };
        format!(
            "The published list query over {} rows, {}; {} connection{}, {} cores of {}.",
            of("rows"),
            if of("index") == "true" {
                "with an index"
            } else {
                "without an index, as published"
            },
            self.connections,
            if self.connections == 1 { "" } else { "s" },
            of("cores"),
            of("cpu"),
        )
    }

    fn series(&self, phase: &Phase) -> Result<Series> {
        let Phase {
            name,
            title,
            role,
            wall,
            samples,
            ..
        } = phase;
        let series = Series::measured(name, title, *role, self.connections, *wall, samples);
        let mut series = series.with_context(|| format!("{title}: no samples"))?;
        let counted = phase.hits + phase.misses;
        if counted > 0 && *role != super::run::Role::Floor {
            series.hits_percent = Some(100.0 * phase.hits as f64 / counted as f64);
        }
        // The first failed answer ends a run, so whatever is reported had none.
        series.errors = Some(0);
        Ok(series)
    }

    /// One line for each phase.
    ///
    /// # Errors
    /// When a phase has no samples.
    pub fn summary(&self) -> Result<String> {
        let sorted = self.sorted()?;
        let [uncached, exact, _, floor, lean] = sorted.each_ref().map(Sorted::median);
        let rows = self.phases.iter().zip(&sorted).map(|(phase, sorted)| {
            let own = sorted.median();
            vec![
                phase.title.clone(),
                wall(phase.wall),
                format!("{:.0}", phase.per_second()),
                us(sorted.average()),
                us(own),
                us(sorted.at(990)),
                times(ratio(own, floor)),
                times(ratio(own, lean)),
                times(ratio(uncached, own)),
                times(ratio(exact, own)),
            ]
        });
        let head = "phase|wall|calls/s|avg µs|p50 µs|p99 µs|p50 to floor|to lean floor\
                    |no cache to this|exact to this";
        let mut summary = table(head, rows.collect());
        if !self.further.is_empty() {
            summary.push('\n');
            summary.push_str(&self.on_postgres()?);
        }
        Ok(summary)
    }

    /// The second server beside the first.
    fn on_postgres(&self) -> Result<String> {
        let row = |(there, here): (&Phase, &Phase)| -> Result<Vec<String>> {
            let [sorted, own] = [sort(there)?, sort(here)?];
            let each = |phase: &Phase, us: f64| or_dash(Some(us / phase.samples.len() as f64), 1);
            let node = |phase: &Phase| {
                let spent = phase.spent.map(|spent| each(phase, spent.node_us));
                spent.unwrap_or_else(|| or_dash(None, 1))
            };
            let backends = there.spent.and_then(|spent| spent.backends_us);
            Ok(vec![
                there.title.clone(),
                format!("{:.0}", there.per_second()),
                us(sorted.median()),
                us(sorted.at(990)),
                times(ratio(sorted.median(), own.median())),
                node(here),
                node(there),
                backends.map_or_else(|| or_dash(None, 1), |us| each(there, us)),
            ])
        };
        let rows = self.further.iter().zip(self.phases).map(row);
        let head = "phase|calls/s|p50 µs|p99 µs|p50 to the same on a data directory\
                    |CPU µs, data directory|CPU µs, on PostgreSQL: node|backends";
        Ok(table(head, rows.collect::<Result<_>>()?))
    }

    fn sorted(&self) -> Result<[Sorted; 5]> {
        let [uncached, exact, ttl, floor, lean] = self.phases;
        Ok([
            sort(uncached)?,
            sort(exact)?,
            sort(ttl)?,
            sort(floor)?,
            sort(lean)?,
        ])
    }

    fn percentiles(sorted: &[Sorted; 5]) -> String {
        let line = |name: &str, values: [Duration; 5]| {
            let [uncached, exact, ttl, floor, lean] = values;
            let ratios = [
                (uncached, exact),
                (uncached, ttl),
                (exact, ttl),
                (exact, floor),
                (exact, lean),
            ];
            let ratios = ratios.map(|(left, right)| times(ratio(left, right)));
            [
                vec![name.to_owned()],
                values.map(us).to_vec(),
                ratios.to_vec(),
            ]
            .concat()
        };
        let each = |value: &dyn Fn(&Sorted) -> Duration| sorted.each_ref().map(value);
        let mut rows: Vec<Vec<String>> = POINTS
            .iter()
            .map(|(name, at)| line(name, each(&|sorted| sorted.at(*at))))
            .collect();
        rows.push(line("avg", each(&Sorted::average)));
        let head = "µs|no cache|exact|ttl|floor|lean floor|no cache / exact|no cache / ttl\
                    |exact / ttl|exact / floor|exact / lean floor";
        table(head, rows)
    }

    fn against_itself(&self) -> String {
        let rows = self.phases.iter().map(|phase| {
            let took: Vec<Duration> = phase.samples.iter().map(|sample| sample.took).collect();
            let [turns, halves] = [odd_to_even, second_to_first].map(|pair| pair(&took));
            vec![phase.title.clone(), or_dash(turns, 3), or_dash(halves, 3)]
        });
        table(
            "phase|odd / even samples|second / first half",
            rows.collect(),
        )
    }

    fn beside_published(&self, [uncached, exact, ttl, ..]: &[Sorted; 5]) -> String {
        let here = |sorted: &Sorted, name: &str| {
            let at = POINTS.iter().find(|(point, _)| *point == name);
            ms(at.map_or_else(|| sorted.average(), |(_, per_mille)| sorted.at(*per_mille)))
        };
        let line =
            |name: &str, cells: [String; 5]| [vec![name.to_owned()], cells.to_vec()].concat();
        let mut rows: Vec<Vec<String>> = published::LIST_MS
            .iter()
            .map(|(name, plain, cached)| {
                let [plain, cached] = [plain, cached].map(|ms| format!("{ms:.3}"));
                let ours = [uncached, exact, ttl].map(|sorted| here(sorted, name));
                let [uncached, exact, ttl] = ours;
                line(name, [plain, uncached, exact, cached, ttl])
            })
            .collect();
        let [uncached, exact, ttl, ..] = self.phases;
        let [plain, cached] = published::LIST_PER_SECOND.map(|rate| rate.to_string());
        let ours = [uncached, exact, ttl].map(|phase| format!("{:.0}", phase.per_second()));
        let [own_uncached, own_exact, own_ttl] = ours;
        rows.push(line(
            "calls/s",
            [plain, own_uncached, own_exact, cached, own_ttl],
        ));
        let published = published::LIST_WALL_MS.map(|ms| wall(Duration::from_millis(ms as u64)));
        let [plain, cached] = published;
        let ours = [uncached, exact, ttl].map(|phase| wall(phase.wall));
        let [own_uncached, own_exact, own_ttl] = ours;
        rows.push(line(
            "wall",
            [plain, own_uncached, own_exact, cached, own_ttl],
        ));
        let head = "ms|published, no cache|no cache, here|exact, here|published, ttl|ttl, here";
        table(head, rows)
    }
}

fn sort(phase: &Phase) -> Result<Sorted> {
    let samples = phase.samples.iter().map(|sample| sample.took);
    Sorted::new(samples).with_context(|| format!("{}: no samples", phase.title))
}

/// The report in Markdown; page and samples stand beside it.
///
/// # Errors
/// When a phase has no samples.
pub fn render(report: &Report<'_>) -> Result<String> {
    let sorted = report.sorted()?;
    let rest = format!(
        "## Percentiles\n\nBy nearest rank.\n\n{}\n## A against A\n\nMedians of one phase against \
         itself. Differences between phases that are no larger are noise.\n\n{}\n## Beside the \
         published results\n\nAnother machine and another client (theirs builds and parses in the \
         official SDK), so only the\nratios compare. Source: {}.\n\n{}",
        Report::percentiles(&sorted),
        report.against_itself(),
        published::LIST_IN,
        report.beside_published(&sorted),
    );
    let averages = report
        .phases
        .iter()
        .zip(&sorted)
        .flat_map(|(phase, sorted)| {
            let average = (sorted.average().as_secs_f64() * 1e7).round() / 10.0;
            let wall_ms = phase.wall.as_millis() as u64;
            let of = |what: &str| format!("{}_{what}", phase.name);
            [
                (of("avg_us"), json!(average)),
                (of("wall_ms"), json!(wall_ms)),
            ]
        });
    let summary = format!("{}\n", report.summary()?);
    Ok(report.head().markdown(averages.collect(), &summary, &rest))
}

fn us(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1e6)
}

fn ms(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64() * 1e3)
}

fn times(ratio: f64) -> String {
    format!("{ratio:.2}x")
}

/// As the published results write it: `22m43.4s`.
fn wall(wall: Duration) -> String {
    let tenths = (wall.as_millis() + 50) / 100;
    let (minutes, seconds) = (tenths / 600, (tenths % 600) as f64 / 10.0);
    if minutes > 0 {
        format!("{minutes}m{seconds:.1}s")
    } else {
        format!("{seconds:.1}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prices;
    use crate::run::{Role, Sample, Source};
    use hyper::Request;
    use measure::costs::Spent;

    fn phase(name: &'static str, role: Role, samples_us: &[u64]) -> Phase {
        let mut phase = Phase::new((name, name, role), 0, Request::default());
        let mut ended = Duration::ZERO;
        for took in samples_us.iter().copied().map(Duration::from_micros) {
            ended += took;
            phase.samples.push(Sample { ended, took });
        }
        phase.wall = ended;
        phase
    }

    fn phases() -> [Phase; 5] {
        [
            phase("uncached", Role::Reference, &[200, 210, 220, 1_000]),
            phase("exact", Role::Subject, &[50, 60, 70, 80]),
            phase("ttl", Role::Other, &[60, 60, 60, 60]),
            phase("floor", Role::Floor, &[40, 40, 40, 40]),
            phase("lean", Role::Floor, &[30, 30, 30, 30]),
        ]
    }

    fn report(phases: &[Phase; 5]) -> Report<'_> {
        Report {
            parameters: vec![
                ("started", json!("2026-11-21T00:00:00.000Z")),
                ("iterations", json!(4)),
            ],
            machine: vec![("cpu", json!("A: \"CPU\"")), ("cores", json!(2))],
            prices: prices::read(None).unwrap(),
            connections: 1,
            phases,
            further: &[],
        }
    }

    #[test]
    fn the_report_states_parameters_percentiles_ratios_and_the_published_figures() {
        let phases = phases();
        let text = render(&report(&phases)).unwrap();
        for part in [
            "\niterations: 4\ncpu: \"A: \\\"CPU\\\"\"\ncores: 2\nuncached_avg_us: 407.5\n",
            "| p50 | 210.0 | 60.0 | 60.0 | 40.0 | 30.0 | 3.50x | 3.50x | 1.00x | 1.50x | 2.00x |\n",
            "| max | 1000.0 | 80.0 | 60.0 | 40.0 | 30.0 | 12.50x | 16.67x | 1.33x | 2.00x | 2.67x |\n",
            "| p50 | 13.187 | 0.210 | 0.060 | 6.108 | 0.060 |\n",
            "| calls/s | 73 | 2454 | 15385 | 155 | 16667 |\n",
            "| wall | 22m43.4s | 0.0s | 0.0s | 10m44.5s | 0.0s |\n",
            "| floor | 0.0s | 25000 | 40.0 | 40.0 | 40.0 | 1.00x | 1.33x | 5.25x | 1.50x |\n",
            "(run.json)",
        ] {
            assert!(text.contains(part), "{part}\n--- is not in\n{text}");
        }
    }

    #[test]
    fn the_run_holds_each_phase_and_marks_what_is_quoted() {
        let phases = phases();
        let run = report(&phases).run().unwrap();
        let series = &run.groups[0].series;
        let found: Vec<(&str, Role, Source)> = series
            .iter()
            .map(|one| (one.key.as_str(), one.role, one.source))
            .collect();
        let wanted = [
            ("uncached", Role::Reference, Source::Measured),
            ("exact", Role::Subject, Source::Measured),
            ("ttl", Role::Other, Source::Measured),
            ("floor", Role::Floor, Source::Measured),
            ("lean", Role::Floor, Source::Measured),
            ("published_uncached", Role::Other, Source::Quoted),
            ("published_ttl", Role::Other, Source::Quoted),
        ];
        assert_eq!(found, wanted);
        assert_eq!(series[0].points_us["p50"] as u32, 210);
    }

    #[test]
    fn a_second_server_stands_beside_the_first_with_what_both_cost() {
        let mut phases = phases();
        let mut further = [phase(
            "exact, on PostgreSQL",
            Role::Other,
            &[60, 90, 90, 90],
        )];
        // The pairs are in order, so the first one is held against the list without a cache.
        further[0].spent = Some(Spent {
            node_us: 40.0,
            backends_us: Some(20.0),
        });
        phases[0].spent = Some(Spent {
            node_us: 80.0,
            backends_us: None,
        });
        let mut report = report(&phases);
        report.further = &further;
        let text = report.summary().unwrap();
        let wanted = "| exact, on PostgreSQL | 12121 | 90.0 | 90.0 | 0.43x | 20.0 | 10.0 | 5.0 |\n";
        assert!(text.ends_with(wanted), "{text}");
        assert_eq!(report.run().unwrap().groups[0].series.len(), 5 + 1 + 2);
    }

    #[test]
    fn a_phase_without_samples_makes_no_report() {
        let mut phases = phases();
        phases[1].samples.clear();
        let error = render(&report(&phases)).unwrap_err().to_string();
        assert!(error.starts_with("exact: no samples"), "{error}");
    }

    #[test]
    fn wall_times_are_written_as_published() {
        let written = [1_363_400, 59_940, 59_960, 60_000]
            .map(Duration::from_millis)
            .map(wall);
        assert_eq!(written, ["22m43.4s", "59.9s", "1m0.0s", "1m0.0s"]);
    }
}
