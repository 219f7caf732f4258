//! The stream of notices of a real server: what ends a run of it, and what does not.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tiers::{ListenEvent, ListingTier, Lookup, NotingTier, RedisTier, Tier, TierError, TierFault};

mod support;

use support::redis_server::{RedisServer, tier};

fn said(server: &RedisServer, words: &[&str]) -> String {
    let output = Command::new("redis-cli")
        .arg("-s")
        .arg(server.socket())
        .args(words)
        .output()
        .expect("redis-cli is on the path: apt-get install redis-tools");
    String::from_utf8(output.stdout).unwrap()
}

/// A process that listens.
struct Listening {
    tier: Arc<RedisTier>,
    is_over: Arc<AtomicBool>,
    beginnings: Arc<AtomicU32>,
    notices: Arc<AtomicU32>,
    thread: Option<JoinHandle<Result<(), TierError>>>,
}

impl Listening {
    fn start(url: &str) -> Listening {
        let mut listening = Listening {
            tier: Arc::new(tier(url)),
            is_over: Arc::default(),
            beginnings: Arc::default(),
            notices: Arc::default(),
            thread: None,
        };
        let (tier, is_over) = (listening.tier.clone(), listening.is_over.clone());
        let (beginnings, notices) = (listening.beginnings.clone(), listening.notices.clone());
        listening.thread = Some(thread::spawn(move || {
            tier.listen(|event| {
                match event {
                    ListenEvent::Began => beginnings.fetch_add(1, Ordering::SeqCst),
                    ListenEvent::Notice(_) => notices.fetch_add(1, Ordering::SeqCst),
                    ListenEvent::Quiet => 0,
                };
                !is_over.load(Ordering::SeqCst)
            })
        }));
        listening
    }

    fn until(&self, what: impl Fn() -> bool) {
        while !what() {
            let thread = self.thread.as_ref().unwrap();
            assert!(!thread.is_finished(), "the listener has ended");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The run, once there is another than this.
    fn run_after(&self, before: u64) -> u64 {
        let run = || self.tier.stream_run();
        self.until(|| run() != 0 && run() != before);
        run()
    }

    /// Until all that was invalidated before this is known here.
    fn caught_up(&self, run: u64) {
        let now_ms = (support::host().now_ms)();
        self.until(|| {
            let right_until_ms = self.tier.right_until_ms(run);
            right_until_ms.expect("the run goes on") >= now_ms
        });
    }

    fn beginnings(&self) -> u32 {
        self.beginnings.load(Ordering::SeqCst)
    }

    fn end(mut self) -> Result<(), TierError> {
        self.is_over.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap()
    }
}

#[test]
fn run_of_the_stream_goes_on_through_invalidations_and_replaced_values() {
    let server = RedisServer::start(&[]);
    let other = tier(&server.url());
    let listening = Listening::start(&server.url());
    let run = listening.run_after(0);
    for turn in 0..20 {
        other.delete_noted(b"k", b"deleted").unwrap();
        let ticket = other.ticket(b"k").unwrap();
        let stored = other.set_noted(b"k", b"v", None, Some(ticket), b"replaced");
        stored.unwrap();
        other
            .set_noted(b"k", b"w", None, None, b"replaced")
            .unwrap();
        // What is overtaken, and what has no notice, has no number.
        let stored = other.set_noted(b"k", b"old", None, Some(ticket), b"never");
        assert_eq!(stored.unwrap(), tiers::Stored::Overtaken, "{turn}");
        other.delete(b"k").unwrap();
    }
    listening.caught_up(run);
    assert_eq!(listening.notices.load(Ordering::SeqCst), 60);
    assert_eq!(said(&server, &["HGET", "test:{stream}", "n"]).trim(), "60");
    assert_eq!(
        (listening.tier.stream_run(), listening.beginnings()),
        (run, 1)
    );
    listening.end().unwrap();
    assert_eq!(other.stream_run(), 0);
}

#[test]
fn each_loss_of_the_server_is_a_gap_of_the_stream() {
    let server = RedisServer::start(&[]);
    let other = tier(&server.url());
    let listening = Listening::start(&server.url());
    let mut run = listening.run_after(0);
    let acts: [&dyn Fn(); 6] = [
        // As a server that is short of memory does, and one that began again empty.
        &|| drop(said(&server, &["DEL", "test:{stream}"])),
        &|| drop(said(&server, &["FLUSHALL"])),
        // As one does that took over before it had the last changes.
        &|| drop(said(&server, &["HINCRBY", "test:{stream}", "n", "-1"])),
        // An invalidation whose notice did not come.
        &|| drop(said(&server, &["HINCRBY", "test:{stream}", "n", "1"])),
        // A notice that is not the next one.
        &|| {
            let notice = format!("{}{:016x}it", "e".repeat(16), 1);
            said(&server, &["PUBLISH", "test:invalidated", &notice]);
        },
        &|| other.clear().unwrap(),
    ];
    for (turn, act) in acts.iter().enumerate() {
        other.delete_noted(b"k", b"deleted").unwrap();
        listening.caught_up(run);
        act();
        let next = listening.run_after(run);
        assert_eq!(listening.tier.right_until_ms(run), None, "{turn}");
        assert_eq!(listening.beginnings(), 2 + turn as u32, "{turn}");
        run = next;
    }
    listening.caught_up(run);
    listening.end().unwrap();
}

#[test]
fn run_ends_with_its_connection_and_with_a_server_that_takes_no_writes() {
    let mut server = RedisServer::start(&[]);
    let listening = Listening::start(&server.url());
    let run = listening.run_after(0);
    let tier = listening.tier.clone();
    server.stop();
    let ended = listening.thread.unwrap().join().unwrap();
    assert_eq!(ended.unwrap_err().fault, TierFault::Io);
    assert_eq!((tier.stream_run(), tier.right_until_ms(run)), (0, None));
    server.restart();
    let listening = Listening::start(&server.url());
    listening.run_after(0);
    // What a copy has may be old, however whole its stream is.
    said(&server, &["REPLICAOF", "127.0.0.1", "1"]);
    let tier = listening.tier.clone();
    let ended = listening.thread.unwrap().join().unwrap();
    let error = ended.unwrap_err();
    assert!(error.text.to_lowercase().contains("read only"), "{error}");
    assert_eq!(tier.stream_run(), 0);
}

#[test]
fn server_without_resp3_passes_notices_on_and_has_no_stream() {
    let server = RedisServer::start(&["--rename-command", "HELLO", "\"\""]);
    let other = tier(&server.url());
    let listening = Listening::start(&server.url());
    listening.until(|| listening.beginnings() == 1);
    for _ in 0..10 {
        other.delete_noted(b"k", b"deleted").unwrap();
    }
    listening.until(|| listening.notices.load(Ordering::SeqCst) == 10);
    assert_eq!(listening.tier.stream_run(), 0);
    assert_eq!(listening.beginnings(), 1);
    listening.end().unwrap();
}

#[test]
fn server_without_memory_deletes_and_numbers_it() {
    let server = RedisServer::start(&[]);
    let other = tier(&server.url());
    other.set(b"k", b"v", None, None).unwrap();
    let listening = Listening::start(&server.url());
    let run = listening.run_after(0);
    said(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    assert!(other.delete_noted(b"k", b"deleted").unwrap());
    listening.until(|| listening.notices.load(Ordering::SeqCst) == 1);
    said(&server, &["CONFIG", "SET", "maxmemory", "0"]);
    listening.caught_up(run);
    assert!(matches!(other.get(b"k").unwrap(), Lookup::Miss(_)));
    listening.end().unwrap();
}

#[test]
fn invalidations_in_another_database_are_no_gap() {
    let server = RedisServer::start(&[]);
    let first = tier(&server.url());
    let second = tier(&format!("{}?db=1", server.url()));
    let in_first = Listening::start(&server.url());
    let in_second = Listening::start(&format!("{}?db=1", server.url()));
    let (run, other_run) = (in_first.run_after(0), in_second.run_after(0));
    for _ in 0..5 {
        second.delete_noted(b"k", b"deleted").unwrap();
    }
    first.delete_noted(b"k", b"deleted").unwrap();
    in_first.caught_up(run);
    in_second.caught_up(other_run);
    let heard = |one: &Listening| (one.notices.load(Ordering::SeqCst), one.beginnings());
    assert_eq!((heard(&in_first), heard(&in_second)), ((1, 1), (5, 1)));
    in_first.end().unwrap();
    in_second.end().unwrap();
}

#[test]
fn user_with_the_rights_of_the_guide_has_a_stream() {
    let server = RedisServer::start(&[]);
    let rights = "+GET +PTTL +SET +DEL +GETRANGE +TIME +HINCRBY +HSETNX +HGET +HMGET +EVALSHA \
                  +EVAL +SCRIPT +PUBLISH +SUBSCRIBE +PING +SCAN +SELECT";
    let mut set = vec![
        "ACL", "SETUSER", "user", "on", ">right", "~test:*", "&test:*",
    ];
    set.extend(rights.split_whitespace());
    assert_eq!(said(&server, &set).trim(), "OK");
    let url = format!("{}?user=user&pass=right&db=1", server.url());
    let other = tier(&url);
    let listening = Listening::start(&url);
    let run = listening.run_after(0);
    let ticket = other.ticket(b"k").unwrap();
    let take = tiers::LeaseAct::Take { lifetime_ms: 1_000 };
    tiers::LeasingTier::lease(&other, b"k", &[1; 16], take).unwrap();
    other.set(b"k", b"v", Some(60_000), Some(ticket)).unwrap();
    other
        .set_noted(b"k", b"w", None, None, b"replaced")
        .unwrap();
    let listed = other.list(b"k", 1, 0).unwrap();
    assert_eq!(listed.entries[0].value_start, b"w");
    assert!(other.delete_noted(b"k", b"deleted").unwrap());
    listening.until(|| listening.notices.load(Ordering::SeqCst) == 2);
    listening.caught_up(run);
    listening.end().unwrap();
}
