//! The terms of which constraints consist, as in a pod's spec.

use std::sync::Arc;

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
    /// The comparison.
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
    /// True for `Exists`, false for `Equal`.
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

/// A term of affinity or anti-affinity to pods.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// The pods that it is about.
    pub pods: PodSelector,
    /// The node label that spans the domain.
    pub topology_key: Arc<str>,
}

impl PodTerm {
    /// True if it may be about pods of other namespaces than this one.
    pub fn reaches_beyond(&self, namespace: &str) -> bool {
        let NamespaceScope { named, selected } = &self.pods.namespaces;
        selected.is_some() || named.iter().any(|name| **name != *namespace)
    }
}

/// Pods by namespace and labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodSelector {
    /// The namespaces in which pods are selected.
    pub namespaces: NamespaceScope,
    /// Requirements that a pod's labels must meet; `None` (no selector) matches nothing.
    pub labels: Option<Vec<Requirement>>,
}

/// The namespaces that a selector of pods is about: both parts together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NamespaceScope {
    /// Namespaces by name.
    pub named: Vec<Arc<str>>,
    /// Requirements on the labels of further namespaces; without any, these are all namespaces.
    pub selected: Option<Vec<Requirement>>,
}

/// A spread constraint: a bound on the difference between the numbers of pods in any two domains.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// The pods that count, `matchLabelKeys` included.
    pub pods: PodSelector,
    /// The node label that spans the domains.
    pub topology_key: Arc<str>,
    /// The most pods by which a domain may exceed the one with the fewest.
    pub max_skew: u32,
    /// The number of domains below which the fewest count as none.
    pub min_domains: usize,
    /// True if only nodes count that the pod's node selector and required node affinity let it use
    /// (`nodeAffinityPolicy`).
    pub honors_affinity: bool,
    /// True if only nodes count that have no taints but tolerated ones (`nodeTaintsPolicy`).
    pub honors_taints: bool,
}
