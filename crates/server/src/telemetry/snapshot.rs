//! What `admin.sock` tells `tidemark top`, at `/top`.

use engine::AskedLists;
use serde::{Deserialize, Serialize};

use super::held::Held;
use super::{Seen, Telemetry};

/// All that a frame shows, since the start of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "each field is named like what it counts")]
pub struct TopSnapshot {
    pub version: String,
    pub up_ms: u64,
    pub connections: usize,
    pub resident_bytes: u64,
    pub cpu_s: f64,
    pub routes: Vec<RouteSample>,
    pub hits: u64,
    pub misses: u64,
    pub bypasses: u64,
    pub stale: u64,
    pub cache_entries: usize,
    pub cache_bytes: u64,
    pub cache_bytes_max: u64,
    pub invalidations: u64,
    pub evictions: u64,
    pub commits: u64,
    pub commit_requests: u64,
    pub commit_rows: u64,
    pub sync: Held,
    pub writes_waiting: usize,
    pub pending_marks: u64,
    pub long_reads: u64,
    pub long_running: usize,
    pub long_waiting: usize,
    pub slow_queries: u64,
    pub queries: Vec<QuerySample>,
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

impl Telemetry {
    /// Looks, for `tidemark top`. From the first time on, answers are timed.
    pub fn tell(&self) -> TopSnapshot {
        self.begin_timing();
        let seen = self.look();
        TopSnapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            queries: self.asked().into_iter().map(QuerySample::from).collect(),
            routes: routes(&seen),
            ..TopSnapshot::from(&seen)
        }
    }
}

impl From<&Seen> for TopSnapshot {
    fn from(seen: &Seen) -> TopSnapshot {
        let (answered, status, writes) = (&seen.answered, &seen.status, &seen.writes);
        let memory = seen.process.memory;
        TopSnapshot {
            up_ms: seen.up_ms,
            connections: answered.connections,
            resident_bytes: memory.map_or(0, |memory| memory.resident_bytes),
            cpu_s: seen.process.cpu_s,
            hits: answered.hits,
            misses: answered.misses,
            bypasses: answered.bypasses,
            stale: answered.stale,
            cache_entries: status.list_cache_entries,
            cache_bytes: status.list_cache_bytes,
            cache_bytes_max: seen.list_cache_bytes_max,
            invalidations: status.lists.invalidations,
            evictions: status.lists.evictions,
            commits: writes.commits,
            commit_requests: writes.requests.sum,
            commit_rows: writes.rows,
            sync: Held::from(&writes.sync_ns),
            writes_waiting: writes.waiting,
            pending_marks: writes.pending,
            long_reads: seen.store.long_reads.taken,
            long_running: seen.store.long_reads.running,
            long_waiting: seen.store.long_reads.waiting,
            slow_queries: seen.slow_queries,
            ..TopSnapshot::default()
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

impl From<AskedLists> for QuerySample {
    fn from(asked: AskedLists) -> QuerySample {
        let (project, database) = (asked.project.as_str(), asked.database.as_str());
        QuerySample {
            table: format!("{project}/{database}/{}", asked.table.as_str()),
            shape: asked.shape,
            hits: asked.hits,
            reads: asked.reads,
            read_ns: asked.read_ns,
            slowest_ns: asked.slowest_ns,
        }
    }
}
