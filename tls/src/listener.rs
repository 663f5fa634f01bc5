//! Connections on which keys have been agreed on: clients that are slow at this hold up nobody.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
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

/// Connections on which keys have been agreed on.
#[derive(Debug)]
pub struct TlsListener {
    agreed: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
    address: SocketAddr,
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
        // An answer goes out in several pieces; without this each would wait until the client has acknowledged the one before, which
        // it delays by 40 ms. What a system cannot do about that is only slower.
        let _ = stream.set_nodelay(true);
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
