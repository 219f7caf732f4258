//! The metrics: names, labels and words, and where each value comes from.
//!
//! Names follow Prometheus's conventions ("Metric and label naming"): base units, `_total` for
//! what only rises. `docs/reference/metrics.md` has the same table; a test compares the two.

use engine::Taken;
use model::ProjectId;

use super::Seen;
use super::database_metrics;
use super::function_metrics;
use super::log_lines;
use super::metric_form::{counter, gauge, plain};
use super::process::Process;

pub use super::metric_form::{Kind, Metric, Value};

/// Most projects that have a series of their own.
const PROJECTS_MAX: usize = 20;

/// Every metric of what was seen. Those that this machine or these settings give no value for have
/// no samples.
pub fn metrics(seen: &Seen) -> Vec<Metric> {
    let mut metrics = vec![Metric {
        name: "tidemark_build_info",
        kind: Kind::Gauge,
        labels: &["version"],
        help: "Always 1; the label tells the version",
        samples: vec![(vec![env!("CARGO_PKG_VERSION").to_owned()], Value::Whole(1))],
    }];
    metrics.extend(http(seen));
    metrics.extend(lists(seen));
    metrics.extend(watched_lists(seen));
    metrics.extend(comparisons(seen));
    metrics.extend(writes(seen));
    metrics.extend(writer(seen));
    metrics.extend(reads(seen));
    metrics.extend(database_metrics::of_server(&seen.store));
    metrics.extend(of_projects(&seen.taken));
    metrics.extend(quotas(seen));
    metrics.extend(function_metrics::of_runs(&seen.functions));
    metrics.extend(function_metrics::of_processes(&seen.functions));
    metrics.extend(function_metrics::of_builds_and_records(&seen.functions));
    metrics.extend(function_metrics::of_events(&seen.functions));
    let refused = seen.answered.refused_jailed;
    metrics.push(function_metrics::of_connections(refused));
    metrics.extend(process(&seen.process, seen.began_s));
    metrics
}

fn http(seen: &Seen) -> Vec<Metric> {
    let answered = &seen.answered;
    let failures = answered
        .failures
        .iter()
        .map(|(status, count)| (vec![status.to_string()], Value::Whole(*count)));
    let none = |text: &str| match text {
        "" => "none".to_owned(),
        text => text.to_owned(),
    };
    let answers = answered.answers.iter().map(|of| {
        let status = of.status.map_or("other".to_owned(), |of| of.to_string());
        let labels = vec![none(&of.method), none(&of.route), status];
        (labels, Value::Whole(of.count))
    });
    let times = answered.times.iter().map(|of| {
        let labels = vec![none(&of.method), none(&of.route)];
        (labels, Value::Times(of.took_ns.clone()))
    });
    vec![
        Metric {
            name: "tidemark_http_requests_total",
            kind: Kind::Counter,
            labels: &["method", "route", "status"],
            help: "Answered requests by the pattern of their route",
            samples: answers.collect(),
        },
        Metric {
            name: "tidemark_http_failures_total",
            kind: Kind::Counter,
            labels: &["status"],
            help: "Answers with 5xx; each status is there from the start",
            samples: failures.collect(),
        },
        Metric {
            name: "tidemark_http_request_duration_seconds",
            kind: Kind::Histogram,
            labels: &["method", "route"],
            help: "Time from the end of a request's head to its answer, its body's way included",
            samples: times.collect(),
        },
        gauge(
            "tidemark_http_connections",
            "Open connections",
            answered.connections as u64,
        ),
        counter(
            "tidemark_http_connections_refused_total",
            "Connections that were refused because too many were open",
            answered.refused,
        ),
        Metric {
            name: "tidemark_http_keys_refused_total",
            kind: Kind::Counter,
            labels: &["reason"],
            help: "Requests whose API key was refused",
            samples: vec![
                (
                    vec!["unknown".to_owned()],
                    Value::Whole(answered.keys_unknown),
                ),
                (
                    vec!["expired".to_owned()],
                    Value::Whole(answered.keys_expired),
                ),
            ],
        },
    ]
}

fn lists(seen: &Seen) -> Vec<Metric> {
    let (answered, status) = (&seen.answered, &seen.status);
    let result = |word: &str, count| (vec![word.to_owned()], Value::Whole(count));
    vec![
        Metric {
            name: "tidemark_list_cache_requests_total",
            kind: Kind::Counter,
            labels: &["result"],
            help: "Lists that were asked for, by what the cache had to do with the answer",
            samples: vec![
                result("hit", answered.hits),
                result("miss", answered.misses),
                result("bypass", answered.bypasses),
            ],
        },
        counter(
            "tidemark_list_cache_stale_hits_total",
            "Hits within a ttl that a commit since may have altered",
            answered.stale,
        ),
        gauge(
            "tidemark_list_cache_entries",
            "Entries; the rows of a list and its total are two",
            status.list_cache_entries as u64,
        ),
        gauge(
            "tidemark_list_cache_bytes",
            "Bytes of all entries",
            status.list_cache_bytes,
        ),
        gauge(
            "tidemark_list_cache_max_bytes",
            "Most bytes of all entries",
            seen.list_cache_bytes_max,
        ),
    ]
}

fn watched_lists(seen: &Seen) -> Vec<Metric> {
    let lists = &seen.status.lists;
    vec![
        counter(
            "tidemark_list_cache_invalidations_total",
            "Entries and open reads that commits took away",
            lists.invalidations,
        ),
        counter(
            "tidemark_list_cache_evictions_total",
            "Entries that gave way to others",
            lists.evictions,
        ),
        counter(
            "tidemark_list_cache_degradations_total",
            "Entries and reads beyond the bound of their table, which each change of it drops",
            lists.degradations,
        ),
        counter(
            "tidemark_list_cache_refused_fills_total",
            "Reads that were not kept because a commit had overtaken them",
            lists.refused_fills,
        ),
        counter(
            "tidemark_list_cache_patched_totals_total",
            "Totals that a commit moved and that came back after it",
            lists.patched_totals,
        ),
        gauge(
            "tidemark_list_cache_watches",
            "Entries and open reads that are asked about changes",
            lists.watches,
        ),
        gauge(
            "tidemark_list_cache_degraded_entries",
            "Entries and open reads beyond the bound of their table now",
            lists.degraded,
        ),
    ]
}

/// What `--audit-hits` has found, where it is asked for.
fn comparisons(seen: &Seen) -> Vec<Metric> {
    let compared = seen.compared.map(|compared| {
        let result = |word: &str, count| (vec![word.to_owned()], Value::Whole(count));
        vec![
            result("same", compared.same),
            result("different", compared.different),
            result("overtaken", compared.overtaken),
            result("dropped", compared.dropped),
        ]
    });
    let goes_on = seen.compared.map(|found| {
        let is_well = Value::Whole(u64::from(!found.has_failed));
        (Vec::new(), is_well)
    });
    vec![
        Metric {
            name: "tidemark_list_cache_compared_total",
            kind: Kind::Counter,
            labels: &["result"],
            help: "Hits chosen to be compared with fresh reads, with --audit-hits",
            samples: compared.unwrap_or_default(),
        },
        Metric {
            name: "tidemark_list_cache_compares",
            kind: Kind::Gauge,
            labels: &[],
            help: "With --audit-hits, 1 while hits are compared, 0 once that has ended by a fault",
            samples: goes_on.into_iter().collect(),
        },
    ]
}

fn writes(seen: &Seen) -> Vec<Metric> {
    let writes = &seen.writes;
    let histogram = |name, help, value| plain(name, Kind::Histogram, help, value);
    vec![
        counter(
            "tidemark_commits_total",
            "Commits; each answers one request or more",
            writes.commits,
        ),
        counter(
            "tidemark_commit_failures_total",
            "Groups of requests that the database failed to commit",
            writes.failed,
        ),
        counter(
            "tidemark_commit_unknown_total",
            "Groups of requests of which the database did not say at once whether they are stored",
            writes.unknown,
        ),
        counter(
            "tidemark_commit_rows_total",
            "Rows that commits inserted, changed or deleted, where a commit keeps their images",
            writes.rows,
        ),
        histogram(
            "tidemark_commit_requests",
            "Requests that one commit answered",
            Value::Sizes(writes.requests.clone()),
        ),
        histogram(
            "tidemark_commit_apply_duration_seconds",
            "Time to apply a group of requests before it is made durable",
            Value::Times(writes.apply_ns.clone()),
        ),
        histogram(
            "tidemark_commit_sync_duration_seconds",
            "Time to make a group of requests durable and visible",
            Value::Times(writes.sync_ns.clone()),
        ),
        gauge(
            "tidemark_writes_waiting",
            "Write requests that wait for the writer",
            writes.waiting as u64,
        ),
        gauge(
            "tidemark_writes_waiting_max",
            "Most write requests that may wait",
            writes.waiting_max as u64,
        ),
        counter(
            "tidemark_writes_refused_total",
            "Write requests that were refused because too many waited",
            writes.refused,
        ),
        gauge(
            "tidemark_pending_marks",
            "Requests between the assignment of their mark and its publication",
            writes.pending,
        ),
        plain(
            "tidemark_published_mark_timestamp_seconds",
            Kind::Gauge,
            "The mark of the latest published commit, in seconds since 1970",
            Value::Real(seen.status.mark.0 as f64 / 1e6),
        ),
    ]
}

fn writer(seen: &Seen) -> Vec<Metric> {
    vec![
        counter(
            "tidemark_writer_panics_total",
            "Faults of the program while it wrote",
            seen.writes.panics,
        ),
        gauge(
            "tidemark_writer_stopped",
            "1 once nothing is written any more until a new start",
            u64::from(seen.is_stopped),
        ),
        gauge(
            "tidemark_commit_awaited",
            "1 while the database has not said for 10 s whether a commit is stored",
            u64::from(seen.awaits_commit),
        ),
    ]
}

fn reads(seen: &Seen) -> Vec<Metric> {
    let long = &seen.store.long_reads;
    vec![
        counter(
            "tidemark_long_reads_total",
            "Reads and large answers that went to a thread for long reads",
            long.taken,
        ),
        counter(
            "tidemark_long_reads_refused_total",
            "Long reads that were refused because too many waited",
            long.refused,
        ),
        gauge(
            "tidemark_long_reads_waiting",
            "Long reads and large answers that wait for a thread",
            long.waiting as u64,
        ),
        gauge(
            "tidemark_long_reads_waiting_max",
            "Most long reads and large answers that may wait, of keys and of guests together",
            long.waiting_max as u64,
        ),
        gauge(
            "tidemark_long_reads_running",
            "Long reads that run",
            long.running as u64,
        ),
        gauge(
            "tidemark_long_read_threads",
            "Threads for long reads that were started",
            long.threads as u64,
        ),
        gauge(
            "tidemark_long_read_threads_max",
            "Most threads for long reads",
            long.threads_max as u64,
        ),
        counter(
            "tidemark_slow_queries_total",
            "Reads of lists that took longer than --slow-query-ms",
            seen.slow_queries,
        ),
        gauge(
            "tidemark_store_log_backlog_bytes",
            "Bytes of commits in the log that the database file does not have yet",
            seen.store.log_backlog_bytes,
        ),
        counter(
            "tidemark_encrypted_damaged_total",
            "Times that something encrypted was needed and could not be opened",
            seen.store.damaged,
        ),
    ]
}

/// What each project takes, and may.
fn of_projects(taken: &Taken) -> Vec<Metric> {
    let fullest = |of: &[(ProjectId, u64)]| {
        let most = of.iter().take(PROJECTS_MAX);
        most.map(|(project, held)| (vec![project.to_string()], Value::Whole(*held)))
            .collect()
    };
    vec![
        Metric {
            name: "tidemark_project_rows",
            kind: Kind::Gauge,
            labels: &["project"],
            help: "Rows of the 20 projects with the most, with --project-rows",
            samples: fullest(&taken.rows),
        },
        gauge(
            "tidemark_project_rows_max",
            "Most rows of one project; 0 for any number",
            taken.rows_max,
        ),
        Metric {
            name: "tidemark_project_bytes",
            kind: Kind::Gauge,
            labels: &["project"],
            help: "Bytes of rows, present and past, of the 20 projects with the most",
            samples: fullest(&taken.project_bytes),
        },
        gauge(
            "tidemark_project_max_bytes",
            "Most bytes of one project's rows; 0 for any number",
            taken.project_bytes_max,
        ),
    ]
}

/// What callers and all projects together take, and what they may.
fn quotas(seen: &Seen) -> Vec<Metric> {
    let taken = &seen.taken;
    let quota = |name: &str, count| (vec![name.to_owned()], Value::Whole(count));
    vec![
        gauge(
            "tidemark_data_bytes",
            "Bytes stored, of all projects and their past together",
            taken.data_bytes,
        ),
        gauge(
            "tidemark_data_max_bytes",
            "Most bytes stored; 0 for any number",
            taken.data_bytes_max,
        ),
        gauge(
            "tidemark_transactions_open",
            "Open transactions; expired ones count until they are removed",
            taken.transactions.count,
        ),
        gauge(
            "tidemark_transactions_staged_bytes",
            "Bytes of the operations that are staged in them",
            taken.transactions.bytes,
        ),
        gauge(
            "tidemark_kept_answer_bytes",
            "Bytes of answers that are kept under an Idempotency-Key",
            taken.kept_answer_bytes,
        ),
        Metric {
            name: "tidemark_quota_refusals_total",
            kind: Kind::Counter,
            labels: &["quota"],
            help: "Requests that were refused because a quota was used up, by its setting",
            samples: vec![
                quota("guest-rate", seen.answered.rate_refused),
                quota("guest-executions", seen.answered.executions_refused),
                quota("transactions", taken.transactions_refused),
                quota("project-rows", taken.rows_refused),
                quota("project-bytes", taken.project_bytes_refused),
                quota("data-max", taken.bytes_refused),
            ],
        },
    ]
}

/// By the names that every client library of Prometheus gives them.
fn process(process: &Process, began_s: f64) -> Vec<Metric> {
    let known = |name, help, value: Option<u64>| Metric {
        name,
        kind: Kind::Gauge,
        labels: &[],
        help,
        samples: value
            .map(|value| (Vec::new(), Value::Whole(value)))
            .into_iter()
            .collect(),
    };
    let memory = process.memory;
    vec![
        counter(
            "tidemark_log_lines_lost_total",
            "Lines of the log that could not be written, or waited for too long",
            log_lines::lost(),
        ),
        plain(
            "process_cpu_seconds_total",
            Kind::Counter,
            "Processor time of the process",
            Value::Real(process.cpu_s),
        ),
        plain(
            "process_start_time_seconds",
            Kind::Gauge,
            "When the server started, in seconds since 1970",
            Value::Real(began_s),
        ),
        known(
            "process_resident_memory_bytes",
            "Bytes of the process in memory",
            memory.map(|memory| memory.resident_bytes),
        ),
        known(
            "process_virtual_memory_bytes",
            "Bytes of addresses the process uses",
            memory.map(|memory| memory.virtual_bytes),
        ),
        known(
            "process_threads",
            "Threads of the process",
            memory.map(|memory| memory.threads),
        ),
        known(
            "process_open_fds",
            "Open files of the process, sockets included",
            process.open_files.map(|files| files as u64),
        ),
        known(
            "process_max_fds",
            "Most files the process may open",
            process.open_files_max,
        ),
    ]
}
