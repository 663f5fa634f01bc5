//! Nodes that are left alone for a moment, since their kubelets have just refused a pod.

use std::collections::BTreeMap;

use crate::backoff::Backoff;
use fluxqueue_machine::cluster::Cluster;
use fluxqueue_machine::fluxion::RankSet;
use fluxqueue_workload::{NodeName, Time};

/// For how long no further pod goes to a node whose kubelet has just refused one: our view of the
/// node is stale until the watch catches up. A node that refuses one pod after the other, while it
/// runs none, is left alone longer each time: each refusal costs a Job one of its retries.
const PAUSE: Backoff = Backoff { min_millis: 2_000, max_millis: 60_000 };

/// After how many refusals in a row an Event names the node.
pub(crate) const REFUSALS_TOLD: u32 = 3;

/// Nodes that are left alone, and until when.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    until: BTreeMap<NodeName, Time>,
    /// How many pods a node has refused since one of ours last began to run there.
    refusals: BTreeMap<NodeName, u32>,
    version: u64,
}

impl Suspects {
    /// Leaves a node alone from now on. Says until when, and how many pods in a row its kubelet has
    /// refused.
    pub(crate) fn add(&mut self, node: &NodeName, now: Time) -> (Time, u32) {
        let refusals = self.refusals.entry(node.clone()).or_default();
        let until = now.plus_millis(PAUSE.doubled(*refusals));
        *refusals = refusals.saturating_add(1);
        self.until.insert(node.clone(), until);
        self.version += 1;
        (until, *refusals)
    }

    /// A pod of ours runs on a node, or the node is gone: its next refusal is the first.
    pub(crate) fn forget_refusals(&mut self, node: &NodeName) {
        self.refusals.remove(node);
    }

    /// Trusts a node again. If its kubelet has refused another pod since, says until when not.
    pub(crate) fn trust(&mut self, node: &NodeName, now: Time) -> Option<Time> {
        if let Some(until) = self.until.get(node).filter(|until| **until > now) {
            return Some(*until);
        }
        self.until.remove(node);
        self.version += 1;
        None
    }

    /// Those that are there.
    pub(crate) fn ranks(&self, cluster: &Cluster) -> RankSet {
        let mut ranks = RankSet::new();
        for rank in self.until.keys().filter_map(|name| cluster.rank(name)) {
            ranks.insert(rank);
        }
        ranks
    }

    /// Counts changes.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }
}
