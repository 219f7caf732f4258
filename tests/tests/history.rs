//! Writers, readers, guests and keys at once: no answer is older than what its caller, or anybody
//! before its request, had seen.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use server::client::{Answer, Client};
use tests::history::{
    Filter, History, Judged, Name, Order, Question, Read, Row, Rows, Shown, Why, Write, judge,
};
use tests::{Server, call, is_night};
use tokio::runtime::{Builder, Runtime};

const WRITERS: usize = 4;
const READERS: usize = 6;
/// Rows of each writer in each table.
const SLOTS: usize = 8;
const GROUPS: u64 = 3;
/// Few, so that many rows are equal in what a list is sorted by.
const NUMBERS: u64 = 100;
/// A writer rests for up to this long between two writes, or no list would be asked for twice
/// between them.
const REST_MAX_US: u64 = 6_000;
/// What is judged at once. Each such time has tables of its own.
const EPOCH: Duration = Duration::from_secs(9);
const EPOCHS: usize = 2;
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

fn questions() -> Vec<Question> {
    let list = |filter, order| Question {
        filter,
        order,
        limit: 5,
        offset: 0,
        after: None,
        total: true,
    };
    let mut all = vec![
        list(Filter::All, Order::Descending),
        list(Filter::Above(50), Order::Ascending),
        list(Filter::GroupOrBelow(1, 20), Order::Descending),
        list(Filter::Groups(vec![0, 2]), Order::Ascending),
    ];
    for group in 0..GROUPS as i64 {
        all.push(list(Filter::Groups(vec![group]), Order::Descending));
    }
    for place in 0..all.len() {
        let mut without_total = all[place].clone();
        without_total.total = false;
        all.push(without_total);
    }
    let whole = list(Filter::All, Order::Sequence);
    all.push(Question {
        limit: 100,
        ..whole
    });
    let page = list(Filter::Groups(vec![0]), Order::Ascending);
    all.push(Question {
        offset: 2,
        limit: 3,
        ..page
    });
    for filter in [Filter::All, Filter::Groups(vec![1])] {
        let after = Some(ANCHOR);
        all.push(Question {
            after,
            ..list(filter, Order::Descending)
        });
    }
    for name in [
        ANCHOR,
        Name { writer: 1, slot: 1 },
        Name { writer: 2, slot: 2 },
    ] {
        let row = list(Filter::Only(name), Order::Sequence);
        all.push(Question {
            total: false,
            ..row
        });
    }
    all
}

/// What follows the table's route.
fn route(question: &Question) -> String {
    if let Filter::Only(name) = question.filter {
        return format!("/{}", name.id());
    }
    let equal = |groups: &[i64]| json!({"method": "equal", "attribute": "g", "values": groups});
    let compare =
        |method, number: i64| json!({"method": method, "attribute": "n", "values": [number]});
    let mut queries = match &question.filter {
        Filter::Groups(groups) => vec![equal(groups)],
        Filter::Above(number) => vec![compare("greaterThan", *number)],
        Filter::GroupOrBelow(group, number) => {
            let either = [equal(&[*group]), compare("lessThan", *number)];
            vec![json!({"method": "or", "values": either})]
        }
        Filter::All | Filter::Only(_) => Vec::new(),
    };
    match question.order {
        Order::Sequence => {}
        Order::Ascending => queries.push(json!({"method": "orderAsc", "attribute": "n"})),
        Order::Descending => queries.push(json!({"method": "orderDesc", "attribute": "n"})),
    }
    queries.push(json!({"method": "limit", "values": [question.limit]}));
    if question.offset > 0 {
        queries.push(json!({"method": "offset", "values": [question.offset]}));
    }
    if let Some(after) = question.after {
        queries.push(json!({"method": "cursorAfter", "values": [after.id()]}));
    }
    let texts = queries.iter().enumerate().map(|(place, query)| {
        let text = query.to_string();
        let text = percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC);
        format!("queries[{place}]={text}")
    });
    let texts: Vec<String> = texts.collect();
    let total = if question.total { "" } else { "&total=false" };
    format!("?{}{total}", texts.join("&"))
}

/// A table of one epoch.
struct Table {
    id: String,
    has_row_security: bool,
}

/// Everything that the threads of one epoch share.
struct Stage<'a> {
    tables: [Table; 2],
    questions: &'a [Question],
    /// Of every list, in seconds; none asks for exact ones.
    ttl_s: Option<u32>,
    begun: Instant,
    stop: AtomicBool,
}

impl Stage<'_> {
    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
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

/// A thread that writes, each of its rows alone.
struct Writer<'a> {
    stage: &'a Stage<'a>,
    caller: Caller<'a>,
    number: usize,
    draws: Draws,
    /// Of each table.
    rows: [Rows; 2],
    written: [Vec<Write>; 2],
}

impl Writer<'_> {
    fn run(mut self) -> Result<[Vec<Write>; 2]> {
        while self.stage.goes_on() {
            let table = self.draws.below(2) as usize;
            let slot = self.draws.below(SLOTS as u64) as usize;
            self.act(table, slot)?;
            let rest = Duration::from_micros(self.draws.below(REST_MAX_US));
            thread::park_timeout(rest);
        }
        Ok(self.written)
    }

    fn act(&mut self, table: usize, slot: usize) -> Result<()> {
        let is_anchor = self.name(slot) == ANCHOR;
        match (self.rows[table].contains_key(&slot), self.draws.below(10)) {
            (false, 0..5) => self.create(table, slot),
            (true, 0..2) if !is_anchor => self.delete(table, slot),
            (true, 2..4) => self.count_up(table, slot),
            (_, 4) => self.upsert_many(table, slot),
            (_, 5) => self.commit_together(table, slot),
            _ => self.upsert(table, slot),
        }
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
            is_open: is_open || !self.stage.tables[table].has_row_security,
        }
    }

    fn permissions(&self, table: usize, row: &Row) -> Value {
        if self.stage.tables[table].has_row_security && row.is_open {
            json!([OPEN])
        } else {
            json!([])
        }
    }

    fn create(&mut self, table: usize, slot: usize) -> Result<()> {
        let (row, family) = (self.drawn(table, slot), self.family());
        let body = json!({
            family.row_id: self.name(slot).id(),
            "data": data(&row),
            "permissions": self.permissions(table, &row),
        });
        let route = self.stage.rows_of(table, family);
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
        let route = self.stage.rows_of(table, family);
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
        let sent = self.stage.now();
        self.asked("PATCH", &one, &json!({"commit": true}))?;
        let answered = self.stage.now();
        // Nobody else writes these rows, so they stand until the next write of this thread.
        let mut shown = Vec::new();
        for slot in slots {
            let route = self.row_route(table, family, slot);
            shown.push(self.asked("GET", &route, &Value::Null)?);
        }
        let shown = json!({ family.rows: shown });
        self.note(table, (sent, answered), after, &shown)
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
            table_id: self.stage.tables[table].id,
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

    fn row_route(&self, table: usize, family: Family, slot: usize) -> String {
        format!(
            "{}/{}",
            self.stage.rows_of(table, family),
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
        let sent = self.stage.now();
        let shown = self.asked(method, route, body.unwrap_or(&Value::Null))?;
        let answered = self.stage.now();
        self.note(table, (sent, answered), after, &shown)
            .with_context(|| format!("{method} {route}"))
    }

    /// Notes what a write came to, by an answer that shows its rows.
    fn note(
        &mut self,
        table: usize,
        (sent, answered): (u64, u64),
        after: Vec<(usize, Option<Row>)>,
        shown: &Value,
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
            after: self.rows[table].clone(),
        });
        Ok(())
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

/// A thread that reads.
struct Reader<'a> {
    stage: &'a Stage<'a>,
    caller: Caller<'a>,
    draws: Draws,
    /// The last answer to each request: its tag, and what it showed.
    held: HashMap<(String, bool), (String, Shown)>,
    read: [Vec<Read>; 2],
    hits: usize,
}

impl Reader<'_> {
    fn run(mut self) -> Result<([Vec<Read>; 2], usize)> {
        while self.stage.goes_on() {
            let question = self.draws.below(self.stage.questions.len() as u64) as usize;
            let table = self.draws.below(2) as usize;
            self.ask(table, question)?;
        }
        Ok((self.read, self.hits))
    }

    fn ask(&mut self, table: usize, place: usize) -> Result<()> {
        let question = &self.stage.questions[place];
        let family = FAMILIES[self.draws.below(2) as usize];
        let is_key = self.draws.flip();
        let mut path = self.stage.rows_of(table, family) + &route(question);
        if let Some(ttl_s) = self.stage.ttl_s.filter(|_| path.contains('?')) {
            path = format!("{path}&ttl={ttl_s}");
        }
        let asked = (path, is_key);
        let held = self.held.get(&asked).filter(|_| self.draws.flip());
        let tag = held.map(|(tag, _)| tag.as_str());
        let sent = self.stage.now();
        let answer = self.caller.get(&asked.0, is_key, tag)?;
        let answered = self.stage.now();
        let told = |name| Some(answer.headers.get(name)?.to_str().ok()?.to_owned());
        let cached: Option<String> = told("x-tidemark-cache");
        self.hits += usize::from(cached.is_some_and(|cached| cached.starts_with("hit")));
        let shown = match answer.status.as_u16() {
            304 => held
                .map(|(_, shown)| shown.clone())
                .context("304 without a tag")?,
            _ => shown(&answer, question, family).with_context(|| asked.0.clone())?,
        };
        if let Some(tag) = told("etag") {
            self.held.insert(asked, (tag, shown.clone()));
        }
        self.read[table].push(Read {
            sent,
            answered,
            question: place,
            sees_all: is_key || !self.stage.tables[table].has_row_security,
            shown,
        });
        Ok(())
    }
}

fn shown(answer: &Answer, question: &Question, family: Family) -> Result<Shown> {
    if let Filter::Only(name) = question.filter {
        let rows = match answer.status.as_u16() {
            404 => Vec::new(),
            _ => vec![(
                name,
                answer.accepted("reading a row")?["v"]
                    .as_i64()
                    .context("no v")?,
            )],
        };
        return Ok(Shown { rows, total: None });
    }
    let body = answer.accepted("reading a list")?;
    let row = |row: &Value| {
        let name = row["$id"].as_str().and_then(Name::parse);
        Some((name?, row["v"].as_i64()?))
    };
    let rows = body[family.rows].as_array().context("no rows")?;
    let rows: Option<Vec<(Name, i64)>> = rows.iter().map(row).collect();
    let total = question
        .total
        .then(|| body["total"].as_u64().unwrap_or(u64::MAX));
    Ok(Shown {
        rows: rows.context("a row of nobody")?,
        total,
    })
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
    writes: usize,
}

fn epoch(server: &Server, number: usize, ttl_s: Option<u32>, lasts: Duration) -> Result<Seen> {
    let questions = questions();
    let mut caller = Caller::new(server)?;
    let stage = Stage {
        tables: create_tables(&mut caller, number)?,
        questions: &questions,
        ttl_s,
        begun: Instant::now(),
        stop: AtomicBool::new(false),
    };
    let draws = |thread: usize| Draws(((number as u64) << 32) + thread as u64);
    let writer = |writer: usize| {
        Ok(Writer {
            stage: &stage,
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
            stage: &stage,
            caller: Caller::new(server)?,
            draws: draws(WRITERS + reader),
            held: HashMap::new(),
            read: Default::default(),
            hits: 0,
        })
    };
    let readers: Vec<Reader<'_>> = (0..READERS).map(reader).collect::<Result<_>>()?;
    let (histories, hits) = let_run(&stage, writers, readers, lasts)?;
    for table in &stage.tables {
        let route = format!("/tablesdb/h/tables/{}", table.id);
        let gone = caller.call("DELETE", &route, None)?;
        ensure!(gone.status.is_success(), "{:?}", gone.body);
    }
    let mut seen = Seen {
        judged: Judged::default(),
        reads: 0,
        hits,
        writes: 0,
    };
    for history in histories {
        let judged = judge(&history, &questions);
        seen.judged.faults.extend(judged.faults);
        seen.judged.explained += judged.explained;
        seen.judged.unjudged += judged.unjudged;
        seen.reads += history.reads.len();
        seen.writes += history.writers.iter().map(Vec::len).sum::<usize>();
    }
    Ok(seen)
}

/// The histories of both tables, and how many answers came from the cache.
fn let_run<'a>(
    stage: &'a Stage<'a>,
    writers: Vec<Writer<'a>>,
    readers: Vec<Reader<'a>>,
    lasts: Duration,
) -> Result<([History; 2], usize)> {
    thread::scope(|scope| {
        let writers: Vec<_> = writers
            .into_iter()
            .map(|writer| scope.spawn(|| ended(stage, writer.run())))
            .collect();
        let readers: Vec<_> = readers
            .into_iter()
            .map(|reader| scope.spawn(|| ended(stage, reader.run())))
            .collect();
        while stage.begun.elapsed() < lasts && stage.goes_on() {
            thread::park_timeout(Duration::from_millis(20));
        }
        stage.stop.store(true, Ordering::Relaxed);
        let mut histories: [History; 2] = Default::default();
        let mut all_hits = 0;
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
            let (read, hits) = read?;
            all_hits += hits;
            for (history, reads) in histories.iter_mut().zip(read) {
                history.reads.extend(reads);
            }
        }
        Ok((histories, all_hits))
    })
}

/// Whoever fails ends the epoch for all.
fn ended<T>(stage: &Stage<'_>, done: Result<T>) -> Result<T> {
    if done.is_err() {
        stage.stop.store(true, Ordering::Relaxed);
    }
    done
}

fn start(directory: &std::path::Path) -> Result<Server> {
    let server = Server::start(directory, &["--paranoid=4"])?;
    let mut caller = Caller::new(&server)?;
    let database = json!({"databaseId": "h", "name": "H"});
    let made = caller.call("POST", "/tablesdb", Some(&database))?;
    made.accepted("creating the database")?;
    drop(caller);
    Ok(server)
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
        } = epoch(&server, number, None, EPOCH)?;
        println!(
            "epoch {number}: {writes} writes, {reads} reads, {hits} hits, {} not judged",
            judged.unjudged
        );
        if let Some(fault) = judged.faults.first() {
            bail!(
                "{} answers have no explanation; the first: {fault}",
                judged.faults.len()
            );
        }
        ensure!(
            writes > 20 && judged.explained > 200,
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

/// The judge is able to find fault: lists with a ttl are allowed to be old.
#[test]
fn lists_that_may_be_old_are_found_to_be() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let server = start(directory.path())?;
    let seen = epoch(&server, 0, Some(60), Duration::from_secs(2))?;
    let is_stale = |fault: &&tests::history::Fault| fault.why == Why::Stale;
    let stale = seen.judged.faults.iter().filter(is_stale).count();
    println!("{} reads, {} hits, {stale} stale", seen.reads, seen.hits);
    ensure!(
        stale > 0,
        "no answer was found to be old, and {} were hits",
        seen.hits
    );
    Ok(())
}
