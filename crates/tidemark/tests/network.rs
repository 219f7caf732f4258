//! The binary towards the network: TLS, proxies, and what it says of both.

mod process;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use process::{Folder, assert_refused, on};
use testing::{ChildServer, ServerLog};

fn certificate(name: &str) -> String {
    format!(
        "{}/../server/tests/tls/{name}.pem",
        env!("CARGO_MANIFEST_DIR")
    )
}

fn ping(server: &ChildServer, more: &str) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
    write!(
        stream,
        "GET /v1/ping HTTP/1.1\r\nHost: t\r\nConnection: close\r\n{more}\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("Pong!"), "{answer}");
}

const LOGGED: (&str, &str) = ("TIDEMARK_LOG_LEVEL", "info,access=debug");
const FORWARDED: &str = "X-Forwarded-For: 203.0.113.9, 192.0.2.7\r\nX-Forwarded-Proto: https\r\n";

#[test]
fn peer_is_the_client_unless_a_proxy_is_trusted() {
    let folder = Folder::new();
    let mut server = process::launch(&folder, &[LOGGED], ServerLog::Piped);
    ping(&server, FORWARDED);
    server.log_line_with("client=127.0.0.1 secure=false");
    server.stop().unwrap();
}

#[test]
fn a_trusted_proxy_says_who_the_client_is() {
    for trusted in ["127.0.0.0/8", "1"] {
        let folder = Folder::new();
        let env = [LOGGED, ("TIDEMARK_TRUST_PROXY", trusted)];
        let mut server = process::launch(&folder, &env, ServerLog::Piped);
        ping(&server, FORWARDED);
        server.log_line_with("client=192.0.2.7 secure=true");
        server.stop().unwrap();
    }
}

#[test]
fn with_a_certificate_the_endpoint_is_https() {
    let folder = Folder::new();
    let (cert, key) = (certificate("certificate"), certificate("key"));
    let env = [
        ("TIDEMARK_TLS_CERT", cert.as_str()),
        ("TIDEMARK_TLS_KEY", key.as_str()),
    ];
    let server = process::start_with(&folder, &env);
    assert!(
        server.endpoint.starts_with("https://127.0.0.1:"),
        "{}",
        server.endpoint
    );
    server.stop().unwrap();
}

#[test]
fn commands_reach_a_server_over_tls_if_they_believe_its_certificate() {
    let folder = Folder::new();
    let (cert, key) = (certificate("certificate"), certificate("key"));
    let env = [
        ("TIDEMARK_TLS_CERT", cert.as_str()),
        ("TIDEMARK_TLS_KEY", key.as_str()),
    ];
    let server = process::start_with(&folder, &env);
    let seed = |believed: &str| {
        process::tidemark("seed catalog --rows 5 --endpoint")
            .arg(&server.endpoint)
            .env("APPWRITE_API_KEY", server.key.as_deref().unwrap())
            .env("SSL_CERT_FILE", believed)
            .output()
            .unwrap()
    };
    let trusting = seed(&cert);
    let said = process::text(&trusting.stderr);
    assert!(trusting.status.success(), "{said}");
    assert_refused(&seed("/dev/null"), 1, "SSL_CERT_FILE");
    server.stop().unwrap();
}

#[test]
fn unusable_tls_files_are_named_at_start() {
    let folder = Folder::new();
    let key = certificate("key");
    let swapped = format!("serve --listen 127.0.0.1:0 --tls-cert {key} --tls-key {key}");
    assert_refused(
        &on(&folder, &swapped),
        1,
        "key.pem: it holds no certificate",
    );
    let half = format!("serve --listen 127.0.0.1:0 --tls-key {key}");
    assert_refused(&on(&folder, &half), 1, "--tls-key needs --tls-cert");
}

#[test]
fn connections_beyond_what_the_system_allows_are_warned_of() {
    let folder = Folder::new();
    // More than any system allows one process by default.
    let env = [("TIDEMARK_CONNECTIONS_MAX", "4000000000")];
    let mut server = process::launch(&folder, &env, ServerLog::Piped);
    server.log_line_with("raise `ulimit -n`");
    server.stop().unwrap();
}
