//! TLS of the public listener: certificate and key, reloaded without closing connections.
//!
//! The pair is read when the daemon starts and again at each [`Tls::reload`]; a connection keeps the pair with which it began.
//! HTTP/2 and HTTP/1.1 are offered by ALPN. A client that sends plain HTTP gets an error in plain HTTP.

use super::head_refusal;
use crate::http::reply::{ApiError, ErrorCode, request_id};
use hyper::header::HeaderMap;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, InconsistentKeys, RootCertStore, ServerConfig};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::{debug, warn};

/// The first byte of every TLS connection: a record of the type "handshake" (RFC 8446, section 5.1).
const HANDSHAKE: u8 = 22;

/// Why a certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read.
    #[error("{} cannot be read", .0.display())]
    Unreadable(PathBuf, #[source] io::Error),
    /// The file is not PEM.
    #[error("{} is not a PEM file", .0.display())]
    NotPem(PathBuf, #[source] pem::Error),
    /// No certificate in the file.
    #[error("{} holds no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// No key in the file that can be used without a password.
    #[error("{} holds no private key that is not encrypted", .0.display())]
    NoKey(PathBuf),
    /// The key does not belong to the certificate.
    #[error("the key in {} does not belong to the first certificate in {}", .key.display(), .certificate.display())]
    Mismatch {
        /// The file of the certificates.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// The certificate has expired or is not valid yet.
    #[error("the certificate in {} is not valid now", .0.display())]
    NotNow(PathBuf, #[source] rustls::Error),
    /// rustls cannot use them.
    #[error("{} and {} cannot be used", .certificate.display(), .key.display())]
    Unusable {
        /// The file of the certificates.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
        /// The error of rustls.
        #[source]
        error: rustls::Error,
    },
}

/// The current certificate and key. Clones share them.
#[derive(Clone, Debug)]
pub struct Tls(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads both PEM files: the certificate with its intermediates, and its key.
    ///
    /// An expired certificate, or one that is not valid yet, is used with a warning: clocks can be wrong, and some clients
    /// ignore validity.
    ///
    /// # Errors
    /// [`TlsError`] when a file cannot be read or the two do not belong together.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let pair = Pair::read(certificate, key)?;
        if let Err(error) = pair.is_valid_now() {
            warn!(file = %certificate.display(), %error, "clients will refuse the TLS certificate");
        }
        let current = RwLock::new(pair.config);
        Ok(Self(Arc::new(Shared { certificate: certificate.to_owned(), key: key.to_owned(), current })))
    }

    /// Reads both files again, for new connections.
    ///
    /// # Errors
    /// [`TlsError`] when they cannot be used, also when the certificate is not valid now; the old ones stay in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let Shared { certificate, key, current } = &*self.0;
        let pair = Pair::read(certificate, key)?;
        pair.is_valid_now().map_err(|error| TlsError::NotNow(certificate.clone(), error))?;
        *current.write().unwrap_or_else(PoisonError::into_inner) = pair.config;
        Ok(())
    }

    /// The handshake; `None` where it fails or the client does not use TLS. The caller limits its time.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let mut first = [0];
        if stream.peek(&mut first).await.ok()? == 0 {
            return None;
        }
        if first[0] != HANDSHAKE {
            // HTTP methods begin with a letter.
            if first[0].is_ascii_alphabetic()
                && let Err(error) = answer_plain_http(stream).await
            {
                debug!(%error, "could not answer a plain HTTP request on the HTTPS port");
            }
            return None;
        }
        let current = self.0.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        let accepted = TlsAcceptor::from(current).accept(stream).await;
        accepted.inspect_err(|error| debug!(%error, "TLS handshake failed")).ok()
    }
}

/// Answers a client in plain HTTP/1.1 that it has to use TLS.
async fn answer_plain_http(stream: TcpStream) -> io::Result<()> {
    let id = request_id::from_headers(&HeaderMap::new());
    let error = ApiError::new(ErrorCode::InvalidParameter, "this port speaks HTTPS only; use https://");
    head_refusal::send_last(stream, head_refusal::http1(error, &id)).await
}

/// The content of the two files.
struct Pair {
    leaf: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
    config: Arc<ServerConfig>,
}

impl Pair {
    fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |path: &Path| fs::read(path).map_err(|error| TlsError::Unreadable(path.to_owned(), error));
        let (certificates, keys) = (read(certificate)?, read(key)?);
        let chain = CertificateDer::pem_slice_iter(&certificates)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| TlsError::NotPem(certificate.to_owned(), error))?;
        let leaf = chain.first().ok_or_else(|| TlsError::NoCertificate(certificate.to_owned()))?.clone();
        let secret = PrivateKeyDer::pem_slice_iter(&keys)
            .next()
            .ok_or_else(|| TlsError::NoKey(key.to_owned()))?
            .map_err(|error| TlsError::NotPem(key.to_owned(), error))?;
        // The provider is explicit, independent of the process default that other crates may install.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret));
        let mut config = config.map_err(|error| {
            let (certificate, key) = (certificate.to_owned(), key.to_owned());
            if error == rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) {
                TlsError::Mismatch { certificate, key }
            } else {
                TlsError::Unusable { certificate, key, error }
            }
        })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { leaf, provider, config: Arc::new(config) })
    }

    /// Whether the certificate is within its validity period.
    fn is_valid_now(&self) -> Result<(), rustls::Error> {
        // Validity is the first of a client's checks. The issuer is not checked here: without any authority, the verification
        // is expected to fail with an unknown issuer.
        let verified = verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(&self.leaf)?,
            &RootCertStore::empty(),
            &[],
            UnixTime::now(),
            self.provider.signature_verification_algorithms.all,
        );
        match verified {
            Err(
                error @ rustls::Error::InvalidCertificate(
                    CertificateError::Expired
                    | CertificateError::ExpiredContext { .. }
                    | CertificateError::NotValidYet
                    | CertificateError::NotValidYetContext { .. },
                ),
            ) => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// A listener, with TLS or without.
#[derive(Debug)]
pub struct Listener {
    pub(crate) tcp: TcpListener,
    pub(crate) tls: Option<Tls>,
}

impl Listener {
    /// With `tls`, connections have to use TLS.
    #[must_use]
    pub fn new(tcp: TcpListener, tls: Option<Tls>) -> Self {
        Self { tcp, tls }
    }
}

impl From<TcpListener> for Listener {
    fn from(tcp: TcpListener) -> Self {
        Self::new(tcp, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use tempfile::TempDir;

    /// Writes a self-signed certificate and the key to it.
    fn write(folder: &TempDir, years: (i32, i32)) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().expect("randomness");
        let mut certificate = CertificateParams::new(["localhost".to_owned()]).expect("a plain name");
        (certificate.not_before, certificate.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
        let paths = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        fs::write(&paths.0, certificate.self_signed(&key).expect("plain").pem()).expect("a writable folder");
        fs::write(&paths.1, key.serialize_pem()).expect("a writable folder");
        paths
    }

    fn folder() -> TempDir {
        tempfile::tempdir().expect("a writable folder")
    }

    #[test]
    fn an_unusable_pair_is_refused_with_its_reason() {
        let (one, other) = (folder(), folder());
        let (certificate, key) = write(&one, (2000, 4000));
        let (_, foreign) = write(&other, (2000, 4000));
        let refusal = |certificate: &Path, key: &Path| Tls::load(certificate, key).expect_err("refused").to_string();
        assert!(refusal(&certificate, &foreign).contains("does not belong to the first certificate"));
        assert!(refusal(&key, &key).contains("holds no certificate"));
        assert!(refusal(&certificate, &certificate).contains("holds no private key"));
        assert!(refusal(Path::new("nowhere.pem"), &key).contains("nowhere.pem cannot be read"));
        fs::write(&key, "-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n").expect("a writable folder");
        assert!(refusal(&certificate, &key).contains("is not a PEM file"));
        fs::write(&key, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n").expect("a writable folder");
        assert!(refusal(&certificate, &key).contains("cannot be used"));
    }

    #[test]
    fn reload_keeps_the_old_pair_even_an_expired_one_until_the_new_one_is_valid() {
        let folder = folder();
        let (certificate, key) = write(&folder, (2000, 2001));
        let tls = Tls::load(&certificate, &key).expect("clients check its validity");
        let current = || tls.0.current.read().expect("not poisoned").clone();
        let first = current();
        for years in [(2000, 2002), (3999, 4000)] {
            write(&folder, years);
            assert!(matches!(tls.reload(), Err(TlsError::NotNow(..))), "{years:?}");
        }
        fs::write(&certificate, "nothing").expect("a writable folder");
        assert!(matches!(tls.reload(), Err(TlsError::NoCertificate(_))));
        assert!(Arc::ptr_eq(&first, &current()));
        write(&folder, (2000, 4000));
        tls.reload().expect("a pair");
        assert!(!Arc::ptr_eq(&first, &current()));
    }
}
