//! A Memcached server as a tier of whole records, by a real one, and by ones that are none.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tiers::{
    Lookup, MemcachedStore, MissTicket, RecordTier, Stored, Tier, TierFault, TierServer, TierTls,
};

mod support;

use support::certificates::certify;
use support::{Numbers, read};

type MemcachedTier = RecordTier<MemcachedStore>;

/// A server on a socket in a folder. It ends with this.
struct Memcached {
    folder: TempDir,
    child: Child,
}

fn started(words: &[&str]) -> Child {
    Command::new("memcached")
        .args(["-u", "root", "-U", "0"])
        .args(words)
        .spawn()
        .expect("memcached is on the path: apt-get install memcached")
}

impl Memcached {
    fn start() -> Memcached {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let child = started(&["-s", path.to_str().unwrap()]);
        let mut server = Memcached { folder, child };
        server.wait();
        server
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn wait(&mut self) {
        while UnixStream::connect(self.socket()).is_err() {
            let ended = self.child.try_wait().unwrap();
            assert_eq!(ended, None, "memcached has ended");
            thread::sleep(Duration::from_millis(2));
        }
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
        let _ = std::fs::remove_file(self.socket());
    }

    /// Another one in its place, which holds nothing.
    fn restart(&mut self) {
        self.stop();
        self.child = started(&["-s", self.socket().to_str().unwrap()]);
        self.wait();
    }

    fn tier(&self) -> MemcachedTier {
        tier(settings(&format!(
            "memcached+unix://{}",
            self.socket().display()
        )))
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        self.stop();
    }
}

fn settings(url: &str) -> TierServer {
    TierServer {
        url: url.to_owned(),
        tls: TierTls::default(),
        prefix: "test:".to_owned(),
        connect_timeout: Duration::from_secs(5),
        timeout: Duration::from_secs(5),
        answer_bytes_max: 4 << 20,
        idle_max: 4,
    }
}

fn tier(settings: TierServer) -> MemcachedTier {
    let host = support::host();
    RecordTier::new(MemcachedStore::new(settings, &host).unwrap(), host)
}

fn ticket(tier: &dyn Tier, key: &[u8]) -> MissTicket {
    match tier.get(key).unwrap() {
        Lookup::Miss(ticket) => ticket,
        Lookup::Hit(hit) => panic!("{hit:?}"),
    }
}

#[test]
fn memcached_reads_back_what_was_stored_until_it_is_deleted_or_lost() {
    let mut server = Memcached::start();
    let tier = server.tier();
    tier.check().unwrap();
    let every_byte: Vec<u8> = (0..=255).collect();
    let large = vec![7; 900_000];
    for value in [&b""[..], b"one", b"END\r\nVA 3\r\n", &every_byte, &large] {
        assert_eq!(tier.set(b"k", value, None, None).unwrap(), Stored::Kept);
        assert!(read(&tier, b"k").unwrap().as_deref() == Some(value));
        assert_eq!(read(&tier, b"").unwrap(), None);
    }
    assert!(tier.delete(b"k").unwrap());
    assert!(!tier.delete(b"k").unwrap());
    assert_eq!(read(&tier, b"k").unwrap(), None);
    tier.set(b"k", b"v", Some(60_000), None).unwrap();
    let before = tier.ticket(b"k").unwrap();
    server.restart();
    assert_eq!(tier.check().unwrap_err().fault, TierFault::Io);
    tier.check().unwrap();
    assert_eq!(read(&tier, b"k").unwrap(), None);
    // Of a server that is gone.
    let stored = tier.set(b"k", b"late", None, Some(before)).unwrap();
    assert_eq!(stored, Stored::Overtaken);
    assert_eq!(read(&tier, b"k").unwrap(), None);
    server.stop();
    assert_eq!(read(&tier, b"k").unwrap_err().fault, TierFault::Io);
}

#[test]
fn memcached_gives_nothing_that_a_deletion_has_overtaken() {
    let server = Memcached::start();
    let (tier, other) = (server.tier(), server.tier());
    let before = ticket(&tier, b"k");
    let kept = tier.set(b"k", b"1", Some(60_000), Some(before)).unwrap();
    assert_eq!(kept, Stored::Kept);
    other.delete(b"k").unwrap();
    let stored = tier.set(b"k", b"2", None, Some(before)).unwrap();
    assert_eq!(stored, Stored::Overtaken);
    assert_eq!(read(&tier, b"k").unwrap(), None);
    tier.set(b"brief", b"v", Some(1), None).unwrap();
    thread::sleep(Duration::from_millis(5));
    assert_eq!(read(&tier, b"brief").unwrap(), None);
    // What it cannot do says so.
    assert!(tier.leases().is_none());
    assert_eq!(tier.clear().unwrap_err().fault, TierFault::Off);
}

#[test]
fn memcached_value_above_a_limit_is_refused_and_the_next_call_goes_on() {
    let server = Memcached::start();
    let tier_of = |answer_bytes_max| {
        let url = format!("memcached+unix://{}", server.socket().display());
        let mut narrow = settings(&url);
        narrow.answer_bytes_max = answer_bytes_max;
        tier(narrow)
    };
    let (wide, narrow) = (tier_of(4 << 20), tier_of(1_000));
    // The server's own limit is 1 MB.
    let error = wide.set(b"k", &vec![0; 2 << 20], None, None).unwrap_err();
    assert_eq!(error.fault, TierFault::TooLarge, "{error}");
    wide.set(b"k", &[7; 2_000], None, None).unwrap();
    for _ in 0..3 {
        let error = read(&narrow, b"k").unwrap_err();
        assert_eq!(error.fault, TierFault::TooLarge, "{error}");
        assert_eq!(read(&narrow, b"other").unwrap(), None);
    }
    let error = wide.set(&[0; 300], b"v", None, None).unwrap_err();
    assert_eq!(error.fault, TierFault::TooLarge, "{error}");
}

/// Answers each piece with these bytes, and then, if there are any, with more for ever.
fn answering(answer: Vec<u8>, more: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("memcached://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let answer = answer.clone();
            thread::spawn(move || answer_all(client, &answer, more));
        }
    });
    url
}

fn answer_all(mut client: TcpStream, answer: &[u8], more: &[u8]) {
    let mut piece = [0; 4_096];
    while let Ok(1..) = client.read(&mut piece) {
        let mut is_open = client.write_all(answer).is_ok();
        while is_open && !more.is_empty() {
            thread::sleep(Duration::from_millis(1));
            is_open = client.write_all(more).is_ok();
        }
        if !is_open {
            break;
        }
    }
}

/// Everything a call does. None of it panics, and no value is found.
fn use_tier(url: &str) {
    let mut hurried = settings(url);
    hurried.timeout = Duration::from_millis(20);
    hurried.connect_timeout = Duration::from_millis(20);
    let tier = tier(hurried);
    if let Ok(Lookup::Hit(hit)) = tier.get(b"k") {
        panic!("{hit:?}")
    }
    let _ = tier.ticket(b"k");
    let _ = tier.set(b"k", b"v", Some(5), None);
    let _ = tier.delete(b"k");
    let _ = tier.check();
}

#[test]
fn memcached_that_answers_anything_costs_no_more_than_its_time() {
    for answer in [
        "",
        "\r\n",
        "HD\r\n",
        "EN\r\n",
        "VA\r\n",
        "VA 0\r\n\r\n",
        "VA 3\r\nabcde",
        "VA -1\r\n",
        "VA 99999999999999999999\r\n",
        "VA 4194305\r\n",
        "VA 16\r\n0123456789abcdef\r\n",
        "SERVER_ERROR \u{fffd}\r\n",
        "CLIENT_ERROR bad\r\n",
        "HD\r\nHD\r\n",
        "HD\n",
    ] {
        use_tier(&answering(answer.as_bytes().to_vec(), b""));
    }
    for (answer, more) in [
        ("VA 1000000\r\n", &b"x"[..]),
        ("VA", b" "),
        ("SERVER_ERROR ", b"e"),
    ] {
        use_tier(&answering(answer.as_bytes().to_vec(), more));
    }
    let parts: [&[u8]; 9] = [
        b"VA ", b"HD", b"EN", b"\r\n", b"1", b"16", b" ", b"\0", b"NF\r\n",
    ];
    let mut numbers = Numbers(11);
    for _ in 0..20 {
        let length = numbers.below(12);
        let pieces = (0..length).map(|_| parts[numbers.below(9) as usize]);
        use_tier(&answering(pieces.collect::<Vec<_>>().concat(), b""));
    }
}

#[test]
fn memcached_by_tls_is_used_where_its_certificate_is_believed() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path(), "authority", "", None);
    certify(folder.path(), "other", "", None);
    certify(folder.path(), "server", "IP:127.0.0.1", Some("authority"));
    let file = |name: &str| folder.path().join(name);
    // Free again at the end of this line, for the server.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let port = port.unwrap().port();
    let keys = format!(
        "ssl_chain_cert={},ssl_key={}",
        file("server.crt").display(),
        file("server.key").display()
    );
    let child = started(&[
        "-l",
        "127.0.0.1",
        "-p",
        &port.to_string(),
        "-Z",
        "-o",
        &keys,
    ]);
    let _server = Memcached {
        folder: tempfile::tempdir().unwrap(),
        child,
    };
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        thread::sleep(Duration::from_millis(2));
    }
    let by = |scheme: &str, authority: Option<&str>| {
        let mut settings = settings(&format!("{scheme}://127.0.0.1:{port}"));
        settings.timeout = Duration::from_secs(1);
        settings.tls.authorities =
            authority.map(|name| std::fs::read(file(&format!("{name}.crt"))).unwrap());
        tier(settings)
    };
    let right = by("memcacheds", Some("authority"));
    right.set(b"k", &vec![7; 100_000], None, None).unwrap();
    assert_eq!(read(&right, b"k").unwrap().unwrap().len(), 100_000);
    for wrong in [
        by("memcacheds", Some("other")),
        by("memcacheds", None),
        by("memcached", None),
    ] {
        assert_eq!(wrong.check().unwrap_err().fault, TierFault::Io);
    }
}

#[test]
fn memcached_address_that_is_none_is_refused() {
    let host = support::host();
    for url in [
        "",
        "memcached",
        "memcached://",
        "memcached://:1",
        "memcached://a:0",
        "memcached://a:x",
        "memcached://a:65536",
        "memcached://user:secret@a",
        "memcached://a/1",
        "memcached://a?b",
        "memcached://a,b",
        "memcached://[::1",
        "memcached://[::1]x",
        "memcached+unix://a",
        "redis://a",
        "memcached:// ",
        "memcacheds://a:b:c",
    ] {
        let refused = MemcachedStore::new(settings(url), &host).err();
        let error = refused.unwrap_or_else(|| panic!("{url} is taken"));
        assert_eq!(error.fault, TierFault::Off, "{url}");
        assert!(!error.text.contains("secret"), "{error}");
    }
    for url in [
        "memcached://a",
        "memcached://[::1]:1",
        "memcacheds://a.b-c:2",
    ] {
        assert!(MemcachedStore::new(settings(url), &host).is_ok(), "{url}");
    }
    for prefix in ["a b", "a\r\n", "\u{e4}", &"x".repeat(126)] {
        let mut wrong = settings("memcached://a");
        wrong.prefix = prefix.to_owned();
        assert!(MemcachedStore::new(wrong, &host).is_err(), "{prefix:?}");
    }
}
