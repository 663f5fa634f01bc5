//! Groups of Kubernetes' own, and requests for devices by the name of a resource.

use serde_json::Value;

use crate::harness::{ControlPlane, NODES, job, pod, shared};
use crate::newer;

/// Why a job is refused.
fn message(record: &Value) -> &str {
    record["status"]["blockedBy"][0]["message"].as_str().unwrap_or_default()
}

/// A control plane on which every Job has a PodGroup, and every control plane where all have that.
fn plane() -> ControlPlane {
    let is_everywhere = std::env::var_os("WORKLOAD_WITH_JOB").is_some();
    ControlPlane::start(NODES, if is_everywhere { &[] } else { &["--workload-with-job"] })
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
    // One that names a group of its own is refused, and so is a pod of no Job.
    let named = "spec:\n  schedulingGroup: {podGroupName: ring}";
    ns.apply(&pod("alone", "1", "1", "").replace("spec:", named));
    let record = ns.state("alone", "Refused");
    assert!(message(&record).contains("spec.schedulingGroup: PodGroup \"ring\""), "{record}");
    let in_template = format!("    {}", named.replace('\n', "\n    "));
    ns.apply(&job("ring", 1, "1", "1").replace("    spec:", &in_template));
    let record = ns.state("ring", "Refused");
    assert!(message(&record).contains("spec.template.spec.schedulingGroup: "), "{record}");
}

#[test]
fn a_policy_of_a_job_is_refused_by_name() {
    if newer::is_left_out("scheduling_groups::a_policy_of_a_job_is_refused_by_name") {
        return;
    }
    let plane = plane();
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("policies");
    for (name, policy) in [("basic", "basic: {}"), ("gang", "gang: {minCount: 1}")] {
        let spec =
            format!("spec:\n  scheduling: {{schedulingPolicy: {{{policy}}}}}\n  parallelism");
        ns.apply(&job(name, 1, "1", "1").replacen("spec:\n  parallelism", &spec, 1));
        let record = ns.state(name, "Refused");
        let expected = format!("Job {}/{name}: spec.scheduling.schedulingPolicy: ", ns.name);
        assert!(message(&record).starts_with(&expected), "{record}");
    }
    assert!(ns.list("pods").iter().all(|pod| !pod["spec"]["nodeName"].is_string()));
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
