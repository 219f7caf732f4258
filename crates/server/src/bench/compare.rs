//! `tidemark bench compare`: two runs side by side, with the noise of each.

use anyhow::{Result, ensure};

use super::report::table;
use super::run::{Run, Series};

/// Points that are compared, beside the rate.
const POINTS: [&str; 3] = ["p50", "p90", "p99"];
/// Fewer samples than this decide no p99.
const SAMPLES_MIN: u64 = 1_000;

/// Both runs as text: what differs between their machines and parameters, then every series that
/// both have.
///
/// # Errors
/// When they have no series in common.
pub fn compare(one: &Run, other: &Run) -> Result<String> {
    let (a, b) = (&one.title, &other.title);
    let mut parts = vec![format!(
        "A: {a} of {}\nB: {b} of {}\n",
        one.started, other.started
    )];
    let differences = [
        differences(&one.machine, &other.machine),
        differences(&one.parameters, &other.parameters),
    ]
    .concat();
    if !differences.is_empty() {
        parts.push(table("not the same|A|B", differences));
    }
    let mut rows = Vec::new();
    for group in &one.groups {
        let same = other.groups.iter().find(|other| other.key == group.key);
        for series in &group.series {
            let found = same.and_then(|same| same.series.iter().find(|o| o.key == series.key));
            if let Some(found) = found {
                rows.extend(lines(&group.title, series, found));
            }
        }
    }
    ensure!(
        !rows.is_empty(),
        "the runs have nothing in common: {} and {}",
        one.kind,
        other.kind
    );
    let head = "workload|series|point|A|B|B / A|noise of A|noise of B|B is";
    parts.push(table(head, rows));
    let closing = "Noise is how far the same thing measured twice within one run lay apart. A \
            difference that is no larger than the greater of both is called the same.\n";
    parts.push(closing.to_owned());
    Ok(parts.join("\n"))
}

fn differences(
    one: &serde_json::Map<String, serde_json::Value>,
    other: &serde_json::Map<String, serde_json::Value>,
) -> Vec<Vec<String>> {
    let absent = serde_json::Value::Null;
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

/// One line for the rate, and one for each point that both have.
fn lines(group: &str, one: &Series, other: &Series) -> Vec<Vec<String>> {
    let noises = [one, other].map(|series| series.noise.map(|noise| noise.share()));
    let line = |point: &str, unit: &str, values: [f64; 2], is_rate: bool| {
        let ratio = values[1] / values[0];
        let verdict = verdict(ratio, is_rate, noises);
        let [a, b] = values.map(|value| format!("{value:.1} {unit}"));
        let [noise, other_noise] = noises.map(shown);
        vec![
            group.to_owned(),
            one.title.clone(),
            point.to_owned(),
            a,
            b,
            format!("{ratio:.3}"),
            noise,
            other_noise,
            verdict.to_owned(),
        ]
    };
    let mut rows = Vec::new();
    if let (Some(a), Some(b)) = (one.per_s(), other.per_s()) {
        rows.push(line("rate", "/s", [a, b], true));
    }
    for point in POINTS {
        let is_decided = point != "p99" || one.count.min(other.count) >= SAMPLES_MIN;
        if let (Some(a), Some(b)) = (one.points_us.get(point), other.points_us.get(point))
            && is_decided
        {
            rows.push(line(point, "µs", [*a, *b], false));
        }
    }
    rows
}

fn shown(noise: Option<f64>) -> String {
    noise.map_or("–".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

/// What `ratio` (B to A) says; a rate is better when it is higher, a latency when it is lower.
fn verdict(ratio: f64, is_rate: bool, noises: [Option<f64>; 2]) -> &'static str {
    let [Some(a), Some(b)] = noises else {
        return "not judged";
    };
    if ratio.max(1.0 / ratio) - 1.0 <= a.max(b) {
        "the same"
    } else if (ratio > 1.0) == is_rate {
        "**faster**"
    } else {
        "**slower**"
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::bench::run::{FORMAT, Group, Noise, Role, Sample};

    fn run(key: &str, took_us: u64, noise: f64) -> Run {
        let samples: Vec<Sample> = (0..2_000)
            .map(|n| Sample {
                ended: Duration::from_micros(n * took_us),
                took: Duration::from_micros(took_us),
            })
            .collect();
        let wall = Duration::from_micros(2_000 * took_us);
        let series = Series::measured(key, "exact", Role::Subject, 1, wall, &samples);
        let mut series = series.unwrap();
        series.noise = Some(Noise {
            odd_to_even: Some(1.0 + noise),
            ..Noise::default()
        });
        let machine = json!({ "cores": took_us, "cpu": "x" });
        Run {
            format: FORMAT.to_owned(),
            kind: "ttl".to_owned(),
            title: "t".to_owned(),
            lead: String::new(),
            method: String::new(),
            started: "s".to_owned(),
            machine: machine.as_object().unwrap().clone(),
            parameters: serde_json::Map::new(),
            prices: None,
            columns: None,
            tables: Vec::new(),
            groups: vec![Group {
                key: "list".to_owned(),
                title: "list".to_owned(),
                connections: 1,
                series: vec![series],
            }],
        }
    }

    #[test]
    fn runs_stand_side_by_side_with_the_noise_of_each() {
        let text = compare(&run("exact", 100, 0.02), &run("exact", 125, 0.03)).unwrap();
        for line in [
            "| cores | 100 | 125 |\n",
            "| list | exact | rate | 10000.0 /s | 8000.0 /s | 0.800 | 2.0 % | 3.0 % | **slower** |\n",
            "| list | exact | p50 | 100.0 µs | 125.0 µs | 1.250 | 2.0 % | 3.0 % | **slower** |\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("| cpu |"), "{text}");
    }

    #[test]
    fn a_difference_within_the_noise_of_either_is_none() {
        let cases = [
            (1.029, [0.02, 0.03], "the same"),
            (1.031, [0.02, 0.03], "**slower**"),
            (0.9, [0.02, 0.03], "**faster**"),
            (0.9, [0.2, 0.03], "the same"),
        ];
        for (ratio, noises, wanted) in cases {
            assert_eq!(verdict(ratio, false, noises.map(Some)), wanted, "{ratio}");
        }
        assert_eq!(verdict(1.2, true, [Some(0.0), Some(0.1)]), "**faster**");
        assert_eq!(verdict(1.2, true, [Some(0.0), None]), "not judged");
    }

    #[test]
    fn runs_without_a_series_in_common_are_refused() {
        let error = compare(&run("exact", 1, 0.0), &run("add", 1, 0.0)).unwrap_err();
        assert!(error.to_string().contains("nothing in common"), "{error}");
    }
}
