//! Pods that mount volumes, with Kubernetes' own controllers and a provisioner that does what a claim tells it to.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use serde_json::Value;

use crate::harness::{ControlPlane, Fluxqueue, NODES, Namespace, node_of, pod, root, until};

const PROVISIONER: &str = "example.com/disk";

/// Classes whose volumes wait for a pod: one that our provisioner serves, and one of volumes that people make.
const CLASSES: &str = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: made}
provisioner: example.com/disk
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: at-once}
provisioner: example.com/nobody
volumeBindingMode: Immediate
---";

/// A control plane with a provisioner.
fn plane() -> &'static ControlPlane {
    static PLANE: OnceLock<(ControlPlane, Mutex<(Fluxqueue, Fluxqueue)>)> = OnceLock::new();
    let (plane, _) = PLANE.get_or_init(|| {
        let plane = ControlPlane::start(NODES, &[]);
        let (ok, _, err) = plane.try_kubectl(&["create", "-f", "-"], CLASSES);
        assert!(ok, "{err}");
        let mut provisioner = Command::new(root().join("tests/testbed/bin/testbed"));
        provisioner.args(["provisioner", "--name", PROVISIONER, "--dir"]).arg(&plane.dir);
        let provisioner = Fluxqueue::guarded(provisioner, &plane.dir.join("provisioner.log"));
        let fluxqueue = plane.fluxqueue(&[]);
        (plane, Mutex::new((fluxqueue, provisioner)))
    });
    plane
}

fn claim(name: &str, class: &str, annotations: &str) -> String {
    format!(
        "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}, annotations: {{{annotations}}}}}
spec: {{accessModes: [ReadWriteOnce], storageClassName: {class}, resources: {{requests: {{storage: 1Gi}}}}}}
---"
    )
}

/// A volume on a node's own disk.
fn local_volume(name: &str, node: &str) -> String {
    format!(
        "
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: local
  capacity: {{storage: 2Gi}}
  local: {{path: /disk}}
  nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{node}]}}]}}]}}}}
---"
    )
}

/// A pod of group `g` that mounts a claim.
fn member(name: &str, size: usize, cpu: &str, claim: &str) -> String {
    let labels = format!("  labels: {{fluxqueue/pod-group: g, fluxqueue/group-size: '{size}'}}");
    mounting(&pod(name, cpu, "infinity", &labels), claim)
}

fn mounting(pod: &str, claim: &str) -> String {
    let volumes = format!("spec:\n  volumes: [{{name: data, persistentVolumeClaim: {{claimName: {claim}}}}}]");
    pod.replacen("spec:", &volumes, 1)
}

fn is_bound(claim: &Value) -> bool {
    claim["status"]["phase"] == "Bound"
}

/// Waits until so many pods have nodes; nobody has one before all claims are bound.
fn bound_after_claims(ns: &Namespace<'_>, pods: usize) -> Vec<String> {
    until("all pods to have nodes", || {
        let placed: Vec<String> =
            ns.list("pods").iter().map(|pod| node_of(pod).to_owned()).filter(|node| !node.is_empty()).collect();
        let claims = ns.list("pvc");
        assert!(placed.is_empty() || claims.iter().all(is_bound), "{placed:?} before {claims:#?}");
        (placed.len() == pods).then_some(placed)
    })
}

#[test]
fn a_job_with_ephemeral_volumes_starts_when_all_of_them_are_made() {
    let ns = plane().namespace("ephemeral");
    ns.apply(
        "
apiVersion: batch/v1
kind: Job
metadata: {name: scratch}
spec:
  parallelism: 3
  completions: 3
  completionMode: Indexed
  template:
    spec:
      schedulerName: fluxqueue
      restartPolicy: Never
      containers:
      - {name: main, image: busybox, command: [sleep, infinity], resources: {requests: {cpu: '1'}}}
      volumes:
      - name: scratch
        ephemeral:
          volumeClaimTemplate:
            metadata: {annotations: {testbed/provision-seconds: '2'}}
            spec: {accessModes: [ReadWriteOnce], storageClassName: made, resources: {requests: {storage: 1Gi}}}
",
    );
    bound_after_claims(&ns, 3);
    ns.state("scratch", "Running");
}

#[test]
fn a_gang_gets_volumes_that_are_there_each_of_its_own() {
    let ns = plane().namespace("static");
    let volumes: String =
        ["small-0", "small-1", "small-2"].map(|node| local_volume(&format!("disk-{node}"), node)).concat();
    ns.apply(&volumes);
    let claims: String = (0..3).map(|at| claim(&format!("c{at}"), "local", "")).collect();
    let members: String = (0..3).map(|at| member(&format!("m{at}"), 3, "1", &format!("c{at}"))).collect();
    ns.apply(&(claims + &members));
    let nodes: BTreeSet<String> = bound_after_claims(&ns, 3).into_iter().collect();
    assert_eq!(nodes.into_iter().collect::<Vec<_>>(), ["small-0", "small-1", "small-2"]);
    let volumes: BTreeSet<String> =
        ns.list("pvc").iter().map(|claim| claim["spec"]["volumeName"].as_str().unwrap_or("").to_owned()).collect();
    assert_eq!(volumes.len(), 3, "{volumes:?}");
}

#[test]
fn a_volume_that_cannot_be_made_is_named_and_one_that_can_starts_the_gang() {
    let ns = plane().namespace("fails");
    let fails = claim("bad", "made", "testbed/provision: fail, testbed/provision-seconds: '1'");
    ns.apply(&(claim("good", "made", "") + &fails + &member("a", 2, "1", "good") + &member("b", 2, "1", "bad")));
    let record = ns.flux_job("g", "names the claim", |job| {
        job["status"]["blockedBy"][0]["message"].as_str().is_some_and(|text| text.contains(&format!("{}/bad", ns.name)))
    });
    assert_eq!(record["status"]["blockedBy"][0]["reason"], "PlacementWithdrawn", "{record:#}");
    assert!(ns.list("pods").iter().all(|pod| node_of(pod).is_empty()), "a gang starts as a whole");
    ns.kubectl(&["annotate", "pvc", "bad", "testbed/provision-"]);
    bound_after_claims(&ns, 2);
}

#[test]
fn a_gang_on_several_nodes_shares_a_volume_that_is_still_to_be_made() {
    let ns = plane().namespace("shared");
    let shared = claim("shared", "made", "testbed/provision: anywhere, testbed/provision-seconds: '1'")
        .replace("ReadWriteOnce", "ReadWriteMany");
    ns.apply(&(shared + &(0..3).map(|at| member(&format!("m{at}"), 3, "3", "shared")).collect::<String>()));
    let nodes: BTreeSet<String> = bound_after_claims(&ns, 3).into_iter().collect();
    assert!(nodes.len() > 1, "no node has room for three of them: {nodes:?}");
}

#[test]
fn a_pod_follows_a_volume_that_was_made_elsewhere() {
    let ns = plane().namespace("elsewhere");
    ns.apply(
        &(claim("data", "made", "testbed/provision: small-3") + &mounting(&pod("p", "1", "infinity", ""), "data")),
    );
    assert_eq!(bound_after_claims(&ns, 1), ["small-3"]);
}

#[test]
fn a_claim_that_is_missing_or_not_bound_is_waited_for() {
    let ns = plane().namespace("missing");
    ns.apply(&mounting(&pod("p", "1", "infinity", ""), "data"));
    let said = |text: &str| {
        ns.flux_job("p", "says so", |job| {
            let blocked = &job["status"]["blockedBy"][0];
            let names = |message: &str| message.contains(text) && message.contains("data");
            blocked["reason"] == "VolumesNotReady" && blocked["message"].as_str().is_some_and(names)
        })
    };
    said("not found");
    let pods = ns.pods(1, "told why", |pod| {
        pod["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(|one| one["type"] == "PodScheduled"))
    });
    let condition =
        pods[0]["status"]["conditions"].as_array().unwrap().iter().find(|one| one["type"] == "PodScheduled");
    let message = condition.unwrap()["message"].as_str().unwrap();
    assert_eq!(message, r#"0/6 nodes are available: persistentvolumeclaim "data" not found."#);
    ns.apply(&claim("data", "at-once", ""));
    said("unbound immediate");
    let volume = local_volume("late", "small-2").replace("storageClassName: local", "storageClassName: at-once");
    ns.apply(&volume);
    assert_eq!(bound_after_claims(&ns, 1), ["small-2"]);
}

#[test]
fn a_successor_finds_what_was_written_and_goes_on() {
    let plane = ControlPlane::start(NODES, &[]);
    let (ok, _, err) = plane.try_kubectl(&["create", "-f", "-"], CLASSES);
    assert!(ok, "{err}");
    let mut first = plane.fluxqueue(&[]);
    let ns = plane.namespace("successor");
    let claims: String = (0..2).map(|at| claim(&format!("c{at}"), "made", "")).collect();
    let members: String = (0..2).map(|at| member(&format!("m{at}"), 2, "3", &format!("c{at}"))).collect();
    ns.apply(&(claims + &members));
    let selected = |ns: &Namespace<'_>| -> Vec<String> {
        let node = |claim: &Value| {
            claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].as_str().map(str::to_owned)
        };
        ns.list("pvc").iter().filter_map(node).collect()
    };
    let before = until("both claims to name their nodes", || Some(selected(&ns)).filter(|nodes| nodes.len() == 2));
    first.kill();
    let _second = plane.fluxqueue(&[]);
    let mut provisioner = Command::new(root().join("tests/testbed/bin/testbed"));
    provisioner.args(["provisioner", "--name", PROVISIONER, "--dir"]).arg(&plane.dir);
    let _provisioner = Fluxqueue::guarded(provisioner, &plane.dir.join("provisioner.log"));
    bound_after_claims(&ns, 2);
    assert_eq!(selected(&ns), before);
    let pods = ns.list("pods");
    let nodes: Vec<&str> = pods.iter().map(node_of).collect();
    assert_eq!(nodes, before, "each where its volume was asked for");
}
