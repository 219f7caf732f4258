//! A Redis server by TLS: who is believed, and what is refused. Certificates are made by `openssl`.

use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use tiers::{ListenEvent, NotingTier, RedisTier, Stored, Tier, TierFault, TierTls};

mod support;

use support::certificates::certify;
use support::read;
use support::redis_server::{RedisServer, settings};

struct Encrypted {
    _server: RedisServer,
    folder: TempDir,
    port: u16,
}

impl Encrypted {
    fn start() -> Encrypted {
        let folder = tempfile::tempdir().unwrap();
        certify(folder.path(), "authority", "", None);
        certify(folder.path(), "other", "", None);
        certify(folder.path(), "server", "IP:127.0.0.1", Some("authority"));
        certify(folder.path(), "client", "DNS:client", Some("authority"));
        let file = |name: &str| folder.path().join(name).display().to_string();
        // Free again at the end of this line, for the server.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let port = port.unwrap().port();
        let server = RedisServer::start(&[
            "--tls-port",
            &port.to_string(),
            "--tls-cert-file",
            &file("server.crt"),
            "--tls-key-file",
            &file("server.key"),
            "--tls-ca-cert-file",
            &file("authority.crt"),
        ]);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            thread::sleep(Duration::from_millis(2));
        }
        Encrypted {
            _server: server,
            folder,
            port,
        }
    }

    fn pem(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(name)).unwrap()
    }

    fn tls(&self, authority: Option<&str>, client: Option<&str>) -> TierTls {
        TierTls {
            authorities: authority.map(|name| self.pem(&format!("{name}.crt"))),
            client: client.map(|name| {
                let (certificate, key) = (format!("{name}.crt"), format!("{name}.key"));
                (self.pem(&certificate), self.pem(&key))
            }),
        }
    }

    fn tier(&self, scheme: &str, host: &str, tls: TierTls) -> RedisTier {
        let mut settings = settings(&format!("{scheme}://{host}:{}", self.port));
        settings.tls = tls;
        RedisTier::new(settings, support::host()).unwrap()
    }
}

#[test]
fn redis_by_tls_is_used_by_clients_and_servers_that_believe_each_other() {
    let server = Encrypted::start();
    let whole = || server.tls(Some("authority"), Some("client"));
    let tier = server.tier("rediss", "127.0.0.1", whole());
    tier.check().unwrap();
    let value = vec![7; 1_000_000];
    assert_eq!(tier.set(b"k", &value, None, None).unwrap(), Stored::Kept);
    assert!(read(&tier, b"k").unwrap().unwrap() == value);
    for (scheme, host, tls) in [
        // Another authority, or those of the system.
        (
            "rediss",
            "127.0.0.1",
            server.tls(Some("other"), Some("client")),
        ),
        ("rediss", "127.0.0.1", server.tls(None, Some("client"))),
        // No certificate of the client, or one the server does not believe.
        ("rediss", "127.0.0.1", server.tls(Some("authority"), None)),
        (
            "rediss",
            "127.0.0.1",
            server.tls(Some("authority"), Some("other")),
        ),
        // The certificate is that of an address.
        ("rediss", "localhost", whole()),
        ("redis", "127.0.0.1", TierTls::default()),
    ] {
        let error = server.tier(scheme, host, tls).check().unwrap_err();
        assert!(
            error.text.starts_with(&format!("Redis at {host}:")),
            "{error}"
        );
    }
    tier.check().unwrap();
}

#[test]
fn redis_by_tls_passes_notices_on() {
    let server = Encrypted::start();
    let tls = || server.tls(Some("authority"), Some("client"));
    let tier = server.tier("rediss", "127.0.0.1", tls());
    let mut quiet = 0;
    let mut received = Vec::new();
    let listener = server.tier("rediss", "127.0.0.1", tls());
    listener
        .listen(|notice| {
            match notice {
                ListenEvent::Began => drop(tier.delete_noted(b"k", b"first").unwrap()),
                ListenEvent::Notice(bytes) => received.push(bytes.to_vec()),
                ListenEvent::Quiet if quiet == 0 => {
                    quiet += 1;
                    tier.delete_noted(b"k", b"second").unwrap();
                }
                ListenEvent::Quiet => {}
            }
            received.len() < 2
        })
        .unwrap();
    assert_eq!(received, [b"first".to_vec(), b"second".to_vec()]);
}

#[test]
fn redis_by_tls_says_what_is_wrong_with_its_settings() {
    let pem = |text: &str| Some(text.as_bytes().to_vec());
    let made = |url: &str, authorities, client| {
        let mut settings = settings(url);
        settings.tls = TierTls {
            authorities,
            client,
        };
        let error = RedisTier::new(settings, support::host()).err();
        let error = error.expect("these settings are wrong");
        assert_eq!(error.fault, TierFault::Off);
        assert!(!error.text.contains("secret"), "{error}");
        error.text
    };
    let url = "rediss://:secret@localhost";
    let garbage = "-----BEGIN CERTIFICATE-----\nsecret\n-----END CERTIFICATE-----\n";
    let none = "there is no certificate in PEM";
    assert!(made(url, pem("secret"), None).starts_with(none));
    let client = || Some((b"secret".to_vec(), b"secret".to_vec()));
    assert!(made(url, None, client()).starts_with(none));
    let unread = "a certificate or key of a connection by TLS cannot be read";
    assert_eq!(made(url, pem(garbage), None), unread);
    let client = Some((garbage.into(), garbage.into()));
    assert_eq!(made(url, None, client), unread);
    let plain = "authorities and certificates need an address with rediss://";
    assert_eq!(made("redis://:secret@localhost", pem(garbage), None), plain);
    let insecure = "rediss://:secret@localhost#insecure";
    assert!(made(insecure, None, None).contains("always checked"));
}
