//! The settings of the core, which it receives once, at its start.
//!
//! These are plain values, already checked. The scheduler's `settings` module reads them from flags
//! and the settings file.

use std::sync::Arc;

use fluxion_sys::FunctionTable;
use fluxqueue_api::names::SCHEDULER_NAME;

use crate::error::CoreError;
use fluxqueue_machine::NodePolicy;
use fluxqueue_machine::cluster::{Node, Topology};
use fluxqueue_machine::fluxion::{Graph, GraphError, SEARCH_STEPS_MAX};
use fluxqueue_planner::forward::Forward;
use fluxqueue_planner::plan::{QueueDefaults, QueuePolicy};

/// Settings of the core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreSettings {
    /// The values of `spec.schedulerName` that are ours; never empty, without repeats.
    pub scheduler_names: Vec<Arc<str>>,
    /// The choice among the nodes that fit a job.
    pub node_policy: NodePolicy,
    /// The walltime in seconds of a job that states none itself and would otherwise end some day;
    /// `None`: no walltime is assumed.
    pub default_walltime_secs: Option<u64>,
    /// The time in seconds for which the FluxJob of an ended job is kept.
    pub ttl_after_finished_secs: u64,
    /// The time in seconds for which the slot of a pod that ended is kept for its successor.
    pub slot_keep_secs: u64,
    /// The limit in seconds of a longer time, because a Job waits longer before it replaces a pod
    /// the more of its pods have failed.
    pub slot_keep_max_secs: u64,
    /// The time in seconds that a gang may take from its first Binding until all its pods are bound
    /// before it is reported as Degraded.
    pub gang_start_timeout_secs: u64,
    /// The time in seconds that the volumes of a pod, or of a gang, may take to be bound once it
    /// has its slots.
    pub volume_bind_timeout_secs: u64,
    /// The time in seconds for which the place of a suspended Job is held from its release until
    /// all its pods are there.
    pub suspend_hold_secs: u64,
    /// The time in seconds for which a namespace waits for its next release after the first one
    /// that did not get all its pods in time. 0: it does not wait.
    pub release_pause_secs: u64,
    /// The time in seconds for which a group may stay incomplete, after its pods stop appearing,
    /// before that is reported.
    pub group_grace_secs: u64,
    /// True if every lone pod has a FluxJob, also one that gets its node at once.
    pub record_lone_pods: bool,
    /// The policy of the queue: the order of starts.
    pub queue_policy: QueuePolicy,
    /// The number of requests at the front of the queue that may hold a reservation. A request that
    /// fits starts at any place in the queue.
    pub queue_depth: usize,
    /// The number of requests that hold a reservation under [`QueuePolicy::Hybrid`].
    pub reservation_depth: usize,
    /// The number of questions to the resource graph, or their equal in other work, after which a
    /// pass is interrupted for lone pods that have come.
    pub questions_per_slice: u64,
    /// Most steps for the searches of one question to the resource graph, each some tens of
    /// nanoseconds. A request that needs more claims nothing, and is tried again later.
    pub search_steps: u64,
    /// True if texts written into a namespace may name jobs and pods of other namespaces.
    pub names_across_namespaces: bool,
    /// The time in seconds for which others may go ahead of the first waiting request, if its start
    /// cannot be predicted; 0: not at all.
    pub bypass_secs: u64,
    /// The time in seconds by which a pod may begin to run later than it was bound, without a delay
    /// of anything planned: clocks show whole seconds and are compared to the second. 0 if one
    /// clock serves all.
    pub start_slack_secs: u64,
    /// The time in seconds by which the end of a pod may be seen later than it was due, by such
    /// clocks, without a delay of anything planned.
    pub end_slack_secs: u64,
    /// The namespace of Fluxqueue. The annotation `fluxqueue/paused` on it pauses Fluxqueue.
    pub own_namespace: Arc<str>,
    /// The levels of the machine: racks, zones and the like, by labels of nodes.
    pub topology: Arc<Topology>,
}

impl CoreSettings {
    /// Returns the scheduler name in reports that belong to no job: the first that is served.
    pub(crate) fn reporter(&self) -> Arc<str> {
        self.scheduler_names.first().cloned().unwrap_or_else(|| Arc::from(SCHEDULER_NAME))
    }
}

impl Default for CoreSettings {
    /// The settings of an installation that sets none of them.
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
            search_steps: SEARCH_STEPS_MAX,
            names_across_namespaces: false,
            bypass_secs: 300,
            // From the decision to the kubelet's start of a pod: the record and the Bindings are
            // written, which takes a second when many jobs come at once, and the kubelet takes the
            // pod up within a second. More would add up in the estimates of jobs that wait for each
            // other.
            start_slack_secs: 2,
            // A kubelet says in whole seconds when a pod started, the API server's clock is known
            // to half a second, and an end takes a moment to be seen.
            end_slack_secs: 1,
            own_namespace: Arc::from("fluxqueue-system"),
            topology: Arc::default(),
        }
    }
}

impl CoreSettings {
    /// Makes a plan that is run forward over these nodes, which are idle and have ranks in this
    /// order.
    pub fn forward(
        &self,
        library: FunctionTable,
        nodes: impl IntoIterator<Item = Node>,
    ) -> Result<Forward, CoreError> {
        let machine = (self.node_policy, &self.topology);
        Ok(Forward::new(machine, self.queue_defaults(), library, nodes)?)
    }

    /// Makes an empty resource graph in this library.
    pub fn graph(&self, library: FunctionTable) -> Result<Graph, GraphError> {
        Graph::limited(library, self.node_policy.of_graph(), self.search_steps)
    }

    /// Returns the settings for queues that have none of their own.
    pub(crate) fn queue_defaults(&self) -> QueueDefaults {
        QueueDefaults {
            policy: self.queue_policy,
            queue_depth: self.queue_depth,
            reservation_depth: self.reservation_depth,
            bypass_secs: self.bypass_secs,
        }
    }
}

/// The time in seconds after which a Job makes the first pod in place of a failed one; each further
/// pod takes twice the time before.
const BACK_OFF_SECS: u64 = 10;
/// The time in seconds by which the pod may be there later than that.
const BACK_OFF_SLACK_SECS: u64 = 5;

impl CoreSettings {
    /// Returns the time in seconds for which a slot is kept for the next pod of a Job that had this
    /// number of failed pods before.
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
