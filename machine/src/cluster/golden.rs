//! Our answers against those of Kubernetes' own code, for a few thousand made-up questions.
//!
//! Questions and answers are in tests/filters-golden/cases.json; its main.go says how to write them
//! again.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1 as kube;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;

use crate::cluster::filters::{Liking, admit, liking};
use crate::cluster::node::Node;
use fluxqueue_workload::Resources;
use fluxqueue_workload::{Pod, ShapeInterner, constraints, metadata, quantity};

#[derive(Deserialize)]
struct Cases {
    quantities: Vec<QuantityCase>,
    requests: Vec<RequestsCase>,
    nodes: Vec<kube::Node>,
    pods: Vec<kube::Pod>,
    judgments: Vec<Vec<Judgment>>,
    repels: Vec<RepelsCase>,
}

#[derive(Deserialize)]
struct QuantityCase {
    text: String,
    milli: u64,
    value: u64,
}

#[derive(Deserialize)]
struct RequestsCase {
    pod: kube::Pod,
    requests: BTreeMap<String, u64>,
}

/// The judgment of kube-scheduler on one pod and one node; zero and empty fields are left out of
/// the file.
#[derive(Deserialize, Debug, PartialEq)]
struct Judgment {
    #[serde(default)]
    rejected: String,
    #[serde(default)]
    affinity: i64,
    #[serde(default)]
    intolerable: i64,
}

#[derive(Deserialize)]
struct RepelsCase {
    selector: Option<LabelSelector>,
    labels: BTreeMap<String, String>,
    matches: bool,
}

fn cases() -> Cases {
    serde_json::from_str(include_str!("../../../tests/filters-golden/cases.json")).unwrap()
}

fn read(pod: &kube::Pod) -> Pod {
    Pod::from_kubernetes(pod, &mut ShapeInterner::new()).unwrap()
}

#[test]
fn quantities_are_worth_what_kubernetes_says() {
    let cases = cases().quantities;
    assert!(cases.len() >= 400);
    for case in cases {
        assert_eq!(quantity::millis(&case.text), Ok(case.milli), "millis of {:?}", case.text);
        assert_eq!(quantity::value(&case.text), Ok(case.value), "value of {:?}", case.text);
    }
}

#[test]
fn pods_take_what_kube_scheduler_counts() {
    let cases = cases().requests;
    assert!(cases.len() >= 300);
    for case in cases {
        let pod = read(&case.pod);
        let expected: Resources = case.requests.into_iter().collect();
        let question = serde_json::to_string(&case.pod).unwrap();
        assert_eq!(pod.shape.requests, expected, "{question}");
        assert_eq!(pod.unsupported, [], "{question}");
    }
}

#[test]
fn nodes_take_the_pods_that_kube_schedulers_filters_let_through() {
    let Cases { nodes, pods, judgments, .. } = cases();
    let mut judged = 0;
    for (pod, judgments) in pods.iter().zip(&judgments) {
        let constraints = &read(pod).shape.constraints;
        for (node, expected) in nodes.iter().zip(judgments) {
            let (read_node, _) = Node::from_kubernetes(node).unwrap();
            let rejected =
                admit(&read_node, constraints).err().map(|rejected| rejected.first.reason());
            let question = || {
                format!(
                    "{} on {}",
                    serde_json::to_string(&pod).unwrap(),
                    serde_json::to_string(&node).unwrap()
                )
            };
            assert_eq!(rejected.unwrap_or_default(), expected.rejected, "{}", question());
            let expected = Liking { weight: expected.affinity, taints: expected.intolerable };
            assert_eq!(liking(&read_node, constraints), expected, "{}", question());
            judged += 1;
        }
    }
    assert!(judged >= 2000, "{judged}");
}

#[test]
fn anti_affinity_selects_what_label_selectors_select() {
    let cases = cases().repels;
    assert!(cases.len() >= 200);
    for case in cases {
        let spec =
            kube::PodSpec { affinity: Some(repelling(case.selector)), ..kube::PodSpec::default() };
        let namespace: Arc<str> = "default".into();
        let read = constraints::of_spec(&spec, &namespace, &[]).repels;
        let [term] = read.as_slice() else { panic!("{read:?}") };
        let labels: metadata::Labels = metadata::sorted(Some(&case.labels)).collect();
        assert_eq!(
            term.pods.selects("default", &[], &labels),
            case.matches,
            "{term:?} on {:?}",
            case.labels
        );
    }
}

fn repelling(selector: Option<LabelSelector>) -> kube::Affinity {
    let term = kube::PodAffinityTerm {
        label_selector: selector,
        topology_key: "kubernetes.io/hostname".to_owned(),
        ..kube::PodAffinityTerm::default()
    };
    let anti = kube::PodAntiAffinity {
        required_during_scheduling_ignored_during_execution: Some(vec![term]),
        ..kube::PodAntiAffinity::default()
    };
    kube::Affinity { pod_anti_affinity: Some(anti), ..kube::Affinity::default() }
}
