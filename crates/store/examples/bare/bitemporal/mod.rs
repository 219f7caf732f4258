//! The workload over two time axes by hand-written statements: one task a line on standard input,
//! its answer a line of JSON on standard output.

use std::io::{BufRead as _, stdin};
use std::path::PathBuf;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use serde_json::{Value, json};

use self::layout::{Object, Writer, open};
use self::server::ServerTables;
use crate::Outcome;

mod deep;
mod layout;
mod server;

/// Objects of a batch.
const BATCH: u32 = 100;

/// Write and read rows on two time axes, one task a line of standard input
///
/// A task is `{"run", "clients", "objects"}` or `{"deep": {"rows", "versions", "statuses",
/// "points", "lists"}}`. A client is a thread with a connection of its own for reads; they take
/// turns at one that writes, which commits each write with a sync. In a server's database nothing
/// answers `deep`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Where databases are made, on the disk to be measured
    #[arg(long, value_name = "DIR", required_unless_present = "database")]
    folder: Option<PathBuf>,
    /// In a schema of this PostgreSQL database in place of a folder, without TLS. It is removed at
    /// the end of the input
    #[arg(
        long,
        env = "TIDEMARK_DATABASE",
        value_name = "URL",
        hide_env_values = true
    )]
    database: Option<String>,
}

/// Says what it runs on, then answers each task until there are no more.
pub fn run(arguments: &Arguments) -> Outcome<()> {
    match (&arguments.database, &arguments.folder) {
        (Some(url), _) => {
            let tables = ServerTables::create(url)?;
            answer(
                &tables.name()?,
                tables.writer()?,
                || tables.reader(),
                |_| Err("nothing answers `deep` there".into()),
            )?;
            tables.remove()
        }
        (None, Some(folder)) => {
            let path = folder.join("bare.db");
            let writer = Writer::create(&path, &[("code", true), ("run", false)])?;
            let name = format!("SQLite {}, hand-written", rusqlite::version());
            answer(
                &name,
                writer,
                || open(&path),
                |task| deep::run(folder, task),
            )
        }
        (None, None) => Err("a folder or a database is named".into()),
    }
}

/// What reads, on a thread of its own.
trait ReadsObjects: Send {
    /// Every column of the rows whose `column` has this value; there must be so many.
    fn found(&mut self, column: &'static str, value: &ObjectKey, wanted: usize) -> Outcome<()>;

    /// The same of one row for each of these codes, on one snapshot.
    fn batch(&mut self, codes: Vec<String>) -> Outcome<()>;
}

/// What writes, by one client at a time.
trait WritesObjects: Send {
    /// New objects in one commit, which is on disk then.
    fn insert(&mut self, objects: &[Object]) -> Outcome<()>;
}

/// A value that rows are found by.
enum ObjectKey {
    Number(i64),
    Text(String),
}

fn answer<R: ReadsObjects, W: WritesObjects>(
    name: &str,
    writer: W,
    open: impl Fn() -> Outcome<R>,
    deep: impl Fn(&Value) -> Outcome<Value>,
) -> Outcome<()> {
    println!("{}", json!({ "name": name }));
    let writer = Mutex::new(writer);
    let mut readers = Vec::new();
    for line in stdin().lock().lines() {
        let task: Value = serde_json::from_str(&line?)?;
        let answer = if task["deep"].is_null() {
            let [run, clients, objects] = ["run", "clients", "objects"].map(|name| {
                let number = task[name].as_u64();
                number.ok_or_else(|| format!("a task has a number `{name}`"))
            });
            let clients = usize::try_from(clients?)?;
            while readers.len() < clients {
                readers.push(open()?);
            }
            let crowd = Crowd {
                writer: &writer,
                run: run?,
                objects: u32::try_from(objects?)?,
            };
            crowd.work(&mut readers[..clients])?
        } else {
            deep(&task["deep"])?
        };
        println!("{answer}");
    }
    Ok(())
}

/// All clients of one run.
struct Crowd<'a, W> {
    writer: &'a Mutex<W>,
    run: u64,
    objects: u32,
}

/// Errors of threads; those of the driver cannot be sent.
type Threaded<T> = Result<T, String>;

impl<W: WritesObjects> Crowd<'_, W> {
    fn work(&self, readers: &mut [impl ReadsObjects]) -> Outcome<Value> {
        // With one transaction and one sync for each, several clients are as fast as one together.
        let singles = (self.objects / u32::try_from(readers.len())?).max(1);
        let objects = self.objects;
        Ok(json!({
            "write_one": phase(readers, singles, |client, _, samples| {
                (0..singles).try_for_each(|nth| {
                    let object = self.object(client, true, nth);
                    timed(samples, || self.write(&[object]))
                })
            })?,
            "write_batch": phase(readers, objects, |client, _, samples| {
                batches(objects).try_for_each(|batch| {
                    let all: Vec<Object> = batch
                        .map(|nth| self.object(client, false, nth))
                        .collect();
                    timed(samples, || self.write(&all))
                })
            })?,
            "read_all": phase(readers, objects, |client, reader, samples| {
                timed(samples, || {
                    let run = ObjectKey::Number(self.set(client, false));
                    reader.found("run", &run, objects as usize)
                })
            })?,
            "read_batch": phase(readers, objects, |client, reader, samples| {
                batches(objects).try_for_each(|batch| {
                    let codes = batch.map(|nth| self.object(client, false, nth).code);
                    let codes: Vec<String> = codes.collect();
                    timed(samples, || reader.batch(codes))
                })
            })?,
            "by_key": phase(readers, objects, |client, reader, samples| {
                (0..objects).try_for_each(|nth| {
                    let code = ObjectKey::Text(self.object(client, false, nth).code);
                    timed(samples, || reader.found("code", &code, 1))
                })
            })?,
            "by_id": phase(readers, objects, |client, reader, samples| {
                (0..objects).try_for_each(|nth| {
                    let id = ObjectKey::Text(self.object(client, false, nth).id);
                    timed(samples, || reader.found("id", &id, 1))
                })
            })?,
        }))
    }

    fn set(&self, client: usize, is_single: bool) -> i64 {
        (self.run + client as u64 * 2 + u64::from(is_single)) as i64
    }

    fn object(&self, client: usize, is_single: bool, nth: u32) -> Object {
        let set = self.set(client, is_single);
        Object {
            id: format!("o{set}-{nth}"),
            code: format!("code-{set:06}-{nth:06}"),
            name: format!("An object of the set {set}, number {nth}"),
            status: i64::from(nth % 10),
            price: i64::from(nth * 37 % 10_000),
            run: set,
        }
    }

    fn write(&self, objects: &[Object]) -> Outcome<()> {
        let mut writer = self.writer.lock().map_err(|_| "a writer has panicked")?;
        writer.insert(objects)
    }
}

impl WritesObjects for Writer {
    fn insert(&mut self, objects: &[Object]) -> Outcome<()> {
        Writer::insert(self, objects)
    }
}

impl ReadsObjects for Connection {
    fn found(&mut self, column: &'static str, value: &ObjectKey, wanted: usize) -> Outcome<()> {
        match value {
            ObjectKey::Number(number) => found(self, column, number, wanted),
            ObjectKey::Text(text) => found(self, column, text, wanted),
        }
    }

    fn batch(&mut self, codes: Vec<String>) -> Outcome<()> {
        self.execute_batch("BEGIN")?;
        for code in codes {
            found(self, "code", &code, 1)?;
        }
        Ok(self.execute_batch("COMMIT")?)
    }
}

fn found(
    reader: &Connection,
    column: &str,
    value: &dyn rusqlite::ToSql,
    wanted: usize,
) -> Outcome<()> {
    let sql =
        format!("SELECT seq, id, vf, code, name, status, price, run FROM x WHERE {column} = ?1");
    let mut statement = reader.prepare_cached(&sql)?;
    let mut rows = statement.query(params![value])?;
    let (mut count, mut bytes) = (0, 0);
    while let Some(row) = rows.next()? {
        bytes += row.get_ref(3)?.as_str()?.len() + row.get_ref(4)?.as_str()?.len();
        bytes += usize::try_from(row.get::<_, i64>(6)?)?;
        count += 1;
    }
    std::hint::black_box(bytes);
    if count != wanted {
        return Err(format!("{count} rows came, {wanted} are there").into());
    }
    Ok(())
}

fn batches(objects: u32) -> impl Iterator<Item = std::ops::Range<u32>> {
    let starts = (0..objects).step_by(BATCH as usize);
    starts.map(move |start| start..objects.min(start + BATCH))
}

fn timed(samples: &mut Vec<u64>, work: impl FnOnce() -> Outcome<()>) -> Threaded<()> {
    let before = Instant::now();
    work().map_err(|error| error.to_string())?;
    samples.push(before.elapsed().as_nanos() as u64);
    Ok(())
}

/// The work of every client on a thread of its own, begun by all at once.
fn phase<R: ReadsObjects>(
    readers: &mut [R],
    objects: u32,
    work: impl Fn(usize, &mut R, &mut Vec<u64>) -> Threaded<()> + Sync,
) -> Outcome<Value> {
    let gate = Barrier::new(readers.len());
    let done: Vec<Threaded<(Vec<u64>, Duration)>> = thread::scope(|scope| {
        let clients: Vec<_> = readers
            .iter_mut()
            .enumerate()
            .map(|(client, reader)| {
                let (gate, work) = (&gate, &work);
                scope.spawn(move || {
                    let mut samples = Vec::new();
                    gate.wait();
                    let begun = Instant::now();
                    work(client, reader, &mut samples)?;
                    Ok((samples, begun.elapsed()))
                })
            })
            .collect();
        let done = clients.into_iter().map(|client| {
            let panicked = |_| Err("a client has panicked".to_owned());
            client.join().unwrap_or_else(panicked)
        });
        done.collect()
    });
    let done = done.into_iter().collect::<Threaded<Vec<_>>>()?;
    let wall = done.iter().map(|(_, took)| *took).max().unwrap_or_default();
    let samples: Vec<Vec<u64>> = done.into_iter().map(|(samples, _)| samples).collect();
    Ok(json!({
        "objects": objects,
        "wall_ns": wall.as_nanos() as u64,
        "samples_ns": samples,
    }))
}
