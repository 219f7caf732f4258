//! Metrics as text, in the format that a reader asks for.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use engine::tally::Distribution;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::metric::{Kind, Metric, Value, metrics};
use super::metric_form::SECOND_NS;
use super::{Telemetry, classic};

/// How long a text is reused: clients may scrape as often as they like, and each text costs the
/// server some time.
pub const FRESH: Duration = Duration::from_millis(500);

/// A text format of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// What every reader knows (Prometheus, "Exposition formats", 0.0.4).
    Classic,
}

impl Format {
    /// The one that the header `Accept` prefers; the classic one where it names neither.
    pub fn wanted(accept: Option<&str>) -> Format {
        let (mut open, mut plain) = (0.0_f32, 0.0_f32);
        for range in accept.unwrap_or_default().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let weight = parts.find_map(|part| part.strip_prefix("q="));
            let weight = weight.map_or(1.0, |weight| weight.parse().unwrap_or(0.0));
            match kind.as_str() {
                "application/openmetrics-text" => open = open.max(weight),
                "text/plain" => plain = plain.max(weight),
                _ => {}
            }
        }
        if open > 0.0 && open >= plain {
            Format::OpenMetrics
        } else {
            Format::Classic
        }
    }

    /// The type of its text.
    pub fn content_type(self) -> &'static str {
        match self {
            // OpenMetrics 1.0, "Overall Structure".
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Classic => classic::CONTENT_TYPE,
        }
    }
}

/// Writes what is seen when it is asked.
pub struct Exposition {
    watch: Arc<Telemetry>,
    /// The last text of each format, and when it was written.
    written: [Mutex<Option<(Instant, Bytes)>>; 2],
}

impl Exposition {
    /// Of this server.
    pub fn new(watch: Arc<Telemetry>) -> Exposition {
        Exposition {
            watch,
            written: Default::default(),
        }
    }

    /// All metrics, as they were at most [`FRESH`] before `now`. Who asks while one writes waits
    /// for that text.
    pub fn text(&self, format: Format, now: Instant) -> Bytes {
        let written = &self.written[format as usize];
        // Whole after a panic: it is set by one assignment.
        let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, text)) = &*written
            && now.saturating_duration_since(*at) < FRESH
        {
            return text.clone();
        }
        let metrics = metrics(&self.watch.look());
        let text = Bytes::from(match format {
            Format::OpenMetrics => open_metrics(metrics),
            Format::Classic => classic::text(&metrics),
        });
        *written = Some((now, text.clone()));
        text
    }
}

fn open_metrics(metrics: Vec<Metric>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Seen(metrics)));
    let mut text = String::with_capacity(64 * 1_024);
    encode(&mut text, &registry).expect("writing to a string cannot fail");
    text
}

/// What was seen, for the library to write.
#[derive(Debug)]
struct Seen(Vec<Metric>);

impl Collector for Seen {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for metric in &self.0 {
            write(metric, &mut encoder)?;
        }
        Ok(())
    }
}

fn write(metric: &Metric, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    if metric.samples.is_empty() {
        return Ok(());
    }
    let kind = match metric.kind {
        Kind::Counter => MetricType::Counter,
        Kind::Gauge => MetricType::Gauge,
        Kind::Histogram => MetricType::Histogram,
    };
    // The library puts the end of a counter's name itself.
    let name = metric.name.trim_end_matches("_total");
    let mut values = encoder.encode_descriptor(name, metric.help, None, kind)?;
    for (texts, value) in &metric.samples {
        let names = metric.labels.iter().copied();
        let labels: Vec<(&str, &str)> = names.zip(texts.iter().map(String::as_str)).collect();
        if labels.is_empty() {
            write_value(&mut values, metric.kind, value)?;
        } else {
            write_value(&mut values.encode_family(&labels)?, metric.kind, value)?;
        }
    }
    Ok(())
}

fn write_value(out: &mut MetricEncoder<'_>, kind: Kind, value: &Value) -> Result<(), fmt::Error> {
    match (kind, value) {
        (Kind::Counter, Value::Whole(count)) => {
            out.encode_counter::<NoLabelSet, _, u64>(count, None)
        }
        (Kind::Counter, Value::Real(sum)) => out.encode_counter::<NoLabelSet, _, f64>(sum, None),
        (_, Value::Whole(level)) => out.encode_gauge(level),
        (_, Value::Real(level)) => out.encode_gauge(level),
        (_, Value::Times(times)) => write_distribution(out, times, SECOND_NS),
        (_, Value::Sizes(sizes)) => write_distribution(out, sizes, 1.0),
    }
}

fn write_distribution(
    out: &mut MetricEncoder<'_>,
    held: &Distribution,
    unit: f64,
) -> Result<(), fmt::Error> {
    let bounds = held.bounds.iter().map(|bound| *bound as f64 / unit);
    let bounds = bounds.chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = bounds.zip(held.counts.iter().copied()).collect();
    let sum = held.sum as f64 / unit;
    out.encode_histogram::<NoLabelSet>(sum, held.count(), &buckets, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_is_preferred() {
        let of_prometheus = "application/openmetrics-text;version=1.0.0;q=0.6,\
                             text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let turned = "application/openmetrics-text;q=0.3, text/plain;version=0.0.4; q=0.6";
        for (accept, wanted) in [
            (Some(of_prometheus), Format::OpenMetrics),
            (Some("application/openmetrics-text"), Format::OpenMetrics),
            (Some(turned), Format::Classic),
            (Some("application/openmetrics-text;q=0"), Format::Classic),
            (Some("application/openmetrics-text;q=x"), Format::Classic),
            (Some("*/*"), Format::Classic),
            (Some("text/plain"), Format::Classic),
            (None, Format::Classic),
        ] {
            assert_eq!(Format::wanted(accept), wanted, "{accept:?}");
        }
    }
}
