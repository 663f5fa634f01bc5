//! Jobs with constraints on levels of the machine, on nodes with zones and racks.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::harness::{ControlPlane, Namespace, job, node_of};

/// Two zones of two racks each. Both zones have a rack of the same name. Nodes have two cores.
const NODES: &str = "
groups:
- {namePrefix: a1-, count: 2, cpu: '2', memory: 16Gi, pods: 110, labels: {topology.kubernetes.io/zone: a, topology.kubernetes.io/rack: r1}}
- {namePrefix: a2-, count: 3, cpu: '2', memory: 16Gi, pods: 110, labels: {topology.kubernetes.io/zone: a, topology.kubernetes.io/rack: r2}}
- {namePrefix: b1-, count: 2, cpu: '2', memory: 16Gi, pods: 110, labels: {topology.kubernetes.io/zone: b, topology.kubernetes.io/rack: r1}}
";

/// Makes a Job of pods that need a node each, with this annotation on its template.
fn asking(name: &str, pods: u32, seconds: &str, annotation: &str) -> String {
    annotated(&job(name, pods, "2", seconds), annotation)
}

/// Adds this annotation to the Job's pod template.
fn annotated(plain: &str, annotation: &str) -> String {
    let template = "  template:\n";
    assert_eq!(plain.matches(template).count(), 1, "{plain}");
    plain.replace(template, &format!("{template}    metadata: {{annotations: {{{annotation}}}}}\n"))
}

/// Returns the racks of the pods of a Job that have nodes. A rack is the part of a node's name
/// before the number.
fn racks(ns: &Namespace<'_>, name: &str) -> BTreeSet<String> {
    let pods = ns.list("pods");
    let of_job = pods.iter().filter(|pod| pod["metadata"]["labels"]["job-name"] == name);
    of_job.filter_map(|pod| Some(node_of(pod).split_once('-')?.0.to_owned())).collect()
}

#[test]
fn a_gang_starts_in_one_rack_says_what_is_short_and_stays_there() {
    let plane = ControlPlane::start(NODES, &[]);
    let mut fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("racks");
    // Of the racks with two nodes, one is of zone a and one of zone b, so they are different racks.
    ns.apply(&asking("four", 4, "infinity", "fluxqueue/required-level: rack"));
    let record = ns.state("four", "Unsatisfiable");
    let of_level = &record["status"]["blockedBy"][1];
    let expected = json!({
        "reason": "NoRoomInLevel", "level": "rack", "part": "a/r2", "requested": "4", "available": "3",
        "message": "No rack would have room for 4 pods: the largest, a/r2, would have room for 3.",
    });
    assert_eq!(*of_level, expected, "{record:#}");
    ns.apply(&asking(
        "three",
        3,
        "infinity",
        "kueue.x-k8s.io/podset-required-topology: topology.kubernetes.io/rack",
    ));
    ns.state("three", "Running");
    assert_eq!(racks(&ns, "three"), BTreeSet::from(["a2".to_owned()]));
    // A new process also knows the racks of the nodes and the place of the gang.
    fluxqueue.kill();
    let _fluxqueue = plane.fluxqueue(&[]);
    ns.apply(&asking("two", 2, "infinity", "fluxqueue/required-level: zone"));
    ns.state("two", "Running");
    assert_eq!(racks(&ns, "two").len(), 1);
    let full = racks(&ns, "two").pop_first().unwrap_or_default();
    let left = if full == "a1" { "b1" } else { "a1" };
    // A pod of the gang of three is lost with its node. Its successor has to be in rack a/r2, which
    // has no room until a node of the other rack is moved there.
    let pods = ns.list("pods");
    let lost =
        pods.iter().find(|pod| node_of(pod) == "a2-0").expect("each node of the rack has one");
    plane.kubectl(&["delete", "node", "a2-0"]);
    ns.kubectl(&[
        "delete",
        "pod",
        lost["metadata"]["name"].as_str().expect("a name"),
        "--grace-period=0",
        "--force",
    ]);
    ns.pods(1, "that wait for room in the rack", |pod| {
        let said = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut said = said.filter_map(|condition| condition["message"].as_str());
        said.any(|text| {
            text.contains("The rest of its job is in rack a/r2, which has no room for 1 pod more.")
        })
    });
    assert_eq!(
        racks(&ns, "three"),
        BTreeSet::from(["a2".to_owned()]),
        "there is room in {left} alone"
    );
    let (node, labels) =
        (format!("{left}-0"), ["topology.kubernetes.io/zone=a", "topology.kubernetes.io/rack=r2"]);
    plane.kubectl(&[&["label", "node", &node, "--overwrite"], &labels[..]].concat());
    ns.flux_job("three", "is whole again", |record| record["status"]["displaySize"] == "3/3");
    assert_eq!(racks(&ns, "three"), BTreeSet::from(["a2".to_owned(), left.to_owned()]));
}

#[test]
fn what_names_no_level_is_refused_and_others_can_be_named() {
    let plane = ControlPlane::start(NODES, &[]);
    let settings = plane.dir.join("settings.yaml");
    let text = "apiVersion: config.converged-computing.org/v1alpha1\nkind: FluxqueueConfiguration\n\
                topology: [{levels: [{name: cabinet, nodeLabels: [topology.kubernetes.io/rack]}]}]\n";
    std::fs::write(&settings, text).expect("it is written");
    let _fluxqueue = plane.fluxqueue(&[&format!("--config={}", settings.display())]);
    let ns = plane.namespace("levels");
    ns.apply(&asking("rack", 2, "infinity", "fluxqueue/required-level: rack"));
    let record = ns.state("rack", "Refused");
    let message = record["status"]["blockedBy"][0]["message"].as_str().unwrap_or_default();
    let text = "metadata.annotations[fluxqueue/required-level]: \"rack\" is no level of this machine; there are: cabinet";
    assert!(message.ends_with(text), "{message}");
    // Without zones, racks with the same name are one rack.
    ns.apply(&asking("cabinet", 4, "infinity", "fluxqueue/required-level: cabinet"));
    ns.state("cabinet", "Running");
    assert_eq!(racks(&ns, "cabinet"), BTreeSet::from(["a1".to_owned(), "b1".to_owned()]));
}

#[test]
fn slices_of_the_examples_are_each_in_a_rack_and_spread_over_racks() {
    let plane = ControlPlane::start(NODES, &[]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("slices");
    for (name, manifest, counts, are_apart) in [
        (
            "slices-over-racks",
            include_str!("../../manifests/examples/36-slices-over-racks.yaml"),
            &[2, 2][..],
            true,
        ),
        (
            "slices-even-over-racks",
            include_str!("../../manifests/examples/37-slices-even-over-racks.yaml"),
            &[2, 2, 2],
            false,
        ),
    ] {
        ns.apply(manifest);
        ns.state(name, "Running");
        let mut by_rack: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        let mut nodes: BTreeSet<String> = BTreeSet::new();
        for pod in
            ns.list("pods").iter().filter(|pod| pod["metadata"]["labels"]["job-name"] == name)
        {
            let index =
                pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"].as_str();
            let slice =
                index.and_then(|index| index.parse::<u64>().ok()).expect("the Job is indexed") / 2;
            let rack = node_of(pod).split_once('-').expect("it runs").0;
            by_rack.entry(rack.to_owned()).or_default().push(slice);
            let is_new = nodes.insert(node_of(pod).to_owned());
            assert!(is_new || !are_apart, "{name}: {} has two", node_of(pod));
        }
        assert!(
            by_rack.values().all(|slices| slices.iter().all(|slice| *slice == slices[0])),
            "{name}: {by_rack:?}"
        );
        assert_eq!(
            by_rack.values().map(Vec::len).collect::<Vec<_>>(),
            counts,
            "{name}: {by_rack:?}"
        );
    }
}

#[test]
fn a_job_has_its_nodes_alone_also_after_a_restart() {
    let plane = ControlPlane::start(NODES, &[]);
    let mut fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("alone");
    let nodes = |name: &str| {
        let pods = ns.list("pods");
        let of_job = pods.iter().filter(|pod| pod["metadata"]["labels"]["job-name"] == name);
        let nodes = of_job.map(|pod| node_of(pod).to_owned()).filter(|node| !node.is_empty());
        nodes.collect::<BTreeSet<String>>()
    };
    // The pods are three of one core on nodes of two, so one node has room for one more.
    ns.apply(&annotated(&job("whole", 3, "1", "infinity"), "fluxqueue/exclusive: 'true'"));
    ns.state("whole", "Running");
    let own = nodes("whole");
    assert_eq!(own.len(), 2, "{own:?}");
    fluxqueue.kill();
    let _fluxqueue = plane.fluxqueue(&[]);
    ns.apply(&job("others", 10, "1", "infinity"));
    ns.state("others", "Running");
    assert!(nodes("others").is_disjoint(&own), "{:?} beside {own:?}", nodes("others"));
    ns.apply(&job("more", 1, "1", "infinity"));
    ns.flux_job("more", "says that nodes are held", |record| {
        let message = record["status"]["blockedBy"][0]["message"].as_str().unwrap_or_default();
        message.contains("2 node(s) were held by exclusive jobs, 5 Insufficient cpu.")
    });
    // All nodes are in use now.
    ns.apply(&annotated(&job("second", 1, "1", "infinity"), "fluxqueue/exclusive: 'true'"));
    ns.flux_job("second", "says that no node is unused", |record| {
        let message = record["status"]["blockedBy"][0]["message"].as_str().unwrap_or_default();
        message.contains("It asks for nodes alone: 0 of 7 are free of other pods.")
    });
    ns.kubectl(&["delete", "job", "whole", "--wait=false"]);
    ns.state("more", "Running");
    ns.state("second", "Running");
    assert!(nodes("more").is_disjoint(&nodes("second")));
    assert!(nodes("second").is_subset(&own));
}
