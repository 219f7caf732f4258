//! Changes of a table's schema while a reader and a writer go on.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use measure::connection::{Access, Connection};
use measure::live::LiveServer;
use measure::threads::joined;
use scenarios::seed::table;
use serde_json::{Value, json};

use crate::big_table::{self, PATIENCE, Sizes};
use crate::catalog::{self, wait_until_available};
use crate::contrast::{Contrast, Turn};
use crate::figure::{Figure, Goal};
use crate::run::Taken;
use crate::traffic::{Client, Seen};

/// The reader and the writer go on for so long before the change begins.
const HEAD_START: Duration = Duration::from_millis(200);
/// What is asked for beside a change: the names of the three, in the order of [`Slice`].
const ASKED: [(&str, &str); 3] = [
    ("list", "indexed list without total"),
    ("point_read", "point read"),
    ("insert", "insert of one row"),
];

/// What is changed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Column,
    Index,
}

/// What the clients saw in one slice: lists, point reads, inserts.
type Slice = [Seen; 3];

/// One round of one change.
struct Round {
    before: Slice,
    during: Slice,
    after: Slice,
    /// Until the call was answered.
    answered: Duration,
    /// Until the change was in use.
    in_use: Duration,
    /// Until the server was idle, once the clients had stopped.
    settled: Duration,
}

/// Adds a column and builds an index, `sizes.rounds` times each.
///
/// # Errors
/// When a change is refused, or nothing can be measured. Errors that the reader and the writer see
/// are figures.
pub fn measure(server: &LiveServer, sizes: &Sizes) -> Result<Taken> {
    let stage = Stage {
        server,
        sizes,
        next_row: AtomicU32::new(sizes.rows),
    };
    let mut taken = Taken::default();
    for change in [Change::Column, Change::Index] {
        let rounds = (0..sizes.rounds).map(|number| stage.round(change, number));
        let rounds: Vec<Round> = rounds.collect::<Result<_>>()?;
        taken.figures.extend(change.figures(&rounds));
        taken.contrasts.extend(change.contrasts(rounds)?);
    }
    Ok(taken)
}

struct Stage<'a> {
    server: &'a LiveServer,
    sizes: &'a Sizes,
    /// The number of the next row that the writer inserts.
    next_row: AtomicU32,
}

impl Stage<'_> {
    fn round(&self, change: Change, number: u32) -> Result<Round> {
        let slice = Duration::from_millis(self.sizes.change_ms);
        let access = &self.server.access;
        let (before, ()) = self.beside(slice, || Ok(()))?;
        let (during, (answered, in_use)) = self.beside(slice, || change.make(access, number))?;
        let settled = self.server.process().settle(self.sizes.settle)?;
        change.clear_away(access, number)?;
        self.server.process().settle(self.sizes.settle)?;
        let (after, ()) = self.beside(slice, || Ok(()))?;
        Ok(Round {
            before,
            during,
            after,
            answered,
            in_use,
            settled,
        })
    }

    /// Lets the reader and the writer go on while `act` runs, for `least` in all or longer.
    fn beside<T>(&self, least: Duration, act: impl FnOnce() -> Result<T>) -> Result<(Slice, T)> {
        let stop = AtomicBool::new(false);
        let may = || !stop.load(Ordering::Relaxed);
        thread::scope(|scope| {
            let reader = scope.spawn(|| self.read(may));
            let writer = scope.spawn(|| self.write(may));
            let start = Instant::now();
            thread::sleep(HEAD_START);
            let acted = act();
            thread::sleep(least.saturating_sub(start.elapsed()));
            stop.store(true, Ordering::Relaxed);
            let slice = [joined(reader)?, joined(writer)?].concat().try_into();
            let slice: Result<Slice, _> = slice;
            Ok((slice.expect("three kinds were asked for"), acted?))
        })
    }

    fn read(&self, may: impl Fn() -> bool) -> Vec<Seen> {
        let access = &self.server.access;
        let list = big_table::list(access);
        let mut lists = |_| list.clone();
        let mut points =
            |number| catalog::point_read(access, table::TABLE, self.sizes.rows, number);
        Client::new(access, PATIENCE).ask_while(may, &mut [&mut lists, &mut points])
    }

    fn write(&self, may: impl Fn() -> bool) -> Vec<Seen> {
        let access = &self.server.access;
        let mut inserts = |_| {
            let index = self.next_row.fetch_add(1, Ordering::Relaxed);
            catalog::insert(access, index)
        };
        Client::new(access, PATIENCE).ask_while(may, &mut [&mut inserts])
    }
}

impl Change {
    fn key(self) -> &'static str {
        match self {
            Change::Column => "column",
            Change::Index => "index",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Change::Column => "while a column is added",
            Change::Index => "while an index is built",
        }
    }

    /// The route it is made at, what it is called there in round `number`, and its body.
    fn call(self, number: u32) -> (String, String, Value) {
        let table = table::table_route();
        match self {
            Change::Column => {
                let key = format!("added_{number}");
                let body = json!({ "key": key, "required": false });
                (format!("{table}/columns/integer"), key, body)
            }
            Change::Index => {
                let key = format!("by_stock_{number}");
                let body = json!({ "key": key, "type": "key", "columns": ["stock"] });
                (format!("{table}/indexes"), key, body)
            }
        }
    }

    /// Makes it; says when the call was answered, and when the change was in use.
    fn make(self, access: &Access, number: u32) -> Result<(Duration, Duration)> {
        let (route, key, body) = self.call(number);
        let mut connection = Connection::open(access.address)?;
        let start = Instant::now();
        connection.call(access, "POST", &route, &body)?;
        let answered = start.elapsed();
        if self == Change::Index {
            wait_until_available(&mut connection, access, &format!("{route}/{key}"))?;
        }
        Ok((answered, start.elapsed()))
    }

    /// So that the next round finds what this one found. A column stays: dropping one is another
    /// change of every row.
    fn clear_away(self, access: &Access, number: u32) -> Result<()> {
        if self == Change::Column {
            return Ok(());
        }
        let (route, key, _) = self.call(number);
        let request = access.request("DELETE", &format!("{route}/{key}"), "{}");
        Connection::open(access.address)?.accepted(&request)?;
        Ok(())
    }

    fn figures(self, rounds: &[Round]) -> Vec<Figure> {
        let (key, words) = (self.key(), self.words());
        let figure = |name: &str, title: String, unit, values: Vec<f64>| {
            Figure::plain(format!("{key}_{name}"), title, unit, Goal::Reported, values)
        };
        let each = |time: fn(&Round) -> f64| rounds.iter().map(time).collect();
        let quiet = rounds
            .iter()
            .flat_map(|round| [&round.before, &round.after]);
        let during = || rounds.iter().map(|round| &round.during);
        let answered = each(|round| round.answered.as_secs_f64() * 1e3);
        let mut figures = vec![
            figure("answered", format!("{key}: call answered"), "ms", answered),
            figure(
                "settled",
                format!("{key}: server idle after the clients stopped"),
                "s",
                each(|round| round.settled.as_secs_f64()),
            ),
        ];
        if self == Change::Index {
            let in_use = each(|round| round.in_use.as_secs_f64());
            figures.push(figure(
                "available",
                "index: available after".into(),
                "s",
                in_use,
            ));
        }
        let title = format!("longest wait of a writer, quiet slices beside those ({key})");
        figures.push(figure("wait_quiet", title, "ms", longest_insert_ms(quiet)));
        let title = format!("longest wait of a writer {words}");
        figures.push(figure("wait", title, "ms", longest_insert_ms(during())));
        figures.push(errors(key, words, during()));
        figures
    }

    fn contrasts(self, rounds: Vec<Round>) -> Result<Vec<Contrast>> {
        let mut turns: [Vec<Turn>; 3] = Default::default();
        for round in rounds {
            let slices = [round.before, round.during, round.after];
            let [before, during, after] = slices.map(|slice| slice.map(|seen| seen.samples_ns));
            let three = before.into_iter().zip(during).zip(after);
            for (turns, ((before, during), after)) in turns.iter_mut().zip(three) {
                turns.push(Turn::new(before, during, after)?);
            }
        }
        let contrast = |((key, title), turns)| Contrast {
            key: format!("{}_{key}", self.key()),
            title: format!("{title} {}", self.words()),
            subject: self.key(),
            base: "quiet",
            goals: [Goal::Reported; 2],
            turns,
        };
        Ok(ASKED.into_iter().zip(turns).map(contrast).collect())
    }
}

/// The greatest latency of all inserts; empty slices have none.
fn longest_insert_ms<'a>(slices: impl Iterator<Item = &'a Slice>) -> Vec<f64> {
    let longest = slices.filter_map(|[_, _, insert]| insert.samples_ns.iter().max());
    let longest = longest.max().copied().unwrap_or(u64::MAX);
    vec![longest as f64 / 1e6]
}

/// Everything that was no success, of all rounds: one is one too many.
fn errors<'a>(key: &str, words: &str, slices: impl Iterator<Item = &'a Slice>) -> Figure {
    let mut failures = 0;
    for seen in slices.flatten() {
        failures += seen.failures();
        if let Some(first) = &seen.first_error {
            eprintln!("  {words}: {first}");
        }
    }
    Figure::plain(
        format!("{key}_errors"),
        format!("errors of reader and writer {words}"),
        "errors",
        Goal::AtMost(0.0),
        vec![failures as f64],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(insert_ns: &[u64], refused: u64) -> Slice {
        let seen = |samples_ns: &[u64], refused| Seen {
            samples_ns: samples_ns.to_vec(),
            refused,
            ..Seen::default()
        };
        [
            seen(&[7_000_000_000], refused),
            seen(&[1], 0),
            seen(insert_ns, 0),
        ]
    }

    #[test]
    fn the_longest_wait_is_one_of_an_insert() {
        let slices = [slice(&[1_000_000, 3_000_000], 0), slice(&[2_000_000], 0)];
        assert_eq!(longest_insert_ms(slices.iter()), [3.0]);
    }

    #[test]
    fn one_error_in_any_round_misses_the_target() {
        let of = |refused: [u64; 3]| {
            let slices = refused.map(|refused| slice(&[1], refused));
            errors("column", "while", slices.iter()).is_met()
        };
        assert_eq!((of([0, 0, 0]), of([0, 1, 0])), (Some(true), Some(false)));
    }

    #[test]
    fn each_round_has_names_of_its_own() {
        let (route, key, body) = Change::Index.call(2);
        assert_eq!(route, "/tablesdb/bench_db/tables/products/indexes");
        assert_eq!(
            (key.as_str(), &body["key"]),
            ("by_stock_2", &json!("by_stock_2"))
        );
        assert_ne!(Change::Column.call(1).1, Change::Column.call(2).1);
    }
}
