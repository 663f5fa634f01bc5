//! Storage in a case: claims, bound or not, volumes, classes, drivers and their limits.

use std::collections::BTreeSet;
use std::sync::Arc;

use fluxqueue_machine::cluster::volumes::StorageNews;
use fluxqueue_workload::storage::{
    Claim, CsiDriver, CsiNode, PersistentVolume, StorageCapacity, StorageClass, VolumeAttachment,
};
use serde_json::{Value, json};

use super::kubernetes;
use super::names::{NAMESPACES, ZONES};
use super::rng::Rng;

pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

/// Names of claims in a namespace. A case has some of them.
const CLAIMS: [&str; 6] = ["c0", "c1", "c2", "c3", "c4", "c5"];

/// Storage classes: one that makes volumes immediately, two that wait for the first consumer and
/// have a provisioner (one of these in a single zone), one without a provisioner, and one whose
/// provisioner was an in-tree plugin.
const CLASSES: [&str; 5] = ["now", "made", "zoned", "local", "replaced"];

const DRIVER: &str = "csi.example.com";

/// Zone labels of the drivers that have replaced in-tree plugins.
pub(crate) const ZONES_OF_DRIVERS: [&str; 2] =
    ["topology.gke.io/zone", "topology.ebs.csi.aws.com/zone"];

/// In-tree plugins, and the drivers that have replaced them.
const REPLACED: [(&str, &str); 5] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
];

/// The node for which a provisioner is to make the volume of a claim.
const SELECTED: &str = "volume.kubernetes.io/selected-node";

/// Removes the nodes that claims name for their volumes, if they are none of these.
pub(crate) fn forget_missing_nodes(storage: &mut Value, nodes: &[Value]) {
    for claim in storage["claims"].as_array_mut().into_iter().flatten() {
        let annotations = claim["metadata"]["annotations"].as_object_mut();
        if let Some(annotations) = annotations
            && annotations.get(SELECTED).is_some_and(|node| !nodes.contains(node))
        {
            annotations.remove(SELECTED);
        }
    }
}

pub(crate) fn of_cluster(rng: &mut Rng, nodes: usize) -> Value {
    let mut storage = Storage { claims: Vec::new(), volumes: Vec::new() };
    for namespace in NAMESPACES {
        for claim in CLAIMS {
            if rng.chance(85) {
                storage.claim(rng, namespace, claim, nodes);
            }
        }
    }
    for _ in 0..rng.between(0, 8) {
        let volume = storage.volume(rng, nodes);
        storage.volumes.push(volume);
    }
    let driver = json!({"metadata": {"name": DRIVER, "uid": "d"}, "spec": {"storageCapacity": rng.chance(60)}});
    let attachments: Vec<Value> =
        (0..rng.between(0, 4)).filter_map(|at| storage.attachment(rng, at, nodes)).collect();
    json!({
        "claims": storage.claims,
        "volumes": storage.volumes,
        "classes": CLASSES.iter().filter_map(|name| class(rng, name)).collect::<Vec<Value>>(),
        "csiNodes": (0..nodes).filter_map(|at| csi_node(rng, at)).collect::<Vec<Value>>(),
        "drivers": if rng.chance(95) { vec![driver] } else { Vec::new() },
        "capacities": rng.some(3, capacity),
        "attachments": attachments,
    })
}

/// Makes a case without storage.
pub(crate) fn none() -> Value {
    let none: [Value; 0] = [];
    json!({
        "claims": none, "volumes": none, "classes": none, "csiNodes": none, "drivers": none, "capacities": none,
        "attachments": none,
    })
}

/// Turns the storage of a case into the core's news.
pub(crate) fn news(storage: &Value) -> Vec<StorageNews> {
    let mut news = Vec::new();
    macro_rules! tell {
        ($($kind:literal $from:ident $into:ident;)*) => {
            $(for object in storage[$kind].as_array().unwrap() {
                let object = serde_json::from_value(object.clone()).unwrap();
                let object = $from::from_kubernetes(&object).unwrap();
                news.push(StorageNews::$into(Arc::new(object)));
            })*
        };
    }
    tell! {
        "classes" StorageClass Class;
        "volumes" PersistentVolume Volume;
        "claims" Claim Claim;
        "csiNodes" CsiNode CsiNode;
        "drivers" CsiDriver Driver;
        "capacities" StorageCapacity Capacity;
        "attachments" VolumeAttachment Attachment;
    }
    news
}

/// Makes a volume of a pod.
pub(crate) fn mount(rng: &mut Rng) -> Value {
    let claim = *rng.pick(&CLAIMS);
    if rng.chance(6) {
        return json!({"name": claim, "ephemeral": {"volumeClaimTemplate": {"spec": {}}}});
    }
    json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}})
}

/// Makes claims for some of the ephemeral volumes of a pod. Of 100 such claims, `own` belong to the
/// pod; the others have the right name, and belong to another pod or to none.
pub(crate) fn make_claims_of(
    rng: &mut Rng,
    pod: &Value,
    nodes: usize,
    storage: &mut Value,
    own: usize,
) {
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let mut all = Storage { claims: taken(storage, "claims"), volumes: taken(storage, "volumes") };
    for volume in volumes.iter().filter(|volume| volume.get("ephemeral").is_some()) {
        let (of, meta) = (text(&volume["name"]), &pod["metadata"]);
        let name = format!("{}-{of}", text(&meta["name"]));
        let is_known = all.claims.iter().any(|claim| claim["metadata"]["name"] == name);
        if is_known || !rng.chance(75) {
            continue;
        }
        all.claim(rng, text(&meta["namespace"]), &name, nodes);
        let (is_own, is_owned) = (rng.chance(own), rng.chance(75));
        let owner = if is_own { meta["uid"].clone() } else { json!("another") };
        let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": owner, "controller": true});
        let made = all.claims.last_mut().unwrap();
        made["metadata"]["ownerReferences"] =
            if is_own || is_owned { json!([owner]) } else { json!([]) };
    }
    (storage["claims"], storage["volumes"]) = (json!(all.claims), json!(all.volumes));
}

/// Mounts a claim a second time under another name, if it is bound: kube-scheduler counts an
/// unbound one as two volumes.
pub(crate) fn mount_twice(rng: &mut Rng, pod: &mut Value, storage: &Value) {
    let namespace = pod["metadata"]["namespace"].clone();
    let is_bound = |name: &Value| {
        let mut claims = storage["claims"].as_array().unwrap().iter();
        let claim = claims.find(|claim| {
            claim["metadata"]["name"] == *name && claim["metadata"]["namespace"] == namespace
        });
        claim.is_some_and(|claim| claim["status"]["phase"] == "Bound")
    };
    let volumes = pod["spec"]["volumes"].as_array_mut().unwrap();
    let bound = volumes
        .iter()
        .find(|volume| is_bound(&volume["persistentVolumeClaim"]["claimName"]))
        .cloned();
    if let Some(mut again) = bound.filter(|_| rng.chance(15)) {
        again["name"] = json!("again");
        volumes.push(again);
    }
}

fn taken(storage: &mut Value, kind: &str) -> Vec<Value> {
    std::mem::take(storage[kind].as_array_mut().unwrap())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

struct Storage {
    claims: Vec<Value>,
    volumes: Vec<Value>,
}

impl Storage {
    fn claim(&mut self, rng: &mut Rng, namespace: &str, name: &str, nodes: usize) {
        let mode =
            *rng.pick(&["ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]);
        let uid = format!("{namespace}-{name}");
        let mut claim = json!({
            "metadata": {"name": name, "namespace": namespace, "uid": uid, "annotations": {}},
            "spec": {
                "accessModes": [mode],
                "storageClassName": class_name(rng),
                "resources": {"requests": {"storage": format!("{}Gi", rng.between(1, 4))}},
            },
            "status": {"phase": "Pending"},
        });
        if rng.chance(4) {
            claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        be_unusual(rng, &mut claim);
        if rng.chance(10) {
            claim["spec"]["selector"] =
                json!({"matchLabels": {"kind": rng.pick(&["fast", "slow"])}});
        }
        if rng.chance(55) {
            let mut volume = self.volume(rng, nodes);
            let of = volume["metadata"]["name"].clone();
            volume["spec"]["claimRef"] = json!({"namespace": namespace, "name": name, "uid": uid});
            volume["status"]["phase"] = json!("Bound");
            claim["spec"]["volumeName"] = of;
            claim["status"]["phase"] = json!(if rng.chance(4) { "Lost" } else { "Bound" });
            if rng.chance(95) {
                claim["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] = json!("yes");
            }
            if rng.chance(96) {
                self.volumes.push(volume);
            }
        } else if rng.chance(15) {
            // That node need not exist.
            let node = format!("n{}", rng.between(0, nodes));
            claim["metadata"]["annotations"][SELECTED] = json!(node);
        } else if rng.chance(10) {
            let mut volume = self.volume(rng, nodes);
            volume["spec"]["claimRef"] = json!({"namespace": namespace, "name": name});
            volume["spec"]["storageClassName"] = claim["spec"]["storageClassName"].clone();
            self.volumes.push(volume);
        }
        self.claims.push(claim);
    }

    fn volume(&self, rng: &mut Rng, nodes: usize) -> Value {
        let name = format!("v{}-{}", self.volumes.len(), rng.between(0, 999));
        let mut volume = json!({
            "metadata": {"name": name, "uid": name, "labels": {"kind": rng.pick(&["fast", "slow"])}},
            "spec": {
                "accessModes": ["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"],
                // Sizes differ: of two volumes of one size kube-scheduler takes a random one.
                "capacity": {"storage": format!("{}Mi", 1024 * rng.between(1, 6) + self.volumes.len())},
                "storageClassName": class_name(rng),
            },
            "status": {"phase": if rng.chance(90) { "Available" } else { "Released" }},
        });
        if rng.chance(15) {
            volume["spec"]["accessModes"] = json!(["ReadWriteOnce"]);
        }
        be_unusual(rng, &mut volume);
        if rng.chance(4) {
            volume["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let terms = |key: &str, values: &[String]| {
            let requirement = json!({"key": key, "operator": "In", "values": values});
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}})
        };
        match rng.between(0, 5) {
            5 => {
                // In-tree plugins wrote the zone in either of these labels.
                let zone = *rng.pick(&[ZONE, "failure-domain.beta.kubernetes.io/zone"]);
                volume["spec"]["nodeAffinity"] = terms(zone, &[(*rng.pick(&ZONES)).to_owned()]);
            }
            4 => {
                let terms: Vec<Value> =
                    (0..rng.between(1, 2)).map(|_| volume_term(rng, nodes)).collect();
                volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
            }
            0 => {
                let hosts = [
                    format!("n{}", rng.between(0, nodes - 1)),
                    format!("n{}", rng.between(0, nodes - 1)),
                ];
                volume["spec"]["nodeAffinity"] =
                    terms("kubernetes.io/hostname", &hosts[..rng.between(1, 2)]);
            }
            1 => volume["spec"]["nodeAffinity"] = terms("zone", &[(*rng.pick(&ZONES)).to_owned()]),
            2 => {
                let zones = [*rng.pick(&ZONES), *rng.pick(&ZONES)];
                let label = *rng.pick(&[ZONE, "failure-domain.beta.kubernetes.io/zone"]);
                volume["metadata"]["labels"][label] = json!(zones[..rng.between(1, 2)].join("__"));
                if rng.chance(15) {
                    volume["metadata"]["labels"][ZONE] = json!(rng.pick(&ZONES));
                }
            }
            _ => {}
        }
        match rng.between(0, 5) {
            3.. => replaced(rng, &mut volume),
            0 => {
                volume["spec"]["csi"] =
                    json!({"driver": DRIVER, "volumeHandle": format!("h{}", rng.between(0, 9))});
            }
            1 => volume["spec"]["nfs"] = json!({"server": "s", "path": "/"}),
            _ => volume["spec"]["local"] = json!({"path": "/x"}),
        }
        volume
    }

    fn attachment(&self, rng: &mut Rng, at: usize, nodes: usize) -> Option<Value> {
        let volume = self.volumes.get(rng.between(0, self.volumes.len().max(1) - 1))?;
        let named = json!({"persistentVolumeName": volume["metadata"]["name"]});
        // A volume in a pod's spec has no name in the cluster.
        let source = if rng.chance(95) { named } else { json!({}) };
        Some(json!({
            "metadata": {"name": format!("a{at}"), "uid": format!("a{at}")},
            "spec": {
                "attacher": volume["spec"].pointer("/csi/driver").cloned().unwrap_or_else(|| json!(DRIVER)),
                "nodeName": format!("n{}", rng.between(0, nodes - 1)),
                "source": source,
            },
        }))
    }
}

/// Picks the name of a class; now and then an empty one, or one that does not exist.
fn class_name(rng: &mut Rng) -> &'static str {
    match rng.between(0, 39) {
        0 => "",
        1 => "unknown",
        _ => CLASSES[rng.between(0, CLASSES.len() - 1)],
    }
}

/// Makes a claim or a volume unusual in a field that both have to agree on: a block device instead
/// of a file system, attributes, or the class in the old annotation.
fn be_unusual(rng: &mut Rng, claim_or_volume: &mut Value) {
    let spec = &mut claim_or_volume["spec"];
    if rng.chance(10) {
        spec["volumeMode"] = json!(rng.pick(&["Block", "Filesystem"]));
    }
    if rng.chance(10) {
        spec["volumeAttributesClassName"] = json!(rng.pick(&["gold", "silver", ""]));
    }
    if rng.chance(5) {
        claim_or_volume["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"] =
            json!(rng.pick(&CLASSES));
    }
}

/// Turns a volume into one of an in-tree plugin that a driver has replaced, or into one of that
/// driver.
fn replaced(rng: &mut Rng, volume: &mut Value) {
    let (disk, spec) = (*rng.pick(&["vol-a", "vol-b", "vol-c"]), &mut volume["spec"]);
    match rng.between(0, 5) {
        0 => {
            let id = format!("{}{disk}", rng.pick(&["", "aws://north-east-a/", "aws:///"]));
            spec["awsElasticBlockStore"] = json!({"volumeID": id});
        }
        1 => spec["azureDisk"] = json!({"diskName": disk, "diskURI": disk, "kind": "Managed"}),
        2 => spec["cinder"] = json!({"volumeID": disk}),
        3 => spec["portworxVolume"] = json!({"volumeID": disk}),
        4 => {
            spec["gcePersistentDisk"] = json!({"pdName": disk});
            // A volume in zones of two regions does not exist in practice: the driver that replaced
            // its plugin could not mount it. For such a volume kube-scheduler stops with an error,
            // which tells nothing about the other nodes, and tries again later.
            for (_, zones) in volume["metadata"]["labels"].as_object_mut().unwrap() {
                let of: BTreeSet<&str> = text(zones)
                    .split("__")
                    .filter_map(|zone| Some(zone.rsplit_once('-')?.0))
                    .collect();
                if of.len() > 1 {
                    *zones = json!(text(zones).split("__").next().unwrap());
                }
            }
        }
        _ => {
            let place =
                rng.pick(&["zones/UNSPECIFIED", "zones/north-east-a", "regions/north-east"]);
            let gce = format!("projects/UNSPECIFIED/{place}/disks/{disk}");
            let (_, driver) = *rng.pick(&REPLACED);
            let handle = if driver.starts_with("pd.") { gce.as_str() } else { disk };
            spec["csi"] = json!({"driver": driver, "volumeHandle": handle});
        }
    }
}

/// Makes an unusual term of a volume's node affinity.
fn volume_term(rng: &mut Rng, nodes: usize) -> Value {
    let elsewhere = json!({"key": "zone", "operator": "NotIn", "values": [rng.pick(&ZONES)]});
    let labelled = json!({"key": "disk", "operator": rng.pick(&["Exists", "DoesNotExist"])});
    let host = format!("n{}", rng.between(0, nodes - 1));
    let named =
        json!({"key": "metadata.name", "operator": rng.pick(&["In", "NotIn"]), "values": [host]});
    match rng.between(0, 3) {
        0 => json!({"matchExpressions": [elsewhere]}),
        1 => json!({"matchExpressions": [elsewhere, labelled]}),
        2 => json!({"matchFields": [named]}),
        _ => json!({"matchFields": [named], "matchExpressions": [labelled]}),
    }
}

fn class(rng: &mut Rng, name: &str) -> Option<Value> {
    let mode = if name == "now" { "Immediate" } else { "WaitForFirstConsumer" };
    let provisioner = match name {
        "local" => "kubernetes.io/no-provisioner",
        "replaced" => rng.pick(&REPLACED).0,
        _ => DRIVER,
    };
    let mut class = json!({
        "metadata": {"name": name, "uid": name},
        "provisioner": provisioner,
        "volumeBindingMode": mode,
    });
    if name == "zoned" {
        let zones = [rng.pick(&ZONES), rng.pick(&ZONES)];
        let mut terms = vec![json!({"matchLabelExpressions": [{"key": "zone", "values": zones}]})];
        if rng.chance(40) {
            let (disk, zone) = (rng.pick(&["ssd", "hdd"]), rng.pick(&ZONES));
            let both =
                json!([{"key": "disk", "values": [disk]}, {"key": "zone", "values": [zone]}]);
            terms.push(json!({"matchLabelExpressions": both}));
        }
        class["allowedTopologies"] = json!(terms);
    }
    rng.chance(97).then_some(class)
}

fn csi_node(rng: &mut Rng, at: usize) -> Option<Value> {
    let mut driver = json!({"name": DRIVER, "nodeID": "x", "topologyKeys": null});
    if rng.chance(70) {
        driver["allocatable"] = json!({"count": rng.between(0, 4)});
    }
    let mut drivers = vec![driver];
    // Drivers count volumes of the in-tree plugins that they have replaced, whether or not the
    // node's annotation says so. kube-scheduler 1.35 asks the annotation about Portworx.
    let is_needed =
        |plugin| plugin == "kubernetes.io/portworx-volume" && !kubernetes::is_at_least("1.36");
    let mut migrated: Vec<&str> = Vec::new();
    for (plugin, driver) in REPLACED {
        if rng.chance(60) {
            drivers.push(
                json!({"name": driver, "nodeID": "y", "allocatable": {"count": rng.between(0, 3)}}),
            );
        }
        if rng.chance(50) || is_needed(plugin) {
            migrated.push(plugin);
        }
    }
    let node = json!({
        "metadata": {"name": format!("n{at}"), "uid": format!("csi-{at}"), "annotations": {
            "storage.alpha.kubernetes.io/migrated-plugins": migrated.join(","),
        }},
        "spec": {"drivers": drivers},
    });
    rng.chance(80).then_some(node)
}

fn capacity(rng: &mut Rng) -> Value {
    let at = rng.between(0, 999);
    let mut capacity = json!({
        "metadata": {"name": format!("cap{at}"), "namespace": "a", "uid": format!("cap{at}")},
        "storageClassName": rng.pick(&CLASSES),
        "capacity": format!("{}Gi", rng.between(1, 6)),
        "nodeTopology": {"matchLabels": {"zone": rng.pick(&ZONES)}},
    });
    match rng.between(0, 9) {
        0 => drop(capacity.as_object_mut().unwrap().remove("nodeTopology")),
        1 => capacity["nodeTopology"] = json!({}),
        2 | 3 => {
            let requirement =
                json!({"key": "zone", "operator": "NotIn", "values": [rng.pick(&ZONES)]});
            let labelled = json!({"key": "disk", "operator": "Exists"});
            let all = if rng.chance(50) { vec![requirement, labelled] } else { vec![requirement] };
            capacity["nodeTopology"] = json!({"matchExpressions": all});
        }
        _ => {}
    }
    if rng.chance(30) {
        capacity["maximumVolumeSize"] = json!(format!("{}Gi", rng.between(1, 6)));
    }
    capacity
}
