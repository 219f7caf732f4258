//! A thread that writes, and notes what each write came to.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tests::history::{Name, Row, Rows, Write};

use super::{
    ANCHOR, Caller, Draws, FAMILIES, Family, Fixture, GROUPS, NUMBERS, OPEN, Planted, SLOTS,
};

/// A writer rests for up to this long between two writes, or no list would be asked for twice
/// between them.
const REST_MAX_US: u64 = 6_000;
/// What is scheduled happens within this, after ten milliseconds.
const SCHEDULED_WITHIN_US: u64 = 25_000;
/// Grants that let a guest read a row, and such that do not.
const TO_GUESTS: [&[&str]; 3] = [
    &[OPEN],
    &[r#"read("guests")"#],
    &[r#"read("guests")"#, r#"read("user:u")"#],
];
const TO_OTHERS: [&[&str]; 3] = [&[], &[r#"read("users")"#], &[r#"update("any")"#]];
/// What is scheduled may come a millisecond late (`docs/reference/time.md`).
const LATE_NS: u64 = 1_000_000;

/// A thread that writes, each of its rows alone.
pub struct Writer<'a> {
    pub fixture: &'a Fixture<'a>,
    pub caller: Caller<'a>,
    pub number: usize,
    pub draws: Draws,
    /// Of each table.
    pub rows: [Rows; 2],
    pub written: [Vec<Write>; 2],
}

impl Writer<'_> {
    pub fn run(mut self) -> Result<[Vec<Write>; 2]> {
        while self.fixture.goes_on() {
            let table = self.draws.below(2) as usize;
            let slot = self.draws.below(SLOTS as u64) as usize;
            self.act(table, slot)?;
            self.fixture.tries.fetch_add(1, Ordering::Relaxed);
            let rest = Duration::from_micros(self.draws.below(REST_MAX_US));
            thread::park_timeout(rest);
        }
        Ok(self.written)
    }

    fn act(&mut self, table: usize, slot: usize) -> Result<()> {
        let is_anchor = self.name(slot) == ANCHOR;
        match (self.rows[table].contains_key(&slot), self.draws.below(10)) {
            (false, 0..5) => self.create(table, slot),
            _ if self.fixture.planted == Some(Planted::TornCommits) => {
                self.commit_torn(table, slot)
            }
            (true, 0..2) if !is_anchor && self.erases() => self.erase(table, slot),
            (true, 0..2) if !is_anchor => self.delete(table, slot),
            (true, 2..4) => self.count_up(table, slot),
            (_, 4) => self.upsert_many(table, slot),
            (_, 5) => self.commit_together(table, slot),
            (_, 6) => self.schedule(table, slot),
            _ => self.upsert(table, slot),
        }
    }

    /// Whether a row that is to go leaves no past. One in four does, so that most of the past stays.
    fn erases(&mut self) -> bool {
        self.fixture.planted == Some(Planted::SilentErasures) || self.draws.below(4) == 0
    }

    fn name(&self, slot: usize) -> Name {
        Name {
            writer: self.number,
            slot,
        }
    }

    fn family(&mut self) -> Family {
        FAMILIES[self.draws.below(2) as usize]
    }

    fn drawn(&mut self, table: usize, slot: usize) -> Row {
        let is_open = self.draws.flip() || self.name(slot) == ANCHOR;
        let version = self.written[table].len() as i64 + 1;
        Row {
            group: self.draws.below(GROUPS) as i64,
            number: self.draws.below(NUMBERS) as i64,
            version,
            sequence: 0,
            is_open: is_open || !self.fixture.tables[table].has_row_security,
        }
    }

    fn permissions(&self, table: usize, row: &Row) -> Value {
        let turn = row.version as usize % 3;
        match (self.fixture.tables[table].has_row_security, row.is_open) {
            (false, _) => json!([]),
            (true, true) => json!(TO_GUESTS[turn]),
            (true, false) => json!(TO_OTHERS[turn]),
        }
    }

    pub fn create(&mut self, table: usize, slot: usize) -> Result<()> {
        let (row, family) = (self.drawn(table, slot), self.family());
        let body = json!({
            family.row_id: self.name(slot).id(),
            "data": data(&row),
            "permissions": self.permissions(table, &row),
        });
        let route = self.fixture.rows_of(table, family);
        self.write(table, "POST", &route, Some(&body), vec![(slot, Some(row))])
    }

    fn upsert(&mut self, table: usize, slot: usize) -> Result<()> {
        let (row, family) = (self.drawn(table, slot), self.family());
        let body = json!({
            "data": data(&row),
            "permissions": self.permissions(table, &row),
        });
        let is_there = self.rows[table].contains_key(&slot);
        let method = if is_there && self.draws.flip() {
            "PATCH"
        } else {
            "PUT"
        };
        let route = self.row_route(table, family, slot);
        self.write(table, method, &route, Some(&body), vec![(slot, Some(row))])
    }

    /// Three rows at once, all or none.
    fn upsert_many(&mut self, table: usize, slot: usize) -> Result<()> {
        let slots = [slot, (slot + 1) % SLOTS, (slot + 3) % SLOTS];
        let rows = slots.map(|slot| (slot, self.drawn(table, slot)));
        let family = self.family();
        let items = rows.each_ref().map(|(slot, row)| {
            let mut item = data(row);
            item["$id"] = json!(self.name(*slot).id());
            item["$permissions"] = self.permissions(table, row);
            item
        });
        let body = json!({ family.rows: items });
        let route = self.fixture.rows_of(table, family);
        let after = rows.map(|(slot, row)| (slot, Some(row))).to_vec();
        self.write(table, "PUT", &route, Some(&body), after)
    }

    /// Two rows put and one deleted by a transaction: all of it at its commit.
    fn commit_together(&mut self, table: usize, slot: usize) -> Result<()> {
        let family = self.family();
        let slots = [slot, (slot + 2) % SLOTS];
        let rows = slots.map(|slot| (slot, self.drawn(table, slot)));
        let mut operations: Vec<Value> = Vec::new();
        for (slot, row) in &rows {
            let mut data = data(row);
            data["$permissions"] = self.permissions(table, row);
            operations.push(self.operation("upsert", table, family, *slot, data));
        }
        let mut after = rows.map(|(slot, row)| (slot, Some(row))).to_vec();
        let last = (slot + 5) % SLOTS;
        if self.rows[table].contains_key(&last) && self.name(last) != ANCHOR {
            operations.push(self.operation("delete", table, family, last, json!({})));
            after.push((last, None));
        }
        let transactions = family.route.split("/h/").next().unwrap_or_default();
        let transactions = format!("{transactions}/transactions");
        let made = self.asked("POST", &transactions, &json!({}))?;
        let id = made["$id"].as_str().context("no transaction")?;
        let one = format!("{transactions}/{id}");
        let staged = json!({ "operations": operations });
        self.asked("POST", &format!("{one}/operations"), &staged)?;
        let sent = self.fixture.now();
        self.asked("PATCH", &one, &json!({"commit": true}))?;
        let answered = self.fixture.now();
        // No other thread writes these rows, so they stand until the next write of this thread.
        let mut shown = Vec::new();
        for slot in slots {
            let route = self.row_route(table, family, slot);
            shown.push(self.asked("GET", &route, &Value::Null)?);
        }
        let shown = json!({ family.rows: shown });
        let mark = self.mark_of(table, slot, wall_us())?;
        self.note(table, (sent, answered), after, &shown, mark)
    }

    /// What a commit of two rows would be that is none.
    fn commit_torn(&mut self, table: usize, slot: usize) -> Result<()> {
        let family = self.family();
        let rows = [slot, (slot + 2) % SLOTS].map(|slot| (slot, self.drawn(table, slot)));
        let sent = self.fixture.now();
        let mut shown = Vec::new();
        for (slot, row) in &rows {
            let body = json!({ "data": data(row), "permissions": self.permissions(table, row) });
            let route = self.row_route(table, family, *slot);
            shown.push(self.asked("PUT", &route, &body)?);
        }
        let answered = self.fixture.now();
        let shown = json!({ family.rows: shown });
        let after = rows.map(|(slot, row)| (slot, Some(row))).to_vec();
        self.note(table, (sent, answered), after, &shown, None)
    }

    /// A row whose content begins, or ends, a little later. Nothing else is written until then.
    fn schedule(&mut self, table: usize, slot: usize) -> Result<()> {
        let family = self.family();
        let old = self.rows[table].get(&slot).cloned();
        let mut row = self.drawn(table, slot);
        let mut body = json!({ "data": data(&row) });
        match &old {
            // Grants belong to the row whenever it is valid, so they stay as they are.
            Some(old) => row.is_open = old.is_open,
            None => body["permissions"] = self.permissions(table, &row),
        }
        let in_us = 10_000 + self.draws.below(SCHEDULED_WITHIN_US) as i64;
        let noon = Noon::in_us(self.fixture, in_us);
        let begins = self.draws.flip();
        let member = if begins { "$validFrom" } else { "$validTo" };
        body["data"][member] = json!(noon.at_us);
        let route = self.row_route(table, family, slot);
        let sent = self.fixture.now();
        let answer = self.caller.call("PUT", &route, Some(&body))?;
        let answered = self.fixture.now();
        if answer.status == 400 && wall_us() > noon.at_us && !begins {
            // It came so late that it was to end before it began: nothing was written.
            return Ok(());
        }
        let shown = answer.accepted("scheduling a row")?;
        // What it is valid with on this side of the instant.
        let seen_us = if begins { noon.at_us } else { noon.at_us - 1 };
        let mark = self.mark_of(table, slot, seen_us)?;
        let now = if begins {
            old.clone()
        } else {
            Some(row.clone())
        };
        let then = if begins { Some(row) } else { old };
        self.note(table, (sent, answered), vec![(slot, now)], &shown, mark)?;
        let [before, after] = noon.between;
        let passage = (before.max(sent + 1), after.max(answered + 1));
        while self.fixture.now() <= passage.1 {
            thread::park_timeout(Duration::from_micros(500));
        }
        let mark = mark.map(|mark| mark.max(noon.at_us));
        self.note(table, passage, vec![(slot, then)], &shown, mark)
    }

    /// The mark of the commit that wrote the row as it is valid at an instant.
    fn mark_of(&mut self, table: usize, slot: usize, valid_us: i64) -> Result<Option<i64>> {
        let query = json!({"method": "validAt", "values": [valid_us]}).to_string();
        let query =
            percent_encoding::utf8_percent_encode(&query, percent_encoding::NON_ALPHANUMERIC);
        let route = self.row_route(table, FAMILIES[0], slot);
        let row = self.asked("GET", &format!("{route}?queries[0]={query}"), &Value::Null)?;
        let version = row["$version"].as_str().context("no $version")?;
        let mark = version.rsplit('@').next().context("no mark")?;
        Ok(Some(mark.parse()?))
    }

    fn operation(
        &self,
        action: &str,
        table: usize,
        family: Family,
        slot: usize,
        data: Value,
    ) -> Value {
        let table_id = if family == FAMILIES[0] {
            "tableId"
        } else {
            "collectionId"
        };
        json!({
            "action": action,
            "databaseId": "h",
            table_id: self.fixture.tables[table].id,
            family.row_id: self.name(slot).id(),
            "data": data,
        })
    }

    /// The answer to a request that must succeed.
    fn asked(&mut self, method: &str, route: &str, body: &Value) -> Result<Value> {
        let body = (!body.is_null()).then_some(body);
        let answer = self.caller.call(method, route, body)?;
        ensure!(
            answer.status.is_success(),
            "{method} {route}: {} {:?}",
            answer.status,
            answer.body
        );
        Ok(serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    /// By an operator, which the server computes.
    fn count_up(&mut self, table: usize, slot: usize) -> Result<()> {
        let mut row = self.rows[table][&slot].clone();
        row.version = self.written[table].len() as i64 + 1;
        row.number += 1;
        let plus = json!({"method": "increment", "values": [1]}).to_string();
        let body = json!({ "data": {"n": plus, "v": row.version} });
        let family = self.family();
        let route = self.row_route(table, family, slot);
        self.write(table, "PATCH", &route, Some(&body), vec![(slot, Some(row))])
    }

    fn delete(&mut self, table: usize, slot: usize) -> Result<()> {
        let family = self.family();
        let route = self.row_route(table, family, slot);
        self.write(table, "DELETE", &route, None, vec![(slot, None)])
    }

    /// The row with all that it ever was.
    fn erase(&mut self, table: usize, slot: usize) -> Result<()> {
        let (id, row) = (&self.fixture.tables[table].id, self.name(slot).id());
        let body = json!({ "ops": [{"op": "erase", "table": id, "id": row}] });
        let sent = self.fixture.now();
        let made = self.asked("POST", "/tidemark/databases/h/transactions", &body)?;
        let answered = self.fixture.now();
        let mark = made["tt"].as_i64().context("an erasure without a mark")?;
        self.rows[table].remove(&slot);
        self.written[table].push(Write {
            sent,
            answered,
            mark: Some(mark),
            after: self.rows[table].clone(),
            erased: Some(slot),
        });
        Ok(())
    }

    fn row_route(&self, table: usize, family: Family, slot: usize) -> String {
        format!(
            "{}/{}",
            self.fixture.rows_of(table, family),
            self.name(slot).id()
        )
    }

    /// Writes, and notes what it came to.
    fn write(
        &mut self,
        table: usize,
        method: &str,
        route: &str,
        body: Option<&Value>,
        after: Vec<(usize, Option<Row>)>,
    ) -> Result<()> {
        let sent = self.fixture.now();
        let shown = self.asked(method, route, body.unwrap_or(&Value::Null))?;
        let answered = self.fixture.now();
        let written = after.iter().find(|(_, row)| row.is_some());
        let mark = match written {
            Some((slot, _)) => self.mark_of(table, *slot, wall_us())?,
            None => None,
        };
        self.note(table, (sent, answered), after, &shown, mark)
            .with_context(|| format!("{method} {route}"))
    }

    /// Notes what a write came to, by an answer that shows its rows.
    fn note(
        &mut self,
        table: usize,
        (sent, answered): (u64, u64),
        after: Vec<(usize, Option<Row>)>,
        shown: &Value,
        mark: Option<i64>,
    ) -> Result<()> {
        for (slot, row) in after {
            let Some(mut row) = row else {
                self.rows[table].remove(&slot);
                continue;
            };
            row.sequence = sequence(shown, &self.name(slot).id())?;
            self.rows[table].insert(slot, row);
        }
        self.written[table].push(Write {
            sent,
            answered,
            mark,
            after: self.rows[table].clone(),
            erased: None,
        });
        Ok(())
    }
}

/// Microseconds since 1970, by the clock that the server looks at as well.
fn wall_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

/// An instant of the server's clock, and when it passes for those who measure this run: not before
/// the first, and what is scheduled then is shown from the second on.
struct Noon {
    at_us: i64,
    between: [u64; 2],
}

impl Noon {
    fn in_us(fixture: &Fixture<'_>, in_us: i64) -> Noon {
        let before = fixture.now();
        let now_us = wall_us();
        let after = fixture.now();
        let away_ns = in_us as u64 * 1_000;
        Noon {
            at_us: now_us + in_us,
            // The clock was read somewhere in the microsecond.
            between: [before + away_ns - 1_000, after + away_ns + LATE_NS],
        }
    }
}

fn data(row: &Row) -> Value {
    json!({"g": row.group, "n": row.number, "v": row.version})
}

/// The `$sequence` of this row in the answer to a write of one row or many.
fn sequence(shown: &Value, id: &str) -> Result<i64> {
    let many = FAMILIES
        .iter()
        .find_map(|family| shown[family.rows].as_array());
    let row = many.map_or(Some(shown), |rows| rows.iter().find(|row| row["$id"] == id));
    let row = row.with_context(|| format!("{id} is not shown"))?;
    let sequence = row["$sequence"].as_str().context("no $sequence")?;
    Ok(sequence.parse()?)
}
