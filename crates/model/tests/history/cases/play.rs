//! The steps of a case, one after the other.

use model::Json;

use super::json::{int, list, need, object, sorted, text};
use super::read;
use super::world::World;

/// Whether a case asks for constraints or queries.
pub fn needs_more(case: &Json) -> bool {
    let Json::Object(tables) = need(case, "tables") else {
        panic!("tables have names");
    };
    let is_query = |step: &Json| {
        let kind = step.get("read").map(|read| text(read, "kind"));
        kind.is_some_and(|kind| matches!(kind, "scan" | "aggregate"))
    };
    tables
        .iter()
        .any(|(_, table)| *table != Json::Object(vec![]))
        || list(case, "steps").iter().any(is_query)
}

/// # Panics
/// At the first step whose answer is not the one expected.
pub fn play(name: &str, case: &Json) {
    assert!(!needs_more(case), "{name}");
    let mut world = World::default();
    for (number, step) in list(case, "steps").iter().enumerate() {
        let answer = match world.step(step) {
            Ok(answer) => answer,
            Err(code) => object([("error", Json::Text(code.to_owned()))]),
        };
        let expected = sorted(need(step, "expect").clone());
        assert_eq!(answer, expected, "{name}, step {number}: {step:?}");
    }
}

impl World {
    fn step(&mut self, step: &Json) -> Result<Json, &'static str> {
        if let Some(tx) = step.get("tx") {
            let mark = self.transact(tx)?;
            return Ok(object([("tt", Json::Int(mark))]));
        }
        if let Some(heartbeat) = step.get("heartbeat") {
            self.horizon = self.horizon.max(int(need(heartbeat, "clock")));
            return Ok(object([("horizon", Json::Int(self.horizon))]));
        }
        let asked = need(step, "read");
        let clock = asked.get("clock").map_or(self.horizon, int);
        let latest = clock.max(self.horizon);
        let mark = asked.get("tt").map_or(latest, int);
        if mark > latest {
            return Err("future_tt");
        }
        self.horizon = self.horizon.max(mark);
        Ok(object([("rows", read::answer(self, asked, mark))]))
    }
}
