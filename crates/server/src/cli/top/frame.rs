//! One frame of `tidemark top`, as plain text.

use crate::cli::table;
use crate::watch::told::{Held, QueryTold, RouteTold, Told};

/// Lines of each list.
const LINES_MAX: usize = 8;

/// What is shown of a server between two looks at it.
pub struct Frame<'a> {
    /// The first look; `None` shows what came since the server's start.
    pub before: Option<&'a Told>,
    /// The second look.
    pub now: &'a Told,
}

impl Frame<'_> {
    /// The frame.
    pub fn text(&self) -> String {
        let mut text = self.head();
        text += &self.routes();
        let queries = self.queries();
        let hottest = |asked: &Asked| (asked.per_s * 1e3) as u64;
        text += &listed("HOTTEST QUERIES", &queries, hottest);
        let slowest = |asked: &Asked| asked.mean_ns.unwrap_or_default() as u64;
        text += &listed("SLOWEST QUERIES", &queries, slowest);
        text
    }

    /// Seconds between the looks.
    fn over_s(&self) -> f64 {
        let before_ms = self.earlier().map_or(0, |before| before.up_ms);
        (self.now.up_ms.saturating_sub(before_ms) as f64 / 1e3).max(1e-3)
    }

    /// The first look, unless the server was started anew since.
    fn earlier(&self) -> Option<&Told> {
        self.before.filter(|before| before.up_ms <= self.now.up_ms)
    }

    /// How much was counted between the looks.
    fn more(&self, of: impl Fn(&Told) -> u64) -> u64 {
        let before = self.earlier().map_or(0, &of);
        of(self.now).saturating_sub(before)
    }

    fn rate(&self, of: impl Fn(&Told) -> u64) -> String {
        per_s(self.more(of) as f64 / self.over_s())
    }

    fn head(&self) -> String {
        let now = self.now;
        let before_s = self.earlier().map_or(0.0, |before| before.cpu_s);
        let head = format!(
            "tidemark {}   up {}   {} connections   {}   {:.2} cores\n\n",
            now.version,
            span(now.up_ms / 1_000),
            now.connections,
            bytes(now.resident_bytes),
            (now.cpu_s - before_s) / self.over_s()
        );
        [
            head,
            self.requests(),
            self.lists(),
            self.commits(),
            self.long_reads(),
        ]
        .concat()
    }

    fn requests(&self) -> String {
        let sum =
            |of: fn(&RouteTold) -> u64| move |told: &Told| told.routes.iter().map(of).sum::<u64>();
        let took = self.took();
        let rest = format!(
            "4xx {}   5xx {}   p50 {}   p99 {}",
            self.rate(sum(|route| route.refusals)),
            self.rate(sum(|route| route.failures)),
            time(took.quantile(0.5)),
            time(took.quantile(0.99))
        );
        line("requests", &self.rate(sum(|route| route.answers)), &rest)
    }

    fn lists(&self) -> String {
        let (now, all) = (self.now, |told: &Told| {
            told.hits + told.misses + told.bypasses
        });
        let rest = format!(
            "hits {}   {} of {} in {} entries   invalidated {}   evicted {}",
            share(self.more(|told| told.hits), self.more(all)),
            bytes(now.cache_bytes),
            bytes(now.cache_bytes_max),
            now.cache_entries,
            self.rate(|told| told.invalidations),
            self.rate(|told| told.evictions)
        );
        line("lists", &self.rate(all), &rest)
    }

    fn commits(&self) -> String {
        let now = self.now;
        let sync = self.earlier();
        let sync = sync.map_or(now.sync.clone(), |before| now.sync.since(&before.sync));
        let commits = self.more(|told| told.commits);
        let of_commit = self.more(|told| told.commit_requests);
        let rest = format!(
            "rows {}   {:.1} requests each   sync p50 {} p99 {}   waiting {}   pending {}",
            self.rate(|told| told.commit_rows),
            of_commit as f64 / commits.max(1) as f64,
            time(sync.quantile(0.5)),
            time(sync.quantile(0.99)),
            now.writes_waiting,
            now.pending_marks
        );
        line("commits", &self.rate(|told| told.commits), &rest)
    }

    fn long_reads(&self) -> String {
        let rest = format!(
            "running {}   waiting {}   slow queries {}",
            self.now.long_running,
            self.now.long_waiting,
            self.rate(|told| told.slow_queries)
        );
        line("long reads", &self.rate(|told| told.long_reads), &rest)
    }

    /// How long all answers took.
    fn took(&self) -> Held {
        let mut all = Held::default();
        for (_, route) in self.asked_routes() {
            all.add(&route.took);
        }
        all
    }

    /// The routes that were asked for between the looks, and how often.
    fn asked_routes(&self) -> Vec<(u64, RouteTold)> {
        let earlier = |route: &RouteTold| {
            let before = self.earlier()?;
            let is_same =
                |told: &&RouteTold| (&told.method, &told.route) == (&route.method, &route.route);
            before.routes.iter().find(is_same)
        };
        let routes = self.now.routes.iter().map(|route| {
            let before = earlier(route);
            let answers = route.answers - before.map_or(0, |told| told.answers.min(route.answers));
            let took = before.map_or(route.took.clone(), |told| route.took.since(&told.took));
            let route = RouteTold {
                took,
                ..route.clone()
            };
            (answers, route)
        });
        routes.filter(|(answers, _)| *answers > 0).collect()
    }

    fn routes(&self) -> String {
        let mut routes = self.asked_routes();
        routes.sort_by_key(|(answers, route)| (std::cmp::Reverse(*answers), route.route.clone()));
        routes.truncate(LINES_MAX);
        let row = |(answers, route): &(u64, RouteTold)| {
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
        let rows: Vec<Vec<String>> = routes.iter().map(row).collect();
        format!(
            "\n{}",
            table::render(&["RATE", "P50", "P99", "ROUTE"], &rows)
        )
    }

    fn queries(&self) -> Vec<Asked> {
        let earlier = |query: &QueryTold| {
            let before = self.earlier()?;
            let is_same =
                |told: &&QueryTold| (&told.table, &told.shape) == (&query.table, &query.shape);
            before.queries.iter().find(is_same)
        };
        let queries = self.now.queries.iter().map(|query| {
            let none = QueryTold::default();
            let before = earlier(query).unwrap_or(&none);
            let hits = query.hits.saturating_sub(before.hits);
            let reads = query.reads.saturating_sub(before.reads);
            let read_ns = query.read_ns.saturating_sub(before.read_ns);
            Asked {
                name: format!("{} {}", query.table, query.shape),
                per_s: (hits + reads) as f64 / self.over_s(),
                hits: share(hits, hits + reads),
                mean_ns: (reads > 0).then(|| read_ns as f64 / reads as f64),
                slowest_ns: query.slowest_ns,
            }
        });
        queries.filter(|asked| asked.per_s > 0.0).collect()
    }
}

fn line(name: &str, rate: &str, rest: &str) -> String {
    format!("{name:<11}{rate:>9}   {rest}\n")
}

/// A query between two looks.
struct Asked {
    name: String,
    per_s: f64,
    hits: String,
    mean_ns: Option<f64>,
    slowest_ns: u64,
}

/// Those that rank highest, under this title.
fn listed(title: &str, queries: &[Asked], rank: impl Fn(&Asked) -> u64) -> String {
    let mut queries: Vec<&Asked> = queries.iter().filter(|asked| rank(asked) > 0).collect();
    queries.sort_by_key(|asked| (std::cmp::Reverse(rank(asked)), &asked.name));
    queries.truncate(LINES_MAX);
    let row = |asked: &&Asked| {
        vec![
            per_s(asked.per_s),
            asked.hits.clone(),
            time(asked.mean_ns),
            time(Some(asked.slowest_ns as f64)),
            asked.name.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = queries.iter().map(row).collect();
    let head = ["RATE", "HITS", "READ", "SLOWEST", title];
    format!("\n{}", table::render(&head, &rows))
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

fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "–".to_owned(),
        whole => format!("{:.1} %", part as f64 * 100.0 / whole as f64),
    }
}

fn bytes(count: u64) -> String {
    format!("{:.1} MiB", count as f64 / f64::from(1 << 20))
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

    fn told(up_ms: u64, answers: u64) -> Told {
        let held = |count: u64| Held {
            bounds: vec![100_000, 1_000_000],
            counts: vec![count, 0, 0],
        };
        Told {
            version: "1".into(),
            up_ms,
            routes: vec![RouteTold {
                method: "GET".into(),
                route: "/v1/x".into(),
                answers,
                took: held(answers),
                ..RouteTold::default()
            }],
            hits: answers * 3 / 4,
            misses: answers / 4,
            queries: vec![QueryTold {
                table: "p/d/t".into(),
                shape: "all rows".into(),
                hits: answers * 3 / 4,
                reads: answers / 4,
                read_ns: answers / 4 * 2_000_000,
                slowest_ns: 3_000_000_000,
            }],
            ..Told::default()
        }
    }

    #[track_caller]
    fn check(before: Option<&Told>, now: &Told, parts: &[&str]) {
        let text = Frame { before, now }.text();
        for part in parts {
            assert!(text.contains(part), "`{part}` is not in\n{text}");
        }
    }

    #[test]
    fn rates_are_those_between_two_looks() {
        let (before, now) = (told(60_000, 4_000), told(62_000, 12_000));
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
        let (before, now) = (told(60_000, 4_000), told(1_000, 40));
        check(Some(&before), &now, &["up 1 s", "requests        40/s"]);
        let quiet = told(60_000, 4_000);
        check(
            Some(&quiet),
            &quiet,
            &["requests         0/s", "hits –", "p50 –"],
        );
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
