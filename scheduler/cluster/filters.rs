//! Whether a pod may use a node, by the rules of kube-scheduler's filters, and how much it would like to.
//!
//! [`admit`] looks only at the node and the pod's constraints, so its answer holds for all pods of a class until the node
//! changes. What depends on the pods that are there is asked apart: host ports ([`ports_conflict`]), anti-affinity
//! ([`AntiAffinityTerm::repels`]), and room, which the resource graph knows. A pod with `spec.nodeName` passes no filter:
//! it has been placed.

use std::borrow::Cow;
use std::sync::Arc;

use super::{Node, Taint};
use crate::workload::ResourceName;
use crate::workload::constraints::{
    AntiAffinityTerm, Constraints, HostPort, NamespaceScope, NodeSelectorTerm, Operator, Requirement, Toleration,
};

/// Why a node does not take a pod. [`Rejection::reason`] is what kube-scheduler says.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rejection {
    /// The node is cordoned.
    Unschedulable,
    /// The node has a NoSchedule or NoExecute taint that the pod does not tolerate.
    Taint {
        /// The taint's key.
        key: Arc<str>,
    },
    /// The node's condition Ready is not True, though no taint says so (yet).
    NotReady,
    /// Neither `spec.nodeSelector` nor required node affinity lets the pod there.
    NodeAffinity,
    /// A host port is taken.
    HostPorts,
    /// A pod on the node, or in its domain, keeps this one away.
    AntiAffinity,
    /// The node lacks a feature that the pod implies.
    Features,
    /// The node takes no more pods.
    TooManyPods,
    /// There is not enough of a resource.
    Insufficient(ResourceName),
}

/// The first filter that rejects, in kube-scheduler's order, and whether waiting could help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// What kube-scheduler would report.
    pub first: Rejection,
    /// Some filter rejects for good: as long as nobody edits the node's labels, its ordinary taints or its features.
    /// If not, the node may take such pods again by itself, or when it is uncordoned.
    pub lasting: bool,
}

/// The taint that stands for `spec.unschedulable`.
const TAINT_UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The taint that stands for the condition Ready being False.
const TAINT_NOT_READY: &str = "node.kubernetes.io/not-ready";

/// Prefixes of taints that controllers put on and take off as a node's conditions change.
const PASSING_TAINTS: [&str; 2] = ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];

/// What an untolerated PreferNoSchedule taint takes from a node's [`preference`]: one and a half of the heaviest terms, as
/// kube-scheduler's weights of the two scores (3 and 2) have it.
const PREFER_NO_SCHEDULE_COST: i64 = 150;

/// Whether pods with these constraints may use this node, were it empty.
pub fn admit(node: &Node, constraints: &Constraints) -> Result<(), Rejected> {
    let mut rejected: Option<Rejected> = None;
    let mut reject = |rejection: Rejection, lasting: bool| match &mut rejected {
        Some(earlier) => earlier.lasting |= lasting,
        first => *first = Some(Rejected { first: rejection, lasting }),
    };
    let tolerates = |key: &str| tolerates_no_schedule(&constraints.tolerations, key);

    if node.unschedulable && !tolerates(TAINT_UNSCHEDULABLE) {
        reject(Rejection::Unschedulable, false);
    }
    for taint in node.taints.iter().filter(|taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute")) {
        if !constraints.tolerations.iter().any(|toleration| toleration.tolerates(taint)) {
            let passing = PASSING_TAINTS.iter().any(|prefix| taint.key.starts_with(prefix));
            reject(Rejection::Taint { key: Arc::clone(&taint.key) }, !passing);
        }
    }
    // The node controller turns the condition into a taint some time later. A pod bound in between would sit there.
    if node.not_ready && !tolerates(TAINT_NOT_READY) {
        reject(Rejection::NotReady, false);
    }
    if !matches_node_affinity(node, constraints) {
        reject(Rejection::NodeAffinity, true);
    }
    if !constraints.features.iter().all(|feature| node.declared_features.contains(feature)) {
        reject(Rejection::Features, true);
    }
    rejected.map_or(Ok(()), Err)
}

/// How much pods with these constraints would like this node: weights of the preferred terms that match, less a price for
/// each PreferNoSchedule taint that is not tolerated. More is better; 0 if nothing is said.
pub fn preference(node: &Node, constraints: &Constraints) -> i64 {
    let liked = constraints.preferred.iter().filter(|(_, term)| term.matches(node));
    let weight: i64 = liked.map(|(weight, _)| i64::from(*weight)).sum();
    let disliked = node.taints.iter().filter(|taint| {
        &*taint.effect == "PreferNoSchedule" && !constraints.tolerations.iter().any(|t| t.tolerates(taint))
    });
    disliked.fold(weight, |sum, _| sum - PREFER_NO_SCHEDULE_COST)
}

/// Whether pods that want these host ports cannot share a node.
pub fn ports_conflict(wanted: &[HostPort], used: &[HostPort]) -> bool {
    wanted.iter().any(|wanted| used.iter().any(|used| wanted.conflicts(used)))
}

fn tolerates_no_schedule(tolerations: &[Toleration], key: &str) -> bool {
    let of_key = |toleration: &Toleration| {
        let any_effect = toleration.effect.is_empty() || &*toleration.effect == "NoSchedule";
        let any_key = toleration.key.is_empty() || &*toleration.key == key;
        any_effect && any_key && (toleration.exists || toleration.value.is_empty())
    };
    tolerations.iter().any(of_key)
}

fn matches_node_affinity(node: &Node, constraints: &Constraints) -> bool {
    let selected = constraints.node_selector.iter().all(|(key, value)| node.label(key) == Some(&**value));
    selected && constraints.required.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(node)))
}

impl Rejection {
    /// kube-scheduler's text for one node, as it is counted in "0/5 nodes are available: 3 node(s) ...".
    pub fn reason(&self) -> Cow<'static, str> {
        let text = match self {
            Rejection::Unschedulable => "node(s) were unschedulable",
            Rejection::Taint { .. } | Rejection::NotReady => "node(s) had untolerated taint(s)",
            Rejection::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Rejection::HostPorts => "node(s) didn't have free ports for the requested pod ports",
            Rejection::AntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Rejection::Features => "node(s) didn't match Pod's required features",
            Rejection::TooManyPods => "Too many pods",
            Rejection::Insufficient(resource) => return format!("Insufficient {resource}").into(),
        };
        text.into()
    }
}

impl Toleration {
    /// Whether it tolerates this taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && (self.exists || self.value == taint.value)
    }
}

impl NodeSelectorTerm {
    /// Whether the node meets all of it. A term without requirements matches nothing.
    pub fn matches(&self, node: &Node) -> bool {
        let field = |key: &str| (key == "metadata.name").then_some(&*node.name);
        // A field that does not exist is empty, unlike a label that does not exist.
        let fields =
            || self.fields.iter().all(|field_of| field_of.matches(Some(field(&field_of.key).unwrap_or_default())));
        let labels = || self.labels.iter().all(|requirement| requirement.matches(node.label(&requirement.key)));
        let malformed = |requirement: &Requirement| requirement.operator == Operator::Unknown;
        let empty = self.labels.is_empty() && self.fields.is_empty();
        !empty && !self.labels.iter().chain(&self.fields).any(malformed) && labels() && fields()
    }
}

impl Requirement {
    /// Whether a label (or field) of this value, `None` if it is absent, meets it.
    pub fn matches(&self, actual: Option<&str>) -> bool {
        let listed = |actual: &str| self.values.iter().any(|value| &**value == actual);
        match self.operator {
            Operator::In => actual.is_some_and(listed),
            Operator::NotIn => !actual.is_some_and(listed),
            Operator::Exists => actual.is_some(),
            Operator::DoesNotExist => actual.is_none(),
            Operator::Gt => self.compares(actual, |actual, bound| actual > bound),
            Operator::Lt => self.compares(actual, |actual, bound| actual < bound),
            Operator::Unknown => false,
        }
    }

    fn compares(&self, actual: Option<&str>, holds: impl Fn(i64, i64) -> bool) -> bool {
        let [bound] = self.values.as_slice() else { return false };
        let (Some(actual), Ok(bound)) = (actual.and_then(|actual| actual.parse().ok()), bound.parse()) else {
            return false;
        };
        holds(actual, bound)
    }
}

impl HostPort {
    /// Whether both cannot be had on one node: the same port and protocol, on one address or on all.
    pub fn conflicts(&self, other: &HostPort) -> bool {
        const ANY: &str = "0.0.0.0";
        let addresses = self.ip == other.ip || &*self.ip == ANY || &*other.ip == ANY;
        self.port == other.port && self.protocol == other.protocol && addresses
    }
}

impl AntiAffinityTerm {
    /// Whether the pod that carries the term keeps away a pod of this namespace with these labels (sorted by key). It
    /// does so from all nodes that have the same value of the label `topology_key` as its own node, if that has one.
    pub fn repels(&self, namespace: &str, labels: &[(Arc<str>, Arc<str>)]) -> bool {
        let in_scope = match &self.namespaces {
            NamespaceScope::All => true,
            NamespaceScope::Named(names) => names.iter().any(|name| &**name == namespace),
        };
        let label = |key: &str| {
            let at = labels.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
            Some(&*labels[at].1)
        };
        let selected = |requirements: &Vec<Requirement>| requirements.iter().all(|r| r.matches(label(&r.key)));
        in_scope && self.selector.as_ref().is_some_and(selected)
    }
}

#[cfg(test)]
#[path = "filters_tests.rs"]
mod tests;
