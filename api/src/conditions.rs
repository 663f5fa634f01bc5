//! Conditions of a FluxJob: their types, their reasons, and the state that sums them up.
//!
//! Conditions are the contract: people and programs wait for them. Types and reasons are closed
//! sets, here, in the schema and in docs/fluxjob.md. Conditions of other types belong to other
//! programs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Value, json};

use crate::blocked_by::BlockedReason;
use crate::job_state::JobState;

/// The conditions that Fluxqueue writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionType {
    /// All pods that start together have been bound. If not, the reason says why.
    Scheduled,
    /// The job has begun, and is not whole.
    Degraded,
    /// The job has ended.
    Finished,
    /// A warning: pods have only one of the two group labels, and one alone makes no group.
    IncompleteGroupLabels,
    /// A warning: the walltime that the workload gives cannot be read.
    InvalidWalltime,
    /// A warning: pods that start together have different priorities.
    PriorityContradiction,
    /// A warning: the group asks for more pods to start together than can appear.
    SizeClamped,
    /// A warning: pods of one group ask for different sizes.
    SizeContradiction,
    /// A warning: preferences are not honoured.
    SoftTermsIgnored,
    /// A warning: the PriorityClass in the overrides does not exist.
    UnknownPriorityClass,
}

/// The reason of the condition Scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduledReason {
    /// True: all pods that start together have been bound.
    Scheduled,
    /// False: they are being bound.
    Starting,
    /// False: the job was not tried yet.
    Queued,
    /// False: the job has ended, and no pod of it was ever bound.
    NeverScheduled,
    /// False: this keeps the job from starting.
    Blocked(BlockedReason),
}

/// The reason of the condition Degraded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DegradedReason {
    /// False: nothing is missing.
    Whole,
    /// True: the gang was whole, and lost a pod.
    MemberLost,
    /// True: the gang has begun, and waits for another job that waits for it.
    MutualWait,
    /// True: the gang has begun, and did not become whole within `gangStartTimeout`.
    StartTimeout,
}

/// The reason of the condition Finished. Until the job ends, the condition is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishedReason {
    /// True: all its pods have ended, and succeeded.
    Succeeded,
    /// True: it ended otherwise.
    Failed,
}

/// The condition that Fluxqueue writes into a FluxQueue: whether its spec counts.
pub const ACCEPTED: &str = "Accepted";

/// The reason of the condition [`ACCEPTED`] of a FluxQueue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptedReason {
    /// True: the spec counts.
    Accepted,
    /// False: the spec cannot be read; the message names the field. The last spec that was accepted
    /// counts.
    InvalidSpec,
}

// === impl ConditionType ===

impl ConditionType {
    /// All condition types.
    pub const ALL: [ConditionType; 10] = [
        ConditionType::Scheduled,
        ConditionType::Degraded,
        ConditionType::Finished,
        ConditionType::IncompleteGroupLabels,
        ConditionType::InvalidWalltime,
        ConditionType::PriorityContradiction,
        ConditionType::SizeClamped,
        ConditionType::SizeContradiction,
        ConditionType::SoftTermsIgnored,
        ConditionType::UnknownPriorityClass,
    ];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            ConditionType::Scheduled => "Scheduled",
            ConditionType::Degraded => "Degraded",
            ConditionType::Finished => "Finished",
            ConditionType::IncompleteGroupLabels => "IncompleteGroupLabels",
            ConditionType::InvalidWalltime => "InvalidWalltime",
            ConditionType::PriorityContradiction => "PriorityContradiction",
            ConditionType::SizeClamped => "SizeClamped",
            ConditionType::SizeContradiction => "SizeContradiction",
            ConditionType::SoftTermsIgnored => "SoftTermsIgnored",
            ConditionType::UnknownPriorityClass => "UnknownPriorityClass",
        }
    }

    /// Returns the type of this name; `None` if it is another program's.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|type_| type_.as_str() == name)
    }

    /// True if it is a warning. A warning says once that Fluxqueue takes something in another way
    /// than the workload asks, and stays.
    pub fn is_warning(self) -> bool {
        !matches!(
            self,
            ConditionType::Scheduled | ConditionType::Degraded | ConditionType::Finished
        )
    }

    /// Returns the reasons that it can have. A warning has one, of its own name.
    pub fn reasons(self) -> Vec<String> {
        let names = |reasons: &[&str]| reasons.iter().map(|reason| (*reason).to_owned()).collect();
        match self {
            ConditionType::Scheduled => {
                ScheduledReason::all().map(|reason| reason.to_string()).collect()
            }
            ConditionType::Degraded => names(&DegradedReason::ALL.map(DegradedReason::as_str)),
            ConditionType::Finished => names(&FinishedReason::ALL.map(FinishedReason::as_str)),
            warning => names(&[warning.as_str()]),
        }
    }
}

// === impl ScheduledReason ===

impl ScheduledReason {
    /// Returns all reasons.
    pub fn all() -> impl Iterator<Item = Self> {
        let own = [Self::Scheduled, Self::Starting, Self::Queued, Self::NeverScheduled];
        own.into_iter().chain(BlockedReason::ALL.into_iter().map(Self::Blocked))
    }

    /// Returns the reason of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|reason| reason.to_string() == name)
    }
}

impl std::fmt::Display for ScheduledReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ScheduledReason::Blocked(reason) => reason.fmt(f),
            own => std::fmt::Debug::fmt(own, f),
        }
    }
}

// === impl DegradedReason ===

impl DegradedReason {
    /// All reasons.
    pub const ALL: [DegradedReason; 4] = [
        DegradedReason::Whole,
        DegradedReason::MemberLost,
        DegradedReason::MutualWait,
        DegradedReason::StartTimeout,
    ];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            DegradedReason::Whole => "Whole",
            DegradedReason::MemberLost => "MemberLost",
            DegradedReason::MutualWait => "MutualWait",
            DegradedReason::StartTimeout => "StartTimeout",
        }
    }

    /// Returns the reason of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }
}

// === impl FinishedReason ===

impl FinishedReason {
    /// All reasons.
    pub const ALL: [FinishedReason; 2] = [FinishedReason::Succeeded, FinishedReason::Failed];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            FinishedReason::Succeeded => "Succeeded",
            FinishedReason::Failed => "Failed",
        }
    }

    /// Returns the reason of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == name)
    }

    /// Returns the reason for the end in these conditions; `None` if the job has not ended.
    pub fn among(conditions: &[Condition]) -> Option<Self> {
        let finished =
            of_type(conditions, ConditionType::Finished).filter(|said| said.status == "True")?;
        Self::from_name(&finished.reason)
    }
}

// === impl AcceptedReason ===

impl AcceptedReason {
    /// All reasons.
    pub const ALL: [AcceptedReason; 2] = [AcceptedReason::Accepted, AcceptedReason::InvalidSpec];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            AcceptedReason::Accepted => "Accepted",
            AcceptedReason::InvalidSpec => "InvalidSpec",
        }
    }
}

// === impl JobState ===

impl JobState {
    /// Returns the state of a job that has ended with this reason, or is scheduled with this one.
    pub fn of(finished: Option<FinishedReason>, scheduled: ScheduledReason) -> Self {
        match (finished, scheduled) {
            (Some(FinishedReason::Succeeded), _) => JobState::Completed,
            (Some(FinishedReason::Failed), _) => JobState::Failed,
            (None, ScheduledReason::Scheduled) => JobState::Running,
            (None, ScheduledReason::Starting) => JobState::Starting,
            (None, ScheduledReason::Queued | ScheduledReason::NeverScheduled) => JobState::Pending,
            (None, ScheduledReason::Blocked(reason)) => reason.state(),
        }
    }

    /// Sums up these conditions.
    pub fn from_conditions(conditions: &[Condition]) -> Self {
        let scheduled = of_type(conditions, ConditionType::Scheduled);
        let reason = scheduled.and_then(|said| ScheduledReason::from_name(&said.reason));
        Self::of(FinishedReason::among(conditions), reason.unwrap_or(ScheduledReason::Queued))
    }
}

/// Finds the condition of this type.
pub fn of_type(conditions: &[Condition], type_: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == type_.as_str())
}

/// Returns the schema of `status.conditions`: that of every `metav1.Condition`, with the possible
/// reasons of Fluxqueue's types.
///
/// An older CRD refuses a reason that is added later: [`crate::Definition::missing_from`] is how a
/// process notices before it writes.
pub(crate) fn schema(_: &mut SchemaGenerator) -> Schema {
    list(&reason_rules())
}

/// Returns the schema of `status.conditions` of a FluxQueue.
pub(crate) fn queue_schema(_: &mut SchemaGenerator) -> Schema {
    list(&[reasons(ACCEPTED, &AcceptedReason::ALL.map(|reason| reason.as_str().to_owned()))])
}

/// Returns the schema of a list of conditions, each of which keeps these rules.
fn list(rules: &[Value]) -> Schema {
    const CAMEL_CASE: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
    const TYPE: &str = concat!(
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
        r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
    );
    schemars::json_schema!({
        "type": "array",
        "maxItems": 64,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {
                    "type": "string", "maxLength": 316, "pattern": TYPE,
                    "description": "The type of the condition.",
                },
                "status": {
                    "type": "string", "enum": ["True", "False", "Unknown"],
                    "description": "Whether the condition holds.",
                },
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": 1024, "pattern": CAMEL_CASE,
                    "description": "The reason, in one word. For the types of Fluxqueue, one of \
                                    those that docs/fluxjob.md lists.",
                },
                "message": {
                    "type": "string", "maxLength": 32_768, "description": "The reason, for people.",
                },
                "lastTransitionTime": {
                    "type": "string", "format": "date-time",
                    "description": "Since when the status has this value.",
                },
                "observedGeneration": {
                    "type": "integer", "format": "int64", "minimum": 0,
                    "description": "The `metadata.generation` of the spec on which it was decided.",
                },
            },
            "x-kubernetes-validations": rules,
        },
    })
}

/// Lists the reasons that each of our types may have, as CEL.
fn reason_rules() -> Vec<Value> {
    let (warnings, others): (Vec<_>, Vec<_>) =
        ConditionType::ALL.into_iter().partition(|type_| type_.is_warning());
    let rule = |type_: ConditionType| reasons(type_.as_str(), &type_.reasons());
    let warnings: Vec<String> =
        warnings.into_iter().map(|type_| type_.as_str().to_owned()).collect();
    let of_warnings = json!({
        "rule": format!("!(self.type in [{}]) || self.reason == self.type", listed(&warnings)),
        "message": "the reason of a warning is its type",
        "fieldPath": ".reason",
    });
    others.into_iter().map(rule).chain([of_warnings]).collect()
}

/// Returns a rule for the reasons of one type, as CEL.
fn reasons(type_: &str, reasons: &[String]) -> Value {
    json!({
        "rule": format!("self.type != '{type_}' || self.reason in [{}]", listed(reasons)),
        "message": format!("the reason of {type_} is one of {}", reasons.join(", ")),
        "fieldPath": ".reason",
    })
}

fn listed(words: &[String]) -> String {
    words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(type_: &str, status: &str, reason: &str) -> Condition {
        serde_json::from_value(json!({
            "type": type_, "status": status, "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }))
        .unwrap()
    }

    #[test]
    fn the_state_sums_up_the_conditions() {
        let waits = condition("Scheduled", "False", "InsufficientResources");
        let foreign = condition("example.com/Billed", "True", "Paid");
        assert_eq!(JobState::from_conditions(&[]), JobState::Pending);
        assert_eq!(JobState::from_conditions(&[foreign.clone(), waits.clone()]), JobState::Pending);
        assert_eq!(
            JobState::from_conditions(&[condition("Scheduled", "False", "Held")]),
            JobState::Held
        );
        assert_eq!(
            JobState::from_conditions(&[condition("Scheduled", "False", "Starting")]),
            JobState::Starting
        );
        let runs = condition("Scheduled", "True", "Scheduled");
        assert_eq!(JobState::from_conditions(std::slice::from_ref(&runs)), JobState::Running);
        let ended = condition("Finished", "True", "Failed");
        assert_eq!(JobState::from_conditions(&[runs, ended.clone(), foreign]), JobState::Failed);
        assert_eq!(FinishedReason::among(&[ended]), Some(FinishedReason::Failed));
        assert_eq!(FinishedReason::among(&[waits]), None);
    }

    #[test]
    fn names_lead_back() {
        for type_ in ConditionType::ALL {
            assert_eq!(ConditionType::from_name(type_.as_str()), Some(type_));
            assert!(!type_.reasons().is_empty());
        }
        assert!(
            ScheduledReason::all()
                .all(|it| ScheduledReason::from_name(&it.to_string()) == Some(it))
        );
        assert!(
            DegradedReason::ALL
                .into_iter()
                .all(|it| DegradedReason::from_name(it.as_str()) == Some(it))
        );
        assert_eq!(ConditionType::from_name("example.com/Billed"), None);
    }

    #[test]
    fn every_reason_is_in_the_guide() {
        let guide = include_str!("../../docs/fluxjob.md");
        let of_queues = include_str!("../../docs/queues.md");
        for reason in AcceptedReason::ALL.map(AcceptedReason::as_str) {
            assert!(
                of_queues.contains(&format!("`{reason}`")),
                "docs/queues.md does not say what {reason} means"
            );
        }
        for type_ in ConditionType::ALL {
            for word in type_.reasons().into_iter().chain([type_.as_str().to_owned()]) {
                assert!(
                    guide.contains(&format!("`{word}`")),
                    "docs/fluxjob.md does not say what {word} means"
                );
            }
        }
    }
}
