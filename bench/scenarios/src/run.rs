//! A finished run in the one form that the page, `bench compare` and the gallery read.
//! bench/report/README.md documents each member.

use std::collections::BTreeMap;
use std::time::Duration;

use measure::markdown::table;
use measure::percentile::{POINTS, Sorted, odd_to_even, second_to_first, spread};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::codes;

/// Of what form the file is. Another one is refused by name.
pub const FORMAT: &str = "tidemark.run/1";
/// Samples that a series keeps at most; of more it keeps every second, third, … one.
pub const KEPT_MAX: usize = 100_000;
/// The same of a run that has some fifty series.
const KEPT_OF_MANY: usize = 3_000;
/// The points of a pass, each with its rank in thousandths.
pub const PASS_POINTS: [(&str, u64); 3] = [("p50", 500), ("p90", 900), ("p99", 990)];
/// Steps of a timeline.
const STEPS: u32 = 60;

/// A run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// [`FORMAT`]
    pub format: String,
    /// What was run: `ttl`, `load`, `bitemporal` or `hostile`.
    pub kind: String,
    /// The page's title.
    pub title: String,
    /// One sentence below it.
    pub lead: String,
    /// How it was measured, and what a reader must know to judge it.
    pub method: String,
    /// When it began, ISO 8601.
    pub started: String,
    /// The machine.
    pub machine: Map<String, Value>,
    /// All that is needed to repeat the run.
    pub parameters: Map<String, Value>,
    /// Servers that are for rent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
    /// The published table of the load test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Columns>,
    /// Tables of texts: what was to be reached, what others have published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<Table>,
    /// What was measured, by workload.
    pub groups: Vec<Group>,
}

/// Prices of servers, and who says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// Where they stood, and when.
    pub source: String,
    /// The servers.
    pub servers: Vec<Server>,
    /// A server of its own for the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<Server>,
}

/// A server that is for rent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// What it is called.
    pub name: String,
    /// Its cores.
    pub cores: u32,
    /// Its memory in GB.
    pub memory_gb: u32,
    /// Its price a month.
    pub monthly: f64,
    /// In which currency.
    pub currency: String,
}

/// The table of the published load test: one rate for each column and system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Columns {
    /// Names of the columns.
    pub titles: Vec<String>,
    /// The columns that every row has, by place.
    pub shared: Vec<usize>,
    /// Rows.
    pub rows: Vec<Row>,
    /// What a reader must know to judge it.
    pub note: String,
}

/// One system of the published table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The system and its machine.
    pub name: String,
    /// Who measured it.
    pub source: Source,
    /// Requests a second; null where nothing was measured.
    pub rates: Vec<Option<f64>>,
    /// The price of its machine a month.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monthly: Option<f64>,
    /// In which currency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
}

/// A table of texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Its title.
    pub title: String,
    /// Names of the columns.
    pub heads: Vec<String>,
    /// Rows, a text for each column.
    pub rows: Vec<Vec<String>>,
    /// What a reader must know to judge it.
    pub note: String,
}

/// Series that are to be compared with each other.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Group {
    /// Its name for programs.
    pub key: String,
    /// Its name for people.
    pub title: String,
    /// Connections of each of its series.
    pub connections: u32,
    /// Cores that the server had, where that was part of what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Its series.
    pub series: Vec<Series>,
}

/// What a series is to its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// What the run is about.
    Subject,
    /// What the others are compared with.
    Reference,
    /// The least that client, network and HTTP library cost.
    Floor,
    /// Anything beside.
    Other,
}

/// Who measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// This run.
    Measured,
    /// Another party, who published it.
    Quoted,
}

/// Latencies of one kind of request to one system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// Its name for programs; without blanks.
    pub key: String,
    /// Its name for people.
    pub title: String,
    /// What it is to its group.
    pub role: Role,
    /// Who measured it.
    pub source: Source,
    /// Requests that were under way at once.
    pub connections: u32,
    /// Requests a second that it was asked for; without, as many as it answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_per_s: Option<f64>,
    /// Requests.
    pub count: u64,
    /// From the first request to the last answer, in milliseconds; pauses are left out.
    pub wall_ms: f64,
    /// Latencies in microseconds, by nearest rank of all samples: `min`, `p50` … `max`, `mean`.
    pub points_us: BTreeMap<String, f64>,
    /// The same measured twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Noise>,
    /// Answers that were no success, and broken connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors: Option<u64>,
    /// Processor time of the server for each request, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<f64>,
    /// Most resident memory of the server, in MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mib: Option<f64>,
    /// Lists that came from the cache, in per cent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hits_percent: Option<f64>,
    /// The run in steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// What each pass over the whole run saw of it, where there were several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<Pass>,
    /// Samples, in the order of their answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<Samples>,
}

/// What one pass saw of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    /// Requests.
    pub count: u64,
    /// Requests a second.
    pub per_s: f64,
    /// Latencies in microseconds, by nearest rank of this pass: `p50`, `p90` and `p99`.
    pub points_us: BTreeMap<String, f64>,
}

/// The same measured twice, as ratios: what is no further from 1 is noise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Noise {
    /// Medians of odd and even samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub odd_to_even: Option<f64>,
    /// Medians of the second and the first half.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_to_first: Option<f64>,
    /// Rates of a second and a first slice; of passes, the fastest to the slowest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<f64>,
}

/// A run in steps of equal length; null where the series rested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// The length of a step, in milliseconds.
    pub step_ms: f64,
    /// Requests a second, of the time that the series ran.
    pub rate: Vec<Option<f64>>,
    /// The median latency in microseconds.
    pub p50_us: Vec<Option<f64>>,
    /// The 99th percentile in microseconds.
    pub p99_us: Vec<Option<f64>>,
}

/// How requests of a step become a rate.
#[derive(Clone, Copy, Debug)]
pub enum Counting {
    /// The series took turns with others, and so many connections were always busy when it ran:
    /// the time that a step's requests took is the time that it ran in it.
    WhileBusy(u32),
    /// The series ran without a pause.
    OverTime,
}

/// Samples as text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Samples {
    /// Every so many samples one is kept.
    pub every: u64,
    /// Two characters each ([`codes`]).
    pub codes: String,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When its answer had come, since the run began.
    pub ended: Duration,
    /// What it took.
    pub took: Duration,
}

impl Sample {
    /// The same, begun so much later.
    #[must_use]
    pub fn behind(self, begun: Duration) -> Sample {
        Sample {
            ended: begun + self.ended,
            ..self
        }
    }
}

impl Table {
    /// The table in Markdown, with its title and its note.
    pub fn section(&self) -> String {
        let rows = table(&self.heads.join("|"), self.rows.clone());
        format!("## {}\n\n{rows}\n{}\n", self.title, self.note)
    }

    /// Several of them.
    pub fn sections(tables: &[Table]) -> String {
        let tables: Vec<String> = tables.iter().map(Table::section).collect();
        tables.join("\n")
    }
}

impl Noise {
    /// The furthest of its ratios from 1, as a share: 0.03 for 0.97 and for 1.03.
    pub fn share(&self) -> f64 {
        let known = [self.odd_to_even, self.second_to_first, self.again];
        let shares = known
            .into_iter()
            .flatten()
            .map(|ratio| ratio.max(1.0 / ratio) - 1.0);
        shares.fold(0.0, f64::max)
    }
}

impl Series {
    /// A measured series of `connections` that were always busy; `None` without samples.
    /// `wall` is the time in which the samples were taken, pauses left out.
    pub fn measured(
        key: &str,
        title: &str,
        role: Role,
        connections: u32,
        wall: Duration,
        samples: &[Sample],
    ) -> Option<Series> {
        let took: Vec<Duration> = samples.iter().map(|sample| sample.took).collect();
        let sorted = Sorted::new(took.iter().copied())?;
        Some(Series {
            key: key.to_owned(),
            title: title.to_owned(),
            role,
            source: Source::Measured,
            connections,
            asked_per_s: None,
            count: samples.len() as u64,
            wall_ms: milli(wall.as_secs_f64() * 1e3),
            points_us: points_us(&sorted),
            noise: Some(Noise {
                odd_to_even: odd_to_even(&took).map(milli),
                second_to_first: second_to_first(&took).map(milli),
                again: None,
            }),
            errors: None,
            cpu_us: None,
            memory_mib: None,
            hits_percent: None,
            timeline: Timeline::of(samples, Counting::WhileBusy(connections)),
            passes: Vec::new(),
            samples: Some(Samples::of(&took, KEPT_MAX)),
        })
    }

    /// The same of a run with so many series that each keeps few samples; `again` is the rate of
    /// the same measured twice.
    pub fn one_of_many(
        (key, title, role): (&str, &str, Role),
        connections: u32,
        wall: Duration,
        samples: &[Sample],
        again: Option<f64>,
    ) -> Option<Series> {
        let series = Series::measured(key, title, role, connections, wall, samples)?;
        let took: Vec<Duration> = samples.iter().map(|sample| sample.took).collect();
        Some(Series {
            samples: Some(Samples::of(&took, KEPT_OF_MANY)),
            noise: Some(Noise {
                again: again.map(milli),
                ..series.noise.unwrap_or_default()
            }),
            ..series
        })
    }

    /// Requests a second; `None` where nothing was counted.
    pub fn per_s(&self) -> Option<f64> {
        (self.count > 0 && self.wall_ms > 0.0).then(|| self.count as f64 * 1e3 / self.wall_ms)
    }
}

impl Pass {
    /// `None` without samples.
    pub fn of(samples: &[Sample], wall: Duration) -> Option<Pass> {
        let sorted = Sorted::new(samples.iter().map(|sample| sample.took))?;
        let points = PASS_POINTS.map(|(name, at)| (name.to_owned(), us(sorted.at(at))));
        Some(Pass {
            count: samples.len() as u64,
            per_s: milli(samples.len() as f64 / wall.as_secs_f64()),
            points_us: points.into(),
        })
    }

    /// How often the slowest rate of several passes goes into the fastest; `None` below two.
    pub fn spread(passes: &[Pass]) -> Option<f64> {
        let rates = passes.iter().map(|pass| pass.per_s);
        spread(rates).filter(|_| passes.len() > 1)
    }
}

/// Every point of sorted samples, in microseconds.
pub fn points_us(sorted: &Sorted) -> BTreeMap<String, f64> {
    let points = POINTS.iter().map(|(name, at)| (*name, sorted.at(*at)));
    let points = points.chain([("mean", sorted.average())]);
    points
        .map(|(name, time)| (name.to_owned(), us(time)))
        .collect()
}

impl Samples {
    /// At most `kept_max` of them, evenly.
    pub fn of(took: &[Duration], kept_max: usize) -> Samples {
        let every = took.len().div_ceil(kept_max.max(1)).max(1);
        Samples {
            every: every as u64,
            codes: codes::encode(took.iter().copied().step_by(every)),
        }
    }
}

impl Timeline {
    /// `None` when the samples lie too close together for steps.
    pub fn of(samples: &[Sample], counting: Counting) -> Option<Timeline> {
        let end = samples.iter().map(|sample| sample.ended).max()?;
        let step = end / STEPS;
        if step.is_zero() {
            return None;
        }
        let mut steps: Vec<Vec<Duration>> = vec![Vec::new(); STEPS as usize];
        for sample in samples {
            let at = (sample.ended.as_nanos() / step.as_nanos()) as usize;
            steps[at.min(STEPS as usize - 1)].push(sample.took);
        }
        let rate = |took: &Vec<Duration>| {
            let ran = match counting {
                Counting::WhileBusy(connections) => {
                    let busy: Duration = took.iter().sum();
                    busy.as_secs_f64() / f64::from(connections)
                }
                Counting::OverTime => step.as_secs_f64(),
            };
            (ran > 0.0).then(|| milli(took.len() as f64 / ran))
        };
        let sorted: Vec<Option<Sorted>> = steps
            .iter()
            .map(|took| Sorted::new(took.iter().copied()))
            .collect();
        let at = |per_mille| {
            let point = |step: &Option<Sorted>| Some(us(step.as_ref()?.at(per_mille)));
            sorted.iter().map(point).collect()
        };
        Some(Timeline {
            step_ms: milli(step.as_secs_f64() * 1e3),
            rate: steps.iter().map(rate).collect(),
            p50_us: at(500),
            p99_us: at(990),
        })
    }
}

/// Microseconds to the nanosecond.
pub fn us(time: Duration) -> f64 {
    milli(time.as_secs_f64() * 1e6)
}

/// To three places, so that a file holds no digits that no run measured.
pub fn milli(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(ended_us: u64, took_us: u64) -> Sample {
        Sample {
            ended: Duration::from_micros(ended_us),
            took: Duration::from_micros(took_us),
        }
    }

    fn series(samples: &[Sample]) -> Series {
        let wall = samples.iter().map(|sample| sample.took).sum();
        Series::measured("key", "title", Role::Subject, 1, wall, samples).unwrap()
    }

    #[test]
    fn a_series_holds_its_points_its_noise_and_its_samples() {
        let samples: Vec<Sample> = (1..=100).map(|n| sample(n * 100, n)).collect();
        let series = series(&samples);
        assert_eq!((series.count, series.wall_ms), (100, 5.05));
        let point = |name: &str| (series.points_us[name] * 10.0) as u32;
        let wanted = [10, 500, 900, 990, 1_000, 1_000, 505];
        let names = ["min", "p50", "p90", "p99", "p99.9", "max", "mean"];
        assert_eq!(names.map(point), wanted);
        let noise = series.noise.unwrap();
        assert_eq!(noise.second_to_first, Some(3.0));
        assert!((noise.share() - 2.0).abs() < 1e-9);
        let kept = codes::decode(&series.samples.unwrap().codes).unwrap();
        assert_eq!(kept.len(), 100);
        assert!(Series::measured("k", "t", Role::Floor, 1, Duration::ZERO, &[]).is_none());
    }

    /// The page computes from the kept samples; the points are those of all. Both must agree
    /// when they are computed by the definition from the text in the file.
    #[test]
    fn points_agree_with_a_count_over_the_samples_in_the_file() {
        let mut state = 3_u64;
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            50 + (state >> 40) % 3_000
        };
        let samples: Vec<Sample> = (0..5_000).map(|n| sample(n, draw())).collect();
        let series = series(&samples);
        let text = serde_json::to_string(&series).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        let kept = codes::decode(file["samples"]["codes"].as_str().unwrap()).unwrap();
        for (name, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)] {
            let stated = file["points_us"][name].as_f64().unwrap();
            // As many must lie at or below it as its name says, give or take a code's step.
            let count = |limit: f64| {
                let below = kept.iter().filter(|time| us(**time) <= limit);
                below.count() as f64 / kept.len() as f64
            };
            assert!(count(stated * 1.002) >= share, "{name}: too low");
            assert!(count(stated * 0.998) < share, "{name}: too high");
        }
    }

    #[test]
    fn of_many_samples_every_so_many_is_kept() {
        let took: Vec<Duration> = (1..=1_000).map(Duration::from_micros).collect();
        let samples = Samples::of(&took, 300);
        let kept = codes::decode(&samples.codes).unwrap();
        assert_eq!((samples.every, kept.len()), (4, 250));
    }

    #[test]
    fn a_timeline_leaves_pauses_out_of_its_rates() {
        // Ten requests of 1 ms in the first half, none in between, ten of 2 ms in the last tenth.
        let early = (1..=10).map(|n| sample(n * 1_000, 1_000));
        let late = (1..=10).map(|n| sample(580_000 + n * 2_000, 2_000));
        let samples: Vec<Sample> = early.chain(late).collect();
        let timeline = Timeline::of(&samples, Counting::WhileBusy(1)).unwrap();
        assert_eq!(timeline.step_ms as u32, 10);
        assert_eq!(timeline.rate[0], Some(1_000.0));
        assert_eq!(timeline.rate[30], None);
        assert_eq!(timeline.rate[59], Some(500.0));
        assert_eq!(timeline.p50_us[59], Some(2_000.0));
        let of_four = Timeline::of(&samples, Counting::WhileBusy(4)).unwrap();
        assert_eq!(of_four.rate[0], Some(4_000.0));
        let over_time = Timeline::of(&samples, Counting::OverTime).unwrap();
        assert_eq!(
            (over_time.rate[30], over_time.rate[58]),
            (Some(0.0), Some(400.0))
        );
        assert_eq!(Timeline::of(&[sample(0, 1)], Counting::OverTime), None);
    }
}
