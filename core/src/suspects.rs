//! Nodes that are left alone for a moment, since their kubelets have just refused a pod.

use std::collections::BTreeMap;

use crate::cluster::Cluster;
use crate::fluxion::RankSet;
use fluxqueue_workload::{NodeName, Time};

/// For how long no further pod goes to a node whose kubelet has just refused one: our view of the node is stale until the
/// watch catches up.
const SUSPECT_MILLIS: i64 = 2_000;

/// Nodes that are left alone, and until when.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    until: BTreeMap<NodeName, Time>,
    version: u64,
}

impl Suspects {
    /// Leaves a node alone from now on. Says until when.
    pub(super) fn add(&mut self, node: &NodeName, now: Time) -> Time {
        let until = now.plus_millis(SUSPECT_MILLIS);
        self.until.insert(node.clone(), until);
        self.version += 1;
        until
    }

    /// Trusts a node again. If its kubelet has refused another pod since, says until when not.
    pub(super) fn trust(&mut self, node: &NodeName, now: Time) -> Option<Time> {
        if let Some(until) = self.until.get(node).filter(|until| **until > now) {
            return Some(*until);
        }
        self.until.remove(node);
        self.version += 1;
        None
    }

    /// Those that are there.
    pub(super) fn ranks(&self, cluster: &Cluster) -> RankSet {
        let mut ranks = RankSet::new();
        for rank in self.until.keys().filter_map(|name| cluster.rank(name)) {
            ranks.insert(rank);
        }
        ranks
    }

    /// Counts changes.
    pub(super) fn version(&self) -> u64 {
        self.version
    }
}
