//! Pods that mount volumes, with Kubernetes' own controllers and a provisioner that follows the
//! annotations of a claim.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use serde_json::Value;

use crate::harness::{ControlPlane, Fluxqueue, NODES, Namespace, node_of, pod, testbed, until};

const PROVISIONER: &str = "example.com/disk";

/// The volumes of three classes wait for a pod: one that our provisioner serves, one of volumes
/// that administrators make, and one of a driver that publishes its capacity. The volumes of
/// another class do not wait. Two nodes attach one volume each of another driver.
const STORAGE: &str = "
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
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: measured}
provisioner: measured.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: measured.example.com}
spec: {storageCapacity: true, attachRequired: false}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: small-0}
spec: {drivers: [{name: attached.example.com, nodeID: small-0, allocatable: {count: 1}}]}
---
apiVersion: storage.k8s.io/v1
kind: CSINode
metadata: {name: small-1}
spec: {drivers: [{name: attached.example.com, nodeID: small-1, allocatable: {count: 1}}]}
---";

const ZONE: &str = "topology.kubernetes.io/zone";

/// Starts a control plane with a provisioner. The nodes that attach one volume each are a zone.
fn plane() -> &'static ControlPlane {
    static PLANE: OnceLock<(ControlPlane, Mutex<(Fluxqueue, Fluxqueue)>)> = OnceLock::new();
    let (plane, _) = PLANE.get_or_init(|| {
        let plane = ControlPlane::start(NODES, &[]);
        let (ok, _, err) = plane.try_kubectl(&["create", "-f", "-"], STORAGE);
        assert!(ok, "{err}");
        plane.kubectl(&["label", "nodes", "small-0", "small-1", &format!("{ZONE}=west")]);
        plane.kubectl(&[
            "label",
            "nodes",
            "small-2",
            "small-3",
            "gpu-0",
            "closed-0",
            &format!("{ZONE}=east"),
        ]);
        let provisioner = provisioner(&plane, PROVISIONER);
        let fluxqueue = plane.fluxqueue(&[]);
        (plane, Mutex::new((fluxqueue, provisioner)))
    });
    plane
}

/// Starts a provisioner for the classes that name it. It ends when the value is dropped.
fn provisioner(plane: &ControlPlane, name: &str) -> Fluxqueue {
    let mut provisioner = Command::new(testbed());
    provisioner.args(["provisioner", "--name", name, "--dir"]).arg(&plane.dir);
    Fluxqueue::guarded(provisioner, &plane.dir.join("provisioner.log"))
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

/// Makes a volume on a node's own disk.
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

/// Makes a claim, and a volume for it with these fields about its location.
fn claim_with_volume(ns: &Namespace<'_>, name: &str, labels: &str, where_it_is: &str) -> String {
    let volume = format!("{}-{name}", ns.name);
    format!(
        "
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {volume}, labels: {{{labels}}}}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: none
  capacity: {{storage: 1Gi}}
  claimRef: {{namespace: {}, name: {name}}}
  {where_it_is}
---",
        ns.name
    ) + &claim(name, "none", "")
}

/// Makes a pod of group `g` that mounts a claim.
fn member(name: &str, size: usize, cpu: &str, claim: &str) -> String {
    let labels = format!("  labels: {{fluxqueue/pod-group: g, fluxqueue/group-size: '{size}'}}");
    mounting(&pod(name, cpu, "infinity", &labels), claim)
}

fn mounting(pod: &str, claim: &str) -> String {
    let volumes = format!(
        "spec:\n  volumes: [{{name: data, persistentVolumeClaim: {{claimName: {claim}}}}}]"
    );
    pod.replacen("spec:", &volumes, 1)
}

/// Waits until a pod's condition contains this text.
fn told(ns: &Namespace<'_>, pod: &str, text: &str) {
    let says = |one: &Value| one["message"].as_str().is_some_and(|said| said.contains(text));
    ns.pods(1, &format!("told {text:?}"), |it| {
        let conditions = it["status"]["conditions"].as_array();
        it["metadata"]["name"] == pod && conditions.is_some_and(|all| all.iter().any(says))
    });
}

/// Waits until a pod has a node.
fn placed(ns: &Namespace<'_>, name: &str) -> String {
    let there = ns.pods(1, &format!("with a node, named {name}"), |pod| {
        pod["metadata"]["name"] == name && !node_of(pod).is_empty()
    });
    node_of(&there[0]).to_owned()
}

fn end(ns: &Namespace<'_>, pod: &str) {
    ns.kubectl(&["delete", "pod", pod, "--grace-period=0", "--force"]);
}

/// Creates claims that are bound without a pod, and waits until they are: a pod that comes earlier
/// gets another message first, and the expected one only half a minute later.
fn bound_first(ns: &Namespace<'_>, claims: &str) {
    ns.apply(claims);
    until("all claims to be bound", || ns.list("pvc").iter().all(is_bound).then_some(()));
}

fn is_bound(claim: &Value) -> bool {
    claim["status"]["phase"] == "Bound"
}

/// Waits until this number of pods have nodes. No pod has one before all claims are bound.
fn bound_after_claims(ns: &Namespace<'_>, pods: usize) -> Vec<String> {
    until("all pods to have nodes", || {
        let placed: Vec<String> = ns
            .list("pods")
            .iter()
            .map(|pod| node_of(pod).to_owned())
            .filter(|node| !node.is_empty())
            .collect();
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
    let volumes: String = ["small-0", "small-1", "small-2"]
        .map(|node| local_volume(&format!("disk-{node}"), node))
        .concat();
    ns.apply(&volumes);
    let claims: String = (0..3).map(|at| claim(&format!("c{at}"), "local", "")).collect();
    let members: String =
        (0..3).map(|at| member(&format!("m{at}"), 3, "1", &format!("c{at}"))).collect();
    ns.apply(&(claims + &members));
    let nodes: BTreeSet<String> = bound_after_claims(&ns, 3).into_iter().collect();
    assert_eq!(nodes.into_iter().collect::<Vec<_>>(), ["small-0", "small-1", "small-2"]);
    let volumes: BTreeSet<String> = ns
        .list("pvc")
        .iter()
        .map(|claim| claim["spec"]["volumeName"].as_str().unwrap_or("").to_owned())
        .collect();
    assert_eq!(volumes.len(), 3, "{volumes:?}");
}

#[test]
fn a_volume_that_cannot_be_made_is_named_and_one_that_can_starts_the_gang() {
    let ns = plane().namespace("fails");
    let fails = claim("bad", "made", "testbed/provision: fail, testbed/provision-seconds: '1'");
    ns.apply(
        &(claim("good", "made", "")
            + &fails
            + &member("a", 2, "1", "good")
            + &member("b", 2, "1", "bad")),
    );
    let record = ns.flux_job("g", "names the claim", |job| {
        job["status"]["blockedBy"][0]["message"]
            .as_str()
            .is_some_and(|text| text.contains(&format!("{}/bad", ns.name)))
    });
    assert_eq!(record["status"]["blockedBy"][0]["reason"], "PlacementWithdrawn", "{record:#}");
    assert!(ns.list("pods").iter().all(|pod| node_of(pod).is_empty()), "a gang starts as a whole");
    ns.kubectl(&["annotate", "pvc", "bad", "testbed/provision-"]);
    bound_after_claims(&ns, 2);
}

#[test]
fn a_gang_on_several_nodes_shares_a_volume_that_is_still_to_be_made() {
    let ns = plane().namespace("shared");
    let shared =
        claim("shared", "made", "testbed/provision: anywhere, testbed/provision-seconds: '1'")
            .replace("ReadWriteOnce", "ReadWriteMany");
    ns.apply(
        &(shared
            + &(0..3).map(|at| member(&format!("m{at}"), 3, "3", "shared")).collect::<String>()),
    );
    let nodes: BTreeSet<String> = bound_after_claims(&ns, 3).into_iter().collect();
    assert!(nodes.len() > 1, "no node has room for three of them: {nodes:?}");
}

#[test]
fn a_pod_follows_a_volume_that_was_made_elsewhere() {
    let ns = plane().namespace("elsewhere");
    ns.apply(
        &(claim("data", "made", "testbed/provision: small-3")
            + &mounting(&pod("p", "1", "infinity", ""), "data")),
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
        pod["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["type"] == "PodScheduled"))
    });
    let condition = pods[0]["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["type"] == "PodScheduled");
    let message = condition.unwrap()["message"].as_str().unwrap();
    assert_eq!(message, r#"0/6 nodes are available: persistentvolumeclaim "data" not found."#);
    ns.apply(&claim("data", "at-once", ""));
    said("unbound immediate");
    let volume = local_volume("late", "small-2")
        .replace("storageClassName: local", "storageClassName: at-once");
    ns.apply(&volume);
    assert_eq!(bound_after_claims(&ns, 1), ["small-2"]);
}

#[test]
fn a_node_attaches_as_many_volumes_as_its_csi_node_says() {
    let ns = plane().namespace("limits");
    let names = ["a", "b", "c"];
    let disk = |name| format!("csi: {{driver: attached.example.com, volumeHandle: disk-{name}}}");
    bound_first(&ns, &names.map(|name| claim_with_volume(&ns, name, "", &disk(name))).concat());
    let in_the_west = format!("spec:\n  nodeSelector: {{{ZONE}: west}}");
    let pod =
        |name| mounting(&pod(name, "10m", "infinity", "").replace("spec:", &in_the_west), name);
    ns.apply(&names.map(pod).concat());
    let there = ns.pods(2, "with nodes", |pod| !node_of(pod).is_empty());
    let nodes: BTreeSet<&str> = there.iter().map(node_of).collect();
    assert_eq!(nodes, ["small-0", "small-1"].into());
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or("").to_owned();
    let waiting =
        ns.list("pods").iter().map(name).find(|it| there.iter().all(|pod| name(pod) != *it));
    let waiting = waiting.expect("one that waits");
    told(&ns, &waiting, "2 node(s) exceed max volume count");
    end(&ns, &name(&there[0]));
    assert_eq!(placed(&ns, &waiting), node_of(&there[0]));
}

#[test]
fn a_volume_is_made_where_its_driver_has_room() {
    let ns = plane().namespace("room");
    let _provisioner = provisioner(plane(), "measured.example.com");
    let room = |node: &str, capacity: &str| {
        let on = format!("{{matchLabels: {{kubernetes.io/hostname: {node}}}}}");
        format!(
            "
apiVersion: storage.k8s.io/v1
kind: CSIStorageCapacity
metadata: {{name: {node}}}
storageClassName: measured
nodeTopology: {on}
capacity: {capacity}
---"
        )
    };
    let large = claim("large", "measured", "").replace("1Gi", "8Gi");
    ns.apply(&(room("small-1", "512Mi") + &room("small-2", "4Gi") + &large));
    ns.apply(&mounting(&pod("none", "10m", "infinity", ""), "large"));
    told(&ns, "none", "5 node(s) did not have enough free storage");
    ns.apply(
        &(claim("data", "measured", "") + &mounting(&pod("some", "10m", "infinity", ""), "data")),
    );
    assert_eq!(placed(&ns, "some"), "small-2");
    ns.kubectl(&[
        "patch",
        "csistoragecapacity",
        "small-1",
        "--type=merge",
        "-p",
        r#"{"capacity": "16Gi"}"#,
    ]);
    assert_eq!(placed(&ns, "none"), "small-1");
}

#[test]
fn a_claim_that_is_for_one_pod_is_had_by_one_after_the_other() {
    let ns = plane().namespace("alone");
    let alone = |name: &str| claim(name, "made", "").replace("ReadWriteOnce", "ReadWriteOncePod");
    ns.apply(&(alone("data") + &mounting(&pod("first", "10m", "infinity", ""), "data")));
    placed(&ns, "first");
    ns.apply(&mounting(&pod("second", "10m", "infinity", ""), "data"));
    ns.apply(
        &(alone("shared") + &member("a", 2, "10m", "shared") + &member("b", 2, "10m", "shared")),
    );
    told(
        &ns,
        "second",
        "unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use",
    );
    let record = ns.flux_job("g", "is told why", |job| !job["status"]["blockedBy"][0].is_null());
    let blocked = &record["status"]["blockedBy"][0];
    assert_eq!(blocked["reason"], "VolumesNotReady", "{record:#}");
    let text = blocked["message"].as_str().unwrap_or("");
    assert!(text.contains("shared: pods that start together mount it"), "{text}");
    end(&ns, "first");
    placed(&ns, "second");
    let of_gang = |pod: &&Value| pod["metadata"]["labels"]["fluxqueue/pod-group"].is_string();
    assert!(ns.list("pods").iter().filter(of_gang).all(|pod| node_of(pod).is_empty()));
}

#[test]
fn a_pod_starts_in_the_zone_of_its_volume() {
    let ns = plane().namespace("zones");
    let disk = "hostPath: {path: /disk}";
    let west = format!("{{matchExpressions: [{{key: {ZONE}, operator: In, values: [west]}}]}}");
    let by_affinity =
        format!("nodeAffinity: {{required: {{nodeSelectorTerms: [{west}]}}}}\n  {disk}");
    let claims = claim_with_volume(&ns, "labelled", &format!("{ZONE}: west"), disk)
        + &claim_with_volume(&ns, "tied", "", &by_affinity)
        + &claim_with_volume(&ns, "north", &format!("{ZONE}: north"), disk);
    bound_first(&ns, &claims);
    ns.apply(
        &["labelled", "tied", "north"]
            .map(|name| mounting(&pod(name, "10m", "infinity", ""), name))
            .concat(),
    );
    for name in ["labelled", "tied"] {
        let node = placed(&ns, name);
        assert!(["small-0", "small-1"].contains(&&*node), "{name} is on {node}");
    }
    told(&ns, "north", "5 node(s) had no available volume zone");
}

#[test]
fn a_successor_finds_what_was_written_and_goes_on() {
    let plane = ControlPlane::start(NODES, &[]);
    let (ok, _, err) = plane.try_kubectl(&["create", "-f", "-"], STORAGE);
    assert!(ok, "{err}");
    let mut first = plane.fluxqueue(&[]);
    let ns = plane.namespace("successor");
    let claims: String = (0..2).map(|at| claim(&format!("c{at}"), "made", "")).collect();
    let members: String =
        (0..2).map(|at| member(&format!("m{at}"), 2, "3", &format!("c{at}"))).collect();
    ns.apply(&(claims + &members));
    let selected = |ns: &Namespace<'_>| -> Vec<String> {
        let node = |claim: &Value| {
            claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"]
                .as_str()
                .map(str::to_owned)
        };
        ns.list("pvc").iter().filter_map(node).collect()
    };
    let before = until("both claims to name their nodes", || {
        Some(selected(&ns)).filter(|nodes| nodes.len() == 2)
    });
    let meant = |ns: &Namespace<'_>| -> Vec<String> {
        let pods = ns.list("pods");
        pods.iter()
            .filter_map(|pod| pod["status"]["nominatedNodeName"].as_str().map(str::to_owned))
            .collect()
    };
    until("both pods to say where they are meant to be", || (meant(&ns) == before).then_some(()));
    first.kill();
    let _second = plane.fluxqueue(&[]);
    let _provisioner = provisioner(&plane, PROVISIONER);
    bound_after_claims(&ns, 2);
    assert_eq!(selected(&ns), before);
    let pods = ns.list("pods");
    let nodes: Vec<&str> = pods.iter().map(node_of).collect();
    assert_eq!(nodes, before, "each where its volume was asked for");
    assert!(meant(&ns).is_empty(), "a Binding takes that away");
}
