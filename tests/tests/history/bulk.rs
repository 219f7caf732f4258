//! Changes of all rows that match, while rows are created.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context as _, Result, bail, ensure};
use client::Answer;
use serde_json::{Value, json};
use tests::history::{Change, Taking, judge_changes};
use tests::{Server, is_night};

use super::Caller;

const CREATORS: usize = 4;
/// Of each of the two who change.
const CHANGES: i64 = 60;
const CHANGES_NIGHT: i64 = 2_000;
const ROWS: &str = "/tablesdb/bulk/tables/t/rows";
/// Rows of one page when what is left is read.
const PAGE: usize = 1_000;

/// Column `b` has no index, so a change looks through all rows; it is 0 in a row that no change has
/// taken.
fn create_table(caller: &mut Caller<'_>) -> Result<()> {
    let database = json!({"databaseId": "bulk", "name": "Bulk"});
    let made = caller.call("POST", "/tablesdb", Some(&database))?;
    made.accepted("creating the database")?;
    let table = json!({
        "tableId": "t", "name": "t",
        "columns": [{"key": "b", "type": "integer", "required": true}],
    });
    let made = caller.call("POST", "/tablesdb/bulk/tables", Some(&table))?;
    made.accepted("creating the table")?;
    Ok(())
}

/// The mark that an answer is true for.
fn mark(answer: &Answer) -> Result<i64> {
    let mark = answer.headers.get("x-tidemark-mark").context("no mark")?;
    Ok(mark.to_str()?.parse()?)
}

/// Creates rows, one or two at a time, until stopped; their marks.
fn create(server: &Server, creator: usize, stop: &AtomicBool) -> Result<BTreeMap<String, i64>> {
    let mut caller = Caller::new(server)?;
    let mut created = BTreeMap::new();
    while !stop.load(Ordering::Relaxed) {
        let first = created.len();
        let ids = [first, first + 1].map(|place| format!("w{creator}-{place}"));
        let body = json!({"rowId": ids[0], "data": {"b": 0}});
        let (ids, body) = if first.is_multiple_of(3) {
            let rows = ids.each_ref().map(|id| json!({"$id": id, "b": 0}));
            (&ids[..], json!({ "rows": rows }))
        } else {
            (&ids[..1], body)
        };
        let answer = caller.call("POST", ROWS, Some(&body))?;
        let mark = mark(&answer);
        answer.accepted("creating rows")?;
        let mark = mark?;
        created.extend(ids.iter().map(|id| (id.clone(), mark)));
    }
    Ok(created)
}

/// Takes all rows that none took before, now by a number and now by deleting them.
fn take(server: &Server, numbers: Range<i64>) -> Result<Vec<Change>> {
    let mut caller = Caller::new(server)?;
    let query = json!({"method": "equal", "attribute": "b", "values": [0]}).to_string();
    let mut done = Vec::new();
    for nth in numbers {
        let number = (nth % 3 > 0).then_some(nth);
        let (method, body) = match number {
            Some(number) => ("PATCH", json!({"queries": [query], "data": {"b": number}})),
            None => ("DELETE", json!({"queries": [query]})),
        };
        let answer = caller.call(method, ROWS, Some(&body))?;
        let mark = mark(&answer);
        let counted = answer.accepted("changing all rows that match")?;
        let total = counted["total"].as_u64().context("no total")? as usize;
        done.push(Change {
            mark: mark?,
            total,
            number,
        });
    }
    Ok(done)
}

/// What stands in the rows that are there.
fn left(caller: &mut Caller<'_>) -> Result<BTreeMap<String, i64>> {
    let mut left = BTreeMap::new();
    loop {
        let queries = [
            json!({"method": "limit", "values": [PAGE]}),
            json!({"method": "offset", "values": [left.len()]}),
        ];
        let queries = queries.iter().enumerate().map(|(place, query)| {
            let text = query.to_string();
            let text =
                percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC);
            format!("queries[{place}]={text}")
        });
        let route = format!("{ROWS}?{}", queries.collect::<Vec<String>>().join("&"));
        let page = caller.call("GET", &route, None)?.accepted("reading rows")?;
        let rows: &Vec<Value> = page["rows"].as_array().context("no rows")?;
        for row in rows {
            let id = row["$id"].as_str().context("no id")?;
            left.insert(id.to_owned(), row["b"].as_i64().context("no number")?);
        }
        if rows.len() < PAGE {
            return Ok(left);
        }
    }
}

#[test]
fn a_change_of_all_rows_that_match_takes_what_its_mark_says() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let server = Server::start(directory.path(), &[])?;
    let mut caller = Caller::new(&server)?;
    create_table(&mut caller)?;
    let changes = if is_night() { CHANGES_NIGHT } else { CHANGES };
    let stop = AtomicBool::new(false);
    let mut taking = thread::scope(|scope| {
        let creators: Vec<_> = (0..CREATORS)
            .map(|creator| {
                let (server, stop) = (&server, &stop);
                scope.spawn(move || create(server, creator, stop))
            })
            .collect();
        // Two, so that one of them often finds nothing.
        let other = scope.spawn(|| take(&server, changes + 1..2 * changes + 1));
        let one = take(&server, 1..changes + 1);
        let other = other.join();
        stop.store(true, Ordering::Relaxed);
        let Ok(other) = other else {
            bail!("a change has panicked")
        };
        let mut taking = Taking::default();
        for creator in creators {
            let Ok(created) = creator.join() else {
                bail!("a creator has panicked")
            };
            taking.created.extend(created?);
        }
        taking.changes = [one?, other?].concat();
        Ok(taking)
    })?;
    taking.left = left(&mut caller)?;
    let mistaken = judge_changes(&taking);
    println!(
        "{} rows, {} changes, {} left",
        taking.created.len(),
        taking.changes.len(),
        taking.left.len()
    );
    if let Some(first) = mistaken.first() {
        bail!("{} mistakes; the first: {first:?}", mistaken.len());
    }
    let taken = taking
        .changes
        .iter()
        .map(|change| change.total)
        .sum::<usize>();
    ensure!(taken > taking.changes.len(), "next to nothing was created");
    Ok(())
}
