//! A server that Sentinel names, by real Sentinels: which one is used, and what is left of it when
//! another takes its place.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tiers::{ListenEvent, Lookup, NotingTier, RedisTier, Stored, Tier, TierError, TierFault};

mod support;

use support::read;
use support::redis_server::{RedisServer, settings};

fn by_sentinels(url: &str, sentinels: &[String]) -> Result<RedisTier, TierError> {
    RedisTier::by_sentinels(settings(url), sentinels, support::host())
}

/// A port that was free a moment ago.
fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A server and its copy, and a Sentinel that watches them.
struct Watched {
    first: RedisServer,
    second: RedisServer,
    sentinel: Child,
    sentinel_port: u16,
    _folder: TempDir,
}

fn redis(port: u16, words: &[&str]) -> RedisServer {
    let port = port.to_string();
    let own = ["--bind", "127.0.0.1", "--port", &port];
    RedisServer::start(&[&own, words].concat())
}

fn said(server: &RedisServer, words: &[&str]) -> String {
    let mut client = Command::new("redis-cli");
    let output = client.arg("-s").arg(server.socket()).args(words).output();
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}

impl Watched {
    fn start() -> Watched {
        let (first_port, second_port, sentinel_port) = (port(), port(), port());
        let first = redis(first_port, &[]);
        let copied = first_port.to_string();
        let second = redis(second_port, &["--replicaof", "127.0.0.1", &copied]);
        while !said(&second, &["INFO", "replication"]).contains("master_link_status:up") {
            thread::sleep(Duration::from_millis(10));
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sentinel.conf");
        let lines = format!(
            "port {sentinel_port}\nbind 127.0.0.1\n\
             sentinel monitor cache 127.0.0.1 {first_port} 1\n\
             sentinel down-after-milliseconds cache 300\n\
             sentinel failover-timeout cache 3000\n"
        );
        std::fs::File::create(&file)
            .and_then(|mut file| file.write_all(lines.as_bytes()))
            .unwrap();
        let sentinel = Command::new("redis-server")
            .arg(&file)
            .arg("--sentinel")
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let watched = Watched {
            first,
            second,
            sentinel,
            sentinel_port,
            _folder: folder,
        };
        while !watched.sentinel_says("replicas").contains("slave") {
            thread::sleep(Duration::from_millis(10));
        }
        watched
    }

    fn sentinel_says(&self, what: &str) -> String {
        let port = self.sentinel_port.to_string();
        let mut client = Command::new("redis-cli");
        let output = client
            .args(["-p", &port, "SENTINEL", what, "cache"])
            .output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    }

    /// By a Sentinel that is gone, and this one.
    fn tier(&self, url: &str) -> RedisTier {
        let sentinels = [
            format!("redis://127.0.0.1:{}", port()),
            format!("redis://127.0.0.1:{}", self.sentinel_port),
        ];
        by_sentinels(url, &sentinels).unwrap()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.sentinel.kill();
        let _ = self.sentinel.wait();
    }
}

#[test]
fn redis_by_sentinel_is_the_one_that_takes_writes() {
    let mut watched = Watched::start();
    let tier = watched.tier("redis://cache/3");
    tier.check().unwrap();
    let Lookup::Miss(ticket) = tier.get(b"k").unwrap() else {
        panic!("nothing is stored")
    };
    let kept = tier.set(b"k", b"v", None, Some(ticket)).unwrap();
    assert_eq!(kept, Stored::Kept);
    // The copy has it, by which the test knows that both are of one service.
    while said(&watched.second, &["-n", "3", "DBSIZE"]).trim() != "1" {
        thread::sleep(Duration::from_millis(5));
    }
    watched.first.stop();
    // An error each time until the copy has taken its place, and then what it has.
    let found = loop {
        match read(&tier, b"k") {
            Ok(found) => break found,
            Err(error) => assert_eq!(error.fault, TierFault::Io, "{error}"),
        }
        thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(found.unwrap(), b"v");
    assert!(said(&watched.second, &["ROLE"]).contains("master"));
    tier.delete(b"k").unwrap();
    assert_eq!(read(&tier, b"k").unwrap(), None);
    assert_eq!(tier.set(b"k", b"w", None, None).unwrap(), Stored::Kept);
}

#[test]
fn redis_by_sentinel_is_left_when_it_becomes_a_copy() {
    let watched = Watched::start();
    let tier = watched.tier("redis://cache");
    tier.set(b"k", b"v", None, None).unwrap();
    // Sentinel refuses until it knows enough of the copy. The connection to the first server stays
    // until Sentinel ends it.
    while said(&watched.second, &["ROLE"]).contains("slave") {
        watched.sentinel_says("failover");
        thread::sleep(Duration::from_millis(100));
    }
    while !said(&watched.first, &["ROLE"]).contains("slave") {
        thread::sleep(Duration::from_millis(5));
    }
    while tier.set(b"k", b"w", None, None).is_err() {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(read(&tier, b"k").unwrap().unwrap(), b"w");
    let own = said(&watched.second, &["GET", "test:{6b}"]);
    assert!(own.trim_end().ends_with('w'), "{own:?}");
}

#[test]
fn redis_by_sentinel_passes_notices_on() {
    let watched = Watched::start();
    let (sender, listener) = (watched.tier("redis://cache"), watched.tier("redis://cache"));
    let mut received = Vec::new();
    let ended = listener.listen(|notice| {
        match notice {
            ListenEvent::Began => drop(sender.delete_noted(b"k", b"this").unwrap()),
            ListenEvent::Notice(bytes) => received.extend(bytes.to_vec()),
            ListenEvent::Quiet => {}
        }
        received.is_empty()
    });
    ended.unwrap();
    assert_eq!(received, b"this");
}

#[test]
fn redis_by_sentinel_says_what_is_wrong() {
    let watched = Watched::start();
    let error = watched.tier("redis://:secret@other").check().unwrap_err();
    assert_eq!(error.fault, TierFault::Io);
    assert!(error.text.contains("other by Sentinel"), "{error}");
    assert!(
        error.text.contains("knows no service of this name"),
        "{error}"
    );
    // No Sentinel, or a server where one should be.
    let server = redis(port(), &[]);
    for sentinels in [
        vec![format!("redis://127.0.0.1:{}", port())],
        vec![server.url()],
        vec!["redis://127.0.0.1:1".to_owned(); 16],
    ] {
        let tier = by_sentinels("redis://:secret@cache", &sentinels).unwrap();
        let error = tier.check().unwrap_err();
        assert_eq!(error.fault, TierFault::Io, "{error}");
        assert!(!error.text.contains("secret"), "{error}");
    }
}

#[test]
fn redis_by_sentinel_says_which_address_is_wrong() {
    let good = "redis://host";
    for (url, sentinels, whose) in [
        (
            "redis://cache",
            vec![good, "http://:secret@host"],
            "address 2 of the Sentinels",
        ),
        (
            "redis://cache",
            vec!["redis://:secret@host?x=1"],
            "address 1 of the Sentinels",
        ),
        (
            "http://:secret@cache",
            vec![good],
            "the address of the Redis server",
        ),
        (
            "redis://:secret@cache?x=1",
            vec![good],
            "the address of the Redis server",
        ),
        (
            "redis+unix:///secret",
            vec![good],
            "Sentinel knows no sockets",
        ),
        ("redis://cache", vec![good; 17], "17 Sentinels, not 16"),
    ] {
        let sentinels: Vec<String> = sentinels.into_iter().map(str::to_owned).collect();
        let error = by_sentinels(url, &sentinels).err().unwrap();
        assert_eq!(error.fault, TierFault::Off);
        assert!(error.text.starts_with(whose), "{error}");
        assert!(!error.text.contains("secret"), "{error}");
    }
}

#[test]
fn redis_by_sentinel_that_answers_anything_costs_no_more_than_its_time() {
    let answers: [&[u8]; 7] = [
        b"*2\r\n$1\r\na\r\n$5\r\n99999\r\n",
        b"*2\r\n$4\r\n\0\xff..\r\n$1\r\n1\r\n",
        b"*1\r\n$1\r\na\r\n",
        b"*3\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\n1\r\n",
        b"*1000000\r\n",
        b"$100\r\n",
        b"-IDONTKNOW\r\n",
    ];
    for answer in answers {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            let answer_one = |mut client: TcpStream| client.write_all(answer);
            let kept: Vec<_> = listener.incoming().flatten().map(answer_one).collect();
            drop(kept);
        });
        let mut hurried = settings("rediss://cache");
        hurried.connect_timeout = Duration::from_millis(40);
        let tier =
            RedisTier::by_sentinels(hurried, &[url.clone(), url.clone(), url], support::host());
        let tier = tier.unwrap();
        tier.check().unwrap_err();
    }
}
