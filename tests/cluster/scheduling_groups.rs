//! Groups of Kubernetes' own, and requests for devices by the name of a resource.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::harness::{
    ControlPlane, NODES, Namespace, each_job_has_a_group, job, pod, shared, until,
};
use crate::newer;

/// Two racks of two nodes of four cores each.
const RACKS: &str = "
groups:
- {namePrefix: n-, count: 4, cpu: '4', memory: 16Gi, pods: 110,
   roundRobin: {example.com/rack: [one, two]}}
";

/// Why a job is refused.
fn message(record: &Value) -> &str {
    record["status"]["blockedBy"][0]["message"].as_str().unwrap_or_default()
}

/// A control plane on which every Job has a PodGroup, and every control plane where all have that.
fn plane() -> ControlPlane {
    plane_of(NODES, &[])
}

fn plane_of(nodes: &str, more: &[&str]) -> ControlPlane {
    let flags: &[&str] = if each_job_has_a_group() { &[] } else { &["--workload-with-job"] };
    ControlPlane::start(nodes, &[flags, more].concat())
}

#[test]
fn a_job_with_a_group_of_kubernetes_is_the_gang_that_it_is_without() {
    if newer::is_left_out(
        "scheduling_groups::a_job_with_a_group_of_kubernetes_is_the_gang_that_it_is_without",
    ) {
        return;
    }
    let plane = plane();
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("groups");
    // The open nodes have room for six such pods: the second Job waits as a whole, though four of
    // its pods would fit.
    ns.apply(&job("first", 2, "3", "infinity"));
    let pods = ns.running(2);
    let group = |pod: &Value| pod["spec"]["schedulingGroup"]["podGroupName"].clone();
    assert!(pods.iter().all(|pod| group(pod).is_string()), "{pods:?}");
    ns.apply(&job("second", 5, "3", "1"));
    ns.state("second", "Pending");
    let bound = ns.list("pods").iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count();
    assert_eq!(bound, 2);
    plane.kubectl(&["delete", "job", "first", "-n", &ns.name]);
    ns.succeeded(5);
}

/// A PodGroup of this policy.
fn group(name: &str, policy: &str) -> String {
    format!(
        "{{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {{name: {name}}}, \
         spec: {{schedulingPolicy: {{{policy}}}}}}}"
    )
}

/// A pod that names a PodGroup.
fn in_group(name: &str, cpu: &str, group: &str) -> String {
    let named = format!("spec:\n  schedulingGroup: {{podGroupName: {group}}}");
    pod(name, cpu, "infinity", "").replace("spec:", &named)
}

/// The condition of a PodGroup about the start of its pods.
fn condition(ns: &Namespace<'_>, group: &str) -> Option<Value> {
    let is_it = |object: &Value| object["metadata"]["name"] == group;
    let object = ns.list("podgroups").into_iter().find(is_it)?;
    let conditions = object["status"]["conditions"].as_array()?.clone();
    conditions.into_iter().find(|it| it["type"] == "PodGroupInitiallyScheduled")
}

#[test]
fn a_gang_of_a_pod_group_waits_for_as_many_pods_as_the_group_says() {
    if newer::is_left_out(
        "scheduling_groups::a_gang_of_a_pod_group_waits_for_as_many_pods_as_the_group_says",
    ) {
        return;
    }
    let plane = plane();
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("gang");
    // The group comes after its first pod.
    ns.apply(&in_group("ring-0", "100m", "ring"));
    let record = ns.state("ring", "Incomplete");
    let expected = format!("PodGroup {}/ring is not there yet", ns.name);
    assert_eq!(message(&record), expected);
    assert_eq!(record["spec"]["workloadRef"]["kind"], "PodGroup");
    let annotated = "{name: ring, annotations: {fluxqueue/walltime: soon}}";
    ns.apply(&group("ring", "gang: {minCount: 2}").replace("{name: ring}", annotated));
    ns.flux_job("ring", "waits for the other", |record| message(record) == "1 of 2 pods are there");
    let warning =
        format!("PodGroup {}/ring: metadata.annotations[fluxqueue/walltime]: \"soon\"", ns.name);
    ns.flux_job("ring", "says that its walltime cannot be read", |record| {
        record["status"]["conditions"].as_array().is_some_and(|conditions| {
            let text = |it: &Value| it["message"].as_str().unwrap_or_default().to_owned();
            conditions
                .iter()
                .any(|it| it["type"] == "InvalidWalltime" && text(it).starts_with(&warning))
        })
    });
    let said = until("the condition of the group", || condition(&ns, "ring"));
    assert_eq!((&said["status"], &said["reason"]), (&"False".into(), &"Unschedulable".into()));
    // Kubernetes 1.37 counts no generations of PodGroups.
    let group = ns.list("podgroups").remove(0);
    assert_eq!(said["observedGeneration"], group["metadata"]["generation"], "{group}");
    assert!(ns.list("pods").iter().all(|pod| !pod["spec"]["nodeName"].is_string()));
    ns.apply(&in_group("ring-1", "100m", "ring"));
    ns.running(2);
    // Another one joins.
    ns.apply(&in_group("ring-2", "100m", "ring"));
    ns.running(3);
    until("the group to be scheduled", || {
        condition(&ns, "ring").filter(|said| said["status"] == "True")
    });
    let table = ns.kubectl(&["get", "podgroups"]);
    assert!(table.contains("Scheduled"), "{table}");
}

#[test]
fn a_group_stays_in_one_part_of_a_level_as_kube_scheduler_keeps_it() {
    if newer::is_left_out(
        "scheduling_groups::a_group_stays_in_one_part_of_a_level_as_kube_scheduler_keeps_it",
    ) {
        return;
    }
    let plane = plane_of(RACKS, &["--kube-scheduler"]);
    let _fluxqueue = plane.fluxqueue(&[]);
    let racks = |pods: &[Value]| -> BTreeSet<String> {
        let nodes = plane.kubectl(&["get", "nodes", "-o", "json"]);
        let nodes: Value = serde_json::from_str(&nodes).expect("a list of nodes");
        let rack_of = |pod: &Value| {
            let is_it = |node: &&Value| node["metadata"]["name"] == pod["spec"]["nodeName"];
            let node = nodes["items"].as_array()?.iter().find(is_it)?;
            Some(node["metadata"]["labels"]["example.com/rack"].as_str()?.to_owned())
        };
        pods.iter().map(|pod| rack_of(pod).expect("it is in a rack")).collect()
    };
    for scheduler in ["default-scheduler", "fluxqueue"] {
        let ns = plane.namespace("racks");
        let in_rack = |name: &str, pods: usize| {
            let constraints =
                "spec: {schedulingConstraints: {topology: [{key: example.com/rack}]}, ";
            let gang = group(name, &format!("gang: {{minCount: {pods}}}"));
            ns.apply(&gang.replace("spec: {", constraints));
            for at in 0..pods {
                let pod = in_group(&format!("{name}-{at}"), "2", name);
                let named = format!("schedulerName: {scheduler}");
                ns.apply(&pod.replace("schedulerName: fluxqueue", &named));
            }
        };
        // A rack has room for four of them, and a node for two.
        in_rack("near", 3);
        assert_eq!(racks(&ns.running(3)).len(), 1, "{scheduler}");
        // The two racks have room for five together, and neither has for all of them.
        in_rack("wide", 5);
        let said = until("the condition of the group", || condition(&ns, "wide"));
        assert_eq!(
            (&said["status"], &said["reason"]),
            (&"False".into(), &"Unschedulable".into()),
            "{scheduler}: {said}"
        );
        let is_bound = |pod: &&Value| pod["spec"]["nodeName"].is_string();
        assert_eq!(ns.list("pods").iter().filter(is_bound).count(), 3, "{scheduler}");
        plane.kubectl(&["delete", "pods", "--all", "-n", &ns.name]);
    }
}

#[test]
fn pods_of_a_basic_group_or_job_start_one_by_one() {
    if newer::is_left_out(
        "scheduling_groups::\
         pods_of_a_basic_group_or_job_start_one_by_one",
    ) {
        return;
    }
    let plane = plane();
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("basic");
    ns.apply(&group("loose", "basic: {}"));
    // The open nodes have room for six such pods.
    for at in 0..4 {
        ns.apply(&in_group(&format!("loose-{at}"), "3", "loose"));
    }
    ns.running(4);
    let spec = "spec:\n  scheduling: {schedulingPolicy: {basic: {}}}\n  parallelism";
    ns.apply(&job("many", 4, "3", "infinity").replacen("spec:\n  parallelism", spec, 1));
    until("two of four pods to run", || {
        let pods = ns.list("pods");
        let is_running = |pod: &&Value| pod["status"]["phase"] == "Running";
        (pods.len() == 8 && pods.iter().filter(is_running).count() == 6).then_some(())
    });
}

#[test]
fn a_gang_of_a_job_waits_for_all_that_it_asks_for() {
    if newer::is_left_out("scheduling_groups::a_gang_of_a_job_waits_for_all_that_it_asks_for") {
        return;
    }
    let plane = plane();
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("policies");
    // The open nodes have room for six such pods.
    let spec = "spec:\n  scheduling: {schedulingPolicy: {gang: {minCount: 4}}}\n  parallelism";
    let gang = |name: &str| job(name, 4, "3", "infinity").replacen("spec:\n  parallelism", spec, 1);
    ns.apply(&gang("first"));
    ns.running(4);
    ns.apply(&gang("second"));
    until("the second gang to wait", || {
        let records = ns.list("fluxjobs");
        let waits = |record: &&Value| {
            record["spec"]["workloadRef"]["kind"] == "PodGroup"
                && record["status"]["state"] == "Pending"
        };
        records.iter().find(waits).map(|_| ())
    });
    let bound = ns.list("pods").iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count();
    assert_eq!(bound, 4);
}

#[test]
fn a_resource_of_a_device_class_is_refused_until_a_node_has_it() {
    if newer::is_left_out(
        "scheduling_groups::a_resource_of_a_device_class_is_refused_until_a_node_has_it",
    ) {
        return;
    }
    let plane = shared();
    let ns = plane.namespace("devices");
    let class = format!("class-{}", ns.name);
    let resource = format!("example.com/{}", ns.name);
    let asks = |name: &str| {
        let limits = format!("requests: {{cpu: '100m', {resource}: 1}}, limits: {{{resource}: 1}}");
        pod(name, "100m", "infinity", "").replace("requests: {cpu: '100m'}", &limits)
    };
    ns.apply(&asks("early"));
    ns.state("early", "Unsatisfiable");
    let manifest = format!(
        "{{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {{name: {class}}}, \
         spec: {{extendedResourceName: {resource}}}}}"
    );
    ns.apply(&manifest);
    let record = ns.state("early", "Refused");
    assert!(message(&record).contains(&format!("DeviceClass \"{class}\"")), "{record}");
    ns.apply(&asks("late"));
    ns.state("late", "Refused");
    // A node has one, so it is counted: one of the two runs, and the other waits for it.
    let path = format!("/status/capacity/{}", resource.replace('/', "~1"));
    let patch = format!(r#"[{{"op": "add", "path": "{path}", "value": "1"}}]"#);
    let patch = ["patch", "node", "small-0", "--subresource=status", "--type=json", "-p", &patch];
    plane.kubectl(&patch);
    ns.running(1);
    ns.state("late", "Pending");
    plane.kubectl(&["delete", "deviceclass", &class]);
}
