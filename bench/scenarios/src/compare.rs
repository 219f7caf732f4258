//! `tidemark bench compare`: two runs side by side, with the noise of each.
//!
//! Noise is that of the very point that is judged, and it is widened by how far the floor, which
//! is the same program in both runs, has moved between them. Runs that were asked for different
//! things, or on different machines, are shown and not judged.

use std::time::Duration;

use anyhow::{Result, ensure};
use measure::markdown::table;
use measure::percentile::{Sorted, spread};
use serde_json::{Map, Value};

use super::codes;
use super::run::{Group, PASS_POINTS, Pass, Role, Run, Series};

/// Fewer samples than this decide no p99.
const SAMPLES_MIN: u64 = 1_000;
/// What of the parameters says who was measured and what came of it, not what was asked for.
const OUTCOMES: [&str; 13] = [
    "started",
    "client",
    "binary",
    "endpoint",
    "server",
    "server_version",
    "binary_sha256",
    "checkout",
    "exact_hits",
    "exact_misses",
    "ttl_hits",
    "ttl_misses",
    "floor",
];
/// What is said of a point.
const SAME: &str = "the same";
const FASTER: &str = "**faster**";
const SLOWER: &str = "**slower**";
const UNJUDGED: &str = "not judged";
/// What of a machine decides how fast it is.
const DECIDES: [&str; 2] = ["cpu", "cores"];

/// Both runs as text: what came of it, what differs between their machines and parameters, then
/// every series that both have.
///
/// # Errors
/// When they have no series in common.
pub fn compare(one: &Run, other: &Run) -> Result<String> {
    let (a, b) = (&one.title, &other.title);
    let mut parts = vec![format!(
        "A: {a} of {}\nB: {b} of {}\n",
        one.started, other.started
    )];
    let machines = differences(&one.machine, &other.machine);
    let parameters = differences(&one.parameters, &other.parameters);
    let is_same = !machines
        .iter()
        .any(|row| DECIDES.contains(&row[0].as_str()))
        && parameters
            .iter()
            .all(|row| OUTCOMES.contains(&row[0].as_str()));
    let differences = [machines, parameters].concat();
    if !differences.is_empty() {
        parts.push(table("not the same|A|B", differences));
    }
    let mut lines = Vec::new();
    let mut furthest = 0.0_f64;
    for group in &one.groups {
        let Some(same) = other.groups.iter().find(|other| other.key == group.key) else {
            continue;
        };
        for series in &group.series {
            if let Some(found) = same.series.iter().find(|other| other.key == series.key) {
                let pair = Pair {
                    one: series,
                    other: found,
                    floors: floor(group, series).zip(floor(same, found)),
                    is_same: is_same && series.asked_per_s == found.asked_per_s,
                };
                lines.extend(pair.lines(&group.title));
                furthest = furthest.max(pair.rates_apart());
            }
        }
    }
    ensure!(
        !lines.is_empty(),
        "the runs have nothing in common: {} and {}",
        one.kind,
        other.kind
    );
    parts.insert(0, summary(&lines));
    let is_judged = lines.iter().any(JudgedPoint::is_judged);
    let head = "workload|series|point|A|B|B / A|noise of A|noise of B|floor moved|B is";
    parts.push(table(
        head,
        lines.into_iter().map(JudgedPoint::cells).collect(),
    ));
    if is_judged {
        parts.push(format!(
            "Rates of one figure, measured again, lay up to {} apart within A and {} within B; \
             those of the two runs up to {}.\n",
            shown(again(one)),
            shown(again(other)),
            shown(Some(furthest)),
        ));
    }
    parts.push(closing(is_same));
    Ok(parts.join("\n"))
}

/// How it was judged, or why it was not.
fn closing(is_same: bool) -> String {
    let mut closing =
        "Noise is how far the same point, measured again within one run, lay apart. The \
            floor is the same program in both runs: what it moved by, machine and moment moved. A \
            difference no larger than the greater noise and the floor's way together is called the \
            same.\n"
            .to_owned();
    if !is_same {
        closing += "Nothing is judged: the runs were not asked for the same, or not on the same \
            machine.\n";
    }
    closing
}

/// One sentence on all points: how many are better, worse and within the noise, and the worst.
fn summary(lines: &[JudgedPoint]) -> String {
    let says = |verdict: &str| lines.iter().filter(|line| line.verdict == verdict).count();
    let counts = format!(
        "B is faster than A in {} of {} points, slower in {}, the same within the noise in {}.",
        says(FASTER),
        lines.iter().filter(|line| line.is_judged()).count(),
        says(SLOWER),
        says(SAME)
    );
    let counts = match says(UNJUDGED) {
        0 => counts,
        unjudged => format!("{counts} Not judged: {unjudged}."),
    };
    let slower = lines.iter().filter(|line| line.verdict == SLOWER);
    match slower.max_by(|one, other| away(one.ratio).total_cmp(&away(other.ratio))) {
        None => format!("{counts}\n"),
        Some(JudgedPoint {
            group,
            series,
            point,
            values: [a, b],
            ratio,
            ..
        }) => format!(
            "{counts} The worst: {group}, {series}, {point}, {b} after {a}, {ratio:.3} times as \
             much.\n"
        ),
    }
}

/// The floor that was asked as `of` was: as often as it answers, or at a fixed rate.
fn floor<'a>(group: &'a Group, of: &Series) -> Option<&'a Series> {
    let is_alike = |series: &&Series| series.asked_per_s.is_some() == of.asked_per_s.is_some();
    let mut floors = group
        .series
        .iter()
        .filter(|series| series.role == Role::Floor);
    floors.find(is_alike)
}

/// How far the rates of one figure, measured again, lie apart at most.
fn again(run: &Run) -> Option<f64> {
    let series = run.groups.iter().flat_map(|group| &group.series);
    let rates = series.filter_map(|series| series.noise?.again);
    rates.map(away).max_by(f64::total_cmp)
}

fn differences(one: &Map<String, Value>, other: &Map<String, Value>) -> Vec<Vec<String>> {
    let absent = Value::Null;
    let mut keys: Vec<&String> = one.keys().chain(other.keys()).collect();
    keys.sort();
    keys.dedup();
    let rows = keys.into_iter().filter(|key| *key != "started");
    rows.filter_map(|key| {
        let [a, b] = [one, other].map(|run| run.get(key).unwrap_or(&absent));
        (a != b).then(|| vec![key.clone(), a.to_string(), b.to_string()])
    })
    .collect()
}

/// What is looked at of a series: its rate, or a point by its rank in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    Rate,
    At(&'static str, u64),
}

impl Point {
    fn of(self, series: &Series) -> Option<f64> {
        match self {
            Point::Rate => series.per_s(),
            Point::At(name, _) => series.points_us.get(name).copied(),
        }
    }

    fn shown(self, value: f64) -> String {
        let unit = if self == Point::Rate { "/s" } else { "µs" };
        format!("{value:.1} {unit}")
    }

    /// How far this point of the same series, taken again, lies apart: in several passes, or else
    /// of samples in turn, and of one half after the other. `None` where there are no samples, or
    /// too few for the point.
    fn noise(self, series: &Series) -> Option<f64> {
        if series.passes.len() > 1 {
            return self.spread(&series.passes);
        }
        let kept = codes::decode(&series.samples.as_ref()?.codes)?;
        let (first, second) = kept.split_at(kept.len() / 2);
        let turn = |start| kept.iter().copied().skip(start).step_by(2);
        let by_halves = self.apart(first.to_vec(), second.to_vec())?;
        let by_turns = self.apart(turn(0).collect(), turn(1).collect())?;
        let again = series.noise.and_then(|noise| noise.again);
        let again = again.filter(|_| self == Point::Rate).map(away);
        Some(by_halves.max(by_turns).max(again.unwrap_or_default()))
    }

    fn spread(self, passes: &[Pass]) -> Option<f64> {
        let of = |pass: &Pass| match self {
            Point::Rate => Some(pass.per_s),
            Point::At(name, _) => {
                let is_decided = self != POINT_99 || pass.count >= SAMPLES_MIN / 2;
                let point = pass.points_us.get(name).copied();
                point.filter(|_| is_decided)
            }
        };
        let seen: Option<Vec<f64>> = passes.iter().map(of).collect();
        spread(seen?).map(away)
    }

    fn apart(self, one: Vec<Duration>, other: Vec<Duration>) -> Option<f64> {
        let of = |half: Vec<Duration>| {
            let is_decided = self != POINT_99 || half.len() as u64 >= SAMPLES_MIN / 2;
            let sorted = Sorted::new(half).filter(|_| is_decided)?;
            Some(match self {
                // Of connections that are always busy the mean decides the rate.
                Point::Rate => sorted.average(),
                Point::At(_, per_mille) => sorted.at(per_mille),
            })
        };
        let (one, other) = (of(one)?.as_secs_f64(), of(other)?.as_secs_f64());
        (one > 0.0 && other > 0.0).then(|| away(other / one))
    }
}

/// The point that needs most samples.
const POINT_99: Point = Point::At("p99", 990);

/// How far a ratio is from 1, as a share: 0.03 for 0.97 and for 1.03.
fn away(ratio: f64) -> f64 {
    ratio.max(1.0 / ratio) - 1.0
}

/// The same series of two runs.
struct Pair<'a> {
    one: &'a Series,
    other: &'a Series,
    /// The floors of their groups.
    floors: Option<(&'a Series, &'a Series)>,
    /// Whether both were asked for the same.
    is_same: bool,
}

impl Pair<'_> {
    /// A line for each point that both have.
    fn lines(&self, group: &str) -> Vec<JudgedPoint> {
        let points = PASS_POINTS.map(|(name, per_mille)| Point::At(name, per_mille));
        let decided = points.into_iter().filter(|point| {
            *point != POINT_99 || self.one.count.min(self.other.count) >= SAMPLES_MIN
        });
        let points = [Point::Rate].into_iter().chain(decided);
        points.filter_map(|point| self.line(group, point)).collect()
    }

    /// How far the rates lie apart, if they are to be judged.
    fn rates_apart(&self) -> f64 {
        let is_judged = self.is_same && self.one.role != Role::Floor;
        let rates = self.one.per_s().zip(self.other.per_s());
        rates
            .filter(|_| is_judged)
            .map_or(0.0, |(one, other)| away(other / one))
    }

    fn line(&self, group: &str, point: Point) -> Option<JudgedPoint> {
        let (a, b) = (point.of(self.one)?, point.of(self.other)?);
        let ratio = b / a;
        let noises = [self.one, self.other].map(|series| point.noise(series));
        let moved = self.floors.and_then(|(one, other)| {
            let ratio = point.of(other)? / point.of(one)?;
            Some(away(ratio))
        });
        let name = match point {
            Point::Rate => "rate",
            Point::At(name, _) => name,
        };
        let verdict = if self.one.role == Role::Floor {
            "the machine"
        } else if !self.is_same {
            UNJUDGED
        } else {
            verdict(ratio, point == Point::Rate, noises, moved)
        };
        Some(JudgedPoint {
            group: group.to_owned(),
            series: self.one.title.clone(),
            point: name,
            values: [a, b].map(|value| point.shown(value)),
            ratio,
            noises: noises.map(shown),
            moved: shown(moved),
            verdict,
        })
    }
}

/// What is printed of one point.
struct JudgedPoint {
    group: String,
    series: String,
    point: &'static str,
    values: [String; 2],
    /// B to A.
    ratio: f64,
    noises: [String; 2],
    /// How far the floor moved.
    moved: String,
    verdict: &'static str,
}

impl JudgedPoint {
    fn is_judged(&self) -> bool {
        [SAME, FASTER, SLOWER].contains(&self.verdict)
    }

    fn cells(self) -> Vec<String> {
        let (point, verdict) = (self.point.to_owned(), self.verdict.to_owned());
        let ratio = format!("{:.3}", self.ratio);
        let [a, b] = self.values;
        let [noise, other_noise] = self.noises;
        let (group, series, moved) = (self.group, self.series, self.moved);
        vec![
            group,
            series,
            point,
            a,
            b,
            ratio,
            noise,
            other_noise,
            moved,
            verdict,
        ]
    }
}

fn shown(noise: Option<f64>) -> String {
    noise.map_or("–".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

/// What `ratio` (B to A) says; a rate is better when it is higher, a latency when it is lower.
fn verdict(
    ratio: f64,
    is_rate: bool,
    noises: [Option<f64>; 2],
    moved: Option<f64>,
) -> &'static str {
    let [Some(a), Some(b)] = noises else {
        return UNJUDGED;
    };
    if away(ratio) <= a.max(b) + moved.unwrap_or_default() {
        SAME
    } else if (ratio > 1.0) == is_rate {
        FASTER
    } else {
        SLOWER
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::{FORMAT, Sample};

    /// A series whose second half takes longer by `noise`.
    fn series(key: &str, role: Role, took_us: f64, noise: f64) -> Series {
        let took = |n: u64| {
            let factor = if n < 1_000 { 1.0 } else { 1.0 + noise };
            Duration::from_secs_f64(took_us * factor / 1e6)
        };
        let samples: Vec<Sample> = (0..2_000)
            .map(|n| Sample {
                ended: took(n) * (n as u32 + 1),
                took: took(n),
            })
            .collect();
        let wall = samples.iter().map(|sample| sample.took).sum();
        Series::measured(key, key, role, 1, wall, &samples).unwrap()
    }

    fn run(series: Vec<Series>) -> Run {
        let machine = json!({ "cores": 2, "cpu": "x", "memory_mib": series.len() });
        let group = json!({
            "key": "list", "title": "list", "connections": 1, "series": series,
        });
        let run = json!({
            "format": FORMAT, "kind": "ttl", "title": "t", "lead": "", "method": "",
            "started": "s", "machine": machine, "parameters": {"rows": 7, "exact_hits": 9},
            "groups": [group],
        });
        serde_json::from_value(run).unwrap()
    }

    /// The verdict on this point of the list `exact`.
    #[track_caller]
    fn judged(one: &Run, other: &Run, point: &str) -> String {
        let text = compare(one, other).unwrap();
        let begin = format!("| list | exact | {point} |");
        let line = text.lines().find(|line| line.starts_with(&begin));
        let line = line.unwrap_or_else(|| panic!("{begin} is not in\n{text}"));
        let mut cells = line.trim_end_matches(" |").rsplit(" | ");
        cells.next().unwrap().to_owned()
    }

    fn exact(took_us: f64, noise: f64) -> Vec<Series> {
        vec![series("exact", Role::Subject, took_us, noise)]
    }

    #[test]
    fn runs_stand_side_by_side_with_the_noise_of_each() {
        let (one, other) = (run(exact(100.0, 0.0)), run(exact(125.0, 0.0)));
        let text = compare(&one, &other).unwrap();
        for line in [
            "| list | exact | rate | 10000.0 /s | 8000.0 /s | 0.800 | 0.0 % | 0.0 % | – | **slower** |\n",
            "| list | exact | p50 | 100.0 µs | 125.0 µs | 1.250 | 0.0 % | 0.0 % | – | **slower** |\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("| cpu |"), "{text}");
        let sentence = "Rates of one figure, measured again, lay up to – apart within A and – \
                    within B; those of the two runs up to 25.0 %.\n";
        assert!(text.contains(sentence), "{text}");
    }

    /// The first line that is printed.
    fn summed_up(one: &Run, other: &Run) -> String {
        let text = compare(one, other).unwrap();
        text.lines().next().unwrap().to_owned()
    }

    #[test]
    fn summary_counts_the_points_and_names_the_worst() {
        let of = |exact_us: f64, ttl_us: f64, slow_half: f64| {
            let exact = series("exact", Role::Subject, exact_us, 0.0);
            run(vec![exact, series("ttl", Role::Subject, ttl_us, slow_half)])
        };
        let one = of(100.0, 100.0, 0.0);
        assert_eq!(
            summed_up(&one, &of(125.0, 50.0, 0.0)),
            "B is faster than A in 4 of 8 points, slower in 4, the same within the noise in 0. \
             The worst: list, exact, p99, 125.0 µs after 100.0 µs, 1.250 times as much."
        );
        assert_eq!(
            summed_up(&one, &of(125.0, 200.0, 0.3)),
            "B is faster than A in 0 of 8 points, slower in 8, the same within the noise in 0. \
             The worst: list, ttl, p99, 260.0 µs after 100.0 µs, 2.600 times as much."
        );
        assert_eq!(
            summed_up(&one, &of(100.0, 95.0, 0.3)),
            "B is faster than A in 0 of 8 points, slower in 0, the same within the noise in 8."
        );
    }

    #[test]
    fn summary_says_how_much_is_not_judged() {
        let one = run(exact(100.0, 0.0));
        let mut other = run(exact(200.0, 0.0));
        other.parameters.insert("rows".to_owned(), json!(8));
        assert_eq!(
            summed_up(&one, &other),
            "B is faster than A in 0 of 0 points, slower in 0, the same within the noise in 0. \
             Not judged: 4."
        );
    }

    #[test]
    fn changes_of_the_floor_are_no_difference_of_the_server() {
        let with_floor = |exact_us: f64, floor_us: f64| {
            let mut all = exact(exact_us, 0.01);
            all.push(series("floor", Role::Floor, floor_us, 0.01));
            run(all)
        };
        let (one, other) = (with_floor(100.0, 40.0), with_floor(112.0, 45.0));
        assert_eq!(judged(&one, &other, "p50"), "the same");
        assert_eq!(judged(&one, &with_floor(112.0, 40.0), "p50"), "**slower**");
        assert_eq!(judged(&one, &with_floor(80.0, 45.0), "rate"), "**faster**");
        let text = compare(&one, &other).unwrap();
        assert!(text.contains("| 12.5 % | the machine |"), "{text}");
    }

    #[test]
    fn fixed_rates_are_judged_by_a_floor_at_that_rate() {
        let paced = |per_s: f64, exact_us: f64, floor_us: f64| {
            let mut all = exact(exact_us, 0.01);
            all[0].asked_per_s = Some(per_s);
            all.push(series("floor", Role::Floor, 40.0, 0.01));
            all.push(series("paced_floor", Role::Floor, floor_us, 0.01));
            all[2].asked_per_s = Some(per_s);
            run(all)
        };
        let one = paced(1_000.0, 100.0, 40.0);
        assert_eq!(
            judged(&one, &paced(1_000.0, 112.0, 45.0), "p50"),
            "the same"
        );
        assert_eq!(
            judged(&one, &paced(1_000.0, 112.0, 40.0), "p50"),
            "**slower**"
        );
        assert_eq!(
            judged(&one, &paced(2_000.0, 112.0, 40.0), "p50"),
            "not judged"
        );
    }

    #[test]
    fn each_point_is_judged_by_its_own_noise() {
        // One sample in fifty, all in the second half, takes ten times as long.
        let tailed = || {
            let took = |n: u64| {
                if n > 1_000 && n.is_multiple_of(25) {
                    1_000
                } else {
                    100
                }
            };
            let samples: Vec<Sample> = (0..2_000)
                .map(|n| Sample {
                    ended: Duration::from_micros(n * 200 + 200),
                    took: Duration::from_micros(took(n)),
                })
                .collect();
            let wall = samples.iter().map(|sample| sample.took).sum();
            Series::measured("exact", "exact", Role::Subject, 1, wall, &samples).unwrap()
        };
        let (one, other) = (run(exact(110.0, 0.0)), run(vec![tailed()]));
        assert_eq!(judged(&one, &other, "p50"), "**faster**");
        assert_eq!(judged(&one, &other, "p99"), "the same", "its tail is noise");
    }

    #[test]
    fn values_within_the_passes_of_a_run_are_no_difference() {
        let with_passes = |took_us: f64, rates: &[f64], count: u64| {
            let mut all = exact(took_us, 0.0);
            let pass = |per_s: &f64| Pass {
                count,
                per_s: *per_s,
                points_us: PASS_POINTS
                    .map(|(name, _)| (name.to_owned(), 1e6 / per_s))
                    .into(),
            };
            all[0].passes = rates.iter().map(pass).collect();
            run(all)
        };
        let one = with_passes(100.0, &[10_000.0, 9_000.0, 11_000.0], 600);
        let other = |count| with_passes(120.0, &[8_000.0, 8_500.0, 8_400.0], count);
        assert_eq!(judged(&one, &other(600), "rate"), "the same");
        assert_eq!(judged(&one, &other(600), "p99"), "the same");
        assert_eq!(judged(&one, &other(400), "p99"), "not judged", "too few");
        let far = with_passes(140.0, &[7_000.0, 7_100.0, 7_200.0], 600);
        assert_eq!(judged(&one, &far, "rate"), "**slower**");
    }

    #[test]
    fn runs_that_were_asked_for_different_things_are_not_judged() {
        let one = run(exact(100.0, 0.0));
        let mut other = run(exact(200.0, 0.0));
        other.parameters.insert("exact_hits".to_owned(), json!(5));
        assert_eq!(judged(&one, &other, "p50"), "**slower**", "an outcome");
        other.parameters.insert("rows".to_owned(), json!(8));
        assert_eq!(judged(&one, &other, "p50"), "not judged");
        assert!(compare(&one, &other).unwrap().contains("Nothing is judged"));
        let mut elsewhere = run(exact(200.0, 0.0));
        elsewhere.machine.insert("cpu".to_owned(), json!("y"));
        assert_eq!(judged(&one, &elsewhere, "rate"), "not judged");
    }

    #[test]
    fn runs_without_a_series_in_common_are_refused() {
        let other = vec![series("add", Role::Subject, 1.0, 0.0)];
        let error = compare(&run(exact(1.0, 0.0)), &run(other)).unwrap_err();
        assert!(error.to_string().contains("nothing in common"), "{error}");
    }
}
