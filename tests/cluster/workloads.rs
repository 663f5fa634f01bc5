use std::time::Duration;

use serde_json::Value;

use crate::harness::{ControlPlane, job, node_of, pod, shared, until};

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or("")
}

#[test]
fn a_lone_pod_that_starts_at_once_costs_a_binding_and_an_event() {
    let ns = shared().namespace("lone");
    ns.apply(&pod("one", "100m", "infinity", ""));
    let pods = ns.running(1);
    assert!(!node_of(&pods[0]).is_empty());
    until("the event Scheduled", || {
        let events: Value =
            serde_json::from_str(&ns.kubectl(&["get", "events.events.k8s.io", "-o", "json"]))
                .ok()?;
        let all = events["items"].as_array()?.clone();
        all.into_iter().find(|event| {
            event["reason"] == "Scheduled"
                && event["reportingController"] == "fluxqueue"
                && event["note"]
                    == format!("Successfully assigned {}/one to {}", ns.name, node_of(&pods[0]))
        })
    });
    // By then any record of the pod would have been written.
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(ns.list("fluxjobs").is_empty());
}

#[test]
fn a_lone_pod_that_waits_has_its_flux_job_also_when_it_runs() {
    let plane = ControlPlane::start(
        "groups:\n- {namePrefix: n-, count: 1, cpu: '2', memory: 16Gi, pods: 110}\n",
        &[],
    );
    let mut fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("waits");
    ns.apply(&pod("first", "2", "infinity", ""));
    ns.running(1);
    ns.apply(&pod("second", "2", "infinity", ""));
    ns.state("second", "Pending");
    ns.kubectl(&["delete", "pod", "first", "--grace-period=0", "--force"]);
    let record = ns.state("second", "Running");
    assert_eq!(record["status"]["displaySize"], "1/1");
    assert_eq!(record["metadata"]["ownerReferences"][0]["kind"], "Pod");
    assert_eq!(ns.list("fluxjobs").len(), 1);
    // A pod that runs without a FluxJob gets one from a new process only if the settings give one
    // to every pod.
    ns.kubectl(&["delete", "pod", "second", "--grace-period=0", "--force"]);
    until("its FluxJob to go with it", || ns.list("fluxjobs").is_empty().then_some(()));
    ns.apply(&pod("third", "1", "infinity", ""));
    ns.running(1);
    fluxqueue.kill();
    let fluxqueue = plane.fluxqueue(&[]);
    ns.apply(&pod("fourth", "1", "infinity", ""));
    ns.running(2);
    std::thread::sleep(std::time::Duration::from_secs(3));
    assert!(ns.list("fluxjobs").is_empty());
    drop(fluxqueue);
    let settings = plane.dir.join("settings.yaml");
    let text = "apiVersion: config.converged-computing.org/v1alpha1\nkind: FluxqueueConfiguration\nrecordLonePods: true\n";
    std::fs::write(&settings, text).expect("it is written");
    let _fluxqueue = plane.fluxqueue(&[&format!("--config={}", settings.display())]);
    ns.state("third", "Running");
    ns.state("fourth", "Running");
}

#[test]
fn the_schedulers_of_the_seeds_are_served_under_their_own_names() {
    let ns = shared().namespace("names");
    for name in ["FluxionScheduler", "fluxnetes", "fluence"] {
        let manifest = pod(&name.to_lowercase(), "100m", "infinity", "")
            .replace("schedulerName: fluxqueue", &format!("schedulerName: {name}"));
        ns.apply(&manifest);
    }
    ns.running(3);
    until("events by each name", || {
        let events: Value =
            serde_json::from_str(&ns.kubectl(&["get", "events.events.k8s.io", "-o", "json"]))
                .ok()?;
        let all = events["items"].as_array()?.clone();
        let reported = |name: &str| {
            all.iter().any(|e| e["reason"] == "Scheduled" && e["reportingController"] == name)
        };
        ["FluxionScheduler", "fluxnetes", "fluence"].into_iter().all(reported).then_some(())
    });
}

#[test]
fn a_gated_pod_is_ungated_and_bound() {
    let ns = shared().namespace("gated");
    ns.apply(
        &pod("gated", "100m", "infinity", "")
            .replace("spec:", "spec:\n  schedulingGates: [{name: fluxqueue}]"),
    );
    let pods = ns.running(1);
    assert!(pods[0]["spec"]["schedulingGates"].is_null());
}

#[test]
fn the_gate_of_another_schedulers_pod_is_left_alone() {
    let ns = shared().namespace("other-gate");
    ns.apply(&pod("other", "100m", "infinity", "").replace(
        "schedulerName: fluxqueue",
        "schedulerName: somebody-else\n  schedulingGates: [{name: fluxqueue}]",
    ));
    until("an event that says why", || {
        let events = ns.kubectl(&["get", "events.events.k8s.io", "-o", "json"]);
        events.contains("GateIgnored").then_some(())
    });
    assert_eq!(ns.list("pods")[0]["spec"]["schedulingGates"][0]["name"], "fluxqueue");
}

#[test]
fn a_job_completes_and_its_record_says_so() {
    let ns = shared().namespace("job");
    ns.apply(&job("work", 3, "500m", "1"));
    ns.succeeded(3);
    let record = ns.state("work", "Completed");
    assert_eq!(record["metadata"]["ownerReferences"][0]["kind"], "Job");
    assert_eq!(record["spec"]["workloadRef"]["kind"], "Job");
    assert!(
        record["status"]["placement"].as_array().is_some_and(|ranges| !ranges.is_empty()),
        "{record}"
    );
    ns.kubectl(&["delete", "job", "work"]);
    until("its FluxJob to go with it", || ns.list("fluxjobs").is_empty().then_some(()));
}

#[test]
fn a_gang_starts_as_a_whole_or_not_at_all() {
    // There are eight cores in all.
    let plane = ControlPlane::start(
        "groups:\n- {namePrefix: n-, count: 2, cpu: '4', memory: 16Gi, pods: 110}\n",
        &[],
    );
    let _fluxqueue = plane.fluxqueue(&["--queue-policy=fcfs"]);
    let ns = plane.namespace("gang");
    ns.apply(&job("first", 3, "2", "6"));
    ns.running(3);
    // Two of the job's pods would fit at once.
    ns.apply(&job("second", 4, "2", "1"));
    let record = ns.flux_job("second", "says what it waits for", |job| {
        job["status"]["blockedBy"][0]["reason"] == "InsufficientResources"
    });
    assert_eq!(record["status"]["blockedBy"][0]["resource"], "cpu", "{record}");
    assert_eq!(record["status"]["blockedBy"][0]["requested"], "8");
    assert_eq!(record["status"]["blockedBy"][0]["available"], "2");
    let bound = ns
        .list("pods")
        .iter()
        .filter(|p| p["metadata"]["labels"]["job-name"] == "second" && !node_of(p).is_empty())
        .count();
    assert_eq!(bound, 0, "part of a gang was started");
    // A later small job could run in the gap, but would take the place that the second waits for.
    ns.apply(&job("third", 1, "1", "infinity"));
    ns.flux_job("third", "waits behind the second", |job| {
        job["status"]["blockedBy"][0]["behind"]
            .as_str()
            .is_some_and(|name| name.contains("/second-job"))
    });
    ns.state("second", "Completed");
    ns.state("third", "Running");
    assert_eq!(plane.testbed(&["refusals"]).trim(), "0", "a kubelet refused a pod");
}

#[test]
fn a_job_that_can_never_fit_says_so_and_holds_no_job_back() {
    let ns = shared().namespace("never");
    ns.apply(&job("huge", 10, "20", "1"));
    let record = ns.state("huge", "Unsatisfiable");
    let message = record["status"]["blockedBy"][0]["message"].as_str().unwrap_or("");
    assert!(message.contains("Insufficient cpu"), "{message}");
    ns.apply(&job("small", 1, "100m", "1"));
    ns.state("small", "Completed");
    let pods = ns.list("pods");
    let of_huge = pods
        .iter()
        .find(|pod| pod["metadata"]["labels"]["job-name"] == "huge")
        .expect("it is there");
    let condition = until("the condition PodScheduled", || {
        let pods = ns.list("pods");
        let pod =
            pods.iter().find(|pod| pod["metadata"]["name"] == of_huge["metadata"]["name"])?.clone();
        let conditions = pod["status"]["conditions"].as_array()?.clone();
        conditions.into_iter().find(|c| c["type"] == "PodScheduled" && c["status"] == "False")
    });
    assert_eq!(condition["reason"], "Unschedulable");
}

#[test]
fn an_unsatisfiable_job_starts_when_a_node_is_added() {
    let plane = ControlPlane::start(
        "groups:\n- {namePrefix: n-, count: 1, cpu: '2', memory: 16Gi, pods: 110}\n",
        &[],
    );
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("grow");
    ns.apply(&pod("large", "4", "infinity", ""));
    ns.state("large", "Unsatisfiable");
    let node = plane.kubectl(&["get", "node", "-o", "json"]);
    let nodes: Value = serde_json::from_str(&node).expect("JSON");
    let mut node = nodes["items"][0].clone();
    let name = node["metadata"]["name"].as_str().expect("a name").to_owned();
    for field in ["allocatable", "capacity"] {
        node["status"][field]["cpu"] = "8".into();
    }
    let patch =
        serde_json::json!({"status": {"allocatable": {"cpu": "8"}, "capacity": {"cpu": "8"}}})
            .to_string();
    plane.kubectl(&["patch", "node", &name, "--subresource=status", "--type=merge", "-p", &patch]);
    ns.running(1);
}

#[test]
fn pods_of_one_group_label_start_together() {
    let ns = shared().namespace("group");
    let labels = "  labels: {fluxqueue.pod-group: trio, fluxqueue.group-size: '3'}";
    ns.apply(&pod("a", "100m", "infinity", labels));
    ns.apply(&pod("b", "200m", "infinity", labels));
    let record = ns.state("trio", "Incomplete");
    assert_eq!(record["status"]["blockedBy"][0]["message"], "2 of 3 pods are there");
    assert!(ns.list("pods").iter().all(|pod| node_of(pod).is_empty()));
    ns.apply(&pod("c", "300m", "infinity", labels));
    ns.running(3);
    let record = ns.flux_job("trio", "is whole", |job| job["status"]["displaySize"] == "3/3");
    let ranges = record["status"]["placement"].as_array().map_or(0, Vec::len);
    assert_eq!(ranges, 3, "one role for each of three pods that differ: {record}");
    ns.kubectl(&["delete", "pods", "--all", "--grace-period=0", "--force"]);
    until("the FluxJob of the group to go with its last pod", || {
        ns.list("fluxjobs").is_empty().then_some(())
    });
}

/// Like the pods of a Ray operator, these belong to an object that the scheduler does not know.
#[test]
fn pods_of_an_operator_with_group_labels_start_together_and_go_with_its_object() {
    let plane = shared();
    let ns = plane.namespace("operator");
    ns.kubectl(&["create", "configmap", "cluster"]);
    let uid = ns.kubectl(&["get", "configmap", "cluster", "-o=jsonpath={.metadata.uid}"]);
    let metadata = format!(
        "  labels: {{fluxqueue/pod-group: ray, fluxqueue/group-size: '2'}}
  ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: cluster, uid: {uid}, controller: true}}]"
    );
    ns.apply(&pod("head", "100m", "infinity", &metadata));
    let record = ns.state("ray", "Incomplete");
    assert_eq!(record["metadata"]["ownerReferences"][0]["name"], "cluster");
    ns.apply(&pod("worker", "100m", "infinity", &metadata));
    ns.running(2);
    ns.state("ray", "Running");
    ns.kubectl(&["delete", "configmap", "cluster"]);
    until("nothing to be left", || {
        (ns.list("pods").is_empty() && ns.list("fluxjobs").is_empty()).then_some(())
    });
    // Nothing comes back, either.
    std::thread::sleep(Duration::from_secs(3));
    assert!(ns.list("fluxjobs").is_empty());
}

#[test]
fn services_start_one_by_one_and_are_replaced() {
    let ns = shared().namespace("service");
    for (kind, more) in
        [("Deployment", ""), ("ReplicaSet", ""), ("StatefulSet", "serviceName: none\n  ")]
    {
        ns.apply(&format!(
            "
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}}}
spec:
  {more}replicas: 2
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      schedulerName: fluxqueue
      containers: [{{name: main, image: registry.k8s.io/pause, resources: {{requests: {{cpu: 50m}}}}}}]
",
            name = kind.to_lowercase()
        ));
    }
    ns.running(6);
    for name in ["deployment", "replicaset", "statefulset"] {
        let record =
            ns.flux_job(name, "counts its pods", |job| job["status"]["displaySize"] == "2/2");
        assert_eq!(record["status"]["state"], "Running");
    }
    assert_eq!(ns.list("fluxjobs").len(), 3, "one for each thing that was submitted");
    ns.kubectl(&["delete", "pod", "-l", "app=deployment", "--wait=false"]);
    ns.pods(6, "running, none of them deleted", |pod| {
        phase(pod) == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
    });
    ns.kubectl(&["scale", "deployment/deployment", "--replicas=4"]);
    ns.flux_job("deployment", "has grown", |job| job["status"]["displaySize"] == "4/4");
}

#[test]
fn a_job_with_more_completions_than_parallelism_passes_its_slots_on() {
    let ns = shared().namespace("waves");
    ns.apply(&job("waves", 2, "500m", "1").replace("completions: 2", "completions: 6"));
    ns.succeeded(6);
    ns.state("waves", "Completed");
}

#[test]
fn a_finished_rank_gives_back_its_share_and_no_more() {
    let plane = ControlPlane::start(
        "groups:\n- {namePrefix: n-, count: 1, cpu: '4', memory: 16Gi, pods: 110}\n",
        &[],
    );
    let _fluxqueue = plane.fluxqueue(&[]);
    let ns = plane.namespace("share");
    let labels = "  labels: {fluxqueue.pod-group: duo, fluxqueue.group-size: '2'}";
    ns.apply(&pod("short", "2", "2", labels));
    ns.apply(&pod("long", "2", "infinity", labels));
    ns.running(2);
    ns.apply(&pod("next-1", "2", "infinity", ""));
    ns.apply(&pod("next-2", "2", "infinity", ""));
    ns.succeeded(1);
    ns.running(2);
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(ns.running(2).len(), 2);
    assert_eq!(plane.testbed(&["refusals"]).trim(), "0");
}
