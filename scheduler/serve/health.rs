//! The liveness and the readiness of the process.
//!
//! A standby replica is alive and ready: a metric shows that it does not lead, and no probe fails
//! for it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::probes::Pulse;

/// The longest time between two turns of the core's loop, after which it counts as stuck: a pass
/// takes milliseconds, and an idle loop turns every second.
const CORE_SILENT_FOR: Duration = Duration::from_mins(1);

/// The kinds of probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// A failure means that the process should be restarted.
    Live,
    /// A failure means that the process does not do its work now.
    Ready,
}

/// The state from which probes are answered.
#[derive(Debug)]
pub struct Health {
    started: Instant,
    /// The pulse of the process's runtime.
    pub pulse: Arc<Pulse>,
    /// The time at which the core's loop last turned, in milliseconds after `started`, plus 1; 0
    /// while there is no core.
    turned_millis: AtomicU64,
    leads: AtomicBool,
    synced: AtomicBool,
    stopping: AtomicBool,
    definition_lacks: AtomicBool,
}

/// The outcome of each check of a probe.
#[derive(Debug)]
pub struct ProbeReport {
    probe: Probe,
    checks: Vec<(&'static str, bool)>,
}

// === impl Health ===

impl Default for Health {
    fn default() -> Self {
        Health {
            started: Instant::now(),
            pulse: Arc::default(),
            turned_millis: AtomicU64::new(0),
            leads: AtomicBool::new(false),
            synced: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            definition_lacks: AtomicBool::new(false),
        }
    }
}

impl Health {
    /// Notes that the core's loop has turned.
    pub fn core_turned(&self) {
        let millis = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX - 1);
        self.turned_millis.store(millis + 1, Ordering::Relaxed);
    }

    /// Notes that this process leads from now on.
    pub fn set_leads(&self) {
        self.leads.store(true, Ordering::Relaxed);
    }

    /// Notes that all first lists have been received.
    pub fn set_synced(&self) {
        self.synced.store(true, Ordering::Relaxed);
    }

    /// Notes that the process is about to end.
    pub fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Notes if the CustomResourceDefinition of FluxJobs lacks a part that this process needs, so
    /// that it does not try to lead.
    pub fn set_definition_lacks(&self, lacks: bool) {
        self.definition_lacks.store(lacks, Ordering::Relaxed);
    }

    /// Runs the checks of a probe.
    pub fn report(&self, probe: Probe) -> ProbeReport {
        let mut checks = vec![
            ("ping", true),
            ("runtime-turns", self.pulse.beats()),
            ("core-turns", self.core_turns()),
        ];
        if probe == Probe::Ready {
            let waits_for_lists =
                self.leads.load(Ordering::Relaxed) && !self.synced.load(Ordering::Relaxed);
            checks.push(("lists-received", !waits_for_lists));
            checks.push(("crd-is-new-enough", !self.definition_lacks.load(Ordering::Relaxed)));
            checks.push(("not-shutting-down", !self.stopping.load(Ordering::Relaxed)));
        }
        ProbeReport { probe, checks }
    }

    fn core_turns(&self) -> bool {
        match self.turned_millis.load(Ordering::Relaxed) {
            0 => true,
            turned => self.started.elapsed() < Duration::from_millis(turned) + CORE_SILENT_FOR,
        }
    }
}

// === impl ProbeReport ===

impl ProbeReport {
    /// True if every check passed.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(|(_, passed)| *passed)
    }
}

impl fmt::Display for ProbeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, passed) in &self.checks {
            let (mark, word) = if *passed { ('+', "ok") } else { ('-', "failed") };
            writeln!(f, "[{mark}]{name} {word}")?;
        }
        let probe = match self.probe {
            Probe::Live => "livez",
            Probe::Ready => "readyz",
        };
        writeln!(f, "{probe} check {}", if self.passed() { "passed" } else { "failed" })
    }
}
