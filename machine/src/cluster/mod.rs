//! The cluster: nodes, the use of them, and the rules that admit pods to them.

mod apart;
mod exclusive;
mod fills;
pub mod filters;
#[cfg(test)]
mod golden;
mod judge;
mod levels;
mod neighbours;
mod node;
mod scores;
pub mod summary;
mod view;
pub mod volumes;

pub use levels::{Level, Topology, TopologyError, readable};
pub use neighbours::OccupantId;
pub use neighbours::{ChangedTerms, Company, OwnTerms, Stance};
pub use neighbours::{CrowdId, KeyId, Presence};
pub use node::InvalidAmount;
pub use scores::{FillScore, Score};
pub use view::{Class, Cluster, NodeChange};

use std::sync::Arc;

use fluxqueue_workload::{NodeName, Resources, Uid};

/// A node, reduced to what placement depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// `metadata.name`.
    pub name: NodeName,
    /// `metadata.uid`: a node deleted and created again under its name is another node.
    pub uid: Uid,
    /// `status.allocatable`, exact.
    pub allocatable: Resources,
    /// `metadata.labels`, sorted by key.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// What its condition Ready says.
    pub readiness: Readiness,
    /// `status.declaredFeatures`.
    pub declared_features: Vec<Arc<str>>,
}

/// The condition Ready of a node. Without one the node counts as ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Readiness {
    /// True.
    #[default]
    Ready,
    /// False: the kubelet says that it takes no pods.
    NotReady,
    /// Unknown: nothing is heard of the kubelet.
    Unreachable,
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Taint {
    /// Its key.
    pub key: Arc<str>,
    /// Its value, "" if absent.
    pub value: Arc<str>,
    /// NoSchedule, PreferNoSchedule or NoExecute.
    pub effect: Arc<str>,
}
