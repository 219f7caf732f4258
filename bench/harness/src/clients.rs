//! The clients of the mixed workload: they do their part of the trace and keep what they saw.

use std::collections::HashSet;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use measure::connection::{Access, Connection};
use measure::live::LiveServer;
use measure::threads::joined;
use serde_json::json;

use crate::catalog;
use crate::expect::row_route;
use crate::trace::{Drawing, Op, Part};
use crate::workload::Mixed;

/// The thread that applies writes.
pub const WRITER: &str = "writer";

/// What was given so far: a list's number, and what its body comes to. An ideal cache computes
/// each of them once.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// Of whole bodies.
    whole: HashSet<(usize, u128)>,
    /// Of the rows alone, whatever the total.
    rows: HashSet<(usize, u128)>,
}

impl Answers {
    /// Of the bodies themselves: what the server says of them is not taken on trust.
    fn note(&mut self, list: usize, body: &[u8]) {
        self.whole.insert((list, cache::fingerprint(0, body)));
        let rows = cache::fingerprint(0, rows_of(body));
        self.rows.insert((list, rows));
    }

    /// Takes over what others were given; how many bodies, and how many rows, were new.
    fn extend(&mut self, others: impl IntoIterator<Item = Answers>) -> [usize; 2] {
        let before = [self.whole.len(), self.rows.len()];
        for other in others {
            self.whole.extend(other.whole);
            self.rows.extend(other.rows);
        }
        [self.whole.len() - before[0], self.rows.len() - before[1]]
    }
}

/// What follows the total.
fn rows_of(body: &[u8]) -> &[u8] {
    let at = body.windows(ROWS.len()).position(|part| part == ROWS);
    &body[at.unwrap_or_default()..]
}

const ROWS: &[u8] = b"\"rows\":";

/// What one part of the trace came to.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// From the first request to the last answer.
    pub lasted: Duration,
    /// Lists asked for.
    pub reads: f64,
    /// Rows written.
    pub writes: f64,
    /// Lists that the server says were answered from its cache.
    pub hits: f64,
    /// Lists that an ideal cache would have had to compute.
    pub new_answers: f64,
    /// Lists whose rows were new; the others were new by their total alone, if at all.
    pub new_rows: f64,
    /// Processor time of the whole server, in microseconds.
    pub cpu_us: f64,
    /// That of the database which has its store; none for a data directory, or elsewhere.
    pub backends_us: f64,
    /// That of its writer's thread alone.
    pub writer_us: f64,
    /// Of lists, in nanoseconds.
    pub reads_ns: Vec<u64>,
    /// Of writes, in nanoseconds.
    pub writes_ns: Vec<u64>,
}

impl Observed {
    /// Requests a second.
    pub fn per_s(&self) -> f64 {
        (self.reads + self.writes) / self.lasted.as_secs_f64()
    }

    /// Two parts as one.
    #[must_use]
    pub fn and(mut self, other: &Observed) -> Observed {
        self.lasted += other.lasted;
        self.reads += other.reads;
        self.writes += other.writes;
        self.hits += other.hits;
        self.new_answers += other.new_answers;
        self.new_rows += other.new_rows;
        self.cpu_us += other.cpu_us;
        self.backends_us += other.backends_us;
        self.writer_us += other.writer_us;
        self.reads_ns.extend(&other.reads_ns);
        self.writes_ns.extend(&other.writes_ns);
        self
    }
}

/// Asks for each list once, so that nothing is computed for the first time later.
///
/// # Errors
/// When a list is refused.
pub fn warm(access: &Access, workload: &Mixed, answers: &mut Answers) -> Result<()> {
    let mut client = Client::open(access, workload)?;
    for list in 0..workload.lists.len() {
        client.read(list)?;
    }
    answers.extend([client.answers]);
    Ok(())
}

/// Does one part of the trace, with all clients at once.
///
/// # Errors
/// When a request is refused, or the server is gone.
pub fn run(
    server: &LiveServer,
    workload: &Mixed,
    drawing: &Drawing<'_>,
    part: Part,
    answers: &mut Answers,
) -> Result<Observed> {
    let (process, costs) = (server.process(), server.costs());
    let (meter, writer_us) = (costs.begin()?, process.thread_us(WRITER)?);
    let begin = Barrier::new(workload.connections as usize + 1);
    thread::scope(|scope| {
        let client = |number| {
            let (begin, access) = (&begin, &server.access);
            scope.spawn(move || {
                let ops = drawing.client(part, number);
                let client = Client::open(access, workload);
                // A client that could not connect comes as well, or the others would wait for ever.
                begin.wait();
                let mut client = client?;
                for op in ops {
                    client.act(op).with_context(|| format!("{op:?}"))?;
                }
                Ok::<_, anyhow::Error>((client.seen, client.answers))
            })
        };
        let clients: Vec<_> = (0..workload.connections).map(client).collect();
        begin.wait();
        let start = Instant::now();
        let mut all = Observed::default();
        let mut seen_by_all = Vec::new();
        for client in clients {
            let (seen, answered) = joined(client)??;
            all = all.and(&seen);
            seen_by_all.push(answered);
        }
        all.lasted = start.elapsed();
        let spent = meter.spent()?;
        all.cpu_us = spent.node_us;
        all.backends_us = spent.backends_us.unwrap_or_default();
        all.writer_us = process.thread_us(WRITER)? - writer_us;
        let [new_answers, new_rows] = answers.extend(seen_by_all);
        (all.new_answers, all.new_rows) = (new_answers as f64, new_rows as f64);
        Ok(all)
    })
}

struct Client<'a> {
    access: &'a Access,
    workload: &'a Mixed,
    connection: Connection,
    seen: Observed,
    answers: Answers,
}

impl<'a> Client<'a> {
    fn open(access: &'a Access, workload: &'a Mixed) -> Result<Client<'a>> {
        Ok(Client {
            access,
            workload,
            connection: Connection::open(access.address)?,
            seen: Observed::default(),
            answers: Answers::default(),
        })
    }

    fn act(&mut self, op: Op) -> Result<()> {
        match op {
            Op::Read(list) => self.read(list),
            Op::Insert(row) => {
                let request = catalog::insert(self.access, row);
                self.write(&request)
            }
            Op::Update { row, column, value } => {
                let key = self.workload.columns[column].key.as_str();
                let body = json!({ "data": { key: value } }).to_string();
                let request = self.access.request("PATCH", &row_route(row), &body);
                self.write(&request)
            }
        }
    }

    fn read(&mut self, list: usize) -> Result<()> {
        let request = self.access.request("GET", &self.workload.lists[list], "");
        let start = Instant::now();
        let answer = self.connection.accepted(&request)?;
        self.seen.reads_ns.push(start.elapsed().as_nanos() as u64);
        let cached = answer.header("x-tidemark-cache").unwrap_or_default();
        self.seen.hits += f64::from(u8::from(cached.starts_with("hit")));
        self.seen.reads += 1.0;
        self.answers.note(list, answer.body);
        Ok(())
    }

    fn write(&mut self, request: &[u8]) -> Result<()> {
        let start = Instant::now();
        self.connection.accepted(request)?;
        self.seen.writes_ns.push(start.elapsed().as_nanos() as u64);
        self.seen.writes += 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_total_is_a_new_answer_and_no_new_rows() {
        let (mut answers, mut given) = (Answers::default(), Answers::default());
        for (list, body) in [
            (1, r#"{"total":5,"rows":[1]}"#),
            (1, r#"{"total":5,"rows":[1]}"#),
            (1, r#"{"total":6,"rows":[1]}"#),
            (1, r#"{"total":6,"rows":[2]}"#),
            (2, r#"{"total":5,"rows":[1]}"#),
        ] {
            given.note(list, body.as_bytes());
        }
        assert_eq!(answers.extend([given.clone()]), [4, 3]);
        assert_eq!(answers.extend([given]), [0, 0]);
    }
}
