//! Policies about the nodes that pods get, where several fit.

use fluxion_sys::FunctionTable;

use crate::cluster::FillScore;
use crate::fluxion::{Graph, GraphError, Policy};

/// Which of the nodes that fit are taken: Fluxion's match policies by their names there, and two of
/// our graph's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodePolicy {
    /// The cheapest to find.
    #[default]
    First,
    /// The lowest ranks.
    LoNode,
    /// The highest ranks.
    HiNode,
    /// The fullest nodes (most allocated).
    Binpack,
    /// The emptiest nodes (least allocated).
    Spread,
}

impl NodePolicy {
    /// All of them.
    pub const ALL: [NodePolicy; 5] = [
        NodePolicy::First,
        NodePolicy::LoNode,
        NodePolicy::HiNode,
        NodePolicy::Binpack,
        NodePolicy::Spread,
    ];

    /// The policy's name in Fluxion, in the settings file and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            NodePolicy::First => "first",
            NodePolicy::LoNode => "lonode",
            NodePolicy::HiNode => "hinode",
            NodePolicy::Binpack => "binpack",
            NodePolicy::Spread => "spread",
        }
    }

    /// The policy of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == name)
    }

    /// Returns how the resources of nodes count where a pod would rather be: as in kube-scheduler,
    /// where the policy leaves the order open or prefers the emptiest nodes. Any other order is the
    /// operator's, and goes for nodes that are alike to the pod.
    pub fn fill_score(self) -> FillScore {
        match self {
            NodePolicy::First | NodePolicy::Spread => FillScore::LeastAllocated,
            NodePolicy::LoNode | NodePolicy::HiNode | NodePolicy::Binpack => FillScore::None,
        }
    }

    /// Returns the policy as the resource graph knows it.
    pub fn of_graph(self) -> Policy {
        match self {
            NodePolicy::First => Policy::First,
            NodePolicy::LoNode => Policy::Lonode,
            NodePolicy::HiNode => Policy::Hinode,
            NodePolicy::Binpack => Policy::Binpack,
            NodePolicy::Spread => Policy::Spread,
        }
    }

    /// An empty graph of this library that places by the policy.
    pub fn graph(self, library: FunctionTable) -> Result<Graph, GraphError> {
        Graph::new(library, self.of_graph())
    }
}
