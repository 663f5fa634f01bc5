//! Pods on the nodes besides the slots of jobs, and knowledge about nodes besides their objects.

pub(crate) mod suspects;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::jobs::by_node::ByNode;
use crate::occupancy::suspects::Suspects;
use fluxqueue_machine::ledger::Allocation;
use fluxqueue_workload::{Pod, Uid};

/// The pods of other schedulers, the pods by node, and nodes in doubt.
#[derive(Default)]
pub(crate) struct Occupancy {
    /// The pods of other schedulers, and those that no scheduler places.
    pub foreign: BTreeMap<Uid, Foreign>,
    pub by_node: ByNode,
    pub suspects: Suspects,
}

/// A pod that is not ours.
pub(crate) struct Foreign {
    pub pod: Arc<Pod>,
    pub allocation: Option<Allocation>,
    /// True once its author has been informed that the gate on it means nothing here.
    pub reported: bool,
}
