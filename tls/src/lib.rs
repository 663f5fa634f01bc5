//! Servers: a certificate that can be replaced while the process runs, and HTTP on connections that
//! are bounded in number and time.
//!
//! [`Serving`] holds the certificate that the next client sees; [`files`] fills it from files that
//! another program renews. Where a certificate comes from otherwise is the caller's concern.
//! [`serve()`] answers on a socket.

mod connections;
pub mod files;
mod server;

pub use connections::{Connections, PROBE_CONNECTIONS};
pub use server::serve;

use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, VerifierBuilderError, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

/// The current certificate. A connection keeps the one that it began with.
#[derive(Debug, Default)]
pub struct Serving {
    current: RwLock<Option<Arc<CertifiedKey>>>,
}

/// The reason why a text is no certificate with its key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A text is not PEM, or holds another kind of object.
    #[error("reading the {what}")]
    Pem {
        /// The certificate or the key.
        what: &'static str,
        /// The fault in the text.
        #[source]
        source: pem::Error,
    },
    /// The text holds no certificate.
    #[error("the text holds no certificate")]
    Empty,
    /// The key belongs to another certificate, or is of an unknown kind.
    #[error("certificate and key do not fit together")]
    Mismatch(#[from] rustls::Error),
    /// The text holds no certificate of an authority for clients.
    #[error("the text holds no authority for clients")]
    Authority(#[from] VerifierBuilderError),
}

impl Serving {
    /// Shows this certificate from now on.
    pub fn set(&self, certified: CertifiedKey) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(certified));
    }

    /// True if there is a certificate.
    pub fn is_set(&self) -> bool {
        self.current().is_some()
    }

    fn current(&self) -> Option<Arc<CertifiedKey>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the configuration of TLS. Handshakes fail until there is a certificate; with
    /// `clients`, they also fail for clients whose certificates these do not accept.
    pub fn configuration(
        self: &Arc<Self>,
        clients: Option<Arc<dyn ClientCertVerifier>>,
    ) -> Result<Arc<ServerConfig>, rustls::Error> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions()?;
        let builder = match clients {
            Some(clients) => builder.with_client_cert_verifier(clients),
            None => builder.with_no_client_auth(),
        };
        let mut config =
            builder.with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}

/// Reads a certificate with those that lead to its root, and its key, all as PEM.
pub fn certified(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, CertificateError> {
    let failed = |what| move |source| CertificateError::Pem { what, source };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.map_err(failed("certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(failed("key"))?;
    if chain.is_empty() {
        return Err(CertificateError::Empty);
    }
    Ok(CertifiedKey::from_der(chain, key, &ring::default_provider())?)
}

/// Returns a check that accepts clients whose certificates lead to one of these authorities, given
/// as PEM.
pub fn clients_of(authorities: &[u8]) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(authorities) {
        roots.add(
            authority.map_err(|source| CertificateError::Pem { what: "certificate", source })?,
        )?;
    }
    let provider = Arc::new(ring::default_provider());
    Ok(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?)
}

#[cfg(test)]
mod clients_tests;
