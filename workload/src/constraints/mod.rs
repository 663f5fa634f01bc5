//! Which nodes a pod may use, and which it prefers: the parts of a pod's spec that kube-scheduler's filters read.

mod disk;
mod matching;
mod read;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use disk::Disk;
pub use matching::all_match;
pub use read::{of_spec, selector};

/// Everything in a pod that restricts or ranks nodes, apart from its requests.
///
/// Two pods with equal constraints may use the same nodes, so the answer per node is computed once for all of them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Constraints {
    /// `spec.nodeSelector`, sorted by key.
    pub node_selector: Vec<(Arc<str>, Arc<str>)>,
    /// `requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms`; `None` if absent (an empty list matches nothing).
    pub required: Option<Vec<NodeSelectorTerm>>,
    /// `preferredDuringSchedulingIgnoredDuringExecution` of node affinity: weight and term.
    pub preferred: Vec<(i32, NodeSelectorTerm)>,
    /// `spec.tolerations`.
    pub tolerations: Vec<Toleration>,
    /// Host ports of all containers, restartable init containers included.
    pub host_ports: Vec<HostPort>,
    /// Disks that the pod names itself, without a claim, and that pods on one node may have to keep from each other.
    pub disks: Vec<Disk>,
    /// Node features that the pod's spec implies (KEP-5328); the node must declare all of them.
    pub features: Vec<Arc<str>>,
    /// Required anti-affinity terms of the pod itself. They make a waiting pod unsupported, but once such a pod is on a
    /// node (placed by another scheduler) they repel ours.
    pub repels: Vec<AntiAffinityTerm>,
}

/// The nodes that required node affinity names (`matchFields` with `metadata.name In [..]`), as kube-scheduler reads it before
/// it looks at any node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedNodes<'a> {
    /// It names none, or some term does not.
    Any,
    /// Only these.
    Only(BTreeSet<&'a str>),
    /// It names some in each term, but such that none is left.
    None,
}

/// One term of node affinity: all of its requirements must hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NodeSelectorTerm {
    /// Requirements on node labels.
    pub labels: Vec<Requirement>,
    /// Requirements on fields; only `metadata.name` is known.
    pub fields: Vec<Requirement>,
}

/// `key operator values`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The label key or field.
    pub key: Arc<str>,
    /// How it is compared.
    pub operator: Operator,
    /// The values.
    pub values: Vec<Arc<str>>,
}

/// Operators of node selector and label selector requirements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "named as in Kubernetes")]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
    /// An operator that Kubernetes does not have: matches nothing.
    Unknown,
}

/// A toleration, as in the pod's spec.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// The taint's key; "" with Exists tolerates every key.
    pub key: Arc<str>,
    /// `Exists` (true) or `Equal` (false).
    pub exists: bool,
    /// The taint's value, for Equal.
    pub value: Arc<str>,
    /// The effect; "" means all.
    pub effect: Arc<str>,
}

/// A port of the host that a container wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// `hostIP`; "0.0.0.0" if absent, which conflicts with every address.
    pub ip: Arc<str>,
    /// TCP, UDP or SCTP.
    pub protocol: Arc<str>,
    /// The port number.
    pub port: u16,
}

/// A required anti-affinity term.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AntiAffinityTerm {
    /// Requirements that a pod's labels must meet to be repelled; `None` (no selector) matches nothing.
    pub selector: Option<Vec<Requirement>>,
    /// Namespaces it applies to.
    pub namespaces: NamespaceScope,
    /// The node label that spans the domain.
    pub topology_key: Arc<str>,
}

/// The namespaces an anti-affinity term applies to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NamespaceScope {
    /// These.
    Named(Vec<Arc<str>>),
    /// All: also used where a namespaceSelector would have to be looked up, so that too much is kept apart, never too little.
    All,
}
