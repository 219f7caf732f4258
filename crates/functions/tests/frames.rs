//! The adapters hold to a recorded conversation, frame by frame. Frames are written and read by this
//! test itself: what both sides of the product do alike may still be another thing.

mod fixture;

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fixture::Language;
use serde_json::Value;

const RECORDED: &str = include_str!("../../../runtimes/frames/conversation.jsonl");
/// By their number, from 1 on.
const KINDS: [&str; 8] = [
    "setup", "request", "body", "started", "response", "log", "cancel", "credit",
];
/// A process that is silent for so long says nothing more.
const SILENCE_MAX: Duration = Duration::from_mins(1);

/// A process of an adapter, killed when it is dropped.
struct Process {
    child: Child,
    socket: UnixStream,
}

impl Process {
    fn start(language: Language) -> Process {
        let runtimes = fixture::runtimes();
        let name = format!("{language:?}").to_lowercase();
        let mut found = runtimes.found().iter();
        let runtime = found.find(|runtime| runtime.name == name).unwrap();
        let adapter = match language {
            Language::Node => "node/adapter.mjs",
            Language::Python => "python/adapter.py",
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (socket, theirs) = UnixStream::pair().unwrap();
        socket.set_read_timeout(Some(SILENCE_MAX)).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "exec 3<&0 </dev/null \"$@\"", "sh"]);
        command.arg(&runtime.program);
        command.arg(root.join("../../runtimes").join(adapter));
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        let child = command.spawn().unwrap();
        Process { child, socket }
    }

    fn send(&mut self, (kind, request): (u8, u32), payload: &[u8]) {
        let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
        bytes.push(kind);
        bytes.extend(request.to_le_bytes());
        bytes.extend(payload);
        self.socket.write_all(&bytes).unwrap();
    }

    fn receive(&mut self) -> ((u8, u32), Vec<u8>) {
        let mut head = [0; 9];
        self.socket.read_exact(&mut head).unwrap();
        let [a, b, c, d, kind, request @ ..] = head;
        let mut payload = vec![0; u32::from_le_bytes([a, b, c, d]) as usize];
        self.socket.read_exact(&mut payload).unwrap();
        ((kind, u32::from_le_bytes(request)), payload)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A response without how long it took; other payloads as they are.
fn comparable(kind: u8, payload: &[u8]) -> Value {
    if KINDS[usize::from(kind) - 1] != "response" {
        return payload.into();
    }
    assert_eq!(payload[0], 1);
    let mut head: Value = serde_json::from_slice(&payload[1..]).unwrap();
    let took = head.as_object_mut().unwrap().remove("took_us").unwrap();
    assert!(took.is_u64(), "{took}");
    head
}

#[test]
fn adapters_hold_to_the_recorded_conversation() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/code");
    for language in Language::ALL {
        let mut process = Process::start(language);
        for line in RECORDED.lines() {
            let line = line.replace("{folder}", folder.to_str().unwrap());
            let line = line.replace("{ending}", language.ending());
            let (sender, kind, request, payload): (String, String, u32, String) =
                serde_json::from_str(&line).unwrap();
            let kind = KINDS.iter().position(|known| **known == kind).unwrap() as u8 + 1;
            let payload: Vec<u8> = payload.chars().map(|letter| letter as u8).collect();
            if sender == "server" {
                process.send((kind, request), &payload);
                continue;
            }
            let (head, said) = process.receive();
            let text = String::from_utf8_lossy(&said);
            assert_eq!(head, (kind, request), "{language:?} {line}: {text}");
            let (said, wanted) = (comparable(kind, &said), comparable(kind, &payload));
            assert_eq!(said, wanted, "{language:?} {line}: {text}");
        }
    }
}
