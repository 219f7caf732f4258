//! What holds for any bytes that a process of a function sends: the law of a fuzz target.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::frame::{FrameError, FrameReader, PipeFrame, READER_BYTES_MAX};
use crate::launch::Launched;
use crate::memory_budget::{HeldMemory, MemoryBudget};
use crate::pending_run::{PendingRun, RunFailure};
use crate::process::{EndWords, ProcessEnd, ProcessLimits, WarmProcess};
use crate::work::{FunctionOutcome, FunctionWork, RunCause, UnpackedDeployment};

/// Runs in flight, so that their numbers are likely.
const RUNS: usize = 3;
/// Of logs beyond what each run may hold.
const LOG_BYTES: usize = 1_000;
const LIMITS: ProcessLimits = ProcessLimits {
    body_bytes: 500,
    log_letters: 100,
    start_max: Duration::from_secs(1),
};

/// Panics when the law does not hold: bytes are read alike however they are cut, each run ends
/// once, and what a run comes to is within the limits.
pub fn check(bytes: &[u8]) {
    converse(bytes);
    converse(&described(bytes));
}

/// Frames of which the input gives kind, request and length in one byte each: lengths of four
/// bytes are seldom met by chance.
fn described(bytes: &[u8]) -> Vec<u8> {
    let (mut frames, mut rest) = (Vec::new(), bytes);
    while let Some(([kind, request, length], behind)) = rest.split_first_chunk::<3>() {
        let (payload, next) = behind.split_at(behind.len().min(usize::from(*length)));
        frames.extend((payload.len() as u32).to_le_bytes());
        frames.push(*kind);
        frames.extend(u32::from(*request).to_le_bytes());
        frames.extend(payload);
        rest = next;
    }
    frames
}

fn read(bytes: &[u8], step: usize) -> (Vec<PipeFrame>, Option<FrameError>) {
    let (mut reader, mut all) = (FrameReader::default(), Vec::new());
    for piece in bytes.chunks(step) {
        let (frames, broken) = reader.feed(piece);
        all.extend(frames);
        if broken.is_some() {
            return (all, broken);
        }
        assert!(reader.unread_bytes() < READER_BYTES_MAX);
    }
    (all, None)
}

fn converse(bytes: &[u8]) {
    let whole = read(bytes, bytes.len().max(1));
    for step in [1, 7, 64] {
        assert_eq!(read(bytes, step), whole, "cut after {step} bytes");
    }
    let now = Instant::now();
    let mut process = {
        let logs = MemoryBudget::new(LOG_BYTES).for_another();
        WarmProcess::new(1, (Launched::pretended(), 512), b"{}", (LIMITS, logs), now)
    };
    let mut replies = Vec::new();
    for _ in 0..RUNS {
        let (reply, outcome) = oneshot::channel();
        process.send(run(reply, now), now);
        replies.push(outcome);
    }
    let (frames, broken) = whole;
    let mut frames = frames.into_iter();
    let rule = frames.find_map(|frame| process.receive(frame, now).err());
    let rule = rule.or_else(|| broken.map(|error| error.to_string()));
    let reason = rule.map_or(ProcessEnd::ByItself, ProcessEnd::RuleBroken);
    let words = EndWords {
        sentence: "The process ended.".to_owned(),
        last_words: String::new(),
    };
    for moved in process.abandon(&reason, &words, now) {
        moved.fail(RunCause::NeighbourStopped, RunFailure::default());
    }
    for mut reply in replies {
        let outcome = reply.try_recv().expect("each run ends");
        assert!((200..600).contains(&outcome.response.status));
        assert!(outcome.response.body.len() <= LIMITS.body_bytes);
        assert!(outcome.logs.chars().count() <= LIMITS.log_letters);
    }
}

fn run(reply: oneshot::Sender<FunctionOutcome>, now: Instant) -> PendingRun {
    let deployment = UnpackedDeployment {
        id: "1".to_owned(),
        revision: 1,
        runtime: "node-20.0".to_owned(),
        folder: PathBuf::from("/"),
        entrypoint: "main.js".to_owned(),
        variables: Vec::new(),
        memory_mib: 512,
        cpu_weight: 100,
        concurrency: RUNS,
        reaches_outside: false,
    };
    let work = FunctionWork {
        deployment: Arc::new(deployment),
        method: "POST".to_owned(),
        path: "/".to_owned(),
        headers: Vec::new(),
        body: Bytes::from(vec![b'b'; 300_000]),
        timeout: Duration::from_secs(15),
        wait_max: None,
    };
    PendingRun {
        work,
        accepted: now,
        reply,
        held: HeldMemory::default(),
        moves: 0,
        is_cold: false,
    }
}
