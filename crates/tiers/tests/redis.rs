//! What a tier promises, by a real Redis server, and what is left of it when the network fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tiers::policy::{GateSettings, LeaseRule};
use tiers::{
    AskAnswer, LeaseAct, LeaseAnswer, ListenEvent, Lookup, MissTicket, RedisTier, Stored,
    StoredInTiers, Tier, TierFault, TierStack,
};

mod support;

use support::read;
use support::redis_server::{Proxy, ProxyMode, RedisServer, settings, tier};

fn ticket(tier: &dyn Tier, key: &[u8]) -> MissTicket {
    match tier.get(key).unwrap() {
        Lookup::Miss(ticket) => ticket,
        Lookup::Hit(hit) => panic!("{hit:?}"),
    }
}

#[test]
fn redis_reads_back_what_was_stored_until_it_is_replaced_or_deleted() {
    let server = RedisServer::start(&[]);
    let tier = tier(&server.url());
    tier.check().unwrap();
    assert_eq!(read(&tier, b"k").unwrap(), None);
    let large = vec![0; 2_000_000];
    let every_byte: Vec<u8> = (0..=255).collect();
    for value in [&b""[..], b"one", &large, &every_byte] {
        assert_eq!(tier.set(b"k", value, None, None).unwrap(), Stored::Kept);
        assert!(read(&tier, b"k").unwrap().as_deref() == Some(value));
        assert_eq!(read(&tier, b"").unwrap(), None);
        assert_eq!(read(&tier, &every_byte).unwrap(), None);
    }
    assert!(tier.delete(b"k").unwrap());
    assert!(!tier.delete(b"k").unwrap());
    assert_eq!(read(&tier, b"k").unwrap(), None);
    // A placeholder is no value.
    assert!(!tier.delete(b"k").unwrap());
}

#[test]
fn redis_ends_a_value_with_its_lifetime() {
    let server = RedisServer::start(&[]);
    let tier = tier(&server.url());
    tier.set(b"brief", b"v", Some(1), None).unwrap();
    tier.set(b"now", b"v", Some(0), None).unwrap();
    tier.set(b"hour", b"v", Some(3_600_000), None).unwrap();
    tier.set(b"long", b"v", Some(u64::MAX / 4), None).unwrap();
    thread::sleep(Duration::from_millis(5));
    assert_eq!(read(&tier, b"brief").unwrap(), None);
    assert_eq!(read(&tier, b"now").unwrap(), None);
    let Lookup::Hit(hit) = tier.get(b"hour").unwrap() else {
        panic!("it has not ended")
    };
    assert!(hit.until_ms > hit.written_ms && hit.until_ms - hit.written_ms <= 3_600_000);
    assert!(read(&tier, b"long").unwrap().is_some());
}

#[test]
fn redis_stores_nothing_with_a_ticket_from_before_a_deletion_or_a_loss() {
    let mut server = RedisServer::start(&[]);
    let tier = tier(&server.url());
    let before = ticket(&tier, b"k");
    // Two that missed together may both store, one after the other.
    for value in [b"1", b"2"] {
        let kept = tier.set(b"k", value, Some(60_000), Some(before)).unwrap();
        assert_eq!(kept, Stored::Kept);
        assert_eq!(tier.ticket(b"k").unwrap(), before);
    }
    tier.delete(b"k").unwrap();
    let stored = tier.set(b"k", b"3", None, Some(before)).unwrap();
    assert_eq!(stored, Stored::Overtaken);
    let after = ticket(&tier, b"k");
    assert_ne!(after, before);
    let stored = tier.set(b"k", b"4", None, Some(before)).unwrap();
    assert_eq!(stored, Stored::Overtaken);
    tier.clear().unwrap();
    let stored = tier.set(b"k", b"5", None, Some(after)).unwrap();
    assert_eq!(stored, Stored::Overtaken);
    let last = ticket(&tier, b"k");
    server.restart();
    while tier.check().is_err() {}
    let stored = tier.set(b"k", b"6", None, Some(last)).unwrap();
    assert_eq!(stored, Stored::Overtaken);
    assert_eq!(read(&tier, b"k").unwrap(), None);
}

#[test]
fn redis_clears_the_keys_of_its_prefix_only() {
    let server = RedisServer::start(&[]);
    let with = |prefix: &str| {
        let mut settings = settings(&server.url());
        settings.prefix = prefix.to_owned();
        RedisTier::new(settings, support::host()).unwrap()
    };
    let (starred, other) = (with("a*[b]"), with("axxxb"));
    for number in 0..3_000_u32 {
        starred
            .set(&number.to_le_bytes(), b"v", None, None)
            .unwrap();
    }
    other.set(b"k", b"v", None, None).unwrap();
    starred.clear().unwrap();
    for number in 0..3_000_u32 {
        assert_eq!(read(&starred, &number.to_le_bytes()).unwrap(), None);
    }
    assert!(read(&other, b"k").unwrap().is_some());
}

#[test]
fn redis_lease_has_one_holder_and_fences_off_one_that_is_late() {
    let server = RedisServer::start(&[]);
    let tier = tier(&server.url());
    let (first, second) = ([1; 16], [2; 16]);
    let lease =
        |holder, act| tier.leases().unwrap().lease(b"k", holder, act).unwrap() == LeaseAnswer::Own;
    let long = LeaseAct::Take {
        lifetime_ms: 60_000,
    };
    let brief = LeaseAct::Take { lifetime_ms: 1 };
    let renew = LeaseAct::Renew {
        lifetime_ms: 60_000,
    };
    assert!(!lease(&first, renew) && !lease(&first, LeaseAct::Release));
    assert!(lease(&first, long) && !lease(&second, long) && !lease(&second, renew));
    assert!(!lease(&second, LeaseAct::Release) && lease(&first, renew));
    assert!(lease(&first, LeaseAct::Release) && lease(&second, brief));
    let late = ticket(&tier, b"k");
    thread::sleep(Duration::from_millis(5));
    let kept = tier.set(b"k", b"1", None, Some(late)).unwrap();
    assert_eq!(kept, Stored::Kept);
    assert!(lease(&first, long) && !lease(&second, renew));
    let next = tier.ticket(b"k").unwrap();
    let stored = tier.set(b"k", b"late", None, Some(late)).unwrap();
    assert_eq!(stored, Stored::Overtaken);
    assert_eq!(read(&tier, b"k").unwrap().unwrap(), b"1");
    let kept = tier.set(b"k", b"2", None, Some(next)).unwrap();
    assert_eq!(kept, Stored::Kept);
}

#[test]
fn redis_answer_that_comes_too_late_is_never_that_of_another_call() {
    let server = RedisServer::start(&[]);
    let proxy = Proxy::before(&server);
    let mut settings = settings(&proxy.url);
    settings.timeout = Duration::from_millis(50);
    let tier = RedisTier::new(settings, support::host()).unwrap();
    tier.set(b"a", b"of a", None, None).unwrap();
    tier.set(b"b", b"of b", None, None).unwrap();
    for _ in 0..20 {
        proxy.set(ProxyMode::Delay);
        assert_eq!(read(&tier, b"a").unwrap_err().fault, TierFault::Io);
        proxy.set(ProxyMode::Pass);
        let found = loop {
            // The machine may be slow, too.
            if let Ok(found) = read(&tier, b"b") {
                break found;
            }
        };
        assert_eq!(found.unwrap(), b"of b");
    }
}

#[test]
fn redis_connection_that_is_cut_is_made_again() {
    let mut server = RedisServer::start(&[]);
    let proxy = Proxy::before(&server);
    let tier = tier(&proxy.url);
    let value = vec![7; 10_000];
    tier.set(b"k", &value, None, None).unwrap();
    for _ in 0..20 {
        proxy.set(ProxyMode::Cut);
        let error = read(&tier, b"k").unwrap_err();
        assert_eq!(error.fault, TierFault::Io);
        assert!(error.text.contains("Redis at 127.0.0.1:"), "{error}");
        proxy.set(ProxyMode::Pass);
        assert!(read(&tier, b"k").unwrap().unwrap() == value);
    }
    server.stop();
    assert_eq!(read(&tier, b"k").unwrap_err().fault, TierFault::Io);
    server.restart();
    assert_eq!(read(&tier, b"k").unwrap(), None);
}

#[test]
fn redis_that_refuses_the_password_is_off_and_the_text_hides_it() {
    let server = RedisServer::start(&["--requirepass", "right"]);
    let proxy = Proxy::before(&server);
    let url = |password: &str| proxy.url.replace("//", &format!("//:{password}@"));
    tier(&url("right")).check().unwrap();
    let error = tier(&url("secret")).check().unwrap_err();
    assert_eq!(error.fault, TierFault::Off);
    assert!(!error.text.contains("secret"), "{error}");
    for wrong in [
        "secret",
        "http://:secret@host",
        "redis://:secret@host/x",
        "redis://:secret@host?protocol=secret",
        "rediss://:sec?ret@host",
    ] {
        let refused = RedisTier::new(settings(wrong), support::host());
        let error = refused.err().expect("no address of a Redis server");
        assert_eq!(error.fault, TierFault::Off);
        assert!(!error.text.contains("secret"), "{error}");
    }
}

#[test]
fn calls_go_on_while_redis_is_down_and_forget_what_was_deleted() {
    let mut server = RedisServer::start(&[]);
    let tier: Arc<dyn Tier> = Arc::new(tier(&server.url()));
    let gate = GateSettings {
        breaker: None,
        pressure: None,
    };
    let stack = TierStack::new(vec![tier.clone()], gate, support::host());
    let names = [[1; 32], [2; 32]];
    let rule = LeaseRule::Wait { limit_ms: 60_000 };
    let begin = || stack.begin(b"k", names.to_vec(), false, rule);
    let call = |value: &[u8]| {
        let mut call = begin();
        match stack.ask(&mut call) {
            AskAnswer::Hit(hit) => {
                stack.accept(&mut call, &hit);
                hit.value().to_vec()
            }
            AskAnswer::Run => {
                stack.store(&mut call, value, None);
                value.to_vec()
            }
            AskAnswer::Wait(_) | AskAnswer::Leave => panic!("no other process is here"),
        }
    };
    assert_eq!(call(b"1"), b"1");
    assert_eq!(call(b"2"), b"1");
    stack.forget(&names[1]);
    assert_eq!(call(b"3"), b"3");
    let mut run = begin();
    stack.delete(b"k", &names);
    assert!(matches!(stack.ask(&mut run), AskAnswer::Run));
    stack.delete(b"k", &names);
    let stored = stack.store(&mut run, b"old", None);
    assert_eq!(stored, StoredInTiers::Overtaken);
    server.stop();
    assert_eq!(call(b"4"), b"4");
    assert_eq!(stack.delete(b"k", &names).failures.len(), 1);
    server.restart();
    assert_eq!(call(b"5"), b"5");
    assert_eq!(call(b"6"), b"5");
}

/// One process among those of a server, as far as a tier can tell.
struct Sharer {
    tier: Arc<RedisTier>,
    stack: TierStack,
}

fn process(server: &RedisServer) -> Sharer {
    let tier = Arc::new(tier(&server.url()));
    let gate = GateSettings {
        breaker: None,
        pressure: None,
    };
    let stack = TierStack::new(vec![tier.clone() as Arc<dyn Tier>], gate, support::host());
    Sharer { tier, stack }
}

#[test]
fn redis_wakes_who_waits_for_a_lease() {
    let server = RedisServer::start(&[]);
    let (holder, waiter) = (process(&server), process(&server));
    let listening = waiter.tier.clone();
    let (sender, received) = std::sync::mpsc::channel();
    let is_over = Arc::new(AtomicBool::new(false));
    let thread = {
        let is_over = is_over.clone();
        thread::spawn(move || {
            listening.listen(|notice| {
                if notice == ListenEvent::Began {
                    sender.send(()).unwrap();
                }
                !is_over.load(Ordering::SeqCst)
            })
        })
    };
    received.recv().unwrap();
    let wait = LeaseRule::Wait { limit_ms: 600_000 };
    let mut first = holder.stack.begin(b"k", vec![[1; 32]], false, wait);
    assert!(matches!(holder.stack.ask(&mut first), AskAnswer::Run));
    let mut second = waiter.stack.begin(b"k", vec![[1; 32]], false, wait);
    // It looks once more before it waits long.
    for _ in 0..2 {
        assert!(matches!(waiter.stack.ask(&mut second), AskAnswer::Wait(_)));
    }
    thread::spawn(move || holder.stack.store(&mut first, b"v", None));
    assert!(waiter.stack.pause(&mut second, Duration::from_mins(1)));
    match waiter.stack.ask(&mut second) {
        AskAnswer::Hit(hit) => assert_eq!(hit.value(), b"v"),
        _ => panic!("the value is there"),
    }
    is_over.store(true, Ordering::SeqCst);
    thread.join().unwrap().unwrap();
}
