use serde_json::Value;

use crate::harness::{ControlPlane, job, node_of, pod, shared};

#[test]
fn taints_selectors_and_extended_resources_are_honoured() {
    let ns = shared().namespace("where");
    ns.apply(
        &pod("selected", "100m", "infinity", "")
            .replace("spec:", "spec:\n  nodeSelector: {accelerator: a100}"),
    );
    ns.apply(&pod("gpu", "100m", "infinity", "").replace(
        "requests: {cpu: '100m'}",
        "requests: {cpu: '100m', nvidia.com/gpu: '2'}, limits: {nvidia.com/gpu: '2'}",
    ));
    let tolerates = "spec:\n  tolerations: [{key: dedicated, operator: Exists}]\n  nodeSelector: {kubernetes.io/hostname: closed-0}";
    ns.apply(&pod("tolerant", "100m", "infinity", "").replace("spec:", tolerates));
    let on = |name: &str| {
        let pods = ns.running(3);
        let of_it = pods.iter().find(|pod| pod["metadata"]["name"] == name).expect("it runs");
        node_of(of_it).to_owned()
    };
    assert!(on("selected").starts_with("gpu-"));
    assert!(on("gpu").starts_with("gpu-"));
    assert!(on("tolerant").starts_with("closed-"));
    let closed = tolerates.replace("\n  tolerations: [{key: dedicated, operator: Exists}]", "");
    ns.apply(&pod("intolerant", "100m", "infinity", "").replace("spec:", &closed));
    let record = ns.state("intolerant", "Unsatisfiable");
    let message = record["status"]["blockedBy"][0]["message"].as_str().unwrap_or("").to_owned();
    assert!(message.contains("untolerated taint"), "{message}");
}

#[test]
fn host_ports_keep_pods_of_a_gang_apart() {
    let ns = shared().namespace("ports");
    ns.apply(
        &job("ports", 3, "100m", "infinity")
            .replace("name: main,", "name: main, ports: [{containerPort: 80, hostPort: 8080}],"),
    );
    let pods = ns.running(3);
    let mut nodes: Vec<&str> = pods.iter().map(node_of).collect();
    nodes.sort_unstable();
    nodes.dedup();
    assert_eq!(nodes.len(), 3);
}

#[test]
fn pods_of_other_schedulers_are_counted_and_those_without_end_are_passed_by() {
    let plane = ControlPlane::start(
        "groups:\n- {namePrefix: n-, count: 1, cpu: '4', memory: 16Gi, pods: 110}\n",
        &[],
    );
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("foreign");
    let placed = "schedulerName: somebody-else\n  nodeName: n-0";
    let service = pod("service", "3", "infinity", "")
        .replace("restartPolicy: Never", "restartPolicy: Always");
    ns.apply(&service.replace("schedulerName: fluxqueue", placed));
    ns.running(1);
    ns.apply(&pod("large", "2", "infinity", ""));
    let record = ns.state("large", "Pending");
    assert!(
        record["status"]["blockedBy"][0]["message"]
            .as_str()
            .is_some_and(|text| text.contains("Insufficient cpu"))
    );
    // The service never ends, so the large job must not hold back those that fit beside it.
    ns.apply(&pod("small", "1", "infinity", ""));
    ns.running(2);
    ns.kubectl(&["delete", "pod", "service", "--grace-period=0", "--force"]);
    ns.running(2);
    assert_eq!(plane.testbed(&["refusals"]).trim(), "0");
}

#[test]
fn two_schedulers_on_the_same_nodes_double_book_nothing() {
    let nodes = "groups:\n- {namePrefix: n-, count: 20, cpu: '4', memory: 16Gi, pods: 110}\n";
    let plane = ControlPlane::start(nodes, &["--kube-scheduler"]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("both");
    let mut manifest = String::new();
    for number in 0..40 {
        manifest += &pod(&format!("ours-{number}"), "900m", "infinity", "");
        let theirs = pod(&format!("theirs-{number}"), "900m", "infinity", "");
        manifest += &theirs.replace("schedulerName: fluxqueue", "schedulerName: default-scheduler");
    }
    ns.apply(&manifest);
    // All 80 pods fit, four to a node. A lost race shows as a refused pod, never as an
    // overcommitted node.
    let phase = |pod: &Value| pod["status"]["phase"].as_str().unwrap_or("").to_owned();
    let settled =
        ns.pods(80, "running or refused", |pod| ["Running", "Failed"].contains(&&*phase(pod)));
    let (failed, running): (Vec<_>, Vec<_>) =
        settled.into_iter().partition(|pod| phase(pod) == "Failed");
    let mut per_node = std::collections::BTreeMap::<String, usize>::new();
    for pod in &running {
        *per_node.entry(node_of(pod).to_owned()).or_default() += 1;
    }
    assert!(per_node.values().all(|pods| *pods <= 4), "{per_node:?}");
    assert!(failed.len() <= 8, "{} of 80 pods were refused", failed.len());
}

#[test]
fn a_cordoned_node_gets_nothing_new() {
    let plane = ControlPlane::start(
        "groups:\n- {namePrefix: n-, count: 2, cpu: '4', memory: 16Gi, pods: 110}\n",
        &[],
    );
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("cordon");
    plane.kubectl(&["cordon", "n-0"]);
    ns.apply(&job("work", 4, "1", "infinity"));
    assert!(ns.running(4).iter().all(|pod| node_of(pod) == "n-1"));
    ns.apply(&pod("next", "1", "infinity", ""));
    ns.flux_job("next", "waits", |job| job["status"]["blockedBy"].is_array());
    plane.kubectl(&["uncordon", "n-0"]);
    let pods = ns.running(5);
    let next: Option<&Value> = pods.iter().find(|pod| pod["metadata"]["name"] == "next");
    assert_eq!(next.map(node_of), Some("n-0"));
}
