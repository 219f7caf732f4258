//! The metrics of a store whose database is a server.

use engine::StoreCounts;
use engine::tally::Distribution;

use super::metric_form::{Kind, Metric, Value};

/// Without samples where the store is a data directory.
pub(super) fn of_server(store: &StoreCounts) -> Vec<Metric> {
    let database = store.database.as_ref();
    let metric = |name, kind, help, value: Option<Value>| Metric {
        name,
        kind,
        labels: &[],
        help,
        samples: value.map(|value| (Vec::new(), value)).into_iter().collect(),
    };
    let level = |name, help, value: Option<usize>| {
        let value = value.map(|value| Value::Whole(value as u64));
        metric(name, Kind::Gauge, help, value)
    };
    let sizes = |name, help, value: Option<&Distribution>| {
        metric(
            name,
            Kind::Histogram,
            help,
            value.cloned().map(Value::Sizes),
        )
    };
    vec![
        level(
            "tidemark_database_connections",
            "Open connections to the server of the database, of reads and of the writer",
            database.map(|counts| counts.connections),
        ),
        level(
            "tidemark_database_connections_busy",
            "Of these, those in use",
            database.map(|counts| counts.connections_busy),
        ),
        level(
            "tidemark_database_connections_max",
            "Most connections to the server of the database that reads and the writer use",
            database.map(|counts| counts.connections_max),
        ),
        sizes(
            "tidemark_commit_round_trips",
            "Times that a group of requests waited for the database, its commit included",
            database.map(|counts| &counts.round_trips),
        ),
        sizes(
            "tidemark_commit_held_rows",
            "Rows that a group of requests held in memory when it was committed",
            database.map(|counts| &counts.held_rows),
        ),
        sizes(
            "tidemark_commit_held_bytes",
            "About how many bytes of memory these rows took",
            database.map(|counts| &counts.held_bytes),
        ),
    ]
}
