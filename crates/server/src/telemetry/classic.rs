//! Metrics in Prometheus's classic text format (0.0.4), for readers that know no other.
//!
//! It differs from OpenMetrics in the names of counters, which keep their `_total` where the type
//! is written, and in having no end mark. A reader of the one takes counters of the other for
//! unknown.

use std::fmt::Write as _;

use engine::tally::Distribution;

use super::metric_form::{Metric, SECOND_NS, Value};

/// The type of the text (Prometheus, "Exposition formats").
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics that have values.
pub fn text(metrics: &[Metric]) -> String {
    let mut text = String::with_capacity(64 * 1_024);
    for metric in metrics.iter().filter(|metric| !metric.samples.is_empty()) {
        let (name, kind) = (metric.name, metric.kind.word());
        let help = metric.help.replace('\\', "\\\\");
        line(&mut text, format_args!("# HELP {name} {help}."));
        line(&mut text, format_args!("# TYPE {name} {kind}"));
        for (values, value) in &metric.samples {
            let labels = labels(metric.labels, values);
            match value {
                Value::Whole(count) => series(&mut text, name, &labels, count),
                Value::Real(measure) => series(&mut text, name, &labels, measure),
                Value::Times(all) => distribution(&mut text, name, &labels, all, SECOND_NS),
                Value::Sizes(all) => distribution(&mut text, name, &labels, all, 1.0),
            }
        }
    }
    text
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("writing to a string cannot fail");
}

/// `a="x",b="y"`
fn labels(names: &[&str], values: &[String]) -> String {
    let mut text = String::new();
    for (name, value) in names.iter().zip(values) {
        let comma = if text.is_empty() { "" } else { "," };
        let value = value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n");
        write!(text, "{comma}{name}=\"{value}\"").expect("writing to a string cannot fail");
    }
    text
}

fn series(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    if labels.is_empty() {
        line(text, format_args!("{name} {value}"));
    } else {
        line(text, format_args!("{name}{{{labels}}} {value}"));
    }
}

fn distribution(text: &mut String, name: &str, labels: &str, held: &Distribution, unit: f64) {
    let comma = if labels.is_empty() { "" } else { "," };
    let (bucket, mut below) = (format!("{name}_bucket"), 0);
    for (nth, count) in held.counts.iter().enumerate() {
        below += count;
        let bound = held.bounds.get(nth);
        let bound = bound.map_or("+Inf".to_owned(), |bound| {
            (*bound as f64 / unit).to_string()
        });
        let labels = format!("{labels}{comma}le=\"{bound}\"");
        series(text, &bucket, &labels, below);
    }
    series(text, &format!("{name}_sum"), labels, held.sum as f64 / unit);
    series(text, &format!("{name}_count"), labels, held.count());
}

#[cfg(test)]
mod tests {
    use super::super::metric::Kind;
    use super::*;

    #[test]
    fn counters_keep_their_names_and_labels_are_escaped() {
        let metric = Metric {
            name: "a_total",
            kind: Kind::Counter,
            labels: &["b", "c"],
            help: "What it is",
            samples: vec![(vec!["x\"y".into(), "\\".into()], Value::Whole(7))],
        };
        let wanted = "# HELP a_total What it is.\n# TYPE a_total counter\n\
                      a_total{b=\"x\\\"y\",c=\"\\\\\"} 7\n";
        assert_eq!(text(&[metric]), wanted);
    }

    #[test]
    fn buckets_add_up_and_end_beyond_all() {
        let held = Distribution {
            bounds: &[500_000_000],
            counts: vec![2, 1],
            sum: 3_000_000_000,
        };
        let metric = Metric {
            name: "t_seconds",
            kind: Kind::Histogram,
            labels: &[],
            help: "Time",
            samples: vec![(Vec::new(), Value::Times(held))],
        };
        let wanted = "# HELP t_seconds Time.\n# TYPE t_seconds histogram\n\
                      t_seconds_bucket{le=\"0.5\"} 2\nt_seconds_bucket{le=\"+Inf\"} 3\n\
                      t_seconds_sum 3\nt_seconds_count 3\n";
        assert_eq!(text(&[metric]), wanted);
    }
}
