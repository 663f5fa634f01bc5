//! Probes on a listener, a thread and a runtime of their own, so that other clients cannot slow
//! them down.
//!
//! They are plain HTTP: kubelets check no certificate, and the answers are no secret.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use fluxqueue_tls::{Connections, PROBE_CONNECTIONS};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// The time between two signs of life of the runtime.
const BEAT_EVERY: Duration = Duration::from_secs(1);

/// The time without a sign of life after which a runtime counts as stuck: nothing in it blocks for
/// more than milliseconds.
const SILENT_FOR: Duration = Duration::from_mins(1);

/// The thread of the probes could not be started.
#[derive(Debug, thiserror::Error)]
#[error("starting the thread of the probes")]
pub struct ProbesError(#[from] std::io::Error);

/// The sign of life of the process's runtime. Probes are answered outside of it, so they read the
/// sign to know if it turns.
#[derive(Debug)]
pub struct Pulse {
    started: Instant,
    /// The time at which the runtime last turned, in milliseconds after `started`.
    beat_millis: AtomicU64,
}

/// Answers probes on a thread of its own. The result resolves when that thread has ended, which
/// happens only by a panic.
pub fn serve(listener: TcpListener, routes: Router) -> Result<oneshot::Receiver<()>, ProbesError> {
    let listener = listener.into_std()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (ended_in, ended) = oneshot::channel();
    let thread = std::thread::Builder::new().name("probes".to_owned());
    thread.spawn(move || {
        // The thread drops this at its end, also in a panic, and the receiver notices.
        let _ended_in = ended_in;
        let served = runtime.block_on(async {
            let listener = TcpListener::from_std(listener)?;
            let connections = Connections::with_places(PROBE_CONNECTIONS);
            match fluxqueue_tls::serve(listener, None, connections, routes).await {}
        });
        let served: std::io::Result<()> = served;
        if let Err(error) = served {
            tracing::error!(%error, "serving probes");
        }
    })?;
    Ok(ended)
}

// === impl Pulse ===

impl Default for Pulse {
    fn default() -> Self {
        Pulse { started: Instant::now(), beat_millis: AtomicU64::new(0) }
    }
}

impl Pulse {
    /// Gives signs of life, for ever.
    pub async fn beat(self: Arc<Self>) {
        loop {
            let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.beat_millis.store(millis, Ordering::Relaxed);
            tokio::time::sleep(BEAT_EVERY).await;
        }
    }

    /// True if the runtime has turned lately.
    pub fn beats(&self) -> bool {
        let beat = Duration::from_millis(self.beat_millis.load(Ordering::Relaxed));
        self.started.elapsed() < beat.saturating_add(SILENT_FOR)
    }
}
