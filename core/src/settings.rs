//! What the core is told once, at its start.
//!
//! Plain values, already checked: where they come from (flags, the settings file) is
//! `crate::settings`' matter.

use std::sync::Arc;

use fluxion_sys::FunctionTable;
use fluxqueue_api::names::SCHEDULER_NAME;

use crate::CoreError;
use fluxqueue_machine::NodePolicy;
use fluxqueue_machine::cluster::{Node, Topology};
use fluxqueue_planner::forward::Forward;
use fluxqueue_planner::plan::{QueueDefaults, QueuePolicy};

/// Settings of the core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreSettings {
    /// `spec.schedulerName` values that are ours; never empty, without repeats.
    pub scheduler_names: Vec<Arc<str>>,
    /// Which of the nodes that fit a job takes.
    pub node_policy: NodePolicy,
    /// The walltime of a job that says none itself and would otherwise end some day; `None`:
    /// nothing is assumed.
    pub default_walltime_secs: Option<u64>,
    /// How long the FluxJob of an ended job is kept.
    pub ttl_after_finished_secs: u64,
    /// How long the slot of a pod that ended is kept for its successor.
    pub slot_keep_secs: u64,
    /// How long it is kept at most because a Job waits longer before it replaces a pod, the more of
    /// its pods have failed.
    pub slot_keep_max_secs: u64,
    /// How long a gang may take from its first Binding until all are bound before it says that it
    /// is Degraded.
    pub gang_start_timeout_secs: u64,
    /// How long the volumes of a pod, or of a gang, may take to be bound once it has its slots.
    pub volume_bind_timeout_secs: u64,
    /// How long the place of a suspended Job is held from its release until all its pods are there.
    pub suspend_hold_secs: u64,
    /// How long a namespace waits for its next release after the first one of which not all pods
    /// came in time. 0: it does not wait.
    pub release_pause_secs: u64,
    /// How long a group whose pods stop appearing may stay incomplete before that is said.
    pub group_grace_secs: u64,
    /// Every lone pod has a FluxJob, also one that gets its node at once.
    pub record_lone_pods: bool,
    /// Who may start before whom.
    pub queue_policy: QueuePolicy,
    /// Only the first so many in the queue may hold a reservation. Whoever fits starts, wherever he
    /// stands.
    pub queue_depth: usize,
    /// How many hold a reservation under [`QueuePolicy::Hybrid`].
    pub reservation_depth: usize,
    /// A pass is left for lone pods that have come, and gone on with, after so many questions to
    /// the resource graph, or what takes about as long.
    pub questions_per_slice: u64,
    /// What is written into a namespace may name jobs and pods of other namespaces.
    pub names_across_namespaces: bool,
    /// How long others may go ahead of the first who waits, if nobody knows when he can start; 0:
    /// not at all.
    pub bypass_secs: u64,
    /// A pod may begin to run so much later than it was bound, by clocks that show whole seconds
    /// and are compared to the second, without anything that was planned being delayed by that. 0
    /// where one clock serves all.
    pub start_slack_secs: u64,
    /// The end of a pod may be seen so much later than it was due by such clocks without anything
    /// being delayed by that.
    pub end_slack_secs: u64,
    /// The levels of the machine: racks, zones and the like, by labels of nodes.
    pub topology: Arc<Topology>,
}

impl Default for CoreSettings {
    /// What goes where nobody says otherwise.
    fn default() -> Self {
        CoreSettings {
            scheduler_names: vec![Arc::from(SCHEDULER_NAME)],
            node_policy: NodePolicy::default(),
            default_walltime_secs: None,
            ttl_after_finished_secs: 3_600,
            slot_keep_secs: 15,
            slot_keep_max_secs: 60,
            gang_start_timeout_secs: 60,
            volume_bind_timeout_secs: 600,
            suspend_hold_secs: 60,
            release_pause_secs: 60,
            group_grace_secs: 3,
            record_lone_pods: false,
            queue_policy: QueuePolicy::default(),
            // Fluxion's own depths are 32 and 64; a job that waits costs less here.
            queue_depth: 1_000,
            reservation_depth: 64,
            questions_per_slice: 32,
            names_across_namespaces: false,
            bypass_secs: 300,
            // From the decision to the kubelet's start of a pod: the record and the Bindings are
            // written, which takes a second when many jobs come at once, and the kubelet takes the
            // pod up within a second.
            start_slack_secs: 2,
            // A kubelet says in whole seconds when a pod started, the API server's clock is known
            // to half a second, and an end takes a moment to be seen.
            end_slack_secs: 1,
            topology: Arc::default(),
        }
    }
}

impl CoreSettings {
    /// The plan run forward over these nodes, which are idle and have ranks in this order.
    pub fn forward(
        &self,
        library: FunctionTable,
        nodes: impl IntoIterator<Item = Node>,
    ) -> Result<Forward, CoreError> {
        let machine = (self.node_policy, &self.topology);
        Ok(Forward::new(machine, self.queue_defaults(), library, nodes)?)
    }

    /// What goes for queues that do not say otherwise.
    pub(crate) fn queue_defaults(&self) -> QueueDefaults {
        QueueDefaults {
            policy: self.queue_policy,
            queue_depth: self.queue_depth,
            reservation_depth: self.reservation_depth,
            bypass_secs: self.bypass_secs,
        }
    }
}

/// A Job makes the first pod in place of a failed one after this time, and the next ones after
/// twice the time before.
const BACK_OFF_SECS: u64 = 10;
/// How much later than that the pod may be there.
const BACK_OFF_SLACK_SECS: u64 = 5;

impl CoreSettings {
    /// How long a slot is kept for the pod that a Job makes next, of whose pods so many had failed
    /// before.
    pub(crate) fn slot_keep_secs_after(&self, failures: u32) -> u64 {
        let doubled = 1_u64.checked_shl(failures).unwrap_or(u64::MAX);
        let back_off = BACK_OFF_SECS.saturating_mul(doubled).saturating_add(BACK_OFF_SLACK_SECS);
        self.slot_keep_secs.max(back_off.min(self.slot_keep_max_secs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_kept_as_long_as_its_job_waits_and_a_minute_at_most() {
        let settings = CoreSettings::default();
        let kept =
            [0, 1, 2, 3, 63, 64, u32::MAX].map(|failures| settings.slot_keep_secs_after(failures));
        assert_eq!(kept, [15, 25, 45, 60, 60, 60, 60]);
        let longer = CoreSettings { slot_keep_secs: 90, ..CoreSettings::default() };
        assert_eq!(longer.slot_keep_secs_after(9), 90, "what is asked for is kept in any case");
        let none =
            CoreSettings { slot_keep_secs: 0, slot_keep_max_secs: 0, ..CoreSettings::default() };
        assert_eq!(none.slot_keep_secs_after(9), 0);
    }
}
