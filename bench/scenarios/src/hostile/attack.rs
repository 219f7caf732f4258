//! One slice of an attack: so many strangers at once, while the load by key goes on.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use measure::connection::Access;
use measure::early_end::EarlyEnd;
use measure::process::{MIB, ProcessNumber};

use super::judge::Tally;
use super::keys::{Load, Span, serve};
use super::query::Candidate;
use super::shot::{Kind, Manner, Sender, Shot};
use super::wire::{Reply, Seen, Wire};

/// How far strangers stand back on the processors, as `nice` counts: they would be other
/// machines, and are not to take what the server and the load by key need.
const STANDS_BACK: i32 = 19;
/// Between the bytes of a slow body.
const DRIP_EVERY: Duration = Duration::from_millis(50);
/// A request that may be none is given so long before it is called ended.
const BROKEN_MAX: Duration = Duration::from_millis(300);
/// How often the server's processor time is looked at while it comes to rest.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A server that uses no more of the processor in that time is at rest.
const REST_CPU_US: f64 = 10_000.0;

/// How long each part of a slice takes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The load by key alone.
    pub quiet: Duration,
    /// The load by key with an attack.
    pub attack: Duration,
    /// So long strangers wait for answers when the attack has ended.
    pub grace: Duration,
    /// So long the server is given to come to rest.
    pub rest: Duration,
    /// So long, in the end, it is given to return its memory.
    pub returns: Duration,
    /// So long the load by key waits for an answer.
    pub patience: Duration,
    /// An answer that takes longer is a finding.
    pub answer: Duration,
}

/// Who attacks whom.
pub struct Arena<'a> {
    /// The server.
    pub access: &'a Access,
    /// Its process.
    pub process: ProcessNumber,
    /// Rows of its large tables.
    pub rows: u32,
    /// Strangers at once.
    pub strangers: u32,
    /// Connections that are opened and left.
    pub idle: usize,
    /// Decides all that is drawn.
    pub seed: u64,
    /// How long.
    pub plan: Plan,
    /// A body that is made once.
    pub large: Arc<Vec<u8>>,
    /// What the search has found.
    pub worst: Vec<Candidate>,
    /// Whether it is to end early.
    pub stop: EarlyEnd,
}

/// What one kind of attack did.
pub struct Attacked {
    /// Which.
    pub kind: Kind,
    /// Reads and writes by key meanwhile.
    pub load: Load,
    /// What came back to the strangers.
    pub tally: Tally,
    /// The most memory of the server, in MiB.
    pub peak_mib: f64,
    /// Its memory at rest.
    pub rest_mib: f64,
    /// How long it worked on when all strangers had gone; `None` if it had not come to rest.
    pub rest: Option<Duration>,
    /// Processor time of the server, in seconds.
    pub cpu_s: f64,
}

/// The instants of a slice.
#[derive(Clone, Copy)]
struct Ends {
    /// No further request.
    last: Instant,
    /// No further answer.
    cut: Instant,
}

impl Arena<'_> {
    /// One slice of one kind.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn attack(&self, kind: Kind) -> Result<Attacked> {
        self.process.forget_peak()?;
        let before = self.process.cpu_us()?;
        let last = Instant::now() + self.plan.attack;
        let ends = Ends {
            last,
            cut: last + self.plan.grace,
        };
        let opened = AtomicUsize::new(0);
        let (load, tally) = thread::scope(|scope| {
            let strangers = (0..self.strangers).map(|number| {
                let opened = &opened;
                let stranger = move || self.stranger(kind, number, ends, opened);
                scope.spawn(stranger)
            });
            let strangers: Vec<_> = strangers.collect();
            let load = self.serve(self.plan.attack);
            let mut tally = Tally::default();
            for stranger in strangers {
                // A panic is a fault of this program and goes on.
                let one = stranger
                    .join()
                    .unwrap_or_else(|why| std::panic::resume_unwind(why));
                tally.merge(one);
            }
            (load, tally)
        });
        let rest = self.rest()?;
        Ok(Attacked {
            kind,
            load,
            tally,
            peak_mib: self.process.peak_bytes()? / MIB,
            rest_mib: self.process.resident_bytes()? / MIB,
            rest,
            cpu_s: (self.process.cpu_us()? - before) / 1e6,
        })
    }

    /// The first request that the first stranger of this kind sends.
    pub fn sample(&self, kind: Kind) -> Vec<u8> {
        self.sender(kind, 0).next(None).bytes.to_vec()
    }

    fn sender(&self, kind: Kind, number: u32) -> Sender<'_> {
        let seed = self.seed ^ u64::from(number) << 32 ^ (kind as u64) << 16;
        let whose = (kind, self.access);
        Sender::new(whose, &self.worst, &self.large, (self.rows, seed))
    }

    /// The load by key alone.
    pub fn serve(&self, lasting: Duration) -> Load {
        let span = Span {
            lasting,
            patience: self.plan.patience,
        };
        serve(self.access, &self.stop, span, (self.rows, self.seed))
    }

    /// Waits until the server uses next to nothing of the processor; how long that took.
    ///
    /// # Errors
    /// When it is gone.
    pub fn rest(&self) -> Result<Option<Duration>> {
        let start = Instant::now();
        let mut used = self.process.cpu_us()?;
        while start.elapsed() < self.plan.rest && self.stop.check().is_ok() {
            let waited = start.elapsed();
            thread::sleep(LOOK_EVERY);
            let now = self.process.cpu_us()?;
            if now - used <= REST_CPU_US {
                return Ok(Some(waited));
            }
            used = now;
        }
        Ok(None)
    }

    /// Its memory when no client asks, in MiB; waits until it is no more than `wanted_mib`.
    ///
    /// # Errors
    /// When it is gone.
    pub fn memory_at_rest(&self, wanted_mib: f64) -> Result<f64> {
        let start = Instant::now();
        loop {
            let mib = self.process.resident_bytes()? / MIB;
            let is_over = start.elapsed() >= self.plan.returns || self.stop.check().is_err();
            if mib <= wanted_mib || is_over {
                return Ok(mib);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn stranger(&self, kind: Kind, number: u32, ends: Ends, opened: &AtomicUsize) -> Tally {
        // Where the system refuses, strangers compete with the others: slower, not wrong.
        let _ = rustix::process::setpriority_process(None, STANDS_BACK);
        let mut sender = self.sender(kind, number);
        let mut stranger = Stranger {
            arena: self,
            kind,
            // Addresses of this machine: as many strangers as there are clients.
            source: Ipv4Addr::new(127, 1, (number >> 8) as u8, number as u8),
            ends,
            wire: None,
            held: Vec::new(),
            tally: Tally::default(),
        };
        let mut last = None;
        for _ in 0..kind.requests_max() {
            let is_over = Instant::now() >= ends.last || self.stop.check().is_err();
            let is_full = kind == Kind::Idle && opened.fetch_add(1, Ordering::Relaxed) >= self.idle;
            if is_over || is_full {
                break;
            }
            last = stranger.shoot(&sender.next(last.as_ref()));
        }
        if !stranger.held.is_empty() {
            while Instant::now() < ends.last && self.stop.check().is_ok() {
                thread::sleep(DRIP_EVERY);
            }
        }
        stranger.tally
    }
}

struct Stranger<'a> {
    arena: &'a Arena<'a>,
    kind: Kind,
    source: Ipv4Addr,
    ends: Ends,
    wire: Option<Wire>,
    /// Connections that are left open until the end of the slice.
    held: Vec<Wire>,
    tally: Tally,
}

impl Stranger<'_> {
    /// Sends one request, or what stands for one, and counts what comes back.
    fn shoot(&mut self, shot: &Shot) -> Option<Reply> {
        let wire = match self.wire.take() {
            Some(wire) => Ok(wire),
            None => Wire::open(self.arena.access.address, self.source),
        };
        let mut wire = match wire {
            Ok(wire) => wire,
            Err(error) => {
                let word = format!("{error:#}");
                // Beyond the limit no client need be let in.
                if self.kind != Kind::Idle {
                    self.tally.find(self.kind.name(), &word, &shot.bytes);
                }
                *self.tally.answers.entry(word).or_default() += 1;
                // A client that is not let in does not come back at once.
                thread::sleep(DRIP_EVERY);
                return None;
            }
        };
        let begun = Instant::now();
        match shot.manner {
            Manner::Plain | Manner::Pipelined(_) => return self.ask(wire, shot),
            Manner::Broken => {
                wire.send(&shot.bytes, self.ends.cut);
                let mut seen = wire.answer(self.ends.cut.min(begun + BROKEN_MAX));
                if matches!(seen, Seen::Late) {
                    wire.end_of_requests();
                    seen = wire.answer(self.until(begun));
                }
                self.count(shot, &seen, begun);
            }
            Manner::Drip { at_once } => self.drip(wire, shot, at_once),
            Manner::Abandoned => {
                wire.send(&shot.bytes, self.ends.last);
                *self.tally.answers.entry("left".to_owned()).or_default() += 1;
            }
            Manner::Unread | Manner::Idle => {
                wire.send(&shot.bytes, self.ends.last);
                *self.tally.answers.entry("held".to_owned()).or_default() += 1;
                self.held.push(wire);
            }
        }
        None
    }

    /// Sends it whole and reads all answers.
    fn ask(&mut self, mut wire: Wire, shot: &Shot) -> Option<Reply> {
        let mut begun = Instant::now();
        let is_sent = wire.send(&shot.bytes, self.until(begun));
        let answers = match shot.manner {
            Manner::Pipelined(count) => count,
            _ => 1,
        };
        for left in (0..answers).rev() {
            let seen = wire.answer(self.until(begun));
            let is_refused_early = !is_sent && matches!(seen, Seen::Closed { is_within: false });
            if is_refused_early {
                // The refusal was on its way while the body was still coming; a connection that
                // is closed then loses it.
                let word = "closed while the body was sent";
                *self.tally.answers.entry(word.to_owned()).or_default() += 1;
                return None;
            }
            self.count(shot, &seen, begun);
            // The server may begin one request when it has answered the one before.
            begun = Instant::now();
            let Seen::Answer(reply) = seen else {
                return None;
            };
            if wire.is_last {
                return Some(reply);
            }
            if left == 0 {
                self.wire = Some(wire);
                return Some(reply);
            }
        }
        None
    }

    /// Sends so much at once and the rest byte by byte, until an answer comes.
    fn drip(&mut self, mut wire: Wire, shot: &Shot, at_once: usize) {
        let begun = Instant::now();
        let (first, rest) = shot.bytes.split_at(at_once.min(shot.bytes.len()));
        let mut goes_on = wire.send(first, self.ends.last);
        for byte in rest.chunks(1) {
            let now = Instant::now();
            if now >= self.ends.last || self.arena.stop.check().is_err() {
                *self.tally.answers.entry("left".to_owned()).or_default() += 1;
                return;
            }
            goes_on = goes_on && wire.send(byte, self.ends.last);
            let seen = wire.answer(now + DRIP_EVERY);
            if !matches!(seen, Seen::Late) {
                self.count(shot, &seen, begun);
                return;
            }
        }
    }

    fn until(&self, begun: Instant) -> Instant {
        self.ends.cut.min(begun + self.arena.plan.answer)
    }

    /// Counts what came. Who has waited since before the end of the slice, and not as long as an
    /// answer may take, has seen nothing wrong.
    fn count(&mut self, shot: &Shot, seen: &Seen, begun: Instant) {
        let took = begun.elapsed();
        if matches!(seen, Seen::Late) && took < self.arena.plan.answer {
            *self.tally.answers.entry("left".to_owned()).or_default() += 1;
            return;
        }
        let kind = self.kind.name();
        self.tally.add(kind, shot.manner, (seen, took), &shot.bytes);
    }
}
