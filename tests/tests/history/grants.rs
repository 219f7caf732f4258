//! A thread that takes the grant of a table away and gives it back.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tests::history::Instant;

use super::{Caller, Draws, Fixture, OPEN, Planted};

/// Of the open table.
const TABLE: usize = 0;
/// How long the grant is there, and how long it is gone, at most.
const PERIOD_MS_MAX: u64 = 60;

pub struct Granter<'a> {
    pub fixture: &'a Fixture<'a>,
    pub caller: Caller<'a>,
    pub draws: Draws,
}

impl Granter<'_> {
    /// Until the epoch ends; the times at which the grant was gone.
    pub fn run(mut self) -> Result<Vec<(Instant, Instant)>> {
        let mut barred = Vec::new();
        while self.fixture.toggles_grants && self.fixture.goes_on() {
            self.rest();
            self.set(&[])?;
            let from = self.fixture.now();
            self.rest();
            let to = self.fixture.now();
            self.set(&[OPEN])?;
            barred.push((from, to));
        }
        Ok(barred)
    }

    fn rest(&mut self) {
        thread::sleep(Duration::from_millis(1 + self.draws.below(PERIOD_MS_MAX)));
    }

    fn set(&mut self, permissions: &[&str]) -> Result<()> {
        if self.fixture.planted == Some(Planted::KeptGrants) {
            return Ok(());
        }
        let table = &self.fixture.tables[TABLE].id;
        let body = json!({ "name": table, "permissions": permissions });
        let route = format!("/tablesdb/h/tables/{table}");
        let changed = self.caller.call("PUT", &route, Some(&body))?;
        changed.accepted("changing the grants of a table")?;
        Ok(())
    }
}
