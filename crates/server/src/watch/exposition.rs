//! Metrics as text, in the format that Prometheus asks for first (OpenMetrics 1.0).

use std::fmt;
use std::sync::Arc;

use engine::tally::Distribution;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::Watch;
use super::metric::{Kind, Metric, Value, metrics};

/// The type of the text (OpenMetrics 1.0, "Overall Structure").
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;

/// Writes what is seen whenever it is asked.
pub struct Exposition {
    registry: Registry,
}

impl Exposition {
    /// Of this server.
    pub fn new(watch: Arc<Watch>) -> Exposition {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Looking(watch)));
        Exposition { registry }
    }

    /// All metrics as they are now.
    pub fn text(&self) -> String {
        let mut text = String::with_capacity(64 * 1_024);
        encode(&mut text, &self.registry).expect("writing to a string cannot fail");
        text
    }
}

/// Looks when it is asked, so that nothing is collected that nobody wants.
struct Looking(Arc<Watch>);

impl fmt::Debug for Looking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Looking")
    }
}

impl Collector for Looking {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for metric in metrics(&self.0.look()) {
            write(&metric, &mut encoder)?;
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
