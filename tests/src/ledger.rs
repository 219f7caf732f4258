//! What writers have sent to a server that is about to lose itself or its database, what they were
//! answered, and whether the server holds just that afterwards.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use client::{Answer, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{Server, call};

/// Writers at a time.
pub const WRITERS: usize = 32;
/// A server that has lost its database for good ends the test.
const GOES_ON_IN: Duration = Duration::from_mins(1);
/// Rows of one request of a writer of many.
const BULK_ROWS: usize = 3;
const ROWS: &str = "/tablesdb/d/tables/t/rows";
/// Is raised by requests that are sent again under their key until they are answered.
const KEYED: &str = "counter-keyed";
/// Is raised by requests that are not sent again.
const PLAIN: &str = "counter-plain";

/// Ids of the rows of one request, in order.
type Request = Vec<String>;

/// What a writer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    One,
    Many,
    Keyed,
    Plain,
}

/// What became of a request.
enum Fate {
    Done,
    /// Nothing of it is there.
    Refused,
    /// It is there whole, or not at all.
    Unknown,
}

/// What was sent, and what of it was answered.
#[derive(Default)]
pub struct Ledger {
    sent: Mutex<Vec<Request>>,
    acknowledged: Mutex<Vec<Request>>,
    refused: Mutex<Vec<Request>>,
    /// Of all acknowledged requests.
    marks: Mutex<Vec<u64>>,
    /// Keys of requests that are to be sent again.
    unanswered: Mutex<Vec<String>>,
    keyed: AtomicU64,
    plain: AtomicU64,
    plain_unknown: AtomicU64,
    count: AtomicUsize,
    is_over: AtomicBool,
}

/// Writers that run until what they need fails, or the ledger ends them.
pub struct Writers(Vec<JoinHandle<Result<()>>>);

impl Writers {
    /// # Errors
    /// What a writer has met that neither the server nor its database was to do.
    pub async fn finish(self) -> Result<()> {
        for writer in self.0 {
            writer.await??;
        }
        Ok(())
    }
}

/// `m` follows from `n`, so that a row of which half was written would show.
fn content(n: i64) -> Value {
    json!({"n": n, "m": n * 7, "s": format!("row {n}")})
}

impl Ledger {
    /// Makes the rows that are raised.
    ///
    /// # Errors
    /// What the server says.
    pub async fn furnish(&self, server: &Server) -> Result<()> {
        let mut client = server.connect().await?;
        for id in [KEYED, PLAIN] {
            let row = json!({"rowId": id, "data": {"n": 0}});
            let made = call(&mut client, server.access(), "POST", ROWS, Some(&row)).await?;
            made.accepted("making a counter")?;
        }
        Ok(())
    }

    /// How many requests were acknowledged.
    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Starts the writers of a round.
    pub fn start(self: &Arc<Self>, server: &Arc<Server>, round: usize) -> Writers {
        self.is_over.store(false, Ordering::Relaxed);
        let kinds = [Kind::One, Kind::Many, Kind::Keyed, Kind::Plain];
        let writers = (0..WRITERS).map(|writer| {
            let (ledger, server) = (Arc::clone(self), Arc::clone(server));
            let name = format!("k{round}-w{writer}");
            tokio::spawn(async move { ledger.write(&server, &name, kinds[writer % 4]).await })
        });
        Writers(writers.collect())
    }

    /// Waits until so many more requests of the writers are acknowledged.
    ///
    /// # Errors
    /// When they have all ended before.
    pub async fn grow(&self, writers: &Writers, more: usize) -> Result<()> {
        let enough = self.count() + more;
        while self.count() < enough {
            let are_over = writers.0.iter().all(JoinHandle::is_finished);
            ensure!(!are_over, "the writers have ended by themselves");
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Lets each writer end with the request it is at.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    async fn write(&self, server: &Server, name: &str, kind: Kind) -> Result<()> {
        let Ok(mut client) = server.connect().await else {
            return Ok(());
        };
        let mut last_mark = 0;
        for turn in 0_i64.. {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let (ids, answer) = match kind {
                Kind::One | Kind::Many => {
                    let ids = ids_of(name, turn, kind);
                    self.sent.lock().unwrap().push(ids.clone());
                    let answer = insert(&mut client, server, (&ids, kind, turn)).await;
                    (ids, answer)
                }
                Kind::Keyed | Kind::Plain => {
                    let key = format!("{name}-{turn}");
                    (
                        Vec::new(),
                        increment(&mut client, server, (&key, kind)).await,
                    )
                }
            };
            let fate = fate(&answer)?;
            self.note(kind, &fate, ids, format!("{name}-{turn}"));
            let (Fate::Done, Ok(answer)) = (fate, answer) else {
                break;
            };
            let mark = mark_of(&answer)?;
            ensure!(mark > last_mark, "{mark} is not above {last_mark}");
            last_mark = mark;
            self.marks.lock().unwrap().push(mark);
        }
        Ok(())
    }

    fn note(&self, kind: Kind, fate: &Fate, ids: Request, key: String) {
        match (kind, fate) {
            (Kind::One | Kind::Many, Fate::Done) => self.acknowledged.lock().unwrap().push(ids),
            (Kind::One | Kind::Many, Fate::Refused) => self.refused.lock().unwrap().push(ids),
            (Kind::One | Kind::Many, Fate::Unknown) | (Kind::Plain, Fate::Refused) => {}
            (Kind::Keyed, Fate::Done) => {
                self.keyed.fetch_add(1, Ordering::Relaxed);
            }
            (Kind::Keyed, _) => self.unanswered.lock().unwrap().push(key),
            (Kind::Plain, Fate::Done) => {
                self.plain.fetch_add(1, Ordering::Relaxed);
            }
            (Kind::Plain, Fate::Unknown) => {
                self.plain_unknown.fetch_add(1, Ordering::Relaxed);
            }
        }
        if matches!(fate, Fate::Done) {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes until that is acknowledged; how many tries it took.
    ///
    /// # Errors
    /// When the server says anything but that it cannot now, or its connection breaks.
    pub async fn write_again(&self, server: &Server) -> Result<usize> {
        let mut client = server.connect().await?;
        let began = Instant::now();
        for tries in 1.. {
            ensure!(began.elapsed() < GOES_ON_IN, "writes do not go on");
            let answer = increment(&mut client, server, ("", Kind::Plain)).await;
            let fate = fate(&answer)?;
            self.note(Kind::Plain, &fate, Vec::new(), String::new());
            answer?;
            if matches!(fate, Fate::Done) {
                return Ok(tries);
            }
        }
        unreachable!("it tries for ever")
    }

    /// Sends again what was not answered, then compares what the server holds with what it has
    /// said.
    ///
    /// # Errors
    /// What is lost, or there twice.
    pub async fn check(&self, server: &Server) -> Result<()> {
        let unanswered = std::mem::take(&mut *self.unanswered.lock().unwrap());
        let mut client = server.connect().await?;
        for key in unanswered {
            let began = Instant::now();
            loop {
                let answer = increment(&mut client, server, (&key, Kind::Keyed)).await;
                if matches!(fate(&answer)?, Fate::Done) {
                    break;
                }
                // The server may not yet know what became of the first one.
                answer.context("sending an increment again")?;
                ensure!(began.elapsed() < GOES_ON_IN, "{key} is not taken again");
            }
            self.keyed.fetch_add(1, Ordering::Relaxed);
        }
        let mut found = read_all(server).await?;
        self.check_counters(&mut found)?;
        for id in self.acknowledged.lock().unwrap().iter().flatten() {
            ensure!(found.contains_key(id), "the acknowledged row {id} is gone");
        }
        for id in self.refused.lock().unwrap().iter().flatten() {
            ensure!(!found.contains_key(id), "the refused row {id} is there");
        }
        for request in self.sent.lock().unwrap().iter() {
            let there = request.iter().filter(|id| found.contains_key(*id)).count();
            ensure!(
                there == 0 || there == request.len(),
                "half a request is there: {request:?}"
            );
        }
        for (id, row) in &found {
            let n = row["n"].as_i64().context("no n")?;
            let whole = content(n);
            let is_whole = ["n", "m", "s"].iter().all(|key| row[*key] == whole[*key]);
            ensure!(is_whole, "row {id} is not whole: {row}");
        }
        let mut marks = self.marks.lock().unwrap().clone();
        let count = marks.len();
        marks.sort_unstable();
        marks.dedup();
        ensure!(marks.len() == count, "a mark was given twice");
        Ok(())
    }

    fn check_counters(&self, found: &mut HashMap<String, Value>) -> Result<()> {
        let mut counted = |id: &str| {
            let row = found.remove(id).context("a counter is gone")?;
            row["n"].as_u64().context("no n")
        };
        let (keyed, plain) = (counted(KEYED)?, counted(PLAIN)?);
        let expected = self.keyed.load(Ordering::Relaxed);
        ensure!(keyed == expected, "{expected} increments are {keyed}");
        let least = self.plain.load(Ordering::Relaxed);
        let most = least + self.plain_unknown.load(Ordering::Relaxed);
        ensure!(
            (least..=most).contains(&plain),
            "{least} to {most} increments are {plain}"
        );
        Ok(())
    }
}

fn ids_of(name: &str, turn: i64, kind: Kind) -> Request {
    let count = if kind == Kind::Many { BULK_ROWS } else { 1 };
    let ids = (0..count).map(|part| format!("{name}-{turn}-{part}"));
    ids.collect()
}

async fn insert(
    client: &mut Client,
    server: &Server,
    (ids, kind, turn): (&[String], Kind, i64),
) -> Result<Answer> {
    let body = if kind == Kind::Many {
        let row = |id: &String| {
            let mut row = content(turn);
            row["$id"] = json!(id);
            row
        };
        json!({"rows": ids.iter().map(row).collect::<Vec<_>>()})
    } else {
        json!({"rowId": ids[0], "data": content(turn)})
    };
    call(client, server.access(), "POST", ROWS, Some(&body)).await
}

async fn increment(
    client: &mut Client,
    server: &Server,
    (key, kind): (&str, Kind),
) -> Result<Answer> {
    let id = if kind == Kind::Keyed { KEYED } else { PLAIN };
    let route = format!("{ROWS}/{id}/n/increment");
    let access = server.access();
    let mut request = access.request("PATCH".parse()?, &route, Some("{}".to_owned()))?;
    if kind == Kind::Keyed {
        request
            .headers_mut()
            .insert("idempotency-key", key.parse()?);
    }
    Ok(client.send(request).await?)
}

/// # Errors
/// When it was answered as no write is whose server, or database, is merely gone.
fn fate(answer: &Result<Answer>) -> Result<Fate> {
    let Ok(answer) = answer else {
        return Ok(Fate::Unknown);
    };
    let status = answer.status.as_u16();
    if answer.status.is_success() {
        return Ok(Fate::Done);
    }
    let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    match (status, said["type"].as_str()) {
        (503, Some("commit_unknown")) => Ok(Fate::Unknown),
        (503, Some("general_service_unavailable")) => Ok(Fate::Refused),
        _ => anyhow::bail!("a write was answered with {status}: {said}"),
    }
}

fn mark_of(answer: &Answer) -> Result<u64> {
    let mark = answer.headers.get("x-tidemark-mark");
    let mark = mark.context("a write has no mark")?.to_str()?;
    Ok(mark.parse()?)
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
