//! Hits that an event loop reads: it says when bytes may be sent and when some have come, and
//! nothing here waits.
//!
//! Only what needs one round trip is read so: an entry under tokens that this process knows.
//! Whatever else the answers say, a call reads again by a connection that waits.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use redis::{RedisError, RedisResult};

use super::address::RedisRoute;
use super::connection::unsent;
use super::flat::{FlatAnswer, first_answer};
use super::joint::token_in;
use super::{Record, RedisTier};
use crate::paced::LoopSocket;
use crate::tier::{TierError, TierHit, TokenName};
use crate::tokens::{self, Token};

/// What is read from the system at once.
const PIECE_BYTES: usize = 16 << 10;
/// Pieces after which the loop has its turn again.
const PIECES_MAX: u32 = 16;
/// Reads that wait for their answers. Further ones use other connections.
const WAITING_MAX: usize = 10_000;
/// Bytes that the server has not taken yet. Further reads use other connections.
const UNSENT_BYTES_MAX: usize = 1 << 20;
/// A buffer that has grown larger is given back once it is empty.
const KEPT_BYTES_MAX: usize = 256 << 10;

/// One connection, and who waits for what it reads.
pub struct LoopReads<W> {
    socket: LoopSocket,
    answer_bytes_max: usize,
    timeout: Duration,
    piece: Box<[u8]>,
    unsent: Vec<u8>,
    sent: usize,
    /// What has come and is no whole answer yet begins at `taken`.
    come: Vec<u8>,
    taken: usize,
    waiting: VecDeque<WaitingRead<W>>,
}

struct WaitingRead<W> {
    waiter: W,
    known: Vec<Token>,
    /// Answers that have come.
    count: usize,
    /// Whether the tokens that have come are the known ones.
    is_same: bool,
    entry: Option<Vec<u8>>,
    left_ms: Option<i64>,
    until: Instant,
}

impl<W> WaitingRead<W> {
    /// One more answer: the tokens, then the entry, then its time. Whether it was the last one.
    fn take(&mut self, answer: &FlatAnswer<'_>) -> bool {
        let place = self.count;
        self.count += 1;
        if let Some(token) = self.known.get(place) {
            self.is_same &= match answer {
                FlatAnswer::Text(Some(record)) => token_in(record).as_ref() == Some(token),
                _ => false,
            };
            return false;
        }
        match answer {
            FlatAnswer::Text(found) => {
                self.entry = found.filter(|_| self.is_same).map(<[u8]>::to_vec);
            }
            FlatAnswer::Number(left_ms) => self.left_ms = Some(*left_ms),
            FlatAnswer::Line => {}
        }
        place > self.known.len()
    }

    /// After the last answer.
    fn hit(self, tier: &RedisTier) -> (W, Option<TierHit>) {
        // -2: it has expired between the two.
        let left_ms = self.left_ms.filter(|left_ms| *left_ms != -2);
        let hit = self
            .entry
            .zip(left_ms)
            .and_then(|(bytes, left_ms)| match Record::of(&bytes)? {
                Record::Entry { lifetime_ms, .. } => Some(tier.hit(bytes, lifetime_ms, left_ms)),
                Record::Placeholder { .. } => None,
            });
        (self.waiter, hit)
    }
}

impl RedisTier {
    /// Connects for the reads of one event loop, within the time for connecting. `None` by TLS and
    /// where Sentinels know the server: there each call has a connection that waits.
    ///
    /// # Errors
    /// Those of connecting.
    pub fn loop_reads<W>(&self) -> Result<Option<LoopReads<W>>, TierError> {
        let RedisRoute::Server(place) = &self.route else {
            return Ok(None);
        };
        if place.tls.is_some() {
            return Ok(None);
        }
        let failure = |error: RedisError| self.failure(&error);
        let connection = self.connect().map_err(failure)?;
        let socket = connection.into_loop_socket().map_err(failure)?;
        Ok(socket.map(|socket| LoopReads {
            socket,
            answer_bytes_max: self.settings.answer_bytes_max,
            timeout: self.settings.timeout,
            piece: vec![0; PIECE_BYTES].into(),
            unsent: Vec::new(),
            sent: 0,
            come: Vec::new(),
            taken: 0,
            waiting: VecDeque::new(),
        }))
    }
}

impl<W> AsRawFd for LoopReads<W> {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl<W> LoopReads<W> {
    /// Asks for an entry under these names; the answer comes by [`LoopReads::read`].
    ///
    /// # Errors
    /// The waiter again if a token is unknown, or if too many wait already.
    pub fn ask(
        &mut self,
        tier: &RedisTier,
        key: &[u8],
        names: &[TokenName],
        waiter: W,
    ) -> Result<(), W> {
        let unsent = self.unsent.len() - self.sent;
        let known = tier.tokens.own().and_then(|known| known.of(names));
        let Some(known) =
            known.filter(|_| self.waiting.len() < WAITING_MAX && unsent < UNSENT_BYTES_MAX)
        else {
            return Err(waiter);
        };
        let place = tier.key(&tokens::joined(key, &known));
        let read = tier.joint_read(&place, names);
        self.unsent.extend(read.get_packed_pipeline());
        self.waiting.push_back(WaitingRead {
            waiter,
            known,
            count: 0,
            is_same: true,
            entry: None,
            left_ms: None,
            until: Instant::now() + self.timeout,
        });
        Ok(())
    }

    /// Sends what can be sent now. Whether that was all.
    ///
    /// # Errors
    /// Those of the connection, which is of no more use then.
    pub fn send(&mut self, tier: &RedisTier) -> Result<bool, TierError> {
        while self.sent < self.unsent.len() {
            match self.socket.write(&self.unsent[self.sent..]) {
                Ok(0) => {
                    return Err(tier.failure(&io::Error::from(io::ErrorKind::WriteZero).into()));
                }
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(tier.failure(&error.into())),
            }
        }
        self.sent = 0;
        clear(&mut self.unsent);
        Ok(true)
    }

    /// Takes what has come: each read that is over, with its hit. `None` means that another
    /// connection has to be asked.
    ///
    /// # Errors
    /// Those of the connection, and answers above their bounds. It is of no more use then.
    pub fn read(
        &mut self,
        tier: &RedisTier,
        over: &mut Vec<(W, Option<TierHit>)>,
    ) -> Result<(), TierError> {
        for _ in 0..PIECES_MAX {
            let length = match self.socket.read(&mut self.piece) {
                Ok(0) => {
                    let ended = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Err(tier.failure(&ended.into()));
                }
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(tier.failure(&error.into())),
            };
            self.come.extend_from_slice(&self.piece[..length]);
            self.take_answers(tier, over)
                .map_err(|error| tier.failure(&error))?;
            if length < self.piece.len() {
                break;
            }
        }
        Ok(())
    }

    fn take_answers(
        &mut self,
        tier: &RedisTier,
        over: &mut Vec<(W, Option<TierHit>)>,
    ) -> RedisResult<()> {
        loop {
            let come = &self.come[self.taken..];
            if come.is_empty() {
                clear(&mut self.come);
                self.taken = 0;
                return Ok(());
            }
            let Some((answer, bytes)) = first_answer(come, self.answer_bytes_max)? else {
                // So that what is left is moved seldom.
                if self.taken >= PIECE_BYTES {
                    self.come.drain(..self.taken);
                    self.taken = 0;
                }
                return Ok(());
            };
            let Some(front) = self.waiting.front_mut() else {
                return Err(unsent());
            };
            let is_over = front.take(&answer);
            self.taken += bytes;
            if is_over && let Some(read) = self.waiting.pop_front() {
                over.push(read.hit(tier));
            }
        }
    }

    /// How long the read that has waited longest may still wait; `None` if none waits.
    pub fn left(&self) -> Option<Duration> {
        let front = self.waiting.front()?;
        Some(front.until.saturating_duration_since(Instant::now()))
    }

    /// The error of a read that has waited too long.
    pub fn too_late(&self, tier: &RedisTier) -> TierError {
        tier.failure(&io::Error::from(io::ErrorKind::TimedOut).into())
    }

    /// Who still waits, as the connection is of no more use.
    pub fn give_up(&mut self) -> Vec<W> {
        let waiting = self.waiting.drain(..).map(|read| read.waiter);
        waiting.collect()
    }
}

fn clear(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT_BYTES_MAX {
        *buffer = Vec::new();
    } else {
        buffer.clear();
    }
}
