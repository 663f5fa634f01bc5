//! TLS for what leaves the machine: a certificate that is named, or one that the process makes for itself.
//!
//! Tokens are sent to this server, so they have to be encrypted. Kubelets do not check who answers a probe, and Prometheus can be
//! told not to; who wants that checked gives a certificate.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a client may take to agree on keys.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);

/// Clients that agree on keys at once; more wait to be accepted.
const HANDSHAKES_MAX: usize = 32;

/// The pause after the system had no socket for a client: it may have run out of them.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Files of a certificate and its key, as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, and those that lead to its root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("reading {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// No certificate could be made.
    #[error("making a certificate")]
    Make(#[from] rcgen::Error),
    /// Certificate and key do not make a server.
    #[error("setting up TLS")]
    Setup(#[from] rustls::Error),
}

/// Connections on which keys have been agreed on.
#[derive(Debug)]
pub struct TlsListener {
    agreed: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
}

/// What TLS is served with: the files, else a certificate that is made now and known to nobody.
pub fn configuration(files: Option<&CertificateFiles>) -> Result<Arc<ServerConfig>, TlsError> {
    let (chain, key) = match files {
        Some(files) => (read_chain(&files.certificate)?, read_key(&files.key)?),
        None => make_certificate()?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |source| TlsError::Read { path: path.to_owned(), source };
    CertificateDer::pem_file_iter(path).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|source| TlsError::Read { path: path.to_owned(), source })
}

fn make_certificate() -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "fluxqueue".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], key.into()))
}

// === impl TlsListener ===

impl TlsListener {
    /// Agrees on keys with whoever connects, with several at once: one who is slow holds up nobody.
    pub fn new(listener: TcpListener, address: SocketAddr, config: Arc<ServerConfig>) -> Self {
        let (agreed_in, agreed) = mpsc::channel(HANDSHAKES_MAX);
        tokio::spawn(accept(listener, TlsAcceptor::from(config), agreed_in));
        TlsListener { agreed, address }
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    agreed: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let turns = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    loop {
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
        let (stream, address) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            // The server has ended.
            () = agreed.closed() => return,
        };
        let (acceptor, agreed) = (acceptor.clone(), agreed.clone());
        tokio::spawn(async move {
            // What a client does wrong is its own business.
            if let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_WITHIN, acceptor.accept(stream)).await {
                let _ = agreed.send((stream, address)).await;
            }
            drop(turn);
        });
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.agreed.recv().await {
            Some(agreed) => agreed,
            // The task that accepts ends with this listener, or by a panic: then nobody comes any more.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.address)
    }
}
