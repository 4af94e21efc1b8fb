//! TLS client configuration of fetches, and of connections to the operator's servers.

use super::error::FetchConfigError;
use crate::source::config::FetchConfig;
use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::fs;
use std::sync::Arc;

impl FetchConfig {
    /// A client that trusts the built-in roots and the roots of `extra_ca`. No session resumption: a fetch keeps no state.
    pub(crate) fn tls(&self) -> Result<ClientConfig, FetchConfigError> {
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(path) = &self.extra_ca {
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
}
