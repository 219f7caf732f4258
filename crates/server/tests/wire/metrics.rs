//! What can be read of a server at /metrics, and what stands about it in the documentation.

use std::collections::BTreeSet;
use std::time::Instant;

use engine::{Quotas, TransactionsBound};
use openmetrics_parser::openmetrics::parse_openmetrics;
use openmetrics_parser::prometheus::parse_prometheus;
use server::serve::Limits;
use server::telemetry::exposition::{Exposition, FRESH, Format};
use server::telemetry::metric::{Kind, Metric, metrics};

use crate::fixture::{KEY, LIMITS, PROJECT, QUOTAS, TestServer};

const DASHBOARD: &str =
    include_str!("../../../../docs/guides/observability/grafana-dashboard.json");
const ALERTS: &str = include_str!("../../../../docs/guides/observability/prometheus-alerts.yml");
const PAGE: &str = include_str!("../../../../docs/reference/metrics.md");
const AS_KEY: [(&str, &str); 2] = [("x-appwrite-project", PROJECT), ("x-appwrite-key", KEY)];

fn furnished() -> TestServer {
    let server = TestServer::start();
    let table = r#"{"tableId":"t","name":"T","permissions":["read(\"any\")"],
        "columns":[{"key":"n","type":"integer"},{"key":"a","type":"integer"},
        {"key":"b","type":"integer"},{"key":"c","type":"integer"},{"key":"d","type":"integer"},
        {"key":"e","type":"integer"},{"key":"f","type":"integer"},{"key":"g","type":"integer"},
        {"key":"h","type":"integer"},{"key":"i","type":"integer"}]}"#;
    for (path, body) in [
        ("/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#),
        ("/v1/tablesdb/d/tables", table),
    ] {
        let made = server.ask("POST", path, body);
        assert_eq!(made.status, 201, "{}", made.text);
    }
    server
}

/// Lists, rows, writes, refusals, by the words of both families.
fn load(server: &TestServer) {
    let mut connection = server.connect();
    let families = [
        "/v1/tablesdb/d/tables/t/rows",
        "/v1/databases/d/collections/t/documents",
    ];
    for (nth, rows) in families.into_iter().enumerate() {
        let id = if nth == 0 { "rowId" } else { "documentId" };
        for n in 0..5 {
            let body = format!(r#"{{"{id}":"r{nth}-{n}","data":{{"n":{n}}}}}"#);
            let made = connection.ask(&AS_KEY, "POST", rows, &body).unwrap();
            assert_eq!(made.status, 201, "{}", made.text);
            let row = format!("{rows}/r{nth}-{n}");
            for _ in 0..3 {
                assert_eq!(
                    connection.ask(&AS_KEY, "GET", rows, "").unwrap().status,
                    200
                );
                assert_eq!(
                    connection.ask(&AS_KEY, "GET", &row, "").unwrap().status,
                    200
                );
            }
        }
        let missing = format!("{rows}/none");
        assert_eq!(
            connection.ask(&AS_KEY, "GET", &missing, "").unwrap().status,
            404
        );
    }
    assert_eq!(
        connection
            .ask(&AS_KEY, "GET", "/nowhere", "")
            .unwrap()
            .status,
        404
    );
}

fn text_of(server: &TestServer) -> String {
    let text = Exposition::new(server.watch()).text(Format::OpenMetrics, Instant::now());
    String::from_utf8(text.into()).unwrap()
}

/// The value of this series, exactly as it is written.
#[track_caller]
fn value(text: &str, series: &str) -> u64 {
    let found = text.lines().find_map(|line| {
        let rest = line.strip_prefix(series)?;
        rest.strip_prefix(' ')?.parse().ok()
    });
    found.unwrap_or_else(|| panic!("`{series}` is not in\n{text}"))
}

#[test]
fn metrics_after_load_pass_an_independent_parser() {
    let server = furnished();
    server.watch().begin_timing();
    load(&server);
    let text = text_of(&server);
    let parsed = parse_openmetrics(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert!(parsed.families.len() > 30, "{text}");
    for rows in [
        "/v1/tablesdb/{database}/tables/{table}/rows",
        "/v1/databases/{database}/collections/{table}/documents",
    ] {
        let requests = |labels: &str| {
            let series = format!("tidemark_http_requests_total{{{labels}}}");
            value(&text, &series)
        };
        let created = format!(r#"method="POST",route="{rows}",status="201""#);
        assert_eq!(requests(&created), 5);
        let listed = format!(r#"method="GET",route="{rows}",status="200""#);
        assert_eq!(requests(&listed), 15, "those answered at once, too");
        let read = format!(r#"method="GET",route="{rows}/{{row}}",status="200""#);
        assert_eq!(requests(&read), 15);
        let missing = format!(r#"method="GET",route="{rows}/{{row}}",status="404""#);
        assert_eq!(requests(&missing), 1);
        let timed = format!(
            r#"tidemark_http_request_duration_seconds_count{{method="GET",route="{rows}"}}"#
        );
        assert_eq!(value(&text, &timed), 15);
        let all = format!(
            r#"tidemark_http_request_duration_seconds_bucket{{le="+Inf",method="GET",route="{rows}"}}"#
        );
        assert_eq!(value(&text, &all), 15);
    }
    assert_eq!(
        value(&text, r#"tidemark_http_failures_total{status="500"}"#),
        0
    );
    let nowhere = r#"tidemark_http_requests_total{method="none",route="none",status="404"}"#;
    assert_eq!(value(&text, nowhere), 1);
    let lists = |result: &str| {
        let series = format!(r#"tidemark_list_cache_requests_total{{result="{result}"}}"#);
        value(&text, &series)
    };
    assert_eq!(lists("hit") + lists("miss") + lists("bypass"), 30);
    assert!(lists("hit") >= 15 && lists("miss") >= 2, "{text}");
    assert!(value(&text, "tidemark_commits_total") >= 12);
    assert_eq!(value(&text, "tidemark_commit_rows_total"), 10);
    assert_eq!(value(&text, "tidemark_pending_marks"), 0);
    assert!(value(&text, "tidemark_list_cache_entries") > 0);
    assert!(value(&text, "tidemark_list_cache_invalidations_total") > 0);
    assert!(value(&text, "tidemark_http_connections") >= 1);
    assert!(value(&text, "process_resident_memory_bytes") > 1_000_000);
}

#[test]
fn the_classic_text_says_the_same_to_a_parser_of_others() {
    let server = furnished();
    server.watch().begin_timing();
    load(&server);
    let exposition = Exposition::new(server.watch());
    let text_of = |format| {
        let text = exposition.text(format, Instant::now());
        String::from_utf8(text.into()).unwrap()
    };
    let (open, classic) = (text_of(Format::OpenMetrics), text_of(Format::Classic));
    let parsed = parse_prometheus(&classic).unwrap_or_else(|error| panic!("{error}\n{classic}"));
    let unknown = format!("{:?}", parsed.families).matches("Unknown").count();
    assert_eq!(unknown, 0, "each type is told\n{classic}");
    assert!(parsed.families.len() > 30, "{classic}");
    let made =
        "tidemark_http_requests_total{method=\"POST\",route=\"/v1/tablesdb\",status=\"201\"}";
    for series in [
        made,
        "tidemark_commits_total",
        "tidemark_commit_requests_count",
    ] {
        assert_eq!(value(&open, series), value(&classic, series));
    }
}

#[test]
fn refused_keys_are_counted() {
    let server = furnished();
    let wrong = [("x-appwrite-project", PROJECT), ("x-appwrite-key", "wrong")];
    let rows = "/v1/tablesdb/d/tables/t/rows";
    for _ in 0..3 {
        let refused = server.ask_with(&wrong, "GET", rows, "");
        assert_eq!(refused.refusal(), "401 general_unauthorized_scope");
    }
    let text = text_of(&server);
    let count = |reason: &str| {
        value(
            &text,
            &format!("tidemark_http_keys_refused_total{{reason=\"{reason}\"}}"),
        )
    };
    assert_eq!((count("unknown"), count("expired")), (3, 0));
}

#[test]
fn quotas_and_what_they_refuse_are_counted() {
    let server = TestServer::start_within(Quotas {
        project_rows: 2,
        data_bytes: 1 << 40,
        key_transactions: TransactionsBound {
            open: 1,
            bytes: 1 << 20,
        },
        ..QUOTAS
    });
    let table = r#"{"tableId":"t","name":"T","columns":[{"key":"n","type":"integer"}]}"#;
    server.ask("POST", "/v1/tablesdb", r#"{"databaseId":"d","name":"D"}"#);
    assert_eq!(
        server.ask("POST", "/v1/tablesdb/d/tables", table).status,
        201
    );
    let create = |n: i64| {
        let row = format!(r#"{{"rowId":"r{n}","data":{{"n":{n}}}}}"#);
        server
            .ask("POST", "/v1/tablesdb/d/tables/t/rows", &row)
            .status
    };
    assert_eq!([create(1), create(2), create(3)], [201, 201, 507]);
    let change = r#"{"data":{"n":7}}"#;
    let once = [AS_KEY[0], AS_KEY[1], ("idempotency-key", "k")];
    let row = "/v1/tablesdb/d/tables/t/rows/r1";
    let changed = server.ask_with(&once, "PATCH", row, change);
    assert_eq!(changed.status, 200, "{}", changed.text);
    let opened = server.ask("POST", "/v1/tablesdb/transactions", "{}");
    assert_eq!(opened.status, 201, "{}", opened.text);
    assert_eq!(
        server.ask("POST", "/v1/tablesdb/transactions", "{}").status,
        429
    );
    let id = opened.json()["$id"].as_str().unwrap().to_owned();
    let operations = r#"{"operations":[{"action":"create","databaseId":"d","tableId":"t",
        "rowId":"x","data":{"n":1}}]}"#;
    let staged = format!("/v1/tablesdb/transactions/{id}/operations");
    // What is staged is more data; whether its row fits is seen at the commit.
    assert_eq!(server.ask("POST", &staged, operations).status, 201);
    let text = text_of(&server);
    let refused = |quota: &str| {
        value(
            &text,
            &format!("tidemark_quota_refusals_total{{quota=\"{quota}\"}}"),
        )
    };
    assert_eq!(refused("project-rows"), 1);
    assert_eq!(refused("transactions"), 1);
    assert_eq!((refused("data-max"), refused("guest-rate")), (0, 0));
    let rows = format!("tidemark_project_rows{{project=\"{PROJECT}\"}}");
    assert_eq!(value(&text, &rows), 2);
    assert_eq!(value(&text, "tidemark_project_rows_max"), 2);
    let bytes = format!("tidemark_project_bytes{{project=\"{PROJECT}\"}}");
    // Two rows, and what one of them was before it was changed.
    assert_eq!(value(&text, &bytes), 3 * (100 + 8));
    assert_eq!(value(&text, "tidemark_project_max_bytes"), 0);
    assert_eq!(refused("project-bytes"), 0);
    assert_eq!(value(&text, "tidemark_data_max_bytes"), 1 << 40);
    assert!(value(&text, "tidemark_data_bytes") > 4_096);
    let kept = value(&text, "tidemark_kept_answer_bytes");
    assert!(kept > changed.text.len() as u64, "{kept}");
    assert_eq!(value(&text, "tidemark_transactions_open"), 1);
    assert!(value(&text, "tidemark_transactions_staged_bytes") > 0);
}

#[test]
fn requests_beyond_the_rate_of_guests_are_counted() {
    let server = TestServer::start_with(Limits {
        guest_rate: 1,
        ..LIMITS
    });
    let ask = |key| server.ask_as(key, "GET", "/v1/ping", "").status;
    let refused = (0..50).filter(|_| ask(None) == 429).count() as u64;
    assert_eq!(ask(Some(KEY)), 200);
    assert!(refused > 0);
    let series = r#"tidemark_quota_refusals_total{quota="guest-rate"}"#;
    assert_eq!(value(&text_of(&server), series), refused);
}

#[test]
fn metrics_text_is_reused_for_frequent_scrapes() {
    let server = furnished();
    let exposition = Exposition::new(server.watch());
    let began = Instant::now();
    let commits = |at| {
        let text = exposition.text(Format::Classic, at);
        value(
            std::str::from_utf8(&text).unwrap(),
            "tidemark_commits_total",
        )
    };
    let before = commits(began);
    load(&server);
    assert_eq!(commits(began + FRESH / 2), before);
    assert!(commits(began + FRESH) > before);
}

#[test]
fn labels_do_not_grow_with_requests() {
    let server = furnished();
    server.watch().begin_timing();
    load(&server);
    let night = std::env::var("TIDEMARK_LANE").is_ok_and(|lane| lane == "night");
    let distinct = if night { 100_000 } else { 1_000 };
    let rows = "/v1/tablesdb/d/tables/t/rows";
    let mut connection = server.connect();
    let mut ask = |nth: usize| {
        let query = format!(
            "{rows}?queries%5B0%5D=%7B%22method%22%3A%22equal%22%2C%22attribute%22%3A%22n%22%2C\
             %22values%22%3A%5B{nth}%5D%7D"
        );
        // One shape for each choice of columns; all of them where none is chosen.
        let columns = "nabcdefghi".chars().enumerate();
        let choice = nth % 1_024;
        let chosen = columns.filter(|(bit, _)| choice >> bit & 1 == 1 || choice == 0);
        let chosen: Vec<String> = chosen.map(|(_, key)| format!("%22{key}%22")).collect();
        let select = format!(
            "{rows}?queries%5B0%5D=%7B%22method%22%3A%22select%22%2C%22values%22%3A%5B{}%5D%7D",
            chosen.join("%2C")
        );
        let row = format!("{rows}/x{nth}");
        let nowhere = format!("/v1/nowhere/{nth}");
        let table = format!("/v1/tablesdb/d{nth}/tables/t{nth}/rows");
        let others = [(&select, 200), (&row, 404), (&nowhere, 404), (&table, 404)];
        let others = others.iter().filter(|_| nth < 10_000);
        for (path, status) in [(&query, 200)].iter().chain(others) {
            let answer = connection.ask(&AS_KEY, "GET", path, "").unwrap();
            assert_eq!(answer.status, *status, "{path}: {}", answer.text);
        }
    };
    let series = |server: &TestServer| -> BTreeSet<String> {
        let text = text_of(server);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let names = lines.filter_map(|line| line.rsplit_once(' '));
        names.map(|(name, _)| name.to_owned()).collect()
    };
    ask(0);
    let before = series(&server);
    (1..distinct).for_each(&mut ask);
    let after = series(&server);
    let added: Vec<_> = after.difference(&before).collect();
    assert!(added.is_empty(), "{added:?}");
    let shapes = server.watch().list_shapes();
    assert_eq!(shapes.len(), 512, "the table of shapes is full");
    let equal = shapes.iter().find(|asked| asked.shape == "equal(\"n\")");
    assert_eq!(
        equal.map(|asked| asked.reads),
        Some(distinct as u64),
        "queries that differ in values are counted as one"
    );
}

#[test]
fn the_page_lists_every_metric_as_it_is() {
    let server = TestServer::start();
    let mut wanted = Vec::new();
    for metric in metrics(&server.watch().look()) {
        let Metric {
            name, labels, help, ..
        } = metric;
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let labels = match labels.join(", ") {
            none if none.is_empty() => "–".to_owned(),
            some => some,
        };
        let kind = metric.kind.word();
        wanted.push(format!("| `{name}` | {kind} | {labels} | {help} |"));
    }
    let rows = PAGE
        .lines()
        .filter(|line| line.starts_with("| `tidemark_") || line.starts_with("| `process_"));
    let rows: Vec<&str> = rows.collect();
    testing::assert_rows("docs/reference/metrics.md", &rows, &wanted);
}

/// Every name of ours in a text, as it is asked for.
fn names_in(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_part(c));
    words
        .filter(|word| word.starts_with("tidemark_") || word.starts_with("process_"))
        .collect()
}

#[test]
fn dashboard_and_alerts_ask_for_what_is_served() {
    let server = furnished();
    load(&server);
    let mut exposed = BTreeSet::new();
    let mut labels = BTreeSet::from(["le", "instance", "job"]);
    for metric in metrics(&server.watch().look()) {
        labels.extend(metric.labels);
        if metric.kind == Kind::Histogram {
            for part in ["_bucket", "_sum", "_count"] {
                exposed.insert(format!("{}{part}", metric.name));
            }
        } else {
            exposed.insert(metric.name.to_owned());
        }
    }
    for (file, text) in [("dashboard", DASHBOARD), ("alerts", ALERTS)] {
        let names = names_in(text);
        assert!(names.len() > 10, "{file}: {names:?}");
        for name in names {
            assert!(exposed.contains(name), "{file}: `{name}` is not exposed");
        }
        // Both in `by (…)` and in `{…}`: a label that is misspelt gives nothing, without a word.
        for list in text.split("by (").skip(1) {
            let list = list.split(')').next().unwrap();
            for label in list.split(',').map(str::trim) {
                assert!(labels.contains(label), "{file}: no label `{label}`");
            }
        }
    }
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = |panel: &serde_json::Value| panel["targets"].as_array().map_or(0, Vec::len);
    assert!(panels.iter().map(targets).sum::<usize>() > 40);
    let unused: Vec<_> = metrics(&server.watch().look())
        .into_iter()
        .filter(|metric| metric.name.starts_with("tidemark_"))
        .filter(|metric| !DASHBOARD.contains(metric.name))
        .map(|metric| metric.name)
        .collect();
    // Bounds that stand beside what they bound elsewhere, an instant, and what an alert watches.
    let known = [
        "tidemark_list_cache_compares",
        "tidemark_commit_unknown_total",
        "tidemark_writes_waiting_max",
        "tidemark_published_mark_timestamp_seconds",
        "tidemark_writer_panics_total",
        "tidemark_writer_stopped",
        "tidemark_commit_awaited",
        "tidemark_long_reads_waiting_max",
        "tidemark_long_read_threads_max",
        "tidemark_encrypted_damaged_total",
        "tidemark_project_rows_max",
        "tidemark_project_max_bytes",
    ];
    let list = "the list of metrics that no panel shows";
    testing::assert_rows(list, &known, &unused);
}
