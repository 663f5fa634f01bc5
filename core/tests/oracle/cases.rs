//! Random clusters and pods, each made from a seed. A case is small enough to be read, and crowded
//! enough for every filter to reject some node.

use serde::Serialize;
use serde_json::{Value, json};

use super::kubernetes;
use super::names::{NAMESPACES, POD_LABELS, RACKS, UNREACHABLE, ZONES};
use super::rng::Rng;
use super::storage;
use super::terms::{node_term, pod_term, spread, toleration};

/// Reasons for which a pod is kept off a node.
const REASONS: &[&str] = &[
    "Insufficient cpu",
    "Insufficient memory",
    "Insufficient ephemeral-storage",
    "Insufficient example.com/gpu",
    "Insufficient hugepages-2Mi",
    "Too many pods",
    "node(s) didn't have free ports for the requested pod ports",
    "node(s) didn't match Pod's node affinity/selector",
    NO_FEATURES,
    "node(s) didn't match pod affinity rules",
    "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't match pod topology spread constraints",
    "node(s) didn't match pod topology spread constraints (missing required label)",
    "node(s) didn't satisfy existing pods anti-affinity rules",
    "node(s) didn't satisfy plugin(s) [NodeAffinity]",
    "node(s) did not have enough free storage",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) exceed max volume count",
    "node(s) had no available disk",
    "node(s) had no available volume zone",
    "node(s) had untolerated taint(s)",
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
    "node(s) were unschedulable",
    "persistentvolumeclaim \"c0\" is being deleted",
    "persistentvolumeclaim \"c0\" not found",
    "pod has unbound immediate PersistentVolumeClaims",
    "pod affinity terms conflict",
];

const NO_FEATURES: &str = "node(s) didn't match Pod's required features";

/// Name of the scheduler in the pods of a case that wait for a node.
pub(crate) const SCHEDULER: &str = "fluxqueue";

/// Number of waiting pods with a question, per cluster.
const QUESTIONS: usize = 20;

const FEATURES: [&str; 2] =
    ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"];

/// True if kube-scheduler compares pods with the features that nodes declare.
fn asks_for_features() -> bool {
    kubernetes::is_at_least("1.36")
}

/// Returns the reasons for which a pod is kept off a node. Every run of a useful size meets all of
/// them.
pub(crate) fn reasons() -> impl Iterator<Item = &'static str> {
    REASONS.iter().copied().filter(|reason| *reason != NO_FEATURES || asks_for_features())
}

/// A cluster, with the questions about it.
pub(crate) struct Case {
    pub seed: u64,
    pub namespaces: Vec<Value>,
    pub nodes: Vec<Value>,
    pub pods: Vec<Value>,
    /// Pods of another scheduler that have a nominated node and are not bound yet.
    pub nominated: Vec<Value>,
    pub storage: Value,
    pub questions: Vec<Question>,
}

/// A case in the form in which it is serialised.
#[derive(Serialize)]
struct Line<'a> {
    namespaces: &'a [Value],
    nodes: &'a [Value],
    pods: Vec<&'a Value>,
    storage: &'a Value,
    questions: &'a [Question],
}

/// Asks which nodes this pod may go to.
#[derive(Serialize)]
pub(crate) struct Question {
    pub pod: Value,
    /// True if the scores of the nodes are compared as well.
    pub scores: bool,
}

impl Case {
    pub(crate) fn of(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let nodes = rng.between(2, 12);
        let nominees = if rng.chance(50) { rng.between(0, 3) } else { 0 };
        let mut case = Case {
            seed,
            namespaces: namespaces(&mut rng),
            nodes: (0..nodes).map(|at| node(&mut rng, at)).collect(),
            storage: storage::of_cluster(&mut rng, nodes),
            pods: (0..rng.between(0, 3 * nodes)).map(|at| placed(&mut rng, at, nodes)).collect(),
            nominated: (0..nominees).map(|at| nominated(&mut rng, at, nodes)).collect(),
            questions: (0..QUESTIONS)
                .map(|at| Question { pod: asking(&mut rng, at, nodes), scores: false })
                .collect(),
        };
        for pod in case.pods.iter().chain(&case.nominated) {
            storage::make_claims_of(&mut rng, pod, nodes, &mut case.storage, 100);
        }
        for Question { pod, .. } in &mut case.questions {
            storage::make_claims_of(&mut rng, pod, nodes, &mut case.storage, 80);
            storage::mount_twice(&mut rng, pod, &case.storage);
        }
        case
    }

    /// Makes the cluster of `seed`, but keeps only the last question. No claim names a missing
    /// node: kube-scheduler takes such a claim nowhere, and the core chooses another node for it.
    pub(crate) fn of_one(seed: u64) -> Self {
        let mut case = Case::of(seed);
        case.questions.drain(..case.questions.len() - 1);
        let names = case.nodes.iter().map(|node| node["metadata"]["name"].clone());
        storage::forget_missing_nodes(&mut case.storage, &names.collect::<Vec<_>>());
        case
    }

    /// Serialises the case as a line for `testbed oracle`.
    pub(crate) fn line(&self) -> String {
        let Case { namespaces, nodes, storage, questions, .. } = self;
        // Pods that have ended are left out: kube-scheduler's informer filters them as well.
        let pods = self.pods.iter().filter(|pod| !has_ended(pod)).chain(&self.nominated).collect();
        serde_json::to_string(&Line { namespaces, nodes, pods, storage, questions }).unwrap()
    }
}

/// True if the pod has ended, so that its share of the node is free again.
pub(crate) fn has_ended(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded" || pod["status"]["phase"] == "Failed"
}

/// Makes namespaces. Some that pods use are left out, as if their news had not arrived yet.
pub(crate) fn namespaces(rng: &mut Rng) -> Vec<Value> {
    let known = NAMESPACES.iter().filter(|_| rng.chance(96)).copied().collect::<Vec<&str>>();
    known.into_iter().map(|name| namespace(rng, name)).collect()
}

fn namespace(rng: &mut Rng, name: &str) -> Value {
    let labels = if rng.chance(85) { json!({"team": rng.pick(&["x", "y"])}) } else { json!({}) };
    json!({"metadata": {"name": name, "labels": labels}})
}

pub(crate) fn node(rng: &mut Rng, at: usize) -> Value {
    let name = format!("n{at}");
    let mut labels =
        json!({"kubernetes.io/hostname": name, "cores": rng.between(1, 32).to_string()});
    for (key, values, percent) in [
        ("zone", &ZONES[..], 85),
        (storage::ZONE, &ZONES, 60),
        ("rack", &RACKS, 70),
        ("disk", &["ssd", "hdd"], 60),
    ] {
        if rng.chance(percent) {
            labels[key] = json!(rng.pick(values));
        }
    }
    for label in storage::ZONES_OF_DRIVERS {
        if rng.chance(60) {
            labels[label] = json!(rng.pick(&ZONES));
        }
    }
    match rng.between(0, 49) {
        0 => labels = json!({}),
        1 => drop(labels.as_object_mut().unwrap().remove("kubernetes.io/hostname")),
        2 | 3 => labels["cores"] = json!(rng.pick(&["many", "", "-1"])),
        _ => {}
    }
    let taint = |rng: &mut Rng| {
        let effect = rng.pick(&["NoSchedule", "NoExecute", "PreferNoSchedule"]);
        json!({"key": rng.pick(&["dedicated", "broken"]), "value": rng.pick(&["", "x", "y"]), "effect": effect})
    };
    let taints = if rng.chance(20) { rng.some(2, taint) } else { Vec::new() };
    let mut allocatable = json!({
        "cpu": format!("{}m", rng.between(4, 16) * 500),
        "memory": format!("{}Mi", rng.between(4, 16) * 512),
        "pods": rng.between(3, 9).to_string(),
    });
    if rng.chance(50) {
        allocatable["example.com/gpu"] = json!(rng.between(0, 4).to_string());
    }
    if rng.chance(60) {
        allocatable["ephemeral-storage"] = json!(format!("{}Gi", rng.between(1, 20)));
    }
    if rng.chance(40) {
        allocatable["hugepages-2Mi"] = json!(format!("{}Mi", 2 * rng.between(0, 64)));
    }
    let has_none_of_one = rng.chance(4);
    if has_none_of_one {
        allocatable[*rng.pick(&["cpu", "memory", "pods"])] = json!("0");
    } else if rng.chance(4) {
        allocatable.as_object_mut().unwrap().remove(*rng.pick(&["cpu", "memory", "pods"]));
    }
    let mut taints = taints;
    let ready = readiness(rng, &mut taints);
    let features: Vec<&str> = FEATURES.iter().copied().filter(|_| rng.chance(60)).collect();
    json!({
        "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": {"taints": taints, "unschedulable": rng.chance(8)},
        "status": {
            "allocatable": allocatable, "declaredFeatures": features, "conditions": [{"type": "Ready", "status": ready}],
        },
    })
}

/// Picks the status of the condition Ready, and adds the taints that the node controller derives
/// from it.
fn readiness(rng: &mut Rng, taints: &mut Vec<Value>) -> &'static str {
    let (ready, taint) =
        *rng.pick(&[("False", "node.kubernetes.io/not-ready"), ("Unknown", UNREACHABLE)]);
    if !rng.chance(6) {
        return "True";
    }
    taints.push(json!({"key": taint, "effect": "NoSchedule"}));
    if rng.chance(50) {
        taints.push(json!({"key": taint, "effect": "NoExecute"}));
    }
    ready
}

/// Makes a pod on a random node, whether or not it should be there.
pub(crate) fn placed(rng: &mut Rng, at: usize, nodes: usize) -> Value {
    let mut pod = pod(rng, &format!("placed-{at}"), 2);
    pod["spec"]["nodeName"] = json!(format!("n{}", rng.between(0, nodes - 1)));
    if rng.chance(8) {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    if rng.chance(25) {
        pod["spec"]["affinity"] = json!({"podAntiAffinity": required_terms(rng)});
    }
    if rng.chance(15) {
        let status = resized(rng);
        // Older versions compare container by container, and Fluxqueue compares sums, like 1.37.
        if kubernetes::is_at_least("1.37") {
            pod["status"] = status;
        }
    }
    if rng.chance(8) {
        pod["status"]["phase"] = json!(rng.pick(&["Succeeded", "Failed"]));
    }
    pod
}

/// Makes the status of a pod that is being resized: its container has more or less than its
/// request, and may get the rest later or never.
fn resized(rng: &mut Rng) -> Value {
    let amounts = |rng: &mut Rng| {
        let mut amounts = json!({"cpu": format!("{}00m", rng.between(1, 16))});
        if rng.chance(60) {
            amounts["memory"] = json!(format!("{}00Mi", rng.between(1, 16)));
        }
        amounts
    };
    let mut container =
        json!({"name": "c", "image": "i", "imageID": "i", "ready": true, "restartCount": 0});
    if rng.chance(80) {
        container["resources"] = json!({"requests": amounts(rng)});
    }
    if rng.chance(80) {
        container["allocatedResources"] = amounts(rng);
    }
    let mut status = json!({"containerStatuses": [container]});
    if rng.chance(40) {
        let reason = rng.pick(&["Deferred", "Infeasible"]);
        status["conditions"] =
            json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
    }
    status
}

/// Makes a pod with a nominated node. It has no anti-affinity of its own: kube-scheduler evaluates
/// the anti-affinity of nominated pods only if some pod on a node has anti-affinity, or the waiting
/// pod has inter-pod terms. Our filters always evaluate it, which closes at most that one node, and
/// only for a short time.
fn nominated(rng: &mut Rng, at: usize, nodes: usize) -> Value {
    let mut pod = pod(rng, &format!("nominated-{at}"), 2);
    pod["spec"]["schedulerName"] = json!("other");
    pod["spec"]["priority"] = json!(rng.pick(&[0, 10]));
    pod["status"] = json!({"nominatedNodeName": format!("n{}", rng.between(0, nodes - 1))});
    if rng.chance(8) {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    pod
}

fn required_terms(rng: &mut Rng) -> Value {
    let terms: Vec<Value> = (0..rng.between(1, 3)).map(|_| pod_term(rng)).collect();
    json!({"requiredDuringSchedulingIgnoredDuringExecution": terms})
}

/// Makes a pod that waits for a node.
fn asking(rng: &mut Rng, at: usize, nodes: usize) -> Value {
    let mut pod = pod(rng, &format!("asking-{at}"), 4);
    let spec = &mut pod["spec"];
    if rng.chance(10) {
        spec["nodeSelector"] = json!({"disk": rng.pick(&["ssd", "hdd"])});
        if rng.chance(30) {
            spec["nodeSelector"]["rack"] = json!(rng.pick(&RACKS));
        }
    }
    if rng.chance(30) {
        let terms: Vec<Value> = (0..rng.between(1, 3)).map(|_| node_term(rng, nodes)).collect();
        let required = json!({"nodeSelectorTerms": terms});
        spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] =
            required;
    }
    for (kind, percent) in [("podAffinity", 25), ("podAntiAffinity", 25)] {
        if rng.chance(percent) {
            spec["affinity"][kind] = required_terms(rng);
        }
    }
    if rng.chance(30) {
        spec["topologySpreadConstraints"] =
            json!((0..rng.between(1, 3)).map(|_| spread(rng)).collect::<Vec<Value>>());
    }
    if rng.chance(10) {
        wish(rng, spec, nodes);
    }
    if rng.chance(40) {
        spec["tolerations"] =
            json!((0..rng.between(1, 3)).map(|_| toleration(rng)).collect::<Vec<Value>>());
    }
    if rng.chance(5) && asks_for_features() {
        spec["hostNetwork"] = json!(true);
        spec["hostUsers"] = json!(false);
    }
    if rng.chance(5) && asks_for_features() {
        let rule = json!({"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}});
        spec["containers"][0]["restartPolicyRules"] = json!([rule]);
    }
    pod
}

/// Adds preferences to the spec. They close no node.
fn wish(rng: &mut Rng, spec: &mut Value, nodes: usize) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let term = json!({"weight": rng.between(1, 100), "podAffinityTerm": pod_term(rng)});
        spec["affinity"][kind]["preferredDuringSchedulingIgnoredDuringExecution"] = json!([term]);
    }
    let term = json!({"weight": rng.between(1, 100), "preference": node_term(rng, nodes)});
    spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
        json!([term]);
    let mut spread = spread(rng);
    spread["whenUnsatisfiable"] = json!("ScheduleAnyway");
    match spec["topologySpreadConstraints"].as_array_mut() {
        Some(spreads) => spreads.insert(0, spread),
        None => spec["topologySpreadConstraints"] = json!([spread]),
    }
}

/// Makes a pod with labels, requests and perhaps host ports.
pub(crate) fn pod(rng: &mut Rng, name: &str, size: usize) -> Value {
    let mut labels = json!({});
    for (key, values) in POD_LABELS {
        if rng.chance(80) {
            labels[key] = json!(rng.pick(values));
        }
    }
    let mut requests = json!({});
    for (resource, unit, percent) in
        [("cpu", "00m", 80), ("memory", "00Mi", 60), ("example.com/gpu", "", 10)]
    {
        if rng.chance(percent) {
            requests[resource] = json!(format!(
                "{}{unit}",
                rng.between(1, size * if unit.is_empty() { 1 } else { 8 })
            ));
        }
    }
    let limits = json!({"example.com/gpu": requests.get("example.com/gpu").cloned().unwrap_or_else(|| json!("0"))});
    let mut limits = limits;
    if rng.chance(8) {
        let amount = json!(format!("{}Mi", 2 * rng.between(1, 16 * size)));
        (requests["hugepages-2Mi"], limits["hugepages-2Mi"]) = (amount.clone(), amount);
    }
    if rng.chance(12) {
        requests["ephemeral-storage"] = json!(format!("{}Mi", rng.between(1, 2000 * size)));
    }
    let mut container =
        json!({"name": "c", "image": "i", "resources": {"requests": requests, "limits": limits}});
    if rng.chance(15) {
        container["ports"] =
            json!((0..rng.between(1, 2)).map(|_| host_port(rng)).collect::<Vec<Value>>());
    }
    let mut containers = vec![container];
    if rng.chance(10) {
        let mut another = init_container(rng, 1);
        another.as_object_mut().unwrap().remove("restartPolicy");
        containers.push(another);
    }
    let init: Vec<Value> =
        if rng.chance(20) { rng.some(3, |rng| init_container(rng, size)) } else { Vec::new() };
    let mut volumes = if rng.chance(15) { rng.some(2, disk) } else { Vec::new() };
    if rng.chance(30) {
        let mut mounts = rng.some(2, storage::mount);
        // kube-scheduler counts an unbound claim that is mounted twice as two volumes.
        mounts.dedup();
        volumes.extend(mounts);
    }
    // An ephemeral volume is made and deleted with its pod: no limit counts it.
    if rng.chance(5) {
        volumes.push(json!({"name": "i", "csi": {"driver": "csi.example.com"}}));
    }
    json!({
        "metadata": {"name": name, "namespace": rng.pick(&NAMESPACES), "uid": name, "labels": labels},
        "spec": {
            "containers": containers, "initContainers": init, "restartPolicy": "Never", "volumes": volumes,
            "overhead": if rng.chance(8) { json!({"cpu": "250m", "memory": "100Mi"}) } else { Value::Null },
            "resources": if rng.chance(8) { pod_level(rng, size) } else { Value::Null },
        },
    })
}

fn host_port(rng: &mut Rng) -> Value {
    let protocol = *rng.pick(&["TCP", "TCP", "UDP", "UDP", "SCTP"]);
    let mut port =
        json!({"hostPort": rng.between(80, 82), "containerPort": 80, "protocol": protocol});
    if rng.chance(30) {
        port["hostIP"] =
            json!(rng.pick(&["10.0.0.1", "10.0.0.2", "0.0.0.0", "127.0.0.1", "::", ""]));
    }
    if rng.chance(5) {
        port["hostPort"] = json!(0);
    }
    port
}

/// Makes an init container, or a sidecar, which runs beside the other containers.
fn init_container(rng: &mut Rng, size: usize) -> Value {
    let mut requests = json!({});
    for (resource, unit, percent) in [("cpu", "00m", 80), ("memory", "00Mi", 60)] {
        if rng.chance(percent) {
            requests[resource] = json!(format!("{}{unit}", rng.between(1, 12 * size)));
        }
    }
    let name = format!("init-{}", rng.between(0, 9999));
    let mut container = json!({"name": name, "image": "i", "resources": {"requests": requests}});
    if rng.chance(50) {
        container["restartPolicy"] = json!("Always");
    }
    if rng.chance(20) {
        container["ports"] = json!([host_port(rng)]);
    }
    container
}

/// Makes the resources of the pod as a whole, which hold whatever its containers request.
fn pod_level(rng: &mut Rng, size: usize) -> Value {
    let mut requests = json!({"cpu": format!("{}00m", rng.between(1, 12 * size))});
    if rng.chance(50) {
        requests["memory"] = json!(format!("{}00Mi", rng.between(1, 12 * size)));
    }
    if rng.chance(20) {
        let amount = json!(format!("{}Mi", 2 * rng.between(1, 16 * size)));
        requests["hugepages-2Mi"] = amount.clone();
        return json!({"requests": requests, "limits": {"hugepages-2Mi": amount}});
    }
    json!({"requests": requests})
}

/// Makes a volume of the pod's spec that names a disk directly.
fn disk(rng: &mut Rng) -> Value {
    let (one, only_read) = (*rng.pick(&["vol-a", "vol-b"]), rng.chance(50));
    let mut volume = json!({"name": "v"});
    match rng.between(0, 6) {
        4 => volume["azureDisk"] = json!({"diskName": one, "diskURI": one, "readOnly": only_read}),
        5 => volume["cinder"] = json!({"volumeID": one, "readOnly": only_read}),
        6 => volume["portworxVolume"] = json!({"volumeID": one, "readOnly": only_read}),
        0 => volume["gcePersistentDisk"] = json!({"pdName": one, "readOnly": only_read}),
        1 => volume["awsElasticBlockStore"] = json!({"volumeID": one, "readOnly": only_read}),
        2 => {
            volume["iscsi"] =
                json!({"targetPortal": "t", "iqn": one, "lun": 0, "readOnly": only_read});
        }
        _ => {
            let monitors = *rng.pick(&[&["m1"][..], &["m1", "m2"], &["m3"]]);
            volume["rbd"] =
                json!({"monitors": monitors, "pool": "p", "image": one, "readOnly": only_read});
        }
    }
    volume
}
