//! Where a server is and how it is reached, and what may be said of it when that fails.

use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ErrorKind, IntoConnectionInfo, RedisError,
    ServerErrorKind, TlsCertificates,
};

use super::RedisSettings;
use crate::tier::{TierError, TierFault};

/// Characters of what a server or the system says that an error repeats.
const TEXT_MAX: usize = 300;
/// What begins a certificate in PEM (RFC 7468).
const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// For an address that the library refuses. What it says itself names no part of the address.
const UNREADABLE: &str = "the address of the Redis server cannot be read; it is \
                          redis://[user:password@]host[:port][/database], the port from 1 to \
                          65535, with % before codes of other letters in names and passwords";

/// Whom a connection by TLS believes, and how it shows who it is.
#[derive(Clone, Default)]
pub struct RedisTls {
    /// Authorities in PEM, in the place of the system's.
    pub authorities: Option<Vec<u8>>,
    /// This client's certificates and its key, in PEM.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

fn off(text: impl Into<String>) -> TierError {
    TierError::new(TierFault::Off, text)
}

/// What connects to the server. Connects to nothing yet.
///
/// # Errors
/// [`TierFault::Off`], with a text that does not repeat the address: it may hold a password.
pub fn client(settings: &RedisSettings) -> Result<Client, TierError> {
    let refused = |_: RedisError| off(UNREADABLE);
    let info = settings.url.as_str().into_connection_info();
    let info = info.map_err(refused)?;
    let is_socket = matches!(info.addr(), ConnectionAddr::Unix(_));
    if !is_socket && settings.url.contains('?') {
        // The library passes over those it does not know, such as one meant to name an authority.
        return Err(off(
            "the address of the Redis server may have no parameters (`?…`); files for TLS and \
             limits are arguments of their own",
        ));
    }
    let tls = &settings.tls;
    match info.addr() {
        ConnectionAddr::TcpTls { insecure: true, .. } => {
            return Err(off("the certificate of the Redis server is always checked"));
        }
        ConnectionAddr::TcpTls { .. } => {}
        _ if tls.authorities.is_some() || tls.client.is_some() => {
            return Err(off(
                "authorities and certificates need an address with rediss://",
            ));
        }
        _ => return Client::open(info).map_err(refused),
    }
    let client_tls = tls
        .client
        .as_ref()
        .map(|(certificates, key)| ClientTlsConfig {
            client_cert: certificates.clone(),
            client_key: key.clone(),
        });
    let certificates = [
        &tls.authorities,
        &tls.client.as_ref().map(|pair| pair.0.clone()),
    ];
    for pem in certificates.into_iter().flatten() {
        if !pem
            .windows(CERTIFICATE.len())
            .any(|part| part == CERTIFICATE)
        {
            return Err(off("there is no certificate in PEM in what stands for one"));
        }
    }
    // Fails if the process has one, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let certificates = TlsCertificates {
        client_tls,
        root_cert: tls.authorities.clone(),
    };
    Client::build_with_tls(info, certificates)
        .map_err(|_| off("a certificate or key of the connection to Redis cannot be read"))
}

/// An error of this server as one of a tier: without the password, should the server repeat it,
/// and no longer than a line of a log may be.
pub fn failure(client: &Client, error: &RedisError) -> TierError {
    let info = client.get_connection_info();
    let place = match info.addr() {
        ConnectionAddr::Tcp(host, port) => format!("{host}:{port}"),
        ConnectionAddr::TcpTls { host, port, .. } => format!("{host}:{port} by TLS"),
        ConnectionAddr::Unix(path) => path.display().to_string(),
        _ => String::new(),
    };
    let (fault, why) = match error.kind() {
        ErrorKind::AuthenticationFailed
        | ErrorKind::InvalidClientConfig
        | ErrorKind::Server(ServerErrorKind::NoPerm) => (TierFault::Off, ""),
        ErrorKind::Server(
            ServerErrorKind::Moved | ServerErrorKind::CrossSlot | ServerErrorKind::ClusterDown,
        ) => {
            let why = "it is one of a Redis Cluster, which is not supported: ";
            (TierFault::Off, why)
        }
        _ => (TierFault::Io, ""),
    };
    let mut said = error.to_string();
    let password = info.redis_settings().password();
    if let Some(password) = password.filter(|password| !password.is_empty()) {
        said = said.replace(password, "***");
    }
    let said: String = said.chars().take(TEXT_MAX).collect();
    TierError::new(fault, format!("Redis at {place}: {why}{said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_masks_the_password_that_a_server_repeats_and_is_no_longer_than_a_line() {
        let client = Client::open("redis://user:secret@host:1/2").unwrap();
        // As servers answer to a command that they do not know.
        let said = "unknown command 'AUTH', with args beginning with: 'user' 'secret' ";
        let said = format!("{said}{}", "x".repeat(100_000));
        let error = RedisError::from((ErrorKind::Client, "ERR", said));
        let text = failure(&client, &error).text;
        assert!(text.starts_with("Redis at host:1: "), "{text}");
        assert!(
            text.contains("'user' '***'") && !text.contains("secret"),
            "{text}"
        );
        assert!(text.len() < 400, "{}", text.len());
    }
}
