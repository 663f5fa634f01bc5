//! Decides whether a pod may use a node, by the rules of kube-scheduler's filters, and how much it
//! would like to.
//!
//! [`admit`] reads only the node and the pod's constraints, so its answer holds for all pods of a
//! class until the node changes. Everything that depends on the pods on the node is decided
//! elsewhere: host ports and disks
//! ([`exclude`](fluxqueue_workload::constraints::Constraints::exclude)), affinity, anti-affinity
//! and spread (see `neighbours`), and room, which the resource graph knows. A pod with
//! `spec.nodeName` passes no filter: it has been placed.

use std::borrow::Cow;
use std::sync::Arc;

use super::node::{Node, Readiness, Taint};
use fluxqueue_workload::ResourceName;
use fluxqueue_workload::constraints::{
    Constraints, NamedNodes, NodeSelectorTerm, Operator, Requirement, Toleration,
};

/// Why a node does not take a pod. [`Rejection::reason`] is what kube-scheduler says, where it has
/// the rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rejection {
    /// The node is cordoned.
    Unschedulable,
    /// The node has a NoSchedule or NoExecute taint that the pod does not tolerate.
    Taint {
        /// The taint's key.
        key: Arc<str>,
    },
    /// The node's condition Ready is not True, and the pod does not tolerate the taint that says
    /// so, or soon will.
    NotReady,
    /// Neither `spec.nodeSelector` nor required node affinity lets the pod there.
    NodeAffinity,
    /// Required node affinity names nodes, and not this one.
    OtherNames,
    /// Each term of required node affinity names nodes, in a way that leaves none.
    ConflictingNames,
    /// A host port is taken.
    HostPorts,
    /// A disk that the pod names itself is in use.
    DiskConflict,
    /// A claim of the pod is not ready; holds the message about it.
    Claim(Arc<str>),
    /// A claim that one pod at a time may use is in use.
    ClaimInUse,
    /// The node attaches no more volumes of some driver.
    VolumeLimit,
    /// A bound volume is not to be had on the node.
    VolumeAffinity,
    /// A claim finds no volume there, and none can be made.
    NoVolume,
    /// There is too little left to make a volume.
    TooLittleStorage,
    /// A bound volume is not there, or a claim is not ready.
    VolumeMissing,
    /// A bound volume is in another zone.
    VolumeZone,
    /// The node lacks the label of a spread constraint.
    SpreadLabel,
    /// The node's domain would have too many more pods than another, by a spread constraint.
    Spread,
    /// No pod that the pod has to be near to is in the node's domain.
    Affinity,
    /// A pod that this one has to be apart from is in the node's domain.
    OwnAntiAffinity,
    /// A pod on the node, or in its domain, keeps this one away.
    AntiAffinity,
    /// The node lacks a feature that the pod implies.
    Features,
    /// The node is none of the pod's queue.
    QueueNodes,
    /// The node gets no pods for a moment.
    InQuarantine,
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
    /// True if some filter rejects for good: as long as the node's labels, ordinary taints and
    /// features are not edited. If false, the node may take such pods again by itself, or when it
    /// is uncordoned.
    pub lasting: bool,
}

/// The taint that stands for `spec.unschedulable`.
const TAINT_UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The taints that the node controller puts on a node when its condition Ready is False, or
/// Unknown.
const TAINT_NOT_READY: &str = "node.kubernetes.io/not-ready";
const TAINT_UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Prefixes of taints that controllers put on and take off as a node's conditions change.
const PASSING_TAINTS: [&str; 2] = ["node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"];

/// How much pods would like a node for its own properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Liking {
    /// Weights of the preferred terms that match.
    pub weight: i64,
    /// PreferNoSchedule taints that are not tolerated.
    pub taints: i64,
}

/// Checks a node against the node names in required node affinity: kube-scheduler reads these
/// before it visits any node.
pub fn named(node: &Node, constraints: &Constraints) -> Option<Rejection> {
    match constraints.named_nodes() {
        NamedNodes::None => Some(Rejection::ConflictingNames),
        NamedNodes::Only(names) => (!names.contains(&*node.name)).then_some(Rejection::OtherNames),
        NamedNodes::Any => None,
    }
}

/// Checks whether pods with these constraints may use this node, were it empty.
pub fn admit(node: &Node, constraints: &Constraints) -> Result<(), Rejected> {
    let mut rejected: Option<Rejected> = None;
    let mut reject = |rejection: Rejection, lasting: bool| match &mut rejected {
        Some(earlier) => earlier.lasting |= lasting,
        first => *first = Some(Rejected { first: rejection, lasting }),
    };
    let tolerates_key = |key: &str| tolerates_no_schedule(&constraints.tolerations, key);

    if node.unschedulable && !tolerates_key(TAINT_UNSCHEDULABLE) {
        reject(Rejection::Unschedulable, false);
    }
    for taint in untolerated(node, &constraints.tolerations) {
        let passing = PASSING_TAINTS.iter().any(|prefix| taint.key.starts_with(prefix));
        reject(Rejection::Taint { key: Arc::clone(&taint.key) }, !passing);
    }
    // kube-scheduler goes by taints alone. The node controller turns the condition into one some
    // time later, and a pod that is bound in between would sit there: so the taint counts from the
    // moment at which the condition says so.
    if owed_taint(node.readiness).is_some_and(|key| !tolerates_key(key)) {
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

/// The taint that the node controller puts on a node with such a condition, with the effect
/// NoSchedule.
fn owed_taint(readiness: Readiness) -> Option<&'static str> {
    match readiness {
        Readiness::Ready => None,
        Readiness::NotReady => Some(TAINT_NOT_READY),
        Readiness::Unreachable => Some(TAINT_UNREACHABLE),
    }
}

/// Returns how much pods with these constraints would like this node for its own properties.
pub fn liking(node: &Node, constraints: &Constraints) -> Liking {
    let liked = constraints.preferred.iter().filter(|(_, term)| meets(node, term));
    let disliked = node.taints.iter().filter(|taint| {
        &*taint.effect == "PreferNoSchedule"
            && !constraints.tolerations.iter().any(|t| tolerates(t, taint))
    });
    Liking {
        weight: liked.map(|(weight, _)| i64::from(*weight)).sum(),
        taints: disliked.map(|_| 1).sum(),
    }
}

fn tolerates_no_schedule(tolerations: &[Toleration], key: &str) -> bool {
    let of_key = |toleration: &Toleration| {
        let any_effect = toleration.effect.is_empty() || &*toleration.effect == "NoSchedule";
        let any_key = toleration.key.is_empty() || &*toleration.key == key;
        any_effect && any_key && (toleration.exists || toleration.value.is_empty())
    };
    tolerations.iter().any(of_key)
}

/// Taints that keep pods with these tolerations off the node.
pub(super) fn untolerated<'a>(
    node: &'a Node,
    tolerations: &'a [Toleration],
) -> impl Iterator<Item = &'a Taint> {
    let keeps_off = |taint: &&Taint| matches!(&*taint.effect, "NoSchedule" | "NoExecute");
    let is_tolerated =
        |taint: &Taint| tolerations.iter().any(|toleration| tolerates(toleration, taint));
    node.taints.iter().filter(keeps_off).filter(move |taint| !is_tolerated(taint))
}

/// True if the node selector and the required node affinity let pods with these constraints use
/// the node.
pub(super) fn matches_node_affinity(node: &Node, constraints: &Constraints) -> bool {
    let selected =
        constraints.node_selector.iter().all(|(key, value)| node.label(key) == Some(&**value));
    selected
        && constraints
            .required
            .as_ref()
            .is_none_or(|terms| terms.iter().any(|term| meets(node, term)))
}

impl Rejection {
    /// Makes the rejection for too little of this resource.
    pub fn insufficient(resource: &ResourceName) -> Self {
        if &**resource == "pods" {
            Rejection::TooManyPods
        } else {
            Rejection::Insufficient(Arc::clone(resource))
        }
    }

    /// kube-scheduler's text for one node, as it is counted in "0/5 nodes are available: 3 node(s)
    /// ...".
    pub fn reason(&self) -> Cow<'static, str> {
        let text = match self {
            Rejection::Unschedulable => "node(s) were unschedulable",
            Rejection::Taint { .. } | Rejection::NotReady => "node(s) had untolerated taint(s)",
            Rejection::NodeAffinity => "node(s) didn't match Pod's node affinity/selector",
            Rejection::OtherNames => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Rejection::ConflictingNames => "pod affinity terms conflict",
            Rejection::HostPorts => "node(s) didn't have free ports for the requested pod ports",
            Rejection::DiskConflict => "node(s) had no available disk",
            Rejection::Claim(said) => return said.to_string().into(),
            Rejection::ClaimInUse => {
                "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access \
                 mode already in-use by another pod"
            }
            Rejection::VolumeLimit => "node(s) exceed max volume count",
            Rejection::VolumeAffinity => "node(s) didn't match PersistentVolume's node affinity",
            Rejection::NoVolume => "node(s) didn't find available persistent volumes to bind",
            Rejection::TooLittleStorage => "node(s) did not have enough free storage",
            Rejection::VolumeMissing => {
                "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
            }
            Rejection::VolumeZone => "node(s) had no available volume zone",
            Rejection::SpreadLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Rejection::Spread => "node(s) didn't match pod topology spread constraints",
            Rejection::Affinity => "node(s) didn't match pod affinity rules",
            Rejection::OwnAntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Rejection::AntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Rejection::Features => "node(s) didn't match Pod's required features",
            Rejection::QueueNodes => "node(s) didn't match the nodeSelector of its queue",
            Rejection::InQuarantine => "node(s) refused a pod a moment ago",
            Rejection::TooManyPods => "Too many pods",
            Rejection::Insufficient(resource) => return format!("Insufficient {resource}").into(),
        };
        text.into()
    }
}

/// True if the toleration covers this taint.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    (toleration.effect.is_empty() || toleration.effect == taint.effect)
        && (toleration.key.is_empty() || toleration.key == taint.key)
        && (toleration.exists || toleration.value == taint.value)
}

/// True if the node meets all of a term. One without requirements matches nothing.
pub(super) fn meets(node: &Node, term: &NodeSelectorTerm) -> bool {
    let field = |key: &str| (key == "metadata.name").then_some(&*node.name);
    // A field that does not exist is empty, unlike a label that does not exist.
    let fields = || {
        term.fields
            .iter()
            .all(|field_of| field_of.matches(Some(field(&field_of.key).unwrap_or_default())))
    };
    let labels =
        || term.labels.iter().all(|requirement| requirement.matches(node.label(&requirement.key)));
    means_something(term) && labels() && fields()
}

/// The same, whatever the term says of fields.
pub(super) fn meets_by_labels(node: &Node, term: &NodeSelectorTerm) -> bool {
    means_something(term)
        && term.labels.iter().all(|requirement| requirement.matches(node.label(&requirement.key)))
}

fn means_something(term: &NodeSelectorTerm) -> bool {
    let malformed = |requirement: &Requirement| requirement.operator == Operator::Unknown;
    let empty = term.labels.is_empty() && term.fields.is_empty();
    !empty && !term.labels.iter().chain(&term.fields).any(malformed)
}

#[cfg(test)]
#[path = "filters_tests.rs"]
mod tests;
