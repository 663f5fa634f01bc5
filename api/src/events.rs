//! The closed set of reasons of Events.

use crate::{BlockedReason, ConditionType, DegradedReason, FinishedReason};

/// Why an Event is written that is not about a condition of a FluxJob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventReason {
    /// On a pod: it was bound to a node. On a FluxJob: all its pods were.
    Scheduled,
    /// On a pod that waits: why, as its condition PodScheduled says it.
    FailedScheduling,
    /// On a pod that carries our gate: another scheduler is to place it, so the gate is left alone.
    GateIgnored,
    /// On a FluxJob and its first pod: it starts later than it was promised. Says for which of the four causes, and who or what
    /// is in the way.
    ReservationDelayed,
}

impl EventReason {
    /// All of them.
    pub const ALL: [EventReason; 4] = [
        EventReason::Scheduled,
        EventReason::FailedScheduling,
        EventReason::GateIgnored,
        EventReason::ReservationDelayed,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            EventReason::Scheduled => "Scheduled",
            EventReason::FailedScheduling => "FailedScheduling",
            EventReason::GateIgnored => "GateIgnored",
            EventReason::ReservationDelayed => "ReservationDelayed",
        }
    }

    /// Whether Fluxqueue writes Events for this reason: one of these, or a reason of a condition, or a warning.
    pub fn is_known(name: &str) -> bool {
        EventReason::ALL.iter().any(|reason| reason.as_str() == name)
            || BlockedReason::ALL.iter().any(|reason| reason.as_str() == name)
            || DegradedReason::from_name(name).is_some()
            || FinishedReason::from_name(name).is_some()
            || ConditionType::from_name(name).is_some_and(ConditionType::is_warning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_conditions_and_warnings_are_reasons_of_events() {
        for reason in ["Scheduled", "Held", "MemberLost", "Succeeded", "SizeClamped"] {
            assert!(EventReason::is_known(reason), "{reason}");
        }
        assert!(!EventReason::is_known("Degraded"));
    }
}
