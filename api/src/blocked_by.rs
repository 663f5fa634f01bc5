//! The obstacles to the start of a job, as its status has them.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job_state::JobState;
use crate::text;

/// The reason for which a job does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum BlockedReason {
    /// Not all pods that start together are there.
    Incomplete,
    /// One of its pods has a scheduling gate of another program.
    Gated,
    /// A person holds the job, or its queue is stopped or was deleted.
    Held,
    /// All of Fluxqueue is paused.
    Paused,
    /// The queue that the job names does not exist, or the job's namespace may not use it.
    QueueNotUsable,
    /// The spec of its queue cannot be read, and none was ever accepted.
    QueueInvalid,
    /// The job asks for a longer walltime than its queue allows.
    WalltimeTooLong,
    /// The job asks for something that is not supported.
    UnsupportedConstraint,
    /// The job contradicts itself, or cannot be read.
    InvalidRequest,
    /// An earlier job waits for nodes that this job needs.
    QueuedBehind,
    /// Its queue is at a limit.
    QueueLimit,
    /// Its queue holds as many waiting jobs as it may: the job has no place there yet.
    QueueFull,
    /// Pods of a Job that was released in its namespace did not all come: no other Job is released
    /// there for a while.
    ReleasePaused,
    /// A ResourceQuota of its namespace leaves too little for the pods that its Job does not have
    /// yet.
    QuotaExceeded,
    /// The nodes that it may use have too little free.
    InsufficientResources,
    /// No rack, zone or other part of a level has room for as many of its pods as are to be in one.
    NoRoomInLevel,
    /// The nodes that it could use are cordoned, not ready, or have just refused a pod; or other
    /// pods keep it away from them.
    NoMatchingNodes,
    /// The job does not fit on the existing nodes, however idle.
    Unsatisfiable,
    /// The job had been placed, and its placement was withdrawn before its first Binding.
    PlacementWithdrawn,
    /// The API server refuses a write that the start needs, or such a write has failed several
    /// times.
    BindFailed,
    /// A claim of a pod is missing, lost, about to be deleted, not bound, or in use.
    VolumesNotReady,
    /// A claim could not be bound where its pod was placed.
    VolumeBindingFailed,
    /// Work with no known end is on nodes that it could use. This reason appears only beside a
    /// shortage there.
    UnknownEnd,
    /// A reason that another version of Fluxqueue has written.
    #[default]
    #[serde(other)]
    #[schemars(skip)]
    Unknown,
}

/// One obstacle to the start of a job, with numbers and the object that causes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlockedBy {
    /// The reason, in one word.
    pub reason: BlockedReason,
    /// The reason for people, with numbers.
    pub message: String,
    /// The resource of which too little is free, or is left of the queue's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The level of the machine that has no part with enough room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// The part of that level that has most room, or the part where the rest of the job is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The amount of the resource that the job requests in total. For a level: the number of pods
    /// that are to be in one part, or in all parts together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<String>,
    /// The amount of the resource that is free on the nodes that the job may use, or left of the
    /// limit. For a level: the number of those pods that have room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available: Option<String>,
    /// The used part of a limit: an amount of the resource, or a number of running jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<String>,
    /// The limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// The FluxQueue that sets the limit or the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The job in the way, as `namespace/name`: this job waits behind it, or for its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<String>,
    /// The time from which nodes are kept for the job in `behind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_from: Option<MicroTime>,
}

/// Reads a list, or the single entry that earlier builds wrote instead.
pub(crate) fn one_or_several<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<BlockedBy>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum OneOrSeveral {
        Several(Vec<BlockedBy>),
        One(Box<BlockedBy>),
    }
    Ok(match Option::deserialize(deserializer)? {
        Some(OneOrSeveral::Several(list)) => list,
        Some(OneOrSeveral::One(one)) => vec![*one],
        None => Vec::new(),
    })
}

impl BlockedReason {
    /// All reasons that this version writes.
    pub const ALL: [BlockedReason; 23] = [
        BlockedReason::Incomplete,
        BlockedReason::Gated,
        BlockedReason::Held,
        BlockedReason::Paused,
        BlockedReason::QueueNotUsable,
        BlockedReason::QueueInvalid,
        BlockedReason::WalltimeTooLong,
        BlockedReason::UnsupportedConstraint,
        BlockedReason::InvalidRequest,
        BlockedReason::QueuedBehind,
        BlockedReason::QueueLimit,
        BlockedReason::QueueFull,
        BlockedReason::ReleasePaused,
        BlockedReason::QuotaExceeded,
        BlockedReason::InsufficientResources,
        BlockedReason::NoRoomInLevel,
        BlockedReason::NoMatchingNodes,
        BlockedReason::Unsatisfiable,
        BlockedReason::PlacementWithdrawn,
        BlockedReason::BindFailed,
        BlockedReason::VolumesNotReady,
        BlockedReason::VolumeBindingFailed,
        BlockedReason::UnknownEnd,
    ];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            BlockedReason::Incomplete => "Incomplete",
            BlockedReason::Gated => "Gated",
            BlockedReason::Held => "Held",
            BlockedReason::Paused => "Paused",
            BlockedReason::QueueNotUsable => "QueueNotUsable",
            BlockedReason::QueueInvalid => "QueueInvalid",
            BlockedReason::WalltimeTooLong => "WalltimeTooLong",
            BlockedReason::UnsupportedConstraint => "UnsupportedConstraint",
            BlockedReason::InvalidRequest => "InvalidRequest",
            BlockedReason::QueuedBehind => "QueuedBehind",
            BlockedReason::QueueLimit => "QueueLimit",
            BlockedReason::QueueFull => "QueueFull",
            BlockedReason::ReleasePaused => "ReleasePaused",
            BlockedReason::QuotaExceeded => "QuotaExceeded",
            BlockedReason::InsufficientResources => "InsufficientResources",
            BlockedReason::NoRoomInLevel => "NoRoomInLevel",
            BlockedReason::NoMatchingNodes => "NoMatchingNodes",
            BlockedReason::Unsatisfiable => "Unsatisfiable",
            BlockedReason::PlacementWithdrawn => "PlacementWithdrawn",
            BlockedReason::BindFailed => "BindFailed",
            BlockedReason::VolumesNotReady => "VolumesNotReady",
            BlockedReason::VolumeBindingFailed => "VolumeBindingFailed",
            BlockedReason::UnknownEnd => "UnknownEnd",
            BlockedReason::Unknown => "Unknown",
        }
    }

    /// Returns the state of a job that waits for this reason.
    pub fn state(self) -> JobState {
        match self {
            BlockedReason::Incomplete | BlockedReason::Gated | BlockedReason::VolumesNotReady => {
                JobState::Incomplete
            }
            BlockedReason::Held | BlockedReason::Paused | BlockedReason::QueueInvalid => {
                JobState::Held
            }
            BlockedReason::QueueNotUsable
            | BlockedReason::WalltimeTooLong
            | BlockedReason::UnsupportedConstraint
            | BlockedReason::InvalidRequest => JobState::Refused,
            BlockedReason::Unsatisfiable => JobState::Unsatisfiable,
            BlockedReason::QueuedBehind
            | BlockedReason::QueueLimit
            | BlockedReason::QueueFull
            | BlockedReason::ReleasePaused
            | BlockedReason::QuotaExceeded
            | BlockedReason::InsufficientResources
            | BlockedReason::NoRoomInLevel
            | BlockedReason::NoMatchingNodes
            | BlockedReason::PlacementWithdrawn
            | BlockedReason::BindFailed
            | BlockedReason::VolumeBindingFailed
            | BlockedReason::UnknownEnd
            | BlockedReason::Unknown => JobState::Pending,
        }
    }

    /// True if a job that waits for this reason has no place in the queue: the reason lies in the
    /// job itself.
    pub fn is_outside_the_queue(self) -> bool {
        let has_no_place = matches!(
            self,
            BlockedReason::QueueFull | BlockedReason::ReleasePaused | BlockedReason::QuotaExceeded
        );
        has_no_place || !matches!(self.state(), JobState::Pending | JobState::Unsatisfiable)
    }
}

impl fmt::Display for BlockedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl BlockedBy {
    /// Makes an entry from a reason and its message for people.
    pub fn new(reason: BlockedReason, message: impl Into<String>) -> Self {
        BlockedBy { reason, message: text::into_message(message.into()), ..BlockedBy::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_reason_of_another_version_is_read() {
        let read: BlockedBy =
            serde_json::from_value(json!({ "reason": "Gated", "message": "" })).unwrap();
        assert_eq!(
            (read.reason, read.reason.to_string()),
            (BlockedReason::Gated, "Gated".to_owned())
        );
        assert!(BlockedReason::ALL.into_iter().all(|reason| json!(reason) == reason.as_str()));
        let newer: BlockedBy =
            serde_json::from_value(json!({ "reason": "Preempted", "message": "" })).unwrap();
        assert_eq!(newer.reason, BlockedReason::Unknown);
    }
}
