//! Single rows and the benchmark's list, as the store reads them: a row is one statement, a list
//! all statements of its snapshot at once.

use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, Error, Row, Statement};

use super::{SchemaAddress, SeededCatalog};
use crate::Outcome;
use crate::list::{CATEGORY, PAGE_ROWS, RATING_ABOVE, TOTAL_CAP};

const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// What says which snapshot it is.
const STAMP: &str = "SELECT mark, catalogue_epoch, x_at FROM meta";
/// Where the id and the body are among the columns of a row.
const ID: usize = 1;
const BODY: usize = 5;
/// Columns of a stamp before those of a point read.
const STAMP_COLUMNS: usize = 2;
/// Reads of each connection before the first timed one.
const WARMUP: usize = 50;
/// Numbers of rows go up by this, so that no two reads in a row meet the same page.
const STEP: usize = 7_919;

/// Connections, shared out among as many threads as there are cores.
#[derive(Default)]
pub struct BareReaders {
    lanes: Vec<ReadLane>,
}

/// A thread's connections, whose turns it takes.
struct ReadLane {
    runtime: Runtime,
    readers: Vec<BareReader>,
}

struct BareReader {
    client: Client,
    stamp: Statement,
    point: Statement,
    list: Statement,
    total: Statement,
}

#[derive(Clone, Copy)]
enum BareRead {
    Point,
    List { total: bool },
}

/// Errors of threads; others cannot be sent.
type ReadResult<T> = Result<T, String>;

impl BareReaders {
    /// Opens connections until there are so many.
    pub fn open(
        &mut self,
        address: &SchemaAddress,
        seeded: &SeededCatalog,
        clients: usize,
    ) -> Outcome<()> {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        while self.lanes.len() < threads {
            self.lanes.push(ReadLane {
                runtime: Builder::new_current_thread().enable_all().build()?,
                readers: Vec::new(),
            });
        }
        for client in 0..clients {
            let lane = &mut self.lanes[client % threads];
            if lane.readers.len() <= client / threads {
                let client = address.connect_on(&lane.runtime)?;
                lane.readers
                    .push(lane.runtime.block_on(BareReader::prepare(client, seeded))?);
            }
        }
        Ok(())
    }

    /// Lets so many connections read for so long, each one read after the other.
    pub fn read(
        &mut self,
        seeded: &SeededCatalog,
        name: &str,
        clients: usize,
        ms: u64,
    ) -> Outcome<Value> {
        let read = match name {
            "point" => BareRead::Point,
            name => BareRead::List {
                total: name == "list_total",
            },
        };
        let threads = self.lanes.len();
        let begun = Instant::now();
        let done: Vec<ReadResult<Vec<u64>>> = thread::scope(|scope| {
            let lanes = self.lanes.iter().enumerate();
            let running: Vec<_> = lanes
                .map(|(nth, lane)| {
                    let own = (clients + threads - 1 - nth) / threads;
                    scope.spawn(move || lane.read(read, &seeded.ids, own, ms))
                })
                .collect();
            let panicked = |_| Err("a reader has panicked".to_owned());
            let done = running.into_iter();
            done.map(|one| one.join().unwrap_or_else(panicked))
                .collect()
        });
        let elapsed = begun.elapsed();
        let samples = done.into_iter().collect::<ReadResult<Vec<_>>>()?.concat();
        let first = &self.lanes[0];
        let rows = match read {
            BareRead::Point => vec![seeded.ids[0].clone()],
            BareRead::List { total } => {
                let found = first.readers[0].list(total);
                let found = first.runtime.block_on(found)?;
                found.0.iter().map(|row| row.get(ID)).collect()
            }
        };
        Ok(json!({
            "rows": rows,
            "elapsed_ns": elapsed.as_nanos() as u64,
            "samples_ns": samples,
        }))
    }
}

impl ReadLane {
    fn read(
        &self,
        read: BareRead,
        ids: &[String],
        clients: usize,
        ms: u64,
    ) -> ReadResult<Vec<u64>> {
        let until = Instant::now() + Duration::from_millis(ms);
        let all = self.readers[..clients].iter().enumerate();
        let all = all.map(|(nth, reader)| reader.repeat(read, ids, nth, until));
        let samples = self.runtime.block_on(try_join_all(all));
        let samples = samples.map_err(|error| error.to_string())?;
        Ok(samples.concat())
    }
}

impl BareReader {
    async fn prepare(client: Client, seeded: &SeededCatalog) -> Outcome<BareReader> {
        let content = "t.seq, t.id, t.created, t.updated, t.perms, t.body";
        let from = format!("FROM {} AS t", seeded.now);
        let matching = format!(
            "{from} WHERE t.{} = $1 AND t.{} > $2",
            seeded.column("category")?,
            seeded.column("rating")?,
        );
        let point = format!(
            "SELECT m.mark, m.catalogue_epoch, {content}
             FROM meta AS m LEFT JOIN {} AS t ON t.id = $1",
            seeded.now
        );
        let list = format!(
            "SELECT {content} {matching}
             ORDER BY t.{} DESC NULLS LAST, t.seq LIMIT {PAGE_ROWS}",
            seeded.column("reviewCount")?
        );
        let total = format!("SELECT count(*) FROM (SELECT 1 {matching} LIMIT {TOTAL_CAP}) AS n");
        let mut reader = BareReader {
            stamp: client.prepare(STAMP).await?,
            point: client.prepare(&point).await?,
            list: client.prepare(&list).await?,
            total: client.prepare(&total).await?,
            client,
        };
        reader.warm(&seeded.ids).await?;
        Ok(reader)
    }

    async fn warm(&mut self, ids: &[String]) -> Result<(), Error> {
        for nth in 0..WARMUP {
            self.point(&ids[nth % ids.len()]).await?;
            self.list(true).await?;
        }
        Ok(())
    }

    async fn repeat(
        &self,
        read: BareRead,
        ids: &[String],
        nth: usize,
        until: Instant,
    ) -> Result<Vec<u64>, Error> {
        let mut samples = Vec::new();
        let mut out = Vec::new();
        let mut number = nth;
        while samples.is_empty() || Instant::now() < until {
            let start = Instant::now();
            out.clear();
            match read {
                BareRead::Point => {
                    let row = self.point(&ids[number * STEP % ids.len()]).await?;
                    copy(&row, STAMP_COLUMNS, &mut out);
                }
                BareRead::List { total } => {
                    let (rows, _) = self.list(total).await?;
                    for row in &rows {
                        copy(row, 0, &mut out);
                    }
                }
            }
            std::hint::black_box(&out);
            samples.push(start.elapsed().as_nanos() as u64);
            number += 1;
        }
        Ok(samples)
    }

    async fn point(&self, id: &str) -> Result<Row, Error> {
        self.client.query_one(&self.point, &[&id]).await
    }

    /// A page, and its total where it is counted.
    async fn list(&self, total: bool) -> Result<(Vec<Row>, Option<i64>), Error> {
        let client = &self.client;
        let count = async {
            if !total {
                return Ok(None);
            }
            let row = client
                .query_one(&self.total, &[&CATEGORY, &RATING_ABOVE])
                .await?;
            Ok::<Option<i64>, Error>(Some(row.get(0)))
        };
        let ((), _, rows, total, ()) = tokio::try_join!(
            biased;
            client.batch_execute(BEGIN),
            client.query_one(&self.stamp, &[]),
            client.query(&self.list, &[&CATEGORY, &RATING_ABOVE]),
            count,
            client.batch_execute("COMMIT"),
        )?;
        Ok((rows, total))
    }
}

/// What a reader needs of a row: its id and its body.
fn copy(row: &Row, first: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(row.get::<_, &str>(first + ID).as_bytes());
    out.extend_from_slice(
        row.get::<_, Option<&[u8]>>(first + BODY)
            .unwrap_or_default(),
    );
}
