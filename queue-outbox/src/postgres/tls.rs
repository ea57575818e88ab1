//! TLS with rustls.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use super::url::Verify;
use crate::error::{Error, Result};

/// Connects with TLS, if the URL and the server require it.
#[derive(Clone, Debug)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    pub(super) fn new(_: &str, _: &str, verify: Verify, roots: Option<&str>) -> Result<Tls> {
        let invalid = |value: &str, problem: String| Error::Invalid { field: "sslrootcert", value: value.to_owned(), problem };
        let pinned = match roots {
            None | Some("system") => Vec::new(),
            Some(path) => {
                let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
                let found = read.map_err(|error| invalid(path, format!("cannot be read as certificates in PEM: {error}")))?;
                if found.is_empty() {
                    return Err(invalid(path, "has no certificate in PEM".to_owned()));
                }
                found
            }
        };
        let provider = Arc::new(ring::default_provider());
        let chain = if verify == Verify::Nothing {
            None
        } else {
            let mut store = RootCertStore::empty();
            match pinned.is_empty() {
                true => store.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
                false => drop(store.add_parsable_certificates(pinned.iter().cloned())),
            }
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone()).build();
            Some(verifier.map_err(|error| invalid(roots.unwrap_or("system"), format!("cannot be used: {error}")))?)
        };
        let verifier = Arc::new(Verifier { verify, pinned, chain, provider: provider.clone() });
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| queue_core::Error::Internal(format!("rustls: {error}")))?;
        let mut config = config.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Tls(Arc::new(config)))
    }

    pub(super) fn connector(&self) -> Tls {
        self.clone()
    }
}

#[derive(Debug)]
struct Verifier {
    verify: Verify,
    /// The certificates from the URL. A server may use one of them directly, without a chain.
    pinned: Vec<CertificateDer<'static>>,
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        let has_name = || match self.verify {
            Verify::Host => verify_server_name(&ParsedCertificate::try_from(certificate)?, host),
            _ => Ok(()),
        };
        if self.pinned.iter().any(|pinned| pinned == certificate) {
            return has_name().map(|()| ServerCertVerified::assertion());
        }
        match chain.verify_server_cert(certificate, others, host, ocsp, now) {
            // The name is verified last.
            Err(rustls::Error::InvalidCertificate(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })) => {
                has_name().map(|()| ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Stream<S>;
    type TlsConnect = Connect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Connect> {
        Ok(Connect { config: self.0.clone(), host: host.to_owned() })
    }
}

/// One connection.
pub(super) struct Connect {
    config: Arc<ClientConfig>,
    /// The host. It is empty or a path for a Unix socket, which has no TLS.
    host: String,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Connect {
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Stream<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let host = ServerName::try_from(self.host).map_err(io::Error::other)?;
            let connected = TlsConnector::from(self.config).connect(host, stream).await;
            connected.map(Stream).map_err(with_fix)
        })
    }
}

/// Adds a fix to the error for an untrusted certificate.
fn with_fix(error: io::Error) -> io::Error {
    let certificate = error.get_ref().and_then(|cause| cause.downcast_ref()).and_then(|cause| match cause {
        rustls::Error::InvalidCertificate(problem) => Some(problem),
        _ => None,
    });
    let fix = match certificate {
        None => return error,
        Some(CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. }) => {
            "connect to a host that the certificate names, or use `sslmode=verify-ca`"
        }
        Some(_) => {
            "name the certificate of its issuer by `sslrootcert=FILE` in the URL, or use `sslmode=require`, which does not verify it"
        }
    };
    io::Error::other(format!("{error}; {fix}"))
}

/// A connection with TLS.
pub(super) struct Stream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
