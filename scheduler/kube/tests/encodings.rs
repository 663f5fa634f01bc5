//! Answers of an API server about the same objects in both encodings. `UPDATE_GOLDEN=1 cargo test
//! --test cluster encodings` fetches them from a real one.

use std::collections::BTreeSet;
use std::path::Path;

use bytes::{Bytes, BytesMut};
use k8s_openapi::api::core::v1 as core_v1;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::kube::lean::Lean;
use crate::kube::protobuf::envelope::{News, read_frame, take_frame};
use crate::kube::protobuf::{self, Decode};
use fluxqueue_machine::cluster::Node;
use fluxqueue_workload::{Pod, ShapeInterner};

/// Returns the objects in the streamed list of a watch.
fn from_json<K: DeserializeOwned>(answer: &str) -> Vec<K> {
    let events = answer.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let objects =
        events.filter(|event| event["type"] == "ADDED").map(|mut event| event["object"].take());
    objects.map(|object| serde_json::from_value(object).unwrap()).collect()
}

fn from_protobuf<K>(answer: &[u8], decode: Decode<K>) -> Vec<K> {
    let (mut arrived, mut objects) = (BytesMut::from(answer), Vec::new());
    while let Some(frame) = take_frame(&mut arrived).unwrap() {
        if let News::There(object) = read_frame(frame).unwrap() {
            objects.push(decode(object).unwrap());
        }
    }
    assert!(arrived.is_empty(), "{} bytes are left", arrived.len());
    objects
}

fn pods_of(objects: &[Lean<core_v1::Pod>]) -> Vec<Pod> {
    let mut shapes = ShapeInterner::default();
    objects.iter().map(|pod| Pod::from_kubernetes(&pod.0, &mut shapes).unwrap()).collect()
}

#[test]
fn pods_read_the_same_from_both() {
    let json = pods_of(&from_json::<Lean<core_v1::Pod>>(include_str!("answers/pods.json")));
    let binary = pods_of(&from_protobuf(include_bytes!("answers/pods.protobuf"), protobuf::pod));
    assert_eq!(json.len(), 6);
    assert_eq!(json, binary);
    // The answer has the fields that could be read wrongly.
    let rich = binary.iter().find(|pod| &*pod.id.key.name == "rich").unwrap();
    let constraints = &rich.shape.constraints;
    assert_eq!(rich.unsupported.len(), 1, "{:?}", rich.unsupported);
    assert_eq!((constraints.preferred_pods.len(), constraints.preferred_spreads.len()), (2, 1));
    assert_eq!(
        (constraints.repels.len(), constraints.tolerations.len(), constraints.host_ports.len()),
        (3, 3, 2)
    );
    assert_eq!((constraints.disks.len(), rich.claims.len()), (7, 2));
    assert_eq!((constraints.near.len(), constraints.spreads.len()), (1, 2));
    let all_said = &constraints.spreads[1];
    assert_eq!((all_said.max_skew, all_said.min_domains), (2, 3));
    assert_eq!((all_said.honors_affinity, all_said.honors_taints), (false, true));
    assert_eq!(
        all_said.pods.labels.as_ref().map(Vec::len),
        Some(2),
        "matchLabelKeys are in the selector"
    );
    assert_eq!(constraints.required.as_ref().map(Vec::len), Some(2));
    assert!(
        rich.owner.is_some()
            && rich.group.is_some()
            && rich.started.is_some()
            && rich.ended.is_some()
    );
    assert!(binary.iter().any(|pod| pod.deleting));
}

#[test]
fn nodes_read_the_same_from_both() {
    let nodes = |objects: Vec<Lean<core_v1::Node>>| -> Vec<_> {
        objects.iter().map(|node| Node::from_kubernetes(&node.0).unwrap()).collect()
    };
    let json = nodes(from_json(include_str!("answers/nodes.json")));
    let binary = nodes(from_protobuf(include_bytes!("answers/nodes.protobuf"), protobuf::node));
    assert_eq!(json.len(), 6);
    assert_eq!(json, binary);
    assert!(binary.iter().any(|(node, _)| !node.taints.is_empty()));
    assert!(binary.iter().any(|(node, _)| node.unschedulable));
    assert!(binary.iter().any(|(node, _)| !node.declared_features.is_empty()));
}

/// The fields with keys that people choose.
const MAPS: [&str; 9] = [
    "allocatable",
    "allocatedResources",
    "annotations",
    "labels",
    "limits",
    "matchLabels",
    "nodeSelector",
    "overhead",
    "requests",
];

/// Every field that was read is in the whole object, with the same value. `paths` gets the fields
/// that have one.
fn compare(read: &Value, whole: &Value, path: &str, paths: &mut BTreeSet<String>) {
    match read {
        Value::Object(fields) => {
            paths.insert(path.to_owned());
            let chosen = path.rsplit('.').next().is_some_and(|last| MAPS.contains(&last));
            for (name, field) in fields.iter().filter(|(_, field)| !is_default(field)) {
                let part = if chosen { format!("{path}.*") } else { format!("{path}.{name}") };
                compare(field, &whole[name], &part, paths);
            }
        }
        Value::Array(items) => {
            assert_eq!(Some(items.len()), whole.as_array().map(Vec::len), "{path}");
            for (at, item) in items.iter().enumerate() {
                compare(item, &whole[at], &format!("{path}[]"), paths);
            }
        }
        leaf => {
            assert_eq!(leaf, whole, "{path}");
            paths.insert(path.to_owned());
        }
    }
}

/// True if this is the value of a field that was not read, and must be present in the types.
fn is_default(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Bool(false))
        || *value == 0
        || value.as_str().is_some_and(str::is_empty)
        || value.as_array().is_some_and(Vec::is_empty)
}

/// Returns the fields that are read of objects, with the values that JSON has for them.
fn fields_of<K: Serialize>(binary: &[u8], decode: Decode<Lean<K>>, json: &str) -> String {
    let mut paths = BTreeSet::new();
    let (read, whole) = (from_protobuf(binary, decode), from_json::<Value>(json));
    assert_eq!(read.len(), whole.len());
    for (read, whole) in read.into_iter().zip(&whole) {
        compare(&without_kind(&read.0), whole, "", &mut paths);
    }
    paths.into_iter().map(|path| path + "\n").collect()
}

/// Removes kind and apiVersion, which stand in the envelope.
fn without_kind<K: Serialize>(object: &K) -> Value {
    let mut object = serde_json::to_value(object).unwrap();
    object.as_object_mut().unwrap().retain(|name, _| name != "kind" && name != "apiVersion");
    object
}

/// The answers have a value for each field that is read, but for four that this API server does
/// not take without a feature gate, or at all: schedulingGroup and workloadRef of a pod's spec,
/// allocatedResources and resources of its status.
#[test]
fn every_field_is_read_from_where_it_is() {
    let pods = fields_of(
        include_bytes!("answers/pods.protobuf"),
        protobuf::pod,
        include_str!("answers/pods.json"),
    );
    let nodes = fields_of(
        include_bytes!("answers/nodes.protobuf"),
        protobuf::node,
        include_str!("answers/nodes.json"),
    );
    // In a pointer, false is a value.
    let objects = from_protobuf(include_bytes!("answers/pods.protobuf"), protobuf::pod);
    assert!(objects.iter().any(|pod| pod.0.spec.as_ref().unwrap().host_users == Some(false)));
    let fields = format!("pods\n{pods}nodes\n{nodes}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("scheduler/kube/tests/answers/fields.txt");
        std::fs::write(path, &fields).unwrap();
    } else {
        assert_eq!(fields, include_str!("answers/fields.txt"));
    }
}

#[test]
fn half_an_object_is_no_object() {
    let mut arrived = BytesMut::from(&include_bytes!("answers/pods.protobuf")[..]);
    let frame = take_frame(&mut arrived).unwrap().unwrap();
    let News::There(object) = read_frame(frame).unwrap() else { panic!("an object comes first") };
    let mut broken = 0;
    for length in 1..object.len() {
        // Where a field ends by chance, the rest is an object without the other fields: only a
        // frame has the length.
        broken += usize::from(protobuf::pod(Bytes::copy_from_slice(&object[..length])).is_err());
    }
    assert!(broken > object.len() * 9 / 10, "{broken} of {}", object.len());
}

/// A field of a message that is bytes: its number, and its content.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let key = (u32::from(number) << 3) | 2;
    let (low, high) = (u8::try_from(key & 0x7f).unwrap(), u8::try_from(key >> 7).unwrap());
    let mut all = if high > 0 { vec![low | 0x80, high] } else { vec![low] };
    all.push(u8::try_from(content.len()).unwrap());
    all.extend(content);
    all
}

#[test]
fn a_workload_and_a_group_are_read_by_name_from_both() {
    let metadata = [field(1, b"p"), field(3, b"ns"), field(5, b"u")].concat();
    // The number, the JSON, and true for a Workload, which is refused.
    let cases = [
        (42, r#""workloadRef": {"name": "train", "podGroup": "x"}"#, true),
        (43, r#""schedulingGroup": {"podGroupName": "train"}"#, false),
    ];
    for (number, json, is_workload) in cases {
        let group = field(number, &field(1, b"train"));
        let binary = [field(1, &metadata), field(2, &group)].concat();
        let json = format!(
            r#"{{"metadata": {{"name": "p", "namespace": "ns", "uid": "u"}},
            "spec": {{{json}, "containers": []}}}}"#
        );
        let read = [
            protobuf::pod(Bytes::from(binary)).unwrap(),
            serde_json::from_str::<Lean<core_v1::Pod>>(&json).unwrap(),
        ];
        for pod in pods_of(&read) {
            let group = pod.scheduling_group.as_ref().map(|group| &*group.name);
            assert_eq!(group, (!is_workload).then_some("train"));
            let said: Vec<String> = pod.unsupported.iter().map(ToString::to_string).collect();
            assert_eq!(said.len(), usize::from(is_workload), "{said:?}");
            let expected = "spec.workloadRef: Workload \"train\"";
            assert!(said.iter().all(|said| said.starts_with(expected)), "{said:?}");
        }
    }
}
