//! TLS client configuration of fetches: built-in roots and the roots of `fetch.extra_ca`, without session resumption.

use super::error::FetchConfigError;
use crate::source::config::FetchConfig;
use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::fs;
use std::path::Path;
use std::sync::Arc;

impl FetchConfig {
    /// The fetcher's TLS configuration, for connections to the operator's servers.
    pub(crate) fn tls(&self) -> Result<ClientConfig, FetchConfigError> {
        tls_config(self.extra_ca.as_deref())
    }
}

/// A client that trusts the built-in roots and those in `extra`. No session resumption: a fetch keeps no state.
pub(super) fn tls_config(extra: Option<&Path>) -> Result<ClientConfig, FetchConfigError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = extra {
        let text = fs::read(path).map_err(|error| FetchConfigError::Unreadable(path.to_owned(), error))?;
        let before = roots.len();
        for certificate in CertificateDer::pem_slice_iter(&text) {
            roots.add(certificate.map_err(|error| FetchConfigError::NotPem(path.to_owned(), error))?)?;
        }
        if roots.len() == before {
            return Err(FetchConfigError::NoCertificate(path.to_owned()));
        }
    }
    // An explicit provider, independent of the process's default.
    let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}
