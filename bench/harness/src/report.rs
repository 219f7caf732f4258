//! The report of a run: Markdown for people, JSON for machines.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use measure::costs::{BACKENDS, NODE};
use measure::markdown::{front_matter, table};
use measure::record::{WrittenReport, object, write};
use model::Timestamp;
use model::calendar::iso_ms;
use serde_json::{Value, json};

use crate::contrast::{Contrast, Line};
use crate::figure::{Figure, Goal, Round, Slice, Spread};

/// A run.
pub struct Report {
    name: &'static str,
    started: Timestamp,
    /// All that a reader needs to repeat it.
    pub parameters: Vec<(&'static str, Value)>,
    /// What was measured, in the order shown.
    pub figures: Vec<Figure>,
    /// What was measured in two situations, in the order shown.
    pub contrasts: Vec<Contrast>,
    /// What was not, and why.
    pub failures: Vec<String>,
}

impl Report {
    /// A report of the run `name` without figures. `parameters` are all that a reader needs to
    /// repeat it.
    pub fn new(
        name: &'static str,
        started: Timestamp,
        parameters: Vec<(&'static str, Value)>,
    ) -> Report {
        Report {
            name,
            started,
            parameters,
            figures: Vec::new(),
            contrasts: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Writes the run's folder below `out`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, out: &Path) -> Result<WrittenReport> {
        let figures = self.figures.iter();
        let figures = figures.map(|figure| (&figure.key, figure.raw()));
        let contrasts = self.contrasts.iter();
        let contrasts = contrasts.map(|contrast| (&contrast.key, contrast.raw()));
        let mut samples = json!({ "figures": object(figures) });
        if !self.contrasts.is_empty() {
            samples["contrasts"] = Value::Object(object(contrasts));
        }
        let machine = Value::Object(object(self.parameters.clone()));
        let files = [
            ("report.md", self.render()),
            ("machine.json", format!("{machine:#}\n")),
            ("samples.json", format!("{samples}\n")),
        ];
        write(out, self.started, self.name, &files, self.tables())
    }

    /// The tables of all figures and contrasts.
    fn tables(&self) -> String {
        let mut tables = Vec::new();
        if !self.figures.is_empty() {
            tables.push(summary(&self.figures));
        }
        if !self.contrasts.is_empty() {
            tables.push(compared(&self.contrasts));
        }
        tables.join("\n")
    }

    fn render(&self) -> String {
        let started = vec![("started", json!(iso_ms(self.started)))];
        let mut out = front_matter([started, self.parameters.clone()].concat());
        out.push_str(INTRODUCTION);
        if !self.contrasts.is_empty() {
            out.push_str(POOLED);
        }
        out.push_str(&self.tables());
        for failure in &self.failures {
            write!(out, "\nNot measured: {failure}\n").expect("writing to a string cannot fail");
        }
        out.push_str(&processor(&self.figures));
        out.push_str("\n## Rounds\n");
        for figure in &self.figures {
            out.push_str(&details(figure));
        }
        for contrast in &self.contrasts {
            out.push_str(&turns(contrast));
        }
        out
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

const POOLED: &str = "\
Of latencies in two situations the rounds are base, subject, base again. Their percentiles are
taken of the samples of all rounds together; *ratio* is the subject's to the base's, with the least
and the greatest of single rounds, and *A/A* that of the base after the subject to the base before.

";

fn target(goal: Goal, suffix: &str) -> String {
    match goal {
        Goal::AtLeast(least) => format!("≥ {least}{suffix}"),
        Goal::AtMost(most) => format!("≤ {most}{suffix}"),
        Goal::Reported => "–".to_owned(),
    }
}

fn met(is_met: Option<bool>) -> String {
    let word = match is_met {
        Some(true) => "yes",
        Some(false) => "**no**",
        None => "–",
    };
    word.to_owned()
}

/// A line for each point of each contrast.
fn compared(contrasts: &[Contrast]) -> String {
    let lines = contrasts.iter().flat_map(|contrast| {
        contrast.compared().into_iter().map(move |point| {
            let (least, greatest) = point.rounds;
            let ratio = point.ratio();
            vec![
                format!("{}, {}", contrast.title, point.point),
                target(point.goal, "x"),
                format!("{} µs ({})", shown(point.subject_us), contrast.subject),
                format!("{} µs ({})", shown(point.base_us), contrast.base),
                format!("{ratio:.2} ({least:.2}–{greatest:.2})"),
                format!("{:.2}", point.itself),
                met(point.is_met()),
            ]
        })
    });
    let head = "latency|target|subject|base|ratio|A/A|met";
    table(head, lines.collect())
}

/// Every slice of a contrast.
fn turns(contrast: &Contrast) -> String {
    let slices = contrast.slices();
    let mut head = vec!["round", "slice", "answers"];
    let points = slices.first().map_or(&[][..], |line| &line.points);
    head.extend(points.iter().map(|(name, _)| *name));
    let row = |line: &Line| {
        let mut row = vec![line.round.to_string(), line.name.to_owned()];
        row.push(line.answers.to_string());
        row.extend(line.points.iter().map(|(_, us)| shown(*us)));
        row
    };
    let Contrast {
        title,
        subject,
        base,
        ..
    } = contrast;
    let rows = table(&head.join("|"), slices.iter().map(row).collect());
    format!("\n### {title}\n\nSubject: {subject}. Base: {base}.\n\n{rows}")
}

fn summary(figures: &[Figure]) -> String {
    let rows = figures.iter().map(|figure| {
        vec![
            figure.title.clone(),
            target(figure.goal, &suffix(figure)),
            format!("{} {}", shown(figure.measured().median), figure.unit),
            figure.floors().map_or("–".to_owned(), |floor| {
                format!("{} ({})", shown(floor.median), figure.floor)
            }),
            figure.ratio().map_or("–".to_owned(), spread),
            figure.itself().map_or("–".to_owned(), spread),
            met(figure.is_met()),
        ]
    });
    let head = "figure|target|measured|floor|ratio|A/A|met";
    table(head, rows.collect())
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
    let head = "µs per operation|measured|floor|ratio";
    let apart = backends(figures);
    format!("\n## Processor time\n\n{}{apart}", table(head, rows))
}

/// The same where a database has part of it, apart.
fn backends(figures: &[Figure]) -> String {
    let row = |figure: &Figure| {
        let [there, floor] = figure.noted(BACKENDS);
        there.or(floor)?;
        let [node, own] = figure.noted(NODE);
        let cells = [node, there, own, floor].map(|us| us.map_or("–".to_owned(), shown));
        Some([vec![figure.title.clone()], cells.to_vec()].concat())
    };
    let rows: Vec<Vec<String>> = figures.iter().filter_map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let head = "µs per operation|measured: process|measured: PostgreSQL|floor: process\
                |floor: PostgreSQL";
    format!("\n{}", table(head, rows))
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
    format!(
        "\n### {}\n\n{floor}{}",
        figure.title,
        table(&head.join("|"), rows)
    )
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
    use crate::contrast::Turn;

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
        let text = processor(&[figure.clone()]);
        assert!(
            text.ends_with("| point read | 30.0 | 10.0 | 3.00 |\n"),
            "{text}"
        );
        let apart = [(NODE, 12.0), (BACKENDS, 18.0)];
        figure.rounds[0].first.notes.extend(apart);
        let text = processor(&[figure]);
        let wanted = "| point read | 12.0 | 18.0 | – | – |\n";
        assert!(text.ends_with(wanted), "{text}");
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
    fn a_contrast_is_a_line_for_each_point_and_one_for_each_slice() {
        let turn = Turn::new(vec![10_000], vec![25_000], vec![30_000]).unwrap();
        let contrast = Contrast {
            key: "key".into(),
            title: "point read".into(),
            subject: "loaded",
            base: "quiet",
            goals: [Goal::Reported, Goal::AtMost(3.0)],
            turns: vec![turn],
        };
        let text = compared(std::slice::from_ref(&contrast));
        let lines: Vec<&str> = text.lines().skip(2).collect();
        let wanted = [
            "| point read, p50 | – | 25.0 µs (loaded) | 10.0 µs (quiet) | 2.50 (2.50–2.50) | 3.00 | – |",
            "| point read, p99 | ≤ 3x | 25.0 µs (loaded) | 30.0 µs (quiet) | 0.83 (0.83–0.83) | 3.00 | yes |",
        ];
        assert_eq!(lines, wanted);
        let text = turns(&contrast);
        let wanted = "\n### point read\n\nSubject: loaded. Base: quiet.\n\n\
                      | round | slice | answers | p50 µs | p90 µs | p99 µs | max µs |\n";
        assert!(text.starts_with(wanted), "{text}");
        let wanted = "| 1 | subject | 1 | 25.0 | 25.0 | 25.0 | 25.0 |\n";
        assert!(text.contains(wanted), "{text}");
    }

    #[test]
    fn a_run_is_written_as_three_files() {
        let started = model::calendar::parse_iso("2026-11-21T12:34:56.789Z").unwrap();
        let mut report = Report::new("trial", started, vec![("cpu", json!("a: \"b\""))]);
        report.figures.push(figure(Some(50.0)));
        report.failures.push("Lists: no".into());
        let out = tempfile::tempdir().unwrap();
        let written = report.write(out.path()).unwrap();
        assert!(written.folder.ends_with("2026-11-21T12-34-56Z-trial"));
        let read = |name: &str| std::fs::read_to_string(written.folder.join(name)).unwrap();
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
    }
}
