//! A server that is no Redis: whatever it answers, a call goes on without it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use tiers::{
    LeaseAct, ListenEvent, Lookup, NOTICE_BYTES_MAX, NotingTier, RedisTier, Tier, TierFault,
};

mod support;

use support::Numbers;
use support::redis_server::{RedisServer, settings, tier};

/// Answers each piece it reads with these bytes; its address.
fn server_of(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || answer_all(client, &answer));
        }
    });
    url
}

fn answer_all(mut client: TcpStream, answer: &[u8]) {
    let mut piece = [0; 4_096];
    while let Ok(1..) = client.read(&mut piece) {
        if client.write_all(answer).is_err() {
            break;
        }
    }
}

fn hurried(url: &str) -> RedisTier {
    let mut settings = settings(url);
    settings.timeout = Duration::from_millis(20);
    settings.connect_timeout = Duration::from_millis(20);
    RedisTier::new(settings, support::host()).unwrap()
}

/// Everything a call does. None of it panics, and no value is found.
fn use_tier(tier: &dyn Tier) {
    let ticket = match tier.get(b"k") {
        Ok(Lookup::Miss(ticket)) => Some(ticket),
        Ok(Lookup::Hit(hit)) => panic!("{hit:?}"),
        Err(_) => None,
    };
    let _ = tier.ticket(b"k");
    let _ = tier.set(b"k", b"v", Some(5), ticket);
    let take = LeaseAct::Take { lifetime_ms: 5 };
    let _ = tier.leases().unwrap().lease(b"k", &[1; 16], take);
    let _ = tier.delete(b"k");
    let _ = tier.check();
}

#[test]
fn redis_that_answers_anything_costs_no_more_than_its_time() {
    let deep = b"*1\r\n".repeat(100_000);
    let answers: [&[u8]; 20] = [
        b"",
        b"\r\n",
        b"+OK\r\n",
        b":7\r\n",
        b"$-1\r\n",
        b"$-2\r\n",
        b"$3\r\nabcde",
        b"$9223372036854775807\r\n",
        b"$99999999999999999999999\r\n",
        b"*9223372036854775807\r\n",
        b"*-7\r\n",
        b"*2\r\n$-1\r\n:-2\r\n",
        b"*2\r\n*0\r\n*0\r\n",
        b"%1\r\n+a\r\n+b\r\n",
        b">2\r\n+message\r\n+a\r\n",
        b"|1\r\n+a\r\n+b\r\n",
        b"-ERR \xff\xfe\r\n",
        b"-MOVED 1 :0\r\n",
        b"(123456789012345678901234567890\r\n",
        &deep,
    ];
    for answer in answers {
        let url = server_of(answer.to_vec());
        use_tier(&hurried(&format!("redis://{url}")));
    }
    for answer in [
        b"+OK\r\n".as_slice(),
        b":7\r\n:7\r\n:7\r\n",
        b"\x15\x03\x01\0\x02\x02\x28",
    ] {
        let url = server_of(answer.to_vec());
        use_tier(&hurried(&format!("redis://user:password@{url}/3")));
        use_tier(&hurried(&format!("rediss://{url}")));
    }
}

#[test]
fn redis_that_answers_by_chance_costs_no_more_than_its_time() {
    let rounds = if support::is_night() { 3_000 } else { 20 };
    let parts: [&[u8]; 12] = [
        b"*", b"$", b":", b"+", b"-", b"\r\n", b"1", b"2", b"25", b"-1", b"\0", b"ERR ",
    ];
    let mut numbers = Numbers(7);
    for _ in 0..rounds {
        let length = numbers.below(30);
        let pieces = (0..length).map(|_| parts[numbers.below(12) as usize]);
        let answer: Vec<u8> = pieces.collect::<Vec<_>>().concat();
        let url = server_of(answer);
        use_tier(&hurried(&format!("redis://{url}")));
    }
}

/// Answers with these bytes, and then for ever with one byte after the other; its address.
fn dripping(answer: &'static [u8], drop: u8) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut is_open = client.write_all(answer).is_ok();
                while is_open {
                    thread::sleep(Duration::from_millis(1));
                    is_open = client.write_all(&[drop]).is_ok();
                }
            });
        }
    });
    url
}

#[test]
fn redis_that_answers_byte_by_byte_costs_no_more_than_its_time() {
    // A server that goes on for ever would keep a call for ever that counts each byte's time.
    for (answer, drop) in [
        (&b"$1000000\r\n"[..], b'x'),
        (b"+", b'x'),
        (b":", b'1'),
        (b"-", b'e'),
        (b"*100\r\n:1\r\n$9000\r\n", b'x'),
        (b"*3\r\n$7\r\nmessage\r\n$900\r\n", b'x'),
    ] {
        let url = dripping(answer, drop);
        use_tier(&hurried(&format!("redis://{url}")));
        use_tier(&hurried(&format!("redis://:password@{url}/3")));
        let listened = hurried(&format!("redis://{url}")).listen(|_| true);
        assert_eq!(listened.unwrap_err().fault, TierFault::Io);
    }
    let subscribed = b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$7\r\nmessage\r\n$900\r\n";
    let url = dripping(subscribed, b'x');
    let listened = hurried(&format!("redis://{url}")).listen(|_| true);
    assert_eq!(listened.unwrap_err().fault, TierFault::Io);
    // The head of a record that is to have 16 KiB.
    let url = dripping(b"\x16\x03\x03\x40\x00", 0);
    use_tier(&hurried(&format!("rediss://{url}")));
}

#[test]
fn redis_that_takes_nothing_costs_no_more_than_its_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let _kept = thread::spawn(move || listener.incoming().flatten().collect::<Vec<_>>());
    let value = vec![0; 64 << 20];
    let error = hurried(&url).set(b"k", &value, None, None).unwrap_err();
    assert_eq!(error.fault, TierFault::Io, "{error}");
}

#[test]
fn redis_answer_above_the_limit_is_refused_and_the_next_call_goes_on() {
    let server = RedisServer::start(&[]);
    let mut narrow = settings(&server.url());
    narrow.answer_bytes_max = 1_000;
    let narrow = RedisTier::new(narrow, support::host()).unwrap();
    narrow.set(b"k", &[7; 2_000], None, None).unwrap();
    narrow.set(b"small", &[7; 900], None, None).unwrap();
    for _ in 0..3 {
        let error = support::read(&narrow, b"k").unwrap_err();
        assert_eq!(error.fault, TierFault::TooLarge, "{error}");
        assert!(error.text.contains("too large"), "{error}");
        assert_eq!(
            support::read(&narrow, b"small").unwrap().unwrap().len(),
            900
        );
    }
    for claim in [
        &b"$9223372036854775807\r\n"[..],
        b"*1000000000\r\n",
        b"*9\r\n$9\r\n",
    ] {
        let url = server_of(claim.to_vec());
        use_tier(&hurried(&format!("redis://{url}")));
    }
}

#[test]
fn redis_that_answers_twice_gives_no_answer_to_another_call() {
    let url = server_of(b"$3\r\nabc\r\n:-1\r\n$3\r\ndef\r\n".to_vec());
    let error = tier(&format!("redis://{url}")).get(b"k").unwrap_err();
    assert!(error.text.contains("answers what was not sent"), "{error}");
}

#[test]
fn redis_of_a_cluster_that_is_not_named_as_such_says_so() {
    let url = server_of(b"-MOVED 866 127.0.0.1:7001\r\n".to_vec());
    let error = tier(&format!("redis://{url}")).check().unwrap_err();
    assert_eq!(error.fault, TierFault::Off, "{error}");
    assert!(error.text.contains("one of a Redis Cluster"), "{error}");
}

#[test]
fn redis_user_may_do_no_more_than_its_acl_says() {
    let server = RedisServer::start(&[]);
    let set_up = Command::new("redis-cli")
        .arg("-s")
        .arg(server.socket())
        .args([
            "ACL", "SETUSER", "reader", "on", ">right", "~test:*", "+get", "+pttl",
        ])
        .output()
        .unwrap();
    assert!(set_up.status.success());
    let url = format!("{}?user=reader&pass=right&db=0", server.url());
    let reader = tier(&url);
    let error = reader.set(b"k", b"v", None, None).unwrap_err();
    assert_eq!(error.fault, TierFault::Off, "{error}");
    assert!(!error.text.contains("right"), "{error}");
    let whole = tier(&server.url());
    whole.set(b"k", b"v", None, None).unwrap();
    assert!(support::read(&reader, b"k").unwrap().is_some());
    // Another database has other records.
    let other = tier(&format!("{}?db=5", server.url()));
    assert!(support::read(&other, b"k").unwrap().is_none());
}

#[test]
fn notices_reach_all_that_listen_and_are_bounded() {
    let server = RedisServer::start(&[]);
    let sender = tier(&server.url());
    sender.delete_noted(b"k", b"to nobody").unwrap();
    let too_large = vec![0; NOTICE_BYTES_MAX + 1];
    let error = sender.delete_noted(b"k", &too_large).unwrap_err();
    assert_eq!(error.fault, TierFault::TooLarge);
    let largest = vec![7; NOTICE_BYTES_MAX];
    let mut received = Vec::new();
    let listener = tier(&server.url());
    let announced = listener.listen(|notice| {
        match notice {
            ListenEvent::Began => {
                sender.delete_noted(b"k", b"x").unwrap();
                sender.delete_noted(b"k", b"").unwrap();
                sender.delete_noted(b"k", &largest).unwrap();
            }
            ListenEvent::Notice(bytes) => received.push(bytes.len()),
            ListenEvent::Quiet => {}
        }
        received.len() < 2
    });
    announced.unwrap();
    assert_eq!(received, [1, NOTICE_BYTES_MAX]);
}

#[test]
fn listener_ends_with_its_connection() {
    let mut server = RedisServer::start(&[]);
    let listener = tier(&server.url());
    let ended = listener.listen(|notice| {
        if notice == ListenEvent::Began {
            server.stop();
        }
        true
    });
    assert_eq!(ended.unwrap_err().fault, TierFault::Io);
    let mut server = RedisServer::start(&[]);
    let mut events = 0;
    tier(&server.url())
        .listen(|_| {
            events += 1;
            events < 3
        })
        .unwrap();
    server.stop();
    assert_eq!(events, 3);
}
