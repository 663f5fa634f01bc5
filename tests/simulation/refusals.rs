//! Refusals by the API server: for a time, some writes into one namespace are denied by a policy,
//! or by a quota.
//!
//! A refused write has no effect, and the answer says so: 403 of a policy, a quota or a webhook,
//! 422 of a validation.

use fluxqueue_core::{ActionKind, BindOutcome, Outcome, Write, WriteOutcome};
use fluxqueue_workload::ObjectKey;

use crate::server::flux_job_key;

/// The writes into a namespace that are refused, with the message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Creations of FluxJobs and writes of their status.
    pub(crate) records: bool,
    /// Bindings.
    pub(crate) bindings: bool,
    /// Every other write of a pod or Job.
    pub(crate) others: bool,
    /// True if the content is called invalid, and not forbidden.
    pub(crate) is_invalid: bool,
}

impl Refusal {
    /// Returns the answer to an action, if it is refused.
    pub(crate) fn of(self, action: &ActionKind) -> Option<Outcome> {
        let is_refused = match action {
            ActionKind::Bind { .. } => self.bindings,
            ActionKind::Write(Write::CreateFluxJob { .. } | Write::WriteStatus { .. }) => {
                self.records
            }
            ActionKind::Write(Write::DeleteFluxJob { .. } | Write::WriteQueueStatus { .. })
            | ActionKind::Note(_) => false,
            ActionKind::Write(
                Write::Ungate { .. }
                | Write::SetPodScheduled { .. }
                | Write::Nominate { .. }
                | Write::SelectNode { .. }
                | Write::ClaimVolume { .. }
                | Write::ReleaseJob { .. }
                | Write::SuspendJob { .. }
                | Write::SetGroupCondition { .. },
            ) => self.others,
        };
        is_refused.then(|| match action {
            ActionKind::Bind { .. } => Outcome::Bind(BindOutcome::Refused(FORBIDDEN.to_owned())),
            _ if self.is_invalid => Outcome::Write(WriteOutcome::Invalid(INVALID.to_owned())),
            _ => Outcome::Write(WriteOutcome::Refused(FORBIDDEN.to_owned())),
        })
    }
}

const FORBIDDEN: &str =
    "403: admission webhook \"policy.example.com\" denied the request: not in this namespace";
const INVALID: &str = "422: status: Invalid value: not in this namespace";

/// Returns the object that an action writes to, if it has a namespace.
pub(crate) fn object_of(action: &ActionKind) -> Option<ObjectKey> {
    Some(match action {
        ActionKind::Bind { pod, .. }
        | ActionKind::Write(
            Write::Ungate { pod, .. }
            | Write::SetPodScheduled { pod, .. }
            | Write::Nominate { pod, .. },
        ) => pod.key.clone(),
        ActionKind::Write(Write::CreateFluxJob { job, .. }) => flux_job_key(job),
        ActionKind::Write(
            Write::WriteStatus { job, .. }
            | Write::DeleteFluxJob { job, .. }
            | Write::ReleaseJob { job, .. }
            | Write::SuspendJob { job, .. },
        ) => job.key.clone(),
        ActionKind::Write(Write::SetGroupCondition { group, .. }) => group.key.clone(),
        ActionKind::Write(Write::SelectNode { claim, .. } | Write::ClaimVolume { claim, .. }) => {
            claim.key.clone()
        }
        ActionKind::Note(note) => note.subject.key(),
        ActionKind::Write(Write::WriteQueueStatus { .. }) => return None,
    })
}
