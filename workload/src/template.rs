//! The fields that the API server fills in when it makes a pod of a template: a prediction of pods
//! from a template has to fill them in as well.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodAffinityTerm, WeightedPodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

/// Turns a pod with the metadata and spec of a template into the pod that it would be once it is
/// created, as far as its place depends on that: `matchLabelKeys` and `mismatchLabelKeys` of terms
/// about pods become requirements (KEP-3633), and on the node's network each port of a container is
/// one of the node.
pub fn fill_in(pod: &mut Pod) {
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    // The API server refuses a pod without a spec.
    let Some(spec) = &mut pod.spec else { return };
    if spec.host_network == Some(true) {
        spec.containers.iter_mut().for_each(take_ports_of_node);
        spec.init_containers.iter_mut().flatten().for_each(take_ports_of_node);
    }
    if let Some(affinity) = &mut spec.affinity {
        if let Some(near) = &mut affinity.pod_affinity {
            let required = &mut near.required_during_scheduling_ignored_during_execution;
            let preferred = &mut near.preferred_during_scheduling_ignored_during_execution;
            apply_to_all(required, preferred, &labels);
        }
        if let Some(apart) = &mut affinity.pod_anti_affinity {
            let required = &mut apart.required_during_scheduling_ignored_during_execution;
            let preferred = &mut apart.preferred_during_scheduling_ignored_during_execution;
            apply_to_all(required, preferred, &labels);
        }
    }
}

/// Adds the label keys to terms.
fn apply_to_all(
    required: &mut Option<Vec<PodAffinityTerm>>,
    preferred: &mut Option<Vec<WeightedPodAffinityTerm>>,
    labels: &BTreeMap<String, String>,
) {
    let preferred = preferred.iter_mut().flatten().map(|it| &mut it.pod_affinity_term);
    required.iter_mut().flatten().chain(preferred).for_each(|term| apply_label_keys(term, labels));
}

/// Adds the label keys to a term. A term without a selector selects no pod, whatever its keys.
fn apply_label_keys(term: &mut PodAffinityTerm, labels: &BTreeMap<String, String>) {
    if let Some(selector) = &mut term.label_selector {
        for (keys, operator) in
            [(&term.match_label_keys, "In"), (&term.mismatch_label_keys, "NotIn")]
        {
            let known = keys.iter().flatten().filter_map(|key| Some((key, labels.get(key)?)));
            let requirements = known.map(|(key, value)| LabelSelectorRequirement {
                key: key.clone(),
                operator: operator.to_owned(),
                values: Some(vec![value.clone()]),
            });
            selector.match_expressions.get_or_insert_default().extend(requirements);
        }
    }
}

fn take_ports_of_node(container: &mut Container) {
    for port in container.ports.iter_mut().flatten().filter(|port| port.host_port.unwrap_or(0) == 0)
    {
        port.host_port = Some(port.container_port);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::constraints::Operator;
    use crate::pod::Pod as ReadPod;
    use crate::shape::ShapeInterner;

    #[test]
    fn keys_of_terms_become_requirements_and_ports_on_the_nodes_network_ports_of_the_node() {
        let term = |keys: &str| {
            json!({
                "topologyKey": "host", "labelSelector": {"matchLabels": {"app": "x"}},
                keys: ["job-name", "absent"],
            })
        };
        let required = |term| json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        let mut pod = serde_json::from_value(json!({
            "metadata": {
                "name": "p", "namespace": "ns", "uid": "u", "labels": {"job-name": "j", "app": "x"},
            },
            "spec": {
                "hostNetwork": true,
                "containers": [{
                    "name": "c",
                    "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}],
                }],
                "affinity": {
                    "podAntiAffinity": required(term("matchLabelKeys")),
                    "podAffinity": required(term("mismatchLabelKeys")),
                },
            },
        }))
        .unwrap();
        fill_in(&mut pod);
        let read = ReadPod::from_kubernetes(&pod, &mut ShapeInterner::default()).unwrap();
        let constraints = &read.shape.constraints;
        let ports: Vec<u16> = constraints.host_ports.iter().map(|port| port.port).collect();
        assert_eq!(ports, [80, 8081]);
        let said =
            |labels: &Option<Vec<crate::constraints::Requirement>>| -> Vec<(String, Operator)> {
                let requirements = labels.iter().flatten();
                requirements
                    .map(|requirement| (requirement.key.to_string(), requirement.operator))
                    .collect()
            };
        let own =
            |operator| vec![("app".to_owned(), Operator::In), ("job-name".to_owned(), operator)];
        assert_eq!(said(&constraints.repels[0].pods.labels), own(Operator::In));
        assert_eq!(said(&constraints.near[0].pods.labels), own(Operator::NotIn));
    }
}
