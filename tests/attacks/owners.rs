//! Pods, Jobs, claims and FluxJobs that name owners of another namespace, or of none.

use serde_json::Value;

use super::tenants::{Tenant, Tenants};
use crate::harness::{job, pod, until};

/// Two small nodes.
const NODES: &str = "groups: [{namePrefix: n-, count: 2, cpu: '4', memory: 16Gi, pods: 110}]";

/// Makes a pod of 10m CPU that names this object as its owner, and that stays when it is deleted.
fn intruder(
    name: &str,
    annotations: &str,
    (kind, api, owner, uid): (&str, &str, &str, &str),
) -> String {
    let more = format!(
        "  finalizers: [team-a.example/stay]
  annotations: {{{annotations}}}
  ownerReferences: [{{apiVersion: {api}, kind: {kind}, name: {owner}, uid: {uid}, controller: true}}]"
    );
    pod(name, "10m", "infinity", &more)
}

/// Returns kinds and names of the workloads with a FluxJob in the namespace of a tenant.
fn recorded(tenant: Tenant<'_>) -> Vec<String> {
    let of = |record: &Value| {
        let of = &record["spec"]["workloadRef"];
        format!("{} {}", of["kind"].as_str().unwrap_or(""), of["name"].as_str().unwrap_or(""))
    };
    tenant.seen_by_admin().list("fluxjobs").iter().map(of).collect()
}

fn uid_of(tenant: Tenant<'_>, kind: &str) -> (String, String) {
    until(&format!("a {kind}"), || {
        let all = tenant.seen_by_admin().list(kind);
        let of = |field: &str| all.first()?["metadata"][field].as_str().map(str::to_owned);
        Some((of("name")?, of("uid")?))
    })
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_pod_does_not_become_a_part_of_a_workload_of_another_namespace() {
    let tenants = Tenants::start(NODES, &[]);
    let (alice, bob) = (tenants.alice(), tenants.bob());
    // The Deployment has no pods, so the intruder would be its first.
    bob.create(
        "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 0, selector: {matchLabels: {app: web}},
          template: {metadata: {labels: {app: web}}, spec: {schedulerName: fluxqueue,
          containers: [{name: c, image: busybox, command: [sleep, infinity], resources: {requests: {cpu: 10m}}}]}}}}",
    );
    let (set, uid) = uid_of(bob, "replicasets");
    alice.create(&intruder("captor", "", ("ReplicaSet", "apps/v1", &set, &uid)));
    bob.create(&job("victim", 3, "4", "infinity"));
    let (victim, uid) = uid_of(bob, "jobs");
    bob.seen_by_admin().state("victim", "Unsatisfiable");
    alice.create(&intruder(
        "intruder",
        "fluxqueue/walltime: 'no duration'",
        ("Job", "batch/v1", &victim, &uid),
    ));
    std::thread::sleep(std::time::Duration::from_secs(5));
    bob.seen_by_admin().state("victim", "Unsatisfiable");
    let of_others: Vec<String> =
        recorded(alice).into_iter().filter(|of| !of.starts_with("Pod ")).collect();
    assert_eq!(of_others, [] as [String; 0]);
    let (ok, _, error) = bob.try_kubectl(&["scale", "deployment", "web", "--replicas=1"], "");
    assert!(ok, "{error}");
    bob.seen_by_admin().state("web", "Running");
    drop(tenants.fluxqueue);
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_small_pod_with_a_high_priority_does_not_lift_its_gang() {
    let tenants = Tenants::start(NODES, &[]);
    let alice = tenants.alice();
    let class = "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: urgent}, value: 100000}";
    let (ok, _, error) = tenants.plane.try_kubectl(&["create", "-f", "-"], class);
    assert!(ok, "{error}");
    let labels = "  labels: {fluxqueue/pod-group: g, fluxqueue/group-size: '4'}";
    for name in ["w-0", "w-1"] {
        alice.create(&pod(name, "1", "infinity", labels));
    }
    let spark = pod("spark", "1m", "infinity", labels)
        .replace("spec:", "spec:\n  priorityClassName: urgent");
    alice.create(&spark);
    let has_warning = |record: &Value| {
        let conditions = record["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|it| it["type"] == "PriorityContradiction"))
    };
    let seen = alice.seen_by_admin();
    let record = seen.flux_job("g", "warns of different priorities", has_warning);
    assert_eq!(record["status"]["priority"], 0);
    alice.try_kubectl(&["delete", "pod", "spark", "--grace-period=0", "--force"], "");
    let record = seen.flux_job("g", "warns of nothing any more", |record| !has_warning(record));
    assert_eq!(record["status"]["priority"], 0);
    drop(tenants.fluxqueue);
}

#[test]
#[ignore = "an attempt on a control plane of its own: make attacks"]
fn a_job_that_waits_is_not_told_the_names_of_jobs_of_other_namespaces() {
    let tenants = Tenants::start(NODES, &[]);
    let (alice, bob) = (tenants.alice(), tenants.bob());
    bob.create(&job("secret-project", 2, "4", "infinity"));
    bob.seen_by_admin().running(2);
    alice.create(&job("mine", 2, "2", "infinity"));
    let seen = alice.seen_by_admin();
    let is_told = |record: &Value| {
        record["status"]["blockedBy"].as_array().is_some_and(|list| list.len() > 1)
    };
    let record = seen.flux_job("mine", "says what is in its way", is_told).to_string();
    let events = Value::from(seen.list("events")).to_string();
    for said in [&record, &events] {
        assert!(!said.contains("secret-project") && !said.contains("team-b/"), "{said}");
    }
    assert!(record.contains("a job of another namespace"), "{record}");
    drop(tenants.fluxqueue);
}
