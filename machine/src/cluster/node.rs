//! A node, as far as placement depends on it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node as KubeNode, NodeCondition};

use fluxqueue_workload::metadata::{name_and_uid, sorted};
use fluxqueue_workload::{InvalidObject, NodeName, Resources, Uid, quantity};

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

/// An amount in a node's `status.allocatable` that cannot be read. The node has none of it until
/// that is repaired.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("node {node}: {field}: {source}")]
pub struct InvalidAmount {
    /// The node's name.
    pub node: NodeName,
    /// JSON path of the field.
    pub field: String,
    /// The error in it.
    pub source: quantity::QuantityError,
}

impl Node {
    /// Reads a node, and returns it with the amounts that could not be read. Fails only without a
    /// name or uid.
    pub fn from_kubernetes(node: &KubeNode) -> Result<(Node, Vec<InvalidAmount>), InvalidObject> {
        let (name, uid) = name_and_uid("Node", &node.metadata)?;
        let name = NodeName::from(name);
        let (spec, status) = (node.spec.as_ref(), node.status.as_ref());
        let (allocatable, invalid) = allocatable(node, &name);
        let taints = spec.and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
        let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let features =
            status.and_then(|status| status.declared_features.as_deref()).unwrap_or_default();
        let taint = |taint: &k8s_openapi::api::core::v1::Taint| Taint {
            key: taint.key.as_str().into(),
            value: taint.value.as_deref().unwrap_or_default().into(),
            effect: taint.effect.as_str().into(),
        };
        let node = Node {
            name,
            uid,
            allocatable,
            labels: sorted(node.metadata.labels.as_ref()).collect(),
            taints: taints.iter().map(taint).collect(),
            unschedulable: spec.and_then(|spec| spec.unschedulable).unwrap_or(false),
            readiness: conditions
                .iter()
                .find(|condition| condition.type_ == "Ready")
                .map_or(Readiness::Ready, readiness),
            declared_features: features.iter().map(|feature| feature.as_str().into()).collect(),
        };
        Ok((node, invalid))
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }
}

fn readiness(condition: &NodeCondition) -> Readiness {
    match &*condition.status {
        "True" => Readiness::Ready,
        "Unknown" => Readiness::Unreachable,
        _ => Readiness::NotReady,
    }
}

fn allocatable(node: &KubeNode, name: &NodeName) -> (Resources, Vec<InvalidAmount>) {
    let listed = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let mut amounts = Resources::new();
    let mut invalid = Vec::new();
    for (resource, text) in listed.into_iter().flatten() {
        let amount =
            if resource == "cpu" { quantity::millis(&text.0) } else { quantity::value(&text.0) };
        match amount {
            Ok(amount) => amounts.set(resource.as_str(), amount),
            Err(source) => {
                let field = format!("status.allocatable.{resource}");
                invalid.push(InvalidAmount { node: name.clone(), field, source });
            }
        }
    }
    (amounts, invalid)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(node: serde_json::Value) -> (Node, Vec<InvalidAmount>) {
        Node::from_kubernetes(&serde_json::from_value(node).unwrap()).unwrap()
    }

    #[test]
    fn a_node_is_read_whole() {
        let (node, invalid) = read(json!({
            "metadata": {"name": "n", "uid": "u", "labels": {"zone": "a", "arch": "arm64"}},
            "spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoSchedule"}]},
            "status": {
                "allocatable": {"cpu": "3920m", "memory": "16Gi", "pods": "110", "x.io/gpu": "0"},
                "capacity": {"cpu": "4"},
                "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": "True"}],
                "declaredFeatures": ["A"],
            },
        }));
        assert_eq!(invalid, []);
        assert_eq!(
            (&*node.name, &*node.uid, node.unschedulable, node.readiness),
            ("n", "u", true, Readiness::Ready)
        );
        assert_eq!(
            node.allocatable,
            [("cpu", 3920), ("memory", 16 << 30), ("pods", 110)].into_iter().collect()
        );
        assert_eq!(
            (node.label("zone"), node.label("arch"), node.label("z")),
            (Some("a"), Some("arm64"), None)
        );
        assert_eq!(
            node.taints,
            [Taint { key: "k".into(), value: "".into(), effect: "NoSchedule".into() }]
        );
        assert_eq!(node.declared_features, ["A".into()]);
    }

    #[test]
    fn a_node_is_not_ready_when_its_condition_says_so() {
        let ready = |status: &str| {
            read(
                json!({"metadata": {"name": "n", "uid": "u"}, "status": {"conditions": [{"type": "Ready", "status": status}]}}),
            )
        };
        for (status, says) in [
            ("True", Readiness::Ready),
            ("False", Readiness::NotReady),
            ("Unknown", Readiness::Unreachable),
        ] {
            assert_eq!(ready(status).0.readiness, says);
        }
        let (silent, _) = read(json!({"metadata": {"name": "n", "uid": "u"}}));
        assert_eq!(silent.readiness, Readiness::Ready, "kube-scheduler, too, goes by what is said");
    }

    #[test]
    fn a_bad_amount_is_reported_and_the_node_stays() {
        let (node, invalid) = read(json!({
            "metadata": {"name": "n", "uid": "u"},
            "status": {"allocatable": {"cpu": "4", "memory": "16Gb", "x.io/gpu": "9223372036854775808"}},
        }));
        assert_eq!(node.allocatable, [("cpu", 4000)].into_iter().collect());
        let invalid: Vec<_> = invalid.iter().map(ToString::to_string).collect();
        assert_eq!(
            invalid,
            [
                "node n: status.allocatable.memory: \"16Gb\" is not a quantity",
                "node n: status.allocatable.x.io/gpu: \"9223372036854775808\" is larger than 2^63 - 1",
            ]
        );
    }

    #[test]
    fn a_node_without_uid_is_refused() {
        let node = serde_json::from_value(json!({"metadata": {"name": "n"}})).unwrap();
        assert_eq!(
            Node::from_kubernetes(&node).unwrap_err().to_string(),
            "Node /n: metadata.uid: is empty"
        );
    }
}
