//! The scores of nodes, as kube-scheduler gives them.

/// The way in which the fill of a node counts besides the preferences of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FillScore {
    /// What kube-scheduler makes of it: the emptier, and the more evenly used, the better.
    #[default]
    LeastAllocated,
    /// Nothing: the node policy orders nodes that are alike otherwise.
    None,
}

/// The score of a node by each of kube-scheduler's plugins, weighted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Score {
    /// TaintToleration.
    pub taints: i64,
    /// NodeAffinity.
    pub node_affinity: i64,
    /// PodTopologySpread.
    pub spread: i64,
    /// InterPodAffinity.
    pub pod_affinity: i64,
    /// NodeResourcesFit.
    pub fit: i64,
    /// NodeResourcesBalancedAllocation.
    pub balance: i64,
}

impl Score {
    /// All together.
    pub fn total(&self) -> i64 {
        self.taints + self.node_affinity + self.spread + self.pod_affinity + self.fit + self.balance
    }
}
