//! Groups of Kubernetes' own.

use serde_json::Value;

use crate::harness::{ControlPlane, NODES, job, pod};
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
    // Four nodes of four cores: the second waits as a whole, though two of its pods would fit.
    ns.apply(&job("first", 2, "3", "6"));
    let pods = ns.running(2);
    let group = |pod: &Value| pod["spec"]["schedulingGroup"]["podGroupName"].clone();
    assert!(pods.iter().all(|pod| group(pod).is_string()), "{pods:?}");
    ns.apply(&job("second", 4, "3", "1"));
    ns.state("second", "Pending");
    let bound = ns.list("pods").iter().filter(|pod| pod["spec"]["nodeName"].is_string()).count();
    assert_eq!(bound, 2);
    ns.succeeded(6);
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
