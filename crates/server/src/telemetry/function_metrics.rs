//! The metrics of functions. Their labels say no function's name: a client that may make functions
//! must not be able to make series.

use super::metric_form::{Kind, Metric, Value, counter, gauge, plain};
use crate::functions::counts::CountedRuns;

/// Executions.
pub fn of_runs(seen: &CountedRuns) -> Vec<Metric> {
    let executions = seen.executions.iter().map(|(of, count)| {
        let labels = [of.runtime.as_str(), of.trigger, of.status, of.cause];
        (labels.map(str::to_owned).into(), Value::Whole(*count))
    });
    let took = seen.took_ns.iter().map(|((runtime, start), took)| {
        let labels = vec![runtime.clone(), start.as_str().to_owned()];
        (labels, Value::Times(took.clone()))
    });
    let refused = seen.refused.iter();
    let refused = refused.map(|(why, count)| (vec![(*why).to_owned()], Value::Whole(*count)));
    let waiting = seen.processes.values().map(|counts| counts.level.waiting);
    vec![
        Metric {
            name: "tidemark_function_executions_total",
            kind: Kind::Counter,
            labels: &["runtime", "trigger", "status", "cause"],
            help: "Executions of functions that have ended",
            samples: executions.collect(),
        },
        Metric {
            name: "tidemark_function_duration_seconds",
            kind: Kind::Histogram,
            labels: &["runtime", "start"],
            help: "Time from the acceptance of an execution to its end",
            samples: took.collect(),
        },
        Metric {
            name: "tidemark_executions_refused_total",
            kind: Kind::Counter,
            labels: &["cause"],
            help: "Executions that were not accepted",
            samples: refused.collect(),
        },
        gauge(
            "tidemark_executions_waiting",
            "Executions that wait for a process",
            waiting.sum::<usize>() as u64,
        ),
    ]
}

/// Their processes.
pub fn of_processes(seen: &CountedRuns) -> Vec<Metric> {
    let each = |value: fn(&functions::RuntimeCounts) -> u64| {
        let all = seen.processes.iter();
        all.map(|(runtime, counts)| (vec![runtime.clone()], Value::Whole(value(counts))))
            .collect()
    };
    let ends = seen.processes.iter().flat_map(|(runtime, counts)| {
        let ends = counts.ends.iter();
        ends.map(|(why, count)| {
            (
                vec![runtime.clone(), (*why).to_owned()],
                Value::Whole(*count),
            )
        })
    });
    vec![
        Metric {
            name: "tidemark_function_processes",
            kind: Kind::Gauge,
            labels: &["runtime"],
            help: "Processes of functions",
            samples: each(|counts| counts.level.processes as u64),
        },
        Metric {
            name: "tidemark_function_process_starts_total",
            kind: Kind::Counter,
            labels: &["runtime"],
            help: "Processes of functions that were started",
            samples: each(|counts| counts.starts),
        },
        Metric {
            name: "tidemark_function_process_ends_total",
            kind: Kind::Counter,
            labels: &["runtime", "cause"],
            help: "Processes of functions that have ended",
            samples: ends.collect(),
        },
        Metric {
            name: "tidemark_function_start_pauses_total",
            kind: Kind::Counter,
            labels: &["runtime"],
            help: "Times that a function had to wait for a process because of how others had ended",
            samples: each(|counts| counts.start_pauses),
        },
        Metric {
            name: "tidemark_function_addresses_refused_total",
            kind: Kind::Counter,
            labels: &["runtime"],
            help: "Connections of functions to addresses that they may not reach",
            samples: each(|counts| counts.refused_connections),
        },
        Metric {
            name: "tidemark_function_memory_bytes",
            kind: Kind::Gauge,
            labels: &["runtime"],
            help: "Bytes that the processes of functions hold in memory",
            samples: each(|counts| counts.level.memory_bytes),
        },
    ]
}

/// What stands before an execution, and what is left of it.
pub fn of_builds_and_records(seen: &CountedRuns) -> Vec<Metric> {
    let builds = seen.builds.iter();
    let builds = builds.map(|(end, count)| (vec![(*end).to_owned()], Value::Whole(*count)));
    let histogram = |name, help, times| plain(name, Kind::Histogram, help, times);
    vec![
        Metric {
            name: "tidemark_function_builds_total",
            kind: Kind::Counter,
            labels: &["status"],
            help: "Builds of deployments that have ended",
            samples: builds.collect(),
        },
        histogram(
            "tidemark_function_build_duration_seconds",
            "Time that builds took which were not canceled",
            Value::Times(seen.build_ns.clone()),
        ),
        gauge(
            "tidemark_execution_records_waiting",
            "Records of executions that are not stored yet",
            seen.records_waiting as u64,
        ),
        histogram(
            "tidemark_execution_records_delay_seconds",
            "Time from the end of an execution until its record was stored",
            Value::Times(seen.record_delay_ns.clone()),
        ),
        counter(
            "tidemark_execution_records_lost_total",
            "Records of executions that the store did not take",
            seen.records_lost,
        ),
    ]
}

/// How far events of rows are behind.
pub fn of_events(seen: &CountedRuns) -> Vec<Metric> {
    vec![
        plain(
            "tidemark_event_lag_seconds",
            Kind::Gauge,
            "Age of the oldest commit whose events are not queued, at the last look at commits",
            Value::Real(seen.event_lag.as_secs_f64()),
        ),
        gauge(
            "tidemark_event_projects_waiting",
            "Projects whose events wait while those of others go on",
            seen.event_projects as u64,
        ),
    ]
}

/// Their connections to the API.
pub fn of_connections(refused: u64) -> Metric {
    counter(
        "tidemark_function_connections_refused_total",
        "Connections of functions to the API that were refused because theirs were too many",
        refused,
    )
}
