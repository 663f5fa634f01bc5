//! The outlook on the machine for users: it names no job.

use fluxqueue_planner::queues::QueueLoad;
use fluxqueue_workload::{NodeName, Resources, Time};

/// The machine, and the work that waits for it. Times are those of the API server's clock.
#[derive(Debug, Clone, Default)]
pub struct Outlook {
    /// The time for which this holds.
    pub as_of: Option<Time>,
    /// The nodes, in order of names.
    pub nodes: Vec<NodeOutlook>,
    /// The queues, with the work that waits and runs in each.
    pub queues: Vec<QueueLoad>,
}

/// One node.
#[derive(Debug, Clone)]
pub struct NodeOutlook {
    /// Its name.
    pub name: NodeName,
    /// True if its kubelet takes pods.
    pub is_ready: bool,
    /// True if it is not cordoned.
    pub is_schedulable: bool,
    /// The resources that it offers to pods.
    pub allocatable: Resources,
    /// The resources on it that are taken, by pods of any scheduler.
    pub used: Resources,
    /// True if a job has it alone: no pod of another job may join it, whatever is not taken.
    pub is_alone: bool,
    /// The earliest time from which it is promised to a waiting job.
    pub promised_from: Option<Time>,
    /// True if it is held for a job without a start date.
    pub is_held: bool,
    /// The latest planned end of the pods on it; pods without a planned end do not count.
    pub last_end: Option<Time>,
}
