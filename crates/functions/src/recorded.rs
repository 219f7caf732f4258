//! The server's side of the recorded conversation; `tests/frames.rs` holds the adapters to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::frame::{FrameKind, FrameReader, PipeFrame, write_frame};
use crate::head::{self, AdapterLimits};
use crate::launch::Launched;
use crate::memory_budget::{HeldMemory, MemoryBudget};
use crate::pending_run::PendingRun;
use crate::process::{ProcessLimits, WarmProcess};
use crate::work::{FunctionOutcome, FunctionWork, RunCause, UnpackedDeployment};

const RECORDED: &str = include_str!("../../../runtimes/frames/conversation.jsonl");
const TIMEOUT: Duration = Duration::from_secs(1);
const LIMITS: ProcessLimits = ProcessLimits {
    body_bytes: 1_000,
    log_letters: 100,
    start_max: Duration::from_secs(30),
};

/// Whether the server sends it, and the frame.
fn recorded() -> Vec<(bool, PipeFrame)> {
    use FrameKind::{Body, Cancel, Credit, Log, Request, Response, Setup, Started};
    let kinds = [Setup, Request, Body, Started, Response, Log, Cancel, Credit];
    let read = |line| {
        let (sender, name, request, payload): (String, String, u32, String) =
            serde_json::from_str(line).unwrap();
        let mut kinds = kinds.into_iter();
        let kind = kinds.find(|kind| format!("{kind:?}").to_lowercase() == name);
        let payload = payload.chars().map(|letter| letter as u8).collect();
        let frame = PipeFrame {
            kind: kind.unwrap(),
            request,
            payload,
        };
        (sender == "server", frame)
    };
    RECORDED.lines().map(read).collect()
}

fn deployment() -> UnpackedDeployment {
    UnpackedDeployment {
        id: "1".to_owned(),
        revision: 1,
        runtime: "node-20.0".to_owned(),
        folder: "/".into(),
        entrypoint: "recorded.{ending}".to_owned(),
        variables: vec![("ONE".to_owned(), "1".to_owned())],
        memory_mib: 128,
        cpu_weight: 100,
        concurrency: 4,
        reaches_outside: false,
    }
}

/// What is asked for in the conversation.
fn work(path: &str, headers: &[(&str, &str)], body: &'static [u8]) -> FunctionWork {
    let headers = headers.iter();
    let headers = headers.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    FunctionWork {
        deployment: Arc::new(deployment()),
        method: "POST".to_owned(),
        path: path.to_owned(),
        headers: headers.collect(),
        body: Bytes::from_static(body),
        timeout: TIMEOUT,
        wait_max: Some(Duration::from_mins(1)),
    }
}

fn works() -> [FunctionWork; 3] {
    [
        work("/log", &[("x-a", "1")], b""),
        work("/length", &[], b"ab\xe9de"),
        work("/wait", &[], b""),
    ]
}

fn json(frame: &PipeFrame) -> Value {
    assert_eq!(frame.payload[0], 1, "it is whole");
    serde_json::from_slice(&frame.payload[1..]).unwrap()
}

#[test]
fn recorded_frames_are_read_as_they_are_written() {
    let frames: Vec<PipeFrame> = recorded().into_iter().map(|(_, frame)| frame).collect();
    let mut bytes = Vec::new();
    for frame in &frames {
        write_frame(&mut bytes, frame.kind, frame.request, &[&frame.payload]);
    }
    assert_eq!(FrameReader::default().feed(&bytes), (frames, None));
}

#[test]
fn server_says_what_is_recorded() {
    let limits = AdapterLimits {
        body_bytes: LIMITS.body_bytes,
        log_letters: LIMITS.log_letters,
        has_starts: false,
    };
    let (mut works, recorded) = (works().into_iter(), recorded());
    for (_, frame) in recorded.iter().filter(|(is_servers, _)| *is_servers) {
        let said = match frame.kind {
            FrameKind::Setup => head::setup(&deployment(), "{folder}", limits),
            FrameKind::Request => head::request(&works.next().unwrap()),
            _ => continue,
        };
        let said: Value = serde_json::from_slice(&said).unwrap();
        assert_eq!(said, json(frame));
    }
    assert!(works.next().is_none());
}

#[test]
fn server_understands_what_is_recorded() {
    let mut now = Instant::now();
    let logs = MemoryBudget::new(0).for_another();
    let launched = (Launched::pretended(), 128);
    let mut process = WarmProcess::new(1, launched, b"{}", (LIMITS, logs), now);
    let (mut works, mut outcomes) = (works().into_iter(), Vec::new());
    for (is_servers, frame) in recorded() {
        match (is_servers, frame.kind) {
            (true, FrameKind::Request) => {
                let (reply, outcome) = oneshot::channel();
                outcomes.push(outcome);
                let run = PendingRun {
                    work: works.next().unwrap(),
                    accepted: now,
                    reply,
                    held: HeldMemory::default(),
                    moves: 0,
                    is_cold: false,
                };
                process.send(run, now);
            }
            (true, FrameKind::Cancel) => {
                now += TIMEOUT;
                let before = process.launched.outgoing.waiting_bytes();
                process.tick(now);
                let mut cancel = Vec::new();
                write_frame(&mut cancel, frame.kind, frame.request, &[&frame.payload]);
                let sent = process.launched.outgoing.waiting_bytes() - before;
                assert_eq!(sent, cancel.len());
            }
            (true, _) => {}
            (false, _) => process.receive(frame, now).unwrap(),
        }
    }
    let ended = |mut outcome: oneshot::Receiver<FunctionOutcome>| outcome.try_recv().unwrap();
    let [first, second, third] = <[_; 3]>::try_from(outcomes).unwrap().map(ended);
    assert_eq!(first.response.status, 201);
    assert_eq!(&first.response.body[..], b"logged");
    let own = ("x-b".to_owned(), "2".to_owned());
    assert!(first.response.headers.contains(&own));
    assert_eq!((&*first.logs, &*first.errors), ("one 1\n", "two\n"));
    assert_eq!(&second.response.body[..], b"5");
    assert_eq!(third.cause, RunCause::TimedOut);
}
