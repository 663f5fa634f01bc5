//! The certificate of this server: one that is named, or one that the process makes for itself.
//!
//! Tokens are sent to this server, so they have to be encrypted. Kubelets do not check who answers
//! a probe, and Prometheus can be told not to; who wants that checked gives a certificate.

use std::sync::Arc;

use fluxqueue_tls::files::{CertificateFiles, FilesError};
use fluxqueue_tls::{CertificateError, Serving, certified, files};
use rustls::ServerConfig;

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The files cannot be used.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// No certificate could be made.
    #[error("making a certificate")]
    Make(#[from] rcgen::Error),
    /// A certificate that was made cannot be used.
    #[error("making a certificate")]
    Made(#[from] CertificateError),
    /// Certificates of this kind do not make a server.
    #[error("setting up TLS")]
    Setup(#[from] rustls::Error),
}

/// What TLS is served with: the files as they are now, else a certificate that is made now and
/// known to nobody.
pub fn configuration(from: Option<&CertificateFiles>) -> Result<Arc<ServerConfig>, TlsError> {
    let serving = Arc::new(Serving::default());
    match from {
        // They are read at the start only.
        Some(from) => drop(files::open(from.clone(), Arc::clone(&serving))?),
        None => {
            let made = rcgen::generate_simple_self_signed([
                "localhost".to_owned(),
                "fluxqueue".to_owned(),
            ])?;
            serving.set(certified(
                made.cert.pem().as_bytes(),
                made.signing_key.serialize_pem().as_bytes(),
            )?);
        }
    }
    Ok(serving.configuration(None)?)
}
