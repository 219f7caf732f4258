//! One frame of `tidemark top`, as plain text.

use server::telemetry::held::Held;
use server::telemetry::snapshot::{FunctionSample, QuerySample, RouteSample, TopSnapshot};

use crate::cli::table;

/// The metrics that are shown, by their keys in a [`TopSnapshot`].
mod metric {
    pub(super) const CPU_S: &str = "process_cpu_seconds_total";
    pub(super) const RESIDENT_BYTES: &str = "process_resident_memory_bytes";
    pub(super) const CONNECTIONS: &str = "tidemark_http_connections";
    /// All that lists were answered by, hits first.
    pub(super) const LISTS: [&str; 3] = [
        "tidemark_list_cache_requests_total{hit}",
        "tidemark_list_cache_requests_total{miss}",
        "tidemark_list_cache_requests_total{bypass}",
    ];
    pub(super) const CACHE_ENTRIES: &str = "tidemark_list_cache_entries";
    pub(super) const CACHE_BYTES: &str = "tidemark_list_cache_bytes";
    pub(super) const CACHE_BYTES_MAX: &str = "tidemark_list_cache_max_bytes";
    pub(super) const INVALIDATIONS: &str = "tidemark_list_cache_invalidations_total";
    pub(super) const EVICTIONS: &str = "tidemark_list_cache_evictions_total";
    pub(super) const COMMITS: &str = "tidemark_commits_total";
    pub(super) const COMMIT_ROWS: &str = "tidemark_commit_rows_total";
    pub(super) const COMMIT_REQUESTS: &str = "tidemark_commit_requests";
    pub(super) const SYNC: &str = "tidemark_commit_sync_duration_seconds";
    pub(super) const WRITES_WAITING: &str = "tidemark_writes_waiting";
    pub(super) const PENDING_MARKS: &str = "tidemark_pending_marks";
    pub(super) const LONG_READS: &str = "tidemark_long_reads_total";
    pub(super) const LONG_RUNNING: &str = "tidemark_long_reads_running";
    pub(super) const LONG_WAITING: &str = "tidemark_long_reads_waiting";
    pub(super) const SLOW_QUERIES: &str = "tidemark_slow_queries_total";
    /// By runtime.
    pub(super) const PROCESSES: &str = "tidemark_function_processes";
    pub(super) const PROCESSES_BYTES: &str = "tidemark_function_memory_bytes";
    pub(super) const EXECUTIONS_WAITING: &str = "tidemark_executions_waiting";
    /// Each of the above.
    #[cfg(test)]
    pub(super) const ALL: [&str; 24] = [
        CPU_S,
        RESIDENT_BYTES,
        CONNECTIONS,
        LISTS[0],
        LISTS[1],
        LISTS[2],
        CACHE_ENTRIES,
        CACHE_BYTES,
        CACHE_BYTES_MAX,
        INVALIDATIONS,
        EVICTIONS,
        COMMITS,
        COMMIT_ROWS,
        COMMIT_REQUESTS,
        SYNC,
        WRITES_WAITING,
        PENDING_MARKS,
        LONG_READS,
        LONG_RUNNING,
        LONG_WAITING,
        SLOW_QUERIES,
        PROCESSES,
        PROCESSES_BYTES,
        EXECUTIONS_WAITING,
    ];
}

/// Lines of each list.
const LINES_MAX: usize = 8;
/// Fewest characters that a route or a query is shortened to.
const NAME_CHARS_MIN: usize = 12;

/// What is shown of a server between two looks at it.
pub struct Frame<'a> {
    /// The first look; `None` shows what came since the server's start.
    pub before: Option<&'a TopSnapshot>,
    /// The second look.
    pub now: &'a TopSnapshot,
}

/// How much fits on a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Characters of a line.
    pub columns: usize,
    /// Lines.
    pub rows: usize,
}

impl Size {
    /// Paper has no end.
    pub const ENDLESS: Size = Size {
        columns: usize::MAX,
        rows: usize::MAX,
    };
}

/// One of the lists: its heads, and its lines by rank, the name last.
struct Listed {
    head: Vec<&'static str>,
    lines: Vec<Vec<String>>,
    shorten: fn(&str, usize) -> String,
}

impl Frame<'_> {
    /// The frame as it fits: lines are wrapped, names shortened, and the lists share the lines
    /// that are left.
    pub fn text(&self, size: Size) -> String {
        let mut head = wrapped(&self.head(), size.columns);
        // On a small screen the lists have half of it, and the head what comes first.
        head.truncate(size.rows.div_ceil(2).max(1));
        let queries = self.queries();
        let hottest = |query: &QueryRate| (query.per_s * 1e3) as u64;
        let slowest = |query: &QueryRate| query.mean_ns.unwrap_or_default() as u64;
        let functions = (!self.now.functions.is_empty()).then(|| self.busiest_functions());
        let lists: Vec<Listed> = [self.routes()]
            .into_iter()
            .chain(functions)
            .chain([
                listed("HOTTEST QUERIES", &queries, hottest),
                listed("SLOWEST QUERIES", &queries, slowest),
            ])
            .collect();
        let wanted: Vec<usize> = lists.iter().map(|list| list.lines.len()).collect();
        let shares = shared(size.rows.saturating_sub(head.len()), &wanted);
        let mut text = head.join("\n") + "\n";
        for (list, share) in lists.iter().zip(shares) {
            if let Some(lines) = share {
                text.push('\n');
                text += &list.text(lines, size.columns);
            }
        }
        text
    }

    /// Seconds between the looks.
    fn over_s(&self) -> f64 {
        let before_ms = self.earlier().map_or(0, |before| before.up_ms);
        (self.now.up_ms.saturating_sub(before_ms) as f64 / 1e3).max(1e-3)
    }

    /// The first look, unless the server was restarted since.
    fn earlier(&self) -> Option<&TopSnapshot> {
        self.before.filter(|before| before.up_ms <= self.now.up_ms)
    }

    /// How much was counted between the looks.
    fn more(&self, of: impl Fn(&TopSnapshot) -> f64) -> f64 {
        let before = self.earlier().map_or(0.0, &of);
        (of(self.now) - before).max(0.0)
    }

    fn rate(&self, of: impl Fn(&TopSnapshot) -> f64) -> String {
        per_s(self.more(of) / self.over_s())
    }

    /// The rate of a metric that only rises.
    fn rate_of(&self, metric: &'static str) -> String {
        self.rate(|snapshot| snapshot.number(metric))
    }

    /// A histogram of what came between the looks.
    fn distribution(&self, metric: &str) -> Held {
        let now = self.now.distribution(metric);
        match self.earlier() {
            Some(before) => now.since(&before.distribution(metric)),
            None => now,
        }
    }

    /// Lines of parts, what is looked at most first.
    fn head(&self) -> Vec<Vec<String>> {
        let now = self.now;
        let cores = self.more(|snapshot| snapshot.number(metric::CPU_S)) / self.over_s();
        let title = vec![
            format!("tidemark {}", now.version),
            format!("up {}", span(now.up_ms / 1_000)),
            format!("{} connections", now.number(metric::CONNECTIONS)),
            bytes(now.number(metric::RESIDENT_BYTES)),
            format!("{cores:.2} cores"),
        ];
        [
            title,
            Vec::new(),
            self.requests(),
            self.lists(),
            self.commits(),
            self.long_reads(),
        ]
        .into_iter()
        .chain(self.functions())
        .collect()
    }

    /// Nothing where no function has run.
    fn functions(&self) -> Option<Vec<String>> {
        let now = self.now;
        let sum = |of: fn(&FunctionSample) -> u64| {
            let all = self.used_functions().into_iter();
            per_s(all.map(|function| of(&function)).sum::<u64>() as f64 / self.over_s())
        };
        (!now.functions.is_empty()).then(|| {
            vec![
                begun("functions", &sum(|function| function.runs)),
                format!("failed {}", sum(|function| function.failed)),
                format!("cold {}", sum(|function| function.cold)),
                format!("waiting {}", now.number(metric::EXECUTIONS_WAITING)),
                format!("processes {}", now.sum(metric::PROCESSES)),
                bytes(now.sum(metric::PROCESSES_BYTES)),
            ]
        })
    }

    fn requests(&self) -> Vec<String> {
        let sum = |of: fn(&RouteSample) -> u64| {
            move |snapshot: &TopSnapshot| snapshot.routes.iter().map(of).sum::<u64>() as f64
        };
        let took = self.took();
        vec![
            begun("requests", &self.rate(sum(|route| route.answers))),
            format!("4xx {}", self.rate(sum(|route| route.refusals))),
            format!("5xx {}", self.rate(sum(|route| route.failures))),
            format!("p50 {}", time(took.quantile(0.5))),
            format!("p99 {}", time(took.quantile(0.99))),
        ]
    }

    fn lists(&self) -> Vec<String> {
        let now = self.now;
        let all = |snapshot: &TopSnapshot| {
            let lists = metric::LISTS.map(|key| snapshot.number(key));
            lists.iter().sum::<f64>()
        };
        let held = format!(
            "{} of {} in {} entries",
            bytes(now.number(metric::CACHE_BYTES)),
            bytes(now.number(metric::CACHE_BYTES_MAX)),
            now.number(metric::CACHE_ENTRIES)
        );
        let hits = self.more(|snapshot| snapshot.number(metric::LISTS[0]));
        vec![
            begun("lists", &self.rate(all)),
            format!("hits {}", share(hits, self.more(all))),
            held,
            format!("invalidated {}", self.rate_of(metric::INVALIDATIONS)),
            format!("evicted {}", self.rate_of(metric::EVICTIONS)),
        ]
    }

    fn commits(&self) -> Vec<String> {
        let now = self.now;
        let requests = self.distribution(metric::COMMIT_REQUESTS);
        let each = requests.sum as f64 / requests.count().max(1) as f64;
        let sync = self.distribution(metric::SYNC);
        let [p50, p99] = [0.5, 0.99].map(|share| time(sync.quantile(share)));
        vec![
            begun("commits", &self.rate_of(metric::COMMITS)),
            format!("rows {}", self.rate_of(metric::COMMIT_ROWS)),
            format!("{each:.1} requests each"),
            format!("sync p50 {p50} p99 {p99}"),
            format!("waiting {}", now.number(metric::WRITES_WAITING)),
            format!("pending {}", now.number(metric::PENDING_MARKS)),
        ]
    }

    fn long_reads(&self) -> Vec<String> {
        let now = self.now;
        vec![
            begun("long reads", &self.rate_of(metric::LONG_READS)),
            format!("running {}", now.number(metric::LONG_RUNNING)),
            format!("waiting {}", now.number(metric::LONG_WAITING)),
            format!("slow queries {}", self.rate_of(metric::SLOW_QUERIES)),
        ]
    }

    /// How long all answers took.
    fn took(&self) -> Held {
        let mut all = Held::default();
        for (_, route) in self.used_routes() {
            all.add(&route.took);
        }
        all
    }

    /// The routes that were asked for between the looks, and how often.
    fn used_routes(&self) -> Vec<(u64, RouteSample)> {
        let earlier = |route: &RouteSample| {
            let before = self.earlier()?;
            let is_same = |snapshot: &&RouteSample| {
                (&snapshot.method, &snapshot.route) == (&route.method, &route.route)
            };
            before.routes.iter().find(is_same)
        };
        let routes = self.now.routes.iter().map(|route| {
            let before = earlier(route);
            let answers =
                route.answers - before.map_or(0, |snapshot| snapshot.answers.min(route.answers));
            let took = before.map_or(route.took.clone(), |snapshot| {
                route.took.since(&snapshot.took)
            });
            let route = RouteSample {
                took,
                ..route.clone()
            };
            (answers, route)
        });
        routes.filter(|(answers, _)| *answers > 0).collect()
    }

    fn routes(&self) -> Listed {
        let mut routes = self.used_routes();
        routes.sort_by_key(|(answers, route)| (std::cmp::Reverse(*answers), route.route.clone()));
        routes.truncate(LINES_MAX);
        let line = |(answers, route): &(u64, RouteSample)| {
            let name = match route.route.as_str() {
                "" => "(no route)".to_owned(),
                pattern => format!("{} {pattern}", route.method),
            };
            vec![
                per_s(*answers as f64 / self.over_s()),
                time(route.took.quantile(0.5)),
                time(route.took.quantile(0.99)),
                name,
            ]
        };
        Listed {
            head: vec!["RATE", "P50", "P99", "ROUTE"],
            lines: routes.iter().map(line).collect(),
            shorten: without_middle,
        }
    }

    /// What functions have come to between the looks, of those that ran.
    fn used_functions(&self) -> Vec<FunctionSample> {
        let none = FunctionSample::default();
        let used = self.now.functions.iter().map(|now| {
            let before = self.earlier().and_then(|before| {
                let mut all = before.functions.iter();
                all.find(|before| before.name == now.name)
            });
            // One that was deleted and made again has fewer.
            let before = before.filter(|before| before.runs <= now.runs);
            let before = before.unwrap_or(&none);
            FunctionSample {
                name: now.name.clone(),
                runs: now.runs - before.runs,
                failed: now.failed.saturating_sub(before.failed),
                cold: now.cold.saturating_sub(before.cold),
                run_ns: now.run_ns.saturating_sub(before.run_ns),
            }
        });
        used.filter(|function| function.runs > 0).collect()
    }

    /// Those first whose handlers ran the longest together.
    fn busiest_functions(&self) -> Listed {
        let mut functions = self.used_functions();
        functions.sort_by(|a, b| (b.run_ns, &a.name).cmp(&(a.run_ns, &b.name)));
        functions.truncate(LINES_MAX);
        let line = |function: &FunctionSample| {
            let mean_ns = function.run_ns as f64 / function.runs as f64;
            vec![
                per_s(function.runs as f64 / self.over_s()),
                share(function.failed as f64, function.runs as f64),
                time(Some(mean_ns)),
                format!("{:.2}", function.run_ns as f64 / 1e9 / self.over_s()),
                function.name.clone(),
            ]
        };
        Listed {
            head: vec!["RATE", "FAILED", "MEAN", "BUSY", "FUNCTION"],
            lines: functions.iter().map(line).collect(),
            shorten: without_end,
        }
    }

    fn queries(&self) -> Vec<QueryRate> {
        let earlier = |query: &QuerySample| {
            let before = self.earlier()?;
            let is_same = |snapshot: &&QuerySample| {
                (&snapshot.table, &snapshot.shape) == (&query.table, &query.shape)
            };
            before.queries.iter().find(is_same)
        };
        let queries = self.now.queries.iter().map(|query| {
            let none = QuerySample::default();
            let before = earlier(query).unwrap_or(&none);
            let hits = query.hits.saturating_sub(before.hits);
            let reads = query.reads.saturating_sub(before.reads);
            let read_ns = query.read_ns.saturating_sub(before.read_ns);
            QueryRate {
                name: format!("{} {}", query.table, query.shape),
                per_s: (hits + reads) as f64 / self.over_s(),
                hits: share(hits as f64, (hits + reads) as f64),
                mean_ns: (reads > 0).then(|| read_ns as f64 / reads as f64),
                slowest_ns: query.slowest_ns,
            }
        });
        queries.filter(|query| query.per_s > 0.0).collect()
    }
}

/// How a line of the head begins.
fn begun(name: &str, rate: &str) -> String {
    format!("{name:<11}{rate:>9}")
}

/// Parts in as few lines as they take; what does not fit goes on in the next line, indented.
fn wrapped(lines: &[Vec<String>], columns: usize) -> Vec<String> {
    const GAP: &str = "   ";
    let mut out = Vec::new();
    for parts in lines {
        let mut line = String::new();
        for part in parts {
            let is_first = line.trim().is_empty();
            let wide = line.chars().count() + GAP.len() + part.chars().count();
            if !is_first && wide > columns {
                out.push(std::mem::replace(&mut line, GAP.to_owned()));
            } else if !is_first {
                line += GAP;
            }
            line += part;
        }
        out.push(line);
    }
    out
}

/// How many lines each list is given of `rows`, `None` for a list that there is no room for. Two
/// more go for its head and the blank line before it.
fn shared(rows: usize, wanted: &[usize]) -> Vec<Option<usize>> {
    let mut shares = vec![None; wanted.len()];
    let mut left = rows;
    let mut is_dealt = true;
    while is_dealt {
        is_dealt = false;
        for (share, wanted) in shares.iter_mut().zip(wanted.iter().copied()) {
            let (next, price) = match *share {
                None => (wanted.min(1), 2 + wanted.min(1)),
                Some(lines) if lines < wanted => (lines + 1, 1),
                Some(_) => continue,
            };
            if price <= left {
                *share = Some(next);
                left -= price;
                is_dealt = true;
            }
        }
    }
    shares
}

impl Listed {
    /// So many of its lines, none wider than `columns` as far as names can be shortened.
    fn text(&self, lines: usize, columns: usize) -> String {
        let lines = &self.lines[..lines.min(self.lines.len())];
        let width = |column: usize| {
            let cells = lines.iter().map(|line| line[column].chars().count());
            let head = self.head[column].chars().count();
            cells.chain([head]).max().unwrap_or_default()
        };
        // Two blanks stand between columns.
        let name = self.head.len() - 1;
        let before: usize = (0..name).map(|column| width(column) + 2).sum();
        let room = columns.saturating_sub(before).max(NAME_CHARS_MIN);
        let shortened = lines.iter().map(|line| {
            let mut line = line.clone();
            line[name] = (self.shorten)(&line[name], room);
            line
        });
        table::render(&self.head, &shortened.collect::<Vec<_>>())
    }
}

/// `GET …/tables/{table}/rows`: the end tells routes apart.
fn without_middle(name: &str, room: usize) -> String {
    if name.chars().count() <= room {
        return name.to_owned();
    }
    let (method, path) = name.split_once(' ').unwrap_or(("", name));
    let begin = if method.is_empty() {
        "…".to_owned()
    } else {
        format!("{method} …")
    };
    let kept = room.saturating_sub(begin.chars().count());
    let skipped = path.chars().count().saturating_sub(kept);
    let tail: String = path.chars().skip(skipped).collect();
    // A whole step of the path reads better than a part, if that costs little.
    let at = tail.find('/').filter(|at| *at < tail.len() / 2);
    format!("{begin}{}", &tail[at.unwrap_or(0)..])
}

/// `p/d/t equal("genre") ord…`: the begin says which table.
fn without_end(name: &str, room: usize) -> String {
    if name.chars().count() <= room {
        return name.to_owned();
    }
    let begin: String = name.chars().take(room.saturating_sub(1)).collect();
    begin + "…"
}

/// A query between two looks.
struct QueryRate {
    name: String,
    per_s: f64,
    hits: String,
    mean_ns: Option<f64>,
    slowest_ns: u64,
}

/// Those that rank highest, under this title.
fn listed(title: &'static str, queries: &[QueryRate], rank: impl Fn(&QueryRate) -> u64) -> Listed {
    let mut queries: Vec<&QueryRate> = queries.iter().filter(|query| rank(query) > 0).collect();
    queries.sort_by_key(|query| (std::cmp::Reverse(rank(query)), &query.name));
    queries.truncate(LINES_MAX);
    let line = |query: &&QueryRate| {
        vec![
            per_s(query.per_s),
            query.hits.clone(),
            time(query.mean_ns),
            time(Some(query.slowest_ns as f64)),
            query.name.clone(),
        ]
    };
    Listed {
        head: vec!["RATE", "HITS", "READ", "SLOWEST", title],
        lines: queries.iter().map(line).collect(),
        shorten: without_end,
    }
}

/// `1,234/s`; fewer than ten with a decimal.
fn per_s(rate: f64) -> String {
    if rate > 0.0 && rate < 10.0 {
        return format!("{rate:.1}/s");
    }
    let digits = format!("{rate:.0}");
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text + "/s"
}

/// A time in nanoseconds, in the unit it is read best in.
fn time(nanoseconds: Option<f64>) -> String {
    match nanoseconds {
        None => "–".to_owned(),
        Some(ns) if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
        Some(ns) if ns < 1e9 => format!("{:.1} ms", ns / 1e6),
        Some(ns) => format!("{:.1} s", ns / 1e9),
    }
}

fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 {
        format!("{:.1} %", part * 100.0 / whole)
    } else {
        "–".to_owned()
    }
}

fn bytes(count: f64) -> String {
    format!("{:.1} MiB", count / f64::from(1 << 20))
}

fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(up_ms: u64, answers: u64) -> TopSnapshot {
        let held = |count: u64| Held {
            bounds: vec![100_000, 1_000_000],
            counts: vec![count, 0, 0],
            sum: 0,
        };
        TopSnapshot {
            version: "1".into(),
            up_ms,
            routes: vec![RouteSample {
                method: "GET".into(),
                route: "/v1/x".into(),
                answers,
                took: held(answers),
                ..RouteSample::default()
            }],
            numbers: [
                (metric::LISTS[0].to_owned(), (answers * 3 / 4) as f64),
                (metric::LISTS[1].to_owned(), (answers / 4) as f64),
            ]
            .into(),
            queries: vec![QuerySample {
                table: "p/d/t".into(),
                shape: "all rows".into(),
                hits: answers * 3 / 4,
                reads: answers / 4,
                read_ns: answers / 4 * 2_000_000,
                slowest_ns: 3_000_000_000,
            }],
            ..TopSnapshot::default()
        }
    }

    #[track_caller]
    fn check(before: Option<&TopSnapshot>, now: &TopSnapshot, parts: &[&str]) {
        let text = Frame { before, now }.text(Size::ENDLESS);
        for part in parts {
            assert!(text.contains(part), "`{part}` is not in\n{text}");
        }
    }

    #[test]
    fn rates_are_those_between_two_looks() {
        let (before, now) = (snapshot(60_000, 4_000), snapshot(62_000, 12_000));
        let parts = [
            "up 1 min",
            "requests     4,000/s",
            "hits 75.0 %",
            "4,000/s  50 µs  99 µs  GET /v1/x",
            "4,000/s  75.0 %  2.0 ms  3.0 s    p/d/t all rows",
        ];
        check(Some(&before), &now, &parts);
        check(None, &now, &["requests       194/s"]);
    }

    #[test]
    fn a_server_that_was_started_anew_or_does_nothing_is_shown_as_well() {
        let (before, now) = (snapshot(60_000, 4_000), snapshot(1_000, 40));
        check(Some(&before), &now, &["up 1 s", "requests        40/s"]);
        let quiet = snapshot(60_000, 4_000);
        check(
            Some(&quiet),
            &quiet,
            &["requests         0/s", "hits –", "p50 –"],
        );
    }

    #[test]
    fn functions_are_listed_by_how_long_they_ran() {
        let with = |up_ms, functions: &[(&str, u64, u64)]| {
            let of = |(name, runs, run_ns): &(&str, u64, u64)| FunctionSample {
                name: (*name).to_owned(),
                runs: *runs,
                failed: runs / 4,
                cold: 1,
                run_ns: *run_ns,
            };
            TopSnapshot {
                functions: functions.iter().map(of).collect(),
                ..snapshot(up_ms, 4_000)
            }
        };
        let before = with(60_000, &[("p/quick", 1_000, 1_000_000), ("p/slow", 4, 1)]);
        let mut now = with(
            62_000,
            &[("p/quick", 9_000, 9_000_000), ("p/slow", 8, 1_000_000_001)],
        );
        now.numbers
            .insert("tidemark_function_processes{node-22}".to_owned(), 2.0);
        now.numbers
            .insert("tidemark_function_processes{python-3.11}".to_owned(), 1.0);
        let parts = [
            "functions    4,002/s",
            "failed 1,000/s",
            "processes 3",
            "2.0/s    25.0 %  250.0 ms  0.50  p/slow\n4,000/s  25.0 %  1 µs      0.00  p/quick",
        ];
        check(Some(&before), &now, &parts);
        // One that was made again begins from nothing.
        let again = with(62_000, &[("p/quick", 10, 50_000)]);
        check(Some(&before), &again, &["5.0/s"]);
        let without = Frame {
            before: None,
            now: &snapshot(60_000, 1),
        };
        assert!(!without.text(Size::ENDLESS).contains("unction"));
    }

    /// A busy server: eight routes, eight queries.
    fn busy(up_ms: u64, answers: u64) -> TopSnapshot {
        let mut snapshot = snapshot(up_ms, answers);
        let long = "/v1/tablesdb/{database}/tables/{table}/rows/{row}/".to_owned();
        snapshot.routes = (0..8)
            .map(|nth| RouteSample {
                route: format!("{long}{nth}"),
                ..snapshot.routes[0].clone()
            })
            .collect();
        snapshot.queries = (0..8)
            .map(|nth| QuerySample {
                shape: format!("equal(\"a column with a long name {nth}\") orderDesc(\"b\")"),
                ..snapshot.queries[0].clone()
            })
            .collect();
        snapshot
    }

    #[test]
    fn each_list_has_its_share_and_nothing_is_cut_on_screens_of_any_size() {
        let (before, now) = (busy(60_000, 4_000), busy(62_000, 12_000));
        let frame = Frame {
            before: Some(&before),
            now: &now,
        };
        let shown = |columns, rows| frame.text(Size { columns, rows });
        for (columns, rows, parts) in [
            (
                200,
                60,
                vec!["HOTTEST", "SLOWEST", "evicted", "pending", "rows/{row}/7"],
            ),
            (
                80,
                23,
                vec!["HOTTEST", "SLOWEST", "evicted", "waiting", "pending", "p99"],
            ),
            (
                40,
                9,
                vec!["up 1 min", "requests", "ROUTE", "50 µs  99 µs", "/0"],
            ),
            (80, 4, vec!["up 1 min"]),
            (10, 1, vec!["tidemark"]),
        ] {
            let text = shown(columns, rows);
            assert!(text.lines().count() <= rows, "{columns}x{rows}\n{text}");
            for part in parts {
                assert!(
                    text.contains(part),
                    "{columns}x{rows}: `{part}` is not in\n{text}"
                );
            }
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(columns < 40 || widest <= Some(columns), "{text}");
        }
    }

    #[test]
    fn metrics_shown_are_in_the_list_of_metrics() {
        // A test of the server compares this page with its metrics.
        let page = include_str!("../../../../../docs/reference/metrics.md");
        for key in metric::ALL {
            let name = key.split('{').next().unwrap_or(key);
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn names_are_shortened_where_they_say_least() {
        let route = "GET /v1/tablesdb/{database}/tables/{table}/rows";
        assert_eq!(without_middle(route, 80), route);
        assert_eq!(without_middle(route, 30), "GET …/tables/{table}/rows");
        assert_eq!(without_end("p/d/t all rows", 8), "p/d/t a…");
    }

    #[test]
    fn lists_share_what_lines_there_are() {
        assert_eq!(shared(usize::MAX, &[8, 8, 0]), [Some(8), Some(8), Some(0)]);
        assert_eq!(shared(15, &[8, 8, 8]), [Some(3), Some(3), Some(3)]);
        assert_eq!(shared(16, &[1, 8, 8]), [Some(1), Some(5), Some(4)]);
        assert_eq!(shared(5, &[8, 8, 8]), [Some(3), None, None]);
        assert_eq!(shared(2, &[8, 8, 8]), [None; 3]);
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(per_s(0.0), "0/s");
        assert_eq!(per_s(1.25), "1.2/s");
        assert_eq!(per_s(1_234_567.0), "1,234,567/s");
        assert_eq!(time(Some(1_500.0)), "2 µs");
        assert_eq!(time(Some(2.5e9)), "2.5 s");
        assert_eq!(span(90_061), "1 d 1 h");
        assert_eq!(span(3_660), "1 h 1 min");
    }
}
