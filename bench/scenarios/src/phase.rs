//! One phase of the benchmark: one request, sent again and again, each time measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use client::{Answer, Client};
use http_body_util::Full;
use hyper::Request;
use hyper::header::HeaderValue;
use measure::costs::Spent;
use tokio::task::JoinSet;

use super::run::{Role, Sample};

/// When a slice is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After so many calls, of all connections together.
    Calls(usize),
    /// When so much time has passed; a call that is under way is waited for.
    Elapsed(Duration),
}

/// One request, its samples, and its last answer.
pub struct Phase {
    /// Its name in the raw samples.
    pub name: &'static str,
    /// Its name for people.
    pub title: String,
    /// What it is to the others.
    pub role: Role,
    /// Where it is asked: a position in the list of pools.
    pub pool_idx: usize,
    /// One for each call, in the order of their answers.
    pub samples: Vec<Sample>,
    /// Time spent in this phase, preparing requests included.
    pub wall: Duration,
    /// Calls whose answer said that it came from a cache.
    pub hits: u64,
    /// Calls whose answer said that it did not, though it could have.
    pub misses: u64,
    /// What the server's side has spent on its samples, where that was counted.
    pub spent: Option<Spent>,
    request: Request<Full<Bytes>>,
    last: Option<Answer>,
}

/// What one connection has seen in a slice.
struct Seen {
    samples: Vec<Sample>,
    hits: u64,
    misses: u64,
    last: Option<Answer>,
}

/// What the connections of a slice share.
struct Slice {
    request: Request<Full<Bytes>>,
    /// Calls begun.
    begun: AtomicUsize,
    until: Until,
    /// When the run began: samples count from here.
    origin: Instant,
    start: Instant,
}

/// Whom nothing was heard of.
pub fn silent(whom: &str, limit: Duration) -> anyhow::Error {
    let ms = limit.as_millis();
    anyhow::anyhow!("{whom}: no answer came for {ms} ms")
}

impl Phase {
    /// A phase without samples.
    pub fn new(
        (name, title, role): (&'static str, &str, Role),
        pool_idx: usize,
        request: Request<Full<Bytes>>,
    ) -> Phase {
        Phase {
            name,
            title: title.to_owned(),
            role,
            pool_idx,
            samples: Vec::new(),
            wall: Duration::ZERO,
            hits: 0,
            misses: 0,
            spent: None,
            request,
            last: None,
        }
    }

    /// Sends the request once, without a sample.
    ///
    /// # Errors
    /// When the connection breaks or the server refuses.
    pub async fn ask(&mut self, client: &mut Client) -> Result<&Answer> {
        let answer = client.send(self.request.clone()).await;
        let answer = answer.with_context(|| format!("{}: the connection broke", self.title))?;
        if !answer.status.is_success() {
            answer.accepted(&self.title)?;
            bail!("{}: status {}", self.title, answer.status);
        }
        Ok(self.last.insert(answer))
    }

    /// Sends the request over every connection of `pool`, each again when its answer has come.
    /// A sample begins when a request that stands ready is handed over, and ends when the last
    /// byte of its answer has come.
    ///
    /// # Errors
    /// When a connection breaks, the server refuses, or no answer comes for `silent_max`; the pool
    /// is of no use then.
    pub async fn measure(
        &mut self,
        pool: &mut Vec<Client>,
        until: Until,
        origin: Instant,
        silent_max: Duration,
    ) -> Result<()> {
        let start = Instant::now();
        let slice = Arc::new(Slice {
            request: self.request.clone(),
            begun: AtomicUsize::new(0),
            until,
            origin,
            start,
        });
        let mut tasks = JoinSet::new();
        for mut client in std::mem::take(pool) {
            let slice = slice.clone();
            tasks.spawn(async move {
                let seen = slice.drive(&mut client).await;
                seen.map(|seen| (client, seen))
            });
        }
        let before = self.samples.len();
        loop {
            // Looked at from outside, because a timer for each call would be measured, too.
            let begun = slice.begun.load(Ordering::Relaxed);
            let done = match tokio::time::timeout(silent_max, tasks.join_next()).await {
                Ok(Some(done)) => done,
                Ok(None) => break,
                Err(_) if slice.begun.load(Ordering::Relaxed) > begun => continue,
                Err(_) => return Err(silent(&self.title, silent_max)),
            };
            let done = done.context("a connection's task has panicked")?;
            let (client, seen) = done.with_context(|| self.title.clone())?;
            pool.push(client);
            self.take(seen);
        }
        self.wall += start.elapsed();
        // Each connection has its own in order already.
        self.samples[before..].sort_by_key(|sample| sample.ended);
        Ok(())
    }

    fn take(&mut self, seen: Seen) {
        self.samples.extend(seen.samples);
        self.hits += seen.hits;
        self.misses += seen.misses;
        self.last = seen.last.or(self.last.take());
    }

    /// The body of the last answer; empty before the first.
    pub fn last_body(&self) -> &[u8] {
        self.last.as_ref().map_or(&[], |answer| &answer.body)
    }

    /// Calls a second of the time spent in this phase.
    pub fn per_second(&self) -> f64 {
        self.samples.len() as f64 / self.wall.as_secs_f64()
    }
}

impl Slice {
    async fn drive(&self, client: &mut Client) -> Result<Seen> {
        let mut seen = Seen {
            samples: Vec::new(),
            hits: 0,
            misses: 0,
            last: None,
        };
        while self.goes_on() {
            let request = self.request.clone();
            let before = Instant::now();
            let answer = client.send(request).await;
            let after = Instant::now();
            seen.samples.push(Sample {
                ended: after - self.origin,
                took: after - before,
            });
            let answer = answer.context("the connection broke")?;
            if !answer.status.is_success() {
                bail!("status {} while timing", answer.status);
            }
            seen.tally(&answer);
            seen.last = Some(answer);
        }
        Ok(seen)
    }

    fn goes_on(&self) -> bool {
        match self.until {
            Until::Calls(count) => self.begun.fetch_add(1, Ordering::Relaxed) < count,
            Until::Elapsed(limit) => self.start.elapsed() < limit,
        }
    }
}

impl Seen {
    /// Ours say `X-Tidemark-Cache`, of every list; others say `X-Appwrite-Cache`, of those with
    /// `ttl` only.
    fn tally(&mut self, answer: &Answer) {
        let header = |name| answer.headers.get(name).map(HeaderValue::as_bytes);
        let said = header("x-tidemark-cache").or_else(|| header("x-appwrite-cache"));
        match said {
            Some(said) if said.starts_with(b"hit") => self.hits += 1,
            Some(said) if said.starts_with(b"miss") => self.misses += 1,
            _ => {}
        }
    }
}
