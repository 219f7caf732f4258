//! Writers, readers, guests and keys at once: no answer is older than what its caller, or any
//! reader before its request, had seen.

#[path = "history/bulk.rs"]
mod bulk;
#[path = "history/grants.rs"]
mod grants;
#[path = "history/reader.rs"]
mod reader;
#[path = "history/writer.rs"]
mod writer;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use client::{Answer, Client};
use grants::Granter;
use reader::{Reader, questions};
use serde_json::{Value, json};
use tests::history::{History, Judged, Name, Question, Why, judge};
use tests::{Server, call, is_night};
use tokio::runtime::{Builder, Runtime};
use writer::Writer;

const WRITERS: usize = 4;
const READERS: usize = 6;
/// Rows of each writer in each table.
const SLOTS: usize = 8;
const GROUPS: u64 = 3;
/// Few, so that many rows are equal in what a list is sorted by.
const NUMBERS: u64 = 100;
/// What is judged at once. Each such time has tables of its own.
const EPOCH: Duration = Duration::from_secs(9);
const EPOCHS: usize = 2;
/// An epoch goes on until so much was tried to be written, on a machine with much else to do.
const TRIES_MIN: usize = 250;
/// But for no more than so many times its time.
const LONGEST: u32 = 10;
/// Of lists within a `ttl`, which take longer to judge.
const TTL_EPOCH: Duration = Duration::from_secs(4);
/// Ten minutes.
const EPOCHS_NIGHT: usize = 66;
/// The row that cursors start from; it is always there, and everybody may read it.
const ANCHOR: Name = Name { writer: 0, slot: 0 };
const OPEN: &str = r#"read("any")"#;

/// Splitmix64.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// The words of one route family.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Family {
    route: &'static str,
    rows: &'static str,
    row_id: &'static str,
}

const FAMILIES: [Family; 2] = [
    Family {
        route: "/tablesdb/h/tables",
        rows: "rows",
        row_id: "rowId",
    },
    Family {
        route: "/databases/h/collections",
        rows: "documents",
        row_id: "documentId",
    },
];

/// What a run does wrong on purpose, so that the judge has something to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    /// Two rows that are noted as one commit are written one after the other.
    TornCommits,
    /// An answer as of one mark is noted as that of another.
    OtherMarks,
    /// A list that may be old is noted as one that may not.
    NoAge,
    /// A list that was answered once is noted as the answer to each later request.
    KeptLists,
    /// A table whose grant is noted as taken away keeps it.
    KeptGrants,
    /// What answers say of erasures is not noted.
    SilentErasures,
}

/// A table of one epoch.
struct Table {
    id: String,
    has_row_security: bool,
}

/// Everything that the threads of one epoch share.
struct Fixture<'a> {
    tables: [Table; 2],
    questions: &'a [Question],
    /// Of every list, in seconds; none asks for exact ones.
    ttl_s: Option<u32>,
    /// Whether the grant of the open table is taken away and given back all the time.
    toggles_grants: bool,
    planted: Option<Planted>,
    begun: Instant,
    /// What writers have tried.
    tries: AtomicUsize,
    stop: AtomicBool,
}

impl Fixture<'_> {
    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn is_over(&self, lasts: Duration) -> bool {
        let elapsed = self.begun.elapsed();
        let is_enough = self.tries.load(Ordering::Relaxed) >= TRIES_MIN;
        elapsed >= lasts && (is_enough || elapsed >= lasts * LONGEST)
    }

    /// Whether guests may be refused to read a table.
    fn bars(&self, table: usize) -> bool {
        self.toggles_grants && !self.tables[table].has_row_security
    }

    fn rows_of(&self, table: usize, family: Family) -> String {
        format!("{}/{}/{}", family.route, self.tables[table].id, family.rows)
    }
}

/// A thread's own connection.
struct Caller<'a> {
    server: &'a Server,
    runtime: Runtime,
    client: Client,
}

impl<'a> Caller<'a> {
    fn new(server: &'a Server) -> Result<Caller<'a>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(server.connect())?;
        Ok(Caller {
            server,
            runtime,
            client,
        })
    }

    /// As the key.
    fn call(&mut self, method: &str, route: &str, body: Option<&Value>) -> Result<Answer> {
        let access = self.server.access();
        self.runtime
            .block_on(call(&mut self.client, access, method, route, body))
    }

    /// Reads, by the key or as a guest, unless the answer has this tag.
    fn get(&mut self, route: &str, is_key: bool, tag: Option<&str>) -> Result<Answer> {
        let mut request = self.server.access().request("GET".parse()?, route, None)?;
        if !is_key {
            request.headers_mut().remove("x-appwrite-key");
        }
        if let Some(tag) = tag {
            request.headers_mut().insert("if-none-match", tag.parse()?);
        }
        Ok(self.runtime.block_on(self.client.send(request))?)
    }
}

fn create_tables(caller: &mut Caller<'_>, epoch: usize) -> Result<[Table; 2]> {
    let table = |has_row_security| {
        let kind = if has_row_security { "closed" } else { "open" };
        let id = format!("{kind}-{epoch}");
        let column = |key| json!({"key": key, "type": "integer", "required": true});
        let columns = ["g", "n", "v"].map(column);
        let body = json!({
            "tableId": id, "name": id, "rowSecurity": has_row_security,
            "permissions": if has_row_security { json!([]) } else { json!([OPEN]) },
            "columns": columns,
            "indexes": [{"key": "by_g", "type": "key", "attributes": ["g", "n"]}],
        });
        let made = caller.call("POST", "/tablesdb/h/tables", Some(&body))?;
        made.accepted("creating a table")?;
        Ok(Table {
            id,
            has_row_security,
        })
    };
    let [open, closed]: [Result<Table>; 2] = [false, true].map(table);
    Ok([open?, closed?])
}

/// What one epoch came to.
struct Seen {
    judged: Judged,
    reads: usize,
    hits: usize,
    refused: usize,
    writes: usize,
}

impl Seen {
    fn faults(&self, why: Why) -> usize {
        let faults = self.judged.faults.iter();
        faults.filter(|fault| fault.why == why).count()
    }
}

/// What is particular about an epoch.
#[derive(Clone, Copy, Default)]
struct Kind {
    ttl_s: Option<u32>,
    toggles_grants: bool,
    planted: Option<Planted>,
}

fn epoch(server: &Server, number: usize, kind: Kind, lasts: Duration) -> Result<Seen> {
    let questions = questions();
    let mut caller = Caller::new(server)?;
    let fixture = Fixture {
        tables: create_tables(&mut caller, number)?,
        questions: &questions,
        ttl_s: kind.ttl_s,
        toggles_grants: kind.toggles_grants,
        planted: kind.planted,
        begun: Instant::now(),
        tries: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
    };
    let draws = |thread: usize| Draws(((number as u64) << 32) + thread as u64);
    let writer = |writer: usize| {
        Ok(Writer {
            fixture: &fixture,
            caller: Caller::new(server)?,
            number: writer,
            draws: draws(writer),
            rows: Default::default(),
            written: Default::default(),
        })
    };
    let mut writers: Vec<Writer<'_>> = (0..WRITERS).map(writer).collect::<Result<_>>()?;
    for table in 0..2 {
        writers[ANCHOR.writer].create(table, ANCHOR.slot)?;
    }
    let reader = |reader: usize| {
        Ok(Reader {
            fixture: &fixture,
            caller: Caller::new(server)?,
            draws: draws(WRITERS + reader),
            held: HashMap::new(),
            marks: Default::default(),
            read: Default::default(),
            hits: 0,
            refused: 0,
        })
    };
    let readers: Vec<Reader<'_>> = (0..READERS).map(reader).collect::<Result<_>>()?;
    let granter = Granter {
        fixture: &fixture,
        caller: Caller::new(server)?,
        draws: draws(WRITERS + READERS),
    };
    let (histories, hits, refused) = let_run(&fixture, writers, readers, granter, lasts)?;
    for table in &fixture.tables {
        let route = format!("/tablesdb/h/tables/{}", table.id);
        let gone = caller.call("DELETE", &route, None)?;
        ensure!(gone.status.is_success(), "{:?}", gone.body);
    }
    let mut seen = Seen {
        judged: Judged::default(),
        reads: 0,
        hits,
        refused,
        writes: 0,
    };
    for history in histories {
        seen.judged.add(judge(&history, &questions));
        seen.reads += history.reads.len();
        seen.writes += history.writers.iter().map(Vec::len).sum::<usize>();
    }
    Ok(seen)
}

/// The histories of both tables, how many answers came from the cache, and how many reads were
/// refused while the table granted guests nothing.
fn let_run<'a>(
    fixture: &'a Fixture<'a>,
    writers: Vec<Writer<'a>>,
    readers: Vec<Reader<'a>>,
    granter: Granter<'a>,
    lasts: Duration,
) -> Result<([History; 2], usize, usize)> {
    thread::scope(|scope| {
        let writers: Vec<_> = writers
            .into_iter()
            .map(|writer| scope.spawn(|| ended(fixture, writer.run())))
            .collect();
        let readers: Vec<_> = readers
            .into_iter()
            .map(|reader| scope.spawn(|| ended(fixture, reader.run())))
            .collect();
        let granter = scope.spawn(|| ended(fixture, granter.run()));
        while !fixture.is_over(lasts) && fixture.goes_on() {
            thread::park_timeout(Duration::from_millis(20));
        }
        fixture.stop.store(true, Ordering::Relaxed);
        let mut histories: [History; 2] = Default::default();
        let (mut hits, mut refused) = (0, 0);
        for writer in writers {
            let Ok(written) = writer.join() else {
                bail!("a writer has panicked")
            };
            for (history, writes) in histories.iter_mut().zip(written?) {
                history.writers.push(writes);
            }
        }
        for reader in readers {
            let Ok(read) = reader.join() else {
                bail!("a reader has panicked")
            };
            let reader = read?;
            hits += reader.hits;
            refused += reader.refused;
            for (history, reads) in histories.iter_mut().zip(reader.read) {
                history.reads.extend(reads);
            }
        }
        let Ok(barred) = granter.join() else {
            bail!("the thread that changes grants has panicked")
        };
        // The table without row security.
        histories[0].barred = barred?;
        Ok((histories, hits, refused))
    })
}

/// A thread that fails ends the epoch for all.
fn ended<T>(fixture: &Fixture<'_>, done: Result<T>) -> Result<T> {
    if done.is_err() {
        fixture.stop.store(true, Ordering::Relaxed);
    }
    done
}

fn start(directory: &std::path::Path) -> Result<Server> {
    let server = Server::start(directory, &["--audit-hits=4", "--table-past=now"])?;
    let mut caller = Caller::new(&server)?;
    let database = json!({"databaseId": "h", "name": "H"});
    let made = caller.call("POST", "/tablesdb", Some(&database))?;
    made.accepted("creating the database")?;
    drop(caller);
    Ok(server)
}

fn no_fault(judged: &Judged) -> Result<()> {
    judged.faults.first().map_or(Ok(()), |fault| {
        bail!(
            "{} answers are wrong; the first: {fault}",
            judged.faults.len()
        )
    })
}

#[test]
fn no_answer_is_older_than_what_anybody_had_seen_before_it_was_asked() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let server = start(directory.path())?;
    let epochs = if is_night() { EPOCHS_NIGHT } else { EPOCHS };
    for number in 0..epochs {
        let Seen {
            judged,
            reads,
            hits,
            writes,
            ..
        } = epoch(&server, number, Kind::default(), EPOCH)?;
        println!(
            "epoch {number}: {writes} writes, {reads} reads, {hits} hits, {} as of marks, {} of an erased past, \
             {} not judged",
            judged.recalled, judged.erased, judged.unjudged
        );
        if let Some(fault) = judged.faults.first() {
            bail!(
                "{} answers have no explanation; the first: {fault}",
                judged.faults.len()
            );
        }
        ensure!(
            writes > 5 && judged.explained > 50 && judged.recalled > 12 && judged.erased > 0,
            "next to nothing was judged"
        );
        ensure!(hits * 20 > reads, "next to nothing came from the cache");
        ensure!(
            judged.unjudged * 20 <= reads,
            "{} were not judged",
            judged.unjudged
        );
    }
    let health = Caller::new(&server)?.call("GET", "/health/cache", None)?;
    let health = health.accepted("asking whether a cached list differed from a fresh read")?;
    ensure!(health["statuses"][0]["status"] == "pass", "{health}");
    server.stop()?;
    let log = std::fs::read_to_string(directory.path().join("log"))?;
    let compared = |what| compared(&log, what).context("nothing was compared");
    println!("{} hits confirmed", compared("same=")?);
    ensure!(compared("same=")? > 0, "no hit was confirmed");
    ensure!(compared("different=")? == 0, "hits were contradicted");
    Ok(())
}

/// A count in the last line of the log that tells of comparisons.
fn compared(log: &str, what: &str) -> Option<u64> {
    let told = |line: &&str| line.contains("compared cached lists with fresh reads");
    let line = log.lines().rfind(told)?;
    let mut words = line.split_whitespace();
    words.find_map(|word| word.strip_prefix(what)?.parse().ok())
}

#[test]
fn a_list_within_a_ttl_is_no_older_and_shows_nobody_a_row_that_he_lost() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let server = start(directory.path())?;
    let epochs = if is_night() { EPOCHS_NIGHT / 6 } else { 2 };
    for number in 0..epochs {
        // One that ends with the run, and one that does not.
        let ttl_s = Some(if number % 2 == 0 { 1 } else { 60 });
        let kind = Kind {
            ttl_s,
            ..Kind::default()
        };
        let seen = epoch(&server, number, kind, TTL_EPOCH)?;
        let Seen { judged, hits, .. } = &seen;
        println!(
            "epoch {number}: {} writes, {} lists within {ttl_s:?} s, {hits} hits",
            seen.writes, judged.aged
        );
        no_fault(judged)?;
        ensure!(
            seen.writes > 5 && judged.aged > 50 && hits * 20 > seen.reads,
            "next to nothing was judged"
        );
    }
    Ok(())
}

#[test]
fn table_that_takes_its_grant_away_is_read_by_no_guest() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let server = start(directory.path())?;
    let epochs = if is_night() { EPOCHS_NIGHT / 6 } else { 2 };
    for number in 0..epochs {
        // Exact lists, and some that outlive what they show unless it is taken away.
        let ttl_s = (number % 2 == 1).then_some(60);
        let kind = Kind {
            ttl_s,
            toggles_grants: true,
            planted: None,
        };
        let seen = epoch(&server, number, kind, TTL_EPOCH)?;
        let Seen { judged, hits, .. } = &seen;
        println!(
            "epoch {number}: {} reads, {hits} hits, {} refused",
            seen.reads, seen.refused
        );
        no_fault(judged)?;
        ensure!(
            seen.refused > 10 && hits * 20 > seen.reads,
            "next to nothing was judged"
        );
    }
    Ok(())
}

/// The judge is able to find fault with each.
#[test]
fn planted_faults_are_found() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let server = start(directory.path())?;
    let cases = [
        (Planted::TornCommits, None, Why::NeverTrue),
        (Planted::OtherMarks, None, Why::Rewritten),
        (Planted::NoAge, Some(60), Why::Stale),
        (Planted::KeptLists, Some(60), Why::Lost),
        (Planted::KeptGrants, None, Why::Barred),
        (Planted::SilentErasures, None, Why::Erasure),
    ];
    for (number, (planted, ttl_s, why)) in cases.into_iter().enumerate() {
        let kind = Kind {
            ttl_s,
            toggles_grants: planted == Planted::KeptGrants,
            planted: Some(planted),
        };
        let seen = epoch(&server, number, kind, Duration::from_secs(2))?;
        let found = seen.faults(why);
        println!("{planted:?}: {} reads, {found} {why:?}", seen.reads);
        ensure!(found > 0, "{planted:?} was not found");
    }
    Ok(())
}
