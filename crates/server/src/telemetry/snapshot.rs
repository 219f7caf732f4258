//! What `admin.sock` tells `tidemark top`, at `/top`.

use std::collections::BTreeMap;

use engine::ShapeCounts;
use serde::{Deserialize, Serialize};

use super::held::Held;
use super::metric::{Value, metrics};
use super::{Seen, Telemetry};
use crate::functions::counts::FunctionTally;

/// All that a frame shows, since the start of the server.
///
/// Numbers come from the list of metrics and have its names, so that `top` and a scrape agree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopSnapshot {
    /// Of the server.
    pub version: String,
    /// Milliseconds since its start.
    pub up_ms: u64,
    /// Values of metrics that are single numbers. The key is the name, with the value of its
    /// label where it has one: `tidemark_list_cache_requests_total{hit}`.
    pub numbers: BTreeMap<String, f64>,
    /// Histograms without labels, by name.
    pub distributions: BTreeMap<String, Held>,
    /// Answered requests by route.
    pub routes: Vec<RouteSample>,
    /// Lists by their shape, those asked for most.
    pub queries: Vec<QuerySample>,
    /// Functions that ran last.
    pub functions: Vec<FunctionSample>,
}

/// One route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteSample {
    /// Its method; empty where no route was found.
    pub method: String,
    /// Its pattern; empty where no route was found.
    pub route: String,
    /// How often it was answered.
    pub answers: u64,
    /// Of these, with 4xx.
    pub refusals: u64,
    /// Of these, with 5xx.
    pub failures: u64,
    /// How long that took, as far as it was timed.
    pub took: Held,
}

/// Lists of one shape.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuerySample {
    /// Project, database and table, joined by slashes.
    pub table: String,
    /// What is asked, without values.
    pub shape: String,
    /// Answers from the cache.
    pub hits: u64,
    /// Reads from the store.
    pub reads: u64,
    /// How long these took together, in nanoseconds.
    pub read_ns: u64,
    /// The longest one.
    pub slowest_ns: u64,
}

/// One function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FunctionSample {
    /// Project and function, joined by a slash.
    pub name: String,
    /// Runs that have ended.
    pub runs: u64,
    /// Of these, those that failed.
    pub failed: u64,
    /// Of these, those that waited for a process to start.
    pub cold: u64,
    /// How long handlers ran, in nanoseconds.
    pub run_ns: u64,
}

impl TopSnapshot {
    /// The value of a metric; 0 where this server has no value for it.
    pub fn number(&self, key: &str) -> f64 {
        self.numbers.get(key).copied().unwrap_or_default()
    }

    /// The sum of a metric over its one label.
    pub fn sum(&self, name: &str) -> f64 {
        let of = |key: &str| {
            key.strip_prefix(name)
                .is_some_and(|end| end.starts_with('{'))
        };
        let values = self.numbers.iter().filter(|(key, _)| of(key));
        values.map(|(_, value)| value).sum()
    }

    /// The histogram of this name; empty where this server has none.
    pub fn distribution(&self, name: &str) -> Held {
        self.distributions.get(name).cloned().unwrap_or_default()
    }

    /// What the metrics of `seen` are, but for those of single routes, which stand apart.
    fn of_metrics(seen: &Seen) -> TopSnapshot {
        let mut snapshot = TopSnapshot::default();
        for metric in metrics(seen) {
            for (labels, value) in metric.samples {
                let key = match labels.as_slice() {
                    [] => metric.name.to_owned(),
                    [label] => format!("{}{{{label}}}", metric.name),
                    _ => continue,
                };
                match value {
                    Value::Whole(count) => {
                        snapshot.numbers.insert(key, count as f64);
                    }
                    Value::Real(number) => {
                        snapshot.numbers.insert(key, number);
                    }
                    Value::Times(distribution) | Value::Sizes(distribution) => {
                        snapshot
                            .distributions
                            .insert(key, Held::from(&distribution));
                    }
                }
            }
        }
        snapshot
    }
}

impl Telemetry {
    /// Looks, for `tidemark top`. From the first time on, answers are timed.
    pub fn tell(&self) -> TopSnapshot {
        self.begin_timing();
        let seen = self.look();
        TopSnapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            up_ms: seen.up_ms,
            queries: self
                .list_shapes()
                .into_iter()
                .map(QuerySample::from)
                .collect(),
            functions: self
                .functions()
                .into_iter()
                .map(FunctionSample::from)
                .collect(),
            routes: routes(&seen),
            ..TopSnapshot::of_metrics(&seen)
        }
    }
}

fn routes(seen: &Seen) -> Vec<RouteSample> {
    let mut routes: Vec<RouteSample> = Vec::new();
    for answers in &seen.answered.answers {
        // They come ordered by route.
        let is_same = |sample: &RouteSample| {
            (&sample.method, &sample.route) == (&answers.method, &answers.route)
        };
        if !routes.last().is_some_and(is_same) {
            routes.push(RouteSample {
                method: answers.method.clone(),
                route: answers.route.clone(),
                ..RouteSample::default()
            });
        }
        let sample = routes.last_mut().expect("one of this route stands there");
        sample.answers += answers.count;
        match answers.status.unwrap_or_default() {
            400..500 => sample.refusals += answers.count,
            500.. => sample.failures += answers.count,
            _ => {}
        }
    }
    for times in &seen.answered.times {
        let of = |sample: &&mut RouteSample| {
            (&sample.method, &sample.route) == (&times.method, &times.route)
        };
        if let Some(sample) = routes.iter_mut().find(of) {
            sample.took = Held::from(&times.took_ns);
        }
    }
    routes
}

impl From<ShapeCounts> for QuerySample {
    fn from(shape: ShapeCounts) -> QuerySample {
        let (project, database) = (shape.project.as_str(), shape.database.as_str());
        QuerySample {
            table: format!("{project}/{database}/{}", shape.table.as_str()),
            shape: shape.shape,
            hits: shape.hits,
            reads: shape.reads,
            read_ns: shape.read_ns,
            slowest_ns: shape.slowest_ns,
        }
    }
}

impl From<FunctionTally> for FunctionSample {
    fn from(tally: FunctionTally) -> FunctionSample {
        FunctionSample {
            name: tally.name,
            runs: tally.runs,
            failed: tally.failed,
            cold: tally.cold,
            run_ns: tally.run_ns,
        }
    }
}
