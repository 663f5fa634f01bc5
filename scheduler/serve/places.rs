//! The places of requests that are being answered.

use std::sync::Arc;

use tokio::sync::Semaphore;

/// The most requests that are read and answered at the same time, and so the most bodies in memory.
/// The server turns other clients away, and they may try again.
pub(super) const PLACES: usize = 2;

/// The places for requests that are being answered.
#[derive(Debug)]
pub struct Places(pub(super) Arc<Semaphore>);

impl Default for Places {
    fn default() -> Self {
        Places(Arc::new(Semaphore::new(PLACES)))
    }
}
