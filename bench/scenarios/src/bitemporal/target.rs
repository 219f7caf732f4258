//! What is to be reached, beside what was measured.

use std::time::Duration;

use super::deep::{Deep, Read, VERSIONS_LONG};
use super::figure::Tally;
use super::objects::Op;
use super::{Crowd, Measured, Options, StoreSide};

/// Versions for which the first limit of a list as of the past is stated.
const VERSIONS_FEW: u32 = 5;

/// One target.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// What is measured.
    pub what: String,
    /// What is to be reached.
    pub wanted: String,
    /// What was reached, or why nothing was measured.
    pub got: String,
    /// Whether that is enough; `None` where nothing was measured.
    pub is_met: Option<bool>,
}

/// A limit, and in which unit it is written.
#[derive(Clone, Copy)]
enum Limit {
    /// No less, objects a second.
    Rate(f64),
    /// No more, milliseconds.
    Ms(f64),
    /// No more, a ratio.
    Times(f64),
    /// No less, a ratio.
    Share(f64),
}

impl Target {
    fn new(what: impl Into<String>, limit: Limit, got: Option<f64>, absent: &str) -> Target {
        let shown = |number: f64| match limit {
            Limit::Rate(_) => format!("{number:.0}/s"),
            Limit::Ms(_) => format!("{number:.2} ms"),
            Limit::Times(_) | Limit::Share(_) => format!("{number:.2}x"),
        };
        let (sign, bound, is_least) = match limit {
            Limit::Rate(bound) | Limit::Share(bound) => ("≥", bound, true),
            Limit::Ms(bound) | Limit::Times(bound) => ("≤", bound, false),
        };
        let is_met = got.map(|got| if is_least { got >= bound } else { got <= bound });
        Target {
            what: what.into(),
            wanted: format!("{sign} {}", shown(bound)),
            got: got.map_or_else(|| absent.to_owned(), shown),
            is_met,
        }
    }

    fn absent(what: &str, wanted: &str, why: &str) -> Target {
        Target {
            what: what.to_owned(),
            wanted: wanted.to_owned(),
            got: format!("not measured here: {why}"),
            is_met: None,
        }
    }

    /// `yes`, `no`, or a dash.
    pub fn word(&self) -> &'static str {
        match self.is_met {
            Some(true) => "yes",
            Some(false) => "no",
            None => "–",
        }
    }
}

/// All targets, in the order of the page that states them.
pub fn targets(options: &Options, measured: &Measured) -> Vec<Target> {
    let of = |clients: u32| {
        let mut crowds = measured.directory.crowds.iter();
        crowds.find(|crowd| crowd.clients == clients)
    };
    let (one, eight) = (of(1), of(8));
    let mut all = Vec::new();
    match one {
        Some(one) => all.extend(of_one(one)),
        None => all.push(Target::absent("one client", "–", "see --clients")),
    }
    match (one, eight) {
        (Some(one), Some(eight)) => all.extend(of_eight(one, eight)),
        _ => all.push(Target::absent("eight clients", "–", "see --clients")),
    }
    all.extend(of_deep(options, &measured.directory.deep, ""));
    match &measured.database {
        Some(side) => all.extend(of_database(options, side)),
        None => all.push(Target::absent(
            "PostgreSQL behind it",
            "≥ 0.6x of its own reads",
            "see --database",
        )),
    }
    all.push(Target::new(
        "a change, CPU of the server, to one without history",
        Limit::Times(1.1),
        measured.change.ratio(),
        "not measured here: too short for the kernel's clock",
    ));
    let cases = "held to by tests: cargo test -p tests --test history, and tests/cases";
    all.push(Target::absent("all cases", "equal", cases));
    all
}

const NOTHING: &str = "nothing";

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn p99(tally: &Tally) -> Option<f64> {
    tally.at(990).map(ms)
}

fn of_one(crowd: &Crowd) -> Vec<Target> {
    let ours = |op| crowd.of(op).0;
    let Some(sync) = crowd.sync() else {
        return Vec::new();
    };
    let least = |what: &str, op, bound| {
        let what = format!("{what}, 1 client");
        Target::new(what, Limit::Rate(bound), ours(op).each(), NOTHING)
    };
    let most = |what: &str, op, bound| {
        let what = format!("{what}, 1 client, p99");
        Target::new(what, Limit::Ms(bound), p99(ours(op)), NOTHING)
    };
    let single = Op::WriteOne.title();
    let mut all = vec![
        least(single, Op::WriteOne, 0.8 / sync.as_secs_f64()),
        most(single, Op::WriteOne, 3.0 * ms(sync) + 5.0),
        least(Op::WriteBatch.title(), Op::WriteBatch, 15_000.0),
        most(Op::WriteBatch.title(), Op::WriteBatch, 40.0),
    ];
    for op in [Op::ById, Op::ByKey, Op::ByKeyList] {
        all.push(least(op.title(), op, 7_000.0));
        all.push(most(op.title(), op, 0.5));
    }
    all.push(least(Op::ReadBatch.title(), Op::ReadBatch, 60_000.0));
    all.push(most(Op::ReadBatch.title(), Op::ReadBatch, 5.0));
    all.push(least(Op::ReadAll.title(), Op::ReadAll, 150_000.0));
    all
}

fn of_eight(one: &Crowd, crowd: &Crowd) -> Vec<Target> {
    let ours = |op| crowd.of(op).0;
    let Some(sync) = crowd.sync() else {
        return Vec::new();
    };
    let all_of = |op: Op, bound| {
        let what = format!("{}, 8 clients in all", op.title());
        Target::new(what, Limit::Rate(bound), ours(op).all(), NOTHING)
    };
    let most = |op: Op, bound| {
        let what = format!("{}, 8 clients, p99", op.title());
        Target::new(what, Limit::Ms(bound), p99(ours(op)), NOTHING)
    };
    let single = one.of(Op::WriteOne).0.each();
    let each = ours(Op::WriteOne).each();
    let share = each.zip(single).map(|(each, single)| each / single);
    let what = format!("{}, each of 8 clients to one alone", Op::WriteOne.title());
    let mut all = vec![
        Target::new(what, Limit::Share(0.7), share, NOTHING),
        most(Op::WriteOne, 4.0 * ms(sync) + 10.0),
        all_of(Op::WriteBatch, 25_000.0),
        most(Op::WriteBatch, 150.0),
    ];
    for op in [Op::ById, Op::ByKey, Op::ByKeyList] {
        all.push(all_of(op, 20_000.0));
        all.push(most(op, 3.0));
    }
    all
}

/// The store in a database beside hand-written statements there, by one client; and how reads of
/// the past stand to those of now.
fn of_database(options: &Options, side: &StoreSide) -> Vec<Target> {
    let crowd = side.crowds.iter().find(|crowd| crowd.clients == 1);
    let share = |op| {
        let (ours, bare) = crowd?.of(op);
        Some(ours.each()? / bare.each()?)
    };
    let reads = [Op::ReadAll, Op::ReadBatch, Op::ByKey, Op::ById];
    let reads = reads.map(|op| (op, 0.6));
    let writes = [(Op::WriteOne, 1.0), (Op::WriteBatch, 0.4)];
    let absent = "not measured here: see --bare and --clients";
    let beside = [&reads[..], &writes[..]].concat().into_iter();
    let beside = beside.map(|(op, least)| {
        let what = format!(
            "{}, on PostgreSQL, to hand-written statements there",
            op.title()
        );
        Target::new(what, Limit::Share(least), share(op), absent)
    });
    beside
        .chain(of_deep(options, &side.deep, ", on PostgreSQL"))
        .collect()
}

/// What only a file tells, and what is read inside this process, is not stated elsewhere.
fn of_deep(options: &Options, deep: &Deep, place: &str) -> Vec<Target> {
    let p50 = |tally: &Tally| tally.at(500).map(ms);
    let of = |read| deep.of(read).and_then(p50);
    let ratio = |one: Option<f64>, other: Option<f64>| Some(one? / other?);
    let [inside_now, inside_past] = deep.inside.each_ref().map(p50);
    let versions = options.versions;
    let most = |read: Read, bound, versions| {
        let what = format!("25 rows as of the past, {versions} versions a row, p50{place}");
        let got = if versions == VERSIONS_FEW || versions == VERSIONS_LONG {
            of(read)
        } else {
            None
        };
        let absent = "not measured here: stated for 5 and 100 versions";
        Target::new(what, Limit::Ms(bound), got, absent)
    };
    let no_bare = "not measured here: see --bare";
    let sizes = deep.plain_bytes.and_then(|plain| {
        let plain = plain as f64 * f64::from(versions + 1);
        Some(deep.bytes? as f64 / plain)
    });
    let mut all = vec![
        Target::new(
            format!("one row as of the past to one of now, over HTTP, p50{place}"),
            Limit::Times(1.3),
            ratio(of(Read::PointAsOf), of(Read::PointNow)),
            NOTHING,
        ),
        Target::new(
            format!("25 rows of now, {versions} versions a row to one, p50{place}"),
            Limit::Times(1.2),
            ratio(of(Read::ListNow), of(Read::ListPlain)),
            NOTHING,
        ),
        most(Read::ListAsOf, 5.0, versions),
        most(Read::ListLong, 10.0, VERSIONS_LONG),
    ];
    if deep.bytes.is_some() {
        let inside = Target::new(
            "the same inside the process, p50",
            Limit::Times(2.5),
            ratio(inside_past, inside_now),
            NOTHING,
        );
        let sizes = Target::new(
            format!(
                "bytes, to {} plain tables with the same indexes",
                versions + 1
            ),
            Limit::Times(1.3),
            sizes,
            no_bare,
        );
        all.insert(1, inside);
        all.push(sizes);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_at_its_limit_and_not_beyond() {
        let met = |limit, got| Target::new("x", limit, got, NOTHING).is_met;
        assert_eq!(met(Limit::Rate(7_000.0), Some(7_000.0)), Some(true));
        assert_eq!(met(Limit::Rate(7_000.0), Some(6_999.0)), Some(false));
        assert_eq!(met(Limit::Ms(0.5), Some(0.5)), Some(true));
        assert_eq!(met(Limit::Ms(0.5), Some(0.51)), Some(false));
        assert_eq!(met(Limit::Times(1.3), Some(1.4)), Some(false));
        assert_eq!(met(Limit::Share(0.7), Some(0.8)), Some(true));
        let absent = Target::new("x", Limit::Ms(1.0), None, NOTHING);
        assert_eq!((absent.word(), absent.got.as_str()), ("–", NOTHING));
        assert_eq!(absent.wanted, "≤ 1.00 ms");
    }
}
