//! TLS: what a certificate and its key make of a connection.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// Files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, then those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why TLS cannot begin.
#[derive(Debug)]
pub enum TlsError {
    /// A file cannot be read, or does not hold what it must.
    File {
        /// Which one.
        path: PathBuf,
        /// What is wrong, as a sentence without its end.
        why: String,
    },
    /// The key is not the certificate's, or of an unsupported kind.
    Pair(rustls::Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::File { path, why } => write!(f, "Cannot use {}: {why}.", path.display()),
            TlsError::Pair(error) => {
                write!(f, "Certificate and key do not make a pair: {error}.")
            }
        }
    }
}

impl std::error::Error for TlsError {}

/// Reads the files. TLS 1.2 and 1.3, without client certificates; HTTP/1.1 only.
pub fn acceptor(files: &TlsFiles) -> Result<TlsAcceptor, TlsError> {
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| file(&files.certificate, error))?;
    if chain.is_empty() {
        return Err(file(&files.certificate, "it holds no certificate"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| file(&files.key, error))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(TlsError::Pair)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn file(path: &Path, why: impl fmt::Display) -> TlsError {
    TlsError::File {
        path: path.to_owned(),
        why: why.to_string(),
    }
}
