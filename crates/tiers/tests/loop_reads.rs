//! Hits of Redis that an event loop reads: the same answers as by a connection that waits, or none.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tiers::breaker::BreakerSettings;
use tiers::policy::{GateSettings, LeaseRule};
use tiers::{
    AskAnswer, LoopReads, RedisTier, StoredInTiers, Tier, TierError, TierFault, TierHit, TierStack,
    TokenName,
};

mod support;

use support::host;
use support::redis_server::{RedisServer, settings, tier};

const FUNCTION: TokenName = [1; 32];
const TAG: TokenName = [2; 32];
const NAMES: [TokenName; 2] = [FUNCTION, TAG];
const LIMIT: Duration = Duration::from_mins(1);
const NO_GATE: GateSettings = GateSettings {
    breaker: None,
    pressure: None,
};

struct Writer {
    tier: Arc<RedisTier>,
    stack: TierStack,
}

impl Writer {
    fn of(tier: RedisTier) -> Writer {
        let tier = Arc::new(tier);
        let stack = TierStack::new(vec![tier.clone() as Arc<dyn Tier>], NO_GATE, host());
        Writer { tier, stack }
    }

    fn store(&self, key: &[u8], value: &[u8], lifetime_ms: Option<u64>) {
        let mut call = self.stack.begin(key, NAMES.to_vec(), true, LeaseRule::Run);
        assert!(matches!(self.stack.ask(&mut call), AskAnswer::Run));
        let stored = self.stack.store(&mut call, value, lifetime_ms);
        assert_eq!(stored, StoredInTiers::Kept);
    }

    /// By a connection that waits.
    fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut call = self.stack.begin(key, NAMES.to_vec(), false, LeaseRule::Run);
        match self.stack.ask(&mut call) {
            AskAnswer::Hit(hit) => Some(hit.value().to_vec()),
            _ => None,
        }
    }
}

/// Reads until so many are over.
fn read<W>(reads: &mut LoopReads<W>, tier: &RedisTier, count: usize) -> Vec<(W, Option<TierHit>)> {
    let until = Instant::now() + LIMIT;
    let mut over = Vec::new();
    while over.len() < count {
        assert!(Instant::now() < until, "{} of {count}", over.len());
        reads.send(tier).unwrap();
        reads.read(tier, &mut over).unwrap();
        thread::yield_now();
    }
    assert!(reads.left().is_none());
    over
}

fn values<W>(over: Vec<(W, Option<TierHit>)>) -> Vec<(W, Option<Vec<u8>>)> {
    let values = over.into_iter();
    values
        .map(|(waiter, hit)| (waiter, hit.map(|hit| hit.value().to_vec())))
        .collect()
}

#[test]
fn loop_reads_what_another_connection_reads() {
    let server = RedisServer::start(&[]);
    let writer = Writer::of(tier(&server.url()));
    let mut reads = writer.tier.loop_reads().unwrap().unwrap();
    // No token is known yet.
    assert_eq!(reads.ask(&writer.tier, b"a", &NAMES, 7), Err(7));
    let large = vec![b'x'; 3 << 20];
    writer.store(b"a", b"1", None);
    writer.store(b"b", &large, Some(600_000));
    assert_eq!(writer.value(b"a").unwrap(), b"1");
    for (number, key) in [b"a", b"b", b"c"].iter().cycle().take(90).enumerate() {
        reads.ask(&writer.tier, *key, &NAMES, number).unwrap();
    }
    for (turn, (number, value)) in values(read(&mut reads, &writer.tier, 90))
        .iter()
        .enumerate()
    {
        assert_eq!(*number, turn);
        let expected = [Some(&b"1"[..]), Some(&large), None][turn % 3];
        assert_eq!(value.as_deref(), expected, "{turn}");
    }
    reads.ask(&writer.tier, b"b", &NAMES, 0).unwrap();
    let (_, hit) = read(&mut reads, &writer.tier, 1).pop().unwrap();
    let hit = hit.unwrap();
    let left_ms = hit.until_ms - (host().now_ms)();
    assert!((1..=600_000).contains(&left_ms) && hit.written_ms <= (host().now_ms)());
}

#[test]
fn loop_reads_nothing_that_another_process_has_forgotten() {
    let server = RedisServer::start(&[]);
    let (writer, other) = (
        Writer::of(tier(&server.url())),
        Writer::of(tier(&server.url())),
    );
    let mut reads = writer.tier.loop_reads().unwrap().unwrap();
    let mut found = |key: &[u8]| {
        reads.ask(&writer.tier, key, &NAMES, ()).unwrap();
        let over = read(&mut reads, &writer.tier, 1);
        values(over).pop().unwrap().1
    };
    for forget in 0..4 {
        writer.store(b"k", b"1", None);
        assert_eq!(writer.value(b"k").unwrap(), b"1");
        assert_eq!(found(b"k").unwrap(), b"1");
        match forget {
            0 => other.stack.delete(b"k", &NAMES).was_there,
            1 => other.stack.forget(&FUNCTION).was_there,
            2 => other.stack.forget(&TAG).was_there,
            _ => other.tier.clear().is_ok(),
        };
        assert_eq!(found(b"k"), None, "{forget}");
    }
    // What stands there before a value is stored, and what has ended.
    assert_eq!(writer.value(b"k"), None);
    assert_eq!(found(b"k"), None);
    writer.store(b"k", b"2", Some(1));
    let until = Instant::now() + LIMIT;
    while found(b"k").is_some() {
        assert!(Instant::now() < until);
    }
}

/// An address whose first client reaches the server, and each later one gets these bytes for what
/// it sends first, one after another if they are slow, and then nothing.
fn second_is_hostile(server: &RedisServer, answer: Vec<u8>, are_slow: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let socket = server.socket();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = UnixStream::connect(socket).unwrap();
        let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut from, &mut to));
        thread::spawn(move || std::io::copy(&mut server, &mut client));
        for mut client in listener.incoming().flatten() {
            let mut piece = [0; 4_096];
            let _ = client.read(&mut piece);
            let step = if are_slow { 1 } else { answer.len().max(1) };
            for piece in answer.chunks(step) {
                if client.write_all(piece).is_err() {
                    break;
                }
            }
            // Open until the other side has had enough.
            while let Ok(1..) = client.read(&mut piece) {}
        }
    });
    url
}

/// What a loop makes of these bytes, which come in the place of answers.
fn made_of(answer: &[u8], are_slow: bool) -> Result<Vec<Option<Vec<u8>>>, TierError> {
    let server = RedisServer::start(&[]);
    let url = second_is_hostile(&server, answer.to_vec(), are_slow);
    let mut settings = settings(&url);
    settings.answer_bytes_max = 1_000;
    let writer = Writer::of(RedisTier::new(settings, host()).unwrap());
    writer.store(b"k", b"1", None);
    assert_eq!(writer.value(b"k").unwrap(), b"1");
    let mut reads = writer.tier.loop_reads().unwrap().unwrap();
    reads.ask(&writer.tier, b"k", &NAMES, ()).unwrap();
    reads.ask(&writer.tier, b"k", &NAMES, ()).unwrap();
    let mut over = Vec::new();
    reads.send(&writer.tier)?;
    while over.len() < 2 && reads.left().unwrap_or_default() > Duration::ZERO {
        reads.read(&writer.tier, &mut over)?;
        thread::yield_now();
    }
    let found = values(over).into_iter().map(|((), value)| value);
    assert!(reads.give_up().len() <= 2);
    Ok(found.collect())
}

#[test]
fn loop_finds_nothing_in_what_a_server_makes_up() {
    let none: [&[u8]; 5] = [
        b"$-1\r\n$-1\r\n$-1\r\n:-2\r\n",
        b"$3\r\nabc\r\n$-1\r\n$5\r\n\x01....\r\n:-1\r\n",
        b"-LOADING\r\n-LOADING\r\n-LOADING\r\n-LOADING\r\n",
        b":1\r\n:1\r\n:1\r\n:1\r\n",
        b"+OK\r\n+OK\r\n$-1\r\n$-1\r\n",
    ];
    for answer in none {
        for are_slow in [false, true] {
            let found = made_of(&answer.repeat(2), are_slow).unwrap();
            assert_eq!(found, [None, None], "{}", String::from_utf8_lossy(answer));
        }
    }
    // More than was asked for, what is no answer, and what is above its bounds.
    let refused: [(&[u8], TierFault); 6] = [
        (&b"$-1\r\n".repeat(9), TierFault::Io),
        (b"*1\r\n:1\r\n", TierFault::Io),
        (b"HTTP/1.1 400 Bad Request\r\n", TierFault::Io),
        (b"$1\r\nabc", TierFault::Io),
        (b"$1001\r\n", TierFault::TooLarge),
        (&b"+".repeat(70_000), TierFault::TooLarge),
    ];
    for (answer, fault) in refused {
        let error = made_of(answer, false).unwrap_err();
        assert_eq!(error.fault, fault, "{error}");
    }
}

#[test]
fn loop_gives_up_a_server_that_says_nothing() {
    let server = RedisServer::start(&[]);
    let url = second_is_hostile(&server, Vec::new(), false);
    let mut settings = settings(&url);
    settings.timeout = Duration::from_millis(300);
    let writer = Writer::of(RedisTier::new(settings, host()).unwrap());
    writer.store(b"k", b"1", None);
    assert_eq!(writer.value(b"k").unwrap(), b"1");
    let mut reads = writer.tier.loop_reads().unwrap().unwrap();
    // It takes no more than so many, however many come.
    let mut asked = 0;
    while reads.ask(&writer.tier, b"k", &NAMES, asked).is_ok() {
        asked += 1;
        assert!(asked <= 10_000);
    }
    let mut over = Vec::new();
    let until = Instant::now() + LIMIT;
    while reads.left().unwrap() > Duration::ZERO {
        assert!(Instant::now() < until);
        let _ = reads.send(&writer.tier);
        reads.read(&writer.tier, &mut over).unwrap();
        thread::yield_now();
    }
    assert!(over.is_empty());
    assert_eq!(reads.too_late(&writer.tier).fault, TierFault::Io);
    assert_eq!(reads.give_up(), (0..asked).collect::<Vec<i32>>());
}

#[test]
fn loop_reads_nothing_while_the_breaker_is_open() {
    let server = RedisServer::start(&[]);
    let breaker = Some(BreakerSettings {
        failures_max: 2,
        ..BreakerSettings::default()
    });
    let gate = GateSettings { breaker, ..NO_GATE };
    let tiers = vec![Arc::new(tier(&server.url())) as Arc<dyn Tier>];
    let stack = TierStack::new(tiers, gate, host());
    // What says nothing of the tier's state does not count.
    for fault in [TierFault::TooLarge, TierFault::Io, TierFault::Damaged] {
        stack.read_failed(fault);
        assert!(stack.may_read() && !stack.states()[0].is_open);
    }
    stack.read_failed(TierFault::Io);
    assert!(!stack.may_read() && stack.states()[0].is_open);
}
