//! One phase of the benchmark: one request, sent again and again, each time measured.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;

use crate::client::{Answer, Client};

/// One request, its samples, and its last answer.
pub struct Phase {
    /// Its name in the raw samples.
    pub name: &'static str,
    /// Its name for people.
    pub title: String,
    /// Where it is asked: a position in the list of clients.
    pub client_idx: usize,
    /// One for each call, in order.
    pub samples: Vec<Duration>,
    /// Time spent in this phase, preparing requests included.
    pub wall: Duration,
    /// Calls whose answer said `X-Appwrite-Cache: hit`.
    pub hits: u64,
    /// Calls whose answer said `X-Appwrite-Cache: miss`.
    pub misses: u64,
    request: Request<Full<Bytes>>,
    last: Option<Answer>,
}

impl Phase {
    /// A phase without samples.
    pub fn new(
        name: &'static str,
        title: String,
        client_idx: usize,
        request: Request<Full<Bytes>>,
    ) -> Phase {
        Phase {
            name,
            title,
            client_idx,
            samples: Vec::new(),
            wall: Duration::ZERO,
            hits: 0,
            misses: 0,
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

    /// Sends the request `count` times. A sample begins when a request that stands ready is
    /// handed over, and ends when the last byte of its answer has come.
    ///
    /// # Errors
    /// When the connection breaks or the server refuses.
    pub async fn measure(&mut self, client: &mut Client, count: usize) -> Result<()> {
        let began = Instant::now();
        for _ in 0..count {
            let request = self.request.clone();
            let before = Instant::now();
            let answer = client.send(request).await;
            self.samples.push(before.elapsed());
            let answer = answer.with_context(|| format!("{}: the connection broke", self.title))?;
            if !answer.status.is_success() {
                bail!("{}: status {} while timing", self.title, answer.status);
            }
            self.tally(&answer);
            self.last = Some(answer);
        }
        self.wall += began.elapsed();
        Ok(())
    }

    /// The body of the last answer; empty before the first.
    pub fn last_body(&self) -> &[u8] {
        self.last.as_ref().map_or(&[], |answer| &answer.body)
    }

    fn tally(&mut self, answer: &Answer) {
        match answer
            .headers
            .get("x-appwrite-cache")
            .map(hyper::header::HeaderValue::as_bytes)
        {
            Some(b"hit") => self.hits += 1,
            Some(b"miss") => self.misses += 1,
            _ => {}
        }
    }
}
