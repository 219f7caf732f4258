//! What keeping history costs a change: the server's processor time, beside the same changes of a
//! table that keeps none.

use anyhow::{Context, Result};
use measure::connection::{Access, Connection};
use measure::cores::Cores;
use measure::live::LiveServer;
use measure::percentile::{median, spread};
use serde_json::{Value, json};

use super::drive::{Call, Driven, drive};
use super::figure::Tally;
use super::objects::{BATCH, BY_CODE, create_database, create_table, options_route, rows_route};
use super::{Options, progress};
use crate::stage::Stage;

/// Rows of each table; each is changed equally often.
const ROWS: u32 = 1_000;

/// How much is changed.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Turns of both tables.
    slices: u32,
    /// Changes of each in a turn: the kernel counts processor time in hundredths of a second, so
    /// a turn must take many of them.
    changes: u32,
}

const FULL: Plan = Plan {
    slices: 6,
    changes: 5_000,
};
const QUICK: Plan = Plan {
    slices: 2,
    changes: 500,
};

/// A table whose rows are changed.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// The server's processor time of a change in each turn, in microseconds.
    pub cpu_us: Vec<f64>,
    /// Over HTTP, by one client.
    pub tally: Tally,
}

/// The table that keeps its history, and the one that keeps none.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The default.
    pub kept: Changed,
    /// With the option `history: none`.
    pub none: Changed,
}

impl Changed {
    /// Processor time of a change, in microseconds: the median of all turns.
    pub fn cpu(&self) -> Option<f64> {
        median(self.cpu_us.iter().copied())
    }

    /// The greatest of all turns to the least; what the same thing measured again differs by.
    pub fn spread(&self) -> Option<f64> {
        spread(self.cpu_us.iter().copied())
    }
}

impl Change {
    /// What history costs: processor time with it to that without.
    pub fn ratio(&self) -> Option<f64> {
        let none = self.none.cpu().filter(|cpu| *cpu > 0.0)?;
        Some(self.kept.cpu()? / none)
    }
}

/// Changes rows of both tables in turns, one after the other.
///
/// # Errors
/// When the server refuses, or an answer is wrong.
pub fn measure(options: &Options, stage: &Stage) -> Result<Change> {
    let plan = if options.is_quick { QUICK } else { FULL };
    eprintln!("changes with and without history …");
    let server = stage.start("change", &Cores::all()?, &[])?;
    let access = server.access.clone();
    let mut connection = Connection::open(access.address)?;
    create_database(&access, &mut connection)?;
    let tables = ["kept", "none"];
    for table in tables {
        fill(&access, &mut connection, table)?;
    }
    let without = json!({ "history": "none" }).to_string();
    let route = options_route("none");
    connection.call(&access, "PATCH", &route, &without)?;
    let mut change = Change::default();
    let bar = progress(u64::from(plan.slices + 1));
    for slice in 0..=plan.slices {
        for table in tables {
            let changed = match table {
                "kept" => &mut change.kept,
                _ => &mut change.none,
            };
            let calls = calls(&access, table, slice * plan.changes, plan.changes);
            let (driven, cpu) = timed(&server, &mut connection, calls)?;
            // The first turn fills the page caches.
            if slice > 0 {
                changed.cpu_us.push(cpu / f64::from(plan.changes));
                changed.tally.add(driven);
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    server.stop()?;
    Ok(change)
}

/// Sends all, and says what the server spent meanwhile, in microseconds.
fn timed(
    server: &LiveServer,
    connection: &mut Connection,
    calls: Vec<Call>,
) -> Result<(Driven, f64)> {
    let process = server.process();
    let before = process.cpu_us()?;
    let driven = drive(std::slice::from_mut(connection), &[calls]).context("a change")?;
    Ok((driven, process.cpu_us()? - before))
}

fn fill(access: &Access, connection: &mut Connection, table: &str) -> Result<()> {
    let columns = [
        json!({ "key": "code", "type": "varchar", "size": 32 }),
        json!({ "key": "name", "type": "varchar", "size": 64 }),
        json!({ "key": "status", "type": "integer" }),
        json!({ "key": "price", "type": "integer" }),
    ];
    let indexes = [
        json!({ "key": BY_CODE, "type": "unique", "attributes": ["code"] }),
        json!({ "key": "by_price", "type": "key", "attributes": ["price"] }),
    ];
    create_table(access, connection, table, &columns, &indexes)?;
    for start in (0..ROWS).step_by(BATCH as usize) {
        let rows: Vec<Value> = (start..ROWS.min(start + BATCH)).map(row).collect();
        let body = json!({ "rows": rows }).to_string();
        connection.call(access, "POST", &rows_route(table), &body)?;
    }
    Ok(())
}

fn row(nth: u32) -> Value {
    json!({
        "$id": format!("r{nth}"),
        "code": format!("code-{nth:06}"),
        "name": format!("A row whose price changes, number {nth}"),
        "status": nth % 10,
        "price": 0,
    })
}

/// Changes of one row after the other, each a price that the row has not had.
fn calls(access: &Access, table: &str, from: u32, count: u32) -> Vec<Call> {
    let call = |nth: u32| {
        let route = format!("{}/r{}", rows_route(table), nth % ROWS);
        let body = json!({ "data": { "price": nth + 1 } }).to_string();
        Call {
            request: access.request("PATCH", &route, &body),
            objects: 1,
        }
    };
    (from..from + count).map(call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_is_compared_by_the_medians_of_turns() {
        let changed = |cpu_us: &[f64]| Changed {
            cpu_us: cpu_us.to_vec(),
            ..Changed::default()
        };
        let change = Change {
            kept: changed(&[90.0, 100.0, 400.0]),
            none: changed(&[50.0, 40.0, 60.0]),
        };
        assert_eq!(change.ratio(), Some(2.0));
        assert_eq!(change.none.spread(), Some(1.5));
        assert_eq!(Change::default().ratio(), None);
        let idle = Change {
            none: changed(&[0.0]),
            ..change
        };
        assert_eq!(idle.ratio(), None, "too short to be counted");
    }

    #[test]
    fn every_change_is_another_price() {
        let access = Access::new(([127, 0, 0, 1], 80), "p", "k");
        let mut all = calls(&access, "kept", 0, 1_500);
        all.extend(calls(&access, "kept", 1_500, 1_500));
        let mut requests: Vec<&[u8]> = all.iter().map(|call| &call.request[..]).collect();
        requests.sort_unstable();
        requests.dedup();
        assert_eq!(requests.len(), 3_000);
    }
}
