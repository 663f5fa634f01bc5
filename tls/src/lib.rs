//! TLS for servers: a certificate that can be replaced while the process runs, and a listener.
//!
//! [`Serving`] holds what is shown to whoever connects next; [`files`] fills it from files that somebody else renews. Where a
//! certificate comes from otherwise is its caller's business.

pub mod files;
mod listener;

pub use listener::TlsListener;

use std::sync::{Arc, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// The certificate of now. Connections that stand keep what they agreed on.
#[derive(Debug, Default)]
pub struct Serving {
    current: RwLock<Option<Arc<CertifiedKey>>>,
}

/// Why something is no certificate with its key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A text is not PEM, or not of what it should be.
    #[error("reading the {what}")]
    Pem {
        /// Certificate or key.
        what: &'static str,
        /// Why not.
        #[source]
        source: pem::Error,
    },
    /// There is no certificate in it.
    #[error("there is no certificate in it")]
    Empty,
    /// The key is not that of the certificate, or of a kind that is not known.
    #[error("certificate and key do not fit together")]
    Mismatch(#[from] rustls::Error),
}

impl Serving {
    /// Shows this certificate from now on.
    pub fn set(&self, certified: CertifiedKey) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(certified));
    }

    fn current(&self) -> Option<Arc<CertifiedKey>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What TLS is served with. Until there is a certificate, nobody gets through.
    pub fn configuration(self: &Arc<Self>) -> Result<Arc<ServerConfig>, rustls::Error> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let resolver = Arc::clone(self) as Arc<dyn ResolvesServerCert>;
        let mut config =
            builder.with_safe_default_protocol_versions()?.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current()
    }
}

/// A certificate with those that lead to its root, and its key, all as PEM.
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
