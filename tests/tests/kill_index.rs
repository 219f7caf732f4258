//! Indexes that were being built when the server was killed are whole in the end.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use client::Client;
use serde_json::{Value, json};
use tests::{Server, call, furnish};

/// Twenty slices of the index of words.
const ROWS: usize = 20_000;
/// Rows of one request.
const BATCH_ROWS: usize = 100;
/// Changes of every row, so that there are more versions than an index is built over at once.
const CHANGES: usize = 5;
const KILLS: usize = 6;
/// The writer goes on for so many rows before each kill.
const WRITTEN_BETWEEN: usize = 3;
/// Questions for a status before it is called stuck; each takes a fraction of a millisecond.
const PATIENCE: usize = 1_000_000;
const TABLE: &str = "/tablesdb/d/tables/t";
const INDEXES: [(&str, &str, &str); 2] = [("words", "fulltext", "s"), ("by_m", "key", "m")];

fn content(number: usize) -> Value {
    let words: Vec<String> = (0..20)
        .map(|at| format!("w{}", (number * 31 + at * 7_919) % 5_000))
        .collect();
    let text = format!("every own{number} {}", words.join(" "));
    json!({"n": number, "m": CHANGES, "s": text})
}

async fn accepted(
    client: &mut Client,
    server: &Server,
    (method, route): (&str, &str),
    body: Option<&Value>,
) -> Result<Value> {
    let answer = call(client, server.access(), method, route, body).await?;
    answer.accepted(route)
}

/// Rows of which each was changed several times.
async fn fill(server: &Server) -> Result<()> {
    let mut client = server.connect().await?;
    let rows = format!("{TABLE}/rows");
    for first in (0..ROWS).step_by(BATCH_ROWS) {
        let row = |number: usize| {
            let mut row = content(number);
            row["$id"] = json!(format!("r{number}"));
            row
        };
        let batch: Vec<Value> = (first..first + BATCH_ROWS).map(row).collect();
        let body = json!({"rows": batch});
        accepted(&mut client, server, ("POST", &rows), Some(&body)).await?;
    }
    for change in 1..=CHANGES {
        let body = json!({"data": {"m": change}});
        accepted(&mut client, server, ("PATCH", &rows), Some(&body)).await?;
    }
    Ok(())
}

async fn status(client: &mut Client, server: &Server, key: &str) -> Result<String> {
    let route = format!("{TABLE}/indexes/{key}");
    let index = accepted(client, server, ("GET", &route), None).await?;
    Ok(index["status"].as_str().context("no status")?.to_owned())
}

/// The indexes that are being built. None may have failed or gone.
async fn processing(client: &mut Client, server: &Server) -> Result<HashSet<&'static str>> {
    let mut found = HashSet::new();
    for (key, _, _) in INDEXES {
        match status(client, server, key).await?.as_str() {
            "processing" => drop(found.insert(key)),
            "available" => {}
            other => bail!("index `{key}` is {other}"),
        }
    }
    Ok(found)
}

/// Writes rows until the server is killed, and gives the numbers of those that it acknowledged.
async fn write(server: Arc<Server>, first: usize, written: Arc<tokio::sync::Semaphore>) -> usize {
    let Ok(mut client) = server.connect().await else {
        return first;
    };
    let route = format!("{TABLE}/rows");
    for number in first.. {
        let body = json!({"rowId": format!("r{number}"), "data": content(number)});
        let answer = call(&mut client, server.access(), "POST", &route, Some(&body)).await;
        // A broken connection is the kill; everything else would be a fault of the server.
        let Ok(answer) = answer else { return number };
        // The row that was on its way at the kill may be there.
        assert!(
            matches!(answer.status.as_u16(), 201 | 409),
            "{:?}",
            answer.body
        );
        written.add_permits(1);
    }
    unreachable!("numbers do not end")
}

fn encoded(query: &Value) -> String {
    let text = query.to_string();
    percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The ids of all rows that match, page by page.
async fn matches(
    client: &mut Client,
    server: &Server,
    query: Option<Value>,
) -> Result<Vec<String>> {
    let mut ids: Vec<String> = Vec::new();
    loop {
        let mut queries = vec![json!({"method": "limit", "values": [2_000]})];
        queries.extend(query.clone());
        if let Some(last) = ids.last() {
            queries.push(json!({"method": "cursorAfter", "values": [last]}));
        }
        let queries = queries.iter().enumerate();
        let queries = queries.map(|(at, query)| format!("&queries[{at}]={}", encoded(query)));
        let route = format!("{TABLE}/rows?total=false{}", queries.collect::<String>());
        let page = accepted(client, server, ("GET", &route), None).await?;
        let rows = page["rows"].as_array().context("no rows")?;
        if rows.is_empty() {
            return Ok(ids);
        }
        for row in rows {
            ids.push(row["$id"].as_str().context("no id")?.to_owned());
        }
    }
}

/// Everything acknowledged is there, and each index finds all of it.
async fn check_whole(server: &Server, acknowledged: usize) -> Result<()> {
    let mut client = server.connect().await?;
    let all = matches(&mut client, server, None).await?;
    let ids: HashSet<&str> = all.iter().map(String::as_str).collect();
    ensure!(ids.len() == all.len(), "a row came twice");
    for number in 0..acknowledged {
        ensure!(
            ids.contains(format!("r{number}").as_str()),
            "row r{number} is gone"
        );
    }
    let search = json!({"method": "search", "attribute": "s", "values": ["every"]});
    let changed = json!({"method": "equal", "attribute": "m", "values": [CHANGES]});
    for query in [search, changed] {
        let found = matches(&mut client, server, Some(query.clone())).await?;
        ensure!(
            found == all,
            "{query} finds {} of {} rows",
            found.len(),
            all.len()
        );
    }
    for number in [0, ROWS / 2, ROWS - 1, acknowledged - 1] {
        let own = json!([format!("own{number}")]);
        let own = json!({"method": "search", "attribute": "s", "values": own});
        let found = matches(&mut client, server, Some(own)).await?;
        ensure!(found == [format!("r{number}")], "{number}: {found:?}");
    }
    Ok(())
}

#[tokio::test]
async fn indexes_are_whole_after_kills_while_they_were_built() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut server = Server::start(directory.path(), &[])?;
    furnish(&server).await?;
    fill(&server).await?;
    let mut client = server.connect().await?;
    for (key, kind, column) in INDEXES {
        let body = json!({"key": key, "type": kind, "columns": [column]});
        let route = format!("{TABLE}/indexes");
        let made = accepted(&mut client, &server, ("POST", &route), Some(&body)).await?;
        ensure!(made["status"] == "processing", "{made}");
    }
    let (mut acknowledged, mut taken_up) = (ROWS, HashSet::<&str>::new());
    for round in 0..KILLS {
        let before = Arc::new(server);
        let written = Arc::new(tokio::sync::Semaphore::new(0));
        let writer = tokio::spawn(write(before.clone(), acknowledged, written.clone()));
        written.acquire_many(WRITTEN_BETWEEN as u32).await?.forget();
        before.kill()?;
        acknowledged = writer.await?;
        drop(before);
        server = Server::start(directory.path(), &[])?;
        client = server.connect().await?;
        let left = processing(&mut client, &server).await?;
        taken_up.extend(left.iter().copied());
        for number in ROWS..acknowledged {
            let route = format!("{TABLE}/rows/r{number}");
            let row = accepted(&mut client, &server, ("GET", &route), None);
            let row = row.await.with_context(|| format!("after kill {round}"))?;
            ensure!(
                row["s"] == content(number)["s"],
                "row r{number} is not whole: {row}"
            );
        }
        if left.is_empty() {
            break;
        }
    }
    ensure!(
        taken_up.len() == INDEXES.len(),
        "only {taken_up:?} were being built when the server was killed"
    );
    let mut questions = 0..PATIENCE;
    while !processing(&mut client, &server).await?.is_empty() {
        questions.next().context("the indexes are never built")?;
        tokio::task::yield_now().await;
    }
    check_whole(&server, acknowledged).await?;
    server.stop()
}
