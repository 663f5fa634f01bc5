//! What the API server answered about the same objects in both encodings. `UPDATE_GOLDEN=1 cargo test --test cluster encodings`
//! asks a real one anew.

use bytes::{Bytes, BytesMut};
use k8s_openapi::api::core::v1 as core_v1;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::kube::lean::Lean;
use crate::kube::protobuf::envelope::{News, read_frame, take_frame};
use crate::kube::protobuf::{self, Decode};
use fluxqueue_core::cluster::Node;
use fluxqueue_workload::{Pod, ShapeInterner};

/// The objects in the streamed list of a watch.
fn from_json<K: DeserializeOwned>(answer: &str) -> Vec<K> {
    let events = answer.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let objects = events.filter(|event| event["type"] == "ADDED").map(|mut event| event["object"].take());
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
    // The answer has in it what could be read wrongly.
    let rich = binary.iter().find(|pod| &*pod.id.key.name == "rich").unwrap();
    let constraints = &rich.shape.constraints;
    assert!(rich.unsupported.len() >= 13, "{:?}", rich.unsupported);
    assert_eq!(rich.soft_ignored.len(), 3);
    assert_eq!((constraints.repels.len(), constraints.tolerations.len(), constraints.host_ports.len()), (3, 3, 2));
    assert_eq!(constraints.required.as_ref().map(Vec::len), Some(2));
    assert!(rich.owner.is_some() && rich.group.is_some() && rich.started.is_some() && rich.ended.is_some());
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

#[test]
fn half_an_object_is_no_object() {
    let mut arrived = BytesMut::from(&include_bytes!("answers/pods.protobuf")[..]);
    let frame = take_frame(&mut arrived).unwrap().unwrap();
    let News::There(object) = read_frame(frame).unwrap() else { panic!("an object comes first") };
    let mut broken = 0;
    for length in 1..object.len() {
        // Where a field ends by chance, what is left is an object without the others: only a frame says how long it is.
        broken += usize::from(protobuf::pod(Bytes::copy_from_slice(&object[..length])).is_err());
    }
    assert!(broken > object.len() * 9 / 10, "{broken} of {}", object.len());
}
