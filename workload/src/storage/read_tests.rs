use serde_json::{Value, json};

use super::*;

fn claim(object: &Value) -> Claim {
    let mut whole = json!({
        "metadata": { "name": "c", "namespace": "ns", "uid": "u", "resourceVersion": "7" },
    });
    merge(&mut whole, object);
    Claim::from_kubernetes(&serde_json::from_value(whole).unwrap()).unwrap()
}

fn volume(object: &Value) -> PersistentVolume {
    let mut whole = json!({ "metadata": { "name": "v", "uid": "u" }, "spec": {} });
    merge(&mut whole, object);
    PersistentVolume::from_kubernetes(&serde_json::from_value(whole).unwrap()).unwrap()
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.iter()
                .for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, from) => *into = from.clone(),
    }
}

#[test]
fn a_claim_is_bound_when_both_sides_say_so() {
    let half = claim(&json!({ "spec": { "volumeName": "v" } }));
    assert!(!half.is_bound && half.volume.is_some() && half.resource_version.is_some());
    let bound = claim(&json!({
        "metadata": { "annotations": { "pv.kubernetes.io/bind-completed": "yes" } },
        "spec": { "volumeName": "v" },
    }));
    assert!(
        bound.is_bound && bound.resource_version.is_none(),
        "nothing is written to it any more"
    );
    assert!(claim(&json!({ "status": { "phase": "Lost" } })).is_lost);
}

#[test]
fn claims_are_read() {
    let wants = claim(&json!({
        "metadata": { "annotations": { "volume.beta.kubernetes.io/storage-class": "old" } },
        "spec": {
            "storageClassName": "new",
            "accessModes": ["ReadWriteOncePod"],
            "resources": { "requests": { "storage": "1Gi" } },
            "volumeMode": "Block",
            "selector": { "matchLabels": { "a": "b" } },
        },
    }));
    assert_eq!((&*wants.wants.class, wants.wants.bytes), ("old", Some(1 << 30)));
    assert!(wants.is_for_one_pod() && wants.wants.is_block);
    assert_eq!(wants.wants.selector.map(|all| all.len()), Some(1));
    let nothing = claim(&json!({}));
    assert_eq!(
        (&*nothing.wants.class, nothing.wants.bytes, nothing.selected_node),
        ("", None, None)
    );
}

#[test]
fn where_a_volume_is() {
    let terms =
        json!([{ "matchExpressions": [{ "key": "k", "operator": "In", "values": ["v"] }] }]);
    let placed = volume(&json!({
        "metadata": { "labels": {
            "topology.kubernetes.io/zone": "a__ b",
            "topology.kubernetes.io/region": "",
            "other": "x",
        } },
        "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": terms } } },
    }));
    assert_eq!(placed.affinity.map(|terms| terms.len()), Some(1));
    let zones: Vec<String> =
        placed.zones.iter().map(|(label, zones)| format!("{label}={zones:?}")).collect();
    assert_eq!(zones, [r#"topology.kubernetes.io/zone={"a", "b"}"#], "an empty zone says nothing");
    assert_eq!(volume(&json!({})).affinity, None);
}

#[test]
fn the_claim_of_a_volume_is_read() {
    let of = |reference: Value| volume(&json!({ "spec": { "claimRef": reference } }));
    let id = claim(&json!({})).id;
    assert!(
        of(json!({ "namespace": "ns", "name": "c" })).is_of(&id),
        "a person leaves the uid out"
    );
    assert!(of(json!({ "namespace": "ns", "name": "c", "uid": "u" })).is_of(&id));
    assert!(!of(json!({ "namespace": "ns", "name": "c", "uid": "another" })).is_of(&id));
    assert!(!volume(&json!({})).is_of(&id));
}

#[test]
fn attachable_volumes_are_read() {
    let csi = volume(&json!({ "spec": { "csi": { "driver": "d", "volumeHandle": "h" } } }))
        .attachable
        .unwrap();
    assert_eq!((&*csi.driver, &*csi.handle, csi.replaces), ("d", "h", None));
    let disk = volume(&json!({ "spec": { "gcePersistentDisk": { "pdName": "disk" } } }))
        .attachable
        .unwrap();
    assert_eq!(
        (&*disk.driver, disk.replaces),
        ("pd.csi.storage.gke.io", Some("kubernetes.io/gce-pd"))
    );
    assert_eq!(
        volume(&json!({ "spec": { "nfs": { "path": "/", "server": "s" } } })).attachable,
        None
    );
    let made = Attachable::to_be_made(&"d".into(), &ObjectKey::new("ns", "c"));
    assert_ne!(made, Attachable::to_be_made(&"d".into(), &ObjectKey::new("ns", "other")));
}

#[test]
fn claims_of_a_pod_are_found_by_name() {
    let spec = serde_json::from_value(json!({ "containers": [], "volumes": [
        { "name": "a", "persistentVolumeClaim": { "claimName": "data" } },
        { "name": "b", "ephemeral": { "volumeClaimTemplate": { "spec": {} } } },
        { "name": "c", "emptyDir": {} },
    ] }));
    let claims = claims_of(&spec.unwrap(), "pod");
    let named: Vec<(&str, bool)> =
        claims.iter().map(|claim| (&*claim.name, claim.is_ephemeral)).collect();
    assert_eq!(named, [("data", false), ("pod-b", true)]);
}
