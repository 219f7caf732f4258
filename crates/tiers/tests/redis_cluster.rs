//! A Redis Cluster of two real servers: which one is used, and what is left of it when the slot
//! moves on.

use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tiers::{
    LeaseAct, LeaseAnswer, ListenEvent, Lookup, NotingTier, RedisTier, Stored, Tier, TierFault,
};

mod support;

use support::read;
use support::redis_server::{RedisServer, settings};

/// Slots of a Cluster, the first half of which is the first server's.
const SLOTS: u16 = 16_384;

/// A port that was free a moment ago, whose second one, for the Cluster itself, was as well.
fn port() -> u16 {
    loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        if let Some(other) = port.checked_add(10_000)
            && TcpListener::bind(("127.0.0.1", other)).is_ok()
        {
            return port;
        }
    }
}

struct Cluster {
    servers: [RedisServer; 2],
    ports: [u16; 2],
}

impl Cluster {
    fn start() -> Cluster {
        let ports = [port(), port()];
        let servers = ports.map(|port| {
            let port = port.to_string();
            let words = ["--bind", "127.0.0.1", "--port", &port];
            let own = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"];
            RedisServer::start(&[words.as_slice(), own.as_slice()].concat())
        });
        let cluster = Cluster { servers, ports };
        let half = (SLOTS / 2).to_string();
        let (first_end, last) = ((SLOTS / 2 - 1).to_string(), (SLOTS - 1).to_string());
        cluster.says(0, &["CLUSTER", "ADDSLOTSRANGE", "0", &first_end]);
        cluster.says(1, &["CLUSTER", "ADDSLOTSRANGE", &half, &last]);
        let second = ports[1].to_string();
        cluster.says(0, &["CLUSTER", "MEET", "127.0.0.1", &second]);
        let is_ready =
            |index| (cluster.says(index, &["CLUSTER", "INFO"])).contains("cluster_state:ok");
        while !(is_ready(0) && is_ready(1)) {
            thread::sleep(Duration::from_millis(10));
        }
        cluster
    }

    fn says(&self, index: usize, words: &[&str]) -> String {
        let mut client = Command::new("redis-cli");
        let client = client.arg("-s").arg(self.servers[index].socket());
        let output = client.args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn url(&self, index: usize) -> String {
        format!("redis://127.0.0.1:{}", self.ports[index])
    }

    /// By the server of that number alone, whose prefix is in a slot of the other one if `is_far`.
    fn tier(&self, index: usize, is_far: bool) -> (RedisTier, String) {
        let prefix = (0..1_000)
            .map(|number| format!("p{number}:"))
            .find(|prefix| {
                let key = format!("{{tidemark:{prefix}}}");
                let slot: u16 = self.says(0, &["CLUSTER", "KEYSLOT", &key]).parse().unwrap();
                let is_of_first = slot < SLOTS / 2;
                (is_of_first == (index == 0)) != is_far
            });
        let prefix = prefix.unwrap();
        (self.tier_of(index, &[], &prefix), prefix)
    }

    fn tier_of(&self, index: usize, others: &[String], prefix: &str) -> RedisTier {
        let mut settings = settings(&self.url(index));
        prefix.clone_into(&mut settings.prefix);
        RedisTier::in_cluster(settings, others, support::host()).unwrap()
    }
}

#[test]
fn redis_of_a_cluster_is_found_by_any_of_its_servers() {
    let cluster = Cluster::start();
    for (index, is_far) in [(0, false), (0, true), (1, false), (1, true)] {
        let (tier, prefix) = cluster.tier(index, is_far);
        tier.check().unwrap();
        let Lookup::Miss(ticket) = tier.get(b"k").unwrap() else {
            panic!("a hit");
        };
        let stored = tier.set(b"k", b"v", None, Some(ticket)).unwrap();
        assert_eq!(stored, Stored::Kept);
        tier.set(b"other", b"w", Some(60_000), None).unwrap();
        assert_eq!(read(&tier, b"k").unwrap().as_deref(), Some(&b"v"[..]));
        let owner = index ^ usize::from(is_far);
        let key = format!("{{tidemark:{prefix}}}{{6b}}");
        assert!(cluster.says(owner, &["GET", &key]).ends_with('v'), "{key}");
        // It takes three keys, and publishes that it was given back.
        let holder = [7; 16];
        let take = LeaseAct::Take { lifetime_ms: 9_000 };
        let leases = tier.leases().unwrap();
        assert_eq!(leases.lease(b"k", &holder, take).unwrap(), LeaseAnswer::Own);
        assert_eq!(
            leases.lease(b"k", &[8; 16], take).unwrap(),
            LeaseAnswer::Other
        );
        let given_back = leases.lease(b"k", &holder, LeaseAct::Release).unwrap();
        assert_eq!(given_back, LeaseAnswer::Own);
        assert!(tier.delete(b"k").unwrap());
        assert_eq!(read(&tier, b"k").unwrap(), None);
        tier.clear().unwrap();
        assert_eq!(read(&tier, b"other").unwrap(), None);
    }
}

#[test]
fn redis_of_a_cluster_passes_notices_on_between_its_servers() {
    let cluster = Cluster::start();
    let (near, prefix) = cluster.tier(0, false);
    let far = cluster.tier_of(1, &[], &prefix);
    let listener = thread::spawn(move || {
        let mut heard = Vec::new();
        let listened = far.listen(|event| {
            match event {
                ListenEvent::Began => drop(near.delete_noted(b"k", b"it changed").unwrap()),
                ListenEvent::Notice(notice) => heard = notice.to_vec(),
                ListenEvent::Quiet => {}
            }
            heard.is_empty()
        });
        listened.unwrap();
        heard
    });
    assert_eq!(listener.join().unwrap(), b"it changed");
}

#[test]
fn redis_of_a_cluster_is_followed_when_the_slot_moves() {
    let cluster = Cluster::start();
    let (tier, prefix) = cluster.tier(0, false);
    tier.set(b"k", b"old", None, None).unwrap();
    let slot = cluster.says(
        0,
        &["CLUSTER", "KEYSLOT", &format!("{{tidemark:{prefix}}}")],
    );
    let ids = [0, 1].map(|index| cluster.says(index, &["CLUSTER", "MYID"]));
    cluster.says(1, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[0]]);
    cluster.says(0, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[1]]);
    // What has not been moved is answered; what may be elsewhere is an error, and no miss that
    // would be stored on one server while the other one has its token.
    assert_eq!(read(&tier, b"k").unwrap().as_deref(), Some(&b"old"[..]));
    let error = tier.get(b"new").unwrap_err();
    assert_eq!(error.fault, TierFault::Io, "{error}");
    let fresh = cluster.tier_of(1, &[], &prefix);
    assert_eq!(read(&fresh, b"k").unwrap().as_deref(), Some(&b"old"[..]));

    let key = format!("{{tidemark:{prefix}}}{{6b}}");
    let port = cluster.ports[1].to_string();
    cluster.says(0, &["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]);
    assert_eq!(tier.get(b"k").unwrap_err().fault, TierFault::Io);
    assert_eq!(
        tier.set(b"k", b"lost", None, None).unwrap_err().fault,
        TierFault::Io
    );
    for index in [1, 0] {
        cluster.says(index, &["CLUSTER", "SETSLOT", &slot, "NODE", &ids[1]]);
    }
    // The connection that is there finds out by the first call, and the next call makes another.
    let begin = Instant::now();
    let found = loop {
        match read(&tier, b"k") {
            Ok(found) => break found,
            Err(error) => assert!(begin.elapsed().as_secs() < 60, "{error}"),
        }
    };
    assert_eq!(found.as_deref(), Some(&b"old"[..]));
    tier.set(b"k", b"now", None, None).unwrap();
    assert!(cluster.says(1, &["GET", &key]).ends_with("now"));
}

#[test]
fn redis_of_a_cluster_is_found_by_another_server_when_one_is_gone() {
    let mut cluster = Cluster::start();
    let (_, prefix) = cluster.tier(1, false);
    let both = cluster.tier_of(0, &[cluster.url(1)], &prefix);
    let one = cluster.tier_of(0, &[], &prefix);
    cluster.servers[0].stop();
    both.set(b"k", b"v", None, None).unwrap();
    assert_eq!(one.get(b"k").unwrap_err().fault, TierFault::Io);
    assert_eq!(read(&both, b"k").unwrap().as_deref(), Some(&b"v"[..]));
    // Without the first half of its slots the Cluster ends its service, which is an error.
    let begin = Instant::now();
    while both.get(b"k").is_ok() {
        assert!(begin.elapsed().as_secs() < 60, "it goes on");
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(both.get(b"k").unwrap_err().fault, TierFault::Io);
}

#[test]
fn redis_of_a_cluster_that_does_not_answer_takes_the_time_for_connecting() {
    // The system accepts connections, and no one reads them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let mut patient = settings(&url);
    patient.connect_timeout = Duration::from_millis(100);
    // A call would wait for longer than this test may run.
    patient.timeout = Duration::from_hours(1);
    let others = vec![url; 16];
    let tier = RedisTier::in_cluster(patient, &others, support::host()).unwrap();
    assert_eq!(tier.get(b"k").unwrap_err().fault, TierFault::Io);
}

#[test]
fn redis_of_a_cluster_is_named_by_addresses_that_can_be_one() {
    let wrong = |url: &str, others: &[&str], words: &str| {
        let others: Vec<String> = others.iter().map(|url| (*url).to_owned()).collect();
        let made = RedisTier::in_cluster(settings(url), &others, support::host());
        let error = made.err().unwrap();
        assert_eq!(error.fault, TierFault::Off, "{error}");
        assert!(error.text.contains(words), "{error}");
        assert!(!error.text.contains("secret"), "{error}");
    };
    wrong("redis://:secret@a/2", &[], "no database but 0");
    wrong("redis://a", &["redis://:secret@b/1"], "no database but 0");
    wrong(
        "redis://a",
        &["http://:secret@b"],
        "address 1 of the servers of the Cluster",
    );
    wrong(
        "redis://a",
        &["redis://b"; 17],
        "17 servers of the Cluster, not 16",
    );
    // One that sends its clients around in a circle.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for mut client in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut piece = [0; 4_096];
                while let Ok(1..) = client.read(&mut piece) {
                    let said = format!("-MOVED 1 {address}\r\n");
                    if client.write_all(said.as_bytes()).is_err() {
                        break;
                    }
                }
            });
        }
    });
    let url = format!("redis://{address}");
    let tier = RedisTier::in_cluster(settings(&url), &[], support::host()).unwrap();
    let error = tier.get(b"k").unwrap_err();
    assert_eq!(error.fault, TierFault::Io, "{error}");
    assert!(error.text.contains("and its Cluster"), "{error}");
}
