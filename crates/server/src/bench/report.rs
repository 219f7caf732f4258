//! The benchmark's report in Markdown, and the raw samples as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use super::percentile::{POINTS, Sorted, odd_to_even, ratio, second_to_first};
use super::phase::Phase;

/// The published results, one connection on their authors' machine: point, milliseconds
/// without and with `ttl`.
const PUBLISHED_MS: [(&str, f64, f64); 7] = [
    ("min", 10.783, 4.146),
    ("p50", 13.187, 6.108),
    ("p90", 15.173, 7.862),
    ("p95", 16.450, 8.966),
    ("p99", 21.303, 12.527),
    ("max", 118.957, 75.173),
    ("avg", 13.626, 6.440),
];
const PUBLISHED_WALL: [&str; 2] = ["22m43.4s", "10m44.5s"];
const PUBLISHED_PER_SECOND: [u32; 2] = [73, 155];
const PUBLISHED_IN: &str =
    "appwrite-community/ttl-benchmark and its write-up of 21 April 2026 (100,000 calls a phase)";

/// A finished run: three phases, in the order plain, ttl, floor.
pub struct Report<'a> {
    /// Everything a reader needs to repeat the run, in the order shown.
    pub parameters: Vec<(&'static str, Value)>,
    /// What was measured.
    pub phases: &'a [Phase; 3],
}

impl Report<'_> {
    /// Every sample in microseconds, one line of JSON.
    pub fn raw(&self) -> String {
        let parameters: serde_json::Map<String, Value> = self
            .parameters
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect();
        let lists = self.phases.iter().map(|phase| {
            let samples = phase.samples.iter().map(|sample| us(*sample));
            format!(
                r#""{}":[{}]"#,
                phase.name,
                samples.collect::<Vec<_>>().join(",")
            )
        });
        let lists: Vec<String> = lists.collect();
        let parameters = Value::Object(parameters);
        format!(
            "{{\"unit\":\"us\",\"parameters\":{parameters},\"samples\":{{{}}}}}\n",
            lists.join(",")
        )
    }

    /// One line for each phase.
    ///
    /// # Errors
    /// When a phase has no samples.
    pub fn summary(&self) -> Result<String> {
        let sorted = self.sorted()?;
        let [plain_us, _, floor_us] = [0, 1, 2].map(|idx: usize| sorted[idx].median());
        let rows = self.phases.iter().zip(&sorted).map(|(phase, sorted)| {
            vec![
                phase.title.clone(),
                wall(phase.wall),
                per_second(phase).to_string(),
                us(sorted.average()),
                us(sorted.median()),
                us(sorted.at(990)),
                times(ratio(sorted.median(), floor_us)),
                times(ratio(plain_us, sorted.median())),
            ]
        });
        let head = "phase|wall|calls/s|avg µs|p50 µs|p99 µs|p50 to floor|no ttl to this";
        Ok(table(head, rows.collect()))
    }

    fn sorted(&self) -> Result<[Sorted; 3]> {
        let sort = |phase: &Phase| {
            let samples = phase.samples.iter().copied();
            Sorted::new(samples).with_context(|| format!("{}: no samples", phase.title))
        };
        let [plain, ttl, floor] = self.phases;
        Ok([sort(plain)?, sort(ttl)?, sort(floor)?])
    }

    fn front_matter(&self, sorted: &[Sorted; 3]) -> String {
        // A JSON scalar is a YAML scalar, so every value is quoted as it must be.
        let mut lines: String = self
            .parameters
            .iter()
            .fold(String::new(), |lines, (key, value)| {
                lines + &format!("{key}: {value}\n")
            });
        for (phase, sorted) in self.phases.iter().zip(sorted) {
            let name = phase.name;
            let (average, wall_ms) = (us(sorted.average()), phase.wall.as_millis());
            write!(
                lines,
                "{name}_avg_us: {average}\n{name}_wall_ms: {wall_ms}\n"
            )
            .expect("writing to a string cannot fail");
        }
        lines
    }

    fn percentiles([plain, ttl, floor]: &[Sorted; 3]) -> String {
        let line = |name: &str, [plain, ttl, floor]: [Duration; 3]| {
            let delta = plain.as_secs_f64() - ttl.as_secs_f64();
            vec![
                name.to_owned(),
                us(plain),
                us(ttl),
                us(floor),
                format!("{:.1}", delta * 1e6),
                times(ratio(plain, ttl)),
                times(ratio(plain, floor)),
                times(ratio(ttl, floor)),
            ]
        };
        let mut rows: Vec<Vec<String>> = POINTS
            .iter()
            .map(|(name, at)| line(name, [plain.at(*at), ttl.at(*at), floor.at(*at)]))
            .collect();
        rows.push(line(
            "avg",
            [plain.average(), ttl.average(), floor.average()],
        ));
        let head = "µs|no ttl|ttl|floor|no ttl − ttl|no ttl / ttl|no ttl / floor|ttl / floor";
        table(head, rows)
    }

    fn against_itself(&self) -> String {
        let shown =
            |ratio: Option<f64>| ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.3}"));
        let rows = self.phases.iter().map(|phase| {
            let [turns, halves] = [odd_to_even, second_to_first].map(|pair| pair(&phase.samples));
            vec![phase.title.clone(), shown(turns), shown(halves)]
        });
        table(
            "phase|odd / even samples|second / first half",
            rows.collect(),
        )
    }

    fn beside_published(&self, [plain, ttl, _]: &[Sorted; 3]) -> String {
        let here = |sorted: &Sorted, name: &str| {
            let at = POINTS.iter().find(|(point, _)| *point == name);
            at.map_or_else(|| sorted.average(), |(_, per_mille)| sorted.at(*per_mille))
        };
        let mut rows: Vec<Vec<String>> = PUBLISHED_MS
            .iter()
            .map(|(name, plain_ms, ttl_ms)| {
                vec![
                    (*name).to_owned(),
                    format!("{plain_ms:.3}"),
                    ms(here(plain, name)),
                    format!("{ttl_ms:.3}"),
                    ms(here(ttl, name)),
                ]
            })
            .collect();
        let [plain, ttl, _] = self.phases;
        let [plain_rate, ttl_rate] = PUBLISHED_PER_SECOND.map(|rate| rate.to_string());
        let rates = [
            plain_rate,
            per_second(plain).to_string(),
            ttl_rate,
            per_second(ttl).to_string(),
        ];
        rows.push([vec!["calls/s".to_owned()], rates.to_vec()].concat());
        let [plain_wall, ttl_wall] = PUBLISHED_WALL.map(str::to_owned);
        let walls = [plain_wall, wall(plain.wall), ttl_wall, wall(ttl.wall)];
        rows.push([vec!["wall".to_owned()], walls.to_vec()].concat());
        table("ms|published, no ttl|here|published, ttl|here", rows)
    }
}

/// The report. `samples` is the name of the file of raw samples beside it.
///
/// # Errors
/// When a phase has no samples.
pub fn render(report: &Report<'_>, samples: &str) -> Result<String> {
    let sorted = report.sorted()?;
    Ok(format!(
        "---\n{front}---\n
# TTL list-cache benchmark, built-in client

Sequential calls over one connection; the phases took turns in slices. Before and after timing,
every column of the page and the total were equal to the answer computed from the catalog's
definition. The floor answers from memory with the bytes and headers of the server's own answer:
the share of client, network and HTTP library in every sample.

{summary}
## Percentiles

By nearest rank.

{percentiles}
## A against A

Medians of one phase against itself. Differences between phases that are no larger are noise.

{itself}
## Beside the published results

Another machine and another client (theirs builds and parses in the official SDK), so only the
ratios compare. Source: {PUBLISHED_IN}.

{published}
Raw samples in microseconds: [{samples}]({samples}).
",
        front = report.front_matter(&sorted),
        summary = report.summary()?,
        percentiles = Report::percentiles(&sorted),
        itself = report.against_itself(),
        published = report.beside_published(&sorted),
    ))
}

/// A Markdown table; `head` names the columns, parted by `|`.
fn table(head: &str, rows: Vec<Vec<String>>) -> String {
    let head: Vec<String> = head.split('|').map(str::to_owned).collect();
    let rule = (0..head.len()).map(|column| if column == 0 { "---" } else { "---:" }.to_owned());
    let lines = [vec![head.clone(), rule.collect()], rows].concat();
    let lines = lines
        .iter()
        .map(|cells| format!("| {} |\n", cells.join(" | ")));
    lines.collect()
}

fn per_second(phase: &Phase) -> u64 {
    (phase.samples.len() as f64 / phase.wall.as_secs_f64()).round() as u64
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
    use hyper::Request;
    use serde_json::json;

    fn phase(name: &'static str, samples_us: &[u64]) -> Phase {
        let mut phase = Phase::new(name, name.to_owned(), 0, Request::default());
        phase.samples = samples_us
            .iter()
            .copied()
            .map(Duration::from_micros)
            .collect();
        phase.wall = phase.samples.iter().sum();
        phase
    }

    fn phases() -> [Phase; 3] {
        [
            phase("no_ttl", &[200, 210, 220, 1_000]),
            phase("ttl", &[50, 60, 70, 80]),
            phase("floor", &[40, 40, 40, 40]),
        ]
    }

    #[test]
    fn the_report_states_parameters_percentiles_deltas_and_the_published_figures() {
        let phases = phases();
        let parameters = vec![("iterations", json!(4)), ("cpu", json!("A: \"CPU\""))];
        let report = Report {
            parameters,
            phases: &phases,
        };
        let text = render(&report, "x.json").unwrap();
        for part in [
            "---\niterations: 4\ncpu: \"A: \\\"CPU\\\"\"\nno_ttl_avg_us: 407.5\n",
            "| p50 | 210.0 | 60.0 | 40.0 | 150.0 | 3.50x | 5.25x | 1.50x |\n",
            "| max | 1000.0 | 80.0 | 40.0 | 920.0 | 12.50x | 25.00x | 2.00x |\n",
            "| p50 | 13.187 | 0.210 | 6.108 | 0.060 |\n",
            "| calls/s | 73 | 2454 | 155 | 15385 |\n",
            "| wall | 22m43.4s | 0.0s | 10m44.5s | 0.0s |\n",
            "| floor | 0.0s | 25000 | 40.0 | 40.0 | 40.0 | 1.00x | 5.25x |\n",
            "[x.json](x.json)",
        ] {
            assert!(text.contains(part), "{part}\n--- is not in\n{text}");
        }
    }

    #[test]
    fn raw_samples_are_json_in_microseconds() {
        let phases = phases();
        let report = Report {
            parameters: vec![("rounds", json!(2))],
            phases: &phases,
        };
        let raw: Value = serde_json::from_str(&report.raw()).unwrap();
        assert_eq!(raw["unit"], "us");
        assert_eq!(raw["parameters"]["rounds"], 2);
        assert_eq!(raw["samples"]["ttl"], json!([50.0, 60.0, 70.0, 80.0]));
    }

    #[test]
    fn a_phase_without_samples_makes_no_report() {
        let mut phases = phases();
        phases[1].samples.clear();
        let report = Report {
            parameters: Vec::new(),
            phases: &phases,
        };
        assert!(
            render(&report, "x.json")
                .unwrap_err()
                .to_string()
                .starts_with("ttl: no samples")
        );
    }

    #[test]
    fn wall_times_are_written_as_published() {
        let written = [1_363_400, 59_940, 59_960, 60_000]
            .map(Duration::from_millis)
            .map(wall);
        assert_eq!(written, ["22m43.4s", "59.9s", "1m0.0s", "1m0.0s"]);
    }
}
