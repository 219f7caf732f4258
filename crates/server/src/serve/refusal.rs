//! What becomes of a connection more than the server holds.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use engine::Family;
use hyper::StatusCode;
use model::counted;
use tokio::net::TcpStream;

use super::last_words;
use crate::http::state::counts::Counts;
use crate::http::wire;
use crate::http::wire::error::{ApiError, Kind};

/// Most connections that get this answer at once; others are closed without a word.
const TOLD_MAX: usize = 64;

/// Refuses connections in words, within bounds.
#[derive(Debug)]
pub struct Refusals {
    connections_max: usize,
    /// Whether clients expect TLS, in which nothing can be said without a handshake.
    is_secret: bool,
    told_now: Rc<Cell<usize>>,
    counts: Arc<Counts>,
    /// Whether the last connection was refused: the log gets one line, not one for each.
    is_full: Cell<bool>,
}

impl Refusals {
    pub fn new(connections_max: usize, is_secret: bool, counts: Arc<Counts>) -> Refusals {
        Refusals {
            connections_max,
            is_secret,
            told_now: Rc::default(),
            counts,
            is_full: Cell::new(false),
        }
    }

    /// Whether one more connection may be held when there are so many.
    pub fn admits(&self, connections: usize) -> bool {
        let is_full = connections >= self.connections_max;
        if is_full && !self.is_full.replace(is_full) {
            let connections_max = self.connections_max;
            tracing::warn!(
                connections_max,
                "too many connections; new ones are refused"
            );
        }
        self.is_full.set(is_full);
        !is_full
    }

    /// Answers 503 whatever is asked, and closes.
    pub fn refuse(&self, stream: TcpStream) {
        self.counts.refused.add(1);
        if !self.is_secret {
            self.say(stream, self.connections_max);
        }
    }

    /// The same of a connection from a jail, of which only so many are held.
    pub fn refuse_jailed(&self, stream: TcpStream, connections_max: usize) {
        self.counts.refused_jailed.add(1);
        self.say(stream, connections_max);
    }

    fn say(&self, stream: TcpStream, connections_max: usize) {
        if self.told_now.get() >= TOLD_MAX {
            return;
        }
        let told_now = self.told_now.clone();
        told_now.set(told_now.get() + 1);
        let answer = answer(connections_max);
        tokio::task::spawn_local(async move {
            last_words::say(stream, &answer).await;
            told_now.set(told_now.get() - 1);
        });
    }
}

fn answer(connections_max: usize) -> Vec<u8> {
    let connections = counted(connections_max as u64, "connection");
    let message = format!("The server holds {connections} already.");
    let error = ApiError::new(Kind::ServiceUnavailable, message);
    let status = StatusCode::SERVICE_UNAVAILABLE;
    let (family, kind) = (Family::Tables, error.kind.name(Family::Tables));
    let body = wire::error_body(&error.message(family), status, kind, error.index(), &[]);
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json; charset=UTF-8\r\n\
         cache-control: private, no-cache\r\nretry-after: 1\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body].concat()
}
