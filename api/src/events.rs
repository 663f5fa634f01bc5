//! The closed set of reasons of Events.

use crate::{BlockedReason, ConditionType, DegradedReason, FinishedReason};

/// The reasons of Events that are not about a condition of a FluxJob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventReason {
    /// On a pod: the pod was bound to a node. On a FluxJob: all pods that start together were
    /// bound.
    Scheduled,
    /// On a waiting pod: the reason for which it waits, as in its condition PodScheduled.
    FailedScheduling,
    /// On a pod with the gate `fluxqueue`: the pod names another scheduler, so the gate is left
    /// alone.
    GateIgnored,
    /// On a Job with the annotation `fluxqueue/suspended`: its namespace is not labelled
    /// `fluxqueue/suspend=enabled`, so the Job is left alone.
    SuspensionIgnored,
    /// On a FluxJob and its first pod: the job starts later than promised. The message names one of
    /// the four causes, and the obstacle.
    ReservationDelayed,
    /// On a FluxQueue: its spec cannot be read. The message names the field, and the spec that
    /// counts instead.
    InvalidSpec,
    /// On a FluxQueue: its spec counts again.
    Accepted,
    /// On a FluxJob and its first pod: writing the FluxJob has had no answer for 10 s, so other
    /// jobs do not wait for it any more.
    RecordUnanswered,
    /// On a node: its kubelet has refused three pods in a row, and runs none of them. The node is
    /// left alone for longer after each refusal.
    NodeRefusesPods,
}

impl EventReason {
    /// All reasons.
    pub const ALL: [EventReason; 9] = [
        EventReason::Scheduled,
        EventReason::FailedScheduling,
        EventReason::GateIgnored,
        EventReason::SuspensionIgnored,
        EventReason::ReservationDelayed,
        EventReason::InvalidSpec,
        EventReason::Accepted,
        EventReason::RecordUnanswered,
        EventReason::NodeRefusesPods,
    ];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            EventReason::Scheduled => "Scheduled",
            EventReason::FailedScheduling => "FailedScheduling",
            EventReason::GateIgnored => "GateIgnored",
            EventReason::SuspensionIgnored => "SuspensionIgnored",
            EventReason::ReservationDelayed => "ReservationDelayed",
            EventReason::InvalidSpec => "InvalidSpec",
            EventReason::Accepted => "Accepted",
            EventReason::RecordUnanswered => "RecordUnanswered",
            EventReason::NodeRefusesPods => "NodeRefusesPods",
        }
    }

    /// True if Fluxqueue writes Events for this reason: one of these, the reason of a condition, or
    /// a warning.
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
