//! Reads from a pod's spec the nodes that it may use and those that it prefers.
//! `cluster/filters.rs` applies the result.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Container, NodeSelectorRequirement, NodeSelectorTerm as KubeTerm, PodAffinityTerm, PodSpec,
    Toleration as KubeToleration, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::disk::Disk;
use super::of_pod::Constraints;
use super::terms::{
    HostPort, NamespaceScope, NodeSelectorTerm, Operator, PodSelector, PodTerm, Requirement,
    SpreadConstraint, Toleration,
};
use crate::metadata::sorted;
use fluxqueue_api::syntax::is_label_value;

/// Returns the constraints of a pod of `namespace` with these labels.
pub fn of_spec(
    spec: &PodSpec,
    namespace: &Arc<str>,
    labels: &[(Arc<str>, Arc<str>)],
) -> Constraints {
    let affinity = spec.affinity.as_ref();
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let rather_near =
        near.and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_deref());
    let near =
        near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_deref());
    let apart = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let rather_apart = apart
        .and_then(|apart| apart.preferred_during_scheduling_ignored_during_execution.as_deref());
    let apart = apart
        .and_then(|apart| apart.required_during_scheduling_ignored_during_execution.as_deref());
    let pod_terms = |terms: Option<&[PodAffinityTerm]>| -> Vec<PodTerm> {
        terms.unwrap_or_default().iter().map(|term| pod_term(term, namespace)).collect()
    };
    let weighted = |sign: i32, terms: Option<&[WeightedPodAffinityTerm]>| -> Vec<(i32, PodTerm)> {
        let terms = terms.unwrap_or_default().iter();
        terms
            .map(|term| (sign * term.weight, pod_term(&term.pod_affinity_term, namespace)))
            .collect()
    };
    let spreads = |preferred: bool| -> Vec<SpreadConstraint> {
        let spreads = spec.topology_spread_constraints.iter().flatten();
        let spreads =
            spreads.filter(|spread| (spread.when_unsatisfiable == "ScheduleAnyway") == preferred);
        spreads.map(|spread| spread_constraint(spread, namespace, labels)).collect()
    };
    let node_affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required =
        node_affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let preferred = node_affinity
        .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref());
    Constraints {
        node_selector: sorted(spec.node_selector.as_ref()).collect(),
        required: required.map(|selector| node_terms(&selector.node_selector_terms)),
        preferred: preferred
            .unwrap_or_default()
            .iter()
            .map(|p| (p.weight, node_term(&p.preference)))
            .collect(),
        tolerations: spec.tolerations.iter().flatten().filter_map(toleration).collect(),
        host_ports: host_ports(spec),
        disks: spec.volumes.iter().flatten().filter_map(Disk::of_volume).collect(),
        features: features(spec),
        near: pod_terms(near),
        repels: pod_terms(apart),
        spreads: spreads(false),
        preferred_pods: [weighted(1, rather_near), weighted(-1, rather_apart)].concat(),
        preferred_spreads: spreads(true),
    }
}

/// Reads terms of which one must hold.
pub(crate) fn node_terms(terms: &[KubeTerm]) -> Vec<NodeSelectorTerm> {
    terms.iter().map(node_term).collect()
}

fn node_term(term: &KubeTerm) -> NodeSelectorTerm {
    NodeSelectorTerm {
        labels: term.match_expressions.iter().flatten().map(label_requirement).collect(),
        fields: term.match_fields.iter().flatten().map(field_requirement).collect(),
    }
}

/// Reads a requirement. One that Kubernetes itself would not take makes its term match nothing, so
/// it becomes [`Operator::Unknown`].
fn label_requirement(requirement: &NodeSelectorRequirement) -> Requirement {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_number = |value: &String| value.parse::<i64>().is_ok();
    let operator = match requirement.operator.as_str() {
        "In" if !values.is_empty() => Operator::In,
        "NotIn" if !values.is_empty() => Operator::NotIn,
        "Exists" if values.is_empty() => Operator::Exists,
        "DoesNotExist" if values.is_empty() => Operator::DoesNotExist,
        "Gt" if values.len() == 1 && is_number(&values[0]) => Operator::Gt,
        "Lt" if values.len() == 1 && is_number(&values[0]) => Operator::Lt,
        _ => Operator::Unknown,
    };
    let operator =
        if values.iter().all(|value| is_label_value(value)) { operator } else { Operator::Unknown };
    requirement_of(&requirement.key, operator, values)
}

fn field_requirement(requirement: &NodeSelectorRequirement) -> Requirement {
    let values = requirement.values.as_deref().unwrap_or_default();
    let operator = match requirement.operator.as_str() {
        "In" if values.len() == 1 => Operator::In,
        "NotIn" if values.len() == 1 => Operator::NotIn,
        _ => Operator::Unknown,
    };
    requirement_of(&requirement.key, operator, values)
}

fn requirement_of(key: &str, operator: Operator, values: &[String]) -> Requirement {
    Requirement {
        key: key.into(),
        operator,
        values: values.iter().map(|value| value.as_str().into()).collect(),
    }
}

/// Reads a toleration. Operators other than Equal and Exists tolerate nothing (Lt and Gt are alpha
/// in 1.36, and off).
fn toleration(toleration: &KubeToleration) -> Option<Toleration> {
    let exists = match toleration.operator.as_deref() {
        None | Some("" | "Equal") => false,
        Some("Exists") => true,
        Some(_) => return None,
    };
    let text = |field: &Option<String>| field.as_deref().unwrap_or_default().into();
    Some(Toleration {
        key: text(&toleration.key),
        exists,
        value: text(&toleration.value),
        effect: text(&toleration.effect),
    })
}

/// Returns the ports of containers and restartable init containers, which hold them as long as the
/// pod runs.
fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let restartable =
        |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let inits = spec.init_containers.iter().flatten().filter(restartable);
    let ports =
        inits.chain(&spec.containers).flat_map(|container| container.ports.iter().flatten());
    let mut host_ports: Vec<_> = ports
        .filter_map(|port| {
            let number = u16::try_from(port.host_port?).ok().filter(|number| *number > 0)?;
            let text = |field: &Option<String>, default: &str| {
                field.as_deref().filter(|text| !text.is_empty()).unwrap_or(default).into()
            };
            let (ip, protocol) = (text(&port.host_ip, "0.0.0.0"), text(&port.protocol, "TCP"));
            Some(HostPort { ip, protocol, port: number })
        })
        .collect();
    host_ports.sort_unstable();
    host_ports.dedup();
    host_ports
}

/// Returns the node features that Kubernetes 1.36 infers from a pod (KEP-5328).
fn features(spec: &PodSpec) -> Vec<Arc<str>> {
    let mut features = Vec::new();
    let mut containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let restarts_all = |container: &Container| {
        container
            .restart_policy_rules
            .iter()
            .flatten()
            .any(|rule| rule.action == "RestartAllContainers")
    };
    if containers.any(restarts_all) {
        features.push("RestartAllContainersOnContainerExits".into());
    }
    if spec.host_network == Some(true) && spec.host_users == Some(false) {
        features.push("UserNamespacesHostNetworkSupport".into());
    }
    features
}

/// Reads a term about pods. `matchLabelKeys` and `mismatchLabelKeys` are not read: the API server
/// has turned them into requirements of the selector, or [`fill_in`](crate::template::fill_in) has,
/// for a template.
fn pod_term(term: &PodAffinityTerm, namespace: &Arc<str>) -> PodTerm {
    let mut named: Vec<Arc<str>> =
        term.namespaces.iter().flatten().map(|name| name.as_str().into()).collect();
    let selected = term.namespace_selector.as_ref().map(selector);
    if named.is_empty() && selected.is_none() {
        named.push(Arc::clone(namespace));
    }
    let namespaces = NamespaceScope { named, selected };
    let pods = PodSelector { namespaces, labels: term.label_selector.as_ref().map(selector) };
    PodTerm { pods, topology_key: term.topology_key.as_str().into() }
}

/// Reads a spread constraint. A field that is missing has kube-scheduler's default. Of
/// `matchLabelKeys` those count that the pod has; a newer API server has put them into the selector
/// already.
fn spread_constraint(
    spread: &TopologySpreadConstraint,
    namespace: &Arc<str>,
    labels: &[(Arc<str>, Arc<str>)],
) -> SpreadConstraint {
    let honors = |policy: &Option<String>, otherwise: bool| {
        policy.as_deref().map_or(otherwise, |said| said == "Honor")
    };
    let mut requirements = spread.label_selector.as_ref().map(selector);
    for key in spread.match_label_keys.iter().flatten() {
        // A key counts if the pod has the label, and the constraint a selector.
        let (Some(requirements), Ok(at)) =
            (&mut requirements, labels.binary_search_by(|(name, _)| (**name).cmp(key.as_str())))
        else {
            continue;
        };
        let (key, value) = labels[at].clone();
        let same = Requirement { key, operator: Operator::In, values: vec![value] };
        if !requirements.contains(&same) {
            requirements.push(same);
        }
    }
    let namespaces = NamespaceScope { named: vec![Arc::clone(namespace)], selected: None };
    SpreadConstraint {
        pods: PodSelector { namespaces, labels: requirements },
        topology_key: spread.topology_key.as_str().into(),
        max_skew: u32::try_from(spread.max_skew).unwrap_or(1).max(1),
        min_domains: spread
            .min_domains
            .and_then(|domains| usize::try_from(domains).ok())
            .unwrap_or(1),
        honors_affinity: honors(&spread.node_affinity_policy, true),
        honors_taints: honors(&spread.node_taints_policy, false),
    }
}

/// Returns a label selector as requirements that must all hold; an empty one matches everything.
pub fn selector(selector: &LabelSelector) -> Vec<Requirement> {
    let equal = sorted(selector.match_labels.as_ref()).map(|(key, value)| Requirement {
        key,
        operator: Operator::In,
        values: vec![value],
    });
    let expressions = selector.match_expressions.iter().flatten().map(|expression| {
        let operator = match expression.operator.as_str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            _ => Operator::Unknown,
        };
        requirement_of(&expression.key, operator, expression.values.as_deref().unwrap_or_default())
    });
    equal.chain(expressions).collect()
}
