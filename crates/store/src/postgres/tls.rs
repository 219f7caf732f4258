//! TLS to a server, and what is verified of it before anything is sent to it, by `sslmode`.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as RustlsStream;

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::address::SslMode;

/// What connects as `mode` wants it, believing the authorities of the file `root`, or those of the
/// system.
///
/// # Errors
/// When the file cannot be read, or the system names no authority and one is needed.
pub(super) fn connector(mode: SslMode, root: Option<&Path>) -> io::Result<Encryption> {
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let verified = match (mode, root) {
        (SslMode::VerifyFull, _) => Verified::Name,
        (SslMode::VerifyCa, _) | (SslMode::Require, Some(_)) => Verified::Authority,
        _ => Verified::Nothing,
    };
    let chain = if verified == Verified::Nothing {
        None
    } else {
        let roots = Arc::new(authorities(root)?);
        let builder = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
        Some(builder.build().map_err(io::Error::other)?)
    };
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier {
            provider,
            chain,
            verified,
        }))
        .with_no_client_auth();
    Ok(Encryption(TlsConnector::from(Arc::new(config))))
}

/// How the driver encrypts.
#[derive(Clone)]
pub(super) struct Encryption(TlsConnector);

/// The same for one host.
pub(super) struct HostEncryption {
    connector: TlsConnector,
    name: String,
}

/// A connection that is encrypted.
pub(super) struct Encrypted<S>(RustlsStream<S>);

impl<S> MakeTlsConnect<S> for Encryption
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type TlsConnect = HostEncryption;
    type Error = io::Error;

    fn make_tls_connect(&mut self, name: &str) -> io::Result<HostEncryption> {
        Ok(HostEncryption {
            connector: self.0.clone(),
            name: name.to_owned(),
        })
    }
}

impl<S> TlsConnect<S> for HostEncryption
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            // Not before: a socket on this machine has no name, and is not encrypted.
            let name = ServerName::try_from(self.name).map_err(io::Error::other)?;
            Ok(Encrypted(self.connector.connect(name, stream).await?))
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    /// None: it would take a parser of certificates, and protects where nothing is verified alone.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

fn authorities(root: Option<&Path>) -> io::Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    match root {
        Some(path) => {
            let read = |error| io::Error::other(format!("{}: {error}", path.display()));
            for certificate in CertificateDer::pem_file_iter(path).map_err(read)? {
                let added = store.add(certificate.map_err(read)?);
                added.map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
            }
        }
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if store.is_empty() {
        return Err(io::Error::other(
            "there is no authority to believe; name one by `sslrootcert`",
        ));
    }
    Ok(store)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verified {
    /// Any server may answer.
    Nothing,
    /// An authority vouches for it, whatever its name.
    Authority,
    /// It is who it is meant to be.
    Name,
}

/// As libpq verifies, which has modes that a browser has not.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    /// `None` where nothing is verified.
    chain: Option<Arc<WebPkiServerVerifier>>,
    verified: Verified,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        let verified =
            chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // The name is looked at last, when the chain has been verified.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.verified == Verified::Authority => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signed,
            algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signed,
            algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
