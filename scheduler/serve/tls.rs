//! The certificate of this server: one from files, or one that the process makes for itself.
//!
//! Clients send tokens to this server, so the connection has to be encrypted. Kubelets do not check
//! the certificate of a probed server, and Prometheus need not; an administrator who wants it
//! checked provides one.

use std::sync::Arc;

use fluxqueue_tls::files::{CertificateFiles, FilesError};
use fluxqueue_tls::{CertificateError, Serving, certified, files};
use rustls::ServerConfig;

/// The reason why there is no TLS.
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

/// Returns the configuration of TLS: with the present content of the files, or else with a
/// certificate that is made now, and that no client can verify.
pub fn configuration(from: Option<&CertificateFiles>) -> Result<Arc<ServerConfig>, TlsError> {
    let serving = Arc::new(Serving::default());
    match from {
        // The files are read at the start only.
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
