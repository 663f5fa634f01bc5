//! The sources of all that the server shows.

use std::sync::{Arc, OnceLock};

use super::access::Gatekeeper;
use super::admission::AdmissionSource;
use super::health::Health;
use super::metrics::Metrics;
use super::outlook;
use super::places::Places;
use super::questions::Leading;

/// Everything that the server shows, shared with the tasks that fill it.
#[derive(Debug)]
pub struct Facts {
    /// The counters of the shell.
    pub metrics: Arc<Metrics>,
    /// The liveness and readiness of the process.
    pub health: Arc<Health>,
    /// Present once this process leads.
    pub leading: OnceLock<Leading>,
    /// Decides which clients may see metrics and state; without one every client may.
    pub gatekeeper: Option<Arc<dyn Gatekeeper>>,
    /// The places for what-if requests.
    pub places: Places,
    /// The last answer about the machine as a whole.
    pub last_outlook: outlook::LastOutlook,
    /// The source of the changes that admission makes to submitted pods.
    pub admission: Arc<dyn AdmissionSource>,
}
