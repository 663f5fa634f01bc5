//! Required affinity and anti-affinity between pods, and required spread, as the API server stores
//! them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::harness::{ControlPlane, Namespace, job, node_of, until};

const NODES: &str = "
groups:
- {namePrefix: n-, count: 6, cpu: '4', memory: 16Gi, pods: 110, roundRobin: {zone: [a, b, c]}}
";

/// Makes a Job with this constraint between its own pods.
fn asking(name: &str, pods: u32, cpu: &str, asks: &str) -> String {
    let job = job(name, pods, cpu, "infinity");
    let spec = "    spec:\n";
    job.replacen(spec, &format!("    metadata: {{labels: {{app: {name}}}}}\n{spec}{asks}"), 1)
}

fn like(name: &str) -> String {
    format!("labelSelector: {{matchLabels: {{app: {name}}}}}")
}

fn term(kind: &str, name: &str, key: &str) -> String {
    format!(
        "      affinity: {{{kind}: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: {key}, {}, \
         matchLabelKeys: [job-name]}}]}}}}\n",
        like(name)
    )
}

fn spread(name: &str, key: &str) -> String {
    format!(
        "      topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {key}, whenUnsatisfiable: DoNotSchedule, {}}}]\n",
        like(name)
    )
}

/// Returns the number of the Job's running pods on each node.
fn by_node(ns: &Namespace<'_>, name: &str, pods: usize) -> BTreeMap<String, usize> {
    let is_of = |pod: &&Value| pod["metadata"]["labels"]["app"] == name && !node_of(pod).is_empty();
    until(&format!("{pods} pods of {name} to be bound"), || {
        let mut nodes = BTreeMap::new();
        for pod in ns.list("pods").iter().filter(is_of) {
            *nodes.entry(node_of(pod).to_owned()).or_default() += 1;
        }
        (nodes.values().sum::<usize>() == pods).then_some(nodes)
    })
}

#[test]
fn gangs_are_spread_kept_apart_and_kept_together() {
    let plane = ControlPlane::start(NODES, &[]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("crowds");
    ns.apply(&asking("apart", 6, "1", &term("podAntiAffinity", "apart", "kubernetes.io/hostname")));
    assert_eq!(by_node(&ns, "apart", 6).len(), 6, "each has a node of its own");
    ns.apply(&asking("near", 4, "1", &term("podAffinity", "near", "zone")));
    let zones: Vec<usize> = by_node(&ns, "near", 4).keys().map(|node| zone(node)).collect();
    assert!(zones.iter().all(|zone| *zone == zones[0]), "{zones:?}");
    ns.apply(&asking("spread", 6, "500m", &spread("spread", "zone")));
    let mut counts = [0; 3];
    for (node, pods) in by_node(&ns, "spread", 6) {
        counts[zone(&node)] += pods;
    }
    assert_eq!(counts, [2, 2, 2]);
    // The Job needs four zones, and there are three.
    ns.apply(&asking("never", 4, "500m", &term("podAntiAffinity", "never", "zone")));
    let record =
        ns.flux_job("never", "to say why it waits", |job| job["status"]["blockedBy"].is_array());
    let text = record["status"]["blockedBy"][0]["message"].as_str().unwrap_or_default();
    assert!(text.contains("No placement of all of them together was found"), "{text}");
    ns.apply(&asking("later", 2, "500m", ""));
    assert_eq!(by_node(&ns, "later", 2).values().sum::<usize>(), 2, "nobody is held up by it");
}

/// Returns the zone of a node, by the node's number.
fn zone(node: &str) -> usize {
    node.trim_start_matches("n-").parse::<usize>().expect("a number") % 3
}
