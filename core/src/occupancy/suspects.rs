//! Nodes that get no pods for a moment, since their kubelets have just refused one.

use std::collections::BTreeMap;

use crate::backoff::Backoff;
use fluxqueue_workload::{NodeName, Time};

/// How long no further pod goes to a node after its kubelet has refused one: the core's view of the
/// node is stale until the watch catches up. A node that refuses one pod after the other, while it
/// runs none, is avoided for longer each time: each refusal costs a Job one of its retries.
const PAUSE: Backoff = Backoff { min_millis: 2_000, max_millis: 60_000 };

/// The number of refusals in a row after which an Event names the node.
pub(crate) const REFUSALS_TOLD: u32 = 3;

/// Nodes that get no pods, each with the end of that time.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    until: BTreeMap<NodeName, Time>,
    /// The number of pods that a node has refused since a member last began to run there.
    refusals: BTreeMap<NodeName, u32>,
}

impl Suspects {
    /// Avoids a node from now on. Returns the end of that time, and how many pods in a row its
    /// kubelet has refused.
    pub(crate) fn add(&mut self, node: &NodeName, now: Time) -> (Time, u32) {
        let refusals = self.refusals.entry(node.clone()).or_default();
        *refusals = refusals.saturating_add(1);
        let until = now.plus_millis(PAUSE.after(*refusals));
        self.until.insert(node.clone(), until);
        (until, *refusals)
    }

    /// Forgets the refusals of a node: a member runs there, or the node is gone.
    pub(crate) fn forget_refusals(&mut self, node: &NodeName) {
        self.refusals.remove(node);
    }

    /// Trusts a node again. If its kubelet has refused another pod since, returns the end of the
    /// new pause instead.
    pub(crate) fn trust(&mut self, node: &NodeName, now: Time) -> Option<Time> {
        if let Some(until) = self.until.get(node).filter(|until| **until > now) {
            return Some(*until);
        }
        self.until.remove(node);
        None
    }
}
