//! Whom connections to servers by TLS believe, and how they show who they are.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use super::tier::{TierError, TierFault};

/// What begins a certificate in PEM (RFC 7468).
const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";
const UNREADABLE_TLS: &str = "a certificate or key of a connection by TLS cannot be read";

/// Whom a connection by TLS believes, and how it shows who it is.
#[derive(Clone, Default)]
pub struct TierTls {
    /// Authorities in PEM, in the place of the system's.
    pub authorities: Option<Vec<u8>>,
    /// This client's certificates and its key, in PEM.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

/// What a connection needs, with the name that the server's certificate must have.
pub type TlsPlace = (Arc<ClientConfig>, ServerName<'static>);

fn off(text: &str) -> TierError {
    TierError::new(TierFault::Off, text)
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
pub fn tls_config(tls: &TierTls) -> Result<ClientConfig, TierError> {
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
