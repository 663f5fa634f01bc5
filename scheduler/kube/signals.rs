//! SIGTERM and SIGINT: the first asks for an orderly end, the second ends at once.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The signals cannot be received, so the process could not end in order.
#[derive(Debug, thiserror::Error)]
#[error("listening for signals")]
pub struct SignalError(#[from] std::io::Error);

/// The signals of this process.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

// === impl Signals ===

impl Signals {
    /// Takes over the signals: from now on they no longer end the process by themselves.
    pub(crate) fn listen() -> Result<Self, SignalError> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Cancels `end` at the first signal, and exits with status 1 at the second.
    pub(crate) async fn obey(mut self, end: CancellationToken) {
        self.next().await;
        tracing::info!("ending; a second signal ends at once");
        end.cancel();
        self.next().await;
        tracing::warn!("ended by a second signal");
        std::process::exit(1);
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
