//! What was acknowledged is there after `kill -9`, whole; what was not is there whole or not at
//! all.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tests::{Server, call, furnish};

const WRITERS: usize = 32;
const KILLS: usize = 20;
/// Rows of one request of every other writer; the others send single rows.
const BULK_ROWS: usize = 3;
const ROWS: &str = "/tablesdb/d/tables/t/rows";

/// Ids of the rows of one request, in order.
type Request = Vec<String>;

/// What the writers sent, and which of it was acknowledged.
#[derive(Default)]
struct Record {
    sent: Mutex<Vec<Request>>,
    acknowledged: Mutex<Vec<Request>>,
    count: AtomicUsize,
}

/// `m` follows from `n`, so that a row of which half was written would show.
fn content(n: i64) -> Value {
    json!({"n": n, "m": n * 7, "s": format!("row {n}")})
}

async fn write(server: Arc<Server>, record: Arc<Record>, name: String, is_bulk: bool) {
    let Ok(mut client) = server.connect().await else {
        return;
    };
    for turn in 0_i64.. {
        let count = if is_bulk { BULK_ROWS } else { 1 };
        let ids: Request = (0..count)
            .map(|part| format!("{name}-{turn}-{part}"))
            .collect();
        let body = if is_bulk {
            let row = |id: &String| {
                let mut row = content(turn);
                row["$id"] = json!(id);
                row
            };
            json!({"rows": ids.iter().map(row).collect::<Vec<_>>()})
        } else {
            json!({"rowId": ids[0], "data": content(turn)})
        };
        record.sent.lock().unwrap().push(ids.clone());
        let answer = call(&mut client, server.access(), "POST", ROWS, Some(&body)).await;
        // A broken connection is the kill; everything else would be a fault of the server.
        let Ok(answer) = answer else { return };
        assert_eq!(answer.status, 201, "{:?}", answer.body);
        record.acknowledged.lock().unwrap().push(ids);
        record.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Every row of the table by its id.
async fn read_all(server: &Server) -> Result<HashMap<String, Value>> {
    let mut client = server.connect().await?;
    let mut all = HashMap::new();
    let mut cursor: Option<String> = None;
    loop {
        let mut route = format!(
            "{ROWS}?total=false&queries[0]={}",
            encoded("limit", &json!(2000))
        );
        if let Some(id) = &cursor {
            route = format!("{route}&queries[1]={}", encoded("cursorAfter", &json!(id)));
        }
        let answer = call(&mut client, server.access(), "GET", &route, None).await?;
        let page = answer.accepted("reading a page")?;
        let rows = page["rows"].as_array().context("no rows")?;
        let Some(last) = rows.last() else {
            return Ok(all);
        };
        cursor = last["$id"].as_str().map(str::to_owned);
        for row in rows {
            let id = row["$id"].as_str().context("no id")?.to_owned();
            ensure!(all.insert(id, row.clone()).is_none(), "a row came twice");
        }
    }
}

fn encoded(method: &str, value: &Value) -> String {
    let text = json!({"method": method, "values": [value]}).to_string();
    percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn check(record: &Record, found: &HashMap<String, Value>) -> Result<()> {
    for id in record.acknowledged.lock().unwrap().iter().flatten() {
        ensure!(found.contains_key(id), "the acknowledged row {id} is gone");
    }
    for request in record.sent.lock().unwrap().iter() {
        let there = request.iter().filter(|id| found.contains_key(*id)).count();
        ensure!(
            there == 0 || there == request.len(),
            "half a request is there: {request:?}"
        );
    }
    for (id, row) in found {
        let n = row["n"].as_i64().context("no n")?;
        let whole = content(n);
        let is_whole = ["n", "m", "s"].iter().all(|key| row[*key] == whole[*key]);
        ensure!(is_whole, "row {id} is not whole: {row}");
    }
    Ok(())
}

#[tokio::test]
async fn acknowledged_writes_survive_twenty_kills_under_32_writers() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let server = Server::start(directory.path(), &[])?;
    furnish(&server).await?;
    let record = Arc::<Record>::default();
    let mut server = Arc::new(server);
    for round in 0..KILLS {
        let enough = record.count.load(Ordering::Relaxed) + 150 + round * 7;
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let name = format!("k{round}-w{writer}");
                tokio::spawn(write(server.clone(), record.clone(), name, writer % 2 == 1))
            })
            .collect();
        while record.count.load(Ordering::Relaxed) < enough {
            tokio::task::yield_now().await;
        }
        server.kill()?;
        for writer in writers {
            writer.await?;
        }
        drop(server);
        server = Arc::new(Server::start(directory.path(), &[])?);
        check(&record, &read_all(&server).await?).with_context(|| format!("after kill {round}"))?;
    }
    let server = Arc::into_inner(server).context("the writers are done")?;
    server.stop()
}
