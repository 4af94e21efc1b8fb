//! A certificate authority for tests, and a TLS client with a choice of ALPN protocols.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The name in every certificate.
const NAME: &str = "localhost";

/// An authority, and a folder with a key pair that it signed.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    /// With a valid pair.
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("randomness");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a plain authority");
        let authority = Self { issuer, folder: tempfile::tempdir().expect("a writable folder") };
        authority.issue();
        authority
    }

    /// Replaces the pair; returns the certificate.
    pub(crate) fn issue(&self) -> Vec<u8> {
        self.issue_for(2000, 4000)
    }

    /// The same, valid from one year to another.
    pub(crate) fn issue_for(&self, first_year: i32, last_year: i32) -> Vec<u8> {
        let key = KeyPair::generate().expect("randomness");
        let mut params = CertificateParams::new([NAME.to_owned()]).expect("a plain name");
        (params.not_before, params.not_after) = (date_time_ymd(first_year, 1, 1), date_time_ymd(last_year, 1, 1));
        let certificate = params.signed_by(&key, &self.issuer).expect("a plain certificate");
        std::fs::write(self.certificate(), certificate.pem()).expect("a writable folder");
        std::fs::write(self.key(), key.serialize_pem()).expect("a writable folder");
        certificate.der().to_vec()
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.path("certificate.pem")
    }

    pub(crate) fn key(&self) -> PathBuf {
        self.path("key.pem")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A client that trusts this authority and offers these protocols.
    pub(crate) async fn connect(&self, address: &str, protocols: &[&str]) -> io::Result<Client> {
        self.secure(TcpStream::connect(address).await?, protocols).await
    }

    /// The same on an open connection.
    pub(crate) async fn secure(&self, stream: TcpStream, protocols: &[&str]) -> io::Result<Client> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).expect("a certificate");
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring has them")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let name = ServerName::try_from(NAME).expect("a name");
        Ok(Client(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
    }
}

/// A TLS connection.
pub(crate) struct Client(pub(crate) TlsStream<TcpStream>);

impl Client {
    /// The negotiated protocol.
    pub(crate) fn protocol(&self) -> Option<String> {
        self.0.get_ref().1.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned())
    }

    /// The server's certificate.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        self.0.get_ref().1.peer_certificates().expect("the handshake is over")[0].to_vec()
    }

    /// An HTTP client in the negotiated protocol.
    pub(crate) async fn http(self) -> HttpClient {
        if self.protocol().as_deref() == Some("h2") {
            let io = TokioIo::new(self.0);
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.expect("a connection");
            tokio::spawn(connection);
            HttpClient::Http2(sender)
        } else {
            let (sender, connection) = http1::handshake(TokioIo::new(self.0)).await.expect("a connection");
            tokio::spawn(connection);
            HttpClient::Http1(sender)
        }
    }
}

pub(crate) enum HttpClient {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl HttpClient {
    /// Sends a request; its target is a path.
    pub(crate) async fn send(&mut self, mut request: Request<Full<Bytes>>) -> hyper::Result<Response<Bytes>> {
        let response = match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                request.headers_mut().insert("host", NAME.parse().expect("a name"));
                sender.send_request(request).await?
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                let target = format!("https://{NAME}{}", request.uri());
                *request.uri_mut() = target.parse().expect("an address");
                sender.send_request(request).await?
            }
        };
        let (head, body) = response.into_parts();
        Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
    }

    pub(crate) async fn get(&mut self, path: &str) -> hyper::Result<Response<Bytes>> {
        self.send(Request::get(path).body(Full::default()).expect("a request")).await
    }
}
