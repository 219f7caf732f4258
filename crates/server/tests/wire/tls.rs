//! TLS, by a certificate made for these tests.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::fixture::{KEY, LIMITS, PROJECT, TestServer};
use crate::transport::UNTIL_REST;
use server::serve::tls::{TlsFiles, acceptor};
use server::serve::{Drained, Limits};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, StreamOwned, version,
};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/tls")
        .join(name)
}

fn files() -> TlsFiles {
    TlsFiles {
        certificate: file("certificate.pem"),
        key: file("key.pem"),
    }
}

fn connect(
    server: &TestServer,
    versions: &[&'static tokio_rustls::rustls::SupportedProtocolVersion],
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    let certificate = CertificateDer::from_pem_file(file("certificate.pem")).unwrap();
    roots.add(certificate).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, TcpStream::connect(server.address).unwrap())
}

fn ask(stream: &mut (impl Read + Write), path: &str, more: &str) -> String {
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: localhost\r\nx-appwrite-project: {PROJECT}\r\n\
         x-appwrite-key: {KEY}\r\n{more}\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn requests_are_answered_over_tls() {
    let mut server = TestServer::start_secret(LIMITS, files());
    for (versions, agreed) in [
        (&[&version::TLS13][..], ProtocolVersion::TLSv1_3),
        (&[&version::TLS12], ProtocolVersion::TLSv1_2),
    ] {
        let mut stream = connect(&server, versions);
        let answer = ask(&mut stream, "/v1/tablesdb", "connection: close\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(
            answer.ends_with(r#"{"total":0,"databases":[]}"#),
            "{answer}"
        );
        assert_eq!(stream.conn.protocol_version(), Some(agreed));
    }
    assert_eq!(server.stop(), Drained { unfinished: 0 });
}

#[test]
fn a_connection_that_rests_goes_on_over_tls() {
    let server = TestServer::start_secret(LIMITS, files());
    let mut stream = connect(&server, &[&version::TLS13]);
    let request = b"GET /v1/ping HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request).unwrap();
    let mut read = Vec::new();
    while !read.ends_with(b"Pong!") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        read.push(byte[0]);
    }
    std::thread::sleep(UNTIL_REST);
    let answer = ask(&mut stream, "/v1/ping", "connection: close\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.ends_with("Pong!"), "{answer}");
}

#[test]
fn plain_requests_get_no_answer_over_tls() {
    let server = TestServer::start_secret(LIMITS, files());
    let mut stream = TcpStream::connect(server.address).unwrap();
    let answer = ask(&mut stream, "/v1/ping", "");
    assert!(!answer.contains("HTTP"), "{answer}");
    assert!(
        ask(
            &mut connect(&server, &[&version::TLS13]),
            "/v1/ping",
            "connection: close\r\n"
        )
        .ends_with("Pong!")
    );
}

#[test]
fn a_client_that_never_agrees_is_cut_off() {
    let limits = Limits {
        head_ms: 1,
        ..LIMITS
    };
    let server = TestServer::start_secret(limits, files());
    let mut silent = TcpStream::connect(server.address).unwrap();
    let mut nothing = Vec::new();
    let read = silent.read_to_end(&mut nothing);
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

/// The first bytes that a client sends.
fn hello() -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = "localhost".try_into().unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut sent = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut sent).unwrap();
    }
    sent
}

#[test]
fn a_client_that_can_agree_to_nothing_costs_no_handshake() {
    let server = TestServer::start_secret(LIMITS, files());
    let hello = hello();
    // Now and then the server is quicker than the end of what the client sends.
    let unanswered = (0..50).filter(|_| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(&hello).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer.is_empty()
    });
    assert!(unanswered.count() > 0);
    let mut stream = connect(&server, &[&version::TLS13]);
    assert!(ask(&mut stream, "/v1/ping", "connection: close\r\n").ends_with("Pong!"));
}

#[test]
fn the_end_does_not_wait_for_an_agreement() {
    let mut server = TestServer::start_secret(LIMITS, files());
    let _silent = TcpStream::connect(server.address).unwrap();
    // An answer to a later one proves that it was taken.
    let mut stream = connect(&server, &[&version::TLS13]);
    assert!(ask(&mut stream, "/v1/ping", "connection: close\r\n").ends_with("Pong!"));
    assert_eq!(server.stop(), Drained { unfinished: 0 });
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let refusal = |certificate: &str, key: &str| {
        let files = TlsFiles {
            certificate: file(certificate),
            key: file(key),
        };
        acceptor(&files).err().unwrap().to_string()
    };
    let absent = refusal("absent.pem", "key.pem");
    assert!(absent.contains("absent.pem"), "{absent}");
    let swapped = refusal("key.pem", "key.pem");
    assert!(
        swapped.contains("key.pem: it holds no certificate"),
        "{swapped}"
    );
    let keyless = refusal("certificate.pem", "certificate.pem");
    assert!(keyless.contains("certificate.pem"), "{keyless}");
}
