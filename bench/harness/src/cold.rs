//! The list past the cache over HTTP, beside the bare statement and the price of its bytes.

use std::path::Path;

use anyhow::Result;
use measure::connection::Connection;
use measure::live::LiveServer;
use scenarios::answer;

use crate::aim::Aim;
use crate::bare::{self, Bare};
use crate::expect;
use crate::figure::{Figure, Goal, Round, Slice};
use crate::floor::Floors;
use crate::plan::Plan;
use crate::ways::Way;

const FLOOR: &str = "bare SQL of the bodies, and the static responder";

/// The published list with its total over one connection. The floor is the sum of two medians: the
/// same list and total by bare SQL from a copy of the table, and the same answer from the static
/// responder.
///
/// # Errors
/// When an answer is wrong, or something cannot be measured.
pub fn figure(
    binary: &Path,
    server: &LiveServer,
    (bare, seeded): (&Bare, &Path),
    plan: &Plan,
) -> Result<Figure> {
    let route = answer::route(None);
    let mut connection = Connection::open(server.access.address)?;
    expect::check_list(&mut connection, &server.access, &route)?;
    let mut list = Aim::at(&server.access, &route, server.costs());
    list.headers.push("X-Tidemark-Cache: bypass".to_owned());
    let floors = Floors::beside(binary, &list)?;
    let [same, _] = floors.aims();
    let seeded = seeded.display().to_string();
    let ms = plan.list_ms.to_string();
    let by_bare = || -> Result<Slice> {
        let printed = bare.run(&["list", "--seeded", &seeded, "--ms", &ms, "--total"])?;
        Ok(Slice::of_latencies(bare::samples(&printed, "samples_ns")?))
    };
    let round = |_| -> Result<Round> {
        let first = list.one_by_one(plan.sequential_ms)?;
        let (statement, bytes) = (by_bare()?, same.one_by_one(plan.sequential_ms)?);
        let second = list.one_by_one(plan.sequential_ms)?;
        let parts = vec![
            ("SQL p50 µs", statement.value),
            ("HTTP p50 µs", bytes.value),
        ];
        let floor = Slice::noted(statement.value + bytes.value, parts);
        Ok(Round::of(first, floor, second))
    };
    let rounds = Way::One.awake(|| (0..plan.rounds).map(round).collect())?;
    Ok(Way::One.figure(
        "cold_list",
        "list of 25 with total, past the cache, over HTTP",
        FLOOR,
        Goal::AtMost(1.5),
        rounds,
    ))
}
