//! Where a server is and how it is reached, and what may be said of it when that fails.

use std::sync::Arc;

use redis::{
    ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, ProtocolVersion, RedisError,
    ServerErrorKind,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::RedisSettings;
use super::answer::is_too_large;
use crate::tier::{TierError, TierFault};

/// Characters of what a server or the system says that an error repeats.
const TEXT_MAX: usize = 300;
/// What begins a certificate in PEM (RFC 7468).
const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";

/// For an address that the library refuses. What it says itself names no part of the address.
const UNREADABLE: &str = "the address of the Redis server cannot be read; it is \
                          redis://[user:password@]host[:port][/database], the port from 1 to \
                          65535, with % before codes of other letters in names and passwords";
const UNREADABLE_TLS: &str = "a certificate or key of the connection to Redis cannot be read";

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

/// A server, and what a connection to it begins with.
pub struct RedisPlace {
    pub info: ConnectionInfo,
    /// For a connection by TLS, with the name that its certificate must have.
    pub tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
}

/// Where the server is. Connects to nothing yet.
///
/// # Errors
/// [`TierFault::Off`], with a text that does not repeat the address: it may hold a password.
pub fn place(settings: &RedisSettings) -> Result<RedisPlace, TierError> {
    let info = settings.url.as_str().into_connection_info();
    let info = info.map_err(|_| off(UNREADABLE))?;
    let is_socket = matches!(info.addr(), ConnectionAddr::Unix(_));
    if !is_socket && settings.url.contains('?') {
        // The library passes over those it does not know, such as one meant to name an authority.
        return Err(off(
            "the address of the Redis server may have no parameters (`?…`); files for TLS and \
             limits are arguments of their own",
        ));
    }
    if info.redis_settings().protocol() != ProtocolVersion::RESP2 {
        return Err(off("the protocol of the Redis server cannot be chosen"));
    }
    let tls = &settings.tls;
    let name = match info.addr() {
        ConnectionAddr::TcpTls { insecure: true, .. } => {
            return Err(off("the certificate of the Redis server is always checked"));
        }
        ConnectionAddr::TcpTls { host, .. } => {
            ServerName::try_from(host.clone()).map_err(|_| off(UNREADABLE))?
        }
        _ if tls.authorities.is_some() || tls.client.is_some() => {
            return Err(off(
                "authorities and certificates need an address with rediss://",
            ));
        }
        _ => return Ok(RedisPlace { info, tls: None }),
    };
    let tls = Some((Arc::new(tls_config(tls)?), name));
    Ok(RedisPlace { info, tls })
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TierError> {
    let is_pem = |part| part == CERTIFICATE;
    if !pem.windows(CERTIFICATE.len()).any(is_pem) {
        return Err(off("there is no certificate in PEM in what stands for one"));
    }
    let read = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    read.map_err(|_| off(UNREADABLE_TLS))
}

/// What a connection by TLS believes and shows.
fn tls_config(tls: &RedisTls) -> Result<ClientConfig, TierError> {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = &tls.authorities {
        for certificate in certificates(pem)? {
            let added = roots.add(certificate);
            added.map_err(|_| off(UNREADABLE_TLS))?;
        }
    } else {
        // Those that cannot be read are passed over: without the right one nothing is believed.
        let found = rustls_native_certs::load_native_certs();
        let _ = roots.add_parsable_certificates(found.certs);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|_| off(UNREADABLE_TLS))?
        .with_root_certificates(roots);
    match &tls.client {
        None => Ok(config.with_no_client_auth()),
        Some((shown, key)) => {
            let shown = certificates(shown)?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| off(UNREADABLE_TLS))?;
            let config = config.with_client_auth_cert(shown, key);
            config.map_err(|_| off(UNREADABLE_TLS))
        }
    }
}

/// An error of this server as one of a tier: without the password, should the server repeat it,
/// and no longer than a line of a log may be.
pub fn failure(info: &ConnectionInfo, error: &RedisError) -> TierError {
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
        _ if is_too_large(error) => (TierFault::TooLarge, ""),
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
        let info = "redis://user:secret@host:1/2".into_connection_info();
        let info = info.unwrap();
        // As servers answer to a command that they do not know.
        let said = "unknown command 'AUTH', with args beginning with: 'user' 'secret' ";
        let said = format!("{said}{}", "x".repeat(100_000));
        let error = RedisError::from((ErrorKind::Client, "ERR", said));
        let text = failure(&info, &error).text;
        assert!(text.starts_with("Redis at host:1: "), "{text}");
        assert!(
            text.contains("'user' '***'") && !text.contains("secret"),
            "{text}"
        );
        assert!(text.len() < 400, "{}", text.len());
    }
}
