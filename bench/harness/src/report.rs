//! The report of a run: Markdown for people, JSON for machines.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use model::Timestamp;
use model::calendar::iso_ms;
use serde_json::{Map, Value, json};

use crate::figure::{Figure, Goal, Round, Slice, Spread};

/// A run.
pub struct Report {
    started: Timestamp,
    parameters: Vec<(&'static str, Value)>,
    /// What was measured, in the order shown.
    pub figures: Vec<Figure>,
    /// What was not, and why.
    pub failures: Vec<String>,
}

/// What was written.
pub struct Written {
    /// The table of all figures.
    pub summary: String,
    /// The run's folder.
    pub folder: PathBuf,
}

impl Report {
    /// A report without figures. `parameters` are all that a reader needs to repeat the run.
    pub fn new(started: Timestamp, parameters: Vec<(&'static str, Value)>) -> Report {
        Report {
            started,
            parameters,
            figures: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Writes the run's folder below `out`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, out: &Path) -> Result<Written> {
        let folder = out.join(folder_name(self.started));
        let cannot = || format!("{} cannot be written", folder.display());
        fs::create_dir_all(&folder).with_context(cannot)?;
        let parameters: Map<String, Value> = self
            .parameters
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.clone()))
            .collect();
        let figures: Map<String, Value> = self
            .figures
            .iter()
            .map(|figure| (figure.key.clone(), figure.raw()))
            .collect();
        let machine = format!("{:#}\n", Value::Object(parameters));
        let samples = format!("{}\n", json!({ "figures": figures }));
        for (name, text) in [
            ("report.md", self.render()),
            ("machine.json", machine),
            ("samples.json", samples),
        ] {
            fs::write(folder.join(name), text).with_context(cannot)?;
        }
        Ok(Written {
            summary: summary(&self.figures),
            folder,
        })
    }

    fn render(&self) -> String {
        let mut out = self.front_matter();
        out.push_str(INTRODUCTION);
        out.push_str(&summary(&self.figures));
        for failure in &self.failures {
            write!(out, "\nNot measured: {failure}\n").expect("writing to a string cannot fail");
        }
        out.push_str(&processor(&self.figures));
        out.push_str("\n## Rounds\n");
        for figure in &self.figures {
            out.push_str(&details(figure));
        }
        out
    }

    /// A JSON scalar is a YAML scalar, so every value is quoted as it must be.
    fn front_matter(&self) -> String {
        let mut out = format!("---\nstarted: \"{}\"\n", iso_ms(self.started));
        for (key, value) in &self.parameters {
            writeln!(out, "{key}: {value}").expect("writing to a string cannot fail");
        }
        out + "---\n"
    }
}

const INTRODUCTION: &str = "
# Measured figures

What each figure means and what its floor is: docs/performance.md. A round is the subject, the
floor, the subject again; *ratio* is the subject's mean to the floor of the same round, *A/A* its
second slice to its first. Each is the median of all rounds, with the least and the greatest.
Differences no larger than A/A are noise. Latencies are single samples on the client's side;
processor time is that of the measured process, from the kernel. Raw values: samples.json
(latencies as pairs of nanoseconds and count, within 0.8 %).

";

/// `2026-11-21T12-34-56Z-figures`: a name on every file system, and in the order of time.
fn folder_name(started: Timestamp) -> String {
    format!("{}Z-figures", iso_ms(started)[..19].replace(':', "-"))
}

fn summary(figures: &[Figure]) -> String {
    let rows = figures.iter().map(|figure| {
        let goal = match figure.goal {
            Goal::AtLeast(least) => format!("≥ {least}{}", suffix(figure)),
            Goal::AtMost(most) => format!("≤ {most}{}", suffix(figure)),
            Goal::Told => "–".to_owned(),
        };
        let met = match figure.is_met() {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "–",
        };
        vec![
            figure.title.clone(),
            goal,
            format!("{} {}", shown(figure.measured().median), figure.unit),
            figure.floors().map_or("–".to_owned(), |floor| {
                format!("{} ({})", shown(floor.median), figure.floor)
            }),
            figure.ratio().map_or("–".to_owned(), spread),
            figure.itself().map_or("–".to_owned(), spread),
            met.to_owned(),
        ]
    });
    table(
        &[
            "figure", "target", "measured", "floor", "ratio", "A/A", "met",
        ],
        rows.collect(),
    )
}

/// The steadiest figures there are: other programs take time from the machine, not from these.
fn processor(figures: &[Figure]) -> String {
    let rows: Vec<Vec<String>> = figures
        .iter()
        .filter_map(|figure| {
            let (subject, floor) = figure.processor()?;
            let ratio = format!("{:.2}", subject / floor);
            Some(vec![
                figure.title.clone(),
                shown(subject),
                shown(floor),
                ratio,
            ])
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = ["µs per operation", "measured", "floor", "ratio"];
    format!("\n## Processor time\n\n{}", table(&head, rows))
}

fn suffix(figure: &Figure) -> String {
    match figure.ratio() {
        Some(_) => "x".to_owned(),
        None => format!(" {}", figure.unit),
    }
}

fn spread(spread: Spread) -> String {
    let Spread {
        median,
        least,
        greatest,
    } = spread;
    format!("{median:.2} ({least:.2}–{greatest:.2})")
}

fn details(figure: &Figure) -> String {
    let notes: Vec<&'static str> = figure.rounds[0]
        .first
        .notes
        .iter()
        .map(|note| note.0)
        .collect();
    let mut head = vec!["round", "slice", figure.unit];
    // A median latency stands in the column of values already.
    let notes: Vec<&str> = notes
        .into_iter()
        .filter(|name| *name != figure.unit)
        .collect();
    head.extend(&notes);
    if let Some(floor) = figure.rounds[0].floor.as_ref() {
        let own = floor.notes.iter().map(|note| note.0);
        head.extend(own.filter(|name| !notes.contains(name) && *name != figure.unit));
    }
    let mut rows = Vec::new();
    for (number, round) in figure.rounds.iter().enumerate() {
        for (name, slice) in slices(round) {
            let mut row = vec![
                (number + 1).to_string(),
                name.to_owned(),
                shown(slice.value),
            ];
            for wanted in &head[3..] {
                let note = slice.notes.iter().find(|(note, _)| note == wanted);
                row.push(note.map_or("–".to_owned(), |(_, value)| shown(*value)));
            }
            rows.push(row);
        }
    }
    let floor = match figure.floor {
        "" => String::new(),
        floor => format!("Floor: {floor}.\n\n"),
    };
    format!("\n### {}\n\n{floor}{}", figure.title, table(&head, rows))
}

fn slices(round: &Round) -> impl Iterator<Item = (&'static str, &Slice)> {
    let all = [
        ("A", Some(&round.first)),
        ("floor", round.floor.as_ref()),
        ("A again", round.second.as_ref()),
    ];
    all.into_iter()
        .filter_map(|(name, slice)| Some((name, slice?)))
}

fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let rule: Vec<String> = (0..head.len())
        .map(|at| if at == 0 { "---" } else { "---:" }.to_owned())
        .collect();
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}{}{rows}", line(&head), line(&rule))
}

/// Three digits, or all of a larger number.
fn shown(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(value: f64) -> Slice {
        Slice {
            value,
            notes: vec![("p50 µs", 1.5)],
            samples_ns: vec![1_000, 1_000],
        }
    }

    fn figure(floor: Option<f64>) -> Figure {
        Figure {
            key: "key".into(),
            title: "point read".into(),
            unit: "requests/s",
            goal: Goal::AtLeast(0.4),
            floor: if floor.is_some() { "responder" } else { "" },
            rounds: vec![Round {
                first: slice(20.0),
                floor: floor.map(slice),
                second: floor.map(|_| slice(30.0)),
            }],
        }
    }

    #[test]
    fn a_figure_is_one_line_of_the_summary() {
        let line = |figure| summary(&[figure]).lines().nth(2).unwrap().to_owned();
        let wanted = "| point read | ≥ 0.4x | 25.0 requests/s | 50.0 (responder) \
                      | 0.50 (0.50–0.50) | 1.50 (1.50–1.50) | yes |";
        assert_eq!(line(figure(Some(50.0))), wanted);
        assert!(line(figure(Some(100.0))).ends_with("| **no** |"));
        let wanted = "| point read | ≥ 0.4 requests/s | 20.0 requests/s | – | – | – | yes |";
        assert_eq!(line(figure(None)), wanted);
    }

    #[test]
    fn processor_time_has_a_table_of_its_own() {
        let mut figure = figure(Some(50.0));
        assert_eq!(processor(&[figure.clone()]), "");
        let note = |us| vec![(crate::figure::PROCESSOR, us)];
        figure.rounds[0].first.notes = note(30.0);
        figure.rounds[0].second.as_mut().unwrap().notes = note(30.0);
        figure.rounds[0].floor.as_mut().unwrap().notes = note(10.0);
        let text = processor(&[figure]);
        assert!(
            text.ends_with("| point read | 30.0 | 10.0 | 3.00 |\n"),
            "{text}"
        );
    }

    #[test]
    fn every_slice_is_a_line_of_the_details() {
        let text = details(&figure(Some(50.0)));
        let wanted = "\n### point read\n\nFloor: responder.\n\n\
                      | round | slice | requests/s | p50 µs |\n| --- | ---: | ---: | ---: |\n\
                      | 1 | A | 20.0 | 1.50 |\n| 1 | floor | 50.0 | 1.50 |\n\
                      | 1 | A again | 30.0 | 1.50 |\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn a_run_is_written_as_three_files() {
        let started = model::calendar::parse_iso("2026-11-21T12:34:56.789Z").unwrap();
        let mut report = Report::new(started, vec![("cpu", json!("a: \"b\""))]);
        report.figures.push(figure(Some(50.0)));
        report.failures.push("Lists: no".into());
        let out = std::env::temp_dir().join(format!("harness-report-{}", std::process::id()));
        let written = report.write(&out).unwrap();
        assert!(written.folder.ends_with("2026-11-21T12-34-56Z-figures"));
        let read = |name: &str| fs::read_to_string(written.folder.join(name)).unwrap();
        let text = read("report.md");
        assert!(
            text.starts_with("---\nstarted: \"2026-11-21T12:34:56.789+00:00\"\ncpu: \"a: \\\"")
        );
        assert!(text.contains("\nNot measured: Lists: no\n"));
        let samples: Value = serde_json::from_str(&read("samples.json")).unwrap();
        let first = &samples["figures"]["key"]["rounds"][0]["first"];
        assert_eq!(first["counts_ns"], json!([[1_004, 2]]));
        assert_eq!(
            serde_json::from_str::<Value>(&read("machine.json")).unwrap()["cpu"],
            "a: \"b\""
        );
        fs::remove_dir_all(&out).unwrap();
    }
}
